//! `getid seal` and `getid open`: IDs to sealed texts and back, without a server.
//!
//! The keys are those of a configuration's generator, or a key file. Both tools read arguments, or lines of standard
//! input, and answer each word by a line.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueHint};
use getid_core::server::is_name;
use getid_core::{Alphabet, AlphabetError, Layout};
use serde::Serialize;

use super::exit::{CliError, EXIT_NEGATIVE, ToolError, finish};
use super::output::print;
use super::pasted::{InputPosition, Mistakes, PasteReader, print_mistake, read_pasted};
use super::tool_config::{environment, load};
use getid_config::{ConfigReport, SealKeysError, Sources, read_seal_keys};
use getid_seal::{OpenError, Sealer, Sealers, ShortAlphabet};
use getid_server::config_files::RealFiles;
use getid_text::printable::printable_up_to;
use getid_text::suggest::did_you_mean;
use getid_tools::paste::{IdReader, PasteError};
use getid_tools::recognition::Candidates;
use getid_tools::subject::Subject;
use getid_tools::words::{Word, WordScanner, is_decoration};

/// Arguments of `getid seal`.
#[derive(Args)]
#[command(after_help = "\
The text depends on NAME: the same ID has another text for another generator. With --json there is one object a line, in
which an ID is a string, and key is the key number. Words that are not IDs are reported on standard error, and the exit
code is 1.

Examples:
  getid seal order 786829717956198794 --config /etc/getid/getid.conf
  mysql -NBe 'SELECT id FROM orders' | getid seal order --config /etc/getid/getid.conf
  getid seal order 786829717956198794 --key-file order.keys --alphabet base62")]
pub(super) struct SealArgs {
    /// The generator
    #[arg(value_name = "NAME")]
    name: String,
    /// IDs; `-` or none at all: read them from standard input
    #[arg(value_name = "ID", allow_negative_numbers = true)]
    ids: Vec<String>,
    #[command(flatten)]
    form: FormArgs,
}

/// Arguments of `getid open`.
#[derive(Args)]
#[command(after_help = "\
A text that is opened need not be one that a server gave: up to one in nine wrong texts of base58 opens by chance. Look
its ID up. With --json there is one object a line, in which key is the key number. Words that are not sealed texts are
reported on standard error, and the exit code is 1. Write -- before a text that begins with a hyphen.

Examples:
  getid open order 424xJjbrZ18j --config /etc/getid/getid.conf
  getid open order --config /etc/getid/getid.conf < texts | getid decode --generator order \\
    --config /etc/getid/getid.conf
  getid open order 424xJjbrZ18j --key-file order.keys --alphabet base62")]
pub(super) struct OpenArgs {
    /// The generator
    #[arg(value_name = "NAME")]
    name: String,
    /// Sealed texts; `-` or none at all: read them from standard input
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
    #[command(flatten)]
    form: FormArgs,
}

/// Flags of the keys and of the output.
#[derive(Args)]
struct FormArgs {
    /// The servers' configuration file, with a sealed generator NAME
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// A key file in place of the configuration
    #[arg(long, value_name = "PATH", conflicts_with = "config", value_hint = ValueHint::FilePath)]
    key_file: Option<PathBuf>,
    /// The alphabet of texts, a word such as base62 or its characters [default: base58]
    #[arg(long, value_name = "A", requires = "key_file", allow_hyphen_values = true)]
    alphabet: Option<String>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Reason why there is no sealer.
#[derive(Debug, thiserror::Error)]
enum SealerError {
    #[error("configuration:\n{0}")]
    Configuration(#[from] ConfigReport),
    #[error(transparent)]
    Keys(#[from] SealKeysError),
    #[error("--alphabet: {0}")]
    Alphabet(#[from] AlphabetError),
    #[error("--alphabet: {0}")]
    ShortAlphabet(#[from] ShortAlphabet),
    #[error(
        "'{}' is not a name of a generator: it must have 1 to 128 characters of A-Z a-z 0-9 _ . : -",
        printable_up_to(.0, 64)
    )]
    Name(String),
    #[error(
        "the configuration has no sealed generator '{}'; {}",
        printable_up_to(.name, 64),
        sealed_there(.similar.as_deref(), .names)
    )]
    NotSealed { name: String, similar: Option<String>, names: Vec<String> },
}

impl ToolError for SealerError {
    /// Returns the exit code of the tools that work without a server.
    fn exit_code(&self) -> u8 {
        EXIT_NEGATIVE
    }
}

/// Largest number of generators that an error names.
const NAMED_MAX: usize = 10;

/// Formats the sealed generators that a configuration has in place of another one.
fn sealed_there(similar: Option<&str>, names: &[String]) -> String {
    match similar {
        Some(similar) => format!("did you mean '{similar}'?"),
        None if names.is_empty() => {
            "it seals none; --config FILE names the servers' configuration, and --key-file PATH a key file".to_owned()
        }
        None => {
            let more = if names.len() > NAMED_MAX { ", ..." } else { "" };
            format!("it seals {}{more}", names[..names.len().min(NAMED_MAX)].join(", "))
        }
    }
}

impl FormArgs {
    /// Returns the sealer of the generator `name`.
    fn sealer(&self, name: &str) -> Result<Sealer, SealerError> {
        if !is_name(name) {
            return Err(SealerError::Name(name.to_owned()));
        }
        if let Some(path) = &self.key_file {
            let alphabet = Alphabet::parse(self.alphabet.as_deref().unwrap_or("base58"))?;
            return Ok(Sealer::new(read_seal_keys(path, &RealFiles)?, name, alphabet)?);
        }
        let sources = Sources { file: self.config.clone(), environment: environment(), ..Sources::default() };
        let sealers: Sealers = load(&sources)?.sealers;
        if let Some(sealer) = sealers.find(name.as_bytes()) {
            return Ok(sealer.clone());
        }
        let names = || sealers.iter().map(Sealer::name);
        let similar = did_you_mean(name, names()).map(str::to_owned);
        Err(SealerError::NotSealed { name: name.to_owned(), similar, names: names().map(str::to_owned).collect() })
    }
}

/// Seals all IDs. The exit code is 1 if a word was no ID, or if there are no keys.
pub(super) fn seal(args: &SealArgs) -> Result<ExitCode, CliError> {
    run(&args.name, &args.ids, &args.form, Direction::Seal)
}

/// Opens all texts. The exit code is 1 if a word was no sealed text, or if there are no keys.
pub(super) fn open(args: &OpenArgs) -> Result<ExitCode, CliError> {
    run(&args.name, &args.texts, &args.form, Direction::Open)
}

fn run(name: &str, words: &[String], form: &FormArgs, direction: Direction) -> Result<ExitCode, CliError> {
    let sealer = form.sealer(name)?;
    let mut mistakes = Mistakes::default();
    let printed = print(|out| {
        let mut converter = Converter { out, sealer: &sealer, direction, json: form.json, mistakes: &mut mistakes };
        let what = match direction {
            Direction::Seal => "IDs",
            Direction::Open => "sealed texts",
        };
        read_pasted(words, what, &mut converter)
    });
    finish(printed, mistakes.exit_code())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Seal,
    Open,
}

/// An ID and its sealed text.
#[derive(Serialize)]
struct SealedId<'a> {
    generator: &'a str,
    id: String,
    text: &'a str,
    /// Number of the key in the text.
    key: u8,
}

/// A word that is not converted.
#[derive(Debug, thiserror::Error)]
enum WordError {
    #[error("{0}")]
    NoId(PasteError),
    #[error("'{text}' {error}")]
    NotOpened { text: String, error: OpenError },
    #[error("'{beginning}...' is not a sealed text of {name}, which has {chars} characters")]
    TooLong { beginning: String, name: String, chars: usize },
    #[error("no sealed text but an error of the server: {0}")]
    ServerError(String),
}

/// Writer of the other form of each word.
struct Converter<'a> {
    out: &'a mut dyn Write,
    sealer: &'a Sealer,
    direction: Direction,
    json: bool,
    mistakes: &'a mut Mistakes,
}

impl PasteReader for Converter<'_> {
    fn words(&self) -> WordScanner {
        match self.direction {
            Direction::Seal => IdReader::new(&integers(), 0).words(),
            Direction::Open => WordScanner::new(self.sealer.text_chars(), ""),
        }
    }

    fn accept(&mut self, position: InputPosition, word: Word<'_>) -> io::Result<bool> {
        let converted = match self.direction {
            Direction::Seal => self.sealed(word),
            Direction::Open => self.opened(word),
        };
        match converted {
            None => return Ok(false),
            Some(Ok((id, text))) => self.write(id, &text)?,
            Some(Err(mistake)) => self.report(position, &mistake)?,
        }
        Ok(true)
    }

    fn reject(&mut self, position: InputPosition, argument: &str) -> io::Result<()> {
        let mistake = match self.direction {
            Direction::Seal => WordError::NoId(IdReader::new(&integers(), 0).mistake(argument)),
            Direction::Open => match self.sealer.open(argument.as_bytes()) {
                Ok(opened) => return self.write(opened.id, argument),
                Err(error) => WordError::NotOpened { text: argument.to_owned(), error },
            },
        };
        self.report(position, &mistake)
    }

    fn output(&mut self) -> (&mut dyn Write, &mut Mistakes) {
        (self.out, self.mistakes)
    }
}

/// Returns the candidates whose IDs are all integers of 63 bits, with any layout.
fn integers() -> Candidates {
    Candidates::named(Subject::Unnamed(Layout::default()))
}

impl Converter<'_> {
    /// Returns an ID with its text; `None` for a decoration.
    fn sealed(&self, word: Word<'_>) -> Option<Result<(u64, String), WordError>> {
        let integers = integers();
        let (_, number) = match IdReader::new(&integers, 0).accept(word)? {
            Ok(found) => found,
            Err(mistake) => return Some(Err(WordError::NoId(mistake))),
        };
        // All numbers of this subject have at most 63 bits, and each of them has a text.
        let id = u64::try_from(number).ok()?;
        Some(Ok((id, self.sealer.seal(id).ok()?)))
    }

    /// Returns the ID of a text with the text; `None` for a decoration.
    fn opened(&self, word: Word<'_>) -> Option<Result<(u64, String), WordError>> {
        let (name, chars) = (self.sealer.name().to_owned(), self.sealer.text_chars());
        Some(match word {
            Word::Cut(beginning) => Err(WordError::TooLong { beginning: beginning.to_owned(), name, chars }),
            Word::ServerError(text) => Err(WordError::ServerError(text.to_owned())),
            Word::Whole(text) => match self.sealer.open(text.as_bytes()) {
                Ok(opened) => Ok((opened.id, text.to_owned())),
                Err(_) if is_decoration(text) => return None,
                Err(error) => Err(WordError::NotOpened { text: text.to_owned(), error }),
            },
        })
    }

    fn write(&mut self, id: u64, text: &str) -> io::Result<()> {
        if !self.json {
            return match self.direction {
                Direction::Seal => writeln!(self.out, "{text}"),
                Direction::Open => writeln!(self.out, "{id}"),
            };
        }
        let key = self.sealer.open(text.as_bytes()).map(|opened| opened.key).unwrap_or_default();
        let row = SealedId { generator: self.sealer.name(), id: id.to_string(), text, key };
        serde_json::to_writer(&mut *self.out, &row)?;
        self.out.write_all(b"\n")
    }

    fn report(&mut self, position: InputPosition, mistake: &WordError) -> io::Result<()> {
        if self.mistakes.is_reported(position) {
            print_mistake(self.out, position, &mistake.to_string())?;
        }
        Ok(())
    }
}
