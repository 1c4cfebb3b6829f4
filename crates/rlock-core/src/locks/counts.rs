//! How many records concern commands.

/// The number of records with each kind of content.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) awaited: usize,
    pub(super) watched: usize,
    pub(super) known: usize,
    pub(super) read_ends: usize,
}

impl Counts {
    /// Replaces what a record counted by what it counts now.
    pub(super) fn replace(&mut self, before: Counts, after: Counts) {
        let replace =
            |sum: &mut usize, before, after| *sum = sum.saturating_sub(before).saturating_add(after);
        replace(&mut self.awaited, before.awaited, after.awaited);
        replace(&mut self.watched, before.watched, after.watched);
        replace(&mut self.known, before.known, after.known);
        replace(&mut self.read_ends, before.read_ends, after.read_ends);
    }

    /// Whether commands must check any record.
    pub(super) fn is_watched(self) -> bool {
        self.watched > 0 || self.known > 0
    }

    /// A term begins: see [`Records::known`](super::records::Records::known).
    pub(super) fn begin_term(&mut self) {
        (self.known, self.read_ends) = (0, 0);
    }
}
