//! Templates: `INV{yyyyMMdd}-{n:6}{luhn}`.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use super::calendar::CivilDay;
use super::check_digit::{CheckDigit, REFERENCE_BYTES_MAX, REFERENCE_HEAD};
use super::date_field::{DateField, FieldSet, FiscalYears, ShownDate};
use super::reset::{CivilTime, Reset};
use crate::format::is_plain;
use crate::sequence::{SERIES_BYTES_MAX, is_series};

/// Longest template, and longest serial number, bytes.
pub(super) const TEMPLATE_BYTES_MAX: usize = 128;

/// Most digits of the counter: one less than the largest value of a sequence has.
const DIGITS_MAX: u32 = 18;

/// Longest text of a counter that may grow, bytes.
const COUNTER_BYTES_MAX: usize = DIGITS_MAX as usize + 1;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Date(DateField),
    Counter { digits: u32 },
    Key,
    Check(CheckDigit),
}

impl Part {
    /// Returns the width of the part, bytes; `None`: the counter, which may grow, or the key.
    fn width(&self) -> Option<usize> {
        Some(match self {
            Part::Text(text) => text.len(),
            Part::Date(field) => field.digits(),
            Part::Counter { .. } | Part::Key => return None,
            Part::Check(check) => check.width(),
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
    Keys,
    KeyNeighbour,
    KeyCheckDigit { check: CheckDigit },
    CheckDigit { check: CheckDigit },
    ReferenceText { text: String },
    ReferenceLength { bytes: usize, grows: bool },
    Repeats { reset: Reset, days: [CivilDay; 2], proven: Reset },
}

/// Beginning of the sentences about what a creditor reference cannot have.
const REFERENCE: &str = "'{rf}' makes a creditor reference (ISO 11649) of at most 25 characters of A-Z and 0-9";

const _: () = assert!(REFERENCE_BYTES_MAX == 25, "the sentence has the number");

/// Words of the check digits at the front, or of those at the end, for a sentence.
struct CheckWords {
    is_front: bool,
}

impl fmt::Display for CheckWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = CheckDigit::ALL.into_iter().filter(|check| check.is_front() == self.is_front);
        words
            .enumerate()
            .try_for_each(|(at, check)| write!(f, "{}{{{}}}", if at == 0 { "" } else { ", " }, check.word()))
    }
}

impl TemplateError {
    /// Writes the sentence about a check digit.
    fn fmt_check(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateError::KeyCheckDigit { check: CheckDigit::Reference } => {
                write!(f, "{REFERENCE}, and a {{key}} may have more, and '_', '.' and '-'")
            }
            TemplateError::KeyCheckDigit { check } => write!(
                f,
                "'{{{}}}' covers digits only, and a {{key}} may have letters: use a check digit over letters, \
                 {{mod37-36}} or {{mod97}}",
                check.word()
            ),
            TemplateError::CheckDigit { check } => {
                let place = if check.is_front() { "first" } else { "last" };
                write!(f, "'{{{}}}' must be the {place} of the template", check.word())
            }
            TemplateError::ReferenceText { text } => {
                write!(f, "{REFERENCE}, and '{text}' has other characters")
            }
            TemplateError::ReferenceLength { bytes, grows: false } => {
                write!(f, "{REFERENCE}, and its texts would have {bytes}")
            }
            TemplateError::ReferenceLength { bytes, grows: true } => write!(
                f,
                "{REFERENCE}, and with 'overflow grow', by which a counter has up to {COUNTER_BYTES_MAX} digits, its \
                 texts would have up to {bytes}"
            ),
            // The other mistakes have their sentences in `fmt`.
            _ => Ok(()),
        }
    }
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
                 of them in one brace, {{quarter}}, {{week}}, {{week-year}}, {{fiscal-year}}, {{n:6}}, {{key}}, at the \
                 front {}, and at the end one of {}",
                CheckWords { is_front: true },
                CheckWords { is_front: false }
            ),
            TemplateError::Digits { text } => {
                write!(
                    f,
                    "'{{{text}}}' must give the number of digits of the counter, 1 to {DIGITS_MAX}, such as {{n:6}}"
                )
            }
            TemplateError::NoCounter => f.write_str("it must have a counter, such as {n:6}"),
            TemplateError::Counters => f.write_str("it must have one counter, and has several"),
            TemplateError::Keys => f.write_str("it must have one {key}, and has several"),
            TemplateError::KeyNeighbour => f.write_str(
                "between {key} and the fields beside it must be a character that is no digit, or texts of different keys \
                 could be the same: '{key}-{n:6}'",
            ),
            TemplateError::Repeats { reset, days: [one, other], proven } => {
                write!(f, "its counter begins again {}, and texts repeat: ", reset.each())?;
                if one == other {
                    write!(f, "the hours of a day show the same")?;
                } else {
                    write!(f, "{one} and {other} show the same")?;
                }
                write!(f, ". Show {}, or declare 'reset {}'", reset.shown(), proven.word())
            }
            other => other.fmt_check(f),
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
        let last = parts.len() - 1;
        let misplaced = parts.iter().enumerate().find_map(|(at, part)| match part {
            Part::Check(check) if at != if check.is_front() { 0 } else { last } => Some(*check),
            _ => None,
        });
        if let Some(check) = misplaced {
            return Err(TemplateError::CheckDigit { check });
        }
        check_key(&parts)?;
        let template = Template { text: text.to_owned(), parts, digits, fiscal: FiscalYears::CALENDAR };
        template.check_reference()?;
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

    /// Returns true if it shows the key of a series.
    pub fn has_key(&self) -> bool {
        self.parts.contains(&Part::Key)
    }

    /// Returns true if its texts begin with the key of a series.
    pub fn begins_with_key(&self) -> bool {
        self.parts.first() == Some(&Part::Key)
    }

    /// Returns true if this template and `other` could write the same text, by the characters that each place may have.
    /// `grows`: whether the counter of each may grow.
    pub fn can_meet(&self, other: &Template, grows: [bool; 2]) -> bool {
        let (ours, others) = (self.shape(grows[0]), other.shape(grows[1]));
        let width = others.len() + 1;
        let mut seen = alloc::vec![false; (ours.len() + 1) * width];
        let mut open = alloc::vec![(0, 0)];
        while let Some((own, other)) = open.pop() {
            if core::mem::replace(&mut seen[own * width + other], true) {
                continue;
            }
            match (ours.get(own), others.get(other)) {
                (None, None) => return true,
                (own_place, other_place) => {
                    if own_place.is_some_and(|place| place.is_optional) {
                        open.push((own + 1, other));
                    }
                    if other_place.is_some_and(|place| place.is_optional) {
                        open.push((own, other + 1));
                    }
                    if own_place.zip(other_place).is_some_and(|(one, two)| one.class.overlaps(two.class)) {
                        open.push((own + 1, other + 1));
                    }
                }
            }
        }
        false
    }

    /// Returns the places of its longest text, with the characters that each may have.
    fn shape(&self, grows: bool) -> Vec<Place> {
        let mut places = Vec::new();
        let mut add = |class, least: usize, most: usize| {
            places.extend((0..most).map(|nth| Place { class, is_optional: nth >= least }));
        };
        for part in &self.parts {
            match part {
                Part::Text(text) => text.bytes().for_each(|byte| add(Class::Byte(byte), 1, 1)),
                Part::Counter { digits } => {
                    let digits = *digits as usize;
                    add(Class::Digit, digits, if grows { COUNTER_BYTES_MAX } else { digits });
                }
                Part::Key => add(Class::Key, 1, SERIES_BYTES_MAX),
                Part::Check(CheckDigit::Reference) => {
                    b"RF".iter().for_each(|&byte| add(Class::Byte(byte), 1, 1));
                    add(Class::Digit, 2, 2);
                }
                // They may be a letter.
                Part::Check(CheckDigit::Mod11_2 | CheckDigit::Mod37_36) => add(Class::Key, 1, 1),
                other => {
                    let width = other.width().unwrap_or_default();
                    add(Class::Digit, width, width);
                }
            }
        }
        places
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

    /// Checks that its texts may be longer than the template shows.
    ///
    /// # Errors
    ///
    /// Fails if such a text would be no creditor reference.
    pub fn check_overflow(&self, grows: bool) -> Result<(), TemplateError> {
        let bytes = self.bytes_max();
        let is_too_long = grows && self.is_reference() && bytes > REFERENCE_BYTES_MAX;
        if is_too_long { Err(TemplateError::ReferenceLength { bytes, grows }) } else { Ok(()) }
    }

    /// Checks that its texts are creditor references, if it begins as one.
    fn check_reference(&self) -> Result<(), TemplateError> {
        if !self.is_reference() {
            return Ok(());
        }
        let is_known = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
        for part in &self.parts {
            if let Part::Text(text) = part
                && !text.bytes().all(is_known)
            {
                return Err(TemplateError::ReferenceText { text: text.clone() });
            }
        }
        let bytes = self.fixed_bytes() + self.digits as usize;
        let is_too_long = bytes > REFERENCE_BYTES_MAX;
        if is_too_long { Err(TemplateError::ReferenceLength { bytes, grows: false }) } else { Ok(()) }
    }

    /// Returns its check digits, in the order of the text.
    fn check_digits(&self) -> impl DoubleEndedIterator<Item = CheckDigit> {
        self.parts.iter().filter_map(|part| match part {
            Part::Check(check) => Some(*check),
            _ => None,
        })
    }

    /// Returns true if its texts are creditor references.
    fn is_reference(&self) -> bool {
        self.parts.first() == Some(&Part::Check(CheckDigit::Reference))
    }

    /// Returns the bytes of a text without its counter and its key.
    fn fixed_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.width().unwrap_or(0)).sum()
    }

    /// Returns the longest of its texts, bytes, with a counter that may grow.
    pub fn bytes_max(&self) -> usize {
        let width = |part: &Part| match part {
            Part::Counter { .. } => COUNTER_BYTES_MAX,
            Part::Key => SERIES_BYTES_MAX,
            other => other.width().unwrap_or_default(),
        };
        self.parts.iter().map(width).sum()
    }

    /// Parses a text of [`Template::write`]; returns the first time that shows its date, the value, and the key,
    /// which is empty if the template shows none. A text without any kind of year is of the years 0 to 27, and one with
    /// a year of two digits of the years 0 to 399.
    pub fn read<'a>(&self, text: &'a str, grows: bool) -> Option<(CivilTime, i64, &'a str)> {
        let variable = text.len().checked_sub(self.fixed_bytes())?;
        let least = self.digits as usize;
        let most = if grows { COUNTER_BYTES_MAX } else { least };
        if !self.has_key() {
            return if (least..=most).contains(&variable) { self.read_at(text, grows, variable, 0) } else { None };
        }
        // At most one of these readings is the text of the template: see the module's invariant.
        (least..=most).find_map(|digits| {
            let key_bytes = variable.checked_sub(digits).filter(|bytes| (1..=SERIES_BYTES_MAX).contains(bytes))?;
            self.read_at(text, grows, digits, key_bytes)
        })
    }

    /// Parses a text whose counter and key have these widths.
    fn read_at<'a>(
        &self,
        text: &'a str,
        grows: bool,
        counter_digits: usize,
        key_bytes: usize,
    ) -> Option<(CivilTime, i64, &'a str)> {
        let (mut shown, mut value, mut key, mut rest) = (ShownDate::default(), 0, "", text);
        for part in &self.parts {
            let variable = if *part == Part::Key { key_bytes } else { counter_digits };
            let (piece, behind) = rest.split_at_checked(part.width().unwrap_or(variable))?;
            rest = behind;
            match part {
                Part::Key => key = Some(piece).filter(|piece| is_series(piece))?,
                Part::Date(field) => shown.add(*field, piece)?,
                Part::Counter { .. } => value = piece.parse().ok().filter(|&value| value >= 0)?,
                Part::Text(text) if text != piece => return None,
                Part::Text(_) | Part::Check(_) => {}
            }
        }
        let stamp = shown.first_time(self.fiscal)?;
        // Writing it again compares check digits, and fields that are shown twice.
        let mut written = Vec::with_capacity(text.len());
        (self.write(stamp, key, value, grows, &mut written) && written == text.as_bytes())
            .then_some((stamp, value, key))
    }

    /// Returns the check digits in which a text differs from one that [`Template::write`] writes; `None` for a text
    /// that differs elsewhere, or nowhere.
    pub fn wrong_check(&self, text: &str, grows: bool) -> Option<CheckDigit> {
        let front = self.check_digits().next().filter(|check| check.is_front());
        let back = self.check_digits().next_back().filter(|check| !check.is_front());
        let [body, tail] = [front, back].map(|check| check.map_or(0, CheckDigit::width));
        let end = text.len().checked_sub(tail)?;
        let mut right = Vec::with_capacity(text.len());
        if front.is_some() {
            right.extend_from_slice(REFERENCE_HEAD);
        }
        right.extend_from_slice(text.get(body..end)?.as_bytes());
        back.into_iter().chain(front).for_each(|check| check.complete(body, &mut right));
        let right = str::from_utf8(&right).ok()?;
        self.read(right, grows)?;
        let differs = |range: Range<usize>| right.get(range.clone()) != text.get(range);
        back.filter(|_| differs(end..text.len())).or_else(|| front.filter(|_| differs(0..body)))
    }

    /// Appends the text of a value, 0 or more, of the series with this key, if the template shows one. Returns false,
    /// and appends nothing, if the value has more digits than the counter and may not grow.
    #[must_use]
    pub fn write(&self, stamp: CivilTime, key: &str, value: i64, grows: bool, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let body = start + if self.is_reference() { CheckDigit::Reference.width() } else { 0 };
        for part in &self.parts {
            let (number, digits) = match part {
                Part::Text(text) => {
                    out.extend_from_slice(text.as_bytes());
                    continue;
                }
                Part::Key => {
                    out.extend_from_slice(key.as_bytes());
                    continue;
                }
                Part::Date(field) => (field.at(stamp, self.fiscal).into(), field.digits()),
                Part::Counter { digits } => (value, *digits as usize),
                Part::Check(check) => {
                    if check.is_front() {
                        out.extend_from_slice(REFERENCE_HEAD);
                    } else {
                        check.complete(body, out);
                    }
                    continue;
                }
            };
            if write_padded(number.unsigned_abs(), digits, out) > digits && !grows {
                out.truncate(start);
                return false;
            }
        }
        if self.is_reference() {
            CheckDigit::Reference.complete(body, out);
        }
        true
    }
}

/// Characters that a place of a text may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Byte(u8),
    Digit,
    Key,
}

impl Class {
    fn overlaps(self, other: Class) -> bool {
        match (self, other) {
            (Class::Byte(one), Class::Byte(two)) => one == two,
            (Class::Byte(byte), Class::Digit) | (Class::Digit, Class::Byte(byte)) => byte.is_ascii_digit(),
            (Class::Byte(byte), Class::Key) | (Class::Key, Class::Byte(byte)) => {
                str::from_utf8(&[byte]).is_ok_and(is_series)
            }
            (Class::Digit | Class::Key, Class::Digit | Class::Key) => true,
        }
    }
}

/// A place of the longest text of a template.
struct Place {
    class: Class,
    /// Whether shorter texts lack it.
    is_optional: bool,
}

/// Checks what is beside the key of a series: texts of two keys must differ, although a key has no fixed width.
fn check_key(parts: &[Part]) -> Result<(), TemplateError> {
    let mut keys = parts.iter().enumerate().filter(|(_, part)| **part == Part::Key);
    let Some((at, _)) = keys.next() else { return Ok(()) };
    if keys.next().is_some() {
        return Err(TemplateError::Keys);
    }
    let uncovered = parts.iter().find_map(|part| match part {
        Part::Check(check) if check.is_front() || !check.covers_letters() => Some(*check),
        _ => None,
    });
    if let Some(check) = uncovered {
        return Err(TemplateError::KeyCheckDigit { check });
    }
    let has_sign = |part: &Part| matches!(part, Part::Text(text) if text.bytes().any(|byte| !byte.is_ascii_digit()));
    let is_field = |part: &Part| !matches!(part, Part::Text(_));
    let is_apart = |part: Option<&Part>| part.is_none_or(has_sign);
    let decides = |part: &&Part| has_sign(part) || is_field(part);
    if !is_apart(parts[at + 1..].iter().find(decides)) || !is_apart(parts[..at].iter().rev().find(decides)) {
        return Err(TemplateError::KeyNeighbour);
    }
    Ok(())
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
    if let Some(check) = CheckDigit::ALL.into_iter().find(|check| check.word() == field) {
        parts.push(Part::Check(check));
        return Ok(());
    }
    match field {
        "key" => parts.push(Part::Key),
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
