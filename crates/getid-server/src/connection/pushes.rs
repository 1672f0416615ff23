//! Output that a connection sends without a request: lines for `MONITOR`, and messages for subscribers.

use crate::master_events::{MissedMessages, Subscription};
use crate::monitor::MonitorSlot;
use getid_redis::session::Session;

/// Sources of a client's output without a request.
#[derive(Debug, Default)]
pub(super) struct Pushes {
    /// State of `MONITOR`, if it runs.
    pub(super) monitor: Option<MonitorSlot>,
    /// Position among the published messages, if the client has subscribed.
    pub(super) subscription: Option<Subscription>,
}

impl Pushes {
    /// Moves waiting output to `output`, up to a bound. Returns false if there is none.
    pub(super) fn take(&mut self, session: &Session, output: &mut Vec<u8>) -> Result<bool, MissedMessages> {
        if self.monitor.as_ref().is_some_and(|lines| lines.take(output)) {
            return Ok(true);
        }
        let Some(subscription) = &mut self.subscription else { return Ok(false) };
        if !session.view().is_subscribed() {
            self.subscription = None;
            return Ok(false);
        }
        let messages = subscription.take()?;
        let is_empty = messages.is_empty();
        for message in messages {
            session.deliver(message.channel.as_bytes(), message.text.as_bytes(), output);
        }
        Ok(!is_empty)
    }
}
