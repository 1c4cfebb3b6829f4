//! `rlock top`: the locks that cost most waiting, on all primaries, as a live table.

mod live;
mod once;
#[cfg(test)]
mod picture;
mod poll;
mod sample;
mod screen;
mod table;
mod view;

use std::io::{IsTerminal, stdin};
use std::thread::sleep;

use poll::ask_all;
use table::Servers;
use view::View;

use crate::args::TopArgs;
use crate::command::{NO, YES};
use crate::error::Error;
use crate::output::Output;
use crate::server::primaries::primaries;
use crate::server::{Place, Target};

/// Shows the table until the user quits; with `--once`, prints it.
pub(crate) fn top(place: &Place, arguments: &TopArgs, output: Output) -> Result<u8, Error> {
    let TopArgs { once, interval, sort, filter } = arguments;
    if !once {
        check_terminal(output)?;
    }
    let filter = filter.clone().unwrap_or_default();
    let targets = primaries(place)?;
    let mut servers = Servers::new();
    // The first answer must come; afterwards an outage is a line of the table.
    ask(&targets, &mut servers)?;
    if !once {
        let view = View::new(servers, *sort, filter, output.colours());
        live::run(place, targets, *interval, view)?;
        return Ok(YES);
    }
    // Rates need two samples.
    sleep(*interval);
    ask(&targets, &mut servers)?;
    if output.json {
        once::objects(&servers, *sort, &filter, output)?;
    } else {
        once::text(&servers, *sort, &filter, output)?;
    }
    Ok(if servers.values().any(|server| server.error.is_some()) { NO } else { YES })
}

/// The table needs a whole terminal, and its keys.
fn check_terminal(output: Output) -> Result<(), Error> {
    let advice = "add --once to print the table one time";
    if output.json {
        return Err(Error::Usage("--json needs --once: the live table is for people".to_string(), advice));
    }
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if dumb || !output.terminal || !stdin().is_terminal() {
        return Err(Error::Usage("the live table needs a terminal".to_string(), advice));
    }
    Ok(())
}

/// Asks all servers. It is an error if none answers.
fn ask(targets: &[Target], servers: &mut Servers) -> Result<(), Error> {
    let mut errors = Vec::new();
    let mut answered = false;
    for (target, answer) in targets.iter().zip(ask_all(targets)) {
        let server = servers.entry(target.address()).or_default();
        match answer {
            Ok(sample) => {
                answered = true;
                server.note(sample);
            }
            Err(error) => {
                server.fail(&error);
                errors.push(error);
            }
        }
    }
    match errors.into_iter().next() {
        Some(error) if !answered => Err(error),
        _ => Ok(()),
    }
}
