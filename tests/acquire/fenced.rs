//! FENCED: a token for every acquisition, larger than all before, in the key where Redisson keeps it.

use rlock_testkit::Command;
use rlock_testkit::prelude::*;

const TOKEN_KEY: &str = "redisson_lock_token:{lock}";
const WAITS: &str = "[0, 0, 0]";
/// The largest token, 2^53.
const LARGEST: i64 = 9_007_199_254_740_992;

/// The token in the answer `[holds, lease-ms, token]` of a line.
#[track_caller]
fn token(client: &mut Connection, line: &str) -> i64 {
    token_in(&say(client, line))
}

#[track_caller]
fn token_in(answer: &str) -> i64 {
    let last = answer.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')?.rsplit(", ").next());
    let Some(token) = last.and_then(|last| last.parse().ok()) else { panic!("no token in {answer}") };
    token
}

/// The last token, as it stands in its key.
#[track_caller]
fn stored(client: &mut Connection) -> i64 {
    let stored = stored_text(client);
    stored.trim_matches('"').parse().unwrap_or_else(|_| panic!("the token's key holds {stored}"))
}

fn stored_text(client: &mut Connection) -> String {
    say(client, &format!("GET {TOKEN_KEY}"))
}

/// How Redisson's fenced lock takes a token.
#[track_caller]
fn redisson_token(client: &mut Connection) -> i64 {
    number(client, &format!("INCR {TOKEN_KEY}"))
}

#[test]
fn each_acquisition_has_a_larger_token() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let mut last = 0;
    let mut grows = |client: &mut Connection, line: &str| {
        let before = server_time(client);
        let token = token(client, line);
        assert!(token > last && token >= before, "{line}: {token} after {last}, at {before}");
        let info = say(client, "RLOCK.INFO lock");
        assert!(info.contains(&format!("\"token\", {token},")), "{token}: {info}");
        last = token;
    };
    // Taken, entered again, repeated with and without a longer lease, taken anew.
    grows(client, "RLOCK.ACQUIRE lock alice 100000 FENCED");
    grows(client, "RLOCK.ACQUIRE lock alice 100000 fenced");
    grows(client, "RLOCK.ACQUIRE lock alice 100000 HOLDS 3 FENCED");
    grows(client, "RLOCK.ACQUIRE lock alice 100000 FENCED HOLDS 3");
    grows(client, "RLOCK.ACQUIRE lock alice 1000 Fenced HOLDS 1");
    client.story(&[("HGETALL lock", r#"["alice", "3"]"#), ("RLOCK.RELEASE lock alice ALL", "1")]);
    grows(client, "RLOCK.ACQUIRE lock bob 100000 FENCED BLOCK 0");
    for gone in ["RLOCK.RELEASE lock bob", "DEL lock", "RLOCK.FORCERELEASE lock", "PEXPIREAT lock 1"] {
        client.story(&[(gone, "1")]);
        grows(client, "RLOCK.ACQUIRE lock bob 100000 ENQUEUE 0 unheard FENCED");
    }
    client.story(&[(&format!("PTTL {TOKEN_KEY}"), "-1"), (&format!("TYPE {TOKEN_KEY}"), "string")]);
}

#[test]
fn without_fenced_there_is_no_token() {
    let (_server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]"), ("DBSIZE", "1")]);
    let token = token(client, "RLOCK.ACQUIRE lock alice 1000 FENCED");
    assert_eq!(token_in(&say(client, "RLOCK.ACQUIRE lock alice 1000")), 0, "not even the holder's own");
    client.story(&[("RLOCK.ACQUIRE lock bob 1000 FENCED", "null")]);
    client.story(&[("RLOCK.ACQUIRE lock alice 1000 HOLDS 9 FENCED", "null")]);
    assert_eq!(stored(client), token, "a denied call uses no token");
}

#[test]
fn it_continues_from_redissons_tokens() {
    let (_server, client) = &mut TestServer::start_and_connect();
    // Redisson counts from 1; in a fleet that has begun with rlock it counts on.
    assert_eq!(redisson_token(client), 1);
    let first = token(client, "RLOCK.ACQUIRE lock alice 100000 FENCED");
    assert!(first > 1_700_000_000_000, "{first}");
    assert_eq!(redisson_token(client), first + 1);
    assert!(token(client, "RLOCK.ACQUIRE lock alice 100000 FENCED") > first + 1);
    // A token that is ahead of the clock, by a clock that was wrong or by many acquisitions in little time.
    let ahead = server_time(client) + 3_600_000;
    client.story(&[(&format!("SET {TOKEN_KEY} {ahead} EX 1000"), "OK")]);
    for n in 1..=3 {
        assert_eq!(token(client, "RLOCK.ACQUIRE lock alice 100000 FENCED"), ahead + n);
    }
    // A token that expired would begin anew: an expiry that another client has set is removed.
    client.story(&[(&format!("PTTL {TOKEN_KEY}"), "-1")]);
}

#[test]
fn a_waiter_gets_the_token_with_the_grant() {
    let (server, client, grants) = &mut TestServer::start_and_listen("grants");
    let first = token(client, "RLOCK.ACQUIRE lock alice 100000 FENCED");
    let bob = Waiting::line(server, "RLOCK.ACQUIRE lock bob 50000 FENCED BLOCK 0");
    client.story(&[("RLOCK.ACQUIRE lock carol 4000 ENQUEUE 0 grants FENCED", WAITS)]);
    client.story(&[("RLOCK.ACQUIRE lock dave 4000 ENQUEUE 0 grants", WAITS)]);
    // The later call counts: with FENCED, or without.
    client.story(&[("RLOCK.ACQUIRE lock erin 4000 ENQUEUE 0 grants", WAITS)]);
    client.story(&[("RLOCK.ACQUIRE lock erin 4000 ENQUEUE 0 grants FENCED", WAITS)]);
    assert_eq!(stored(client), first, "a waiter has no token yet");
    client.story(&[("RLOCK.RELEASE lock alice", "1")]);
    let second = token_in(&bob.answer());
    assert!(second > first && stored(client) == second, "{second} after {first}");
    // A lease end that the timer finds; after it, a DEL by another client.
    client.story(&[("PEXPIRE lock 1", "1")]);
    let third = granted(grants, "carol");
    assert!(third > second && stored(client) == third, "{third} after {second}");
    client.story(&[("DEL lock", "1")]);
    assert_eq!(granted(grants, "dave"), 0);
    assert_eq!(stored(client), third);
    let released = transaction(client, &["RLOCK.RELEASE lock dave", "RLOCK.ACQUIRE lock erin 4000 HOLDS 1"]);
    assert_eq!(released, "[1, [1, 4000, 0]]");
    let fourth = granted(grants, "erin");
    assert!(fourth > third && stored(client) == fourth, "{fourth} after {third}");
    assert_eq!(counter(server, "hand_offs"), 4);
}

/// The token of the next message, which grants the lock to this owner.
#[track_caller]
fn granted(grants: &mut Subscriber, owner: &str) -> i64 {
    let message = grants.next_text();
    assert!(message.starts_with(&format!("granted 0 {owner} lock 1 4000 ")), "{message}");
    message.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Commands as one line, a transaction in parentheses, tokens as `#`.
fn shown(commands: &[Command], token: i64, expires: &str) -> String {
    rlock_testkit::shown(commands).replace(&token.to_string(), "#").replace(expires, "@")
}

#[test]
fn the_token_is_replicated_with_the_acquisition_as_one_unit() {
    let server = TestServer::builder().conf("appendonly", "yes").start();
    let (client, mut grants) = (&mut server.connect(), Subscriber::channel(&server, "grants"));
    let mut stream = ReplicaStream::open(&server);
    let mut step =
        |client: &mut Connection, line: &str, token: &mut dyn FnMut(&str) -> i64, effects: &str| {
            let answer = say(client, line);
            let (token, expires) = (token(&answer), say(client, "PEXPIRETIME lock"));
            assert_eq!(shown(&stream.so_far(&server), token, &expires), effects, "{line}: {answer}");
        };
    let set = format!("SET {TOKEN_KEY} #");
    let own = &mut |answer: &str| token_in(answer);
    step(
        client,
        "RLOCK.ACQUIRE lock alice 100000 FENCED",
        own,
        &format!("(HSET lock alice 1; PEXPIREAT lock @; {set})"),
    );
    step(client, "RLOCK.ACQUIRE lock alice 1000 FENCED", own, &format!("(HSET lock alice 2; {set})"));
    step(client, "RLOCK.ACQUIRE lock alice 1000 HOLDS 2 FENCED", own, &set);
    step(client, "RLOCK.ACQUIRE lock bob 1000 FENCED", &mut |_| -1, "");
    step(client, "RLOCK.ACQUIRE lock bob 4000 ENQUEUE 0 grants FENCED", &mut |_| -1, "");
    let handed = format!(
        "(DEL lock; HSET lock bob 1; PEXPIREAT lock @; {set}; PUBLISH redisson_lock__channel:{{lock}} 0)"
    );
    step(client, "RLOCK.RELEASE lock alice ALL", &mut |_| granted(&mut grants, "bob"), &handed);
    let persisted = shown(&aof_commands(server.dir()), stored(client), &say(client, "PEXPIRETIME lock"));
    assert!(
        persisted.ends_with(&format!("(DEL lock; HSET lock bob 1; PEXPIREAT lock @; {set})")),
        "{persisted}"
    );
}

#[test]
fn the_token_key_raises_set_and_breaks_watch() {
    let server = TestServer::builder().conf("notify-keyspace-events", "EA").start();
    let (client, other) = (&mut server.connect(), &mut server.connect());
    let mut events = Subscriber::pattern(&server, "__keyevent@0__:*");
    let mut raised = || -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let name = |channel: &[u8]| text(channel).replace("__keyevent@0__:", "");
        events.drain().iter().map(|(channel, key)| format!("{} {}", name(channel), text(key))).collect()
    };
    token(client, "RLOCK.ACQUIRE lock alice 100000 FENCED");
    let taken = ["hset lock", "expire lock", &format!("set {TOKEN_KEY}"), "rlock.acquire lock"];
    assert_eq!(raised(), taken);
    // A repeat changes the token, and nothing else.
    for (watched, executed) in [(TOKEN_KEY, "null"), ("lock", "[PONG]")] {
        other.story(&[(&format!("WATCH {watched}"), "OK"), ("MULTI", "OK"), ("PING", "QUEUED")]);
        token(client, "RLOCK.ACQUIRE lock alice 1000 HOLDS 1 FENCED");
        assert_eq!(raised(), [format!("set {TOKEN_KEY}")]);
        other.story(&[("EXEC", executed)]);
    }
}

/// Token keys that allow no next token, with the error of a call that asks for one.
fn unusable() -> [(String, &'static str); 5] {
    [
        (format!("SET {TOKEN_KEY} many"), "!ERR the key of the fencing token holds no integer"),
        (format!("SET {TOKEN_KEY} 007"), "!ERR the key of the fencing token holds no integer"),
        (format!("RPUSH {TOKEN_KEY} 7"), "!WRONGTYPE the key of the fencing token"),
        (format!("HSET {TOKEN_KEY} a 1"), "!WRONGTYPE the key of the fencing token"),
        (format!("SET {TOKEN_KEY} {LARGEST}"), "!ERR no larger fencing token is possible"),
    ]
}

#[test]
fn a_token_key_that_cannot_be_used_is_an_error_that_changes_nothing() {
    let (_server, client) = &mut TestServer::start_and_connect();
    for (spoil, error) in unusable() {
        for given in ["EXISTS lock", "RLOCK.ACQUIRE lock alice 100000", "RLOCK.ACQUIRE lock bob 100000"] {
            client.story(&[("FLUSHALL", "OK")]);
            say(client, given);
            say(client, &spoil);
            let before = ["lock", TOKEN_KEY].map(|key| text(&ask(client, &["DUMP", key])));
            // An error, and not null, whether the lock is free, the caller's own or another owner's.
            for wait in ["", "BLOCK 0", "ENQUEUE 0 grants", "HOLDS 2"] {
                let said = say(client, &format!("RLOCK.ACQUIRE lock alice 100000 FENCED {wait}"));
                assert!(said.starts_with(error), "{spoil}, {given}, {wait}: {said}");
            }
            assert_eq!(["lock", TOKEN_KEY].map(|key| text(&ask(client, &["DUMP", key]))), before);
            // A call without FENCED is not affected.
            let said = say(client, "RLOCK.ACQUIRE lock alice 100000");
            assert_eq!(said.starts_with('['), !given.contains("bob"), "{said}");
        }
    }
    // The last possible token is granted.
    client.story(&[("FLUSHALL", "OK"), (&format!("SET {TOKEN_KEY} {}", LARGEST - 1), "OK")]);
    assert_eq!(token(client, "RLOCK.ACQUIRE lock alice 100000 FENCED"), LARGEST);
}

#[test]
fn a_waiter_without_a_possible_token_gets_an_error_and_the_next_gets_the_lock() {
    let (server, client, grants) = &mut TestServer::start_and_listen("grants");
    for (round, (spoil, error)) in (1..).zip(unusable()) {
        client.story(&[("FLUSHALL", "OK"), ("RLOCK.ACQUIRE lock alice 100000", "[1, 100000, 0]")]);
        let bob = Waiting::line(server, "RLOCK.ACQUIRE lock bob 50000 BLOCK 0 FENCED");
        client.story(&[("RLOCK.ACQUIRE lock carol 4000 ENQUEUE 0 grants FENCED", WAITS)]);
        client.story(&[("RLOCK.ACQUIRE lock dave 4000 ENQUEUE 0 grants", WAITS)]);
        say(client, &spoil);
        assert_eq!(waiters(client, "lock"), "bob carol dave");
        client.story(&[("RLOCK.RELEASE lock alice", "1"), ("HGETALL lock", r#"["dave", "1"]"#)]);
        let said = bob.answer();
        assert!(said.starts_with(error), "{spoil}: {said}");
        assert_eq!(grants.next_text(), "dropped 0 carol lock no-token");
        assert_eq!(granted(grants, "dave"), 0);
        assert_eq!((counter(server, "waiters"), counter(server, "waiters_sent_away")), (0, 2 * round));
    }
}

#[test]
fn the_token_key_must_be_allowed_by_acl() {
    let (server, client) = &mut TestServer::start_and_connect();
    let rules = "reset on >secret +rlock.acquire +rlock.release +eval +multi +exec";
    let refused = "!NOPERM No permissions to access the key of the lock's fencing token";
    for keys in
        ["~locks:*", "~locks:* %R~redisson_lock_token:{locks:*}", "~locks:* %W~redisson_lock_token:{locks:*}"]
    {
        client.story(&[(&format!("ACL SETUSER app {rules} {keys}"), "OK"), ("ACL LOG RESET", "OK")]);
        let app = &mut server.connect_as("app", "secret");
        for wait in ["", "BLOCK 0", "HOLDS 1"] {
            app.story(&[(&format!("RLOCK.ACQUIRE locks:1 alice 1000 FENCED {wait}"), refused)]);
        }
        let script = "return redis.call('RLOCK.ACQUIRE', KEYS[1], 'alice', 1000, 'FENCED')";
        let said = text(&ask(app, &["EVAL", script, "1", "locks:1"]));
        assert!(said.starts_with('!') && said.contains("fencing token"), "{said}");
        assert!(say(client, "ACL LOG").contains("redisson_lock_token:{locks:1}"));
        client.story(&[("DBSIZE", "0")]);
        // Without FENCED it is not used.
        app.story(&[
            ("RLOCK.ACQUIRE locks:1 alice 1000", "[1, 1000, 0]"),
            ("RLOCK.RELEASE locks:1 alice", "1"),
        ]);
    }
    client.story(&[(&format!("ACL SETUSER app {rules} ~locks:* ~redisson_lock_token:{{locks:*}}"), "OK")]);
    let app = &mut server.connect_as("app", "secret");
    assert!(token(app, "RLOCK.ACQUIRE locks:1 alice 1000 FENCED") > 0);
    assert!(transaction(app, &["RLOCK.ACQUIRE locks:1 alice 1000 FENCED"]).starts_with("[[2, "));
}

#[test]
fn tokens_grow_in_transactions_scripts_and_databases_of_their_own() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let script = "local last = 0
        for n = 1, 1000 do
            local token = redis.call('RLOCK.ACQUIRE', KEYS[1], 'alice', 100000, 'HOLDS', 1, 'FENCED')[3]
            if token <= last then return {n, last, token} end
            last = token
        end
        return string.format('%.0f', last)";
    let said = text(&ask(client, &["EVAL", script, "1", "lock"]));
    assert_eq!(said, stored_text(client));
    let line = "RLOCK.ACQUIRE lock alice 100000 FENCED";
    let both = transaction(client, &[line, line]);
    let tokens: Vec<i64> = both[1..both.len() - 1]
        .split("], [")
        .map(|one| token_in(&format!("[{}]", one.trim_matches(['[', ']']))))
        .collect();
    assert!(tokens[0] < tokens[1], "{both}");
    client.story(&[("SELECT 3", "OK"), (&format!("EXISTS {TOKEN_KEY}"), "0")]);
    token(client, line);
    client.story(&[(&format!("EXISTS {TOKEN_KEY}"), "1")]);
}
