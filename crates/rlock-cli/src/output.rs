//! Printing for people and for programs.

use std::env;
use std::io::{self, IsTerminal, Write, stdout};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use serde::Serialize;
use serde_json::json;

use crate::error::Error;
use crate::{names, terminal};

/// How to print.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// Print JSON, one object a line.
    pub(crate) json: bool,
    /// The standard output is a terminal.
    pub(crate) terminal: bool,
    colours: bool,
}

/// What a word means.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tone {
    Good,
    Bad,
    Wait,
    Quiet,
}

impl Output {
    /// Checks the standard output, NO_COLOR and TERM.
    pub(crate) fn new(json: bool) -> Output {
        let terminal = stdout().is_terminal();
        Output { json, terminal, colours: terminal && colours_wanted() }
    }

    /// The output of texts for the standard error.
    pub(crate) fn on_stderr(self) -> Output {
        Output { colours: io::stderr().is_terminal() && colours_wanted(), ..self }
    }

    /// Whether there are colours.
    pub(crate) fn colours(&self) -> bool {
        self.colours
    }

    /// Prints a line at once, so that a program at the other end of a pipe sees it.
    pub(crate) fn line(&self, line: &str) -> Result<(), Error> {
        let mut stdout = stdout().lock();
        writeln!(stdout, "{line}")?;
        Ok(stdout.flush()?)
    }

    /// Prints an object on a line of its own.
    pub(crate) fn object(&self, object: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string(object).map_err(io::Error::from)?;
        self.line(&text)
    }

    /// Prints the object, or the text that `lines` makes.
    pub(crate) fn either(
        &self,
        object: &impl Serialize,
        lines: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        if self.json { self.object(object) } else { self.line(lines().trim_end()) }
    }

    /// Colours a word, where there are colours.
    pub(crate) fn toned(&self, tone: Tone, text: &str) -> String {
        if !self.colours {
            return text.to_string();
        }
        let code = match tone {
            Tone::Good => 32,
            Tone::Bad => 31,
            Tone::Wait => 33,
            Tone::Quiet => 2,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

fn colours_wanted() -> bool {
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Notes while a command runs. They go to standard error: the standard output belongs to the command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notes {
    /// As JSON, one object a line.
    json: bool,
    /// The standard error is a terminal on which a line can be written anew.
    terminal: bool,
    quiet: bool,
}

impl Notes {
    /// Checks the standard error and TERM.
    pub(crate) fn new(json: bool) -> Notes {
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        Notes { json, terminal: io::stderr().is_terminal() && !dumb, quiet: false }
    }

    /// Writes nothing.
    pub(crate) fn quiet(self) -> Notes {
        Notes { quiet: true, ..self }
    }

    /// Whether to show the progress of a wait.
    pub(crate) fn show_progress(self) -> bool {
        self.terminal && !self.json && !self.quiet
    }

    /// Writes a line in place of the last one of this kind; the next note, or the end, leaves it as it is.
    pub(crate) fn progress(self, text: &str) {
        if let Some(writer) = writer() {
            _ = writer.send(Job::Progress(text.to_string()));
        }
    }

    /// From now on notes are written although another process group is in the foreground of the terminal.
    pub(crate) fn continue_in_background(self) {
        if let Some(writer) = writer() {
            _ = writer.send(Job::Background);
        }
    }

    /// Writes a note without waiting for its reader; without a reader it is lost.
    pub(crate) fn say(self, text: &str) {
        if self.quiet {
            return;
        }
        let line = if self.json { json!({ "note": text }).to_string() } else { format!("rlock: {text}") };
        match writer() {
            // The thread ends with the process only.
            Some(writer) => _ = writer.send(Job::Line(line)),
            None => _ = writeln!(io::stderr(), "{line}"),
        }
    }
}

/// Work for the thread that writes notes.
enum Job {
    Line(String),
    /// Write this in place of the progress before it.
    Progress(String),
    /// Write from the background.
    Background,
    /// Answer once all jobs before it are done.
    Answer(Sender<()>),
}

static WRITER: OnceLock<Option<Sender<Job>>> = OnceLock::new();

/// The thread that writes notes, if it could be started. The reader of notes may stop reading, and that must not delay
/// the end of a command that has lost its lock.
fn writer() -> Option<&'static Sender<Job>> {
    let start = || {
        let (sender, jobs) = channel();
        let thread = thread::Builder::new().name("notes".to_string());
        thread.spawn(move || write(&jobs)).is_ok().then_some(sender)
    };
    WRITER.get_or_init(start).as_ref()
}

fn write(jobs: &Receiver<Job>) {
    // Whether the line of a progress was not ended yet.
    let mut open = false;
    for job in jobs {
        if matches!(job, Job::Background) {
            terminal::allow_background_use();
            continue;
        }
        let end = if open { "\n" } else { "" };
        open = matches!(job, Job::Progress(_));
        // Without a reader it is lost.
        match job {
            Job::Line(line) => _ = writeln!(io::stderr(), "{end}{line}"),
            // One column less: a terminal that is full may wrap already.
            Job::Progress(line) => {
                let line = names::cut(&line, columns().saturating_sub(1));
                _ = write!(io::stderr(), "\r{line}\x1b[K");
            }
            Job::Background => {}
            Job::Answer(answer) => {
                _ = write!(io::stderr(), "{end}");
                _ = answer.send(());
            }
        }
    }
}

/// The columns and rows of a terminal; the usual ones where it does not say.
pub(crate) fn size_of(terminal: impl AsFd) -> (usize, usize) {
    match tcgetwinsize(terminal) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

fn columns() -> usize {
    size_of(io::stderr()).0
}

/// How long the reader of the last notes may take.
const LAST_NOTES: Duration = Duration::from_secs(1);

/// Waits until all notes are written, but not for long.
pub(crate) fn finish_notes() {
    if let Some(Some(writer)) = WRITER.get() {
        let (answer, written) = channel();
        let _ = writer.send(Job::Answer(answer));
        let _ = written.recv_timeout(LAST_NOTES);
    }
}

/// An error in JSON.
#[derive(Serialize)]
struct Failure<'a> {
    error: &'a str,
    advice: &'a str,
    code: u8,
}

/// Writes an error to standard error; without a reader it is lost.
pub(crate) fn tell(error: &Error, json: bool) {
    let (text, advice) = (error.to_string(), error.advice());
    let line = if json {
        let failure = Failure { error: &text, advice: &advice, code: error.code() };
        serde_json::to_string(&failure).unwrap_or_default()
    } else {
        format!("rlock: {text}\n  → {advice}")
    };
    let _ = writeln!(io::stderr(), "{line}");
}
