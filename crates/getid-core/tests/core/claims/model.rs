//! The exhaustive search (crate `stateright`): every possible order of a few servers' requests, answers, crashes,
//! losses and clocks, within a few milliseconds of which four are a time-out.
//!
//! A scope leaves out only reads that take time, and loses nothing by it: the result of a read may be old before it is
//! used anyway.

use getid_core::server::checks::Fault;
use stateright::{Checker, HasDiscoveries, Model, Property};

use super::world::{Action, MetEvent, Scope, Violation, World};

const WALKS: u64 = 1500;

/// Divisor of the states from which the search tries whether a server will give IDs.
const TRIED: u64 = 200;

/// A scope, and its promises.
#[derive(Clone, Copy, Debug)]
struct Search {
    name: &'static str,
    scope: Scope,
    /// Violations that must not occur in it.
    never: &'static [Violation],
}

/// Promises of the fence alone, and order besides.
const ALL: &[Violation] = &[Violation::Twice, Violation::Late, Violation::Overlap, Violation::Imagined];
/// Promises that hold when an operator takes a claim away, which risks order.
const BUT_ORDER: &[Violation] = &[Violation::Twice, Violation::Overlap, Violation::Imagined];
/// Promise for a store that loses its last writes, and so has no fence: no ID repeats, because a start begins past R +
/// B.
const ONLY_UNIQUE: &[Violation] = &[Violation::Twice];

impl Search {
    fn may_happen(&self, wrong: Option<Violation>) -> bool {
        wrong.is_none_or(|wrong| !self.never.contains(&wrong))
    }

    /// Returns true if a server will give IDs from here, where that is promised: an operator decides about a store that
    /// went back.
    fn is_alive(&self, world: &World) -> bool {
        self.scope.rollbacks > 0 || world.wrong.is_some() || !world.is_one_of(TRIED) || world.comes_to_give(&self.scope)
    }
}

impl Model for Search {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.scope)]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        state.actions(&self.scope, actions);
    }

    fn next_state(&self, state: &World, action: Action) -> Option<World> {
        Some(state.next(&self.scope, action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing happens that must not", |search: &Search, world: &World| {
                search.may_happen(world.wrong)
            }),
            Property::always("from every state a server comes to give IDs", |search: &Search, world: &World| {
                search.is_alive(world)
            }),
        ]
    }
}

fn searches() -> Vec<Search> {
    let race = Scope { beats: 5, end_ms: 5, ..Scope::calm() };
    let held = Scope { is_claimed: true, beats: 6, end_ms: 6, ..race };
    let search = |name, scope, never| Search { name, scope, never };
    vec![
        search("two that want a claim", race, ALL),
        search("a holder and a standby, a message is lost or late", Scope { losses: 1, ..held }, ALL),
        search("the same with two messages", Scope { losses: 2, end_ms: 5, ..held }, ALL),
        search("a holder and a standby, one crashes and starts again", Scope { crashes: 1, beats: 5, ..held }, ALL),
        search("a holder and a standby, one stops", Scope { releases: 1, ..held }, ALL),
        search("a holder and two standbys", Scope { servers: 3, ..held }, ALL),
        search(
            "the same, and a message is lost or late",
            Scope { servers: 3, losses: 1, beats: 5, end_ms: 5, ..held },
            ALL,
        ),
        search("a slow holder and a standby", Scope { clocks: SLOW_HOLDER, ..held }, ALL),
        search("a quick standby, whose wall clock is behind", Scope { clocks: QUICK_STANDBY, ..held }, ALL),
        search("an operator takes the claim away", Scope { takes: 1, ..held }, BUT_ORDER),
        search(
            "the store loses two writes",
            Scope { rollbacks: 1, slack_ms: 4, beats: 5, end_ms: 8, ..held },
            ONLY_UNIQUE,
        ),
    ]
}

/// Clocks whose rates differ by a fifth; a hold is three quarters of the time-out.
const SLOW_HOLDER: [(u64, i64); 3] = [(80, 0), (100, 3), (100, 0)];
const QUICK_STANDBY: [(u64, i64); 3] = [(100, 3), (120, 0), (100, 0)];

#[test]
fn no_order_of_events_breaks_a_promise() {
    let mut states = 0;
    let searches = searches();
    for search in &searches {
        let began = std::time::Instant::now();
        let checker = (*search).checker().threads(2).finish_when(HasDiscoveries::Any).spawn_bfs().join();
        states += checker.unique_state_count();
        println!("{}: {} states in {:?}", search.name, checker.unique_state_count(), began.elapsed());
        if let Some((property, path)) = checker.discoveries().into_iter().next() {
            let wrong = path.last_state().wrong;
            panic!("{}: not so: {property} ({wrong:?}), after {:?}", search.name, path.into_actions());
        }
    }
    println!("{states} states");
    let missed: Vec<_> = MetEvent::ALL.into_iter().filter(|&met| !searches[0].scope.has_met(met)).collect();
    assert!(missed.is_empty(), "never happened: {missed:?}");
}

/// Returns the violation on random walks of three servers, whose clocks differ as far as allowed, and whose messages
/// are often lost.
fn walks(fault: Option<Fault>) -> Result<u64, String> {
    let mut random = 1_u64;
    let mut pick = move |n: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % n
    };
    let calm = Scope { servers: 3, beats: u64::MAX, end_ms: 60, fault, ..Scope::calm() };
    let mut takeovers = 0;
    for walk in 0..WALKS {
        let clocks = [(); 3].map(|()| (100 + pick(24), pick(7).cast_signed() - 3));
        let scope = Scope { losses: 12, crashes: 3, releases: 2, clocks, met: Box::leak(Box::default()), ..calm };
        let mut world = World::new(&scope);
        for step in 0..2000 {
            let Some(next) = world.walk(&scope, pick(1 << 20)) else { break };
            world = next;
            if let Some(wrong) = world.wrong {
                return Err(format!("walk {walk}, step {step}: {wrong:?} in {scope:?}"));
            }
        }
        if !world.comes_to_give(&scope) {
            return Err(format!("walk {walk}: no server gives IDs any more: {world:?}"));
        }
        takeovers += u64::from(scope.has_met(MetEvent::Silent));
    }
    Ok(takeovers)
}

/// Walks longer than the search can cover.
#[test]
fn no_long_walk_breaks_a_promise() {
    let takeovers = walks(None).unwrap();
    println!("{takeovers} of {WALKS} walks had a takeover from a silent holder");
    assert!(takeovers > WALKS / 10);
    for fault in [Fault::SaveIsNotFenced, Fault::UnknownTakeoverCounts] {
        println!("{}", walks(Some(fault)).expect_err(&format!("{fault:?} is not found")));
    }
}

#[test]
fn the_search_finds_planted_faults() {
    let calm = Scope { is_claimed: true, ..Scope::calm() };
    let skewed = Scope { clocks: SLOW_HOLDER, ..calm };
    let back = Scope { rollbacks: 1, slack_ms: 4, beats: 5, end_ms: 8, ..calm };
    let cases = [
        (Fault::SaveIsNotFenced, calm, ALL),
        (Fault::HoldWithoutMargin, skewed, ALL),
        (Fault::HoldFromTheReply, Scope { beats: 7, ..calm }, ALL),
        (Fault::UnknownTakeoverCounts, Scope { losses: 1, is_claimed: false, ..calm }, ALL),
        (Fault::ResumesWhereItWas, back, ONLY_UNIQUE),
        (Fault::StartForgetsWatermark, Scope { clocks: [(100, 4), (100, 0), (100, 0)], ..calm }, ALL),
        (Fault::StartsAtClock, back, ONLY_UNIQUE),
    ];
    let mut missed = vec![];
    for (fault, scope, never) in cases {
        let began = std::time::Instant::now();
        let search = Search { name: "with a fault", scope: scope.with(fault), never };
        let checker = search.checker().threads(2).finish_when(HasDiscoveries::Any).spawn_bfs().join();
        println!("{fault:?}: {} states in {:?}", checker.unique_state_count(), began.elapsed());
        match checker.discoveries().into_values().next() {
            Some(path) => println!("  found by {:?}", path.into_actions()),
            None => missed.push(fault),
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
