//! `getid decode`: what IDs mean, for people and for scripts.
//!
//! IDs come as arguments or line by line from standard input, and each is answered at once, so that a log can be piped
//! through without end. One bad ID is named and does not spoil the others.

use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::layout::LayoutArgs;
use super::output::{complain, finish, print};
use crate::id::{Id, Layout};
use crate::timestamp;

/// Arguments of `getid decode`.
#[derive(Args)]
#[command(after_help = "\
With --json there is one object a line. In it an ID is a string: it is larger than 2^53, and JavaScript and jq would
round it as a number. Bad input is named on standard error; the rest is decoded, and the exit code is 1.

Examples:
  getid decode 144182182078841378
  redis-cli -p 7890 MGETID 5 | getid decode
  mysql -NBe 'SELECT id FROM orders LIMIT 10' | getid decode --json
  getid decode --config /etc/getid/getid.conf 144182182078841378")]
pub(super) struct DecodeArgs {
    /// IDs; `-` or none at all: read them from standard input, separated by blanks or lines
    #[arg(value_name = "ID", allow_negative_numbers = true)]
    ids: Vec<String>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    layout: LayoutArgs,
}

/// Decodes all IDs; exit code 1 if one of them was none, or the layout is wrong.
pub(super) fn run(args: &DecodeArgs) -> ExitCode {
    let layout = match args.layout.layout() {
        Ok(layout) => layout,
        Err(message) => {
            complain(&message);
            return ExitCode::FAILURE;
        }
    };
    let mut bad = false;
    let printed = print(|out| {
        let mut decoder = Decoder { out, layout, json: args.json, header_due: !args.json, bad: false };
        let result = decode_all(&args.ids, &mut decoder);
        bad = decoder.bad;
        result
    });
    finish(printed, if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn decode_all(ids: &[String], decoder: &mut Decoder<'_>) -> io::Result<()> {
    if ids.is_empty() {
        return decode_stdin(decoder);
    }
    for (index, word) in ids.iter().enumerate() {
        if word == "-" {
            decode_stdin(decoder)?;
        } else {
            decoder.decode(word, || format!("argument {}", index + 1))?;
        }
    }
    Ok(())
}

fn decode_stdin(decoder: &mut Decoder<'_>) -> io::Result<()> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        complain("reading IDs from the terminal; end with Ctrl-D");
    }
    let mut input = BufReader::new(stdin.lock());
    let mut line = Vec::new();
    for number in 1_u64.. {
        // Whoever types, or follows a log, sees each answer before the next question.
        if input.buffer().is_empty() {
            decoder.out.flush()?;
        }
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                complain(&format!("reading standard input: {error}"));
                decoder.bad = true;
                break;
            }
        }
        for word in String::from_utf8_lossy(&line).split_whitespace() {
            decoder.decode(word, || format!("line {number}"))?;
        }
    }
    Ok(())
}

struct Decoder<'a> {
    out: &'a mut dyn Write,
    layout: Layout,
    json: bool,
    header_due: bool,
    bad: bool,
}

impl Decoder<'_> {
    fn decode(&mut self, word: &str, place: impl FnOnce() -> String) -> io::Result<()> {
        let Some(id) = parse_id(word) else {
            self.bad = true;
            // In the order of the input, also when both go to one terminal.
            self.out.flush()?;
            complain(&format!("{}: '{}' is no ID: must be 0 to {}", place(), shown(word), i64::MAX));
            return Ok(());
        };
        let row = Row::new(id, self.layout);
        if self.json {
            serde_json::to_writer(&mut *self.out, &row)?;
            return self.out.write_all(b"\n");
        }
        if std::mem::take(&mut self.header_due) {
            writeln!(
                self.out,
                "{:>19}  {:<24}  {:>15}  {:>9}  {:>7}  {:>7}",
                "id", "time", "unix_ms", "server_id", "shard", "random"
            )?;
        }
        let Row { id, time, unix_ms, server_id, shard, random } = row;
        writeln!(self.out, "{id:>19}  {time:<24}  {unix_ms:>15}  {server_id:>9}  {shard:>7}  {random:>7}")
    }
}

/// An ID as text: digits only, 63 bits.
pub(super) fn parse_id(word: &str) -> Option<Id> {
    let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    if digits { word.parse().ok().and_then(Id::new) } else { None }
}

/// The fields of DECODEID that do not depend on the current time, under the same names.
#[derive(Serialize)]
struct Row {
    id: String,
    time: String,
    unix_ms: i64,
    server_id: u32,
    shard: u32,
    random: u32,
}

impl Row {
    fn new(id: Id, layout: Layout) -> Row {
        let parts = layout.split(id);
        let unix_ms = parts.tick.unix_ms(layout.epoch());
        Row {
            id: id.to_string(),
            time: timestamp::format_rfc3339(unix_ms),
            unix_ms,
            server_id: parts.server,
            shard: parts.shard,
            random: parts.random,
        }
    }
}

/// What the terminal may be shown of a word that somebody else may have written.
fn shown(word: &str) -> String {
    word.chars().take(64).map(|char| if char.is_control() { '?' } else { char }).collect()
}
