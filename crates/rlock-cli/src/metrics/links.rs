//! Asking several servers at once, each in a thread of its own: none of them, and no look-up of a name, can delay the others
//! past the deadline.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::question::{Answer, Question};
use crate::error::Error;
use crate::server::{Link, Target};

/// How long one server may take of a scrape.
const PATIENCE: Duration = Duration::from_secs(2);

/// The connections, open from one scrape to the next: to connect costs a server more than to answer.
#[derive(Default)]
pub(super) struct Links(HashMap<String, Slot>);

#[derive(Default)]
struct Slot {
    idle: Option<Link>,
    /// Shared with the thread of a question that is under way.
    busy: Arc<()>,
}

/// A connection that is idle again, and what the server answered.
type Outcome = (Link, Result<Answer, Error>);

impl Links {
    /// Asks all of these servers, and waits until each has answered or the time is over.
    pub(super) fn ask(
        &mut self,
        targets: &[Target],
        question: &Arc<Question>,
        deadline: Instant,
    ) -> Vec<Result<Answer, Error>> {
        let within = deadline.saturating_duration_since(Instant::now()).min(PATIENCE);
        let (sender, outcomes) = channel();
        let mut answers = HashMap::new();
        let mut pending = 0_usize;
        for target in targets {
            match self.0.entry(target.address()).or_default().begin(target, question, &sender) {
                Ok(begun) => pending = pending.saturating_add(begun.into()),
                Err(cause) => {
                    let error = Error::System { what: "cannot start a thread", cause };
                    answers.insert(target.address(), Err(error));
                }
            }
        }
        for (link, answer) in gather(&outcomes, pending, within) {
            let address = link.address();
            answers.insert(address.clone(), answer);
            self.0.entry(address).or_default().idle = Some(link);
        }
        let silent = |target: &Target| Err(Error::no_reply(target.address(), within));
        targets
            .iter()
            .map(|target| answers.remove(&target.address()).unwrap_or_else(|| silent(target)))
            .collect()
    }

    /// Closes the connections to all servers but these.
    pub(super) fn keep(&mut self, wanted: impl Fn(&str) -> bool) {
        self.0.retain(|address, slot| wanted(address) || slot.is_busy());
    }
}

impl Slot {
    /// A server that hangs occupies one thread, however many scrapes meet it.
    fn is_busy(&self) -> bool {
        Arc::strong_count(&self.busy) > 1
    }

    /// Asks in a thread, unless the last question to this server is under way still.
    fn begin(
        &mut self,
        target: &Target,
        question: &Arc<Question>,
        outcomes: &Sender<Outcome>,
    ) -> io::Result<bool> {
        if self.is_busy() {
            return Ok(false);
        }
        let mut link = self.idle.take().unwrap_or_else(|| Link::new(target.clone()));
        let (busy, question, outcomes) = (self.busy.clone(), question.clone(), outcomes.clone());
        let ask = move || {
            let answer = question.ask(&mut link);
            // Before the answer is read: the next scrape may follow at once.
            drop(busy);
            // After the deadline, the connection is closed.
            let _ = outcomes.send((link, answer));
        };
        thread::Builder::new().name("question".to_string()).spawn(ask)?;
        Ok(true)
    }
}

/// The outcomes of the pending questions that arrive in time.
fn gather(outcomes: &Receiver<Outcome>, pending: usize, within: Duration) -> Vec<Outcome> {
    let start = Instant::now();
    let mut gathered = Vec::new();
    while gathered.len() < pending {
        match outcomes.recv_timeout(within.saturating_sub(start.elapsed())) {
            Ok(outcome) => gathered.push(outcome),
            Err(_) => break,
        }
    }
    gathered
}
