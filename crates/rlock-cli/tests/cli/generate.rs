//! Completions and the manual pages.

use std::fs;
use std::process::Command;

use crate::support::{Ended, Files, at};

const SUBCOMMANDS: &str = "run lead status release force-release ls watch top ping health doctor exporter metrics dashboard \
    completions man";

#[track_caller]
fn printed(arguments: &[&str]) -> Ended {
    let ended = at("", arguments);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    ended
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = printed(&["completions", shell]).stdout;
        for subcommand in SUBCOMMANDS.split(' ') {
            assert!(text.contains(subcommand), "{subcommand} for {shell}");
        }
        assert!(text.contains("no-wait"), "options for {shell}");
        assert!(!text.contains("__launch"), "rlock's own call for {shell}");
    }
}

#[test]
fn bash_takes_its_completions() {
    let files = Files::new();
    fs::write(files.path("rlock.bash"), printed(&["completions", "bash"]).stdout).unwrap();
    let script = files.script(
        "source ./rlock.bash && COMP_WORDS=(rlock st) COMP_CWORD=1 && _rlock rlock st rlock && \
         echo \"${COMPREPLY[@]}\"",
    );
    let output = Command::new("bash").args(["-c", &script]).output().expect("bash");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "status\n", "{output:?}");
}

#[test]
fn the_manual_has_a_page_for_every_subcommand() {
    let page = printed(&["man"]).stdout;
    assert!(page.contains(".TH rlock 1") && page.contains("128+n"), "the exit codes are there");
    let files = Files::new();
    let directory = files.path("man").display().to_string();
    printed(&["man", "--dir", &directory]);
    assert_eq!(fs::read_to_string(files.path("man/rlock.1")).unwrap(), page);
    for subcommand in SUBCOMMANDS.split(' ') {
        let page = fs::read_to_string(files.path(&format!("man/rlock-{subcommand}.1"))).expect(subcommand);
        let call = format!("rlock {}", subcommand.replace('-', "\\-"));
        assert!(page.contains(".SH SYNOPSIS") && page.contains(&call), "{subcommand}: {page}");
        let takes_command = ["run", "lead"].contains(&subcommand);
        assert_eq!(page.contains(r"\-\- <\fICOMMAND\fR>..."), takes_command, "{subcommand}: {page}");
    }
}

#[test]
fn the_help_tells_the_exit_codes() {
    for arguments in [&["--help"][..], &["run", "--help"]] {
        let text = printed(arguments).stdout;
        for code in ["123", "124", "125", "126", "127", "128+n"] {
            assert!(text.contains(&format!("\n  {code}  ")), "{code}: {text}");
        }
    }
    assert!(printed(&["--version"]).stdout.starts_with("rlock 0."));
}
