//! Reasons to check many locks: keys that changed without an event for each, slots that are on another server, a step of the
//! clock, the ten-second check of fair lists and running waits. They are processed a few locks at a time.

use std::collections::VecDeque;

use super::{Cause, LockName, LockRef};
use crate::slots::SlotSet;

/// One database or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Databases {
    /// All of them.
    All,
    /// The database with this number.
    One(i32),
}

/// Why many locks must be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Keys of these databases were created or removed without an event for each.
    Keys(Databases, Cause),
    /// SWAPDB: the keys of this database were exchanged with those of another one.
    Swapped {
        /// The database whose locks are swept.
        db: i32,
        /// The database where its keys are now.
        with: i32,
    },
    /// The locks in these slots are on another server.
    SlotsMoved(SlotSet),
    /// The wall clock was set forward or back.
    Clock,
    /// Ten seconds have gone by: fair lists may have changed without an event, and waiters have waited.
    Periodic,
}

/// The sweeps that are under way or pending, none of them twice. A sweep that is requested again while it is under way is repeated
/// once after that, so that each lock is checked however often it is requested. All slots on other servers are one sweep.
#[derive(Clone, Debug, Default)]
pub struct Sweeps {
    under_way: Option<UnderWay>,
    to_come: VecDeque<Sweep>,
}

/// A sweep, and how far it is.
#[derive(Clone, Debug)]
pub(super) struct UnderWay {
    pub(super) sweep: Sweep,
    /// The lock that was swept last.
    pub(super) after: Option<LockRef>,
    /// SWAPDB: the lock whose owners are leaving its fair list, and the last of them.
    pub(super) owner: Option<(LockRef, Box<[u8]>)>,
}

/// From this number of sweeps on, a SWAPDB that is still to come is not planned again: each exchange moves entries on, but a
/// client must not fill the memory.
const MANY: usize = 64;

impl Sweeps {
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_none() && self.to_come.is_empty()
    }

    pub(super) fn add(&mut self, sweep: Sweep) {
        match sweep {
            Sweep::SlotsMoved(slots) => match self.to_come.iter_mut().find_map(Sweep::slots) {
                Some(others) => others.add(&slots),
                None => self.to_come.push_back(Sweep::SlotsMoved(slots)),
            },
            sweep if self.is_planned(&sweep) => {}
            sweep => self.to_come.push_back(sweep),
        }
    }

    fn is_planned(&self, sweep: &Sweep) -> bool {
        let moves_on = matches!(sweep, Sweep::Swapped { .. }) && self.to_come.len() < MANY;
        // The two sweeps of the last SWAPDB, whose databases were exchanged once more before they began.
        let last = self.to_come.iter().rev().take(2);
        if moves_on { last.into_iter().any(|last| last == sweep) } else { self.to_come.contains(sweep) }
    }

    fn all(&self) -> impl Iterator<Item = &Sweep> {
        self.under_way.as_ref().map(|at| &at.sweep).into_iter().chain(&self.to_come)
    }

    /// Takes the sweep that is under way, or the next one.
    pub(super) fn take_next(&mut self) -> Option<UnderWay> {
        let next = || self.to_come.pop_front().map(|sweep| UnderWay { sweep, after: None, owner: None });
        self.under_way.take().or_else(next)
    }

    /// This sweep continues later, if it is not over.
    pub(super) fn continue_later(&mut self, at: Option<UnderWay>) {
        self.under_way = at;
    }

    /// Whether fair lists may be in another database than their waiters.
    pub fn exchanges_lists(&self) -> bool {
        self.all().any(|sweep| matches!(sweep, Sweep::Swapped { .. }))
    }

    /// The databases to which SWAPDB has moved the keys of this one, and whose locks were not swept since.
    pub(super) fn exchanged_with(&self, db: i32) -> Vec<i32> {
        let with = |sweep: &Sweep| match sweep {
            Sweep::Swapped { db: swept, with } if *swept == db => Some(*with),
            _ => None,
        };
        self.all().filter_map(with).collect()
    }

    /// The position of the sweep, for the model checker: the lock that was swept last.
    pub(super) fn position(&self, number: &dyn Fn(LockName<'_>) -> i64) -> [i64; 3] {
        let last = self.under_way.as_ref().and_then(|at| at.after.as_ref());
        let to_come = i64::try_from(self.to_come.len()).unwrap_or(i64::MAX);
        [self.under_way.is_some().into(), last.map_or(-1, |last| number(last.name())), to_come]
    }
}

impl Sweep {
    fn slots(&mut self) -> Option<&mut SlotSet> {
        match self {
            Self::SlotsMoved(slots) => Some(slots),
            Self::Keys(..) | Self::Swapped { .. } | Self::Clock | Self::Periodic => None,
        }
    }

    pub(super) fn databases(&self) -> Databases {
        match self {
            Self::Keys(databases, _) => *databases,
            Self::Swapped { db, .. } => Databases::One(*db),
            Self::SlotsMoved(_) | Self::Clock | Self::Periodic => Databases::All,
        }
    }
}
