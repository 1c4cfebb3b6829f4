//! Users with the least rights, as docs/SECURITY.md lists them.

use std::fs;

use rlock_testkit::ServerName;

use super::{Problem, Run};
use crate::suite::home;

/// Before this, a server puts commands of modules in no category.
const NAMED: &str = "connect, Redis 7.0";

/// The rules in a row of the table there: what stands in code after the row's name.
fn rules(page: &str, row: &str) -> Result<Vec<String>, Problem> {
    let start = format!("| **{row}**");
    let line = page.lines().find(|line| line.starts_with(&start));
    let line = line.ok_or_else(|| format!("docs/SECURITY.md has no row {row}"))?;
    let code = line.split('`').skip(1).step_by(2);
    Ok(code.flat_map(str::split_ascii_whitespace).map(|word| word.replace("\\|", "|")).collect())
}

impl Run<'_> {
    /// A user who may do just this, by the rows of the table.
    pub(super) fn user(&self, name: &str, uses: &[String]) -> Result<(), Problem> {
        let page = fs::read_to_string(home().join("../../docs/SECURITY.md"))
            .map_err(|error| format!("docs/SECURITY.md: {error}"))?;
        let server = self.server.as_ref().ok_or("the server is down")?;
        let version = server.version();
        let named = version.name == ServerName::Redis && !version.is_at_least(ServerName::Redis, 7, 2);
        let mut words: Vec<String> =
            ["ACL", "SETUSER", name, "reset", "on", "nopass"].map(str::to_string).to_vec();
        for one in uses {
            let row = if one == "connect" && named { NAMED } else { one };
            words.extend(rules(&page, row)?);
        }
        self.raw(&words, Some("OK"))
    }

    /// How often the server has refused something by its ACLs.
    pub(super) fn refusals(&self, at_most: usize) -> Result<(), Problem> {
        let server = self.server.as_ref().ok_or("the server is down")?;
        let log: redis::RedisResult<Vec<std::collections::HashMap<String, redis::Value>>> =
            redis::cmd("ACL").arg("LOG").query(&mut server.connect());
        let log = log.map_err(|error| format!("ACL LOG: {error}"))?;
        let count = |entry: &std::collections::HashMap<String, redis::Value>| match entry.get("count") {
            Some(redis::Value::Int(count)) => usize::try_from(*count).unwrap_or_default(),
            _ => 0,
        };
        let found: usize = log.iter().map(count).sum();
        if found > at_most {
            let shown: Vec<String> = log
                .iter()
                .map(|entry| {
                    let field = |name: &str| entry.get(name).map(super::world::shown).unwrap_or_default();
                    format!("{} ({}, {} times)", field("object"), field("reason"), count(entry))
                })
                .collect();
            return Err(format!("{found} refusals, and not {at_most} at most: {}", shown.join(", ")).into());
        }
        Ok(())
    }
}
