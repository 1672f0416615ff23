//! The commands between `MULTI` and `EXEC`.
//!
//! The default pipelines of several libraries wrap everything in `MULTI`, so a transaction of 100,000 `GETID` is
//! ordinary. Commands are stored as one run of bytes (each argument after its length) and a row of the table each, 25
//! bytes for a `GETID`; both buffers are reused. `EXEC` may take several turns: the session continues with
//! [`TransactionQueue::next`] before it reads more input. Most clients never send `MULTI`: the queue is made for the
//! first one.
//!
//! Invariants: while it runs, there is a queue; `next <= commands.len()`, and command `next` begins at `read` in
//! `bytes`.

use crate::acl::LOGINS_IN_TRANSACTION_MAX;
use crate::command::{Command, Verb};
use crate::resp::{Args, Span};

/// Maximum memory of one transaction, bytes; less if `client-query-buffer-limit` is lower.
///
/// These 16 MiB are 670,000 queued `GETID`. Redis allows 1 GiB, and closes the connection beyond.
pub const TRANSACTION_BYTES_MAX: usize = 16 << 20;

/// Memory that is kept for the next transaction, bytes.
const TRANSACTION_BYTES_KEPT: usize = 64 << 10;

/// Memory that a quiet connection keeps, bytes of arguments: thirty `GETID`.
const QUIET_BYTES: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Transaction {
    phase: TransactionPhase,
    queue: Option<Box<TransactionQueue>>,
}

#[derive(Debug, Default)]
pub(super) struct TransactionQueue {
    commands: Vec<QueuedCommand>,
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// Number of logins among the queued commands.
    logins: u32,
    /// During `EXEC`: the next command, and its position in `bytes`.
    next: usize,
    read: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TransactionPhase {
    /// Outside `MULTI`.
    #[default]
    Idle,
    /// After `MULTI`. `failed`: a command was rejected, so `EXEC` will not run the others.
    Queueing { failed: bool },
    /// During `EXEC`.
    Running,
}

#[derive(Clone, Copy, Debug)]
struct QueuedCommand {
    command: &'static Command,
    args: u32,
}

/// A transaction above the limits. `Display` is the text of an error reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooLarge {
    #[error("ERR transaction is too large: its commands would take more than {bytes_max} bytes")]
    Bytes { bytes_max: usize },
    #[error("ERR transaction has too many logins: it may have {LOGINS_IN_TRANSACTION_MAX}")]
    Logins,
}

/// Returns true if the command tries a password.
pub(super) fn is_login(command: &Command, args: Args<'_>) -> bool {
    match command.verb {
        Verb::Auth => true,
        // The name of SETNAME may also be this word, which is harmless.
        Verb::Hello => args.iter().skip(2).any(|word| word.eq_ignore_ascii_case(b"auth")),
        _ => false,
    }
}

/// Size of the length stored before each argument, bytes.
const LEN_BYTES: usize = size_of::<u32>();

impl Transaction {
    /// Returns true if commands are queued.
    #[inline]
    pub(super) fn is_queueing(&self) -> bool {
        matches!(self.phase, TransactionPhase::Queueing { .. })
    }

    /// Returns true if `EXEC` still has commands to run.
    #[inline]
    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, TransactionPhase::Running)
    }

    /// Returns true between `MULTI` and the end of `EXEC`.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.phase, TransactionPhase::Idle)
    }

    /// Returns true if [`Transaction::release_memory`] has nothing to do and there is no memory to count.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        !self.is_open() && self.queue.as_ref().is_none_or(|queue| queue.bytes.capacity() <= QUIET_BYTES)
    }

    /// Returns true if `EXEC` must not run.
    pub(super) fn has_failed(&self) -> bool {
        self.phase == TransactionPhase::Queueing { failed: true }
    }

    /// Returns the number of queued commands; `None` outside `MULTI`.
    pub(super) fn queued(&self) -> Option<u32> {
        (self.phase != TransactionPhase::Idle).then(|| u32::try_from(self.queue_len()).unwrap_or(u32::MAX))
    }

    fn queue_len(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.commands.len())
    }

    /// Returns true if `EXEC` would draw IDs or change a sequence.
    pub(super) fn writes(&self) -> bool {
        self.queue.iter().flat_map(|queue| &queue.commands).any(|queued| queued.command.writes())
    }

    /// Returns true if only the holder of the claim serves one of the queued commands.
    pub(super) fn needs_claim(&self) -> bool {
        self.queue.iter().flat_map(|queue| &queue.commands).any(|queued| queued.command.needs_claim)
    }

    /// Returns the number of logins that `EXEC` would try.
    pub(super) fn logins(&self) -> u32 {
        self.queue.as_ref().map_or(0, |queue| queue.logins)
    }

    /// Begins a transaction (`MULTI`).
    pub(super) fn begin(&mut self) {
        debug_assert_eq!(self.phase, TransactionPhase::Idle);
        self.phase = TransactionPhase::Queueing { failed: false };
    }

    /// Notes a rejected command. The queued commands will never run, so they are discarded.
    pub(super) fn fail(&mut self) {
        if self.is_queueing() {
            self.discard();
            self.phase = TransactionPhase::Queueing { failed: true };
        }
    }

    /// Queues a command for `EXEC`. After a failure, nothing is queued.
    pub(super) fn push(&mut self, command: &'static Command, args: Args<'_>, bytes_max: usize) -> Result<(), TooLarge> {
        debug_assert!(self.is_queueing());
        if self.has_failed() {
            return Ok(());
        }
        let bytes_max = bytes_max.min(TRANSACTION_BYTES_MAX);
        let queue = self.queue.get_or_insert_default();
        let added: usize = args.iter().map(|arg| arg.len() + LEN_BYTES).sum();
        if queue.queued_bytes() + size_of::<QueuedCommand>() + added > bytes_max {
            self.fail();
            return Err(TooLarge::Bytes { bytes_max });
        }
        if is_login(command, args) {
            if queue.logins >= LOGINS_IN_TRANSACTION_MAX {
                self.fail();
                return Err(TooLarge::Logins);
            }
            queue.logins += 1;
        }
        queue.bytes.reserve(added);
        for arg in args.iter() {
            queue.bytes.extend_from_slice(&u32_of(arg.len()).to_ne_bytes());
            queue.bytes.extend_from_slice(arg);
        }
        queue.commands.push(QueuedCommand { command, args: u32_of(args.len()) });
        Ok(())
    }

    /// Returns the memory held, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.memory_bytes())
    }

    /// Releases the memory of a large transaction that is over. A small one keeps its memory, so that the next needs no
    /// allocation.
    pub(super) fn release_memory(&mut self) {
        if !self.is_open() && !self.is_quiet() {
            *self = Transaction::default();
        }
    }

    /// Starts `EXEC`, after which [`TransactionQueue::next`] returns the commands. Returns their number.
    pub(super) fn run(&mut self) -> usize {
        debug_assert_eq!(self.phase, TransactionPhase::Queueing { failed: false });
        let len = self.queue_len();
        if len == 0 {
            self.discard();
        } else {
            self.phase = TransactionPhase::Running;
        }
        len
    }

    /// Takes out the queue during `EXEC`: arguments borrow from it, and commands may read the transaction. The caller
    /// puts it back after each command.
    pub(super) fn take_queue(&mut self) -> Option<Box<TransactionQueue>> {
        if self.is_running() { self.queue.take() } else { None }
    }

    /// Puts the queue back, and ends the transaction after its last command.
    pub(super) fn put_back(&mut self, queue: Box<TransactionQueue>) {
        let has_ended = queue.has_ended();
        self.queue = Some(queue);
        if has_ended {
            self.discard();
        }
    }

    /// Ends the transaction and discards the queue: `DISCARD`, `RESET`, the end of `EXEC`.
    pub(super) fn discard(&mut self) {
        self.phase = TransactionPhase::Idle;
        if let Some(queue) = &mut self.queue {
            queue.clear();
        }
    }
}

impl TransactionQueue {
    /// Returns the next command to run.
    pub(super) fn next(&mut self) -> Option<(&'static Command, Args<'_>)> {
        let QueuedCommand { command, args } = *self.commands.get(self.next)?;
        self.spans.clear();
        for _ in 0..args {
            let start = self.read + LEN_BYTES;
            let len = self.bytes[self.read..start].try_into().map_or(0, u32::from_ne_bytes) as usize;
            self.spans.push(Span { start, end: start + len });
            self.read = start + len;
        }
        self.next += 1;
        Some((command, Args::new(&self.bytes, &self.spans)))
    }

    /// Returns the size of the queued commands, bytes.
    fn queued_bytes(&self) -> usize {
        self.bytes.len() + self.commands.len() * size_of::<QueuedCommand>()
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.commands.capacity() * size_of::<QueuedCommand>()
            + self.spans.capacity() * size_of::<Span>()
    }

    /// Returns true if the last command has run.
    fn has_ended(&self) -> bool {
        debug_assert!(self.next <= self.commands.len() && self.read <= self.bytes.len());
        self.next == self.commands.len()
    }

    fn clear(&mut self) {
        self.logins = 0;
        self.next = 0;
        self.read = 0;
        self.commands.clear();
        self.bytes.clear();
        self.spans.clear();
        self.commands.shrink_to(TRANSACTION_BYTES_KEPT / size_of::<QueuedCommand>());
        self.bytes.shrink_to(TRANSACTION_BYTES_KEPT);
        self.spans.shrink_to(TRANSACTION_BYTES_KEPT / size_of::<Span>());
    }
}

/// Converts a length or count, which [`TRANSACTION_BYTES_MAX`] bounds.
fn u32_of(len: usize) -> u32 {
    u32::try_from(len).expect("a transaction is far smaller than 4 GiB")
}
