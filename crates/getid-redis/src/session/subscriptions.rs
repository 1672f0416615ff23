//! Channels that a client is subscribed to, and the messages that it gets there. Libraries keep a subscribed connection
//! for news of a server's role: the server publishes Sentinel's events when another server becomes the master of a
//! server-id. Clients publish nothing.
//!
//! Invariant: `bytes` is the sum of the lengths of all names. It bounds the work of a message: each pattern is compared
//! once with the channel, whose name is short.

use std::collections::BTreeSet;

use crate::resp::{Protocol, write_array_header, write_bulk, write_push_header};
use getid_text::glob::Pattern;

/// Maximum number of channels and patterns of one client.
const NAMES_MAX: usize = 1000;

/// Maximum size of their names together, bytes.
const BYTES_MAX: usize = 64 << 10;

/// The subscriptions of one client.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    channels: BTreeSet<Box<[u8]>>,
    patterns: BTreeSet<Box<[u8]>>,
    bytes: usize,
}

/// Kind of a subscribed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubscriptionKind {
    Channels,
    Patterns,
}

/// Error of a subscription above the limits. `Display` is the text of an error reply.
#[derive(Debug, thiserror::Error)]
#[error("ERR a client may subscribe to at most {NAMES_MAX} channels and patterns of {BYTES_MAX} bytes in all")]
pub(super) struct SubscriptionLimit;

impl Subscriptions {
    /// Returns the number of channels, and the number of patterns.
    pub(super) fn counts(&self) -> [usize; 2] {
        [self.channels.len(), self.patterns.len()]
    }

    /// Returns the number of channels and patterns together.
    pub(super) fn len(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// Returns the memory held, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes + self.len() * size_of::<Box<[u8]>>()
    }

    /// Adds a name. A name that is present is not added again.
    pub(super) fn add(&mut self, kind: SubscriptionKind, name: &[u8]) -> Result<(), SubscriptionLimit> {
        if self.names(kind).contains(name) {
            return Ok(());
        }
        if self.len() >= NAMES_MAX || self.bytes + name.len() > BYTES_MAX {
            return Err(SubscriptionLimit);
        }
        self.bytes += name.len();
        self.names(kind).insert(name.into());
        Ok(())
    }

    /// Removes a name, if present.
    pub(super) fn remove(&mut self, kind: SubscriptionKind, name: &[u8]) {
        if self.names(kind).remove(name) {
            self.bytes -= name.len();
        }
    }

    /// Appends a message on `channel`, once for the channel and once for each pattern that matches it, as in Redis.
    pub(super) fn deliver(&self, protocol: Protocol, channel: &[u8], message: &[u8], output: &mut Vec<u8>) {
        let mut write = |words: &[&[u8]]| {
            match protocol {
                Protocol::Resp2 => write_array_header(words.len(), output),
                Protocol::Resp3 => write_push_header(words.len(), output),
            }
            for word in words {
                write_bulk(word, output);
            }
        };
        if self.channels.contains(channel) {
            write(&[b"message", channel, message]);
        }
        for pattern in &self.patterns {
            // A pattern that is too long for a comparison matches no channel here: their names are short.
            if Pattern::new(pattern, false).is_ok_and(|parsed| parsed.matches(channel)) {
                write(&[b"pmessage", pattern, channel, message]);
            }
        }
    }

    /// Returns one of the names.
    pub(super) fn any(&mut self, kind: SubscriptionKind) -> Option<Box<[u8]>> {
        self.names(kind).first().cloned()
    }

    fn names(&mut self, kind: SubscriptionKind) -> &mut BTreeSet<Box<[u8]>> {
        match kind {
            SubscriptionKind::Channels => &mut self.channels,
            SubscriptionKind::Patterns => &mut self.patterns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_once_for_the_channel_and_once_for_each_pattern_that_matches() {
        let mut all = Subscriptions::default();
        let delivered = |all: &Subscriptions, protocol| {
            let mut output = Vec::new();
            all.deliver(protocol, b"+slave", b"a b", &mut output);
            String::from_utf8(output).unwrap().replace("\r\n", " ")
        };
        for name in ["+slave", "slave"] {
            all.add(SubscriptionKind::Channels, name.as_bytes()).unwrap();
        }
        assert_eq!(delivered(&all, Protocol::Resp2), "*3 $7 message $6 +slave $3 a b ");
        let long = format!("*{}", "*".repeat(2000));
        for pattern in ["[-+]slave", "slave", "*", &long] {
            all.add(SubscriptionKind::Patterns, pattern.as_bytes()).unwrap();
        }
        all.remove(SubscriptionKind::Channels, b"+slave");
        let expected = ">4 $8 pmessage $1 * $6 +slave $3 a b >4 $8 pmessage $9 [-+]slave $6 +slave $3 a b ";
        assert_eq!(delivered(&all, Protocol::Resp3), expected);
    }

    #[test]
    fn subscriptions_are_bounded() {
        let mut all = Subscriptions::default();
        for number in 0..NAMES_MAX {
            all.add(SubscriptionKind::Channels, number.to_string().as_bytes()).unwrap();
        }
        all.add(SubscriptionKind::Channels, b"7").expect("a present name is accepted");
        assert!(all.add(SubscriptionKind::Patterns, b"7").is_err());
        all.remove(SubscriptionKind::Channels, b"7");
        all.remove(SubscriptionKind::Channels, b"7");
        all.add(SubscriptionKind::Patterns, b"7").unwrap();
        assert_eq!((all.counts(), all.len()), ([NAMES_MAX - 1, 1], NAMES_MAX));
        while let Some(name) = all.any(SubscriptionKind::Channels) {
            all.remove(SubscriptionKind::Channels, &name);
        }
        assert_eq!((all.len(), all.bytes), (1, 1));
        assert!(all.add(SubscriptionKind::Channels, &vec![b'x'; BYTES_MAX]).is_err());
    }
}
