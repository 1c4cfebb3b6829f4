//! The end of a scenario: its clients are closed, and the rules that hold in every scenario are applied.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rlock_testkit::TestServer;
use serde_json::{Map, Value, json};

use super::answers::check_event;
use super::{Asked, DEADLINE, Problem, Run};
use crate::judge;

/// How long the connections of a closed client, and its locks, may still be seen.
const GONE: Duration = Duration::from_secs(5);

impl Run<'_> {
    pub(super) fn finish(&mut self) -> Result<(), Problem> {
        self.gather()?;
        let open: Vec<(String, String)> = self.open_clients();
        for (client, process) in &open {
            let mut request = Map::new();
            request.insert("do".into(), "close".into());
            request.insert("client".into(), client.clone().into());
            let id = self.send(process, request)?;
            let answer = self.answer(id, DEADLINE)?;
            if let Some(error) = answer.error {
                return Err(format!("close of {client}: {error}").into());
            }
        }
        self.gather()?;
        let books = judge::books(self);
        judge::holds(self, &books)?;
        for (client, party) in &self.parties {
            if !self.killed.contains(&party.process) && !party.proxy.empties(GONE) {
                return Err(format!("{client} has connections {GONE:?} after its close").into());
            }
        }
        self.nothing_left()?;
        self.no_event_after_close()?;
        // The connections are closed: the transcripts are whole.
        let books = judge::books(self);
        judge::sessions(self, &books)?;
        judge::transcript(self, &books)
    }

    /// The clients that were connected and not closed, with their processes.
    fn open_clients(&self) -> Vec<(String, String)> {
        let mut open = BTreeSet::new();
        for asked in &self.asked {
            let text =
                |name: &str| asked.request.get(name).and_then(Value::as_str).unwrap_or_default().to_string();
            let done = asked.answer.as_ref().is_some_and(|answer| answer.error.is_none());
            match text("do").as_str() {
                "connect" if done => open.insert((text("client"), asked.process.clone())),
                "close" => open.remove(&(text("client"), asked.process.clone())),
                _ => false,
            };
        }
        open.into_iter().filter(|(_, process)| self.running(process).is_some()).collect()
    }

    /// Every request has one answer, and every line is an answer or an event.
    fn gather(&mut self) -> Result<(), Problem> {
        let waiting: Vec<u64> =
            self.asked.iter().filter(|asked| asked.answer.is_none()).map(|asked| asked.id).collect();
        for id in waiting {
            let process = self.asked.iter().find(|asked| asked.id == id).map(|asked| asked.process.clone());
            if process
                .is_some_and(|process| self.running(&process).is_some() && !self.killed.contains(&process))
            {
                self.answer(id, DEADLINE)?;
            }
        }
        for driver in self.pool.drivers.values() {
            let mut seen = BTreeSet::new();
            for line in driver.lines() {
                match line.fields.get("id").and_then(Value::as_u64) {
                    None => check_event(&line.fields)?,
                    Some(id) if seen.insert(id) && self.asked.iter().any(|asked| asked.id == id) => (),
                    Some(id) => {
                        return Err(format!("a second answer, or one without a request: {id}").into());
                    }
                }
            }
        }
        Ok(())
    }

    /// No waiter, and no hold.
    fn nothing_left(&self) -> Result<(), Problem> {
        if self.scenario.leaves || self.scenario.server.without_module {
            return Ok(());
        }
        let mut connections: Vec<redis::Connection> =
            self.servers().into_iter().map(TestServer::connect).collect();
        let named = self.asked.iter().filter_map(|asked| asked.request.get("lock")?.as_str());
        let locks: BTreeSet<String> = named.map(str::to_string).chain(self.several()).collect();
        let end = Instant::now() + GONE;
        loop {
            let mut left = Vec::new();
            let everywhere =
                locks.iter().flat_map(|lock| (0..connections.len()).map(move |place| (lock, place)));
            for (lock, place) in everywhere.collect::<Vec<_>>() {
                let Some(connection) = connections.get_mut(place) else { continue };
                let reply: redis::RedisResult<Vec<redis::Value>> =
                    redis::cmd("RLOCK.INFO").arg(lock).query(connection);
                // A key that is not a lock belongs to the scenario. Another server of a cluster has the slot.
                let Ok(info) = reply else { continue };
                let count = |place: usize| match info.get(place) {
                    Some(redis::Value::Int(count)) => *count,
                    _ => -1,
                };
                let (holders, waiters) = (count(9), count(11));
                if holders != 0 || waiters != 0 {
                    left.push(format!("{lock}: {holders} holders and {waiters} waiters"));
                }
            }
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(format!("left behind {GONE:?} after the last close: {}", left.join(", ")).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The locks that were asked for as one with others.
    pub(crate) fn several(&self) -> impl Iterator<Item = String> {
        let names = |asked: &'_ Asked| asked.request.get("locks").and_then(Value::as_array).cloned();
        self.asked.iter().filter_map(names).flatten().filter_map(|name| name.as_str().map(str::to_string))
    }

    /// A closed client reports no events. The processes get no `exit`: they serve the next scenarios.
    fn no_event_after_close(&self) -> Result<(), Problem> {
        for asked in &self.asked {
            let (Some(answer), Some(driver)) = (&asked.answer, self.running(&asked.process)) else {
                continue;
            };
            if asked.request.get("do") != Some(&json!("close")) {
                continue;
            }
            let handle = asked.request.get("client").and_then(Value::as_str).unwrap_or_default();
            let handle = json!(format!("{}{handle}", self.prefix));
            let late = driver.lines().into_iter().find(|line| {
                let at = line.fields.get("at").and_then(Value::as_i64).unwrap_or_default();
                line.fields.contains_key("event")
                    && line.fields.get("client") == Some(&handle)
                    && at > answer.at
            });
            if let Some(late) = late {
                return Err(format!("an event after the close: {}", Value::from(late.fields)).into());
            }
        }
        Ok(())
    }
}

impl Run<'_> {
    /// The losses that drivers reported: the guard, why and when.
    pub(crate) fn losses(&self) -> Vec<(String, String, i64)> {
        let mut losses = Vec::new();
        for line in self.pool.drivers.values().flat_map(|driver| driver.lines()) {
            let text = |name: &str| line.fields.get(name).and_then(Value::as_str).unwrap_or_default();
            if text("event") == "lost" {
                let guard = text("guard").strip_prefix(&self.prefix).unwrap_or_default().to_string();
                let at = line.fields.get("at").and_then(Value::as_i64).unwrap_or_default();
                losses.push((guard, text("why").to_string(), at));
            }
        }
        losses
    }
}
