//! Steps that concern the server, the processes, or many waiters.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rlock_testkit::rights::{refusals, set_user};
use serde_json::{Value, json};

use super::{DEADLINE, Problem, Run};
use crate::clock::boot_ns;
use crate::driver::Line;
use crate::proxy::transcript::Entry;
use crate::scenario::Signal;

impl Run<'_> {
    /// A command of the runner's own; with a reply, it is asked for until it comes.
    pub(super) fn raw(&self, words: &[String], wanted: Option<&str>) -> Result<(), Problem> {
        if let Some(cluster) = &self.cluster {
            return super::cluster::raw(cluster, words, wanted);
        }
        let server = self.server.as_ref().ok_or("the server is down")?;
        let mut connection = server.connect();
        let (name, arguments) = words.split_first().ok_or("an empty command")?;
        let end = Instant::now() + DEADLINE / 2;
        loop {
            let reply: redis::RedisResult<redis::Value> =
                redis::cmd(name).arg(arguments).query(&mut connection);
            let found = match reply {
                Ok(value) => shown(&value),
                Err(error) => return Err(format!("{words:?}: {error}").into()),
            };
            match wanted {
                Some(wanted) if wanted != found && Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(2))
                }
                Some(wanted) if wanted != found => {
                    return Err(format!("{words:?}: {found}, not {wanted}").into());
                }
                _ => return Ok(()),
            }
        }
    }

    /// A slow command: the next step does not wait for it.
    pub(super) fn aside(&self, words: Vec<String>) -> Result<(), Problem> {
        let mut connection = self.server.as_ref().ok_or("the server is down")?.connect();
        std::thread::spawn(move || {
            let (name, arguments) = words.split_first()?;
            redis::cmd(name).arg(arguments).query::<redis::Value>(&mut connection).ok()
        });
        Ok(())
    }

    pub(super) fn user(&self, name: &str, uses: &[String]) -> Result<(), Problem> {
        let server = self.server.as_ref().ok_or("the server is down")?;
        let uses: Vec<&str> = uses.iter().map(String::as_str).collect();
        Ok(set_user(server, &mut server.connect(), name, &uses)?)
    }

    pub(super) fn refusals(&self, user: &str, at_most: usize) -> Result<(), Problem> {
        let server = self.server.as_ref().ok_or("the server is down")?;
        match refusals(&mut server.connect(), user)? {
            (count, _) if count <= at_most => Ok(()),
            (count, what) => Err(format!("{count} refusals, and not {at_most} at most: {what}").into()),
        }
    }

    pub(super) fn signal(&mut self, process: &str, signal: Signal) -> Result<(), Problem> {
        let driver = self.driver(process)?;
        match signal {
            Signal::Stop => {
                driver.stop();
                self.disturbed.push(process.to_string());
                self.stops.push((process.to_string(), boot_ns()..i64::MAX));
            }
            Signal::Cont => {
                driver.signal(rustix::process::Signal::CONT);
                self.stops.iter_mut().filter(|(stopped, _)| stopped == process).for_each(|(_, stop)| {
                    stop.end = stop.end.min(boot_ns());
                });
            }
            Signal::Kill => {
                self.pool.drivers.remove(process);
                self.killed.push(process.to_string());
                self.disturbed.push(process.to_string());
            }
        }
        Ok(())
    }

    /// Kills the server and starts it on the same data, with the same port.
    pub(super) fn restart(&mut self, after: Duration) -> Result<(), Problem> {
        let server = self.server.take().ok_or("the server is down")?;
        let port = server.port();
        let data = server.kill9().data;
        std::thread::sleep(after);
        let mut builder = rlock_testkit::TestServer::builder().dir(data).port(port);
        for (name, value) in &self.scenario.server.conf {
            builder = builder.conf(name, value);
        }
        let server = builder.start();
        self.parties.values().for_each(|party| party.proxy.set_target(server.port()));
        self.server = Some(server);
        Ok(())
    }

    /// The process ends by itself, with exit code 0.
    pub(super) fn ends(&mut self, process: &str) -> Result<(), Problem> {
        let mut driver = self.pool.drivers.remove(process).ok_or("unknown process")?;
        self.killed.push(process.to_string());
        match driver.ends(Duration::from_secs(5)) {
            Some(0) => Ok(()),
            Some(code) => Err(format!("{process} ended with exit code {code}").into()),
            None => Err(format!("{process} still runs 5 s after exit").into()),
        }
    }

    pub(super) fn threads(
        &mut self,
        process: &str,
        save: Option<&str>,
        at_most: Option<&str>,
    ) -> Result<(), Problem> {
        if let Some(name) = save {
            let threads = self.count_threads(process)?;
            self.saved.insert(name.to_string(), threads);
        }
        let Some(name) = at_most else { return Ok(()) };
        let kept = self.saved.get(name).copied().ok_or("nothing was kept")?;
        let end = Instant::now() + Duration::from_secs(12);
        loop {
            let threads = self.count_threads(process)?;
            if threads <= kept {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(format!("{threads} threads, and {kept} before").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The threads in the system's table, or those of a language that maps its own to few of the system's.
    fn count_threads(&mut self, process: &str) -> Result<f64, Problem> {
        if !self.has("threads") {
            return Ok(self.driver(process)?.threads() as f64);
        }
        let request = serde_json::Map::from_iter([("do".to_string(), "threads".into())]);
        let id = self.send(process, request)?;
        let count = self.answer(id, super::DEADLINE)?.fields.get("count").and_then(serde_json::Value::as_f64);
        count.ok_or_else(|| "the driver has not counted its threads".into())
    }

    /// The first requests of a kind came together: no further apart than the acquisitions before them, but for
    /// `within_ms`.
    pub(super) fn batched(
        &self,
        client: &str,
        command: &str,
        count: usize,
        within_ms: i64,
    ) -> Result<(), Problem> {
        let proxy = &self.party(client)?.proxy;
        if !proxy.requested(command, count, DEADLINE) {
            return Err(format!("no {count} requests {command} within {DEADLINE:?}").into());
        }
        let entries = proxy.entries();
        let (acquired, spread) = (spread(&entries, "RLOCK.ACQUIRE", count), spread(&entries, command, count));
        // A busy process acquires later, and so its renewals are due later.
        if spread > within_ms * 1_000_000 + acquired {
            return Err(Problem::Late(format!("{count} {command} took {} ms", spread / 1_000_000)));
        }
        Ok(())
    }

    /// No more requests of a kind came so far.
    pub(super) fn at_most(&self, client: &str, command: &str, count: usize) -> Result<(), Problem> {
        let entries = self.party(client)?.proxy.entries();
        let found = entries.iter().filter(|entry| entry.name() == Some(command)).count();
        if found > count {
            return Err(format!("{found} {command}, and not {count} at most").into());
        }
        Ok(())
    }

    /// The requests about locks were these so far, in this order.
    pub(super) fn sent(&self, client: &str, commands: &[String]) -> Result<(), Problem> {
        let entries = self.party(client)?.proxy.entries();
        let found: Vec<&str> = entries.iter().filter_map(Entry::lock_command).collect();
        if found != commands {
            return Err(format!("{client} sent {found:?}, and not {commands:?}").into());
        }
        Ok(())
    }

    /// Many waiters of one client stand in one queue; each has its turn when the holder, and each before it, has
    /// released.
    pub(super) fn crowd(
        &mut self,
        client: &str,
        lock: &str,
        guard: &str,
        count: usize,
    ) -> Result<(), Problem> {
        let process = self.party(client)?.process.clone();
        let request = |fields: Value| fields.as_object().cloned().unwrap_or_default();
        let mut waiting = BTreeMap::new();
        for number in 0..count {
            let name = format!("crowd-{number}");
            let ask = json!({"do": "acquire", "client": client, "lock": lock, "guard": name});
            waiting.insert(self.send(&process, request(ask))?, name);
        }
        let words = ["EVAL", "return redis.call('RLOCK.INFO',KEYS[1])[12]", "1", lock].map(str::to_string);
        self.raw(&words, Some(&count.to_string()))?;
        let mut next = guard.to_string();
        loop {
            let id = self.send(&process, request(json!({"do": "release", "guard": next})))?;
            let released = self.answer(id, DEADLINE)?;
            self.compare(id, &released, &Default::default())?;
            if waiting.is_empty() {
                return Ok(());
            }
            let driver = self.running(&process).ok_or("its process is gone")?;
            let mine = |line: &Line| {
                line.fields.get("id").and_then(Value::as_u64).is_some_and(|id| waiting.contains_key(&id))
            };
            let line = driver.line(DEADLINE, mine)?.ok_or("no client of the crowd was granted the lock")?;
            let id = line.fields.get("id").and_then(Value::as_u64).unwrap_or_default();
            let granted = self.answer(id, DEADLINE)?;
            self.compare(id, &granted, &Default::default())?;
            next = waiting.remove(&id).unwrap_or_default();
        }
    }
}

pub(super) fn shown(value: &redis::Value) -> String {
    match value {
        redis::Value::Nil => "null".to_string(),
        redis::Value::Int(number) => number.to_string(),
        redis::Value::Okay => "OK".to_string(),
        redis::Value::SimpleString(text) => text.clone(),
        redis::Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        redis::Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(",")),
        other => format!("{other:?}"),
    }
}

/// How far apart the first requests of a command came, in ns.
fn spread(entries: &[Entry], command: &str, count: usize) -> i64 {
    let of_it = entries.iter().filter(|entry| entry.command(command).is_some());
    let times: Vec<i64> = of_it.map(|entry| entry.at).take(count).collect();
    times.iter().max().unwrap_or(&0) - times.iter().min().unwrap_or(&0)
}
