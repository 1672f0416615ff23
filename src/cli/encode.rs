//! `getid encode`: composes the ID of a time and values of fields, for comparison.
//!
//! Offline there is no record of the IDs that were given, so each of these IDs may be one of them. `ENCODEID` of a
//! server composes those that are not.

use std::process::ExitCode;

use clap::Args;
use getid_core::{EncodeError, Fill};
use serde::Serialize;

use super::exit::{CliError, EXIT_NEGATIVE, ToolError, finish};
use super::layout_args::SubjectArgs;
use super::output::print;
use getid_system::clock::wall_unix_ms;
use getid_text::printable::printable_up_to;
use getid_text::timestamp::{TimeError, TimeSpec, format_rfc3339};
use getid_tools::subject::Subject;

/// Arguments of `getid encode`.
#[derive(Args)]
#[command(after_help = "\
The ID is for comparison: as a bound of a query, or as the expected value of a test. A generator may give it, too.
The command ENCODEID of a server composes IDs that the server never gives, for rows of times before it was used.

A time is one of: Unix milliseconds, RFC 3339 (2017-03-06T09:37:01.966+08:00), a date with a time
('2017-03-06 09:37:01'), a date (its first millisecond), now. Without a zone it is UTC. A field is written NAME=VALUE,
with a name that getid decode --json shows. Fields that are not given are 0, or have their largest value with --highest.

Examples:
  getid encode --time 2017-03-06T09:37:01.966Z
  getid encode --time 2022-06-28T16:07:40.105Z --layout twitter datacenter=11 worker=26
  getid encode --time 2026-01-01 --highest --generator tweets --config /etc/getid/getid.conf
  getid encode --time now --layout uuid7 --json")]
pub(super) struct EncodeArgs {
    /// Values of fields, such as worker=26
    #[arg(value_name = "FIELD=VALUE")]
    fields: Vec<String>,
    /// The time of the ID, as below
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    time: String,
    /// The highest ID of this time in place of the lowest
    #[arg(long)]
    highest: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    subject: SubjectArgs,
}

/// Reason why there is no such ID.
#[derive(Debug, thiserror::Error)]
enum EncodingError {
    #[error("--time: {0}")]
    Time(TimeError),
    #[error("'{0}' is not FIELD=VALUE, as in worker=26")]
    NoField(String),
    #[error("IDs of {0} are counted, and hold no time")]
    Counted(String),
    #[error("IDs of {name}: {error}")]
    Encode { name: String, error: EncodeError },
    #[error(
        "the number {number} has more digits than 'pad' of {name}: a larger pad, or 'overflow grow', would hold it"
    )]
    OutgrowsPad { number: String, name: String },
    #[error(
        "the number {number} has no Sqid of {name}: each of its texts has a word of the library's list; give another \
         field value"
    )]
    NoSqid { number: String, name: String },
}

impl ToolError for EncodingError {
    fn exit_code(&self) -> u8 {
        EXIT_NEGATIVE
    }
}

/// Prints the ID. The exit code is 1 if there is none.
pub(super) fn run(args: &EncodeArgs) -> Result<ExitCode, CliError> {
    let encoded = EncodedId::new(args, &args.subject.subject()?, wall_unix_ms())?;
    let printed = print(|out| {
        if args.json {
            serde_json::to_writer(&mut *out, &encoded)?;
            return out.write_all(b"\n");
        }
        writeln!(out, "{}", encoded.id)
    });
    finish(printed, ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct EncodedId {
    id: String,
    time: String,
    unix_ms: i64,
}

impl EncodedId {
    fn new(args: &EncodeArgs, subject: &Subject, now_unix_ms: i64) -> Result<EncodedId, EncodingError> {
        let unix_ms = TimeSpec::parse(&args.time).map_err(EncodingError::Time)?.unix_ms(now_unix_ms);
        let name = subject.name().unwrap_or("the unnamed generator").to_owned();
        let layout = subject.fields().ok_or_else(|| EncodingError::Counted(name.clone()))?;
        let wrong = |error| EncodingError::Encode { name: name.clone(), error };
        let fill = if args.highest { Fill::Highest } else { Fill::Lowest };
        let mut values = Vec::with_capacity(args.fields.len());
        for word in &args.fields {
            let (field, text) =
                word.split_once('=').ok_or_else(|| EncodingError::NoField(printable_up_to(word, WORD_CHARS_MAX)))?;
            values.push((field, layout.parse_value(field, text).map_err(wrong)?));
        }
        let number = layout.encode(unix_ms, &values, fill).map_err(wrong)?;
        let id = match subject {
            Subject::Declared(declaration) => {
                let mut text = Vec::new();
                let is_written = declaration.write(number, &mut text);
                String::from_utf8(text).ok().filter(|_| is_written)
            }
            Subject::Unnamed(_) | Subject::Counted(_) => Some(number.to_string()),
        };
        let id = id.ok_or_else(|| {
            let number = number.to_string();
            match subject {
                Subject::Declared(own) if own.format().is_some_and(|format| !format.is_ordered()) => {
                    EncodingError::NoSqid { number, name }
                }
                _ => EncodingError::OutgrowsPad { number, name },
            }
        })?;
        Ok(EncodedId { id, time: format_rfc3339(unix_ms), unix_ms })
    }
}

/// Longest part of an argument that an error shows, characters.
const WORD_CHARS_MAX: usize = 64;
