//! The driver's loop: a task for each request.

use std::cell::RefCell;
use std::collections::HashMap;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rlock_client::{Any, CancellationToken, Client, Guard, Held, Lock, Write};
use rlock_multi::{AllGuard, AllHeld};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{AbortHandle, LocalSet};

use super::answers::{Fault, Fields, answer, fields, hook, write};
use super::raw::{self, RawGuard};
use super::request::{Kind, Request, read};
use super::wrong::Wrong;
use crate::clock::boot_ns;

const CAPABILITIES: [&str; 22] = [
    "read_write",
    "downgrade",
    "fair",
    "fenced",
    "reenter",
    "owner",
    "cancel",
    "info",
    "force_release",
    "hook",
    "busy",
    "semaphore",
    "session",
    "sentinel",
    "cluster",
    "one_trip",
    "cluster_waits",
    "at_least",
    "max_hold",
    "detach",
    "lock_all",
    "session_moves",
];

pub(super) type Outcome = Result<Fields, Fault>;

pub(super) enum Kept {
    Guard(Guard<Any>),
    Writer(Guard<Write>),
    All(AllGuard),
    Raw(RawGuard),
    /// Its client is closed.
    Over(Held),
    /// Of several locks.
    AllOver(AllHeld),
}

pub(super) struct Holding {
    pub(super) kept: Kept,
    pub(super) client: String,
    pub(super) lock: String,
    pub(super) watcher: Option<AbortHandle>,
    /// When it was acquired, for a client that counts from there.
    pub(super) since: i64,
    pub(super) lease_ms: u64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) clients: RefCell<HashMap<String, (Client, String, u64)>>,
    pub(super) guards: RefCell<HashMap<String, Holding>>,
    pub(super) waits: RefCell<HashMap<u64, (CancellationToken, Arc<AtomicBool>)>>,
    left_open: RefCell<Vec<redis::Connection>>,
}

pub(super) struct Driver {
    pub(super) state: State,
    pub(super) wrong: Option<Wrong>,
}

/// Serves requests from stdin until its end, or `exit`.
pub fn serve(wrong: Option<Wrong>) -> ExitCode {
    let (lines, inbox) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            let Ok(line) = line else { break };
            if lines.send((boot_ns(), line)).is_err() {
                return;
            }
        }
    });
    // One thread, so that `busy` keeps the client from running as it does in other languages.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let driver = Rc::new(Driver { state: State::default(), wrong });
    let code = runtime.block_on(LocalSet::new().run_until(driver.run(inbox)));
    runtime.shutdown_background();
    code
}

impl Driver {
    async fn run(self: Rc<Self>, mut inbox: UnboundedReceiver<(i64, String)>) -> ExitCode {
        while let Some((from, line)) = inbox.recv().await {
            let Some((id, request)) = read(&line) else {
                eprintln!("no request: {line}");
                return ExitCode::from(2);
            };
            if matches!(request, Ok(Request::Exit {})) {
                write(&answer(id, from, Ok(Fields::new())));
                return ExitCode::SUCCESS;
            }
            let driver = self.clone();
            tokio::task::spawn_local(async move {
                let outcome = match request {
                    Ok(request) => driver.carry_out(id, request).await,
                    Err(error) => Err(Fault::invalid(error)),
                };
                write(&answer(id, from, outcome));
            });
        }
        // As a process that is killed: nothing is closed.
        std::process::exit(0)
    }

    async fn carry_out(self: &Rc<Self>, id: u64, request: Request) -> Outcome {
        match request {
            Request::Hello { protocol: 1 } => Ok(fields([
                ("protocol", 1.into()),
                ("client", "rust".into()),
                ("version", env!("CARGO_PKG_VERSION").into()),
                ("driver", "redis 1.x".into()),
                ("capabilities", json!(CAPABILITIES)),
            ])),
            Request::Hello { .. } => Err(Fault::invalid("this driver speaks protocol 1")),
            Request::Connect { client, url, name, lease_ms, response_ms } => {
                self.connect(client, &url, name, lease_ms, response_ms).await
            }
            Request::Acquire(ask) => self.acquire(id, ask).await,
            Request::AcquireAll(ask) => self.acquire_all(ask).await,
            Request::Cancel { acquire } => self.cancel(acquire),
            Request::Check { guard } => self.check(&guard),
            Request::Reenter { guard, r#as } => self.reenter(&guard, r#as).await,
            Request::Release { guard } => self.release(&guard).await,
            Request::Downgrade { guard, r#as } => self.downgrade(&guard, r#as).await,
            Request::Detach { guard } => self.detach(&guard).await,
            Request::Adopt(ask) => self.adopt(ask).await,
            Request::Locked { client, lock, kind } => {
                let held = self.lock(&client, &lock, kind)?.locked().await?;
                Ok(fields([("value", held.into())]))
            }
            Request::Info { client, lock, kind } => {
                let info = self.lock(&client, &lock, kind)?.info().await?;
                Ok(fields([("holders", info.holder_count.into()), ("waiters", info.waiter_count.into())]))
            }
            Request::ForceRelease { client, lock, kind } => {
                let taken = self.lock(&client, &lock, kind)?.force_release().await?;
                Ok(fields([("value", taken.into())]))
            }
            Request::Busy { ms } => Ok(busy(ms)),
            Request::Close { client, within_ms } => self.close(&client, within_ms).await,
            Request::Exit {} => Ok(Fields::new()),
        }
    }

    async fn connect(
        &self,
        client: String,
        url: &str,
        name: Option<String>,
        lease_ms: Option<u64>,
        response_ms: Option<u64>,
    ) -> Outcome {
        if self.state.clients.borrow().contains_key(&client) {
            return Err(Fault::invalid(format!("there is a client {client}")));
        }
        let called = client.clone();
        let mut builder = Client::builder().on_event(move |event| {
            if let Some(line) = hook(&called, event) {
                write(&line);
            }
        });
        if let Some(name) = name {
            builder = builder.name(name);
        }
        if let Some(lease) = lease_ms {
            builder = builder.lease(Duration::from_millis(lease));
        }
        if let Some(response) = response_ms {
            builder = builder.response_timeout(Duration::from_millis(response));
        }
        let made = builder.connect(url).await?;
        let identity = made.identity().to_string();
        if self.wrong == Some(Wrong::LinkLeftOpen) {
            self.state.left_open.borrow_mut().push(raw::connect(url)?);
        }
        let lease = lease_ms.unwrap_or(30_000);
        self.state.clients.borrow_mut().insert(client, (made, url.to_string(), lease));
        Ok(fields([("identity", identity.into())]))
    }

    pub(super) fn client(&self, name: &str) -> Result<(Client, String, u64), Fault> {
        let clients = self.state.clients.borrow();
        clients.get(name).cloned().ok_or_else(|| Fault::invalid(format!("no client {name}")))
    }

    pub(super) fn lock(&self, client: &str, lock: &str, kind: Kind) -> Result<Lock<Any>, Fault> {
        let (client, _, _) = self.client(client)?;
        Ok(match kind {
            Kind::Lock => client.lock(lock).any(),
            Kind::Read => client.read_write_lock(lock).read().any(),
            Kind::Write => client.read_write_lock(lock).write().any(),
            // Questions are the same for all numbers of permits.
            Kind::Permit => client.semaphore(lock, 1).any(),
        })
    }
}

/// Blocks the runtime.
fn busy(ms: u64) -> Fields {
    std::thread::sleep(Duration::from_millis(ms));
    Fields::new()
}
