//! The Java programs: Redisson's releases and this project's client.
//!
//! Besides the lines of ../clients/process.rs they know these:
//!
//! | line | does | answer |
//! |---|---|---|
//! | `record KEY` | Redisson: acquires and releases some locks, while MONITOR records it | `0 0` |
//! | `field P T MS KEY` | P clients with connections of their own and T threads each take turns, and hold the lock for MS; one holds it until the next line | `0 0` |
//! | `span MS` | lets them | `HAND-OFFS AGAIN WALL-NS CPU-NS MEDIAN-NS`: `AGAIN` of them to the last holder; the median from a release to the next holder |
//! | `end` | ends the threads | `0 0` |

use std::path::PathBuf;
use std::process::Command;

use super::{Release, sources};
use crate::environment::peers_target;

/// A program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Java {
    Rlock,
    Redisson(Release),
}

/// Builds all of them; where that fails, says why they are left out.
pub(crate) fn build() -> Result<(), String> {
    let versions = Release::ALL.map(Release::version);
    let script = sources().join("../java.sh");
    let output = Command::new("sh").arg(script).arg(peers_target()).args(versions).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// A process for the server on this port.
pub(crate) fn java(program: Java, port: u16) -> Command {
    let folder = |name: &str| peers_target().join("java").join(name);
    let (folder, way): (PathBuf, &str) = match program {
        Java::Rlock => (folder("rlock"), "OfRlock"),
        Java::Redisson(release) => (folder(&format!("redisson-{}", release.version())), "OfRedisson"),
    };
    let (classes, libraries) = (folder.join("classes"), folder.join("lib/*"));
    let path = format!("{}:{}", classes.display(), libraries.display());
    let mut command = Command::new("java");
    command.args(["-cp", &path, "Worker", way]).arg(format!("redis://127.0.0.1:{port}"));
    command
}
