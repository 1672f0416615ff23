//! Ticks, layouts and durations as both commands print them.

use std::fmt::{Display, Write as _};

use getid_core::{Layout, Tick, UtcMs};

pub(super) fn push_line(text: &mut String, name: &str, value: &dyn Display) {
    // Writing to a String does not fail.
    let _ = writeln!(text, "  {name:<10} {value}");
}

/// A tick as an operator needs it: its time, and how far that is from the clock.
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

/// The smallest ID that any server could give at `watermark`: all before it are smaller, all from it on are not.
pub(super) fn first_id(watermark: Tick) -> String {
    match Layout::default().span(watermark.min(Tick::LAST), watermark.min(Tick::LAST)) {
        (first, _) if watermark <= Tick::LAST => first.to_string(),
        _ => "2^63, past the last of all".to_owned(),
    }
}

/// Milliseconds in the two largest units that say something.
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
