//! `getid span`: from times to the range of IDs with these times, whichever server gave them.

use std::process::ExitCode;

use clap::Args;
use getid_core::server::NS_PER_MS;
use getid_core::{Declaration, Layout};
use serde::Serialize;

use super::exit::{CliError, EXIT_NEGATIVE, ToolError, finish};
use super::layout_args::SubjectArgs;
use super::output::print;
use getid_system::clock::wall_unix_ms;
use getid_text::timestamp::{self, TimeError, TimeSpec};
use getid_tools::decoded::text_of;
use getid_tools::subject::Subject;

/// Arguments of `getid span`.
#[derive(Args)]
#[command(after_help = "\
A time is one of: Unix milliseconds, RFC 3339 (2017-03-06T09:37:01.966+08:00), a date with a time ('2017-03-06 09:37:01'), a
date (its first millisecond), now. Without a zone it is UTC.

Both ends belong to the span, to the millisecond; a whole day ends with T23:59:59.999. With --json the IDs are strings, for
they are larger than 2^53. Of a layout with a longer unit, such as 10 ms, the span has all IDs of the units that it touches.

Examples:
  getid span 2017-03-06T00:00:00Z 2017-03-06T23:59:59.999Z
  getid span 2026-01-01 now
  getid span '2026-01-01 08:00' '2026-01-01 17:00+01:00'
  getid span 1488793021966 1488793091860 --json
  getid span 2017-03-06T00:00:00+08:00 2017-03-06T23:59:59.999+08:00 --config /etc/getid/getid.conf
  getid span --layout twitter 2026-01-01 now
  getid span --generator trace --config /etc/getid/getid.conf 2026-01-01 now")]
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
    subject: SubjectArgs,
}

/// Reason why there is no span of IDs.
#[derive(Debug, thiserror::Error)]
enum SpanError {
    #[error("FROM {from} is later than TO {to}")]
    Reversed { from: String, to: String },
    #[error("IDs of {0} are counted, and hold no time; those of one period begin alike")]
    Counted(String),
    #[error("IDs of {0} do not sort by their time, so a span of time is no span of IDs")]
    Unordered(String),
    #[error("IDs of {0} hold no time")]
    NoTime(String),
    #[error("from {lowest} to {highest} the IDs of {name} grow longer than 'pad', so they do not sort as texts")]
    OutgrowsPad { lowest: String, highest: String, name: String },
    #[error("{end}: {error}")]
    Time { end: &'static str, error: TimeError },
    /// The time lies before the epoch. `meant` is the time that its number is in seconds.
    #[error(
        "{end} {time} lies before the epoch, {epoch}: no ID is that old{}",
        .meant.as_ref().map(|meant| format!("; as seconds it would be {meant}")).unwrap_or_default()
    )]
    TooEarly { end: &'static str, time: String, epoch: String, meant: Option<String> },
    #[error("{end} {time} lies past {last}, the last time that an ID can carry")]
    TooLate { end: &'static str, time: String, last: String },
}

impl ToolError for SpanError {
    fn exit_code(&self) -> u8 {
        EXIT_NEGATIVE
    }
}

/// Prints the span. The exit code is 1 if there is none.
pub(super) fn run(args: &SpanArgs) -> Result<ExitCode, CliError> {
    let span = Span::new(args, &args.subject.subject()?, wall_unix_ms())?;
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
    fn new(args: &SpanArgs, subject: &Subject, now_unix_ms: i64) -> Result<Span, SpanError> {
        let bounds = TimeBounds::of(subject)?;
        let from_unix_ms = bounds.time("FROM", &args.from, now_unix_ms)?;
        let to_unix_ms = bounds.time("TO", &args.to, now_unix_ms)?;
        let (from, to) = (timestamp::format_rfc3339(from_unix_ms), timestamp::format_rfc3339(to_unix_ms));
        if from_unix_ms > to_unix_ms {
            return Err(SpanError::Reversed { from, to });
        }
        let (lowest, highest) = match subject {
            Subject::Unnamed(layout) => span(*layout, from_unix_ms, to_unix_ms),
            Subject::Declared(declaration) => declared_span(declaration, from_unix_ms, to_unix_ms)?,
            Subject::Counted(counter) => return Err(SpanError::Counted(counter.name().to_owned())),
        };
        Ok(Span { from, to, from_unix_ms, to_unix_ms, lowest, highest })
    }
}

fn span(layout: Layout, from_unix_ms: i64, to_unix_ms: i64) -> (String, String) {
    let tick = |unix_ms| layout.epoch().tick_at(unix_ms).unwrap_or_default();
    let (lowest, highest) = layout.span(tick(from_unix_ms), tick(to_unix_ms));
    (lowest.to_string(), highest.to_string())
}

/// Returns the range of all IDs whose unit overlaps the span, such as those of a second that began before FROM.
fn declared_span(declaration: &Declaration, from_unix_ms: i64, to_unix_ms: i64) -> Result<(String, String), SpanError> {
    let (layout, name) = (declaration.layout(), declaration.name());
    if !declaration.has_ordered_texts() {
        return Err(SpanError::Unordered(name.to_owned()));
    }
    let from = layout.tick_at(i128::from(from_unix_ms) * i128::from(NS_PER_MS));
    let to =
        layout.tick_at((i128::from(to_unix_ms) + 1) * i128::from(NS_PER_MS) - 1).unwrap_or_else(|| layout.last_tick());
    let Some((lowest, highest)) = from.and_then(|from| layout.span(from, to)) else {
        return Err(SpanError::NoTime(name.to_owned()));
    };
    let [lowest, highest] = [lowest, highest].map(|number| text_of(declaration, number));
    if declaration.format().is_some() && lowest.len() != highest.len() {
        return Err(SpanError::OutgrowsPad { lowest, highest, name: name.to_owned() });
    }
    Ok((lowest, highest))
}

/// The range of times that IDs can carry, Unix ms.
struct TimeBounds {
    first: i64,
    last: i64,
}

impl TimeBounds {
    fn of(subject: &Subject) -> Result<TimeBounds, SpanError> {
        match subject {
            Subject::Unnamed(layout) => Ok(TimeBounds { first: layout.first_unix_ms(), last: layout.last_unix_ms() }),
            Subject::Declared(declaration) => {
                let layout = declaration.layout();
                let bounds = TimeBounds { first: layout.epoch_unix_ms(), last: layout.end_unix_ms().saturating_sub(1) };
                layout.has_time().then_some(bounds).ok_or_else(|| SpanError::NoTime(declaration.name().to_owned()))
            }
            Subject::Counted(counter) => Err(SpanError::Counted(counter.name().to_owned())),
        }
    }

    fn time(&self, end: &'static str, text: &str, now_unix_ms: i64) -> Result<i64, SpanError> {
        let time = TimeSpec::parse(text).map_err(|error| SpanError::Time { end, error })?;
        let unix_ms = time.unix_ms(now_unix_ms);
        let is_inside = |unix_ms: i64| (self.first..=self.last).contains(&unix_ms);
        if is_inside(unix_ms) {
            return Ok(unix_ms);
        }
        let time = timestamp::format_rfc3339(unix_ms);
        if unix_ms > self.last {
            return Err(SpanError::TooLate { end, time, last: timestamp::format_rfc3339(self.last) });
        }
        // A number of seconds may have been meant.
        let seconds = unix_ms.checked_mul(1000).filter(|_| text.parse::<i64>().is_ok());
        let meant = seconds.filter(|&meant| meant > 0 && is_inside(meant)).map(timestamp::format_rfc3339);
        Err(SpanError::TooEarly { end, time, epoch: timestamp::format_rfc3339(self.first), meant })
    }
}
