//! `rlock top --once`: the same tables as text, or an object for each server.

use serde::Serialize;

use super::sample::{Counters, Lock};
use super::table::{
    LOCK_TITLES, SERVER_TITLES, Server, Servers, holder, lock_columns, lock_name, rows, server_columns,
};
use crate::args::Sort;
use crate::error::Error;
use crate::output::{Output, Tone};

/// A server, in JSON.
#[derive(Serialize)]
struct Object<'a> {
    server: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// Why it gives no locks now.
    #[serde(skip_serializing_if = "Option::is_none")]
    refuses: Option<String>,
    waiters: Option<u64>,
    /// Per second.
    rates: Option<Counters>,
    locks: Vec<&'a Lock>,
}

/// Prints an object for each server.
pub(super) fn objects(servers: &Servers, sort: Sort, filter: &str, output: Output) -> Result<(), Error> {
    for (address, server) in servers {
        let one = Servers::from([(address.clone(), server.clone())]);
        let (error, waiters, rates) = (server.error.as_deref(), server.waiters(), server.rates());
        let locks = rows(&one, sort, filter);
        output.object(&Object {
            server: address,
            error,
            refuses: server.refuses(),
            waiters,
            rates,
            locks,
        })?;
    }
    Ok(())
}

/// Prints both tables.
pub(super) fn text(servers: &Servers, sort: Sort, filter: &str, output: Output) -> Result<(), Error> {
    let mut lines = vec![titled("SERVER", &SERVER_TITLES, None)];
    lines.extend(servers.iter().map(|(address, server)| server_line(address, server)));
    print(&lines, output)?;
    let locks = rows(servers, sort, filter);
    if locks.is_empty() {
        let what =
            if filter.is_empty() { "No lock has cost any waiting." } else { "No lock matches the filter." };
        return output.line(&format!("\n{what}"));
    }
    output.line("")?;
    let mut lines = vec![titled("LOCK", &LOCK_TITLES, Some("HOLDER"))];
    lines.extend(locks.into_iter().map(|lock| {
        let columns = lock_columns(lock).map(Cell::Right);
        let name = [Cell::Left(lock_name(lock))].into_iter();
        name.chain(columns).chain([Cell::Left(holder(lock))]).collect()
    }));
    print(&lines, output)
}

/// A text in a column.
enum Cell {
    Left(String),
    Right(String),
}

fn titled(first: &str, titles: &[&str], last: Option<&str>) -> Vec<Cell> {
    let first = [Cell::Left(first.to_string())].into_iter();
    let titles = titles.iter().map(|title| Cell::Right((*title).to_string()));
    first.chain(titles).chain(last.map(|last| Cell::Left(last.to_string()))).collect()
}

fn server_line(address: &str, server: &Server) -> Vec<Cell> {
    let first = [Cell::Left(address.to_string())].into_iter();
    match &server.error {
        Some(error) => first.chain([Cell::Left(error.clone())]).collect(),
        None => {
            let columns = server_columns(server).map(Cell::Right).into_iter();
            first.chain(columns).chain(server.refuses().map(Cell::Left)).collect()
        }
    }
}

/// Prints lines whose columns are as wide as their widest cell; a last column on the left has any width.
fn print(lines: &[Vec<Cell>], output: Output) -> Result<(), Error> {
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| {
            let is_last = column > 0 && line.len() == column.saturating_add(1);
            match line.get(column)? {
                Cell::Left(_) if is_last => None,
                Cell::Left(text) | Cell::Right(text) => Some(text.chars().count()),
            }
        });
        cells.max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..lines.iter().map(Vec::len).max().unwrap_or_default()).map(width).collect();
    for (number, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(&widths).map(|(cell, width)| match cell {
            Cell::Left(text) => format!("{text:width$}"),
            Cell::Right(text) => format!("{text:>width$}"),
        });
        let text = cells.collect::<Vec<_>>().join("  ");
        let text = text.trim_end();
        output.line(&if number == 0 { output.toned(Tone::Quiet, text) } else { text.to_string() })?;
    }
    Ok(())
}
