//! On which servers a red lock is held, and whether they are enough.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rlock_client::{CancellationToken, Error, Guard, Held, Lost};

use crate::name;

/// The guards of one red lock, each from another server.
pub(super) struct Members {
    pub(super) name: Vec<u8>,
    pub(super) quorum: usize,
    /// Cancelled when the lock is lost.
    pub(super) lost: CancellationToken,
    /// Not locked while a guard is checked or dropped: both may call a receiver of events, which may ask about this lock.
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    /// The guard of each server that has the lock.
    guards: Vec<Option<Guard>>,
    /// The number of times that a server has joined or left, or the lock has ended.
    changes: u64,
    /// The reason of the last loss.
    last: Lost,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// There was no quorum yet.
    Gathering,
    Held,
    /// Lost or released.
    Ended(Lost),
}

impl Members {
    /// The members of a red lock on `servers` servers, without a guard yet.
    pub(super) fn new(name: &[u8], servers: usize, quorum: usize) -> Arc<Members> {
        let guards = std::iter::repeat_with(|| None).take(servers).collect();
        let state = State { phase: Phase::Gathering, guards, changes: 0, last: Lost::Unreachable };
        let (name, lost) = (name.to_vec(), CancellationToken::new());
        Arc::new(Members { name, quorum, lost, state: Mutex::new(state) })
    }

    /// Adds the guard of one server; `false` if it is too late.
    ///
    /// There must still be a quorum without it. Otherwise there was a time without a quorum, in which another
    /// owner may have held the lock, and a server that joins now must not cover that up.
    pub(super) fn join(&self, server: usize, guard: Guard) -> bool {
        let mut state = self.change();
        if matches!(state.phase, Phase::Ended(_)) {
            return false;
        }
        if let Some(place) = state.guards.get_mut(server) {
            *place = Some(guard);
        }
        true
    }

    /// One server has lost the lock.
    pub(super) fn leave(&self, server: usize, why: Lost) {
        let mut state = self.change();
        state.last = why;
        let guard = state.guards.get_mut(server).and_then(Option::take);
        drop(state);
        drop(guard);
    }

    /// For how much longer there is a quorum without another renewal.
    pub(super) fn check(&self) -> Result<Duration, Error> {
        self.standing().map_err(|why| self.error(why))
    }

    /// Takes all guards out, for good; the caller releases them.
    pub(super) fn close(&self) -> Vec<Guard> {
        self.change().end(Lost::Released).unwrap_or_default()
    }

    /// Why the lock was lost, if it was.
    pub(super) fn why(&self) -> Option<Lost> {
        match self.state().phase {
            Phase::Ended(why) if why != Lost::Released => Some(why),
            _ => None,
        }
    }

    pub(super) fn error(&self, why: Lost) -> Error {
        Error::LockLost { lock: name(&self.name), why }
    }

    /// For how much longer there is a quorum, or why not. Without a quorum the lock is lost, for good,
    /// and released where it is still held: it protects nothing there, and others may need those servers.
    fn standing(&self) -> Result<Duration, Lost> {
        loop {
            let (views, seen, last) = self.state().views()?;
            let outcome = quorum_of(&views, self.quorum, last);
            let mut state = self.state();
            let why = match outcome {
                // A server that has joined or left meanwhile decides.
                _ if state.changes != seen => continue,
                Ok(left) => {
                    state.phase = Phase::Held;
                    return Ok(left);
                }
                Err(_) if state.phase == Phase::Gathering => return Err(Lost::Released),
                Err(why) => why,
            };
            let guards = state.end(why);
            drop(state);
            self.lost.cancel();
            tracing::warn!(lock = name(&self.name), %why, "a red lock was lost: too few servers have it");
            drop(guards);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state for a change of its guards: a loss is noted before it.
    fn change(&self) -> MutexGuard<'_, State> {
        _ = self.standing();
        let mut state = self.state();
        state.changes = state.changes.wrapping_add(1);
        state
    }
}

impl State {
    /// The parts of a check, which is made without the lock: views of the guards, the number of changes, the reason of the last loss.
    fn views(&self) -> Result<(Vec<Held>, u64, Lost), Lost> {
        match self.phase {
            Phase::Ended(why) => Err(why),
            _ => Ok((self.guards.iter().flatten().map(Guard::held).collect(), self.changes, self.last)),
        }
    }

    /// Takes all guards out, unless the lock has ended before.
    fn end(&mut self, why: Lost) -> Option<Vec<Guard>> {
        if matches!(self.phase, Phase::Ended(_)) {
            return None;
        }
        self.phase = Phase::Ended(why);
        self.changes = self.changes.wrapping_add(1);
        Some(self.guards.iter_mut().filter_map(Option::take).collect())
    }
}

/// For how much longer `quorum` servers have it without another renewal, or why fewer have it.
fn quorum_of(views: &[Held], quorum: usize, last: Lost) -> Result<Duration, Lost> {
    let (mut left, mut why) = (Vec::new(), last);
    for held in views {
        match held.check() {
            Ok(time) => left.push(time),
            Err(Error::LockLost { why: lost, .. }) => why = lost,
            Err(_) => (),
        }
    }
    left.sort_unstable_by(|one: &Duration, other| other.cmp(one));
    left.get(quorum.saturating_sub(1)).copied().ok_or(why)
}

#[cfg(test)]
mod tests {
    use rlock_testkit::TestServer;
    use rlock_testkit::clients::{connect, within};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_that_joins_does_not_cover_a_gap_up() {
        let server = TestServer::start();
        let client = connect(&server).await;
        let held = async |lock: &str| within("a lock", client.lock(lock).acquire()).await.unwrap();
        let members = Members::new(b"lock", 3, 2);
        let short = client.lock("one").lease(Duration::from_millis(300)).renew(false);
        assert!(
            members.join(0, within("a lock", short.acquire()).await.unwrap()) && members.check().is_err()
        );
        assert!(members.join(1, held("two").await) && members.check().is_ok());
        // One of two is no longer held, and no check has run: another owner may have had a quorum since.
        tokio::time::sleep(Duration::from_millis(350)).await;
        assert!(!members.join(2, held("three").await));
        assert!(matches!(members.check(), Err(Error::LockLost { why: Lost::Expired, .. })));
        assert_eq!(members.why(), Some(Lost::Expired));
    }
}
