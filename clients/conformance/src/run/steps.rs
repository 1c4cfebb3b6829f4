//! The steps of a scenario.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::{DEADLINE, Party, Problem, Run};
use crate::driver::Line;
use crate::proxy::Proxy;
use crate::proxy::gate::Gate;
use crate::scenario::{Ask, Connect, GateStep, Signal, Step};

impl Run<'_> {
    pub(super) fn step(&mut self, step: &Step) -> Result<(), Problem> {
        match step {
            Step::Connect(connect) => self.connect(connect),
            Step::Ask(ask) => self.ask(ask),
            Step::Await { answer, expect } => {
                let id = self.named(answer)?;
                let answer = self.answer(id, DEADLINE)?;
                self.compare(id, &answer, expect)
            }
            Step::Pending { answer } => self.pending(answer),
            Step::Gate(gate) => self.gate(gate),
            Step::Met { client, gate } => match self.party(client)?.proxy.met(gate, DEADLINE) {
                true => Ok(()),
                false => Err(format!("the gate {gate} was not met within {DEADLINE:?}").into()),
            },
            Step::Open { client, gate } => self.on(client, |proxy| proxy.open_gate(gate)),
            Step::Requested { client, command, nth } => {
                match self.party(client)?.proxy.requested(command, *nth, DEADLINE) {
                    true => Ok(()),
                    false => Err(format!("no {command} (number {nth}) within {DEADLINE:?}").into()),
                }
            }
            Step::Cut { client } => self.on(client, Proxy::cut),
            Step::Down { client } => self.on(client, |proxy| proxy.set_down(true)),
            Step::Up { client } => self.on(client, |proxy| proxy.set_down(false)),
            Step::Silence { client } => self.on(client, Proxy::silence),
            Step::Lost { guard, why, within_ms } => self.lost(guard, why, Duration::from_millis(*within_ms)),
            Step::Quiet { guard } => self.quiet(guard),
            Step::Server { command, reply } => self.raw(command, reply.as_deref()),
            Step::Pause { ms } => {
                std::thread::sleep(Duration::from_millis(*ms));
                Ok(())
            }
            Step::Signal { process, signal } => self.signal(process, *signal),
            Step::Restart { after_ms } => self.restart(Duration::from_millis(*after_ms)),
            Step::Ends { process } => self.ends(process),
            Step::Threads { process, save, at_most } => {
                self.threads(process, save.as_deref(), at_most.as_deref())
            }
            Step::Batched { client, command, count, within_ms } => {
                self.batched(client, command, *count, *within_ms)
            }
        }
    }

    fn on(&self, client: &str, work: impl FnOnce(&Proxy)) -> Result<(), Problem> {
        work(&self.party(client)?.proxy);
        Ok(())
    }

    fn connect(&mut self, connect: &Connect) -> Result<(), Problem> {
        let target = self.server.as_ref().map_or(0, |server| server.port());
        let proxy = Proxy::to(target).map_err(|error| format!("the proxy: {error}"))?;
        let login = connect.login.as_ref().map(|login| format!("{login}@")).unwrap_or_default();
        let mut request = Map::new();
        request.insert("do".into(), "connect".into());
        request.insert("client".into(), connect.client.clone().into());
        request.insert("url".into(), format!("redis://{login}127.0.0.1:{}", proxy.port()).into());
        for (name, value) in [("lease_ms", connect.lease_ms), ("response_ms", connect.response_ms)] {
            if let Some(value) = value {
                request.insert(name.into(), value.into());
            }
        }
        let lease_ms = i64::try_from(connect.lease_ms.unwrap_or(30_000)).unwrap_or(i64::MAX);
        let party = Party { process: connect.process.clone(), proxy, lease_ms };
        self.parties.insert(connect.client.clone(), party);
        let id = self.send(&connect.process, request)?;
        let answer = self.answer(id, DEADLINE)?;
        self.compare(id, &answer, &connect.expect)
    }

    fn ask(&mut self, ask: &Ask) -> Result<(), Problem> {
        let mut request = ask.request.clone();
        if let Some(Value::String(name)) = request.get("acquire").cloned() {
            request.insert("acquire".into(), self.named(&name)?.into());
        }
        let process = self.process_of(ask)?;
        if request.get("do").and_then(Value::as_str) == Some("busy") {
            self.disturbed.push(process.clone());
        }
        let id = self.send(&process, request)?;
        if let Some(name) = &ask.r#as {
            self.names.insert(name.clone(), id);
            return Ok(());
        }
        let answer = self.answer(id, DEADLINE)?;
        self.compare(id, &answer, &ask.expect)
    }

    /// The process of the client, or of the client of the guard, that a request names.
    fn process_of(&self, ask: &Ask) -> Result<String, Problem> {
        let text = |name: &str| ask.request.get(name).and_then(Value::as_str);
        if let Some(process) = &ask.process {
            return Ok(process.clone());
        }
        if let Some(client) = text("client") {
            return Ok(self.party(client)?.process.clone());
        }
        if let Some(id) = ask.request.get("acquire").and_then(Value::as_str) {
            let id = self.named(id)?;
            let made = self.asked.iter().find(|asked| asked.id == id);
            return made.map(|asked| asked.process.clone()).ok_or_else(|| "no such acquire".into());
        }
        let guard = text("guard").ok_or("a request without client, guard or process")?;
        let made = self.asked.iter().find(|asked| {
            let is = |name: &str| asked.request.get(name).and_then(Value::as_str) == Some(guard);
            match asked.request.get("do").and_then(Value::as_str) {
                Some("acquire") => is("guard"),
                _ => is("as"),
            }
        });
        made.map(|asked| asked.process.clone()).ok_or_else(|| format!("no guard {guard}").into())
    }

    fn named(&self, name: &str) -> Result<u64, Problem> {
        self.names.get(name).copied().ok_or_else(|| format!("no request is called {name}").into())
    }

    fn pending(&mut self, name: &str) -> Result<(), Problem> {
        let id = self.named(name)?;
        let process = self.asked.iter().find(|asked| asked.id == id).map(|asked| asked.process.clone());
        let driver = self.running(&process.unwrap_or_default()).ok_or("its process is gone")?;
        match driver.line(Duration::ZERO, |line| line.fields.get("id") == Some(&json!(id)))? {
            None => Ok(()),
            Some(line) => Err(format!("answered already: {}", Value::from(line.fields)).into()),
        }
    }

    fn gate(&mut self, step: &GateStep) -> Result<(), Problem> {
        let GateStep { client, name, on, nth, every, act } = step.clone();
        self.party(&client)?.proxy.add(Gate { name, on, nth, every, act, seen: 0, met: false, open: false });
        Ok(())
    }

    fn lost_line(&self, guard: &str, within: Duration) -> Result<Option<Line>, Problem> {
        let handle = format!("{}{guard}", self.prefix);
        let mine = |line: &Line| {
            line.fields.get("event") == Some(&json!("lost"))
                && line.fields.get("guard") == Some(&json!(handle))
        };
        for driver in self.pool.drivers.values() {
            // All but one have no such guard.
            if let Some(line) =
                driver.line(within / u32::try_from(self.pool.drivers.len()).unwrap_or(1), mine)?
            {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    fn lost(&mut self, guard: &str, why: &str, within: Duration) -> Result<(), Problem> {
        let Some(line) = self.lost_line(guard, within)? else {
            return Err(Problem::Late(format!("{guard}: no event lost within {within:?}")));
        };
        if line.fields.get("why").and_then(Value::as_str) != Some(why) {
            return Err(format!("{guard}: lost, but not {why}: {}", Value::from(line.fields)).into());
        }
        Ok(())
    }

    fn quiet(&self, guard: &str) -> Result<(), Problem> {
        match self.lost_line(guard, Duration::ZERO)? {
            None => Ok(()),
            Some(line) => Err(format!("{guard} was lost: {}", Value::from(line.fields)).into()),
        }
    }

    /// A command of the runner's own; with a reply, it is asked for until it comes.
    fn raw(&self, words: &[String], wanted: Option<&str>) -> Result<(), Problem> {
        let server = self.server.as_ref().ok_or("the server is down")?;
        let mut connection = server.connect();
        let (name, arguments) = words.split_first().ok_or("an empty command")?;
        let end = Instant::now() + DEADLINE;
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

    fn signal(&mut self, process: &str, signal: Signal) -> Result<(), Problem> {
        let driver = self.driver(process)?;
        match signal {
            Signal::Stop => {
                driver.signal(libc::SIGSTOP);
                self.disturbed.push(process.to_string());
            }
            Signal::Cont => driver.signal(libc::SIGCONT),
            Signal::Kill => {
                self.pool.drivers.remove(process);
                self.killed.push(process.to_string());
                self.disturbed.push(process.to_string());
            }
        }
        Ok(())
    }

    /// Kills the server and starts it on the same data, with the same port.
    fn restart(&mut self, after: Duration) -> Result<(), Problem> {
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
    fn ends(&mut self, process: &str) -> Result<(), Problem> {
        let mut driver = self.pool.drivers.remove(process).ok_or("no such process")?;
        self.killed.push(process.to_string());
        match driver.ends(Duration::from_secs(5)) {
            Some(0) => Ok(()),
            Some(code) => Err(format!("{process} ended with exit code {code}").into()),
            None => Err(format!("{process} still runs 5 s after exit").into()),
        }
    }

    fn threads(&mut self, process: &str, save: Option<&str>, at_most: Option<&str>) -> Result<(), Problem> {
        if let Some(name) = save {
            let threads = self.driver(process)?.threads();
            self.saved.insert(name.to_string(), threads as f64);
        }
        let Some(name) = at_most else { return Ok(()) };
        let kept = self.saved.get(name).copied().ok_or("nothing was kept")?;
        let end = Instant::now() + Duration::from_secs(12);
        loop {
            let threads = self.driver(process)?.threads() as f64;
            if threads <= kept {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(format!("{threads} threads, and {kept} before").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The first requests of a kind came together.
    fn batched(&self, client: &str, command: &str, count: usize, within_ms: i64) -> Result<(), Problem> {
        let proxy = &self.party(client)?.proxy;
        if !proxy.requested(command, count, DEADLINE) {
            return Err(format!("no {count} requests {command} within {DEADLINE:?}").into());
        }
        let entries = proxy.entries();
        let times: Vec<i64> = entries
            .iter()
            .filter(|entry| entry.command(command).is_some())
            .map(|entry| entry.at)
            .take(count)
            .collect();
        let span = times.iter().max().unwrap_or(&0) - times.iter().min().unwrap_or(&0);
        if span > within_ms * 1_000_000 {
            return Err(Problem::Late(format!("{count} {command} took {} ms", span / 1_000_000)));
        }
        Ok(())
    }
}

fn shown(value: &redis::Value) -> String {
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
