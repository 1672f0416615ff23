//! `getid number ledger`: the whole ledger of a generator, for people, programs and auditors.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum, ValueHint};
use getid_core::server::ledger::NumberState;

use super::super::exit::{CliError, EXIT_NEGATIVE};
use super::super::output::print;
use super::super::server_args::{ServerArgs, TIMEOUT_MS_DEFAULT};
use super::error::NumberError;
use getid_text::printable::printable;
use getid_text::timestamp::format_rfc3339;
use getid_tools::client::{Connection, Endpoint};
use getid_tools::ledger::{Audit, COLUMNS, LedgerPage, LedgerRow, csv_field};
use getid_tools::replies::{ErrorText, ReplyValue, push_request};

pub(super) const LEDGER_NOTES: &str = "\
The CSV begins with a line that names the generator, the selection, the server and its time, and ends with the result:
that every number from 1 to the highest is in the list, or which are missing. Lines that begin with # are no rows.
Without the last line the list is incomplete. Fields are quoted by RFC 4180; control characters are written as \\n or
\\u{1b}; what a spreadsheet would calculate (=, +, -, @, also behind a semicolon) gets an apostrophe before it. A range
of void or unclear numbers is one row, 5 to 9.

Exit code 0: every number is in the list; 1: numbers are missing, or the server refused; 2: the command line is wrong,
or the server was not reached. With --state nothing counts as missing.";

pub(super) const LEDGER_EXAMPLES: &str = "\
Examples:
  getid number ledger invoice
  getid number ledger invoice --csv invoices-2026.csv --period Y20260101
  getid number ledger invoice --series ACME --state reserved
  getid number ledger invoice --json | jq -r 'select(.overdue) | .request'";

/// Rows of a page.
const PAGE_ROWS: &str = "1000";

/// Most empty pages in a row. A server looks for the numbers of one period in up to 10,000 rows a page.
const EMPTY_PAGES_MAX: u32 = 10_000;

/// Arguments of `getid number ledger`.
#[derive(Args)]
pub(super) struct LedgerArgs {
    /// The generator, which is declared with 'gapless'
    #[arg(value_name = "NAME")]
    name: String,
    /// The server
    #[arg(value_name = "SERVER")]
    server: Option<String>,
    /// Only the series of this key
    #[arg(long, value_name = "KEY")]
    series: Option<String>,
    /// Only this period, such as Y20260101
    #[arg(long, value_name = "PERIOD")]
    period: Option<String>,
    /// Only numbers in this state
    #[arg(long, value_name = "STATE")]
    state: Option<StateWord>,
    /// As CSV, to FILE or to standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", value_hint = ValueHint::FilePath)]
    csv: Option<PathBuf>,
    /// As JSON, one object a line
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    #[command(flatten)]
    at: ServerArgs,
}

/// A state on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StateWord {
    Reserved,
    Committed,
    Released,
    Void,
    Unclear,
}

impl StateWord {
    const fn state(self) -> NumberState {
        match self {
            StateWord::Reserved => NumberState::Reserved,
            StateWord::Committed => NumberState::Committed,
            StateWord::Released => NumberState::Released,
            StateWord::Void => NumberState::Void,
            StateWord::Unclear => NumberState::Unclear,
        }
    }
}

/// Form of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Csv,
    Json,
}

/// Prints the ledger. The exit code is 1 if numbers are missing.
pub(super) fn run(args: &LedgerArgs) -> Result<ExitCode, CliError> {
    let is_complete = match &args.csv {
        Some(path) if path != Path::new("-") => to_file(args, path)?,
        Some(_) => print(|out| export(args, Form::Csv, out))?,
        None => print(|out| export(args, if args.json { Form::Json } else { Form::Text }, out))?,
    };
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NEGATIVE) })
}

/// Writes the CSV to a file, with a temporary name until it is complete. So an earlier file survives a failed run.
fn to_file(args: &LedgerArgs, path: &Path) -> Result<bool, CliError> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    let failed = |path: &Path, error| NumberError::File { path: path.to_owned(), error };
    let mut out = BufWriter::new(File::create(&unfinished).map_err(|error| failed(&unfinished, error))?);
    let exported = export(args, Form::Csv, &mut out).map_err(|error| match error {
        // An error of this output is one of the file.
        CliError::Print(error) => failed(&unfinished, error).into(),
        error @ CliError::Tool(_) => error,
    });
    let is_complete = exported.inspect_err(|_| drop(std::fs::remove_file(&unfinished)))?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all());
    file.and_then(|()| std::fs::rename(&unfinished, path)).map_err(|error| failed(path, error))?;
    Ok(is_complete)
}

/// A server whose ledger is read.
struct LedgerServer {
    server: Endpoint,
    connection: Connection,
}

impl LedgerServer {
    fn connect(args: &LedgerArgs) -> Result<LedgerServer, NumberError> {
        let server = args.at.endpoint(args.server.as_deref(), TIMEOUT_MS_DEFAULT)?;
        let connection = server.connect();
        let connection = connection.map_err(|error| NumberError::Client { endpoint: server.to_string(), error })?;
        Ok(LedgerServer { server, connection })
    }

    fn endpoint(&self) -> String {
        self.server.to_string()
    }

    fn ask(&mut self, words: &[&str]) -> Result<Vec<ReplyValue>, NumberError> {
        let mut request = Vec::new();
        push_request(&mut request, words);
        let asked = self.server.request_values(&mut self.connection, &request, 1);
        let replies = asked.map_err(|error| NumberError::Client { endpoint: self.endpoint(), error })?;
        match replies.into_iter().next() {
            Some(Ok(words)) => Ok(words),
            Some(Err(ErrorText(text))) => Err(NumberError::Refused { endpoint: self.endpoint(), text }),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the server's time, RFC 3339.
    fn time(&mut self) -> Result<String, NumberError> {
        let reply = self.ask(&["TIME"])?;
        let number = |word: Option<&ReplyValue>| str::from_utf8(word?.text()).ok()?.parse::<i64>().ok();
        match (number(reply.first()), number(reply.get(1))) {
            (Some(seconds), Some(us)) => Ok(format_rfc3339(seconds.saturating_mul(1000).saturating_add(us / 1000))),
            _ => Err(NumberError::Unexpected {
                endpoint: self.endpoint(),
                found: "another reply to TIME".to_owned(),
                expected: "a time",
            }),
        }
    }

    fn page(&mut self, args: &LedgerArgs, cursor: &str) -> Result<LedgerPage, NumberError> {
        let mut words = vec!["NUMBER", "LEDGER", &args.name];
        let state = args.state.map(|state| state.state().word());
        let cursor = Some(cursor).filter(|cursor| !cursor.is_empty());
        for (word, value) in
            [("KEY", args.series.as_deref()), ("PERIOD", args.period.as_deref()), ("STATE", state), ("CURSOR", cursor)]
        {
            words.extend(value.map(|value| [word, value]).into_iter().flatten());
        }
        words.extend(["COUNT", PAGE_ROWS]);
        let reply = self.ask(&words)?;
        LedgerPage::read(&reply).map_err(|error| NumberError::Page { endpoint: self.endpoint(), error })
    }
}

/// Finds a loop in the cursors of a list, however long it is, and remembers one of them: that of the last page whose
/// number is a power of two.
#[derive(Default)]
struct CursorLoop {
    remembered: String,
    pages: u64,
}

impl CursorLoop {
    /// Adds the cursor of the next page. Returns true if it is the remembered one.
    fn is_repeated(&mut self, cursor: &str) -> bool {
        if self.remembered == cursor {
            return true;
        }
        self.pages += 1;
        if self.pages.is_power_of_two() {
            cursor.clone_into(&mut self.remembered);
        }
        false
    }
}

/// Writes the ledger. Returns true if no number is missing.
fn export(args: &LedgerArgs, form: Form, out: &mut dyn Write) -> Result<bool, CliError> {
    let mut server = LedgerServer::connect(args)?;
    // The first page comes before any output, so that a refusal prints nothing else.
    let mut page = server.page(args, "")?;
    if form == Form::Csv {
        writeln!(out, "{}", csv_field(&head(args, &mut server)?))?;
        writeln!(out, "{COLUMNS}")?;
    }
    let mut audit = Audit::default();
    let mut cursors = CursorLoop::default();
    let mut empty_pages = 0;
    loop {
        for row in &page.rows {
            write_row(row, form, out)?;
            audit.add(row);
        }
        out.flush()?;
        if page.next.is_empty() {
            break;
        }
        empty_pages = if page.rows.is_empty() { empty_pages + 1 } else { 0 };
        if empty_pages > EMPTY_PAGES_MAX || cursors.is_repeated(&page.next) {
            return Err(NumberError::Endless { endpoint: server.endpoint() }.into());
        }
        let cursor = page.next;
        page = server.page(args, &cursor)?;
    }
    if let Some(state) = args.state {
        if form != Form::Json {
            writeln!(
                out,
                "# only numbers in the state {} are listed; others do not count as missing",
                state.state().word()
            )?;
        }
        return Ok(true);
    }
    if form != Form::Json {
        write!(out, "{audit}")?;
    }
    Ok(audit.is_complete())
}

/// Returns the first line of the CSV. It has no comma, so that it is one field.
fn head(args: &LedgerArgs, server: &mut LedgerServer) -> Result<String, NumberError> {
    let time = server.time()?;
    let state = args.state.map_or_else(String::new, |state| format!("; state {}", state.state().word()));
    Ok(format!(
        "# ledger of generator {}; key {}; period {}{state}; server {}; server time {time}",
        args.name,
        args.series.as_deref().unwrap_or("all"),
        args.period.as_deref().unwrap_or("all"),
        server.endpoint(),
    ))
}

fn write_row(row: &LedgerRow, form: Form, out: &mut dyn Write) -> Result<(), CliError> {
    match form {
        Form::Csv => writeln!(out, "{}", row.csv())?,
        Form::Json => writeln!(out, "{}", row.json())?,
        Form::Text => {
            let overdue = if row.overdue { " overdue" } else { "" };
            let range = if row.last > row.number { format!(" {}", row.numbers()) } else { String::new() };
            let texts = [&row.request, &row.user, &row.reason].map(|text| printable(text));
            let [request, user, reason] = texts.each_ref().map(|text| if text.is_empty() { "-" } else { text });
            let (text, state) = (printable(&row.text), printable(&row.state));
            writeln!(out, "{text:<24} {state:<9} {}{overdue}{range} {request} {user} {reason}", row.since)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_of_cursors_is_found_whatever_its_length() {
        for (before, length) in [(0, 1), (0, 2), (1, 2), (3, 5), (100, 7), (5, 300)] {
            let mut cursors = CursorLoop::default();
            let pages = (0..).map(|page| if page < before { page } else { before + (page - before) % length });
            let found =
                pages.take(4 * (before + length)).position(|page: usize| cursors.is_repeated(&page.to_string()));
            assert!(found.is_some_and(|page| page >= before + length), "{before} {length} {found:?}");
        }
        let mut cursors = CursorLoop::default();
        assert!(!(0..10_000).any(|page| cursors.is_repeated(&page.to_string())));
    }
}
