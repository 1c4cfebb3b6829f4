//! The alerts, the dashboard and the table of docs/OPERATIONS.md are about the same, and about metrics that exist.

use std::collections::BTreeSet;

use rlock_testkit::TestServer;
use rlock_testkit::waiting::Waiting;
use serde_json::Value;

use crate::support::metrics::{dashboard, printed};
use crate::support::{ask, file, url};

/// The words of a text that begin so.
fn words<'a>(text: &'a str, start: &str) -> BTreeSet<&'a str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.len() > start.len() && word.starts_with(start)).collect()
}

/// The expressions of the alerts, without the texts around them: an expression is followed by its duration or its labels.
fn expressions() -> String {
    let rules = file("packaging/prometheus/rlock.rules.yml");
    let expression = |rest: &str| rest.split(" for:").next()?.split(" labels:").next().map(str::to_string);
    rules.split(" expr:").skip(1).filter_map(expression).collect()
}

/// The queries of the dashboard, those of its variables too.
fn queries() -> String {
    fn collect(value: &Value, text: &mut String) {
        match value {
            Value::Object(fields) => {
                for name in ["expr", "definition"] {
                    text.push_str(fields.get(name).and_then(Value::as_str).unwrap_or_default());
                    text.push('\n');
                }
                fields.values().for_each(|value| collect(value, text));
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, text)),
            _ => {}
        }
    }
    let mut text = String::new();
    collect(&dashboard(), &mut text);
    text
}

#[test]
fn the_metrics_that_they_name_exist() {
    let server = TestServer::start();
    ask::<redis::Value>(&mut server.connect(), "RLOCK.ACQUIRE lock alice 60000");
    let bob = Waiting::start(&server, &["RLOCK.ACQUIRE", "lock", "bob", "60000", "BLOCK", "20"]);
    assert_eq!(bob.answer(), "null");
    let (_, metrics) = printed(&url(&server), &[]);
    let (alerts, dashboard) = (expressions(), queries());
    let (exist, watched, shown) = (metrics.names(), words(&alerts, "rlock_"), words(&dashboard, "rlock_"));
    let missing: Vec<_> = watched.union(&shown).filter(|name| !exist.contains(**name)).collect();
    assert_eq!(missing, [&""; 0], "in rules or dashboard, but not served");
    let unseen: Vec<_> = watched.difference(&shown).collect();
    assert_eq!(unseen, [&""; 0], "watched, but not on the dashboard");
    let unused: Vec<_> = exist.difference(&shown).collect();
    assert_eq!(unused, [&""; 0], "served, but not on the dashboard");
}

/// Each row of the table names its alerts, and each alert is in a row.
#[test]
fn each_alert_is_in_the_table_for_operators() {
    let page = file("docs/OPERATIONS.md");
    let section =
        page.split("\n## ").find(|section| section.starts_with("What to alert on")).expect("the section");
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
    let in_rows: BTreeSet<&str> = rows.iter().flat_map(|row| words(row, "Rlock")).collect();
    let without: Vec<_> = rows.iter().filter(|row| words(row, "Rlock").is_empty()).collect();
    assert_eq!(without, [&""; 0], "rows without an alert");
    let rules = file("packaging/prometheus/rlock.rules.yml");
    let alerts: BTreeSet<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert_eq!(in_rows, alerts);
    let tests = file("packaging/prometheus/rlock.rules.test.yml");
    let tested: BTreeSet<&str> =
        tests.lines().filter_map(|line| line.trim().strip_prefix("- alertname: ")).collect();
    assert_eq!(tested, alerts, "each has a test");
}

/// An operator reads how long the fault lasts already: the text has the `for` of the rule, and no other time.
#[test]
fn the_text_of_each_alert_says_its_own_time() {
    let rules = file("packaging/prometheus/rlock.rules.yml");
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    let mut with_times = 0;
    for alert in &alerts {
        let name = alert.lines().next().expect("a name");
        let (rule, text) = alert.split_once("annotations:").expect("a text");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let said: Vec<String> = text
            .match_indices("for ")
            .filter_map(|(at, _)| {
                let mut words = text[at + 4..].split(|c: char| !c.is_ascii_alphanumeric());
                let (number, unit) =
                    (words.next()?.parse::<u32>().ok()?, words.next()?.trim_end_matches('s'));
                Some(format!("{number} {unit}"))
            })
            .collect();
        let time = rule.lines().find_map(|line| line.trim().strip_prefix("for: "));
        let expected = time.map(|time| {
            let (number, unit) = time.split_at(time.len() - 1);
            let unit = if unit == "h" { "hour" } else { "minute" };
            format!("{number} {unit}")
        });
        with_times += usize::from(expected.is_some());
        assert_eq!(said, Vec::from_iter(expected), "{name}: {text}");
    }
    assert!(alerts.len() > 20 && with_times > 15, "{with_times} of {}", alerts.len());
}
