//! Threads that ask the servers, so that one that hangs delays no other, and no key.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use super::sample::Sample;
use crate::error::Error;
use crate::server::{Link, Place, Target, primaries};

/// How often the primaries are looked for: a fail-over shows after this time.
const DISCOVERY: Duration = Duration::from_secs(2);

/// What the threads report.
pub(super) enum News {
    /// The primaries, or why they are unknown.
    Primaries(Result<Vec<Target>, Error>),
    /// What the server at this address answered.
    Sample(String, Box<Result<Sample, Error>>),
}

/// A thread; it ends once this is dropped and its present question is answered.
pub(super) struct Worker {
    _stop: Sender<()>,
}

/// Asks a server again and again.
pub(super) fn poll(target: Target, interval: Duration, news: Sender<News>) -> Result<Worker, Error> {
    let (address, database) = (target.address(), target.database());
    let mut link = Link::new(target);
    work(interval, move || {
        let sample = Sample::of(&mut link, database);
        news.send(News::Sample(address.clone(), Box::new(sample))).is_ok()
    })
}

/// Looks for the primaries again and again: from the URL, or from those that were found before.
pub(super) fn discover(place: Place, mut found: Vec<Target>, news: Sender<News>) -> Result<Worker, Error> {
    work(DISCOVERY, move || {
        let primaries = primaries::primaries_now(&place, &found);
        if let Ok(primaries) = &primaries {
            found.clone_from(primaries);
        }
        news.send(News::Primaries(primaries)).is_ok()
    })
}

/// Runs `step` at this interval until it answers false.
fn work(interval: Duration, mut step: impl FnMut() -> bool + Send + 'static) -> Result<Worker, Error> {
    let (stop, stopped): (Sender<()>, Receiver<()>) = channel();
    let run = move || while step() && stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {};
    let thread = thread::Builder::new().name("top".to_string()).spawn(run);
    thread
        .map(|_| Worker { _stop: stop })
        .map_err(|cause| Error::System { what: "cannot start a thread", cause })
}

/// Asks all servers at once, each in a thread.
pub(super) fn ask_all(targets: &[Target]) -> Vec<Result<Sample, Error>> {
    thread::scope(|scope| {
        let asked: Vec<_> = targets
            .iter()
            .map(|target| scope.spawn(|| Sample::of(&mut Link::new(target.clone()), target.database())))
            .collect();
        let no_answer = |target: &Target| Error::NoAnswer {
            address: target.address(),
            cause: "a thread failed".to_string(),
        };
        let answers = asked.into_iter().zip(targets);
        answers.map(|(asked, target)| asked.join().unwrap_or_else(|_| Err(no_answer(target)))).collect()
    })
}
