//! The metrics of one scrape.

use super::fields::{FOUND, FOUND_PREFIX, MODULE, SERVER, WAITS};
use super::page::{Definition, Page, counter, gauge};
use super::question::Answer;
use super::scrape::{Scrape, Server};
use crate::error::Error;
use crate::names;
use crate::server::facts::Fields;
use crate::server::servers::{Described, described};
use crate::server::{Hindrance, HotLock};

const EXPORTER: Definition = gauge("rlock_exporter_info", "The version of the exporter.");
const DISCOVERED: Definition = gauge(
    "rlock_discovery_up",
    "1 if a server that the URL names has answered, which shows what servers there are.",
);
const ERRORS: Definition = counter(
    "rlock_scrape_errors",
    "Questions to a server that failed: info is INFO and what it takes to find the other servers, hot is RLOCK.HOT.",
);
const UP: Definition = gauge("rlock_up", "1 if the server has answered.");
const TOOK: Definition = gauge("rlock_scrape_duration_seconds", "How long the server took to answer.");
const INFO: Definition = gauge("rlock_server_info", "What the server is.");
const LOADED: Definition = gauge("rlock_module_loaded", "1 if the module is loaded.");
const MAY_LEAD: Definition =
    gauge("rlock_may_become_primary", "1 if the server is the primary, or can become it.");

const REFUSED: Definition = gauge(
    "rlock_writes_refused",
    "1 if the primary refuses acquisitions now; the code is the first word of its error, DRAIN where rlock.accept is no.",
);

const HOT_WAITED: Definition =
    counter("rlock_hot_lock_waited_seconds", "How long the waiters of a hot lock have waited together.");
const HOT_ERROR: Definition = gauge(
    "rlock_hot_lock_error_seconds",
    "By how much rlock_hot_lock_waited_seconds_total may be too large.",
);
const HOT_WAITS: Definition = counter("rlock_hot_lock_waits", "Waits for a hot lock that have ended.");
const HOT_DENIED: Definition = counter("rlock_hot_lock_denied", "Denials by a hot lock.");
const HOT_LONGEST: Definition =
    gauge("rlock_hot_lock_longest_wait_seconds", "The longest wait for a hot lock, ended or running.");
const HOT_WAITERS: Definition = gauge("rlock_hot_lock_waiters", "Waiters of a hot lock now.");

/// The text that Prometheus reads.
pub(super) fn of(scrape: &Scrape) -> Result<String, Error> {
    let mut page = Page::default();
    page.add(EXPORTER, &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    page.add(DISCOVERED, &[], flag(scrape.discovered));
    for ((server, question), count) in &scrape.errors {
        page.add(ERRORS, &[("server", server), ("question", question)], *count as f64);
    }
    for Server { address, answer } in &scrape.servers {
        page.add(UP, &[("server", address)], flag(answer.is_some()));
        if let Some(answer) = answer {
            add_server(&mut page, address, answer);
        }
    }
    page.text().map_err(|error| Error::Usage(error.to_string(), "report this as a bug of rlock"))
}

fn add_server(page: &mut Page, server: &str, answer: &Answer) {
    let fields = &answer.seen.fields;
    let Described { kind, version, role, module, may_lead, warnings: _ } = described(fields);
    let labels = [("server", server)];
    page.add(TOOK, &labels, answer.took.as_secs_f64());
    page.add(LOADED, &labels, flag(module.is_some()));
    page.add(MAY_LEAD, &labels, flag(may_lead));
    let described = [
        ("server", server),
        ("role", role),
        ("kind", kind),
        ("version", &version),
        ("module", module.as_deref().unwrap_or_default()),
    ];
    page.add(INFO, &described, 1.0);
    if role == "primary" && module.is_some() {
        let code = answer.hindrance.as_ref().map(Hindrance::code).unwrap_or_default();
        page.add(REFUSED, &[("server", server), ("code", code)], flag(answer.hindrance.is_some()));
    }
    let of_module = MODULE.iter().map(|definition| (definition.field, *definition));
    for (field, definition) in SERVER.into_iter().chain(of_module) {
        if let Some(value) = number(fields, field) {
            page.add(definition, &labels, value as f64);
        }
    }
    let mut causes: Vec<&str> = fields.keys().filter_map(|name| name.strip_prefix(FOUND_PREFIX)).collect();
    causes.sort_unstable();
    for cause in causes {
        if let Some(value) = number(fields, &format!("{FOUND_PREFIX}{cause}")) {
            page.add(FOUND, &[("server", server), ("cause", cause)], value as f64);
        }
    }
    add_waits(page, server, fields);
    for lock in answer.hot.iter().flatten() {
        add_hot(page, server, lock);
    }
}

/// The bounds are those that the module has.
fn add_waits(page: &mut Page, server: &str, fields: &Fields) {
    let (Some(count), Some(sum)) = (number(fields, "rlock_waited"), number(fields, "rlock_waited_ms")) else {
        return;
    };
    let bound =
        |name: &str| name.strip_prefix("rlock_waited_up_to_")?.strip_suffix("_ms")?.parse::<u64>().ok();
    let mut up_to: Vec<(u64, u64)> =
        fields.keys().filter_map(|name| Some((bound(name)?, number(fields, name)?))).collect();
    up_to.sort_unstable();
    let up_to: Vec<(f64, u64)> = up_to.into_iter().map(|(ms, count)| (seconds(ms), count)).collect();
    page.add_histogram(WAITS, &[("server", server)], &up_to, (count, seconds(sum)));
}

fn add_hot(page: &mut Page, server: &str, lock: &HotLock) {
    let db = lock.db.to_string();
    // Each name has a text of its own: the same labels twice would spoil the scrape.
    let key = names::shown(&lock.key);
    let labels = [("server", server), ("db", db.as_str()), ("key", key.as_str())];
    let values = [
        (HOT_WAITED, seconds(lock.waited_ms)),
        (HOT_ERROR, seconds(lock.error_ms)),
        (HOT_WAITS, lock.waits as f64),
        (HOT_DENIED, lock.denied as f64),
        (HOT_LONGEST, seconds(lock.longest_ms)),
        (HOT_WAITERS, lock.waiters as f64),
    ];
    for (definition, value) in values {
        page.add(definition, &labels, value);
    }
}

fn number(fields: &Fields, name: &str) -> Option<u64> {
    fields.get(name)?.parse().ok()
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}
