//! The slow log: slow commands, newest first, trimmed to a bounded size as in Redis.

use std::collections::VecDeque;
use std::sync::Arc;

/// Largest number of arguments kept of a command; the last one then counts those left out.
pub const ARGS_MAX: usize = 32;

/// Largest part kept of an argument, bytes, without the note about the rest.
pub const ARG_BYTES_MAX: usize = 128;

/// A slow command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowLogEntry {
    /// Number of the entry, unique in this process and ascending.
    pub id: u64,
    /// End of the command, Unix seconds.
    pub unix_s: i64,
    /// Duration of the command, microseconds.
    pub us: u64,
    /// The arguments, as [`trimmed`] returns them.
    pub args: Vec<Vec<u8>>,
    /// Address of the client.
    pub peer: String,
    /// Name of the client by `CLIENT SETNAME`; empty without one.
    pub name: Arc<str>,
}

impl SlowLogEntry {
    /// Returns the memory of the entry, bytes.
    pub fn memory_bytes(&self) -> usize {
        let args: usize = self.args.iter().map(|arg| size_of_val(arg) + arg.len()).sum();
        size_of::<SlowLogEntry>() + args + self.peer.len() + self.name.len()
    }
}

/// The last slow commands.
#[derive(Debug, Default)]
pub struct SlowLog {
    /// Entries, newest first.
    entries: VecDeque<Arc<SlowLogEntry>>,
    next_id: u64,
}

impl SlowLog {
    /// Adds an entry, sets its id, and keeps at most `len_max` entries.
    pub fn push(&mut self, entry: SlowLogEntry, len_max: u64) {
        self.entries.push_front(Arc::new(SlowLogEntry { id: self.next_id, ..entry }));
        self.next_id += 1;
        self.entries.truncate(usize::try_from(len_max).unwrap_or(usize::MAX));
    }

    /// Returns the entries, newest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Arc<SlowLogEntry>> {
        self.entries.iter()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Deletes all entries; ids continue.
    pub fn clear(&mut self) {
        self.entries = VecDeque::new();
    }
}

/// Returns the arguments as the slow log keeps them.
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

    fn entry(us: u64) -> SlowLogEntry {
        SlowLogEntry { id: 0, unix_s: 1, us, args: Vec::new(), peer: String::new(), name: Arc::default() }
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
        assert_eq!(log.entries().next().unwrap().id, 7, "ids continue");
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
