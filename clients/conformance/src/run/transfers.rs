//! Transfers between accounts in the server: each holds the locks of both accounts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{DEADLINE, Problem, Run};
use crate::driver::Line;

/// How many transfers of a client are under way at a time.
const AT_A_TIME: usize = 4;

/// The first balance of an account.
const BEGINS: i64 = 1_000;

/// A transfer whose locks were asked for.
#[derive(Clone)]
struct Transfer {
    process: String,
    client: String,
    guard: String,
    from: String,
    to: String,
}

/// The accounts in the server.
struct Accounts(redis::Connection);

impl Accounts {
    fn set(&mut self, account: &str, balance: i64) -> Result<(), Problem> {
        redis::cmd("SET").arg(account).arg(balance).exec(&mut self.0).map_err(failed)
    }

    fn balance(&mut self, account: &str) -> Result<i64, Problem> {
        redis::cmd("GET").arg(account).query(&mut self.0).map_err(failed)
    }
}

fn failed(error: redis::RedisError) -> Problem {
    format!("an account: {error}").into()
}

fn account(number: usize) -> String {
    format!("account:{number}")
}

impl Run<'_> {
    /// Each transfer reads both accounts as soon as it has the locks, and writes them after the next transfer has read its own: two
    /// holders of one account would lose a transfer. Whether names are given in order is left to chance.
    pub(super) fn transfers(
        &mut self,
        clients: &[String],
        accounts: usize,
        count: usize,
    ) -> Result<(), Problem> {
        let mut bank = Accounts(self.server.as_ref().ok_or("no server")?.connect());
        for number in 0..accounts {
            bank.set(&account(number), BEGINS)?;
        }
        let mut random = fastrand::Rng::with_seed(120);
        let (mut waiting, mut asked, mut read) = (BTreeMap::new(), 0, None);
        for client in clients.iter().cycle().take(clients.len() * AT_A_TIME) {
            self.begin_transfer(client, accounts, &mut random, &mut asked, &mut waiting)?;
        }
        while !waiting.is_empty() || read.is_some() {
            let granted = match self.next_transfer(&mut waiting)? {
                Some(next) => {
                    let balances = (bank.balance(&next.from)?, bank.balance(&next.to)?);
                    Some((next, balances))
                }
                None => None,
            };
            let Some((before, (from, to))) = std::mem::replace(&mut read, granted) else { continue };
            bank.set(&before.from, from - 1)?;
            bank.set(&before.to, to + 1)?;
            self.end_transfer(&before)?;
            if asked < count {
                self.begin_transfer(&before.client, accounts, &mut random, &mut asked, &mut waiting)?;
            }
        }
        let balances: Result<Vec<i64>, Problem> =
            (0..accounts).map(|number| bank.balance(&account(number))).collect();
        let (sum, all) = (balances?.iter().sum::<i64>(), BEGINS * accounts as i64);
        if sum == all {
            Ok(())
        } else {
            Err(format!("the accounts have {sum} together, and had {all}").into())
        }
    }

    fn end_transfer(&mut self, transfer: &Transfer) -> Result<(), Problem> {
        let release = json!({"do": "release", "guard": transfer.guard});
        let id = self.send(&transfer.process, release.as_object().cloned().unwrap_or_default())?;
        let released = self.answer(id, DEADLINE)?;
        self.compare(id, &released, &Default::default())
    }

    /// Asks for the locks of two accounts.
    fn begin_transfer(
        &mut self,
        client: &str,
        accounts: usize,
        random: &mut fastrand::Rng,
        asked: &mut usize,
        waiting: &mut BTreeMap<u64, Transfer>,
    ) -> Result<(), Problem> {
        let from = random.usize(..accounts);
        let to = (from + random.usize(1..accounts)) % accounts;
        let locks = [from, to].map(|number| format!("lock:{number}"));
        let guard = format!("transfer-{asked}");
        *asked += 1;
        let process = self.party(client)?.process.clone();
        let request = Map::from_iter([
            ("do".to_string(), "acquire_all".into()),
            ("client".to_string(), client.into()),
            ("guard".to_string(), guard.clone().into()),
            ("locks".to_string(), json!(locks)),
        ]);
        let id = self.send(&process, request)?;
        let [from, to] = [from, to].map(account);
        waiting.insert(id, Transfer { process, client: client.to_string(), guard, from, to });
        Ok(())
    }

    /// The next one that has its locks. `None` if none has them soon: the one that has read its accounts must write them first.
    fn next_transfer(&mut self, waiting: &mut BTreeMap<u64, Transfer>) -> Result<Option<Transfer>, Problem> {
        let processes: BTreeSet<String> = waiting.values().map(|transfer| transfer.process.clone()).collect();
        let id_of = |line: &Line| line.fields.get("id").and_then(Value::as_u64);
        for process in processes {
            let driver = self.running(&process).ok_or("its process is gone")?;
            let mine = |line: &Line| id_of(line).is_some_and(|id| waiting.contains_key(&id));
            let Some(line) = driver.line(Duration::from_millis(2), mine)? else { continue };
            let id = id_of(&line).unwrap_or_default();
            let granted = self.answer(id, DEADLINE)?;
            self.compare(id, &granted, &Default::default())?;
            return Ok(waiting.remove(&id));
        }
        Ok(None)
    }
}
