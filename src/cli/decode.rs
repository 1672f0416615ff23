//! `getid decode`: decodes IDs into their fields, for people and for scripts.
//!
//! IDs belong to the named generator or layout. Without one they may be the unnamed generator's, those of the
//! configuration's generators, or those of any kind. Of several readings the one whose time is nearest to now is taken,
//! one in the past before one in the future, and a declared generator's before a kind's. An ID on the command line
//! whose time is in the future is probably another system's, so all its readings are printed, as `DECODEID` does.
//!
//! IDs are arguments or lines of standard input. Each is answered at once, so that an endless log can be piped through.
//! A word that is not an ID is reported and does not affect the others; a line with many wrong words is reported once.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use getid_core::server::CounterDeclaration;
use getid_core::{Id, Layout};
use serde::Serialize;

use super::exit::{CliError, finish};
use super::layout_args::SubjectArgs;
use super::output::{print, print_note};
use super::pasted::{InputPosition, Mistakes, PasteReader, print_mistake, read_pasted};
use getid_system::clock::wall_unix_ms;
use getid_text::printable::printable;
use getid_text::timestamp::{self, GENERATOR_AHEAD_MAX_MS};
use getid_tools::counted::CountedRow;
use getid_tools::decoded::Decoding;
use getid_tools::paste::{IdReader, PasteError};
use getid_tools::recognition::{Candidates, FoundId};
use getid_tools::subject::Subject;
use getid_tools::words::{Word, WordScanner};

/// Arguments of `getid decode`.
#[derive(Args)]
#[command(after_help = "\
Without --layout and --generator, an ID is decoded as one of the unnamed generator, of a generator in the servers' configuration
(--config FILE), or of any kind ('getid layout --list'). Of several readings the tool uses the one whose time is nearest to now,
and prefers a time in the past; --readings prints all of them, as it does for an ID on the command line whose time is in the
future. --layout, --generator NAME, and --generator - for the unnamed generator, select one. Then each field has its own name. A
field wider than 53 bits is a string in JSON.

The tool accepts pasted IDs: one a line, CSV, a JSON array, redis-cli's numbered lines, a table of mysql. Times are
UTC. With --json there is one object a line. In it an ID is a string: it is larger than 2^53, and JavaScript and jq would
round it as a number. Words that are not IDs are reported on standard error, the first of each line. The other words are
decoded, and the exit code is 1.

Examples:
  getid decode 144182182078841378
  redis-cli -p 7890 MGETID 5 | getid decode
  getid decode '[\"144182182078841378\", \"144182328657188278\"]'
  mysql -NBe 'SELECT id FROM orders LIMIT 10' | getid decode --json
  getid decode --config /etc/getid/getid.conf 144182182078841378
  getid decode --layout twitter 1541815603606036480
  getid decode --layout 'baidu time:29 worker:21 epoch 2016-09-20T00:00:00+08:00' \\
    180363646902239241
  getid decode 017f22e2-79b0-7cc3-98c4-dc0c0c07398f
  getid decode --readings 1541815603606036480
  getid decode --config /etc/getid/getid.conf ORD20261125-000001
  getid decode --layout 'serial ORD{yyyyMMdd}-{n:6} zone UTC' ORD20261125-000001
  getid decode --generator tweets --config /etc/getid/getid.conf 1541815603606036480")]
pub(super) struct DecodeArgs {
    /// IDs; `-` or none at all: read them from standard input
    #[arg(value_name = "ID", allow_negative_numbers = true)]
    ids: Vec<String>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    /// Print every reading of each ID: generators first, then kinds, the nearest to now first
    #[arg(long, conflicts_with_all = ["words", "generator", "id_range", "shard_range", "random_range", "epoch"])]
    readings: bool,
    #[command(flatten)]
    subject: SubjectArgs,
}

/// Decodes all IDs. The exit code is 1 if a word was no ID, or if the layout is wrong.
pub(super) fn run(args: &DecodeArgs) -> Result<ExitCode, CliError> {
    let candidates = args.subject.candidates()?;
    let now_unix_ms = wall_unix_ms();
    let mut mistakes = Mistakes::default();
    let printed = print(|out| {
        let mut decoder = Decoder {
            out,
            candidates: &candidates,
            ids: IdReader::new(&candidates, now_unix_ms),
            rows: (0..candidates.subjects().len()).map(|at| SubjectRows::of(&candidates, at)).collect(),
            json: args.json,
            prints_all: args.readings,
            last: usize::MAX,
            mistakes: &mut mistakes,
            now_unix_ms,
            explained: false,
            hinted: false,
        };
        read_pasted(&args.ids, "IDs", &mut decoder)
    });
    finish(printed, mistakes.exit_code())
}

/// How a subject's numbers are formatted as rows.
struct SubjectRows<'a> {
    format: RowFormat<'a>,
    /// Printed with the rows; `None` if the subject was named, or is the unnamed generator.
    recognized: Option<Recognition>,
}

enum RowFormat<'a> {
    Unnamed(Layout),
    Declared(Decoding<'a>),
    Counted(&'a CounterDeclaration),
}

impl<'a> SubjectRows<'a> {
    fn of(candidates: &'a Candidates, at: usize) -> SubjectRows<'a> {
        let subject = &candidates.subjects()[at];
        let format = match subject {
            Subject::Unnamed(layout) => RowFormat::Unnamed(*layout),
            Subject::Declared(declaration) => RowFormat::Declared(Decoding::new(declaration)),
            Subject::Counted(counter) => RowFormat::Counted(counter),
        };
        let recognized = if candidates.is_named() { None } else { Recognition::of(subject, candidates.kind_at(at)) };
        SubjectRows { format, recognized }
    }
}

struct Decoder<'a> {
    out: &'a mut dyn Write,
    candidates: &'a Candidates,
    ids: IdReader<'a>,
    /// One entry for each subject.
    rows: Vec<SubjectRows<'a>>,
    json: bool,
    /// Whether every reading of each ID is printed.
    prints_all: bool,
    /// Subject of the previous row: a row of another subject gets a head of its own.
    last: usize,
    mistakes: &'a mut Mistakes,
    now_unix_ms: i64,
    /// Whether a report of an unknown ID has already named the forms that are nearest to it.
    explained: bool,
    /// Whether `--readings` was already suggested for an ID whose time is in the future.
    hinted: bool,
}

impl PasteReader for Decoder<'_> {
    fn words(&self) -> WordScanner {
        self.ids.words()
    }

    fn accept(&mut self, position: InputPosition, word: Word<'_>) -> io::Result<bool> {
        match self.ids.accept(word) {
            None => return Ok(false),
            Some(Ok(found)) => self.write_id(position, found)?,
            Some(Err(mistake)) => self.report(position, &mistake)?,
        }
        Ok(true)
    }

    fn reject(&mut self, position: InputPosition, argument: &str) -> io::Result<()> {
        self.report(position, &self.ids.mistake(argument))
    }

    fn output(&mut self) -> (&mut dyn Write, &mut Mistakes) {
        (self.out, self.mistakes)
    }
}

impl Decoder<'_> {
    fn report(&mut self, position: InputPosition, mistake: &PasteError) -> io::Result<()> {
        if !self.mistakes.is_reported(position) {
            return Ok(());
        }
        let forms = match mistake {
            PasteError::NoId { word, .. } if !self.explained => self.candidates.nearest_forms(word),
            _ => None,
        };
        self.explained |= forms.is_some();
        let more = forms.map_or_else(String::new, |forms| {
            format!("; --config FILE adds the generators of a configuration; {forms}")
        });
        print_mistake(self.out, position, &format!("{mistake}{more}"))
    }

    /// Writes the reading of an ID, or all of them.
    fn write_id(&mut self, position: InputPosition, found: FoundId) -> io::Result<()> {
        let (subject, number) = found;
        let is_future = self.is_future(found);
        let is_typed = matches!(position, InputPosition::Argument(_)) && !self.json;
        let prints_all = self.prints_all || (is_future && is_typed);
        if !prints_all {
            self.write(subject, number)?;
            return if is_future { self.hint(found) } else { Ok(()) };
        }
        let text = self.candidates.subjects()[subject].text(number);
        let readings = self.candidates.readings(&text, self.now_unix_ms);
        readings.into_iter().try_for_each(|(subject, number)| self.write(subject, number))
    }

    /// Returns true if no generator or layout was named, and the most plausible time of an ID is in the future.
    fn is_future(&self, (subject, number): FoundId) -> bool {
        let unix_ms = self.candidates.subjects()[subject].unix_ms(number, self.now_unix_ms);
        let latest = self.now_unix_ms.saturating_add(GENERATOR_AHEAD_MAX_MS);
        !self.candidates.is_named() && unix_ms.is_some_and(|unix_ms| unix_ms > latest)
    }

    fn write(&mut self, subject: usize, number: getid_core::Number) -> io::Result<()> {
        let is_first = self.last == usize::MAX;
        let header_due = !self.json && std::mem::replace(&mut self.last, subject) != subject;
        let Decoder { out, rows, now_unix_ms, .. } = self;
        // A recognized subject is introduced by a line.
        let whose = rows[subject].recognized.as_ref();
        if let Some(whose) = whose.filter(|_| header_due) {
            writeln!(out, "{}{}", if is_first { "" } else { "\n" }, whose.about)?;
        }
        match &rows[subject].format {
            RowFormat::Unnamed(layout) => {
                let layout = *layout;
                let Some(id) = u64::try_from(number).ok().and_then(Id::new) else { return Ok(()) };
                let row = DecodedId::new(id, layout);
                if self.json { write_json(out, whose, &row) } else { row.write(layout, header_due, out) }
            }
            RowFormat::Declared(decoding) => {
                let row = decoding.row(number);
                if self.json {
                    return write_json(out, whose, &row);
                }
                if header_due {
                    writeln!(out, "{}", decoding.header())?;
                }
                writeln!(out, "{row}")
            }
            RowFormat::Counted(counter) => {
                let row = CountedRow::new(counter, number, *now_unix_ms);
                if self.json {
                    return write_json(out, whose, &row);
                }
                if header_due {
                    writeln!(out, "{}", CountedRow::header(counter))?;
                }
                writeln!(out, "{row}")
            }
        }
    }

    /// Suggests once to look at all readings of an ID whose time is in the future.
    fn hint(&mut self, (subject, number): FoundId) -> io::Result<()> {
        if std::mem::replace(&mut self.hinted, true) {
            return Ok(());
        }
        self.out.flush()?;
        let id = self.candidates.subjects()[subject].text(number);
        print_note(&printable(&format!(
            "the time of {id} is in the future: another system's ID? 'getid decode --readings {id}' shows all readings"
        )));
        Ok(())
    }
}

/// Writes one object a line. For a recognized subject it includes the generator and the kind.
fn write_json(out: &mut dyn Write, whose: Option<&Recognition>, row: &impl Serialize) -> io::Result<()> {
    match whose {
        None => serde_json::to_writer(&mut *out, row)?,
        Some(whose) => serde_json::to_writer(&mut *out, &RecognizedRow { whose, row })?,
    }
    out.write_all(b"\n")
}

#[derive(Serialize)]
struct RecognizedRow<'a, R: Serialize> {
    #[serde(flatten)]
    whose: &'a Recognition,
    #[serde(flatten)]
    row: &'a R,
}

/// A generator or a kind by which IDs were recognized.
#[derive(Serialize)]
struct Recognition {
    /// The generator's name; `None` for a kind that no generator of the configuration declares.
    #[serde(skip_serializing_if = "Option::is_none")]
    generator: Option<String>,
    kind: &'static str,
    #[serde(skip)]
    about: String,
}

impl Recognition {
    /// Returns the recognition of a subject; `description` is that of a kind that is not declared.
    fn of(subject: &Subject, description: Option<String>) -> Option<Recognition> {
        let (kind, doc) = match subject {
            Subject::Unnamed(_) => return None,
            Subject::Declared(declaration) => {
                let kind = declaration.kind();
                (kind.word, description.unwrap_or_else(|| kind.doc.to_owned()))
            }
            Subject::Counted(counter) => (counter.word(), counter.words().split_off(2).join(" ")),
        };
        let generator = subject.name().filter(|name| *name != kind).map(str::to_owned);
        let name = generator.as_ref().map_or_else(String::new, |name| format!("{name}: "));
        let about = format!("{name}{kind}{}{doc}", if doc.is_empty() { "" } else { ", " });
        Some(Recognition { generator, kind, about })
    }
}

/// The fields of DECODEID that do not depend on the current time, under the same names.
#[derive(Serialize)]
struct DecodedId {
    id: String,
    time: String,
    unix_ms: i64,
    server_id: u32,
    shard: u32,
    random: u32,
}

impl DecodedId {
    fn new(id: Id, layout: Layout) -> DecodedId {
        let parts = layout.split(id);
        let unix_ms = parts.tick.unix_ms(layout.epoch());
        DecodedId {
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
        let DecodedId { id, time, unix_ms, server_id, shard, random } = self;
        writeln!(out, "{id:>19} {time:<24} {unix_ms:>13} {server_id:>a$} {shard:>b$} {random:>c$}")
    }
}
