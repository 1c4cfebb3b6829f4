//! The parts of the page whose sentences have figures: the gains, and why a target is missed.

use super::stalls;
use super::tables::{grouped, number};
use super::targets::{Goal, missed as missed_goals};
use crate::contender::Contender;
use crate::contention::Protocol;
use crate::growth::Growth;
use crate::instructions::Way;
use crate::memory::What;
use crate::placement::Placement;
use crate::redisson::{Java, Release};
use crate::results::{Contention, Results};
use crate::spread::Spread;
use crate::store::Stored;
use crate::uncontended::Setting;

/// The gains, as a list.
pub(super) fn won(stored: &Stored) -> String {
    let main = &stored.main;
    let lines = [hand_offs(main), herd(main), pair(main), real(main), waiters(main), stall(main)];
    lines.into_iter().flatten().map(|line| format!("- {line}\n")).collect()
}

fn largest(results: &Results, protocol: Protocol) -> Option<&Contention> {
    results.protocol(protocol.name()).into_iter().rfind(|one| one.waiters == 1_000)
}

fn hand_offs(results: &Results) -> Option<String> {
    let of = |protocol: Protocol| largest(results, protocol);
    let (block, enqueue, redisson) =
        (of(Protocol::Block)?, of(Protocol::EnqueueShared)?, of(Protocol::Redisson)?);
    let commands = |one: &Contention| number(one.commands.median).replace(".00", "");
    Some(format!(
        "**A hand-off among {} waiters** takes {} commands with BLOCK and {} with ENQUEUE; Redisson's protocol takes {}, \
         because each process tries.",
        grouped(block.waiters as u64),
        commands(block),
        commands(enqueue),
        commands(redisson),
    ))
}

fn herd(results: &Results) -> Option<String> {
    let (block, redisson) = (largest(results, Protocol::Block)?, largest(results, Protocol::Redisson)?);
    Some(format!(
        "**The server's CPU for this hand-off** is {} µs with BLOCK, {} µs with Redisson's protocol. The next holder knows after {} and {} µs.",
        number(block.cpu_us.median),
        number(redisson.cpu_us.median),
        number(block.latency.p50),
        number(redisson.latency.p50),
    ))
}

fn pair(results: &Results) -> Option<String> {
    let costs = results.uncontended(Setting::Plain.name(), Placement::OneCore.name(), 50)?;
    let rlock = costs.cost(Contender::Rlock.name())?;
    let to = |contender: Contender| rlock.to(contender.name()).map(|ratio| number(ratio.median));
    Some(format!(
        "**An acquire and a release without contention**, 50 in flight and neither persistence nor replica, take {} of the server CPU of SET \
         NX PX with a compare-and-delete script, and {} of what Redisson 3.46 to 4.7 sends.",
        to(Contender::SetScript)?,
        to(Contender::Redisson(Release::Newest))?,
    ))
}

/// Redisson itself, in its process.
fn real(results: &Results) -> Option<String> {
    let measured = results.redisson.as_ref()?;
    let newest = Java::Redisson(Release::Newest);
    let of = |library: &Java, processes: usize, hold_ms: u64| {
        let mut fields = measured.fields.iter().filter(|one| one.library == library.name());
        fields.find(|one| {
            one.processes * one.threads == 200 && (one.processes, one.hold_ms) == (processes, hold_ms)
        })
    };
    let many = of(&newest, 100, 1)?;
    let (own, redisson) = (of(&Java::Rlock, 1, 0)?.per_second, of(&newest, 1, 0)?.per_second);
    let ratio = |spread: Spread| number(spread.median);
    Some(format!(
        "**{} itself**, with 100 processes of 2 threads, takes {} times the server CPU and {} times the client CPU of rlock-client \
         for Java for a hand-off, and {} times as long. With 200 threads of one process and empty critical sections {} acquires {} \
         locks a second, rlock-client {}.",
        newest.label(),
        ratio(many.server_to_own),
        ratio(many.client_to_own),
        ratio(many.to_own),
        newest.label(),
        grouped(redisson.median as u64),
        grouped(own.median as u64),
    ))
}

fn waiters(results: &Results) -> Option<String> {
    let bytes = results.memory.iter().find(|one| one.what == What::Enqueued.name())?.bytes;
    Some(format!("**An enqueued waiter** takes {} bytes.", number(bytes.median)))
}

fn stall(results: &Results) -> Option<String> {
    let measured = results.stalls.as_ref()?;
    let longest = stalls::cases(measured).iter().map(stalls::Case::longest).fold(0.0, f64::max);
    let most = measured.rows.iter().map(|one| one.waiters).max()?;
    Some(format!(
        "**No stall**: while up to {} waits end at one moment, no other client waits longer than {} ms.",
        grouped(most as u64),
        number(longest),
    ))
}

/// Why targets are missed, a paragraph for each.
pub(super) fn missed(stored: &Stored) -> String {
    let goals = missed_goals(stored);
    if goals.is_empty() {
        return "None is missed.".into();
    }
    let mut paragraphs: Vec<String> = Vec::new();
    for (goal, what) in goals {
        let text = match goal {
            Goal::Pair | Goal::Script | Goal::Redisson => profile(stored),
            Goal::PairWithReplica => with_replica(stored),
            Goal::HandOff => hand_off(stored),
            Goal::BlockGrowth => Some(BLOCK.into()),
            Goal::EnqueueGrowth => enqueue_growth(stored),
            Goal::NextHolder => next_holder(&stored.main),
            Goal::Other => None,
        };
        let text = text.unwrap_or_else(|| format!("**{what}**: not explained yet."));
        if !paragraphs.contains(&text) {
            paragraphs.push(text);
        }
    }
    paragraphs.join("\n\n")
}

const BLOCK: &str = "\
**By BLOCK**, the CPU per hand-off grows with the number of blocked clients, as for the server's own BLPOP: a thousand connections
outgrow the memory caches. Waiters by ENQUEUE are entries of a queue, and not connections.";

/// Why a hand-off by ENQUEUE takes longer among many waiters.
fn enqueue_growth(stored: &Stored) -> Option<String> {
    let Growth { server, commit, date, counts: [few, many] } = stored.growth(&stored.main)?;
    Some(format!(
        "**By ENQUEUE**, a hand-off among {} waiters takes {} times the instructions of one among {}, and {} times as many reads and \
         writes miss the core's first cache: {} instead of {} (callgrind with caches of a fixed size, {server}, {date}, rlock {commit}).",
        grouped(many.waiters as u64),
        number(many.instructions / few.instructions),
        few.waiters,
        number(many.misses / few.misses),
        number(many.misses),
        number(few.misses),
    ))
}

/// Where the instructions of an acquire and a release go.
fn profile(stored: &Stored) -> Option<String> {
    let counted = stored.instructions(&stored.main)?;
    let plain = counted.way("plain")?;
    let percent = |part: f64| number(part / plain.rlock * 100.0);
    let rest = plain.rlock - plain.own - counted.two_commands;
    let others = stored.others.iter().filter_map(|results| {
        let way = stored.instructions(results)?.way("plain")?;
        Some(format!(
            "{}: {} to {}",
            results.environment.server,
            thousands(way.rlock),
            thousands(way.set_del)
        ))
    });
    let others: Vec<String> = others.collect();
    let others =
        if others.is_empty() { String::new() } else { format!(" On other servers: {}.", others.join("; ")) };
    Some(format!(
        "**Acquire and release** take {} instructions of the server, SET NX PX and DEL {} (callgrind, {}, {} in flight, {}, rlock {}). \
         {} % are rlock's own code, {} % the cost of any two commands, and {} % the server's functions by which a module \
         reads and writes keys and reports changes. SET and DEL call none of these functions.{others}",
        thousands(plain.rlock),
        thousands(plain.set_del),
        counted.server,
        counted.in_flight,
        counted.date,
        counted.commit,
        percent(plain.own),
        percent(counted.two_commands),
        percent(rest),
    ))
}

/// What a hand-off costs by count.
fn hand_off(stored: &Stored) -> Option<String> {
    let counted = stored.hand_offs(&stored.main)?;
    let (block, enqueue) = (counted.way("block")?, counted.way("enqueue")?);
    Some(format!(
        "**A hand-off among {} waiters** takes {} instructions of the server by BLOCK and {} by ENQUEUE with its RENEW, RPUSH and the next \
         BLPOP {} (callgrind, {}, one command at a time, {}, rlock {}). The difference to BLPOP pays for owners, leases and the order of the \
         queue.",
        counted.waiters,
        thousands(block.instructions),
        thousands(enqueue.instructions),
        thousands(counted.blpop),
        counted.server,
        counted.date,
        counted.commit,
    ))
}

/// Why the next holder knows later than the subscriber of a PUBLISH.
fn next_holder(results: &Results) -> Option<String> {
    let publish = results.protocol(Protocol::Publish.name()).into_iter().next()?;
    let shared = results.protocol(Protocol::EnqueueShared.name());
    let fewest = shared.first()?;
    let cpu = |spread: Option<Spread>| spread.map(|cpu| number(cpu.median));
    Some(format!(
        "**From the release to the next holder**: a PUBLISH only delivers a message. A release reads the lock, writes the next \
         holder and its lease, reports the changes as key events, and finds the time of the next check, before the server sends \
         the message. With {} waiters, a hand-off by ENQUEUE takes {} µs of CPU where nothing pauses, and a PUBLISH {} µs. Where holders keep \
         the lock for a while, the server's caches are cold: {} and {} µs.",
        fewest.waiters,
        cpu(fewest.busy_cpu_us)?,
        cpu(publish.busy_cpu_us)?,
        number(fewest.cpu_us.median),
        number(publish.cpu_us.median),
    ))
}

fn with_replica(stored: &Stored) -> Option<String> {
    let counted = stored.instructions(&stored.main)?;
    let (plain, replica) = (counted.way("plain")?, counted.way("aof-replica")?);
    let more = |figure: fn(&Way) -> f64| thousands(figure(replica) - figure(plain));
    Some(format!(
        "**With an AOF and a replica** an acquire and a release take {} instructions, SET NX PX and DEL {}: {} and {} more than without. An \
         acquire goes out as MULTI, HSET, PEXPIREAT, EXEC and a release as MULTI, DEL, PUBLISH, EXEC, whereas SET and DEL are one \
         effect each. The module's calls that give the effects to the server are {} of the instructions. If they were free, the \
         ratio would still be {}.",
        thousands(replica.rlock),
        thousands(replica.set_del),
        more(|way| way.rlock),
        more(|way| way.set_del),
        thousands(replica.effects),
        number((replica.rlock - replica.effects) / replica.set_del),
    ))
}

/// What permits cost by the same count.
pub(super) fn permits(stored: &Stored) -> String {
    let figures = stored.instructions(&stored.main).and_then(|counted| {
        let of = |others: usize| counted.permit(others);
        Some((of(100)?, of(1_000)?, of(100_000)?))
    });
    let Some((few, some, many)) = figures else { return "No results are stored.".into() };
    format!(
        "By counted instructions (`make cost`), an acquire and a release take {} among 1,000 permits and {} among 100,000, which is {} of \
         the former. Among 100 with short owners, where the server keeps a listpack, they take {}.",
        thousands(some),
        thousands(many),
        number(many / some),
        thousands(few),
    )
}

/// To the next hundred.
pub(super) fn thousands(value: f64) -> String {
    grouped((value / 100.0).round() as u64 * 100)
}
