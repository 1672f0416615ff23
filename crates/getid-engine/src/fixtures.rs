//! Values for the tests of other crates: an issuer with more IDs than a test can use up.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Identity, NoClaim};
use crate::generators::Keeper;
use crate::generators::time::Issuer;
use getid_core::{Limits, SavePoint};
use getid_system::clock::Clock;
use tokio::runtime::Runtime;

/// Creates an issuer that may borrow `max_borrow_ms` and has borrowed nothing. Its keeper runs as long as `runtime`
/// does.
///
/// A life begins at its borrow limit, where draws wait: this one begins with a small limit, which is raised then.
pub fn roomy_issuer<C: Clock>(runtime: &Runtime, clock: C, identity: Identity, max_borrow_ms: u64) -> Arc<Issuer<C>> {
    let limits = Limits { max_borrow_ms, lead_ms: max_borrow_ms, ..Limits::default() };
    let small = Limits { max_borrow_ms: 1, lead_ms: 1, ..limits };
    let now = identity.layout.epoch().tick_at(clock.wall_unix_ms()).expect("a sane clock");
    let found = SavePoint { watermark: now, reference: now, max_borrow_ms: 0 };
    runtime.block_on(async {
        let (issuer, mut keeper) = Keeper::prepare(clock, identity, small, NoClaim::acquired(Some(found))).await;
        keeper.first_save().await.expect("a store that keeps nothing cannot fail");
        tokio::spawn(keeper.run(std::future::pending()));
        issuer.set_limits(limits);
        while issuer.status().mint.max_borrow_ms < max_borrow_ms {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        issuer
    })
}
