//! SLOWLOG, LATENCY, MEMORY and MONITOR, as far as a session goes: their arguments, and answers that never change.

use super::client::{Client, NOT_AN_INTEGER, OK, SYNTAX, arg};
use super::clients::wrong_number;
use super::effect::{Effect, LatencyAsk, MemoryAsk, SlowLogAsk};
use super::turn::Turn;
use crate::command::Verb;
use crate::resp::{Args, Value, parse_integer};

/// What `SLOWLOG GET` shows when nobody says how many.
const SLOWLOG_ENTRIES: usize = 10;

impl Client {
    pub(super) fn diagnose(&mut self, verb: Verb, args: Args<'_>, turn: &mut Turn) {
        let names = || args.iter().skip(2).map(<[u8]>::to_vec).collect();
        turn.effect = Some(match verb {
            Verb::SlowLogGet => match slowlog_count(args) {
                Ok(count_max) => Effect::SlowLog(SlowLogAsk::Get { count_max }),
                Err(error) => return turn.push_error(error),
            },
            Verb::SlowLogLen => Effect::SlowLog(SlowLogAsk::Len),
            Verb::SlowLogReset => Effect::SlowLog(SlowLogAsk::Reset),
            Verb::LatencyDoctor => Effect::Latency(LatencyAsk::Doctor),
            Verb::LatencyGraph => Effect::Latency(LatencyAsk::Graph(arg(args, 2).to_vec())),
            Verb::LatencyHistogram => Effect::Latency(LatencyAsk::Histogram(names())),
            Verb::LatencyHistory => Effect::Latency(LatencyAsk::History(arg(args, 2).to_vec())),
            Verb::LatencyLatest => Effect::Latency(LatencyAsk::Latest),
            Verb::LatencyReset => Effect::Latency(LatencyAsk::Reset(names())),
            Verb::MemoryDoctor => Effect::Memory(MemoryAsk::Doctor),
            Verb::MemoryStats => Effect::Memory(MemoryAsk::Stats),
            Verb::MemoryMallocStats => {
                let text = Value::text("Stats not supported for the current allocator");
                return turn.push_value(&text, self.view.protocol);
            }
            // Memory that is free goes back to the system by itself.
            Verb::MemoryPurge => return turn.push(OK),
            Verb::MemoryUsage => {
                return match check_memory_usage(args) {
                    // There is no key.
                    Ok(()) => turn.push_value(&Value::Null, self.view.protocol),
                    Err(error) => turn.push_error(error),
                };
            }
            // Inside of EXEC its lines would come between the replies.
            _ if self.view.queued.is_some() => {
                return turn.push_error("ERR MONITOR isn't allowed for DENY BLOCKING client");
            }
            // Redis does not answer either.
            _ if self.view.monitors => return,
            _ => {
                self.view.monitors = true;
                Effect::Monitor
            }
        });
    }
}

/// `SLOWLOG GET [count]`; `None`: all.
fn slowlog_count(args: Args<'_>) -> Result<Option<usize>, Vec<u8>> {
    match args.get(2) {
        None => Ok(Some(SLOWLOG_ENTRIES)),
        Some(_) if args.len() > 3 => Err(wrong_number("SLOWLOG", args)),
        Some(count) => match parse_integer(count) {
            Some(-1) => Ok(None),
            Some(count @ 0..) => Ok(Some(usize::try_from(count).unwrap_or(usize::MAX))),
            _ => Err(b"ERR count should be greater than or equal to -1".to_vec()),
        },
    }
}

/// `MEMORY USAGE key [SAMPLES count]`
fn check_memory_usage(args: Args<'_>) -> Result<(), &'static str> {
    let mut at = 3;
    while let Some(option) = args.get(at) {
        match args.get(at + 1) {
            Some(count) if option.eq_ignore_ascii_case(b"samples") => match parse_integer(count) {
                Some(0..) => at += 2,
                Some(_) => return Err(SYNTAX),
                None => return Err(NOT_AN_INTEGER),
            },
            _ => return Err(SYNTAX),
        }
    }
    Ok(())
}
