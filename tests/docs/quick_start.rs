//! The Rust quick starts work for a new user: a new project, the commands of the page in their order, its first code.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use rlock_testkit::prelude::*;

/// The workspace's root.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Where the projects are built: they have the same dependencies.
const TARGET: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/quick-start");

/// The commands of the page that make the project.
fn commands(page: &str) -> Vec<&str> {
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block =
        blocks.into_iter().find(|block| block.contains("cargo add")).expect("the commands for a project");
    block.lines().map(|line| line.strip_prefix("$ ").expect("commands only")).collect()
}

/// The first code after these commands.
fn program(page: &str) -> &str {
    let (_, rest) = page.split_once("cargo add").expect("the commands");
    let (_, rest) = rest.split_once("```rust").expect("the code");
    let (_, rest) = rest.split_once('\n').expect("the code");
    rest.split("```").next().expect("the end of the code")
}

/// Runs lines in a shell, with the cargo of these tests, without the network, and with the versions of this workspace.
fn shell(folder: &Path, script: &str) -> Output {
    let cargo = std::env::var_os("CARGO").expect("cargo runs this test");
    let mut path = OsString::from(Path::new(&cargo).parent().expect("its folder"));
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    Command::new("sh")
        .args(["-ec", script])
        .current_dir(folder)
        .env("PATH", path)
        .env("CARGO_NET_OFFLINE", "true")
        .env("CARGO_TARGET_DIR", TARGET)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .output()
        .expect("a shell")
}

#[test]
fn a_new_user_gets_the_first_lock() {
    for path in ["README.md", "crates/rlock-client/README.md"] {
        let page = std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap();
        let server = TestServer::start();
        // A folder of the server will do: it is removed with the server.
        let folder = server.dir().join("new");
        std::fs::create_dir(&folder).unwrap();
        symlink(ROOT, folder.join("rlock")).unwrap();
        let main = program(&page);
        assert!(main.contains("redis://127.0.0.1:6399"), "{path}: {main}");
        std::fs::write(folder.join("main.rs"), main.replace("6399", &server.port().to_string())).unwrap();
        let [new, rest @ ..] = &commands(&page)[..] else { panic!("{path}: no commands") };
        let script = format!(
            "{new}\ncp ../rlock/Cargo.lock .\n{}\ncp ../main.rs src/\ncargo run --quiet\n",
            rest.join("\n")
        );
        let output = shell(&folder, &script);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{path}: {stderr}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "working\n", "{path}: {stderr}");
    }
}
