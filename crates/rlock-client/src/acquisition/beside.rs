//! Commands to another server than that of the session, which may tie the session there: while a slot moves.

use std::sync::Arc;

use redis::{Cmd, Value};
use rlock_links::{Failed, NoAnswer, Node};
use rlock_machine::{Input, State};

use super::Acquisition;

/// A command that the machine did not order. If it is dropped without an answer, the server may have carried it out.
struct Beside<'a> {
    acquisition: &'a Arc<Acquisition>,
    /// The server that it was sent to, if that is not the server of the session.
    node: Option<Arc<Node>>,
}

impl Acquisition {
    /// Sends a command that the machine did not order, and that may tie the session.
    pub(crate) async fn request(self: &Arc<Self>, command: Cmd) -> Result<Value, Failed> {
        let mut beside = Beside { acquisition: self, node: None };
        let router = &self.all.shared.router;
        let reply = router.request_noting(&self.claim.key, command, |node| beside.goes_to(node)).await;
        if let Err(Failed::Refused(_) | Failed::NoAnswer(NoAnswer::Unsent(_))) = reply {
            beside.was_refused();
        }
        reply
    }

    /// A command to another server has ended. If that server may have carried the command out, the session may be tied there: the
    /// machine ties the session anew.
    pub(super) fn leave_beside(self: &Arc<Self>, node: &Arc<Node>, may_be_carried_out: bool) {
        self.change(|state, now, out| {
            state.servers.beside = state.servers.beside.saturating_sub(1);
            let is_held = state.machine.state() == State::Held;
            if may_be_carried_out && is_held && !Arc::ptr_eq(&state.servers.session, node) {
                state.servers.session = node.clone();
                state.machine.input(now, Input::Down, out);
            }
        });
    }
}

impl Beside<'_> {
    /// The command is sent to this server next. The server before has refused it.
    fn goes_to(&mut self, node: &Arc<Node>) {
        self.was_refused();
        let mut state = self.acquisition.state();
        if self.acquisition.terms.extras.session.is_some() && !Arc::ptr_eq(&state.servers.session, node) {
            state.servers.beside = state.servers.beside.saturating_add(1);
            self.node = Some(node.clone());
        }
    }

    fn was_refused(&mut self) {
        if let Some(node) = self.node.take() {
            self.acquisition.leave_beside(&node, false);
        }
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            self.acquisition.leave_beside(&node, true);
        }
    }
}
