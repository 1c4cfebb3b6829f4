//! The effects of a change on the lock's own key, in their one order. The module writes them, sends them to replicas and AOF, and
//! raises their events; the simulated server applies them.

use crate::decision::{Change, KeyChange};
use crate::facts::Holder;
use crate::types::{Holds, Mode, UnixMs};

/// The receiver of the effects. The key is a hash, or the sorted set of a lock with permits.
pub trait Effects {
    /// HDEL or ZREM: removes the fields of dead readers, or the members of ended permits.
    fn bury(&mut self, dead: &[Holder]);
    /// DEL.
    fn delete(&mut self);
    /// HSET: sets the field `mode`, the owner's field, or both.
    fn set_fields(&mut self, becomes: Option<Mode>, holds: Option<Holds>);
    /// ZADD: the owner's permit ends at this time.
    fn set_permit(&mut self, end: UnixMs);
    /// HDEL or ZREM: removes the owner's field or member.
    fn remove(&mut self);
    /// PEXPIREAT.
    fn expire(&mut self, at: UnixMs);
}

impl Change {
    /// Passes each effect of this change on. The order is part of the contract: clients see it on a replica and in the events.
    #[inline(always)]
    pub fn each_effect(&self, effects: &mut impl Effects) {
        if !self.buried().is_empty() {
            effects.bury(self.buried());
        }
        if self.key.deletes() {
            effects.delete();
        }
        if self.key.holds().is_some() || self.becomes.is_some() {
            effects.set_fields(self.becomes, self.key.holds());
        }
        if let Some(end) = self.key.permit_end() {
            effects.set_permit(end);
        }
        if self.key == KeyChange::Remove {
            effects.remove();
        }
        if let Some(at) = self.expire_at {
            effects.expire(at);
        }
    }
}
