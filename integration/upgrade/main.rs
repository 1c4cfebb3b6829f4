//! Other versions of the module, and its removal.

mod removal;
mod upgrade;

use rlock_testkit::TestServer;
use rlock_testkit::commands::say;

/// Every key, what it holds and when it ends; of the deadlines of fair queues what this command says.
fn everything(server: &TestServer, of_deadlines: &str) -> Vec<String> {
    let client = &mut server.connect();
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(client).unwrap();
    keys.sort();
    let mut facts = |key: &String| {
        let content = if key.starts_with("redisson_lock_timeout:") { of_deadlines } else { "DUMP" };
        let facts = ["TYPE", content, "PEXPIRETIME"].map(|word| say(client, &format!("{word} {key}")));
        format!("{key} {}", facts.join(" "))
    };
    keys.iter().map(&mut facts).collect()
}
