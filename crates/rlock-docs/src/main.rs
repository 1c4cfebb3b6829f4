//! The pictures and the site of rlock's documentation; `make docs` runs it, by scripts/docs.sh.

mod look;
mod picture;
mod pictures;
mod site;
mod targets;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use site::Plots;

const USAGE: &str = "usage: rlock-docs pictures                draw docs/pictures
       rlock-docs targets                 show docs/targets.tsv in docs/INSTALL.md
       rlock-docs stage FOLDER REPOSITORY with-plots|without-plots
                                          put pages together for mdBook; the address may be empty
       rlock-docs check SITE               look up every link of the site
       rlock-docs look BROWSER SITE SHOTS  check every page and picture, at two widths";

/// The repository.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own).to_path_buf()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("docs: {text}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), String> {
    match arguments {
        ["pictures"] => pictures::write(&root()),
        ["targets"] => targets::write(&root()),
        ["stage", folder, repository, "with-plots"] => {
            site::stage(&root(), Path::new(folder), repository, Plots::Shown)
        }
        ["stage", folder, repository, "without-plots"] => {
            site::stage(&root(), Path::new(folder), repository, Plots::LeftOut)
        }
        ["check", folder] => {
            let (links, faults) = site::check(&site::Built::read(Path::new(folder))?);
            all_well(&format!("{links} links lead somewhere"), &faults)
        }
        ["look", browser, folder, shots] => {
            let (looks, faults) = look::look(browser, &root(), Path::new(folder), Path::new(shots))?;
            all_well(&format!("{looks} looks in a browser, screenshots in {shots}"), &faults)
        }
        _ => Err(USAGE.into()),
    }
}

fn all_well(what: &str, faults: &[String]) -> Result<(), String> {
    if faults.is_empty() {
        println!("docs: {what}");
        return Ok(());
    }
    Err(format!("{} faults:\n  {}", faults.len(), faults.join("\n  ")))
}
