//! The orders of `rlock top`.

use clap::ValueEnum;

/// The order of the locks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// By the time that all waiters have waited together
    #[default]
    Waited,
    /// By the number of waiters now
    Waiters,
    /// By the longest wait
    Longest,
    /// By the number of waits that ended
    Waits,
    /// By the number of denials
    Denied,
    /// By name
    Name,
}

impl Sort {
    /// The next order, for the key `s`.
    pub(crate) fn next(self) -> Sort {
        match self {
            Sort::Waited => Sort::Waiters,
            Sort::Waiters => Sort::Longest,
            Sort::Longest => Sort::Waits,
            Sort::Waits => Sort::Denied,
            Sort::Denied => Sort::Name,
            Sort::Name => Sort::Waited,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Sort::Waited => "waited",
            Sort::Waiters => "waiters",
            Sort::Longest => "longest",
            Sort::Waits => "waits",
            Sort::Denied => "denied",
            Sort::Name => "name",
        }
    }
}
