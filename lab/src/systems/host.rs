//! The servers of one system, and processes of its clients.

use std::process::Command;

use rlock_testkit::{DataDir, TestServer, free_port};

use super::daemon::{Daemon, End, Recipe, prepare};
use super::install::{folder, library_version, postgres, redis_server};
use super::system::System;
use super::worker::ROLE;
use crate::client::Worker;

/// More connections than there are ever clients.
const CONNECTIONS: usize = 1_100;

/// The servers of a system; they end when this is dropped.
pub(super) struct Host {
    system: System,
    /// Replicas last.
    servers: Vec<TestServer>,
    daemons: Vec<Daemon>,
    ports: Vec<u16>,
    pub(super) version: String,
}

impl Host {
    pub(super) fn start(system: System) -> Host {
        match system {
            System::Postgres => start_postgres(),
            System::Dflockd => start_dflockd(),
            System::Etcd => start_etcd(system, 1),
            System::EtcdQuorum => start_etcd(system, 3),
            System::ZooKeeper => start_zookeeper(),
            _ => start_redis(system),
        }
    }

    /// The processes of its servers; PostgreSQL has one for each connection, as a child.
    pub(super) fn pids(&self) -> Vec<u32> {
        let servers = self.servers.iter().map(TestServer::pid);
        servers.chain(self.daemons.iter().map(Daemon::pid)).collect()
    }

    /// A process of clients, the locks or sessions of which last that long once it is gone.
    pub(super) fn worker(&self, lease_seconds: u64) -> Worker {
        let endpoints: Vec<String> = self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let milliseconds = (lease_seconds * 1_000).to_string();
        let mut command;
        match self.system {
            System::Etcd | System::EtcdQuorum => {
                command = Command::new(folder().join("etcd-worker"));
                command.arg(endpoints.join(",")).arg(lease_seconds.to_string());
            }
            System::ZooKeeper => {
                command = Command::new("java");
                command.args(["-cp", &class_path(), "Worker", &endpoints[0], &milliseconds]);
            }
            system => {
                command = Command::new(std::env::current_exe().expect("this program"));
                command.args([ROLE, system.name(), &self.ports[0].to_string(), &milliseconds]);
            }
        }
        Worker::spawn(command)
    }
}

fn class_path() -> String {
    let folder = folder().join("zookeeper");
    format!("{0}/classes:{0}/libraries/*", folder.display())
}

/// What a program says of its version: the first line, without what comes before the number.
fn version_of(name: &str, program: &std::path::Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned());
    format!("{name} {}", first_number(&text))
}

fn first_number(text: &str) -> &str {
    let word = text.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    word.unwrap_or("of an unknown version")
}

fn start_redis(system: System) -> Host {
    let valkey = matches!(system, System::RlockValkey | System::SetValkey);
    let binary = redis_server(if valkey { "valkey-9.1" } else { "redis-8.6" });
    let builder = || {
        let builder = TestServer::builder().binary(&binary);
        match system {
            System::SetRedis | System::SetValkey => builder.without_module(),
            System::RlockDurable => builder.conf("appendonly", "yes").conf("appendfsync", "always"),
            _ => builder,
        }
    };
    let mut servers = vec![builder().start()];
    if system == System::RlockDurable {
        let replica = builder().start();
        replica.replicate_from(&servers[0]);
        servers.push(replica);
    }
    let version = servers[0].version();
    let version = format!("{:?} {}.{}.{}", version.name, version.major, version.minor, version.patch);
    Host { system, ports: vec![servers[0].port()], servers, daemons: Vec::new(), version }
}

fn start_postgres() -> Host {
    let (data, port) = (DataDir::temporary(), free_port());
    let folder = data.path().join("data").display().to_string();
    let program = |name: &str| postgres(name).display().to_string();
    let words = [program("initdb"), "-D".into(), folder.clone(), "-U".into(), "postgres".into(), "-A".into()];
    prepare(&data, &[&words[..], &["trust".into(), "--no-sync".into()]].concat());
    let mut words = vec![program("postgres"), "-D".into(), folder];
    for setting in [
        "listen_addresses=127.0.0.1".into(),
        format!("port={port}"),
        "unix_socket_directories=".into(),
        format!("max_connections={CONNECTIONS}"),
        // By default each waiter looks for a deadlock after a second, and with 1,000 waiters nothing else happens for minutes.
        "deadlock_timeout=600s".into(),
    ] {
        words.extend(["-c".into(), setting]);
    }
    // It ends its children too.
    let mut daemon = Recipe { data, end: End::Quit, words, unprivileged: true }.start();
    daemon.accepts(port, "ready to accept connections");
    let version = version_of("PostgreSQL", &postgres("postgres"));
    Host { system: System::Postgres, servers: Vec::new(), daemons: vec![daemon], ports: vec![port], version }
}

fn start_dflockd() -> Host {
    let port = free_port();
    let daemon = dflockd(port);
    let version = version_of("dflockd", std::path::Path::new("dflockd"));
    Host { system: System::Dflockd, servers: Vec::new(), daemons: vec![daemon], ports: vec![port], version }
}

/// A server that leaves idle connections open; all else is as shipped.
pub(super) fn dflockd(port: u16) -> Daemon {
    let words = ["dflockd", "--host", "127.0.0.1", "--port", &port.to_string(), "--read-timeout", "86400"];
    let words = words.map(String::from).to_vec();
    let mut daemon =
        Recipe { data: DataDir::temporary(), end: End::Kill, words, unprivileged: false }.start();
    daemon.accepts(port, "");
    daemon
}

fn start_etcd(system: System, nodes: usize) -> Host {
    let ports: Vec<[u16; 2]> = (0..nodes).map(|_| [free_port(), free_port()]).collect();
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let members = ports.iter().enumerate().map(|(node, [_, peer])| format!("n{node}={}", url(*peer)));
    let members = members.collect::<Vec<String>>().join(",");
    let program = folder().join("etcd");
    let start = |(node, [client, peer]): (usize, &[u16; 2])| {
        let data = DataDir::temporary();
        let options = [
            ("name", format!("n{node}")),
            ("data-dir", data.path().join("data").display().to_string()),
            ("listen-client-urls", url(*client)),
            ("advertise-client-urls", url(*client)),
            ("listen-peer-urls", url(*peer)),
            ("initial-advertise-peer-urls", url(*peer)),
            ("initial-cluster", members.clone()),
            ("log-level", "error".into()),
        ];
        let mut words = vec![program.display().to_string()];
        words.extend(options.map(|(name, value)| format!("--{name}={value}")));
        Recipe { data, end: End::Kill, words, unprivileged: false }.start()
    };
    let mut daemons: Vec<Daemon> = ports.iter().enumerate().map(start).collect();
    for (daemon, [client, _]) in daemons.iter_mut().zip(&ports) {
        daemon.accepts(*client, "");
    }
    let version = version_of("etcd", &program);
    let ports = ports.into_iter().map(|[client, _]| client).collect();
    Host { system, servers: Vec::new(), daemons, ports, version }
}

fn start_zookeeper() -> Host {
    let (data, port) = (DataDir::temporary(), free_port());
    let file = data.path().join("zoo.cfg");
    let settings = format!(
        "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=2000\nmaxClientCnxns=0\n\
         admin.enableServer=false\n",
        data.path().join("data").display()
    );
    std::fs::write(&file, settings).expect("writing the configuration");
    let main = "org.apache.zookeeper.server.ZooKeeperServerMain";
    let words = ["java", "-Xmx512m", "-cp", &class_path(), main, &file.display().to_string()];
    let words = words.map(String::from).to_vec();
    let mut daemon = Recipe { data, end: End::Kill, words, unprivileged: false }.start();
    daemon.accepts(port, "");
    let (server, client) = (library_version("zookeeper"), library_version("curator-recipes"));
    let version = format!("ZooKeeper {server}, Curator {client}");
    Host { system: System::ZooKeeper, servers: Vec::new(), daemons: vec![daemon], ports: vec![port], version }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_first_number() {
        assert_eq!(first_number("etcd Version: 3.7.3\nGit SHA: x"), "3.7.3");
        assert_eq!(first_number("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"), "15.18");
    }
}
