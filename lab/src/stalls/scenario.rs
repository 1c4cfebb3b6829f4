//! The events that can end many waits at one moment.

use crate::named::named;

named! {
    /// What is measured.
    enum Scenario {
        FairTimeout = "fair-timeout", "FAIR waiters time out";
        FairDrain = "fair-drain", "FAIR waiters behind a Redisson waiter are drained";
        FairCancel = "fair-cancel", "FAIR waiters are cancelled by one pipeline";
        PlainTimeout = "plain-timeout", "waiters time out";
        PlainDrain = "plain-drain", "waiters are drained";
        Demotion = "demotion", "waiters of a server that is demoted";
        Channel = "channel", "waiters on a channel without a subscriber are dropped";
        Readers = "readers", "readers are admitted together";
        Permits = "permits", "waiters for permits are admitted together";
        TiedHolds = "tied-holds", "locks held with SESSION, their connection ends";
        TiedWaiters = "tied-waiters", "waiters with SESSION, their connection ends";
        FlushOther = "flush-other", "locks with a waiter each, FLUSHDB of another database";
        FlushOwn = "flush-own", "locks with a waiter each, FLUSHDB of their database";
        FairLoad = "fair-load", "entries of a fair list that is first met after a restart";
        FairRemoved = "fair-removed", "FAIR waiters, another client removes the first entry of the list";
        FairDeleted = "fair-deleted", "FAIR waiters, another client deletes the list and its deadlines";
        FairExpired = "fair-expired", "dead Redisson waiters ahead of one ACQUIRE FAIR";
        BlockTimeout = "block-timeout", "blocked waiters (BLOCK) time out";
    }
}

/// How long the names are of locks, owners and channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// A few bytes.
    Short,
    /// As long as they may be: 1,024 bytes for a lock, 512 for an owner or a channel, all but a few percent-encoded in messages.
    Long,
}

impl Names {
    /// Both, in the order of the tables.
    pub(crate) const ALL: [Names; 2] = [Names::Short, Names::Long];

    /// The name of a lock.
    pub(super) fn lock(self, name: &str) -> String {
        if self == Names::Long { format!("{name:/<1024}") } else { name.into() }
    }

    /// The name of an owner or a channel.
    pub(super) fn owner(self, name: &str) -> String {
        if self == Names::Long { format!("{name:/<512}") } else { name.into() }
    }
}

/// The numbers of waiters, keys or entries.
const SIZES: [usize; 3] = [10_000, 20_000, 50_000];

/// The numbers of connections.
const CONNECTIONS: [usize; 2] = [1_000, 5_000];

impl Scenario {
    /// The numbers of waiters, keys or entries that it is measured with, in ascending order; with long names only the smallest.
    pub(crate) fn sizes(self, names: Names) -> &'static [usize] {
        let sizes: &[usize] = if self == Scenario::BlockTimeout { &CONNECTIONS } else { &SIZES };
        if names == Names::Long { sizes.get(..1).unwrap_or(sizes) } else { sizes }
    }

    /// Whether all waits time out, at a moment that is known before.
    pub(super) fn times_out(self) -> bool {
        [Scenario::FairTimeout, Scenario::PlainTimeout, Scenario::BlockTimeout].contains(&self)
    }

    /// Whether every waiter waits for a separate lock.
    pub(super) fn has_many_locks(self) -> bool {
        [Scenario::FlushOther, Scenario::FlushOwn, Scenario::TiedHolds].contains(&self)
    }

    /// How its waiters ask for the lock.
    pub(super) fn way(self) -> &'static [&'static str] {
        match self {
            Scenario::FairTimeout
            | Scenario::FairDrain
            | Scenario::FairCancel
            | Scenario::FairRemoved
            | Scenario::FairDeleted => &["FAIR"],
            Scenario::Readers => &["READ"],
            Scenario::Permits => &["PERMITS", "1000000"],
            Scenario::TiedHolds | Scenario::TiedWaiters => &["SESSION", "60000"],
            _ => &[],
        }
    }

    /// The statistic that in the end counts every one of them.
    pub(super) fn counter(self) -> Option<&'static str> {
        match self {
            Scenario::FairTimeout | Scenario::PlainTimeout | Scenario::BlockTimeout => Some("rlock_timeouts"),
            Scenario::FairDrain | Scenario::PlainDrain | Scenario::Demotion | Scenario::TiedWaiters => {
                Some("rlock_waiters_sent_away")
            }
            Scenario::FairCancel => Some("rlock_cancelled"),
            Scenario::Channel => Some("rlock_waiters_gone"),
            Scenario::Readers | Scenario::Permits | Scenario::FlushOwn => Some("rlock_hand_offs"),
            Scenario::TiedHolds
            | Scenario::FlushOther
            | Scenario::FairLoad
            | Scenario::FairRemoved
            | Scenario::FairDeleted
            | Scenario::FairExpired => None,
        }
    }
}
