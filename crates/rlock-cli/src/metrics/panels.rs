//! The panels of the dashboard for Grafana. A new metric of `fields.rs` needs a query here, which a test checks.

/// Panels below a heading, from left to right; a line of panels is 24 wide.
pub(super) struct Row {
    /// Links to a panel have its number: a number stays, and a new panel or row gets a number that none had.
    pub(super) id: u32,
    pub(super) title: &'static str,
    pub(super) panels: &'static [Panel],
}

pub(super) struct Panel {
    pub(super) id: u32,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) shows: Shows,
    /// Each query and its legend. A query that only names a counter asks for the counter's rate on all servers together. A name without
    /// braces concerns the chosen servers, and `[]` is the interval of the graph.
    pub(super) queries: &'static [(&'static str, &'static str)],
}

/// What a panel draws.
pub(super) enum Shows {
    /// One number in this unit, red from this value on.
    Stat(&'static str, u32),
    /// Lines over time, in this unit.
    Lines(&'static str),
    Table(Columns),
}

/// The columns of a table.
pub(super) struct Columns {
    /// The column by which the table is sorted, and whether the largest value comes first.
    pub(super) sorted_by: Option<(&'static str, bool)>,
    /// The names of the queries' values, in the queries' order; an empty name hides the values.
    pub(super) values: &'static [&'static str],
    /// The first columns, by label or by the name of the value.
    pub(super) order: &'static [&'static str],
    pub(super) hidden: &'static [&'static str],
    /// The columns in seconds.
    pub(super) seconds: &'static [&'static str],
    /// The column whose 0 and 1 are a server that is down or up.
    pub(super) up: Option<&'static str>,
}

impl Panel {
    const fn new(id: u32, title: &'static str, (width, height): (u32, u32), shows: Shows) -> Panel {
        Panel { id, title, description: "", width, height, shows, queries: &[] }
    }

    const fn about(self, description: &'static str) -> Panel {
        Panel { description, ..self }
    }

    const fn asks(self, queries: &'static [(&'static str, &'static str)]) -> Panel {
        Panel { queries, ..self }
    }
}

const fn stat(id: u32, title: &'static str, unit: &'static str, red: u32) -> Panel {
    Panel::new(id, title, (4, 4), Shows::Stat(unit, red))
}

const fn lines(id: u32, title: &'static str, size: (u32, u32), unit: &'static str) -> Panel {
    Panel::new(id, title, size, Shows::Lines(unit))
}

const fn table(id: u32, title: &'static str, size: (u32, u32), columns: Columns) -> Panel {
    Panel::new(id, title, size, Shows::Table(columns))
}

pub(super) const ROWS: [Row; 5] = [
    Row { id: 1, title: "Now", panels: &NOW },
    Row { id: 10, title: "Which locks cost waiting", panels: &HOT_LOCKS },
    Row { id: 13, title: "Waiting", panels: &WAITING },
    Row { id: 20, title: "Exclusion", panels: &EXCLUSION },
    Row { id: 24, title: "Servers", panels: &SERVERS },
];

const SERVER_COLUMNS: Columns = Columns {
    sorted_by: Some(("up", false)),
    values: &["up", ""],
    order: &["server", "up", "role"],
    hidden: &["Time", "instance"],
    seconds: &[],
    up: Some("up"),
};

const LOCK_COLUMNS: Columns = Columns {
    sorted_by: Some(("waited", true)),
    values: &["waited", "waiters", "longest wait", "denied", "ended waits", "waited too large by"],
    order: &[
        "key",
        "db",
        "server",
        "waited",
        "waiters",
        "longest wait",
        "ended waits",
        "denied",
        "waited too large by",
    ],
    hidden: &["Time", "instance"],
    seconds: &["waited", "longest wait", "waited too large by"],
    up: None,
};

const EXPORTER_COLUMNS: Columns = Columns {
    sorted_by: None,
    values: &[],
    order: &[],
    hidden: &["Time", "instance", "job", "__name__"],
    seconds: &[],
    up: None,
};

const NOW: [Panel; 8] = [
    stat(2, "Servers down", "short", 1)
        .about("Servers that do not answer.")
        .asks(&[("count(rlock_up == 0) or vector(0)", "")]),
    stat(3, "Without the module", "short", 1)
        .about("Servers that can become primary, without the module.")
        .asks(&[(
            "count(rlock_module_loaded == 0 \
             and on (instance, server) rlock_may_become_primary == 1) or vector(0)",
            "",
        )]),
    stat(4, "May evict locks", "short", 1)
        .about("Servers whose maxmemory-policy allows to evict locks.")
        .asks(&[("sum(rlock_locks_may_be_evicted)", "")]),
    stat(5, "Panics, refused effects", "short", 1)
        .about(
            "Bugs that the module caught, and effects that the server refused, \
             since the module was loaded.",
        )
        .asks(&[("sum(rlock_panics_total) + sum(rlock_replication_failures_total)", "")]),
    stat(6, "Waiters", "short", 1000)
        .about("Waiters now, on all servers.")
        .asks(&[("sum(rlock_waiters)", "")]),
    stat(7, "Longest running wait", "s", 300)
        .about(
            "Of the hot locks. A running wait counts once it is longer than all waits \
             before it for the same lock.",
        )
        .asks(&[(
            "max(rlock_hot_lock_longest_wait_seconds and rlock_hot_lock_waiters > 0 \
             and delta(rlock_hot_lock_longest_wait_seconds[]) > 0) or vector(0)",
            "",
        )]),
    table(8, "Servers", (14, 7), SERVER_COLUMNS)
        .about("Each server with its version and role; of one that is down, those of the last hour.")
        .asks(&[
            ("sum by (instance, server) (rlock_up)", ""),
            (
                "sum by (instance, server, role, kind, version, module) (rlock_server_info \
                 or on (instance, server) last_over_time(rlock_server_info[1h]))",
                "",
            ),
        ]),
    lines(9, "Servers that answer", (10, 7), "short")
        .about("0 is down. Discovery: whether a server that the exporter's URL names answers.")
        .asks(&[("rlock_up", "{{server}}"), ("rlock_discovery_up{instance=~\"$instance\"}", "discovery")]),
];

const HOT_LOCKS: [Panel; 3] = [
    table(11, "Hot locks", (24, 9), LOCK_COLUMNS)
        .about(
            "RLOCK.HOT: the locks whose waiters have waited longest together, \
             since each lock is in the table. rlock status shows the holder.",
        )
        .asks(&[
            ("sum by (instance, server, db, key) (rlock_hot_lock_waited_seconds_total)", ""),
            ("sum by (instance, server, db, key) (rlock_hot_lock_waiters)", ""),
            ("sum by (instance, server, db, key) (rlock_hot_lock_longest_wait_seconds)", ""),
            ("sum by (instance, server, db, key) (rlock_hot_lock_denied_total)", ""),
            ("sum by (instance, server, db, key) (rlock_hot_lock_waits_total)", ""),
            ("sum by (instance, server, db, key) (rlock_hot_lock_error_seconds)", ""),
        ]),
    lines(12, "Waiters by hot lock", (12, 8), "short")
        .about(
            "Many waiters and many ended waits are a herd; \
             waiters without ended waits are a lock that is stuck.",
        )
        .asks(&[("topk(10, rlock_hot_lock_waiters > 0)", "{{key}} on {{server}}")]),
    lines(31, "Ended waits by hot lock", (12, 8), "ops")
        .about("With or without the lock.")
        .asks(&[("topk(10, rate(rlock_hot_lock_waits_total[]))", "{{key}} on {{server}}")]),
];

const WAITING: [Panel; 6] = [
    lines(14, "Waiters", (8, 8), "short").about("The limit is shown from half of it on.").asks(&[
        ("rlock_waiters", "{{server}}"),
        ("rlock_max_waiters and rlock_waiters > 0.5 * rlock_max_waiters", "limit of {{server}}"),
        ("rlock_waiters_peak and rlock_waiters > 0", "peak of {{server}}"),
        ("rlock_user_waiters", "one user of {{server}}"),
        (
            "rlock_max_waiters * rlock_max_share_per_user_percent / 100 \
             and rlock_user_waiters > 0.5 * rlock_max_waiters * rlock_max_share_per_user_percent / 100",
            "share of a user of {{server}}",
        ),
    ]),
    lines(15, "Waits that got the lock", (8, 8), "s").asks(&[
        ("histogram_quantile(0.50, sum by (le) (rate(rlock_wait_seconds_bucket[])))", "50 %"),
        ("histogram_quantile(0.90, sum by (le) (rate(rlock_wait_seconds_bucket[])))", "90 %"),
        ("histogram_quantile(0.99, sum by (le) (rate(rlock_wait_seconds_bucket[])))", "99 %"),
        ("sum(rate(rlock_wait_seconds_sum[])) / sum(rate(rlock_wait_seconds_count[]))", "mean"),
    ]),
    lines(16, "How waits end", (8, 8), "ops").asks(&[
        ("rlock_hand_offs_total", "hand-offs"),
        ("rlock_timeouts_total", "time-outs"),
        ("rlock_cancelled_total", "cancelled"),
        ("rlock_waiters_gone_total", "disconnected"),
        ("rlock_waiters_sent_away_total", "sent away"),
    ]),
    lines(17, "Calls", (8, 8), "ops").asks(&[
        ("rlock_acquired_total", "acquired"),
        ("rlock_reentered_total", "re-entered"),
        ("rlock_denied_total", "denied"),
        ("rlock_released_total", "released"),
        ("rlock_partly_released_total", "partly released"),
        ("rlock_renewed_total", "renewed"),
        ("rlock_errors_total", "errors"),
        ("rlock_refused_by_share_total", "refused by share"),
    ]),
    lines(18, "Grants", (8, 8), "ops").asks(&[
        ("rlock_unconfirmed_grants_total", "unconfirmed"),
        ("rlock_revokes_total", "revoked"),
        ("rlock_foreign_turns_total", "left to Redisson clients"),
    ]),
    lines(19, "Ties of sessions", (8, 8), "short").about("The limit is shown from half of it on.").asks(&[
        ("rlock_ties", "{{server}}"),
        ("rlock_max_ties and rlock_ties > 0.5 * rlock_max_ties", "limit of {{server}}"),
        ("rlock_user_ties", "one user of {{server}}"),
    ]),
];

const EXCLUSION: [Panel; 3] = [
    lines(21, "Lost locks", (8, 8), "ops")
        .about("Releases and renewals without a hold.")
        .asks(&[("sum by (server) (rate(rlock_not_held_total[]))", "{{server}}")]),
    lines(22, "Locks that no rlock command freed", (8, 8), "ops")
        .about("With waiters, by cause.")
        .asks(&[("sum by (cause) (rate(rlock_found_free_total[]))", "{{cause}}")]),
    lines(23, "Released by force", (8, 8), "short")
        .asks(&[("sum by (server) (increase(rlock_force_released_total[]))", "{{server}}")]),
];

const SERVERS: [Panel; 6] = [
    lines(25, "Time to answer a scrape", (6, 8), "s")
        .asks(&[("rlock_scrape_duration_seconds", "{{server}}")]),
    lines(26, "Memory", (6, 8), "bytes").asks(&[
        ("rlock_server_used_memory_bytes", "{{server}}"),
        ("rlock_server_max_memory_bytes > 0", "maxmemory of {{server}}"),
    ]),
    lines(27, "Clients", (6, 8), "short").asks(&[
        ("rlock_server_connected_clients", "{{server}}"),
        (
            "rlock_server_max_clients and rlock_server_connected_clients > 0.5 * rlock_server_max_clients",
            "maxclients of {{server}}",
        ),
    ]),
    lines(28, "Scrape errors, refused locks, draining", (6, 8), "short").asks(&[
        ("sum by (server, question) (increase(rlock_scrape_errors_total[]))", "{{question}} of {{server}}"),
        ("rlock_accept == bool 0", "{{server}} drains"),
        ("rlock_writes_refused", "{{server}}: locks refused {{code}}"),
    ]),
    lines(29, "Messages and changes", (12, 6), "ops").asks(&[
        ("rlock_unlock_messages_total", "unlock messages"),
        ("rlock_unread_changes_total", "changes that no replica and no AOF reads"),
    ]),
    table(30, "Exporters", (12, 6), EXPORTER_COLUMNS)
        .about("The version of each exporter.")
        .asks(&[("rlock_exporter_info{instance=~\"$instance\"}", "")]),
];
