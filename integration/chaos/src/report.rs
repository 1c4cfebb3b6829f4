//! The printed lines, and the stored figures.

use std::time::Duration;

use serde::Serialize;

use crate::history::{Attempt, Confirm, Counts, Event, History, Outcome as Came, Us, Violation, ms};
use crate::round::Outcome;

/// Between these the figures stand in the documentation.
const BEGIN: &str = "<!-- figures -->";
const END: &str = "<!-- end of figures -->";

/// How many violations of a round are printed with what happened around them.
const SHOWN: usize = 4;

/// How many lines each.
const SHOWN_AROUND: usize = 12;

/// The figures of a whole run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    seed: u64,
    seconds: u64,
    server: String,
    rounds: u64,
    clients: usize,
    attempts: u64,
    acquisitions: u64,
    /// Those that had waited.
    hand_offs: u64,
    tokens: u64,
    by_kind: Counts,
    /// What else happened to clients.
    notes: Counts,
    faults: Counts,
    compared: usize,
    /// Breaches of a rule that a fault explains.
    excused: Counts,
    /// Why callers were refused, or sent away.
    reasons: Counts,
    /// Holders that worked on beyond their lease; those of them whose lock another owner got; of these, those with
    /// tokens; and those whose token a resource would refuse.
    overslept: usize,
    overtaken: usize,
    overtaken_fenced: usize,
    overtaken_refused: usize,
    violations: usize,
}

impl Report {
    pub(crate) fn new(seed: u64) -> Report {
        Report { seed, ..Report::default() }
    }

    /// Adds a round, and prints its result.
    pub(crate) fn add(&mut self, number: u64, outcome: &Outcome) {
        let (history, verdict) = (&outcome.history, &outcome.verdict);
        let held = |attempt: &&Attempt| attempt.outcome == Came::Held;
        let acquisitions = history.attempts.iter().filter(held).count() as u64;
        let waited =
            |attempt: &&Attempt| attempt.limit.is_some() && attempt.answered > attempt.requested + ms(1);
        let hand_offs = history.attempts.iter().filter(held).filter(waited).count() as u64;
        self.server.clone_from(&outcome.server);
        self.rounds += 1;
        self.clients = outcome.clients;
        self.attempts += history.attempts.len() as u64;
        self.acquisitions += acquisitions;
        self.hand_offs += hand_offs;
        self.tokens += history.attempts.iter().map(|attempt| attempt.tokens.len() as u64).sum::<u64>();
        self.count(&outcome.counts);
        self.compared += verdict.compared;
        add(&mut self.excused, &verdict.excused);
        add(&mut self.reasons, &verdict.reasons);
        self.overslept += verdict.late.overslept;
        self.overtaken += verdict.late.overtaken;
        self.overtaken_fenced += verdict.late.fenced;
        self.overtaken_refused += verdict.late.refused;
        self.violations += verdict.violations.len();
        println!(
            "round {number} ({:?}, {}): {acquisitions} acquisitions, {hand_offs} after a wait, {} faults, \
             {} violations; excused: {}",
            outcome.setting,
            outcome.server,
            outcome.plan.len(),
            verdict.violations.len(),
            listed(&verdict.excused),
        );
        if !verdict.violations.is_empty() {
            self.explain(number, outcome);
        }
    }

    fn count(&mut self, counts: &Counts) {
        for (name, count) in counts {
            let (sums, name) = match name.split_once(": ") {
                Some(("fault", fault)) => (&mut self.faults, fault),
                Some((_, note)) => (&mut self.notes, note),
                None => (&mut self.by_kind, name.as_str()),
            };
            *sums.entry(name.to_owned()).or_default() += count;
        }
    }

    fn explain(&self, number: u64, outcome: &Outcome) {
        let mut rules = Counts::new();
        for violation in &outcome.verdict.violations {
            *rules.entry(violation.rule.to_owned()).or_default() += 1;
        }
        println!("  violations by rule: {}", listed(&rules));
        println!("  the plan of round {number}, SEED={}:", self.seed);
        for planned in &outcome.plan {
            println!("    {:>6} ms  {}", planned.at_ms, planned.fault);
        }
        for violation in outcome.verdict.violations.iter().take(SHOWN) {
            let lock = &outcome.history.keys[violation.key];
            println!(
                "  VIOLATION of {} at {} ms, {lock}: {}",
                violation.rule,
                violation.at / 1_000,
                violation.text
            );
            around(&outcome.history, violation);
        }
        match trace(&outcome.history, &outcome.verdict.violations) {
            Ok(file) => println!("  all that happened to these locks: {file}"),
            Err(error) => eprintln!("  {error}"),
        }
        println!("  again: make chaos SEED={} ROUND={number}", self.seed);
    }

    /// Prints the sum, and stores the figures where they are wanted; whether nothing was violated.
    pub(crate) fn finish(
        mut self,
        took: Duration,
        json: Option<&str>,
        doc: Option<&str>,
    ) -> std::io::Result<bool> {
        self.seconds = took.as_secs();
        println!("{}\nbeside that: {}", self.table(), listed(&self.notes));
        if let Some(file) = json {
            std::fs::write(file, format!("{}\n", serde_json::to_string_pretty(&self)?))?;
        }
        if self.attempts == 0 || self.acquisitions == 0 {
            println!("nothing happened");
            return Ok(false);
        }
        if let Some(file) = doc.filter(|_| self.violations == 0) {
            let page = std::fs::read_to_string(file)?;
            let marks =
                page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
            let (before, after) =
                marks.ok_or_else(|| std::io::Error::other(format!("{file} has no {BEGIN}")))?;
            std::fs::write(file, format!("{before}{BEGIN}\n\n{}\n{END}{after}", self.table()))?;
        }
        Ok(self.violations == 0)
    }

    /// The figures for docs/CHAOS.md.
    fn table(&self) -> String {
        let rows = [
            ("time", format!("{} s in {} rounds, SEED={}", self.seconds, self.rounds, self.seed)),
            ("server", format!("{}, rlock {}", self.server, env!("CARGO_PKG_VERSION"))),
            ("clients at a time", self.clients.to_string()),
            ("acquisitions", format!("{}, of them {} after a wait", self.acquisitions, self.hand_offs)),
            ("kinds of client", self.by_kind.len().to_string()),
            ("fencing tokens", self.tokens.to_string()),
            ("faults", listed(&self.faults)),
            ("refused or sent away, and why", listed(&self.reasons)),
            ("excused by faults, by rule", listed(&self.excused)),
            (
                "holders that worked on beyond their lease",
                format!(
                    "{}, of them {} beside another holder; a token gave away {} of {} that had one",
                    self.overslept, self.overtaken, self.overtaken_refused, self.overtaken_fenced
                ),
            ),
            ("compared", format!("{} pairs, waits and tokens", self.compared)),
            ("**violations**", format!("**{}**", self.violations)),
        ];
        let rows = rows.iter().map(|(name, text)| format!("| {name} | {text} |\n"));
        format!("| | |\n|---|---|\n{}", rows.collect::<String>())
    }
}

/// Counts in one line.
fn listed(counts: &Counts) -> String {
    counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

fn add(sums: &mut Counts, counts: &Counts) {
    for (name, count) in counts {
        *sums.entry(name.clone()).or_default() += count;
    }
}

/// What others did with the lock at that time, and what went wrong.
fn around(history: &History, violation: &Violation) {
    let (from, to) = (violation.at.saturating_sub(ms(400)), violation.at + ms(100));
    for line in lines(history, violation.key, from, to, SHOWN_AROUND) {
        println!("      {line}");
    }
}

/// The faults and the attempts that were under way between two times, the last `most` of each.
fn lines(history: &History, key: usize, from: Us, to: Us, most: usize) -> Vec<String> {
    let close = |begin: Us, end: Us| begin < to && end > from;
    let mut events: Vec<&Event> =
        history.events_of(key).filter(|event| close(event.begin, event.end + 1)).collect();
    events.sort_by_key(|event| event.begin);
    let mut attempts: Vec<&Attempt> = history.attempts.iter().filter(|one| one.key == key).collect();
    attempts.retain(|attempt| close(attempt.requested, attempt.answered.max(attempt.gone)));
    attempts.sort_by_key(|attempt| attempt.answered);
    let events = events.iter().rev().take(most).rev().map(|event| {
        format!("fault  {:>8} to {:>8} ms  {}", event.begin / 1_000, event.end / 1_000, event.what)
    });
    events.chain(attempts.iter().rev().take(most).rev().map(|attempt| line(attempt))).collect()
}

fn line(attempt: &Attempt) -> String {
    let in_ms = |at: Option<Us>| at.map_or("-".to_owned(), |at| (at / 1_000).to_string());
    let confirms = attempt.confirms.iter().map(|one| {
        let Confirm { sent, replied, lease, on_replica } = one;
        let kept = if *on_replica { ", on the replica" } else { "" };
        format!("{}-{} for {}{kept}", sent / 1_000, replied / 1_000, lease / 1_000)
    });
    format!(
        "{:<34} {:?} asked {}, answered {} {:?}; held [{}]; released {}, refuted {}, gone {}{}",
        attempt.owner,
        attempt.mode,
        attempt.requested / 1_000,
        attempt.answered / 1_000,
        attempt.outcome,
        confirms.collect::<Vec<_>>().join(", "),
        in_ms(attempt.released),
        in_ms(attempt.refuted),
        attempt.gone / 1_000,
        if attempt.dead { ", dead" } else { "" },
    )
}

/// Writes down all that happened to the locks of these violations; the file's name.
fn trace(history: &History, violations: &[Violation]) -> std::io::Result<String> {
    let mut keys: Vec<usize> = violations.iter().map(|violation| violation.key).collect();
    keys.sort_unstable();
    keys.dedup();
    let file = std::env::temp_dir().join(format!("rlock-chaos-{}.txt", std::process::id()));
    let mut text = String::new();
    for key in keys {
        text += &format!("{}\n", history.keys[key]);
        for line in lines(history, key, 0, Us::MAX, usize::MAX) {
            text += &format!("  {line}\n");
        }
    }
    std::fs::write(&file, text)?;
    Ok(file.display().to_string())
}
