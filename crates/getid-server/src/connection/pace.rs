//! Fairness between clients with much work: after a while each lets its thread serve the others.

use getid_redis::session::TURN_NS_MAX;
use getid_system::clock;

/// Time for which a client with more work keeps its thread before others get their turn, in ns. Twenty of them delay
/// the next by some 5 ms.
pub(super) const SLICE_NS: u64 = TURN_NS_MAX;

/// Duration in ns above which a client lets others go first before its next read.
pub(super) const SHORT_TURN_NS: u64 = 100_000;

/// Returns true if a client that has had its thread since `since_ns` (`None`: unknown) has had it for `slice_ns`.
///
/// By the clock, since the work of a command does not follow from the size of its request or reply.
pub(super) fn is_over(since_ns: Option<u64>, slice_ns: u64) -> bool {
    let now_ns = clock::stopwatch_ns();
    since_ns.is_none_or(|since| now_ns.saturating_sub(since) >= slice_ns)
}

/// Yields to other clients if this one had the thread for `slice_ns`. The runtime then polls its sockets before it
/// returns here, so requests that arrived meanwhile are next.
pub(super) async fn yield_if_over(since_ns: &mut Option<u64>, slice_ns: u64) {
    if is_over(*since_ns, slice_ns) {
        tokio::task::yield_now().await;
        *since_ns = Some(clock::stopwatch_ns());
    }
}
