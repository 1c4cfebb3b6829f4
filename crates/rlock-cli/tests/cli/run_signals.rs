//! `rlock run`: signals reach the whole group.

use crate::support::{Files, RLOCK, Running, Signal, UNTIL_GO, ask, program, run, runs, send_signal, url};
use rlock_testkit::TestServer;

/// A command of several processes; two of them leave a note when they get a signal. (A pipeline, since
/// shells let processes in the background ignore INT.)
const FAMILY: &str = r#"
note() { trap "echo $2 >> $1; exit $3" $2; }
note leader TERM 40; note leader INT 41; note leader HUP 42; note leader USR1 43
{ note child TERM 1; note child INT 1; note child HUP 1; note child USR1 1
  sh -c 'echo $PPID' > child.pid; n=0; while [ $((n+=1)) -le 1200 ]; do sleep 0.05; done; } | cat"#;

#[test]
fn signals_are_forwarded_to_the_whole_group() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let cases = [
        (Signal::TERM, "TERM", 40),
        (Signal::INT, "INT", 41),
        (Signal::HUP, "HUP", 42),
        (Signal::USR1, "USR1", 43),
    ];
    for (signal, name, code) in cases {
        let files = Files::new();
        let run = run(server, &files, &[], &format!("echo $$ > leader.pid; {FAMILY}"));
        let pids = [files.pid("leader.pid"), files.pid("child.pid")];
        run.signal(signal);
        let ended = run.ended();
        ended.is(code, "");
        assert_eq!(files.line("leader"), name);
        assert_eq!(files.line("child"), name);
        assert!(!pids.iter().any(|pid| runs(*pid)), "the whole group has ended before");
        assert_eq!(ask::<i64>(client, "EXISTS job"), 0, "{ended:?}");
    }
}

/// The signal ends the sleep too, which else would be the last thing that the loop did, with its code.
#[test]
fn a_command_may_continue_after_a_signal() {
    let server = TestServer::start();
    let files = Files::new();
    let mut run = run(&server, &files, &[], &format!("trap 'echo got >> notes' HUP; {UNTIL_GO}; exit 0"));
    files.pid("pid");
    run.signal(Signal::HUP);
    assert_eq!(files.line("notes"), "got");
    run.still_runs();
    files.go();
    run.ended().is(0, "");
}

/// If the command does not have the terminal, or not yet, rlock gets the Ctrl-Z. rlock was suspended, the command
/// continued, and its lock was not renewed.
#[test]
fn a_run_that_holds_a_lock_is_not_suspended() {
    let server = TestServer::start();
    let files = Files::new();
    let run = run(&server, &files, &[], "echo $$ > pid; exec sleep 60");
    let pid = files.pid("pid");
    run.signal(Signal::TSTP);
    run.tells("cannot be suspended");
    // The command itself has the usual action.
    let ignored = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let mask = ignored.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
    let mask = u64::from_str_radix(mask.trim(), 16).expect("hexadecimal");
    assert_eq!(mask & 1 << (Signal::TSTP.as_raw() - 1), 0, "{mask:x}");
    run.signal(Signal::TERM);
    assert_eq!(run.ended().code, Some(143));
}

#[test]
fn what_nohup_ignores_stays_ignored() {
    let server = TestServer::start();
    let files = Files::new();
    let mut command = program(&["nohup", RLOCK]);
    command.args(["--url", &url(&server), "run", "job", "--", "sh", "-c", &files.script(UNTIL_GO)]);
    let mut run = Running::start(command);
    let pid = files.pid("pid");
    run.signal(Signal::HUP);
    // The command ignores it too.
    send_signal(pid, Signal::HUP);
    run.still_runs();
    files.go();
    run.ended().is(0, "");
}
