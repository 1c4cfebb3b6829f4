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
        let all = Sort::value_variants().iter().copied();
        all.cycle().skip_while(|sort| *sort != self).nth(1).unwrap_or_default()
    }

    /// Its word on the command line.
    pub(crate) fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
    }
}
