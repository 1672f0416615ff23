//! Machine ids of instances: no id goes to an instance while another may use it, and its time never decreases.

use std::collections::BTreeMap;

use getid_core::server::worker::{
    InstanceRequest, LAST_AHEAD_MS_MAX, LEASE_MS_MIN, Lease, LeaseRefusal, LeaseState, NoLease, PoolRules, PoolState,
    TokenDigest, choose_for_instance,
};
use proptest::prelude::*;

const NOW: u64 = 1_800_000_000_000;
const RULES: PoolRules = PoolRules { size: 3, lease_ms: 30_000, longest_ms: 60_000 };
const OPEN: PoolState = PoolState { opens_ms: NOW, longest_ms: 60_000 };

type Leases = BTreeMap<u32, Lease>;

fn asked(name: &str, guard_ms: Option<u64>, from_ms: u64) -> InstanceRequest<'_> {
    InstanceRequest { name, ids: 1024, guard_ms, from_ms }
}

/// Gives an instance its id, as a server does, and stores the lease.
fn distribute(leases: &mut Leases, asked: &InstanceRequest<'_>, now_ms: u64) -> Result<(u32, u64), Option<NoLease>> {
    let own = leases.iter().find(|(_, lease)| lease.is_of_instance(asked.name)).map(|(id, lease)| (*id, lease.clone()));
    let (id, lease) = if let Some((id, lease)) = own {
        (id, lease.begun_again(&RULES, id, asked, now_ms).map_err(|_| None)?)
    } else {
        let kept = leases.iter().map(|(id, lease)| (*id, Some(lease)));
        let chosen = choose_for_instance(&RULES, &OPEN, kept, asked, now_ms).map_err(Some)?;
        (chosen.id, chosen.lease)
    };
    let from_ms = lease.not_before_ms;
    leases.insert(id, lease);
    Ok((id, from_ms))
}

#[test]
fn a_lease_of_an_instance_has_no_token_and_the_silence_that_it_asked_for() {
    let mut leases = Leases::new();
    assert_eq!(distribute(&mut leases, &asked("a", Some(45_000), NOW + 3), NOW), Ok((0, NOW + 3)));
    assert_eq!(distribute(&mut leases, &asked("b", Some(7), NOW), NOW), Ok((1, NOW)));
    assert_eq!(distribute(&mut leases, &asked("c", None, NOW - 9), NOW), Ok((2, NOW)));
    let of = |id: u32| {
        let lease = &leases[&id];
        (lease.state, lease.ttl_ms, lease.not_after_ms - NOW, lease.token == TokenDigest::NONE)
    };
    assert_eq!(of(0), (LeaseState::Held, 45_000, 45_003, true));
    assert_eq!(of(1), (LeaseState::Held, LEASE_MS_MIN, LEASE_MS_MIN, true));
    assert_eq!(of(2), (LeaseState::Kept, 30_000, 30_000, true));
    let (held, kept) = (&leases[&0], &leases[&2]);
    assert!(held.is_live(NOW + 45_002) && !held.is_live(NOW + 45_003) && kept.is_live(u64::MAX));
    assert_eq!(held.renewed(&RULES, 0, TokenDigest([7; 16]), None, NOW), Err(LeaseRefusal::WrongToken));
    assert_eq!(held.guarded(&RULES, 0, "b", NOW, NOW), Err(LeaseRefusal::OtherInstance));
    assert_eq!(held.reverted("b", NOW, NOW), Err(LeaseRefusal::OtherInstance));
    let ahead = NOW + LAST_AHEAD_MS_MAX + 1;
    assert_eq!(held.guarded(&RULES, 0, "a", ahead, NOW), Err(LeaseRefusal::LastAhead { last_ms: ahead, now_ms: NOW }));
    let smaller = PoolRules { size: 0, ..RULES };
    assert!(matches!(held.guarded(&smaller, 0, "a", NOW, NOW), Err(LeaseRefusal::PoolSmaller { .. })));
    // An instance that was stable and is not any more may lose its id again.
    let again = kept.begun_again(&RULES, 2, &asked("c", Some(45_000), NOW), NOW + 9).unwrap();
    assert_eq!((again.state, again.not_after_ms), (LeaseState::Held, NOW + 45_009));
    let revoked = kept.revoked(NOW + 50_000);
    assert!(!revoked.is_of_instance("c") && !revoked.is_live(NOW + 50_000));
    let released = held.reverted("a", NOW + 8, NOW + 9).unwrap();
    assert_eq!((released.state, released.not_after_ms), (LeaseState::Released, NOW + 9));
    assert_eq!(released.reverted("a", NOW + 8, NOW + 9), Err(LeaseRefusal::OtherInstance), "given back once");
    // A layout without ids gets none.
    let none = InstanceRequest { ids: 0, ..asked("d", None, NOW) };
    assert!(matches!(distribute(&mut leases, &none, NOW), Err(Some(NoLease::Exhausted { .. }))));
}

/// An event of an instance, by its number. Its clock is off by `skew_ms`.
#[derive(Clone, Debug)]
enum Step {
    Distribute { instance: usize, is_stable: bool, guard_ms: u64, skew_ms: i64 },
    Guard { instance: usize, skew_ms: i64 },
    Revert { instance: usize, skew_ms: i64 },
    Pass { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (instance, skew_ms) = (0..5_usize, prop_oneof![3 => Just(0_i64), 1 => -90_000_i64..90_000]);
    prop_oneof![
        3 => (instance.clone(), prop::bool::weighted(0.1), 500_u64..60_000, skew_ms.clone()).prop_map(
            |(instance, is_stable, guard_ms, skew_ms)| Step::Distribute { instance, is_stable, guard_ms, skew_ms }),
        4 => (instance.clone(), skew_ms.clone()).prop_map(|(instance, skew_ms)| Step::Guard { instance, skew_ms }),
        1 => (instance, skew_ms).prop_map(|(instance, skew_ms)| Step::Revert { instance, skew_ms }),
        4 => prop_oneof![1_u64..50, 1_000_u64..40_000].prop_map(|ms| Step::Pass { ms }),
    ]
}

/// What an instance knows: its id, and until which R no other instance may have it.
#[derive(Clone, Copy, Debug)]
struct Held {
    id: u32,
    guard_ms: Option<u64>,
    until_ms: u64,
}

#[derive(Default)]
struct World {
    leases: Leases,
    held: BTreeMap<usize, Held>,
    /// Newest time that was reported for each id.
    reported: BTreeMap<u32, u64>,
}

impl World {
    fn play(&mut self, step: &Step, now_ms: u64) -> Result<(), TestCaseError> {
        let at = |skew_ms: i64| now_ms.saturating_add_signed(skew_ms);
        match *step {
            Step::Distribute { instance, is_stable, guard_ms, skew_ms } => {
                let (name, guard_ms) = (instance.to_string(), Some(guard_ms).filter(|_| !is_stable));
                let Ok((id, from_ms)) = distribute(&mut self.leases, &asked(&name, guard_ms, at(skew_ms)), now_ms)
                else {
                    return Ok(());
                };
                prop_assert!(from_ms >= at(skew_ms).max(self.reported.get(&id).copied().unwrap_or(0)));
                let until_ms = guard_ms.map_or(u64::MAX, |guard_ms| now_ms + guard_ms);
                for (other, held) in self.held.iter().filter(|(other, _)| **other != instance) {
                    let is_free = held.id != id || held.until_ms <= now_ms;
                    prop_assert!(is_free, "{instance} gets {id} of {other}: {held:?} at {now_ms}");
                }
                self.held.retain(|_, held| held.id != id);
                self.held.insert(instance, Held { id, guard_ms, until_ms });
                self.reported.insert(id, from_ms);
            }
            Step::Guard { instance, skew_ms } => {
                let name = instance.to_string();
                for (id, lease) in &mut self.leases {
                    let Ok(guarded) = lease.guarded(&RULES, *id, &name, at(skew_ms), now_ms) else { continue };
                    *lease = guarded;
                    let held = self.held.get_mut(&instance);
                    let held = held.filter(|held| held.id == *id);
                    prop_assert!(held.is_some(), "{instance} guards {id}, which is another one's");
                    if let Some(Held { guard_ms: Some(guard_ms), until_ms, .. }) = held {
                        *until_ms = now_ms + *guard_ms;
                    }
                    let reported = self.reported.entry(*id).or_default();
                    *reported = (*reported).max(at(skew_ms));
                }
            }
            Step::Revert { instance, skew_ms } => {
                let name = instance.to_string();
                for (id, lease) in &mut self.leases {
                    let Ok(reverted) = lease.reverted(&name, at(skew_ms), now_ms) else { continue };
                    *lease = reverted;
                    self.held.remove(&instance);
                    let reported = self.reported.entry(*id).or_default();
                    *reported = (*reported).max(at(skew_ms));
                }
            }
            Step::Pass { .. } => {}
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn no_instance_gets_the_id_of_one_that_may_use_it(steps in prop::collection::vec(step(), 1..120)) {
        let (mut world, mut now_ms) = (World::default(), NOW);
        for step in &steps {
            if let Step::Pass { ms } = step {
                now_ms += ms;
            }
            world.play(step, now_ms)?;
        }
    }
}
