//! A warm turn allocates nothing: not to decode, to draw, or to encode.

use std::sync::Arc;

use crate::shell::{GENERATORS, Options, settings};
use getid_core::server::{Run, SequenceRequest};
use getid_core::{Layout, RandomCycle, Reservation, Scheme, Slot};
use getid_engine::claim::Identity;
use getid_engine::fixtures::roomy_issuer;
use getid_redis::command::Vocabulary;
use getid_redis::session::{
    ExtraDraws, NamedDrawResults, SequenceDrawResults, Session, Settings, TURN_IDS_MAX, Timing, Turn,
};
use getid_system::clock::SystemClock;

const GETID: &[u8] = b"*1\r\n$5\r\nGETID\r\n";
const MGETID: &[u8] = b"*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n";

/// Feeds `input` again and again, and returns the number of allocations in the later rounds.
fn allocations(input: &[u8]) -> u64 {
    let layout = Layout::default();
    let cycle = RandomCycle::new((0..1 << layout.random_bits()).collect()).expect("a permutation");
    let settings = Arc::new(Settings {
        vocabulary: Vocabulary::default(),
        scheme: Arc::new(Scheme::new(layout, 0, cycle).expect("it fits")),
        has_server_id: true,
        generators: Arc::default(),
        counters: Arc::default(),
        id_mgetid_max: 100,
        turn_ids_max: TURN_IDS_MAX,
        id_max_wait_ms: 5000,
        sequences: None,
        expiring: Arc::default(),
        databases: 16,
        users: Arc::default(),
        protection: getid_redis::acl::Protection::Nothing,
        bulk_bytes_max: 1 << 20,
        request_bytes_max: 1 << 20,
        timing: Timing::default(),
        sealers: getid_seal::Sealers::default(),
        is_standby: false,
        cluster: None,
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // Enough IDs for the test: the keeper does not run during it.
    let identity = Identity { server_id: 0, layout };
    let issuer = roomy_issuer(&runtime, SystemClock::new(), identity, 1 << 30);

    let mut session = Session::new(1, settings);
    let (mut turn, mut output) = (Turn::default(), Vec::new());
    let mut round = || {
        output.clear();
        let mut used = 0;
        loop {
            used += session.read(&input[used..], &mut turn);
            let drawn = (turn.draws.unnamed > 0)
                .then(|| issuer.try_draw(turn.draws.unnamed).expect("no refusal").expect("no wait"));
            session.write(&turn, Ok(drawn.as_slice()), &mut output);
            if !turn.more {
                break;
            }
        }
        assert_eq!(used, input.len());
        assert!(!output.is_empty());
    };
    for _ in 0..3 {
        round();
    }
    allocation_counter::measure(|| (0..100).for_each(|_| round())).count_total
}

/// Returns the number of allocations with named generators, whose slots are counted here.
fn named_allocations(input: &[u8]) -> u64 {
    let options = Options { generators: true, sequences: true, ..Options::default() };
    let mut session = Session::new(1, Arc::new(settings(&options)));
    let (mut turn, mut named, mut output) = (Turn::default(), NamedDrawResults::default(), Vec::new());
    let (mut sequences, mut value) = (SequenceDrawResults::default(), 1);
    let (mut slot, mut noise) = (1 << 40, 0_u128);
    let mut round = || {
        output.clear();
        let mut used = 0;
        loop {
            used += session.read(&input[used..], &mut turn);
            named.begin(turn.named_draws().len());
            for (at, draw) in turn.named_draws().iter().enumerate() {
                let reservation = Reservation { first: Slot(slot), count: slot, len: draw.ids };
                named.part(at).expect("a part for each").reservations.push(reservation);
                slot += u64::from(draw.ids);
            }
            sequences.begin(turn.sequence_draws().len());
            for (draw, part) in turn.sequence_draws().iter().zip(sequences.parts_mut()) {
                for SequenceRequest { values, times } in turn.sequence_asks(draw) {
                    part.runs.push(Run { first: value, increment: 1, values, times });
                    value += i64::from(values) * i64::from(times);
                }
            }
            let unnamed = [Reservation { first: Slot(slot), count: slot, len: turn.draws.unnamed }];
            let mut noise = || {
                noise = noise.wrapping_add(u128::MAX / 7);
                noise
            };
            let mut extra = ExtraDraws { named: &mut named, sequences: &mut sequences, noise: &mut noise };
            session.write_with_extra(&turn, Ok(&unnamed), &mut extra, &mut output);
            if !turn.more {
                break;
            }
        }
        assert_eq!(used, input.len());
        assert!(!output.is_empty());
    };
    for _ in 0..3 {
        round();
    }
    allocation_counter::measure(|| (0..5).for_each(|_| round())).count_total
}

#[test]
fn ids_of_named_generators_of_every_kind() {
    for line in GENERATORS {
        let (name, _) = line.split_once(' ').expect("a name and a kind");
        let fields = if name == "lua" { " shard 53" } else { "" };
        // These reply with errors.
        if ["elsewhere", "narrow"].contains(&name) {
            continue;
        }
        for request in [format!("GETID {name}{fields}\r\n"), format!("MGETID 100 {name}{fields}\r\n")] {
            for times in [1, 16, 200] {
                assert_eq!(named_allocations(request.repeat(times).as_bytes()), 0, "{times} times {request}");
            }
        }
    }
    let mixed = "GETID tweets\r\nGETID\r\nGETID v4\r\nMGETID 3 trace\r\n";
    assert_eq!(named_allocations(mixed.repeat(50).as_bytes()), 0);
}

/// Pipelines of one name, of a few alternating names, and of so many that they need several turns.
#[test]
fn values_of_sequences() {
    for request in ["INCR orders", "INCRBY orders 5", "HINCRBY orders cur 3"] {
        for times in [1, 16, 200] {
            assert_eq!(
                named_allocations(format!("{request}\r\n").repeat(times).as_bytes()),
                0,
                "{times} times {request}"
            );
        }
    }
    let mixed = "INCR a\r\nINCRBY a 5\r\nGETID\r\nINCR b\r\nGETID tweets\r\nHINCRBY c cur 7\r\n";
    assert_eq!(named_allocations(mixed.repeat(50).as_bytes()), 0);
    let many = (0..500).map(|number| format!("INCR orders:{number}\r\n")).collect::<Vec<_>>().concat();
    assert_eq!(named_allocations(many.as_bytes()), 0);
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1)))).count_total, 1);
}

#[test]
fn one_getid() {
    assert_eq!(allocations(GETID), 0);
}

#[test]
fn a_pipeline_of_getid() {
    assert_eq!(allocations(&GETID.repeat(100)), 0);
}

#[test]
fn a_pipeline_that_takes_several_turns() {
    assert_eq!(allocations(&GETID.repeat(10_000)), 0);
}

#[test]
fn mgetid() {
    assert_eq!(allocations(&MGETID.repeat(16)), 0);
}

#[test]
fn a_transaction() {
    let input = [b"*1\r\n$5\r\nMULTI\r\n", &GETID.repeat(16)[..], b"*1\r\n$4\r\nEXEC\r\n"].concat();
    assert_eq!(allocations(&input), 0);
}

#[test]
fn inline_and_ping() {
    assert_eq!(allocations(b"GETID\r\nPING\r\nmgetid 3\r\n"), 0);
}
