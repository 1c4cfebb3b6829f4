//! The figures of `make cost STORE=1`, as integration/cost/store.rs writes them: a file for each server.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::environment::root;

/// All that are stored in a folder of docs/bench; none if the folder is missing.
pub(crate) fn load(folder: &str) -> Result<Vec<Value>, String> {
    let folder = root().join("docs/bench").join(folder);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let listing = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = listing.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let of_file =
            |error: String| format!("{}: {error}; remake it by `make cost STORE=1`", path.display());
        let text = fs::read_to_string(path).map_err(|error| of_file(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| of_file(error.to_string()))
    };
    paths.iter().map(read).collect()
}

/// A figure of one of the ways that were counted.
pub(crate) fn figure(counted: &Value, way: &str, name: &str) -> Option<f64> {
    counted["ways"].as_array()?.iter().find(|one| one["way"] == way)?[name].as_f64()
}
