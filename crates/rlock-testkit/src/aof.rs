//! Reads what a server persisted in its append only file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Command;
use crate::frame::parse;

/// The commands in a server's append only file, in order, without `SELECT`.
///
/// `dir` is the server's directory. With `appendfsync always`, the kit's default, a server writes its file
/// before it replies: a command that was answered is in the file. A base in the snapshot format is skipped, a base
/// of commands (`aof-use-rdb-preamble no`) is included; an incomplete last command is ignored.
#[must_use]
#[track_caller]
pub fn aof_commands(dir: &Path) -> Vec<Command> {
    let mut commands = aof_all_commands(dir);
    commands.retain(|command| !command[0].eq_ignore_ascii_case(b"SELECT"));
    commands
}

/// Like [`aof_commands`], with `SELECT`.
#[must_use]
#[track_caller]
pub fn aof_all_commands(dir: &Path) -> Vec<Command> {
    let files = aof_files(dir);
    let read = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        commands(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    files.iter().flat_map(read).collect()
}

/// The files to read in order: by the manifest of Redis 7, or the single one of Redis 6.
fn aof_files(dir: &Path) -> Vec<PathBuf> {
    let directories = entries(dir).into_iter().filter(|path| path.is_dir());
    let is_manifest = |path: &PathBuf| path.to_string_lossy().ends_with(".aof.manifest");
    let manifest = directories.flat_map(|path| entries(&path)).find(is_manifest);
    if let Some(manifest) = manifest {
        let text = fs::read_to_string(&manifest).expect("reading the manifest");
        return text.lines().filter_map(listed_file).map(|name| manifest.with_file_name(name)).collect();
    }
    let single: Vec<PathBuf> =
        entries(dir).into_iter().filter(|path| path.extension().is_some_and(|e| e == "aof")).collect();
    assert!(!single.is_empty(), "no append only file in {}: start with appendonly yes", dir.display());
    single
}

/// The file a line of the manifest names, unless it is a historical one.
fn listed_file(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let value = |name| Some(*words.get(words.iter().position(|word| *word == name)? + 1)?);
    (value("type")? != "h").then_some(value("file")?)
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let listing = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    listing.map(|entry| entry.expect("a directory entry").path()).collect()
}

fn commands(mut bytes: &[u8]) -> Result<Vec<Command>, String> {
    let mut commands = Vec::new();
    if bytes.starts_with(b"REDIS") || bytes.starts_with(b"VALKEY") {
        return Ok(commands);
    }
    while !bytes.is_empty() {
        if bytes.starts_with(b"#") {
            let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
            bytes = &bytes[end..];
            continue;
        }
        let Some((frame, length)) = parse(bytes).map_err(|error| error.to_string())? else { break };
        commands.push(frame.into_words().ok_or("an entry that is not a command")?);
        bytes = &bytes[length..];
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_and_an_incomplete_end_are_skipped() {
        let bytes = b"#TS:1\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n#TS:2\r\n*1\r\n$4\r\nPI";
        assert_eq!(commands(bytes).unwrap(), [vec![b"GET".to_vec(), b"a".to_vec()]]);
        assert!(commands(b"REDIS0011").unwrap().is_empty());
        assert!(commands(b"junk\r\n").is_err());
    }

    #[test]
    fn the_manifest_names_what_counts() {
        assert_eq!(listed_file("file a.1.base.rdb seq 1 type b"), Some("a.1.base.rdb"));
        assert_eq!(listed_file("file a.1.incr.aof seq 1 type i"), Some("a.1.incr.aof"));
        assert_eq!(listed_file("file a.0.incr.aof seq 0 type h"), None);
    }
}
