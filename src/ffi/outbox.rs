//! Messages to enqueued waiters, which leave behind the reply of the command that they come from.
//!
//! The server writes to the client first whose output was added last. So the waiter that is granted a lock learns of it before the
//! client that released it is answered, as a blocked waiter does.

use std::cell::RefCell;

use super::ctx::Ctx;
use super::guard::{Callback, guarded};
use super::shared::Shared;
use super::string::OwnedString;

static OUTBOX: Shared<RefCell<Option<Outbox>>> = Shared::lazy();

/// What is kept back.
#[derive(Default)]
struct Outbox {
    /// Whether a command is under way.
    collects: bool,
    /// Channels and messages.
    messages: Vec<(OwnedString, OwnedString)>,
}

/// Carries out a command up to its reply, and sends its messages. A command inside it, of another module, leaves its own to it.
pub(super) fn messages_last(ctx: Ctx<'_>, command: impl FnOnce()) {
    let is_inner = OUTBOX.with(|outbox| std::mem::replace(&mut outbox.collects, true));
    command();
    if is_inner {
        return;
    }
    let messages = OUTBOX.with(|outbox| {
        outbox.collects = false;
        std::mem::take(&mut outbox.messages)
    });
    if !messages.is_empty() {
        guarded(Callback::Reply, (), || {
            messages
                .iter()
                .for_each(|(channel, message)| ctx.publish_here(channel.borrow(), message.borrow()));
        });
    }
}

impl Ctx<'_> {
    /// Tells an enqueued waiter something on its channel.
    pub(crate) fn tell(self, channel: &[u8], message: &[u8]) {
        let (channel, message) = (OwnedString::new(channel), OwnedString::new(message));
        let now = OUTBOX.with(|outbox| {
            if !outbox.collects {
                return Some((channel, message));
            }
            outbox.messages.push((channel, message));
            None
        });
        if let Some((channel, message)) = now {
            self.publish_here(channel.borrow(), message.borrow());
        }
    }
}
