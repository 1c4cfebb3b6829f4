//! What Redisson fair scripts write to the keys, the same for `rlock-core` and the oracle.

use super::op::{ByList, FairScript, Owner};
use super::values::{Entry, Value};

/// Performs an action on a lock's fair list and key, and returns the key after it. `now` is the server's clock.
pub(super) fn run(what: ByList, list: &mut Vec<Entry>, value: Value, now: i64) -> Value {
    let ByList::Script { script, owner, ahead, budget, lease } = what else {
        match what {
            ByList::DeleteList => list.clear(),
            _ => list.iter_mut().for_each(|entry| entry.deadline = None),
        }
        return value;
    };
    let (clock, ends) = (now + ahead, now + lease.0);
    match script {
        FairScript::GiveUp => {
            give_up(list, owner, budget);
            value
        }
        FairScript::Lock | FairScript::TryLock => {
            drop_the_dead(list, clock);
            lock(list, (owner, ends, clock, now), value, (script == FairScript::Lock).then_some(budget))
        }
        FairScript::Unlock => {
            drop_the_dead(list, clock);
            match value {
                Value::Held { by, holds: 1, .. } if by == owner => Value::Nothing,
                Value::Held { by, holds, .. } if by == owner => {
                    Value::Held { by, holds: holds - 1, ends: Some(ends) }
                }
                value => value,
            }
        }
        FairScript::ForceUnlock => {
            drop_the_dead(list, clock);
            Value::Nothing
        }
    }
}

/// Takes the lock, or queues for it where there is time to wait.
fn lock(
    list: &mut Vec<Entry>,
    (owner, ends, clock, now): (Owner, i64, i64, i64),
    value: Value,
    budget: Option<i64>,
) -> Value {
    match value {
        Value::Nothing if list.first().is_none_or(|head| head.owner == owner) => {
            list.retain(|entry| entry.owner != owner);
            list.iter_mut().for_each(|entry| lower(entry, budget.unwrap_or(0)));
            return Value::Held { by: owner, holds: 1, ends: Some(ends) };
        }
        Value::Held { by, holds, .. } if by == owner => {
            // A key with a larger count is not a lock.
            return Value::Held { by, holds: (holds + 1).min(1 << 53), ends: Some(ends) };
        }
        _ => {}
    }
    let stands = list.iter().any(|entry| entry.owner == owner);
    if let Some(budget) = budget.filter(|_| !stands) {
        // The answer of PTTL.
        let left = value.key_end().flatten().map_or(-1, |at| at - now);
        let left = if value == Value::Nothing { -2 } else { left };
        let before = list.last().and_then(|last| last.deadline).unwrap_or(clock + left);
        list.push(Entry { owner, deadline: Some(before + budget) });
    }
    value
}

/// Stops waiting; the entries behind it get earlier deadlines.
fn give_up(list: &mut Vec<Entry>, owner: Owner, budget: i64) {
    if let Some(at) = list.iter().position(|entry| entry.owner == owner) {
        list.remove(at);
        list[at..].iter_mut().for_each(|entry| lower(entry, budget));
    }
}

fn lower(entry: &mut Entry, budget: i64) {
    entry.deadline = entry.deadline.map(|deadline| deadline - budget);
}

fn drop_the_dead(list: &mut Vec<Entry>, clock: i64) {
    let dead = list.iter().take_while(|entry| entry.deadline.is_none_or(|deadline| deadline <= clock));
    list.drain(..dead.count());
}
