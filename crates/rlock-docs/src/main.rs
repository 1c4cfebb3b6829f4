//! The site of rlock's documentation; `make docs` runs it, by scripts/docs.sh.

mod look;
mod site;
mod targets;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use site::Plots;

const USAGE: &str = "usage: rlock-docs targets                 show docs/targets.tsv in docs/INSTALL.md
       rlock-docs stage FOLDER REPOSITORY with-plots|without-plots
                                          put pages together for mdBook; the address may be empty
       rlock-docs look BROWSER SITE        check every page, link and picture, at two widths";

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
        ["targets"] => targets::write(&root()),
        ["stage", folder, repository, "with-plots"] => {
            site::stage(&root(), Path::new(folder), repository, Plots::Shown)
        }
        ["stage", folder, repository, "without-plots"] => {
            site::stage(&root(), Path::new(folder), repository, Plots::LeftOut)
        }
        ["look", browser, folder] => {
            let (looks, faults) = look::look(browser, &root().join("docs"), Path::new(folder))?;
            if faults.is_empty() {
                println!("docs: {looks} are well");
                return Ok(());
            }
            Err(format!("{} faults:\n  {}", faults.len(), faults.join("\n  ")))
        }
        _ => Err(USAGE.into()),
    }
}
