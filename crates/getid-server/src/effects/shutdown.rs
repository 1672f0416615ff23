//! The command `SHUTDOWN`.

use super::EffectReply;
use crate::Server;
use crate::audit::AuditAction;
use crate::registry::{Client, StopMode};
use getid_redis::resp::Value;
use getid_redis::session::Shutdown;

pub(super) fn shutdown(server: &Server, how: Shutdown, client: &Client) -> EffectReply {
    // A stop closes the issuer permanently, so there is never a shutdown to abort.
    if how.abort {
        return Value::error("ERR No shutdown in progress.").into();
    }
    // As Redis, refuses to lose unsaved state. A save that failed a moment ago would fail now.
    if !how.force && !how.nosave && !server.issuer().status().last_save_ok {
        server.audit(AuditAction::ShutdownRefused, client);
        return Value::error("ERR Errors trying to SHUTDOWN. Check logs.").into();
    }
    server.audit(AuditAction::Shutdown, client);
    if how.now {
        server.clients.stop_all(StopMode::Now);
    }
    server.request_stop();
    EffectReply::Close
}
