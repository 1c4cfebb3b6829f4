//! Read leases that were not granted here: the server had them when it was started or promoted, or they arrived with a slot.
//!
//! They are in lease keys only, one for each hold of each reader. A search reads these a few at a time; until it is over the
//! leases of a lock are unknown.

use crate::facts::Holder;
use crate::types::UnixMs;

/// What is known of the read leases of a lock that were not granted here.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundReads {
    /// When the latest of these leases ends, by the last search.
    pub(super) ends: Option<UnixMs>,
    /// The era in which they are known; `None` if they are not.
    known_in: Option<u64>,
    /// The search under way, unless a cycle of the timer has it.
    search: Option<Box<ReadSearch>>,
}

/// A search for the latest read lease of a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSearch {
    /// Where the next page of readers begins; `None` after the last one.
    pub cursor: Option<u64>,
    /// The readers of the page whose leases are not read yet.
    pub readers: Vec<Holder>,
    /// When the latest lease so far ends.
    pub latest: Option<UnixMs>,
    /// When it began.
    era: u64,
}

impl FoundReads {
    /// For the model checker: the search under way, whether it is of this era, and whether the leases are known.
    pub(super) fn state(&self, era: u64) -> (Option<(&ReadSearch, bool)>, bool) {
        let search = self.search.as_deref().map(|search| (search, search.era == era));
        (search, self.known_in == Some(era))
    }

    /// The knowledge, in this era, that a lock has none of these leases.
    pub(super) fn none(era: u64) -> Self {
        Self { ends: None, known_in: Some(era), search: None }
    }

    /// Whether the leases are being searched for; in whatever era.
    pub(super) fn has_search(&self) -> bool {
        self.search.is_some()
    }

    /// Whether the leases are being searched for in this era.
    pub(super) fn is_searched_in(&self, era: u64) -> bool {
        self.search.as_ref().is_some_and(|search| search.era == era)
    }

    /// Whether the leases are known in this era.
    pub(super) fn is_known_in(&self, era: u64) -> bool {
        self.known_in == Some(era)
    }

    /// Begins a search from the start: the leases are not known.
    pub(super) fn begin_search(&mut self, era: u64) {
        self.known_in = None;
        self.restart_search(era);
    }

    /// The search begins anew.
    pub(super) fn restart_search(&mut self, era: u64) {
        self.search = Some(Box::new(ReadSearch { cursor: Some(0), era, ..ReadSearch::default() }));
    }

    /// Takes the search, to continue it.
    pub(super) fn take_search(&mut self) -> Option<Box<ReadSearch>> {
        self.search.take()
    }

    /// The search continues later, unless a new one was begun meanwhile.
    pub(super) fn continue_later(&mut self, search: Box<ReadSearch>) {
        self.search.get_or_insert(search);
    }

    /// The search is over, unless a new one was begun meanwhile.
    pub(super) fn end_search(&mut self, search: &ReadSearch) {
        if self.search.is_none() {
            (self.ends, self.known_in) = (search.latest, Some(search.era));
        }
    }

    /// Whether all known leases have ended.
    pub(super) fn is_old(&self, read_ends: Option<UnixMs>, now: UnixMs) -> bool {
        self.search.is_none() && self.ends.max(read_ends).is_none_or(|ends| ends < now)
    }
}
