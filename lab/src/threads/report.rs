//! The table of docs/BENCHMARKS.md, and what it shows.

use super::load::Load;
use super::{IO_THREADS, Row, Threads};
use crate::report::doc::environment;
use crate::report::tables::{figure, grouped, number, table};

/// The cores of the computed column.
const CORES: f64 = 16.0;

/// The section; nothing where nothing is stored.
pub(crate) fn section(threads: Option<&Threads>) -> String {
    let Some(threads) = threads else { return String::new() };
    let rows = threads.rows.iter().map(|row| {
        let label = Load::ALL.into_iter().find(|load| load.name == row.load).map_or("?", |load| load.label);
        format!(
            "{}, {} | {label} | {} | {} | {} | {} | {} | {}",
            row.server,
            row.io_threads,
            grouped(row.per_second.median as u64),
            figure(row.user_us),
            figure(row.kernel_us),
            figure(row.others_us),
            number(row.calls),
            row.on_many_cores().map_or("-".into(), |locks| grouped((locks / 1e3).round() as u64 * 1_000)),
        )
    });
    let table = table(
        "server, `io-threads` | load | locks a second | main thread, user mode, µs | in the kernel, µs | other threads, µs | reads + writes | on 16 cores with as many I/O threads as help, computed",
        rows,
    );
    format!(
        "\n### Where the time goes\n\nThe load generator and all threads of the server share two cores. Times and system calls are for one lock: an acquire and a \
         release, or two PINGs. Unless it pipelines, a load has {} connections.\n\n{}\n\n{table}\n{}\n{}",
        grouped(threads.connections as u64),
        environment(&threads.environment),
        difference(threads).unwrap_or_default(),
        io_threads(threads),
    )
}

impl Row {
    fn main_us(&self) -> f64 {
        self.user_us.median + self.kernel_us.median
    }

    /// Locks a second where the main thread has a core, the clients are elsewhere, and the other cores do the rest: all system calls, if
    /// there are no other threads yet.
    fn on_many_cores(&self) -> Option<f64> {
        // Elsewhere threads wait in loops: their CPU time is not their work.
        let threads_sleep = self.server.starts_with("Redis 8.");
        let [main, rest] = match self.io_threads {
            _ if self.load != Load::LOCKS.name => return None,
            1 => [self.user_us.median, self.kernel_us.median],
            _ if threads_sleep => [self.main_us(), self.others_us.median],
            _ => return None,
        };
        Some((1e6 / main).min(1e6 * (CORES - 1.0) / rest))
    }
}

impl Threads {
    /// On the server under test, whose rows are first.
    fn row(&self, load: Load) -> Option<&Row> {
        self.rows.iter().find(|row| row.load == load.name)
    }
}

/// The parts of the difference between one command in flight and fifty.
fn difference(threads: &Threads) -> Option<String> {
    let [locks, piped, pings, piped_pings, unix] =
        [Load::LOCKS, Load::PIPED, Load::PINGS, Load::PIPED_PINGS, Load::UNIX].map(|load| threads.row(load));
    let (locks, piped, pings, piped_pings, unix) = (locks?, piped?, pings?, piped_pings?, unix?);
    let all = locks.main_us() - piped.main_us();
    let user = |row: &Row| row.user_us.median;
    let kernel = locks.kernel_us.median - piped.kernel_us.median;
    let server = user(pings) - user(piped_pings);
    let percent = |part: f64| number(part / all * 100.0);
    Some(format!(
        "- **One command in flight** on {} takes {} µs of a core for each lock, 50 in flight {} µs. Of the difference, {} % are the kernel's: {} \
         system calls instead of {}. TCP is {} µs of that, as the Unix socket shows. {} % are the server's own code for events, parsing and \
         replies, as the PINGs show. {} % are the locks themselves: {} µs instead of {}, since connections and keys have left the caches.",
        locks.server,
        number(locks.main_us()),
        number(piped.main_us()),
        percent(kernel),
        number(locks.calls),
        number(piped.calls),
        number(locks.kernel_us.median - unix.kernel_us.median),
        percent(server),
        percent(all - kernel - server),
        number(user(locks) - user(pings)),
        number(user(piped) - user(piped_pings)),
    ))
}

/// What most I/O threads give on each server, and how the last column was computed.
fn io_threads(threads: &Threads) -> String {
    let most = IO_THREADS[IO_THREADS.len() - 1];
    let gains = threads.rows.iter().filter(|row| row.io_threads == most).filter_map(|row| {
        let is_alone = |one: &&Row| (&one.server, &one.load, one.io_threads) == (&row.server, &row.load, 1);
        let alone = threads.rows.iter().find(is_alone)?;
        Some(format!("{}: {}", row.server, number(row.per_second.median / alone.per_second.median)))
    });
    format!(
        "- **I/O threads** read, parse and write; the main thread executes all commands. On these two cores, `io-threads {most}` gives this \
         multiple of the locks a second: {}.\n\
         - **The last column is a computation**, not a measurement: the main thread has a core, {} I/O threads have the others, and the clients \
         are elsewhere. It goes by CPU times, since instructions leave out what the kernel does. For `io-threads 1` it leaves all but the system calls to the main thread, and the main thread is the limit. For Redis 8 \
         with more threads it uses their CPU times. The threads of Redis 7 and Valkey wait in loops, so their CPU time is not their work.\n",
        gains.collect::<Vec<_>>().join("; "),
        number(CORES - 1.0).replace(".0", ""),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Environment;
    use crate::spread::Spread;

    fn row(load: Load, io_threads: u32, [user, kernel, others]: [f64; 3]) -> Row {
        let of = |figure| Spread::of(vec![figure]);
        Row {
            server: "Redis 8.6.3".into(),
            io_threads,
            load: load.name.into(),
            rounds: 1,
            per_second: of(1e5),
            user_us: of(user),
            kernel_us: of(kernel),
            others_us: of(others),
            calls: 4.0,
        }
    }

    #[test]
    fn the_parts_make_up_the_difference_and_the_slowest_thread_is_the_limit() {
        assert_eq!(section(None), "");
        let rows = vec![
            row(Load::PIPED_PINGS, 1, [0.5, 0.5, 0.0]),
            row(Load::PIPED, 1, [3.0, 1.0, 0.0]),
            row(Load::PINGS, 1, [2.5, 15.0, 0.0]),
            row(Load::UNIX, 1, [8.0, 6.0, 0.0]),
            row(Load::LOCKS, 1, [8.0, 16.0, 0.0]),
            row(Load::LOCKS, 4, [5.0, 0.0, 150.0]),
        ];
        let computed = rows.iter().map(|row| row.on_many_cores().map(f64::round));
        assert!(computed.eq([None, None, None, None, Some(125_000.0), Some(100_000.0)]));
        let environment = Environment {
            server: String::new(),
            cpu: String::new(),
            cores: 2,
            kernel: String::new(),
            commit: String::new(),
            date: String::new(),
            seed: 1,
            load: [0.0; 2],
            seconds: 1,
        };
        let text = section(Some(&Threads { schema: 1, environment, connections: 9_000, rows }));
        for part in
            ["takes 24.0 µs", "in flight 4.00 µs", "75.0 % are", "TCP is 10.0 µs", "10.0 % are", "15.0 % are"]
        {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(text.contains("locks a second: Redis 8.6.3: 1.00."), "{text}");
    }
}
