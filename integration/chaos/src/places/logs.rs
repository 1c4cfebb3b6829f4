//! What the module writes to the servers' logs.

use std::path::Path;

/// The log's name in the directory of a server.
const FILE: &str = "server.log";

/// The text before each line that the module logs, which are warnings only.
const WARNING: &str = " rlock: ";

/// The log of a server that was killed, by its directory.
pub(super) fn read(directory: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(directory.join(FILE)).expect("the log")).into_owned()
}

/// The module's warnings: a panic that was caught, an effect that was not replicated. Nothing excuses a warning.
pub(super) fn warnings(log: &str) -> impl Iterator<Item = String> {
    log.lines().filter_map(|line| Some(line.split_once(WARNING)?.1.to_owned()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn warnings_are_found_in_a_log() {
        let log = "1:M 22 Nov 2026 10:00:00.000 * Module 'rlock' loaded from librlock.so\n\
                   1:M 22 Nov 2026 10:00:00.001 # Server initialized\n\
                   1:M 22 Nov 2026 10:00:00.002 # <module> rlock: panic in a Command callback\n";
        assert_eq!(super::warnings(log).collect::<Vec<_>>(), ["panic in a Command callback"]);
    }
}
