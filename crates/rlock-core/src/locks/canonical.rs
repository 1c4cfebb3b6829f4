//! The canonical form of the queues for the model checker: histories with the same outcome have the same form.

use std::collections::BTreeSet;

use super::agenda::Agenda;
use super::channels::{Channels, UNSUBSCRIBED_MS};
use super::queue::Queue;
use super::records::Records;
use super::sessions::Sessions;
use super::ties::{Hold, NO_CONNECTION, OwnerInMode};
use super::{Due, Job, LockName, Locks, ReadSearch, Ticket, Tie, Turns, Usage, User, Via, Waiter, Yielding};
use crate::types::{Expiry, MonoMs, UnixMs};

/// How the model checker reads the queues: times relative to now, names as numbers.
pub struct Lens<'a> {
    /// The wall clock.
    pub now: UnixMs,
    /// The clock that never steps.
    pub clock: MonoMs,
    /// When the module yields to Redisson clients: natives are counted up to that number.
    pub turns: Turns,
    /// The number of a ticket among those that live.
    pub ticket: &'a dyn Fn(Ticket) -> i64,
    /// The number of an owner or a channel.
    pub name: &'a dyn Fn(&[u8]) -> i64,
    /// The number of a lock.
    pub lock: &'a dyn Fn(LockName<'_>) -> i64,
    /// The number of a connection.
    pub client: &'a dyn Fn(u64) -> i64,
}

/// Stands for a missing value.
const NONE: i64 = -1;

impl Lens<'_> {
    fn until(&self, at: UnixMs) -> i64 {
        at.0.saturating_sub(self.now.0).max(0)
    }

    fn on_clock(&self, at: MonoMs) -> i64 {
        i64::try_from(at.0.saturating_sub(self.clock.0)).unwrap_or(i64::MAX)
    }

    fn connection(&self, client: u64) -> i64 {
        if client == NO_CONNECTION { NONE } else { (self.client)(client) }
    }

    fn expiry(&self, expiry: Expiry) -> i64 {
        match expiry {
            Expiry::Never => i64::MAX,
            Expiry::At(at) => self.until(at),
        }
    }
}

impl Locks {
    /// Appends the parts of the queues that affect the future; not counts and texts. Locks are in the order of their
    /// numbers.
    pub fn canonical_form(&self, lens: &Lens<'_>, form: &mut Vec<i64>) {
        self.records.queues_form(lens, form);
        self.records.grants_form(lens, form);
        self.leaving_form(lens, form);
        let sent = self.calls.count_sent_away();
        form.push(sent.map_or(NONE, |count| i64::try_from(count).unwrap_or(i64::MAX)));
        form.extend(self.sweeps.position(lens.lock));
        self.reads_form(lens, form);
        self.found_form(lens, form);
        let yielding = self.records.all_known().filter_map(|(lock, record)| {
            let [state, count, age] = record.yielding?.canonical_form(lens);
            Some([(lens.lock)(lock), state, count, age])
        });
        append_sorted(yielding, form);
        self.tied_form(lens, form);
        self.sessions.canonical_form(lens, form);
        self.channels.canonical_form(lens, form);
        append_sorted(self.users.iter().map(|(user, usage)| usage_form(lens, user, usage)), form);
        self.agenda.canonical_form(lens, form);
        form.push(self.role.is_synchronised().into());
        form.push(self.agenda.timer().map_or(NONE, |at| lens.on_clock(at)));
    }

    /// The owners that left a queue and still have an entry in the fair list.
    fn leaving_form(&self, lens: &Lens<'_>, form: &mut Vec<i64>) {
        let leaving =
            self.records.iter().filter_map(|(lock, record)| Some((lock, record.leaving.as_deref()?)));
        for (lock, leaving) in leaving {
            form.push((lens.lock)(lock));
            form.extend(leaving.position(self.role.era()));
            append_sorted(leaving.owners().map(|(owner, later)| [(lens.name)(owner), later.into()]), form);
        }
        form.push(NONE);
    }

    /// When the latest read lease of each lock ends, and whether its repair is due.
    fn reads_form(&self, lens: &Lens<'_>, form: &mut Vec<i64>) {
        let reads = self.records.all_known().filter_map(|(lock, record)| {
            let ends = lens.until(record.read_ends?);
            Some([(lens.lock)(lock), ends, self.agenda.has_of(Job::RepairReads, &lock.to_ref()).into()])
        });
        append_sorted(reads, form);
    }

    /// What is known of read leases that were not granted here, and the searches for them.
    fn found_form(&self, lens: &Lens<'_>, form: &mut Vec<i64>) {
        for (lock, record) in self.records.all_known() {
            let Some(found) = record.found_reads.as_deref() else { continue };
            let (search, is_known) = found.state(self.role.era());
            let end = |ends: Option<UnixMs>| ends.map_or(NONE, |ends| lens.until(ends));
            let due = self.agenda.has_of(Job::RepairReads, &lock.to_ref());
            let lock = (lens.lock)(lock);
            form.extend([lock, end(found.ends), is_known.into(), due.into(), search.is_some().into()]);
            let Some((ReadSearch { cursor, readers, latest, .. }, is_of_era)) = search else { continue };
            let cursor = cursor.map_or(NONE, |cursor| i64::try_from(cursor).unwrap_or(i64::MAX));
            form.extend([cursor, end(*latest), is_of_era.into()]);
            form.extend(readers.iter().flat_map(|reader| [(lens.name)(&reader.owner), reader.holds.get()]));
            form.push(NONE);
        }
        form.push(NONE);
    }
}

impl Records {
    /// The waiters of each lock.
    fn queues_form(&self, lens: &Lens<'_>, form: &mut Vec<i64>) {
        let queues = self.iter().filter_map(|(lock, record)| Some((lock, record.queue.as_deref()?)));
        let mut locks: Vec<_> = queues.map(|(lock, queue)| ((lens.lock)(lock), queue)).collect();
        locks.sort_unstable_by_key(|(number, _)| *number);
        for (number, queue) in locks {
            form.push(number);
            queue.canonical_form(lens, form);
        }
        form.push(NONE);
    }

    /// The undelivered grants, and those that must be revoked.
    fn grants_form(&self, lens: &Lens<'_>, form: &mut Vec<i64>) {
        let undelivered = self.iter().flat_map(|(lock, record)| {
            record.grants.iter().map(move |grant| {
                let (owner, ticket) = ((lens.name)(&grant.owner), (lens.ticket)(grant.ticket));
                [(lens.lock)(lock), owner, grant.mode as i64, lens.until(grant.ends), ticket]
            })
        });
        append_sorted(undelivered, form);
        let revokes = self
            .iter()
            .filter_map(|(lock, record)| Some((lock, record.rare()?)))
            .flat_map(|(lock, rare)| rare.revokes.iter().map(move |grant| (lock, grant)));
        for (lock, grant) in revokes {
            let owner = (lens.name)(&grant.owner);
            form.extend([(lens.lock)(lock), owner, grant.mode as i64, lens.until(grant.ends)]);
        }
        form.push(NONE);
    }
}

impl Locks {
    /// The entries of holds by connection, which of them are stale, and the ties that are still to be freed.
    fn tied_form(&self, lens: &Lens<'_>, form: &mut Vec<i64>) {
        let holds = self.sessions.holds.iter();
        let holds = holds.flat_map(|(client, holds)| holds.iter().map(move |hold| (*client, hold)));
        let row = |(client, (hold, user)): (u64, (&Hold, &Option<User>))| {
            let (lock, owner, mode) = hold;
            let tie = self.tie_of(lock.name(), owner, *mode).filter(|tie| tie.indexed_by() == client);
            let [last, youngest] =
                tie.map_or([NONE; 2], |tie| [tie.last.client, tie.youngest].map(|of| lens.connection(of)));
            let user = user.as_deref().map_or(NONE, lens.name);
            [
                lens.connection(client),
                (lens.lock)(lock.name()),
                (lens.name)(owner),
                *mode as i64,
                user,
                last,
                youngest,
            ]
        };
        append_sorted(holds.map(row), form);
        for (lock, ties) in &self.sessions.untied {
            form.push((lens.lock)(lock.name()));
            let ties = ties.holds.iter();
            let row = |((owner, mode), tie): (&OwnerInMode, &Tie)| {
                [(lens.name)(owner), *mode as i64, lens.connection(tie.indexed_by())]
            };
            append_sorted(ties.map(row), form);
        }
        form.push(NONE);
    }
}

impl Channels {
    /// Since when channels have no subscriber, and where a round of checks is.
    fn canonical_form(&self, lens: &Lens<'_>, form: &mut Vec<i64>) {
        let ages = self.unsubscribed().map(|(channel, since)| {
            let age = lens.clock.0.saturating_sub(since.0).min(UNSUBSCRIBED_MS);
            [(lens.name)(channel), i64::try_from(age).unwrap_or(i64::MAX)]
        });
        append_sorted(ages, form);
        let position = self.position();
        form.push(position.is_some().into());
        form.push(position.flatten().map_or(NONE, |channel| (lens.name)(channel)));
    }
}

/// What counts for a user.
fn usage_form(lens: &Lens<'_>, user: &[u8], usage: Usage) -> [i64; 3] {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    [(lens.name)(user), number(usage.waiters), number(usage.ties())]
}

/// Appends rows in sorted order, and a mark after them.
pub fn append_sorted<const N: usize>(rows: impl Iterator<Item = [i64; N]>, form: &mut Vec<i64>) {
    let mut rows: Vec<_> = rows.collect();
    rows.sort_unstable();
    form.extend(rows.iter().flatten());
    form.push(NONE);
}

impl Agenda {
    /// Other work stands in the records; where it waits, and which lock is next, does not.
    fn canonical_form(&self, lens: &Lens<'_>, form: &mut Vec<i64>) {
        append_sorted(self.parked().map(|(job, lock)| [*job as i64, (lens.lock)(lock.name())]), form);
        form.extend(self.last_ones().map(|last| last.map_or(NONE, |lock| (lens.lock)(lock.name()))));
        form.push(self.not_before().map_or(NONE, |at| lens.on_clock(at)));
    }
}

impl Yielding {
    fn canonical_form(self, lens: &Lens<'_>) -> [i64; 3] {
        match self {
            // The count is never read if the module never yields to Redisson clients.
            Self::Counting { .. } if lens.turns.after_grants == u32::MAX => [0, NONE, NONE],
            Self::Counting { admitted, since, .. } => {
                let age = lens.clock.0.saturating_sub(since.0).min(lens.turns.after_ms);
                [0, admitted.min(lens.turns.after_grants).into(), i64::try_from(age).unwrap_or(i64::MAX)]
            }
            Self::Draining { look_at } => [1, lens.on_clock(look_at), NONE],
            Self::Window { until } => [2, lens.on_clock(until), NONE],
        }
    }
}

impl Sessions {
    /// Ended connections, and lease ends to announce; the position of the sweep does not matter.
    fn canonical_form(&self, lens: &Lens<'_>, form: &mut Vec<i64>) {
        let ended = |clients: &BTreeSet<u64>| {
            clients.iter().map(|client| [(lens.client)(*client)]).collect::<Vec<_>>()
        };
        append_sorted(ended(&self.ended_holds).into_iter(), form);
        append_sorted(ended(&self.ended_waits).into_iter(), form);
        let ends = self.ends.iter();
        append_sorted(
            ends.map(|(lock, (at, mode))| [(lens.lock)(lock.name()), lens.until(*at), *mode as i64]),
            form,
        );
        form.push(self.is_parked.into());
    }
}

impl Queue {
    fn canonical_form(&self, lens: &Lens<'_>, form: &mut Vec<i64>) {
        for waiter in self.waiters.iter() {
            waiter.canonical_form(lens, form);
        }
        form.extend([
            NONE,
            self.due.map_or(NONE, |due| match due {
                Due::Now => 0,
                Due::At(at) => lens.until(at),
            }),
            self.ends.map_or(NONE, |ends| lens.expiry(ends)),
            self.announced_end.map_or(NONE, |end| lens.expiry(end)),
            self.fair_changed.into(),
            self.fair_checked()
                .is_some_and(|checked| self.waiters.first().is_some_and(|(first, _)| first == checked))
                .into(),
            self.unserved.into(),
            self.in_doubt.into(),
            self.slot_in_doubt.into(),
            self.called().map_or(NONE, |owner| (lens.name)(owner)),
        ]);
    }
}

impl Waiter {
    fn canonical_form(&self, lens: &Lens<'_>, form: &mut Vec<i64>) {
        form.extend([
            (lens.name)(&self.owner),
            self.mode() as i64,
            self.lease.get(),
            self.fenced.into(),
            self.fair.into(),
            self.until.map_or(NONE, |until| lens.on_clock(until)),
            (lens.ticket)(self.ticket),
            match &self.via {
                Via::Block => NONE,
                Via::Enqueue(channel) => (lens.name)(channel),
            },
            self.session.map_or(NONE, |session| (lens.client)(session.client)),
            self.user.as_deref().map_or(NONE, lens.name),
        ]);
    }
}
