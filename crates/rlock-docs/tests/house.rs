//! The picture of the house shows parts of the repository, and imports between them, that exist.

use std::path::Path;

/// The arrows between crates: the importer, and the crate that it imports.
const IMPORTS: [(&str, &str); 8] = [
    ("crates/rlock-cli", "rlock-client"),
    (".", "rlock-core"),
    ("crates/rlock-sim", "rlock-core"),
    ("crates/rlock-oracle", "rlock-sim"),
    ("model", "rlock-sim"),
    ("fuzz", "rlock-oracle"),
    (".", "rlock-testkit"),
    ("lab", "rlock-testkit"),
];

#[test]
fn the_parts_and_their_imports_are_those_of_the_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let manifest = |part: &str| read(&format!("{part}/Cargo.toml"));
    for (part, other) in IMPORTS {
        assert!(manifest(part).contains(&format!("\n{other}")), "{part} does not import {other}");
    }
    let core = manifest("crates/rlock-core");
    let own = core.split("[dev-dependencies]").next().unwrap();
    assert!(!own.contains("\nrlock-"), "rlock-core imports a part of the project");
    let picture = read("docs/pictures/house.svg");
    let texts = picture.lines().filter_map(|line| line.strip_suffix("</text>")?.rsplit_once('>'));
    let mut parts = 0;
    for (_, text) in texts {
        let in_module = ["command/", "perform.rs", "waiters.rs", "server_events.rs", "ffi/"].contains(&text);
        if in_module || text.starts_with("crates/") || ["model", "fuzz", "lab"].contains(&text) {
            let folder = if in_module { root.join("src") } else { root.to_path_buf() };
            assert!(folder.join(text).exists(), "there is no {text}");
            parts += 1;
        }
    }
    assert_eq!(parts, 13);
}
