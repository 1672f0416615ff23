//! The bytes that a connection sends, built once.

use crate::replies::{ReplyCounter, push_request};

/// Largest size of a connection's requests in flight, bytes; a longer pipeline reveals no more about a server.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// The requests of one connection: a number of equal units in flight.
///
/// A unit is one command, or a whole transaction: MULTI, the command a number of times, EXEC. Every command of a unit
/// is a request and gets a reply, including MULTI and EXEC, as servers count them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    bytes: Vec<u8>,
    unit_bytes: usize,
    unit_requests: u32,
    /// Number of commands in a unit, without MULTI and EXEC.
    unit_commands: u32,
    depth: u32,
}

/// Reason why a workload cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// The command has no words.
    #[error("there is no command to send")]
    NoCommand,
    /// The requests in flight on a connection are too large together.
    #[error("{bytes} bytes in flight on each connection; at most {BATCH_BYTES_MAX} are possible: a lower --pipeline")]
    TooLarge {
        /// Size of the requests in flight on each connection.
        bytes: u128,
    },
}

impl Workload {
    /// Builds `depth` units of `words`, or of transactions of `transaction` times `words`. A depth of 0 counts as 1.
    ///
    /// # Errors
    ///
    /// Fails if `words` is empty, or the units are larger than 16 MiB together.
    pub fn new(words: &[impl AsRef<[u8]>], transaction: Option<u32>, depth: u32) -> Result<Workload, WorkloadError> {
        if words.is_empty() {
            return Err(WorkloadError::NoCommand);
        }
        let depth = depth.max(1);
        let mut command = Vec::new();
        push_request(&mut command, words);
        // Checked before the bytes are built.
        let bytes = command.len() as u128 * u128::from(transaction.unwrap_or(1)) * u128::from(depth);
        if bytes > BATCH_BYTES_MAX as u128 {
            return Err(WorkloadError::TooLarge { bytes });
        }
        let (unit, unit_requests) = match transaction {
            None => (command, 1),
            Some(times) => {
                let mut unit = Vec::new();
                push_request(&mut unit, &["MULTI"]);
                for _ in 0..times {
                    unit.extend_from_slice(&command);
                }
                push_request(&mut unit, &["EXEC"]);
                (unit, times + 2)
            }
        };
        let unit_commands = transaction.unwrap_or(1);
        Ok(Workload { bytes: unit.repeat(depth as usize), unit_bytes: unit.len(), unit_requests, unit_commands, depth })
    }

    /// Returns the largest number of units in flight; at least 1.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns the number of requests, and so of replies, of one unit; at least 1.
    pub fn unit_requests(&self) -> u32 {
        self.unit_requests
    }

    /// Returns the error that every request would get, if the replies so far contain nothing else. Errors of a server
    /// that is busy, starting or without its disk may pass, so they return `None`.
    pub fn refusal<'a>(&self, replies: u64, counts: &'a ReplyCounter) -> Option<&'a str> {
        const PASSES: &[&str] = &["BUSY", "MISCONF", "LOADING", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY"];
        // In a transaction, MULTI is answered with OK in any case.
        let commands = replies / u64::from(self.unit_requests) * u64::from(self.unit_commands);
        let texts = &counts.errors.texts;
        let passes = texts.iter().any(|(text, _)| text.split(' ').next().is_some_and(|code| PASSES.contains(&code)));
        let first = texts.first().filter(|_| counts.errors.count >= commands && counts.values == 0 && !passes)?;
        Some(&first.0)
    }

    /// Returns the bytes of that many units, at most [`Self::depth`].
    pub fn batch(&self, units: u32) -> &[u8] {
        &self.bytes[..units.min(self.depth) as usize * self.unit_bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands() {
        let workload = Workload::new(&["MGETID", "100"], None, 3).unwrap();
        assert_eq!(workload.batch(1), b"*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n");
        assert_eq!(workload.batch(3), workload.batch(1).repeat(3));
        assert_eq!((workload.depth(), workload.unit_requests()), (3, 1));
    }

    #[test]
    fn transactions() {
        let workload = Workload::new(&["GETID"], Some(2), 1).unwrap();
        assert_eq!(
            workload.batch(1),
            b"*1\r\n$5\r\nMULTI\r\n*1\r\n$5\r\nGETID\r\n*1\r\n$5\r\nGETID\r\n*1\r\n$4\r\nEXEC\r\n"
        );
        assert_eq!(workload.unit_requests(), 4);
    }

    #[test]
    fn what_cannot_be() {
        assert_eq!(Workload::new(&[""; 0], None, 1), Err(WorkloadError::NoCommand));
        let error = Workload::new(&["GETID"], Some(u32::MAX), u32::MAX).unwrap_err();
        assert!(matches!(error, WorkloadError::TooLarge { .. }));
        assert_eq!(Workload::new(&["GETID"], None, 0).unwrap().depth(), 1);
    }

    #[test]
    fn a_run_of_nothing_but_errors_is_refused_unless_they_may_pass() {
        let counts = |values: u64, errors: &[&str]| {
            let mut counts = ReplyCounter { values, ..ReplyCounter::default() };
            for text in errors {
                counts.errors.add(text.as_bytes());
            }
            counts
        };
        let single = Workload::new(&["GETID"], None, 1).unwrap();
        assert_eq!(single.refusal(2, &counts(0, &["NOAUTH x", "NOAUTH x"])), Some("NOAUTH x"));
        assert_eq!(single.refusal(2, &counts(1, &["ERR x"])), None);
        assert_eq!(single.refusal(2, &counts(0, &["ERR x"])), None, "one was OK");
        assert_eq!(single.refusal(2, &counts(0, &["BUSY x", "BUSY x"])), None);
        assert_eq!(single.refusal(0, &counts(0, &[])), None);
        let transaction = Workload::new(&["GETID", "1"], Some(2), 1).unwrap();
        assert_eq!(transaction.refusal(4, &counts(0, &["ERR arity", "ERR arity", "EXECABORT x"])), Some("ERR arity"));
        assert_eq!(transaction.refusal(4, &counts(2, &[])), None);
    }
}
