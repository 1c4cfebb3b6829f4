//! The systems, and what each promises.

use crate::named::named;

named! {
    /// A system with its settings.
    enum System {
        Rlock = "rlock";
        RlockSession = "rlock-session";
        RlockDurable = "rlock-durable";
        RlockValkey = "rlock-valkey";
        SetRedis = "set-delex";
        SetValkey = "set-delifeq";
        Postgres = "postgresql";
        Dflockd = "dflockd";
        Etcd = "etcd";
        EtcdQuorum = "etcd-3";
        ZooKeeper = "zookeeper";
    }
}

named! {
    /// The part of the installation that a system needs.
    enum Package {
        Redis = "redis";
        Postgres = "postgresql";
        Dflockd = "dflockd";
        Etcd = "etcd";
        ZooKeeper = "zookeeper";
    }
}

/// What the tables say of a system besides figures.
pub(crate) struct Promise {
    pub(crate) label: &'static str,
    /// Where a hold is safe once its holder knows of it.
    pub(crate) durability: &'static str,
    /// What frees the lock of a process that was killed.
    pub(crate) freed_by: &'static str,
}

impl System {
    /// The one of this name.
    pub(super) fn named(name: &str) -> Option<System> {
        System::ALL.into_iter().find(|one| one.name() == name)
    }

    pub(super) fn package(self) -> Package {
        match self {
            System::Postgres => Package::Postgres,
            System::Dflockd => Package::Dflockd,
            System::Etcd | System::EtcdQuorum => Package::Etcd,
            System::ZooKeeper => Package::ZooKeeper,
            _ => Package::Redis,
        }
    }

    /// Whether a command renews its lease, which is measured.
    pub(super) fn renews(self) -> bool {
        matches!(self, System::Rlock | System::RlockValkey | System::SetRedis | System::SetValkey)
    }

    /// Whether it is another system only once a holder is gone.
    pub(super) fn only_recovers(self) -> bool {
        self == System::RlockSession
    }

    /// Whether its waiters ask again and again.
    pub(super) fn polls(self) -> bool {
        matches!(self, System::SetRedis | System::SetValkey)
    }

    /// Whether an acquisition waits for a disk.
    pub(super) fn waits_for_disks(self) -> bool {
        matches!(self, System::RlockDurable | System::Etcd | System::EtcdQuorum | System::ZooKeeper)
    }

    /// Whether a run without it is stored too: few machines have it.
    pub(super) fn is_optional(self) -> bool {
        self == System::Dflockd
    }

    /// Whether this program loads it with many connections.
    pub(crate) fn is_loaded(self) -> bool {
        !self.only_recovers() && !self.waits_for_disks()
    }

    /// Its texts for the tables.
    pub(crate) fn promise(self) -> Promise {
        match self {
            System::Rlock => RLOCK,
            System::RlockSession => RLOCK_SESSION,
            System::RlockDurable => RLOCK_DURABLE,
            System::RlockValkey => Promise { label: "rlock on Valkey", ..RLOCK },
            System::SetRedis => SET,
            System::SetValkey => Promise { label: "`SET NX PX`, `DELIFEQ`", ..SET },
            System::Postgres => POSTGRES,
            System::Dflockd => DFLOCKD,
            System::Etcd => ETCD,
            System::EtcdQuorum => ETCD_QUORUM,
            System::ZooKeeper => ZOOKEEPER,
        }
    }
}

const RLOCK: Promise = Promise { label: "rlock", durability: "memory", freed_by: "the lease, 10 s" };

const RLOCK_SESSION: Promise = Promise {
    label: "rlock, SESSION 1000",
    freed_by: "the end of the connection, and 1 s of grace",
    ..RLOCK
};

const RLOCK_DURABLE: Promise = Promise {
    label: "rlock, `appendfsync always`, `WAIT 1`",
    durability: "fsync of the primary and of a replica; no quorum elects a primary",
    ..RLOCK
};

const SET: Promise = Promise { label: "`SET NX PX`, `DELEX`", ..RLOCK };

const POSTGRES: Promise = Promise {
    label: "PostgreSQL, advisory lock",
    durability: "memory; a lock ends with its connection",
    freed_by: "the end of the connection",
};

const DFLOCKD: Promise = Promise {
    label: "dflockd",
    durability: "memory; a lock ends with its connection and with the server",
    freed_by: "the end of the connection",
};

const ETCD: Promise =
    Promise { label: "etcd, 1 node", durability: "fsync of the node", freed_by: "the session's lease, 10 s" };

const ETCD_QUORUM: Promise =
    Promise { label: "etcd, 3 nodes", durability: "fsync of a quorum, 2 of 3", ..ETCD };

const ZOOKEEPER: Promise =
    Promise { label: "ZooKeeper, 1 node", freed_by: "the session's timeout, 10 s", ..ETCD };
