//! `rlock lead`: a command that runs while this process leads.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rlock_client::{Any, Guard};
use rustix::fs::{Access, access};
use rustix::process::Signal;

use super::event::Event;
use super::keeper::Keeper;
use super::kind::Kind;
use super::progress::Progress;
use super::request::{Request, Wait};
use super::timing::Timing;
use super::{Awaited, Running, await_lock, gone, group, signals};
use crate::args::{CommandArgs, LeadArgs};
use crate::clock::Moment;
use crate::error::Error;
use crate::names;
use crate::output::Notes;
use crate::server::Place;

/// The pause before the lead is sought again: others that wait for it get it meanwhile.
const PAUSE: Duration = Duration::from_secs(1);

/// Leads and waits in turn, and returns the code to exit with once a signal has come.
pub(crate) fn lead(place: Place, arguments: &LeadArgs, notes: Notes) -> Result<u8, Error> {
    let notes = if arguments.under.quiet { notes.quiet() } else { notes };
    let request = request(place, &arguments.under)?;
    let (events, inbox) = channel();
    signals::listen(events.clone())?;
    let file = LeadFile(arguments.lead_file.clone());
    file.check()?;
    file.remove()?;
    let mut seen_before = false;
    loop {
        let keeper = Keeper::start(request.clone(), events.clone())?;
        // The wait may last for days: a log gets one line.
        let progress = Progress::new(&keeper, notes, &request.key, Duration::MAX);
        match await_lock(&keeper, &inbox, notes, progress) {
            Ok(Awaited::Held(guard)) => {
                seen_before = true;
                let running = Running { keeper, inbox: &inbox, timing: request.timing, notes };
                if let Some(code) = term(running, &file, &arguments.under, guard)? {
                    return Ok(code);
                }
            }
            Ok(Awaited::Signal(signal)) => {
                drop(inbox);
                keeper.abandon();
                return Ok(group::ended_by(signal.as_raw()).0);
            }
            // Once it was there, the server will be there again.
            Err(error) if seen_before && error.passes() => {
                notes.say(&format!("{error}; trying again"));
                keeper.abandon();
            }
            Err(error) | Ok(Awaited::Nested(error) | Awaited::NotAcquired(Some(error))) => {
                keeper.abandon();
                return Err(error);
            }
            Ok(Awaited::NotAcquired(None)) => keeper.abandon(),
        }
        if let Some(signal) = rest(&inbox)? {
            return Ok(group::ended_by(signal.as_raw()).0);
        }
    }
}

fn request(place: Place, arguments: &CommandArgs) -> Result<Request, Error> {
    let CommandArgs { lease, session_grace, grace, .. } = *arguments;
    let timing = Timing::new(lease, session_grace, None, grace)?;
    let (key, fenced) = (names::bytes(&arguments.key), arguments.fence_env.is_some());
    let (wait, kind, at_least) = (Wait::ForEver, Kind::Plain, Duration::ZERO);
    Ok(Request { place, key, timing, wait, kind, fenced, at_least })
}

/// One term of the lead; the code to exit with if a signal has ended it.
fn term(
    running: Running<'_>,
    file: &LeadFile,
    arguments: &CommandArgs,
    guard: Guard<Any>,
) -> Result<Option<u8>, Error> {
    let notes = running.notes;
    let owner = names::shown(guard.owner());
    if let Err(error) = file.write(&owner) {
        // A full disk leaves an empty file, which says that this process leads.
        let _ = file.remove();
        running.keeper.release(guard);
        return Err(error);
    }
    notes.say(&format!("leading as {owner}"));
    let ended = running.run(arguments, guard, || {
        // The file is gone before another process can lead.
        if let Err(error) = file.remove() {
            notes.say(&error.to_string());
        }
    })?;
    if ended.by_signal {
        return Ok(Some(ended.code));
    }
    notes
        .say(&format!("no longer leading: the command ended with code {}; waiting for the lead", ended.code));
    Ok(None)
}

/// Waits a moment; the signal that ends it.
fn rest(inbox: &Receiver<Event>) -> Result<Option<Signal>, Error> {
    let end = Moment::now().after(PAUSE);
    while !end.left().is_zero() {
        match inbox.recv_timeout(end.left()) {
            Ok(Event::Signal(signal)) => return Ok(Some(signal)),
            Ok(_) | Err(RecvTimeoutError::Timeout) => (),
            Err(RecvTimeoutError::Disconnected) => return Err(gone()),
        }
    }
    Ok(None)
}

/// The file that exists while this process leads.
struct LeadFile(Option<PathBuf>);

impl LeadFile {
    /// Fails before the wait if the folder allows no file. The file itself would say that this process leads.
    fn check(&self) -> Result<(), Error> {
        self.change(|path| {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Ok(access(folder.unwrap_or(Path::new(".")), Access::WRITE_OK | Access::EXEC_OK)?)
        })
    }

    fn write(&self, owner: &str) -> Result<(), Error> {
        self.change(|path| fs::write(path, format!("{owner}\n")))
    }

    fn remove(&self) -> Result<(), Error> {
        self.change(|path| match fs::remove_file(path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        })
    }

    fn change(&self, change: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), Error> {
        let Some(path) = &self.0 else { return Ok(()) };
        change(path).map_err(|cause| Error::LeadFile { path: path.display().to_string(), cause })
    }
}
