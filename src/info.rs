//! The text of INFO.
//!
//! Sections, fields and their order are Redis 7.2's where Redis has them, so that redis-cli --stat, exporters and
//! agents find what they look for. `generator` is getid's own. Fields of things that getid has not are left out,
//! except those that clients read on connect: `loading:0` (ioredis) and `role:master` (glide).

use std::fmt::{self, Write as _};
use std::sync::atomic::Ordering::Relaxed;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::clients::Endpoint;
use crate::clock::Clock;
use crate::command::REDIS_VERSION;
use crate::id::Tick;
use crate::metrics::Metrics;
use crate::server::Server;
use crate::session::Pause;
use crate::timestamp;

/// A section's name and what writes it.
type Section<C> = (&'static str, fn(&Server<C>, &mut Text));

fn sections<C: Clock>() -> [Section<C>; 10] {
    [
        ("Server", server),
        ("Clients", clients),
        ("Memory", memory),
        ("Persistence", persistence),
        ("Stats", stats),
        ("Replication", replication),
        ("CPU", cpu),
        ("Cluster", cluster),
        ("Keyspace", |_, _| {}),
        ("Generator", generator),
    ]
}

/// INFO with the sections named, in any letter case; all of them when none, or `default`, `all` or `everything`, is.
pub fn text<C: Clock>(of: &Server<C>, names: &[String]) -> String {
    let is = |name: &str, wanted: &str| name.eq_ignore_ascii_case(wanted);
    let all =
        names.is_empty() || names.iter().any(|name| is(name, "default") || is(name, "all") || is(name, "everything"));
    let mut out = Text(String::with_capacity(4096));
    for (title, write) in sections::<C>() {
        if all || names.iter().any(|name| is(name, title)) {
            if !out.0.is_empty() {
                out.0.push_str("\r\n");
            }
            // Writing to a String cannot fail.
            let _ = write!(out.0, "# {title}\r\n");
            write(of, &mut out);
        }
    }
    out.0
}

/// Lines of `name:value`.
struct Text(String);

impl Text {
    fn line(&mut self, name: &str, value: impl fmt::Display) {
        let _ = write!(self.0, "{name}:{value}\r\n");
    }
}

fn server<C: Clock>(of: &Server<C>, out: &mut Text) {
    let identity = of.issuer.identity();
    let layout = identity.layout;
    let uptime_s = of.metrics.uptime_s.load(Relaxed);
    let config = of.config.get();
    out.line("redis_version", REDIS_VERSION);
    out.line("getid_version", env!("CARGO_PKG_VERSION"));
    out.line("redis_mode", "standalone");
    out.line("os", os());
    out.line("arch_bits", usize::BITS);
    out.line("monotonic_clock", "POSIX clock_gettime");
    out.line("multiplexing_api", if cfg!(target_os = "linux") { "epoll" } else { "kqueue" });
    out.line("process_id", std::process::id());
    out.line("process_supervised", config.supervised.word());
    out.line("run_id", &of.process.run_id);
    out.line("tcp_port", of.process.tcp_port);
    out.line("server_time_usec", of.issuer.clock().wall_unix_us());
    out.line("uptime_in_seconds", uptime_s);
    out.line("uptime_in_days", uptime_s / 86_400);
    out.line("hz", config.hz);
    out.line("configured_hz", config.hz);
    out.line("executable", &of.process.executable);
    out.line("config_file", &of.process.config_file);
    out.line("io_threads_active", u8::from(config.io_threads > 1));
    // The fork's four lines.
    out.line("server_id", identity.server_id);
    out.line("id_range", layout.server_bits());
    out.line("shard_range", layout.shard_bits());
    out.line("random_range", layout.random_bits());
}

fn clients<C: Clock>(of: &Server<C>, out: &mut Text) {
    out.line("connected_clients", of.clients.len());
    out.line("cluster_connections", 0);
    out.line("maxclients", of.clients_max());
    out.line("blocked_clients", of.clients.waiting());
    let unix = of.clients.all().iter().filter(|client| matches!(client.peer, Endpoint::Unix(_))).count();
    out.line("unixsocket_clients", unix);
    out.line("clients_peak", of.metrics.clients_peak.load(Relaxed));
    paused(of, out);
}

/// Under the names that later versions of Redis have for them.
fn paused<C: Clock>(of: &Server<C>, out: &mut Text) {
    let pause = of.pauses.remaining();
    out.line("paused_reason", if pause.is_some() { "client_pause" } else { "none" });
    out.line(
        "paused_actions",
        match pause {
            None => "none",
            Some((Pause::Write, _)) => "write",
            Some((Pause::All, _)) => "all",
        },
    );
    out.line("paused_timeout_milliseconds", pause.map_or(0, |(_, left_ms)| left_ms));
}

fn memory<C: Clock>(of: &Server<C>, out: &mut Text) {
    let resident = note_memory(&of.metrics);
    let peak = of.metrics.memory_peak.load(Relaxed);
    // What the allocator holds is not told apart from what is resident.
    out.line("used_memory", resident);
    out.line("used_memory_human", Human(resident));
    out.line("used_memory_rss", resident);
    out.line("used_memory_rss_human", Human(resident));
    out.line("used_memory_peak", peak);
    out.line("used_memory_peak_human", Human(peak));
    out.line("maxmemory", 0);
    out.line("maxmemory_human", "0B");
    out.line("maxmemory_policy", "noeviction");
    out.line("mem_fragmentation_ratio", "1.00");
    out.line("mem_allocator", "libc");
}

fn persistence<C: Clock>(of: &Server<C>, out: &mut Text) {
    let status = of.issuer.status();
    out.line("loading", 0);
    out.line("async_loading", 0);
    out.line("rdb_last_save_time", status.last_save_unix_ms / 1000);
    out.line("rdb_last_bgsave_status", if status.last_save_ok { "ok" } else { "err" });
    out.line("aof_enabled", 0);
}

fn stats<C: Clock>(of: &Server<C>, out: &mut Text) {
    let metrics = &of.metrics;
    let work = metrics.work();
    out.line("total_connections_received", metrics.connections.load(Relaxed));
    out.line("total_commands_processed", work.requests);
    out.line("instantaneous_ops_per_sec", metrics.rate.per_s());
    out.line("total_net_input_bytes", work.input_bytes);
    out.line("total_net_output_bytes", work.output_bytes);
    out.line("rejected_connections", metrics.connections_rejected.load(Relaxed));
    out.line("total_reads_processed", work.reads);
    out.line("acl_access_denied_auth", metrics.acl_denied_logins.load(Relaxed));
    out.line("acl_access_denied_cmd", metrics.acl_denied_commands.load(Relaxed));
    // There are neither keys nor channels; exporters look for both.
    out.line("acl_access_denied_key", 0);
    out.line("acl_access_denied_channel", 0);
    out.line("protocol_error_connections", metrics.protocol_errors.load(Relaxed));
    out.line("client_query_buffer_limit_disconnections", metrics.input_limit_closed.load(Relaxed));
    out.line("client_output_buffer_limit_disconnections", metrics.output_limit_closed.load(Relaxed));
    out.line("client_output_timeout_disconnections", metrics.output_timeout_closed.load(Relaxed));
    out.line("cross_protocol_disconnections", metrics.http_closed.load(Relaxed));
    out.line("idle_closed_connections", metrics.idle_closed.load(Relaxed));
    out.line("accept_errors", metrics.accept_errors.load(Relaxed));
    let tls = of.tls.as_ref();
    out.line("tls_handshakes", tls.map_or(0, |tls| tls.handshakes()));
    out.line("tls_handshakes_failed", tls.map_or(0, |tls| tls.failures()));
    out.line("connection_panics", metrics.panics.load(Relaxed));
}

fn replication<C: Clock>(_: &Server<C>, out: &mut Text) {
    out.line("role", "master");
    out.line("connected_slaves", 0);
}

fn cpu<C: Clock>(_: &Server<C>, out: &mut Text) {
    for (who, suffix) in [(UsageWho::RUSAGE_SELF, ""), (UsageWho::RUSAGE_CHILDREN, "_children")] {
        if let Ok(usage) = getrusage(who) {
            out.line(&format!("used_cpu_sys{suffix}"), Seconds(usage.system_time()));
            out.line(&format!("used_cpu_user{suffix}"), Seconds(usage.user_time()));
        }
    }
}

fn cluster<C: Clock>(_: &Server<C>, out: &mut Text) {
    out.line("cluster_enabled", 0);
}

fn generator<C: Clock>(of: &Server<C>, out: &mut Text) {
    let status = of.issuer.status();
    let mint = &status.mint;
    let config = of.config.get();
    let layout = of.issuer.identity().layout;
    let time_of = |tick: Tick| timestamp::format_rfc3339(tick.unix_ms(layout.epoch()));
    out.line("id_epoch", layout.epoch().unix_ms());
    out.line("capacity_per_sec", layout.capacity_per_s());
    out.line("layout_ends", timestamp::format_rfc3339(layout.last_unix_ms()));
    out.line("ids_issued", mint.ids_issued);
    out.line("position", mint.position.0);
    out.line("position_time", time_of(mint.position));
    out.line("reference", mint.reference.0);
    out.line("reference_time", time_of(mint.reference));
    out.line("clock_offset_ms", mint.clock_offset_ms);
    out.line("clock_set_back", mint.rollbacks);
    out.line("clock_jumps", mint.jumps);
    out.line("clock_jump_held", u8::from(mint.holds_jump));
    out.line("refusing", mint.refusing.as_ref().map_or_else(|| "no".to_owned(), ToString::to_string));
    out.line("borrow_ms", mint.borrow_ms);
    out.line("borrow_ms_max", mint.highest_borrow_ms);
    out.line("borrow_limit_ms", config.id_max_borrow_ms);
    out.line("borrow_policy", config.id_borrow_policy.word());
    out.line("ids_per_sec", mint.asked_per_s);
    out.line("ids_per_sec_demanded", mint.demanded_per_s);
    out.line("draws_waiting", status.waiting);
    out.line("draws_waited", status.waits);
    out.line("draws_waited_ms", status.waited_ms);
    out.line("draws_refused", status.refusals);
    out.line("state", config.id_state.word());
    out.line("watermark", mint.watermark.0);
    out.line("watermark_time", time_of(mint.watermark));
    out.line("watermark_saves", status.saves);
    out.line("watermark_save_failures", status.save_failures);
    out.line("watermark_last_save_time", status.last_save_unix_ms / 1000);
    out.line("watermark_last_save_usec", status.last_save_us);
    out.line("watermark_last_save_status", if status.last_save_ok { "ok" } else { "err" });
    out.line("watermark_saving_ms", status.saving_ms);
}

/// Resident memory in bytes, 0 where the system does not say; keeps the peak.
pub fn note_memory(metrics: &Metrics) -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|statm| statm.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    let page_bytes = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    let resident = pages.unwrap_or(0) * page_bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(4096);
    metrics.memory_peak.fetch_max(resident, Relaxed);
    resident
}

fn os() -> String {
    nix::sys::utsname::uname().map_or_else(
        |_| std::env::consts::OS.to_owned(),
        |name| {
            format!(
                "{} {} {}",
                name.sysname().to_string_lossy(),
                name.release().to_string_lossy(),
                name.machine().to_string_lossy()
            )
        },
    )
}

/// Bytes as Redis writes them for people: `1.50M`.
struct Human(u64);

impl fmt::Display for Human {
    #[expect(clippy::cast_precision_loss, reason = "two decimals for people")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1024 => write!(f, "{}B", self.0),
            1024..1_048_576 => write!(f, "{:.2}K", bytes / 1024.0),
            1_048_576..1_073_741_824 => write!(f, "{:.2}M", bytes / 1_048_576.0),
            _ => write!(f, "{:.2}G", bytes / 1_073_741_824.0),
        }
    }
}

/// A time span as seconds with six decimals.
struct Seconds(TimeVal);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0.tv_sec(), self.0.tv_usec())
    }
}
