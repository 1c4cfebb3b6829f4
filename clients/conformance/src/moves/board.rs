//! How far a fail-over has come, and what the primaries have.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use redis::Connection;
use rlock_testkit::TestServer;

use super::BOUND;
use crate::clock::boot_ns;

pub(super) struct Board<'s> {
    pub(super) old: &'s TestServer,
    /// The new primary, once it is one.
    pub(super) new: OnceLock<&'s TestServer>,
    pub(super) begun: AtomicBool,
    /// From when on clients can know of the new primary; 0: not yet.
    pub(super) findable: AtomicI64,
    pub(super) over: AtomicBool,
}

/// Where a lock is that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    AtTheOld,
    /// Clients move.
    Between,
    AtTheNew,
}

impl<'s> Board<'s> {
    pub(super) fn of(old: &'s TestServer) -> Board<'s> {
        let (begun, findable, over) = Default::default();
        Board { old, new: OnceLock::new(), begun, findable, over }
    }

    pub(super) fn phase(&self) -> Phase {
        match self.findable.load(Ordering::SeqCst) {
            0 if !self.begun.load(Ordering::SeqCst) => Phase::AtTheOld,
            0 => Phase::Between,
            findable if boot_ns() < findable + BOUND => Phase::Between,
            _ => Phase::AtTheNew,
        }
    }

    /// The primary that has the locks in this phase.
    pub(super) fn primary(&self, phase: Phase) -> Option<&'s TestServer> {
        match phase {
            Phase::AtTheOld => Some(self.old),
            Phase::Between => None,
            Phase::AtTheNew => self.new.get().copied(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

/// The primary as one thread sees it.
pub(super) struct Eye<'b, 's> {
    board: &'b Board<'s>,
    connection: Option<(Phase, Connection)>,
}

impl<'b, 's> Eye<'b, 's> {
    pub(super) fn on(board: &'b Board<'s>) -> Eye<'b, 's> {
        Eye { board, connection: None }
    }

    /// What this command of one number answers at the primary; `None` while clients move.
    pub(super) fn number(&mut self, words: &[&str]) -> Result<Option<i64>, String> {
        let phase = self.board.phase();
        let Some(server) = self.board.primary(phase) else { return Ok(None) };
        if self.connection.as_ref().is_none_or(|(of, _)| *of != phase) {
            self.connection = Some((phase, server.connect()));
        }
        let Some((_, connection)) = &mut self.connection else { return Ok(None) };
        let (name, arguments) = words.split_first().ok_or("an empty command")?;
        match redis::cmd(name).arg(arguments).query(connection) {
            Ok(number) => Ok(Some(number).filter(|_| self.board.phase() == phase)),
            // The fail-over began meanwhile, and ended the connection or refused a write.
            Err(_) if self.board.phase() != phase => Ok(None),
            Err(error) => Err(format!("{words:?}: {error}")),
        }
    }
}
