//! `rlock run` with its default lease, while servers with their default time-outs fail over: `make cluster` runs these.

#[path = "../cli/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use rlock_testkit::clients::cluster::{self, Cluster};
use rlock_testkit::{TestServer, eventually, wait_for_replicas_in_sync};
use support::servers::{replica, sentinel, url_by};
use support::{Running, Signal, ask, await_owner, renewed, start_at};

/// Longer than the job can last without contact.
const FAILED_OVER: Duration = Duration::from_secs(60);

/// A command under a lock.
const JOB: [&str; 5] = ["run", "job", "--", "sleep", "600"];

/// Waits until the lock is renewed at the new primary, and shows that the job continues there. Prints how long that took.
#[track_caller]
fn goes_on(what: &str, mut job: Running, began: Instant, new: &TestServer, before: u64) {
    eventually("a renewal at the new primary", FAILED_OVER, || renewed(new).filter(|count| *count > before));
    println!("{what}: renewed {:.1} s after the kill", began.elapsed().as_secs_f64());
    job.still_runs();
    job.signal(Signal::TERM);
    job.ended().is(143, "");
}

#[test]
fn a_job_survives_a_fail_over_of_a_cluster_with_the_default_time_out() {
    let mut cluster = Cluster::start_failing_after(3, 15_000);
    let slot = cluster::slot(&mut cluster.primaries[0].connect(), "job");
    // As the slots are shared out.
    let holder = (0..3).rev().find(|number| number * 16_384 / 3 <= slot).expect("a primary");
    let job = start_at(&cluster.url(), &JOB);
    await_owner(&mut cluster.primaries[holder].connect(), "job");
    let replica = &cluster.replicas[holder];
    wait_for_replicas_in_sync(&cluster.primaries[holder], replica);
    let before = renewed(replica).expect("a replica that answers");
    let began = Instant::now();
    cluster.kill(holder);
    goes_on("cluster-node-timeout 15000", job, began, &cluster.replicas[holder], before);
}

#[test]
fn a_job_survives_a_fail_over_by_sentinels_with_the_default_time_out() {
    let primary = TestServer::start();
    let replica = replica(&primary);
    let sentinels = [(); 3].map(|()| sentinel(&primary, 2, 30_000));
    for sentinel in &sentinels {
        eventually("the Sentinel to know the others", FAILED_OVER, || {
            let others: Vec<redis::Value> = ask(&mut sentinel.connect(), "SENTINEL SENTINELS app");
            let replicas: Vec<redis::Value> = ask(&mut sentinel.connect(), "SENTINEL REPLICAS app");
            (others.len() == 2 && replicas.len() == 1).then_some(())
        });
    }
    let job = start_at(&url_by(&sentinels.each_ref()), &JOB);
    await_owner(&mut primary.connect(), "job");
    wait_for_replicas_in_sync(&primary, &replica);
    let before = renewed(&replica).expect("a replica that answers");
    let began = Instant::now();
    primary.kill9();
    goes_on("down-after-milliseconds 30000", job, began, &replica, before);
}
