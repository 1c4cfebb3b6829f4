//! A server in valgrind.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::{DataDir, ServerBuilder, TestServer};

/// Starts the server under test in valgrind with these options; files that they name are in the server's directory.
#[track_caller]
pub fn start(builder: ServerBuilder, options: &str) -> TestServer {
    let plain = TestServer::builder().without_module().start();
    let (program, dir) = (plain.binary().display(), DataDir::temporary());
    let wrapper = dir.path().join("server-in-valgrind");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" != --version ] || exec '{program}' --version\nexec valgrind {options} '{program}' \"$@\"\n"
    );
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    builder.binary(wrapper).dir(dir).start()
}
