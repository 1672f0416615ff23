//! Pasted text as tools take it: arguments, or lines of standard input.
//!
//! Each word is answered at once, so that an endless log can be piped through. A wrong word is reported and does not
//! affect the others; a line with many wrong words is reported once.

use std::fmt;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::process::ExitCode;

use super::output::{print_error, print_note};
use getid_text::plural::counted;
use getid_text::printable::printable;
use getid_tools::words::{Word, WordScanner};

/// Largest number of mistakes that are reported, so that a wrong file does not fill the screen.
const NAMED_MAX: u64 = 20;

/// Position of a word in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputPosition {
    /// The number of an argument, from 1.
    Argument(usize),
    /// The number of a line of standard input, from 1.
    Line(u64),
}

impl fmt::Display for InputPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InputPosition::Argument(number) => write!(f, "argument {number}"),
            InputPosition::Line(number) => write!(f, "line {number}"),
        }
    }
}

/// Mistakes in the input: one of each position counts, and the first 20 are reported.
#[derive(Debug, Default)]
pub(super) struct Mistakes {
    count: u64,
    /// Position of the last mistake.
    position: Option<InputPosition>,
}

impl Mistakes {
    /// Counts a mistake at this position. Returns true if it is to be reported.
    pub(super) fn is_reported(&mut self, position: InputPosition) -> bool {
        if self.position == Some(position) {
            return false;
        }
        self.position = Some(position);
        self.count += 1;
        self.count <= NAMED_MAX
    }

    /// Returns the exit code of a tool: 1 if there was a mistake.
    pub(super) fn exit_code(&self) -> ExitCode {
        if self.count > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

/// Reader of the words of pasted text.
pub(super) trait PasteReader {
    /// Returns a scanner for the words of one argument, or of standard input.
    fn words(&self) -> WordScanner;

    /// Answers a word, or reports it. Returns false for a decoration, which is skipped.
    fn accept(&mut self, position: InputPosition, word: Word<'_>) -> io::Result<bool>;

    /// Reports an argument that has no word.
    fn reject(&mut self, position: InputPosition, argument: &str) -> io::Result<()>;

    /// Returns the output and the mistakes so far.
    fn output(&mut self) -> (&mut dyn Write, &mut Mistakes);
}

/// Reads the words of all arguments. `-`, and no argument at all, is standard input, which has `what`, such as `IDs`.
pub(super) fn read_pasted(arguments: &[String], what: &str, reader: &mut impl PasteReader) -> io::Result<()> {
    if arguments.is_empty() {
        read_stdin(what, reader)?;
    }
    for (index, argument) in arguments.iter().enumerate() {
        if argument == "-" {
            read_stdin(what, reader)?;
            continue;
        }
        let position = InputPosition::Argument(index + 1);
        let mut words = 0;
        let mut scanner = reader.words();
        let mut found = |_, word: Word<'_>| {
            words += usize::from(reader.accept(position, word)?);
            Ok::<(), io::Error>(())
        };
        scanner.scan(argument.as_bytes(), &mut found)?;
        scanner.finish(&mut found)?;
        if words == 0 {
            reader.reject(position, argument)?;
        }
    }
    let (out, mistakes) = reader.output();
    if mistakes.count > NAMED_MAX {
        out.flush()?;
        print_error(&format!("{} more, which are not listed", counted(mistakes.count - NAMED_MAX, "mistake")));
    }
    Ok(())
}

fn read_stdin(what: &str, reader: &mut impl PasteReader) -> io::Result<()> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        print_note(&format!("reading {what} from the terminal; end with Ctrl-D"));
    }
    let mut input = BufReader::new(stdin.lock());
    let mut scanner = reader.words();
    loop {
        // Flush before a read that may block, so that each answer appears before the next question.
        if input.buffer().is_empty() {
            reader.output().0.flush()?;
        }
        let bytes = match input.fill_buf() {
            Ok([]) => break,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                print_error(&format!("reading standard input: {error}"));
                reader.output().1.count += 1;
                break;
            }
        };
        scanner.scan(bytes, |line, word| accept_line(reader, line, word))?;
        let used = bytes.len();
        input.consume(used);
    }
    scanner.finish(|line, word| accept_line(reader, line, word))
}

fn accept_line(reader: &mut impl PasteReader, line: u64, word: Word<'_>) -> io::Result<()> {
    reader.accept(InputPosition::Line(line), word).map(|_is_word| ())
}

/// Prints a mistake, after the output so far. So a terminal, which shows both streams, has them in the input's order.
pub(super) fn print_mistake(out: &mut dyn Write, position: InputPosition, mistake: &str) -> io::Result<()> {
    out.flush()?;
    print_error(&printable(&format!("{position}: {mistake}")));
    Ok(())
}
