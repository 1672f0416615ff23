//! Generators over sequences: decoding of their IDs, and their explanation.

use std::fmt;

use getid_core::Number;
use getid_core::server::{
    CivilTime, CounterDeclaration, CounterKind, CounterReading, ReleasedNumbers, Reset, Serial, Series, VALUE_MAX,
    counter_doc,
};
use serde::Serialize;

use super::explanation::CODES_ARE_NO_SECRET;
use super::subject::{reading_of, text_of_counted};
use getid_text::plural::{counted, thousands};
use getid_text::timestamp::format_rfc3339;
use getid_text::zone::{Zone, shown_unix_ms};

/// The value in an example.
const EXAMPLE_VALUE: i64 = 42;

/// The key of a series in an example.
const EXAMPLE_KEY: &str = "ACME";

/// A decoded ID of a generator over a sequence.
#[derive(Serialize)]
pub struct CountedRow {
    id: String,
    /// Begin of the period that the ID shows.
    time: Option<String>,
    unix_ms: Option<i64>,
    /// The value as a string, because it may have 63 bits.
    value: String,
    #[serde(skip)]
    id_bytes: usize,
}

/// Width of the column of values, characters.
const VALUE_COLUMNS: usize = 19;

impl CountedRow {
    /// Decodes the ID that has this number. `now_unix_ms` decides the century of a year of two digits.
    pub fn new(counter: &CounterDeclaration, number: Number, now_unix_ms: i64) -> CountedRow {
        let read = reading_of(number);
        let unix_ms = shown_unix_ms(counter, read, now_unix_ms);
        CountedRow {
            id: text_of_counted(counter, read),
            time: unix_ms.map(format_rfc3339),
            unix_ms,
            value: read.value.to_string(),
            id_bytes: shown_bytes(counter),
        }
    }

    /// Returns the heads of the columns.
    pub fn header(counter: &CounterDeclaration) -> String {
        let width = shown_bytes(counter);
        format!("{:>width$} {:<24} {:>13} {:>VALUE_COLUMNS$}", "id", "period begins (UTC)", "unix_ms", "value")
    }
}

impl fmt::Display for CountedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CountedRow { id, time, unix_ms, value, id_bytes } = self;
        let time = time.as_deref().unwrap_or("holds no time");
        let unix_ms = unix_ms.map_or_else(String::new, |unix_ms| unix_ms.to_string());
        write!(f, "{id:>id_bytes$} {time:<24} {unix_ms:>13} {value:>VALUE_COLUMNS$}")
    }
}

/// Returns the width of the column of IDs. All IDs of a template that does not grow have this width.
fn shown_bytes(counter: &CounterDeclaration) -> usize {
    match counter.kind() {
        CounterKind::Serial(serial) => {
            let mut text = Vec::new();
            let _ = serial.write(CivilTime::FIRST, EXAMPLE_KEY, 0, &mut text);
            text.len().max("id".len())
        }
        CounterKind::Sequence(_) => counter.id_bytes_max(),
    }
}

/// Explanation of a generator over a sequence, as text and as JSON.
#[derive(Serialize)]
pub struct CounterExplanation {
    /// The generator's name; `None` if no generator of a configuration is meant.
    name: Option<String>,
    kind: &'static str,
    #[serde(skip)]
    about: String,
    /// An ID that the generator could give now.
    example: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<String>,
    counter: String,
    /// How often the counter begins again.
    reset: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    /// The last value of a period.
    max: String,
    servers: &'static str,
    time: String,
    ordered: bool,
    written: String,
    limits: Vec<String>,
    /// The declaration, as a line of a configuration.
    declaration: String,
}

impl CounterExplanation {
    /// Explains a declaration. The example is an ID of the period that contains `now_unix_ms`.
    pub fn new(counter: &CounterDeclaration, now_unix_ms: i64) -> CounterExplanation {
        let serial = match counter.kind() {
            CounterKind::Serial(serial) => Some(serial),
            CounterKind::Sequence(_) => None,
        };
        let reset = counter.reset();
        let example_key = Series::parse(EXAMPLE_KEY, true).unwrap_or_default();
        let name = (counter.name() != counter.word()).then(|| counter.name().to_owned());
        let max = serial.map_or(VALUE_MAX, |serial| serial.spec().max);
        let declared = counter.words().split_off(1).join(" ");
        CounterExplanation {
            about: about(counter, name.as_deref()),
            kind: counter.word(),
            example: text_of_counted(
                counter,
                CounterReading { value: EXAMPLE_VALUE, stamp: stamp(serial, now_unix_ms), series: example_key },
            ),
            template: serial.map(|serial| serial.template.text().to_owned()),
            counter: counter_text(serial, reset, max),
            reset: reset.word(),
            zone: serial.and_then(|serial| serial.zone.clone()),
            max: max.to_string(),
            servers: "any number that share its store of sequences",
            time: time_text(serial),
            ordered: has_ordered_texts(counter) && counter.gapless() != Some(ReleasedNumbers::Reused),
            written: written(counter),
            limits: limits(counter, serial, reset),
            declaration: format!("generator {} {declared}", name.as_deref().unwrap_or("NAME")),
            name,
        }
    }
}

/// Returns true if texts sort as their values do, as far as they have one length.
fn has_ordered_texts(counter: &CounterDeclaration) -> bool {
    !matches!(counter.kind(), CounterKind::Sequence(Some(format)) if !format.is_ordered())
}

fn about(counter: &CounterDeclaration, name: Option<&str>) -> String {
    let (kind, doc) = (counter.word(), counter_doc(counter.word()));
    match name {
        Some(name) => format!("{name}: {kind}, {doc}"),
        None => format!("{kind}: {doc}"),
    }
}

/// Returns the time that a template shows now.
fn stamp(serial: Option<&Serial>, now_unix_ms: i64) -> CivilTime {
    let zone = serial.and_then(|serial| serial.zone.as_deref()).and_then(|zone| Zone::named(zone).ok());
    zone.map_or(CivilTime::FIRST, |zone| zone.stamp(now_unix_ms))
}

fn counter_text(serial: Option<&Serial>, reset: Reset, max: i64) -> String {
    let values = format!("1 to {}", thousands(max.unsigned_abs()));
    if reset == Reset::Never {
        return values;
    }
    let zone = serial.and_then(|serial| serial.zone.as_deref()).unwrap_or("UTC");
    format!("{values}, and from 1 again {} ({zone})", reset.each())
}

fn time_text(serial: Option<&Serial>) -> String {
    match serial.map(|serial| serial.template.finest()) {
        None | Some(Reset::Never) => "none".to_owned(),
        Some(finest) => format!("the {} that it shows", finest.word().replace('-', " ")),
    }
}

fn written(counter: &CounterDeclaration) -> String {
    match counter.kind() {
        CounterKind::Sequence(None) => format!("an integer of up to {} digits", counter.id_bytes_max()),
        CounterKind::Sequence(Some(format)) => {
            format!("text of up to {} characters ({format})", counter.id_bytes_max())
        }
        CounterKind::Serial(serial) => {
            let or_more = if serial.grows { " or more" } else { "" };
            format!("text of {}{or_more} characters", shown_bytes(counter))
        }
    }
}

/// Returns the limits of the generator that a user should know.
fn limits(counter: &CounterDeclaration, serial: Option<&Serial>, reset: Reset) -> Vec<String> {
    let released = serial.and_then(|serial| serial.gapless);
    let away = if released.is_some() { "no number is given" } else { "IDs end with what is in memory" };
    let mut limits = vec![format!("each reservation is a write to the store of sequences: while that is away, {away}")];
    if let Some(Serial { cache, grows, template, .. }) = serial {
        limits.push(match cache {
            _ if released.is_some() => {
                "gapless: each number has a request and a state, and NUMBER LEDGER lists them".to_owned()
            }
            0 => "'cache 0': a crash skips what was under way".to_owned(),
            cache => format!(
                "a crash skips what is reserved and not given, about {} on a quiet server; 'cache 0' skips only what \
                 was under way",
                counted(u64::from(*cache), "number")
            ),
        });
        limits.push(if *grows {
            format!("past {} texts grow longer, and no longer sort", counted(template.digits().into(), "digit"))
        } else if reset == Reset::Never {
            "the last value is the end: then IDs are refused ('overflow grow' writes more digits)".to_owned()
        } else {
            format!(
                "past the last value IDs are refused until the next {} ('overflow grow' writes more digits)",
                reset.word().replace('-', " ")
            )
        });
        if template.has_short_years() {
            limits.push("years have two digits: texts repeat after a hundred years".to_owned());
        }
    } else {
        limits
            .push("a crash skips up to the sequence's 'cache', 100 unless SEQUENCE CREATE sets another one".to_owned());
    }
    if has_ordered_texts(counter) {
        limits.push(match released {
            None => "over several servers order holds with 'cache 0' alone".to_owned(),
            Some(ReleasedNumbers::Void) => "a released number is void, and no other request gets it".to_owned(),
            Some(ReleasedNumbers::Reused) => {
                "the next request gets a released number, below later ones ('released void' keeps the order)".to_owned()
            }
        });
    } else {
        limits.push("short codes do not sort as their numbers do".to_owned());
        limits.push(CODES_ARE_NO_SECRET.to_owned());
    }
    limits.push("who has seen one ID can guess others, and how many there are".to_owned());
    limits
}

impl fmt::Display for CounterExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CounterExplanation {
            about, example, template, counter, servers, time, written, limits, declaration, ..
        } = self;
        writeln!(f, "{about}\n\n  {example}\n")?;
        if let Some(template) = template {
            writeln!(f, "template   {template}")?;
        }
        writeln!(f, "counter    {counter}")?;
        writeln!(f, "servers    {servers}")?;
        writeln!(f, "time       {time}")?;
        let order = if self.ordered { "each server's IDs ascend" } else { "none" };
        writeln!(f, "order      {order}")?;
        writeln!(f, "written    {written}")?;
        writeln!(f, "\nlimits")?;
        limits.iter().try_for_each(|limit| writeln!(f, "  {limit}"))?;
        writeln!(f, "\ndeclared by\n  {declaration}")
    }
}
