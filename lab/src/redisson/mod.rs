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

use crate::named::named;
use crate::progress::Progress;
pub(crate) use imitation::{Imitation, channel, request};
pub(crate) use measure::run;
#[cfg(test)]
pub(crate) use measure::{FIELDS, Field};
pub(crate) use process::{Java, build, java};
#[cfg(test)]
pub(crate) use results::Pairs;
pub(crate) use results::Redissons;

named! {
    /// A release of Redisson that stands for all that send the same commands.
    enum Release {
        /// From 3.46 on: EVALSHA, and a latch that the client deletes after the release.
        Newest = "redisson-evalsha-latch", "Redisson 3.46 to 4.7: EVALSHA, latch";
        /// From 3.24 to 3.45: EVAL with the whole script, and the latch.
        Eval = "redisson-eval-latch", "Redisson 3.24 to 3.45: EVAL, latch";
        /// From 3.12 to 3.23: EVAL without a latch.
        NoLatch = "redisson-eval", "Redisson 3.12 to 3.23: EVAL";
    }
}

impl Release {
    /// The version that is measured and recorded.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Release::Newest => "4.7.0",
            Release::Eval => "3.45.1",
            Release::NoLatch => "3.22.1",
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
