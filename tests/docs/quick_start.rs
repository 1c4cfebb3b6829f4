//! The Rust quick starts work for a new user: a new project, the commands of the page in their order, its first code.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use rlock_testkit::prelude::*;

/// The workspace's root.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Where the project is built: the folder of these tests, which has half of the dependencies built.
const TARGET: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/..");

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
    let pages = ["README.md", "crates/rlock-client/README.md"]
        .map(|path| (path, std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap()));
    let [(_, readme), (_, package)] = &pages;
    let [new, rest @ ..] = &commands(readme)[..] else { panic!("no commands") };
    assert_eq!(commands(readme), commands(package), "one project tries both pages");
    let server = TestServer::start();
    // A folder of the server will do: it is removed with the server.
    let folder = server.dir().join("new");
    std::fs::create_dir(&folder).unwrap();
    symlink(ROOT, folder.join("rlock")).unwrap();
    let script = format!("{new}\ncp ../rlock/Cargo.lock .\n{}\npwd\n", rest.join("\n"));
    let output = shell(&folder, &script);
    let said = String::from_utf8_lossy(&output.stdout);
    let project = Path::new(said.trim_end());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (path, page) in &pages {
        let main = program(page);
        assert!(main.contains("redis://127.0.0.1:6399"), "{path}: {main}");
        let main = main.replace("6399", &server.port().to_string());
        std::fs::write(project.join("src/main.rs"), main).unwrap();
        let output = shell(project, "cargo run --quiet");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{path}: {stderr}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "working\n", "{path}: {stderr}");
    }
}
