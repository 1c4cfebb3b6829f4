//! A test sees what a server publishes, replicates and persists.

use std::time::Duration;

use rlock_testkit::{
    Command, ReplicaStream, Subscriber, TestServer, aof_all_commands, aof_commands, eventually,
};

const SOON: Duration = Duration::from_secs(5);

fn run(server: &TestServer, words: &[&str]) {
    redis::cmd(words[0]).arg(&words[1..]).query::<redis::Value>(&mut server.connect()).unwrap();
}

fn transaction(server: &TestServer) {
    let mut pipe = redis::pipe();
    pipe.atomic().cmd("SET").arg("a").arg(1).cmd("INCR").arg("a");
    pipe.query::<()>(&mut server.connect()).unwrap();
}

fn command(words: &str) -> Command {
    words.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn transaction_commands() -> Vec<Command> {
    ["MULTI", "SET a 1", "INCR a", "EXEC"].map(command).to_vec()
}

fn upper(mut commands: Vec<Command>) -> Vec<Command> {
    commands.iter_mut().for_each(|command| command[0].make_ascii_uppercase());
    commands
}

#[test]
fn the_replication_stream_is_seen_exactly() {
    for diskless in ["yes", "no"] {
        let server = TestServer::builder().without_module().conf("repl-diskless-sync", diskless).start();
        run(&server, &["SET", "before", "in the snapshot"]);
        let mut stream = ReplicaStream::open(&server);
        run(&server, &["SET", "b", "\r\n*1\r\n"]);
        let first = stream.next(SOON).unwrap();
        assert_eq!(first, [b"SET".to_vec(), b"b".to_vec(), b"\r\n*1\r\n".to_vec()]);
        transaction(&server);
        run(&server, &["SET", "end", "x"]);
        assert_eq!(upper(stream.until_marker("end")), transaction_commands());
        assert!(stream.so_far(&server).is_empty());
        run(&server, &["DEL", "a"]);
        assert_eq!(stream.so_far(&server), [command("DEL a")]);
        assert_eq!(stream.next(Duration::from_millis(20)), None);
    }
}

#[test]
fn the_stream_counts_as_a_replica() {
    let server = TestServer::builder().without_module().start();
    let mut stream = ReplicaStream::open(&server);
    let waiting = std::thread::spawn({
        let mut connection = server.connect();
        move || {
            redis::cmd("SET").arg("a").arg(1).query::<()>(&mut connection).unwrap();
            redis::cmd("WAIT").arg(1).arg(5000).query::<i64>(&mut connection).unwrap()
        }
    });
    assert_eq!(stream.next(SOON), Some(command("SET a 1")));
    assert_eq!(stream.next(Duration::from_millis(300)), None);
    assert_eq!(waiting.join().unwrap(), 1);
}

#[test]
fn the_append_only_file_is_read() {
    let server = TestServer::builder().without_module().conf("appendonly", "yes").start();
    transaction(&server);
    assert_eq!(upper(aof_commands(server.dir())), transaction_commands());
    assert!(aof_all_commands(server.dir()).contains(&command("SELECT 0")));
    // Stamped and rewritten: the snapshot is skipped, what follows is there.
    if server.version().major >= 7 {
        run(&server, &["CONFIG", "SET", "aof-timestamp-enabled", "yes"]);
        run(&server, &["BGREWRITEAOF"]);
        eventually("the rewrite", SOON, || {
            let info = server.info("persistence");
            (info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0").then_some(())
        });
        run(&server, &["SET", "b", "2"]);
        assert_eq!(aof_commands(server.dir()), [command("SET b 2")]);
    }
}

#[test]
fn messages_are_received() {
    let server = TestServer::builder().without_module().start();
    let mut both = Subscriber::connect(&server).subscribe(&["a", "b"]).psubscribe(&["x*"]);
    let mut binary = Subscriber::channel(&server, b"\xff\n");
    let publish = |channel: &[u8], payload: &[u8]| {
        let mut connection = server.connect();
        redis::cmd("PUBLISH").arg(channel).arg(payload).query::<i64>(&mut connection).unwrap()
    };
    assert_eq!(publish(b"a", b"1"), 1);
    assert_eq!(publish(b"xyz", b"\x00"), 1);
    assert_eq!(publish(b"\xff\n", b"\xfe"), 1);
    assert_eq!(both.next(SOON), Some((b"a".to_vec(), b"1".to_vec())));
    assert_eq!(both.drain(), [(b"xyz".to_vec(), b"\x00".to_vec())]);
    assert!(both.drain().is_empty());
    assert_eq!(binary.next(SOON), Some((b"\xff\n".to_vec(), b"\xfe".to_vec())));
    binary.none_within(Duration::from_millis(20));
    assert!(Subscriber::connect(&server).drain().is_empty());
}

#[test]
#[should_panic(expected = "unexpected message on a: 1")]
fn an_unexpected_message_fails_the_test() {
    let server = TestServer::builder().without_module().start();
    let mut subscriber = Subscriber::pattern(&server, "*");
    run(&server, &["PUBLISH", "a", "1"]);
    subscriber.none_within(SOON);
}
