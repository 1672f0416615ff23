//! Templates: `INV{yyyyMMdd}-{n:6}{luhn}`.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::calendar::CivilDay;
use super::check_digit::CheckDigit;
use super::date_field::{DateField, FieldSet, FiscalYears, ShownDate};
use super::reset::{CivilTime, Reset};
use crate::format::is_plain;

/// Longest template, and longest serial number, bytes.
pub(super) const TEMPLATE_BYTES_MAX: usize = 128;

/// Most digits of the counter: one less than the largest value of a sequence has.
const DIGITS_MAX: u32 = 18;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Date(DateField),
    Counter { digits: u32 },
    Check(CheckDigit),
}

impl Part {
    /// Returns the width of the part, bytes; `None`: the counter, which may grow.
    fn width(&self) -> Option<usize> {
        Some(match self {
            Part::Text(text) => text.len(),
            Part::Date(field) => field.digits(),
            Part::Counter { .. } => return None,
            Part::Check(check) => check.digits(),
        })
    }
}

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
    digits: u32,
    fiscal: FiscalYears,
}

/// Mistake in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the text of each describes it")]
pub enum TemplateError {
    TooLong { bytes: usize },
    Byte { text: String },
    Unclosed { rest: String },
    Closing,
    Field { text: String },
    Digits { text: String },
    NoCounter,
    Counters,
    CheckDigit { text: String },
    Repeats { reset: Reset, days: [CivilDay; 2], proven: Reset },
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateError::TooLong { bytes } => {
                write!(f, "its texts would have up to {bytes} bytes, must be at most {TEMPLATE_BYTES_MAX}")
            }
            TemplateError::Byte { text } => {
                write!(f, "'{text}' must be printable ASCII without spaces, quotes and backslashes")
            }
            TemplateError::Unclosed { rest } => write!(f, "'{rest}' has no closing brace"),
            TemplateError::Closing => f.write_str("a closing brace has no opening one"),
            TemplateError::Field { text } => write!(
                f,
                "'{{{text}}}' is not a field of a template: there are {{yyyy}}, {{yy}}, {{MM}}, {{dd}}, {{HH}}, several \
                 of them in one brace, {{quarter}}, {{week}}, {{week-year}}, {{fiscal-year}}, {{n:6}}, and at the end \
                 {{luhn}} or {{mod97}}"
            ),
            TemplateError::Digits { text } => {
                write!(
                    f,
                    "'{{{text}}}' must give the number of digits of the counter, 1 to {DIGITS_MAX}, such as {{n:6}}"
                )
            }
            TemplateError::NoCounter => f.write_str("it must have a counter, such as {n:6}"),
            TemplateError::Counters => f.write_str("it must have one counter, and has several"),
            TemplateError::CheckDigit { text } => write!(f, "'{{{text}}}' must be the last of the template"),
            TemplateError::Repeats { reset, days: [one, other], proven } => {
                write!(f, "its counter begins again {}, and texts repeat: ", reset.each())?;
                if one == other {
                    write!(f, "the hours of a day show the same")?;
                } else {
                    write!(f, "{one} and {other} show the same")?;
                }
                write!(f, ". Show {}, or declare 'reset {}'", reset.shown(), proven.word())
            }
        }
    }
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    ///
    /// Fails with the first mistake.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(TemplateError::TooLong { bytes: text.len() });
        }
        if !is_plain(text) {
            return Err(TemplateError::Byte { text: text.escape_default().collect() });
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (literal, behind) = rest.split_once('{').map_or((rest, None), |(literal, rest)| (literal, Some(rest)));
            if literal.contains('}') {
                return Err(TemplateError::Closing);
            }
            if !literal.is_empty() {
                parts.push(Part::Text(literal.to_owned()));
            }
            let Some(behind) = behind else { break };
            let unclosed = || TemplateError::Unclosed { rest: alloc::format!("{{{behind}") };
            let (field, behind) = behind.split_once('}').ok_or_else(unclosed)?;
            read_field(field, &mut parts)?;
            rest = behind;
        }
        let counters = parts.iter().filter_map(|part| match part {
            Part::Counter { digits } => Some(*digits),
            _ => None,
        });
        let digits = match counters.collect::<Vec<_>>()[..] {
            [] => return Err(TemplateError::NoCounter),
            [digits] => digits,
            _ => return Err(TemplateError::Counters),
        };
        let check = parts.iter().position(|part| matches!(part, Part::Check(_)));
        if let Some(Part::Check(check)) = check.filter(|&at| at + 1 < parts.len()).map(|at| &parts[at]) {
            return Err(TemplateError::CheckDigit { text: check.word().to_owned() });
        }
        let template = Template { text: text.to_owned(), parts, digits, fiscal: FiscalYears::CALENDAR };
        let bytes = template.bytes_max();
        if bytes > TEMPLATE_BYTES_MAX { Err(TemplateError::TooLong { bytes }) } else { Ok(template) }
    }

    /// Returns the template as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of its counter's digits.
    pub fn digits(&self) -> u32 {
        self.digits
    }

    /// Returns the template with fiscal years, those of its field `{fiscal-year}`.
    #[must_use]
    pub fn with_fiscal_years(self, fiscal: FiscalYears) -> Template {
        Template { fiscal, ..self }
    }

    /// Returns its fiscal years; without others, the calendar years.
    pub fn fiscal_years(&self) -> FiscalYears {
        self.fiscal
    }

    /// Returns true if it shows the fiscal year.
    pub fn has_fiscal_year(&self) -> bool {
        self.fields().has(DateField::FiscalYear)
    }

    /// Returns the finest interval of which no two periods show the same, for a hundred years at least.
    pub fn finest(&self) -> Reset {
        let proven = self.fields().proven(self.fiscal.start);
        let all = Reset::all(self.fiscal.start).into_iter().rev();
        // Without its field, a fiscal year is meant by its word only.
        let of_fields = |reset: &Reset| self.has_fiscal_year() || !matches!(reset, Reset::FiscalYear(_));
        all.filter(of_fields).find(|reset| proven.has(*reset)).unwrap_or(Reset::Never)
    }

    /// Returns the interval of a declaration without one: the finest of which the template shows a part. It is
    /// [`Reset::Never`] without any kind of year.
    ///
    /// # Errors
    ///
    /// Fails if two of its periods show the same.
    pub fn default_reset(&self) -> Result<Reset, TemplateError> {
        let fields = self.fields();
        let reset = if fields.has_year() { fields.meant(self.fiscal.start) } else { Reset::Never };
        self.check_reset(reset).map(|()| reset)
    }

    /// Returns the finest interval of which it shows a part, if it shows no kind of year: the day of `{MM}{dd}`.
    pub fn shown_without_year(&self) -> Option<Reset> {
        let fields = self.fields();
        Some(fields.meant(self.fiscal.start)).filter(|reset| *reset > Reset::Never && !fields.has_year())
    }

    /// Returns true if it shows any part of the time.
    pub fn has_date(&self) -> bool {
        self.fields() != FieldSet::default()
    }

    /// Returns true if years have only two digits: then its texts repeat after a hundred years.
    pub fn has_short_years(&self) -> bool {
        let fields = self.fields();
        fields.has(DateField::ShortYear) && fields.fields().filter(|field| field.is_year()).count() == 1
    }

    /// Checks that its counter may begin again this often: two days that show the same must lie in one period.
    ///
    /// # Errors
    ///
    /// Fails if texts would repeat, for years of two digits within a hundred years.
    pub fn check_reset(&self, reset: Reset) -> Result<(), TemplateError> {
        let days = self.fields().first_repeat(reset, self.fiscal.start);
        days.map_or(Ok(()), |days| Err(TemplateError::Repeats { reset, days, proven: self.finest() }))
    }

    /// Returns the time in a year that shows the same as another time, for texts with a year of two digits.
    pub fn time_in(&self, stamp: CivilTime, year: u16) -> Option<CivilTime> {
        ShownDate::at(stamp, self.fields().fields(), self.fiscal).first_time_in(year, self.fiscal)
    }

    /// Returns the fields that show the time.
    fn fields(&self) -> FieldSet {
        FieldSet::of(self.parts.iter().filter_map(|part| match part {
            Part::Date(field) => Some(*field),
            _ => None,
        }))
    }

    /// Returns the longest of its texts, bytes, with a counter that may grow.
    pub fn bytes_max(&self) -> usize {
        self.parts.iter().map(|part| part.width().unwrap_or(DIGITS_MAX as usize + 1)).sum()
    }

    /// Parses a text of [`Template::write`]; returns the first time that shows its date, and the value. A text without
    /// any kind of year is of the years 0 to 27, and one with a year of two digits of the years 0 to 399.
    pub fn read(&self, text: &str, grows: bool) -> Option<(CivilTime, i64)> {
        let fixed: usize = self.parts.iter().map(|part| part.width().unwrap_or(0)).sum();
        let counter_digits = text.len().checked_sub(fixed)?;
        let least = self.digits as usize;
        if counter_digits < least || (counter_digits > least && !grows) {
            return None;
        }
        let (mut shown, mut value, mut rest) = (ShownDate::default(), 0, text);
        for part in &self.parts {
            let (piece, behind) = rest.split_at_checked(part.width().unwrap_or(counter_digits))?;
            rest = behind;
            match part {
                Part::Date(field) => shown.add(*field, piece)?,
                Part::Counter { .. } => value = piece.parse().ok().filter(|&value| value >= 0)?,
                Part::Text(text) if text != piece => return None,
                Part::Text(_) | Part::Check(_) => {}
            }
        }
        let stamp = shown.first_time(self.fiscal)?;
        // Writing it again compares check digits, and fields that are shown twice.
        let mut written = Vec::with_capacity(text.len());
        (self.write(stamp, value, grows, &mut written) && written == text.as_bytes()).then_some((stamp, value))
    }

    /// Appends the text of a value, 0 or more. Returns false, and appends nothing, if it has more digits than the
    /// counter and may not grow.
    #[must_use]
    pub fn write(&self, stamp: CivilTime, value: i64, grows: bool, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        for part in &self.parts {
            let (number, digits) = match part {
                Part::Text(text) => {
                    out.extend_from_slice(text.as_bytes());
                    continue;
                }
                Part::Date(field) => (field.at(stamp, self.fiscal).into(), field.digits()),
                Part::Counter { digits } => (value, *digits as usize),
                Part::Check(check) => (i64::from(check.of(&out[start..])), check.digits()),
            };
            if write_padded(number.unsigned_abs(), digits, out) > digits && !grows {
                out.truncate(start);
                return false;
            }
        }
        true
    }
}

/// Appends a number, padded with zeros; returns the number of its digits.
fn write_padded(mut number: u64, digits: usize, out: &mut Vec<u8>) -> usize {
    let mut text = [b'0'; 20];
    let mut first = text.len();
    while number > 0 {
        first -= 1;
        text[first] = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
    let written = (text.len() - first).max(digits);
    out.extend_from_slice(&text[text.len() - written..]);
    written
}

fn read_field(field: &str, parts: &mut Vec<Part>) -> Result<(), TemplateError> {
    let wrong = || TemplateError::Field { text: field.to_owned() };
    match field {
        "luhn" => parts.push(Part::Check(CheckDigit::Luhn)),
        "mod97" => parts.push(Part::Check(CheckDigit::Mod97)),
        _ if field == "n" || field.starts_with("n:") => {
            let digits = field.strip_prefix("n:").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
            let digits =
                digits.and_then(|digits| digits.parse().ok()).filter(|digits| (1..=DIGITS_MAX).contains(digits));
            let digits = digits.ok_or_else(|| TemplateError::Digits { text: field.to_owned() })?;
            parts.push(Part::Counter { digits });
        }
        "" => return Err(wrong()),
        _ => {
            if let Some(field) = DateField::ALL.into_iter().find(|known| known.word() == field) {
                parts.push(Part::Date(field));
                return Ok(());
            }
            let mut rest = field;
            while !rest.is_empty() {
                let mut of_letters = DateField::ALL.into_iter().filter(|field| field.has_letters_only());
                // `yyyy` begins as `yy` does.
                let is_short = !rest.starts_with(DateField::Year.word());
                let found = of_letters
                    .find(|field| rest.starts_with(field.word()) && (is_short || *field != DateField::ShortYear));
                let found = found.ok_or_else(wrong)?;
                parts.push(Part::Date(found));
                rest = &rest[found.word().len()..];
            }
        }
    }
    Ok(())
}
