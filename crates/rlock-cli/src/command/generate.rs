//! `rlock completions` and `rlock man`.

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use super::YES;
use crate::args::Cli;
use crate::error::Error;

/// Prints completions.
pub(crate) fn completions(shell: Shell) -> Result<u8, Error> {
    // Into memory first: the generator panics when it cannot write.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "rlock", &mut text);
    stdout().lock().write_all(&text)?;
    Ok(YES)
}

/// Prints the manual page, or writes all of them into a directory.
pub(crate) fn man(directory: Option<&Path>) -> Result<u8, Error> {
    let mut command = Cli::command();
    command.build();
    match directory {
        Some(directory) => {
            fs::create_dir_all(directory)?;
            fs::write(directory.join("rlock.1"), page(command.clone())?)?;
            for subcommand in command.get_subcommands() {
                let name = format!("rlock-{}", subcommand.get_name());
                let named =
                    subcommand.clone().name(&name).bin_name(subcommand.get_bin_name().unwrap_or(&name));
                fs::write(directory.join(format!("{name}.1")), page(named)?)?;
            }
        }
        None => stdout().lock().write_all(&page(command)?)?,
    }
    Ok(YES)
}

fn page(command: clap::Command) -> Result<Vec<u8>, Error> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    // The generator leaves out that the command comes behind two hyphens.
    let (before, after) = (r"<\fICOMMAND\fR>", r"\-\- <\fICOMMAND\fR>...");
    Ok(String::from_utf8_lossy(&page).replacen(before, after, 1).into_bytes())
}
