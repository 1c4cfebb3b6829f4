//! Locks that the tasks of several clients take in turn: no two ever hold one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rlock_client::{Any, Client, Durability, Error, Guard, Lock};
use tokio::task::JoinHandle;

use super::cluster::Cluster;
use super::{connect_to_new, eventually, within};

/// A lease that outlasts a fail-over on a busy machine.
const LEASE: Duration = Duration::from_secs(24);

/// The kind of a lock, by which a client makes it of its name.
type Kind = fn(&Client, &str) -> Lock<Any>;

/// What tasks take: the place of a name, whether its holders share it, and how a client makes the lock.
type Side = (usize, bool, Kind);

/// The current holders of a name.
#[derive(Default)]
struct Inside {
    writers: AtomicUsize,
    readers: AtomicUsize,
    last_token: AtomicU64,
}

/// The locks, and the holders of each.
pub struct Contest {
    /// The names of the locks.
    pub names: Vec<String>,
    durability: Durability,
    sides: Vec<Side>,
    inside: Vec<Inside>,
    turns: AtomicUsize,
    over: AtomicBool,
}

impl Contest {
    /// Of plain locks.
    pub fn new(names: Vec<String>, durability: Durability) -> Arc<Contest> {
        let plain: Kind = |client, name| client.lock(name).any();
        Contest::of((0..names.len()).map(|name| (name, false, plain)).collect(), names, durability)
    }

    /// Of a lock of each kind in this place, a hash tag.
    pub fn of_all_kinds(place: &str, durability: Durability) -> Arc<Contest> {
        let sides: [Side; 5] = [
            (0, false, |client, name| client.lock(name).any()),
            (1, false, |client, name| client.lock(name).fair().any()),
            (2, false, |client, name| client.lock(name).fenced().any()),
            (3, false, |client, name| client.read_write_lock(name).write().any()),
            (3, true, |client, name| client.read_write_lock(name).read().any()),
        ];
        let names = ["plain", "fair", "fenced", "page"].map(|name| format!("{place}{name}"));
        Contest::of(sides.into(), names.into(), durability)
    }

    fn of(sides: Vec<Side>, names: Vec<String>, durability: Durability) -> Arc<Contest> {
        let inside = names.iter().map(|_| Inside::default()).collect();
        let (turns, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Contest { names, durability, sides, inside, turns, over })
    }

    /// Lets this number of tasks of each of three clients take part.
    pub async fn begin(self: &Arc<Self>, cluster: &Cluster, tasks: usize) -> Vec<JoinHandle<()>> {
        let mut workers = Vec::new();
        for _ in 0..3 {
            let client = connect_to_new(&Client::builder().lease(LEASE), &cluster.url()).await;
            workers.extend((0..tasks).map(|_| tokio::spawn(self.clone().take_part(client.clone()))));
        }
        workers
    }

    /// Waits for this number of further turns.
    pub async fn go_on(&self, turns: usize) {
        let goal = self.turns.load(Ordering::SeqCst) + turns;
        eventually("more turns", || (self.turns.load(Ordering::SeqCst) >= goal).then_some(())).await;
    }

    /// Lets no task take another turn, and waits for the last ones.
    pub async fn end(&self, workers: Vec<JoinHandle<()>>) {
        self.over.store(true, Ordering::SeqCst);
        for worker in workers {
            within("an end", worker).await.unwrap();
        }
    }

    /// Takes locks as fast as it can.
    async fn take_part(self: Arc<Self>, client: Client) {
        while !self.over.load(Ordering::SeqCst) {
            let (name, is_shared, kind) = self.sides[fastrand::usize(..self.sides.len())];
            let lock = kind(&client, &self.names[name]).durability(self.durability);
            let guard = match lock.acquire().await {
                Ok(guard) => guard,
                // A fail-over can come between the lock and its replica: the client has released the lock.
                Err(Error::Durability { .. } | Error::Transport { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            self.hold(name, is_shared, &guard).await;
            self.turns.fetch_add(1, Ordering::SeqCst);
            match guard.release().await {
                Ok(()) | Err(Error::OutcomeUnknown { .. }) => (),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Asserts, during a hold, that no excluded owner holds the lock too.
    async fn hold(&self, name: usize, is_shared: bool, guard: &Guard<Any>) {
        let Inside { writers, readers, last_token } = &self.inside[name];
        let (own, others) = if is_shared { (readers, writers) } else { (writers, readers) };
        let before = own.fetch_add(1, Ordering::SeqCst);
        assert!(is_shared || before == 0, "two hold {}", self.names[name]);
        if let Some(token) = guard.token() {
            let last = last_token.swap(token, Ordering::SeqCst);
            assert!(token > last, "token {token} after {last}");
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..5))).await;
        assert_eq!(others.load(Ordering::SeqCst), 0, "a reader beside a writer");
        guard.check().unwrap();
        own.fetch_sub(1, Ordering::SeqCst);
    }
}
