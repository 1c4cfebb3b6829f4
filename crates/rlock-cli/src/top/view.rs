//! The content of the live table, and the effect of each key.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Style};

use super::table::Servers;
use crate::args::Sort;

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
    pub(super) servers: Servers,
    /// The servers as they were when the table was paused.
    paused: Option<Servers>,
    pub(super) sort: Sort,
    pub(super) filter: Filter,
    /// The number of locks above the first line.
    pub(super) first: usize,
    /// The most that `first` can be.
    pub(super) last_first: usize,
    /// Why the primaries are unknown.
    pub(super) fault: Option<String>,
    colours: bool,
}

/// What follows the press of a key.
#[derive(PartialEq, Eq)]
pub(super) enum After {
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
    pub(super) fn press(&mut self, key: KeyEvent) -> After {
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
