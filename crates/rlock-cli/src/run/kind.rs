//! The kinds of locks that a command can run under.

use rlock_client::{Any, Client, Lock};

use crate::args::RunArgs;

/// The kind of lock that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Read,
    Write,
    Fair,
    /// One of this number of permits.
    Permit(u32),
}

impl Kind {
    /// What the arguments ask for.
    pub(super) fn of(arguments: &RunArgs) -> Kind {
        match (arguments.read, arguments.write, arguments.fair, arguments.permits) {
            (true, ..) => Kind::Read,
            (_, true, ..) => Kind::Write,
            (_, _, true, _) => Kind::Fair,
            (.., Some(permits)) => Kind::Permit(permits),
            _ => Kind::Plain,
        }
    }

    /// The name of the kind in the variable of nested runs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Plain => "plain",
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Fair => "fair",
            Kind::Permit(_) => "permit",
        }
    }

    /// The kind with this name; for permits, with one permit.
    pub(super) fn named(name: &str) -> Option<Kind> {
        let kinds = [Kind::Plain, Kind::Read, Kind::Write, Kind::Fair, Kind::Permit(1)];
        kinds.into_iter().find(|kind| kind.name() == name)
    }

    /// How many runs that exclude each other may hold the lock at once.
    pub(super) fn most(self) -> usize {
        match self {
            Kind::Permit(permits) => usize::try_from(permits).unwrap_or(usize::MAX),
            _ => 1,
        }
    }

    /// The lock with this name.
    pub(super) fn lock(self, client: &Client, key: &[u8], fenced: bool) -> Lock<Any> {
        let (plain, sides) = (client.lock(key), client.read_write_lock(key));
        match (self, fenced) {
            (Kind::Plain, false) => plain.any(),
            (Kind::Plain, true) => plain.fenced().any(),
            (Kind::Fair, false) => plain.fair().any(),
            (Kind::Fair, true) => plain.fair().fenced().any(),
            // Readers have no tokens: the arguments exclude each other.
            (Kind::Read, _) => sides.read().any(),
            (Kind::Write, false) => sides.write().any(),
            (Kind::Write, true) => sides.write().fenced().any(),
            (Kind::Permit(permits), _) => client.semaphore(key, permits).any(),
        }
    }
}
