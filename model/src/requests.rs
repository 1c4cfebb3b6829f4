//! How owners ask.

use rlock_core::request::{Acquire, Wait};
use rlock_core::{Holds, LeaseMs, Mode, Owner, Wanted};

use crate::ghost::{Party, Violation};
use crate::scene::{LEASE, May, Scene};

/// The grace period of sessions, in ms.
pub(crate) const GRACE: i64 = 1;

pub(crate) fn lease() -> LeaseMs {
    LeaseMs::new(LEASE).unwrap_or(LeaseMs::SHORTEST)
}

pub(crate) fn grace() -> LeaseMs {
    LeaseMs::new(GRACE).unwrap_or(LeaseMs::SHORTEST)
}

/// The id of a connection: larger for younger ones.
pub(crate) fn client_id(owner: u8, number: u8) -> u64 {
    u64::from(number) * 16 + u64::from(owner)
}

/// The SESSION of calls.
pub(crate) fn asked(scene: &Scene) -> Option<LeaseMs> {
    scene.may(May::Sessions).then(grace)
}

/// The mode as RELEASE and RENEW say it. Permits are known by their key.
pub(crate) fn said(mode: Mode) -> Option<Mode> {
    matches!(mode, Mode::Read | Mode::Write).then_some(mode)
}

/// Every name of the model is an owner's, by its form.
pub(crate) fn owner_of(name: &[u8; 2]) -> Result<Owner<'_>, Violation> {
    Owner::new(name).map_err(|error| error.to_string())
}

/// ACQUIRE as the owners of a scene say it.
pub(crate) fn request<'a>(
    scene: &Scene,
    name: &'a [u8; 2],
    Party { owner, mode, .. }: Party,
    arrive_at: Option<Holds>,
    wait: Option<Wait<'a>>,
) -> Result<Acquire<'a>, Violation> {
    let wanted = match (mode, scene.permits(owner)) {
        (Mode::Permit, limit) => Wanted::Permit(limit.ok_or("a permit needs a limit")?),
        (Mode::Mutex, _) => Wanted::Mutex,
        (Mode::Read, _) => Wanted::Read,
        (Mode::Write, _) => Wanted::Write,
    };
    let session = asked(scene);
    let (fair, fenced) = (scene.may(May::Fair), scene.may(May::Fenced));
    let (owner, lease) = (owner_of(name)?, lease());
    Ok(Acquire { owner, lease, wanted, fair, arrive_at, fenced, session, wait })
}
