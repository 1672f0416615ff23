//! Commands with a request key: the reply that is kept, or IDs that are drawn and then kept.

use std::sync::Arc;

use super::EffectReply;
use crate::Server;
use getid_redis::resp::Value;
use getid_redis::session::{REQUESTS_OFF, RequestEffect};

pub(super) async fn perform(_server: &Arc<Server>, _effect: RequestEffect) -> EffectReply {
    Value::Error(REQUESTS_OFF).into()
}
