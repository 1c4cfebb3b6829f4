//! Faults that close the connections of clients.

use std::thread::sleep;
use std::time::Duration;

use redis::Value;

use super::Faults;
use crate::dice::Dice;

/// Clients take more memory than this by far: about half of them are evicted.
const CLIENTS_MEMORY: &str = "1mb";

impl Faults {
    /// Kills some of the clients, subscribers as well.
    pub(super) fn kill_clients(&mut self, dice: &mut Dice) {
        for port in self.shared.place.primaries() {
            let Ok(list) = self.tell(port, &["CLIENT", "LIST"]) else { continue };
            let text = match list {
                Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Value::VerbatimString { text, .. } => text,
                _ => continue,
            };
            let field = |line: &str, name: &str| {
                line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
            };
            let others = text.lines().filter(|line| {
                let flags = field(line, "flags").unwrap_or_default();
                !flags.contains(['S', 'M']) && !line.contains("cmd=client") && !line.contains("cmd=ping")
            });
            let ids: Vec<String> = others.filter_map(|line| field(line, "id")).collect();
            for _ in 0..dice.within(1, 4) {
                if ids.is_empty() {
                    break;
                }
                let id = &ids[dice.below(ids.len() as u64) as usize];
                let _ = self.tell(port, &["CLIENT", "KILL", "ID", id]);
            }
        }
    }

    /// Deletes the users of some clients. The server closes their connections when it has answered them.
    pub(super) fn delete_users(&mut self, dice: &mut Dice) {
        for port in self.shared.place.primaries() {
            let Ok(Value::Array(users)) = self.tell(port, &["ACL", "USERS"]) else { continue };
            let names = users.iter().filter_map(|user| match user {
                Value::BulkString(name) => std::str::from_utf8(name).ok(),
                _ => None,
            });
            let names: Vec<&str> = names.filter(|name| *name != "default").collect();
            if names.is_empty() {
                continue;
            }
            let mut words = vec!["ACL", "DELUSER"];
            words.extend((0..dice.within(1, 6)).map(|_| names[dice.below(names.len() as u64) as usize]));
            let _ = self.tell(port, &words);
        }
    }

    /// Lets the servers evict the largest clients for a while, subscribers as well.
    pub(super) fn evict_clients(&mut self, ms: u64) {
        // This connection stays.
        self.everywhere(&["CLIENT", "NO-EVICT", "on"]);
        self.everywhere(&["CONFIG", "SET", "maxmemory-clients", CLIENTS_MEMORY]);
        sleep(Duration::from_millis(ms));
        self.everywhere(&["CONFIG", "SET", "maxmemory-clients", "0"]);
    }
}
