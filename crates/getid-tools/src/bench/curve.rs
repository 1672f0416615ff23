//! The latency curve of a run, as CSV for other programs and as a picture.
//!
//! The picture shows latency over the share of faster batches, with a logarithmic scale towards 100 %. Each step to the
//! right has a tenth of the batches of the previous one. So the slowest batches, which averages hide, have as much room
//! as the many.

use std::fmt::Write as _;

/// A point of the curve: this share of all batches took at most this latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Share of the batches, 0 to 1.
    pub quantile: f64,
    /// Latency, µs.
    pub latency_us: f64,
    /// Number of batches up to this point.
    pub batches: u64,
}

/// Returns the points as CSV: a line with the names of the columns, then one line for each point.
pub fn csv(points: &[CurvePoint]) -> String {
    let mut text = String::from("quantile,latency_us,batches\n");
    for CurvePoint { quantile, latency_us, batches } in points {
        push(&mut text, format_args!("{quantile:.7},{latency_us:.3},{batches}\n"));
    }
    text
}

/// Bounds of the plot's area inside the picture, px.
const LEFT: f64 = 76.0;
const RIGHT: f64 = 756.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 396.0;

/// Width of a mark's text, px.
const MARK_WIDTH: f64 = 110.0;

/// Largest number of steps to the right, each with a tenth of the batches of the previous one.
const DECADES_MAX: f64 = 7.0;

/// A point of the curve with its name.
pub type CurveMark = (&'static str, CurvePoint);

/// Draws the picture, 800 x 460 px, for light and dark backgrounds. `title` and `subtitle` may be any text.
pub fn svg(title: &str, subtitle: &str, points: &[CurvePoint], marks: &[CurveMark]) -> String {
    let shown: Vec<&CurvePoint> = points.iter().filter(|point| point.latency_us > 0.0).collect();
    let decades =
        shown.iter().filter(|point| point.quantile < 1.0).map(|point| decade(point.quantile)).fold(1.0, f64::max);
    let decades = decades.ceil().min(DECADES_MAX);
    let lowest = shown.iter().map(|point| point.latency_us).fold(f64::INFINITY, f64::min);
    let highest = shown.iter().map(|point| point.latency_us).fold(0.0, f64::max);
    let (low, high) = if shown.is_empty() { (1.0, 10.0) } else { (round_down(lowest), round_up(highest, lowest)) };
    let x = |quantile: f64| LEFT + (decade(quantile).min(decades) / decades) * (RIGHT - LEFT);
    let y = |us: f64| BOTTOM - (us / low).log10() / (high / low).log10() * (BOTTOM - TOP);

    let mut out = String::from(HEAD);
    push(&mut out, format_args!("<text class=\"title\" x=\"{LEFT}\" y=\"26\">{}</text>\n", escaped(title)));
    push(&mut out, format_args!("<text x=\"{LEFT}\" y=\"46\">{}</text>\n", escaped(subtitle)));
    axes(&mut out, (low, high), decades, y);
    let mut line = String::new();
    for (index, point) in shown.iter().enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        push(&mut line, format_args!("{command}{:.1} {:.1}", x(point.quantile), y(point.latency_us)));
    }
    if !line.is_empty() {
        push(&mut out, format_args!("<path class=\"line\" d=\"{line}\"/>\n"));
    }
    mark(&mut out, &shown, marks, (low, high), (x, y));
    out.push_str("</svg>\n");
    out
}

/// Draws the grid, with the latencies on the left and the shares below.
fn axes(out: &mut String, (low, high): (f64, f64), decades: f64, y: impl Fn(f64) -> f64) {
    let mut tick = low;
    while tick <= high * 1.001 {
        let (at, text) = (y(tick), duration(tick));
        push(out, format_args!("<path class=\"grid\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>\n"));
        push(out, format_args!("<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>\n", LEFT - 8.0, at + 4.0));
        tick = next_tick(tick);
    }
    let mut step = 0.0;
    while step <= decades {
        let quantile = 1.0 - 10_f64.powf(-step);
        let at = LEFT + step / decades * (RIGHT - LEFT);
        push(out, format_args!("<path class=\"grid\" d=\"M{at:.1} {TOP}V{BOTTOM}\"/>\n"));
        let (below, text) = (BOTTOM + 20.0, percent(quantile));
        push(out, format_args!("<text class=\"middle\" x=\"{at:.1}\" y=\"{below}\">{text}</text>\n"));
        step += 1.0;
    }
    let middle = f64::midpoint(LEFT, RIGHT);
    push(
        out,
        format_args!(
            "<text class=\"middle\" x=\"{middle}\" y=\"446\">share of batches that took so long at most</text>\n"
        ),
    );
}

fn mark(
    out: &mut String,
    shown: &[&CurvePoint],
    marks: &[CurveMark],
    (low, high): (f64, f64),
    (x, y): (impl Fn(f64) -> f64, impl Fn(f64) -> f64),
) {
    let last = shown.last().map_or(RIGHT, |point| x(point.quantile));
    for (name, point) in marks.iter().filter(|(_, point)| !shown.is_empty() && point.latency_us > 0.0) {
        let (at, up) = (x(point.quantile), y(point.latency_us.clamp(low, high)));
        // There is no room for both texts.
        if point.quantile < 1.0 && last - at < MARK_WIDTH / 2.0 {
            continue;
        }
        push(out, format_args!("<circle cx=\"{at:.1}\" cy=\"{up:.1}\" r=\"3.5\"/>\n"));
        // The curve rises to the right: there is room below it to the right, and above it to the left.
        let at_the_edge = at > RIGHT - MARK_WIDTH;
        let class = if at_the_edge { "mark end" } else { "mark" };
        let (left, base) = if at_the_edge { (at, up - 10.0) } else { (at + 8.0, up + 16.0) };
        push(
            out,
            format_args!(
                "<text class=\"{class}\" x=\"{left:.1}\" y=\"{base:.1}\">{name} {}</text>\n",
                duration(point.latency_us)
            ),
        );
    }
}

const HEAD: &str = "\
<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 460\" width=\"800\" height=\"460\" role=\"img\">
<style>
svg { background: #fff; }
text { font: 13px system-ui, sans-serif; fill: #555; }
.title { font-size: 16px; font-weight: 600; fill: #111; }
.middle { text-anchor: middle; }
.mark { fill: #111; }
.end { text-anchor: end; }
.grid { stroke: #ddd; fill: none; }
.line { stroke: #1668b8; stroke-width: 2; fill: none; stroke-linejoin: round; }
circle { fill: #1668b8; }
@media (prefers-color-scheme: dark) {
svg { background: #14171c; }
text { fill: #aab; }
.title, .mark { fill: #f2f2f2; }
.grid { stroke: #343a44; }
.line { stroke: #6db3f2; }
circle { fill: #6db3f2; }
}
</style>
";

/// Returns how often the remaining batches have been divided by ten: 0 at 0 %, 1 at 90 %, 2 at 99 %.
fn decade(quantile: f64) -> f64 {
    -(1.0 - quantile.clamp(0.0, 1.0)).max(1e-12).log10()
}

/// Returns the tick after this one. Ticks are 1, 2 and 5 times a power of ten.
fn next_tick(tick: f64) -> f64 {
    let power = 10_f64.powf((tick * 1.001).log10().floor());
    match tick / power {
        lead if lead < 1.5 => power * 2.0,
        lead if lead < 3.0 => power * 5.0,
        _ => power * 10.0,
    }
}

fn round_down(us: f64) -> f64 {
    let power = 10_f64.powf((us * 1.001).log10().floor());
    let lead = us / power;
    power
        * if lead >= 4.999 {
            5.0
        } else if lead >= 1.999 {
            2.0
        } else {
            1.0
        }
}

/// Returns a tick above both values: a run whose batches all took the same time has an axis, too.
fn round_up(us: f64, lowest: f64) -> f64 {
    let mut tick = next_tick(round_down(lowest));
    while tick < us {
        tick = next_tick(tick);
    }
    tick
}

fn duration(us: f64) -> String {
    let (number, unit) = if us < 999.5 {
        (us, "µs")
    } else if us < 999_500.0 {
        (us / 1e3, "ms")
    } else {
        (us / 1e6, "s")
    };
    let digits = if number >= 99.95 || (number - number.round()).abs() < 1e-9 {
        0
    } else if number >= 9.995 {
        1
    } else {
        2
    };
    format!("{number:.digits$} {unit}")
}

fn percent(quantile: f64) -> String {
    let text = format!("{:.5}", quantile * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Escapes text for XML, which has no control characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            char if char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            char => out.push(char),
        }
    }
    out
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let written = out.write_fmt(text);
    debug_assert!(written.is_ok(), "memory takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(quantile: f64, latency_us: f64, batches: u64) -> CurvePoint {
        CurvePoint { quantile, latency_us, batches }
    }

    #[test]
    fn rows_of_csv() {
        let text = csv(&[point(0.5, 120.25, 50), point(1.0, 4000.0, 100)]);
        assert_eq!(text, "quantile,latency_us,batches\n0.5000000,120.250,50\n1.0000000,4000.000,100\n");
    }

    #[test]
    fn the_picture_has_axes_a_curve_and_marks() {
        let points = [
            point(0.0, 80.0, 1),
            point(0.5, 120.0, 500),
            point(0.99, 900.0, 990),
            point(0.999, 1100.0, 999),
            point(1.0, 4100.0, 1000),
        ];
        let marks = [("p50", points[1]), ("p99", points[2]), ("p99.9", points[3]), ("max", points[4])];
        let text = svg("GETID <&> \"x\"\u{1b}", "127.0.0.1", &points, &marks);
        for part in [
            "GETID &lt;&amp;&gt; &quot;x&quot;\u{fffd}",
            "p50 120 µs",
            "p99 900 µs",
            "max 4.10 ms",
            ">99 %<",
            ">50 µs<",
            ">5 ms<",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(text.contains("prefers-color-scheme: dark"));
        assert_eq!(text.matches("class=\"line\"").count(), 1);
        // Next to the name of the slowest there is no room for another name.
        assert!(!text.contains("p99.9"), "{text}");
    }

    #[test]
    fn odd_curves_have_pictures_too() {
        for points in [
            vec![],
            vec![point(1.0, 0.0, 1)],
            vec![point(1.0, 5.0, 1)],
            vec![point(0.0, 1e-3, 1), point(1.0, 3.6e9, 1_000_000_000)],
            vec![point(0.5, 100.0, 1), point(0.999_999_999, 100.0, 2), point(1.0, 100.0, 3)],
        ] {
            let marks: Vec<CurveMark> = points.iter().map(|&point| ("p", point)).collect();
            let text = svg("t", "s", &points, &marks);
            assert!(text.ends_with("</svg>\n") && !text.contains("NaN") && !text.contains("inf"), "{text}");
            assert!(text.len() < 20_000, "{}", text.len());
        }
    }

    #[test]
    fn numbers_for_people() {
        let texts = [0.5, 7.25, 80.0, 999.0, 1500.0, 99_960.0, 2_000_000.0].map(duration);
        assert_eq!(texts, ["0.50 µs", "7.25 µs", "80 µs", "999 µs", "1.50 ms", "100 ms", "2 s"]);
        assert_eq!([0.0, 0.9, 0.99, 0.999_99].map(percent), ["0 %", "90 %", "99 %", "99.999 %"]);
        let mut ticks = vec![1.0];
        while ticks.len() < 6 {
            ticks.push(next_tick(ticks[ticks.len() - 1]).round());
        }
        assert_eq!(ticks, [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
    }
}
