//! The instructions that `make cost STORE=1` has counted, of each server.

use std::fs;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::environment::root;

/// Of one server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Instructions {
    pub(crate) server: String,
    pub(crate) commit: String,
    pub(crate) date: String,
    pub(crate) in_flight: usize,
    ways: Vec<Way>,
    /// Two commands that do next to nothing.
    pub(crate) two_commands: f64,
    permits: Vec<Permits>,
}

/// An acquire and a release, and SET NX PX and DEL under the same conditions.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Way {
    way: String,
    pub(crate) rlock: f64,
    /// Those of the module's own code.
    pub(crate) own: f64,
    /// Those of the calls by which it gives its effects to the server.
    pub(crate) effects: f64,
    pub(crate) set_del: f64,
}

/// An acquire and a release of a permit while others hold some.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Permits {
    others: usize,
    rlock: f64,
}

impl Instructions {
    /// Under these conditions.
    pub(crate) fn way(&self, name: &str) -> Option<&Way> {
        self.ways.iter().find(|way| way.way == name)
    }
}

impl Way {
    /// To SET NX PX and DEL.
    pub(crate) fn ratio(&self) -> f64 {
        self.rlock / self.set_del
    }
}

/// All that are stored in a folder of docs/bench, a file for each server; none if the folder is missing.
pub(crate) fn load<T: DeserializeOwned>(folder: &str) -> Result<Vec<T>, String> {
    let folder = root().join("docs/bench").join(folder);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let listing = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = listing.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let of_file =
            |error: String| format!("{}: {error}; remake it by `make cost STORE=1`", path.display());
        let text = fs::read_to_string(path).map_err(|error| of_file(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| of_file(error.to_string()))
    };
    paths.iter().map(read).collect()
}
