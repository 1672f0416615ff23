//! The result of a run, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::load::{BenchPlan, BenchTally};
use super::usage::ServerCpuTime;
use super::{CurveMark, CurvePoint, Limit, Share};
use crate::paint::bad;
use getid_text::plural::{counted, thousands};
use getid_text::printable::printable;

/// The options of a run, except for the command.
#[derive(Clone, Copy, Serialize)]
pub struct BenchOptions {
    /// Number of connections, over all threads.
    pub connections: u32,
    /// Number of threads of the load generator.
    pub threads: u32,
    /// Number of commands or transactions in flight on each connection.
    pub pipeline: u32,
    /// Number of commands in a transaction; `None` if commands are sent alone.
    pub transaction: Option<u32>,
}

/// The report; its JSON has these fields under these names.
#[derive(Serialize)]
pub struct BenchReport {
    /// Whether there was no error reply.
    ok: bool,
    target: String,
    command: Vec<String>,
    #[serde(flatten)]
    options: BenchOptions,
    seconds: f64,
    /// Number of requests, each of which got one reply. MULTI and EXEC are among them.
    requests: u64,
    requests_per_second: f64,
    /// Number of IDs in the replies to GETID or MGETID; `None` for other commands.
    ids: Option<u64>,
    ids_per_second: Option<f64>,
    /// Latency of a batch, from its write to its last reply, µs.
    latency_us: BenchLatency,
    error_replies: u64,
    /// Counts of the first few error texts.
    errors: BTreeMap<String, u64>,
    load: CpuUsage,
    server: Option<ServerCpuUsage>,
    limit: Limit,
    /// The server's report about its layout, if that was the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_limit: Option<String>,
}

#[derive(Serialize)]
struct BenchLatency {
    batches: u64,
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

#[derive(Serialize)]
struct CpuUsage {
    cpu_seconds: f64,
    cpu_us_per_request: f64,
    /// The time of its busiest thread.
    #[serde(flatten)]
    share: Share,
}

#[derive(Serialize)]
struct ServerCpuUsage {
    pid: i32,
    #[serde(flatten)]
    side: CpuUsage,
}

impl BenchReport {
    /// Makes the report. `at_limit` is the server's report about its layout, if that was at its limit.
    pub fn new(
        options: BenchOptions,
        plan: &BenchPlan,
        command: Vec<String>,
        tally: BenchTally,
        server_cpu: Option<ServerCpuTime>,
        at_limit: Option<String>,
    ) -> BenchReport {
        let BenchTally { replies, values, errors, latency_ns, elapsed, cpu, share } = tally;
        let draws_ids =
            command.first().is_some_and(|word| ["GETID", "MGETID"].iter().any(|name| word.eq_ignore_ascii_case(name)));
        let ids = draws_ids.then_some(values);
        let server_share = server_cpu.as_ref().map(|server_cpu| server_cpu.share(elapsed));
        let us = |quantile: f64| to_us(latency_ns.value_at_quantile(quantile));
        let seconds = elapsed.as_secs_f64();
        BenchReport {
            ok: errors.count == 0,
            target: plan.endpoint.to_string(),
            command,
            options,
            seconds,
            requests: replies,
            requests_per_second: ratio(to_f64(replies), seconds),
            ids,
            ids_per_second: ids.map(|ids| ratio(to_f64(ids), seconds)),
            latency_us: BenchLatency {
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
            load: CpuUsage::new(cpu, replies, share),
            server: server_cpu.map(|server_cpu| ServerCpuUsage {
                pid: server_cpu.pid,
                side: CpuUsage::new(server_cpu.cpu, replies, server_cpu.share(elapsed)),
            }),
            limit: if at_limit.is_some() { Limit::Layout } else { Limit::judge(share, server_share) },
            at_limit,
        }
    }

    /// Whether there was no error reply.
    pub fn is_ok(&self) -> bool {
        self.ok
    }

    fn command_text(&self) -> String {
        let command = printable(&self.command.join(" ")).into_owned();
        match self.options.transaction {
            None => command,
            Some(times) => format!("MULTI, {times} {command}, EXEC"),
        }
    }

    /// Returns the picture's title: the command and its rate.
    pub fn title(&self) -> String {
        format!("{}: {} requests a second", self.command_text(), rate(self.requests_per_second))
    }

    /// Returns the marks of the latency curve: p50, p99, p99.9 and the maximum.
    pub fn marks(&self) -> [CurveMark; 4] {
        let BenchLatency { batches, p50, p99, p999, max, .. } = self.latency_us;
        let mark = |name, quantile, latency_us| (name, CurvePoint { quantile, latency_us, batches });
        [mark("p50", 0.5, p50), mark("p99", 0.99, p99), mark("p99.9", 0.999, p999), mark("max", 1.0, max)]
    }

    /// Returns the picture's subtitle: connections, pipeline, duration and server.
    pub fn subtitle(&self) -> String {
        let connections = counted(self.options.connections.into(), "connection");
        format!("{connections}, pipeline {}, {:.1} s, {}", self.options.pipeline, self.seconds, self.target)
    }
}

/// Returns the latency curve, with enough points for a picture.
pub fn curve(latency_ns: &Histogram<u64>) -> Vec<CurvePoint> {
    let mut batches = 0;
    let mut points = Vec::new();
    for step in latency_ns.iter_quantiles(POINTS_A_HALVING) {
        batches += step.count_since_last_iteration();
        points.push(CurvePoint { quantile: step.quantile(), latency_us: to_us(step.value_iterated_to()), batches });
    }
    points
}

/// Points of the curve for each halving of the remaining batches.
const POINTS_A_HALVING: u32 = 10;

impl CpuUsage {
    fn new(cpu: Duration, requests: u64, share: Share) -> CpuUsage {
        let cpu_seconds = cpu.as_secs_f64();
        CpuUsage { cpu_seconds, cpu_us_per_request: ratio(cpu_seconds * 1e6, to_f64(requests)), share }
    }
}

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = counted(self.options.connections.into(), "connection");
        writeln!(f, "{}: {}; {connections}, pipeline {}", self.target, self.command_text(), self.options.pipeline)?;
        let (requests, per_second) = (thousands(self.requests), rate(self.requests_per_second));
        writeln!(f, "  requests   {requests} in {:.3} s: {per_second} a second", self.seconds)?;
        if let (Some(ids), Some(ids_per_second)) = (self.ids, self.ids_per_second) {
            writeln!(f, "  ids        {}: {} a second", thousands(ids), rate(ids_per_second))?;
        }
        let BenchLatency { batches: _, mean: _, p50, p90, p99, p999, max } = &self.latency_us;
        writeln!(
            f,
            "  latency    p50 {p50:.0} µs, p90 {p90:.0} µs, p99 {p99:.0} µs, p99.9 {p999:.0} µs, max {max:.0} µs of a batch"
        )?;
        write_cpu_usage(f, "load", &self.load, "")?;
        if let Some(server) = &self.server {
            write_cpu_usage(f, "server", &server.side, &format!(" (pid {})", server.pid))?;
        }
        if self.error_replies > 0 {
            let replies = if self.error_replies == 1 { "reply" } else { "replies" };
            writeln!(f, "  errors     {}", bad(format!("{} error {replies}", thousands(self.error_replies))))?;
            for (text, &count) in &self.errors {
                writeln!(f, "             {}: {}", counted(count, "time"), printable(text))?;
            }
        }
        write!(f, "  limit      {}", self.limit.sentence())?;
        match &self.at_limit {
            Some(report) => writeln!(f, ", which is at its limit: {}", printable(report)),
            None => writeln!(f),
        }
    }
}

fn write_cpu_usage(f: &mut fmt::Formatter<'_>, name: &str, side: &CpuUsage, of: &str) -> fmt::Result {
    let CpuUsage { cpu_us_per_request, share, .. } = side;
    write!(f, "  {name:<10} {cpu_us_per_request:.3} µs of CPU a request, {:.0} % busy", share.busy * 100.0)?;
    if share.is_disturbed() {
        write!(f, ", {:.0} % waiting for a processor that something else had", share.waited * 100.0)?;
    }
    writeln!(f, "{of}")
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are positive and far below 2^53")]
fn rate(per_second: f64) -> String {
    thousands(per_second.round() as u64)
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
