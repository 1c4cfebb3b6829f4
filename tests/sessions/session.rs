//! SESSION: holds and waits that end with the connection on which the call came, however that ends.

use rlock_testkit::prelude::*;

const GRACE: i64 = 300;
pub(crate) const BOB: &str = "RLOCK.ACQUIRE lock bob 60000 SESSION 300";
pub(crate) const HELD: &str = "[1, 60000, 0]";
const NO_CONNECTION: &str =
    "!ERR SESSION needs a connection; leave it out in scripts, functions and calls of other modules";

pub(crate) const TIED_TO_ANOTHER: &str = "!TRYAGAIN the owner is tied to another connection; send the call there, or again once that connection has ended";
pub(crate) const UNTIED: &str = "!UNTIED the owner has used a younger connection; send RENEW without SESSION on this one, and once that is answered the call again";

/// The lease becomes the grace period, or less, soon.
#[track_caller]
pub(crate) fn shortened(client: &mut Connection, key: &str) {
    wait_for("the lease to be shortened", || number(client, &format!("PTTL {key}")) <= GRACE);
}

/// The lease stays as it is, although the watch over the connection has had the time to shorten it.
#[track_caller]
pub(crate) fn stays(client: &mut Connection, key: &str) {
    std::thread::sleep(Duration::from_millis(250));
    let left = number(client, &format!("PTTL {key}"));
    assert!(left > 30_000, "{left} ms of {key} are left");
}

#[track_caller]
pub(crate) fn freed(client: &mut Connection, how: &str) {
    wait_for(&format!("the lock to be free after {how}"), || say(client, "EXISTS lock") == "0");
}

pub(crate) fn session_of(client: &mut Connection, key: &str) -> Option<String> {
    let info = say(client, &format!("RLOCK.INFO {key}"));
    let (_, rest) = info.split_once("\"session\", ")?;
    Some(rest.chars().take_while(char::is_ascii_digit).collect())
}

pub(crate) fn id(client: &mut Connection) -> String {
    say(client, "CLIENT ID")
}

/// Bob holds the lock by a connection of its own.
pub(crate) fn tied() -> (TestServer, Connection, Connection) {
    let (server, client) = TestServer::start_and_connect();
    let mut bob = server.connect();
    bob.story(&[(BOB, HELD)]);
    (server, client, bob)
}

#[test]
fn a_hold_ends_a_grace_period_after_its_connection() {
    let (server, mut client, mut bob) = tied();
    let bobs = id(&mut bob);
    assert_eq!(session_of(&mut client, "lock"), Some(bobs));
    let carol = Waiting::line(&server, "RLOCK.ACQUIRE lock carol 60000 BLOCK 0");
    let began = Instant::now();
    drop(bob);
    assert_eq!(carol.answer(), HELD);
    let took = began.elapsed();
    assert!((250..3_000).contains(&took.as_millis()), "{took:?}");
    assert_eq!(session_of(&mut client, "lock"), None, "carol is not tied");
}

/// Ends bob's connection, the second one.
type End = fn(&mut Connection, &mut Connection);

#[test]
fn every_end_of_a_connection_counts() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("ACL SETUSER bob on nopass ~* &* +@all", "OK")]);
    let ends: [(&str, End); 4] = [
        ("killed", |client, bob| {
            let kill = format!("CLIENT KILL ID {}", id(bob));
            assert_eq!(say(client, &kill), "1");
        }),
        ("its user is deleted", |client, _| assert_eq!(say(client, "ACL DELUSER bob"), "1")),
        ("killed by its own transaction", |_, bob| {
            let kill = format!("CLIENT KILL ID {} SKIPME no", id(bob));
            redis::pipe()
                .atomic()
                .cmd("CLIENT")
                .arg(&kill.split(' ').skip(1).collect::<Vec<_>>()[..])
                .exec(bob)
                .ok();
        }),
        ("it waits too long", |client, _| {
            assert_eq!(say(client, "CONFIG SET timeout 1"), "OK");
        }),
    ];
    for (how, end) in ends {
        client.story(&[("ACL SETUSER bob on nopass ~* &* +@all", "OK"), ("DEL lock", "0")]);
        let mut bob = server.connect_as("bob", "x");
        bob.story(&[(BOB, HELD)]);
        end(client, &mut bob);
        wait_for(how, || number(client, "PTTL lock") <= GRACE);
        freed(client, how);
        client.story(&[("CONFIG SET timeout 0", "OK")]);
    }
}

#[test]
fn the_last_success_sets_the_tie_or_removes_it() {
    let (server, client) = &mut TestServer::start_and_connect();
    for (line, answer) in [
        ("RLOCK.RENEW lock bob 60000", "1"),
        ("RLOCK.ACQUIRE lock bob 60000", "[2, 60000, 0]"),
        ("RLOCK.ACQUIRE lock bob 60000 HOLDS 1", HELD),
    ] {
        let mut bob = server.connect();
        bob.story(&[(BOB, HELD)]);
        client.story(&[(line, answer)]);
        assert_eq!(session_of(client, "lock"), None, "{line}");
        drop(bob);
        stays(client, "lock");
        client.story(&[("RLOCK.RELEASE lock bob ALL", "1")]);
    }
    for (line, answer) in [
        ("RLOCK.ACQUIRE lock bob 60000 HOLDS 9", "null"),
        ("RLOCK.RENEW lock carol 60000", "0"),
        ("RLOCK.ACQUIRE lock carol 60000", "null"),
        (
            "RLOCK.RENEW lock bob 60000 READ",
            "!WRONGLOCK the key holds a plain lock; leave READ and WRITE out, or use another key",
        ),
        ("RLOCK.RELEASE lock carol", "null"),
        ("RLOCK.RELEASE lock bob HOLDS 1", "0"),
    ] {
        let mut bob = server.connect();
        bob.story(&[(BOB, HELD), (line, answer)]);
        let bobs = id(&mut bob);
        assert_eq!(session_of(client, "lock"), Some(bobs), "{line}");
        drop(bob);
        shortened(client, "lock");
        freed(client, line);
    }
}

#[test]
fn a_tie_moves_only_to_a_younger_connection() {
    // Commands of a closed socket still run after those of its successor.
    let server = TestServer::start();
    let (mut older, mut younger) = (server.connect(), server.connect());
    let client = &mut server.connect();
    younger.story(&[(BOB, HELD)]);
    older.story(&[("RLOCK.RENEW lock bob 60000 SESSION 1", TIED_TO_ANOTHER)]);
    let tied = id(&mut younger);
    assert_eq!(session_of(client, "lock"), Some(tied));
    drop(older);
    stays(client, "lock");
    let mut third = server.connect();
    third.story(&[("RLOCK.RENEW lock bob 60000 SESSION 300", "1")]);
    drop(younger);
    stays(client, "lock");
    drop(third);
    shortened(client, "lock");
}

/// The answer was 1: the client took its own connection for the one that kept the hold, and another owner had the lock a grace
/// period after the end of the younger one.
#[test]
fn a_call_on_an_older_connection_is_refused_and_changes_nothing() {
    let server = TestServer::start();
    let (mut older, mut younger) = (server.connect(), server.connect());
    let client = &mut server.connect();
    younger.story(&[("RLOCK.ACQUIRE lock bob 40000 HOLDS 1 SESSION 300", "[1, 40000, 0]")]);
    let tied = id(&mut younger);
    let changes = server.info("persistence")["rdb_changes_since_last_save"].clone();
    for line in [
        "RLOCK.RENEW lock bob 90000 SESSION 300",
        "RLOCK.RENEW lock bob 10000 SESSION 300",
        "RLOCK.ACQUIRE lock bob 90000 SESSION 300",
        "RLOCK.ACQUIRE lock bob 90000 HOLDS 1 SESSION 300",
        "RLOCK.ACQUIRE lock bob 90000 HOLDS 2 SESSION 300",
        "RLOCK.ACQUIRE lock bob 90000 FENCED SESSION 300",
        "RLOCK.ACQUIRE lock bob 90000 FAIR SESSION 300 BLOCK 0",
        "RLOCK.ACQUIRE lock bob 90000 SESSION 300 ENQUEUE 0 outcomes",
    ] {
        older.story(&[(line, TIED_TO_ANOTHER)]);
        assert_eq!(session_of(client, "lock"), Some(tied.clone()), "{line}");
        assert!((30_000..=40_000).contains(&number(client, "PTTL lock")), "{line}");
    }
    assert_eq!(server.info("persistence")["rdb_changes_since_last_save"], changes, "nothing is written");
    client.story(&[("HGETALL lock", r#"["bob", "1"]"#), ("KEYS *", r#"["lock"]"#)]);
    // Calls of another owner are answered, and those without SESSION, which untie the hold.
    older.story(&[
        ("RLOCK.RENEW lock carol 60000 SESSION 300", "0"),
        ("RLOCK.ACQUIRE lock carol 60000 SESSION 300", "null"),
        ("RLOCK.RENEW lock bob 60000", "1"),
        ("RLOCK.RENEW lock bob 60000 SESSION 300", "1"),
    ]);
    let olders = id(&mut older);
    assert_eq!(session_of(client, "lock"), Some(olders));
    // The connection of the last call has the tie, and a younger one takes it again.
    older.story(&[(BOB, "[2, 60000, 0]")]);
    younger.story(&[(BOB, "[3, 60000, 0]")]);
    older.story(&[
        (BOB, TIED_TO_ANOTHER),
        ("RLOCK.RELEASE lock bob", "0"),
        ("RLOCK.RELEASE lock bob ALL", "1"),
    ]);
    client.story(&[("EXISTS lock", "0")]);
    older.story(&[(BOB, HELD)]);
}

#[test]
fn an_older_connection_takes_a_wait_over_only_by_block() {
    let server = TestServer::start();
    let (mut older, mut younger) = (server.connect(), server.connect());
    let client = &mut server.connect();
    let mut channel = Subscriber::channel(&server, "outcomes");
    let mut others = Subscriber::channel(&server, "others");
    client.story(&[("RLOCK.ACQUIRE lock alice 60000", HELD)]);
    younger.story(&[("RLOCK.ACQUIRE lock bob 60000 SESSION 300 ENQUEUE 0 outcomes", "[0, 0, 0]")]);
    older.story(&[("RLOCK.ACQUIRE lock bob 60000 SESSION 300 ENQUEUE 0 others", TIED_TO_ANOTHER)]);
    let tied = id(&mut younger);
    assert_eq!(session_of(client, "lock"), Some(tied.clone()));
    client.story(&[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(channel.next_text().split(' ').next(), Some("granted"));
    older.story(&[("RLOCK.RENEW lock bob 60000 SESSION 300", TIED_TO_ANOTHER)]);
    assert_eq!(session_of(client, "lock"), Some(tied));
    younger.story(&[("RLOCK.RELEASE lock bob", "1")]);
    // A blocked waiter leaves with its own connection, whatever that replaces.
    client.story(&[("RLOCK.ACQUIRE lock alice 60000", HELD)]);
    younger.story(&[("RLOCK.ACQUIRE lock bob 60000 SESSION 300 ENQUEUE 0 outcomes", "[0, 0, 0]")]);
    let olders = id(&mut older);
    let blocked =
        std::thread::spawn(move || say(&mut older, "RLOCK.ACQUIRE lock bob 60000 SESSION 300 BLOCK 0"));
    wait_for("the older one to wait", || session_of(client, "lock") == Some(olders.clone()));
    client.story(&[("RLOCK.RELEASE lock alice", "1")]);
    assert_eq!(blocked.join().expect("an answer"), HELD);
    assert!(others.next(Duration::from_millis(100)).is_none(), "the refused call has no waiter");
}

#[test]
fn a_lock_that_was_released_or_lost_is_not_touched() {
    let (server, client) = &mut TestServer::start_and_connect();
    for line in
        ["RLOCK.RELEASE lock bob", "DEL lock", "RLOCK.FORCERELEASE lock", "RENAME lock other", "FLUSHALL"]
    {
        let mut bob = server.connect();
        bob.story(&[(BOB, HELD)]);
        say(client, line);
        // The same owner string, by a call without a tie.
        client.story(&[
            ("DEL other", if line.starts_with("RENAME") { "1" } else { "0" }),
            ("HSET lock bob 1", "1"),
            ("PEXPIRE lock 60000", "1"),
        ]);
        drop(bob);
        stays(client, "lock");
        client.story(&[("DEL lock", "1")]);
    }
}

#[test]
fn a_grace_period_never_lengthens_a_lease() {
    let server = TestServer::start();
    let (client, mut bob) = (&mut server.connect(), server.connect());
    bob.story(&[("RLOCK.ACQUIRE lock bob 5000 SESSION 60000", "[1, 5000, 0]")]);
    drop(bob);
    std::thread::sleep(Duration::from_millis(250));
    assert!(number(client, "PTTL lock") <= 5_000);
}

#[test]
fn readers_and_writers_are_tied_one_by_one() {
    let (server, client) = &mut TestServer::start_and_connect();
    client.story(&[("RLOCK.ACQUIRE lock alice 60000 READ", HELD)]);
    let mut bob = server.connect();
    bob.story(&[
        ("RLOCK.ACQUIRE lock bob 90000 READ SESSION 300", "[1, 90000, 0]"),
        ("RLOCK.ACQUIRE lock bob 90000 READ SESSION 300", "[2, 90000, 0]"),
    ]);
    drop(bob);
    for hold in [1, 2] {
        let lease = format!("{{lock}}:bob:rwlock_timeout:{hold}");
        wait_for("its lease keys to end", || say(client, &format!("EXISTS {lease}")) == "0");
    }
    let left = number(client, "PTTL lock");
    assert!((30_000..=60_000).contains(&left), "the key ends with the other reader: {left}");
    client.story(&[("RLOCK.RELEASE lock alice", "1")]);
    let mut bob = server.connect();
    bob.story(&[
        ("RLOCK.ACQUIRE lock bob 60000 WRITE SESSION 300", HELD),
        ("RLOCK.ACQUIRE lock bob 60000 READ SESSION 300", HELD),
    ]);
    drop(bob);
    shortened(client, "lock");
}

#[test]
fn an_enqueued_waiter_leaves_with_its_connection_and_is_notified() {
    let server = TestServer::start();
    let (client, mut bob) = (&mut server.connect(), server.connect());
    let mut channel = Subscriber::channel(&server, "outcomes");
    client.story(&[("RLOCK.ACQUIRE lock alice 60000", HELD)]);
    bob.story(&[("RLOCK.ACQUIRE lock bob 60000 SESSION 300 ENQUEUE 0 outcomes", "[0, 0, 0]")]);
    let bobs = id(&mut bob);
    assert_eq!(session_of(client, "lock"), Some(bobs));
    drop(bob);
    assert_eq!(channel.next_text(), "dropped 0 bob lock session");
    assert_eq!(waiters(client, "lock"), "");
}

#[test]
fn a_grant_takes_over_the_tie_of_its_entry() {
    let (server, client) = &mut held();
    let bob = Waiting::line(server, "RLOCK.ACQUIRE lock bob 60000 SESSION 300 BLOCK 0");
    bob.granted_by(client, "RLOCK.RELEASE lock alice");
    // The connection of a call that was answered is closed.
    shortened(client, "lock");
}

#[test]
fn a_transaction_ties_and_scripts_are_refused() {
    let server = TestServer::start();
    let (client, mut bob) = (&mut server.connect(), server.connect());
    let answers = transaction(&mut bob, &[BOB, "RLOCK.RENEW lock bob 60000 SESSION 300"]);
    assert_eq!(answers, format!("[{HELD}, 1]"));
    let script = |line: &str| {
        let words: Vec<_> = line.split(' ').map(|word| format!("'{word}'")).collect();
        format!("return redis.call({})", words.join(","))
    };
    for line in ["RLOCK.ACQUIRE other bob 60000 SESSION 300", "RLOCK.RENEW lock bob 60000 SESSION 300"] {
        let answer = text(&ask(client, &["EVAL", &script(line), "0"]));
        assert!(answer.contains(NO_CONNECTION.trim_start_matches('!')), "{answer}");
    }
    client.story(&[("EXISTS other", "0")]);
    drop(bob);
    shortened(client, "lock");
}

#[test]
fn wrong_grace_periods_are_refused() {
    let (_server, client) = &mut TestServer::start_and_connect();
    let wrong = "!ERR invalid SESSION: use an integer from 0 to 8796093022208 (milliseconds; 0 counts as 1)";
    for grace in ["-1", "8796093022209", "soon", "01"] {
        for command in ["RLOCK.ACQUIRE", "RLOCK.RENEW"] {
            client.story(&[(&format!("{command} lock bob 1000 SESSION {grace}"), wrong)]);
        }
    }
    client.story(&[
        ("RLOCK.ACQUIRE lock bob 1000 SESSION", "!ERR SESSION needs a value"),
        ("RLOCK.ACQUIRE lock bob 1000 SESSION 1 SESSION 1", "!ERR SESSION appears twice; use it once"),
        ("EXISTS lock", "0"),
        ("RLOCK.ACQUIRE lock bob 60000 SESSION 0", HELD),
    ]);
}

#[test]
fn no_more_is_tied_than_may() {
    let (server, client) = &mut TestServer::builder().conf("rlock.max-ties", 1).start_and_connect();
    let full =
        "!QUEUEFULL too many calls with SESSION (rlock.max-ties); try again later, or leave SESSION out";
    client.story(&[
        (BOB, HELD),
        (BOB, "[2, 60000, 0]"),
        ("RLOCK.ACQUIRE other bob 60000 SESSION 300", full),
        ("EXISTS other", "0"),
        ("RLOCK.ACQUIRE other bob 60000", HELD),
        ("RLOCK.RENEW other bob 60000 SESSION 300", full),
        ("RLOCK.RELEASE lock bob ALL", "1"),
        ("RLOCK.RENEW other bob 60000 SESSION 300", "1"),
    ]);
    assert_eq!(server.info("rlock")["rlock_ties"], "1");
}

#[test]
fn a_pause_only_delays_the_end() {
    let (_server, mut client, bob) = tied();
    client.story(&[("CLIENT PAUSE 400 WRITE", "OK")]);
    drop(bob);
    std::thread::sleep(Duration::from_millis(200));
    assert!(number(&mut client, "PTTL lock") > 30_000);
    shortened(&mut client, "lock");
}

#[test]
fn the_end_of_a_shortened_lease_is_published_to_redisson_clients() {
    let server = TestServer::start();
    let mut bob = server.connect();
    let mut channel = Subscriber::channel(&server, "redisson_lock__channel:{lock}");
    bob.story(&[(BOB, HELD)]);
    let began = Instant::now();
    drop(bob);
    let (_, told) = channel.next(SOON).expect("an unlock message");
    assert_eq!(told, b"0");
    assert!(began.elapsed() >= Duration::from_millis(200));
}

#[test]
fn ten_thousand_holds_of_one_connection_end_in_slices() {
    let server = TestServer::start();
    let (client, mut bob) = (&mut server.connect(), server.connect());
    let mut pipe = redis::pipe();
    for lock in 0..10_000 {
        pipe.cmd("RLOCK.ACQUIRE")
            .arg(&[&format!("lock{lock}"), "bob", "600000", "SESSION", "60000"][..])
            .ignore();
    }
    pipe.exec(&mut bob).unwrap();
    say(client, "CONFIG SET slowlog-log-slower-than -1");
    drop(bob);
    let (began, mut worst) = (Instant::now(), Duration::ZERO);
    let last = || (began.elapsed() < SOON).then_some(());
    while last().is_some() {
        let asked = Instant::now();
        let left = number(client, "PTTL lock9999");
        worst = worst.max(asked.elapsed());
        if left <= 60_000 {
            break;
        }
    }
    println!("10,000 holds: {:?}, longest wait of another client {worst:?}", began.elapsed());
    for lock in [0, 5_000, 9_999] {
        let left = number(client, &format!("PTTL lock{lock}"));
        assert!((1..=60_000).contains(&left), "{left}");
    }
}
