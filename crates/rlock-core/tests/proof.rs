//! docs/PROOF.md and the code that it tells of.

use std::fs;

use rlock_core::bugs::Bug;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn read(path: &str) -> String {
    fs::read_to_string(format!("{ROOT}/{path}")).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// `make planted` remakes the table; this tells when that is due.
#[test]
fn every_planted_bug_stands_in_the_table_with_what_finds_it() {
    let (doc, script) = (read("docs/PROOF.md"), read("scripts/planted.sh"));
    let (_, doc) = doc.split_once("<!-- planted -->").expect("the table's beginning");
    let (table, _) = doc.split_once("<!-- end of planted -->").expect("the table's end");
    let rows: Vec<_> = table.lines().filter_map(|line| line.strip_prefix("| `")).collect();
    for (bug, name) in Bug::ALL {
        let row = rows.iter().find(|row| row.starts_with(&format!("{name}` |")));
        let row = row.unwrap_or_else(|| panic!("{name} is not in docs/PROOF.md: run `make planted`"));
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, _, proofs @ .., server_test, _] = &cells[..] else { panic!("{name}: {row}") };
        let found = proofs.contains(&"found") || server_test.starts_with('`');
        assert!(found, "nothing finds {bug:?}: {row}");
        assert!(!name.starts_with("edge-") || server_test.starts_with('`'), "no server test finds {bug:?}");
        assert!(script.contains(&format!("    {name}) ")), "scripts/planted.sh has no line for {name}");
    }
    let known = |row: &&str| Bug::ALL.iter().any(|(_, name)| row.starts_with(&format!("{name}` |")));
    let stale: Vec<_> = rows.iter().filter(|row| !known(row)).collect();
    assert!(stale.is_empty(), "docs/PROOF.md tells of bugs that are gone: {stale:?}");
}
