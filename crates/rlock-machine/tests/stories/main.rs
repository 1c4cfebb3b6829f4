//! The stories of the machine: `rlock-machine` plays each of them, and notices a story that is changed.

mod story;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use story::play;

fn stories() -> Vec<(PathBuf, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/conformance/machine");
    let files =
        [dir.join("one_trip"), dir.join("holds"), dir].into_iter().flat_map(|dir| fs::read_dir(dir).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn the_machine_plays_every_story() {
    let stories = stories();
    assert!(stories.len() > 70, "{} stories", stories.len());
    let differ = stories.iter().filter_map(|(path, text)| {
        play(text).err().map(|difference| format!("{}: {difference}\n", path.display()))
    });
    let differ: String = differ.collect();
    assert!(differ.is_empty(), "these differ:\n{differ}");
}

/// A check that cannot fail is a defect: each line's outputs and state count.
#[test]
fn every_line_of_a_story_counts() {
    for (path, text) in stories() {
        for changed in 1..text.lines().count() {
            for field in ["out", "state"] {
                let lines = text.lines().enumerate().map(|(number, line)| {
                    let mut line: Value = serde_json::from_str(line).unwrap();
                    if number == changed {
                        line[field] = if field == "out" { bend(&line[field]) } else { "bent".into() };
                    }
                    line.to_string() + "\n"
                });
                let bent: String = lines.collect();
                assert!(play(&bent).is_err(), "{}: {field} of line {}", path.display(), changed + 1);
            }
        }
    }
}

/// One output less, or one that never is.
fn bend(outputs: &Value) -> Value {
    let mut outputs = outputs.as_array().unwrap().clone();
    if outputs.pop().is_none() {
        outputs.push(serde_json::json!({"renewed": true}));
    }
    outputs.into()
}
