//! What `run` needs from the operating system.

/// The signals that this process ignores: bit n - 1 is signal n.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IgnoredSignals(u128);

impl IgnoredSignals {
    /// Asks the system; if it does not tell, no signal counts as ignored.
    pub(super) fn of_this_process() -> IgnoredSignals {
        IgnoredSignals(mask().unwrap_or(0))
    }

    pub(super) fn contains(self, signal: i32) -> bool {
        let bit = signal.checked_sub(1).and_then(|number| u32::try_from(number).ok());
        bit.and_then(|bit| 1_u128.checked_shl(bit)).is_some_and(|signal| self.0 & signal != 0)
    }
}

#[cfg(target_os = "linux")]
fn mask() -> Option<u128> {
    // The name of the process is in it, and need not be UTF-8.
    let status = std::fs::read("/proc/self/status").ok()?;
    mask_in_status(&String::from_utf8_lossy(&status))
}

/// The mask in the text of /proc/PID/status.
#[cfg(target_os = "linux")]
fn mask_in_status(status: &str) -> Option<u128> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u128::from_str_radix(mask.trim(), 16).ok()
}

/// The `ps` of BSD systems shows the mask.
#[cfg(not(target_os = "linux"))]
fn mask() -> Option<u128> {
    let process = std::process::id().to_string();
    let output = std::process::Command::new("ps").args(["-o", "sigignore=", "-p", &process]).output().ok()?;
    u128::from_str_radix(String::from_utf8_lossy(&output.stdout).trim(), 16).ok()
}

/// Makes rlock the parent of orphans below it, so that it sees the end of every process of the group, also in a container
/// without an init.
pub(super) fn adopt_orphans() {
    // Without it, rlock still asks for the group by its number.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\trlock\nSigQ:\t0/31474\nSigBlk:\t0000000000000002\n\
        SigIgn:\t0000000000001001\nSigCgt:\t0000000100000440\n";

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        let ignored = IgnoredSignals(mask_in_status(STATUS).expect("a mask"));
        let found: Vec<i32> = (-1..200).filter(|signal| ignored.contains(*signal)).collect();
        assert_eq!(found, [1, 13], "HUP and PIPE");
        // Some processors have 128 signals.
        let all = "SigIgn:\t8000000000000000000000000000000f\n";
        let ignored = IgnoredSignals(mask_in_status(all).expect("a mask"));
        assert!(ignored.contains(128) && ignored.contains(4) && !ignored.contains(5));
    }

    #[test]
    fn a_missing_or_invalid_mask_is_not_read() {
        for text in ["", "Name:\trlock\n", "SigIgn:\n", "SigIgn:\tno number\n", "Name:\tSigIgn:\t1\n"] {
            assert_eq!(mask_in_status(text), None, "{text:?}");
        }
    }

    /// Programs in Rust ignore PIPE.
    #[test]
    fn this_process_ignores_pipe() {
        let ignored = IgnoredSignals::of_this_process();
        assert!(ignored.contains(13) && !ignored.contains(9), "{ignored:?}");
    }
}
