//! What docs/BENCHMARKS.md computes from the figures.

use minijinja::context;
use minijinja::value::Value;

use super::load::Load;
use super::{IO_THREADS, Row, Threads};

/// The cores of the computed column.
const CORES: f64 = 16.0;

/// The figures of the page that are not stored.
pub(crate) fn computed(threads: &Threads) -> Value {
    context! {
        on_many_cores => threads.rows.iter().map(Row::on_many_cores).collect::<Vec<_>>(),
        difference => threads.difference(),
        most => IO_THREADS[IO_THREADS.len() - 1],
        others => CORES as u32 - 1,
    }
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

    /// The parts of the difference between one command in flight and fifty.
    fn difference(&self) -> Option<Value> {
        let locks = self.row(Load::LOCKS)?;
        let piped = self.row(Load::PIPED)?;
        let user = |load| Some(self.row(load)?.user_us.median);
        let (pings, piped_pings) = (user(Load::PINGS)?, user(Load::PIPED_PINGS)?);
        let percent = |part: f64| part / (locks.main_us() - piped.main_us()) * 100.0;
        let kernel_percent = percent(locks.kernel_us.median - piped.kernel_us.median);
        let server_percent = percent(pings - piped_pings);
        Some(context! {
            server => &locks.server,
            locks_us => locks.main_us(),
            piped_us => piped.main_us(),
            kernel_percent,
            calls => locks.calls,
            piped_calls => piped.calls,
            tcp_us => locks.kernel_us.median - self.row(Load::UNIX)?.kernel_us.median,
            server_percent,
            rest_percent => 100.0 - kernel_percent - server_percent,
            lock_us => locks.user_us.median - pings,
            piped_lock_us => piped.user_us.median - piped_pings,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::shown;
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
        let text = shown(&Threads { schema: 1, environment, connections: 9_000, rows });
        for part in
            ["takes 24.0 µs", "in flight 4.00 µs", "75.0 % are", "TCP is 10.0 µs", "10.0 % are", "15.0 % are"]
        {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(text.contains("locks a second: Redis 8.6.3: 1.00."), "{text}");
    }
}
