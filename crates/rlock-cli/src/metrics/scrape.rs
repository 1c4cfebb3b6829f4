//! One scrape of all servers, and the memory from one scrape to the next.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::links::Links;
use super::question::{Answer, Question};
use crate::error::Error;
use crate::output::Notes;
use crate::server::facts::is_sentinel;
use crate::server::servers::id;
use crate::server::walk::{Asked, Walk, is_start};
use crate::server::{Place, Target};

/// How long a server that does not answer, and that no other names, is reported as down.
const REMEMBERED: Duration = Duration::from_secs(3_600);

/// Scrapes the servers again and again.
pub(super) struct Scraper {
    question: Arc<Question>,
    links: Links,
    /// The servers that have answered, by address.
    known: HashMap<String, Known>,
    errors: BTreeMap<Fault, u64>,
    /// The last log line about each server that does not answer.
    told: HashMap<String, String>,
    notes: Notes,
}

/// A server that has answered.
struct Known {
    target: Target,
    id: String,
    at: Instant,
}

/// The server, and what it did not answer: see [`Scrape::errors`].
type Fault = (String, &'static str);

/// What a scrape found.
pub(super) struct Scrape {
    /// The servers that have locks, or should have them.
    pub(super) servers: Vec<Server>,
    /// Whether a server that the URL names has answered, so that the list of servers is that of now.
    pub(super) discovered: bool,
    /// Failures since the start: of `info`, all that a server says of itself and of others, and of `hot`.
    pub(super) errors: BTreeMap<Fault, u64>,
}

/// A server that was asked.
pub(super) struct Server {
    pub(super) address: String,
    /// `None` where it does not answer.
    pub(super) answer: Option<Answer>,
}

impl Scrape {
    /// Whether all that should answer did.
    pub(super) fn is_complete(&self) -> bool {
        self.discovered && self.errors.values().all(|count| *count == 0)
    }
}

impl Scraper {
    pub(super) fn new(place: Place, hot_locks: u32, notes: Notes) -> Scraper {
        Scraper {
            question: Arc::new(Question { place, hot_locks }),
            links: Links::default(),
            known: HashMap::new(),
            errors: BTreeMap::new(),
            told: HashMap::new(),
            notes,
        }
    }

    /// Asks all servers, also those that answered lately and that no other server names any longer.
    pub(super) fn scrape(&mut self, deadline: Instant) -> Scrape {
        let mut walk = Walk::default();
        let (links, question) = (&mut self.links, &self.question);
        let mut ask = |targets: &[Target]| links.ask(targets, question, deadline);
        walk.visit(question.place.starts.clone(), &mut ask);
        let discovered = walk.asked.iter().any(|asked| asked.outcome.is_ok());
        let family: HashSet<String> = walk.asked.iter().map(|asked| asked.target.address()).collect();
        self.known.retain(|_, known| known.at.elapsed() < REMEMBERED);
        walk.visit(self.known.values().map(|known| known.target.clone()).collect(), &mut ask);
        let mut asked = walk.asked;
        if discovered {
            asked.retain(|asked| !has_left(asked, &family));
        }
        self.forget_all_but(&asked);
        let servers = self.note(asked);
        Scrape { servers, discovered, errors: self.errors.clone() }
    }

    fn forget_all_but(&mut self, asked: &[Asked<Answer>]) {
        let addresses: HashSet<String> = asked.iter().map(|asked| asked.target.address()).collect();
        self.links.keep(|address| addresses.contains(address));
        self.known.retain(|address, _| addresses.contains(address));
        self.errors.retain(|(address, _), _| addresses.contains(address));
        self.told.retain(|address, _| addresses.contains(address));
    }

    /// Remembers what was found, and leaves each server once: it may be here by several addresses.
    fn note(&mut self, asked: Vec<Asked<Answer>>) -> Vec<Server> {
        let mut ids = HashSet::new();
        let mut servers = Vec::new();
        for Asked { target, outcome } in asked {
            let address = target.address();
            let id = match (&outcome, self.known.get(&address)) {
                (Ok(answer), _) => id(&address, &answer.seen.fields),
                (Err(_), Some(known)) => known.id.clone(),
                (Err(_), None) => address.clone(),
            };
            if outcome.is_ok() {
                let known = Known { target: target.clone(), id: id.clone(), at: Instant::now() };
                self.known.insert(address.clone(), known);
            }
            if !ids.insert(id) {
                continue;
            }
            // A Sentinel has no locks.
            let watches = self.question.place.service().is_some() && is_start(&self.question.place, &target);
            let answer = self.count(&address, outcome);
            if !watches && !answer.as_ref().is_some_and(|answer| is_sentinel(&answer.seen.fields)) {
                servers.push(Server { address, answer });
            }
        }
        servers
    }

    /// Counts what failed, and tells it where it is news.
    fn count(&mut self, address: &str, outcome: Result<Answer, Error>) -> Option<Answer> {
        let info = outcome.as_ref().err();
        let hot = outcome.as_ref().ok().and_then(|answer| answer.hot.as_ref().err());
        for (question, failed) in [("info", info.is_some()), ("hot", hot.is_some())] {
            let count = self.errors.entry((address.to_string(), question)).or_default();
            *count = count.saturating_add(failed.into());
        }
        let news = info.or(hot).map(|error| format!("{error}\n  → {}", error.advice()));
        match (news, self.told.remove(address)) {
            (Some(text), last) => {
                if last.as_ref() != Some(&text) {
                    self.notes.say(&text);
                }
                self.told.insert(address.to_string(), text);
            }
            (None, Some(_)) => self.notes.say(&format!("{address} answers again")),
            (None, None) => {}
        }
        outcome.ok()
    }
}

/// Whether a server answers that none of the others names, and that names none of them: it was removed.
fn has_left(asked: &Asked<Answer>, family: &HashSet<String>) -> bool {
    let Ok(answer) = &asked.outcome else { return false };
    let names = |(host, port): &(String, u16)| family.contains(&asked.target.at(host, *port).address());
    !family.contains(&asked.target.address()) && !answer.seen.neighbours.iter().any(names)
}
