//! The tickets of the waiters on one channel. Most clients have one channel and few waiters at a time.

use std::collections::BTreeSet;
use std::mem::take;

use smallvec::SmallVec;

use super::Ticket;

/// The most tickets in one row.
const FEW: usize = 8;

/// Tickets in their order.
#[derive(Clone, Debug)]
pub(super) enum Tickets {
    Few(SmallVec<[Ticket; 2]>),
    Many(BTreeSet<Ticket>),
}

impl Default for Tickets {
    fn default() -> Self {
        Self::Few(SmallVec::new())
    }
}

impl Tickets {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Few(few) => few.is_empty(),
            Self::Many(many) => many.is_empty(),
        }
    }

    pub(super) fn first(&self) -> Option<Ticket> {
        match self {
            Self::Few(few) => few.first().copied(),
            Self::Many(many) => many.first().copied(),
        }
    }

    pub(super) fn insert(&mut self, ticket: Ticket) {
        match self {
            Self::Few(few) if few.len() < FEW => {
                if let Err(index) = few.binary_search(&ticket) {
                    few.insert(index, ticket);
                }
            }
            Self::Few(few) => *self = Self::Many(take(few).into_iter().chain([ticket]).collect()),
            Self::Many(many) => {
                many.insert(ticket);
            }
        }
    }

    pub(super) fn remove(&mut self, ticket: Ticket) {
        match self {
            Self::Few(few) => few.retain(|other| *other != ticket),
            Self::Many(many) => {
                many.remove(&ticket);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_are_a_set_in_their_order_few_or_many() {
        for count in [1, 2, 3, 8, 9, 40] {
            let (mut tickets, mut plain) = (Tickets::default(), BTreeSet::new());
            for ticket in (0..count).map(|number| Ticket(number * 7 % count)).chain([Ticket(0)]) {
                tickets.insert(ticket);
                plain.insert(ticket);
                assert_eq!(tickets.first(), plain.first().copied());
            }
            while let Some(ticket) = plain.pop_last() {
                tickets.remove(ticket);
                tickets.remove(ticket);
                assert_eq!(tickets.first(), plain.first().copied());
                assert_eq!(tickets.is_empty(), plain.is_empty());
            }
        }
    }
}
