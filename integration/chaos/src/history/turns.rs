//! Native readers that follow one another do not keep a waiting Redisson writer out.

use super::{Attempt, History, Line, Mode, Us, Verdict, ms};

/// For how long natives may read on before new readers must wait (`rlock.foreign-turn-ms`), and how much longer that
/// may take.
const TURN: Us = ms(1_000);
const LATE: Us = ms(600);

/// If a writer leaves this soon after a new reader, the server may have known already that no client listens.
const GOES: Us = ms(300);

pub(super) fn check(history: &History, key: usize, attempts: &[&Attempt], verdict: &mut Verdict) {
    let writers: Vec<&Attempt> = attempts.iter().filter(|one| is_foreign_writer(one)).copied().collect();
    if writers.is_empty() {
        return;
    }
    let mut readers: Vec<(Us, &Attempt)> = attempts
        .iter()
        .filter(|attempt| attempt.mode == Mode::Shared)
        .filter_map(|attempt| Some((attempt.begin()?, *attempt)))
        .collect();
    readers.sort_by_key(|(begin, _)| *begin);
    // Since when the lock is read without a gap, and until when by the readers so far.
    let (mut since, mut until): (Us, Us) = (0, 0);
    for (begin, reader) in readers {
        if begin >= until {
            since = begin;
        } else if matches!(reader.line, Line::Native) {
            let waiting = |one: &&&Attempt| {
                one.queued.is_some_and(|heard| heard < begin) && one.answered > begin + GOES
            };
            for writer in writers.iter().filter(waiting) {
                verdict.compared += 1;
                passed_over(history, key, writer, reader, since, verdict);
            }
        }
        until = until.max(reader.end());
    }
}

/// A Redisson writer that listens while it waits.
fn is_foreign_writer(attempt: &Attempt) -> bool {
    attempt.line == Line::Foreign && attempt.mode == Mode::Alone && attempt.queued.is_some()
}

/// This reader got a lock that had been read without a gap since `since`, which it may not once the writer has waited
/// too long.
fn passed_over(
    history: &History,
    key: usize,
    writer: &Attempt,
    reader: &Attempt,
    since: Us,
    verdict: &mut Verdict,
) {
    let Some(heard) = writer.queued else { return };
    let from = since.max(heard);
    let stalled = history.stalled(key, from, reader.requested);
    let waited = reader.requested.saturating_sub(from).saturating_sub(stalled);
    // After this harm the lock may have been free, whatever its holders believe, or another server may have it, where
    // the writer does not listen.
    let excused = history.harmed(key, heard, reader.answered, |harm| harm.holds || harm.places);
    if waited <= TURN + LATE {
        return;
    }
    let text = format!(
        "{} read after Redisson writer {} had waited for {} ms, in which others read all the time",
        reader.owner,
        writer.owner,
        waited / 1_000
    );
    verdict.judge(excused, "turn", key, reader.answered, text);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{event, holder, is_in_order, read, violates, waiter};
    use super::super::{Harm, Outcome};
    use super::*;

    #[test]
    fn a_writer_of_redissons_has_its_turn_among_readers_that_come_and_come() {
        // Each comes before the one before it has gone.
        let reader = |n: u64| read(holder(&format!("r{n}"), n * 100, n * 100 + 1, n * 100 + 150));
        let writer = |gives_up| Attempt {
            line: Line::Foreign,
            queued: Some(ms(150)),
            outcome: Outcome::Denied,
            ..waiter("w", 140, 4_000, gives_up)
        };
        let among = |readers: u64| {
            let mut all: Vec<_> = (0..readers).map(reader).collect();
            all.push(writer(readers * 100 + 400));
            all
        };
        is_in_order(among(18), vec![]);
        violates("turn", among(19), vec![]);
        // The lock was free in between.
        is_in_order(
            among(25).into_iter().filter(|one| !["r9", "r10"].contains(&one.owner.as_str())).collect(),
            vec![],
        );
        // The servers stalled, or what holders believe may be wrong.
        is_in_order(among(19), vec![event(500, 600, Harm::STALLS)]);
        is_in_order(among(19), vec![event(500, 501, Harm { holds: true, ..Harm::default() })]);
        // It gave up about that time.
        let gone = (0..19).map(reader).chain([writer(2_050)]).collect();
        is_in_order(gone, vec![]);
    }
}
