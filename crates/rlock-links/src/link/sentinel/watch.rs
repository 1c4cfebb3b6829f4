//! Listening to a Sentinel, and asking it now and then, for as long as the client lives.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::cmd;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

use super::answer::{Question, switched};
use super::{Sentinel, Sentinels};
use crate::link::redis::Multiplexed;
use crate::link::transport::{Connection, Incoming};

/// The channel on which a Sentinel announces the address of a service's new primary.
const CHANNEL: &str = "+switch-master";

/// How often a Sentinel is asked while the links are in use: a message may be lost with its connection.
const BUSY: Duration = Duration::from_secs(1);

/// How often at other times, so that a connection that is dead is noticed.
const IDLE: Duration = Duration::from_secs(15);

/// The pause after a connection that failed; each next is twice as long …
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Watches one Sentinel, for ever.
pub(super) async fn watch(sentinels: Arc<Sentinels>, sentinel: Arc<Sentinel>) {
    let pace = sentinels.links.pace;
    let mut pause = FIRST_PAUSE;
    // The child of a fork has a copy of the connection, and must send nothing on it.
    while std::process::id() == pace.process {
        let (sender, events) = unbounded_channel();
        let dialled = timeout(pace.response, sentinel.connector.dial(sender)).await;
        if let Ok(Ok(connection)) = dialled
            && listen(&sentinels, &sentinel, &connection, events).await
        {
            pause = FIRST_PAUSE;
        }
        sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

/// Listens and asks until the connection fails; returns whether it was of use.
async fn listen(
    sentinels: &Arc<Sentinels>,
    sentinel: &Sentinel,
    connection: &Multiplexed,
    mut events: UnboundedReceiver<Incoming>,
) -> bool {
    let links = &sentinels.links;
    let service = &sentinels.service.name;
    let mut subscribe = cmd("SUBSCRIBE");
    subscribe.arg(CHANNEL);
    // A user that may not subscribe can ask.
    let Ok(Ok(_)) = timeout(links.pace.response, connection.send(vec![subscribe])).await else {
        return false;
    };
    let mut question = Question::default();
    let mut asked: Option<Instant> = None;
    while std::process::id() == links.pace.process {
        // At once after a connection: its messages begin only here.
        let idle =
            links.busy.load(Ordering::Relaxed) == 0 && asked.is_some_and(|asked| asked.elapsed() < IDLE);
        if !idle {
            let answer = question.ask(connection, &sentinel.address, service);
            let Ok(Ok(answer)) = timeout(links.pace.response, answer).await else { return asked.is_some() };
            asked = Some(Instant::now());
            sentinels.consider(answer);
        }
        let rest = sleep(BUSY);
        tokio::pin!(rest);
        loop {
            tokio::select! {
                () = &mut rest => break,
                event = events.recv() => match event {
                    Some(Incoming::Message(message)) => {
                        if let Some(address) = switched(&message, service) {
                            sentinels.heard(address);
                        }
                    }
                    Some(Incoming::Unsubscribed) => (),
                    Some(Incoming::Closed) | None => return true,
                },
            }
        }
    }
    true
}
