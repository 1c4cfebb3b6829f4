//! The steps that are possible in a state, and what each does.

use rlock_core::locks::Locks;
use rlock_machine::{Failure, Input, Nanos, Reply, State as Stage};

use super::check::check;
use super::client::Client;
use super::network::{Answer, Way};
use super::server::{carry_out, channel, connection};
use super::state::{State, Step, Trips};
use crate::ghost::Violation;

/// How many acquisitions each client begins, one after the other.
const LIVES: u8 = 2;

/// The waiter: its links are slow and break, and it may die. Its rival only acquires and releases.
const SUFFERER: usize = 1;

/// How many cycles of its event loop the server has in a step.
const MOST_CYCLES: u8 = 8;

/// The caller of one client has the lock, and that of the other waits for it.
pub(crate) fn begin(trips: &Trips, state: &mut State) -> Result<(), Violation> {
    for number in 0..state.clients.len() {
        state.clients[number].take(state.now(), Input::Start);
        settle(trips, state)?;
    }
    Ok(())
}

pub(crate) fn possible(state: &State) -> Vec<Step> {
    let mut steps: Vec<Step> = (0..state.clients.len()).flat_map(|client| of_client(state, client)).collect();
    steps.extend((state.restarts > 0).then_some(Step::Restart));
    steps.extend(state.next_moment().is_some().then_some(Step::Pass));
    steps
}

fn of_client(state: &State, number: usize) -> Vec<Step> {
    let client = &state.clients[number];
    let (links, stage) = (&client.links, client.machine.state());
    let (suffers, runs) = (number == SUFFERER, !client.is_held_up(Way::Process));
    let (late, half_open) = (links.late.as_ref(), links.half_open.is_some());
    let may_start = stage == Stage::Ended && client.life + 1 < LIVES;
    let may_cancel = matches!(stage, Stage::Asking | Stage::Queued | Stage::Confirming);
    let all = [
        (may_start && links.is_up && runs, Step::Start(number)),
        (matches!(stage, Stage::Held | Stage::Lost) && runs, Step::Release(number)),
        (may_cancel && runs, Step::Cancel(number)),
        (state.cuts > 0 && suffers && runs && links.is_up && late.is_none(), Step::Cut(number)),
        (!links.is_up && runs, Step::Connect(number)),
        (state.cuts > 0 && suffers && stage.waits() && runs && !half_open, Step::Resubscribe(number)),
        (late.is_some_and(|late| !late.requests.is_empty()), Step::ReadLate(number)),
        (late.is_some(), Step::EndLate(number)),
        (half_open, Step::EndSubscription(number)),
        (state.deaths > 0 && suffers && late.is_none() && !half_open, Step::Die(number)),
    ];
    let ways = Way::ALL.into_iter().filter_map(|way| match client.held_up.contains(&way) {
        true => Some(Step::Let(number, way)),
        false => (state.delays > 0 && suffers).then_some(Step::Hold(number, way)),
    });
    all.into_iter().filter_map(|(is_possible, step)| is_possible.then_some(step)).chain(ways).collect()
}

pub(crate) fn perform(trips: &Trips, state: &mut State, step: Step) -> Result<(), Violation> {
    let now = state.now();
    match step {
        Step::Start(number) => start(trips, state, number),
        Step::Release(number) => state.clients[number].take(now, Input::Release),
        Step::Cancel(number) => state.clients[number].take(now, Input::Cancel),
        Step::Hold(number, way) => hold_up(state, number, way),
        Step::Let(number, way) => state.clients[number].held_up.retain(|other| *other != way),
        Step::Cut(number) => {
            state.cuts -= 1;
            let without_answer = state.clients[number].links.cut();
            down(state, number, without_answer);
        }
        Step::Connect(number) => {
            state.clients[number].links.connect();
            state.clients[number].take(now, Input::Up);
        }
        Step::Resubscribe(number) => {
            state.cuts -= 1;
            state.clients[number].links.subscribe_anew();
            subscribed(state, number);
        }
        Step::ReadLate(number) => read_late(trips, state, number)?,
        Step::EndLate(number) => end_late(state, number),
        Step::EndSubscription(number) => end_subscription(state, number),
        Step::Die(number) => {
            state.deaths -= 1;
            state.clients[number].die(trips.session);
            subscribed(state, number);
        }
        Step::Restart => restart(state),
        Step::Pass => {
            let ms = state.next_moment().unwrap_or(0);
            state.serve(|sim| sim.pass(ms));
        }
    }
    Ok(())
}

fn hold_up(state: &mut State, number: usize, way: Way) {
    state.delays -= 1;
    let held_up = &mut state.clients[number].held_up;
    held_up.push(way);
    held_up.sort_unstable();
}

fn end_late(state: &mut State, number: usize) {
    let client = &mut state.clients[number];
    if let Some(late) = client.links.late.take() {
        let id = connection(client.id, late.connection);
        state.serve(|sim| sim.end_connection(id));
    }
}

fn end_subscription(state: &mut State, number: usize) {
    let client = &mut state.clients[number];
    if let Some(ended) = client.links.half_open.take() {
        let name: Box<[u8]> = channel(client.id, ended).into();
        state.world.subscribed.remove(&name);
    }
}

/// Requests, answers and messages arrive, and timers fire, until only those are left that are held up. Each state on the way is
/// checked.
pub(crate) fn settle(trips: &Trips, state: &mut State) -> Result<(), Violation> {
    // A timer that is always due fires once in each cycle of the event loop.
    for _ in 0..MOST_CYCLES {
        let mut is_settled = true;
        for number in 0..state.clients.len() {
            while arrive(trips, state, number)? {
                check(state)?;
                is_settled = false;
            }
        }
        if state.world.timer.is_some_and(|at| at <= state.world.clock) {
            state.serve(|sim| sim.fire());
            check(state)?;
            is_settled = false;
        }
        if is_settled {
            return Ok(());
        }
    }
    Ok(())
}

/// The next thing of a client that is not held up; returns whether there was one.
fn arrive(trips: &Trips, state: &mut State, number: usize) -> Result<bool, Violation> {
    let (now, client) = (state.now(), &mut state.clients[number]);
    let runs = !client.is_held_up(Way::Process);
    if !client.is_held_up(Way::Requests) && !client.links.requests.is_empty() {
        read(trips, state, number)?;
    } else if !client.is_held_up(Way::Answers) && !client.links.answers.is_empty() {
        answered(client, now);
    } else if !client.is_held_up(Way::Messages) && !client.links.messages.is_empty() {
        let channel = client.links.channel;
        if let Some(text) = client.links.messages.pop_front() {
            client.hear(now, channel, &text);
        }
    } else if runs && client.timer.is_some_and(|at| at <= now) {
        let before = client.timer;
        client.take(now, Input::Tick);
        return Ok(client.timer != before);
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn answered(client: &mut Client, now: Nanos) {
    if let Some(Answer { n, sent, reply }) = client.links.answers.pop_front() {
        client.take(now, Input::Alive(sent));
        client.take(now, Input::Reply { n, sent, reply });
    }
}

fn start(trips: &Trips, state: &mut State, number: usize) {
    let (now, client) = (state.now(), &mut state.clients[number]);
    if client.machine.state() == Stage::Ended {
        let fresh = Client::new(client.id, trips.session);
        (client.machine, client.timer, client.first_sent) = (fresh.machine, None, None);
        client.life += 1;
    }
    client.take(now, Input::Start);
}

/// The server reads the next request, and answers.
fn read(trips: &Trips, state: &mut State, number: usize) -> Result<(), Violation> {
    let links = &mut state.clients[number].links;
    let Some((request, sent_with)) = links.requests.pop_front() else { return Ok(()) };
    let (id, connected) = (state.clients[number].id, state.clients[number].links.connection);
    let named = (request, channel(id, sent_with));
    let reply = state.serve(|sim| carry_out(sim, id, connection(id, connected), named, trips.session))?;
    if let Reply::Failed(_) = reply {
        return Err(format!("o{id}: a request was refused on the youngest connection"));
    }
    if request.n > 0 {
        let (n, sent) = (request.n, request.sent);
        state.clients[number].links.answers.push_back(Answer { n, sent, reply });
    }
    Ok(())
}

/// The server reads what is left on a link that was given up. The answers are lost.
fn read_late(trips: &Trips, state: &mut State, number: usize) -> Result<(), Violation> {
    let client = &mut state.clients[number];
    let id = client.id;
    let Some(late) = &mut client.links.late else { return Ok(()) };
    let (connected, requests) = (late.connection, std::mem::take(&mut late.requests));
    for (request, sent_with) in requests {
        let client = &mut state.clients[number];
        client.excused |= client.machine.state() == Stage::Ended || request.life != client.life;
        let named = (request, channel(id, sent_with));
        state.serve(|sim| carry_out(sim, id, connection(id, connected), named, trips.session))?;
        check(state)?;
    }
    Ok(())
}

/// The client has lost its command link: requests without an answer may be carried out at any time.
fn down(state: &mut State, number: usize, without_answer: Vec<(u64, i64)>) {
    let (now, client) = (state.now(), &mut state.clients[number]);
    for (n, sent) in without_answer {
        client.take(now, Input::Reply { n, sent, reply: Reply::Failed(Failure::Unanswered) });
    }
    client.take(now, Input::Down);
}

fn subscribed(state: &mut State, number: usize) {
    let client = &state.clients[number];
    state.world.subscribed.insert(channel(client.id, client.links.channel).into());
}

/// The keys stay, as with an AOF; queues, ties and what was on the way to the server are gone.
fn restart(state: &mut State) {
    state.restarts -= 1;
    state.locks = Locks::default();
    state.world.timer = None;
    state.world.clients.clear();
    state.world.subscribed.clear();
    for number in 0..state.clients.len() {
        let was_up = state.clients[number].links.is_up;
        let without_answer = state.clients[number].links.server_restarted();
        if was_up {
            down(state, number, without_answer);
        }
        // Messages that had arrived may be read yet: the subscription is new before they are.
        let messages = std::mem::take(&mut state.clients[number].links.messages);
        state.clients[number].links.subscribe_anew();
        state.clients[number].links.half_open = None;
        state.clients[number].links.messages = messages;
        subscribed(state, number);
    }
}
