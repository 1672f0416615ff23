//! `COMMAND` and its subcommands, and every `HELP`: describes the table in the formats of Redis 7.

use std::collections::HashSet;

use super::{Argument, Categories, Command, Vocabulary, keys};
use crate::resp::{Args, ErrorReply, Value};
use getid_text::glob::Pattern;

/// Replies to `COMMAND` (no names) and `COMMAND INFO name ...`: an array of ten fields for each command, null for an
/// unknown name. If there are more names than commands, repeated names are left out.
///
/// Redis puts key specifications and subcommands in RESP3 sets, which two client libraries cannot parse. Here only sets
/// of plain strings are sets; the other two are arrays.
pub fn command_info<'a>(vocabulary: &Vocabulary, names: impl ExactSizeIterator<Item = &'a [u8]>) -> Value {
    if names.len() == 0 {
        return Value::Array(vocabulary.commands().iter().map(|command| info(command)).collect());
    }
    // Otherwise a request of 200 KB would get a reply of 40 MB.
    let may_repeat = names.len() <= super::rows().count();
    let mut described = HashSet::new();
    let found = names.map(|name| vocabulary.find_full(name)).filter(|found| match found {
        Some(command) => described.insert(command.verb) || may_repeat,
        None => true,
    });
    Value::Array(found.map(|found| found.map_or(Value::Null, info)).collect())
}

fn info(command: &'static Command) -> Value {
    let [first_key, last_key, key_step] = keys::range_of(command.keys).map(Value::Integer);
    Value::Array(vec![
        Value::from(command.full_name),
        Value::Integer(i64::from(command.arity)),
        Value::Set(command.flags.names().map(|name| Value::Simple(name.into())).collect()),
        first_key,
        last_key,
        key_step,
        Value::Set(command.categories.names().map(|name| Value::Simple(format!("@{name}").into())).collect()),
        Value::Set(Vec::new()),
        Value::Array(command.keys.iter().map(|spec| spec.to_value()).collect()),
        Value::Array(command.subcommands.iter().map(info).collect()),
    ])
}

/// Replies to `COMMAND DOCS [name ...]`: a map from names to maps. Unknown names are left out.
pub fn command_docs<'a>(vocabulary: &Vocabulary, names: impl ExactSizeIterator<Item = &'a [u8]>) -> Value {
    let mut commands: Vec<&'static Command> = Vec::new();
    if names.len() == 0 {
        commands.extend(vocabulary.commands());
    } else {
        for command in names.filter_map(|name| vocabulary.find_full(name)) {
            // A map has each key once. The table is short, and so is this list.
            if !commands.iter().any(|known| known.verb == command.verb) {
                commands.push(command);
            }
        }
    }
    Value::map(commands.into_iter().map(|command| (command.full_name, docs(command))))
}

fn docs(command: &'static Command) -> Value {
    let mut fields = vec![
        ("summary", Value::from(command.summary)),
        ("since", Value::from(command.since)),
        ("group", Value::from(command.group)),
    ];
    if !command.complexity.is_empty() {
        fields.push(("complexity", Value::from(command.complexity)));
    }
    if !command.arguments.is_empty() {
        fields.push((
            "arguments",
            Value::Array(command.arguments.iter().map(|argument| argument_docs(argument, command)).collect()),
        ));
    }
    if !command.subcommands.is_empty() {
        fields.push(("subcommands", Value::map(command.subcommands.iter().map(|sub| (sub.full_name, docs(sub))))));
    }
    Value::map(fields)
}

fn argument_docs(argument: &'static Argument, command: &'static Command) -> Value {
    let mut fields = vec![("name", Value::from(argument.name)), ("type", Value::from(argument.kind))];
    if argument.kind == "key" && !command.keys.is_empty() {
        fields.push(("key_spec_index", Value::Integer(0)));
    }
    if let Some(token) = argument.token {
        fields.push(("token", Value::from(token)));
    }
    let flags = [(argument.optional, "optional"), (argument.multiple, "multiple")];
    let flags: Vec<Value> = flags.iter().filter(|flag| flag.0).map(|flag| Value::Simple(flag.1.into())).collect();
    if !flags.is_empty() {
        fields.push(("flags", Value::Set(flags)));
    }
    if !argument.parts.is_empty() {
        fields.push((
            "arguments",
            Value::Array(argument.parts.iter().map(|part| argument_docs(part, command)).collect()),
        ));
    }
    Value::map(fields)
}

/// Replies to `COMMAND LIST [FILTERBY (MODULE name | ACLCAT category | PATTERN pattern)]` with names, including those
/// of subcommands.
pub fn command_list(vocabulary: &Vocabulary, args: Args<'_>) -> Value {
    let admits: Box<dyn Fn(&Command) -> bool> = match (args.len(), args.get(2), args.get(3), args.get(4)) {
        (2, ..) => Box::new(|_| true),
        (5, Some(filterby), Some(kind), Some(filter)) if filterby.eq_ignore_ascii_case(b"filterby") => {
            if kind.eq_ignore_ascii_case(b"module") {
                Box::new(|_| false)
            } else if kind.eq_ignore_ascii_case(b"aclcat") {
                let category = Categories::named(filter);
                Box::new(move |command| category.is_some_and(|category| command.categories.has(category)))
            } else if kind.eq_ignore_ascii_case(b"pattern") {
                match Pattern::new(filter, true) {
                    Ok(pattern) => Box::new(move |command| pattern.matches(command.full_name.as_bytes())),
                    Err(error) => return Value::error(format!("ERR {error}")),
                }
            } else {
                return Value::error("ERR syntax error");
            }
        }
        _ => return Value::error("ERR syntax error"),
    };
    let all = vocabulary.commands().iter().flat_map(|&command| std::iter::once(command).chain(command.subcommands));
    Value::Array(all.filter(|command| admits(command)).map(|command| Value::from(command.full_name)).collect())
}

/// Replies to `COMMAND GETKEYS`, or with `flags` to `COMMAND GETKEYSANDFLAGS`: the generators and sequences that a
/// command names.
///
/// `WATCH` has no keys here: it is refused whatever it names.
///
/// # Errors
///
/// Returns the error reply for an unknown command, for one without keys, or for too few arguments.
pub fn command_get_keys(vocabulary: &Vocabulary, args: Args<'_>, flags: bool) -> Result<Value, ErrorReply> {
    let request = args.behind(2);
    let command = vocabulary.resolve(request).map_err(|_| ErrorReply::from("ERR Invalid command specified"))?;
    if command.keys.is_empty() {
        return Err("ERR The command has no key arguments".into());
    }
    if !command.accepts(request.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    Ok(keys::keys_value(command, request, flags))
}

/// Replies to the `HELP` of a container, in lines as Redis formats them.
pub fn command_help(container: &Command) -> Value {
    let title = format!(
        "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        container.full_name.to_ascii_uppercase()
    );
    let mut lines = vec![Value::Simple(title.into())];
    if container.accepts(1) {
        lines.extend(
            ["(no subcommand)", "    Return details about all commands."].map(|line| Value::Simple(line.into())),
        );
    }
    let (last, others): (Vec<_>, Vec<_>) = container.subcommands.iter().partition(|sub| sub.name == "help");
    for sub in others.into_iter().chain(last) {
        lines.extend(sub.help.iter().map(|&line| Value::Simple(line.into())));
    }
    Value::Array(lines)
}
