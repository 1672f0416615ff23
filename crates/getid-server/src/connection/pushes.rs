//! Output that a connection sends without a request: lines for `MONITOR`, and messages for subscribers.

use super::buffers::FLUSH_BYTES;
use crate::master_events::{MissedMessages, Subscription};
use crate::monitor::MonitorSlot;
use getid_redis::session::Session;

/// Maximum number of comparisons of a channel with subscribed patterns at a time: 4 messages for the 1000 patterns that
/// a client may have. One message is about 700 bytes for each pattern that matches, so the output at a time is at most
/// `FLUSH_BYTES` and 0.7 MB.
const COMPARISONS_MAX: usize = 4096;

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
        let comparisons = 1 + usize::from(session.view().subscriptions[1]);
        let mut has_any = false;
        // At least one: then the next call continues behind it.
        for _ in 0..COMPARISONS_MAX.div_ceil(comparisons) {
            let Some(message) = subscription.take()? else { break };
            session.deliver(message.channel.as_bytes(), message.text.as_bytes(), output);
            has_any = true;
            if output.len() >= FLUSH_BYTES {
                break;
            }
        }
        Ok(has_any)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::master_events::{MasterEvent, MasterEvents};
    use getid_redis::session::Turn;

    #[test]
    fn output_and_comparisons_at_a_time_are_bounded_and_no_message_is_lost() {
        let settings = Arc::new(crate::settings::session_settings(&getid_config::Config::default()).unwrap());
        for (pattern, copies) in [("*", 1), ("x", 0)] {
            let mut session = Session::new(1, Arc::clone(&settings));
            let patterns: Vec<String> = (1..=200).map(|number| pattern.repeat(number)).collect();
            session.read(format!("PSUBSCRIBE {}\r\n", patterns.join(" ")).as_bytes(), &mut Turn::default());
            let events = Arc::<MasterEvents>::default();
            let mut pushes = Pushes { subscription: Some(events.subscribe()), ..Pushes::default() };
            let text = "x".repeat(600);
            events.publish((0..100).map(|_| MasterEvent { channel: "+slave", text: text.clone() }));
            let (mut parts, mut delivered) = (0, 0);
            let mut output = Vec::new();
            while pushes.take(&session, &mut output).unwrap() {
                assert!(output.len() <= FLUSH_BYTES + 200 * 1000, "{} bytes at a time", output.len());
                delivered += output.windows(text.len()).filter(|part| *part == text.as_bytes()).count();
                output.clear();
                parts += 1;
            }
            assert_eq!(delivered, 100 * 200 * copies, "{pattern}");
            // 21 messages have 4096 comparisons with 200 patterns, and one message fills the output.
            assert_eq!(parts, if copies == 0 { 5 } else { 100 }, "{pattern}");
        }
    }
}
