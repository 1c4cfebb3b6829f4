//! The queue of a lock at two hand-offs: to a blocked waiter, and to an enqueued one.

use crate::picture::Picture;

const PANEL: u32 = 226;
const INNER: u32 = PANEL - 24;

/// One moment: the key's content, the waiters, and the messages that led to it.
struct Moment {
    heading: &'static str,
    command: &'static str,
    holder: &'static str,
    colour: &'static str,
    queue: &'static [[&'static str; 2]],
    sent: &'static [(&'static str, &'static str)],
}

const MOMENTS: [Moment; 3] = [
    Moment {
        heading: "1 alice:1 holds",
        command: "",
        holder: "{ alice:1 → 1 }",
        colour: "green",
        queue: &[["bob:1", "BLOCK"], ["carol:1", "ENQUEUE news"]],
        sent: &[("strong", "No polling"), ("", "bob:1 is blocked."), ("", "carol:1 listens on news.")],
    },
    Moment {
        heading: "2 alice:1 releases",
        command: "RELEASE invoice:7 alice:1",
        holder: "{ bob:1 → 1 }",
        colour: "blue",
        queue: &[["carol:1", "ENQUEUE news"]],
        sent: &[
            ("strong", "Reply to alice:1"),
            ("code", "1"),
            ("strong", "Reply to bob:1"),
            ("code", "[1, 30000, 0]"),
        ],
    },
    Moment {
        heading: "3 bob:1 releases",
        command: "RELEASE invoice:7 bob:1",
        holder: "{ carol:1 → 1 }",
        colour: "amber",
        queue: &[],
        sent: &[
            ("strong", "Message on news"),
            ("code", "granted 0 carol:1"),
            ("code", "invoice:7 1 5000 0"),
            ("small", "confirm by RENEW within 5 s"),
        ],
    },
];

pub(crate) fn picture() -> Picture {
    let mut picture = Picture::new(
        440,
        "A release hands the lock to the first waiter",
        "Three moments of one lock. First alice holds it, bob waits with BLOCK and carol with ENQUEUE. When alice \
         releases, bob holds it, and learns it by the reply to his command. When bob releases, carol holds it, and learns it by a \
         message on her channel, which she confirms.",
    );
    for (index, moment) in (0..).zip(&MOMENTS) {
        panel(&mut picture, 24 + index * (PANEL + 17), moment);
        if index > 0 {
            let x = 24 + index * (PANEL + 17);
            picture.arrow(&[[x - 16, 156], [x - 1, 156]], "");
        }
    }
    picture.lines(
        24,
        400,
        "small",
        &[
            "One step on the server; one transaction (DEL, HSET, PEXPIREAT) for replicas and the AOF.",
            "A lease end, DEL and every other way to free a lock serve the same queue.",
        ],
    );
    picture
}

fn panel(picture: &mut Picture, x: u32, moment: &Moment) {
    let inner = x + 12;
    picture.rect([x, 54, PANEL, 318], "box");
    picture.text(inner, 79, "strong", moment.heading);
    if !moment.command.is_empty() {
        picture.text(inner, 102, "code", moment.command);
    }
    picture.text(inner, 132, "small", "the key invoice:7");
    let words = format!("code of-{}", moment.colour);
    picture.bar([inner, 140, INNER, 32], moment.colour, &words, moment.holder);
    picture.text(inner, 200, "small", "its queue");
    for (index, [owner, how]) in (0..).zip(moment.queue) {
        let y = 208 + index * 32;
        picture.rect([inner, y, INNER, 26], "waits");
        picture.text(inner + 10, y + 18, "code", owner);
        picture.text(inner + 84, y + 18, "code", how);
    }
    if moment.queue.is_empty() {
        picture.bar([inner, 208, INNER, 26], "none", "small", "empty");
    }
    for (index, (class, text)) in (0..).zip(moment.sent) {
        picture.text(inner, 300 + index * 20, class, text);
    }
}
