//! Redisson: its releases as processes, a recording of what they send, and an imitation of that for the load generator.
//!
//! The script texts come from the recording: the imitation sends the same bytes, and a difference is an error.

mod imitation;
mod measure;
mod process;
mod recording;
mod results;

use std::path::PathBuf;

use rlock_testkit::TestServer;

use crate::progress::Progress;
pub(crate) use imitation::{Imitation, channel, request};
pub(crate) use measure::run;
#[cfg(test)]
pub(crate) use measure::{FIELDS, Field};
pub(crate) use process::{Java, build, java};
#[cfg(test)]
pub(crate) use results::Pairs;
pub(crate) use results::Redissons;

/// A release of Redisson that stands for all that send the same commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    /// From 3.46 on: EVALSHA, and a latch that the client deletes after the release.
    Newest,
    /// From 3.24 to 3.45: EVAL with the whole script, and the latch.
    Eval,
    /// From 3.12 to 3.23: EVAL without a latch.
    NoLatch,
}

impl Release {
    /// All, the newest first.
    pub(crate) const ALL: [Release; 3] = [Release::Newest, Release::Eval, Release::NoLatch];

    /// The version that is measured and recorded.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Release::Newest => "4.7.0",
            Release::Eval => "3.45.1",
            Release::NoLatch => "3.22.1",
        }
    }

    /// The name in the results of what it sends.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Release::Newest => "redisson-evalsha-latch",
            Release::Eval => "redisson-eval-latch",
            Release::NoLatch => "redisson-eval",
        }
    }

    /// What it sends, for readers.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Release::Newest => "Redisson 3.46 to 4.7: EVALSHA, latch",
            Release::Eval => "Redisson 3.24 to 3.45: EVAL, latch",
            Release::NoLatch => "Redisson 3.12 to 3.23: EVAL",
        }
    }

    fn uses_digests(self) -> bool {
        self == Release::Newest
    }

    fn has_latch(self) -> bool {
        self != Release::NoLatch
    }
}

/// Records all releases on a server like those that are measured, and imitates them; nothing where Redisson cannot be
/// built. An imitation that differs from its recording is an error.
pub(crate) fn imitations(progress: &Progress) -> Result<Vec<Imitation>, String> {
    progress.show("Redisson: building its releases");
    if let Err(why) = build() {
        eprintln!("\nRedisson is left out, since it could not be built: {why}");
        return Ok(Vec::new());
    }
    let server = TestServer::start();
    let imitation = |release: Release| {
        progress.show(&format!("Redisson: recording {}", release.version()));
        recording::record(&server, release).and_then(|recording| Imitation::of(release, &recording))
    };
    Release::ALL.into_iter().map(imitation).collect()
}

/// The folder of the Java programs.
fn sources() -> PathBuf {
    crate::environment::root().join("lab/peers/java")
}
