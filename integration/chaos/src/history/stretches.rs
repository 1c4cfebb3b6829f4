//! Parts of the time.

use super::{Attempt, Event, History, Mode, Us};

/// Stretches of time, sorted and apart.
pub(super) struct Stretches(Vec<(Us, Us)>);

impl Stretches {
    pub(super) fn of(mut parts: Vec<(Us, Us)>) -> Stretches {
        parts.sort_unstable();
        let mut joined: Vec<(Us, Us)> = Vec::new();
        for (begin, end) in parts {
            match joined.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((begin, end)),
            }
        }
        Stretches(joined)
    }

    /// When at least `count` of these overlap.
    pub(super) fn of_at_least(count: usize, parts: &[(Us, Us)]) -> Vec<(Us, Us)> {
        // An end comes before a beginning at the same time.
        let ends = parts
            .iter()
            .filter(|(begin, end)| begin < end)
            .flat_map(|(begin, end)| [(*begin, 1), (*end, -1)]);
        let mut ends: Vec<(Us, isize)> = ends.collect();
        ends.sort_unstable();
        let (mut found, mut since, mut open) = (Vec::new(), 0, 0_isize);
        for (at, step) in ends {
            let before = open;
            open += step;
            match (before.unsigned_abs() >= count, open.unsigned_abs() >= count) {
                (false, true) => since = at,
                (true, false) => found.push((since, at)),
                _ => {}
            }
        }
        found
    }

    /// The times between `from` and `to` that none of them covers.
    pub(super) fn gaps(&self, from: Us, to: Us) -> Vec<(Us, Us)> {
        let first = self.0.partition_point(|(_, end)| *end <= from);
        let within = self.0[first..].iter().take_while(|(begin, _)| *begin < to);
        let (mut at, mut gaps) = (from, Vec::new());
        for (begin, end) in within {
            gaps.push((at, *begin));
            at = *end;
        }
        gaps.push((at, to));
        gaps.retain(|(begin, end)| begin < end);
        gaps
    }

    /// When the one ends that covers this time; the time itself where none does.
    pub(super) fn end_at(&self, at: Us) -> Us {
        let next = self.0.get(self.0.partition_point(|(_, end)| *end <= at));
        next.filter(|(begin, _)| *begin <= at).map_or(at, |(_, end)| *end)
    }

    /// How much of the time between `from` and `to` none of them covers.
    pub(super) fn uncovered(&self, from: Us, to: Us) -> Us {
        self.gaps(from, to).iter().map(|(begin, end)| end - begin).sum()
    }
}

/// When a lock may be held, or each of its permits.
pub(super) fn taken<'a>(
    attempts: &[&'a Attempt],
    parts: impl Fn(&'a Attempt) -> Option<(Us, Us)>,
) -> Vec<(Us, Us)> {
    let all = attempts.iter().filter_map(|attempt| parts(attempt)).collect::<Vec<_>>();
    match attempts.first().map(|attempt| attempt.mode) {
        Some(Mode::Permit(permits)) => Stretches::of_at_least(permits as usize, &all),
        _ => all,
    }
}

impl History {
    /// When servers may answer and serve no client.
    pub(super) fn stalls(&self, key: usize) -> Stretches {
        let stalls = self.events_of(key).filter(|event: &&Event| event.harm.stalls);
        Stretches::of(stalls.map(|event| (event.begin, event.end)).collect())
    }
}
