//! A cluster, usually of three primaries with a replica each, and what a program on it may order while it runs: a line by TCP,
//! which is answered by `done` once the cluster has changed and all its servers know.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use rlock_client::Durability;
use rlock_testkit::clients::cluster::{Cluster, await_role, failing_soon};
use rlock_testkit::{eventually, wait_for_replicas_in_sync};

use crate::place::{Outcome, address};
use crate::rust_client;

/// The time limit for a fail-over on a busy machine.
const FAILED_OVER: Duration = Duration::from_secs(40);

/// The address of the Rust client for a cluster whose primaries have a replica each.
pub(crate) fn rust_client(cluster: &Cluster) -> Result<(&'static str, String), String> {
    Ok(("RUST_CLIENT", rust_client::serve(&cluster.url(), Durability::Replicas(1))?))
}

/// Runs a program on a cluster, which changes as the program orders; the program gets its variables, and one more.
pub(crate) fn on_a_changing_cluster(
    mut cluster: Cluster,
    variable: (&'static str, String),
    program: impl FnOnce(&[(&str, String)]) -> Outcome + Send + 'static,
) -> Outcome {
    let orders = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
    let to = orders.local_addr().map_err(|error| error.to_string())?;
    orders.set_nonblocking(true).map_err(|error| error.to_string())?;
    let variables = [
        ("REDIS_URL", address(&cluster.primaries[0])),
        ("REDIS_CLUSTER", "1".into()),
        ("CLUSTER_ORDERS", to.to_string()),
        variable,
    ];
    let program = thread::spawn(move || program(&variables));
    let mut changed = Ok(());
    while changed.is_ok() && !program.is_finished() {
        match orders.accept() {
            Ok((connection, _)) => changed = obey(&mut cluster, connection),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
    // Without its servers the program ends soon, so that joining it takes no longer than necessary.
    drop(cluster);
    let outcome = program.join().unwrap_or_else(|_| Err("the program could not be run".into()));
    changed.and(outcome)
}

/// Takes orders; the kit panics if the cluster does not reach the ordered state.
fn obey(cluster: &mut Cluster, connection: TcpStream) -> Outcome {
    let orders = AssertUnwindSafe(|| take_orders(cluster, connection));
    catch_unwind(orders).unwrap_or_else(|_| Err("the cluster could not be changed: see above".into()))
}

/// Until the program ends.
fn take_orders(cluster: &mut Cluster, connection: TcpStream) -> Outcome {
    connection.set_nonblocking(false).map_err(|error| error.to_string())?;
    let mut answers = connection.try_clone().map_err(|error| error.to_string())?;
    for line in BufReader::new(connection).lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let shard = |word: &str| word.parse::<usize>().map_err(|error| format!("{line}: {error}"));
        match words[..] {
            ["move", lock, from, to] => move_slot(cluster, lock, shard(from)?, shard(to)?),
            ["fail-over", of] => fail_over(cluster, shard(of)?),
            ["kill", of] => kill(cluster, shard(of)?),
            _ => return Err(format!("unknown order: {line}")),
        }
        answers.write_all(b"done\n").map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Key by key, and until all servers know.
fn move_slot(cluster: &Cluster, lock: &str, from: usize, to: usize) {
    let moving = pin!(cluster.move_slot_of(lock, from, to, async || ()));
    let moved = moving.poll(&mut Context::from_waker(Waker::noop()));
    assert!(moved.is_ready(), "nothing in it waits for a waker");
    cluster.await_agreement();
}

/// The primary and its replica change places, by agreement.
fn fail_over(cluster: &mut Cluster, shard: usize) {
    let (old, heir) = (&cluster.primaries[shard], &cluster.replicas[shard]);
    eventually("the fail-over to begin", FAILED_OVER, || {
        redis::cmd("CLUSTER").arg("FAILOVER").query::<()>(&mut heir.connect()).ok()
    });
    await_role(heir, "master");
    await_role(old, "slave");
    std::mem::swap(&mut cluster.primaries[shard], &mut cluster.replicas[shard]);
    wait_for_replicas_in_sync(&cluster.primaries[shard], &cluster.replicas[shard]);
    cluster.await_agreement();
}

/// The primary is killed, its replica takes over, and it comes back as the replica.
fn kill(cluster: &mut Cluster, shard: usize) {
    wait_for_replicas_in_sync(&cluster.primaries[shard], &cluster.replicas[shard]);
    let port = cluster.primaries[shard].port();
    let data = cluster.kill(shard);
    let heir = cluster.replicas.remove(shard);
    await_role(&heir, "master");
    let back = failing_soon().port(port).dir(data).start();
    cluster.primaries.insert(shard, heir);
    cluster.replicas.insert(shard, back);
    cluster.await_agreement();
}
