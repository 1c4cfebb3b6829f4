//! The events that can end many waits at one moment.

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    FairTimeout,
    FairDrain,
    FairCancel,
    PlainTimeout,
    PlainDrain,
    Demotion,
    Channel,
    Readers,
    Permits,
    TiedHolds,
    TiedWaiters,
    FlushOther,
    FlushOwn,
    FairLoad,
    FairRemoved,
    FairDeleted,
    FairExpired,
    BlockTimeout,
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
    /// All of them, in the order of the table.
    pub(crate) const ALL: [Scenario; 18] = [
        Scenario::FairTimeout,
        Scenario::FairDrain,
        Scenario::FairCancel,
        Scenario::PlainTimeout,
        Scenario::PlainDrain,
        Scenario::Demotion,
        Scenario::Channel,
        Scenario::Readers,
        Scenario::Permits,
        Scenario::TiedHolds,
        Scenario::TiedWaiters,
        Scenario::FlushOther,
        Scenario::FlushOwn,
        Scenario::FairLoad,
        Scenario::FairRemoved,
        Scenario::FairDeleted,
        Scenario::FairExpired,
        Scenario::BlockTimeout,
    ];

    /// Its name in the results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scenario::FairTimeout => "fair-timeout",
            Scenario::FairDrain => "fair-drain",
            Scenario::FairCancel => "fair-cancel",
            Scenario::PlainTimeout => "plain-timeout",
            Scenario::PlainDrain => "plain-drain",
            Scenario::Demotion => "demotion",
            Scenario::Channel => "channel",
            Scenario::Readers => "readers",
            Scenario::Permits => "permits",
            Scenario::TiedHolds => "tied-holds",
            Scenario::TiedWaiters => "tied-waiters",
            Scenario::FlushOther => "flush-other",
            Scenario::FlushOwn => "flush-own",
            Scenario::FairLoad => "fair-load",
            Scenario::FairRemoved => "fair-removed",
            Scenario::FairDeleted => "fair-deleted",
            Scenario::FairExpired => "fair-expired",
            Scenario::BlockTimeout => "block-timeout",
        }
    }

    /// Its name for readers.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Scenario::FairTimeout => "FAIR waiters time out",
            Scenario::FairDrain => "FAIR waiters behind a Redisson waiter are drained",
            Scenario::FairCancel => "FAIR waiters are cancelled by one pipeline",
            Scenario::PlainTimeout => "waiters time out",
            Scenario::PlainDrain => "waiters are drained",
            Scenario::Demotion => "waiters of a server that is demoted",
            Scenario::Channel => "waiters on a channel without a subscriber are dropped",
            Scenario::Readers => "readers are admitted together",
            Scenario::Permits => "waiters for permits are admitted together",
            Scenario::TiedHolds => "locks held with SESSION, their connection ends",
            Scenario::TiedWaiters => "waiters with SESSION, their connection ends",
            Scenario::FlushOther => "locks with a waiter each, FLUSHDB of another database",
            Scenario::FlushOwn => "locks with a waiter each, FLUSHDB of their database",
            Scenario::FairLoad => "entries of a fair list that is first met after a restart",
            Scenario::FairRemoved => "FAIR waiters, another client removes the first entry of the list",
            Scenario::FairDeleted => "FAIR waiters, another client deletes the list and its deadlines",
            Scenario::FairExpired => "dead Redisson waiters ahead of one ACQUIRE FAIR",
            Scenario::BlockTimeout => "blocked waiters (BLOCK) time out",
        }
    }

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
