//! Commands about IDs, as far as they look at the clock or the issuer.

use getid_core::Refusal;

use crate::command;
use crate::resp::Value;
use crate::server::Server;
use crate::session::IdsEffect;
use crate::system::clock::Clock as _;

pub(super) fn perform(server: &Server, effect: IdsEffect) -> Value {
    let layout = server.issuer().identity().layout;
    let now_ms = || server.issuer().clock().wall_unix_ms();
    match effect {
        IdsEffect::Decode(id) => command::describe_id(layout, id, now_ms()),
        IdsEffect::Ready { tells_why } => ready(server, tells_why),
        IdsEffect::Span(times) => command::describe_span(layout, times, now_ms()),
    }
}

/// Whether IDs are given. At the borrow limit they are, though not to everybody at once: a load balancer that took such
/// a server out would take away one after the other.
fn ready(server: &Server, tells_why: bool) -> Value {
    match server.issuer().refusing().filter(|refusal| !refusal.is_overload()) {
        None => Value::Simple("READY".into()),
        Some(refusal) if tells_why => Value::error(refusal.to_string()),
        Some(Refusal::Closed) => Value::error("ERR no ids are given now"),
        Some(_) => Value::error("MISCONF no ids are given now; who logs in is told why"),
    }
}
