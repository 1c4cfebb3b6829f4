//! A job that three machines start at each of its times runs once: while machines die at random, and while the primary does.
//!
//! Each run writes down its fencing token, which is the server's time of its acquisition in milliseconds. The rules:
//!
//! - Two runs of a job are `--at-least` apart, whatever died between them. One exception for each job and fail-over: the first of the two
//!   was acquired at the old primary when its replicas received nothing any more (docs/SAFETY.md, on fail-over).
//! - The tokens of a job grow, in these cases too.
//! - A time without a run is explained by a machine that died, by exit codes other than 0, or by a late run of the time before.

use std::fs;
use std::path::Path;
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime};

use fastrand::Rng;
use rlock_testkit::TestServer;
use rlock_testkit::clients;
use rlock_testkit::clients::watched::{Member, Watched, await_heir};

use crate::figures::{self, Starts};
use crate::support::{Files, Running, Signal, ask, start_at};

/// `--at-least` and the lease: a machine that dies does not end the hold sooner.
const AT_LEAST: Duration = Duration::from_secs(8);

/// From one time of a job to its next.
const PERIOD: Duration = Duration::from_secs(10);

/// How late each machine may start the job: its clock, and its other work.
const LATENESS: [Duration; 3] = [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(6)];

/// Each has a lock of its own.
const JOBS: usize = 40;

/// Times in one round, which has servers of its own and one fail-over.
const ROUND: usize = 200;

/// For this time before the primary dies, its replicas receive nothing.
const UNREPLICATED: Duration = Duration::from_secs(1);

/// What may be on its way to the replicas at any moment.
const LAG: Duration = Duration::from_millis(500);

/// How long a machine may still try after that.
const PATIENCE: Duration = Duration::from_secs(10);

/// One machine in this number dies.
const DIES: u8 = 10;

/// A machine's part in one time of a job.
struct Part {
    killed: bool,
    /// What the others left that neither ran the job nor said that another machine does.
    failure: Option<String>,
}

/// One time of a job.
struct Due {
    job: usize,
    number: usize,
    /// By the wall clock, as all moments here, in ms.
    at: u64,
    parts: Vec<Part>,
}

/// A line of the job's log.
#[derive(Debug, Clone, Copy)]
struct Run {
    number: usize,
    token: u64,
}

/// When the replicas were cut off, and when the primary was killed, in ms.
struct FailOver {
    cut: u64,
    killed: u64,
    /// When all Sentinels knew the new primary.
    over: u64,
}

fn now() -> u64 {
    ms(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970"))
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("a short time")
}

fn up_to(random: &mut Rng, most: Duration) -> Duration {
    Duration::from_millis(random.u64(..=ms(most)))
}

#[test]
fn a_job_of_several_machines_runs_once() {
    let starts =
        std::env::var("RLOCK_STARTS").map_or(80, |text| text.parse().expect("RLOCK_STARTS: a number"));
    let seed = clients::seed();
    let mut random = Rng::with_seed(seed);
    let (mut sum, mut faults) = (Starts::default(), Vec::new());
    while sum.starts < starts {
        let times = (starts - sum.starts).min(ROUND).div_ceil(JOBS);
        round(times, &mut random, &mut sum, &mut faults);
    }
    println!("{sum:?}");
    assert!(faults.is_empty(), "{} faults, {sum:?}:\n{}", faults.len(), faults.join("\n"));
    assert!(sum.once * 10 > sum.starts * 7 && sum.killed > 0, "hardly anything ran: {sum:?}");
    figures::store_starts(sum, seed);
}

fn round(times: usize, random: &mut Rng, sum: &mut Starts, faults: &mut Vec<String>) {
    let watched = Watched::start();
    let (url, files) = (watched.url(), Files::new());
    let began = Instant::now();
    let jobs: Vec<_> = (0..JOBS)
        .map(|job| {
            let (url, log) = (url.clone(), files.path(&format!("job-{job}")).display().to_string());
            let mut random = random.fork();
            let first = began + PERIOD * u32::try_from(job).unwrap() / u32::try_from(JOBS).unwrap();
            thread::spawn(move || -> Vec<Due> {
                let due = |number: usize| first + PERIOD * u32::try_from(number).unwrap();
                (0..times)
                    .map(|number| start_all(&url, &log, job, number, due(number), &mut random))
                    .collect()
            })
        })
        .collect();
    sleep(PERIOD * u32::try_from(times).unwrap() / 2);
    let (fail_over, _servers) = fail_over(watched);
    let dues: Vec<Due> = jobs.into_iter().flat_map(|job| job.join().expect("a job's machines")).collect();
    sum.fail_overs += 1;
    for job in 0..JOBS {
        let dues: Vec<&Due> = dues.iter().filter(|due| due.job == job).collect();
        judge(&dues, &runs(&files.path(&format!("job-{job}"))), &fail_over, sum, faults);
    }
}

/// Starts the job on all machines, each somewhat late, and kills some of them.
fn start_all(url: &str, log: &str, job: usize, number: usize, due: Instant, random: &mut Rng) -> Due {
    sleep(due.saturating_duration_since(Instant::now()));
    let at = now();
    let death =
        |random: &mut Rng| (random.u8(..DIES) == 0).then(|| up_to(random, Duration::from_millis(400)));
    let mut machines: Vec<_> = LATENESS.iter().map(|most| (up_to(random, *most), death(random))).collect();
    machines.sort_unstable();
    let running: Vec<_> = machines
        .into_iter()
        .map(|(late, dies)| {
            sleep((due + late).saturating_duration_since(Instant::now()));
            let machine = start(url, log, job, number);
            if let Some(after) = dies {
                sleep(after);
                machine.signal(Signal::KILL);
            }
            (machine, dies.is_some())
        })
        .collect();
    let part = |(machine, killed): (Running, bool)| {
        let ended = machine.ended();
        Part { failure: (!killed && ended.code != Some(0)).then(|| format!("{ended:?}")), killed }
    };
    Due { job, number, at, parts: running.into_iter().map(part).collect() }
}

fn start(url: &str, log: &str, job: usize, number: usize) -> Running {
    let key = format!("report:{job}");
    let (keep, script) =
        (format!("{}s", AT_LEAST.as_secs()), format!("echo {number} $TOKEN >>'{log}'; sleep 0.05"));
    let once = ["run", &key, "--no-wait", "--conflict-exit-code", "0", "--lease", &keep, "--at-least", &keep];
    start_at(url, &[&once[..], &["--fence-env", "TOKEN", "--", "sh", "-c", &script]].concat())
}

/// Cuts the replicas off, kills the primary a second later, and waits until another one has taken over. Also returns the servers.
fn fail_over(watched: Watched) -> (FailOver, ([Member; 2], Vec<TestServer>)) {
    let Watched { primary: Member { server, door: _door }, replicas, sentinels } = watched;
    let signal = |signal: Signal| replicas.iter().for_each(|one| one.server.signal(signal.as_raw()));
    let cut = now();
    signal(Signal::STOP);
    // Nothing is sent to them any more, and they cannot connect again.
    assert_eq!(ask::<i64>(&mut server.connect(), "CLIENT KILL TYPE replica"), 2);
    sleep(UNREPLICATED);
    server.kill9();
    let killed = now();
    signal(Signal::CONT);
    await_heir(&sentinels, &replicas);
    (FailOver { cut, killed, over: now() }, (replicas, sentinels))
}

/// All runs of a job, in their order.
fn runs(log: &Path) -> Vec<Run> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let mut runs: Vec<Run> = text
        .lines()
        .map(|line| {
            let (number, token) = line.split_once(' ').expect("two numbers");
            Run { number: number.parse().expect("a number"), token: token.parse().expect("a token") }
        })
        .collect();
    runs.sort_by_key(|run| run.token);
    runs
}

/// Counts what became of a job's times, and adds what breaks the rules to `faults`.
fn judge(dues: &[&Due], runs: &[Run], fail_over: &FailOver, sum: &mut Starts, faults: &mut Vec<String>) {
    let lost = check_distances(runs, fail_over, faults);
    sum.lost += lost;
    if lost > 1 {
        faults.push(format!("one fail-over lost {lost} locks of one name"));
    }
    for (place, due) in dues.iter().enumerate() {
        sum.starts += 1;
        sum.killed += due.parts.iter().filter(|part| part.killed).count();
        let earlier = place.checked_sub(1).map(|before| dues[before]);
        let tokens: Vec<u64> =
            runs.iter().filter(|run| run.number == due.number).map(|run| run.token).collect();
        match &tokens[..] {
            [] if is_explained(due, earlier, runs) => sum.none += 1,
            [] => faults.push(format!("job {}, time {}: no run, and no reason", due.job, due.number)),
            [_] => sum.once += 1,
            [first, .., last] => {
                sum.again += tokens.len() - 1;
                sum.late += usize::from(last - first >= ms(AT_LEAST));
            }
        }
        let at_peace = due.at + ms(PERIOD) < fail_over.cut || due.at > fail_over.over + ms(PATIENCE);
        match due.failure().filter(|_| at_peace) {
            None => (),
            // On a machine that is overloaded.
            Some(failure) if failure.contains("no answer from") => sum.unanswered += 1,
            Some(failure) => {
                faults.push(format!("job {}, time {}, without a fail-over: {failure}", due.job, due.number));
            }
        }
    }
}

/// Two runs of a job are `--at-least` apart. Returns the number of exceptions that a fail-over excuses.
fn check_distances(runs: &[Run], fail_over: &FailOver, faults: &mut Vec<String>) -> usize {
    let unreplicated = fail_over.cut - ms(LAG)..=fail_over.killed;
    let mut lost = 0;
    for (first, second) in runs.iter().zip(runs.iter().skip(1)) {
        let apart = second.token - first.token;
        if apart == 0 || first.number > second.number {
            faults.push(format!("tokens that do not grow: {first:?}, {second:?}"));
        } else if apart < ms(AT_LEAST) {
            match unreplicated.contains(&first.token) && second.token > fail_over.killed {
                true => lost += 1,
                false => faults.push(format!("two runs {apart} ms apart: {first:?}, {second:?}")),
            }
        }
    }
    lost
}

/// A time without a run: a machine died or failed with the lock, or the time before was run late.
fn is_explained(due: &Due, earlier: Option<&Due>, runs: &[Run]) -> bool {
    let died = |due: &Due| due.failure().is_some() || due.parts.iter().any(|part| part.killed);
    let late = |run: &Run| run.number < due.number && run.token + ms(AT_LEAST) > due.at;
    died(due) || earlier.is_some_and(died) || runs.iter().any(late)
}

impl Due {
    fn failure(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| part.failure.as_deref())
    }
}
