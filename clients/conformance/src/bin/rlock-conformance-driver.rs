//! The reference driver program: the Rust client. `--wrong SWITCH` makes it a wrong client, to show that the suite notices.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wrong = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => None,
        ["--wrong", switch] => match switch.parse::<rlock_conformance::reference::Wrong>() {
            Ok(wrong) => Some(wrong),
            Err(error) => return usage(&error),
        },
        _ => return usage("no arguments, or --wrong SWITCH"),
    };
    rlock_conformance::reference::serve(wrong)
}

fn usage(error: &str) -> ExitCode {
    eprintln!("rlock-conformance-driver: {error}");
    ExitCode::from(2)
}
