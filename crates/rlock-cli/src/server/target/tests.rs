use super::*;

fn place_of(url: &str) -> Place {
    Place::parse(url, Certificates::default()).unwrap()
}

#[test]
fn urls_name_places() {
    let cases = [
        ("redis://a:1", "a:1", None),
        ("rediss://u:p@[::1]:7/3", "[::1]:7", None),
        ("unix:///run/redis", "/run/redis", None),
        ("redis+cluster://u:p@a:1,b", "a:1, b:6379", None),
        ("redis+sentinel://u:p@a:1,b,[::1]/app/3", "a:1, b:26379, [::1]:26379", Some("app")),
        ("valkeys+sentinel://a/app", "a:26379", Some("app")),
        ("valkey://a", "a:6379", None),
    ];
    for (url, address, service) in cases {
        let place = place_of(url);
        assert_eq!((place.address().as_str(), place.service()), (address, service), "{url}");
        assert_eq!(place.url, url);
    }
    for url in ["nonsense", "http://a", "redis+sentinel://a", "redis+other://a/b", "redis-sentinel://a/b"] {
        assert!(matches!(Place::parse(url, Certificates::default()), Err(Error::Url(_))), "{url}");
    }
}

#[test]
fn a_server_of_either_scheme_leads_to_its_cluster() {
    for scheme in ["redis", "rediss", "valkey", "valkeys"] {
        let cluster = place_of(&format!("{scheme}://u:p@a:1")).as_cluster().unwrap();
        assert_eq!(cluster.url, format!("{scheme}+cluster://u:p@a:1"));
        assert_eq!(place_of(&cluster.url).kind, ServerKind::Cluster);
    }
    for url in ["unix:///run/redis", "redis+cluster://a"] {
        assert!(place_of(url).as_cluster().is_none());
    }
}

/// The user and the password are those of the servers: Sentinels have their own, or none.
#[test]
fn other_servers_are_reached_as_the_same_user() {
    let cases = [
        ("redis://u:p%40%2F@a:1/3", "redis://u:p%40%2F@c:5/3"),
        ("redis://:p@a", "redis://:p@c:5/0"),
        ("rediss://a:1/#insecure", "rediss://c:5/0#insecure"),
        ("rediss+sentinel://a:1/app#insecure", "rediss://c:5/0#insecure"),
        ("redis+cluster://u:p@a:1,b", "redis://u:p@c:5/0"),
        ("redis+sentinel://u:p@a:1,b/app/3", "redis://u:p@c:5/3"),
        ("unix:///run/redis?db=2&user=u&pass=p", "redis://u:p@c:5/2"),
    ];
    for (url, other) in cases {
        let place = place_of(url);
        assert_eq!(Place::only(place.starts[0].at("c", 5)).url, other);
    }
    assert_eq!(place_of("redis+sentinel://u:p@a:1/app").starts[0].url(), "redis://a:1/0");
    let url = "redis+sentinel://u:p@a:1/app/3?sentinel_username=asker&sentinel_password=p%40/w";
    let place = place_of(url);
    assert_eq!(
        (place.starts[0].url(), place.service()),
        ("redis://asker:p%40%2Fw@a:1/0".into(), Some("app"))
    );
    assert_eq!(Place::only(place.starts[0].at("c", 5)).url, "redis://u:p@c:5/3");
    let socket = place_of("unix:///run/redis?db=2&user=u&pass=p").starts.remove(0);
    assert_eq!(Place::only(socket).url, "unix:///run/redis?db=2&user=u&pass=p");
}
