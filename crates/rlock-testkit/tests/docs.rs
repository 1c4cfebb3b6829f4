//! Examples of a document are run and differences reported.

use rlock_testkit::docs::check_examples;
use rlock_testkit::{DataDir, TestServer};

const DOCUMENT: &str = r#"
```console
$ redis-cli -p 6399 SET "a b" 1 PX 60000  # a remark
OK
$ redis-cli -p 6399 PTTL "a b"
(integer) ~60000
127.0.0.1:6399> MGET "a b" "\x01"  # both
1) "1"
2) (nil)
$ sleep 0.01
$ redis-cli LPUSH "a b" x
(error) WRONGTYPE Operation against a key holding the wrong kind of value
```

```console
$ make test
anything
```

```console
$ redis-cli GET "a b"
"1"
```
"#;

#[test]
fn each_block_has_a_server_of_its_own() {
    let dir = DataDir::temporary();
    let document = dir.path().join("a.md");
    std::fs::write(&document, DOCUMENT).unwrap();
    let report = check_examples(&document, || TestServer::builder().without_module().start());
    assert_eq!(report.blocks, 2);
    let expected = "a.md:21: $ redis-cli GET \"a b\"\n  documented:\n    \"1\"\n  printed:\n    (nil)";
    assert_eq!(report.failures, [expected]);
}
