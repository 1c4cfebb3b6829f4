//! Messages to enqueued waiters, which are sent after the reply of the command that caused them.
//!
//! The server writes to the client first whose output was added last. So the waiter that is granted a lock learns of it before the
//! client that released it is answered, as a blocked waiter does.

use std::cell::{Cell, RefCell};

use super::ctx::Ctx;
use super::guard::{Callback, guarded};
use super::shared::Shared;
use super::string::OwnedString;

/// Whether a command is under way, whose messages are kept back.
static COLLECTS: Shared<Cell<bool>> = Shared::cell(false);

/// Whether there are some.
static COLLECTED: Shared<Cell<bool>> = Shared::cell(false);

static OUTBOX: Shared<RefCell<Option<Messages>>> = Shared::lazy();

/// Channels and messages.
type Messages = Vec<(OwnedString, OwnedString)>;

/// Carries out a command up to its reply, and sends its messages after that. A nested command, of another module, leaves its messages to
/// it.
#[inline(always)]
pub(super) fn messages_last(ctx: Ctx<'_>, command: impl FnOnce()) {
    let is_inner = COLLECTS.replace(true);
    command();
    if is_inner {
        return;
    }
    COLLECTS.replace(false);
    if COLLECTED.replace(false) {
        send(ctx);
    }
}

#[inline(never)]
fn send(ctx: Ctx<'_>) {
    let messages = OUTBOX.with(std::mem::take);
    guarded(Callback::Reply, (), || {
        messages.iter().for_each(|(channel, message)| ctx.publish_here(channel.borrow(), message.borrow()));
    });
}

impl Ctx<'_> {
    /// Sends a message to an enqueued waiter on its channel.
    pub(crate) fn tell(self, channel: &[u8], message: &[u8]) {
        let (channel, message) = (OwnedString::new(channel), OwnedString::new(message));
        if COLLECTS.get() {
            COLLECTED.replace(true);
            OUTBOX.with(|messages| messages.push((channel, message)));
        } else {
            self.publish_here(channel.borrow(), message.borrow());
        }
    }
}
