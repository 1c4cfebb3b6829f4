//! Channels of enqueued waiters in a slot of their own: another than the lock's.

use std::time::Duration;

use redis::Connection;
use rlock_testkit::commands::{SOON, counter, say, say_words, story, transaction};
use rlock_testkit::nodes::{AGREED, Cluster, asking};
use rlock_testkit::{Subscriber, TestServer, eventually, whole_slots};

use crate::CHANNEL;

const REFUSED: &str = "!ERR this node does not serve the channel's slot; \
    use a channel in a slot of this node, such as grants:{key}";

/// A lock on the first node, in another slot than `lock`.
const KEY: &str = "foo";

/// A lock on the second node.
const OTHER_KEY: &str = "bar";

/// Two rounds of checks of channels, the first of which begins up to ten seconds after the slot has left, and a busy machine.
const TWO_CHECKS: Duration = Duration::from_secs(60);

/// The owner waits without end for the lock, on the channel in the slot of `lock`.
fn waits(key: &str, owner: &str) -> String {
    format!("RLOCK.ACQUIRE {key} {owner} 4000 ENQUEUE 0 {CHANNEL}")
}

#[track_caller]
fn enqueue(client: &mut Connection, key: &str, owner: &str) {
    story(client, &[(&waits(key, owner), "[0, 0, 0]")]);
}

#[track_caller]
fn hold(client: &mut Connection, key: &str) {
    story(client, &[(&format!("RLOCK.ACQUIRE {key} alice 100000"), "[1, 100000, 0]")]);
}

/// What a client on the channel receives next.
#[track_caller]
fn receives(grants: &mut Subscriber, text: &str) {
    assert_eq!(grants.next(SOON), Some((CHANNEL.into(), text.into())));
}

/// The answers to a line: alone, in a transaction and in a script.
#[track_caller]
fn in_each_call(client: &mut Connection, line: &str) -> [String; 3] {
    let script = "return redis.call(unpack(ARGV))";
    let words: Vec<_> = line.split(' ').collect();
    let script = [&["EVAL", script, "1", words[1]], &words[..]].concat();
    [say(client, line), transaction(client, &[line]), say_words(client, &script)]
}

#[test]
fn enqueue_needs_a_channel_in_a_slot_of_the_node() {
    let cluster = Cluster::start();
    let [first, second] = &mut cluster.clients();
    let node = &cluster.nodes[0];
    let mut grants = Subscriber::connect(node).ssubscribe(&[CHANNEL]);
    let mut plain = Subscriber::connect(node).subscribe(&[CHANNEL]).psubscribe(&["*"]);
    for channel in [OTHER_KEY, "grants:{bar}", "{bar}:{lock}"] {
        let line = format!("RLOCK.ACQUIRE {KEY} bob 4000 ENQUEUE 0 {channel}");
        // For a free lock as for a held one.
        story(first, &[(&line, REFUSED)]);
        hold(first, KEY);
        let [alone, in_multi, in_script] = in_each_call(first, &line);
        assert_eq!((alone.as_str(), in_multi), (REFUSED, format!("[{REFUSED}]")));
        assert!(in_script.contains("does not serve the channel's slot"), "{in_script}");
        story(first, &[(&format!("RLOCK.RELEASE {KEY} alice"), "1")]);
    }
    // The second node has the slots that the first has not.
    story(second, &[(&waits(OTHER_KEY, "bob"), REFUSED)]);
    assert_eq!(counter(node, "waiters"), 0);
    hold(first, KEY);
    let answers = ["a", "b", "c"].map(|owner| in_each_call(first, &waits(KEY, owner)));
    assert_eq!(answers, [["[0, 0, 0]", "[[0, 0, 0]]", "[0, 0, 0]"]; 3].map(|calls| calls.map(String::from)));
    for (holder, next) in ["alice", "a", "b"].into_iter().zip(["a", "b", "c"]) {
        // By a command and by the timer.
        let frees = if next == "b" { "PEXPIRE foo 50" } else { &format!("RLOCK.RELEASE {KEY} {holder}") };
        story(first, &[(frees, "1")]);
        receives(&mut grants, &format!("granted 0 {next} {KEY} 1 4000 0"));
    }
    assert_eq!((grants.drain(), plain.drain()), (vec![], vec![]));
    // The question about the slot subscribes no client.
    let subscribed = format!("PUBSUB SHARDNUMSUB {CHANNEL} {KEY} {OTHER_KEY}");
    assert_eq!(say(first, &subscribed), format!(r#"["{CHANNEL}", 1, "{KEY}", 0, "{OTHER_KEY}", 0]"#));
}

/// Two locks, each with a waiter whose channel is in the slot of `lock`, and behind it one on another channel.
#[track_caller]
fn waiters_on_two_channels(node: &TestServer) -> [Subscriber; 2] {
    let client = &mut node.connect();
    let leaving = Subscriber::connect(node).ssubscribe(&[CHANNEL]);
    let staying = Subscriber::connect(node).ssubscribe(&[KEY]);
    for key in [KEY, "{foo}2"] {
        hold(client, key);
        enqueue(client, key, "bob");
        story(client, &[(&format!("RLOCK.ACQUIRE {key} carol 4000 ENQUEUE 0 {KEY}"), "[0, 0, 0]")]);
    }
    [leaving, staying]
}

/// The slot of the channel has left: its waiters lose their turn, and then their place.
#[track_caller]
fn waiters_of_a_slot_that_left_leave(cluster: &Cluster, mut staying: Subscriber) {
    let [first, _] = &mut cluster.clients();
    let node = &cluster.nodes[0];
    eventually("the subscription to end", AGREED, || {
        (say(first, &format!("PUBSUB SHARDNUMSUB {CHANNEL}")) == format!(r#"["{CHANNEL}", 0]"#)).then_some(())
    });
    story(first, &[(&waits(KEY, "dave"), REFUSED)]);
    // A release finds no subscriber, and serves the next waiter.
    assert_eq!(counter(node, "waiters"), 4);
    story(first, &[(&format!("RLOCK.RELEASE {KEY} alice"), "1")]);
    assert_eq!(staying.next_text(), format!("granted 0 carol {KEY} 1 4000 0"));
    // The queue of a lock that stays held loses them too.
    eventually("bob to leave", TWO_CHECKS, || (counter(node, "waiters") == 1).then_some(()));
    assert_eq!(counter(node, "waiters_gone"), 2);
    story(first, &[("RLOCK.RELEASE {foo}2 alice", "1")]);
    assert_eq!(staying.next_text(), "granted 0 carol {foo}2 1 4000 0");
    assert_eq!((counter(node, "waiters"), counter(node, "panics")), (0, 0));
}

#[test]
fn waiters_leave_whose_channels_slot_moves_key_by_key() {
    let cluster = Cluster::start();
    let [first, second] = &mut cluster.clients();
    let [mut leaving, staying] = waiters_on_two_channels(&cluster.nodes[0]);
    cluster.begin_to_move();
    // Until the end of the move the first node serves the slot's channels, whatever keys have moved.
    story(first, &[("RLOCK.ACQUIRE {foo}3 alice 100000", "[1, 100000, 0]")]);
    enqueue(first, "{foo}3", "bob");
    story(first, &[("RLOCK.RELEASE {foo}3 alice", "1")]);
    receives(&mut leaving, "granted 0 bob {foo}3 1 4000 0");
    story(first, &[("RLOCK.RELEASE {foo}3 bob", "1")]);
    // As for SSUBSCRIBE, the second serves them to clients that ASK has sent.
    hold(second, OTHER_KEY);
    story(second, &[(&waits(OTHER_KEY, "bob"), REFUSED)]);
    assert_eq!(asking(second, &waits(OTHER_KEY, "bob")), "[0, 0, 0]");
    assert_eq!(asking(second, &waits("lock", "bob")), "[1, 4000, 0]");
    cluster.end_move();
    let mut arrived = Subscriber::connect(&cluster.nodes[1]).ssubscribe(&[CHANNEL]);
    story(second, &[("RLOCK.RELEASE bar alice", "1")]);
    receives(&mut arrived, "granted 0 bob bar 1 4000 0");
    waiters_of_a_slot_that_left_leave(&cluster, staying);
}

#[test]
fn waiters_leave_whose_channels_slot_moves_as_a_whole() {
    let Some(cluster) = whole_slots::cluster() else { return };
    let [_, staying] = waiters_on_two_channels(&cluster.nodes[0]);
    cluster.move_whole(1);
    waiters_of_a_slot_that_left_leave(&cluster, staying);
}

/// The client of a channel whose slot has left has nine seconds to name another one.
#[test]
fn a_waiter_keeps_its_place_on_another_channel() {
    let cluster = Cluster::start();
    let [first, _] = &mut cluster.clients();
    let [_leaving, mut staying] = waiters_on_two_channels(&cluster.nodes[0]);
    cluster.begin_to_move();
    cluster.end_move();
    for key in [KEY, "{foo}2"] {
        story(first, &[(&format!("RLOCK.ACQUIRE {key} bob 4000 ENQUEUE 0 {KEY}"), "[0, 0, 0]")]);
    }
    story(first, &[(&format!("RLOCK.RELEASE {KEY} alice"), "1")]);
    assert_eq!(staying.next_text(), format!("granted 0 bob {KEY} 1 4000 0"));
    assert_eq!((counter(&cluster.nodes[0], "waiters"), counter(&cluster.nodes[0], "waiters_gone")), (3, 0));
}

/// The lock's slot leaves, and the channel's stays: the waiter receives a message, however the slot moves.
#[test]
fn waiters_on_a_channel_that_stays_are_dropped_by_message() {
    let by_keys = |cluster: &Cluster| {
        cluster.begin_to_move();
        cluster.move_lock();
    };
    for (cluster, moves) in [
        (Some(Cluster::start()), &by_keys as &dyn Fn(&Cluster)),
        (whole_slots::cluster(), &|cluster| cluster.move_whole(1)),
    ] {
        let Some(cluster) = cluster else { continue };
        let [first, _] = &mut cluster.clients();
        let mut grants = Subscriber::connect(&cluster.nodes[0]).ssubscribe(&[KEY]);
        hold(first, "lock");
        story(first, &[(&format!("RLOCK.ACQUIRE lock bob 4000 ENQUEUE 0 {KEY}"), "[0, 0, 0]")]);
        moves(&cluster);
        assert_eq!(grants.next_text(), "dropped 0 bob lock moved");
        assert_eq!((counter(&cluster.nodes[0], "waiters"), counter(&cluster.nodes[0], "hand_offs")), (0, 0));
    }
}
