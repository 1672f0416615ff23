//! Decodes an ID by a declaration: its time, and every field under its name.
//!
//! The values are not compared with the declaration's own: an ID of another server, or of the system that used this
//! layout before, is decoded as it is.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use getid_core::{Declaration, Field, FieldLayout, Number, Role};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use getid_text::timestamp::format_rfc3339_ns;

/// Width of the largest integers that JavaScript holds exactly, bits; wider fields are strings in JSON.
const JSON_BITS_MAX: u32 = 53;

/// Keys of a row that are not fields.
const KEYS: [&str; 4] = ["id", "time", "unix_ms", "tick"];

/// Decodes IDs of one declaration.
pub struct Decoding<'a> {
    declaration: &'a Declaration,
    /// All fields except the time, with the number of bits below each.
    fields: Vec<(&'a Field, u32)>,
}

/// A decoded ID.
pub struct DecodedRow<'a> {
    decoding: &'a Decoding<'a>,
    id: String,
    /// The time; `None` if the kind holds no time.
    time: Option<DecodedTime>,
    number: Number,
}

struct DecodedTime {
    tick: u64,
    rfc3339: String,
    unix_ms: i64,
}

impl<'a> Decoding<'a> {
    /// Returns the decoding for IDs of this declaration.
    pub fn new(declaration: &'a Declaration) -> Decoding<'a> {
        let fields = declaration.layout().places().filter(|(field, _)| field.role != Role::Time).collect();
        Decoding { declaration, fields }
    }

    /// Decodes the ID that has this number.
    pub fn row(&'a self, number: Number) -> DecodedRow<'a> {
        let layout = self.declaration.layout();
        let time = layout.tick_of(number).map(|tick| {
            let unix_ns = layout.unix_ns(tick);
            DecodedTime { tick, rfc3339: format_rfc3339_ns(unix_ns, layout.unit().ns()), unix_ms: layout.unix_ms(tick) }
        });
        DecodedRow { decoding: self, id: text_of(self.declaration, number), time, number }
    }

    /// Returns the heads of the columns.
    pub fn header(&self) -> String {
        let mut line = format!("{:>1$}", "id", self.declaration.id_bytes_max());
        let time_width = self.time_width();
        let _ = write!(line, " {:<time_width$}", "time (UTC)");
        if self.declaration.layout().has_time() {
            let _ = write!(line, " {:>13} {:>2$}", "unix_ms", "tick", self.tick_width());
        }
        for (field, _) in &self.fields {
            let _ = write!(line, " {:>1$}", field.name, width(field));
        }
        line
    }

    fn time_width(&self) -> usize {
        format_rfc3339_ns(0, self.declaration.layout().unit().ns()).len()
    }

    fn tick_width(&self) -> usize {
        self.declaration.layout().last_tick().to_string().len().max("tick".len())
    }
}

/// Returns an ID as its generator writes it.
pub fn text_of(declaration: &Declaration, number: Number) -> String {
    let mut text = Vec::new();
    // The number was read from an ID, so it can be written as one.
    let written = declaration.write(number, &mut text);
    String::from_utf8(text).ok().filter(|_| written).unwrap_or_else(|| number.to_string())
}

impl std::fmt::Display for DecodedRow<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let DecodedRow { decoding, id, time, number } = self;
        let time_width = decoding.time_width();
        write!(f, "{id:>0$} ", decoding.declaration.id_bytes_max())?;
        match time {
            None => write!(f, "{:<time_width$}", "holds no time")?,
            Some(DecodedTime { tick, rfc3339, unix_ms }) => {
                write!(f, "{rfc3339:<time_width$} {unix_ms:>13} {tick:>0$}", decoding.tick_width())?;
            }
        }
        decoding.fields.iter().try_for_each(|&(field, shift)| {
            write!(f, " {:>1$}", shown(field, FieldLayout::value(field, shift, *number)), width(field))
        })
    }
}

/// Serializes one object: the ID, its time as RFC 3339, in Unix ms and in units since the epoch (`tick`), and each
/// field. Numbers wider than 53 bits are strings.
impl Serialize for DecodedRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let DecodedRow { decoding, id, time, number } = self;
        let mut map = serializer.serialize_map(None)?;
        let layout = decoding.declaration.layout();
        map.serialize_entry("id", id)?;
        map.serialize_entry("time", &time.as_ref().map(|time| &time.rfc3339))?;
        map.serialize_entry("unix_ms", &time.as_ref().map(|time| time.unix_ms))?;
        if let Some(DecodedTime { tick, .. }) = time {
            if layout.time_bits() > JSON_BITS_MAX {
                map.serialize_entry("tick", &tick.to_string())?;
            } else {
                map.serialize_entry("tick", tick)?;
            }
        }
        for &(field, shift) in &decoding.fields {
            let value = FieldLayout::value(field, shift, *number);
            let is_taken = KEYS.contains(&field.name.as_str());
            let key = if is_taken { format!("field-{}", field.name) } else { field.name.clone() };
            match u64::try_from(value)
                .ok()
                .filter(|_| ValueStyle::of(field) == ValueStyle::Decimal && field.bits <= JSON_BITS_MAX)
            {
                Some(number) => map.serialize_entry(&key, &number)?,
                None => map.serialize_entry(&key, &shown(field, value))?,
            }
        }
        map.end()
    }
}

/// How the values of a field are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueStyle {
    Decimal,
    /// All hexadecimal digits, for nodes, processes and random bits.
    Hex,
    /// Four decimal numbers with dots.
    Address,
}

impl ValueStyle {
    fn of(field: &Field) -> ValueStyle {
        match (field.role, field.name.as_str()) {
            (Role::Drawn, "address") => ValueStyle::Address,
            (Role::Drawn, "clock-seq") => ValueStyle::Decimal,
            (Role::Drawn | Role::Noise, _) => ValueStyle::Hex,
            _ => ValueStyle::Decimal,
        }
    }
}

fn shown(field: &Field, value: u128) -> String {
    let hex = || format!("{value:00$x}", field.bits.div_ceil(4) as usize);
    match ValueStyle::of(field) {
        ValueStyle::Decimal => value.to_string(),
        ValueStyle::Hex => hex(),
        ValueStyle::Address => u32::try_from(value).map_or_else(|_| hex(), |bits| Ipv4Addr::from(bits).to_string()),
    }
}

fn width(field: &Field) -> usize {
    let most = match ValueStyle::of(field) {
        ValueStyle::Address => "255.255.255.255".len(),
        _ => shown(field, u128::MAX >> (u128::BITS - field.bits)).len(),
    };
    most.max(field.name.len())
}
