//! The picture that `rlock top` draws: a line of totals, the servers, the locks, and the keys.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::sample::Lock;
use super::table::{
    LOCK_TITLES, SERVER_TITLES, Server, holder, lock_columns, lock_name, rows, server_columns,
};
use super::view::{Filter, View};
use crate::names::{self, counted};

/// The most lines for servers where there are more: the others are counted.
const MOST_SERVERS: usize = 6;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, view: &mut View) {
    let servers = view.servers();
    let shown = servers.len().min(MOST_SERVERS).saturating_add(1);
    let more = usize::from(servers.len() > MOST_SERVERS);
    let of_servers = u16::try_from(shown.saturating_add(more)).unwrap_or(u16::MAX);
    let parts = [
        Constraint::Length(1),
        Constraint::Length(of_servers),
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(1),
    ];
    let [top, servers, _, locks, bottom] = Layout::vertical(parts).areas(frame.area());
    draw_totals(frame, view, top);
    draw_servers(frame, view, servers);
    draw_locks(frame, view, locks);
    draw_keys(frame, view, bottom);
}

fn draw_totals(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let servers = view.servers();
    let waiters: u64 = servers.values().filter_map(Server::waiters).sum();
    let silent = servers.values().filter(|server| server.error.is_some()).count();
    let mut spans = vec![
        Span::styled("rlock top", Modifier::BOLD),
        Span::raw(format!("  {}, {}", counted(servers.len() as u64, "server"), counted(waiters, "waiter"))),
    ];
    let refusing = servers.values().filter(|server| server.refuses().is_some()).count();
    for (count, what) in [(silent, "without an answer"), (refusing, "without new locks")] {
        if count > 0 {
            spans.push(Span::styled(format!(", {count} {what}"), view.coloured(Color::Red)));
        }
    }
    let totals = Line::from(spans);
    let widths = [Constraint::Length(u16::try_from(totals.width()).unwrap_or(u16::MAX)), Constraint::Min(0)];
    let [left, area] = Layout::horizontal(widths).spacing(2).areas(area);
    frame.render_widget(totals, left);
    let right = match (&view.fault, view.is_paused()) {
        (_, true) => Span::styled("paused", Modifier::REVERSED),
        (Some(fault), false) => {
            Span::styled(names::shortened(fault, area.width.into()), view.coloured(Color::Red))
        }
        (None, false) => Span::raw(format!("by {}", view.sort.word())),
    };
    frame.render_widget(Paragraph::new(right).alignment(Alignment::Right), area);
}

fn draw_servers(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let mut servers: Vec<_> = view.servers().iter().collect();
    // First what needs a look: servers without an answer, then those with the most waiters.
    servers.sort_by_key(|(_, server)| {
        (server.error.is_none(), server.refuses().is_none(), server.waiters().map(std::cmp::Reverse))
    });
    let more = servers.len().saturating_sub(MOST_SERVERS);
    servers.truncate(MOST_SERVERS);
    let [table, rest] =
        Layout::vertical([Constraint::Min(1), Constraint::Length(u16::from(more > 0))]).areas(area);
    let lines = servers.iter().map(|(address, server)| server_row(view, address, server));
    let widths = [Constraint::Min(15), Constraint::Length(10), Constraint::Length(8), Constraint::Length(11)];
    let widths = widths.into_iter().chain([Constraint::Length(11), Constraint::Length(7)]);
    let table_of_servers = Table::new(lines, widths).header(titles("SERVER", &SERVER_TITLES, None));
    frame.render_widget(table_of_servers, table);
    for (number, (address, server)) in (1..).zip(&servers) {
        // An error needs more room than a column has.
        let Some(error) = server.error.clone().or_else(|| server.refuses()) else { continue };
        let line = Rect { y: table.y.saturating_add(number), height: 1, ..table };
        let text = if error.contains(*address) { error } else { format!("{address}  {error}") };
        let text = names::shortened(&text, table.width.into());
        frame.render_widget(Span::styled(text, view.coloured(Color::Red)), line.intersection(table));
    }
    if more > 0 {
        frame.render_widget(Span::styled(format!("and {more} more servers"), Modifier::DIM), rest);
    }
}

fn server_row(view: &View, address: &str, server: &Server) -> Row<'static> {
    if server.error.is_some() || server.refuses().is_some() {
        // Its error is drawn over an empty line: a row has no height by default.
        return Row::default().height(1);
    }
    let [acquired, denied, hand_offs, timeouts, waiters] = server_columns(server);
    let waits = server.waiters().is_some_and(|waiters| waiters > 0);
    let style = if waits { view.coloured(Color::Yellow) } else { Style::new() };
    let numbers = [acquired, denied, hand_offs, timeouts].map(right);
    let name = [Cell::from(address.to_string())].into_iter();
    Row::new(name.chain(numbers).chain([right(waiters).style(style)]))
}

fn draw_locks(frame: &mut Frame<'_>, view: &mut View, area: Rect) {
    let rows = view.sorted();
    if rows.is_empty() {
        let text =
            if view.filter.text().is_empty() { "No lock has cost any waiting." } else { "No lock matches." };
        frame.render_widget(Span::styled(text, Modifier::DIM), area);
        return;
    }
    let visible = usize::from(area.height.saturating_sub(1));
    let (count, first) = (rows.len(), view.first.min(rows.len().saturating_sub(visible)));
    // Half of what the numbers leave is the name's; holders are longer.
    let width = usize::from(area.width).saturating_sub(45);
    let (of_name, of_holder) = (width / 2, width.saturating_sub(width / 2));
    let lines = rows.iter().skip(first).take(visible);
    let lines: Vec<_> = lines.map(|lock| lock_row(view, lock, of_name, of_holder)).collect();
    let length = |width: usize| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX));
    let widths = [length(of_name), length(8), length(7), length(8), length(8), length(8), length(of_holder)];
    let table = Table::new(lines, widths).header(titles("LOCK", &LOCK_TITLES, Some("HOLDER")));
    frame.render_widget(table, area);
    (view.first, view.last_first) = (first, count.saturating_sub(visible));
}

fn lock_row(view: &View, lock: &Lock, of_name: usize, of_holder: usize) -> Row<'static> {
    let style = if lock.hot.waiters > 0 { view.coloured(Color::Yellow) } else { Style::new() };
    let name = names::shortened(&lock_name(lock), of_name);
    let holder = names::shortened(&holder(lock), of_holder);
    let first = [Cell::from(name).style(style)].into_iter();
    Row::new(first.chain(lock_columns(lock).map(right)).chain([Cell::from(holder)]))
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

fn titles(first: &'static str, titles: &[&'static str], last: Option<&'static str>) -> Row<'static> {
    let titles = titles.iter().map(|title| right((*title).to_string()));
    let cells = [Cell::from(first)].into_iter().chain(titles).chain(last.map(Cell::from));
    Row::new(cells).style(Modifier::REVERSED)
}

fn draw_keys(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let text = match &view.filter {
        Filter::Typing(text) => format!("filter: {text}▏  Enter keeps it, Esc removes it"),
        Filter::Set(text) if !text.is_empty() => {
            format!("q quit  p pause  s sort  / filter: {text}  Esc removes it")
        }
        Filter::Set(_) => "q quit  p pause  s sort  / filter  ↑↓ scroll".to_string(),
    };
    frame.render_widget(Span::styled(text, Modifier::DIM), area);
}

impl View {
    /// The locks to show.
    fn sorted(&self) -> Vec<&Lock> {
        rows(self.servers(), self.sort, self.filter.text())
    }
}
