//! `ACL` and its subcommands, as far as they are questions about the users that the session goes by.
//!
//! What changes users is an [`AclEffect`], what lies in a file an [`AclFileEffect`].

use super::client::{Client, NOT_AN_INTEGER, OK, OPTION_BYTES_MAX, arg};
use super::clients::wrong_number;
use super::effect::{AclEffect, AclFileEffect, Effect, WaitingEffect};
use super::turn::Turn;
use crate::acl::{self, DEFAULT_USER};
use crate::command::{Command, Verb, quote};
use crate::resp::{self, Args, Value, parse_integer};

/// The most bits of `ACL GENPASS`, as in Redis.
const GENPASS_BITS_MAX: usize = 4096;

/// Entries that `ACL LOG` shows when nobody says how many, as in Redis.
const LOG_COUNT: usize = 10;

impl Client {
    /// Runs one of them: an answer, or an effect whose answer it is.
    pub(super) fn acl(&self, command: &'static Command, args: Args<'_>, turn: &mut Turn) {
        let protocol = self.view.protocol;
        let users = &self.settings.users;
        // As in Redis, which counts these words itself.
        let too_many = matches!(command.verb, Verb::AclCat | Verb::AclGenPass | Verb::AclLog) && args.len() > 3;
        if too_many {
            return turn.push_error(wrong_number("ACL", args));
        }
        let words = || args.iter().skip(2).map(<[u8]>::to_vec);
        match command.verb {
            Verb::AclWhoAmI => turn.push_with(|out| resp::write_bulk(self.user().name().as_bytes(), out)),
            Verb::AclUsers => turn.effect = Some(Effect::Acl(AclEffect::Users)),
            Verb::AclList => {
                let shows_secrets = self.may(Verb::AclSetUser);
                turn.effect = Some(Effect::Acl(AclEffect::List { shows_secrets }));
            }
            Verb::AclGetUser => {
                let user =
                    users.get(arg(args, 2)).map_or(Value::Null, |user| user.to_value(self.may(Verb::AclSetUser)));
                turn.push_value(&user, protocol);
            }
            Verb::AclCat => {
                let names = args.get(2).map_or_else(|| Some(acl::categories()), acl::commands_in);
                if let Some(names) = names {
                    turn.push_value(&names, protocol);
                } else {
                    let name = quote(arg(args, 2), OPTION_BYTES_MAX);
                    turn.push_error([b"ERR Unknown category '", name, b"'"].concat());
                }
            }
            Verb::AclDryRun => self.dry_run(args, turn),
            Verb::AclGenPass => {
                let bits = match args.get(2).map(parse_integer) {
                    None => 256,
                    Some(Some(bits)) => bits,
                    Some(None) => return turn.push_error(NOT_AN_INTEGER),
                };
                match usize::try_from(bits) {
                    Ok(bits @ 1..=GENPASS_BITS_MAX) => {
                        turn.effect = Some(Effect::Acl(AclEffect::GenPass { digits: bits.div_ceil(4) }));
                    }
                    _ => turn.push_error(format!(
                        "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number \
                         up to {GENPASS_BITS_MAX}"
                    )),
                }
            }
            Verb::AclLog => match args.get(2) {
                None => turn.effect = Some(Effect::Acl(AclEffect::Log { count: LOG_COUNT })),
                Some(word) if word.eq_ignore_ascii_case(b"reset") => {
                    turn.effect = Some(Effect::Acl(AclEffect::LogReset));
                }
                Some(count) => match parse_integer(count) {
                    Some(count) => {
                        // A negative one is none, as in Redis.
                        let count = usize::try_from(count).unwrap_or(0);
                        turn.effect = Some(Effect::Acl(AclEffect::Log { count }));
                    }
                    None => turn.push_error(NOT_AN_INTEGER),
                },
            },
            Verb::AclDelUser if args.iter().skip(2).any(|name| name == DEFAULT_USER.as_bytes()) => {
                turn.push_error("ERR The 'default' user cannot be removed");
            }
            Verb::AclDelUser => turn.effect = Some(Effect::Acl(AclEffect::DelUser { names: words().collect() })),
            Verb::AclSetUser => {
                let rules = words().skip(1).collect();
                turn.effect = Some(Effect::Acl(AclEffect::SetUser { name: arg(args, 2).to_vec(), rules }));
            }
            Verb::AclSave => turn.effect = Some(Effect::Waits(WaitingEffect::Acl(AclFileEffect::Save))),
            Verb::AclLoad => turn.effect = Some(Effect::Waits(WaitingEffect::Acl(AclFileEffect::Load))),
            _ => unreachable!("no subcommand of ACL"),
        }
    }

    /// `ACL DRYRUN user command ...`
    fn dry_run(&self, args: Args<'_>, turn: &mut Turn) {
        let name = arg(args, 2);
        let Some(user) = self.settings.users.get(name) else {
            return turn.push_error([b"ERR User '", quote(name, OPTION_BYTES_MAX), b"' not found"].concat());
        };
        let asked = args.behind(3);
        let Ok(command) = self.settings.vocabulary.resolve(asked) else {
            let name = quote(asked.name(), OPTION_BYTES_MAX);
            return turn.push_error([b"ERR Command '", name, b"' not found"].concat());
        };
        if !command.accepts(asked.len()) {
            return turn.push_error(command.arity_error());
        }
        if user.may_run(command, asked) {
            return turn.push(OK);
        }
        let text = format!("This user has no permissions to run the '{}' command", command.full_name);
        turn.push_with(|out| resp::write_bulk(text.as_bytes(), out));
    }
}
