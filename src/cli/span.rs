//! `getid span`: from times to the IDs of that time, whatever server gave them.

use std::process::ExitCode;

use clap::Args;
use getid_core::{Layout, Tick};
use serde::Serialize;

use super::layout_args::LayoutArgs;
use super::output::{complain, finish, print};
use crate::system::clock::wall_unix_ms;
use crate::text::timestamp::{self, Time};

/// Arguments of `getid span`.
#[derive(Args)]
#[command(after_help = "\
A time is one of: Unix milliseconds, RFC 3339 (2017-03-06T09:37:01.966+08:00), a date with a time ('2017-03-06 09:37:01'), a
date (its first millisecond), now. Without a zone it is UTC.

Both ends belong to the span, to the millisecond; a whole day ends with T23:59:59.999. With --json the IDs are strings, for
they are larger than 2^53.

Examples:
  getid span 2017-03-06T00:00:00Z 2017-03-06T23:59:59.999Z
  getid span 2026-01-01 now
  getid span '2026-01-01 08:00' '2026-01-01 17:00+01:00'
  getid span 1488793021966 1488793091860 --json
  getid span 2017-03-06T00:00:00+08:00 2017-03-06T23:59:59.999+08:00 --config /etc/getid/getid.conf")]
pub(super) struct SpanArgs {
    /// The first millisecond: a time as below
    #[arg(allow_negative_numbers = true)]
    from: String,
    /// The last millisecond: a time as below
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
    let span = match args.layout.layout().and_then(|layout| Span::new(args, layout, wall_unix_ms())) {
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
    fn new(args: &SpanArgs, layout: Layout, now_unix_ms: i64) -> Result<Span, String> {
        let (from_unix_ms, from_tick) = tick("FROM", &args.from, layout, now_unix_ms)?;
        let (to_unix_ms, to_tick) = tick("TO", &args.to, layout, now_unix_ms)?;
        let (from, to) = (timestamp::format_rfc3339(from_unix_ms), timestamp::format_rfc3339(to_unix_ms));
        if from_tick > to_tick {
            return Err(format!("FROM {from} is later than TO {to}"));
        }
        let (lowest, highest) = layout.span(from_tick, to_tick);
        Ok(Span { from, to, from_unix_ms, to_unix_ms, lowest: lowest.to_string(), highest: highest.to_string() })
    }
}

fn tick(name: &str, text: &str, layout: Layout, now_unix_ms: i64) -> Result<(i64, Tick), String> {
    let time = Time::parse(text).map_err(|error| format!("{name}: {error}"))?;
    let unix_ms = time.unix_ms(now_unix_ms);
    if let Some(tick) = layout.epoch().tick_at(unix_ms) {
        return Ok((unix_ms, tick));
    }
    let time = timestamp::format_rfc3339(unix_ms);
    let (first, last) = (layout.first_unix_ms(), layout.last_unix_ms());
    Err(if unix_ms < first {
        let epoch = timestamp::format_rfc3339(first);
        // What was meant, when it is not milliseconds.
        let seconds = unix_ms.checked_mul(1000).filter(|_| text.parse::<i64>().is_ok());
        let help = match seconds.filter(|&meant| meant > 0 && layout.epoch().tick_at(meant).is_some()) {
            Some(meant) => format!("; as seconds it would be {}", timestamp::format_rfc3339(meant)),
            None => String::new(),
        };
        format!("{name} {time} lies before the epoch, {epoch}: no ID is that old{help}")
    } else {
        let end = timestamp::format_rfc3339(last);
        format!("{name} {time} lies past {end}, the last time that an ID can carry")
    })
}
