//! Whether an owner could have a lock now, if it were its turn.

use crate::bugs::{Bug, planted};
use crate::look::{Picture, look};
use crate::port::{Server, Site};
use crate::types::{Expiry, Mode};
use crate::view::{Kind, Need, Others, View};
use crate::yielding;

/// Whether one who waits for a lock can have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nobody holds it.
    Free,
    /// It can join those who hold it.
    Shared,
    /// Not before then.
    Until(Expiry),
}

/// Who waits first, and for what.
pub(crate) fn head<S: Site>(site: &S) -> Option<(Box<[u8]>, Mode)> {
    let lock = site.lock();
    site.server().locks(|locks| locks.head(lock).map(|head| (head.owner.clone(), head.mode)))
}

/// Whether this owner could have the lock in this mode, if it were its turn.
pub(crate) fn access<S: Site>(site: &S, owner: &[u8], mode: Mode) -> Access {
    access_and(site, owner, mode, |_| {})
}

/// The same, and removes the dead readers that the look finds before a living one. Writing must be allowed.
pub(crate) fn access_and_bury<S: Site>(site: &S, owner: &[u8], mode: Mode) -> Access {
    access_and(site, owner, mode, |picture| picture.bury())
}

fn access_and<S: Site>(site: &S, owner: &[u8], mode: Mode, then: impl FnOnce(Picture<'_, S>)) -> Access {
    // To a writer its own reads are in the way as well.
    let (owner, need) = if mode == Mode::Write { (None, Need::AnyOther) } else { (Some(owner), Need::Mine) };
    let view = look(site, owner, need).map(|picture| {
        let view = *picture.view();
        then(picture);
        view
    });
    match view {
        Ok(view) => access_to(site, &view, mode),
        // The key holds something else for a while.
        Err(_) => Access::Until(site.expiry(&site.open())),
    }
}

fn access_to<S: Site>(site: &S, view: &View, mode: Mode) -> Access {
    match (mode, view.kind, view.others) {
        _ if view.is_free_for(mode) => Access::Free,
        (Mode::Read, Kind::Reading, _) => shared_access(site, view),
        (Mode::Read, Kind::Writing, _) if view.sole.is_some() => shared_access(site, view),
        (Mode::Write, Kind::Reading, Others::Live { until, .. }) if !planted(Bug::DeadReaderBlocks) => {
            Access::Until(until.sooner(view.key_end))
        }
        _ => Access::Until(view.key_end),
    }
}

fn shared_access<S: Site>(site: &S, view: &View) -> Access {
    let kept_out = yielding::held_back_for(site).filter(|_| {
        let reads = planted(Bug::ForeignWriterBehindDead) && view.reads().is_some();
        !reads && !view.holds_any()
    });
    match kept_out {
        Some(left) => Access::Until(Expiry::At(site.server().now().after(left)).sooner(view.key_end)),
        None => Access::Shared,
    }
}
