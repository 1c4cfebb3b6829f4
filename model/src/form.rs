//! The fingerprint of a state: two states from which the same can happen have the same.

use std::hash::{DefaultHasher, Hash, Hasher};

use rlock_core::facts::WriteAccess;
use rlock_core::locks::{Lens, LockName, Ticket, append_sorted};
use rlock_core::{Error, Expiry, Reply, UnixMs};
use rlock_sim::Value;

use crate::ghost::Belief;
use crate::scene::{self, Scene};
use crate::state::State;

/// Which owner and which lock stands for which: owners that differ only by name can change places.
pub(crate) struct Renaming {
    owners: Vec<u8>,
    locks: Vec<u8>,
}

/// Every renaming after which a scene is the same scene.
pub(crate) fn renamings(scene: &Scene) -> Vec<Renaming> {
    let same_channels = |owners: &Vec<u8>| {
        let pairs = (0..scene.owners).flat_map(|one| (0..scene.owners).map(move |other| (one, other)));
        let shared = |one, other| scene.channel(one) == scene.channel(other);
        pairs.into_iter().all(|(one, other)| {
            shared(one, other) == shared(owners[usize::from(one)], owners[usize::from(other)])
        })
    };
    let same_modes = |owners: &Vec<u8>| {
        let wanted = |owner| (scene.modes(owner), scene.permits(owner));
        (0..scene.owners).all(|owner| wanted(owner) == wanted(owners[usize::from(owner)]))
    };
    let owners: Vec<_> = orders(scene.owners).into_iter().filter(same_channels).filter(same_modes).collect();
    let locks = orders(scene.locks);
    let with_locks = |owners: Vec<u8>| {
        let all = locks.iter().map(move |locks| Renaming { owners: owners.clone(), locks: locks.clone() });
        all.collect::<Vec<_>>()
    };
    owners.into_iter().flat_map(with_locks).collect()
}

/// Every order of the numbers below `count`.
fn orders(count: u8) -> Vec<Vec<u8>> {
    let Some(last) = count.checked_sub(1) else { return vec![vec![]] };
    let insert = |shorter: Vec<u8>| {
        (0..=shorter.len()).map(move |at| {
            let mut order = shorter.clone();
            order.insert(at, last);
            order
        })
    };
    orders(last).into_iter().flat_map(insert).collect()
}

/// A fingerprint of 64 bits, the same for states that differ only by names: two of ten million different
/// states share one with a probability of about one in 400,000, and then one of them is not explored.
pub(crate) fn fingerprint(scene: &Scene, renamings: &[Renaming], state: &State) -> u64 {
    let mut form = Vec::with_capacity(128);
    let prints = renamings.iter().map(|renaming| {
        form.clear();
        write(scene, renaming, state, &mut form);
        let mut hasher = DefaultHasher::new();
        form.hash(&mut hasher);
        hasher.finish()
    });
    prints.min().unwrap_or(0)
}

impl Renaming {
    fn owner(&self, owner: u8) -> i64 {
        self.owners.get(usize::from(owner)).copied().unwrap_or(u8::MAX).into()
    }

    fn lock(&self, lock: u8) -> i64 {
        self.locks.get(usize::from(lock)).copied().unwrap_or(u8::MAX).into()
    }

    /// An owner's own number, or that of the first owner of a channel.
    fn name(&self, scene: &Scene, name: &[u8]) -> i64 {
        let number = scene::number(name);
        if name.first() != Some(&b'c') {
            return self.owner(number);
        }
        let of_channel = (0..scene.owners).filter(|owner| scene::number(&scene.channel(*owner)) == number);
        of_channel.map(|owner| self.owner(owner)).min().unwrap_or(-1)
    }
}

#[expect(clippy::too_many_lines, reason = "each field once, in one order")]
fn write(scene: &Scene, renaming: &Renaming, state: &State, form: &mut Vec<i64>) {
    let world = &state.world;
    let mut tickets: Vec<Ticket> = state.locks.calls.tickets().chain(world.clients.keys().copied()).collect();
    tickets.sort_unstable();
    tickets.dedup();
    let until = |at: UnixMs| (at.0 - world.now.0).max(-1);
    let expiry = |expiry| match expiry {
        Expiry::Never => i64::MAX,
        Expiry::At(at) => until(at),
    };
    let rank = |ticket| tickets.binary_search(&ticket).map_or(-1, |rank| i64::try_from(rank).unwrap_or(-1));
    let lens = Lens {
        now: world.now,
        clock: world.clock,
        turns: scene.settings().turns,
        ticket: &rank,
        name: &|name: &[u8]| renaming.name(scene, name),
        lock: &|lock: LockName<'_>| renaming.lock(scene::number(lock.key)),
        client: &|id| {
            let (owner, number) =
                (u8::try_from(id % 16).unwrap_or(u8::MAX), i64::try_from(id / 16).unwrap_or(-1));
            renaming.owner(owner) + 16 * number
        },
    };
    state.locks.canonical_form(&lens, form);
    form.push(world.timer.map_or(-1, |at| i64::try_from(at.0.saturating_sub(world.clock.0)).unwrap_or(-1)));
    let (mut keys, mut fields, mut permits) = (Vec::new(), Vec::new(), Vec::new());
    for (lock, value) in &world.keys {
        let lock = (lens.lock)(lock.name());
        match value {
            Value::Other => keys.push([lock, -2, 0, 0]),
            Value::Lock(hold) => {
                keys.push([lock, (lens.name)(&hold.owner), hold.holds.get(), expiry(hold.expiry)]);
            }
            Value::ReadWrite(value) => {
                keys.push([lock, -3, value.writing.into(), expiry(value.expiry)]);
                for (kind, of) in [(0, &value.reads), (1, &value.writes)] {
                    fields.extend(
                        of.iter().map(|(owner, holds)| [lock, kind, (lens.name)(owner), holds.get()]),
                    );
                }
            }
            Value::Permits(value) => {
                keys.push([lock, -4, 0, expiry(value.expiry)]);
                permits.extend(value.ends.iter().map(|(owner, end)| [lock, (lens.name)(owner), until(*end)]));
            }
        }
    }
    append_sorted(keys.into_iter(), form);
    append_sorted(fields.into_iter(), form);
    append_sorted(permits.into_iter(), form);
    let leases = world
        .read_leases
        .iter()
        .map(|((lock, owner, hold), at)| [(lens.lock)(lock.name()), (lens.name)(owner), *hold, expiry(*at)]);
    append_sorted(leases.filter(|[.., left]| *left >= 0), form);
    let in_lists = world.fair.iter().flat_map(|(lock, list)| list.iter().map(move |entry| (lock, entry)));
    for (lock, entry) in in_lists {
        let deadline = entry.deadline.map_or(i64::MIN, until);
        form.extend([(lens.lock)(lock.name()), (lens.name)(&entry.owner), deadline]);
    }
    // Only a token's distance ahead of the clock matters: behind it, the clock gives the next one.
    let ahead = |token: i64| (token - world.now.0).max(-1);
    let tokens = world.tokens.iter().map(|(lock, last)| [(lens.lock)(lock.name()), last.map_or(-2, ahead)]);
    append_sorted(tokens.filter(|[_, ahead]| *ahead != -1), form);
    let told = state.ghost.tokens.iter().map(|(lock, token)| [renaming.lock(*lock), ahead(*token)]);
    append_sorted(told.filter(|[_, ahead]| *ahead != -1), form);
    for (ticket, client) in &world.clients {
        let owner = renaming.owner(u8::try_from(client.id).unwrap_or(u8::MAX));
        form.extend([rank(*ticket), owner, (lens.lock)(client.lock.name()), answer(client.answer.as_ref())]);
    }
    let flags = [world.primary, world.may_write, world.write_access == WriteAccess::Allowed];
    form.extend(flags.map(i64::from));
    append_sorted(world.subscribed.iter().map(|channel| [(lens.name)(channel)]), form);
    let beliefs = state.ghost.beliefs.iter().map(|(party, belief)| {
        let (owner, lock) = (renaming.owner(party.owner), renaming.lock(party.lock));
        let Belief { holds, ends, by, tied, youngest } = *belief;
        [owner, lock, party.mode as i64, holds, until(ends), by.into(), tied.into(), youngest.into()]
    });
    append_sorted(beliefs, form);
    let connections = state.ghost.connections.iter().map(|(owner, connections)| {
        let [count, present, silent] =
            [connections.count, connections.present, connections.silent].map(i64::from);
        [renaming.owner(*owner), count, present, silent]
    });
    append_sorted(connections, form);
    for (ticket, grant) in &state.ghost.grants {
        form.extend([rank(*ticket), until(grant.ends)]);
    }
    form.push(state.ghost.steps.into());
    form.push(i64::try_from(world.redisson_writers).unwrap_or(i64::MAX));
    let passed = state.ghost.passed.iter().map(|(lock, passed)| {
        let free = passed.free_at.map_or(-1, |at| i64::try_from(world.clock.0 - at).unwrap_or(-1));
        let flags = i64::from(passed.listened) + 2 * i64::from(passed.turn);
        let free = free.min(scene::WINDOW.cast_signed());
        [renaming.lock(*lock), passed.came.into(), passed.passed.into(), flags, free]
    });
    append_sorted(passed, form);
}

/// The facts that a client learns from an answer.
fn answer(answer: Option<&Result<Reply, Error>>) -> i64 {
    match answer {
        None => 0,
        Some(Ok(Reply::Acquired { .. })) => 1,
        Some(Ok(_)) => 2,
        Some(Err(_)) => 3,
    }
}
