//! A turn: what one command, or one visit of the timer, does to a lock with waiters, pending grants or the like.
//!
//! Its parts, in this order: the look, and serving a lock that is found free (`settling`); the decision, and its change with its
//! effects at once (`Picture::commit`); serving the queue again (`serve`), where each waiter learns of its grant once it is made; the
//! next check; and only then what others learn: the keyspace events, and the unlock messages to Redisson clients (`closing`). Another
//! module may react to an event and call this one: by then the turn only reports.
//!
//! A turn knows the lock from its last look and its changes since, so that no look is needed where the lock is free, or held by one
//! owner. This knowledge ends with an event of the key by another client or module, also one within the look or the change: the server
//! notifies other modules of each expired lease key that is opened. A key that is overwritten raises no event that is listened to:
//! each commit checks what it reopens.

use crate::access::{Access, access_of_all};
use crate::at::At;
use crate::decision::{Change, UnlockMessage};
use crate::names;
use crate::port::Server;
use crate::timing::{Entry, entry};
use crate::types::{UnixMs, Wanted};
use crate::view::{Kind, View};

/// A turn of one lock.
#[must_use]
pub(crate) struct Turn<'a, 'l, P: Server> {
    /// The lock.
    pub(crate) at: At<'a, 'l, P>,
    /// The time of the turn, for all its decisions.
    pub(crate) now: UnixMs,
    /// Whether the queue must get its next check.
    pub(crate) needs_check: bool,
    known: Option<Known<View>>,
    asked: Option<Box<Known<Asked>>>,
    /// The news for others, sent when the turn closes.
    pub(crate) news: Option<Box<News<P::Performed>>>,
    /// The timer is set after all of it.
    entry: Option<Entry<'a, P>>,
}

/// What others learn of a turn at its end, in this order.
pub(crate) struct News<T> {
    /// Keyspace events.
    pub(crate) events: Vec<Event<T>>,
    /// Messages to waiting Redisson clients.
    pub(crate) unlock_messages: Vec<UnlockMessage>,
}

/// An event to raise.
pub(crate) enum Event<T> {
    /// The events of a change.
    Changed(Change, Committed<T>),
    /// The end of a lease that was found.
    Expired,
}

/// The facts for the events of a change that was made.
pub(crate) struct Committed<T> {
    /// For [`crate::port::Lock::raise`].
    pub(crate) performed: T,
    /// The lease keys that the change has deleted.
    pub(crate) deleted_leases: Vec<names::Name>,
}

/// What a turn knows, and after how many changes of keys it was so.
struct Known<T> {
    what: T,
    changes: u64,
}

/// Whether an owner can have what it wants.
struct Asked {
    owner: Box<[u8]>,
    wanted: Wanted,
    access: Access,
}

impl<'a, 'l, P: Server> Turn<'a, 'l, P> {
    /// Runs a turn to its end: the body, the next check of the queue, and then what others learn.
    #[inline(always)]
    pub(crate) fn run<T>(at: At<'a, 'l, P>, body: impl FnOnce(&mut Self) -> T) -> T {
        // In its place: a copy costs as much as a part of the rule for a plain lock.
        let mut turn = Self {
            now: at.node.port.now(),
            at,
            needs_check: false,
            known: None,
            asked: None,
            news: None,
            entry: None,
        };
        let result = body(&mut turn);
        if turn.needs_check {
            turn.schedule_next_check();
        }
        #[cfg(debug_assertions)]
        turn.assert_knowledge();
        // In parts: the drop of a whole turn checks each of them again.
        let Self { at, news, entry, .. } = turn;
        if let Some(news) = news {
            at.tell_all(*news);
        }
        drop(entry);
        result
    }

    /// Runs the turn of a command. Without waiters, pending grants or the like the lock needs none, and the command cannot cause work
    /// outside commands.
    #[inline(always)]
    pub(crate) fn of_command<T>(at: At<'a, 'l, P>, body: impl FnOnce(&mut Self) -> T) -> T {
        Self::run(at, |turn| {
            if turn.at.node.locks(|locks| locks.is_watched() && locks.watches(turn.at.name())) {
                turn.begin_entry();
            }
            body(turn)
        })
    }

    /// The lock has waiters, or gets one now.
    #[cold]
    pub(crate) fn begin_entry(&mut self) {
        if self.entry.is_none() {
            self.entry = Some(entry(self.at.node));
        }
    }

    /// Whether the lock has waiters, pending grants or the like.
    pub(crate) fn is_watched(&self) -> bool {
        self.entry.is_some()
    }

    /// The lock is about to change: what is known of it ends.
    pub(crate) fn forget(&mut self) {
        self.known = None;
    }

    /// Remembers how an owner sees the lock, after this number of changes of keys.
    pub(crate) fn learn(&mut self, view: View, changes: u64) {
        self.known = Some(Known { what: view, changes });
    }

    /// Remembers whether an owner could have what it wants, and after how many changes of keys that was so.
    pub(crate) fn learn_access(&mut self, owner: &[u8], wanted: Wanted, access: Access, changes: u64) {
        let what = Asked { owner: owner.into(), wanted, access };
        self.asked = Some(Box::new(Known { what, changes }));
    }

    /// The server was asked something, and time may have passed: looks are needed again.
    pub(crate) fn forget_all(&mut self) {
        (self.known, self.asked, self.now) = (None, None, self.at.node.port.now());
    }

    /// The lock as every owner sees it, if it is known to be free, and after how many changes of keys.
    pub(crate) fn known_free(&self) -> Option<(View, u64)> {
        let view = *self.current(self.known.as_ref())?;
        matches!(view.kind, Kind::Free | Kind::Abandoned).then(|| (view, self.changes()))
    }

    /// The lock as an owner saw it, if it is known.
    #[cfg(debug_assertions)]
    pub(crate) fn known_view(&self) -> Option<View> {
        self.current(self.known.as_ref()).copied()
    }

    /// Whether the turn knows the lock as it is now.
    pub(crate) fn knows_lock(&self) -> bool {
        self.current(self.known.as_ref()).is_some()
    }

    /// Whether every owner can have this, or none, if that is known.
    pub(crate) fn access_of_all(&self, wanted: Wanted) -> Option<Access> {
        self.current(self.known.as_ref()).and_then(|view| access_of_all(view, wanted))
    }

    /// Whether this owner can have what it wants, if it was asked before.
    pub(crate) fn known_access(&self, owner: &[u8], wanted: Wanted) -> Option<Access> {
        let asked = self.current(self.asked.as_deref())?;
        (*asked.owner == *owner && asked.wanted == wanted).then_some(asked.access)
    }

    fn current<'k, T>(&self, known: Option<&'k Known<T>>) -> Option<&'k T> {
        let known = known?;
        (known.changes == self.changes()).then_some(&known.what)
    }

    /// How often keys of locks were changed.
    pub(crate) fn changes(&self) -> u64 {
        self.at.node.locks(|locks| locks.records.changes())
    }

    /// The end of a lease was found: its event is raised when the turn closes.
    pub(crate) fn found_expired(&mut self) {
        self.news().events.push(Event::Expired);
    }

    /// A change was made: its events are raised when the turn closes.
    pub(crate) fn changed(&mut self, owner: Option<&[u8]>, change: &Change, performed: P::Performed) {
        let committed = self.at.committed(performed, owner, change);
        self.news().events.push(Event::Changed(change.clone(), committed));
    }

    fn news(&mut self) -> &mut News<P::Performed> {
        self.news.get_or_insert_default()
    }

    /// Wakes waiting Redisson clients when the turn closes: they try again, and learn another lease end.
    pub(crate) fn send_unlock_message(&mut self, message: UnlockMessage) {
        self.at.locks(|locks, lock| locks.records.forget_announced_end(lock));
        self.news().unlock_messages.push(message);
    }
}

impl<T> Default for News<T> {
    fn default() -> Self {
        Self { events: Vec::new(), unlock_messages: Vec::new() }
    }
}

impl<P: Server> At<'_, '_, P> {
    /// The facts for the events of a change that was made.
    #[inline(always)]
    pub(crate) fn committed(
        &self,
        performed: P::Performed,
        owner: Option<&[u8]>,
        change: &Change,
    ) -> Committed<P::Performed> {
        // A thousand names may be in vain: without waiters no lock has one of them.
        let is_watched = || self.node.locks(|locks| locks.is_watched());
        let gone = change.leases().gone.zip(owner).filter(|_| is_watched());
        let deleted_leases = gone.map_or_else(Vec::new, |((first, last), owner)| {
            (first..=last).map(|hold| names::read_lease_key(self.name().key, owner, hold)).collect()
        });
        Committed { performed, deleted_leases }
    }
}
