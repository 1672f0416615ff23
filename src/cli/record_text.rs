//! Texts of the tools about records: positions, layouts, durations and generators.

use std::fmt::{Display, Write as _};

use getid_core::{Declaration, Layout, SavePoint, Tick, UtcMs};

use getid_engine::claim::Record;

pub(super) fn push_line(text: &mut String, name: &str, value: &dyn Display) {
    // Writing to a String does not fail.
    let _ = writeln!(text, "  {name:<10} {value}");
}

/// Formats a tick for an operator: its time, and its distance from the clock.
pub(super) fn describe(tick: Tick, layout: Layout, now_unix_ms: i64) -> String {
    let unix_ms = tick.unix_ms(layout.epoch());
    let distance = match unix_ms.saturating_sub(now_unix_ms) {
        0 => "now".to_owned(),
        ahead @ 1.. => format!("{} ahead of the clock", duration(ahead.unsigned_abs())),
        behind => format!("{} behind the clock", duration(behind.unsigned_abs())),
    };
    format!("{} (tick {}), {distance}", UtcMs(unix_ms), tick.0)
}

pub(super) fn describe_layout(layout: Layout) -> String {
    format!(
        "id-range {} shard-range {} random-range {}, epoch {} ({})",
        layout.server_bits(),
        layout.shard_bits(),
        layout.random_bits(),
        layout.epoch().unix_ms(),
        UtcMs(layout.first_unix_ms())
    )
}

/// Returns the smallest ID that any server could give at `watermark`: all earlier IDs are smaller, all later ones are
/// not.
pub(super) fn first_id(watermark: Tick) -> String {
    match Layout::default().span(watermark.min(Tick::LAST), watermark.min(Tick::LAST)) {
        (first, _) if watermark <= Tick::LAST => first.to_string(),
        _ => "2^63, past the last of all".to_owned(),
    }
}

/// Formats milliseconds in the two largest useful units.
pub(super) fn duration(ms: u64) -> String {
    let (s, min, h) = (1000, 60_000, 3_600_000);
    let day = 24 * h;
    match ms {
        ms if ms < s => format!("{ms} ms"),
        ms if ms < min => format!("{}.{:03} s", ms / s, ms % s),
        ms if ms < h => format!("{} min {} s", ms / min, ms % min / s),
        ms if ms < 2 * day => format!("{} h {} min", ms / h, ms % h / min),
        ms => format!("{} days", ms / day),
    }
}

/// Appends the content of a record, as lines.
pub(super) fn push_record(text: &mut String, record: &Record, now_unix_ms: i64) {
    let mut line = |name: &str, value: &dyn Display| push_line(text, name, value);
    let layout = record.identity.layout;
    let SavePoint { watermark, reference, max_borrow_ms } = record.point;
    if record.point.is_nothing() {
        line("ids", &"none was given");
    } else {
        for (name, tick) in [("watermark", watermark), ("reference", reference)] {
            line(name, &describe(tick, layout, now_unix_ms));
        }
        line("ids", &format_args!("given: below {}; after a restart: none below it", first_id(watermark)));
    }
    line("layout", &describe_layout(layout));
    if !record.point.is_nothing() {
        line("borrow", &format_args!("IDs were at most {max_borrow_ms} ms ahead of the reference"));
    }
    line("term", &format_args!("{}, the number of this life", record.owner.term));
    for declaration in record.declarations.generators() {
        line("generator", &declaration.to_text());
    }
    for (name, unix_ms) in record.declarations.all_since() {
        let name = name.unwrap_or("the unnamed generator");
        line("since", &format_args!("{}: no earlier ID of {name} was given here", UtcMs(unix_ms)));
    }
    for forgotten in record.declarations.forgotten() {
        line("forgotten", &format_args!("{} past-id {}", forgotten.name, forgotten.past_id));
    }
}

/// Returns the content of a record as JSON.
pub(super) fn record_json(record: &Record, now_unix_ms: i64) -> serde_json::Value {
    let layout = record.identity.layout;
    let epoch = layout.epoch();
    let SavePoint { watermark, reference, max_borrow_ms } = record.point;
    let declarations = &record.declarations;
    let generators: Vec<_> = declarations.generators().iter().map(|known| known.to_text()).collect();
    let forgotten: Vec<_> = declarations
        .forgotten()
        .iter()
        .map(|forgotten| serde_json::json!({ "name": forgotten.name, "past_id": forgotten.past_id }))
        .collect();
    let since = declarations.all_since();
    let since = since.map(|(name, unix_ms)| serde_json::json!({ "generator": name, "unix_ms": unix_ms }));
    let since: Vec<_> = since.collect();
    serde_json::json!({
        "epoch_unix_ms": epoch.unix_ms(),
        "id_range": layout.server_bits(),
        "shard_range": layout.shard_bits(),
        "random_range": layout.random_bits(),
        "watermark_tick": watermark.0,
        "watermark_time": UtcMs(watermark.unix_ms(epoch)).to_string(),
        "watermark_ahead_ms": watermark.unix_ms(epoch) - now_unix_ms,
        "reference_tick": reference.0,
        "reference_time": UtcMs(reference.unix_ms(epoch)).to_string(),
        "reference_ahead_ms": reference.unix_ms(epoch) - now_unix_ms,
        "max_borrow_ms": max_borrow_ms,
        "term": record.owner.term.0,
        // A string: 63 bits are more than a JSON number safely holds.
        "ids_below": first_id(watermark),
        "generators": generators,
        "forgotten": forgotten,
        "since": since,
    })
}

/// Returns an ID of this generator as the generator writes it.
pub(super) fn canonical(declaration: &Declaration, id: &str) -> Option<String> {
    let mut text = Vec::new();
    let is_written = declaration.write(declaration.read(id)?, &mut text);
    String::from_utf8(text).ok().filter(|_| is_written)
}
