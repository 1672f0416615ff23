//! `getid span`: from times to the IDs of that time, whatever server gave them.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::layout::LayoutArgs;
use super::output::{complain, finish, print};
use crate::id::{Layout, Tick};
use crate::timestamp;

/// Arguments of `getid span`.
#[derive(Args)]
#[command(after_help = "\
Both ends belong to the span, to the millisecond. With --json the IDs are strings, for they are larger than 2^53.

Examples:
  getid span 2017-03-06T00:00:00Z 2017-03-06T23:59:59.999Z
  getid span 1488793021966 1488793091860 --json
  getid span 2017-03-06T00:00:00+08:00 2017-03-06T23:59:59.999+08:00 --config /etc/getid/getid.conf")]
pub(super) struct SpanArgs {
    /// The first millisecond, Unix ms or RFC 3339
    #[arg(allow_negative_numbers = true)]
    from: String,
    /// The last millisecond, Unix ms or RFC 3339
    #[arg(allow_negative_numbers = true)]
    to: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    layout: LayoutArgs,
}

/// Prints the span; exit code 1 if there is none.
pub(super) fn run(args: &SpanArgs) -> ExitCode {
    let span = match args.layout.layout().and_then(|layout| Span::new(&args.from, &args.to, layout)) {
        Ok(span) => span,
        Err(message) => {
            complain(&message);
            return ExitCode::FAILURE;
        }
    };
    let printed = print(|out| {
        if args.json {
            serde_json::to_writer(&mut *out, &span)?;
            return out.write_all(b"\n");
        }
        let Span { from, to, lowest, highest, .. } = &span;
        writeln!(out, "from     {from}\nto       {to}\nlowest   {lowest}\nhighest  {highest}")
    });
    finish(printed, ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Span {
    from: String,
    to: String,
    from_unix_ms: i64,
    to_unix_ms: i64,
    lowest: String,
    highest: String,
}

impl Span {
    fn new(from: &str, to: &str, layout: Layout) -> Result<Span, String> {
        let (from_unix_ms, from_tick) = tick("FROM", from, layout)?;
        let (to_unix_ms, to_tick) = tick("TO", to, layout)?;
        let (from, to) = (timestamp::format_rfc3339(from_unix_ms), timestamp::format_rfc3339(to_unix_ms));
        if from_tick > to_tick {
            return Err(format!("FROM {from} is later than TO {to}"));
        }
        let (lowest, highest) = layout.span(from_tick, to_tick);
        Ok(Span { from, to, from_unix_ms, to_unix_ms, lowest: lowest.to_string(), highest: highest.to_string() })
    }
}

fn tick(name: &str, text: &str, layout: Layout) -> Result<(i64, Tick), String> {
    let unix_ms = timestamp::parse_unix_ms(text).map_err(|error| format!("{name}: {error}"))?;
    if let Some(tick) = layout.epoch().tick_at(unix_ms) {
        return Ok((unix_ms, tick));
    }
    let time = timestamp::format_rfc3339(unix_ms);
    let (first, last) = (layout.first_unix_ms(), layout.last_unix_ms());
    Err(if unix_ms < first {
        let epoch = timestamp::format_rfc3339(first);
        format!("{name} {time} lies before the epoch, {epoch}: no ID is that old")
    } else {
        let end = timestamp::format_rfc3339(last);
        format!("{name} {time} lies past {end}, the last time that an ID can carry")
    })
}
