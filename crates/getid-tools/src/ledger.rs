//! The export of a ledger: its rows as CSV, and an audit that every number is among them.
//!
//! An auditor reads the export without this program, so a row is one line with the fields of RFC 4180, and the last
//! line has the result of the audit. The texts come from clients of the server, and the replies from a server that may
//! be hostile. So control characters are escaped, and no field begins a formula in a spreadsheet.
//!
//! Invariants: rows are read one by one, and kept no longer. The audit keeps a bounded number of gaps and of counters.

use std::fmt::{self, Write as _};

use getid_core::server::ledger::NumberState;
use getid_text::plural::{counted, thousands};
use getid_text::printable::{is_unprintable, printable, printable_up_to};
use getid_text::timestamp::{format_rfc3339, parse_unix_ms};
use serde::Serialize;

use super::replies::ReplyValue;

/// Names of the columns of the CSV.
pub const COLUMNS: &str = "number,text,state,since,request,user,reason,key,period";

/// Gaps of a counter that the audit names.
const GAPS_NAMED_MAX: usize = 20;

/// Counters that the audit names.
const COUNTERS_NAMED_MAX: usize = 10_000;

/// Characters with which a formula begins, in East Asian width too, and the apostrophe that marks them.
const FORMULA_BEGINS: [char; 9] = ['=', '+', '-', '@', '\'', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// Characters of a server's word that an error shows.
const SHOWN_CHARS_MAX: usize = 60;

/// A row of a ledger: a number, or a range of void or unclear numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LedgerRow {
    /// First number.
    pub number: i64,
    /// Last number; the same, except for a range.
    pub last: i64,
    /// The number as it was given.
    pub text: String,
    /// Word of the state.
    pub state: String,
    /// Time of the state, RFC 3339; empty if it is not known.
    pub since: String,
    /// Whether a reserved number is overdue.
    pub overdue: bool,
    /// The request; empty if there is none, or if the user may not see it.
    pub request: String,
    /// User of the request.
    pub user: String,
    /// Why the number is in the state.
    pub reason: String,
    /// Key of the series; empty without one.
    pub key: String,
    /// Period of the counter; empty without one.
    pub period: String,
}

/// Rows of a ledger, as a reply of `NUMBER LEDGER` has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerPage {
    /// Cursor of the next page; empty after the last.
    pub next: String,
    /// The rows.
    pub rows: Vec<LedgerRow>,
}

/// Why a reply is no page of a ledger.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPage {
    /// A word where the name of a field is expected.
    #[error("'{0}' in the place of a field of a ledger. Is the server a getid of this version?")]
    Field(String),
    /// A row without one of the fields that every row has.
    #[error("a row of the ledger has no '{0}'. Is the server a getid of this version?")]
    Missing(&'static str),
    /// A value that its field cannot have.
    #[error("a row of the ledger has '{value}' as its {field}. Is the server a getid of this version?")]
    Value {
        /// Name of the field.
        field: &'static str,
        /// The value, escaped.
        value: String,
    },
}

impl LedgerPage {
    /// Reads a reply: a cursor, and the fields of the rows with their names. Each row begins with its number. Unknown
    /// fields are ignored.
    ///
    /// # Errors
    ///
    /// [`InvalidPage`] for any other reply.
    pub fn read(reply: &[ReplyValue]) -> Result<LedgerPage, InvalidPage> {
        let Some((next, fields)) = reply.split_first() else { return Ok(LedgerPage::default()) };
        let (pairs, rest) = fields.as_chunks::<2>();
        if let [word] = rest {
            return Err(InvalidPage::Field(printable_up_to(&text_of(word), SHOWN_CHARS_MAX)));
        }
        let rows = pairs.chunk_by(|_, [name, _]| name.text() != b"number");
        let rows: Result<_, _> = rows.map(LedgerRow::read).collect();
        Ok(LedgerPage { next: text_of(next), rows: rows? })
    }
}

impl LedgerRow {
    fn read(fields: &[[ReplyValue; 2]]) -> Result<LedgerRow, InvalidPage> {
        let optional = |field: &str| {
            let found = fields.iter().find(|[name, _]| name.text() == field.as_bytes());
            found.map(|[_, value]| text_of(value))
        };
        let required = |field: &'static str| optional(field).ok_or(InvalidPage::Missing(field));
        let wrong = |field: &'static str, value: &str| InvalidPage::Value {
            field,
            value: printable_up_to(value, SHOWN_CHARS_MAX),
        };
        let number = |field: &'static str| {
            let text = required(field)?;
            text.parse().ok().filter(|number: &i64| *number > 0).ok_or_else(|| wrong(field, &text))
        };
        let (first, last) = (number("number")?, number("last")?);
        if last < first {
            return Err(wrong("last", &last.to_string()));
        }
        let state = required("state")?;
        if NumberState::of_word(&state).is_none() {
            return Err(wrong("state", &state));
        }
        let since = required("since")?;
        let since = match since.as_str() {
            "" => since,
            text => format_rfc3339(parse_unix_ms(text).map_err(|_| wrong("since", text))?),
        };
        // The audit prints both in its lines, which no other text may imitate.
        let part_of_key = |field: &'static str| {
            let text = optional(field).unwrap_or_default();
            let is_part = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
            if is_part { Ok(text) } else { Err(wrong(field, &text)) }
        };
        Ok(LedgerRow {
            number: first,
            last,
            text: required("text")?,
            state,
            since,
            overdue: optional("overdue").is_some_and(|word| word == "yes"),
            request: optional("request").unwrap_or_default(),
            user: optional("user").unwrap_or_default(),
            reason: optional("reason").unwrap_or_default(),
            key: part_of_key("key")?,
            period: part_of_key("period")?,
        })
    }

    /// Returns the number, or the range as `5 to 9`, which no spreadsheet takes for a date.
    pub fn numbers(&self) -> String {
        if self.last == self.number { self.number.to_string() } else { format!("{} to {}", self.number, self.last) }
    }

    /// Returns the row as a line of CSV, without its end.
    pub fn csv(&self) -> String {
        let texts = [
            &self.numbers(),
            &self.text,
            &self.state,
            &self.since,
            &self.request,
            &self.user,
            &self.reason,
            &self.key,
            &self.period,
        ];
        texts.map(|text| csv_field(text)).join(",")
    }

    /// Returns the row as one line of JSON, without its end. Characters that could control a terminal are escaped.
    pub fn json(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        if !text.contains(is_unprintable) {
            return text;
        }
        // All of them are inside texts, where JSON has an escape for each character.
        let mut escaped = String::with_capacity(text.len() + 16);
        for char in text.chars() {
            if is_unprintable(char) {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    // Writing to a text cannot fail.
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            } else {
                escaped.push(char);
            }
        }
        escaped
    }
}

fn text_of(value: &ReplyValue) -> String {
    String::from_utf8_lossy(value.text()).into_owned()
}

/// Returns a text as a field of CSV, without control characters.
///
/// A spreadsheet calculates a cell that begins with `=`, `+`, `-` or `@`, and some split lines at semicolons. So each
/// of these characters, and an apostrophe, gets an apostrophe before it at the begin of the field and behind a
/// semicolon, also behind blanks and quotes there. Without these apostrophes it is the text again.
pub fn csv_field(text: &str) -> String {
    let text = printable(text);
    let mut safe = String::with_capacity(text.len() + 1);
    let mut is_begin = true;
    for letter in text.chars() {
        if is_begin && FORMULA_BEGINS.contains(&letter) {
            safe.push('\'');
        }
        safe.push(letter);
        is_begin = letter == ';' || (is_begin && (letter == '"' || letter.is_whitespace()));
    }
    let is_plain = !safe.contains([',', '"']) && safe.trim() == safe;
    if is_plain { safe } else { format!("\"{}\"", safe.replace('"', "\"\"")) }
}

/// Returns true if every number from 1 to the highest of each counter is among the rows, and keeps those that are not.
#[derive(Debug, Default)]
pub struct Audit {
    counters: Vec<CounterAudit>,
    /// Counters that are not in `counters`, and the incomplete ones among them.
    others: u64,
    others_incomplete: u64,
    /// Count of numbers by state, in the order of [`NumberState::ALL`].
    states: [u64; NumberState::ALL.len()],
}

/// Audit of a counter.
#[derive(Debug, Default)]
struct CounterAudit {
    key: String,
    period: String,
    /// The highest number so far.
    highest: i64,
    /// Count of missing numbers.
    missing: u64,
    /// The first gaps.
    gaps: Vec<(i64, i64)>,
    /// Count of rows whose numbers were in an earlier row, or are not in order.
    repeated: u64,
}

impl Audit {
    /// Adds a row. Rows of a counter follow each other, in the order of their numbers.
    pub fn add(&mut self, row: &LedgerRow) {
        let state = NumberState::ALL.iter().position(|state| state.word() == row.state);
        if let Some(count) = state.and_then(|index| self.states.get_mut(index)) {
            *count = count.saturating_add(row.last.abs_diff(row.number).saturating_add(1));
        }
        let is_same = |counter: &&mut CounterAudit| counter.key == row.key && counter.period == row.period;
        if let Some(counter) = self.counters.last_mut().filter(is_same) {
            return counter.add(row);
        }
        let full = self.counters.len() >= COUNTERS_NAMED_MAX;
        if let Some(counter) = self.counters.pop_if(|_| full) {
            self.others += 1;
            self.others_incomplete += u64::from(!counter.is_complete());
        }
        let mut counter = CounterAudit { key: row.key.clone(), period: row.period.clone(), ..CounterAudit::default() };
        counter.add(row);
        self.counters.push(counter);
    }

    /// Returns true if no number is missing or repeated.
    pub fn is_complete(&self) -> bool {
        self.incomplete() == 0
    }

    fn incomplete(&self) -> u64 {
        self.others_incomplete + self.counters.iter().filter(|counter| !counter.is_complete()).count() as u64
    }
}

impl CounterAudit {
    fn add(&mut self, row: &LedgerRow) {
        if row.number <= self.highest {
            self.repeated += 1;
        } else if row.number > self.highest + 1 {
            self.missing = self.missing.saturating_add(row.number.abs_diff(self.highest + 1));
            if self.gaps.len() < GAPS_NAMED_MAX {
                self.gaps.push((self.highest + 1, row.number - 1));
            }
        }
        self.highest = self.highest.max(row.last);
    }

    fn is_complete(&self) -> bool {
        self.missing == 0 && self.repeated == 0
    }
}

/// The sentence about a counter.
impl fmt::Display for CounterAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_complete() {
            return write!(f, "every number from 1 to {} is in the list", self.highest);
        }
        if self.missing > 0 {
            write!(f, "{} of {} missing:", counted(self.missing, "number"), self.highest)?;
            for (index, (first, last)) in self.gaps.iter().enumerate() {
                let comma = if index > 0 { ";" } else { "" };
                if first == last { write!(f, "{comma} {first}")? } else { write!(f, "{comma} {first} to {last}")? }
            }
            if self.gaps.len() == GAPS_NAMED_MAX {
                f.write_str("; perhaps more")?;
            }
        }
        if self.repeated > 0 {
            let before = if self.missing > 0 { "; " } else { "" };
            write!(f, "{before}{} repeated or not in order", counted(self.repeated, "row"))?;
        }
        Ok(())
    }
}

/// The result: the count of numbers by state, a line for each of several counters, and at the end whether every
/// number is in the list.
impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut states = String::new();
        for (state, count) in NumberState::ALL.into_iter().zip(self.states).filter(|(_, count)| *count > 0) {
            let semicolon = if states.is_empty() { "" } else { "; " };
            write!(states, "{semicolon}{} {}", state.word(), thousands(count))?;
        }
        match self.counters.as_slice() {
            [] => return writeln!(f, "# the ledger has no numbers"),
            [counter] => return writeln!(f, "# {states}\n# {counter}"),
            _ => writeln!(f, "# {states}")?,
        }
        for counter in &self.counters {
            let (key, period) = (printable(&counter.key), printable(&counter.period));
            let key = if key.is_empty() { String::new() } else { format!("key {key}; ") };
            let period = if period.is_empty() { String::new() } else { format!("period {period}; ") };
            writeln!(f, "# {key}{period}{counter}")?;
        }
        let counters = counted(self.counters.len() as u64 + self.others, "counter");
        match self.incomplete() {
            0 => writeln!(f, "# every number of {counters} is in the list"),
            incomplete => writeln!(f, "# numbers are missing or repeated in {} of {counters}", thousands(incomplete)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> ReplyValue {
        ReplyValue::Text(text.as_bytes().to_vec())
    }

    fn reply(words: &str) -> Vec<ReplyValue> {
        words.split(' ').map(|word| if word == "nil" { ReplyValue::Null } else { value(word) }).collect()
    }

    const ROW: &str = "number 1 last 1 text R1 state committed since 2026-11-27T21:00:00.000Z";

    #[test]
    fn a_reply_is_read() {
        let words =
            format!("7 {ROW} request nil color red number 2 last 9 text R2 state void since 0 overdue yes key A");
        let page = LedgerPage::read(&reply(&words)).unwrap();
        assert_eq!((page.next.as_str(), page.rows.len()), ("7", 2));
        assert_eq!(page.rows[0].csv(), "1,R1,committed,2026-11-27T21:00:00.000Z,,,,,");
        assert_eq!(page.rows[1].csv(), "2 to 9,R2,void,1970-01-01T00:00:00.000Z,,,,A,");
        assert!(page.rows[1].overdue);
        assert_eq!(LedgerPage::read(&[ReplyValue::Null]).unwrap(), LedgerPage::default());
    }

    #[test]
    fn other_replies_are_refused() {
        for (words, part) in [
            ("7 x", "'x' in the place of a field"),
            ("7 x\u{1b}[31m", "'x\\u{1b}[31m' in the place"),
            ("7 number 1", "has no 'last'"),
            ("7 last 1", "has no 'number'"),
            ("7 number 0 last 1", "has '0' as its number"),
            ("7 number -1 last 1", "has '-1' as its number"),
            ("7 number 9223372036854775808 last 1", "as its number"),
            ("7 number 2 last 1", "has '1' as its last"),
            ("7 number 1 last 1 text R1 state lost since 0", "has 'lost' as its state"),
            ("7 number 1 last 1 text R1 state void since soon", "has 'soon' as its since"),
            ("7 number 1 last 1 text R1 state void since 0 key A;every", "has 'A;every' as its key"),
            ("7 number 1 last 1 text R1 state void since 0 period x\n#", "has 'x\\n#' as its period"),
        ] {
            let error = LedgerPage::read(&reply(words)).expect_err(words).to_string();
            assert!(error.contains(part), "{words}: {error}");
        }
    }

    #[test]
    fn a_field_is_quoted_and_is_no_formula() {
        for (text, field) in [
            ("order-77", "order-77"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("a \"b\"", "\"a \"\"b\"\"\""),
            (" a", "\" a\""),
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("=HYPERLINK(\"http://x\",\"y\")", "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\""),
            ("'quoted", "''quoted"),
            ("a;=1", "a;'=1"),
            ("a; =1;b;@x", "a; '=1;b;'@x"),
            ("a;\"=1", "\"a;\"\"'=1\""),
            (" \"=1", "\" \"\"'=1\""),
            (";;'=1", ";;''=1"),
            ("a=1;b-2", "a=1;b-2"),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            ("x\n# every number from 1 to 9 is in the list", "x\\n# every number from 1 to 9 is in the list"),
            ("\t=1", "\\t=1"),
            ("a\r\nb", "a\\r\\nb"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
        ] {
            assert_eq!(csv_field(text), field, "{text:?}");
        }
    }

    #[test]
    fn json_is_one_line_that_cannot_control_a_terminal() {
        let row = LedgerRow { reason: "a\n\u{9b}31m\u{202e}\u{e0001}\"".to_owned(), ..LedgerRow::default() };
        let json = row.json();
        assert!(json.contains(r#""reason":"a\n\u009b31m\u202e\udb40\udc01\"""#), "{json}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["reason"], row.reason);
    }

    fn row(number: i64, last: i64, key: &str) -> LedgerRow {
        LedgerRow { number, last, key: key.to_owned(), state: "void".to_owned(), ..LedgerRow::default() }
    }

    fn audit(rows: &[(i64, i64, &str)]) -> (bool, String) {
        let mut audit = Audit::default();
        for (number, last, key) in rows {
            audit.add(&row(*number, *last, key));
        }
        let text = audit.to_string();
        (audit.is_complete(), text.lines().last().unwrap().to_owned())
    }

    #[test]
    fn the_last_line_has_the_result() {
        for (rows, is_complete, line) in [
            (&[][..], true, "# the ledger has no numbers"),
            (&[(1, 1, "")], true, "# every number from 1 to 1 is in the list"),
            (&[(1, 1, ""), (2, 900, ""), (901, 901, "")], true, "# every number from 1 to 901 is in the list"),
            (&[(2, 2, "")], false, "# 1 number of 2 missing: 1"),
            (&[(1, 1, ""), (4, 4, ""), (6, 6, "")], false, "# 3 numbers of 6 missing: 2 to 3; 5"),
            (&[(1, 1, ""), (1, 1, "")], false, "# 1 row repeated or not in order"),
            (&[(1, 5, ""), (3, 7, "")], false, "# 1 row repeated or not in order"),
            (&[(3, 3, ""), (2, 2, "")], false, "# 2 numbers of 3 missing: 1 to 2; 1 row repeated or not in order"),
            (&[(1, 1, "A"), (1, 2, "B")], true, "# every number of 2 counters is in the list"),
            (&[(1, 1, "A"), (2, 2, "B")], false, "# numbers are missing or repeated in 1 of 2 counters"),
            (&[(1, i64::MAX, "")], true, "# every number from 1 to 9223372036854775807 is in the list"),
            (
                &[(i64::MAX, i64::MAX, "")],
                false,
                "# 9,223,372,036,854,775,806 numbers of 9223372036854775807 missing: 1 \
                                                  to 9223372036854775806",
            ),
        ] {
            assert_eq!(audit(rows), (is_complete, line.to_owned()), "{rows:?}");
        }
    }

    #[test]
    fn of_several_counters_each_has_a_line() {
        let mut audit = Audit::default();
        let mut add = |number, key: &str, period: &str| {
            audit.add(&LedgerRow { period: period.to_owned(), ..row(number, number, key) });
        };
        add(1, "ACME", "Y20250101");
        add(1, "ACME", "Y20260101");
        add(3, "ACME", "Y20260101");
        add(1, "", "");
        let lines = "# void 4\n# key ACME; period Y20250101; every number from 1 to 1 is in the list\n\
                     # key ACME; period Y20260101; 1 number of 3 missing: 2\n\
                     # every number from 1 to 1 is in the list\n\
                     # numbers are missing or repeated in 1 of 3 counters\n";
        assert_eq!(audit.to_string(), lines);
    }

    #[test]
    fn the_audit_is_bounded() {
        let mut audit = Audit::default();
        for number in 1..=2000 {
            audit.add(&row(2 * number, 2 * number, ""));
        }
        let line = audit.to_string();
        assert!(line.len() < 300 && line.contains("2,000 numbers of 4000 missing"), "{line}");
        for counter in 0..COUNTERS_NAMED_MAX + 5 {
            audit.add(&row(2, 2, &counter.to_string()));
        }
        assert_eq!(audit.counters.len(), COUNTERS_NAMED_MAX);
        assert!(audit.to_string().ends_with("in 10,006 of 10,006 counters\n"));
    }
}
