//! What a run measured, for people and as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::BenchArgs;
use super::load::{Plan, Tally};
use super::usage::Used;
use crate::bench::{Limit, Share};

/// The report; its JSON has these fields under these names.
#[derive(Serialize)]
pub(super) struct Report {
    /// No error reply.
    ok: bool,
    target: String,
    command: Vec<String>,
    connections: u32,
    threads: u32,
    pipeline: u32,
    transaction: Option<u32>,
    seconds: f64,
    /// Each got one reply. MULTI and EXEC are among them.
    requests: u64,
    requests_per_second: f64,
    /// Of a batch: from its write to its last reply.
    latency_us: Latency,
    error_replies: u64,
    /// Their texts, the first few.
    errors: BTreeMap<String, u64>,
    load: Side,
    /// With --pid.
    server: Option<Server>,
    limit: Limit,
}

#[derive(Serialize)]
struct Latency {
    batches: u64,
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

/// CPU time of one side.
#[derive(Serialize)]
struct Side {
    cpu_seconds: f64,
    cpu_us_per_request: f64,
    /// Of its busiest thread.
    #[serde(flatten)]
    share: Share,
}

#[derive(Serialize)]
struct Server {
    pid: i32,
    #[serde(flatten)]
    side: Side,
}

impl Report {
    pub(super) fn new(args: &BenchArgs, plan: &Plan, tally: Tally, used: Option<Used>) -> Report {
        let Tally { replies, errors, latency_ns, elapsed, cpu, share } = tally;
        let server_share = used.as_ref().map(|used| used.share(elapsed));
        let us = |quantile: f64| to_us(latency_ns.value_at_quantile(quantile));
        let seconds = elapsed.as_secs_f64();
        Report {
            ok: errors.count == 0,
            target: plan.target.to_string(),
            command: args.command.clone(),
            connections: args.connections,
            threads: args.threads.min(args.connections),
            pipeline: args.pipeline,
            transaction: args.transaction,
            seconds,
            requests: replies,
            requests_per_second: ratio(to_f64(replies), seconds),
            latency_us: Latency {
                batches: latency_ns.len(),
                mean: latency_ns.mean() / 1000.0,
                p50: us(0.5),
                p90: us(0.9),
                p99: us(0.99),
                p999: us(0.999),
                max: to_us(latency_ns.max()),
            },
            error_replies: errors.count,
            errors: errors.texts.into_iter().collect(),
            load: Side::new(cpu, replies, share),
            server: used.map(|used| Server { pid: used.pid, side: Side::new(used.cpu, replies, used.share(elapsed)) }),
            limit: Limit::judge(share, server_share),
        }
    }

    pub(super) fn ok(&self) -> bool {
        self.ok
    }
}

impl Side {
    fn new(cpu: Duration, requests: u64, share: Share) -> Side {
        let cpu_seconds = cpu.as_secs_f64();
        Side { cpu_seconds, cpu_us_per_request: ratio(cpu_seconds * 1e6, to_f64(requests)), share }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let command = self.command.join(" ");
        let what = match self.transaction {
            None => command,
            Some(times) => format!("MULTI, {times} {command}, EXEC"),
        };
        let s = |n: u32| if n == 1 { "" } else { "s" };
        writeln!(
            f,
            "{}: {what}; {} connection{}, pipeline {}",
            self.target,
            self.connections,
            s(self.connections),
            self.pipeline
        )?;
        let rate = format!("{:.0}", self.requests_per_second);
        writeln!(
            f,
            "  requests   {} in {:.3} s: {} a second",
            grouped(&self.requests.to_string()),
            self.seconds,
            grouped(&rate)
        )?;
        let Latency { batches: _, mean: _, p50, p90, p99, p999, max } = &self.latency_us;
        writeln!(
            f,
            "  latency    p50 {p50:.0} µs, p90 {p90:.0} µs, p99 {p99:.0} µs, p99.9 {p999:.0} µs, max {max:.0} µs of a batch"
        )?;
        write_side(f, "load", &self.load, "")?;
        if let Some(server) = &self.server {
            write_side(f, "server", &server.side, &format!(" (pid {})", server.pid))?;
        }
        if self.error_replies > 0 {
            writeln!(f, "  errors     {} error replies", grouped(&self.error_replies.to_string()))?;
            for (text, count) in &self.errors {
                writeln!(f, "             {} times: {text}", grouped(&count.to_string()))?;
            }
        }
        writeln!(f, "  limit      {}", self.limit.sentence())
    }
}

fn write_side(f: &mut fmt::Formatter<'_>, name: &str, side: &Side, of: &str) -> fmt::Result {
    let Side { cpu_us_per_request, share, .. } = side;
    write!(f, "  {name:<10} {cpu_us_per_request:.3} µs of CPU a request, {:.0} % busy", share.busy * 100.0)?;
    if share.disturbed() {
        write!(f, ", {:.0} % waiting for a processor that something else had", share.waited * 100.0)?;
    }
    writeln!(f, "{of}")
}

/// Digits in groups of three.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn to_us(ns: u64) -> f64 {
    to_f64(ns) / 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "for people: 53 bits are more than they read")]
fn to_f64(number: u64) -> f64 {
    number as f64
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn groups_of_digits() {
        for (plain, expected) in [("0", "0"), ("999", "999"), ("1000", "1,000"), ("1234567", "1,234,567")] {
            assert_eq!(grouped(plain), expected);
        }
    }
}
