//! The issuer under shuttle, which picks the next thread at each lock, each atomic word and each wake-up.
//!
//! The unit tests of this crate are compiled with shuttle's locks (see [`super::sync`]). So every test that uses an
//! issuer plays its scene by [`check_orders`]. Tests with the system's threads are in `tests/threads.rs`.

mod lanes;
mod queue;

use getid_core::server::checks::{Fault, plant};

const MS: u64 = 1_000_000;
/// Start of 2026-01-01 in Unix ms.
const WALL_UNIX_MS: i64 = 1_767_225_600_000;

/// Returns the number of thread orders to try for each scene, or `GETID_SIM_ORDERS`.
fn orders() -> usize {
    std::env::var("GETID_SIM_ORDERS").map_or(100, |text| text.parse().expect("GETID_SIM_ORDERS: a number"))
}

/// Plays a scene under this number of thread orders, from a seed: `SHUTTLE_RANDOM_SEED`, or the same in each run.
fn check_orders(scene: fn(), orders: usize) {
    shuttle::check_random_with_seed(scene, 1, orders);
}

/// Plays a fault's scene with the fault planted, and checks that it fails.
fn must_find(fault: Fault, scene: fn()) {
    let played = std::panic::catch_unwind(|| {
        let _planted = plant(fault);
        check_orders(scene, 1000);
    });
    assert!(played.is_err(), "{fault:?} was not found");
}
