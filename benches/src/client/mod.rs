//! What the Rust client costs: against the raw commands by the same driver, and against other crates.
//!
//! Each contender is a process of its own, with a runtime of one thread. The figures are printed, not stored.

mod hand_off;
mod own;
mod pairs;
mod process;
mod renewal;
mod worker;

use std::process::ExitCode;

use rlock_testkit::TestServer;

use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::tables::{figure, number};
use crate::rng::Rng;
use process::Who;

/// Runs a process of a round, where this program was started as one.
pub(crate) fn worker(arguments: &[String]) -> Option<ExitCode> {
    match arguments {
        [role, contender, url] if role == process::ROLE => {
            own::work(contender, url);
            Some(ExitCode::SUCCESS)
        }
        _ => None,
    }
}

/// Measures, and prints what was found.
pub(crate) fn run(plan: &Plan, progress: &Progress) {
    progress.show("client: building the other crates");
    let peers = process::build_peers();
    let server = TestServer::start();
    let mut rng = Rng::new(plan.seed);
    let mut who = Who::OWN.to_vec();
    if peers.is_ok() {
        who.extend(Who::PEERS);
    }
    println!("\nthe client: an acquire and a release, one after the other\n");
    println!("{}", pairs::table(&pairs::run(&server, &who, plan, &mut rng, progress)));
    println!("the client: from the release to the next holder's guard, two processes\n");
    println!("{}", hand_off::table(&hand_off::run(&server, &who, plan, &mut rng, progress)));
    let renewal = renewal::run(&server, plan, progress);
    println!(
        "the client: renewing {} held locks takes {} % of a core (target: at most 1; the whole process, {} % without a lock)",
        renewal::LOCKS,
        figure(renewal.percent),
        number(renewal.idle_percent),
    );
    if let Err(why) = peers {
        println!("\nother crates were left out, since they could not be built: {why}");
    }
}
