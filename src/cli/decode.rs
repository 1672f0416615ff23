//! `getid decode`: what IDs mean, for people and for scripts.
//!
//! IDs are those of the unnamed generator, or of any declaration. They come as arguments or from standard input, and
//! each is answered at once, so that a log can be piped through without end. A word that is not an ID is named and does
//! not spoil the others; a line of a hundred wrong words is named once.

use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::process::ExitCode;

use clap::Args;
use getid_core::{Id, Layout};
use serde::Serialize;

use super::layout_args::SubjectArgs;
use super::output::{complain, finish, print};
use crate::text::plural::counted;
use crate::text::printable::printable;
use crate::text::timestamp;
use crate::tools::decoded::Decoding;
use crate::tools::paste::{Mistake, Scanner};
use crate::tools::subject::Subject;

/// Arguments of `getid decode`.
#[derive(Args)]
#[command(after_help = "\
--layout and --generator name a layout or a kind other than the unnamed generator's; then texts such as UUIDs are IDs too, and each
field has its own name. What is wider than 53 bits is a string in JSON.

IDs may stand as people paste them: one a line, CSV, a JSON array, redis-cli's numbered lines, a table of mysql. Times are
UTC. With --json there is one object a line. In it an ID is a string: it is larger than 2^53, and JavaScript and jq would
round it as a number. What is no ID is named on standard error, the first of each line; the rest is decoded, and the exit
code is 1.

Examples:
  getid decode 144182182078841378
  redis-cli -p 7890 MGETID 5 | getid decode
  getid decode '[\"144182182078841378\", \"144182328657188278\"]'
  mysql -NBe 'SELECT id FROM orders LIMIT 10' | getid decode --json
  getid decode --config /etc/getid/getid.conf 144182182078841378
  getid decode --layout twitter 1541815603606036480
  getid decode --layout 'baidu time:29 worker:21 epoch 2016-09-20T00:00:00+08:00' 180363646902239241
  getid decode --layout uuid7 017f22e2-79b0-7cc3-98c4-dc0c0c07398f
  getid decode --generator tweets --config /etc/getid/getid.conf 1541815603606036480")]
pub(super) struct DecodeArgs {
    /// IDs; `-` or none at all: read them from standard input
    #[arg(value_name = "ID", allow_negative_numbers = true)]
    ids: Vec<String>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    subject: SubjectArgs,
}

/// Mistakes that are named; a file that is not a list of IDs at all need not fill a screen.
const NAMED_MAX: u64 = 20;

/// Decodes all IDs; exit code 1 if one of them was none, or the layout is wrong.
pub(super) fn run(args: &DecodeArgs) -> ExitCode {
    let subject = match args.subject.subject() {
        Ok(subject) => subject,
        Err(message) => {
            complain(&message);
            return ExitCode::FAILURE;
        }
    };
    let mut bad = false;
    let printed = print(|out| {
        let meaning = match &subject {
            Subject::Unnamed(layout) => Meaning::Unnamed(*layout),
            Subject::Declared(declaration) => Meaning::Declared(Decoding::new(declaration)),
        };
        let (json, header_due) = (args.json, !args.json);
        let mut decoder = Decoder { out, meaning, json, header_due, mistakes: 0, place: None };
        let result = decode_all(&args.ids, &subject, &mut decoder);
        bad = decoder.mistakes > 0;
        let named = decoder.mistakes.min(NAMED_MAX);
        if decoder.mistakes > named {
            decoder.out.flush()?;
            complain(&format!("{} more, which are not named here", counted(decoder.mistakes - named, "mistake")));
        }
        result
    });
    finish(printed, if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn decode_all(ids: &[String], subject: &Subject, decoder: &mut Decoder<'_>) -> io::Result<()> {
    if ids.is_empty() {
        return decode_stdin(subject, decoder);
    }
    for (index, argument) in ids.iter().enumerate() {
        if argument == "-" {
            decode_stdin(subject, decoder)?;
            continue;
        }
        let place = Place::Argument(index + 1);
        let mut words = 0;
        let mut scanner = Scanner::new(subject);
        let mut found = |_, word| {
            words += 1;
            decoder.take(place, word)
        };
        scanner.scan(argument.as_bytes(), &mut found)?;
        scanner.finish(&mut found)?;
        if words == 0 {
            decoder.take(place, Err(Mistake::of(argument, subject)))?;
        }
    }
    Ok(())
}

fn decode_stdin(subject: &Subject, decoder: &mut Decoder<'_>) -> io::Result<()> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        complain("reading IDs from the terminal; end with Ctrl-D");
    }
    let mut input = BufReader::new(stdin.lock());
    let mut scanner = Scanner::new(subject);
    loop {
        // Whoever types, or follows a log, sees each answer before the next question.
        if input.buffer().is_empty() {
            decoder.out.flush()?;
        }
        let bytes = match input.fill_buf() {
            Ok([]) => break,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                complain(&format!("reading standard input: {error}"));
                decoder.mistakes += 1;
                break;
            }
        };
        scanner.scan(bytes, |line, word| decoder.take(Place::Line(line), word))?;
        let used = bytes.len();
        input.consume(used);
    }
    scanner.finish(|line, word| decoder.take(Place::Line(line), word))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Argument(usize),
    Line(u64),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Argument(number) => write!(f, "argument {number}"),
            Place::Line(number) => write!(f, "line {number}"),
        }
    }
}

/// How numbers become rows.
enum Meaning<'a> {
    Unnamed(Layout),
    Declared(Decoding<'a>),
}

struct Decoder<'a> {
    out: &'a mut dyn Write,
    meaning: Meaning<'a>,
    json: bool,
    header_due: bool,
    /// Places with a mistake, and what went wrong besides.
    mistakes: u64,
    /// Where the last mistake was.
    place: Option<Place>,
}

impl Decoder<'_> {
    fn take(&mut self, place: Place, word: Result<u128, Mistake>) -> io::Result<()> {
        match word {
            Ok(number) => self.write(number),
            Err(_) if self.place == Some(place) => Ok(()),
            Err(mistake) => {
                self.place = Some(place);
                self.mistakes += 1;
                if self.mistakes > NAMED_MAX {
                    return Ok(());
                }
                // In the order of the input, also when both go to one terminal.
                self.out.flush()?;
                complain(&printable(&format!("{place}: {mistake}")));
                Ok(())
            }
        }
    }

    fn write(&mut self, number: u128) -> io::Result<()> {
        let header_due = std::mem::take(&mut self.header_due);
        match &self.meaning {
            Meaning::Unnamed(layout) => {
                let id = u64::try_from(number).ok().and_then(Id::new);
                let Some(row) = id.map(|id| Row::new(id, *layout)) else { return Ok(()) };
                if self.json { write_json(self.out, &row) } else { row.write(*layout, header_due, self.out) }
            }
            Meaning::Declared(decoding) => {
                let row = decoding.row(number);
                if self.json {
                    return write_json(self.out, &row);
                }
                if header_due {
                    writeln!(self.out, "{}", decoding.header())?;
                }
                writeln!(self.out, "{row}")
            }
        }
    }
}

fn write_json(out: &mut dyn Write, row: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, row)?;
    out.write_all(b"\n")
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
    /// 80 columns under every layout: server-id, shard and random share 21 bits, so two of them are short.
    fn write(&self, layout: Layout, header_due: bool, out: &mut dyn Write) -> io::Result<()> {
        let digits = |bits: u32, name: &str| ((1_u64 << bits) - 1).to_string().len().max(name.len());
        let [a, b, c] = [
            digits(layout.server_bits(), "server"),
            digits(layout.shard_bits(), "shard"),
            digits(layout.random_bits(), "random"),
        ];
        if header_due {
            let [id, time, unix_ms] = ["id", "time (UTC)", "unix_ms"];
            writeln!(out, "{id:>19} {time:<24} {unix_ms:>13} {:>a$} {:>b$} {:>c$}", "server", "shard", "random")?;
        }
        let Row { id, time, unix_ms, server_id, shard, random } = self;
        writeln!(out, "{id:>19} {time:<24} {unix_ms:>13} {server_id:>a$} {shard:>b$} {random:>c$}")
    }
}
