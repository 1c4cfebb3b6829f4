//! What the clients for other languages cost, as Markdown tables.

use std::fmt::Write;

use super::doc::environment;
use super::tables::{figure, grouped, number};
use crate::clients::{Clients, Library, LibraryCosts, WAITERS};

/// All tables.
pub(crate) fn tables(clients: Option<&Clients>) -> String {
    let Some(clients) = clients else { return "No results are stored.".into() };
    let rounds = clients.rows.first().map_or(0, |one| one.rounds);
    format!(
        "{}\nEach figure is of {rounds} rounds.\n\n{}\n### Acquire and release\n\n{}\n### From one process to another\n\n{}\n\
         ### {WAITERS} waiters of one lock\n\n{}",
        environment(&clients.environment),
        guarantees(),
        table(
            clients,
            "| | µs | ratio to rlock-client | its own CPU, µs | server CPU, µs | commands |",
            pair
        ),
        table(clients, "| | µs | ratio to rlock-client |", hand_off),
        table(
            clients,
            "| | µs for each | ratio to rlock-client | longest wait, ms | overtaken by | server CPU, µs | commands |",
            crowd
        ),
    )
}

fn guarantees() -> String {
    let mut text = String::from("| | what its users get, as measured |\n|---|---|\n");
    for library in Library::ALL {
        let _ = writeln!(text, "| {} | {} |", library.label(), library.guarantees());
    }
    text
}

fn table(clients: &Clients, head: &str, cells: fn(&LibraryCosts) -> Vec<String>) -> String {
    let columns = head.matches('|').count().saturating_sub(1);
    let mut text = format!("{head}\n|{}\n", "---|".repeat(columns));
    for one in &clients.rows {
        let library = Library::ALL.into_iter().find(|library| library.name() == one.library);
        let _ = writeln!(text, "| {} | {} |", library.map_or("?", Library::label), cells(one).join(" | "));
    }
    text
}

fn pair(one: &LibraryCosts) -> Vec<String> {
    let spreads = [one.pair_us, one.pair_to_own, one.pair_cpu_us, one.pair_server_us];
    let mut cells: Vec<String> = spreads.map(figure).into();
    cells.push(number(one.pair_commands.median));
    cells
}

fn hand_off(one: &LibraryCosts) -> Vec<String> {
    [one.hand_off_us, one.hand_off_to_own].map(figure).into()
}

fn crowd(one: &LibraryCosts) -> Vec<String> {
    let crowd = &one.crowd;
    let (longest, overtaken) = (number(crowd.longest_ms), grouped(crowd.overtaken));
    let (server, commands) = (figure(crowd.server_us), number(crowd.commands.median));
    vec![figure(crowd.us), figure(crowd.to_own), longest, overtaken, server, commands]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Crowd;
    use crate::spread::Spread;
    use crate::store;

    #[test]
    fn the_tables_have_a_row_for_each_library() {
        let spread = Spread { median: 2.0, p10: 1.0, p90: 3.0 };
        let row = |library: Library| LibraryCosts {
            library: library.name().into(),
            rounds: 8,
            pair_us: spread,
            pair_to_own: spread,
            pair_cpu_us: spread,
            pair_server_us: spread,
            pair_commands: spread,
            hand_off_us: spread,
            hand_off_to_own: spread,
            crowd: Crowd {
                waiters: WAITERS,
                us: spread,
                to_own: spread,
                longest_ms: 4.0,
                overtaken: 7,
                server_us: spread,
                commands: spread,
            },
        };
        let environment = store::load().unwrap().main.environment;
        let text = tables(Some(&Clients { environment, rows: Library::ALL.map(row).into() }));
        let three = "2.00 (1.00 to 3.00)";
        for line in [
            format!("| Node: redlock 4.2.0 | {three} | {three} | {three} | {three} | 2.00 |"),
            format!("| Python: rlock-client | {three} | {three} |"),
            format!("| Node: redlock 4.2.0 | {three} | {three} | 4.00 | 7 | {three} | 2.00 |"),
        ] {
            assert!(text.contains(&line), "{line}\n{text}");
        }
        assert_eq!(tables(None), "No results are stored.");
    }
}
