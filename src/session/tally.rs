//! What a turn did, for INFO, SLOWLOG, LATENCY and MONITOR: the session says it here, and the shell keeps it.
//!
//! Counted per command, not per call: a pipeline of a thousand GETID is one entry. ID commands are not timed here, for
//! what they take is the draw, which the shell makes once for all of them. Every other command is timed by itself with
//! the stopwatch in [`Timing`]; of commands that follow each other directly, the end of one is the beginning of the
//! next.

use super::shown::{SHOWN_BYTES_MAX, kept, quote_all, redacted};
use crate::command::{Command, Flags, Verb};
use crate::resp::Args;
use crate::stats::bucket_of;

/// How commands are timed, and what is told of them.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// A clock in nanoseconds that is never set; its zero means nothing.
    pub now_ns: fn() -> u64,
    /// Commands that take this long, in ns, are told one by one ([`Tally::take_noted`]); `u64::MAX`: none.
    pub noted_ns: u64,
    /// Whether the directive of this name, in any letter case, holds a secret: of `CONFIG SET` that is not told.
    pub is_secret: fn(&[u8]) -> bool,
}

impl Default for Timing {
    /// A clock that does not move, no command noted, and every directive a secret.
    fn default() -> Timing {
        Timing { now_ns: || 0, noted_ns: u64::MAX, is_secret: |_| true }
    }
}

/// Calls of one command in one turn that took about as long as each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls {
    /// Which command.
    pub verb: Verb,
    /// How many calls ran.
    pub calls: u32,
    /// How many of them were answered by an error.
    pub failed: u32,
    /// How many more were rejected before they ran: wrong number of arguments, not allowed.
    pub rejected: u32,
    /// What the calls took together, in ns; 0 for ID commands.
    pub ns: u64,
    /// The histogram's bucket that all these calls are in; 0 for ID commands.
    pub bucket: u16,
}

/// The first word of an error reply, by which Redis counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErrorCode([u8; ErrorCode::BYTES_MAX]);

impl ErrorCode {
    /// The longest that is told apart, bytes; Redis's own have up to ten.
    pub const BYTES_MAX: usize = 16;

    /// That of an error's text, without the `-`; `ERR` where it has none.
    pub fn of(text: &[u8]) -> ErrorCode {
        let len = text.iter().take(ErrorCode::BYTES_MAX + 1).position(|&byte| byte == b' ');
        let code = len.and_then(|len| text.get(..len)).filter(|code| !code.is_empty()).unwrap_or(b"ERR");
        let mut bytes = [0; ErrorCode::BYTES_MAX];
        bytes[..code.len()].copy_from_slice(code);
        ErrorCode(bytes)
    }

    /// The word.
    pub fn word(&self) -> String {
        let len = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        String::from_utf8_lossy(&self.0[..len]).into_owned()
    }
}

/// A command that took long.
#[derive(Debug)]
pub struct Noted {
    /// Which.
    pub command: &'static Command,
    /// What was sent, cut down as `trimmed` does, passwords left out.
    pub args: Vec<Vec<u8>>,
    /// How long it took, in ns.
    pub ns: u64,
}

/// Of how many entries at the end of the list a call's is looked for. More are there only when many commands alternate.
const SEARCHED: usize = 16;

/// Entries a turn keeps room for.
const CALLS_KEPT: usize = 64;

/// What a turn did. Used again and again, as the turn is.
#[derive(Debug, Default)]
pub struct Tally {
    calls: Vec<Calls>,
    errors: Vec<(ErrorCode, u32)>,
    /// All errors.
    error_replies: u32,
    noted: Vec<Noted>,
    /// The command whose effect the shell performs.
    asker: Option<Noted>,
    /// When the last command ended, if nothing came since.
    lap_ns: Option<u64>,
    /// What commands that are timed took together, in ns.
    spent_ns: u64,
    /// Whether commands are to be shown to monitors.
    is_watched: bool,
    /// The database and the end in `shown` of each command.
    shown_ends: Vec<(u32, usize)>,
    shown: Vec<u8>,
}

/// When a command began, and how many errors there were.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    ns: u64,
    error_replies: u32,
}

impl Tally {
    /// What ran, each command at least once.
    #[inline]
    pub fn calls(&self) -> &[Calls] {
        &self.calls
    }

    /// Whether there is anything but calls: errors, slow commands, commands to show.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.error_replies > 0 || !self.noted.is_empty() || !self.shown_ends.is_empty()
    }

    /// Error replies by code. Those for which no IDs could be drawn, and those of effects, are the shell's to count.
    pub fn errors(&self) -> &[(ErrorCode, u32)] {
        &self.errors
    }

    /// The commands that took as long as [`Timing::noted_ns`].
    pub fn take_noted(&mut self) -> impl Iterator<Item = Noted> {
        self.noted.drain(..)
    }

    /// The command whose effect the turn has.
    pub fn take_asker(&mut self) -> Option<Noted> {
        self.asker.take()
    }

    /// What monitors are shown: each command's database, and its arguments as Redis quotes them.
    pub fn shown(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let mut start = 0;
        self.shown_ends.iter().map(move |&(database, end)| {
            let text = &self.shown[start..end];
            start = end;
            (database, text)
        })
    }

    /// From the next read on, whether commands are to be shown to monitors.
    #[inline]
    pub fn watch(&mut self, is_watched: bool) {
        self.is_watched = is_watched;
    }

    /// Whether they are.
    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// How much is to be shown, bytes.
    #[inline]
    pub(super) fn shown_bytes(&self) -> usize {
        self.shown.len()
    }

    /// What commands took, in ns, but for ID commands and for effects: work that others waited for.
    #[inline]
    pub fn spent_ns(&self) -> u64 {
        self.spent_ns
    }

    /// Gives back the room that is not needed.
    pub(super) fn shrink(&mut self) {
        self.calls.shrink_to_fit();
        self.shown.shrink_to_fit();
        self.shown_ends.shrink_to_fit();
    }

    /// Bytes of memory held.
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
        self.asker = None;
        if self.has_more() {
            self.clear_rest();
        }
    }

    #[cold]
    fn clear_rest(&mut self) {
        self.errors.clear();
        self.error_replies = 0;
        self.noted.clear();
        self.noted.shrink_to(CALLS_KEPT);
        self.shown_ends.clear();
        self.shown_ends.shrink_to(SHOWN_BYTES_MAX / size_of::<(u32, usize)>());
        self.shown.clear();
        self.shown.shrink_to(2 * SHOWN_BYTES_MAX);
    }

    /// Calls of an ID command, which are not timed.
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

    /// A command was rejected. Its error is counted where it is pushed.
    pub(super) fn rejected(&mut self, verb: Verb) {
        self.lap_ns = None;
        self.add(Calls { verb, calls: 0, failed: 0, rejected: 1, ns: 0, bucket: 0 });
    }

    /// Something that is not timed: the next command does not begin where the last one ended.
    #[inline]
    pub(super) fn end_lap(&mut self) {
        self.lap_ns = None;
    }

    /// An error reply, its text without the `-`.
    #[cold]
    pub(super) fn error(&mut self, text: &[u8]) {
        self.error_replies += 1;
        let code = ErrorCode::of(text);
        match self.errors.iter_mut().find(|known| known.0 == code) {
            Some((_, count)) => *count += 1,
            None => self.errors.push((code, 1)),
        }
    }

    /// A command begins that is not an ID command.
    #[inline]
    pub(super) fn begin(&mut self, timing: &Timing) -> Begun {
        let ns = self.lap_ns.take().unwrap_or_else(timing.now_ns);
        Begun { ns, error_replies: self.error_replies }
    }

    /// The command that began has run. `asks`: the rest of it is an effect.
    #[inline]
    pub(super) fn end(&mut self, begun: Begun, timing: &Timing, command: &'static Command, args: Args<'_>, asks: bool) {
        let now_ns = (timing.now_ns)();
        let ns = now_ns.saturating_sub(begun.ns);
        if asks {
            let args = if timing.noted_ns == u64::MAX { Vec::new() } else { kept(command, args, timing.is_secret) };
            self.asker = Some(Noted { command, args, ns });
            return;
        }
        self.lap_ns = Some(now_ns);
        self.spent_ns += ns;
        let failed = u32::from(self.error_replies != begun.error_replies);
        self.add(Calls { verb: command.verb, calls: 1, failed, rejected: 0, ns, bucket: bucket_of(ns) });
        if ns >= timing.noted_ns {
            self.noted.push(Noted { command, args: kept(command, args, timing.is_secret), ns });
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
        if !command.flags.has(Flags::ADMIN) {
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
        let mut tally = Tally::default();
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
        let mut tally = Tally::default();
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
        let mut tally = Tally::default();
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
