//! A client: one acquisition after the other, each with an owner that was never used before.

use rlock_machine::{Input, MS, Machine, Message, Nanos, Output, Plan, State as Stage};

use super::network::{Links, Request, Way, What};
use super::server::{GRACE_MS, LEASE_MS, owner};

/// The longest time in which the server answers.
const RESPONSE: Nanos = 2_000 * MS;

/// One client.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Client {
    /// Its number.
    pub(crate) id: u8,
    /// The acquisition under way, or the one before the next.
    pub(crate) machine: Machine,
    /// The number of the owner in use: one for each acquisition.
    pub(crate) life: u8,
    /// When the machine asked for a tick.
    pub(crate) timer: Option<Nanos>,
    /// When the first request was sent.
    pub(crate) first_sent: Option<Nanos>,
    /// What is held up on its ways.
    pub(crate) held_up: Vec<Way>,
    /// Its links.
    pub(crate) links: Links,
    /// Whether something of an acquisition may be left: it was given up without an answer, or a request of it came after its end.
    pub(crate) excused: bool,
}

impl Client {
    pub(crate) fn new(id: u8, session: bool) -> Self {
        let machine = Machine::new(plan(session));
        let (links, held_up) = (Links::new(), Vec::new());
        Self { id, machine, life: 0, timer: None, first_sent: None, held_up, links, excused: false }
    }

    /// The name of its present owner.
    pub(crate) fn owner(&self) -> [u8; 3] {
        owner(self.id, self.life)
    }

    /// Whether this is held up.
    pub(crate) fn is_held_up(&self, way: Way) -> bool {
        self.held_up.contains(&way) || way != Way::Requests && self.held_up.contains(&Way::Process)
    }

    /// Whether its caller has a guard whose lease lasts.
    pub(crate) fn believes(&self, now: Nanos) -> bool {
        self.machine.state() == Stage::Held && now < self.machine.end_of_hold()
    }

    /// Gives the machine an input, and carries out its orders.
    pub(crate) fn take(&mut self, now: Nanos, input: Input) {
        let (before, mut orders) = (self.machine.state(), Vec::new());
        self.machine.input(now, input, &mut orders);
        let ended = self.machine.state() == Stage::Ended && before != Stage::Ended;
        self.excused |= ended && !matches!(input, Input::Reply { .. });
        for order in orders {
            match order {
                Output::Send { n, command } if self.links.is_up => {
                    self.first_sent.get_or_insert(now);
                    self.links.send(Request { n, sent: now, life: self.life, what: What::Command(command) });
                }
                Output::Timer(at) => self.timer = at,
                // An order without a link is dropped: the machine asks anew at the next link.
                _ => {}
            }
        }
    }

    /// Reads a message: its own, or one for an owner whose acquisition has ended.
    pub(crate) fn hear(&mut self, now: Nanos, channel: u8, text: &[u8]) {
        let Some(heard) = Heard::parse(text) else { return };
        if heard.owner == self.owner() {
            let current = self.links.is_up && channel == self.links.asked_channel;
            let message = match heard.word {
                "granted" => Message::Granted { token: 0, lease: heard.lease * MS, current },
                "timeout" => Message::Timeout,
                _ => Message::Dropped,
            };
            self.take(now, Input::Message(message));
        } else if heard.word == "granted" && self.links.is_up {
            let life = heard.owner[2] - b'0';
            self.links.send(Request { n: 0, sent: now, life, what: What::GiveBack });
        }
    }

    /// The process dies, and another one takes its place: it knows nothing of the first.
    pub(crate) fn die(&mut self, session: bool) {
        let links = self.links.after_death();
        *self = Self { life: self.life + 1, links, excused: true, ..Self::new(self.id, session) };
    }
}

fn plan(session: bool) -> Plan {
    Plan { response: RESPONSE, grace: session.then_some(GRACE_MS * MS), ..Plan::new(LEASE_MS * MS) }
}

/// A message as the client reads it.
struct Heard<'a> {
    word: &'a str,
    owner: [u8; 3],
    lease: i64,
}

impl<'a> Heard<'a> {
    /// See `rlock_core::message`.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        let word = words.next()?;
        let owner = words.nth(1)?.as_bytes().try_into().ok()?;
        let lease = words.nth(2).and_then(|lease| lease.parse().ok()).unwrap_or(0);
        Some(Self { word, owner, lease })
    }
}
