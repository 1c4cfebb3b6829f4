//! A wait for a lock, as the server shows it.

use rlock_client::Info;

use crate::names;

/// How much of an owner is shown.
pub(super) const OWNER: usize = 40;

/// What the server says about a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// The first holder, and how many others there are.
    holder: Option<(String, u64)>,
    /// How many waiters are before this client; `None` if it is not in the part of the queue that is shown.
    before: Option<usize>,
}

impl Seen {
    /// Reads what concerns the client whose owners begin with `client`.
    pub(super) fn new(info: &Info, client: &str) -> Seen {
        let holder = info.holders.first().map(|holder| {
            let owner = names::shortened(&names::shown(&holder.owner), OWNER);
            (owner, info.holder_count.saturating_sub(1))
        });
        let before = info.queue.iter().position(|waiter| waiter.owner.starts_with(client.as_bytes()));
        Seen { holder, before }
    }

    pub(super) fn text(&self) -> String {
        let holder = match &self.holder {
            Some((owner, 0)) => format!(", held by {owner}"),
            Some((owner, 1)) => format!(", held by {owner} and 1 other"),
            Some((owner, others)) => format!(", held by {owner} and {others} others"),
            None => String::new(),
        };
        let before = match self.before {
            Some(0) => "; next in the queue".to_string(),
            Some(1) => "; 1 waiter before this one".to_string(),
            Some(count) => format!("; {count} waiters before this one"),
            None => String::new(),
        };
        holder + &before
    }
}
