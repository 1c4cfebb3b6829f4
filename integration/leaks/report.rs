//! Valgrind's report.

use std::fmt::{self, Display, Formatter};

/// The module's library.
const OURS: &str = "librlock.so";

/// An error, or a block that was still there at the end.
pub(crate) struct Fault {
    kind: String,
    text: String,
    /// Where it happened or the block came from: functions and their libraries, the innermost first.
    frames: Vec<(String, String)>,
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.kind, self.text)?;
        self.frames.iter().try_for_each(|(function, library)| writeln!(f, "    {function} ({library})"))
    }
}

impl Fault {
    /// Whether it is a block that was still there at the end, and not a wrong access.
    pub(crate) fn is_loss(&self) -> bool {
        self.kind.starts_with("Leak_")
    }

    /// Whether it is a block that was allocated in a call of the module, and that no code can free any more.
    pub(crate) fn lost_by_us(&self) -> bool {
        let lost = ["Leak_DefinitelyLost", "Leak_IndirectlyLost"].contains(&self.kind.as_str());
        lost && self.frames.iter().any(|(_, library)| library.ends_with(OURS))
    }

    /// Whether it is a block that the module itself allocated: the caller of the server's allocator is its library.
    pub(crate) fn is_ours(&self) -> bool {
        let allocates =
            |function: &str, library: &str| function.contains("alloc") && !library.ends_with(OURS);
        let asked = self.frames.iter().find(|(function, library)| !allocates(function, library));
        self.is_loss() && asked.is_some_and(|(_, library)| library.ends_with(OURS))
    }

    /// Whether a function with `name` in its name is among its frames.
    pub(crate) fn is_in(&self, name: &str) -> bool {
        self.frames.iter().any(|(function, _)| function.contains(name))
    }
}

/// Panics with the first of the faults, if there are any.
#[track_caller]
pub(crate) fn assert_none(faults: &[&Fault]) {
    let first: String = faults.iter().take(3).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{} faults, the first ones:\n{first}", faults.len());
}

/// All that a report in valgrind's XML holds.
#[track_caller]
pub(crate) fn faults(report: &str) -> Vec<Fault> {
    assert!(
        report.trim_end().ends_with("</valgrindoutput>"),
        "valgrind's report is cut off: is the server that it was given a script?"
    );
    let fault = |error: &str| {
        let stack = between(error, "stack").unwrap_or_default();
        let frames = all_between(stack, "frame").map(|frame| {
            let part =
                |name| between(frame, name).unwrap_or_default().replace("&lt;", "<").replace("&gt;", ">");
            (part("fn"), part("obj"))
        });
        let text = between(error, "text").or(between(error, "what")).unwrap_or_default();
        Fault {
            kind: between(error, "kind").expect("every error has a kind").to_owned(),
            text: text.to_owned(),
            frames: frames.collect(),
        }
    };
    all_between(report, "error").map(fault).collect()
}

fn between<'a>(xml: &'a str, tag: &str) -> Option<&'a str> {
    all_between(xml, tag).next()
}

fn all_between<'a>(xml: &'a str, tag: &str) -> impl Iterator<Item = &'a str> {
    let (begin, end) = (format!("<{tag}>"), format!("</{tag}>"));
    let mut rest = xml;
    std::iter::from_fn(move || {
        let (_, from) = rest.split_once(&begin)?;
        let (inside, after) = from.split_once(&end)?;
        rest = after;
        Some(inside)
    })
}
