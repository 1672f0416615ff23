//! Counts and times of a turn, for INFO, SLOWLOG, LATENCY and MONITOR. The session counts here, and the shell stores
//! the result.
//!
//! Counted per command, not per call: a pipeline of a thousand GETID is one entry. ID commands are not timed here,
//! since their cost is the draw, which the shell makes once for all of them. Every other command is timed separately
//! with the clock in [`Timing`]; of commands that follow each other directly, the end of one is the beginning of the
//! next.

use super::shown::{SHOWN_BYTES_MAX, kept, quote_all, redacted};
use crate::command::{Command, CommandFlags, Verb};
use crate::resp::Args;
use crate::stats::bucket_of;

/// Clock and thresholds for the timing of commands.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// A monotonic clock in nanoseconds, whose zero is arbitrary.
    pub now_ns: fn() -> u64,
    /// Duration in ns from which commands are noted one by one ([`TurnTally::take_slow_commands`]); `u64::MAX`: none.
    pub slow_ns: u64,
    /// Returns true if the directive of this name, in any letter case, is a secret. Its value in `CONFIG SET` is not
    /// shown.
    pub is_secret: fn(&[u8]) -> bool,
}

impl Default for Timing {
    /// Returns a timing whose clock stands still, which notes no command, and for which every directive is secret.
    fn default() -> Timing {
        Timing { now_ns: || 0, slow_ns: u64::MAX, is_secret: |_| true }
    }
}

/// Calls of one command in one turn with similar durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls {
    /// The command.
    pub verb: Verb,
    /// Number of calls that ran.
    pub calls: u32,
    /// Number of these calls that were answered with an error.
    pub failed: u32,
    /// Number of further calls rejected before they ran: wrong number of arguments, not allowed.
    pub rejected: u32,
    /// Total duration of the calls in ns; 0 for ID commands.
    pub ns: u64,
    /// Bucket of the histogram for all these calls; 0 for ID commands.
    pub bucket: u16,
}

/// First word of an error reply, by which Redis counts errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErrorCode([u8; ErrorCode::BYTES_MAX]);

impl ErrorCode {
    /// Maximum length of a code, bytes; longer ones count as `ERR`. Redis's own have up to ten.
    pub const BYTES_MAX: usize = 16;

    /// Returns the code of an error's text, without the `-`; `ERR` if it has none.
    pub fn of(text: &[u8]) -> ErrorCode {
        let len = text.iter().take(ErrorCode::BYTES_MAX + 1).position(|&byte| byte == b' ');
        let code = len.and_then(|len| text.get(..len)).filter(|code| !code.is_empty()).unwrap_or(b"ERR");
        let mut bytes = [0; ErrorCode::BYTES_MAX];
        bytes[..code.len()].copy_from_slice(code);
        ErrorCode(bytes)
    }

    /// Returns the code as text.
    pub fn word(&self) -> String {
        let len = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        String::from_utf8_lossy(&self.0[..len]).into_owned()
    }
}

/// A slow command.
#[derive(Debug)]
pub struct SlowCommand {
    /// The command.
    pub command: &'static Command,
    /// Arguments of the request, cut as by `trimmed`, without passwords.
    pub args: Vec<Vec<u8>>,
    /// Duration in ns.
    pub ns: u64,
}

/// Number of entries at the end of the list that are searched for a call's entry. Longer lists occur only if many
/// commands alternate.
const SEARCHED: usize = 16;

/// Number of entries for which a turn keeps memory.
const CALLS_KEPT: usize = 64;

/// Counts and times of a turn. Reused, as the turn is.
#[derive(Debug, Default)]
pub struct TurnTally {
    calls: Vec<Calls>,
    errors: Vec<(ErrorCode, u32)>,
    /// Number of all errors.
    error_replies: u32,
    slow_commands: Vec<SlowCommand>,
    /// The command whose effect the shell performs.
    effect_command: Option<SlowCommand>,
    /// End of the last command in ns, if nothing came since.
    lap_ns: Option<u64>,
    /// Total duration of timed commands in ns.
    spent_ns: u64,
    /// Whether commands are shown to monitors.
    is_watched: bool,
    /// The database and the end in `shown` of each command.
    shown_ends: Vec<(u32, usize)>,
    shown: Vec<u8>,
}

/// Start of a command in ns, and number of errors at that time.
#[derive(Clone, Copy)]
pub(super) struct CommandStart {
    ns: u64,
    error_replies: u32,
}

impl TurnTally {
    /// Returns the commands that ran, each in at least one entry.
    #[inline]
    pub fn calls(&self) -> &[Calls] {
        &self.calls
    }

    /// Returns true if there is more than calls: errors, slow commands, or commands to show.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.error_replies > 0 || !self.slow_commands.is_empty() || !self.shown_ends.is_empty()
    }

    /// Returns the number of error replies by code. The shell counts those of refused draws and of effects.
    pub fn errors(&self) -> &[(ErrorCode, u32)] {
        &self.errors
    }

    /// Takes the commands that lasted at least [`Timing::slow_ns`].
    pub fn take_slow_commands(&mut self) -> impl Iterator<Item = SlowCommand> {
        self.slow_commands.drain(..)
    }

    /// Takes the command whose effect the turn has.
    pub fn take_effect_command(&mut self) -> Option<SlowCommand> {
        self.effect_command.take()
    }

    /// Returns the commands for monitors: each one's database, and its arguments as Redis quotes them.
    pub fn shown(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let mut start = 0;
        self.shown_ends.iter().map(move |&(database, end)| {
            let text = &self.shown[start..end];
            start = end;
            (database, text)
        })
    }

    /// Sets whether commands are shown to monitors, from the next read on.
    #[inline]
    pub fn watch(&mut self, is_watched: bool) {
        self.is_watched = is_watched;
    }

    /// Returns true if commands are shown to monitors.
    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Returns the size of the commands to show, bytes.
    #[inline]
    pub(super) fn shown_bytes(&self) -> usize {
        self.shown.len()
    }

    /// Returns the total duration of commands in ns, without ID commands and effects: work for which other clients
    /// waited.
    #[inline]
    pub fn spent_ns(&self) -> u64 {
        self.spent_ns
    }

    /// Releases unneeded memory.
    pub(super) fn shrink(&mut self) {
        self.calls.shrink_to_fit();
        self.shown.shrink_to_fit();
        self.shown_ends.shrink_to_fit();
    }

    /// Returns the memory held, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.calls.capacity() * size_of::<Calls>() + self.shown.capacity()
    }

    pub(super) fn clear(&mut self) {
        self.calls.clear();
        if self.calls.capacity() > 2 * CALLS_KEPT {
            self.calls.shrink_to(CALLS_KEPT);
        }
        self.lap_ns = None;
        self.spent_ns = 0;
        self.effect_command = None;
        if self.has_more() {
            self.clear_rest();
        }
    }

    #[cold]
    fn clear_rest(&mut self) {
        self.errors.clear();
        self.error_replies = 0;
        self.slow_commands.clear();
        self.slow_commands.shrink_to(CALLS_KEPT);
        self.shown_ends.clear();
        self.shown_ends.shrink_to(SHOWN_BYTES_MAX / size_of::<(u32, usize)>());
        self.shown.clear();
        self.shown.shrink_to(2 * SHOWN_BYTES_MAX);
    }

    /// Counts calls of an ID command, which are not timed.
    #[inline]
    pub(super) fn ids(&mut self, verb: Verb, calls: u32, failed: u32) {
        self.lap_ns = None;
        match self.calls.last_mut() {
            Some(last) if last.verb == verb => {
                last.calls += calls;
                last.failed += failed;
            }
            _ => self.add(Calls { verb, calls, failed, rejected: 0, ns: 0, bucket: 0 }),
        }
    }

    fn add(&mut self, more: Calls) {
        let mut last = self.calls.iter_mut().rev().take(SEARCHED);
        if let Some(known) = last.find(|known| known.verb == more.verb && known.bucket == more.bucket) {
            known.calls += more.calls;
            known.failed += more.failed;
            known.rejected += more.rejected;
            known.ns += more.ns;
        } else {
            self.calls.push(more);
        }
    }

    /// Counts a rejected command. Its error is counted by `error`.
    pub(super) fn rejected(&mut self, verb: Verb) {
        self.lap_ns = None;
        self.add(Calls { verb, calls: 0, failed: 0, rejected: 1, ns: 0, bucket: 0 });
    }

    /// Notes work that is not timed: the next command does not begin where the last one ended.
    #[inline]
    pub(super) fn end_lap(&mut self) {
        self.lap_ns = None;
    }

    /// Counts an error reply; `text` is without the `-`.
    #[cold]
    pub(super) fn error(&mut self, text: &[u8]) {
        self.error_replies += 1;
        let code = ErrorCode::of(text);
        match self.errors.iter_mut().find(|known| known.0 == code) {
            Some((_, count)) => *count += 1,
            None => self.errors.push((code, 1)),
        }
    }

    /// Begins the timing of a command that is not an ID command.
    #[inline]
    pub(super) fn begin(&mut self, timing: &Timing) -> CommandStart {
        let ns = self.lap_ns.take().unwrap_or_else(timing.now_ns);
        CommandStart { ns, error_replies: self.error_replies }
    }

    /// Ends the timing of a command. If `has_effect`, the rest of it is an effect.
    #[inline]
    pub(super) fn end(
        &mut self,
        start: CommandStart,
        timing: &Timing,
        command: &'static Command,
        args: Args<'_>,
        has_effect: bool,
    ) {
        let now_ns = (timing.now_ns)();
        let ns = now_ns.saturating_sub(start.ns);
        if has_effect {
            let args = if timing.slow_ns == u64::MAX { Vec::new() } else { kept(command, args, timing.is_secret) };
            self.effect_command = Some(SlowCommand { command, args, ns });
            return;
        }
        self.lap_ns = Some(now_ns);
        self.spent_ns += ns;
        let failed = u32::from(self.error_replies != start.error_replies);
        self.add(Calls { verb: command.verb, calls: 1, failed, rejected: 0, ns, bucket: bucket_of(ns) });
        if ns >= timing.slow_ns {
            self.slow_commands.push(SlowCommand { command, args: kept(command, args, timing.is_secret), ns });
        }
    }

    /// Shows a command to monitors, except those that Redis hides from them.
    #[cold]
    pub(super) fn show<'a>(
        &mut self,
        command: &'static Command,
        database: u32,
        args: impl ExactSizeIterator<Item = &'a [u8]>,
        is_secret: fn(&[u8]) -> bool,
    ) {
        if !command.flags.has(CommandFlags::ADMIN) {
            quote_all(&redacted(command, args, is_secret), &mut self.shown);
            self.shown_ends.push((database, self.shown.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Vocabulary;

    #[track_caller]
    fn check_shown(line: &[&[u8]], expected: &str) {
        let vocabulary = Vocabulary::default();
        let command = vocabulary.find(line[0]).unwrap();
        let command = line.get(1).and_then(|name| command.subcommand(name)).unwrap_or(command);
        let mut tally = TurnTally::default();
        tally.show(command, 3, line.iter().copied(), Timing::default().is_secret);
        let shown: Vec<_> = tally.shown().collect();
        let expected: Vec<_> = (!expected.is_empty()).then_some((3, expected.as_bytes())).into_iter().collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn monitors_are_shown_quoted_arguments() {
        check_shown(&[b"GetID"], r#""GetID""#);
        check_shown(&[b"echo", b"a\r\n\t\x07\x08\x00\xff b\"\\~\x7f"], r#""echo" "a\r\n\t\a\b\x00\xff b\"\\~\x7f""#);
    }

    #[test]
    fn a_command_is_shown_up_to_a_bound() {
        let large = vec![0; 200 << 10];
        let mut tally = TurnTally::default();
        let watch = Vocabulary::default().find(b"watch").unwrap();
        tally.show(watch, 0, [&b"watch"[..], &large, b"a", b"b"].into_iter(), |_| true);
        let (_, shown) = tally.shown().next().unwrap();
        assert!(shown.len() < 5 * SHOWN_BYTES_MAX, "{} bytes", shown.len());
        let text = String::from_utf8_lossy(shown);
        assert!(
            text.ends_with(r#"\x00... (139270 more bytes)" ... (2 more arguments)"#),
            "{}",
            &text[text.len() - 80..]
        );
    }

    #[test]
    fn passwords_are_not_shown() {
        check_shown(&[b"AUTH", b"x"], r#""AUTH" "(redacted)""#);
        check_shown(&[b"AUTH", b"a", b"b", b"c"], r#""AUTH" "(redacted)" "(redacted)" "(redacted)""#);
        check_shown(
            &[b"HELLO", b"3", b"setname", b"auth", b"Auth", b"u", b"p", b"SETNAME", b"n"],
            r#""HELLO" "3" "setname" "auth" "(redacted)" "(redacted)" "(redacted)" "SETNAME" "n""#,
        );
        check_shown(&[b"HELLO", b"AUTH", b"u", b"p", b"x"], r#""HELLO" "AUTH" "(redacted)" "(redacted)" "x""#);
        check_shown(
            &[b"HELLO", b"3", b"bad", b"AUTH", b"u", b"p"],
            r#""HELLO" "3" "bad" "AUTH" "(redacted)" "(redacted)""#,
        );
        check_shown(&[b"HELLO", b"3", b"AUTH", b"u"], r#""HELLO" "3" "AUTH" "(redacted)""#);
    }

    #[test]
    fn commands_for_operators_are_not_shown() {
        check_shown(&[b"CONFIG", b"GET", b"*"], "");
        check_shown(&[b"CLIENT", b"LIST"], "");
        check_shown(&[b"CLIENT", b"ID"], r#""CLIENT" "ID""#);
    }

    #[track_caller]
    fn check_code(text: &str, code: &str) {
        assert_eq!(ErrorCode::of(text.as_bytes()).word(), code);
    }

    #[test]
    fn errors_are_counted_by_their_first_word() {
        check_code("ERR syntax error", "ERR");
        check_code("NOAUTH Authentication required.", "NOAUTH");
        check_code("nothing", "ERR");
        check_code(" nothing", "ERR");
        check_code("ABCDEFGHIJKLMNOP x", "ABCDEFGHIJKLMNOP");
        check_code("ABCDEFGHIJKLMNOPQ x", "ERR");
    }

    #[test]
    fn calls_of_a_command_are_one_entry() {
        let mut tally = TurnTally::default();
        for _ in 0..3 {
            tally.ids(Verb::GetId, 5, 0);
            tally.ids(Verb::MGetId, 1, 1);
        }
        tally.rejected(Verb::MGetId);
        let entry = |verb, calls, failed, rejected| Calls { verb, calls, failed, rejected, ns: 0, bucket: 0 };
        assert_eq!(tally.calls(), [entry(Verb::GetId, 15, 0, 0), entry(Verb::MGetId, 3, 3, 1)]);
        tally.clear();
        assert_eq!(tally.calls(), []);
    }
}
