//! Worker ids: no two holders have one millisecond of an id, whatever their clocks show; and refusals.

use std::collections::BTreeMap;

use getid_core::server::worker::{
    ChosenLease, LAST_AHEAD_MS_MAX, Lease, LeaseRefusal, LeaseRequest, NoLease, NotNewReason, PoolRules, PoolState,
    TokenDigest, choose,
};
use proptest::prelude::*;

const NOW: u64 = 1_800_000_000_000;
const RULES: PoolRules = PoolRules { size: 4, lease_ms: 30_000, longest_ms: 60_000 };
const OPEN: PoolState = PoolState { opens_ms: NOW, longest_ms: 60_000 };

type Leases = BTreeMap<u32, Lease>;

fn token(number: u64) -> TokenDigest {
    TokenDigest(u128::from(number).to_le_bytes())
}

fn asked(name: &str, number: u64) -> LeaseRequest<'_> {
    LeaseRequest { name, ttl_ms: None, token: token(number) }
}

/// Leases an id, and stores the lease.
fn lease(leases: &mut Leases, name: &str, number: u64, now_ms: u64) -> Result<(u32, Lease), NoLease> {
    let kept = leases.clone();
    let ChosenLease { id, lease } =
        choose(&RULES, &OPEN, kept.iter().map(|(id, lease)| (*id, Some(lease))), &asked(name, number), now_ms)?;
    leases.insert(id, lease.clone());
    Ok((id, lease))
}

#[test]
fn a_lease_begins_where_the_one_before_ended() {
    let mut leases = Leases::new();
    let (id, first) = lease(&mut leases, "a", 1, NOW).unwrap();
    assert_eq!((id, first.not_before_ms, first.not_after_ms), (0, NOW, NOW + 30_000));

    // LAST counts as R does.
    let renewed = first.renewed(&RULES, id, token(1), Some(NOW + 20_000), NOW + 10_000).unwrap();
    assert_eq!((renewed.not_before_ms, renewed.not_after_ms), (NOW, NOW + 20_001 + 30_000));

    // Released with LAST: the next lease begins right behind it, and the name gets its id again.
    let released = renewed.released(token(1), Some(NOW + 20_500), NOW + 21_000).unwrap();
    leases.insert(id, released);
    let (id, second) = lease(&mut leases, "a", 2, NOW + 21_000).unwrap();
    assert_eq!((id, second.not_before_ms, second.not_after_ms), (0, NOW + 20_501, NOW + 51_000));

    // Released without LAST: the lease ends where it would have ended. The next holder has to wait.
    leases.insert(id, second.released(token(2), None, NOW + 22_000).unwrap());
    let (id, third) = lease(&mut leases, "a", 3, NOW + 22_000).unwrap();
    assert_eq!((id, third.not_before_ms, third.not_after_ms), (0, NOW + 51_000, NOW + 81_000));
}

#[test]
fn a_name_has_its_id_back_only_when_that_is_free() {
    let mut leases = Leases::new();
    assert_eq!(lease(&mut leases, "web", 1, NOW).unwrap().0, 0);
    assert_eq!(lease(&mut leases, "web", 2, NOW).unwrap().0, 1, "containers share names");
    assert_eq!(lease(&mut leases, "", 3, NOW).unwrap().0, 2);
    let over = NOW + 30_000;
    assert_eq!(lease(&mut leases, "other", 4, over).unwrap().0, 3, "a never leased id comes first");
    assert_eq!(lease(&mut leases, "web", 5, over).unwrap().0, 0);
    assert_eq!(lease(&mut leases, "", 6, over).unwrap().0, 1, "then the id that has been free for longest");
}

#[test]
fn a_pool_that_is_used_up_names_its_holders() {
    let mut leases = Leases::new();
    for (number, name) in [(1, "api"), (2, "api"), (3, ""), (4, "cron")] {
        lease(&mut leases, name, number, NOW + number).unwrap();
    }
    let text = lease(&mut leases, "late", 9, NOW + 1_000).unwrap_err().to_string();
    assert_eq!(
        text,
        "is used up: all 4 ids are leased, 2 by 'api', 1 by holders without a name, 1 by 'cron'; the next falls free \
         in 29001 ms, unless it is renewed. Make the pool larger (worker-pool), release ids at a clean stop, or try \
         again then"
    );
}

#[test]
fn a_pool_that_is_new_or_went_back_waits_for_its_longest_lease() {
    let pool = PoolState::opened(&RULES, None, NOW);
    assert_eq!(pool, PoolState { opens_ms: NOW + 60_000, longest_ms: 60_000 });
    let nothing = std::iter::empty::<(u32, Option<&Lease>)>();
    let early = choose(&RULES, &pool, nothing.clone(), &asked("a", 1), NOW + 59_999);
    assert_eq!(early, Err(NoLease::NotOpen { opens_ms: NOW + 60_000, now_ms: NOW + 59_999 }));
    let chosen = choose(&RULES, &pool, nothing, &asked("a", 1), NOW + 60_000).unwrap();
    assert_eq!(chosen.lease.not_before_ms, NOW + 60_000);

    // A longer `longest` of earlier rules counts for ever; a shorter one changes nothing.
    let longer = PoolRules { longest_ms: 90_000, ..RULES };
    let raised = pool.with(&longer).unwrap();
    assert_eq!((raised.longest_ms, raised.with(&RULES)), (90_000, None));
    assert_eq!(PoolState::opened(&RULES, Some(&raised), NOW).opens_ms, NOW + 90_000);
}

#[test]
fn a_pool_that_is_declared_new_opens_at_once_unless_its_records_contradict() {
    let pool = PoolState::opened(&RULES, None, NOW);
    let opened = pool.opened_as_new(1, 0, NOW + 1).unwrap().unwrap();
    assert_eq!(opened, PoolState { opens_ms: NOW + 1, ..pool });
    let nothing = std::iter::empty::<(u32, Option<&Lease>)>();
    assert!(choose(&RULES, &opened, nothing, &asked("a", 1), NOW + 1).is_ok());
    // Repeated, or for a pool that has waited.
    assert_eq!(opened.opened_as_new(2, 0, NOW + 2), Ok(None));
    assert_eq!(pool.opened_as_new(1, 0, NOW + 60_000), Ok(None));
    assert_eq!(opened.opened_as_new(2, 2, NOW + 2), Ok(None), "in use");
    for now_ms in [NOW, NOW + 59_999] {
        assert_eq!(pool.opened_as_new(1, 2, now_ms), Err(NotNewReason::Leased { leased: 2 }));
    }
    let refused = pool.opened_as_new(2, 0, NOW).unwrap_err();
    assert_eq!(refused, NotNewReason::Rewritten { opens_ms: NOW + 60_000, now_ms: NOW });
    assert!(refused.to_string().ends_with("60000 ms from now: wait, as earlier leases may last until then"));
}

#[test]
fn what_is_refused() {
    let mut leases = Leases::new();
    let (id, held) = lease(&mut leases, "a", 1, NOW).unwrap();
    let renewed = |lease: &Lease, number, last, now| lease.renewed(&RULES, id, token(number), last, now);

    assert_eq!(renewed(&held, 2, None, NOW), Err(LeaseRefusal::WrongToken));
    assert_eq!(held.released(token(2), None, NOW), Err(LeaseRefusal::WrongToken));
    let ahead = NOW + LAST_AHEAD_MS_MAX + 1;
    assert_eq!(renewed(&held, 1, Some(ahead), NOW), Err(LeaseRefusal::LastAhead { last_ms: ahead, now_ms: NOW }));
    assert!(renewed(&held, 1, Some(ahead - 1), NOW).is_ok());
    assert!(held.released(token(1), Some(ahead), NOW).is_err());
    assert!(held.released(token(1), Some(u64::MAX), NOW).is_err());

    let over = NOW + 30_000;
    let refused = LeaseRefusal::Over { not_after_ms: over, now_ms: over, is_leased_again: false };
    assert_eq!(renewed(&held, 1, None, over), Err(refused));
    // Leased to another: the previous holder gets that reason, and others get none.
    leases.insert(0, Lease { name: "b".to_owned(), token: token(7), token_before: Some(token(1)), ..held.clone() });
    assert!(matches!(renewed(&leases[&0], 1, None, over), Err(LeaseRefusal::Over { is_leased_again: true, .. })));
    assert_eq!(renewed(&leases[&0], 2, None, over), Err(LeaseRefusal::WrongToken));

    let revoked = held.revoked(NOW + 1);
    assert_eq!(renewed(&revoked, 1, None, NOW + 2), Err(LeaseRefusal::Revoked { not_after_ms: over }));
    assert!(revoked.is_live(over - 1) && !revoked.is_live(over));
    assert_eq!(held.revoked(over), held, "a lease that is over is not revoked");

    let released = held.released(token(1), Some(NOW + 5), NOW + 6).unwrap();
    assert_eq!(renewed(&released, 1, None, NOW + 7), Err(LeaseRefusal::Released));
    assert_eq!(released.released(token(1), Some(NOW + 5), NOW + 8), Ok(released.clone()), "sent once more");

    let smaller = PoolRules { size: 0, ..RULES };
    let refused = LeaseRefusal::PoolSmaller { size: 0, not_after_ms: over };
    assert_eq!(held.renewed(&smaller, 0, token(1), None, NOW), Err(refused));
    assert!(held.released(token(1), None, NOW).is_ok());
}

#[test]
fn a_lease_never_reaches_past_the_pools_longest_and_never_shrinks() {
    let mut leases = Leases::new();
    let (id, held) = lease(&mut leases, "a", 1, NOW).unwrap();
    let renewed = held.renewed(&RULES, id, token(1), Some(NOW + 29_999), NOW).unwrap();
    assert_eq!(renewed.not_after_ms, NOW + 60_000);
    let renewed = renewed.renewed(&RULES, id, token(1), Some(NOW + 59_999), NOW + 1).unwrap();
    assert_eq!(renewed.not_after_ms, NOW + 60_001);
    // A server whose R is behind.
    let again = renewed.renewed(&RULES, id, token(1), None, NOW - 20_000).unwrap();
    assert_eq!(again.not_after_ms, renewed.not_after_ms);
    // A holder that made IDs past its lease has broken the contract; no other holder gets these milliseconds.
    let broken = held.renewed(&RULES, id, token(1), Some(NOW + 100_000), NOW).unwrap();
    assert_eq!(broken.not_after_ms, NOW + 100_001);
}

/// An event of programs, servers or the store.
#[derive(Clone, Debug)]
enum Step {
    Lease {
        program: usize,
        named: bool,
        ttl_ms: Option<u64>,
        is_lost: bool,
    },
    Renew {
        program: usize,
        with_last: bool,
        is_lost: bool,
    },
    Release {
        program: usize,
        with_last: bool,
        is_lost: bool,
    },
    Revoke {
        id: u32,
    },
    /// A program makes an ID, at a percentage of its allowed time: its clock may show anything.
    Make {
        program: usize,
        percent: u64,
    },
    Pass {
        ms: u64,
    },
    Resize {
        size: u32,
    },
    /// The store's state is saved, to be restored later.
    Snapshot,
    /// The store loses later writes, or everything.
    GoBack {
        all: bool,
    },
}

const PROGRAMS: usize = 4;

fn step() -> impl Strategy<Value = Step> {
    let program = 0..PROGRAMS;
    let lost = prop::bool::weighted(0.2);
    let ttl = prop::option::of(1_000_u64..90_000);
    prop_oneof![
        4 => (program.clone(), any::<bool>(), ttl, lost)
            .prop_map(|(program, named, ttl_ms, is_lost)| Step::Lease { program, named, ttl_ms, is_lost }),
        4 => (program.clone(), any::<bool>(), lost)
            .prop_map(|(program, with_last, is_lost)| Step::Renew { program, with_last, is_lost }),
        3 => (program.clone(), any::<bool>(), lost)
            .prop_map(|(program, with_last, is_lost)| Step::Release { program, with_last, is_lost }),
        1 => (0..4_u32).prop_map(|id| Step::Revoke { id }),
        6 => (program, 0_u64..100).prop_map(|(program, percent)| Step::Make { program, percent }),
        5 => prop_oneof![1_u64..50, 1_000_u64..70_000].prop_map(|ms| Step::Pass { ms }),
        1 => (1..5_u32).prop_map(|size| Step::Resize { size }),
        1 => Just(Step::Snapshot),
        1 => any::<bool>().prop_map(|all| Step::GoBack { all }),
    ]
}

/// The milliseconds of an id that a program may use, by its last answer, with a token.
#[derive(Clone, Debug)]
struct LeaseRight {
    id: u32,
    token: u64,
    from_ms: u64,
    until_ms: u64,
}

/// A program that keeps the contract.
#[derive(Clone, Default)]
struct Program {
    /// Its index among all rights.
    held: Option<usize>,
    last_ms: Option<u64>,
}

struct World {
    now_ms: u64,
    rules: PoolRules,
    pool: PoolState,
    leases: Leases,
    snapshot: Leases,
    programs: Vec<Program>,
    rights: Vec<LeaseRight>,
    tokens: u64,
}

impl World {
    fn new() -> World {
        World {
            now_ms: NOW,
            rules: RULES,
            pool: OPEN,
            leases: Leases::new(),
            snapshot: Leases::new(),
            programs: vec![Program::default(); PROGRAMS],
            rights: Vec::new(),
            tokens: 0,
        }
    }

    fn lease(&mut self, program: usize, named: bool, ttl_ms: Option<u64>, is_lost: bool) {
        self.tokens += 1;
        let name = if named { format!("p{program}") } else { String::new() };
        let asked = LeaseRequest { name: &name, ttl_ms, token: token(self.tokens) };
        let kept = self.leases.iter().map(|(id, lease)| (*id, Some(lease)));
        let Ok(ChosenLease { id, lease }) = choose(&self.rules, &self.pool, kept, &asked, self.now_ms) else { return };
        assert!(id < self.rules.size && lease.not_before_ms < lease.not_after_ms);
        assert!(lease.not_after_ms <= self.now_ms + self.rules.longest_ms);
        if !is_lost {
            let (from_ms, until_ms) = (lease.not_before_ms, lease.not_after_ms);
            self.rights.push(LeaseRight { id, token: self.tokens, from_ms, until_ms });
            self.programs[program] = Program { held: Some(self.rights.len() - 1), last_ms: None };
        }
        self.leases.insert(id, lease);
    }

    fn renew(&mut self, program: usize, with_last: bool, is_lost: bool) {
        let Program { held: Some(held), last_ms } = self.programs[program] else { return };
        let right = &mut self.rights[held];
        let Some(lease) = self.leases.get(&right.id) else { return };
        let last_ms = last_ms.filter(|_| with_last);
        let Ok(renewed) = lease.renewed(&self.rules, right.id, token(right.token), last_ms, self.now_ms) else {
            return;
        };
        assert!(renewed.not_after_ms >= lease.not_after_ms);
        if !is_lost {
            right.until_ms = right.until_ms.max(renewed.not_after_ms);
        }
        self.leases.insert(right.id, renewed);
    }

    fn release(&mut self, program: usize, with_last: bool, is_lost: bool) {
        // It makes no more IDs, whether or not it gets the answer.
        let Program { held: Some(held), last_ms } = std::mem::take(&mut self.programs[program]) else { return };
        let right = &mut self.rights[held];
        let last_ms = if with_last { Some(last_ms.unwrap_or(right.from_ms.saturating_sub(1))) } else { None };
        if let Some(last_ms) = last_ms {
            right.until_ms = last_ms + 1;
        }
        let released =
            self.leases.get(&right.id).and_then(|lease| lease.released(token(right.token), last_ms, self.now_ms).ok());
        if let Some(released) = released.filter(|_| !is_lost) {
            self.leases.insert(right.id, released);
        }
    }

    fn make(&mut self, program: usize, percent: u64) {
        let Program { held: Some(held), last_ms } = &mut self.programs[program] else { return };
        let LeaseRight { from_ms, until_ms, .. } = self.rights[*held];
        *last_ms = (*last_ms).max(Some(from_ms + (until_ms - from_ms) * percent / 100));
    }

    fn play(&mut self, step: &Step) {
        match *step {
            Step::Lease { program, named, ttl_ms, is_lost } => self.lease(program, named, ttl_ms, is_lost),
            Step::Renew { program, with_last, is_lost } => self.renew(program, with_last, is_lost),
            Step::Release { program, with_last, is_lost } => self.release(program, with_last, is_lost),
            Step::Revoke { id } => {
                let now_ms = self.now_ms;
                self.leases.entry(id).and_modify(|lease| *lease = lease.revoked(now_ms));
            }
            Step::Make { program, percent } => self.make(program, percent),
            Step::Pass { ms } => self.now_ms += ms,
            Step::Resize { size } => self.rules.size = size,
            Step::Snapshot => self.snapshot = self.leases.clone(),
            Step::GoBack { all } => {
                self.leases = if all { Leases::new() } else { self.snapshot.clone() };
                // The pool's record is unknown as well.
                self.pool = PoolState::opened(&self.rules, None, self.now_ms);
            }
        }
    }

    /// Checks that no two rights have a millisecond in common.
    fn check(&self) -> Result<(), TestCaseError> {
        let mut rights = self.rights.clone();
        rights.retain(|right| right.from_ms < right.until_ms);
        rights.sort_by_key(|right| (right.id, right.from_ms));
        for pair in rights.windows(2) {
            let meet = pair[0].id == pair[1].id && pair[1].from_ms < pair[0].until_ms;
            prop_assert!(!meet, "two holders have one millisecond: {pair:?}");
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn no_two_holders_have_one_millisecond(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in &steps {
            world.play(step);
            world.check()?;
        }
    }
}
