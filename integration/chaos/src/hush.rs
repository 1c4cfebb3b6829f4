//! After all clients have stopped: waits end, and readers return, also if nothing else happens that could cause it.

use std::time::Duration;

use redis::Value;
use rlock_testkit::poll;

use crate::clients::desk::Shared;
use crate::wire::{Answer, Ear, Trouble, Wires};

/// The lease of holds that are released before it ends.
const LEASE: &str = "60000";

/// How long a waiter asks to wait.
const WAIT: &str = "200";

/// And how long it waits for the answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// A stalled machine may delay the answer: one of these attempts must succeed. More would last until the module checks
/// all locks, as it does every ten seconds.
const TIMES: usize = 3;

/// How long natives read on until a waiting Redisson writer has its turn, and how long after it has left they may be
/// kept waiting for it: many times the module's own limits.
const TURN: Duration = Duration::from_secs(5);

/// This number of names falls in the slots of every server of a cluster.
pub(crate) const NAMES: usize = 64;

/// Checks each server.
pub(crate) fn check(shared: &Shared) {
    for port in shared.place.primaries() {
        let Some(name) = name_at(port) else { continue };
        if !(0..TIMES).any(|_| a_wait_ends(port, &name)) {
            let text = format!("on port {port} a wait did not end, as nothing else happened");
            shared.recorder.violation("wait", 0, text);
        }
        if !readers_come_back(port, &name, shared.place.sharded()) {
            let text = format!("on port {port} readers waited for a Redisson writer that had left");
            shared.recorder.violation("turn", 0, text);
        }
    }
}

/// A lock of that server's; none where it has no slots.
fn name_at(port: u16) -> Option<String> {
    let mut wires = Wires::default();
    let mut names = (0..NAMES).map(|number| format!("hush:{number}"));
    names.find(|name| {
        let asked = wires.ask(port, &[&["RLOCK.INFO", name]], PATIENCE);
        !matches!(asked, Err(Trouble::Refused(code, _)) if code == "MOVED")
    })
}

/// Whether a wait for a held lock times out.
fn a_wait_ends(port: u16, name: &str) -> bool {
    let mut wires = Wires::default();
    let mut say = |words: &[&str]| wires.ask(port, &[words], PATIENCE);
    let taken = say(&["RLOCK.ACQUIRE", name, "alice", LEASE]);
    let told = say(&["RLOCK.ACQUIRE", name, "bob", LEASE, "BLOCK", WAIT]);
    let given_back = say(&["RLOCK.RELEASE", name, "alice"]);
    is_grant(&taken) && told == Ok(Value::Nil) && given_back == Ok(Value::Int(1))
}

/// Natives read on while a Redisson writer listens, until they are kept waiting for it; when it has left, they read
/// again, though the lock was read all the time.
fn readers_come_back(port: u16, name: &str, sharded: bool) -> bool {
    let mut wires = Wires::default();
    let mut say = |words: &[&str]| wires.ask(port, &[words], PATIENCE);
    let ear = Ear::open(port, &format!("redisson_rwlock:{{{name}}}"), sharded);
    let stays = is_grant(&say(&["RLOCK.ACQUIRE", name, "alice", LEASE, "READ"]));
    let mut come = || {
        let granted = is_grant(&say(&["RLOCK.ACQUIRE", name, "bob", LEASE, "READ"]));
        granted && say(&["RLOCK.RELEASE", name, "bob", "READ"]) == Ok(Value::Int(1))
    };
    let kept_out = within(TURN, || !come());
    drop(ear);
    let come_back = within(TURN, come);
    let gone = say(&["RLOCK.RELEASE", name, "alice", "READ"]) == Ok(Value::Int(1));
    // Whether they were kept waiting at all is for another rule to say.
    !(stays && kept_out) || (come_back && gone)
}

fn is_grant(answer: &Answer) -> bool {
    matches!(answer, Ok(Value::Array(_)))
}

/// Tries for this time.
fn within(time: Duration, mut happens: impl FnMut() -> bool) -> bool {
    poll(time, || happens().then_some(())).is_some()
}
