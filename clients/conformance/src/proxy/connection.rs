//! One connection through a proxy: a thread for each direction.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, MutexGuard, PoisonError};

use rlock_testkit::{Frame, parse};

use super::addresses::rename;
use super::gate::{Act, meet};
use super::transcript::{Entry, Replied, What};
use super::{Open, Shared, State};
use crate::clock::boot_ns;

/// Serves a client, unless the proxy plays a server that is down.
pub(super) fn start(shared: &Arc<Shared>, client: TcpStream, target: u16) -> io::Result<()> {
    if shared.lock().down {
        return client.shutdown(Shutdown::Both);
    }
    let server = TcpStream::connect(("127.0.0.1", target))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let mut open = Open {
        client: client.try_clone()?,
        server: server.try_clone()?,
        silent: false,
        kept: false,
        subscriber: false,
        pending: Default::default(),
    };
    let mut state = shared.lock();
    open.silent = state.silent;
    state.connections += 1;
    let id = state.connections;
    state.open.insert(id, open);
    state.note(id, What::Opened);
    drop(state);
    let up = Way { shared: shared.clone(), id, from: client.try_clone()?, to: server.try_clone()? };
    let down = Way { shared: shared.clone(), id, from: server, to: client };
    std::thread::spawn(move || up.run(Way::request));
    std::thread::spawn(move || down.run(Way::reply));
    Ok(())
}

impl State {
    fn note(&mut self, connection: u64, what: What) -> usize {
        self.entries.push(Entry { at: boot_ns(), connection, what });
        self.entries.len() - 1
    }
}

struct Way {
    shared: Arc<Shared>,
    id: u64,
    from: TcpStream,
    to: TcpStream,
}

/// What becomes of a frame.
enum Fate {
    Pass,
    Vanish,
    Cut,
}

impl Way {
    fn run(mut self, judge: fn(&Way, &Frame) -> Fate) {
        let _ = self.relay(judge);
        let mut state = self.shared.lock();
        if let Some(open) = state.open.remove(&self.id) {
            if open.kept {
                let _ = open.client.shutdown(Shutdown::Both);
                state.kept.push(open.server);
            } else {
                open.cut();
            }
            state.note(self.id, What::Closed);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    fn relay(&mut self, judge: fn(&Way, &Frame) -> Fate) -> io::Result<()> {
        let mut received = Vec::new();
        let mut chunk = vec![0; 65_536];
        loop {
            let length = self.from.read(&mut chunk)?;
            if length == 0 {
                return Ok(());
            }
            received.extend(chunk.get(..length).unwrap_or_default());
            while let Some((frame, length)) = parse(&received)? {
                let mut bytes: Vec<u8> = received.drain(..length).collect();
                if !self.shared.renamed.is_empty() {
                    rename(&mut bytes, &self.shared.renamed);
                }
                match judge(self, &frame) {
                    Fate::Pass => self.to.write_all(&bytes)?,
                    Fate::Vanish => (),
                    Fate::Cut => return Ok(()),
                }
            }
        }
    }

    fn request(&self, frame: &Frame) -> Fate {
        let Frame::Array(items) = frame else { return Fate::Pass };
        let mut words: Vec<String> = items.iter().filter_map(Frame::text).collect();
        let Some(name) = words.first_mut() else { return Fate::Pass };
        name.make_ascii_uppercase();
        let name = name.clone();
        let arguments = words.len() - 1;
        let mut state = self.shared.lock();
        // Without arguments, it only asks whether the server knows the command.
        let met = if arguments > 0 { meet(&mut state.gates, &name) } else { None };
        self.shared.changed.notify_all();
        if let Some((place, Act::HoldRequest)) = met {
            state = self.hold(state, place);
        }
        let entry = state.note(self.id, What::Request { words, reply: None });
        let Some(open) = state.open.get_mut(&self.id) else { return Fate::Cut };
        if open.silent {
            return Fate::Vanish;
        }
        if matches!(met, Some((_, Act::CutBefore))) {
            return Fate::Cut;
        }
        // Each channel is confirmed by a message of its own.
        let replies = if name.ends_with("SUBSCRIBE") { arguments.max(1) } else { 1 };
        open.subscriber |= name.ends_with("SUBSCRIBE");
        open.pending.extend(std::iter::repeat_n((entry, met), replies));
        Fate::Pass
    }

    fn reply(&self, frame: &Frame) -> Fate {
        let mut state = self.shared.lock();
        let Some(open) = state.open.get_mut(&self.id) else { return Fate::Cut };
        if open.silent {
            return Fate::Vanish;
        }
        if let Some(words) = message(frame, open.subscriber) {
            if words.first().is_some_and(|word| word.ends_with("subscribe")) {
                open.pending.pop_front();
            }
            return self.message(state, words);
        }
        let Some((entry, met)) = open.pending.pop_front() else { return Fate::Pass };
        // A subscription that is refused has one reply, however many channels it names.
        while open.pending.front().is_some_and(|(next, _)| *next == entry) {
            open.pending.pop_front();
        }
        let replied = Replied { at: boot_ns(), value: frame.clone(), delivered: false };
        set_reply(&mut state, entry, replied);
        match met {
            Some((place, act @ (Act::CutAfter | Act::Mute))) => return self.after(state, place, act),
            Some((place, Act::HoldReply)) => state = self.hold(state, place),
            _ => (),
        }
        if !state.open.contains_key(&self.id) {
            return Fate::Cut;
        }
        if let Some(What::Request { reply: Some(reply), .. }) =
            state.entries.get_mut(entry).map(|entry| &mut entry.what)
        {
            reply.delivered = true;
        }
        drop(state);
        self.shared.changed.notify_all();
        Fate::Pass
    }

    /// Cuts the connection instead of a reply, or silences it; only then is the gate met, so that what the next step asks for takes
    /// another connection.
    fn after(&self, mut state: MutexGuard<'_, State>, place: usize, act: Act) -> Fate {
        if let Some(open) = state.open.get_mut(&self.id) {
            open.silent = true;
            if act == Act::CutAfter {
                open.cut();
            }
        }
        if let Some(gate) = state.gates.get_mut(place) {
            gate.met = true;
        }
        drop(state);
        self.shared.changed.notify_all();
        if act == Act::CutAfter { Fate::Cut } else { Fate::Vanish }
    }

    fn message<'a>(&'a self, mut state: MutexGuard<'a, State>, words: Vec<String>) -> Fate {
        let payload = words.last().map(String::as_str).unwrap_or_default();
        let kind = format!("message:{}", payload.split(' ').next().unwrap_or_default());
        let met = meet(&mut state.gates, &kind);
        self.shared.changed.notify_all();
        match met {
            Some((_, Act::DropMessage)) => return Fate::Vanish,
            Some((place, Act::HoldMessage)) => state = self.hold(state, place),
            _ => (),
        }
        state.note(self.id, What::Message(words));
        Fate::Pass
    }

    /// Waits until the gate is opened, or the connection closed.
    fn hold<'a>(&'a self, mut state: MutexGuard<'a, State>, place: usize) -> MutexGuard<'a, State> {
        while state.open.contains_key(&self.id) && state.gates.get(place).is_some_and(|gate| !gate.open) {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }
}

fn set_reply(state: &mut State, entry: usize, replied: Replied) {
    if let Some(What::Request { reply, .. }) = state.entries.get_mut(entry).map(|entry| &mut entry.what) {
        *reply = Some(replied);
    }
}

/// The words of a message or of the confirmation of a subscription, if it is one.
fn message(frame: &Frame, subscriber: bool) -> Option<Vec<String>> {
    let items = match frame {
        Frame::Push(items) => items,
        Frame::Array(items) if subscriber => items,
        _ => return None,
    };
    let words: Vec<String> = items.iter().map(|item| item.text().unwrap_or_default()).collect();
    let first = words.first()?.as_str();
    let kinds = ["message", "pmessage", "smessage"];
    let known = kinds.contains(&first) || first.ends_with("subscribe");
    (known || matches!(frame, Frame::Push(_))).then_some(words)
}
