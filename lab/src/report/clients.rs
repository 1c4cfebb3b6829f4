//! What the clients for other languages cost, as Markdown tables.

use std::fmt::Write;

use super::doc::environment;
use super::tables::{self, figure, grouped, median, number};
use crate::clients::{Clients, Library, LibraryCosts, WAITERS};

/// All tables.
pub(crate) fn tables(clients: Option<&Clients>) -> String {
    let Some(clients) = clients else { return "No results are stored.".into() };
    let rounds = clients.rows.first().map_or(0, |one| one.rounds);
    format!(
        "{} {rounds} rounds.\n\n{}\n### One owner at a time\n\n{}\n### {WAITERS} waiters of one lock\n\n{}",
        environment(&clients.environment),
        guarantees(),
        table(
            clients,
            "| | acquire + release, µs | ratio | its CPU | server CPU | commands | to another process, µs | ratio |",
            pair
        ),
        table(
            clients,
            "| | µs for each | ratio | longest wait, ms | overtaken by | server CPU | commands |",
            crowd
        ),
    )
}

/// The promises of rlock-client, which are the same in each language, and those of each library.
fn guarantees() -> String {
    let libraries = Library::ALL.into_iter().filter(|one| one.own() != *one);
    let own = format!("rlock-client in each language | {}", Library::Python.guarantees());
    let rows = libraries.map(|one| format!("{} | {}", one.label(), one.guarantees()));
    tables::table("| what its users get, as measured", std::iter::once(own).chain(rows))
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
    let [us, cpu, server, commands] =
        [one.pair_us, one.pair_cpu_us, one.pair_server_us, one.pair_commands].map(median);
    let (ratio, hand_off_ratio) = (figure(one.pair_to_own), figure(one.hand_off_to_own));
    vec![us, ratio, cpu, server, commands, median(one.hand_off_us), hand_off_ratio]
}

fn crowd(one: &LibraryCosts) -> Vec<String> {
    let crowd = &one.crowd;
    let (longest, overtaken) = (number(crowd.longest_ms), grouped(crowd.overtaken));
    let [us, server, commands] = [crowd.us, crowd.server_us, crowd.commands].map(median);
    vec![us, figure(crowd.to_own), longest, overtaken, server, commands]
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
        let three = "2.00 (1.00–3.00)";
        for line in [
            "| rlock-client in each language | first come, first served;".into(),
            format!("| Node: redlock 4.2.0 | 2.00 | {three} | 2.00 | 2.00 | 2.00 | 2.00 | {three} |"),
            format!("| Node: redlock 4.2.0 | 2.00 | {three} | 4.00 | 7 | 2.00 | 2.00 |"),
        ] {
            assert!(text.contains(&line), "{line}\n{text}");
        }
        assert_eq!(tables(None), "No results are stored.");
    }
}
