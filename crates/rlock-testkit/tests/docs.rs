//! Examples of a document are run and differences reported.

use rlock_testkit::docs::check_examples;
use rlock_testkit::{DataDir, TestServer};

const DOCUMENT: &str = r#"
```console
$ redis-cli -p 6399
127.0.0.1:6399> SET a 1 PX 60000  # a remark
OK
127.0.0.1:6399> PTTL a
(integer) ~60000
127.0.0.1:6399> MGET a b  # both
1) "1"
2) (nil)
127.0.0.1:6399> LPUSH a x
(error) WRONGTYPE Operation against a key holding the wrong kind of value
```

```console
$ make test
anything
```

```console
127.0.0.1:6399> GET a
"1"
```

```console
$ redis-cli GET a
127.0.0.1:6399> GET "a b"
```
"#;

#[test]
fn each_block_has_a_server_of_its_own() {
    let dir = DataDir::temporary();
    let document = dir.path().join("a.md");
    std::fs::write(&document, DOCUMENT).unwrap();
    let report = check_examples(&document, || TestServer::builder().without_module().start());
    assert_eq!(report.blocks, 3);
    let expected = [
        "a.md:21: 127.0.0.1:6399> GET a\n  documented:\n    \"1\"\n  printed:\n    (nil)",
        "a.md:26: $ redis-cli GET a: neither $ redis-cli -p 6399 nor plain words at the prompt",
        "a.md:27: 127.0.0.1:6399> GET \"a b\": neither $ redis-cli -p 6399 nor plain words at the prompt",
    ];
    assert_eq!(report.failures, expected);
}
