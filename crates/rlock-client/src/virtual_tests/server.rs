//! A server without a network, whose time is tokio's: locks, leases, one channel, and faults on demand.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redis::{Arg, Cmd, Value};
use rlock_links::{BoxFuture, Cause, Connection, Connector, Dialled, Error, Incoming, Reply};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

/// What the server does with its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// It answers, this long after the request.
    Answers(Duration),
    /// It takes requests and never answers.
    Silent,
    /// It refuses connections.
    Down,
}

pub(super) struct State {
    pub(super) mood: Mood,
    /// Every command with the time since the start at which it came.
    pub(super) log: Vec<(Duration, String)>,
    /// When connections were asked for.
    pub(super) dials: Vec<Duration>,
    /// How long a connection takes.
    pub(super) dial: Duration,
    started: Instant,
    locks: HashMap<Vec<u8>, (Vec<u8>, Instant)>,
    queue: VecDeque<(Vec<u8>, Vec<u8>, Duration)>,
    events: Vec<UnboundedSender<Incoming>>,
}

#[derive(Clone)]
pub(super) struct VirtualServer(Arc<Mutex<State>>);

impl VirtualServer {
    pub(super) fn start() -> VirtualServer {
        VirtualServer(Arc::new(Mutex::new(State {
            mood: Mood::Answers(Duration::ZERO),
            log: Vec::new(),
            dials: Vec::new(),
            dial: Duration::ZERO,
            started: Instant::now(),
            locks: HashMap::new(),
            queue: VecDeque::new(),
            events: Vec::new(),
        })))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Changes what it does; a server that is down cuts its connections.
    pub(super) fn set(&self, mood: Mood) {
        let mut state = self.state();
        state.mood = mood;
        if mood == Mood::Down {
            for events in state.events.drain(..) {
                let _ = events.send(Incoming::Closed);
            }
        }
    }

    /// When a command came, since the start.
    pub(super) fn times(&self, command: &str) -> Vec<Duration> {
        self.state().log.iter().filter(|(_, word)| word == command).map(|(at, _)| *at).collect()
    }

    /// Another owner takes the lock for `lease`.
    pub(super) fn occupy(&self, key: &str, lease: Duration) {
        self.state().locks.insert(key.into(), (b"somebody".to_vec(), Instant::now() + lease));
    }

    /// The holder loses the lock; the first in the queue is granted it, for 5 seconds unless confirmed.
    pub(super) fn free(&self, key: &str) {
        let mut state = self.state();
        state.locks.remove(key.as_bytes());
        let Some((key, owner, lease)) = state.queue.pop_front() else { return };
        let lease = lease.min(Duration::from_secs(5));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let message = format!("granted 0 {} {} 1 {} 0", text(&owner), text(&key), lease.as_millis());
        state.locks.insert(key, (owner, Instant::now() + lease));
        for events in &state.events {
            let _ = events.send(Incoming::Message(message.clone().into_bytes()));
        }
    }

    /// Sends a message to all clients.
    pub(super) fn say(&self, message: &str) {
        for events in &self.state().events {
            let _ = events.send(Incoming::Message(message.as_bytes().to_vec()));
        }
    }

    pub(super) fn holder(&self, key: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state
            .locks
            .get(key.as_bytes())
            .filter(|(_, end)| *end > Instant::now())
            .map(|(owner, _)| owner.clone())
    }
}

impl State {
    #[expect(clippy::too_many_lines, reason = "a case for each command")]
    fn carry_out(&mut self, command: &Cmd) -> Value {
        let words: Vec<Vec<u8>> = command
            .args_iter()
            .map(|word| match word {
                Arg::Simple(bytes) => bytes.to_vec(),
                _ => panic!("only plain arguments are sent"),
            })
            .collect();
        let word = String::from_utf8(words[0].clone()).unwrap();
        self.log.push((self.started.elapsed(), word.clone()));
        let now = Instant::now();
        self.locks.retain(|_, (_, end)| *end > now);
        let milliseconds = |word: &Vec<u8>| {
            Duration::from_millis(std::str::from_utf8(word).unwrap().parse().expect("milliseconds"))
        };
        let array = |numbers: [i64; 3]| Value::Array(numbers.map(Value::Int).to_vec());
        match word.as_str() {
            "RLOCK.ACQUIRE" => {
                let lease = milliseconds(&words[3]);
                match self.locks.get(&words[1]) {
                    Some((owner, _)) if *owner != words[2] => {
                        if words.iter().any(|word| word == b"ENQUEUE") {
                            self.queue.retain(|(_, owner, _)| *owner != words[2]);
                            self.queue.push_back((words[1].clone(), words[2].clone(), lease));
                            return array([0, 0, 0]);
                        }
                        Value::Nil
                    }
                    _ => {
                        self.locks.insert(words[1].clone(), (words[2].clone(), now + lease));
                        array([1, i64::try_from(lease.as_millis()).unwrap(), 0])
                    }
                }
            }
            "RLOCK.RENEW" => match self.locks.get_mut(&words[1]) {
                Some((owner, end)) if *owner == words[2] => {
                    *end = now + milliseconds(&words[3]);
                    Value::Int(1)
                }
                _ => Value::Int(0),
            },
            "RLOCK.RELEASE" => match self.locks.get(&words[1]) {
                Some((owner, _)) if *owner == words[2] => {
                    self.locks.remove(&words[1]);
                    Value::Int(1)
                }
                _ => Value::Nil,
            },
            "RLOCK.CANCEL" => {
                let before = self.queue.len();
                self.queue.retain(|(_, owner, _)| *owner != words[2]);
                Value::Int(i64::from(self.queue.len() < before))
            }
            "PTTL" => self.locks.get(&words[1]).map_or(Value::Int(-2), |(_, end)| {
                Value::Int(i64::try_from(end.duration_since(now).as_millis()).unwrap())
            }),
            _ => Value::Okay,
        }
    }
}

impl Connector for VirtualServer {
    fn server(&self) -> String {
        "virtual".into()
    }

    fn connect(
        &self,
        events: UnboundedSender<Incoming>,
        _within: Duration,
    ) -> BoxFuture<'_, Result<Dialled, Error>> {
        let mut state = self.state();
        let at = state.started.elapsed();
        state.dials.push(at);
        let outcome = if state.mood == Mood::Down {
            Err(Error::Transport { server: self.server(), source: Cause::new("connection refused") })
        } else {
            state.events.push(events);
            Ok(Dialled { connection: Box::new(self.clone()), server: self.server() })
        };
        let dial = state.dial;
        Box::pin(async move {
            tokio::time::sleep(dial).await;
            outcome
        })
    }
}

impl Connection for VirtualServer {
    fn send(&self, commands: Vec<Cmd>) -> Reply {
        let server = self.clone();
        Box::pin(async move {
            let (mood, values) = {
                let mut state = server.state();
                let mood = state.mood;
                if mood == Mood::Down {
                    return Err("the connection is closed".into());
                }
                (mood, commands.iter().map(|command| state.carry_out(command)).collect())
            };
            match mood {
                Mood::Answers(delay) => tokio::time::sleep(delay).await,
                Mood::Silent | Mood::Down => std::future::pending().await,
            }
            Ok(values)
        })
    }
}
