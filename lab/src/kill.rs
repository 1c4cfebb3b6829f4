//! Holders are killed: how soon the next waiter holds the lock. All contenders at a time, since nearly all of that is sleep.

use std::thread::sleep;
use std::time::Duration;

use crate::client::Worker;
use crate::rng::Rng;
use crate::systems::clock;

/// The least time from the acquisition to the kill, in ms: until all waiters wait.
const LEAST_MS: u64 = 500;

/// Two warm processes of one contender, and the line by which either of them acquires the lock.
pub(crate) struct Rivals {
    pub(crate) holder: Worker,
    pub(crate) waiter: Worker,
    pub(crate) acquire: String,
}

/// The time from the kill of each holder to the acquisition by its waiter, in ms. The kills come at most a third of the lease after the
/// acquisitions, as for a holder that renews three times in each lease.
pub(crate) fn freed_after(rivals: Vec<Rivals>, lease_ms: u64, rng: &mut Rng) -> Vec<f64> {
    let hold = |Rivals { mut holder, waiter, acquire }| {
        holder.ask(&acquire);
        (Some(holder), (waiter, acquire))
    };
    let (mut holders, mut waiters): (Vec<Option<Worker>>, Vec<(Worker, String)>) =
        rivals.into_iter().map(hold).unzip();
    waiters.iter_mut().for_each(|(waiter, acquire)| waiter.tell(acquire));
    sleep(Duration::from_millis(LEAST_MS + rng.below(lease_ms / 3 - LEAST_MS)));
    let mut killed = vec![0; holders.len()];
    for index in rng.order(holders.len()) {
        killed[index] = clock();
        drop(holders[index].take());
    }
    let freed = |((waiter, _), killed): (&mut (Worker, String), u64)| {
        let (acquired, _) = waiter.answer();
        assert!(acquired >= killed, "two hold the lock at a time");
        (acquired - killed) as f64 / 1e6
    };
    waiters.iter_mut().zip(killed).map(freed).collect()
}
