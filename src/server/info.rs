//! The text of INFO.
//!
//! Sections, fields and their order are Redis 7.2's where Redis has them, so that redis-cli --stat, exporters and
//! agents find what they look for. `generator` is getid's own.
//!
//! Fields of things that getid has not are left out, unless something that is used with many a Redis reads them and would
//! complain, or lack a graph, without: clients on connect (`loading:0` for ioredis, `role:master` for glide),
//! prometheus-redis-exporter and its dashboards, the templates of Zabbix and the modules of Datadog, Telegraf and
//! Metricbeat. Those stand in `CONSTANT` with what Redis says when there is no data.

use std::fmt::{self, Write as _};
use std::sync::atomic::Ordering::Relaxed;

use getid_core::Tick;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};

use crate::command::{self, REDIS_VERSION};
use crate::metrics::{CommandTotals, Counter, Metrics};
use crate::server::Server;
use crate::server::registry::Endpoint;
use crate::session::Pause;
use crate::system::clock::Clock as _;
use crate::text::timestamp;

/// A section: its name, whether it is one of the default ones, and what writes it.
type Section = (&'static str, bool, fn(&Server, &mut Text));

fn sections() -> [Section; 14] {
    [
        ("Server", true, server),
        ("Clients", true, clients),
        ("Memory", true, memory),
        ("Persistence", true, persistence),
        ("Stats", true, stats),
        ("Replication", true, |_, _| {}),
        ("CPU", true, cpu),
        ("Modules", true, |_, _| {}),
        ("Commandstats", false, commandstats),
        ("Errorstats", true, errorstats),
        ("Latencystats", false, latencystats),
        ("Cluster", true, |_, _| {}),
        ("Keyspace", true, |_, _| {}),
        ("Generator", true, generator),
    ]
}

/// INFO with the sections named, in any letter case: the default ones when none or `default` is, every one with `all` or
/// `everything`.
pub fn text(of: &Server, names: &[String]) -> String {
    let asked = |name: &str| names.iter().any(|asked| asked.eq_ignore_ascii_case(name));
    let all = asked("all") || asked("everything");
    let default = names.is_empty() || asked("default");
    let mut out = Text(String::with_capacity(8192));
    for (title, is_default, write) in sections() {
        if all || (default && is_default) || asked(title) {
            if !out.0.is_empty() {
                out.0.push_str("\r\n");
            }
            // Writing to a String cannot fail.
            let _ = write!(out.0, "# {title}\r\n");
            write(of, &mut out);
            for (section, name, value) in CONSTANT {
                if *section == title {
                    out.line(name, value);
                }
            }
        }
    }
    out.0
}

/// Section, name and value of what never changes here and is read all the same.
const CONSTANT: &[(&str, &str, &str)] = &[
    ("Clients", "tracking_clients", "0"),
    ("Clients", "clients_in_timeout_table", "0"),
    ("Memory", "used_memory_lua", "0"),
    ("Memory", "number_of_cached_scripts", "0"),
    ("Memory", "maxmemory", "0"),
    ("Memory", "maxmemory_human", "0B"),
    ("Memory", "maxmemory_policy", "noeviction"),
    // What the allocator holds is not told apart from what is resident, so there is nothing between them.
    ("Memory", "allocator_frag_ratio", "1.00"),
    ("Memory", "allocator_frag_bytes", "0"),
    ("Memory", "allocator_rss_ratio", "1.00"),
    ("Memory", "allocator_rss_bytes", "0"),
    ("Memory", "rss_overhead_ratio", "1.00"),
    ("Memory", "rss_overhead_bytes", "0"),
    ("Memory", "mem_fragmentation_ratio", "1.00"),
    ("Memory", "mem_fragmentation_bytes", "0"),
    ("Memory", "mem_not_counted_for_evict", "0"),
    ("Memory", "mem_replication_backlog", "0"),
    ("Memory", "mem_clients_slaves", "0"),
    ("Memory", "mem_aof_buffer", "0"),
    ("Memory", "mem_allocator", "libc"),
    ("Memory", "active_defrag_running", "0"),
    ("Memory", "lazyfree_pending_objects", "0"),
    ("Persistence", "rdb_changes_since_last_save", "0"),
    ("Persistence", "rdb_bgsave_in_progress", "0"),
    ("Persistence", "rdb_current_bgsave_time_sec", "-1"),
    ("Persistence", "rdb_last_cow_size", "0"),
    ("Persistence", "aof_enabled", "0"),
    ("Persistence", "aof_rewrite_in_progress", "0"),
    ("Persistence", "aof_rewrite_scheduled", "0"),
    ("Persistence", "aof_last_rewrite_time_sec", "-1"),
    ("Persistence", "aof_current_rewrite_time_sec", "-1"),
    ("Persistence", "aof_last_bgrewrite_status", "ok"),
    ("Persistence", "aof_last_write_status", "ok"),
    ("Persistence", "aof_last_cow_size", "0"),
    ("Stats", "sync_full", "0"),
    ("Stats", "sync_partial_ok", "0"),
    ("Stats", "sync_partial_err", "0"),
    ("Stats", "expired_keys", "0"),
    ("Stats", "expired_stale_perc", "0.00"),
    ("Stats", "expired_time_cap_reached_count", "0"),
    ("Stats", "evicted_keys", "0"),
    ("Stats", "keyspace_hits", "0"),
    ("Stats", "keyspace_misses", "0"),
    ("Stats", "pubsub_channels", "0"),
    ("Stats", "pubsub_patterns", "0"),
    ("Stats", "latest_fork_usec", "0"),
    ("Stats", "migrate_cached_sockets", "0"),
    ("Stats", "slave_expires_tracked_keys", "0"),
    ("Stats", "active_defrag_hits", "0"),
    ("Stats", "active_defrag_misses", "0"),
    ("Stats", "active_defrag_key_hits", "0"),
    ("Stats", "active_defrag_key_misses", "0"),
    // Every error reply is one that a command or the protocol gives on purpose.
    ("Stats", "unexpected_error_replies", "0"),
    ("Replication", "role", "master"),
    ("Replication", "connected_slaves", "0"),
    ("Replication", "master_failover_state", "no-failover"),
    ("Replication", "master_repl_offset", "0"),
    ("Replication", "second_repl_offset", "-1"),
    ("Replication", "repl_backlog_active", "0"),
    ("Replication", "repl_backlog_size", "0"),
    ("Replication", "repl_backlog_first_byte_offset", "0"),
    ("Replication", "repl_backlog_histlen", "0"),
    ("Cluster", "cluster_enabled", "0"),
];

/// Lines of `name:value`.
struct Text(String);

impl Text {
    fn line(&mut self, name: &str, value: impl fmt::Display) {
        let _ = write!(self.0, "{name}:{value}\r\n");
    }
}

fn server(of: &Server, out: &mut Text) {
    let identity = of.issuer().identity();
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
    out.line("server_time_usec", of.issuer().clock().wall_unix_us());
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

fn clients(of: &Server, out: &mut Text) {
    let clients = of.clients.all();
    out.line("connected_clients", clients.len());
    out.line("cluster_connections", 0);
    out.line("maxclients", of.clients_max());
    // Of those that are connected now; Redis keeps a few seconds.
    out.line("client_recent_max_input_buffer", clients.iter().map(|client| client.input_bytes()).max().unwrap_or(0));
    out.line("client_recent_max_output_buffer", clients.iter().map(|client| client.output_bytes()).max().unwrap_or(0));
    // What clients' buffers take while they wait, which maxmemory-clients bounds.
    out.line("client_buffers_bytes", of.clients.held_bytes());
    out.line("maxmemory_clients", of.clients.held_bytes_max().unwrap_or(0));
    out.line("blocked_clients", of.clients.waiting());
    let unix = clients.iter().filter(|client| matches!(client.peer, Endpoint::Unix(_))).count();
    out.line("unixsocket_clients", unix);
    out.line("clients_peak", of.metrics.clients_peak.load(Relaxed));
    out.line("monitors", of.monitors.count());
    out.line("monitors_dropped", of.monitors.dropped());
    paused(of, out);
}

/// Under the names that later versions of Redis have for them.
fn paused(of: &Server, out: &mut Text) {
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

fn memory(of: &Server, out: &mut Text) {
    let resident = note_memory(&of.metrics);
    let peak = of.metrics.memory_peak.load(Relaxed);
    let startup = of.memory_startup.load(Relaxed);
    out.line("used_memory", resident);
    out.line("used_memory_human", Human(resident));
    out.line("used_memory_rss", resident);
    out.line("used_memory_rss_human", Human(resident));
    out.line("used_memory_peak", peak);
    out.line("used_memory_peak_human", Human(peak));
    out.line("used_memory_peak_perc", Percent(resident, peak));
    // There is no data: whatever is not the program itself is clients.
    out.line("used_memory_overhead", resident);
    out.line("used_memory_startup", startup);
    out.line("used_memory_dataset", 0);
    out.line("used_memory_dataset_perc", Percent(0, 1));
    out.line("allocator_allocated", resident);
    out.line("allocator_active", resident);
    out.line("allocator_resident", resident);
    if let Some(total) = system_memory() {
        out.line("total_system_memory", total);
        out.line("total_system_memory_human", Human(total));
    }
    out.line("mem_clients_normal", resident.saturating_sub(startup));
}

fn persistence(of: &Server, out: &mut Text) {
    let status = of.issuer().status();
    out.line("loading", 0);
    out.line("async_loading", 0);
    out.line("rdb_last_save_time", status.last_save_unix_ms / 1000);
    out.line("rdb_last_bgsave_status", if status.last_save_ok { "ok" } else { "err" });
    out.line("rdb_last_bgsave_time_sec", status.last_save_us / 1_000_000);
    out.line("rdb_saves", status.saves);
}

fn stats(of: &Server, out: &mut Text) {
    let metrics = &of.metrics;
    let work = metrics.work();
    let is_threaded = of.config.get().io_threads > 1;
    out.line("total_connections_received", metrics.counted(Counter::Connections));
    out.line("total_commands_processed", work.requests);
    out.line("instantaneous_ops_per_sec", metrics.rate.per_s());
    out.line("total_net_input_bytes", work.input_bytes);
    out.line("total_net_output_bytes", work.output_bytes);
    out.line("instantaneous_input_kbps", Kilobytes(metrics.input_rate.per_s()));
    out.line("instantaneous_output_kbps", Kilobytes(metrics.output_rate.per_s()));
    out.line("rejected_connections", metrics.counted(Counter::ConnectionsRejected));
    out.line("total_error_replies", metrics.errors().iter().map(|(_, count)| count).sum::<u64>());
    out.line("total_reads_processed", work.reads);
    out.line("total_writes_processed", work.writes);
    // With more threads than one, each serves its connections whole.
    out.line("io_threaded_reads_processed", if is_threaded { work.reads } else { 0 });
    out.line("io_threaded_writes_processed", if is_threaded { work.writes } else { 0 });
    out.line("acl_access_denied_auth", metrics.counted(Counter::DeniedLogins));
    out.line("acl_access_denied_cmd", metrics.counted(Counter::DeniedCommands));
    // There are neither keys nor channels; exporters look for both.
    out.line("acl_access_denied_key", 0);
    out.line("acl_access_denied_channel", 0);
    out.line("protocol_error_connections", metrics.counted(Counter::ProtocolErrors));
    out.line("client_query_buffer_limit_disconnections", metrics.counted(Counter::InputLimitClosed));
    out.line("client_output_buffer_limit_disconnections", metrics.counted(Counter::OutputLimitClosed));
    out.line("client_output_timeout_disconnections", metrics.counted(Counter::OutputTimeoutClosed));
    out.line("cross_protocol_disconnections", metrics.counted(Counter::HttpClosed));
    out.line("evicted_clients", metrics.counted(Counter::Evicted));
    out.line("auth_timeout_disconnections", metrics.counted(Counter::AuthTimeoutClosed));
    out.line("idle_closed_connections", metrics.counted(Counter::IdleClosed));
    out.line("accept_errors", metrics.counted(Counter::AcceptErrors));
    let tls = of.tls.as_ref();
    out.line("tls_handshakes", tls.map_or(0, |tls| tls.handshakes()));
    out.line("tls_handshakes_failed", tls.map_or(0, |tls| tls.failures()));
    out.line("tls_handshakes_resumed", tls.map_or(0, |tls| tls.resumed()));
    out.line("tls_handshakes_evicted", metrics.counted(Counter::HandshakesEvicted));
    out.line("tls_handshakes_under_way", of.handshakes.count());
    // Unix seconds, and days from now, negative once it is past.
    if let Some(ends_s) = tls.and_then(|tls| tls.ends_s()) {
        out.line("tls_certificate_ends", ends_s);
        let left_s = ends_s - of.issuer().clock().wall_unix_ms() / 1000;
        out.line("tls_certificate_days_left", left_s.div_euclid(24 * 3600));
    }
    out.line("connection_panics", metrics.counted(Counter::Panics));
    out.line("log_lines_dropped", of.log.dropped());
}

fn cpu(of: &Server, out: &mut Text) {
    for (who, suffix) in [(UsageWho::RUSAGE_SELF, ""), (UsageWho::RUSAGE_CHILDREN, "_children")] {
        if let Ok(usage) = getrusage(who) {
            out.line(&format!("used_cpu_sys{suffix}"), Seconds(usage.system_time()));
            out.line(&format!("used_cpu_user{suffix}"), Seconds(usage.user_time()));
        }
    }
    // As of the last second.
    for (name, us) in ["sys", "user"].into_iter().zip(&of.metrics.main_cpu_us) {
        let time = TimeVal::microseconds(us.load(Relaxed).try_into().unwrap_or(i64::MAX));
        out.line(&format!("used_cpu_{name}_main_thread"), Seconds(time));
    }
}

fn commandstats(of: &Server, out: &mut Text) {
    for command in command::rows() {
        let Some(totals) = of.metrics.command(command.verb) else { continue };
        let CommandTotals { calls, failed, rejected, ns, .. } = totals;
        let us = ns / 1000;
        // In hundredths, from the exact time: many an ID takes less than a microsecond.
        let per_call = (u128::from(ns) + 5 * u128::from(calls)) / (10 * u128::from(calls.max(1)));
        let (whole, hundredths) = (per_call / 100, per_call % 100);
        out.line(
            &format!("cmdstat_{}", command.full_name),
            format_args!(
                "calls={calls},usec={us},usec_per_call={whole}.{hundredths:02},rejected_calls={rejected},\
                 failed_calls={failed}"
            ),
        );
    }
}

fn errorstats(of: &Server, out: &mut Text) {
    for (code, count) in of.metrics.errors() {
        out.line(&format!("errorstat_{}", code.word()), format_args!("count={count}"));
    }
}

fn latencystats(of: &Server, out: &mut Text) {
    for command in command::rows() {
        let Some(totals) = of.metrics.command(command.verb).filter(|totals| totals.calls > 0) else { continue };
        let at = |per_mille| Micros(totals.histogram.percentile_ns(per_mille));
        out.line(
            &format!("latency_percentiles_usec_{}", command.full_name),
            format_args!("p50={},p99={},p99.9={}", at(500), at(990), at(999)),
        );
    }
}

fn generator(of: &Server, out: &mut Text) {
    let status = of.issuer().status();
    let mint = &status.mint;
    let config = of.config.get();
    let layout = of.issuer().identity().layout;
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
    out.line("refusing", status.refusing.as_ref().map_or_else(|| "no".to_owned(), ToString::to_string));
    out.line("borrow_ms", mint.borrow_ms);
    out.line("borrow_ms_max", mint.highest_borrow_ms);
    out.line("borrow_limit_ms", config.id_max_borrow_ms);
    out.line("borrow_policy", config.id_borrow_policy.word());
    out.line("ids_per_sec", status.asked_per_s);
    out.line("ids_per_sec_demanded", status.demanded_per_s);
    out.line("draws_waiting", status.waiting);
    out.line("ids_waiting", status.waiting_ids);
    out.line("wait_ms", status.wait_ms);
    out.line("wait_limit_ms", config.id_max_wait_ms);
    out.line("draws_waited", status.waits);
    out.line("draws_waited_ms", status.waited_ms);
    out.line("draws_refused", status.refusals);
    out.line("state", config.id_state.word());
    out.line("state_dir", config.state_dir.display());
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

/// The memory in bytes that this process may take: the machine's, or its control group's if that is less; `None` where the
/// system does not say.
pub fn memory_limit() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // Version 2 has one line, "0::/path"; inside of a container that path may be seen as the root.
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default().to_owned();
    let own = if own.is_empty() { None } else { read(&format!("/sys/fs/cgroup/{own}/memory.max")) };
    let root = read("/sys/fs/cgroup/memory.max").or_else(|| read("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
    [system_memory(), own, root].into_iter().flatten().min()
}

/// The machine's memory in bytes, where the system says it.
fn system_memory() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(kilobytes.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

/// Keeps the CPU time of the calling thread as that of the main thread, where the system tells it.
pub fn note_main_cpu(metrics: &Metrics) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) {
        for (place, time) in metrics.main_cpu_us.iter().zip([usage.system_time(), usage.user_time()]) {
            place.store(u64::try_from(time.num_microseconds()).unwrap_or(0), Relaxed);
        }
    }
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

/// Nanoseconds as microseconds with three decimals.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Bytes as kilobytes with two decimals.
struct Kilobytes(u64);

impl fmt::Display for Kilobytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = self.0 * 100 / 1024;
        write!(f, "{}.{:02}", hundredths / 100, hundredths % 100)
    }
}

/// A part of a whole, as `12.34%`.
struct Percent(u64, u64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = self.0 * 10_000 / self.1.max(1);
        write!(f, "{}.{:02}%", hundredths / 100, hundredths % 100)
    }
}

/// A time span as seconds with six decimals.
struct Seconds(TimeVal);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0.tv_sec(), self.0.tv_usec())
    }
}
