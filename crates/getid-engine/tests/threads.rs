//! Real threads that share a real issuer for a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use getid_core::{Id, Layout, RandomCycle, Reservation, Scheme};
use getid_engine::claim::Identity;
use getid_engine::fixtures::roomy_issuer;
use getid_system::clock::Clock;

/// Start of 2026-01-01 in Unix ms.
const WALL_UNIX_MS: i64 = 1_767_225_600_000;

/// A clock that real threads push on, in unpredictable steps.
#[derive(Clone, Default)]
struct SharedClock(Arc<AtomicU64>);

impl Clock for SharedClock {
    fn boot_ns(&self) -> u64 {
        self.0.fetch_add(500, SeqCst)
    }

    fn wall_unix_us(&self) -> i64 {
        WALL_UNIX_MS * 1000 + (self.0.load(SeqCst) / 1000).cast_signed()
    }
}

#[test]
fn real_threads_get_disjoint_slots_in_real_time_order() {
    const THREADS: usize = 4;
    const DRAWS: u64 = 20_000;
    let layout = Layout::default();
    let identity = Identity { server_id: 0, layout };
    let clock = SharedClock::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let issuer = roomy_issuer(&runtime, clock.clone(), identity, 60_000);

    // End of the last finished draw: a draw that begins now must be past it.
    let finished = AtomicU64::new(0);
    let mut all: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (issuer, finished) = (&issuer, &finished);
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for i in 0..DRAWS {
                        let floor = finished.load(SeqCst);
                        let n = 1 + u32::try_from((i * 7 + thread as u64) % 13).expect("small");
                        match issuer.try_draw(n) {
                            Ok(Some(Reservation { first, len, .. })) => {
                                assert!(first.0 >= floor, "{first:?} was requested after the reply of {floor}");
                                let end = first.0 + u64::from(len);
                                finished.fetch_max(end, SeqCst);
                                mine.push((first.0, end));
                            }
                            Ok(None) => {}
                            Err(refusal) => panic!("{refusal}"),
                        }
                    }
                    mine
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
    });
    let ids: u64 = all.iter().map(|(first, end)| end - first).sum();
    assert_eq!(ids, issuer.status().mint.ids_issued, "each ID went to one thread");
    assert_eq!(all.len() as u64, DRAWS * THREADS as u64, "all draws were served");
    all.sort_unstable();
    for pair in all.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "{pair:?} overlap");
    }
}

/// Any 1024 IDs in a row carry each random value once, whichever threads drew them and however often the keeper closed
/// the lane meanwhile.
#[test]
fn real_threads_go_on_with_one_random_cycle() {
    const THREADS: u64 = 4;
    const DRAWS: u64 = 10_000;
    let layout = Layout::default();
    let clock = SharedClock::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let issuer = roomy_issuer(&runtime, clock, Identity { server_id: 1, layout }, 60_000);
    let is_over = AtomicBool::new(false);
    let drawn: Vec<Reservation> = std::thread::scope(|scope| {
        // Waiting threads push time on, so the keeper has no pause.
        scope.spawn(|| {
            runtime.block_on(async {
                while !is_over.load(SeqCst) {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
            });
        });
        let issuer = &issuer;
        let draw = |thread| (0..DRAWS).map(move |i| 1 + u32::try_from((i * 7 + thread) % 13).expect("small"));
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    draw(thread).filter_map(|n| issuer.try_draw(n).expect("no refusal")).collect::<Vec<_>>()
                })
            })
            .collect();
        let all = threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect();
        is_over.store(true, SeqCst);
        all
    });
    let status = issuer.status().mint;
    assert_eq!(drawn.iter().map(|piece| u64::from(piece.len)).sum::<u64>(), status.ids_issued, "each is counted");

    let cycle = RandomCycle::new((0..1024).collect()).expect("a permutation");
    let scheme = Scheme::new(layout, 1, cycle).expect("they fit");
    let mut ids: Vec<Id> = drawn.iter().flat_map(|&piece| scheme.ids(piece)).collect();
    assert!(ids.len() > 100_000, "{}", ids.len());
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "an ID came twice");
    let random: Vec<u32> = ids.iter().map(|&id| layout.split(id).random).collect();
    // With these, any 1024 in a row are different.
    let mut first = random[..1024].to_vec();
    first.sort_unstable();
    assert!(first.into_iter().eq(0..1024), "the first 1024 carry each value");
    let again = random.iter().zip(&random[1024..]).all(|(before, after)| before == after);
    assert!(again, "and so do all others");
}
