//! The live table: what is shown, the keys, and the loop.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::style::{Color, Style};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::poll::{News, Worker, discover, poll};
use super::screen;
use super::table::{Servers, Sort};
use crate::error::Error;
use crate::server::{Place, Target};
use crate::terminal::{Input, Keys};

/// How long a key may wait for the table, and news for a picture.
const PULSE: Duration = Duration::from_millis(100);

/// How many locks a page is.
const PAGE: usize = 10;

/// A text that locks must contain.
pub(super) enum Filter {
    /// It is being typed.
    Typing(String),
    /// It is in force; an empty one admits all locks.
    Set(String),
}

impl Filter {
    pub(super) fn text(&self) -> &str {
        match self {
            Filter::Typing(text) | Filter::Set(text) => text,
        }
    }
}

/// What is shown, and how.
pub(super) struct View {
    servers: Servers,
    /// The servers as they were when the table was paused.
    paused: Option<Servers>,
    pub(super) sort: Sort,
    pub(super) filter: Filter,
    /// The number of locks above the first line.
    pub(super) first: usize,
    /// The most that can be.
    pub(super) last_first: usize,
    /// Why the primaries are unknown.
    pub(super) fault: Option<String>,
    colours: bool,
}

/// What follows a key.
#[derive(PartialEq, Eq)]
enum After {
    Go,
    Quit,
}

impl View {
    pub(super) fn new(servers: Servers, sort: Sort, filter: String, colours: bool) -> View {
        let filter = Filter::Set(filter);
        View { servers, paused: None, sort, filter, first: 0, last_first: 0, fault: None, colours }
    }

    /// The servers that are shown.
    pub(super) fn servers(&self) -> &Servers {
        self.paused.as_ref().unwrap_or(&self.servers)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    pub(super) fn coloured(&self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    /// Does what a key says.
    fn press(&mut self, key: KeyEvent) -> After {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return After::Quit;
        }
        if let Filter::Typing(text) = &mut self.filter {
            match key.code {
                KeyCode::Char(letter) if !control => text.push(letter),
                KeyCode::Backspace => drop(text.pop()),
                KeyCode::Enter => self.filter = Filter::Set(std::mem::take(text)),
                KeyCode::Esc => self.filter = Filter::Set(String::new()),
                _ => {}
            }
            self.first = 0;
            return After::Go;
        }
        match key.code {
            KeyCode::Char('q') => return After::Quit,
            KeyCode::Char('p' | ' ') => {
                self.paused = if self.is_paused() { None } else { Some(self.servers.clone()) };
            }
            KeyCode::Char('s') => (self.sort, self.first) = (self.sort.next(), 0),
            KeyCode::Char('/') => self.filter = Filter::Typing(self.filter.text().to_string()),
            KeyCode::Esc => self.filter = Filter::Set(String::new()),
            KeyCode::Up | KeyCode::Char('k') => self.first = self.first.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(1),
            KeyCode::PageUp => self.first = self.first.saturating_sub(PAGE),
            KeyCode::PageDown => self.scroll(PAGE),
            KeyCode::Home => self.first = 0,
            _ => {}
        }
        After::Go
    }

    fn scroll(&mut self, lines: usize) {
        self.first = self.first.saturating_add(lines).min(self.last_first);
    }
}

/// The threads that ask the servers.
struct Workers {
    interval: Duration,
    news: Sender<News>,
    polls: HashMap<String, Worker>,
}

impl Workers {
    /// Asks these servers from now on, and no others.
    fn follow(&mut self, targets: Vec<Target>, servers: &mut Servers) -> Result<(), Error> {
        let addresses: Vec<String> = targets.iter().map(Target::address).collect();
        self.polls.retain(|address, _| addresses.contains(address));
        servers.retain(|address, _| addresses.contains(address));
        for (address, target) in addresses.into_iter().zip(targets) {
            if !self.polls.contains_key(&address) {
                let worker = poll(target, self.interval, self.news.clone())?;
                servers.entry(address.clone()).or_default();
                self.polls.insert(address, worker);
            }
        }
        Ok(())
    }
}

/// Shows the table until the user quits.
pub(super) fn run(
    place: &Place,
    targets: Vec<Target>,
    interval: Duration,
    mut view: View,
) -> Result<(), Error> {
    let (sender, news) = channel();
    let mut workers = Workers { interval, news: sender.clone(), polls: HashMap::new() };
    let _discovery = discover(place.clone(), targets.clone(), sender)?;
    workers.follow(targets, &mut view.servers)?;
    // The terminal must be restored, whatever ends the table.
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        let listens = signal_hook::flag::register(signal, Arc::clone(&ended));
        listens.map_err(|cause| Error::System { what: "cannot listen to signals", cause })?;
    }
    let keys = Keys::open()?;
    let mut terminal = ratatui::try_init()?;
    let outcome = show((&mut terminal, &keys), &mut view, &mut workers, &news, &ended);
    if keys.are_gone() {
        // Nothing can be restored, nor said; the terminal's own end would try both, and panic.
        std::mem::forget(terminal);
        return Ok(());
    }
    ratatui::try_restore()?;
    outcome
}

fn show(
    (terminal, keys): (&mut ratatui::DefaultTerminal, &Keys),
    view: &mut View,
    workers: &mut Workers,
    news: &Receiver<News>,
    ended: &AtomicBool,
) -> Result<(), Error> {
    while !ended.load(Ordering::Relaxed) {
        terminal.draw(|frame| screen::draw(frame, view))?;
        // Asked here: at the end of its terminal the driver reads for ever.
        if keys.wait(PULSE)? == Input::Gone {
            return Ok(());
        }
        if event::poll(Duration::ZERO)?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && view.press(key) == After::Quit
        {
            break;
        }
        for one in news.try_iter() {
            match one {
                News::Primaries(Ok(targets)) => {
                    view.fault = None;
                    workers.follow(targets, &mut view.servers)?;
                }
                News::Primaries(Err(error)) => view.fault = Some(error.to_string()),
                News::Sample(address, answer) => {
                    let Some(server) = view.servers.get_mut(&address) else { continue };
                    match *answer {
                        Ok(sample) => server.note(sample),
                        Err(error) => server.fail(&error),
                    }
                }
            }
        }
    }
    Ok(())
}
