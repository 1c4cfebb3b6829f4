//! A permit among many.

use rlock_testkit::{TestServer, module_path};

use crate::ground::Ground;

/// How much more a permit may cost among a hundred thousand than among a thousand.
const PERMITS_LIMIT: f64 = 1.5;

/// The numbers of other permits that are held while one is measured.
pub(crate) const PERMITS: [usize; 3] = [100, 1_000, 100_000];

/// Instructions to acquire and release a permit while `others` other permits are held.
#[track_caller]
pub(crate) fn permit_among(others: usize) -> f64 {
    let (owner, most) = ("8a7b6c5d-4e3f-2a1b-9c8d-7e6f5a4b3c2d:1", others + 1);
    // Written by hand: acquiring each of them would be counted.
    let ends = 8_000_000_000_000_usize;
    let member = |n: usize| format!("{} owner:{n}", ends + n);
    let members: Vec<usize> = (0..others).collect();
    let lines = members.chunks(1_000).map(|chunk| {
        format!("ZADD slots {}", chunk.iter().map(|n| member(*n)).collect::<Vec<_>>().join(" "))
    });
    let lines: Vec<String> = lines.chain([format!("PEXPIREAT slots {}", ends + others - 1)]).collect();
    let beside: Vec<&str> = lines.iter().map(String::as_str).collect();
    let acquire = format!("RLOCK.ACQUIRE slots {owner} 30000 PERMITS {most}");
    let release = format!("RLOCK.RELEASE slots {owner}");
    let builder = || TestServer::builder().module(module_path());
    let among = |beside: &[&str], pair| Ground { builder: &builder, replica: false, beside }.count(pair).all;
    let with = among(&beside, [&acquire, &release]);
    // The other commands are counted too: measured alone, without the pairs.
    let without = among(&beside, ["ECHO 1", "EXISTS slots"]);
    let echo = among(&["SET slots 1"], ["ECHO 1", "EXISTS slots"]);
    with - without + echo
}

#[test]
#[ignore = "needs valgrind: make cost"]
fn a_permit_costs_little_more_among_a_hundred_thousand() {
    let [few, more, many] = PERMITS.map(permit_among);
    println!(
        "\nacquire + release of a permit: {few:.0} among 100, {more:.0} among 1,000, {many:.0} among 100,000"
    );
    assert!(many <= more * PERMITS_LIMIT, "{many:.0} to {more:.0}");
}
