use std::collections::BTreeMap;

use super::*;
use crate::server::facts::Fields;
use crate::server::servers::described;

/// A primary with a replica, as a healthy deployment has it, with these fields in place of its own.
fn server(address: &str, changes: &[(&str, &str)]) -> Patient {
    let healthy = [
        ("redis_version", "7.0.15"),
        ("rlock_version", "0.1.0"),
        ("role", "master"),
        ("connected_slaves", "1"),
        ("slave0", "ip=10.0.0.2,port=6379,state=online,offset=1,lag=0"),
        ("aof_enabled", "1"),
        ("aof_last_write_status", "ok"),
        ("rdb_last_bgsave_status", "ok"),
        ("maxmemory", "1000"),
        ("used_memory", "100"),
        ("maxmemory_policy", "noeviction"),
    ];
    let fields: Fields =
        healthy.iter().chain(changes).map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let answers = Answers {
        described: described(&fields),
        fields,
        hindrance: None,
        options: BTreeMap::from([("rlock.max-waiters".to_string(), "100000".to_string())]),
        fsync: Some("everysec".to_string()),
        ahead: Some(3),
        denied: Vec::new(),
        certificate_left: None,
    };
    Patient { address: address.to_string(), state: Ok(answers) }
}

fn shown(patients: &[Patient], alone: bool) -> Vec<(Severity, String)> {
    findings(patients, alone).into_iter().map(|finding| (finding.severity, finding.what)).collect()
}

#[test]
fn a_healthy_server_has_no_findings() {
    assert_eq!(shown(&[server("a:1", &[])], false), []);
}

#[test]
fn each_fault_is_a_finding() {
    type Case = (&'static [(&'static str, &'static str)], Severity, &'static str);
    let cases: [Case; 8] = [
        (&[("used_memory", "901")], Severity::Warning, "nine tenths of its memory"),
        (&[("aof_last_write_status", "err")], Severity::Wrong, "AOF cannot be written"),
        (&[("rdb_last_bgsave_status", "err")], Severity::Warning, "last snapshot failed"),
        (&[("connected_slaves", "0")], Severity::Warning, "no replica"),
        (&[("slave0", "ip=10.0.0.2,port=6379,state=online,offset=1,lag=11")], Severity::Warning, "for 11s"),
        (
            &[("role", "slave"), ("master_link_status", "down")],
            Severity::Wrong,
            "link to the primary is down",
        ),
        (&[("rlock_warning", "it evicts: set noeviction")], Severity::Warning, "it evicts"),
        (&[("rlock_server_warning", "MOVE")], Severity::Warning, "MOVE"),
    ];
    for (changes, severity, text) in cases {
        let found = shown(&[server("a:1", changes)], false);
        assert!(matches!(&found[..], [(is, what)] if *is == severity && what.contains(text)), "{found:?}");
    }
    let lonely = [("connected_slaves", "0"), ("aof_enabled", "0")];
    assert!(shown(&[server("a:1", &lonely)], true)[0].1.contains("neither an AOF nor a replica"));
    assert_eq!(shown(&[server("a:1", &[("connected_slaves", "0")])], true), []);
}

#[test]
fn a_certificate_that_expires_soon_is_a_finding() {
    for (days, expected) in [(15, None), (13, Some("its certificate expires in 13d00h"))] {
        let mut server = server("a:1", &[]);
        let left = std::time::Duration::from_secs(days * 24 * 3_600);
        server.state.as_mut().unwrap().certificate_left = Some(left);
        let found = shown(&[server], false);
        assert_eq!(found.first().map(|(_, what)| what.as_str()), expected);
    }
}

#[test]
fn servers_that_differ_are_findings_and_the_worst_comes_first() {
    let mut second = server("b:1", &[("rlock_version", "0.2.0"), ("aof_last_write_status", "err")]);
    let answers = second.state.as_mut().unwrap();
    answers.options.insert("rlock.max-waiters".to_string(), "7".to_string());
    answers.options.insert("rlock.accept".to_string(), "no".to_string());
    answers.ahead = Some(-600);
    let found = shown(&[server("a:1", &[]), second], false);
    assert_eq!(found[0], (Severity::Wrong, "its AOF cannot be written".to_string()));
    let rest: Vec<&str> = found[1..].iter().map(|(_, what)| what.as_str()).collect();
    assert_eq!(
        rest,
        [
            "the versions of the module differ: 0.1.0 (a:1); 0.2.0 (b:1)",
            "rlock.max-waiters differs: 100000 (a:1); 7 (b:1)",
            "the clocks differ, counted from this machine's: +3 ms (a:1); -600 ms (b:1)",
        ]
    );
}
