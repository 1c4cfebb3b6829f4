//! A connection that is up, and its requests.

use std::future::ready;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use redis::{Cmd, PushKind, Value, cmd};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{OnceCell, watch};
use tokio::task::unconstrained;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::links::Links;
use super::transport::{Connection, Dialled, Reply};
use crate::clock::Instant;
use crate::error::Error;
use crate::refusal::{Refusal, answer};

/// Reports that a connection cannot be used any more.
pub(super) struct Suspicion {
    pub(super) epoch: u64,
    pub(super) why: &'static str,
}

/// Why a request has no answer.
#[derive(Clone, Debug)]
pub enum NoAnswer {
    /// The request was not sent.
    Unsent(Error),
    /// The request was sent. Whether the server carries it out is unknown.
    Unanswered(Error),
}

/// Takes the answers to an order, and the moment of sending; called once.
pub type Answered = Box<dyn FnOnce(Instant, Result<Vec<Value>, NoAnswer>) + Send>;

/// Commands that are sent together, perhaps with those of other orders. Orders are sent in the order of the calls.
pub struct Order {
    /// The commands.
    pub commands: Vec<Cmd>,
    /// A connection that does not answer within this time is given up.
    pub response: Duration,
    /// The receiver of the answers.
    pub answered: Answered,
}

/// A connection that is up.
pub struct Live {
    /// A number that no other connection of this process has.
    pub(crate) epoch: u64,
    /// The server's address.
    pub(crate) server: String,
    /// Why the connection ended.
    pub(super) end: End,
    /// Each order without an answer has a receiver of this channel.
    pub(super) under_way: watch::Sender<()>,
    connection: Box<dyn Connection>,
    outbox: Mutex<Outbox>,
    links: Links,
    suspicions: UnboundedSender<Suspicion>,
    listener: Listener,
    identity: OnceCell<Option<String>>,
}

/// Orders that are sent together.
#[derive(Default)]
struct Outbox {
    /// The orders, each with the receiver that counts it as under way.
    orders: Vec<(Order, watch::Receiver<()>)>,
    /// The thread that keeps orders back.
    gatherer: Option<ThreadId>,
}

/// Keeps orders back until it is dropped.
pub struct Gathering(Arc<Live>);

impl Drop for Gathering {
    fn drop(&mut self) {
        let mut outbox = self.0.outbox();
        outbox.gatherer = None;
        self.0.send_orders(&mut outbox);
    }
}

/// The subscription of a connection.
#[derive(Default)]
struct Listener {
    /// The channel, which no other connection has: a half-open one before it must not pass for a receiver.
    channel: OnceLock<Vec<u8>>,
    outcome: OnceLock<Result<(), Error>>,
}

/// The end of a connection, and its reason.
#[derive(Default)]
pub(super) struct End {
    ended: CancellationToken,
    why: OnceLock<String>,
}

impl End {
    /// The connection is used no longer.
    pub(super) fn set(&self, why: String) {
        self.why.get_or_init(|| why);
        self.ended.cancel();
    }

    fn is_set(&self) -> bool {
        self.ended.is_cancelled()
    }

    async fn wait(&self) -> &str {
        self.ended.cancelled().await;
        self.why.get().map_or("", String::as_str)
    }
}

impl Live {
    /// Puts a connection to use. `suspicions` is notified if it turns out to be unusable.
    pub(super) fn new(dialled: Dialled, suspicions: UnboundedSender<Suspicion>, links: Links) -> Live {
        let Dialled { connection, server } = dialled;
        static EPOCHS: AtomicU64 = AtomicU64::new(1);
        let epoch = EPOCHS.fetch_add(1, Ordering::Relaxed);
        let (end, under_way) = (End::default(), watch::Sender::default());
        let (outbox, listener, identity) = (Mutex::default(), Listener::default(), OnceCell::new());
        Live { epoch, server, end, under_way, connection, outbox, links, suspicions, listener, identity }
    }

    /// Sends an order, behind those before it. Its answers arrive before the link reports that it is down. An order after that report
    /// is dropped: `false`.
    pub(crate) fn order(self: &Arc<Self>, order: Order) -> bool {
        let Some(counted) = self.counted() else { return false };
        let mut outbox = self.outbox();
        outbox.orders.push((order, counted));
        if outbox.gatherer != Some(thread::current().id()) {
            self.send_orders(&mut outbox);
        }
        true
    }

    /// As [`Live::order`], but in a piece of its own: the driver uses a piece with a subscription for nothing else.
    fn order_alone(self: &Arc<Self>, order: Order) {
        let Some(counted) = self.counted() else { return };
        let mut outbox = self.outbox();
        self.send_orders(&mut outbox);
        outbox.orders.push((order, counted));
        self.send_orders(&mut outbox);
    }

    /// The receiver that counts an order as under way; `None` after the end.
    fn counted(&self) -> Option<watch::Receiver<()>> {
        // In this order: an order that is sent before the end is counted when the link waits for the answers.
        let counted = self.under_way.subscribe();
        (!self.end.is_set()).then_some(counted)
    }

    /// Keeps the orders of this thread back, and sends them in one piece when the result is dropped; for one thread at a time. Requests,
    /// and orders of other threads, are sent at once, behind the orders kept back.
    pub(crate) fn gather(self: &Arc<Self>) -> Gathering {
        self.outbox().gatherer = Some(thread::current().id());
        Gathering(self.clone())
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the orders that are kept back, while no other thread can send before them.
    fn send_orders(self: &Arc<Self>, outbox: &mut Outbox) {
        let orders = std::mem::take(&mut outbox.orders);
        let Some(response) = orders.iter().map(|(order, _)| order.response).min() else { return };
        let mut commands = Vec::new();
        let mut receivers = Vec::with_capacity(orders.len());
        for (mut order, counted) in orders {
            receivers.push((order.commands.len(), order.answered, counted));
            if commands.is_empty() {
                commands = order.commands;
            } else {
                commands.append(&mut order.commands);
            }
        }
        let (sent, expected) = (self.now(), commands.len());
        let reply = self.send_now(commands);
        let live = self.clone();
        let task = async move {
            let outcome = live.await_reply(reply, expected, response, response).await;
            // A client that was closed gets no answers any more.
            if live.links.stop.is_cancelled() {
                return;
            }
            let mut outcome = outcome
                .map(Vec::into_iter)
                .map_err(|why| NoAnswer::Unanswered(Error::transport(live.server.as_str(), why)));
            for (count, answered, _counted) in receivers {
                let answers = outcome.as_mut().map(|values| values.take(count).collect());
                answered(sent, answers.map_err(|error| error.clone()));
            }
        };
        self.links.runtime.spawn(task);
    }

    /// Sends commands in one piece. A connection that does not answer within the link's response time is given up.
    ///
    /// # Errors
    ///
    /// [`Error::Transport`] if there is no answer.
    pub async fn request(self: &Arc<Self>, commands: Vec<Cmd>) -> Result<Vec<Value>, Error> {
        self.request_within(commands, self.links.pace.response).await
    }

    /// As [`Live::request`], but waits for `time` at most. If that is less than the response time, the connection stays in use.
    pub(crate) async fn request_within(
        self: &Arc<Self>,
        commands: Vec<Cmd>,
        time: Duration,
    ) -> Result<Vec<Value>, Error> {
        self.ask(commands, time, self.links.pace.response)
            .await
            .map_err(|why| Error::transport(self.server.as_str(), why))
    }

    /// As [`Live::request`], within this time. A connection that is silent for `response` is given up.
    pub(super) async fn ask(
        self: &Arc<Self>,
        commands: Vec<Cmd>,
        time: Duration,
        response: Duration,
    ) -> Result<Vec<Value>, String> {
        let expected = commands.len();
        let reply = {
            let mut outbox = self.outbox();
            self.send_orders(&mut outbox);
            self.send_now(commands)
        };
        self.await_reply(reply, expected, time, response).await
    }

    /// Sends commands before it returns: requests go out in the order of the first polls.
    fn send_now(&self, commands: Vec<Cmd>) -> Reply {
        if std::process::id() != self.links.pace.process {
            return Box::pin(ready(Err("the connection is that of the process before a fork".into())));
        }
        let mut reply = self.connection.send(commands);
        // Whether or not the task that is running has used up its share of time.
        let polled = pin!(unconstrained(reply.as_mut())).poll(&mut Context::from_waker(Waker::noop()));
        match polled {
            Poll::Ready(outcome) => Box::pin(ready(outcome)),
            Poll::Pending => reply,
        }
    }

    async fn await_reply(
        &self,
        reply: Reply,
        expected: usize,
        time: Duration,
        response: Duration,
    ) -> Result<Vec<Value>, String> {
        let answers = tokio::select! {
            biased;
            answers = timeout(time, reply) => answers,
            // There will be no answers: the callers must not wait for them, but ask on the next connection.
            why = self.end.wait() => return Err(format!("the connection is no longer used: {why}")),
        };
        match answers {
            Ok(Ok(values)) if values.iter().any(is_unasked) => {
                Err(self.suspect("replies and requests are out of step").into())
            }
            Ok(Ok(values)) if values.len() == expected => Ok(values),
            Ok(Ok(values)) => Err(format!("{} replies to {expected} commands", values.len())),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                if time >= response {
                    self.suspect("a request on it was not answered in time");
                }
                Err(format!("no reply within {time:?}"))
            }
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.links.pace.clock.now()
    }

    /// The error of a request that the caller waits for no longer.
    pub(crate) fn silent(&self) -> Error {
        Error::transport(self.server.as_str(), "no reply in time")
    }

    /// Asks for another connection in place of this one; returns `why`.
    pub(crate) fn suspect(&self, why: &'static str) -> &'static str {
        // Without a receiver the link has ended.
        let _ = self.suspicions.send(Suspicion { epoch: self.epoch, why });
        why
    }

    /// The identity of the server, the same by whatever address it is reached; `None` if unknown. The server is asked once.
    pub async fn identity(self: &Arc<Self>) -> Option<&str> {
        let ask = || async {
            let mut question = cmd("INFO");
            question.arg("server");
            let answers = self.request(vec![question]).await.ok()?;
            answers.into_iter().next().and_then(run_id)
        };
        self.identity.get_or_init(ask).await.as_deref()
    }

    /// Subscribes this connection to its own channel, once, by the command `word`. `name` makes the channel, `done` receives the outcome.
    ///
    /// After the call the channel exists, and later orders are carried out after the subscription. A second caller waits for the
    /// first.
    pub(crate) fn listen(
        self: &Arc<Self>,
        word: &str,
        name: impl FnOnce(String) -> String,
        done: impl FnOnce(&Result<(), Error>) + Send + 'static,
    ) {
        self.listener.channel.get_or_init(|| {
            let random = uuid::Uuid::new_v4().simple();
            let channel = name(format!("{}{random}", self.links.channels)).into_bytes();
            let mut subscribe = cmd(word);
            subscribe.arg(&channel);
            let commands = vec![subscribe];
            let live = self.clone();
            let answered: Answered = Box::new(move |_, answers| live.listening(answers, done));
            self.order_alone(Order { commands, response: self.links.pace.response, answered });
            channel
        });
    }

    /// The subscription was answered. Without an answer the connection ends, and its subscription with it.
    fn listening(&self, answers: Result<Vec<Value>, NoAnswer>, done: impl FnOnce(&Result<(), Error>)) {
        let Ok(answers) = answers else { return };
        let refused = answers.into_iter().find_map(|value| answer(value).err());
        if refused.as_ref().is_some_and(Refusal::passes) {
            self.suspect("its subscription was refused for now");
            return;
        }
        done(
            self.listener
                .outcome
                .get_or_init(|| refused.map_or(Ok(()), |refusal| Err(Error::from(&refusal)))),
        );
    }

    /// The channel of [`Live::listen`], empty before.
    pub(crate) fn channel(&self) -> &[u8] {
        self.listener.channel.get().map_or(&[], Vec::as_slice)
    }

    /// Whether the server has answered the subscription, and its refusal if it was one.
    pub(crate) fn subscription(&self) -> Option<&Result<(), Error>> {
        self.listener.outcome.get()
    }
}

/// The server's `run_id`, which lasts from its start to its end.
fn run_id(info: Value) -> Option<String> {
    let info: String = redis::from_redis_value(info).ok()?;
    info.lines().find_map(|line| line.strip_prefix("run_id:")).map(str::to_string)
}

/// Whether a reply answers no request.
///
/// The driver takes the end of a subscription for the reply to the oldest request, since SUNSUBSCRIBE has this
/// reply. A server that loses a slot sends it unasked, and every later reply would go to the wrong request.
fn is_unasked(value: &Value) -> bool {
    matches!(value, Value::Push { kind: PushKind::SUnsubscribe, .. })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::clock::Clock;
    use crate::link::{Graces, Pace};

    /// Notes how many commands come in one piece, and answers each with its number.
    #[derive(Clone, Default)]
    struct Counting(Arc<Mutex<Vec<usize>>>);

    impl Connection for Counting {
        fn send(&self, commands: Vec<Cmd>) -> Reply {
            let mut pieces = self.0.lock().unwrap();
            let before: usize = pieces.iter().sum();
            pieces.push(commands.len());
            let numbers = before..before + commands.len();
            Box::pin(ready(Ok(numbers.map(|number| Value::Int(number as i64)).collect())))
        }
    }

    /// Counts requests, and answers none.
    struct Mute(Arc<AtomicUsize>);

    impl Connection for Mute {
        fn send(&self, _: Vec<Cmd>) -> Reply {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::pending())
        }
    }

    fn live(connection: impl Connection + 'static) -> Arc<Live> {
        let (response, clock) = (Duration::from_secs(1), Clock::System);
        let process = std::process::id();
        let links = Links {
            pace: Pace { response, first: response, blocking: Duration::ZERO, clock, process },
            channels: "channel:",
            durability_wait: response,
            busy: Arc::default(),
            graces: Arc::new(Graces::default()),
            runtime: tokio::runtime::Handle::current(),
            stop: CancellationToken::new(),
        };
        let dialled = Dialled { connection: Box::new(connection), server: "none".into() };
        Arc::new(Live::new(dialled, unbounded_channel().0, links))
    }

    /// An order of another thread does not wait for those that are gathered.
    #[tokio::test]
    async fn gathered_orders_go_out_in_one_piece_and_a_request_and_a_subscription_in_pieces_of_their_own() {
        let connection = Counting::default();
        let live = live(connection.clone());
        let (answers, mut answered) = unbounded_channel();
        let order = |count: usize| {
            let answers = answers.clone();
            let answered: Answered = Box::new(move |_, values| answers.send(values.unwrap()).unwrap());
            assert!(live.order(Order {
                commands: vec![cmd("PING"); count],
                response: Duration::from_secs(1),
                answered,
            }));
        };
        let gathering = live.gather();
        order(1);
        order(2);
        assert!(connection.0.lock().unwrap().is_empty(), "it gathers");
        order(1);
        assert_eq!(live.request(vec![cmd("PING")]).await.unwrap(), [Value::Int(4)]);
        order(1);
        live.listen("SUBSCRIBE", |name| name, |_| ());
        order(1);
        thread::scope(|scope| scope.spawn(|| order(1)).join().unwrap());
        order(1);
        drop(gathering);
        order(1);
        assert_eq!(*connection.0.lock().unwrap(), [4, 1, 1, 1, 2, 1, 1]);
        let mut all = Vec::new();
        for _ in 0..8 {
            let values =
                tokio::time::timeout(Duration::from_secs(20), answered.recv()).await.unwrap().unwrap();
            let number = |value| if let Value::Int(number) = value { number } else { -1 };
            all.push(values.into_iter().map(number).collect::<Vec<_>>());
        }
        // Those of the other thread may be later.
        all.sort();
        assert_eq!(all, [vec![0], vec![1, 2], vec![3], vec![5], vec![7], vec![8], vec![9], vec![10]]);
    }

    /// The second of two waits that began at one moment found no channel yet, sent nothing, and slept for ever.
    #[tokio::test]
    async fn the_second_to_listen_has_a_channel_too() {
        let requests = Arc::<AtomicUsize>::default();
        let live = live(Mute(requests.clone()));
        let ((begun, begins), (go, goes)) = (mpsc::channel(), mpsc::channel());
        let first = live.clone();
        let first = thread::spawn(move || {
            let name = |name| {
                begun.send(()).unwrap();
                goes.recv_timeout(Duration::from_secs(20)).unwrap();
                name
            };
            first.listen("SUBSCRIBE", name, |_| ());
        });
        begins.recv_timeout(Duration::from_secs(20)).unwrap();
        let second = live.clone();
        let second = thread::spawn(move || {
            second.listen("SUBSCRIBE", |name| name, |_| ());
            second.channel().to_vec()
        });
        thread::sleep(Duration::from_millis(50));
        go.send(()).unwrap();
        first.join().unwrap();
        assert!(!second.join().unwrap().is_empty());
        assert_eq!(requests.load(Ordering::Relaxed), 1, "one subscription");
    }
}
