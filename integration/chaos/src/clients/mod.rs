//! The clients: what each kind does again and again, as its dice say.

mod beside;
pub(crate) mod desk;
mod enqueue;
mod giving;
mod heir;
mod herald;
mod holding;
pub(crate) mod look;
mod native;
mod redisson;
mod renewing;
mod rust;
mod snatch;
mod tied;
mod usher;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use desk::{Desk, Shared};
use native::Want;
use redisson::{Ask, Lock};

use crate::dice::Dice;
use crate::scene::{Class, Role};

pub(crate) use rust::Fleet;

/// A thread that has ended: its number, and whether it failed.
pub(crate) type Ending = (usize, bool);

/// Readers that follow one another, so that the lock is read all the time.
const READ_ON: &str = "read on";

/// A reader that holds briefly, as soon as no writer waits.
const READ_BEHIND: &str = "read behind";

/// A writer that downgrades.
const WRITE_THEN_READ: &str = "write then read";

/// A holder that keeps a permit for long, so that only the ends of the others make room.
const PERMIT_STAY: &str = "permit stay";

/// A native reader beside a Redisson reader, after a server was replaced.
const READ_PAST: &str = "read past";

/// Starts a thread for each client that runs in one.
pub(crate) fn start(shared: &Arc<Shared>, roles: &[Role], seed: u64) -> (Vec<usize>, Receiver<Ending>) {
    let (sender, endings) = channel();
    let mut started = Vec::new();
    for (number, role) in roles.iter().enumerate().filter(|(_, role)| !role.kind.starts_with("rust")) {
        let dice = Dice::new(seed, 1_000 + number as u64);
        let mut desk = Desk::new(Arc::clone(shared), role.kind, number, dice);
        let name = format!("{} {number}", role.kind);
        let (role, sender) = (role.clone(), sender.clone());
        let work = move || {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                while !desk.stopped() {
                    desk.once(&role);
                }
            }));
            drop(desk);
            let _ = sender.send((number, outcome.is_err()));
        };
        thread::Builder::new().name(name).spawn(work).expect("a thread for a client");
        started.push(number);
    }
    (started, endings)
}

impl Desk {
    /// One attempt, and a pause.
    #[expect(clippy::too_many_lines, reason = "a case for each role")]
    fn once(&mut self, role: &Role) {
        let key = self.dice.one_of(&role.keys);
        let quiet = self.shared.scene.keys[key].class == Class::Quiet;
        // Some clients leave short leases to their end.
        let lease =
            self.dice.one_of(if quiet { &[300, 600, 8_000][..] } else { &[400, 8_000, 8_000, 8_000] });
        let wait = self.dice.one_of(if quiet { &[0, 300, 3_000, 6_000][..] } else { &[0, 3_000, 3_000, 40] });
        let (side, fair) = (side(role.kind), role.kind.contains("fair"));
        let (fenced, tied) = (role.kind.contains("fenced"), role.kind.contains("tied"));
        let permits = self.shared.scene.keys[key].permits;
        let want = Want { key, side, fair, fenced, permits, tied, lease, wait };
        match role.kind {
            "try" | "fenced try" | "permit try" => self.try_once(&want),
            "snatch" | "write snatch" => self.snatch(&Want { lease: 4_000, ..want }),
            "read usher" => self.usher(&Want { lease: 8_000, wait: 3_000, ..want }),
            "read beside" => self.read_beside(&Want { lease: 8_000, ..want }, false),
            READ_PAST => self.read_beside(&Want { lease: 12_000, ..want }, true),
            "fenced heir" => self.heir(&Want { lease: 8_000, wait: 3_000, ..want }),
            "fair herald" => self.herald(&Want { lease: 8_000, wait: 6_000, ..want }),
            "redisson" => self.redisson(Ask { key, lock: Lock::Plain, lease, wait: 4_000 }),
            "redisson fair" => self.redisson(Ask { key, lock: Lock::Fair, lease, wait: 6_000 }),
            "redisson write" => self.redisson(Ask { key, lock: Lock::Write, lease, wait: 4_000 }),
            "redisson read" => self.redisson(Ask { key, lock: Lock::Read, lease: 8_000, wait: 4_000 }),
            "redisson rw" => {
                let lock = self.dice.one_of(&[Lock::Read, Lock::Write]);
                self.redisson(Ask { key, lock, lease, wait: 4_000 });
            }
            READ_ON | READ_BEHIND | WRITE_THEN_READ | PERMIT_STAY => {
                self.block(&Want { lease: 8_000, wait: 3_000, ..want })
            }
            kind if kind.ends_with("enqueue") => self.enqueue(&want),
            _ => self.block(&want),
        }
        let died = std::mem::take(&mut self.died);
        match (quiet, self.dice.below(3)) {
            // The next hold must begin before the last has ended.
            _ if [READ_ON, PERMIT_STAY].contains(&role.kind) => self.sleep_us(0, 2_000),
            _ if role.kind == READ_BEHIND => self.sleep_us(20_000, 60_000),
            // These clients make rare situations happen.
            _ if ["read usher", "snatch", "write snatch", "fenced heir", READ_PAST].contains(&role.kind) => {
                self.sleep_us(0, 150_000)
            }
            // No other client calls, so that it shows whether the server notices the end of the lease.
            (true, _) if died => self.sleep_us(1_400_000, 1_900_000),
            (true, 0) => self.sleep_us(600_000, 1_500_000),
            (true, _) => self.sleep_us(0, 150_000),
            (false, _) => self.sleep_us(0, 12_000),
        }
    }
}

fn side(kind: &str) -> &'static str {
    match kind.split(' ').next() {
        Some("read") => "READ",
        Some("write") => "WRITE",
        _ => "",
    }
}
