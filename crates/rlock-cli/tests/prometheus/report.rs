//! What docs/OPERATIONS.md shows of the trial: the same on every machine, but for numbers.

use std::fs;
use std::path::Path;

use rlock_testkit::screenshot::{Cell, Ink, svg, without_numbers};

use crate::server::{Alert, Prometheus};
use crate::support::Running;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
const ADVICE: &str = "is stale: RLOCK_DRAW=1 make exporter";

/// The transcripts stand between these lines of the page.
const BEGIN: &str = "<!-- trial -->\n```text\n";
const END: &str = "```\n<!-- end of trial -->\n";

const DESCRIPTION: &str = "A terminal with the three primaries of a cluster, one of which does not answer, and the locks that cost most waiting: a herd of 24 clients for stock:42, and report:daily, whose holder, process 4711, keeps it from six waiters.";

/// The panels that tell most.
const PANELS: [&str; 5] = [
    "Servers down",
    "Servers that answer",
    "Longest running wait",
    "Waiters by hot lock",
    "Ended waits by hot lock",
];

/// The random part of an owner follows.
const HOLDER_BEGINS: &str = "rlock@db-1:4711:";

/// Collects the transcripts.
pub(crate) struct Report {
    /// What is of this machine, and what stands for it.
    hidden: Vec<(String, String)>,
    text: String,
    picture: String,
}

impl Report {
    /// With the addresses of all servers.
    pub(crate) fn new(servers: &[String]) -> Report {
        // As long as the true ones, so that columns stay.
        let hide =
            |(number, server): (usize, &String)| (server.clone(), format!("10.0.0.{}:6379", 101 + number));
        let hidden = servers.iter().enumerate().map(hide).collect();
        Report { hidden, text: String::new(), picture: String::new() }
    }

    /// The names of the machine and of this process are not shown.
    pub(crate) fn hides(&mut self, process: &Running) {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a host name");
        let host = host.trim();
        self.hidden.push((format!("rlock@{host}:{}", process.pid()), "rlock@db-1:4711".to_string()));
        self.hidden
            .push((format!("on {host}, process {}", process.pid()), "on db-1, process 4711".to_string()));
    }

    fn shown(&self, text: &str) -> String {
        let replace = |text: String, (own, other): &(String, String)| text.replace(own, other);
        let text = self.hidden.iter().fold(text.to_string(), replace);
        let Some((before, owner)) = text.split_once(HOLDER_BEGINS) else { return text };
        let (_, rest) = owner.split_once(':').expect("the number of the owner");
        format!("{before}{HOLDER_BEGINS}5f2d81c7e09b4a36:{rest}")
    }

    /// Adds what a command printed.
    pub(crate) fn add(&mut self, title: &str, text: &str) {
        let text = self.shown(text);
        let lines: String = text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        let blank = if self.text.is_empty() { "" } else { "\n" };
        self.text.push_str(&format!("{blank}{title}\n{lines}"));
    }

    /// Adds alerts, and what the panels show.
    pub(crate) fn record(&mut self, alerts: &[Alert], prometheus: &Prometheus) {
        let line = |alert: &Alert| format!("  {:<19}{}\n", alert.about[0], alert.summary);
        let mut alerts: Vec<String> = alerts.iter().map(line).collect();
        alerts.sort();
        self.add("Alerts", &alerts.concat());
        let mut lines = String::new();
        for title in PANELS {
            let mut samples = prometheus.panel(title);
            samples.sort_by(|one, other| self.shown(&one.0).cmp(&self.shown(&other.0)));
            for (name, value) in samples {
                let name = if name.is_empty() { String::new() } else { format!("  {name}") };
                lines.push_str(&format!("  {title}{name}  {}\n", (value * 10.0).round() / 10.0));
            }
        }
        self.add("Dashboard", &lines);
    }

    /// Draws the screen of `rlock top`.
    pub(crate) fn draw(&mut self, screen: &vt100::Screen) {
        let (rows, columns) = screen.size();
        let rows: Vec<Vec<Cell>> = (0..rows).map(|row| self.line(screen, row, columns)).collect();
        self.picture = svg(&rows, "rlock top, in a cluster with three troubles", DESCRIPTION);
    }

    /// A line of the screen. The holder is its last word: of the name of the machine there may be a part only.
    fn line(&self, screen: &vt100::Screen, row: u16, columns: u16) -> Vec<Cell> {
        let text: String = screen.rows(0, columns).nth(row.into()).unwrap_or_default();
        let mut shown = self.shown(&text);
        if let Some((before, holder)) = text.rsplit_once(' ')
            && holder.starts_with("rlock")
        {
            shown = format!("{before} rlock@db-1:4711");
        }
        let cell = |(column, symbol): (u16, char)| {
            let cell = screen.cell(row, column).expect("a cell");
            let ink = match cell.fgcolor() {
                vt100::Color::Idx(1) => Ink::Red,
                vt100::Color::Idx(3) => Ink::Yellow,
                _ if cell.inverse() => Ink::Inverse,
                _ if cell.dim() => Ink::Dim,
                _ => Ink::Plain,
            };
            Cell { symbol: symbol.to_string(), ink, is_bold: cell.bold() }
        };
        let width = usize::from(columns);
        (0..columns).zip(format!("{shown:width$}").chars()).map(cell).collect()
    }

    /// Shows that the page and its picture are what the trial shows, but for the numbers; with RLOCK_DRAW, writes them.
    #[track_caller]
    pub(crate) fn is_in_the_docs(&self) {
        let docs = Path::new(DOCS);
        let (page_path, picture_path) = (docs.join("OPERATIONS.md"), docs.join("pictures/trial.svg"));
        let page = fs::read_to_string(&page_path).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the beginning of the trial");
        let (stored, after) = rest.split_once(END).expect("the end of the trial");
        let picture = fs::read_to_string(&picture_path).unwrap_or_default();
        if std::env::var_os("RLOCK_DRAW").is_some() {
            fs::write(&page_path, format!("{before}{BEGIN}{}{END}{after}", self.text)).unwrap();
            fs::write(&picture_path, &self.picture).unwrap();
            return;
        }
        assert_eq!(without_numbers(stored), without_numbers(&self.text), "docs/OPERATIONS.md {ADVICE}");
        assert_eq!(
            without_numbers(&picture),
            without_numbers(&self.picture),
            "docs/pictures/trial.svg {ADVICE}"
        );
    }
}
