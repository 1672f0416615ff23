//! The slow log: which commands took long, newest first, cut down to a bounded size as in Redis.

use std::collections::VecDeque;
use std::sync::Arc;

/// Arguments kept of a command; the last of them then says how many more there were.
pub const ARGS_MAX: usize = 32;

/// Bytes kept of an argument, not counting the note of how many more there were.
pub const ARG_BYTES_MAX: usize = 128;

/// A slow command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Unique in this process; ids ascend.
    pub id: u64,
    /// When it was done, Unix seconds.
    pub unix_s: i64,
    /// How long it took, in microseconds.
    pub us: u64,
    /// What was sent, as [`trimmed`] leaves it.
    pub args: Vec<Vec<u8>>,
    /// The client that sent it.
    pub peer: String,
    /// The name that `CLIENT SETNAME` gave the sender; empty without one.
    pub name: Arc<str>,
}

impl Entry {
    /// The memory it takes, bytes.
    pub fn memory_bytes(&self) -> usize {
        let args: usize = self.args.iter().map(|arg| size_of_val(arg) + arg.len()).sum();
        size_of::<Entry>() + args + self.peer.len() + self.name.len()
    }
}

/// The last slow commands.
#[derive(Debug, Default)]
pub struct SlowLog {
    /// Newest first.
    entries: VecDeque<Arc<Entry>>,
    next_id: u64,
}

impl SlowLog {
    /// Adds an entry, whose id is given here, and keeps no more than `len_max`.
    pub fn push(&mut self, entry: Entry, len_max: u64) {
        self.entries.push_front(Arc::new(Entry { id: self.next_id, ..entry }));
        self.next_id += 1;
        self.entries.truncate(usize::try_from(len_max).unwrap_or(usize::MAX));
    }

    /// The entries, newest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Arc<Entry>> {
        self.entries.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets all entries; ids go on.
    pub fn clear(&mut self) {
        self.entries = VecDeque::new();
    }
}

/// Arguments as the slow log keeps them.
pub fn trimmed<'a>(args: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let count = args.len();
    let kept = if count > ARGS_MAX { ARGS_MAX - 1 } else { count };
    let mut all: Vec<Vec<u8>> = args.take(kept).map(trimmed_arg).collect();
    if count > kept {
        all.push(format!("... ({} more arguments)", count - kept).into_bytes());
    }
    all
}

fn trimmed_arg(arg: &[u8]) -> Vec<u8> {
    match arg.split_at_checked(ARG_BYTES_MAX) {
        Some((kept, more)) if !more.is_empty() => {
            [kept, format!("... ({} more bytes)", more.len()).as_bytes()].concat()
        }
        _ => arg.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(us: u64) -> Entry {
        Entry { id: 0, unix_s: 1, us, args: Vec::new(), peer: String::new(), name: Arc::default() }
    }

    #[test]
    fn newest_first_and_no_more_than_the_maximum() {
        let mut log = SlowLog::default();
        for us in 0..5 {
            log.push(entry(us), 3);
        }
        assert_eq!(log.entries().map(|entry| (entry.id, entry.us)).collect::<Vec<_>>(), [(4, 4), (3, 3), (2, 2)]);
        log.push(entry(5), 1);
        assert_eq!(log.len(), 1);
        log.clear();
        assert!(log.is_empty());
        log.push(entry(6), 0);
        assert!(log.is_empty());
        log.push(entry(7), 1);
        assert_eq!(log.entries().next().unwrap().id, 7, "ids go on");
    }

    #[test]
    fn at_most_32_arguments_of_128_bytes() {
        let long = [b'x'; 200];
        let args = |count: usize| trimmed(vec![&b"y"[..]; count].into_iter());
        assert_eq!(args(32), vec![b"y".to_vec(); 32]);
        let cut = args(41);
        assert_eq!(cut.len(), 32);
        assert_eq!(cut[30], b"y");
        assert_eq!(cut[31], b"... (10 more arguments)");
        assert_eq!(trimmed([&long[..128]].into_iter()), [&long[..128]]);
        assert_eq!(trimmed([&long[..]].into_iter()), [[&long[..128], b"... (72 more bytes)"].concat()]);
    }
}
