//! The findings of a run, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use getid_core::Number;

use super::load::RunResult;
use super::{EvennessVerdict, Findings, Judgement, Promises, ViolationKind, Violations};
use crate::paint::{bad, doubt, good};
use getid_text::plural::{counted, thousands};
use getid_text::printable::printable;
use getid_text::timestamp;

/// Options of a run, as the report shows them.
pub struct VerifyOptions {
    /// The command that was sent repeatedly.
    pub command: String,
    /// Number of connections to each server.
    pub connections: u32,
    /// Largest number of requests in flight on each connection.
    pub pipeline: u32,
    /// IDs of one MGETID; `None` for GETID.
    pub batch: Option<u32>,
    /// Whether all IDs must be larger than those of earlier runs.
    pub after: bool,
    /// Path of this run's record; `None` without one.
    pub record: Option<String>,
}

/// The report; its JSON has these fields under these names, and IDs as strings.
#[derive(Serialize)]
pub struct VerifyReport {
    #[serde(skip)]
    command: String,
    /// The generator's name; `None` for the unnamed one.
    #[serde(skip_serializing_if = "Option::is_none")]
    generator: Option<String>,
    ok: bool,
    /// Number of violations of all kinds.
    pub violations: u64,
    seconds: f64,
    ids: u64,
    ids_per_second: u64,
    requests: u64,
    connections: u32,
    pipeline: u32,
    /// IDs of one MGETID; `None` for GETID.
    batch: Option<u32>,
    latency_ms: VerifyLatency,
    servers: Vec<ServerReport>,
    error_replies: BTreeMap<String, u64>,
    disconnects: Vec<String>,
    /// Number of IDs in the files of `--against`.
    earlier_ids: u64,
    record: Option<String>,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct VerifyLatency {
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

#[derive(Serialize)]
struct ServerReport {
    server: String,
    /// Text with the server-id, or the number that distinguishes servers instead; `None` without any.
    #[serde(skip)]
    identity: Option<String>,
    server_id: Option<u64>,
    ids: u64,
    lowest: Option<String>,
    highest: Option<String>,
    lowest_time: Option<String>,
    highest_time: Option<String>,
    /// Largest time by which an ID lay ahead of its receipt.
    ahead_max_ms: Option<i64>,
    /// Largest time by which an ID lay behind its request.
    behind_max_ms: Option<i64>,
    evenness: Option<EvennessVerdict>,
    /// The server's report about its layout, if that is at its limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_limit: Option<String>,
}

#[derive(Serialize)]
struct Check {
    #[serde(rename = "check")]
    kind: ViolationKind,
    /// False for a check without data.
    made: bool,
    #[serde(flatten)]
    found: Violations,
}

impl VerifyReport {
    /// Returns the report of a run. The findings of its watches are added to those of `judged`.
    pub fn new(options: VerifyOptions, promises: &Promises, result: RunResult, judged: Judgement) -> VerifyReport {
        let ids = result.ids();
        let RunResult { servers, watches, elapsed, latency_us, requests, errors, disconnects, at_limit } = result;
        let Judgement { mut findings, servers: judged_servers, earlier_ids } = judged;
        let mut server_reports = Vec::new();
        let mut at_limit = at_limit.into_iter();
        for (server, judged) in servers.iter().zip(judged_servers) {
            let own = watches.iter().filter(|watch| std::sync::Arc::ptr_eq(&watch.server, server));
            let time = |id: Number| promises.unix_ms_of(id).map(|(first, _)| timestamp::format_rfc3339(first));
            let judged = judged.as_ref();
            server_reports.push(ServerReport {
                server: server.name.clone(),
                identity: promises.names_server().then(|| {
                    let id = server.server_id().map_or_else(|| "unknown".to_owned(), |id| id.to_string());
                    format!("{} {id}", promises.server_word())
                }),
                server_id: server.server_id(),
                ids: judged.map_or(0, |judged| judged.ids),
                lowest: judged.map(|judged| promises.text(judged.lowest)),
                highest: judged.map(|judged| promises.text(judged.highest)),
                lowest_time: judged.and_then(|judged| time(judged.lowest)),
                highest_time: judged.and_then(|judged| time(judged.highest)),
                ahead_max_ms: own.clone().filter_map(|watch| watch.ahead_max_ms).max(),
                behind_max_ms: own.filter_map(|watch| watch.behind_max_ms).max(),
                evenness: judged.map(|judged| judged.evenness.clone()),
                at_limit: at_limit.next().flatten(),
            });
        }
        for watch in watches {
            findings.absorb(watch.findings);
        }
        let even_judged = server_reports.iter().flat_map(|server| &server.evenness).any(|even| even.even.is_some());
        let checks = checks(&findings, promises, ids, options.after, even_judged);
        let seconds = elapsed.as_secs_f64();
        let ms = |quantile: f64| to_ms(latency_us.value_at_quantile(quantile));
        VerifyReport {
            command: options.command,
            generator: promises.generator().map(str::to_owned),
            ok: findings.count() == 0,
            violations: findings.count(),
            seconds,
            ids,
            ids_per_second: per_second(ids, seconds),
            requests,
            connections: options.connections,
            pipeline: options.pipeline,
            batch: options.batch,
            latency_ms: VerifyLatency {
                p50: ms(0.5),
                p90: ms(0.9),
                p99: ms(0.99),
                p999: ms(0.999),
                max: to_ms(latency_us.max()),
            },
            servers: server_reports,
            error_replies: errors.texts.into_iter().collect(),
            disconnects,
            earlier_ids,
            record: options.record,
            checks,
        }
    }
}

fn checks(findings: &Findings, promises: &Promises, ids: u64, after: bool, even_judged: bool) -> Vec<Check> {
    let check = |kind: ViolationKind| {
        let made = match kind {
            ViolationKind::AfterEarlier => after,
            ViolationKind::Evenness => even_judged,
            ViolationKind::Reply => true,
            ViolationKind::ConnectionOrder | ViolationKind::RealTimeOrder => ids > 0 && promises.ordered(),
            ViolationKind::ServerId => ids > 0 && promises.names_server(),
            ViolationKind::Clock => ids > 0 && promises.has_time(),
            ViolationKind::Duplicate => ids > 0,
        };
        Check { kind, made, found: findings.of(kind).clone() }
    };
    ViolationKind::ALL.into_iter().map(check).collect()
}

/// Largest number of disconnects in the text; the JSON has all of them.
const DISCONNECTS_SHOWN_MAX: usize = 5;

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let VerifyReport { command, seconds, ids, requests, latency_ms, connections, pipeline, .. } = self;
        let VerifyLatency { p50, p90, p99, p999, max } = latency_ms;
        writeln!(
            f,
            "{command} over {} to {}, {pipeline} in flight, {seconds:.1} s",
            counted((*connections).into(), "connection"),
            match self.servers.len() {
                1 => "1 server".to_owned(),
                servers => format!("each of {servers} servers"),
            }
        )?;
        writeln!(f, "ids         {} ({} a second)", thousands(*ids), thousands(self.ids_per_second))?;
        writeln!(f, "requests    {}", thousands(*requests))?;
        writeln!(f, "latency ms  p50 {p50:.3}  p90 {p90:.3}  p99 {p99:.3}  p99.9 {p999:.3}  max {max:.3}")?;
        for server in &self.servers {
            write!(f, "\n{server}")?;
        }
        for (text, count) in &self.error_replies {
            let replies = if *count == 1 { "reply" } else { "replies" };
            writeln!(f, "\n{} error {replies}: {}", thousands(*count), printable(text))?;
        }
        if !self.disconnects.is_empty() {
            writeln!(f, "\n{} broke", counted(self.disconnects.len() as u64, "connection"))?;
            for text in self.disconnects.iter().take(DISCONNECTS_SHOWN_MAX) {
                writeln!(f, "  {}", printable(text))?;
            }
        }
        if self.earlier_ids > 0 {
            writeln!(f, "\nearlier     {}", counted(self.earlier_ids, "id"))?;
        }
        if let Some(path) = &self.record {
            writeln!(f, "\nrecorded in {path}")?;
        }
        writeln!(f)?;
        for Check { kind, made, found } in &self.checks {
            let verdict = match (found.count, made) {
                (0, true) => good("ok").to_string(),
                (0, false) => doubt("not judged").to_string(),
                (count, _) => bad(format!("VIOLATED {}", counted(count, "time"))).to_string(),
            };
            writeln!(f, "{:<35} {verdict}", kind.title())?;
            for example in &found.examples {
                writeln!(f, "    {}", printable(example))?;
            }
        }
        match (self.violations, self.ids) {
            (0, 0) => writeln!(f, "\n{}", bad("no ID was received: nothing was verified")),
            (0, _) => writeln!(f, "\n{}", good("no violation")),
            (count, _) => writeln!(f, "\n{}", bad(counted(count, "violation"))),
        }
    }
}

impl fmt::Display for ServerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let identity = self.identity.as_ref().map_or_else(String::new, |identity| format!(", {identity}"));
        writeln!(f, "{}{identity}: {}", self.server, counted(self.ids, "id"))?;
        if self.ids == 0 {
            return Ok(());
        }
        writeln!(f, "  lowest    {}  {}", text(&self.lowest), text(&self.lowest_time))?;
        writeln!(f, "  highest   {}  {}", text(&self.highest), text(&self.highest_time))?;
        if let (Some(ahead), Some(behind)) = (self.ahead_max_ms, self.behind_max_ms) {
            writeln!(f, "  clock     ahead of it by up to {} ms, behind by up to {} ms", ahead.max(0), behind.max(0))?;
        }
        if let Some(evenness) = &self.evenness {
            writeln!(f, "  evenness  {evenness}")?;
        }
        if let Some(report) = &self.at_limit {
            writeln!(f, "  limit     its layout is at its limit: {}", printable(report))?;
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 µs")]
fn to_ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate for people; both are positive"
)]
fn per_second(count: u64, seconds: f64) -> u64 {
    if seconds > 0.0 { (count as f64 / seconds) as u64 } else { 0 }
}
