//! The programs in examples/ run and do what they show.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rlock_testkit::clients::process::Process;
use rlock_testkit::clients::{SOON, holder, url};
use rlock_testkit::{TestServer, eventually};

/// An example's program, which `cargo test` has built beside this one.
fn example(name: &str, server: &TestServer) -> Command {
    let mut path = PathBuf::from(std::env::current_exe().unwrap().parent().unwrap().parent().unwrap());
    path.push("examples");
    path.push(name);
    assert!(path.exists(), "{} is missing; `cargo test -p rlock-client` builds it", path.display());
    let mut command = Command::new(path);
    command.env("REDIS_URL", url(server));
    command
}

/// A `main` that returned an error printed `ModuleMissing { message: … }`, and never the advice.
#[test]
fn a_main_that_returns_an_error_prints_what_to_do() {
    let (server, bare) = (TestServer::start(), TestServer::builder().without_module().start());
    let mut raw = server.connect();
    redis::cmd("ACL").arg("SETUSER").arg("app").arg("on").arg(">secret").exec(&mut raw).unwrap();
    let denied = url(&server).replace("://", "://app:secret@");
    for name in ["hello", "hello_blocking"] {
        let run = |url: &str| {
            let output = example(name, &server).env("REDIS_URL", url).output().expect("an example");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (output.status.code(), text(&output.stdout), text(&output.stderr))
        };
        let fails = |url: &str, begin: &str, end: &str| {
            let (code, stdout, stderr) = run(url);
            assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
            assert!(stderr.starts_with(begin) && stderr.trim_end().ends_with(end), "{stderr}");
            assert!(!stderr.contains('{'), "{stderr}");
        };
        assert_eq!(run(&url(&server)), (Some(0), "working\n".into(), String::new()));
        fails(&url(&bare), "Error: this server has no rlock module", "its replicas need the module too");
        fails(&denied, "Error: the server denies access: NOPERM", "use Waiting::Polling");
        let unreachable =
            "Error: the server 127.0.0.1:1 is unreachable; check its address, its state and the network\n";
        let refused = format!("{unreachable}  cause: Connection refused");
        fails("redis://127.0.0.1:1", &refused, "");
        fails("", "Error: the server's URL is empty", "");
    }
}

#[test]
fn worker_pool() {
    let server = TestServer::start();
    let mut pool = Process::start(&mut example("worker_pool", &server));
    let (mut at_work, mut handled) = (HashSet::new(), HashSet::new());
    while handled.len() < 12 {
        let line = pool.says("worker ");
        let [worker, step, customer, "order", order] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let order: u32 = order.parse().unwrap();
        match step {
            "begin" => assert!(at_work.insert(customer.to_string()), "two at work for one customer: {line}"),
            "end" => {
                assert!(at_work.remove(customer) && handled.insert(order), "{line}");
            }
            _ => panic!("{worker} {line}"),
        }
    }
    pool.says("all orders are handled");
    assert!(pool.ends().success());
    assert_eq!(redis::cmd("DBSIZE").query::<u64>(&mut server.connect()).unwrap(), 0);
}

#[test]
fn cron_once() {
    let server = TestServer::start();
    let start = |day: &str| {
        // The server's directory will do: it is removed with the server.
        Process::start(example("cron_once", &server).arg(server.dir()).arg(day))
    };
    for day in ["2026-11-21", "2026-11-22"] {
        let mut machines: Vec<_> = (0..5).map(|_| start(day)).collect();
        let said: Vec<String> = machines.iter_mut().map(|machine| machine.says("done")).collect();
        assert_eq!(said.iter().filter(|rest| rest.is_empty()).count(), 1, "{said:?}");
        assert_eq!(said.iter().filter(|rest| *rest == "already").count(), 4, "{said:?}");
        assert!(machines.iter_mut().all(|machine| machine.ends().success()));
        assert!(server.dir().join(format!("report-{day}")).exists());
    }
    // One that crashed with the lock: the next one takes over at the end of the lease.
    let mut raw = server.connect();
    redis::cmd("RLOCK.ACQUIRE").arg("report:x").arg("crashed").arg(500).exec(&mut raw).unwrap();
    assert_eq!(start("x").says("done"), "");
}

#[test]
fn leader_election() {
    let server = TestServer::start();
    let mut raw = server.connect();
    let start = || {
        let mut process = Process::start(example("leader_election", &server).env("LEASE_MS", "2000"));
        let id = process.says("");
        (process, id.strip_suffix(" is ready").expect("its id").to_string())
    };
    let mut processes: Vec<_> = (0..3).map(|_| start()).collect();
    let mut leader = |not: Option<&str>| {
        eventually("a leader", SOON, || {
            let (owner, _) = holder(&mut raw, "leader")?;
            // An owner is its client's identity, 16 characters that are new for each acquisition, and a number.
            let (random, _) = owner.rsplit_once(':').expect("an owner");
            let id = &random[..random.len() - 16];
            (Some(id) != not).then(|| id.to_string())
        })
    };
    // It leads for longer than its lease.
    let first = leader(None);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(leader(None), first);
    // One that hangs is replaced, and learns it.
    let at =
        |processes: &[(Process, String)], id: &str| processes.iter().position(|(_, one)| one == id).unwrap();
    let hung = at(&processes, &first);
    processes[hung].0.says("leads");
    processes[hung].0.stop();
    let second = leader(Some(&first));
    processes[hung].0.go_on();
    processes[hung].0.says("leads no more");
    let other = at(&processes, &second);
    processes[other].0.says("leads");
    // A leader that is killed is replaced at the end of its lease; one that is interrupted, at once.
    drop(processes.remove(other));
    let third = leader(Some(&second));
    let mut last = processes.remove(at(&processes, &third)).0;
    last.says("leads");
    last.interrupt();
    last.says("has stopped");
    assert!(last.ends().success());
    leader(Some(&third));
}
