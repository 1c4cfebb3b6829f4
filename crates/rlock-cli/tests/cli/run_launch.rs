//! `rlock run`: the command inherits the same as without rlock, and ends with rlock.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::support::{
    Files, RLOCK, Running, SOON, Signal, ask, at, await_end_of, await_owner, await_waiters, bare, program,
    rlock, run, send_signal, start, url,
};
use rlock_testkit::{TestServer, eventually};

/// Signals, limits and credentials of a process, as the kernel shows them. The speculation flags and the counters differ from
/// process to process.
const INHERITED: &str = "grep -E '^(Umask|Uid|Gid|Groups|Sig|Shd|Cap|NoNewPrivs|Seccomp)' /proc/self/status | \
    grep -v ^SigQ; cat /proc/self/limits; ls /proc/self/fd | wc -l; pwd; env | grep -vE '^(_|RLOCK_HELD)=' | sort";

#[test]
fn the_command_inherits_what_it_would_without_rlock() {
    let server = TestServer::start();
    let files = Files::new();
    // A signal that is ignored, a descriptor that is inherited, a limit and a mask for files.
    let shell = files.script("trap '' USR2; exec 7< /dev/null; ulimit -n 321; umask 027; \"$@\"");
    let inherited = |words: &[&str]| {
        let mut command = program(&["sh", "-c", &shell, "sh"]);
        command.args(words).args(["sh", "-c", INHERITED]).env("REDIS_URL", url(&server)).env("ODD", "a=b");
        let ended = Running::start(command).ended();
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
        without_own_signals_of_glibc(&ended.stdout)
    };
    let (with, without) = (inherited(&[RLOCK, "run", "job", "--"]), inherited(&[]));
    for (with, without) in with.lines().zip(without.lines()) {
        assert_eq!(with, without);
    }
    assert_eq!(with.lines().count(), without.lines().count());
    let shows =
        |start: &str, text: &str| with.lines().any(|line| line.starts_with(start) && line.contains(text));
    assert!(shows("SigIgn:", "0800") && shows("SigBlk:", "0000000000000000"), "{with}");
    assert!(
        shows("Umask:", "0027") && shows("Max open files", " 321 ") && with.contains("ODD=a=b\n"),
        "{with}"
    );
}

/// Its `posix_spawn` ignores the signals 32 and 33 in every child; it uses them itself, between threads.
fn without_own_signals_of_glibc(status: &str) -> String {
    let line = |line: &str| match line.strip_prefix("SigIgn:\t") {
        Some(mask) => format!("SigIgn:\t{:016x}\n", u64::from_str_radix(mask, 16).unwrap() & !(0b11 << 31)),
        None => format!("{line}\n"),
    };
    status.lines().map(line).collect()
}

/// The launcher is the command's process, and nothing of it is left.
#[test]
fn the_command_is_a_child_of_rlock_and_leads_a_group() {
    let server = TestServer::start();
    let files = Files::new();
    let script = "echo $$ $PPID $(ps -o pgid= -p $$) $(ps -o comm= -p $$) > ids; tr '\\0' ' ' < /proc/$$/cmdline > cmdline; \
        readlink /proc/$$/fd/* > fds; true";
    let run = run(&server, &files, &[], script);
    let parent = run.pid().to_string();
    run.ended().is(0, "");
    let ids = files.line("ids");
    let ids: Vec<&str> = ids.split(' ').collect();
    assert!(ids[0] == ids[2] && ids[1] == parent && ids[3] == "sh", "{ids:?}, rlock is {parent}");
    assert!(fs::read_to_string(files.path("cmdline")).unwrap().starts_with("sh -c cd "));
    let descriptors = fs::read_to_string(files.path("fds")).unwrap();
    assert!(descriptors.starts_with("/dev/null\n") && !descriptors.contains("socket"), "{descriptors}");
}

/// A command may be called like an option, and its arguments need not be UTF-8.
#[test]
fn names_and_arguments_are_bytes() {
    let server = TestServer::start();
    let files = Files::new();
    let path = format!("{}:{}", files.dir().display(), std::env::var("PATH").unwrap());
    for name in [&b"--help"[..], b"-x", b"__launch", b"na\xffme", b"two words"] {
        let name = OsStr::from_bytes(name);
        let file = files.dir().join(name);
        files.program(name, "#!/bin/sh\nprintf '<%s>' \"$0\" \"$@\"\n");
        let mut command = bare();
        command.env("PATH", &path).env("REDIS_URL", url(&server)).args(["run", "job", "--"]);
        command.arg(name).args([
            OsStr::from_bytes(b"\xfe\xff"),
            OsStr::new("--"),
            OsStr::new(""),
            OsStr::new("--lease"),
        ]);
        let output = command.output().unwrap();
        let wanted = [b"<", file.as_os_str().as_bytes(), b"><\xfe\xff><--><><--lease>"].concat();
        assert_eq!(output.stdout.escape_ascii().to_string(), wanted.escape_ascii().to_string());
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{name:?}");
    }
    // The name in `argv` is the one that was typed: programs such as busybox do what it says.
    symlink("/bin/sh", files.path("my shell")).unwrap();
    let typed = files.path("my shell").display().to_string();
    let ended = rlock(&server, &["run", "job", "--", &typed, "-c", "tr '\\0' '|' < /proc/$$/cmdline"]);
    assert!(ended.stdout.starts_with(&format!("{typed}|-c|")), "{ended:?}");
}

/// A copy would not do: a socket cannot be opened a second time, and a second reader of a file begins at its start.
#[test]
fn the_command_has_the_very_input_of_rlock() {
    let server = TestServer::start();
    let files = Files::new();
    fs::write(files.path("input"), "first\nsecond\nthird\n").unwrap();
    let mut command = program(&["sh", "-c", "read -r line; \"$@\"; cat", "sh", RLOCK, "run", "job", "--"]);
    command
        .args(["sh", "-c", "read -r line; echo \"$line\"; echo problem >&2"])
        .env("REDIS_URL", url(&server));
    command.stdin(fs::File::open(files.path("input")).unwrap());
    let ended = Running::start(command).ended();
    ended.is(0, "second\nthird\n");
    assert_eq!(ended.stderr, "problem\n");
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(b"from a socket").unwrap();
    let mut command = bare();
    command.args(["run", "job", "--", "sh", "-c", "head -c 13; echo back >&0"]);
    command.env("REDIS_URL", url(&server)).stdin(OwnedFd::from(theirs));
    Running::start(command).ended().is(0, "from a socket");
    let mut back = String::new();
    ours.read_to_string(&mut back).unwrap();
    assert_eq!(back, "back\n");
    // A closed input stays empty.
    let mut command = program(&["sh", "-c", "\"$@\" <&-", "sh", RLOCK, "run", "job", "--", "cat"]);
    command.env("REDIS_URL", url(&server));
    Running::start(command).ended().is(0, "");
}

/// An update replaces the program while it waits for a lock.
#[test]
fn an_executable_that_was_deleted_still_starts_the_command() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let files = Files::new();
    fs::copy(RLOCK, files.path("rlock")).unwrap();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job other 100000");
    let copy = files.path("rlock").display().to_string();
    let script = files.script("echo $$ > pid; exec sleep 60");
    let mut command = program(&[&copy, "--url", &url(server), "run", "job", "--"]);
    command.args(["sh", "-c", &script]);
    let run = Running::start(command);
    await_waiters(client, "job", 1);
    fs::remove_file(&copy).unwrap();
    files.program("rlock", "#!/bin/sh\necho another version\n");
    ask::<i64>(client, "RLOCK.RELEASE job other");
    let pid = files.pid("pid");
    run.signal(Signal::KILL);
    let ended = run.ended();
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""), "{ended:?}");
    await_end_of(&[pid], SOON);
}

/// Whether rlock is killed before, while or after the command is started.
#[test]
fn no_command_outlives_a_run_that_is_killed_early() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    for pause in 0..20 {
        let files = Files::new();
        let run = run(server, &files, &["--session-grace", "1s"], "echo $$ > pid; exec sleep 60");
        await_owner(client, "job");
        std::thread::sleep(Duration::from_micros(300 * pause));
        let group = fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.pid())).unwrap_or_default();
        run.signal(Signal::KILL);
        run.ended();
        // The file may be there without its text: the command was killed in between.
        let told = fs::read_to_string(files.path("pid")).unwrap_or_default();
        let pids = group.split_whitespace().chain(told.split_whitespace());
        let pids: Vec<i32> = pids.map(|pid| pid.parse().expect("a process id")).collect();
        await_end_of(&pids, SOON);
        ask::<i64>(client, "RLOCK.FORCERELEASE job");
    }
}

/// rlock started the command once more, and without the tie, if the signal came before the exec of the command.
#[test]
fn a_command_that_is_killed_early_is_not_started_again() {
    let server = TestServer::start();
    for _ in 0..20 {
        let run = start(&server, &["run", "job", "--", "sleep", "10"]);
        let children = format!("/proc/{0}/task/{0}/children", run.pid());
        let child = eventually("the command's process", SOON, || {
            fs::read_to_string(&children).unwrap_or_default().trim().parse().ok()
        });
        send_signal(child, Signal::KILL);
        let ended = run.ended();
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(137), ""));
    }
}

/// Some agents of monitoring systems start a process wherever they are loaded. It inherited the socket from which rlock read the
/// launcher's answer, and rlock waited for the end of this process.
#[test]
fn a_process_that_a_preloaded_library_starts_does_not_delay_rlock() {
    let server = TestServer::start();
    let files = Files::new();
    let source = "#include <unistd.h>\n__attribute__((constructor)) static void start(void) {\n\
        if (fork() == 0) { setsid(); close(1); close(2); sleep(20); _exit(0); } }\n";
    fs::write(files.path("agent.c"), source).unwrap();
    let mut compiler = program(&["cc", "-shared", "-fPIC", "-o", "agent.so", "agent.c"]);
    assert!(compiler.current_dir(files.dir()).status().unwrap().success());
    let mut command = bare();
    command.env("LD_PRELOAD", files.path("agent.so")).env("REDIS_URL", url(&server));
    command.args(["run", "job", "--", "sh", "-c", "echo ran; exit 7"]);
    let begin = Instant::now();
    Running::start(command).ended().is(7, "ran\n");
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

/// A process sees no number of a group outside its PID namespace, as rlock's is in bubblewrap. The first use of the terminal panicked,
/// or its behaviour was undefined.
#[test]
fn the_group_of_rlock_may_be_outside_its_pid_namespace() {
    let server = TestServer::start();
    let outside = ["unshare", "--user", "--map-current-user", "--fork", "--pid"];
    if !program(&outside).arg("true").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this user cannot create PID namespaces");
        return;
    }
    let mut command = program(&outside);
    command.args([RLOCK, "run", "job", "--", "sh", "-c", "echo ran; exit 7"]).env("REDIS_URL", url(&server));
    let ended = Running::start(command).ended();
    ended.is(7, "ran\n");
    assert_eq!(ended.stderr, "");
}

#[test]
fn only_rlock_itself_calls_its_launcher() {
    for words in [&["__launch"][..], &["__launch", "1", "echo", "ran"]] {
        let ended = at("", words);
        ended.is(125, "");
        ended.fails(125, &["only `rlock run` uses __launch"]);
    }
}
