//! What goes wrong during the soak.

use std::thread::sleep;
use std::time::Duration;

use crate::LOCKS;
use crate::client::Client;

impl Client {
    /// One fault.
    #[track_caller]
    pub(crate) fn fault(&mut self) {
        let (die, key) = (self.dice.below(100), format!("faulty:{}", self.dice.below(LOCKS as u64)));
        let (kind, lines) = match die {
            0..30 => ("delete", vec![format!("{} {key}", self.dice.one_of(&["DEL", "UNLINK"]))]),
            30..80 => return self.kill(),
            80..84 => ("pause", vec!["CLIENT PAUSE 50 WRITE".to_owned()]),
            84..94 => {
                let away = format!("RENAME {key} away");
                ("rename", vec![away, format!("RENAMENX away {key}"), "DEL away".to_owned()])
            }
            94..96 => ("flush", ["SELECT 1", "FLUSHDB", "SELECT 0"].map(str::to_owned).to_vec()),
            _ => ("swap", vec!["SWAPDB 2 3".to_owned()]),
        };
        for line in lines {
            let answer = self.surely(&line.split(' ').collect::<Vec<_>>());
            assert!(!answer.starts_with('!') || answer == "!ERR no such key", "{line}: {answer}");
            sleep(Duration::from_millis(self.dice.below(5)));
        }
        self.all.count(kind);
    }

    /// Kills one of the clients that wait.
    #[track_caller]
    fn kill(&mut self) {
        let list = self.surely(&["CLIENT", "LIST"]);
        let field = |line: &str, name: &str| {
            let (_, rest) = line.split_once(&format!("{name}="))?;
            rest.split(' ').next().map(str::to_owned)
        };
        let waits = |line: &&str| {
            field(line, " flags").is_some_and(|flags| flags.contains('b'))
                && line.contains("cmd=rlock.acquire")
        };
        let ids: Vec<String> =
            list.split("\\n").filter(waits).filter_map(|line| field(line.trim_matches('"'), "id")).collect();
        if !ids.is_empty() {
            let id = &ids[self.dice.below(ids.len() as u64) as usize];
            if self.surely(&["CLIENT", "KILL", "ID", id]) == "1" {
                self.all.count("kill");
            }
        }
    }
}
