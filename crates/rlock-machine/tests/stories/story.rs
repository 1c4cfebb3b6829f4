//! The stories of the machine, `clients/conformance/machine/*.jsonl`: read, played, compared.

use rlock_machine::{
    Command, Failure, Input, Loss, MS, Machine, Message, Nanos, Outcome, Output, Plan, Refusal, Reply, State,
};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    #[serde(rename = "story")]
    _story: String,
    plan: PlanLine,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanLine {
    lease: f64,
    wait: Option<f64>,
    renew: Option<bool>,
    fenced: Option<bool>,
    confirm_first: Option<bool>,
    response: Option<f64>,
    grace: Option<f64>,
    at_least: Option<f64>,
    max_hold: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    at: f64,
    #[serde(rename = "in")]
    input: String,
    n: Option<u64>,
    sent: Option<f64>,
    #[serde(default, deserialize_with = "present")]
    value: Option<Value>,
    error: Option<String>,
    holder_lease: Option<f64>,
    word: Option<String>,
    token: Option<i64>,
    lease: Option<f64>,
    current: Option<bool>,
    out: Vec<Value>,
    state: String,
}

/// A null that is there is a reply.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// Plays the story in `text`, a whole file, against the reference; the error names the first line that differs.
pub(crate) fn play(text: &str) -> Result<(), String> {
    let mut lines = text.lines();
    let head: Head = parse(lines.next().unwrap_or_default())?;
    let usual = Plan::new(nanos(head.plan.lease));
    let mut machine = Machine::new(Plan {
        wait: head.plan.wait.map(nanos),
        renew: head.plan.renew.unwrap_or(usual.renew),
        fenced: head.plan.fenced.unwrap_or(usual.fenced),
        confirm_first: head.plan.confirm_first.unwrap_or(usual.confirm_first),
        response: head.plan.response.map_or(usual.response, nanos),
        grace: head.plan.grace.map(nanos),
        at_least: head.plan.at_least.map_or(usual.at_least, nanos),
        max_hold: head.plan.max_hold.map(nanos),
        ..usual
    });
    for (number, line) in lines.enumerate() {
        let at = |what: String| format!("line {}: {what}", number + 2);
        let line: Line = parse(line).map_err(at)?;
        let mut outputs = Vec::new();
        machine.input(nanos(line.at), input(&line).map_err(at)?, &mut outputs);
        let outputs: Vec<Value> = outputs.iter().map(shown).collect();
        let state = name_of(machine.state());
        if !same(&outputs, &line.out) || state != line.state {
            return Err(at(format!("{outputs:?} and {state}, not {:?} and {}", line.out, line.state)));
        }
    }
    Ok(())
}

fn parse<'a, T: Deserialize<'a>>(line: &'a str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))
}

fn nanos(ms: f64) -> Nanos {
    (ms * MS as f64).round() as Nanos
}

/// Equal, with 5 and 5.0 as one number.
fn same(found: &[Value], wanted: &[Value]) -> bool {
    let number = |value: &Value| value.get("timer").and_then(Value::as_f64);
    let equal = |(a, b): (&Value, &Value)| a == b || (number(a).is_some() && number(a) == number(b));
    found.len() == wanted.len() && found.iter().zip(wanted).all(equal)
}

fn input(line: &Line) -> Result<Input, String> {
    Ok(match line.input.as_str() {
        "start" => Input::Start,
        "adopt" => Input::Adopt,
        "reply" => {
            let n = line.n.ok_or("a reply without n")?;
            let sent = nanos(line.sent.ok_or("a reply without sent")?);
            Input::Reply { n, sent, reply: reply(line)? }
        }
        "message" => Input::Message(match line.word.as_deref() {
            Some("granted") => Message::Granted {
                token: line.token.unwrap_or_default(),
                lease: line.lease.map_or(0, nanos),
                current: line.current.unwrap_or(true),
            },
            Some("timeout") => Message::Timeout,
            Some("dropped") => Message::Dropped,
            other => return Err(format!("the word {other:?}")),
        }),
        "down" => Input::Down,
        "up" => Input::Up,
        "tick" => Input::Tick,
        "alive" => Input::Alive(nanos(line.sent.ok_or("alive without sent")?)),
        "cancel" => Input::Cancel,
        "release" => Input::Release,
        "detach" => Input::Detach,
        "close" => Input::Close,
        other => return Err(format!("the input {other}")),
    })
}

fn reply(line: &Line) -> Result<Reply, String> {
    if let Some(error) = &line.error {
        return Ok(Reply::Failed(match error.as_str() {
            "final" => Failure::Final,
            "passing" => Failure::Passing,
            "draining" => Failure::Draining,
            "gone" => Failure::Gone,
            "unanswered" => Failure::Unanswered,
            other => return Err(format!("the error {other}")),
        }));
    }
    let value = line.value.as_ref().ok_or("a reply without value or error")?;
    if let Some(items) = value.as_array() {
        let [holds, _, token] = items.as_slice() else { return Err("an array of three".into()) };
        let holder_lease = line.holder_lease.map(nanos);
        return Ok(match holds.as_i64() {
            Some(0) => Reply::Waits { holder_lease },
            _ => Reply::Granted { token: token.as_i64().ok_or("a token")? },
        });
    }
    Ok(value.as_i64().map_or(Reply::Null, Reply::Integer))
}

fn shown(output: &Output) -> Value {
    match output {
        Output::Send { n, command } => shown_command(*n, *command),
        Output::Guard { token } => json!({"guard": token}),
        Output::Refused(refusal) => json!({"refused": match refusal {
            Refusal::Timeout => "timeout",
            Refusal::Denied => "denied",
            Refusal::Error => "error",
            Refusal::Lost => "lost",
        }}),
        Output::Renewed => json!({"renewed": true}),
        Output::RenewalFailed => json!({"renewal_failed": true}),
        Output::Lost(loss) => json!({"lost": match loss {
            Loss::Expired => "expired",
            Loss::Overdue => "overdue",
            Loss::Taken => "taken",
            Loss::Closed => "closed",
        }}),
        Output::Released(outcome) => json!({"released": match outcome {
            Outcome::Ok => "ok",
            Outcome::Lost => "lost",
            Outcome::Unknown => "unknown",
            Outcome::Error => "error",
        }}),
        Output::Ended => json!({"ended": true}),
        Output::Timer(at) => json!({"timer": at.map(|at| at as f64 / MS as f64)}),
    }
}

fn shown_command(n: u64, command: Command) -> Value {
    match command {
        Command::Enqueue { wait, look: false } => json!({"send": "ENQUEUE", "n": n, "wait": wait}),
        Command::Enqueue { wait, look: true } => {
            json!({"send": "ENQUEUE", "n": n, "wait": wait, "look": true})
        }
        Command::Renew { lease: Some(lease) } => json!({"send": "RENEW", "n": n, "lease": lease}),
        Command::Renew { lease: None } => json!({"send": "RENEW", "n": n}),
        Command::Keep { lease } => json!({"send": "RENEW", "n": n, "lease": lease, "session": false}),
        Command::Acquire => json!({"send": "ACQUIRE", "n": n}),
        Command::Cancel => json!({"send": "CANCEL", "n": n}),
        Command::Release => json!({"send": "RELEASE", "n": n}),
    }
}

fn name_of(state: State) -> &'static str {
    match state {
        State::New => "new",
        State::Asking => "asking",
        State::Queued => "queued",
        State::Confirming => "confirming",
        State::Held => "held",
        State::Releasing => "releasing",
        State::Lost => "lost",
        State::Cancelling => "cancelling",
        State::Ended => "ended",
    }
}
