//! A lock's life: its beginning, middle and end, and the view of each side.

use crate::picture::Picture;

/// Where the lanes begin and end.
const LEFT: u32 = 120;
const RIGHT: u32 = 736;

/// When the first owner acquires, and the second begins to wait.
const ACQUIRED: u32 = 190;
const ASKED: u32 = 262;

const LANE: u32 = 28;

pub(crate) fn picture() -> Picture {
    let mut picture = Picture::new(
        572,
        "The life of a lock",
        "Three timelines of one lock, each with what its owner believes, what the key holds and what a waiter sees. \
         Released: the release hands the lock to the waiter. Expired: the owner stops renewing, and the waiter holds the \
         lock when the lease ends. Lost: the lock is taken away, and two owners believe that they hold it until the \
         first one renews.",
    );
    released(&mut picture, 62);
    expired(&mut picture, 232);
    lost(&mut picture, 402);
    picture
}

/// One way in which a hold ends: its name, and the lanes of the three sides.
struct Row<'a> {
    picture: &'a mut Picture,
    top: u32,
}

impl<'a> Row<'a> {
    fn begin(picture: &'a mut Picture, top: u32, name: &str, class: &str) -> Self {
        picture.text(24, top + 12, &format!("strong {class}"), name);
        let mut row = Self { picture, top };
        for (lane, side) in ["alice:1", "invoice:7", "bob:1"].into_iter().enumerate() {
            let y = row.y(lane) + 19;
            row.picture.text(24, y, "code", side);
        }
        row.bar(1, LEFT, ACQUIRED, "none", "small", "free");
        row.command(ACQUIRED, "ACQUIRE");
        row
    }

    fn y(&self, lane: usize) -> u32 {
        self.top + 22 + (LANE + 6) * lane as u32
    }

    /// A bar in a lane: 0 the owner, 1 the key, 2 the waiter.
    fn bar(&mut self, lane: usize, from: u32, to: u32, class: &str, words: &str, text: &str) {
        let y = self.y(lane);
        self.picture.bar([from, y, to - from, LANE], class, words, text);
    }

    /// A command, above the moment at which it is performed.
    fn command(&mut self, x: u32, text: &str) {
        self.moment(x, "code", text);
    }

    fn moment(&mut self, x: u32, class: &str, text: &str) {
        let (top, bottom) = (self.y(0) - 4, self.y(2) + LANE);
        self.picture.line(&[[x, top], [x, bottom]], "thin dashed");
        self.picture.centred(x, self.top + 12, class, text);
    }

    fn note(&mut self, text: &str) {
        let y = self.y(2) + LANE + 23;
        self.picture.text(LEFT, y, "small", text);
    }
}

fn released(picture: &mut Picture, top: u32) {
    let (renewed, end) = (360, 520);
    let mut row = Row::begin(picture, top, "Released", "of-green");
    row.command(renewed, "RENEW");
    row.command(end, "RELEASE");
    row.bar(0, ACQUIRED, end, "green", "of-green", "holds");
    row.bar(1, ACQUIRED, end, "green", "code of-green", "{ alice:1 → 1 }, expiry");
    row.bar(1, end, RIGHT, "blue", "code of-blue", "{ bob:1 → 1 }, expiry");
    row.bar(2, ASKED, end, "waits", "of-blue", "waits (BLOCK)");
    row.bar(2, end, RIGHT, "blue", "of-blue", "holds");
    row.note("The release hands the lock to the first waiter. It is never free in between.");
}

fn expired(picture: &mut Picture, top: u32) {
    let (renewed, stopped, end) = (320, 400, 560);
    let mut row = Row::begin(picture, top, "Expired", "of-blue");
    row.command(renewed, "RENEW");
    row.moment(end, "small", "lease end");
    row.bar(0, ACQUIRED, stopped, "green", "of-green", "holds");
    row.bar(0, stopped, end, "none", "small", "crashed");
    row.bar(1, ACQUIRED, end, "green", "code of-green", "{ alice:1 → 1 }, expiry");
    row.bar(1, end, RIGHT, "blue", "code of-blue", "{ bob:1 → 1 }");
    row.bar(2, ASKED, end, "waits", "of-blue", "waits");
    row.bar(2, end, RIGHT, "blue", "of-blue", "holds");
    let y = row.y(0) + LANE / 2;
    row.picture.cross(stopped, y);
    row.note("The lease ends without RENEW. Within 2 ms the first waiter holds the lock.");
}

fn lost(picture: &mut Picture, top: u32) {
    let (taken, told) = (400, 580);
    let mut row = Row::begin(picture, top, "Lost", "of-red");
    row.command(taken, "DEL, FORCERELEASE");
    row.command(told, "RENEW → 0");
    row.bar(0, ACQUIRED, taken, "green", "of-green", "holds");
    row.bar(0, taken, told, "doubt", "of-red", "believes it holds");
    row.bar(0, told, RIGHT, "none", "small", "stops its work");
    row.bar(1, ACQUIRED, taken, "green", "code of-green", "{ alice:1 → 1 }");
    row.bar(1, taken, RIGHT, "blue", "code of-blue", "{ bob:1 → 1 }, expiry");
    row.bar(2, ASKED, taken, "waits", "of-blue", "waits");
    row.bar(2, taken, RIGHT, "blue", "of-blue", "holds");
    row.note("Two owners, until alice:1 renews. A fencing token refuses its late writes.");
}
