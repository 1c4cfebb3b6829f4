//! The module is built and loaded.

use rlock_testkit::{TestServer, fault_module_path, module_path};

fn loaded_modules(server: &TestServer) -> usize {
    let modules: Vec<redis::Value> = redis::cmd("MODULE").arg("LIST").query(&mut server.connect()).unwrap();
    modules.len()
}

/// How many modules a server of this version has of its own, or `None` if it takes no rlock.
fn built_in() -> Option<usize> {
    let server = TestServer::builder().without_module().start();
    let version = server.version();
    ((version.major, version.minor) >= (6, 2)).then(|| loaded_modules(&server))
}

#[test]
fn the_fault_injecting_module_is_another_file() {
    let Some(others) = built_in() else { return };
    assert_ne!(module_path(), fault_module_path());
    let server = TestServer::builder().module(fault_module_path()).start();
    assert_eq!(loaded_modules(&server), others + 1);
}
