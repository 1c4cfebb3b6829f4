//! What the Rust client costs: against the raw commands by the same driver, and against other crates.
//!
//! Each contender is a process of its own, with a runtime of one thread.

mod before;
mod by_client;
mod contended;
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
use crate::results::{Client, Environment};
use crate::rng::Rng;
#[cfg(test)]
pub(crate) use contended::{HOLDS_MS, WAITERS};
pub(crate) use process::{Who, Worker};

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

/// Measures it; other crates are left out where they cannot be built.
///
/// # Errors
///
/// The commit to compare with cannot be built.
pub(crate) fn run(plan: &Plan, environment: &Environment, progress: &Progress) -> Result<Client, String> {
    progress.show("client: building the other crates");
    let peers = process::build_peers();
    let earlier = before::Earlier::wanted(progress)?;
    let server = TestServer::start();
    let mut rng = Rng::new(plan.seed);
    let mut who = Who::OWN.to_vec();
    match peers {
        Ok(()) => who.extend(Who::PEERS),
        Err(why) => eprintln!("\nother crates are left out, since they could not be built: {why}"),
    }
    let before = earlier.map(|earlier| before::run_beside(&earlier, &server, plan, &mut rng, progress));
    Ok(Client {
        environment: environment.clone(),
        pairs: pairs::run(&server, &who, plan, &mut rng, progress),
        hand_offs: hand_off::run(&server, &who, plan, &mut rng, progress),
        contended: contended::run(&server, plan, &mut rng, progress),
        before,
        renewal: renewal::run(&server, plan, progress),
    })
}
