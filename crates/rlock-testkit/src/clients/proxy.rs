//! A proxy between a client and a server that delays, drops and cuts.
//!
//! It reads the client's requests one by one, so that a rule can say what happens to a request and to its reply.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It passes.
    Pass,
    /// This request and all after it on this connection vanish; the connection stays open.
    Swallow,
    /// The connection is cut before the request reaches the server.
    CutBefore,
    /// The request reaches the server, then the connection is cut: the reply is lost.
    CutAfter,
    /// The request reaches the server; its reply and all after it vanish, the connection stays open.
    Mute,
    /// The request reaches the server this number of ms later, and all after it wait for it.
    Slow(u64),
    /// The request reaches the server this number of ms later, even if the client has disconnected meanwhile.
    Late(u64),
}

type Rule = Box<dyn FnMut(&[String]) -> Fate + Send>;

/// The proxy. Dropping it cuts all connections.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    target: AtomicU16,
    rule: Mutex<Rule>,
    cut: Notify,
    open: AtomicUsize,
    most: AtomicUsize,
    late: AtomicUsize,
    refuse: Mutex<bool>,
}

impl Proxy {
    /// Starts a proxy for the server on this port.
    pub async fn to(target: u16) -> Proxy {
        super::limit_everything();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port for the proxy");
        let address = listener.local_addr().expect("the proxy's address");
        let shared = Arc::new(Shared {
            target: AtomicU16::new(target),
            rule: Mutex::new(Box::new(|_| Fate::Pass)),
            cut: Notify::new(),
            open: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            late: AtomicUsize::new(0),
            refuse: Mutex::new(false),
        });
        let task = tokio::spawn(accept(listener, shared.clone()));
        Proxy { address, shared, task }
    }

    /// The server's port.
    pub fn target(&self) -> u16 {
        self.shared.target.load(Ordering::SeqCst)
    }

    /// From now on new connections lead to this port; open connections stay.
    pub fn lead_to(&self, target: u16) {
        self.shared.target.store(target, Ordering::SeqCst);
    }

    /// The URL of the proxy.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// From now on, decides the fate of each request: its words, the command in upper case.
    pub fn rule(&self, rule: impl FnMut(&[String]) -> Fate + Send + 'static) {
        *self.shared.rule.lock().unwrap() = Box::new(rule);
    }

    /// The first request of this command meets `fate`, all others pass; the flag shows that it did.
    pub fn once(&self, command: &str, fate: Fate) -> Arc<AtomicBool> {
        let met = Arc::new(AtomicBool::new(false));
        let (command, done) = (command.to_string(), met.clone());
        self.rule(move |words| {
            let hit = words[0] == command && !done.swap(true, Ordering::SeqCst);
            if hit { fate } else { Fate::Pass }
        });
        met
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        self.shared.cut.notify_waiters();
    }

    /// Cuts all connections and accepts no others, or accepts them again.
    pub fn set_down(&self, down: bool) {
        *self.shared.refuse.lock().unwrap() = down;
        if down {
            self.cut();
        }
    }

    /// Accepts no more connections, or accepts them again; open connections stay.
    pub fn set_full(&self, full: bool) {
        *self.shared.refuse.lock().unwrap() = full;
    }

    /// How many late requests the server has carried out.
    pub fn late(&self) -> usize {
        self.shared.late.load(Ordering::SeqCst)
    }

    /// The most connections that were open at a time.
    pub fn most_connections(&self) -> usize {
        self.shared.most.load(Ordering::SeqCst)
    }
}

impl Shared {
    async fn connect(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect(("127.0.0.1", self.target.load(Ordering::SeqCst))).await
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.expect("a client of the proxy");
        if !*shared.refuse.lock().unwrap() {
            connections.spawn(connection(client, shared.clone()));
        }
    }
}

async fn connection(client: TcpStream, shared: Arc<Shared>) {
    let Ok(server) = shared.connect().await else {
        return;
    };
    let open = shared.open.fetch_add(1, Ordering::SeqCst) + 1;
    shared.most.fetch_max(open, Ordering::SeqCst);
    let (client, server) = (client.into_split(), server.into_split());
    let mute = Arc::new(Mutex::new(false));
    let cut = shared.cut.notified();
    // Pinned here, they close their sockets only after the connection is no longer counted: a client that sees
    // the end may connect again at once.
    let requests = pin!(requests(client.0, server.1, &shared, &mute));
    let replies = pin!(replies(server.0, client.1, &mute));
    tokio::select! {
        () = cut => (),
        () = requests => (),
        () = replies => (),
    }
    shared.open.fetch_sub(1, Ordering::SeqCst);
}

async fn requests(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    shared: &Arc<Shared>,
    mute: &Mutex<bool>,
) {
    let mut buffer = Vec::new();
    let mut swallowing = false;
    loop {
        while let Some((words, length)) = parse(&buffer) {
            let request: Vec<u8> = buffer.drain(..length).collect();
            if swallowing {
                continue;
            }
            let fate = (shared.rule.lock().unwrap())(&words);
            match fate {
                Fate::Pass => (),
                Fate::Slow(milliseconds) => tokio::time::sleep(Duration::from_millis(milliseconds)).await,
                Fate::Swallow => swallowing = true,
                Fate::CutBefore => return,
                Fate::Mute => *mute.lock().unwrap() = true,
                Fate::CutAfter => {
                    *mute.lock().unwrap() = true;
                    let _ = server.write_all(&request).await;
                    // The server reads it before it sees the end.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    return;
                }
                Fate::Late(milliseconds) => {
                    let late = shared.connect().await.expect("a server");
                    let delay = Duration::from_millis(milliseconds);
                    tokio::spawn(send_late(late, request.clone(), delay, shared.clone()));
                    *mute.lock().unwrap() = true;
                    swallowing = true;
                }
            }
            if !swallowing && server.write_all(&request).await.is_err() {
                return;
            }
        }
        match client.read_buf(&mut buffer).await {
            Ok(length) if length > 0 => (),
            _ => return,
        }
    }
}

async fn send_late(mut server: TcpStream, request: Vec<u8>, delay: Duration, shared: Arc<Shared>) {
    tokio::time::sleep(delay).await;
    let _ = server.write_all(&request).await;
    let _ = server.read(&mut [0; 512]).await;
    shared.late.fetch_add(1, Ordering::SeqCst);
}

async fn replies(mut server: OwnedReadHalf, mut client: OwnedWriteHalf, mute: &Mutex<bool>) {
    let mut buffer = vec![0; 65536];
    loop {
        let length = match server.read(&mut buffer).await {
            Ok(length) if length > 0 => length,
            _ => return,
        };
        if !*mute.lock().unwrap() && client.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

/// The first request in the buffer, its command in upper case, and its length; `None` while it is not complete.
fn parse(buffer: &[u8]) -> Option<(Vec<String>, usize)> {
    let (request, length) = crate::frame::parse(buffer).expect("the protocol")?;
    let words = request.into_words().expect("an array of words");
    let mut words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    words[0].make_ascii_uppercase();
    Some((words, length))
}
