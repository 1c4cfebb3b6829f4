//! Wrong clients: each is one difference to the reference driver, and one scenario or rule of the suite catches it.

use std::str::FromStr;

/// A wrong client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The lease counts from the reply.
    LeaseFromReply,
    /// A grant is handed out without a RENEW.
    NoConfirmation,
    /// A waiter that hears nothing asks nothing.
    NoRepeat,
    /// All acquisitions of a process have one owner.
    OwnerReused,
    /// A lost lock is held again.
    LostFlipsBack,
    /// RENEW continues after the release.
    RenewsAfterRelease,
    /// ACQUIRE without HOLDS.
    NoHolds,
    /// Asks every 50 ms instead of waiting.
    Polls,
    /// Leaves a connection open at close.
    LinkLeftOpen,
    /// A loss is reported two seconds late.
    LateLoss,
    /// A cancelled wait stays in the queue.
    NoCancel,
    /// A wait ends half a second late.
    LateTimeout,
    /// A session that was asked for is not said.
    NoSession,
}

/// Each wrong client, and its switch.
const SWITCHES: [(Wrong, &str); 13] = [
    (Wrong::LeaseFromReply, "lease-from-reply"),
    (Wrong::NoConfirmation, "no-confirmation"),
    (Wrong::NoRepeat, "no-repeat"),
    (Wrong::OwnerReused, "owner-reused"),
    (Wrong::LostFlipsBack, "lost-flips-back"),
    (Wrong::RenewsAfterRelease, "renews-after-release"),
    (Wrong::NoHolds, "no-holds"),
    (Wrong::Polls, "polls"),
    (Wrong::LinkLeftOpen, "link-left-open"),
    (Wrong::LateLoss, "late-loss"),
    (Wrong::NoCancel, "no-cancel"),
    (Wrong::LateTimeout, "late-timeout"),
    (Wrong::NoSession, "no-session"),
];

impl FromStr for Wrong {
    type Err = String;

    fn from_str(switch: &str) -> Result<Wrong, String> {
        let found = SWITCHES.iter().find(|(_, name)| *name == switch);
        found.map(|(wrong, _)| *wrong).ok_or_else(|| {
            let names: Vec<&str> = SWITCHES.iter().map(|(_, name)| *name).collect();
            format!("--wrong takes one of {}", names.join(", "))
        })
    }
}

impl Wrong {
    /// The name of the switch.
    pub fn switch(self) -> &'static str {
        SWITCHES.iter().find(|(wrong, _)| *wrong == self).map_or("", |(_, name)| name)
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Wrong> {
        SWITCHES.iter().map(|(wrong, _)| *wrong)
    }

    /// Whether acquisitions go by raw commands, around the client.
    pub(super) fn is_raw(self) -> bool {
        matches!(
            self,
            Wrong::NoConfirmation | Wrong::NoRepeat | Wrong::NoHolds | Wrong::Polls | Wrong::NoCancel
        )
    }
}
