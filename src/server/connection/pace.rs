//! Clients that have more to say take turns: after a while each lets its thread serve the others.

use crate::session::TURN_NS_MAX;
use crate::system::clock;

/// How long a client that has more to say keeps its thread before others get their turn, in ns. Twenty of them delay
/// the next by some 5 ms.
pub(super) const SLICE_NS: u64 = TURN_NS_MAX;

/// A client that took longer than this lets others go first before its next read, in ns.
pub(super) const SHORT_TURN_NS: u64 = 100_000;

/// Whether a client that has had its thread since `since_ns` (`None`: unknown) has had it for `slice_ns`.
///
/// By the clock, for the work of a command says nothing of the bytes it came in or is answered by.
pub(super) fn is_over(since_ns: Option<u64>, slice_ns: u64) -> bool {
    let now_ns = clock::stopwatch_ns();
    since_ns.is_none_or(|since| now_ns.saturating_sub(since) >= slice_ns)
}

/// Lets others have their turn if this client had the thread for `slice_ns`. The runtime then looks at its sockets
/// before it comes back here: who asked meanwhile is next.
pub(super) async fn give_way(since_ns: &mut Option<u64>, slice_ns: u64) {
    if is_over(*since_ns, slice_ns) {
        tokio::task::yield_now().await;
        *since_ns = Some(clock::stopwatch_ns());
    }
}
