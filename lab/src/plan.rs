//! What is measured, how often, and on what.

use crate::named::named;
use crate::uncontended::Setting;

/// The kinds of benchmark, in the order of a full run.
pub(crate) const BENCHMARKS: [&str; 8] =
    ["uncontended", "contention", "redisson", "memory", "readers", "client", "clients", "stalls"];

/// The name for all benchmarks of the table of targets.
const TARGETS: &str = "targets";

/// The option for a few rounds.
const QUICK: &str = "--quick";

/// These benchmarks.
const OF_TARGETS: [&str; 4] = ["uncontended", "contention", "memory", "stalls"];

const USAGE: &str = "usage: rlock-bench [BENCHMARK | scale | simulate | threads | systems | fleet | render]... [OPTION VALUE | --quick]...
benchmarks: uncontended, contention, redisson, memory, readers, client, clients, stalls; without any: all, and the results
            are stored, as are those of redisson, client, clients or stalls alone, beside the other results of their server
targets: what the table of targets shows (uncontended, contention, memory, stalls); alone and on another server than the
         main one of docs/BENCHMARKS.md, it is stored
scale: alone or with --quick: where one server ends, and a simulated fleet, for docs/SCALE.md; stored if whole
simulate: the simulated fleet again, from the stored measurements
threads: alone or with --quick: where the time of a lock goes, and what I/O threads change; stored if whole
systems: alone or with --quick: etcd, ZooKeeper, PostgreSQL and others beside rlock; stored if whole
fleet: alone or with --quick: a fleet of Redisson moves to the Java client and back; if whole, what a hold costs is stored
render: make docs/BENCHMARKS.md, docs/SCALE.md and its plots, and the table of docs/clients/from-redisson.md from the stored results again
--quick           a few rounds of each, stalls with the fewest waiters, and nothing is stored
--rounds N        N rounds of each benchmark, and nothing is stored
--setting NAME    uncontended: only plain, or only aof-replica
--depth N         uncontended: only 1, or only 50, in flight
RLOCK_BEFORE names a commit: the client is measured beside that of this commit, too.
RLOCK_SEED repeats a random order, REDIS_SERVER names another server, RLOCK_MODULE a module that is built.";

/// The size of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    benchmarks: Vec<String>,
    setting: Option<String>,
    depth: Option<usize>,
    pub(crate) seed: u64,
    pub(crate) uncontended_rounds: usize,
    pub(crate) contention_rounds: usize,
    pub(crate) process_rounds: usize,
    pub(crate) memory_rounds: usize,
    pub(crate) readers_rounds: usize,
    pub(crate) stalls_rounds: usize,
    full: bool,
    quick: bool,
    alone: bool,
}

/// The task that the command line asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum Task {
    Render,
    Measure(Plan),
    Simulate,
    /// The part, whether it is quick, and its seed.
    Apart(Apart, bool, u64),
}

named! {
    /// The parts that a run of everything leaves out.
    enum Apart {
        Scale = "scale";
        /// They are installed for it.
        Systems = "systems";
        /// Where the time of a lock goes, and I/O threads.
        Threads = "threads";
        /// A fleet of Redisson, which moves to the Java client.
        Fleet = "fleet";
    }
}

impl Task {
    /// Reads the arguments after the program's name; the error is the text to show.
    pub(crate) fn parse(arguments: &[String], seed: u64) -> Result<Task, String> {
        let words = || arguments.iter().map(String::as_str);
        let is_quick = words().any(|word| word == QUICK);
        match words().filter(|word| *word != QUICK).collect::<Vec<&str>>()[..] {
            ["render"] if !is_quick => return Ok(Task::Render),
            ["simulate"] if !is_quick => return Ok(Task::Simulate),
            [word] => {
                if let Some(part) = Apart::ALL.into_iter().find(|part| part.name() == word) {
                    return Ok(Task::Apart(part, is_quick, seed));
                }
            }
            _ => {}
        }
        let mut plan = Plan::full(seed);
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            if BENCHMARKS.contains(&argument.as_str()) || argument == TARGETS {
                plan.benchmarks.push(argument.clone());
            } else if argument == QUICK {
                plan.set_rounds(8, 1, 1, 1, 10, 1);
                plan.quick = true;
            } else {
                plan.option(argument, rest.next())
                    .ok_or_else(|| format!("rlock-bench: {argument}\n{USAGE}"))?;
            }
            plan.full = false;
        }
        plan.alone = arguments.len() == 1 && plan.benchmarks.len() == 1;
        Ok(Task::Measure(plan))
    }
}

impl Plan {
    fn full(seed: u64) -> Plan {
        let mut plan = Plan {
            benchmarks: Vec::new(),
            setting: None,
            depth: None,
            seed,
            uncontended_rounds: 0,
            contention_rounds: 0,
            process_rounds: 0,
            memory_rounds: 0,
            readers_rounds: 0,
            stalls_rounds: 0,
            full: true,
            quick: false,
            alone: false,
        };
        plan.set_rounds(80, 6, 4, 3, 60, 3);
        plan
    }

    fn set_rounds(
        &mut self,
        uncontended: usize,
        contention: usize,
        process: usize,
        memory: usize,
        readers: usize,
        stalls: usize,
    ) {
        self.uncontended_rounds = uncontended;
        self.contention_rounds = contention;
        self.process_rounds = process;
        self.memory_rounds = memory;
        self.readers_rounds = readers;
        self.stalls_rounds = stalls;
    }

    fn option(&mut self, name: &str, value: Option<&String>) -> Option<()> {
        let value = value?;
        match name {
            "--rounds" => {
                let rounds = value.parse().ok().filter(|rounds| *rounds > 0)?;
                self.set_rounds(rounds, rounds, rounds, rounds, rounds, rounds);
            }
            "--setting" => {
                let known = Setting::ALL.iter().any(|setting| setting.name() == value);
                self.setting = Some(value.clone()).filter(|_| known);
                self.setting.as_ref()?;
            }
            "--depth" => self.depth = Some(value.parse().ok().filter(|depth| [1, 50].contains(depth))?),
            _ => return None,
        }
        Some(())
    }

    /// Whether the results are complete, and will be stored.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Whether only the smallest of each size is measured, where a size takes long.
    pub(crate) fn is_quick(&self) -> bool {
        self.quick
    }

    /// Whether the run is of this benchmark alone, with nothing else changed.
    pub(crate) fn is_alone(&self, benchmark: &str) -> bool {
        self.alone && self.benchmarks.iter().any(|wanted| wanted == benchmark)
    }

    /// Whether the run is of all targets, with nothing else changed.
    pub(crate) fn is_of_targets(&self) -> bool {
        self.is_alone(TARGETS)
    }

    /// Whether this benchmark is part of the run.
    pub(crate) fn wants(&self, benchmark: &str) -> bool {
        let is_it =
            |wanted: &String| wanted == benchmark || wanted == TARGETS && OF_TARGETS.contains(&benchmark);
        self.benchmarks.is_empty() || self.benchmarks.iter().any(is_it)
    }

    /// Whether this setting is part of the run.
    pub(crate) fn wants_setting(&self, setting: Setting) -> bool {
        self.setting.as_ref().is_none_or(|wanted| wanted == setting.name())
    }

    /// Whether this depth, the number of locks in flight, is part of the run.
    pub(crate) fn wants_depth(&self, depth: usize) -> bool {
        self.depth.is_none_or(|wanted| wanted == depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Task, String> {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        Task::parse(&words, 1)
    }

    #[test]
    fn only_a_run_of_everything_is_full() {
        let plan = |line| match parse(line) {
            Ok(Task::Measure(plan)) => plan,
            other => panic!("{line}: {other:?}"),
        };
        assert!(plan("").is_full() && plan("").wants("client"));
        assert!(plan("uncontended").is_alone("uncontended") && plan("stalls").is_alone("stalls"));
        let targets = plan("targets");
        assert!(targets.is_of_targets() && targets.wants("memory") && !targets.wants("clients"));
        assert!(!targets.is_alone("stalls") && !plan("targets --rounds 1").is_of_targets());
        for line in ["", "memory", "uncontended stalls", "uncontended --depth 1", "stalls --quick", "--quick"]
        {
            assert!(!["uncontended", "stalls"].iter().any(|one| plan(line).is_alone(one)), "{line}");
        }
        assert!(plan("stalls --quick").is_quick() && !plan("stalls --rounds 1").is_quick());
        for line in ["memory", "--quick", "--rounds 3", "--depth 1", "--setting plain"] {
            assert!(!plan(line).is_full(), "{line}");
        }
        assert!(!plan("memory").wants("uncontended") && plan("memory --rounds 3").memory_rounds == 3);
        assert!(
            !plan("--depth 1").wants_depth(50) && !plan("--setting plain").wants_setting(Setting::AofReplica)
        );
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for line in [
            "x",
            "--rounds",
            "--rounds 0",
            "--depth 2",
            "--setting x",
            "render memory",
            "memory render",
            "scale memory",
            "systems memory",
            "threads memory",
            "fleet memory",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert_eq!(parse("render"), Ok(Task::Render));
        assert_eq!(parse("simulate"), Ok(Task::Simulate));
        for part in Apart::ALL {
            let name = part.name();
            assert_eq!(parse(name), Ok(Task::Apart(part, false, 1)));
            assert_eq!(parse(&format!("{name} --quick")), Ok(Task::Apart(part, true, 1)));
            assert_eq!(parse(&format!("--quick {name}")), Ok(Task::Apart(part, true, 1)));
        }
    }
}
