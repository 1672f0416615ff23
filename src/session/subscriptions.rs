//! Channels that a client listens to. Nothing is ever said there: libraries keep a connection that listens for news of
//! a server's role, and take its loss for a fault.
//!
//! Invariant: `bytes` is the sum of the lengths of all names.

use std::collections::BTreeSet;

/// Channels and patterns that one client listens to at most.
const NAMES_MAX: usize = 1000;

/// Bytes of their names together.
const BYTES_MAX: usize = 64 << 10;

/// What one client listens to.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    channels: BTreeSet<Box<[u8]>>,
    patterns: BTreeSet<Box<[u8]>>,
    bytes: usize,
}

/// Which of the two kinds of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listened {
    Channels,
    Patterns,
}

/// More than a client may listen to. `Display` is the text of an error reply.
#[derive(Debug, thiserror::Error)]
#[error("ERR a client may listen to at most {NAMES_MAX} channels and patterns of {BYTES_MAX} bytes in all")]
pub(super) struct TooMany;

impl Subscriptions {
    /// How many channels, and how many patterns.
    pub(super) fn counts(&self) -> [usize; 2] {
        [self.channels.len(), self.patterns.len()]
    }

    /// How many of both.
    pub(super) fn len(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// What it takes, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes + self.len() * size_of::<Box<[u8]>>()
    }

    /// Listens to one more; one that is known stays.
    pub(super) fn add(&mut self, kind: Listened, name: &[u8]) -> Result<(), TooMany> {
        if self.names(kind).contains(name) {
            return Ok(());
        }
        if self.len() >= NAMES_MAX || self.bytes + name.len() > BYTES_MAX {
            return Err(TooMany);
        }
        self.bytes += name.len();
        self.names(kind).insert(name.into());
        Ok(())
    }

    /// Listens to it no more, if it did.
    pub(super) fn remove(&mut self, kind: Listened, name: &[u8]) {
        if self.names(kind).remove(name) {
            self.bytes -= name.len();
        }
    }

    /// Any of them.
    pub(super) fn any(&mut self, kind: Listened) -> Option<Box<[u8]>> {
        self.names(kind).first().cloned()
    }

    fn names(&mut self, kind: Listened) -> &mut BTreeSet<Box<[u8]>> {
        match kind {
            Listened::Channels => &mut self.channels,
            Listened::Patterns => &mut self.patterns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_listens_to_so_much_and_no_more() {
        let mut all = Subscriptions::default();
        for number in 0..NAMES_MAX {
            all.add(Listened::Channels, number.to_string().as_bytes()).unwrap();
        }
        all.add(Listened::Channels, b"7").expect("it is known");
        assert!(all.add(Listened::Patterns, b"7").is_err());
        all.remove(Listened::Channels, b"7");
        all.remove(Listened::Channels, b"7");
        all.add(Listened::Patterns, b"7").unwrap();
        assert_eq!((all.counts(), all.len()), ([NAMES_MAX - 1, 1], NAMES_MAX));
        while let Some(name) = all.any(Listened::Channels) {
            all.remove(Listened::Channels, &name);
        }
        assert_eq!((all.len(), all.bytes), (1, 1));
        assert!(all.add(Listened::Channels, &vec![b'x'; BYTES_MAX]).is_err());
    }
}
