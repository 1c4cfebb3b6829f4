//! Random histories of natives with FAIR and of Redisson's fair lock, against what has to hold at any time. A failure
//! prints the shortest history that fails, and proptest keeps its seed beside this file.

mod fair_scene;

use std::collections::BTreeMap;

use fair_scene::{Ask, How, MINUTE, Scene, TURN, lock, settings};
use proptest::prelude::*;
use rlock_core::call::Answer;
use rlock_core::events::ListChange;
use rlock_core::{Expiry, Reply, UnixMs, events};

const NATIVES: [&str; 4] = ["n0", "n1", "n2", "n3"];
const FOREIGN: [&str; 3] = ["f0", "f1", "f2"];
const LOCKS: u8 = 2;

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask { native: usize, ask: Ask },
    Release { native: usize },
    Cancel { native: usize },
    Disconnect { native: usize },
    Deliver,
    Take { foreign: usize, ahead: i64, budget: i64 },
    GiveBack { foreign: usize, ahead: i64 },
    GiveUp { foreign: usize, budget: i64 },
    DropList,
    Silence,
    SpoilToken,
    Sweep,
    Pass { ms: u64 },
    Stall { ms: u64 },
    SetClock { ms: i64 },
}

fn step() -> impl Strategy<Value = Step> {
    let native = 0..NATIVES.len();
    let foreign = 0..FOREIGN.len();
    let wait_ms = prop_oneof![3 => Just(0), 1 => 1..5_000_i64];
    let how = prop_oneof![
        1 => Just(How::Not),
        3 => wait_ms.clone().prop_map(How::Block),
        1 => wait_ms.prop_map(How::Enqueue),
    ];
    let ask = (prop::bool::weighted(0.8), prop::bool::weighted(0.2), how)
        .prop_map(|(fair, fenced, wait)| Ask { fair, fenced, wait });
    // Most clients' clocks are right, and some are minutes off.
    let ahead = prop_oneof![3 => Just(0), 1 => -10 * MINUTE..10 * MINUTE];
    let budget = prop_oneof![1..2_000_i64, Just(5 * MINUTE), Just(60 * MINUTE)];
    let ms = prop_oneof![1..50_u64, 50..2_000_u64, 2_000..15_000_u64];
    prop_oneof![
        8 => (native.clone(), ask).prop_map(|(native, ask)| Step::Ask { native, ask }),
        6 => native.clone().prop_map(|native| Step::Release { native }),
        1 => native.clone().prop_map(|native| Step::Cancel { native }),
        1 => native.prop_map(|native| Step::Disconnect { native }),
        2 => Just(Step::Deliver),
        6 => (foreign.clone(), ahead.clone(), budget.clone())
            .prop_map(|(foreign, ahead, budget)| Step::Take { foreign, ahead, budget }),
        3 => (foreign.clone(), ahead).prop_map(|(foreign, ahead)| Step::GiveBack { foreign, ahead }),
        1 => (foreign, budget).prop_map(|(foreign, budget)| Step::GiveUp { foreign, budget }),
        1 => Just(Step::DropList),
        1 => Just(Step::Silence),
        1 => Just(Step::SpoilToken),
        1 => Just(Step::Sweep),
        4 => ms.clone().prop_map(|ms| Step::Pass { ms }),
        1 => ms.prop_map(|ms| Step::Stall { ms }),
        1 => (-20 * MINUTE..20 * MINUTE).prop_map(|ms| Step::SetClock { ms }),
    ]
}

/// What is known of a lock beside the server.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Who holds it by rights, and until when.
    holder: Option<(String, UnixMs)>,
    /// Who waits here, in order, and whether with FAIR.
    queue: Vec<(String, bool)>,
    /// When each that waits with FAIR came.
    came: BTreeMap<String, u64>,
    /// Whose turn of Redisson's it is, since when, and how often it was called.
    turn: Option<(String, u64, u32)>,
}

struct Run {
    scene: Scene,
    known: BTreeMap<u8, Known>,
    count: u64,
}

impl Run {
    fn new() -> Self {
        let known = (0..LOCKS).map(|number| (number, Known::default())).collect();
        Self { scene: Scene::new(settings()), known, count: 0 }
    }

    fn known(&mut self, number: u8) -> &mut Known {
        self.known.entry(number).or_default()
    }

    fn step(&mut self, number: u8, step: Step) {
        match step {
            Step::Ask { native, ask } => self.ask(number, NATIVES[native], ask),
            Step::Release { native } => {
                self.over(number, NATIVES[native]);
                self.scene.release(number, NATIVES[native]);
            }
            Step::Cancel { native } => drop(self.scene.cancel(number, NATIVES[native])),
            Step::Disconnect { native } => {
                // A grant that is under way is taken back.
                if self.scene.ticket(number, NATIVES[native]).is_some() {
                    self.over(number, NATIVES[native]);
                }
                self.scene.disconnect(number, NATIVES[native]);
                self.scene.settle();
            }
            Step::Deliver => {
                let tickets: Vec<_> = self.scene.see(|world| world.clients.keys().copied().collect());
                tickets.into_iter().for_each(|ticket| drop(self.scene.sim.deliver(ticket)));
            }
            Step::Take { foreign, ahead, budget } => {
                self.scene.redisson(number, FOREIGN[foreign], ahead, budget).take();
            }
            Step::GiveBack { foreign, ahead } => {
                self.over(number, FOREIGN[foreign]);
                self.scene.redisson(number, FOREIGN[foreign], ahead, 0).give_back();
            }
            Step::GiveUp { foreign, budget } => {
                self.scene.redisson(number, FOREIGN[foreign], 0, budget).give_up();
            }
            Step::DropList => {
                self.scene.sim.with(|world| drop(world.fair.remove(&lock(number))));
                events::fair_list_changed(self.scene.sim.core(), lock(number).name(), ListChange::Anywhere);
            }
            Step::SpoilToken => self.scene.sim.with(|world| {
                let spoiled = world.tokens.get(&lock(number)) == Some(&None);
                world.tokens.insert(lock(number), spoiled.then_some(1));
            }),
            _ => self.surroundings(step),
        }
        self.look();
    }

    fn surroundings(&mut self, step: Step) {
        match step {
            Step::Silence => self.scene.sim.with(|world| {
                if !world.heard.remove(&b"c"[..]) {
                    world.heard.insert((*b"c").into());
                }
            }),
            Step::Sweep => events::check_fair_lists(self.scene.sim.core()),
            Step::Pass { ms } => self.pass(ms),
            Step::Stall { ms } => self.scene.sim.pass(ms),
            Step::SetClock { ms } => {
                self.scene.sim.step_clock(ms);
                self.known.values_mut().for_each(|known| known.turn = None);
                self.known.values_mut().filter(|_| ms < 0).for_each(|known| known.holder = None);
            }
            _ => {}
        }
    }

    /// Time passes, and what has to hold does after each look of the timer, of which there are few.
    fn pass(&mut self, ms: u64) {
        let end = self.scene.see(|world| world.clock.0) + ms;
        let mut looks = 0;
        while let Some(at) = self.scene.see(|world| world.timer.filter(|at| at.0 <= end)) {
            let clock = self.scene.see(|world| world.clock.0);
            self.scene.sim.pass(at.0.saturating_sub(clock));
            self.look();
            looks += 1;
            assert!(looks <= 12 + ms / 200, "the timer looked {looks} times in {ms} ms");
        }
        let clock = self.scene.see(|world| world.clock.0);
        self.scene.sim.pass(end - clock);
    }

    /// An owner holds a lock by rights no more.
    fn over(&mut self, number: u8, owner: &str) {
        self.known(number).holder.take_if(|(holder, _)| *holder == owner);
    }

    fn ask(&mut self, number: u8, owner: &str, ask: Ask) {
        let before = self.waits(number, owner);
        if before == Some(false) && ask.fair {
            // That would be a new place in the list, and the old one here.
            return;
        }
        let now = self.scene.see(|world| world.now);
        let is_alive = |deadline: Option<UnixMs>| deadline.is_some_and(|deadline| deadline > now);
        let entries = self.scene.entries(number);
        let redissons = entries
            .iter()
            .any(|entry| FOREIGN.iter().any(|f| f.as_bytes() == &*entry.owner) && is_alive(entry.deadline));
        let free = self.scene.see(|world| world.is_free(&lock(number)));
        let others = self.known(number).queue.iter().any(|(other, _)| *other != owner);
        if let Ok(Answer::Now(Reply::Acquired { .. })) = self.scene.ask(number, owner, ask) {
            let overtakes = free && before.is_none() && (others || ask.fair && redissons);
            assert!(!overtakes, "{owner} came later, and has lock {number}");
        }
        if before == Some(true) && !ask.fair {
            // It need not wait for a turn any more: that is seen by the next look.
            self.scene.sim.pass(1);
        }
        self.count += 1;
        let count = self.count;
        match self.waits(number, owner) {
            Some(true) => drop(self.known(number).came.entry(owner.to_owned()).or_insert(count)),
            _ => drop(self.known(number).came.remove(owner)),
        }
    }

    /// Whether an owner waits here, and whether with FAIR.
    fn waits(&self, number: u8, owner: &str) -> Option<bool> {
        self.queue(number).into_iter().find(|(other, _)| *other == owner).map(|(_, fair)| fair)
    }

    fn queue(&self, number: u8) -> Vec<(String, bool)> {
        self.scene.sim.locks(|locks| {
            let waiters = locks.in_order(lock(number).name());
            waiters.map(|waiter| (waiter.owner.escape_ascii().to_string(), waiter.fair)).collect()
        })
    }

    /// What is due is done, and everything has to hold then.
    fn look(&mut self) {
        self.hand_overs();
        for _ in 0..20 {
            if !self.scene.sim.timer_is_due() {
                break;
            }
            self.scene.sim.fire();
            self.hand_overs();
        }
        assert!(!self.scene.sim.timer_is_due(), "the timer is due again and again");
        let called = self.scene.sim.with(|world| std::mem::take(&mut world.called));
        for number in 0..LOCKS {
            self.list_has_who_waits(number);
            self.nobody_waits_for_nothing(number);
            let of = called.iter().filter(|(lock, _)| *lock == fair_scene::lock(number));
            let names: Vec<_> = of.map(|(_, owner)| owner.escape_ascii().to_string()).collect();
            self.turns_are_short(number, &names);
        }
    }

    /// Nobody has a lock that another holds by rights, or that another waits for longer.
    fn hand_overs(&mut self) {
        for number in 0..LOCKS {
            let (queue, now) = (self.queue(number), self.scene.see(|world| world.now));
            let hold = self.scene.see(|world| world.hold(&lock(number)).cloned());
            let ends = |expiry| if let Expiry::At(at) = expiry { at } else { UnixMs(i64::MAX) };
            let hold = hold.map(|hold| (hold.owner.escape_ascii().to_string(), ends(hold.expiry)));
            let known = self.known(number);
            let is_new =
                hold.as_ref().map(|(owner, _)| owner) != known.holder.as_ref().map(|(owner, _)| owner);
            if is_new {
                if let Some((owner, ends)) = &known.holder {
                    assert!(*ends < now, "{owner} holds lock {number}, and {hold:?} has it");
                }
                if let Some((owner, _)) = &hold {
                    known.is_next(owner, &queue);
                }
            }
            known.holder = hold;
            known.came.retain(|owner, _| queue.iter().any(|(other, fair)| other == owner && *fair));
            known.queue = queue;
        }
    }

    /// Every native that waits with FAIR stands in the list once, and none that does not.
    fn list_has_who_waits(&self, number: u8) {
        let list = self.scene.list(number);
        for native in NATIVES {
            let times = list.split(' ').filter(|owner| *owner == native).count();
            let waits = self.waits(number, native) == Some(true);
            assert_eq!(times, usize::from(waits), "{native} in the list {list} of lock {number}");
        }
    }

    /// Where natives wait for a lock that is free, it is the turn of one of Redisson's, which ends soon.
    fn nobody_waits_for_nothing(&self, number: u8) {
        let queue = self.queue(number);
        let (free, now) = self.scene.see(|world| (world.is_free(&lock(number)), world.now));
        let Some((owner, fair)) = queue.first().filter(|_| free) else { return };
        assert!(fair, "lock {number} is free, and {owner} waits for it without FAIR");
        let head = self.scene.entries(number).into_iter().next();
        let until = head.as_ref().and_then(|head| head.deadline);
        let turn = now.0..=now.0 + TURN.cast_signed();
        assert!(
            until.is_some_and(|until| turn.contains(&until.0)),
            "lock {number}: {head:?} is the head at {now:?}"
        );
        let head = head.map(|head| head.owner.escape_ascii().to_string());
        assert!(head.is_some_and(|head| FOREIGN.contains(&&*head)), "lock {number} is free for {queue:?}");
    }

    /// One of Redisson's has the lock to itself for one turn, of which it is told.
    fn turns_are_short(&mut self, number: u8, called: &[String]) {
        let (free, clock) = self.scene.see(|world| (world.is_free(&lock(number)), world.clock.0));
        let head = self.scene.list(number).split(' ').next().map(str::to_owned);
        let head = head.filter(|head| free && FOREIGN.contains(&&**head));
        let known = self.known(number);
        let Some(head) = head.filter(|_| !known.queue.is_empty()) else {
            known.turn = None;
            return;
        };
        let calls = u32::try_from(called.iter().filter(|owner| **owner == head).count()).unwrap_or(u32::MAX);
        let before = known.turn.take().filter(|(owner, ..)| *owner == head);
        let (since, before) = before.map_or((clock, 0), |(_, since, calls)| (since, calls));
        assert!(clock - since <= TURN + 1, "lock {number} is left to {head} for {} ms", clock - since);
        assert!(before + calls <= 2, "{head} was called {} times for lock {number}", before + calls);
        known.turn = Some((head, since, before + calls));
    }
}

impl Known {
    /// Checks that who has the lock was the next, if it waited here.
    fn is_next(&self, owner: &str, still_wait: &[(String, bool)]) {
        let waits = |other: &String| still_wait.iter().any(|(still, _)| still == other);
        let place = self.queue.iter().position(|(other, _)| *other == owner);
        let Some((place, fair)) = place.and_then(|place| Some((place, self.queue.get(place)?.1))) else {
            return;
        };
        let before = self.queue.iter().take(place).find(|(other, others)| waits(other) && !(fair && *others));
        assert!(before.is_none(), "{owner} has the lock before {before:?}");
        let Some(came) = self.came.get(owner).filter(|_| fair) else { return };
        let sooner = self.came.iter().find(|(other, others)| *others < came && waits(other));
        assert!(sooner.is_none(), "{owner} has the lock before {sooner:?}, who came sooner");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn natives_and_redissons_have_one_order(steps in prop::collection::vec((0..LOCKS, step()), 0..60)) {
        let mut run = Run::new();
        for (number, step) in steps {
            run.step(number, step);
        }
        // With nothing but time everybody that waits here has the lock; clocks that were set back make leases long.
        for _ in 0..30 {
            run.pass(3_600_000);
        }
        for number in 0..LOCKS {
            prop_assert_eq!(run.scene.queue(number), "");
        }
    }
}
