//! The parts of the tests with other clients.

use std::fs;

use rlock_client::Durability;
use rlock_testkit::clients::cluster::Cluster;
use rlock_testkit::docs::code;
use rlock_testkit::{ServerBuilder, TestServer, module_path};

use crate::orders::{self, on_a_changing_cluster};
use crate::place::{Outcome, Place, address, cluster, root, url};
use crate::rust_client;

/// The parts of a lane run one after the other, beside the other lanes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Uses the whole machine from time to time, to measure how long others wait: no two of these at once.
    Heavy,
    Light,
    /// The page of a client library: it mostly waits.
    Page,
}

/// One thing to show.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) lane: Lane,
    /// Whether it runs only when it is asked for.
    pub(crate) long: bool,
    /// The server it runs on, of those of the matrix; else the usual one.
    pub(crate) server: Option<&'static str>,
    pub(crate) run: fn() -> Outcome,
}

const fn part(name: &'static str, run: fn() -> Outcome) -> Part {
    Part { name, lane: Lane::Light, long: false, server: None, run }
}

const fn page_of(name: &'static str, run: fn() -> Outcome) -> Part {
    Part { lane: Lane::Page, ..part(name, run) }
}

const fn heavy(name: &'static str, run: fn() -> Outcome) -> Part {
    Part { lane: Lane::Heavy, ..part(name, run) }
}

const fn long(part: Part) -> Part {
    Part { long: true, ..part }
}

const fn on(server: &'static str, part: Part) -> Part {
    Part { server: Some(server), ..part }
}

/// The newest Redisson, and the last of those before.
const REDISSON: &str = "4.7.0";
const REDISSON_3: &str = "3.52.0";

/// A selection of the scenarios, by parts of their names: something of each kind.
const SHORT: &str = "respects|fencing tokens|missed by|forceUnlock|listener|multi lock|in the order they came|readers of both sides|\
                     outlives|never two holders";

pub(crate) const PARTS: &[Part] = &[
    heavy("redisson", redisson_beside_rust),
    heavy("redisson-cluster", || redisson_cluster(REDISSON)),
    part("redisson-replica", redisson_replica),
    part("redisson-changes", || redisson_changes(REDISSON)),
    part("redisson-loading", || redisson_loading(REDISSON)),
    on("valkey-9.1", part("redisson-valkey", || redisson(REDISSON, &[url(&TestServer::start())], SHORT))),
    long(heavy("redisson-3", || redisson_alone(REDISSON_3))),
    long(heavy("redisson-3-cluster", || redisson_cluster(REDISSON_3))),
    long(part("redisson-3-loading", || redisson_loading(REDISSON_3))),
    long(heavy("redisson-3-changes", || redisson_changes(REDISSON_3))),
    long(on("valkey-9.1", heavy("redisson-valkey-9", redisson_beside_rust))),
    long(on("valkey-8.1", heavy("redisson-valkey-8", || redisson_alone(REDISSON)))),
    long(on("valkey-9.1", heavy("redisson-valkey-cluster", || redisson_cluster_with_replicas(REDISSON)))),
    long(on("valkey-9.1", heavy("redisson-valkey-changes", || redisson_changes(REDISSON)))),
    long(on("valkey-9.1", part("redisson-valkey-loading", || redisson_loading(REDISSON)))),
    long(part("redisson-control", || redisson_control(REDISSON))),
    long(part("redisson-3-control", || redisson_control(REDISSON_3))),
    long(heavy("redisson-replicas-cluster", || redisson_cluster_with_replicas(REDISSON))),
    page_of("python", python),
    page_of("node-redis", || node("node-redis")),
    page_of("ioredis", || node("ioredis")),
    page_of("go", || go("go", &page("go", "go"), &[])),
    page_of("go-sections", go_sections),
    long(page_of("redsync", || go("from-redsync", &page("from-redsync", "go"), &["ways.go"]))),
    page_of("java", java),
    page_of("php", || script("php", "php")),
    page_of("ruby", || script("ruby", "rb")),
    page_of("rust", rust),
    page_of("redis-cli", redis_cli),
];

/// Builds what several of the parts need, so that no two build it at once.
pub(crate) fn prepare(parts: &[&Part]) -> Outcome {
    let any = |begins: &str| parts.iter().any(|part| part.name.starts_with(begins));
    if any("redisson") || any("java") {
        build_redisson(REDISSON)?;
    }
    if any("redisson-3") {
        build_redisson(REDISSON_3)?;
    }
    Ok(())
}

/// The code of the page for users of a client library.
fn page(name: &str, language: &str) -> String {
    code(&root().join("docs/clients").join(format!("{name}.md")), language)
}

/// A file that a page tells its users to copy.
fn code_to_copy(name: &str) -> String {
    let path = root().join("docs/clients/code").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Copies files that a page tells its users to copy.
fn copy_code(place: &Place, names: &[&str]) {
    names.iter().for_each(|name| place.write(name, &code_to_copy(name)));
}

/// The test of a page, which the page does not show.
fn test(path: &str) -> String {
    let path = root().join("integration/interop").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The code of a page, and its test behind it.
fn tested(name: &str, language: &str, path: &str) -> String {
    page(name, language) + &test(path)
}

/// Builds integration/redisson with this version; the libraries are in `lib` afterwards.
fn build_redisson(version: &str) -> Result<Place, String> {
    let place = Place::new(&format!("redisson-{version}"));
    let home = root().join("integration/redisson");
    let pom = home.join("pom.xml");
    let mut files = vec![pom.clone(), root().join("integration/pom.xml")];
    let sources = fs::read_dir(home.join("src/main/java/rlock")).map_err(|error| error.to_string())?;
    files.extend(sources.flatten().map(|file| file.path()));
    files.sort();
    let sources: String = files.iter().map(|file| fs::read_to_string(file).unwrap_or_default()).collect();
    // Maven writes colour codes even in batch mode: its output is shown only if it fails.
    let build = "mvn --batch-mode --quiet -f \"$0\" -Dout=\"$PWD\" -Dredisson.version=\"$1\" compile >build.log 2>&1 \
                 || { code=$?; cat build.log; exit $code; }";
    place.once(&sources, || place.run("sh", &["-c", build, &pom.display().to_string(), version]))?;
    Ok(place)
}

fn redisson(version: &str, variables: &[(&str, String)], only: &str) -> Outcome {
    build_redisson(version)?.run_with("java", &java_of("classes:lib/*", &["rlock.Main", only]), variables)
}

/// The arguments of a Java program that ends within seconds: an optimising compiler would cost more than it saves.
fn java_of<'a>(classes: &'a str, program: &[&'a str]) -> Vec<&'a str> {
    [&["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classes], program].concat()
}

fn redisson_alone(version: &str) -> Outcome {
    redisson(version, &[url(&TestServer::start())], "")
}

fn redisson_cluster(version: &str) -> Outcome {
    let nodes = cluster(TestServer::builder);
    redisson(version, &[url(&nodes.primaries[0]), ("REDIS_CLUSTER", "1".into())], "")
}

/// Slots move, and primaries fail or are replaced.
fn redisson_changes(version: &'static str) -> Outcome {
    let cluster = Cluster::start_with_replicas(3);
    let client = orders::rust_client(&cluster)?;
    on_a_changing_cluster(cluster, client, move |variables| redisson(version, variables, ""))
}

/// The control, for Redisson's own behaviour: it is the same without the module.
fn redisson_control(version: &'static str) -> Outcome {
    let run = |node: fn() -> ServerBuilder| {
        let control = ("CONTROL", "1".into());
        on_a_changing_cluster(cluster(node), control, move |variables| redisson(version, variables, ""))
    };
    println!("without the module:");
    run(|| TestServer::builder().without_module())?;
    println!("with it:");
    run(TestServer::builder)
}

/// Each primary with a replica, which Redisson waits for and reads from.
fn redisson_cluster_with_replicas(version: &str) -> Outcome {
    let nodes = Cluster::start_with_replicas(3);
    redisson(version, &[url(&nodes.primaries[0]), ("REDIS_CLUSTER", "1".into())], "")
}

/// And beside the Rust client.
fn redisson_beside_rust() -> Outcome {
    let server = TestServer::start();
    let client = rust_client::serve(&address(&server), Durability::None)?;
    redisson(REDISSON, &[url(&server), ("RUST_CLIENT", client)], "")
}

/// The module is loaded while Redisson runs: it stays, so each scenario has a server of its own.
fn redisson_loading(version: &str) -> Outcome {
    for scenario in ["what Redisson held and awaited", "threads of Redisson take turns"] {
        let server = TestServer::builder().without_module().start();
        let module = ("MODULE", module_path().display().to_string());
        redisson(version, &[url(&server), module], scenario)?;
    }
    Ok(())
}

/// Redisson subscribes on a replica, which has no module. Messages wake it there; but the primary does not know the
/// subscribers of a replica, and does not yield to Redisson while native clients wait all the time.
fn redisson_replica() -> Outcome {
    let (primary, replica) = (TestServer::start(), TestServer::builder().without_module().start());
    replica.replicate_from(&primary);
    redisson(REDISSON, &[url(&primary), ("REDIS_REPLICA_URL", address(&replica))], "Redisson waiter")
}

fn python() -> Outcome {
    let place = Place::new("python");
    place.take("python", &["requirements.txt"]);
    place.install("requirements.txt", || {
        place.run("python3", &["-m", "venv", "--clear", "venv"])?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"];
        place.run("venv/bin/python", &[&pip[..], &["-r", "requirements.txt"]].concat())
    })?;
    place.write("page.py", &page("python", "python"));
    let package = root().join("clients/python/src").display().to_string();
    place.run_with("venv/bin/python", &["page.py"], &[url(&TestServer::start()), ("PYTHONPATH", package)])
}

fn node(client: &str) -> Outcome {
    let place = Place::new("node");
    place.take("node", &["scenarios.mjs"]);
    // The drivers are those of the JavaScript client's own tests, which this installs. The client may be in use beside it: it is not built.
    let package = root().join("clients/javascript");
    place.run("sh", &[&package.join("check.sh").display().to_string(), "packages"])?;
    let modules = package.join("node_modules").display().to_string();
    place.run("sh", &["-c", "rm -rf node_modules && ln -s \"$0\" node_modules", &modules])?;
    copy_code(&place, &["held.mjs", &format!("{client}.mjs")]);
    let program = format!("{client}.test.mjs");
    place.write(&program, &tested(client, "js", &format!("node/{program}")));
    place.run_with("node", &[&program], &[url(&TestServer::start())])
}

/// The code of a page, with its test in a file beside it.
fn go(name: &str, code: &str, test: &[&str]) -> Outcome {
    let place = Place::new(name);
    place.take("go", &[&["go.mod", "go.sum"], test].concat());
    place.write("main.go", code);
    let package = format!("-replace=rlock.invalid/client={}", root().join("clients/go").display());
    place.run("go", &["mod", "edit", &package])?;
    place.run("go", &["build", "-o", "page", "."])?;
    place.run_with("./page", &[], &[url(&TestServer::start())])
}

/// The functions of the page's sections, with a job that starts every second.
fn go_sections() -> Outcome {
    let once = page("go", "go once").replace("* * * * *", "@every 1s");
    go("go-sections", &(test("go/sections.go") + &once + &page("go", "go otel")), &[])
}

/// With the libraries of the Redisson part.
fn java() -> Outcome {
    let place = build_redisson(REDISSON)?;
    copy_code(&place, &["Locks.java"]);
    place.write("Example.java", &page("jedis", "java"));
    place.write("Page.java", &test("java/Page.java"));
    place.run("javac", &["-cp", "lib/*", "-d", "page", "Locks.java", "Example.java", "Page.java"])?;
    place.run_with("java", &java_of("page:lib/*", &["Page"]), &[url(&TestServer::start())])
}

/// The page as a file that its test loads, beside the code that it tells to copy.
fn script(language: &str, extension: &str) -> Outcome {
    let (place, check) = (Place::new(language), format!("check.{extension}"));
    copy_code(&place, &[&format!("locks.{extension}")]);
    place.write(&check, &test(&format!("{language}/{check}")));
    place.write(&format!("page.{extension}"), &page(language, language));
    place.run_with(language, &[&check], &[url(&TestServer::start())])
}

fn rust() -> Outcome {
    let place = Place::new("rust");
    place.take("rust", &["Cargo.toml"]);
    // The page's crates have the workspace's versions.
    place.take("../..", &["Cargo.lock"]);
    place.write("src/lock.rs", &code_to_copy("lock.rs"));
    place.write("src/main.rs", &tested("rust", "rust", "rust/test.rs"));
    let target = ("CARGO_TARGET_DIR", place.path("target").display().to_string());
    place.run_with("cargo", &["run", "--quiet"], &[url(&TestServer::start()), target])
}

fn redis_cli() -> Outcome {
    let place = Place::new("redis-cli");
    place.write("page.sh", &tested("redis-cli", "sh", "redis-cli/test"));
    place.run_with("sh", &["page.sh"], &[url(&TestServer::start())])
}
