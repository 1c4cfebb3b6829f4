//! The undelivered grants of one lock, the oldest first. A mutex has one at most; a lock with readers may have thousands, whose
//! answers mostly arrive in the order of the grants.

use std::collections::VecDeque;

use super::Ticket;
use crate::types::{Mode, UnixMs};

/// A grant whose answer has not reached its client yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The granted call.
    pub ticket: Ticket,
    /// The owner that was granted the lock.
    pub owner: Box<[u8]>,
    /// The mode of the grant.
    pub mode: Mode,
    /// The end of the granted lease: a lease with another end is another lease.
    pub ends: UnixMs,
}

/// Grants whose answers have not arrived. A single one takes no memory of its own.
#[derive(Clone, Debug, Default)]
pub(super) enum Undelivered {
    #[default]
    None,
    One(Grant),
    /// Freed with the last of them.
    Many(VecDeque<Grant>),
}

impl Undelivered {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Grant> {
        let (one, many) = match self {
            Self::None => (None, None),
            Self::One(grant) => (Some(grant), None),
            Self::Many(grants) => (None, Some(grants.iter())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Adds the newest.
    pub(super) fn push(&mut self, grant: Grant) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(grant),
            Self::One(before) => Self::Many([before, grant].into()),
            Self::Many(mut grants) => {
                grants.push_back(grant);
                Self::Many(grants)
            }
        };
    }

    /// Removes the oldest grant that `meant` accepts.
    pub(super) fn take(&mut self, meant: impl Fn(&Grant) -> bool) -> Option<Grant> {
        let taken = match self {
            Self::None => None,
            Self::One(grant) if !meant(grant) => None,
            Self::One(_) => match std::mem::take(self) {
                Self::One(grant) => Some(grant),
                Self::None | Self::Many(_) => None,
            },
            Self::Many(grants) => grants.iter().position(meant).and_then(|index| grants.remove(index)),
        };
        if matches!(self, Self::Many(grants) if grants.is_empty()) {
            *self = Self::None;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(ticket: u64) -> Grant {
        Grant { ticket: Ticket(ticket), owner: (*b"a").into(), mode: Mode::Read, ends: UnixMs(9) }
    }

    #[test]
    fn grants_leave_in_any_order_and_leave_nothing_behind() {
        for count in 0..4 {
            for first in 0..count {
                let mut grants = Undelivered::default();
                (0..count).for_each(|ticket| grants.push(grant(ticket)));
                assert_eq!(grants.take(|_| false), None);
                for ticket in (first..count).chain(0..first) {
                    assert!(!grants.is_empty());
                    assert_eq!(grants.take(|grant| grant.ticket == Ticket(ticket)), Some(grant(ticket)));
                    assert!(grants.iter().all(|grant| grant.ticket != Ticket(ticket)));
                }
                assert!(grants.is_empty());
            }
        }
    }

    #[test]
    fn of_several_that_are_meant_the_oldest_is_taken() {
        let mut grants = Undelivered::default();
        (0..3).for_each(|ticket| grants.push(grant(ticket)));
        assert_eq!(grants.take(|grant| grant.ticket > Ticket(0)), Some(grant(1)));
        assert!(grants.iter().eq(&[grant(0), grant(2)]));
    }
}
