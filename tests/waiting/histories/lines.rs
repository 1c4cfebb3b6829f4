//! What happens in a history, as commands.

use rlock_oracle::operations::{
    ByList, CHANNELS, Channel, Count, FairScript, Lock, Ms, OWNERS, Op, OtherWrite, Owner, Script, Wait,
    WaitMs, Word,
};
use rlock_testkit::redisson;

use super::server::place;

/// Takes the lock if it is free.
const TAKE: &str = "
    if redis.call('exists', KEYS[1]) == 1 then return 0 end
    redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
    if ARGV[3] then redis.call('pexpire', KEYS[1], ARGV[3]) end";

/// Writes a lock over whatever is there, which is never gone between.
const PUT: &str = "
    if redis.call('type', KEYS[1]).ok == 'string' then
        redis.call('hset', 'new', ARGV[1], ARGV[2])
        redis.call('rename', 'new', KEYS[1])
    end
    redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
    for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
        if field ~= ARGV[1] then redis.call('hdel', KEYS[1], field) end
    end
    if ARGV[3] then redis.call('pexpire', KEYS[1], ARGV[3]) else redis.call('persist', KEYS[1]) end";

const EXPIRE: &str =
    "if redis.call('type', KEYS[1]).ok ~= 'string' then redis.call('pexpire', KEYS[1], ARGV[1]) end";

/// In place of PUBLISH: the module's own messages are counted.
const SILENT: &str = "exists";

/// How a command is sent.
#[derive(PartialEq, Eq)]
pub(crate) enum How {
    Plain,
    /// In a transaction.
    InMulti,
    /// On a connection of its own, since it may block.
    Blocks,
}

/// A command to a database.
pub(crate) struct Line {
    pub(crate) db: usize,
    pub(crate) words: Vec<String>,
    pub(crate) how: How,
}

fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace().map(str::to_owned).collect()
}

fn eval(script: &str, keys: &[String], args: &[String]) -> Vec<String> {
    let head = ["EVAL".to_owned(), script.to_owned(), keys.len().to_string()];
    head.into_iter().chain(keys.iter().cloned()).chain(args.iter().cloned()).collect()
}

fn mode(word: Word) -> &'static str {
    match word {
        Word::None => "",
        Word::Read => " READ",
        Word::Write => " WRITE",
        Word::Permit => unreachable!("histories with permits are left out"),
    }
}

/// The command of an operation, if a client sends one. `before` is the lock's key before it, `now` the wall clock, and
/// commands with the same effect take turns by the number of the step.
pub(crate) fn line(op: Op, before: &str, now: i64, step: usize) -> Option<Line> {
    let lock = match op {
        Op::Acquire { lock, .. }
        | Op::Release { lock, .. }
        | Op::Renew { lock, .. }
        | Op::Cancel { lock, .. }
        | Op::ForceRelease { lock, .. }
        | Op::ByOther { lock, .. }
        | Op::ByList { lock, .. } => lock,
        _ => Lock(0),
    };
    let (db, key) = place(lock);
    let how = match op {
        Op::Acquire { wait: Wait::Block(_), .. } => How::Blocks,
        Op::Acquire { wait: Wait::BlockInMulti(_), .. } => How::InMulti,
        _ => How::Plain,
    };
    let text = match op {
        Op::Acquire { .. } => acquire(op, key),
        Op::Release { owner, word, down_to, lease, .. } => {
            let holds = down_to.map_or(String::new(), |Count(n)| format!(" HOLDS {n}"));
            let lease = lease.map_or(String::new(), |Ms(ms)| format!(" LEASE {ms}"));
            format!("RLOCK.RELEASE {key} {}{}{holds}{lease}", OWNERS[owner.0], mode(word))
        }
        Op::Renew { owner, word, lease: Ms(ms), .. } => {
            format!("RLOCK.RENEW {key} {} {ms}{}", OWNERS[owner.0], mode(word))
        }
        Op::Cancel { owner, .. } => format!("RLOCK.CANCEL {key} {}", OWNERS[owner.0]),
        Op::ForceRelease { owner, .. } => {
            format!("RLOCK.FORCERELEASE {key} {}", owner.map_or("", |owner| OWNERS[owner.0]))
        }
        Op::Flush => "FLUSHALL".to_owned(),
        Op::Accept(accepts) => format!("CONFIG SET rlock.accept {}", if accepts { "yes" } else { "no" }),
        Op::ByOther { what, .. } => {
            return other_write(what, key, before, step).map(|words| Line { db, words, how });
        }
        Op::ByList { what, .. } => return Some(Line { db, words: by_list(what, key, now), how }),
        _ => return None,
    };
    Some(Line { db, words: words(&text), how })
}

fn acquire(op: Op, key: &str) -> String {
    let Op::Acquire { owner, lease: Ms(ms), word, holds, wait, fenced, fair, .. } = op else {
        unreachable!()
    };
    let holds = holds.map_or(String::new(), |Count(n)| format!(" HOLDS {}", n.max(1)));
    let wait = match wait {
        Wait::No => String::new(),
        Wait::Block(WaitMs(ms)) | Wait::BlockInMulti(WaitMs(ms)) => format!(" BLOCK {ms}"),
        Wait::Enqueue(WaitMs(ms), Channel(channel)) => format!(" ENQUEUE {ms} {}", CHANNELS[channel]),
    };
    let (fenced, fair) = (if fenced { " FENCED" } else { "" }, if fair { " FAIR" } else { "" });
    format!("RLOCK.ACQUIRE {key} {} {ms}{}{fair}{fenced}{holds}{wait}", OWNERS[owner.0], mode(word))
}

fn other_write(what: OtherWrite, key: &str, before: &str, step: usize) -> Option<Vec<String>> {
    let keys = [key.to_owned()];
    let put = |script, owner: Owner, holds: i64, lease: Option<Ms>| {
        let args = [OWNERS[owner.0].to_owned(), holds.to_string()];
        let lease = lease.map(|Ms(ms)| ms.to_string());
        eval(script, &keys, &args.into_iter().chain(lease).collect::<Vec<_>>())
    };
    Some(match what {
        OtherWrite::Delete => match step % 3 {
            0 => words(&format!("DEL {key}")),
            1 => words(&format!("UNLINK {key}")),
            _ => words(&format!("RENAME {key} renamed")),
        },
        OtherWrite::Take { owner, lease } => put(TAKE, owner, 1, lease),
        OtherWrite::Put { owner, holds: Count(holds), lease } => put(PUT, owner, holds.max(1), lease),
        OtherWrite::Spoil => words(&format!("SET {key} spoiled")),
        OtherWrite::Expire(Ms(ms)) => eval(EXPIRE, &keys, &[ms.to_string()]),
        OtherWrite::Persist => words(&format!("PERSIST {key}")),
        OtherWrite::RemovePermit(_) => return None,
        OtherWrite::Token(token) => {
            let token = token.map_or("x".to_owned(), |Count(n)| n.to_string());
            words(&format!("SET redisson_lock_token:{{{key}}} {token}"))
        }
        OtherWrite::Redisson { script, owner, lease } => return by_script(script, owner, lease, key, before),
    })
}

/// A script of Redisson's read/write lock; none where the key holds something else.
fn by_script(script: Script, owner: Owner, Ms(lease): Ms, key: &str, before: &str) -> Option<Vec<String>> {
    if !before.starts_with("none") && !before.contains("mode=") {
        return None;
    }
    let text = match script {
        Script::Read => redisson::READ,
        Script::Write => redisson::WRITE,
        Script::EndRead => redisson::UNREAD,
        Script::EndWrite => redisson::UNWRITE,
        Script::RenewRead => redisson::RENEW_READ,
        Script::RenewWrite => redisson::RENEW,
    };
    let name = OWNERS[owner.0];
    let leases = format!("{{{key}}}:{name}:rwlock_timeout");
    let owner = if script == Script::RenewWrite { format!("{name}:write") } else { name.to_owned() };
    Some(eval(text, &[key.to_owned(), leases], &[lease.to_string(), owner, SILENT.to_owned()]))
}

fn by_list(what: ByList, key: &str, now: i64) -> Vec<String> {
    let keys = ["redisson_lock_queue", "redisson_lock_timeout"].map(|prefix| format!("{prefix}:{{{key}}}"));
    let ByList::Script { script, owner, ahead, budget, lease: Ms(lease) } = what else {
        // With its deadlines: the oracle treats both as one.
        let list = if what == ByList::DeleteList { &keys[0] } else { "" };
        return words(&format!("DEL {} {list}", keys[1]));
    };
    let (script, budget) = match script {
        FairScript::Lock => (redisson::FAIR_TAKES, budget),
        FairScript::TryLock => (redisson::FAIR_TRIES, 0),
        FairScript::Unlock => (redisson::FAIR_GIVES_BACK, budget),
        FairScript::GiveUp => (redisson::FAIR_GIVES_UP, budget),
        FairScript::ForceUnlock => (redisson::FAIR_FORCED, budget),
    };
    let [list, deadlines] = keys;
    let owner = OWNERS[owner.0].to_owned();
    let args = [lease.to_string(), owner, (now + ahead).to_string(), budget.to_string(), SILENT.to_owned()];
    eval(script, &[key.to_owned(), list, deadlines], &args)
}
