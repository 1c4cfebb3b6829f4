//! When everybody has gone: a wait ends when it is to end also where nothing else happens on the server.

use std::time::Duration;

use redis::Value;

use crate::clients::desk::Shared;
use crate::wire::{Trouble, Wires};

/// For how long somebody holds the lock who gives it back, and somebody else says that it waits.
const LEASE: &str = "60000";
const WAIT: &str = "200";

/// And how long it really does.
const PATIENCE: Duration = Duration::from_secs(1);

/// A machine that stands still may keep the answer back: of so many times one has to succeed. More would last until the
/// module looks at all locks, as it does every ten seconds.
const TIMES: usize = 3;

/// So many names fall in the slots of every server of a cluster.
const NAMES: usize = 64;

/// On each server somebody waits in vain.
pub(crate) fn check(shared: &Shared) {
    for port in shared.place.primaries() {
        if !(0..TIMES).any(|_| ends(port)) {
            let text = format!("on port {port} a wait did not end, as nothing else happened");
            shared.recorder.violation("wait", 0, text);
        }
    }
}

fn ends(port: u16) -> bool {
    let mut wires = Wires::default();
    for name in (0..NAMES).map(|number| format!("hush:{number}")) {
        match wires.ask(port, &[&["RLOCK.ACQUIRE", &name, "alice", LEASE]], PATIENCE) {
            Err(Trouble::Refused(code, _)) if code == "MOVED" => continue,
            Ok(Value::Array(_)) => {}
            _ => return false,
        }
        let told = wires.ask(port, &[&["RLOCK.ACQUIRE", &name, "bob", LEASE, "BLOCK", WAIT]], PATIENCE);
        let given_back = wires.ask(port, &[&["RLOCK.RELEASE", &name, "alice"]], PATIENCE);
        return told == Ok(Value::Nil) && given_back == Ok(Value::Int(1));
    }
    // This server has no slots.
    true
}
