//! The waiters of a lock that has many, found by place, owner and channel in logarithmic time.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::rc::Rc;

use super::calls::Place;
use super::{Via, Waiter};
use crate::types::Mode;

/// The waiters, and where each owner and each channel stands.
#[derive(Clone, Debug, Default)]
pub(super) struct WaiterIndex {
    order: BTreeMap<Place, Waiter>,
    owners: BTreeMap<(Box<[u8]>, Mode), Place>,
    channels: BTreeMap<Rc<[u8]>, BTreeSet<Place>>,
}

impl WaiterIndex {
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn first(&self) -> Option<(Place, &Waiter)> {
        self.order.first_key_value().map(|(place, waiter)| (*place, waiter))
    }

    pub(super) fn get(&self, place: Place) -> Option<&Waiter> {
        self.order.get(&place)
    }

    pub(super) fn place_of(&self, owner: &[u8], mode: Mode) -> Option<Place> {
        self.owners.get(&(Box::from(owner), mode)).copied()
    }

    pub(super) fn first_on(&self, channel: &[u8]) -> Option<Place> {
        self.channels.get(channel)?.first().copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiter> {
        self.order.values()
    }

    /// The owners of `most` entries, in the order of their bytes and then of their modes, after this owner.
    pub(super) fn owners_after(&self, after: Option<&[u8]>, most: usize) -> impl Iterator<Item = &[u8]> {
        let from = (Box::from(after.unwrap_or_default()), Mode::Mutex);
        let owners = self.owners.range(from..).map(|((owner, _), _)| &**owner);
        owners.filter(move |owner| after.is_none_or(|after| *owner > after)).take(most)
    }

    pub(super) fn insert(&mut self, place: Place, waiter: Waiter) {
        self.owners.insert((waiter.owner.clone(), waiter.mode()), place);
        if let Via::Enqueue(channel) = &waiter.via {
            self.channels.entry(Rc::clone(channel)).or_default().insert(place);
        }
        self.order.insert(place, waiter);
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<Waiter> {
        let waiter = self.order.remove(&place)?;
        self.owners.remove(&(waiter.owner.clone(), waiter.mode()));
        if let Via::Enqueue(channel) = &waiter.via
            && let Some(places) = self.channels.get_mut(channel)
        {
            places.remove(&place);
            if places.is_empty() {
                self.channels.remove(channel);
            }
        }
        Some(waiter)
    }

    /// Takes all waiters with their places, in order.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (Place, Waiter)> + use<> {
        take(self).order.into_iter()
    }
}
