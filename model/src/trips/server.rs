//! The server's side: what a request does.

use rlock_core::commands::Answer;
use rlock_core::locks::{Limits, LockRef, TieLimits, Turns};
use rlock_core::request::{Acquire, Cancel, DownTo, Release, Renew, Wait};
use rlock_core::settings::{AtOnce, Settings};
use rlock_core::{Admission, Error, Expiry, Holds, LeaseMs, Owner, Reply, WaitMs, Wanted};
use rlock_machine::{Command, Failure, MS, Reply as Answered};
use rlock_sim::Sim;

use super::network::{Request, What};
use crate::ghost::Violation;

/// The lease of every request, in ms.
pub(crate) const LEASE_MS: i64 = 6_000;
/// How long a grant by message lasts unless it is confirmed, in ms: the default.
pub(crate) const CONFIRM_MS: i64 = 5_000;
/// The grace of a session, in ms.
pub(crate) const GRACE_MS: i64 = 3_000;

/// The lock.
pub(crate) fn lock() -> LockRef {
    LockRef { db: 0, key: (*b"k0").into() }
}

/// The name of an owner of a client.
pub(crate) fn owner(id: u8, life: u8) -> [u8; 3] {
    [b'o', b'0' + id, b'0' + life]
}

/// The channel of a client's subscription.
pub(crate) fn channel(client: u8, number: u8) -> [u8; 3] {
    [b'c', b'0' + client, b'0' + number]
}

/// The server's number for a command connection.
pub(crate) fn connection(client: u8, number: u8) -> u64 {
    u64::from(number) * 2 + u64::from(client)
}

pub(crate) fn settings() -> Settings {
    Settings {
        admission: Admission::Open,
        limits: Limits { server: usize::MAX, lock: usize::MAX, user: usize::MAX },
        grant_confirm: ms(CONFIRM_MS),
        turns: Turns { after_grants: u32::MAX, after_ms: u64::MAX },
        yield_window: None,
        fair_turn: ms(5_000),
        max_ties: TieLimits { server: 1_000, user: 1_000 },
        hot_locks: 0,
        at_once: AtOnce { ended: 100, listed: 100, served: 100, looked: 100, buried: 100 },
    }
}

fn ms(ms: i64) -> LeaseMs {
    LeaseMs::new(ms).unwrap_or(LeaseMs::SHORTEST)
}

/// Carries out a request of this connection, which names this channel.
pub(crate) fn carry_out(
    sim: &Sim,
    client: u8,
    connection: u64,
    (request, channel): (Request, [u8; 3]),
    session: bool,
) -> Result<Answered, Violation> {
    let (name, lock) = (owner(client, request.life), lock());
    let owner = Owner::new(&name).map_err(|error| error.to_string())?;
    let session = session.then(|| ms(GRACE_MS));
    sim.call_on(connection, &lock);
    let answered = match request.what {
        What::Command(Command::Enqueue { wait, look }) => {
            let wait = Wait::Enqueue(WaitMs::new(wait).ok_or("a wait")?, &channel);
            let answered = acquire(sim, connection, owner, session, Some(wait));
            match answered {
                Ok(Answered::Waits { .. }) => Ok(Answered::Waits { holder_lease: look.then(|| left(sim)) }),
                other => other,
            }
        }
        What::Command(Command::Acquire) => acquire(sim, connection, owner, session, None),
        What::Command(Command::Keep { lease }) => {
            let lease = ms(lease);
            sim.renew(&lock, &Renew { owner, lease, mode: None, session: None }).map(answer)
        }
        What::Command(Command::Renew { lease }) => {
            let lease = ms(lease.unwrap_or(LEASE_MS));
            sim.renew(&lock, &Renew { owner, lease, mode: None, session }).map(answer)
        }
        What::Command(Command::Cancel) => sim.cancel(&lock, &Cancel { owner }).map(answer),
        What::Command(Command::Release) | What::GiveBack => {
            let release = Release { owner, mode: None, down_to: DownTo::AtMost(0), lease: None };
            sim.release(&lock, &release).map(answer)
        }
    };
    match answered {
        // A late request of a connection that was followed by another.
        Err(Error::TiedToAnother | Error::Untied) => Ok(Answered::Failed(Failure::Passing)),
        answered => answered.map_err(|error| format!("o{client}: {error}")),
    }
}

fn acquire(
    sim: &Sim,
    connection: u64,
    owner: Owner<'_>,
    session: Option<LeaseMs>,
    wait: Option<Wait<'_>>,
) -> Result<Answered, Error> {
    let (lease, wanted, arrive_at) = (ms(LEASE_MS), Wanted::Mutex, Some(Holds::ONE));
    let request = Acquire { owner, lease, wanted, fair: false, arrive_at, fenced: false, session, wait };
    match sim.acquire(connection, &lock(), &request)? {
        Answer::Now(reply) => Ok(answer(reply)),
        Answer::Later => Ok(Answered::Null),
    }
}

/// The rest of the holder's lease, as PTTL answers.
fn left(sim: &Sim) -> i64 {
    sim.with(|world| match world.hold(&lock()).map(|hold| hold.expiry) {
        Some(expiry @ Expiry::At(_)) => expiry.left(world.now) * MS,
        _ => 0,
    })
}

fn answer(reply: Reply) -> Answered {
    match reply {
        Reply::Acquired { token, .. } => Answered::Granted { token },
        Reply::Enqueued => Answered::Waits { holder_lease: None },
        Reply::Denied | Reply::NotHeld => Answered::Null,
        Reply::Released | Reply::Renewed | Reply::Cancelled | Reply::Forced => Answered::Integer(1),
        Reply::StillHeld | Reply::NotRenewed | Reply::NotQueued | Reply::NothingToForce => {
            Answered::Integer(0)
        }
    }
}
