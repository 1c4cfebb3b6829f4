//! A fail-over that loses a lock, and what helps.

use crate::picture::Picture;

/// The lines of the four sides.
const A: u32 = 96;
const OLD: u32 = 290;
const NEW: u32 = 480;
const B: u32 = 664;

const TOP: u32 = 86;
const DIES: u32 = 212;
const BOTH: u32 = 318;
const ENDS: u32 = 402;

pub(crate) fn picture() -> Picture {
    let mut picture = Picture::new(
        600,
        "A fail-over can lose a lock",
        "Client A acquires a lock on the primary. The primary answers, and dies before the replica has the lock. The \
         replica is promoted, and client B acquires the same lock there. Both believe that they hold it until A renews. WAIT, \
         min-replicas-to-write and fencing tokens each help in part.",
    );
    sides(&mut picture);
    lost(&mut picture);
    remedies(&mut picture);
    picture
}

fn sides(picture: &mut Picture) {
    let sides = [(A, "client A"), (OLD, "primary"), (NEW, "replica"), (B, "client B")];
    for (x, name) in sides {
        picture.bar([x - 52, 54, 104, 28], "box", "strong", name);
        let end = if x == OLD { DIES } else { ENDS };
        picture.line(&[[x, TOP], [x, end]], "thin dashed");
    }
}

fn lost(picture: &mut Picture) {
    arrow(picture, A, OLD, 110, "ACQUIRE … FENCED");
    arrow(picture, OLD, A, 144, "holds, token 33");
    picture.rect([A - 6, 144, 12, BOTH - 144], "green");
    picture.arrow(&[[OLD + 8, 178], [NEW - 66, 178]], "red dashed");
    picture.cross(NEW - 54, 178);
    picture.text(OLD + 18, 170, "small", "effect not sent");
    picture.cross(OLD, DIES);
    picture.text(OLD + 18, DIES + 5, "strong of-red", "dies");
    picture.bar([NEW - 64, 230, 128, 28], "amber", "strong", "promoted");
    arrow(picture, B, NEW, 284, "ACQUIRE … FENCED");
    arrow(picture, NEW, B, BOTH, "holds, token 34");
    picture.rect([A - 6, BOTH, 12, 66], "doubt");
    picture.rect([B - 6, BOTH, 12, ENDS - BOTH], "blue");
    picture.text(A + 18, BOTH + 5, "strong of-red", "from here on two owners believe");
    picture.text(A + 18, BOTH + 25, "strong of-red", "that they hold the lock");
    picture.arrow(&[[A + 8, 378], [NEW - 8, 378]], "");
    picture.centred((OLD + NEW) / 2, 371, "code", "RENEW → 0");
    picture.text(A + 18, 398, "small", "A learns that its lock is lost.");
}

/// An arrow between two sides, with words above it.
fn arrow(picture: &mut Picture, from: u32, to: u32, y: u32, text: &str) {
    let (begin, end) = if from < to { (from + 8, to - 8) } else { (from - 8, to + 8) };
    picture.arrow(&[[begin, y], [end, y]], "");
    picture.centred(from.midpoint(to), y - 7, "small", text);
}

fn remedies(picture: &mut Picture) {
    let remedies: [(&str, &[&str]); 3] = [
        (
            "WAIT after ACQUIRE",
            &[
                "A counts on the lock when",
                "a replica has it. If that",
                "replica is promoted,",
                "nothing is lost.",
            ],
        ),
        (
            "min-replicas-to-write",
            &["A primary that is cut off", "stops granting locks after", "min-replicas-max-lag."],
        ),
        ("Fencing tokens", &["The resource has seen 34.", "It refuses A's late write,", "which carries 33."]),
    ];
    picture.text(24, 440, "strong", "What helps");
    for (index, (name, lines)) in (0..).zip(remedies) {
        let x = 24 + index * 243;
        picture.rect([x, 454, 226, 120], if index == 2 { "green" } else { "box" });
        picture.text(x + 12, 480, "strong", name);
        picture.lines(x + 12, 504, "small", lines);
    }
}
