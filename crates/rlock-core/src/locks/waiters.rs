//! The waiters of one lock by place, owner and channel.
//!
//! Most locks have one waiter or a few: these are one block of memory, and a search reads all of them. Trees of one entry each
//! took 2.5 KB for the first waiter.

use super::calls::Place;
use super::waiter_index::WaiterIndex;
use super::{Via, Waiter};
use crate::types::Mode;

/// The most waiters that are searched one by one.
pub(super) const FEW: usize = 8;

/// A queue that gets shorter loses its index at this length. The gap to [`FEW`] keeps a queue between the two from being rebuilt
/// at each call.
pub(super) const FEW_AGAIN: usize = 4;

/// The waiters of one lock.
#[derive(Clone, Debug)]
pub(super) enum Waiters {
    /// In the order of their places.
    Few(Vec<(Place, Waiter)>),
    Many(Box<WaiterIndex>),
}

impl Default for Waiters {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Waiters {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first waiter and its place.
    pub(super) fn first(&self) -> Option<(Place, &Waiter)> {
        match self {
            Self::Few(few) => few.first().map(|(place, waiter)| (*place, waiter)),
            Self::Many(many) => many.first(),
        }
    }

    /// The waiter at a place.
    pub(super) fn get(&self, place: Place) -> Option<&Waiter> {
        match self {
            Self::Few(few) => few.iter().find(|(at, _)| *at == place).map(|(_, waiter)| waiter),
            Self::Many(many) => many.get(place),
        }
    }

    /// The place of an owner in a mode.
    pub(super) fn place_of(&self, owner: &[u8], mode: Mode) -> Option<Place> {
        let is_meant = |waiter: &Waiter| waiter.mode() == mode && *waiter.owner == *owner;
        match self {
            Self::Few(few) => few.iter().find(|(_, waiter)| is_meant(waiter)).map(|(place, _)| *place),
            Self::Many(many) => many.place_of(owner, mode),
        }
    }

    /// The waiter of an owner in a mode.
    pub(super) fn find(&self, owner: &[u8], mode: Mode) -> Option<&Waiter> {
        self.get(self.place_of(owner, mode)?)
    }

    /// The first place on a channel.
    pub(super) fn first_on(&self, channel: &[u8]) -> Option<Place> {
        let is_on = |waiter: &Waiter| matches!(&waiter.via, Via::Enqueue(by) if **by == *channel);
        match self {
            Self::Few(few) => few.iter().find(|(_, waiter)| is_on(waiter)).map(|(place, _)| *place),
            Self::Many(many) => many.first_on(channel),
        }
    }

    /// All waiters, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiter> {
        let (few, many) = match self {
            Self::Few(few) => (Some(few), None),
            Self::Many(many) => (None, Some(many.iter())),
        };
        let few = few.into_iter().flatten().map(|(_, waiter)| waiter);
        few.chain(many.into_iter().flatten())
    }

    /// The owners of `most` entries, in the order of their bytes and then of their modes, after this owner.
    pub(super) fn owners_after(&self, after: Option<&[u8]>, most: usize) -> Vec<&[u8]> {
        match self {
            Self::Few(few) => {
                let owners = few.iter().map(|(_, waiter)| &*waiter.owner);
                let mut owners: Vec<_> =
                    owners.filter(|owner| after.is_none_or(|after| *owner > after)).collect();
                owners.sort_unstable();
                owners.truncate(most);
                owners
            }
            Self::Many(many) => many.owners_after(after, most).collect(),
        }
    }

    /// Adds a waiter at a place that is free.
    pub(super) fn insert(&mut self, place: Place, waiter: Waiter) {
        match self {
            Self::Few(few) if few.len() < FEW => {
                // Room for one more, not for twice as many: most queues stay short.
                few.reserve_exact(1);
                few.insert(few.partition_point(|(at, _)| *at < place), (place, waiter));
            }
            Self::Few(few) => {
                let mut many: Box<WaiterIndex> = Box::default();
                few.drain(..).for_each(|(place, waiter)| many.insert(place, waiter));
                many.insert(place, waiter);
                *self = Self::Many(many);
            }
            Self::Many(many) => many.insert(place, waiter),
        }
    }

    /// Removes the waiter at a place.
    pub(super) fn remove(&mut self, place: Place) -> Option<Waiter> {
        match self {
            Self::Few(few) => {
                let index = few.iter().position(|(at, _)| *at == place)?;
                Some(few.remove(index).1)
            }
            Self::Many(many) => {
                let removed = many.remove(place);
                if many.len() <= FEW_AGAIN {
                    *self = Self::Few(many.take_all().collect());
                }
                removed
            }
        }
    }

    /// Takes all waiters, in order.
    pub(super) fn into_iter(self) -> impl Iterator<Item = Waiter> {
        let (few, many) = match self {
            Self::Few(few) => (few, None),
            Self::Many(mut many) => (Vec::new(), Some(many.take_all())),
        };
        few.into_iter().chain(many.into_iter().flatten()).map(|(_, waiter)| waiter)
    }
}

#[cfg(test)]
#[path = "waiters_tests.rs"]
mod tests;
