//! What holds in every state.

use rlock_machine::State as Stage;

use super::client::Client;
use super::server::{lock, owner};
use super::state::State;
use crate::ghost::Violation;

/// Checks a state.
pub(crate) fn check(state: &State) -> Result<(), Violation> {
    believers_hold(state)?;
    if state.is_quiet() && !state.clients.iter().any(|client| client.excused) {
        nothing_is_left(state)?;
    }
    Ok(())
}

/// A client whose caller has a guard holds the lock at the server too: so no two do.
fn believers_hold(state: &State) -> Result<(), Violation> {
    let believers = state.clients.iter().filter(|client| client.believes(state.now()));
    let holder = state.world.hold(&lock()).map(|hold| &*hold.owner);
    for client in believers {
        if holder != Some(&client.owner()[..]) {
            let holder = holder.map_or("nobody".into(), |holder| holder.escape_ascii().to_string());
            let client = client.owner();
            return Err(format!(
                "{} believes that it holds the lock, and {holder} does",
                client.escape_ascii()
            ));
        }
    }
    Ok(())
}

/// Acquisitions that have ended have neither a hold nor a place in the queue.
fn nothing_is_left(state: &State) -> Result<(), Violation> {
    let ended = |client: &Client| {
        let present = (client.machine.state() == Stage::Ended).then_some(client.life);
        let id = client.id;
        (0..client.life).chain(present).map(move |life| owner(id, life))
    };
    for owner in state.clients.iter().flat_map(ended) {
        let holds = state.world.hold(&lock()).is_some_and(|hold| *hold.owner == owner);
        let waits = state.locks.records.in_order(lock().name()).any(|waiter| *waiter.owner == owner);
        if holds || waits {
            return Err(format!("{} has ended, and something of it is left", owner.escape_ascii()));
        }
    }
    Ok(())
}
