//! What rules allow: commands, and patterns of keys and channels.
//!
//! Redis calls it a selector. Every request is checked, so permissions are a bit for each row of the command table. The
//! rules are also kept as text in their order, because Redis 7.2 shows them so, and because they may name commands that
//! this server lacks. A key is the name of a generator, whose IDs are read, or of a sequence, which is read and
//! written.
//!
//! Invariant: the rules, applied to `-@all` or `+@all` (`starts_with_all`), yield the bits.

use super::RuleError;
use super::log::DenialReason;
use super::redis_names;
use crate::command::{Categories, Channels, Command, CommandFlags, KeyAccess, NAMING, TABLE, Verb, rows};
use crate::resp::Args;
use getid_text::glob::Pattern;

/// A set of commands, with a bit for each [`Verb`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandSet([u64; WORDS]);

const WORDS: usize = 4;

/// Every verb has one row, so every row has a bit.
const _: () = assert!(count(TABLE) <= WORDS * 64, "more commands than bits: raise WORDS");

const fn count(table: &[Command]) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < table.len() {
        count += 1 + table[at].subcommands.len();
        at += 1;
    }
    count
}

impl CommandSet {
    pub(super) const ALL: CommandSet = CommandSet([u64::MAX; WORDS]);

    /// Whether the set contains the command.
    #[inline]
    pub fn has(&self, verb: Verb) -> bool {
        let bit = verb as usize;
        self.0[bit / 64 % WORDS] >> (bit % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, verb: Verb, to: bool) {
        let bit = verb as usize;
        let word = &mut self.0[bit / 64 % WORDS];
        *word = *word & !(1 << (bit % 64)) | u64::from(to) << (bit % 64);
    }

    pub(super) fn and(mut self, other: CommandSet) -> CommandSet {
        self.0.iter_mut().zip(other.0).for_each(|(word, more)| *word |= more);
        self
    }

    fn without(mut self, other: CommandSet) -> CommandSet {
        self.0.iter_mut().zip(other.0).for_each(|(word, less)| *word &= !less);
        self
    }
}

/// Returns a command and its subcommands.
fn with_subcommands(command: &Command) -> CommandSet {
    let mut set = CommandSet::default();
    set.set(command.verb, true);
    command.subcommands.iter().for_each(|sub| set.set(sub.verb, true));
    set
}

/// Rights that one selector grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Permissions {
    pub(super) commands: CommandSet,
    /// Commands that are allowed only with these first arguments, in small letters.
    first_args: Vec<(Verb, String)>,
    /// Whether `rules` follow `+@all`; otherwise they follow `-@all`.
    starts_with_all: bool,
    /// Rules with their signs as Redis shows them, in small letters, without duplicates.
    rules: Vec<String>,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    all_channels: bool,
    channels: Vec<ChannelPattern>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ChannelPattern {
    pattern: String,
    /// The compiled pattern; `None` if it is too long, and then matches nothing.
    matcher: Option<Pattern>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    read: bool,
    write: bool,
    pattern: String,
    /// The compiled pattern; `None` if it is too long, and then matches nothing.
    matcher: Option<Pattern>,
}

/// The meaning of a name in a rule.
enum RuleCommand {
    Supported(&'static Command),
    /// A command of Redis that this server lacks.
    RedisOnly,
}

/// Finds a command by its original name, whatever `rename-command` is: as in Redis.
fn find(name: &str) -> Option<RuleCommand> {
    let (container, sub) = name.split_once('|').map_or((name, None), |(container, sub)| (container, Some(sub)));
    let here =
        TABLE.iter().find(|command| command.name.eq_ignore_ascii_case(container)).and_then(|command| match sub {
            None => Some(command),
            Some(sub) => command.subcommand(sub.as_bytes()),
        });
    here.map(RuleCommand::Supported).or_else(|| redis_names::is_command(name).then_some(RuleCommand::RedisOnly))
}

impl Permissions {
    /// Applies one rule about commands, keys or channels.
    pub(super) fn apply(&mut self, rule: &str) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word);
        if is("allkeys") || is("~*") {
            self.all_keys = true;
            self.keys.clear();
        } else if is("resetkeys") {
            self.all_keys = false;
            self.keys.clear();
        } else if is("allchannels") || is("&*") {
            self.all_channels = true;
            self.channels.clear();
        } else if is("resetchannels") {
            self.all_channels = false;
            self.channels.clear();
        } else if is("allcommands") || is("+@all") {
            self.start_with(true);
        } else if is("nocommands") || is("-@all") {
            self.start_with(false);
        } else if rule.starts_with(['~', '%']) {
            return self.add_key_pattern(rule);
        } else if let Some(pattern) = rule.strip_prefix('&') {
            return self.add_channel(pattern);
        } else if let Some(name) = rule.strip_prefix('+') {
            return self.allow(name, true);
        } else if let Some(name) = rule.strip_prefix('-') {
            return self.allow(name, false);
        } else {
            return Err(RuleError::Syntax);
        }
        Ok(())
    }

    fn start_with(&mut self, all: bool) {
        self.commands = if all { CommandSet::ALL } else { CommandSet::default() };
        self.starts_with_all = all;
        self.rules.clear();
        self.first_args.clear();
    }

    /// Applies `%R~pattern`, `%W~pattern`, `%RW~pattern` or `~pattern`.
    fn add_key_pattern(&mut self, rule: &str) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::KeysAfterAll);
        }
        let (rights, pattern) = rule.split_once('~').ok_or(RuleError::Syntax)?;
        let (mut read, mut write) = (rights.is_empty(), rights.is_empty());
        for right in rights.chars().skip(1) {
            let right = match right.to_ascii_uppercase() {
                'R' => &mut read,
                'W' => &mut write,
                _ => return Err(RuleError::Syntax),
            };
            if std::mem::replace(right, true) {
                return Err(RuleError::Syntax);
            }
        }
        if has_blanks(pattern) || !(read || write) {
            return Err(RuleError::Syntax);
        }
        if let Some(known) = self.keys.iter_mut().find(|known| known.pattern == pattern) {
            known.read |= read;
            known.write |= write;
        } else {
            let matcher = Pattern::new(pattern.as_bytes(), false).ok();
            self.keys.push(KeyPattern { read, write, pattern: pattern.to_owned(), matcher });
        }
        // `%R~*` and `%W~*` together equal `~*`, and are shown as such.
        if self.keys.iter().any(|known| known.read && known.write && known.pattern == "*") {
            self.all_keys = true;
            self.keys.clear();
        }
        Ok(())
    }

    fn add_channel(&mut self, pattern: &str) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::ChannelsAfterAll);
        }
        if has_blanks(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|known| known.pattern == pattern) {
            let matcher = Pattern::new(pattern.as_bytes(), false).ok();
            self.channels.push(ChannelPattern { pattern: pattern.to_owned(), matcher });
        }
        Ok(())
    }

    /// Applies `+name` or `-name`. The name is a category with its `@`, a command, a subcommand, or a command with a
    /// first argument.
    fn allow(&mut self, name: &str, allow: bool) -> Result<(), RuleError> {
        if let Some(category) = name.strip_prefix('@') {
            self.allow_category(category, allow)?;
        } else if let (true, Some((command, behind))) = (allow, name.rsplit_once('|')) {
            self.allow_behind_bar(name, command, behind)?;
        } else {
            match find(name).ok_or(RuleError::Unknown)? {
                RuleCommand::Supported(command) => self.set(with_subcommands(command), allow),
                RuleCommand::RedisOnly => {}
            }
        }
        self.note(name, allow);
        Ok(())
    }

    /// Applies `+container|subcommand`, or `+command|argument` for a command without subcommands.
    fn allow_behind_bar(&mut self, name: &str, command: &str, behind: &str) -> Result<(), RuleError> {
        let found = find(command).ok_or(RuleError::Unknown)?;
        if command.contains('|') {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if behind.is_empty() {
            return Err(RuleError::Syntax);
        }
        let has_subcommands = match found {
            RuleCommand::Supported(command) => !command.subcommands.is_empty(),
            RuleCommand::RedisOnly => redis_names::is_container(command),
        };
        match found {
            _ if has_subcommands => match find(name).ok_or(RuleError::Unknown)? {
                RuleCommand::Supported(command) => self.set(with_subcommands(command), true),
                RuleCommand::RedisOnly => {}
            },
            // Redis accepts blanks here, and then cannot load its own ACL file.
            _ if has_blanks(behind) => return Err(RuleError::Syntax),
            RuleCommand::Supported(command) => {
                let allowed = (command.verb, behind.to_ascii_lowercase());
                if !self.first_args.contains(&allowed) {
                    self.first_args.push(allowed);
                }
            }
            RuleCommand::RedisOnly => {}
        }
        Ok(())
    }

    /// Allows or denies a category. A container includes its subcommands, whatever their categories: as in Redis.
    fn allow_category(&mut self, name: &str, allow: bool) -> Result<(), RuleError> {
        if !redis_names::CATEGORIES.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return Err(RuleError::Unknown);
        }
        // A category without commands here changes nothing.
        let Some(category) = Categories::named(name.as_bytes()) else { return Ok(()) };
        let mut concerned = CommandSet::default();
        for command in TABLE {
            if command.categories.has(category) {
                concerned = concerned.and(with_subcommands(command));
            }
            for sub in command.subcommands.iter().filter(|sub| sub.categories.has(category)) {
                concerned.set(sub.verb, true);
            }
        }
        self.set(concerned, allow);
        Ok(())
    }

    fn set(&mut self, concerned: CommandSet, allow: bool) {
        self.commands = if allow { self.commands.and(concerned) } else { self.commands.without(concerned) };
        self.first_args.retain(|(verb, _)| !concerned.has(*verb));
    }

    /// Keeps a rule as text. It replaces the rules that it makes void: those of the same name, or of the part behind
    /// its bar.
    fn note(&mut self, name: &str, allow: bool) {
        let name = name.to_ascii_lowercase();
        self.rules.retain(|rule| {
            let is_void = rule[1..].strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with('|'));
            !is_void
        });
        self.rules.push(format!("{}{name}", if allow { '+' } else { '-' }));
    }

    /// Fails if the command is not allowed with these arguments, with the reason and the argument's index.
    /// `series` takes the place of the request's key, if it concerns a series.
    pub(super) fn check(
        &self,
        command: &Command,
        args: Args<'_>,
        series: Option<&[u8]>,
    ) -> Result<(), (DenialReason, usize)> {
        let is_for_all = command.flags.has(CommandFlags::NO_AUTH);
        if !(is_for_all || self.commands.has(command.verb) || self.allows_first_arg(command.verb, args)) {
            return Err((DenialReason::Command, 0));
        }
        if !self.all_keys
            && let Some(key) = command.keys_in(args).find(|key| !self.may_touch(series.unwrap_or(key.name), key.access))
        {
            return Err((DenialReason::Key, key.at));
        }
        if !self.all_channels {
            let mut channels = command.channels_in(args);
            let is_pattern = command.channels == Channels::Patterns;
            if let Some((at, _)) = channels.find(|(_, channel)| !self.may_use(channel, is_pattern)) {
                return Err((DenialReason::Channel, at));
            }
        }
        Ok(())
    }

    /// Whether the command is allowed with this key, whatever its first argument.
    pub(super) fn allows_key(&self, command: &Command, key: &[u8]) -> bool {
        let access = command.keys.first().map(|spec| spec.access);
        self.commands.has(command.verb) && access.is_some_and(|access| self.may_touch(key, access))
    }

    /// Whether the command is allowed with every key that begins with `prefix`.
    pub(super) fn allows_keys_of(&self, command: &Command, prefix: &[u8]) -> bool {
        let access = command.keys.first().map(|spec| spec.access);
        let is_allowed = |access| self.has_pattern(access, |pattern| pattern.covers(prefix));
        self.commands.has(command.verb) && access.is_some_and(is_allowed)
    }

    /// Whether one pattern allows all of `access` to the key.
    pub(super) fn may_touch(&self, key: &[u8], access: KeyAccess) -> bool {
        self.has_pattern(access, |pattern| pattern.matches(key))
    }

    /// Whether all of `access` is allowed to all keys, or by one pattern of this kind.
    fn has_pattern(&self, access: KeyAccess, is_for: impl Fn(&Pattern) -> bool) -> bool {
        let (reads, writes) = (access.reads(), access.writes());
        let allows = |known: &KeyPattern| (known.read || !reads) && (known.write || !writes);
        self.all_keys || self.keys.iter().any(|known| allows(known) && known.matcher.as_ref().is_some_and(&is_for))
    }

    /// Whether the channel is allowed. As in Redis, a channel pattern must equal an allowed pattern to the letter.
    fn may_use(&self, channel: &[u8], is_pattern: bool) -> bool {
        let is_for = |known: &ChannelPattern| match &known.matcher {
            _ if is_pattern => known.pattern.as_bytes() == channel,
            matcher => matcher.as_ref().is_some_and(|by| by.matches(channel)),
        };
        self.all_channels || self.channels.iter().any(is_for)
    }

    /// Returns the commands that are allowed with any keys and channels. If `names_generators`, commands that name
    /// generators count as commands with keys.
    pub(super) fn commands_with_any_args(&self, names_generators: bool) -> CommandSet {
        let mut commands = self.commands;
        if !self.all_keys {
            let naming = NAMING.iter().filter(|_| names_generators);
            for command in rows().filter(|row| !row.keys.is_empty()).chain(naming) {
                commands.set(command.verb, false);
            }
        }
        if !self.all_channels {
            for command in rows().filter(|row| row.channels != Channels::None) {
                commands.set(command.verb, false);
            }
        }
        commands
    }

    /// Whether the command is allowed by its first argument.
    pub(super) fn allows_first_arg(&self, verb: Verb, args: Args<'_>) -> bool {
        let Some(arg) = args.get(1) else { return false };
        self.first_args.iter().any(|(known, first)| *known == verb && first.as_bytes().eq_ignore_ascii_case(arg))
    }

    /// Returns the rules about commands, such as `-@all +ping`.
    pub(super) fn describe_commands(&self) -> String {
        let start = if self.starts_with_all { "+@all" } else { "-@all" };
        self.rules.iter().fold(start.to_owned(), |text, rule| text + " " + rule)
    }

    /// Returns the rules about keys, such as `~a* %R~b*`; empty for none.
    pub(super) fn describe_keys(&self) -> String {
        if self.all_keys {
            return "~*".to_owned();
        }
        let rights = |key: &KeyPattern| match (key.read, key.write) {
            (true, true) => "~",
            (true, false) => "%R~",
            _ => "%W~",
        };
        self.keys.iter().map(|key| format!("{}{}", rights(key), key.pattern)).collect::<Vec<_>>().join(" ")
    }

    /// Returns the rules about channels, such as `&news.*`; empty for none.
    pub(super) fn describe_channels(&self) -> String {
        if self.all_channels {
            return "&*".to_owned();
        }
        self.channels.iter().map(|channel| format!("&{}", channel.pattern)).collect::<Vec<_>>().join(" ")
    }

    /// Returns all rules, as in `ACL LIST`.
    pub(super) fn describe(&self) -> String {
        let keys = self.describe_keys();
        let channels = self.describe_channels();
        let reset = if self.all_channels { "" } else { "resetchannels" };
        let parts = [keys, reset.to_owned(), channels, self.describe_commands()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// Whether a text has the characters that Redis refuses in names and patterns: they separate words in its files.
pub(super) fn has_blanks(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, b' ' | b'\t'..=b'\r' | 0))
}
