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
    /// A grant by message is held from the arrival of the message.
    LeaseFromMessage,
    /// A grant by message is held from the last request, not from the first.
    LeaseFromRepeat,
    /// A grant by message is never confirmed, however long it is held.
    NeverConfirms,
    /// A grant by message is held at once after a link broke.
    HoldsAfterABreak,
    /// A grant by message to an owner that may have been used before is held at once.
    HoldsForANamedOwner,
    /// A grant by message after a repeat is held at once with the token in the message.
    HoldsAnOldToken,
    /// A grant by message is held at once with less than half of its lease left.
    HoldsTooLate,
    /// A release ends the hold before `at_least` is over.
    ReleasesEarly,
    /// Renewals continue after `max_hold`.
    RenewsForEver,
    /// A hold that was detached is renewed.
    RenewsWhatItLeft,
    /// An adoption acquires the lock if it is free.
    AdoptsByAcquiring,
    /// Several locks are waited for in the order in which the caller named them.
    LocksAsNamed,
}

/// Each wrong client, and its switch.
const SWITCHES: [(Wrong, &str); 25] = [
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
    (Wrong::LeaseFromMessage, "lease-from-message"),
    (Wrong::LeaseFromRepeat, "lease-from-repeat"),
    (Wrong::NeverConfirms, "never-confirms"),
    (Wrong::HoldsAfterABreak, "holds-after-a-break"),
    (Wrong::HoldsForANamedOwner, "holds-for-a-named-owner"),
    (Wrong::HoldsAnOldToken, "holds-an-old-token"),
    (Wrong::HoldsTooLate, "holds-too-late"),
    (Wrong::ReleasesEarly, "releases-early"),
    (Wrong::RenewsForEver, "renews-for-ever"),
    (Wrong::RenewsWhatItLeft, "renews-what-it-left"),
    (Wrong::AdoptsByAcquiring, "adopts-by-acquiring"),
    (Wrong::LocksAsNamed, "locks-as-named"),
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
        self.holds_by_message()
            || matches!(
                self,
                Wrong::NoConfirmation | Wrong::NoRepeat | Wrong::NoHolds | Wrong::Polls | Wrong::NoCancel
            )
    }

    /// Whether a grant by message is held at once, in a way that the message does not allow.
    pub(super) fn holds_by_message(self) -> bool {
        matches!(
            self,
            Wrong::LeaseFromMessage
                | Wrong::LeaseFromRepeat
                | Wrong::NeverConfirms
                | Wrong::HoldsAfterABreak
                | Wrong::HoldsForANamedOwner
                | Wrong::HoldsAnOldToken
                | Wrong::HoldsTooLate
        )
    }
}
