//! `rlock health`: does this server do its part? For the health check of a container, and for probes.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::{NO, YES};
use crate::error::Error;
use crate::output::{Output, Tone};
use crate::server::facts::{self, Fields, is_sentinel};
use crate::server::servers::{Described, described};
use crate::server::{Hindrance, Link, Place, Probe, Target, hindrance};

/// The server has this time in all, the look-up of its name included: the health checks and probes of this project wait 3 s, and show no
/// reason after them.
const PATIENCE: Duration = Duration::from_secs(2);

/// The server, in JSON.
#[derive(Serialize)]
struct Report {
    ok: bool,
    address: String,
    role: &'static str,
    /// What is wrong, or not known; null where nothing is.
    what: Option<String>,
    /// What to do about it.
    advice: Option<String>,
}

/// Asks the server of the URL and no other, and returns [`NO`] if it is a primary that gives no locks, or a replica without its
/// primary's data.
///
/// A drained server is well: an operator has drained it, and holders need it to finish.
pub(crate) fn health(place: &Place, output: Output) -> Result<u8, Error> {
    let target = target(place)?.clone();
    let address = target.address();
    let (answer, answered) = channel();
    // The look-up of a name has no time-out, and a server that sends a byte now and then meets each one.
    let asking = thread::Builder::new().spawn(move || answer.send(examined(target)));
    asking.map_err(|cause| Error::System { what: "cannot start a thread", cause })?;
    let late = |_| Err(Error::no_reply(address, PATIENCE));
    let report = answered.recv_timeout(PATIENCE).unwrap_or_else(late)?;
    output.either(&report, || text(&report, output))?;
    Ok(if report.ok { YES } else { NO })
}

/// Asks the server.
fn examined(target: Target) -> Result<Report, Error> {
    let mut link = Link::new(target);
    let fields = facts::about(&mut link)?;
    if is_sentinel(&fields) {
        return Err(one_server("a Sentinel has no locks"));
    }
    let described = described(&fields);
    let hindrance = hindrance(&mut link, &fields)?.filter(|hindrance| *hindrance != Hindrance::Drains);
    let address = link.address();
    let trouble = trouble(&described, &fields, hindrance.as_ref(), &address);
    let ok = trouble.is_none();
    let (what, advice) = trouble.or_else(|| unseen(&link)).unzip();
    Ok(Report { ok, address, role: described.role, what, advice })
}

/// The one server that the URL names.
fn target(place: &Place) -> Result<&Target, Error> {
    match place.starts.as_slice() {
        _ if place.service().is_some() => Err(one_server("the URL names Sentinels")),
        [target] => Ok(target),
        _ => Err(one_server("the URL names several servers")),
    }
}

fn one_server(what: &str) -> Error {
    let advice =
        "name the server itself: --url redis://127.0.0.1:6379; `rlock ping` checks all servers of a URL";
    Error::Usage(format!("`rlock health` checks one server: {what}"), advice)
}

/// What is wrong with the server, and what to do.
fn trouble(
    described: &Described,
    fields: &Fields,
    hindrance: Option<&Hindrance>,
    address: &str,
) -> Option<(String, String)> {
    if described.module.is_none() && described.may_lead {
        let advice = "add `loadmodule /path/to/librlock.so` to its configuration file and restart it";
        return Some(("the module is not loaded".to_string(), advice.to_string()));
    }
    if described.role == "replica" && lacks_data(fields) {
        let what = "it does not have its primary's data yet: a fail-over to it would lose locks";
        let advice = "wait; if it does not end, check the primary's address, the network and masterauth";
        return Some((what.to_string(), advice.to_string()));
    }
    hindrance.map(|hindrance| (format!("it {}", hindrance.text()), hindrance.advice(address)))
}

/// The part of the answer that this user may not see.
fn unseen(link: &Link) -> Option<(String, String)> {
    let what = "whether it takes writes is not known: this user may not run RLOCK.CANCEL";
    let advice = "allow it: ACL SETUSER <user> +rlock.cancel ~rlock:probe*";
    (link.probe == Probe::Forbidden).then(|| (what.to_string(), advice.to_string()))
}

/// Whether a replica copies its primary's data, or has not reached its primary since it started. One that has lost its primary
/// has the data, and can be promoted.
fn lacks_data(fields: &Fields) -> bool {
    let is = |name: &str, value: &str| fields.get(name).is_some_and(|field| field == value);
    is("master_sync_in_progress", "1")
        || (is("master_link_status", "down") && is("master_link_down_since_seconds", "-1"))
}

fn text(report: &Report, output: Output) -> String {
    let (verdict, tone) = if report.ok { ("ok", Tone::Good) } else { ("NO", Tone::Bad) };
    let what = report.what.as_ref().map(|what| format!("; {what}")).unwrap_or_default();
    let advice = report.advice.as_ref().map(|advice| format!("→ {advice}\n")).unwrap_or_default();
    format!("{}  {}  {}{what}\n{advice}", output.toned(tone, verdict), report.address, report.role)
}
