//! Explores every interleaving of the real `rlock-core` in a simulated server, scene by scene, to a bounded
//! depth, and checks each state that it meets; and of clients with the real machine of all clients at this server. A violation is
//! printed as the shortest story that leads to it.

mod action;
mod belief;
mod check;
mod fair;
mod form;
mod ghost;
mod heard;
mod possible;
mod requests;
mod scene;
mod search;
mod sessions;
mod space;
mod state;
mod steps;
mod transition;
mod trips;
mod writers;

use std::num::NonZero;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use clap::Parser;

use check::PROPERTIES;
use scene::SCENES;
use search::{Explored, Space};
use space::Server;
use trips::TRIPS;

/// Explores every interleaving of rlock-core to a bounded depth.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Explore only these scenes.
    #[arg(long, num_args = 1..)]
    scene: Vec<String>,
    /// How many steps to explore; each scene has a default.
    #[arg(long)]
    depth: Option<u32>,
    /// Explore this many steps more than the default.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    deeper: i32,
}

/// A scene to explore.
struct Scene {
    name: &'static str,
    about: &'static str,
    depth: u32,
    /// Explores it to a depth, or tells the story of a violation.
    explore: Box<Explore>,
}

type Explore = dyn Fn(u32, &AtomicBool) -> Result<Explored, String> + Sync;

/// All of them.
fn scenes() -> Vec<Scene> {
    let of_server = SCENES.iter().map(|scene| Scene {
        name: scene.name,
        about: scene.about,
        depth: scene.depth,
        explore: Box::new(|depth, found| explore(scene.name, &Server::of(scene), depth, found)),
    });
    let with_clients = TRIPS.iter().map(|trips| Scene {
        name: trips.name,
        about: trips.about,
        depth: trips.depth,
        explore: Box::new(|depth, found| explore(trips.name, trips, depth, found)),
    });
    of_server.chain(with_clients).collect()
}

fn main() -> ExitCode {
    let options = Options::parse();
    let is_wanted =
        |scene: &Scene| options.scene.is_empty() || options.scene.iter().any(|name| name == scene.name);
    let names: Vec<_> = scenes().iter().map(|scene| scene.name).collect();
    if let Some(unknown) = options.scene.iter().find(|name| !names.contains(&name.as_str())) {
        eprintln!("model: no scene is called '{unknown}'; use some of {}", names.join(", "));
        return ExitCode::from(2);
    }
    let scenes: Vec<_> = scenes().into_iter().filter(is_wanted).collect();
    println!("Checked in every state:");
    for property in PROPERTIES {
        println!("  - {property}");
    }
    let depth_of =
        |scene: &Scene| options.depth.unwrap_or_else(|| scene.depth.saturating_add_signed(options.deeper));
    println!();
    let mut states = 0;
    for explored in explore_all(&scenes, depth_of) {
        match explored {
            Ok(explored) => states += explored.states,
            Err(story) => {
                println!("\n{story}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("\n{states} states, every property holds in each");
    ExitCode::SUCCESS
}

/// Explores scenes, which have nothing to do with each other: as many at once as there are processors, since each takes
/// gigabytes one step deeper than usual.
fn explore_all(scenes: &[Scene], depth_of: impl Fn(&Scene) -> u32 + Sync) -> Vec<Result<Explored, String>> {
    let (found, next) = (AtomicBool::new(false), AtomicUsize::new(0));
    let explore = || {
        let taken = std::iter::from_fn(|| scenes.get(next.fetch_add(1, Ordering::Relaxed)));
        let explored = taken.map(|scene| {
            println!("{}: {}", scene.name, scene.about);
            (scene.explore)(depth_of(scene), &found)
        });
        explored.collect::<Vec<_>>()
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let under_way: Vec<_> = (0..threads).map(|_| scope.spawn(explore)).collect();
        under_way.into_iter().flat_map(|thread| thread.join().expect("a panic prints its message")).collect()
    })
}

/// Explores a scene, and prints each depth that is done.
fn explore<S: Space>(name: &str, space: &S, depth: u32, found: &AtomicBool) -> Result<Explored, String> {
    let explored = search::explore(space, depth, found, |so_far, seconds| {
        let (depth, states, steps) = (so_far.depth, so_far.states, so_far.steps);
        println!("{name:>8}, depth {depth:2}: {states:>9} states, {steps:>10} steps, {seconds:6.1} s");
    });
    explored.map_err(|counterexample| search::story(space, &counterexample))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_every_scene_and_its_depth() {
        let doc = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/PROOF.md");
        let doc = std::fs::read_to_string(doc).expect("docs/PROOF.md");
        for scene in scenes() {
            let row = doc.lines().find(|line| line.starts_with(&format!("| {} |", scene.name)));
            let row = row.unwrap_or_else(|| panic!("no scene {} in docs/PROOF.md", scene.name));
            let depth = row.split('|').nth(3).map(str::trim);
            assert_eq!(depth, Some(scene.depth.to_string().as_str()), "{row}");
        }
    }
}
