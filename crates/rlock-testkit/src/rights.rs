//! The least rights of clients, as docs/SECURITY.md lists them, and what a server refused.

use std::collections::HashMap;
use std::fs;

use redis::{Connection, Value};

use crate::{ServerName, TestServer};

/// The page with the table.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SECURITY.md");

/// The row for a server that puts commands of modules in no category.
const NAMED: &str = "connect, Redis 7.0";

/// Makes a user without a password, with the rules of these rows of the table.
pub fn set_user(
    server: &TestServer,
    connection: &mut Connection,
    name: &str,
    uses: &[&str],
) -> Result<(), String> {
    let page = fs::read_to_string(PAGE).map_err(|error| format!("docs/SECURITY.md: {error}"))?;
    let version = server.version();
    let is_old = version.name == ServerName::Redis && !version.is_at_least(ServerName::Redis, 7, 2);
    let mut words = Vec::new();
    for row in uses {
        words.extend(rules(&page, if *row == "connect" && is_old { NAMED } else { row })?);
    }
    words.retain(|word| !(is_old && word.ends_with("|setinfo")));
    let mut command = redis::cmd("ACL");
    command.arg(&["SETUSER", name, "reset", "on", "nopass"]).arg(&words);
    command.query(connection).map_err(|error| format!("ACL SETUSER {words:?}: {error}"))
}

/// The rules in a row of the table.
fn rules(page: &str, row: &str) -> Result<Vec<String>, String> {
    let start = format!("| **{row}**");
    let line = page.lines().find(|line| line.starts_with(&start));
    let line = line.ok_or_else(|| format!("docs/SECURITY.md has no row {row}"))?;
    let code = line.split('`').skip(1).step_by(2);
    Ok(code.flat_map(str::split_ascii_whitespace).map(|word| word.replace("\\|", "|")).collect())
}

/// How often the server has refused something to this user by its ACLs, and what.
pub fn refusals(connection: &mut Connection, user: &str) -> Result<(usize, String), String> {
    let log: Vec<HashMap<String, Value>> =
        redis::cmd("ACL").arg("LOG").query(connection).map_err(|error| format!("ACL LOG: {error}"))?;
    let text = |entry: &HashMap<String, Value>, field: &str| match entry.get(field) {
        Some(Value::BulkString(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    };
    let count = |entry: &HashMap<String, Value>| match entry.get("count") {
        Some(Value::Int(count)) => usize::try_from(*count).unwrap_or_default(),
        _ => 0,
    };
    let of_user: Vec<_> = log.iter().filter(|entry| text(entry, "username") == user).collect();
    let each = of_user.iter().map(|entry| format!("{} {} times", text(entry, "object"), count(entry)));
    Ok((of_user.iter().map(|entry| count(entry)).sum(), each.collect::<Vec<_>>().join(", ")))
}
