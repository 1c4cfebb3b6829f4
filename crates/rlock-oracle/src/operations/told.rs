//! What those who wait by Redisson's protocol may have been told of a lease.

/// An end of a lease, as foreign waiters may know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Told {
    /// They know of none.
    #[default]
    Nothing,
    /// It ends then.
    At(i64),
    /// It does not end.
    Never,
}

impl Told {
    /// As PTTL tells it.
    pub(super) fn of(ends: Option<i64>) -> Self {
        ends.map_or(Self::Never, Self::At)
    }

    /// Whether somebody who sleeps until then sleeps on after this.
    pub(super) fn is_after(self, end: i64) -> bool {
        match self {
            Self::Nothing => false,
            Self::At(at) => at > end,
            Self::Never => true,
        }
    }

    /// The later of two ends.
    pub(super) fn or_later(self, other: Self) -> Self {
        match (self, other) {
            (Self::At(one), Self::At(other)) => Self::At(one.max(other)),
            (Self::Nothing, told) | (told, Self::Nothing) => told,
            (Self::Never, _) | (_, Self::Never) => Self::Never,
        }
    }
}
