//! docs/JOBS.md shows the files of packaging, and what they start does what the page says.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::figures;
use crate::support::{
    Files, RLOCK, Running, SOON, Signal, ask, await_owner, await_waiters, file, program, url,
};
use rlock_testkit::{TestServer, eventually};

const CRON: &str = "jobs/report.cron";
const SERVICE: &str = "jobs/report.service";
const TIMER: &str = "jobs/report.timer";
const CRON_JOB: &str = "kubernetes/jobs/report.yaml";
const DEPLOYMENT: &str = "kubernetes/jobs/indexer.yaml";

fn packaged(name: &str) -> String {
    file(&format!("packaging/{name}"))
}

/// A machine or container with the files that the page names, below a directory of the test.
struct Machine {
    files: Files,
}

impl Machine {
    fn new(server: &TestServer) -> Machine {
        let files = Files::new();
        fs::set_permissions(files.dir(), fs::Permissions::from_mode(0o777)).unwrap();
        let log = files.path("log").display().to_string();
        let script = format!("#!/bin/sh\ntrap 'exit 0' TERM\n[ $# = 0 ] || exit 0\necho ran >>{log}\n");
        for (name, rest) in [("report", ""), ("indexer", "sleep 600 & wait\n")] {
            files.program(name, &format!("{script}{rest}"));
        }
        fs::write(files.path("url"), format!("{}\n", url(server))).unwrap();
        Machine { files }
    }

    /// A command as the page shows it, with the paths of this machine.
    fn path(&self, word: &str) -> String {
        let dir = self.files.dir().display().to_string();
        let paths = [
            ("/etc/rlock/", format!("{dir}/")),
            ("/run/lead/", format!("{dir}/")),
            ("/usr/local/bin/", format!("{dir}/")),
            ("/usr/bin/rlock", RLOCK.to_string()),
        ];
        paths.iter().fold(word.to_string(), |word, (shown, here)| word.replace(shown, here))
    }

    fn start<W: AsRef<str>>(&self, words: &[W]) -> Running {
        let words: Vec<String> = words.iter().map(|word| self.path(word.as_ref())).collect();
        let mut command = program(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let programs = Path::new(RLOCK).parent().expect("a directory").display();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{programs}:{path}", self.files.dir().display()));
        Running::start(command)
    }

    /// How often the job was run.
    fn runs(&self) -> usize {
        fs::read_to_string(self.files.path("log")).unwrap_or_default().lines().count()
    }
}

/// The words of the `nth` command of a manifest.
fn entry(manifest: &str, nth: usize) -> Vec<String> {
    let text = packaged(manifest);
    let (_, rest) =
        text.match_indices("command: [").nth(nth).map(|(at, _)| text.split_at(at)).expect("a command");
    let (list, _) = rest["command: ".len()..].split_once(']').expect("the end of the command");
    serde_json::from_str(&format!("{list}]")).expect("a list of words")
}

#[test]
fn the_page_shows_the_files_and_the_figures() {
    let page = figures::page();
    for name in [CRON, SERVICE, TIMER, DEPLOYMENT] {
        assert!(page.contains(&format!("\n{}```\n", packaged(name))), "{name} is not in docs/JOBS.md");
    }
    assert!(page.contains(&format!("](../packaging/{CRON_JOB})")), "docs/JOBS.md does not link {CRON_JOB}");
    let remade = figures::shown(&figures::stored(), &page);
    assert!(remade == page, "docs/JOBS.md does not show docs/jobs.json: make jobs DOC=1");
}

/// Three machines start the job at the same time: by the line of cron, which cron gives to a shell; by the unit, which names another
/// user than root; by the CronJob.
#[test]
fn the_job_runs_once() {
    let text = packaged(CRON);
    let line = text.lines().last().expect("a line");
    let (when, command) = line.split_once(" reports ").expect("the user");
    assert_eq!(when.split(' ').count(), 5, "{line}");
    assert!(!command.contains('%'), "cron takes % for the end of the line");
    let by_cron = ["sh", "-c", command].map(str::to_string).to_vec();
    let text = packaged(SERVICE);
    let command = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let user = if rustix::process::geteuid().is_root() { &user[..] } else { &[] };
    let by_unit = user.iter().copied().chain(command.split(' ')).map(str::to_string).collect();
    assert!(packaged(TIMER).contains("OnCalendar="));
    for words in [by_cron, by_unit, entry(CRON_JOB, 0)] {
        let server = TestServer::start();
        let machine = Machine::new(&server);
        let machines = [(); 3].map(|()| machine.start(&words));
        machines.into_iter().for_each(|machine| machine.ended().is(0, ""));
        assert_eq!(machine.runs(), 1, "{words:?}");
    }
}

#[test]
fn one_pod_of_the_deployment_leads_and_its_probes_say_so() {
    let (server, client) = &mut TestServer::builder().start_and_connect();
    let [words, ready, alive] = [0, 1, 2].map(|nth| entry(DEPLOYMENT, nth));
    let pods = [Machine::new(server), Machine::new(server)];
    let is = |pod: &Machine, probe: &[String]| pod.start(probe).ended().code == Some(0);
    assert!(!is(&pods[0], &ready));
    let first = pods[0].start(&words);
    let owner = await_owner(client, "indexer");
    eventually("the first Pod to be ready", SOON, || is(&pods[0], &ready).then_some(()));
    let second = pods[1].start(&words);
    await_waiters(client, "indexer", 1);
    assert!(!is(&pods[1], &ready), "it waits");
    assert!(is(&pods[1], &alive), "it waits, and nothing of it hangs");
    assert_eq!(pods[1].runs(), 0);
    eventually("the indexer", SOON, || (pods[0].runs() > 0).then_some(()));
    assert!(is(&pods[0], &alive));
    first.signal(Signal::TERM);
    first.ended().is(0, "");
    assert!(!is(&pods[0], &ready));
    eventually("the second Pod to be ready", SOON, || is(&pods[1], &ready).then_some(()));
    assert_ne!(ask::<Vec<String>>(client, "HKEYS indexer"), [owner]);
    second.signal(Signal::TERM);
    second.ended().is(0, "");
}
