//! Users that share a server: the share of one user in the places of all queues is bounded.

use rlock_testkit::prelude::*;

use crate::enqueue::{WAITS, pipelined};

const SHARE: &str = "!QUEUEFULL this user has its share of all waiters (rlock.max-share-per-user); try again later, \
    or raise the option";

/// A server with users of different keys and channels, and at most this many waiters.
fn tenants(max_waiters: usize) -> (TestServer, Connection, Connection, Connection) {
    let server = TestServer::builder().conf("rlock.max-waiters", max_waiters).start();
    let mut admin = server.connect();
    for user in ["evil", "good"] {
        let rules = format!(
            "ACL SETUSER {user} on >secret ~{user}:* resetchannels &{user}:* +rlock.acquire +rlock.cancel +rlock.release \
             +rlock.renew +multi +exec +eval +client +ping"
        );
        admin.story(&[(&rules, "OK")]);
    }
    admin.story(&[("SET evil:lock x", "OK"), ("SET good:lock x", "OK")]);
    // Held, each by an owner of its own.
    admin.story(&[("DEL evil:lock good:lock", "2")]);
    for user in ["evil", "good"] {
        admin.story(&[(&format!("RLOCK.ACQUIRE {user}:lock alice 100000"), "[1, 100000, 0]")]);
    }
    let [evil, good] = ["evil", "good"].map(|user| server.connect_as(user, "secret"));
    (server, admin, evil, good)
}

fn wait(user: &str, owner: &str) -> String {
    format!("RLOCK.ACQUIRE {user}:lock {owner} 4000 ENQUEUE 0 {user}:news")
}

/// One user took all places, and every other user got `QUEUEFULL`.
#[test]
fn one_user_cannot_take_all_places() {
    let (server, mut admin, mut evil, mut good) = tenants(7);
    let _heard = (Subscriber::channel(&server, "evil:news"), Subscriber::channel(&server, "good:news"));
    // Half of seven, rounded up.
    for owner in ["a", "b", "c", "d"] {
        evil.story(&[(&wait("evil", owner), WAITS)]);
    }
    evil.story(&[(&wait("evil", "e"), SHARE), (&wait("evil", "d"), WAITS)]);
    // By any connection, in a transaction and in a script, blocked or not.
    let mut again = server.connect_as("evil", "secret");
    again.story(&[("RLOCK.ACQUIRE evil:lock f 4000 BLOCK 0", SHARE)]);
    assert!(transaction(&mut again, &[&wait("evil", "g")]).contains("QUEUEFULL this user"));
    let script = "return redis.call('RLOCK.ACQUIRE', KEYS[1], 'h', 4000, 'ENQUEUE', 0, 'evil:news')";
    assert!(text(&ask(&mut again, &["EVAL", script, "1", "evil:lock"])).contains("QUEUEFULL this user"));
    // A wait is refused, not a try.
    evil.story(&[
        ("RLOCK.ACQUIRE evil:lock e 4000", "null"),
        ("RLOCK.ACQUIRE evil:free e 4000 BLOCK 0", "[1, 4000, 0]"),
    ]);
    assert_eq!((counter(&server, "user_waiters"), counter(&server, "refused_by_share")), (4, 4));
    good.story(&[(&wait("good", "a"), WAITS), (&wait("good", "b"), WAITS)]);
    admin.story(&[(&wait("good", "c"), WAITS), (&wait("good", "d"), "!QUEUEFULL the queue is full …")]);
    // A place that is left can be taken again.
    evil.story(&[
        ("RLOCK.CANCEL evil:lock a", "1"),
        (&wait("evil", "e"), WAITS),
        (&wait("evil", "f"), SHARE),
    ]);
}

#[test]
fn the_default_user_is_not_bounded_and_100_percent_bounds_no_user() {
    let (server, mut admin, mut evil, _good) = tenants(4);
    let owners = ["a", "b", "c", "d"];
    for owner in owners {
        admin.story(&[(&wait("evil", owner), WAITS)]);
    }
    assert_eq!(counter(&server, "user_waiters"), 0);
    // The place of another user's entry would count for this one: it moves with the repeat, up to the share.
    evil.story(&[(&wait("evil", "a"), WAITS), (&wait("evil", "b"), WAITS), (&wait("evil", "c"), SHARE)]);
    assert_eq!((counter(&server, "user_waiters"), counter(&server, "waiters")), (2, 4));
    admin.story(&[("CONFIG SET rlock.max-share-per-user 100", "OK")]);
    assert_eq!(counter(&server, "max_share_per_user"), 100);
    for owner in owners {
        evil.story(&[(&wait("evil", owner), WAITS)]);
    }
    evil.story(&[(&wait("evil", "e"), "!QUEUEFULL the queue is full …")]);
    assert_eq!((counter(&server, "user_waiters"), counter(&server, "refused_by_share")), (4, 1));
    // They are the default user's again.
    for owner in owners {
        admin.story(&[(&wait("evil", owner), WAITS)]);
    }
    assert_eq!(counter(&server, "user_waiters"), 0);
}

#[test]
fn a_place_is_free_again_after_each_end_of_a_wait() {
    let (server, mut admin, mut evil, _good) = tenants(10);
    let mut news = Subscriber::channel(&server, "evil:news");
    let count = || counter(&server, "user_waiters");
    let block = |owner: &str| {
        let words = ["RLOCK.ACQUIRE", "evil:lock", owner, "4000", "BLOCK", "0"];
        Waiting::start_on(&server, server.connect_as("evil", "secret"), &words)
    };
    // Granted, blocked and enqueued.
    let blocked = block("a");
    evil.story(&[(&wait("evil", "b"), WAITS)]);
    assert_eq!(count(), 2);
    blocked.granted_by(&mut admin, "RLOCK.RELEASE evil:lock alice");
    evil.story(&[("RLOCK.RELEASE evil:lock a", "1")]);
    assert_eq!((news.next_text(), count()), ("granted 0 b evil:lock 1 4000 0".into(), 0));
    evil.story(&[("RLOCK.RENEW evil:lock b 100000", "1")]);
    // A time-out, a client that disconnects, and a drained server.
    evil.story(&[("RLOCK.ACQUIRE evil:lock c 4000 BLOCK 1", "null")]);
    assert_eq!(count(), 0);
    let blocked = block("d");
    admin.story(&[(&format!("CLIENT KILL ID {}", blocked.client_id()), "1")]);
    wait_for("the client to go", || count() == 0);
    evil.story(&[(&wait("evil", "e"), WAITS)]);
    admin.story(&[("CONFIG SET rlock.accept no", "OK")]);
    assert_eq!((news.next_text(), count()), ("dropped 0 e evil:lock drained".into(), 0));
    admin.story(&[("CONFIG SET rlock.accept yes", "OK")]);
    // The waiters of a user outlive it, and count for it until they leave.
    evil.story(&[(&wait("evil", "f"), WAITS)]);
    admin.story(&[("ACL DELUSER evil", "1")]);
    assert_eq!(count(), 1);
    admin.story(&[("RLOCK.CANCEL evil:lock f", "1")]);
    assert_eq!(count(), 0);
}

/// The table in SECURITY.md: what one tenant takes, and how long others wait for it.
#[test]
fn a_tenant_that_fills_its_share_costs_the_others_some_memory_and_little_time() {
    const SHARE_OF_ALL: usize = 20_000;
    let (server, mut admin, mut evil, mut good) = tenants(2 * SHARE_OF_ALL);
    let used = || server.info("memory")["used_memory"].parse::<usize>().unwrap();
    // The longest names of locks, owners and channels.
    let [lock, owner, channel] = [1_012, 505, 500].map(|bytes| "x".repeat(bytes));
    let channel = |n: usize| format!("evil:{channel}{n:07}");
    let own = |n: usize| format!("evil:{lock}{n:07} {owner}{n:07} 4000 ENQUEUE 0 {}", channel(n));
    // Waiters without a subscriber leave after ten seconds. With the allocator of musl the waiters alone take longer.
    let channels: Vec<String> = (0..SHARE_OF_ALL / 2).map(channel).chain(["evil:c".into()]).collect();
    let _heard = Subscriber::connect(&server).subscribe(&channels);
    let held = (0..SHARE_OF_ALL / 2).map(|n| format!("RLOCK.ACQUIRE evil:{lock}{n:07} o 1000000"));
    pipelined(&mut evil, held);
    let mut fill = |lines: Vec<String>| {
        let (before, begun, mut worst, many) = (used(), Instant::now(), Duration::ZERO, lines.len());
        std::thread::scope(|scope| {
            let flood = scope.spawn(|| pipelined(&mut evil, lines.into_iter()));
            while !flood.is_finished() {
                let asked = Instant::now();
                let lap = ["RLOCK.ACQUIRE good:other o 4000", "RLOCK.RELEASE good:other o"];
                good.story(&[(lap[0], "[1, 4000, 0]"), (lap[1], "1")]);
                worst = worst.max(asked.elapsed());
            }
            assert!(flood.join().unwrap().iter().all(|answer| text(answer) == WAITS));
        });
        let each = (used() - before) / many;
        println!(
            "{many} waiters in {:?}, {each} bytes each; others waited {worst:?} at most",
            begun.elapsed()
        );
        each
    };
    let largest = fill((0..SHARE_OF_ALL / 2).map(|n| format!("RLOCK.ACQUIRE {}", own(n))).collect());
    let short = |n| format!("RLOCK.ACQUIRE evil:lock o{n} 4000 ENQUEUE 0 evil:c");
    let smallest = fill((0..SHARE_OF_ALL / 2).map(short).collect());
    assert!(largest < 7_000 && smallest < 550, "{largest} and {smallest} bytes for each");
    evil.story(&[("RLOCK.ACQUIRE evil:lock o 4000 ENQUEUE 0 evil:c", SHARE)]);
    good.story(&[(&wait("good", "o"), WAITS)]);
    admin.story(&[("RLOCK.RELEASE good:lock alice", "1")]);
}

#[test]
fn a_tie_takes_some_memory() {
    const MANY: usize = 20_000;
    let (server, client) = &mut TestServer::start_and_connect();
    let used = || server.info("memory")["used_memory"].parse::<usize>().unwrap();
    pipelined(client, (0..MANY).map(|n| format!("RLOCK.ACQUIRE lock{n} o 1000000")));
    let before = used();
    pipelined(client, (0..MANY).map(|n| format!("RLOCK.RENEW lock{n} o 1000000 SESSION 300")));
    let each = (used() - before) / MANY;
    println!("{each} bytes for each tie");
    assert_eq!(counter(server, "ties"), MANY as u64);
    assert!((256..1_200).contains(&each), "{each} bytes for each");
}

/// The processor time of the server in this time, as a share of one core in percent.
fn load_within(server: &TestServer, time: Duration) -> f64 {
    let used = || {
        let info = server.info("cpu");
        ["used_cpu_user", "used_cpu_sys"].map(|name| info[name].parse::<f64>().unwrap()).iter().sum::<f64>()
    };
    let (before, begun) = (used(), Instant::now());
    std::thread::sleep(time);
    (used() - before) / begun.elapsed().as_secs_f64() * 100.0
}

#[test]
fn the_sweep_of_ties_takes_little_time() {
    const MANY: usize = 100_000;
    let (server, client) = &mut TestServer::builder().conf("rlock.max-ties", MANY).start_and_connect();
    pipelined(client, (0..MANY).map(|n| format!("RLOCK.ACQUIRE lock{n} o 1000000")));
    let idle = load_within(server, Duration::from_secs(3));
    pipelined(client, (0..MANY).map(|n| format!("RLOCK.RENEW lock{n} o 1000000 SESSION 300")));
    let slow = load_within(server, Duration::from_secs(5)) - idle;
    let refused = "!QUEUEFULL too many ";
    assert!(say(client, "RLOCK.ACQUIRE more o 1000000 SESSION 300").starts_with(refused));
    let hurried = load_within(server, Duration::from_secs(3)) - idle;
    println!(
        "{idle:.2} % of a core without ties, {slow:.2} % more with {MANY}, {hurried:.2} % more after a refusal"
    );
    assert!(slow < 3.0 && hurried < 15.0, "{slow:.2} %, {hurried:.2} % after a refusal");
}
