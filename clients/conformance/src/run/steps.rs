//! The steps of a scenario.

use std::time::Duration;

use rlock_testkit::free_port;
use serde_json::{Map, Value, json};

use super::{DEADLINE, Party, Problem, Run};
use crate::driver::Line;
use crate::proxy::Proxy;
use crate::proxy::gate::Gate;
use crate::scenario::{Ask, Connect, GateStep, Outage, Step};

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
            Step::Lost { guard, why, within_ms } => self.lost(guard, why, Duration::from_millis(*within_ms)),
            Step::Quiet { guard } => self.quiet(guard),
            Step::Server { command, aside: true, .. } => self.aside(command.clone()),
            Step::Server { command, reply, .. } => self.raw(command, reply.as_deref()),
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
            Step::Crowd { client, lock, guard, count } => self.crowd(client, lock, guard, *count),
            Step::Batched { client, command, count, within_ms } => {
                self.batched(client, command, *count, *within_ms)
            }
            Step::User { name, uses } => self.user(name, uses),
            Step::Refusals { user, at_most } => self.refusals(user, *at_most),
            Step::AtMost { client, command, count } => self.at_most(client, command, *count),
            Step::MoveSlot { lock, half_way_ms } => self.move_slot(lock, Duration::from_millis(*half_way_ms)),
            Step::KillPrimary { lock } => self.kill_primary(lock),
            Step::Sent { client, commands } => self.sent(client, commands),
            Step::Transfers { clients, accounts, count } => self.transfers(clients, *accounts, *count),
            step => self.proxy_step(step),
        }
    }

    /// A step of a client's proxy.
    fn proxy_step(&mut self, step: &Step) -> Result<(), Problem> {
        match step {
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
            Step::Silence { client, new, kept } => self.on(client, |proxy| proxy.silence(*new, *kept)),
            step => Err(format!("no step of a proxy: {step:?}").into()),
        }
    }

    fn on(&self, client: &str, work: impl FnOnce(&Proxy)) -> Result<(), Problem> {
        work(&self.party(client)?.proxy);
        Ok(())
    }

    fn connect(&mut self, connect: &Connect) -> Result<(), Problem> {
        let target = self.server.as_ref().map_or(0, |server| server.port());
        let proxy = match self.cluster_ports() {
            Some(targets) => Proxy::to_cluster(&targets),
            None => Proxy::to(target),
        };
        let proxy = proxy.map_err(|error| format!("the proxy: {error}"))?;
        let port = match connect.server {
            Some(Outage::Absent) => free_port(),
            _ => proxy.port(),
        };
        match connect.server {
            Some(Outage::Down) => proxy.set_down(true),
            Some(Outage::Silent) => proxy.silence(true, false),
            _ => (),
        }
        let login = connect.login.as_ref().map(|login| format!("{login}@")).unwrap_or_default();
        let mut request = Map::new();
        request.insert("do".into(), "connect".into());
        request.insert("client".into(), connect.client.clone().into());
        let hosts: Vec<String> = proxy.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let url = match self.cluster {
            Some(_) => format!("redis+cluster://{login}{}", hosts.join(",")),
            None => format!("redis://{login}127.0.0.1:{port}"),
        };
        request.insert("url".into(), url.into());
        for (name, value) in [("lease_ms", connect.lease_ms), ("response_ms", connect.response_ms)] {
            if let Some(value) = value {
                request.insert(name.into(), value.into());
            }
        }
        let lease_ms = i64::try_from(connect.lease_ms.unwrap_or(30_000)).unwrap_or(i64::MAX);
        let party = Party { process: connect.process.clone(), proxy, port, lease_ms };
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
        if let Some(Value::String(guard)) = request.remove("of") {
            request.insert("owner".into(), self.detached(&guard)?.into());
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
            return made.map(|asked| asked.process.clone()).ok_or_else(|| "unknown acquire".into());
        }
        self.process_of_guard(text("guard").ok_or("a request without client, guard or process")?)
    }

    /// The process that got a guard.
    fn process_of_guard(&self, guard: &str) -> Result<String, Problem> {
        let made = self.asked.iter().find(|asked| {
            let is = |name: &str| asked.request.get(name).and_then(Value::as_str) == Some(guard);
            match asked.request.get("do").and_then(Value::as_str) {
                Some("acquire" | "acquire_all" | "adopt") => is("guard"),
                _ => is("as"),
            }
        });
        made.map(|asked| asked.process.clone()).ok_or_else(|| format!("no guard {guard}").into())
    }

    /// The owner of a guard that was detached, as the answer named it.
    fn detached(&self, guard: &str) -> Result<String, Problem> {
        let is_its = |asked: &&crate::run::Asked| {
            asked.request.get("do") == Some(&json!("detach"))
                && asked.request.get("guard") == Some(&json!(guard))
        };
        let answer = self.asked.iter().find(is_its).and_then(|asked| asked.answer.as_ref());
        let owner = answer.and_then(|answer| answer.fields.get("owner")).and_then(Value::as_str);
        owner.map(str::to_string).ok_or_else(|| format!("{guard} was not detached").into())
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
        let driver = self.running(&self.process_of_guard(guard)?).ok_or("its process is gone")?;
        Ok(driver.line(within, mine)?)
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
}
