//! Few waiters and many: the same answers as a plain list in the order of places.

use super::super::tests::{enqueued, waiter};
use super::*;
use crate::types::Wanted;

/// The waiters of a lock as a list without any index.
#[derive(Default)]
struct Listed(Vec<(Place, Waiter)>);

impl Listed {
    fn place(&self, is_meant: impl Fn(&Waiter) -> bool) -> Option<Place> {
        self.0.iter().find(|(_, waiter)| is_meant(waiter)).map(|(place, _)| *place)
    }

    fn owners_after(&self, after: Option<&[u8]>, most: usize) -> Vec<Box<[u8]>> {
        let owners = self.0.iter().map(|(_, waiter)| waiter.owner.clone());
        let mut owners: Vec<_> = owners.filter(|owner| after.is_none_or(|after| **owner > *after)).collect();
        owners.sort_unstable();
        owners.truncate(most);
        owners
    }
}

fn one(number: u64) -> Waiter {
    let wanted = if number.is_multiple_of(3) { Wanted::Read } else { Wanted::Mutex };
    // Owners are not in the order of their places, and some owner waits in two modes.
    let (owner, channel) = (format!("owner:{}", number * 7 % 5), format!("channel:{}", number % 4));
    if number.is_multiple_of(2) {
        Waiter { wanted, ..waiter(&format!("{owner}:{}", number / 5), number) }
    } else {
        Waiter { wanted, ..enqueued(&format!("{owner}:{}", number / 5), number, &channel) }
    }
}

fn assert_same(waiters: &Waiters, listed: &Listed) {
    assert_eq!((waiters.len(), waiters.is_empty()), (listed.0.len(), listed.0.is_empty()));
    assert_eq!(waiters.first().map(|(place, _)| place), listed.0.first().map(|(place, _)| *place));
    assert!(waiters.iter().eq(listed.0.iter().map(|(_, waiter)| waiter)));
    assert!(waiters.clone().into_iter().eq(listed.0.iter().map(|(_, waiter)| waiter.clone())));
    for (place, waiter) in &listed.0 {
        let (owner, mode) = (&*waiter.owner, waiter.mode());
        assert_eq!(waiters.get(*place), Some(waiter));
        assert_eq!(
            waiters.place_of(owner, mode),
            listed.place(|other| *other.owner == *owner && other.mode() == mode)
        );
        assert_eq!(waiters.find(owner, mode).map(|found| &*found.owner), Some(owner));
        for most in [0, 1, 3, 99] {
            let after: Vec<Box<[u8]>> =
                waiters.owners_after(Some(owner), most).into_iter().map(Box::from).collect();
            assert_eq!(after, listed.owners_after(Some(owner), most));
        }
    }
    for number in 0..5 {
        let channel = format!("channel:{number}").into_bytes();
        let is_on = |waiter: &Waiter| waiter.via == Via::Enqueue(channel.as_slice().into());
        assert_eq!(waiters.first_on(&channel), listed.place(is_on));
    }
    assert_eq!((waiters.place_of(b"nobody", Mode::Mutex), waiters.get(0)), (None, None));
    assert_eq!(waiters.owners_after(None, 99).len(), listed.0.len());
}

/// Up and down several times, over both bounds; waiters leave from the front, the end and the middle, and join between others.
#[test]
fn few_and_many_waiters_are_found_in_the_same_ways() {
    let (mut waiters, mut listed) = (Waiters::default(), Listed::default());
    let few = [(1, true), (FEW, true), (FEW + 1, false), (FEW_AGAIN + 1, false), (FEW, false)];
    let again = [(FEW_AGAIN, true), (FEW, true), (FEW + 5, false), (FEW_AGAIN, true), (40, false), (0, true)];
    let mut next = 1;
    for (length, is_few) in few.into_iter().chain(again) {
        while listed.0.len() < length {
            // Every fourth waiter joins before the one that joined last.
            let place = if next % 4 == 0 { next * 2 - 3 } else { next * 2 };
            let at = listed.0.partition_point(|(before, _)| *before < place);
            listed.0.insert(at, (place, one(next)));
            waiters.insert(place, one(next));
            next += 1;
            assert_same(&waiters, &listed);
        }
        while listed.0.len() > length {
            let at = [0, listed.0.len() - 1, listed.0.len() / 2][listed.0.len() % 3];
            let (place, waiter) = listed.0.remove(at);
            assert_eq!(waiters.remove(place), Some(waiter));
            assert_eq!(waiters.remove(place), None);
            assert_same(&waiters, &listed);
        }
        assert_eq!(matches!(waiters, Waiters::Few(_)), is_few, "{length}");
    }
}
