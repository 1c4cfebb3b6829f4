//! What the clients for other languages cost, as Markdown tables.

use std::fmt::Write;

use super::doc::environment;
use super::tables::{self, figure, grouped, median, number};
use crate::clients::{Clients, Footprint, Library, LibraryCosts, WAITERS};

/// All tables.
pub(crate) fn tables(clients: Option<&Clients>) -> String {
    let Some(clients) = clients else { return "No results are stored.".into() };
    let rounds = clients.rows.first().map_or(0, |one| one.rounds);
    format!(
        "{} {rounds} rounds.\n\n{}\n### One owner at a time\n\n{}\n### {WAITERS} waiters of one lock\n\n{}\n\
         ### Memory, threads and size\n\n{}",
        environment(&clients.environment),
        guarantees(),
        table(
            clients,
            "| | acquire + release, µs | ratio | its CPU | server CPU | commands | to another process, µs | p99 | ratio | after `kill -9`, s |",
            pair
        ),
        table(
            clients,
            "| | µs for each | ratio | hand-off, µs | p99 | longest wait, ms | overtaken by | server CPU | commands |",
            crowd
        ),
        table(
            clients,
            "| | memory, MB | with the waiters, MB | threads | with the waiters | installed, MB |",
            footprint
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
    for library in Library::ALL {
        let one = clients.rows.iter().find(|one| one.library == library.name());
        let cells = one.map_or_else(|| vec![MISSING.into(); columns - 1], cells);
        let _ = writeln!(text, "| {} | {} |", library.label(), cells.join(" | "));
    }
    text
}

fn pair(one: &LibraryCosts) -> Vec<String> {
    let [us, cpu, server, commands] =
        [one.pair_us, one.pair_cpu_us, one.pair_server_us, one.pair_commands].map(median);
    let (ratio, hand_off_ratio) = (figure(one.pair_to_own), figure(one.hand_off_to_own));
    let p99 = shown(one.hand_off_p99_us.map(number));
    let freed = shown(one.freed_ms.map(|freed| number(freed.median / 1e3)));
    vec![us, ratio, cpu, server, commands, median(one.hand_off_us), p99, hand_off_ratio, freed]
}

fn crowd(one: &LibraryCosts) -> Vec<String> {
    let crowd = &one.crowd;
    let (longest, overtaken) = (number(crowd.longest_ms), grouped(crowd.overtaken));
    let [us, server, commands] = [crowd.us, crowd.server_us, crowd.commands].map(median);
    let (hand_off, p99) = (shown(crowd.hand_off_us.map(median)), shown(crowd.hand_off_p99_us.map(number)));
    vec![us, figure(crowd.to_own), hand_off, p99, longest, overtaken, server, commands]
}

fn footprint(one: &LibraryCosts) -> Vec<String> {
    let Some(Footprint { idle, crowd, installed_bytes }) = one.footprint else {
        return vec![MISSING.into(); 5];
    };
    let megabytes = |bytes: u64| number(bytes as f64 / 1e6);
    let [memory, most] = [idle, crowd].map(|one| megabytes(one.kib * 1024));
    vec![memory, most, idle.threads.to_string(), crowd.threads.to_string(), megabytes(installed_bytes)]
}

/// A figure that the stored run did not measure.
const MISSING: &str = "–";

fn shown(figure: Option<String>) -> String {
    figure.unwrap_or_else(|| MISSING.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::{Crowd, Resident};
    use crate::spread::Spread;
    use crate::store;

    fn row(library: Library) -> LibraryCosts {
        let spread = Spread { median: 2.0, p10: 1.0, p90: 3.0 };
        LibraryCosts {
            library: library.name().into(),
            rounds: 8,
            pair_us: spread,
            pair_to_own: spread,
            pair_cpu_us: spread,
            pair_server_us: spread,
            pair_commands: spread,
            hand_off_us: spread,
            hand_off_to_own: spread,
            hand_off_p99_us: Some(6.0),
            freed_ms: Some(Spread { median: 25_000.0, ..spread }),
            footprint: Some(Footprint {
                idle: Resident { kib: 20_000, threads: 3 },
                crowd: Resident { kib: 40_000, threads: 103 },
                installed_bytes: 2_500_000,
            }),
            crowd: Crowd {
                waiters: WAITERS,
                us: spread,
                to_own: spread,
                longest_ms: 4.0,
                overtaken: 7,
                server_us: spread,
                commands: spread,
                hand_off_us: Some(spread),
                hand_off_p99_us: Some(5.0),
            },
        }
    }

    #[test]
    fn the_tables_have_a_row_for_each_library() {
        let environment = store::load().unwrap().main.environment;
        let mut rows: Vec<LibraryCosts> = Library::ALL.map(row).into();
        rows.retain(|one| one.library != Library::Rueidislock.name());
        let text = tables(Some(&Clients { environment, rows }));
        let three = "2.00 (1.00–3.00)";
        for line in [
            "| rlock-client in each language | first come, first served;".into(),
            format!(
                "| Node: redlock 4.2.0 | 2.00 | {three} | 2.00 | 2.00 | 2.00 | 2.00 | 6.00 | {three} | 25.0 |"
            ),
            format!("| Node: redlock 4.2.0 | 2.00 | {three} | 2.00 | 5.00 | 4.00 | 7 | 2.00 | 2.00 |"),
            "| Node: redlock 4.2.0 | 20.5 | 41.0 | 3 | 103 | 2.50 |".into(),
            "| Go: rueidislock 1.0.79 on rueidis | – | – | – |".into(),
        ] {
            assert!(text.contains(&line), "{line}\n{text}");
        }
        assert_eq!(tables(None), "No results are stored.");
    }
}
