//! The loop of the live table.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::poll::{News, Worker, discover, poll};
use super::screen;
use super::table::Servers;
use super::view::{After, View};
use crate::error::Error;
use crate::server::{Place, Target};
use crate::terminal::{Input, Keys};

/// How long a key may wait for the table, and news for a picture.
const PULSE: Duration = Duration::from_millis(100);

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
