//! A server in callgrind, and the file that it writes.

use std::thread;
use std::time::Duration;

use rlock_testkit::{ServerBuilder, TestServer, valgrind};

/// The file, in the server's directory.
pub(crate) const FILE: &str = "counted";

/// Some beats of the server: at the first one, the module learns that effects have no readers.
const BEATS: Duration = Duration::from_millis(500);

/// rlock, and the module that decides nothing.
const MODULES: [&str; 2] = ["librlock", "libbare"];

/// Starts the server in callgrind with these options besides.
#[track_caller]
pub(crate) fn start(builder: ServerBuilder, options: &str) -> TestServer {
    // By default, most lines have a number in place of a name.
    let usual =
        format!("--tool=callgrind --trace-children=yes --compress-strings=no --callgrind-out-file={FILE}");
    let server = valgrind::start(builder, &format!("{usual} {options}"));
    thread::sleep(BEATS);
    server
}

/// Instructions and calls.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Profile {
    pub(crate) all: f64,
    /// Those of the module's own code.
    pub(crate) own: f64,
    /// Those of the calls by which it gives its effects to the server, for the AOF and the replicas.
    pub(crate) effects: f64,
    /// The number of times that it opened a key.
    pub(crate) key_opens: f64,
}

impl Profile {
    #[track_caller]
    pub(crate) fn of(text: &str) -> Profile {
        let mut profile = Profile::default();
        let (mut is_module, mut is_call, mut callee) = (false, false, "");
        for line in text.lines() {
            if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
                let cost = line.split(' ').nth(1).map_or(0.0, number);
                // Redis has RM_Replicate, Valkey VM_Replicate.
                profile.own += if is_module && !is_call { cost } else { 0.0 };
                profile.effects += if is_call && callee.ends_with("M_Replicate") { cost } else { 0.0 };
                is_call = false;
                continue;
            }
            match line.split_once(['=', ':']) {
                Some(("ob", object)) => is_module = MODULES.iter().any(|module| object.contains(module)),
                Some(("cfn", function)) => callee = function,
                Some(("calls", calls)) => {
                    // The next line has the cost of the called function.
                    is_call = true;
                    let calls = calls.split(' ').next().map_or(0.0, number);
                    profile.key_opens += if callee.ends_with("M_OpenKey") { calls } else { 0.0 };
                }
                Some(("totals", total)) => profile.all = total.split_whitespace().next().map_or(0.0, number),
                _ => {}
            }
        }
        assert!(profile.all > 0.0, "callgrind's total");
        profile
    }

    /// Of one among this number of repetitions.
    pub(crate) fn per(self, count: usize) -> Profile {
        let of = |figure: f64| figure / count as f64;
        let Profile { all, own, effects, key_opens } = self;
        Profile { all: of(all), own: of(own), effects: of(effects), key_opens: of(key_opens) }
    }
}

#[track_caller]
fn number(digits: &str) -> f64 {
    digits.parse().unwrap_or_else(|error| panic!("{digits}: {error}"))
}
