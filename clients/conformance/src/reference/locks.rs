//! Locks and guards.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rlock_client::{CancellationToken, Client, Error, Guard, Kind as Kinds, Lock, Lost};
use rlock_multi::LockAll;
use tokio::task::AbortHandle;

use super::answers::{Fault, Fields, fields, lost, reason, write};
use super::raw;
use super::request::{Acquire, AcquireAll, Adopt, Kind};
use super::serve::{Driver, Holding, Kept, Outcome};
use super::wrong::Wrong;
use crate::clock::boot_ns;

impl Driver {
    pub(super) async fn acquire(self: &Rc<Self>, id: u64, ask: Acquire) -> Outcome {
        if ask.r#try && ask.timeout_ms.is_some() {
            return Err(Fault::invalid("try and timeout_ms exclude each other"));
        }
        let (cancelled, flag) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
        self.state.waits.borrow_mut().insert(id, (cancelled.clone(), flag.clone()));
        let kept = tokio::select! {
            biased;
            kept = self.acquired(&ask, &flag) => kept,
            () = cancelled.cancelled() => Err(Fault::new("Cancelled", "cancelled")),
        };
        self.state.waits.borrow_mut().remove(&id);
        let kept = kept?;
        let (token, owner) = match &kept {
            Kept::Guard(guard) => (guard.token(), String::from_utf8_lossy(guard.owner()).into_owned()),
            Kept::Writer(guard) => (guard.token(), String::from_utf8_lossy(guard.owner()).into_owned()),
            Kept::Raw(guard) => (None, guard.owner.clone()),
            Kept::All(_) | Kept::Over(_) | Kept::AllOver(_) => return Err(Error::Closed.into()),
        };
        let lease_ms = match ask.lease_ms {
            Some(lease) => lease,
            None => self.client(&ask.client)?.2,
        };
        self.keep(ask.guard, ask.client, ask.lock, kept, lease_ms);
        Ok(fields([("token", token.unwrap_or_default().into()), ("owner", owner.into())]))
    }

    async fn acquired(self: &Rc<Self>, ask: &Acquire, cancelled: &Arc<AtomicBool>) -> Result<Kept, Fault> {
        let (client, url, _) = self.client(&ask.client)?;
        if let Some(wrong) = self.wrong.filter(|wrong| wrong.is_raw()) {
            let (ask, cancelled) = (ask.clone(), cancelled.clone());
            let work = tokio::task::spawn_blocking(move || raw::acquire(&url, wrong, &ask, &cancelled));
            let guard = work.await.map_err(|error| Fault::new("Refused", error.to_string()))??;
            return Ok(Kept::Raw(guard));
        }
        let outcome = self.ask(&client, ask).await;
        if self.wrong == Some(Wrong::LateTimeout) && matches!(outcome, Err(Error::Timeout { .. })) {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Ok(outcome?)
    }

    async fn ask(&self, client: &Client, ask: &Acquire) -> Result<Kept, Error> {
        let reused = (self.wrong == Some(Wrong::OwnerReused)).then(|| "the-only-owner".to_string());
        let owner = ask.owner.clone().or(reused);
        let wait = if ask.r#try { Wait::Once } else { Wait::For(ask.timeout_ms.map(Duration::from_millis)) };
        let session = ask.session_ms.filter(|_| self.wrong != Some(Wrong::NoSession));
        let at_least = ask.at_least_ms.filter(|_| self.wrong != Some(Wrong::ReleasesEarly));
        let max_hold = ask.max_hold_ms.filter(|_| self.wrong != Some(Wrong::RenewsForEver));
        let ask =
            &Acquire { session_ms: session, at_least_ms: at_least, max_hold_ms: max_hold, ..ask.clone() };
        match ask.kind {
            Kind::Lock => {
                let mut lock = client.lock(&ask.lock);
                if ask.fair {
                    lock = lock.fair();
                }
                if ask.fenced {
                    lock = lock.fenced();
                }
                acquire(with(lock, owner, ask), wait).await.map(|guard| Kept::Guard(guard.any()))
            }
            Kind::Read => {
                let lock = client.read_write_lock(&ask.lock).read();
                acquire(with(lock, owner, ask), wait).await.map(|guard| Kept::Guard(guard.any()))
            }
            Kind::Write => {
                let mut lock = client.read_write_lock(&ask.lock).write();
                if ask.fenced {
                    lock = lock.fenced();
                }
                acquire(with(lock, owner, ask), wait).await.map(Kept::Writer)
            }
            Kind::Permit => {
                let lock = client.semaphore(&ask.lock, ask.permits.unwrap_or(1));
                acquire(with(lock, owner, ask), wait).await.map(|guard| Kept::Guard(guard.any()))
            }
        }
    }

    /// Acquires several locks as one.
    pub(super) async fn acquire_all(&self, ask: AcquireAll) -> Outcome {
        if ask.r#try && ask.timeout_ms.is_some() {
            return Err(Fault::invalid("try and timeout_ms exclude each other"));
        }
        let (client, _, lease_ms) = self.client(&ask.client)?;
        if self.wrong == Some(Wrong::LocksAsNamed) {
            let mut guards = Vec::new();
            for name in &ask.locks {
                guards.push(client.lock(name).acquire().await?);
            }
            guards.clear();
        }
        let all = LockAll::new(ask.locks.iter().map(|name| client.lock(name)))?;
        let guard = match (ask.r#try, ask.timeout_ms) {
            (true, _) => all.try_acquire().await,
            (_, None) => all.acquire().await,
            (_, Some(wait)) => all.acquire_timeout(Duration::from_millis(wait)).await,
        };
        self.keep(ask.guard, ask.client, String::new(), Kept::All(guard?), lease_ms);
        Ok(Fields::new())
    }

    fn keep(&self, guard: String, client: String, lock: String, kept: Kept, lease_ms: u64) {
        let called = guard.clone();
        let watcher = match &kept {
            Kept::Guard(guard) => {
                let held = guard.held();
                Some(self.watch(called, async move { held.lost().await }))
            }
            Kept::Writer(guard) => {
                let held = guard.held();
                Some(self.watch(called, async move { held.lost().await }))
            }
            Kept::All(guard) => {
                let held = guard.held();
                Some(self.watch(called, async move { held.lost().await }))
            }
            Kept::Raw(_) | Kept::Over(_) | Kept::AllOver(_) => None,
        };
        let holding = Holding { kept, client, lock, watcher, since: boot_ns(), lease_ms };
        self.state.guards.borrow_mut().insert(guard, holding);
    }

    /// Reports a loss.
    fn watch(&self, guard: String, loss: impl Future<Output = Lost> + 'static) -> AbortHandle {
        let late = self.wrong == Some(Wrong::LateLoss);
        let watch = async move {
            let why = loss.await;
            if late {
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            write(&lost(&guard, reason(why)));
        };
        tokio::task::spawn_local(watch).abort_handle()
    }

    pub(super) fn cancel(&self, acquire: u64) -> Outcome {
        if let Some((token, flag)) = self.state.waits.borrow().get(&acquire) {
            flag.store(true, Ordering::Relaxed);
            token.cancel();
        }
        Ok(Fields::new())
    }

    pub(super) fn check(&self, guard: &str) -> Outcome {
        let guards = self.state.guards.borrow();
        let holding = guards.get(guard).ok_or_else(|| no_guard(guard))?;
        let left = match &holding.kept {
            Kept::Guard(guard) => guard.check(),
            Kept::Writer(guard) => guard.check(),
            Kept::All(guard) => guard.check(),
            Kept::Over(held) => held.check(),
            Kept::AllOver(held) => held.check(),
            Kept::Raw(guard) => return Ok(fields([("left_ms", guard.check()?.into())])),
        };
        let left = match (self.wrong, left) {
            (Some(Wrong::LeaseFromReply), Ok(_)) => {
                let passed = u64::try_from((boot_ns() - holding.since) / 1_000_000).unwrap_or_default();
                holding.lease_ms.saturating_sub(passed)
            }
            (Some(Wrong::LostFlipsBack), Err(_)) => 1,
            (_, left) => u64::try_from(left?.as_millis()).unwrap_or(u64::MAX),
        };
        Ok(fields([("left_ms", left.into())]))
    }

    fn take(&self, guard: &str) -> Result<Holding, Fault> {
        let holding = self.state.guards.borrow_mut().remove(guard).ok_or_else(|| no_guard(guard))?;
        if let Some(watcher) = &holding.watcher {
            watcher.abort();
        }
        Ok(holding)
    }

    pub(super) async fn reenter(&self, guard: &str, r#as: String) -> Outcome {
        // Taken out while the server is asked; its watcher continues.
        let holding = self.state.guards.borrow_mut().remove(guard).ok_or_else(|| no_guard(guard))?;
        let again = match &holding.kept {
            Kept::Guard(guard) => guard.reenter().await.map(Kept::Guard),
            Kept::Writer(guard) => guard.reenter().await.map(Kept::Writer),
            Kept::All(_) | Kept::Raw(_) | Kept::Over(_) | Kept::AllOver(_) => Err(Error::Closed),
        };
        let (client, lock, lease_ms) = (holding.client.clone(), holding.lock.clone(), holding.lease_ms);
        self.state.guards.borrow_mut().insert(guard.to_string(), holding);
        let kept = again?;
        let token = match &kept {
            Kept::Guard(guard) => guard.token(),
            Kept::Writer(guard) => guard.token(),
            Kept::All(_) | Kept::Raw(_) | Kept::Over(_) | Kept::AllOver(_) => None,
        };
        self.keep(r#as, client, lock, kept, lease_ms);
        Ok(fields([("token", token.unwrap_or_default().into())]))
    }

    pub(super) async fn release(&self, guard: &str) -> Outcome {
        let holding = self.take(guard)?;
        let (owner, outcome) = match holding.kept {
            Kept::Raw(guard) => {
                let work = tokio::task::spawn_blocking(move || guard.release());
                return work
                    .await
                    .map_err(|error| Fault::new("Refused", error.to_string()))?
                    .map(|()| Fields::new());
            }
            Kept::Over(held) => return held.check().map(|_| Fields::new()).map_err(Fault::from),
            Kept::AllOver(held) => return held.check().map(|_| Fields::new()).map_err(Fault::from),
            Kept::All(guard) => return guard.release().await.map(|()| Fields::new()).map_err(Fault::from),
            Kept::Guard(guard) => (guard.owner().to_vec(), guard.release().await),
            Kept::Writer(guard) => (guard.owner().to_vec(), guard.release().await),
        };
        if self.wrong == Some(Wrong::RenewsAfterRelease) {
            let (_, url, _) = self.client(&holding.client)?;
            raw::renew(&url, &holding.lock, &String::from_utf8_lossy(&owner))?;
        }
        outcome?;
        Ok(Fields::new())
    }

    pub(super) async fn downgrade(&self, guard: &str, r#as: String) -> Outcome {
        let holding = self.take(guard)?;
        let Kept::Writer(writer) = holding.kept else {
            return Err(Fault::invalid(format!("the guard {guard} is not a writer's")));
        };
        let reader = Kept::Guard(writer.downgrade().await?.any());
        self.keep(r#as, holding.client, holding.lock, reader, holding.lease_ms);
        Ok(Fields::new())
    }

    pub(super) async fn detach(&self, guard: &str) -> Outcome {
        let holding = self.take(guard)?;
        let detached = match holding.kept {
            Kept::Guard(guard) => guard.detach().await?,
            Kept::Writer(guard) => guard.detach().await?,
            Kept::All(_) | Kept::Raw(_) | Kept::AllOver(_) => {
                return Err(Fault::invalid("only the guard of one lock can be detached"));
            }
            Kept::Over(held) => return held.check().map(|_| Fields::new()).map_err(Fault::from),
        };
        let owner = String::from_utf8_lossy(&detached.owner).into_owned();
        if self.wrong == Some(Wrong::RenewsWhatItLeft) {
            let (_, url, _) = self.client(&holding.client)?;
            raw::renew(&url, &holding.lock, &owner)?;
        }
        let left = u64::try_from(detached.left.as_millis()).unwrap_or(u64::MAX);
        Ok(fields([("owner", owner.into()), ("left_ms", left.into())]))
    }

    pub(super) async fn adopt(&self, ask: Adopt) -> Outcome {
        let mut lock = self.lock(&ask.client, &ask.lock, ask.kind)?;
        if let Some(grace) = ask.session_ms {
            lock = lock.session_grace(Duration::from_millis(grace));
        }
        let guard = match self.wrong {
            Some(Wrong::AdoptsByAcquiring) => lock.owner(&ask.owner).try_acquire().await?,
            _ => lock.adopt(&ask.owner).await?,
        };
        let lease_ms = self.client(&ask.client)?.2;
        self.keep(ask.guard, ask.client, ask.lock, Kept::Guard(guard), lease_ms);
        Ok(Fields::new())
    }

    pub(super) async fn close(&self, client: &str, within_ms: Option<u64>) -> Outcome {
        let found = self.state.clients.borrow_mut().remove(client);
        let (closing, ..) = found.ok_or_else(|| Fault::invalid(format!("no client {client}")))?;
        // `close` waits for the guards that the program drops: those of the protocol end with their client.
        // One response time-out, as in the clients that have a limit of their own.
        let within = Duration::from_millis(within_ms.unwrap_or(2_000));
        let closing = closing.close(within);
        tokio::pin!(closing);
        tokio::select! {
            biased;
            outcome = &mut closing => outcome?,
            () = tokio::task::yield_now() => {
                // The guards are lost by now; their watchers report it before the guards are gone.
                tokio::task::yield_now().await;
                for holding in self.state.guards.borrow_mut().values_mut().filter(|holding| holding.client == client) {
                    holding.kept = match &holding.kept {
                        Kept::Guard(guard) => Kept::Over(guard.held()),
                        Kept::Writer(guard) => Kept::Over(guard.held()),
                        Kept::All(guard) => Kept::AllOver(guard.held()),
                        Kept::Raw(_) | Kept::Over(_) | Kept::AllOver(_) => continue,
                    };
                }
                closing.await?;
            }
        }
        Ok(Fields::new())
    }
}

fn no_guard(guard: &str) -> Fault {
    Fault::invalid(format!("no guard {guard}"))
}

enum Wait {
    Once,
    For(Option<Duration>),
}

fn with<K: Kinds>(mut lock: Lock<K>, owner: Option<String>, ask: &Acquire) -> Lock<K> {
    if let Some(owner) = owner {
        lock = lock.owner(owner);
    }
    if let Some(lease) = ask.lease_ms {
        lock = lock.lease(Duration::from_millis(lease)).renew(false);
    }
    if let Some(grace) = ask.session_ms {
        lock = lock.session_grace(Duration::from_millis(grace));
    }
    if let Some(time) = ask.at_least_ms {
        lock = lock.at_least(Duration::from_millis(time));
    }
    if let Some(time) = ask.max_hold_ms {
        lock = lock.max_hold(Duration::from_millis(time));
    }
    lock
}

async fn acquire<K: Kinds>(lock: Lock<K>, wait: Wait) -> Result<Guard<K>, Error> {
    match wait {
        Wait::Once => lock.try_acquire().await,
        Wait::For(None) => lock.acquire().await,
        Wait::For(Some(wait)) => lock.acquire_timeout(wait).await,
    }
}
