//! Commands as monitors and the slow log show them: passwords replaced, long arguments cut.

use crate::command::{Command, Secrets, TABLE};
use crate::resp::Args;
use crate::stats::trimmed;

/// Replacement for a password.
const REDACTED: &[u8] = crate::acl::REDACTED.as_bytes();

/// Returns a command's arguments for the slow log.
pub(super) fn kept(command: &'static Command, args: Args<'_>, is_secret: fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    trimmed(redacted(command, args.iter(), is_secret).into_iter())
}

/// Returns the arguments with passwords, and all rules of `ACL SETUSER`, replaced.
pub(super) fn redacted<'a>(
    command: &'static Command,
    args: impl ExactSizeIterator<Item = &'a [u8]>,
    is_secret: fn(&[u8]) -> bool,
) -> Vec<&'a [u8]> {
    let mut args: Vec<&[u8]> = args.collect();
    let (mut command, mut start) = (command, 0);
    // A loop, since `ACL DRYRUN` may try another `ACL DRYRUN`.
    while command.secrets == Secrets::Tried {
        start += 3;
        let Some(name) = args.get(start) else { return args };
        let tried = TABLE.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name));
        let Some(tried) = tried else {
            // It may be AUTH under another name (`rename-command`).
            args.iter_mut().skip(start + 1).for_each(|arg| *arg = REDACTED);
            return args;
        };
        command = args.get(start + 1).and_then(|name| tried.subcommand(name)).unwrap_or(tried);
    }
    redact(command.secrets, args.get_mut(start..).unwrap_or_default(), is_secret);
    args
}

/// Replaces the secrets of a command other than `ACL DRYRUN`.
fn redact(secrets: Secrets, args: &mut [&[u8]], is_secret: fn(&[u8]) -> bool) {
    match secrets {
        Secrets::None | Secrets::Tried => {}
        // Redis shows an AUTH with too many words unchanged, but one of them may be the password.
        Secrets::From(index) => args.iter_mut().skip(index).for_each(|arg| *arg = REDACTED),
        Secrets::Directives => {
            let words = args.get_mut(2..).unwrap_or_default();
            if words.len().is_multiple_of(2) {
                let secrets = words.chunks_exact_mut(2).filter(|pair| is_secret(pair[0]));
                secrets.for_each(|pair| pair[1] = REDACTED);
            } else if let Some(at) = words.iter().position(|word| is_secret(word)) {
                // A client that omits a value, or the quotes around one, has still sent the password.
                words[at + 1..].fill(REDACTED);
            }
        }
        Secrets::Login => {
            // At any position: a client that omits the version has still sent the password.
            let mut secrets = 0;
            for arg in args.iter_mut().skip(1) {
                let begins = arg.eq_ignore_ascii_case(b"auth");
                if secrets > 0 {
                    *arg = REDACTED;
                    secrets -= 1;
                }
                if begins {
                    secrets = 2;
                }
            }
        }
    }
}

/// Maximum size of one command's arguments for monitors, bytes; on the wire at most four times as much. Without it, one
/// large request could exceed every monitor's queue.
pub(super) const SHOWN_BYTES_MAX: usize = 64 << 10;

/// Appends the arguments as monitors see them, quoted and separated by blanks.
pub(super) fn quote_all(args: &[&[u8]], out: &mut Vec<u8>) {
    let mut room = SHOWN_BYTES_MAX;
    for (at, arg) in args.iter().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        if room == 0 {
            out.extend(format!("... ({} more arguments)", args.len() - at).as_bytes());
            break;
        }
        push_quoted(arg, room, out);
        // One byte more, so that empty arguments count too.
        room = room.saturating_sub(arg.len() + 1);
    }
}

/// Appends an argument, up to `bytes_max` of it, as Redis's `sdscatrepr` writes it.
fn push_quoted(arg: &[u8], bytes_max: usize, out: &mut Vec<u8>) {
    let (shown, more) = arg.split_at(arg.len().min(bytes_max));
    out.push(b'"');
    for &byte in shown {
        match byte {
            b'\\' | b'"' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            7 => out.extend(b"\\a"),
            8 => out.extend(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => {
                let digit = |four: u8| b"0123456789abcdef"[usize::from(four & 15)];
                out.extend([b'\\', b'x', digit(byte >> 4), digit(byte)]);
            }
        }
    }
    if !more.is_empty() {
        out.extend(format!("... ({} more bytes)", more.len()).as_bytes());
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Vocabulary;

    #[track_caller]
    fn check_noted(line: &str, expected: &str) {
        let vocabulary = Vocabulary::default();
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let command = vocabulary.find(words[0]).unwrap();
        let command = words.get(1).and_then(|name| command.subcommand(name)).unwrap_or(command);
        let noted = redacted(command, words.into_iter(), |name| name == b"requirepass");
        let noted: Vec<_> = noted.into_iter().map(String::from_utf8_lossy).collect();
        assert_eq!(noted.join(" "), expected);
    }

    #[test]
    fn passwords_are_not_noted_when_a_command_is_tried() {
        let (one, two) = ("(redacted)", "(redacted) (redacted)");
        check_noted("ACL DRYRUN default auth p", &format!("ACL DRYRUN default auth {one}"));
        check_noted("acl dryrun default HELLO 3 auth u p x", &format!("acl dryrun default HELLO 3 auth {two} x"));
        check_noted("ACL DRYRUN u ACL SETUSER v >p", &format!("ACL DRYRUN u ACL SETUSER {two}"));
        check_noted(
            "ACL DRYRUN u CONFIG SET hz 1 requirepass p",
            &format!("ACL DRYRUN u CONFIG SET hz 1 requirepass {one}"),
        );
        check_noted("ACL DRYRUN u acl dryrun v auth p", &format!("ACL DRYRUN u acl dryrun v auth {one}"));
        check_noted("ACL DRYRUN u renamed u p", &format!("ACL DRYRUN u renamed {two}"));
        check_noted("ACL DRYRUN u GETID x", "ACL DRYRUN u GETID x");
        check_noted("ACL DRYRUN u", "ACL DRYRUN u");
    }
}
