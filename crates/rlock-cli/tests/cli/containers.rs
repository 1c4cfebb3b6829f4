//! The checks of the image and the probes of Kubernetes, its hook and its configuration: run here as these files say them.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rlock_testkit::{ServerName, TestServer, eventually, module_path};

use crate::support::metrics::printed;
use crate::support::{
    Ended, Files, RLOCK, Running, SOON, Signal, ask, at, file, program, rlock, url, url_of,
};

const MANIFEST: &str = "packaging/kubernetes/server.yaml";

/// What follows `mark` in its line, the first time after `before`.
#[track_caller]
fn after(path: &str, before: &str, mark: &str) -> String {
    let text = file(path);
    let rest = text.split_once(before).and_then(|(_, rest)| rest.split_once(mark));
    let (_, rest) = rest.unwrap_or_else(|| panic!("{path}: no {mark:?} after {before:?}"));
    rest.lines().next().unwrap_or_default().to_string()
}

/// A command in the form of JSON, and the seconds that it may take.
#[derive(Debug)]
pub(crate) struct Check {
    words: Vec<String>,
    seconds: String,
}

impl Check {
    #[track_caller]
    fn new(list: &str, seconds: &str) -> Check {
        let words = serde_json::from_str(list).unwrap_or_else(|error| panic!("{list}: {error}"));
        Check { words, seconds: seconds.to_string() }
    }

    pub(crate) fn of_the_image() -> Check {
        let timeout = after("Dockerfile", "HEALTHCHECK ", "--timeout=");
        let seconds = timeout.split('s').next().unwrap_or_default();
        Check::new(&after("Dockerfile", "HEALTHCHECK ", " CMD "), seconds)
    }

    pub(crate) fn probe(name: &str) -> Check {
        let list = after(MANIFEST, name, "command: ");
        Check::new(&list, &after(MANIFEST, name, "timeoutSeconds: "))
    }

    /// Runs it beside a server; without an answer in time it fails.
    #[track_caller]
    pub(crate) fn run(&self, server: &TestServer) -> Ended {
        let (name, arguments) = self.words.split_first().expect("a program");
        let mut command = program(&["timeout", &self.seconds]);
        match Path::new(name).file_name().and_then(|name| name.to_str()) {
            Some("rlock") => command.arg(RLOCK).env("REDIS_URL", url(server)),
            Some("valkey-cli") => command.arg(server.cli_path()).arg("-p").arg(server.port().to_string()),
            _ => panic!("{self:?}"),
        };
        command.args(arguments);
        Running::start(command).ended()
    }
}

/// A server that loads its data for ten seconds or longer.
fn loading() -> TestServer {
    let server = TestServer::start();
    let client = &mut server.connect();
    // Keys that take a while to be loaded, and between which the server answers.
    ask::<redis::Value>(client, "DEBUG POPULATE 5000 key 2048");
    ask::<redis::Value>(client, "CONFIG SET rdbcompression no");
    ask::<redis::Value>(client, "CONFIG SET key-load-delay 2000");
    ask::<redis::Value>(client, "CONFIG SET loading-process-events-interval-bytes 1024");
    let mut other = server.connect();
    thread::spawn(move || redis::cmd("DEBUG").arg("RELOAD").exec(&mut other));
    eventually("the server to load", SOON, || {
        let answer: redis::RedisResult<String> = redis::cmd("GET").arg("key:0").query(client);
        answer.is_err_and(|error| error.code() == Some("LOADING")).then_some(())
    });
    server
}

#[test]
fn the_image_and_kubernetes_ask_the_same() {
    let (image, probe) = (Check::of_the_image(), Check::probe("readinessProbe:"));
    assert_eq!((&image.words[1..], &image.seconds), (&probe.words[1..], &probe.seconds));
    assert_eq!((image.words[0].as_str(), probe.words[0].as_str()), ("rlock", "/rlock/rlock"));
}

#[test]
fn a_server_that_loads_its_data_is_unhealthy_and_is_not_restarted() {
    let server = loading();
    let ended = Check::of_the_image().run(&server);
    assert!(ended.code == Some(1) && ended.stdout.contains("→ wait until "), "{ended:?}");
    assert_eq!(Check::probe("livenessProbe:").run(&server).code, Some(0));
}

#[test]
fn a_server_that_hangs_is_restarted_and_one_that_wants_a_password_is_not() {
    let liveness = Check::probe("livenessProbe:");
    let server = TestServer::builder().conf("requirepass", "secret").start();
    assert_eq!(liveness.run(&server).code, Some(0));
    server.signal(Signal::STOP.as_raw());
    // What `timeout` exits with.
    assert_eq!(liveness.run(&server).code, Some(124));
    server.signal(Signal::CONT.as_raw());
}

#[test]
fn the_hook_before_the_end_drains_the_server_and_waits_for_holders() {
    assert_eq!(
        after(MANIFEST, "preStop:", "command: "),
        r#"["sh", "/etc/rlock/conf/drain.sh"]"#,
        "what this test runs"
    );
    let (server, client) = &mut TestServer::builder().start_and_connect();
    ask::<redis::Value>(client, "RLOCK.ACQUIRE job alice:1 60000");
    let files = Files::new();
    let folder = files.dir().display().to_string();
    // The programs by the names that the container has for them. The first list fails, and shows no lock.
    let failing = format!("mkdir '{folder}/failed' 2>/dev/null && exit 125\nexec '{RLOCK}' \"$@\"\n");
    files.program("rlock", &format!("#!/bin/sh\n{failing}"));
    let cli = format!("'{}' -p {}", server.cli_path().display(), server.port());
    files.program("valkey-cli", &format!("#!/bin/sh\nexec {cli} \"$@\"\n"));
    let script = file("packaging/kubernetes/drain.sh").replace("/rlock/rlock", &format!("{folder}/rlock"));
    let path = format!("{folder}:{}", std::env::var("PATH").expect("a PATH"));
    let mut command = program(&["sh", "-c", &script]);
    command.env("PATH", path).env("REDIS_URL", url(server));
    let mut running = Running::start(command);
    eventually("the drain", SOON, || (server.info("rlock")["rlock_accept"] == "0").then_some(()));
    thread::sleep(Duration::from_millis(1_500));
    running.still_runs();
    ask::<redis::Value>(client, "RLOCK.RELEASE job alice:1");
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(files.path("failed").exists());
}

/// The users of the secret, as a server that has no category for modules can read them.
fn users(server: &TestServer) -> String {
    let secret = file("packaging/kubernetes/secret.yaml");
    let lines = secret.lines().map(str::trim).filter(|line| line.starts_with("user "));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let version = server.version();
    if version.name == ServerName::Redis && !version.is_at_least(ServerName::Redis, 7, 4) {
        let named = "+rlock.acquire +rlock.release +rlock.renew +rlock.cancel +rlock.info";
        return text.replace("+@rlock", named).replace(" +client|setinfo", "");
    }
    text
}

#[test]
fn a_server_with_this_configuration_and_these_users_gives_locks() {
    let files = Files::new();
    fs::write(files.path("users.acl"), users(&TestServer::start())).expect("a file");
    let configuration = file("packaging/kubernetes/valkey.conf");
    let mut builder = TestServer::builder();
    for line in configuration.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, value) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
        // The kit has its own port, folder and module.
        builder = match (name, value) {
            ("port", "6379") | ("dir", "/data") | ("bind", "* -::*") => builder,
            ("loadmodule", "/rlock/librlock.so") => builder.module(module_path()),
            ("aclfile", "/etc/rlock/secret/users.acl") => {
                builder.conf(name, files.path("users.acl").display())
            }
            ("save", r#""""#) => builder.conf("save", ""),
            _ => builder.conf(name, value),
        };
    }
    let server = builder.start();
    let by = |login: &str| url_of(login, &server);
    let admin = by(":ADMIN_PASSWORD");
    assert_eq!(at(&admin, &["health"]).code, Some(0));
    let doctor = at(&admin, &["doctor"]);
    assert!(!doctor.stdout.contains("WRONG"), "{doctor:?}");
    at(&by("app:APP_PASSWORD"), &["run", "job", "--", "echo", "ran"]).is(0, "ran\n");
    let (_, metrics) = printed(&by("exporter:EXPORTER_PASSWORD"), &[]);
    assert_eq!(metrics.of(&server, ["rlock_up", "rlock_acquired_total"]), [1.0, 1.0], "{}", metrics.0);
    assert_eq!(rlock(&server, &["ls"]).code, Some(125), "without a password");
}
