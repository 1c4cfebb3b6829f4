//! Building the module under test.
//!
//! A test must never run a stale module. Cargo does not build a `cdylib` for the integration
//! tests of its own package, so the kit asks it to, once per process: nearly free when nothing
//! has changed.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

/// The workspace's root, two levels above this crate.
const KIT: &str = env!("CARGO_MANIFEST_DIR");

/// The module, freshly built in the release profile, or the one `RLOCK_MODULE` names.
///
/// `RLOCK_MODULE` is for testing a packaged build. Panics with cargo's output when the build fails.
pub fn module_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        named("RLOCK_MODULE")
            .unwrap_or_else(|| build_library("librlock", &["-p", "rlock-module", "--release", "--lib"]))
    })
}

/// The module with its fault injection, built in the dev profile, or the one `RLOCK_FAULT_MODULE` names.
///
/// It is `librlock.so` of the dev profile, which no other test loads. `RLOCK_MODULE` does not replace it.
pub fn fault_module_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        named("RLOCK_FAULT_MODULE").unwrap_or_else(|| {
            // The example is only for its features, see below: one that this feature does not change.
            let targets = ["--workspace", "--lib", "--example", "hello"];
            build_library(
                "librlock",
                &[&targets[..], &["--features", "rlock-module/fault-injection"]].concat(),
            )
        })
    })
}

/// The library that, preloaded into a server, sets its clocks: tests/fixtures/clock.rs.
pub(crate) fn clock_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build_library("libclock", &["--workspace", "--example", "clock"]))
}

/// Another module, which deletes a key in an event of rlock's: tests/fixtures/reacts.rs.
pub fn reacting_module_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build_library("libreacts", &["--workspace", "--example", "reacts"]))
}

/// A module with rlock's commands that decides nothing: tests/fixtures/bare.rs. Built with the features of its package, as the test
/// is that loads it.
pub fn bare_module_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build_library("libbare", &["-p", "rlock-module", "--example", "bare"]))
}

/// The file that this variable names, if it is set: a build of a package, or for a server of another kind.
fn named(variable: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env::var_os(variable).filter(|value| !value.is_empty())?);
    Some(
        path.canonicalize().unwrap_or_else(|error| {
            panic!("{variable} names {}: {error}; correct or unset it", path.display())
        }),
    )
}

/// Builds a cdylib of the module's package, and returns the path of `name`.so.
///
/// In the dev profile with the features of the whole workspace, as its tests are built: with those of one package, most crates would
/// be compiled a second time.
fn build_library(name: &str, arguments: &[&str]) -> PathBuf {
    let fixed = ["build", "--message-format=json-render-diagnostics"];
    let output = cargo(&[&fixed[..], arguments].concat());
    let artifacts = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let artifact =
        artifacts.flat_map(|message| strings(&message["filenames"])).find(|file| is_library(file, name));
    let path = artifact.unwrap_or_else(|| panic!("cargo built no {name}: is it still a cdylib?"));
    PathBuf::from(path)
}

fn is_library(file: &str, name: &str) -> bool {
    let stem = Path::new(file).file_stem().and_then(|stem| stem.to_str());
    let dynamic = [".so", ".dylib"].iter().any(|suffix| file.ends_with(suffix));
    dynamic && stem == Some(name)
}

/// Runs cargo in the workspace's root and returns what it printed; panics with it on failure.
fn cargo(arguments: &[&str]) -> String {
    let root = Path::new(KIT).ancestors().nth(2).expect("the kit is at crates/rlock-testkit");
    let program = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    // It may name a toolchain, as in `cargo +stable`.
    let (program, toolchain) = match program.split_once(" +") {
        Some((program, toolchain)) => (program, Some(format!("+{toolchain}"))),
        None => (program.as_str(), None),
    };
    let mut command = Command::new(program);
    command.args(toolchain);
    // What cargo tells a test of its package: build scripts of libraries would run again, and most crates would be compiled again.
    let of_package = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    };
    env::vars_os().map(|(name, _)| name).filter(of_package).for_each(|name| {
        command.env_remove(name);
    });
    let output = command
        .args(arguments)
        .current_dir(root)
        .output()
        .unwrap_or_else(|error| panic!("cannot run cargo: {error}; put it on the PATH"));
    assert!(
        output.status.success(),
        "`cargo {}` failed; mend the build first:\n{}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}

/// The strings of a list.
fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|item| Some(item.as_str()?.to_owned())).collect()
}
