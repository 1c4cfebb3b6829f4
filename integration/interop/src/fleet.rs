//! A fleet of Redisson threads under load, replaced one by one by threads of the Java client, and back; the programs of the page
//! that says how to move; and what a hold costs before and after.

use std::path::{Path, PathBuf};
use std::{env, fs};

use rlock_testkit::TestServer;

use crate::figures;
use crate::parts::REDISSON;
use crate::place::{Outcome, Place, root, url};

/// Asks for the figures of the page in place of the test: `render` for the stored ones, anything else for new ones.
const DOC: &str = "RLOCK_FLEET_DOC";

/// The page, and the programs that it shows.
pub(crate) const PAGE: &str = "docs/clients/from-redisson.md";
const PROGRAMS: [&str; 3] = ["Before", "SameCode", "After"];

pub(crate) fn run() -> Outcome {
    let doc = env::var(DOC).unwrap_or_default();
    if doc == "render" {
        return figures::render();
    }
    let place = build()?;
    let server = TestServer::start();
    let java = |main: &str, arguments: &[&str]| {
        let arguments = [&["-cp", "classes:lib/*", main], arguments].concat();
        place.run_with("java", &arguments, &[url(&server)])
    };
    if !doc.is_empty() {
        let before = figures::load();
        java("rlock.fleet.Main", &["rounds.jsonl"])?;
        let rounds = fs::read_to_string(place.path("rounds.jsonl")).map_err(|error| error.to_string())?;
        return figures::store(&rounds, &server.version(), before);
    }
    java("rlock.fleet.Main", &[])?;
    PROGRAMS.iter().try_for_each(|program| java(program, &[]))
}

/// Builds the fleet with the client's sources and the programs of the page; the libraries are in `lib`.
pub(crate) fn build() -> Result<Place, String> {
    let place = Place::new("fleet");
    let (home, client, page) =
        (root().join("integration/fleet"), root().join("clients/java"), root().join(PAGE));
    let mut files = vec![home.join("pom.xml"), client.join("programs.awk"), page.clone()];
    for folder in [home.join("src/main/java/rlock/fleet"), client.join("src/main/java/rlock/client")] {
        files.extend(files_of(&folder)?);
    }
    let sources: String = files.iter().map(|file| fs::read_to_string(file).unwrap_or_default()).collect();
    let build = "rm -rf page classes && mkdir page && awk -v out=page -f \"$1/programs.awk\" \"$2\" && \
                 mvn --batch-mode --quiet -f \"$0\" -Dout=\"$PWD\" -Dredisson.version=\"$3\" compile >build.log 2>&1 \
                 || { code=$?; cat build.log; exit $code; }";
    let paths = [home.join("pom.xml"), client, page].map(|path| path.display().to_string());
    let [pom, client, page] = &paths;
    place.once(&sources, || place.run("sh", &["-c", build, pom, client, page, REDISSON]))?;
    Ok(place)
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let listing = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = listing.flatten().map(|file| file.path()).collect();
    files.sort();
    Ok(files)
}
