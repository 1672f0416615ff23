//! `LATENCY`: causes of client delays, and remedies.
//!
//! Four kinds of events, each from `latency-monitor-threshold` on: `command` and `fast-command` as in Redis (a command
//! took that long), `draw-wait` (a client waited for IDs) and `watermark-save` (the watermark took that long to be on
//! disk).

use std::fmt::Write as _;

use crate::Server;
use crate::slow::{DRAW_WAIT, WATERMARK_SAVE};
use getid_config::Config;
use getid_engine::generators::NamedStatus;
use getid_engine::generators::time::IssuerStatus;
use getid_redis::command::{self, Command};
use getid_redis::resp::Value;
use getid_redis::stats::{LatencyEvent, LatencySample};
use getid_text::plural::listed;

pub(super) fn latest(server: &Server) -> Value {
    let of = |(name, event): (&str, &LatencyEvent)| {
        let latest = event.latest()?;
        let unix_s = Value::Integer(latest.unix_s);
        Some(Value::Array(vec![Value::from(name), unix_s, integer(latest.ms), integer(event.max_ms())]))
    };
    Value::Array(server.events().all().filter_map(of).collect())
}

pub(super) fn history(server: &Server, name: &[u8]) -> Value {
    let events = server.events();
    let samples = events.get(name).into_iter().flat_map(|(_, event)| event.samples());
    let pair = |sample: LatencySample| Value::Array(vec![Value::Integer(sample.unix_s), integer(sample.ms)]);
    Value::Array(samples.map(pair).collect())
}

pub(super) fn reset(server: &Server, names: &[Vec<u8>]) -> Value {
    Value::Integer(server.events().reset(names).try_into().unwrap_or(i64::MAX))
}

pub(super) fn graph(server: &Server, name: &[u8]) -> Value {
    if let Some((name, event)) = server.events().get(name) {
        return Value::text(event.graph(name, server.now_unix_s()));
    }
    let name = String::from_utf8_lossy(command::quote(name, NAME_BYTES_MAX));
    Value::error(format!("ERR No samples available for event '{name}'"))
}

/// Answers histograms of the named commands, a container's with its subcommands; of all without names.
pub(super) fn histogram(server: &Server, names: &[Vec<u8>]) -> Value {
    let mut commands: Vec<&'static Command> = Vec::new();
    if names.is_empty() {
        commands.extend(command::rows());
    } else {
        let settings = server.settings.get();
        let found = names.iter().filter_map(|name| settings.vocabulary.find_full(name));
        for command in found.flat_map(|command| std::iter::once(command).chain(command.subcommands)) {
            if !commands.iter().any(|known| known.verb == command.verb) {
                commands.push(command);
            }
        }
    }
    Value::map(commands.into_iter().filter_map(|command| {
        let totals = server.metrics.command(command.verb).filter(|totals| totals.calls > 0)?;
        let bounds = totals.histogram.cumulative_us();
        let bounds = bounds.into_iter().map(|(us, count)| (integer(us), integer(count))).collect();
        let fields = [("calls", integer(totals.calls)), ("histogram_usec", Value::Map(bounds))];
        Some((command.full_name, Value::map(fields)))
    }))
}

fn integer(number: u64) -> Value {
    Value::Integer(number.try_into().unwrap_or(i64::MAX))
}

/// Answers the causes of client delays, with remedies, as a text for an operator.
pub(super) fn doctor(server: &Server) -> Value {
    let config = server.config.get();
    let now_unix_s = server.now_unix_s();
    // A copy, so that the lock is not held meanwhile.
    let events = server.events().clone();
    let mut text = String::new();
    // A write to a String cannot fail.
    let out = &mut text;
    if config.latency_monitor_threshold_ms == 0 {
        out.push_str(
            "Events are not kept: latency-monitor-threshold is 0. Set it to the milliseconds that a client may wait, in \
             the configuration or by CONFIG SET latency-monitor-threshold <ms>.\n",
        );
    } else if events.all().len() == 0 {
        let threshold_ms = config.latency_monitor_threshold_ms;
        let _ = writeln!(out, "Nothing took {threshold_ms} ms (latency-monitor-threshold) or longer.");
    }
    for (number, (name, event)) in events.all().enumerate() {
        let Some(spread) = event.spread(now_unix_s) else { continue };
        let _ = writeln!(
            out,
            "{}. {name}: {} latency spike{} (average {} ms, mean deviation {} ms, period {:.2} s). Worst {} ms.",
            number + 1,
            spread.samples,
            if spread.samples == 1 { "" } else { "s" },
            spread.mean_ms,
            spread.deviation_ms,
            spread.period_s,
            event.max_ms(),
        );
    }
    let has = |name: &str| events.get(name.as_bytes()).is_some();
    let mut advice = advice(&config, &server.issuer().status(), has);
    advice.extend(advice_on_named(&server.named_generators()));
    if !advice.is_empty() {
        out.push_str("\nAdvice:\n");
        for line in advice {
            let _ = writeln!(out, "- {line}");
        }
    }
    Value::text(text)
}

/// Returns advice; `has` returns true if there were events of a name.
fn advice(config: &Config, status: &IssuerStatus, has: impl Fn(&str) -> bool) -> Vec<String> {
    let mut advice = Vec::new();
    let (dir, lead_ms) = (config.state_dir.display(), config.id_watermark_lead_ms);
    if let Some(refusal) = &status.refusing {
        advice.push(format!("IDs are refused now: {refusal}."));
    }
    if status.saving_ms > SAVE_HANGS_MS {
        advice.push(format!(
            "A save of the watermark has been under way for {} ms: the disk of dir '{dir}' hangs. IDs are given for at \
             most {lead_ms} ms (id-watermark-lead-ms) after the last save.",
            status.saving_ms
        ));
    }
    if has(WATERMARK_SAVE) {
        advice.push(format!(
            "The disk of dir '{dir}' is slow to sync; the last save took {} us. No client waits while saves end within \
             id-watermark-lead-ms ({lead_ms}). Find other writers on that disk, or move dir to a faster one.",
            status.last_save_us
        ));
    }
    let mint = &status.mint;
    let is_at_limit = mint.highest_borrow_ms.saturating_add(1) >= config.id_max_borrow_ms;
    let has_waited = has(DRAW_WAIT) && status.waits > 0;
    if has_waited && is_at_limit {
        advice.push(format!(
            "Clients waited at the borrow limit: IDs were {} ms ahead of the clock, id-max-borrow-ms is {}. The layout holds \
             {} IDs a second, and clients request {} now. Give shard-range more bits, spread the load over more servers, or \
             raise id-max-borrow-ms if the bursts are short.",
            mint.highest_borrow_ms, config.id_max_borrow_ms, mint.capacity_per_s, status.demanded_per_s
        ));
    } else if has_waited {
        advice.push(format!(
            "Clients waited for the watermark: a save did not end before IDs had used up their lead. Raise \
             id-watermark-lead-ms ({lead_ms}), and check the disk of dir '{dir}'."
        ));
    }
    if has("command") || has("fast-command") {
        advice.push(
            "Commands were slow: SLOWLOG GET lists them. Short commands are slow when the machine lacks CPU or memory: check \
             its load and swapping."
                .to_owned(),
        );
    }
    advice
}

/// Returns advice on the named generators.
fn advice_on_named(generators: &[NamedStatus]) -> Vec<String> {
    let describe = |text: &dyn Fn(&NamedStatus) -> Option<String>| {
        let name = |own: &NamedStatus| Some(format!("'{}' ({})", own.generator.declaration().name(), text(own)?));
        let names: Vec<_> = generators.iter().filter_map(name).collect();
        (!names.is_empty()).then(|| listed(&names))
    };
    let refusing = describe(&|own| own.refusing.as_ref().map(ToString::to_string));
    let waited = describe(&|own| {
        let holds = own.generator.capacity_per_s().filter(|_| own.waited > 0)?;
        Some(format!("{holds} IDs a second, and clients request {} now", own.asked_per_s))
    });
    let refusing = refusing.map(|names| format!("Generators give no IDs now: {names}."));
    let waited = waited.map(|names| {
        format!(
            "Clients waited for IDs of generators: {names}. Spread the load over more servers, declare one of another name \
             whose counter has more bits, or raise id-max-borrow-ms if the bursts are short."
        )
    });
    refusing.into_iter().chain(waited).collect()
}

/// Duration in ms above which a running save is reported.
const SAVE_HANGS_MS: u64 = 1000;

/// Maximum number of bytes of an event's name that an error text quotes.
const NAME_BYTES_MAX: usize = 128;
