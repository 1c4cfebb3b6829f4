//! What is run, part by part.

use rlock_testkit::TestServer;
use rlock_testkit::docs::code;

use crate::place::{Outcome, Place, address, cluster, root, url};

/// One thing to show.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> Outcome,
}

/// The newest Redisson, and the last of those before.
const REDISSON: &str = "4.7.0";
const REDISSON_3: &str = "3.52.0";

pub(crate) const PARTS: &[Part] = &[
    Part { name: "redisson", run: || redisson_alone(REDISSON) },
    Part { name: "redisson-cluster", run: || redisson_cluster(REDISSON) },
    Part { name: "redisson-replica", run: redisson_replica },
    Part { name: "redisson-3", run: || redisson_alone(REDISSON_3) },
    Part { name: "redisson-3-cluster", run: || redisson_cluster(REDISSON_3) },
    Part { name: "python", run: python },
    Part { name: "node-redis", run: || node("node-redis") },
    Part { name: "ioredis", run: || node("ioredis") },
    Part { name: "go", run: go },
    Part { name: "java", run: java },
    Part { name: "rust", run: rust },
    Part { name: "redis-cli", run: redis_cli },
];

/// The code of a page for those who use a client library.
fn page(name: &str, language: &str) -> String {
    code(&root().join("docs/clients").join(format!("{name}.md")), language)
}

/// Builds integration/redisson with this version; the libraries are in `lib` then.
fn build_redisson(version: &str) -> Result<Place, String> {
    let place = Place::new(&format!("redisson-{version}"));
    let pom = root().join("integration/redisson/pom.xml").display().to_string();
    // Maven writes codes for colours even where it is told not to: what it says is of interest when it fails.
    let build = "mvn --batch-mode --quiet -f \"$0\" -Dout=\"$PWD\" -Dredisson.version=\"$1\" compile >build.log 2>&1 \
                 || { code=$?; cat build.log; exit $code; }";
    place.run("sh", &["-c", build, &pom, version])?;
    Ok(place)
}

fn redisson(version: &str, variables: &[(&str, String)], only: &str) -> Outcome {
    build_redisson(version)?.run_with("java", &["-cp", "classes:lib/*", "rlock.Main", only], variables)
}

fn redisson_alone(version: &str) -> Outcome {
    redisson(version, &[url(&TestServer::start())], "")
}

fn redisson_cluster(version: &str) -> Outcome {
    let nodes = cluster(3);
    redisson(version, &[url(&nodes[0]), ("REDIS_CLUSTER", "1".into())], "")
}

/// Redisson subscribes on a replica, which has no module. Messages wake it there; but the primary does not know of those
/// who listen to a replica, and so gives Redisson no turn while native clients wait all the time.
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
    place.run_with("venv/bin/python", &["page.py"], &[url(&TestServer::start())])
}

fn node(client: &str) -> Outcome {
    let place = Place::new("node");
    place.take("node", &["package.json", "package-lock.json"]);
    place.install("package-lock.json", || {
        place.run("npm", &["ci", "--loglevel=error", "--no-audit", "--no-fund"])
    })?;
    let program = format!("{client}.mjs");
    place.write(&program, &page(client, "js"));
    place.run_with("node", &[&program], &[url(&TestServer::start())])
}

fn go() -> Outcome {
    let place = Place::new("go");
    place.take("go", &["go.mod", "go.sum"]);
    place.write("main.go", &page("go", "go"));
    place.run("go", &["build", "-o", "page", "."])?;
    place.run_with("./page", &[], &[url(&TestServer::start())])
}

/// With the libraries that Redisson's part has brought.
fn java() -> Outcome {
    let place = build_redisson(REDISSON)?;
    place.write("Page.java", &page("java", "java"));
    place.run("javac", &["-cp", "lib/*", "-d", "page", "Page.java"])?;
    place.run_with("java", &["-cp", "page:lib/*", "Page"], &[url(&TestServer::start())])
}

fn rust() -> Outcome {
    let place = Place::new("rust");
    place.take("rust", &["Cargo.toml", "Cargo.lock"]);
    place.write("src/main.rs", &page("rust", "rust"));
    let target = ("CARGO_TARGET_DIR", place.path("target").display().to_string());
    place.run_with("cargo", &["run", "--quiet", "--locked"], &[url(&TestServer::start()), target])
}

fn redis_cli() -> Outcome {
    let place = Place::new("redis-cli");
    place.write("page.sh", &page("redis-cli", "sh"));
    place.run_with("sh", &["page.sh"], &[url(&TestServer::start())])
}
