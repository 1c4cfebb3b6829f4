//! What a scrape asks one server.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::server::walk::{Seen, look};
use crate::server::{Hindrance, HotLock, Link, Place, hindrance, hot};

/// What is read of INFO. A Sentinel answers unknown sections with nothing.
const SECTIONS: [&str; 6] = ["server", "replication", "cluster", "clients", "memory", "rlock"];

/// What is asked, the same for all servers.
pub(super) struct Question {
    pub(super) place: Place,
    /// How many hot locks to ask for; 0 asks for none.
    pub(super) hot_locks: u32,
}

/// What one server answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) seen: Seen,
    /// The locks that cost most waiting; empty if the module does not know RLOCK.HOT.
    pub(super) hot: Result<Vec<HotLock>, Error>,
    /// Why the server gives no locks now.
    pub(super) hindrance: Option<Hindrance>,
    /// How long the answers of the server took.
    pub(super) took: Duration,
}

impl AsRef<Seen> for Answer {
    fn as_ref(&self) -> &Seen {
        &self.seen
    }
}

impl Question {
    /// Asks a server. A connection of an earlier scrape may be closed meanwhile, as by a restart: only a new connection
    /// shows whether the server is down.
    pub(super) fn ask(&self, link: &mut Link) -> Result<Answer, Error> {
        let used = link.is_open();
        match self.ask_once(link) {
            Err(error) if used && error.is_transport() => self.ask_once(link),
            outcome => outcome,
        }
    }

    fn ask_once(&self, link: &mut Link) -> Result<Answer, Error> {
        let start = Instant::now();
        let seen = look(link, &self.place, &SECTIONS)?;
        let hot = match self.hot_locks {
            limit @ 1.. if seen.fields.contains_key("rlock_version") => match hot(link, limit) {
                // The module is older than the command.
                Err(Error::NoModule { .. }) => Ok(Vec::new()),
                outcome => outcome,
            },
            _ => Ok(Vec::new()),
        };
        let took = start.elapsed();
        let hindrance = hindrance(link, &seen.fields)?;
        Ok(Answer { seen, hot, hindrance, took })
    }
}
