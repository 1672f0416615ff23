//! The table of all metrics: one row each, in INFO's order.
//!
//! Sections, fields and their order are Redis 7.2's where Redis has them, so that redis-cli --stat, exporters and
//! agents find their fields. The section `Generator` is getid's own. Fields of features that getid lacks are omitted,
//! unless a widely used program reads them and would fail, or lack a graph, without them. These are clients when they
//! connect (`loading:0` for ioredis), prometheus-redis-exporter and its dashboards, the templates of Zabbix, and the
//! modules of Datadog, Telegraf and Metricbeat. Those fields are constants, with the values of an empty Redis.
//!
//! A new metric is a row here. It reads a [`Counter`], or another of the [`Facts`]. Each row ends with its export to
//! Prometheus, or the reason why it has none (`row.rs`), so that INFO and Prometheus have the same values.

use super::claim;
use super::facts::gauge_value;
use super::row::{Durations, OmitReason, RowPart, constant, counter, gauge, generator_metric, section, text};
pub use super::row::{Metric, MetricKind, Section, ValueSource};
use super::{CommandTotals, Counter, Facts, MetricValue, sequences, workers};
use getid_redis::command::{self, REDIS_VERSION};
use getid_text::timestamp;

/// The sections, in INFO's order.
pub const SECTIONS: &[Section] = &[
    section("Server", SERVER),
    section("Clients", CLIENTS),
    section("Memory", MEMORY),
    section("Persistence", PERSISTENCE),
    section("Stats", STATS),
    section("Replication", REPLICATION),
    section("CPU", CPU),
    section("Modules", &[]),
    Section { title: "Commandstats", is_default: false, metrics: COMMANDSTATS },
    section("Errorstats", ERRORSTATS),
    Section { title: "Latencystats", is_default: false, metrics: LATENCYSTATS },
    section("Cluster", CLUSTER),
    section("Keyspace", &[]),
    section("Generator", GENERATOR),
    section("Claim", claim::ROWS),
    section("Generators", GENERATORS),
    section("Sequences", SEQUENCES),
    section("Numbers", NUMBERS),
    section("Workers", WORKERS),
    section("Http", HTTP),
];

const CLUSTER: &[Metric] = &[text("cluster_enabled", "The directive `cluster-emulation`: 1 or 0.", |facts| {
    u32::from(facts.config.announce.cluster_emulation).into()
})
.export_label("getid_server_info", "cluster_enabled")];

const HZ: Metric = gauge("hz", "The directive `hz`.", |facts| facts.config.hz.into()).export("getid_hz");

const RESIDENT: Metric = gauge("used_memory", "Resident memory, bytes.", |facts| facts.memory.resident_bytes.into())
    .export("getid_memory_resident_bytes");

#[rustfmt::skip]
const SERVER: &[Metric] = &[
    text("redis_version", "Redis version whose protocol getid speaks.", |_| REDIS_VERSION.into())
        .export_label("getid_build_info", "redis_version"),
    text("getid_version", "Version of getid.", |_| env!("CARGO_PKG_VERSION").into())
        .export_label("getid_build_info", "version"),
    text("redis_mode", "`cluster` with the directive `cluster-emulation`, else `standalone`.",
        |facts| if facts.config.announce.cluster_emulation { "cluster" } else { "standalone" }.into())
        .same_as("cluster_enabled"),
    text("os", "Name, release and machine of the operating system.", |_| getid_system::usage::os().into())
        .export_label("getid_process_info", "os"),
    text("arch_bits", "Bits of an address.", |_| usize::BITS.into()).export_label("getid_build_info", "arch_bits"),
    constant("monotonic_clock", "POSIX clock_gettime"),
    text("multiplexing_api", "System interface by which the runtime waits for sockets.",
        |_| if cfg!(target_os = "linux") { "epoll" } else { "kqueue" }.into())
        .export_label("getid_build_info", "multiplexing_api"),
    text("process_id", "Process id.", |_| std::process::id().into())
        .export_label("getid_process_info", "process_id"),
    text("process_supervised", "The directive `supervised`.", |facts| facts.config.supervised.word().into())
        .export_label("getid_process_info", "supervised"),
    text("run_id", "Random id of this run: 40 hex digits, new at each start.", |facts| facts.process.run_id.into())
        .export_label("getid_process_info", "run_id"),
    text("tcp_port", "The directive `port`, or `tls-port` if `port` is 0.", |facts| facts.process.tcp_port.into())
        .export_label("getid_server_info", "tcp_port"),
    gauge("server_time_usec", "System clock, Unix time in microseconds.", |facts| facts.process.wall_unix_us.into())
        .export_us("getid_time_seconds").with_help("System clock, Unix time in seconds."),
    gauge("uptime_in_seconds", "Seconds since the start.", |facts| gauge_value(&facts.metrics.uptime_s))
        .export("getid_uptime_seconds"),
    gauge("uptime_in_days", "Whole days since the start.", |facts| (facts.metrics.uptime_s() / 86_400).into())
        .computed("getid_uptime_seconds / 86400"),
    HZ,
    HZ.alias("configured_hz"),
    text("executable", "Path of the program.", |facts| facts.process.executable.into())
        .export_label("getid_process_info", "executable"),
    text("config_file", "Path of the configuration file; empty without one.",
        |facts| facts.process.config_file.into()).export_label("getid_process_info", "config_file"),
    gauge("io_threads_active", "1 with several `io-threads`.", |facts| facts.is_threaded().into())
        .export("getid_io_threads_active"),
    // The four lines of the fork.
    text("server_id", "The directive `server-id`; with `auto`, the claimed server-id, or `none`.",
        |facts| facts.server_id.map_or_else(|| "none".into(), MetricValue::from))
        .export_label("getid_server_info", "server_id"),
    gauge("id_range", "Bits of the server id in an ID.", |facts| facts.layout.server_bits().into())
        .export("getid_layout_field_width").with_label("field", "server_id")
        .with_help("Widths of the fields of the unnamed generator's layout, bits."),
    gauge("shard_range", "Bits of the counter in an ID.", |facts| facts.layout.shard_bits().into())
        .export("getid_layout_field_width").with_label("field", "shard"),
    gauge("random_range", "Random bits in an ID.", |facts| facts.layout.random_bits().into())
        .export("getid_layout_field_width").with_label("field", "random"),
];

#[rustfmt::skip]
const CLIENTS: &[Metric] = &[
    gauge("connected_clients", "Connected clients.", |facts| facts.clients.connected.into())
        .export("getid_clients"),
    constant("cluster_connections", "0"),
    gauge("maxclients", "Limit of clients: the directive `maxclients`, lowered to what the limit of open files \
        allows.",
        |facts| facts.clients.max.into()).export("getid_clients_max"),
    // Redis's values are the largest of the last few seconds.
    gauge("client_recent_max_input_buffer", "Largest unread input of a connected client, bytes.",
        |facts| facts.clients.input_bytes_max.into()).export("getid_client_input_max_bytes"),
    gauge("client_recent_max_output_buffer", "Largest unsent output of a connected client, bytes.",
        |facts| facts.clients.output_bytes_max.into()).export("getid_client_output_max_bytes"),
    gauge("client_buffers_bytes", "Memory of all clients' buffers, bytes.",
        |facts| facts.clients.held_bytes.into()).export("getid_client_buffers_bytes"),
    gauge("maxmemory_clients", "Limit of all clients' buffers (`maxmemory-clients`), bytes; 0: no limit.",
        |facts| facts.clients.held_bytes_max.unwrap_or(0).into()).export("getid_client_buffers_limit_bytes"),
    gauge("blocked_clients", "Clients that wait for IDs.", |facts| facts.clients.waiting.into())
        .export("getid_clients_blocked"),
    gauge("unixsocket_clients", "Clients on the Unix socket.", |facts| facts.clients.on_unix_socket.into())
        .export("getid_clients_on_unix_socket"),
    gauge("clients_peak", "Most clients at one time.", |facts| gauge_value(&facts.metrics.clients_peak))
        .export("getid_clients_peak"),
    gauge("monitors", "Clients that run `MONITOR`.", |facts| facts.clients.monitors.into()).export("getid_monitors"),
    counter("monitors_dropped", "Monitors that were closed because they fell behind.",
        |facts| facts.clients.monitors_dropped.into())
        .export("getid_monitors_dropped_total"),
    // These fields have the names of later versions of Redis.
    text("paused_reason", "Reason for which requests are held: `client_pause`, or `none`.",
        |facts| if facts.clients.pause.is_some() { "client_pause" } else { "none" }.into())
        .export_unless("getid_paused", "none")
        .with_help("1 while `CLIENT PAUSE` holds requests."),
    text("paused_actions", "Requests that `CLIENT PAUSE` holds: `write`, `all` or `none`.",
        |facts| facts.clients.pause.map_or("none", |(actions, _)| actions).into())
        .export_if("getid_paused_all", "all")
        .with_help("1 while `CLIENT PAUSE` holds all requests, not only writes."),
    gauge("paused_timeout_milliseconds", "Remaining time of `CLIENT PAUSE`, ms.",
        |facts| facts.clients.pause.map_or(0, |(_, left_ms)| left_ms).into()).export_ms("getid_pause_left_seconds"),
    constant("tracking_clients", "0"),
    constant("clients_in_timeout_table", "0"),
];

#[rustfmt::skip]
const HTTP: &[Metric] = &[
    gauge("http_connected_clients", "Connections to the HTTP port.", |facts| gauge_value(&facts.metrics.http.connected))
        .export("getid_http_connected_clients"),
    gauge("http_peak_clients", "Most connections to the HTTP port at one time.",
        |facts| gauge_value(&facts.metrics.http.peak))
        .export("getid_http_peak_clients"),
    gauge("http_max_clients", "Limit of HTTP connections: the directive `http-max-clients`, lowered to what the \
        limit of open files allows.",
        |facts| facts.config.http.clients_max.into()).export("getid_http_max_clients"),
    gauge("http_streams", "Event streams in progress; at most a second old.",
        |facts| gauge_value(&facts.metrics.http.streams)).export("getid_http_streams"),
    counter("http_connections_received", "Connections to the HTTP port, refused ones included.",
        |facts| facts.counted(Counter::HttpConnections)).export("getid_http_connections_total"),
    counter("http_connections_refused", "HTTP connections refused because all slots of `http-max-clients` were busy.",
        |facts| facts.counted(Counter::HttpRefused))
        .export("getid_http_connections_ended_total").with_label("why", "refused")
        .with_help("HTTP connections that the server ended, by reason."),
    counter("http_connections_evicted", "Idle or stalled HTTP connections that were closed to make room for others.",
        |facts| facts.counted(Counter::HttpEvicted))
        .export("getid_http_connections_ended_total").with_label("why", "evicted"),
    counter("http_connections_idle_closed", "HTTP connections closed after `http-timeout` without a request.",
        |facts| facts.counted(Counter::HttpIdleClosed))
        .export("getid_http_connections_ended_total").with_label("why", "idle"),
    counter("http_requests_2xx", "HTTP requests answered with a status below 400.",
        |facts| facts.counted(Counter::HttpAnswered)).export("getid_http_requests_total").with_label("status", "2xx")
        .with_help("HTTP requests, by the status of the response."),
    counter("http_requests_4xx", "HTTP requests answered with a status of 400 to 499.",
        |facts| facts.counted(Counter::HttpFaulty)).export("getid_http_requests_total").with_label("status", "4xx"),
    counter("http_requests_5xx", "HTTP requests answered with a status of 500 or more.",
        |facts| facts.counted(Counter::HttpFailed)).export("getid_http_requests_total").with_label("status", "5xx"),
    counter("http_requests_malformed", "HTTP requests refused because their head or their chunks were malformed.",
        |facts| facts.counted(Counter::HttpHeadsBad))
        .export("getid_http_requests_refused_total").with_label("why", "malformed")
        .with_help("HTTP requests refused by the port's limits, by reason; the 4xx and 5xx statuses include them."),
    counter("http_heads_late", "HTTP requests whose head was not complete within 10 s.",
        |facts| facts.counted(Counter::HttpHeadsLate))
        .export("getid_http_requests_refused_total").with_label("why", "head_late"),
    counter("http_bodies_late", "HTTP requests whose body was not complete within 30 s.",
        |facts| facts.counted(Counter::HttpBodiesLate))
        .export("getid_http_requests_refused_total").with_label("why", "body_late"),
    counter("http_bodies_too_large", "HTTP requests whose body was larger than 64 KiB.",
        |facts| facts.counted(Counter::HttpBodiesTooLarge)).export("getid_http_requests_refused_total")
        .with_label("why", "body_too_large"),
    counter("http_answers_late", "HTTP requests that were not completed within 60 s.",
        |facts| facts.counted(Counter::HttpAnswersLate))
        .export("getid_http_requests_refused_total").with_label("why", "answer_late"),
];

#[rustfmt::skip]
const MEMORY: &[Metric] = &[
    RESIDENT,
    text("used_memory_human", "Resident memory.", |facts| MetricValue::human(facts.memory.resident_bytes))
        .same_as("used_memory"),
    RESIDENT.alias("used_memory_rss"),
    text("used_memory_rss_human", "Resident memory.", |facts| MetricValue::human(facts.memory.resident_bytes))
        .same_as("used_memory"),
    gauge("used_memory_peak", "Largest resident memory, bytes.", |facts| gauge_value(&facts.metrics.memory_peak))
        .export("getid_memory_peak_bytes"),
    text("used_memory_peak_human", "Largest resident memory.", |facts| MetricValue::human(facts.metrics.memory_peak()))
        .same_as("used_memory_peak"),
    text("used_memory_peak_perc", "Resident memory as a share of its peak, percent.",
        |facts| MetricValue::percent(facts.memory.resident_bytes, facts.metrics.memory_peak()))
        .computed("100 * getid_memory_resident_bytes / getid_memory_peak_bytes"),
    // There is no data: all memory apart from the program itself belongs to clients.
    RESIDENT.alias("used_memory_overhead"),
    gauge("used_memory_startup", "Resident memory when the first client could connect, bytes.",
        |facts| gauge_value(&facts.metrics.memory_startup)).export("getid_memory_startup_bytes"),
    constant("used_memory_dataset", "0"),
    constant("used_memory_dataset_perc", "0.00%"),
    RESIDENT.alias("allocator_allocated"),
    RESIDENT.alias("allocator_active"),
    RESIDENT.alias("allocator_resident"),
    gauge("total_system_memory", "Memory of the machine, bytes.", |facts| facts.memory.machine_bytes.into())
        .export("getid_machine_memory_bytes"),
    text("total_system_memory_human", "Memory of the machine.",
        |facts| facts.memory.machine_bytes.map(MetricValue::human).into())
        .same_as("total_system_memory"),
    gauge("mem_clients_normal", "Growth of the resident memory since the start, bytes.",
        |facts| facts.memory.resident_bytes.saturating_sub(facts.metrics.memory_startup()).into())
        .computed("getid_memory_resident_bytes - getid_memory_startup_bytes"),
    constant("used_memory_lua", "0"),
    constant("number_of_cached_scripts", "0"),
    constant("maxmemory", "0"),
    constant("maxmemory_human", "0B"),
    constant("maxmemory_policy", "noeviction"),
    // The allocator's memory and the resident memory are the same here, so no difference is shown.
    constant("allocator_frag_ratio", "1.00"),
    constant("allocator_frag_bytes", "0"),
    constant("allocator_rss_ratio", "1.00"),
    constant("allocator_rss_bytes", "0"),
    constant("rss_overhead_ratio", "1.00"),
    constant("rss_overhead_bytes", "0"),
    constant("mem_fragmentation_ratio", "1.00"),
    constant("mem_fragmentation_bytes", "0"),
    constant("mem_not_counted_for_evict", "0"),
    constant("mem_replication_backlog", "0"),
    constant("mem_clients_slaves", "0"),
    constant("mem_aof_buffer", "0"),
    constant("mem_allocator", "libc"),
    constant("active_defrag_running", "0"),
    constant("lazyfree_pending_objects", "0"),
];

#[rustfmt::skip]
const PERSISTENCE: &[Metric] = &[
    constant("loading", "0"),
    constant("async_loading", "0"),
    gauge("rdb_last_save_time", "Time of the last successful save of the watermark, Unix seconds.",
        |facts| (facts.generator.last_save_unix_ms / 1000).into()).same_as("watermark_last_save_time"),
    text("rdb_last_bgsave_status", "Status of the last save of the watermark: `err` or `ok`.",
        |facts| facts.last_save().into()).same_as("watermark_last_save_status"),
    gauge("rdb_last_bgsave_time_sec", "Duration of the last save of the watermark, whole seconds.",
        |facts| (facts.generator.last_save_us / 1_000_000).into()).same_as("watermark_last_save_usec"),
    counter("rdb_saves", "Successful saves of the watermark.", |facts| facts.generator.saves.into())
        .same_as("watermark_saves"),
    constant("rdb_changes_since_last_save", "0"),
    constant("rdb_bgsave_in_progress", "0"),
    constant("rdb_current_bgsave_time_sec", "-1"),
    constant("rdb_last_cow_size", "0"),
    constant("aof_enabled", "0"),
    constant("aof_rewrite_in_progress", "0"),
    constant("aof_rewrite_scheduled", "0"),
    constant("aof_last_rewrite_time_sec", "-1"),
    constant("aof_current_rewrite_time_sec", "-1"),
    constant("aof_last_bgrewrite_status", "ok"),
    constant("aof_last_write_status", "ok"),
    constant("aof_last_cow_size", "0"),
];

#[rustfmt::skip]
const STATS: &[Metric] = &[
    counter("total_connections_received", "Connections accepted, refused ones included.",
        |facts| facts.counted(Counter::Connections)).export("getid_connections_total"),
    counter("total_commands_processed", "Requests answered, errors included.",
        |facts| facts.metrics.work().requests.into())
        .export("getid_requests_total"),
    gauge("instantaneous_ops_per_sec", "Requests per second, over the last samples.",
        |facts| facts.metrics.rate.per_s().into())
        .computed("rate(getid_requests_total[1m])"),
    counter("total_net_input_bytes", "Bytes read from clients.", |facts| facts.metrics.work().input_bytes.into())
        .export("getid_input_bytes_total"),
    counter("total_net_output_bytes", "Bytes written to clients.", |facts| facts.metrics.work().output_bytes.into())
        .export("getid_output_bytes_total"),
    gauge("instantaneous_input_kbps", "Kilobytes (1024 bytes) read per second, over the last samples.",
        |facts| MetricValue::hundredths(facts.metrics.input_rate.per_s() * 100 / 1024))
        .computed("rate(getid_input_bytes_total[1m]) / 1024"),
    gauge("instantaneous_output_kbps", "Kilobytes (1024 bytes) written per second, over the last samples.",
        |facts| MetricValue::hundredths(facts.metrics.output_rate.per_s() * 100 / 1024))
        .computed("rate(getid_output_bytes_total[1m]) / 1024"),
    counter("rejected_connections", "Connections refused at `maxclients`, or from other machines in protected mode.",
        |facts| facts.counted(Counter::ConnectionsRejected)).export("getid_connections_rejected_total"),
    counter("total_error_replies", "Error replies.",
        |facts| facts.metrics.errors().iter().map(|(_, count)| count).sum::<u64>().into())
        .computed("sum without (code) (getid_errors_total)"),
    counter("total_reads_processed", "Reads that returned data.", |facts| facts.metrics.work().reads.into())
        .export("getid_reads_total"),
    counter("total_writes_processed", "Writes to clients.", |facts| facts.metrics.work().writes.into())
        .export("getid_writes_total"),
    // With several threads, each thread reads and writes for its own connections.
    counter("io_threaded_reads_processed", "`total_reads_processed` with several `io-threads`, otherwise 0.",
        |facts| if facts.is_threaded() { facts.metrics.work().reads } else { 0 }.into())
        .same_as("total_reads_processed"),
    counter("io_threaded_writes_processed", "`total_writes_processed` with several `io-threads`, otherwise 0.",
        |facts| if facts.is_threaded() { facts.metrics.work().writes } else { 0 }.into())
        .same_as("total_writes_processed"),
    counter("acl_access_denied_auth", "Failed logins.", |facts| facts.counted(Counter::DeniedLogins))
        .export("getid_denied_total").with_label("what", "login")
        .with_help("Failed logins, and requests that the user has no right to."),
    counter("acl_access_denied_cmd", "Commands that the user has no right to run.",
        |facts| facts.counted(Counter::DeniedCommands))
        .export("getid_denied_total").with_label("what", "command"),
    counter("acl_access_denied_key", "Requests for a generator or a sequence that the user has no right to.",
        |facts| facts.counted(Counter::DeniedKeys)).export("getid_denied_total").with_label("what", "key"),
    counter("acl_access_denied_channel", "Requests for a channel that the user has no right to.",
        |facts| facts.counted(Counter::DeniedChannels)).export("getid_denied_total").with_label("what", "channel"),
    counter("protocol_error_connections", "Connections closed for a protocol error.",
        |facts| facts.counted(Counter::ProtocolErrors))
        .export("getid_connections_closed_total").with_label("reason", "protocol_error")
        .with_help("Connections closed by the server, by reason."),
    counter("client_query_buffer_limit_disconnections", "Connections closed for a protocol error: a request larger \
        than `client-query-buffer-limit`.", |facts| facts.counted(Counter::InputLimitClosed))
        .export("getid_protocol_errors_query_buffer_limit_total")
        .with_help("Connections closed for a protocol error: a request larger than `client-query-buffer-limit`."),
    counter("client_output_buffer_limit_disconnections", "Connections closed because their unsent output exceeded \
        `client-output-buffer-limit`.", |facts| facts.counted(Counter::OutputLimitClosed))
        .export("getid_connections_closed_total").with_label("reason", "output_buffer_limit"),
    counter("client_output_timeout_disconnections", "Connections closed because the client read no output for \
        `client-output-timeout`.", |facts| facts.counted(Counter::OutputTimeoutClosed))
        .export("getid_connections_closed_total").with_label("reason", "output_timeout"),
    counter("cross_protocol_disconnections", "Connections closed for a protocol error: a line of HTTP (`POST` or \
        `Host:`).",
        |facts| facts.counted(Counter::HttpClosed))
        .export("getid_protocol_errors_cross_protocol_total")
        .with_help("Connections closed for a protocol error: a line of HTTP (`POST` or `Host:`)."),
    counter("evicted_clients", "Connections closed as the largest when all clients' buffers together exceeded \
        `maxmemory-clients`.", |facts| facts.counted(Counter::Evicted))
        .export("getid_connections_closed_total").with_label("reason", "evicted"),
    counter("auth_timeout_disconnections", "Connections closed because no login succeeded within `auth-timeout`.",
        |facts| facts.counted(Counter::AuthTimeoutClosed))
        .export("getid_connections_closed_total").with_label("reason", "auth_timeout"),
    counter("idle_closed_connections", "Connections closed for being idle longer than `timeout`.",
        |facts| facts.counted(Counter::IdleClosed))
        .export("getid_connections_closed_total").with_label("reason", "idle"),
    counter("accept_errors", "Failed attempts to accept a connection, for example without free file descriptors; \
        retried ten times a second.",
        |facts| facts.counted(Counter::AcceptErrors)).export("getid_accept_errors_total"),
    counter("tls_handshakes", "Successful TLS handshakes.", |facts| facts.tls.handshakes.into())
        .export("getid_tls_handshakes_total"),
    counter("tls_handshakes_failed", "Failed TLS handshakes.", |facts| facts.tls.failures.into())
        .export("getid_tls_handshakes_failed_total"),
    counter("tls_handshakes_resumed", "Successful TLS handshakes that resumed an earlier session.",
        |facts| facts.tls.resumed.into()).export("getid_tls_handshakes_resumed_total"),
    counter("tls_handshakes_evicted", "Stalled TLS handshakes that were closed to make room for others.",
        |facts| facts.counted(Counter::HandshakesEvicted)).export("getid_tls_handshakes_evicted_total"),
    gauge("tls_handshakes_under_way", "TLS handshakes in progress.", |facts| facts.tls.under_way.into())
        .export("getid_tls_handshakes_under_way"),
    gauge("tls_certificate_ends", "End of the server's certificate (with `tls-port`), Unix seconds.",
        |facts| facts.tls.ends_s.into()).export("getid_tls_certificate_end_timestamp_seconds"),
    gauge("tls_certificate_days_left", "Days until the end of the server's certificate (with `tls-port`); negative \
        after the end.", |facts| facts.certificate_days_left().into())
        .computed("(getid_tls_certificate_end_timestamp_seconds - time()) / 86400"),
    counter("connection_panics", "Connections ended by a bug in getid; please report it.",
        |facts| facts.counted(Counter::Panics)).export("getid_connections_closed_total").with_label("reason", "panic"),
    counter("log_lines_dropped", "Log lines that were dropped because the queue was full, or that could not be \
        written: the disk may be full.", |facts| facts.log_lines_dropped.into())
        .export("getid_log_lines_dropped_total"),
    constant("sync_full", "0"),
    constant("sync_partial_ok", "0"),
    constant("sync_partial_err", "0"),
    constant("expired_keys", "0"),
    constant("expired_stale_perc", "0.00"),
    constant("expired_time_cap_reached_count", "0"),
    constant("evicted_keys", "0"),
    constant("keyspace_hits", "0"),
    constant("keyspace_misses", "0"),
    constant("pubsub_channels", "0"),
    constant("pubsub_patterns", "0"),
    constant("latest_fork_usec", "0"),
    constant("migrate_cached_sockets", "0"),
    constant("slave_expires_tracked_keys", "0"),
    constant("active_defrag_hits", "0"),
    constant("active_defrag_misses", "0"),
    constant("active_defrag_key_hits", "0"),
    constant("active_defrag_key_misses", "0"),
    // Commands and the protocol return every error reply on purpose.
    constant("unexpected_error_replies", "0"),
];

#[rustfmt::skip]
const REPLICATION: &[Metric] = &[
    text("role", "Role of the server: `master`, or `standby` while it waits for the claim of its server-id.",
        |facts| facts.role().into()).same_as("claim_role"),
    constant("connected_slaves", "0"),
    constant("master_failover_state", "no-failover"),
    constant("master_repl_offset", "0"),
    constant("second_repl_offset", "-1"),
    constant("repl_backlog_active", "0"),
    constant("repl_backlog_size", "0"),
    constant("repl_backlog_first_byte_offset", "0"),
    constant("repl_backlog_histlen", "0"),
];

#[rustfmt::skip]
const CPU: &[Metric] = &[
    counter("used_cpu_sys", "CPU time in the kernel, seconds.",
        |facts| facts.cpu.own.map(|cpu| MetricValue::s(cpu.system_us)).into())
        .export("getid_cpu_seconds_total").with_label("mode", "system")
        .with_help("CPU time in and outside the kernel, seconds."),
    counter("used_cpu_user", "CPU time outside the kernel, seconds.",
        |facts| facts.cpu.own.map(|cpu| MetricValue::s(cpu.user_us)).into())
        .export("getid_cpu_seconds_total").with_label("mode", "user"),
    counter("used_cpu_sys_children", "CPU time of child processes in the kernel, seconds.",
        |facts| facts.cpu.of_children.map(|cpu| MetricValue::s(cpu.system_us)).into())
        .export("getid_children_cpu_seconds_total").with_label("mode", "system")
        .with_help("CPU time of child processes in and outside the kernel, seconds."),
    counter("used_cpu_user_children", "CPU time of child processes outside the kernel, seconds.",
        |facts| facts.cpu.of_children.map(|cpu| MetricValue::s(cpu.user_us)).into())
        .export("getid_children_cpu_seconds_total").with_label("mode", "user"),
    // The value is at most a second old.
    counter("used_cpu_sys_main_thread", "CPU time of the main thread in the kernel, seconds.",
        |facts| MetricValue::s(facts.metrics.main_cpu().system_us))
        .export("getid_main_thread_cpu_seconds_total").with_label("mode", "system")
        .with_help("CPU time of the main thread in and outside the kernel, seconds."),
    counter("used_cpu_user_main_thread", "CPU time of the main thread outside the kernel, seconds.",
        |facts| MetricValue::s(facts.metrics.main_cpu().user_us))
        .export("getid_main_thread_cpu_seconds_total").with_label("mode", "user"),
];

#[rustfmt::skip]
const COMMANDSTATS: &[Metric] = &[
    counter("cmdstat_", "Statistics of each command that was called.",
        |facts| command_values(facts, |totals| {
            let CommandTotals { calls, failed, rejected, ns, .. } = *totals;
            // In hundredths, from the exact time: many IDs take less than a microsecond.
            let per_call = (u128::from(ns) + 5 * u128::from(calls)) / (10 * u128::from(calls.max(1)));
            Some(MetricValue::Parts(vec![
                ("calls", calls.into()),
                ("usec", (ns / 1000).into()),
                ("usec_per_call", MetricValue::hundredths(per_call.try_into().unwrap_or(u64::MAX))),
                ("rejected_calls", rejected.into()),
                ("failed_calls", failed.into()),
            ]))
        }))
        .export_parts("command", &[
            RowPart::counter("calls", "getid_commands_total", "Completed calls, by command."),
            RowPart::omitted("usec", MetricKind::Counter, OmitReason::Computed("getid_command_duration_seconds_sum"),
                "Total time of the calls, microseconds."),
            RowPart::omitted("usec_per_call", MetricKind::Gauge,
                OmitReason::Computed("rate(getid_command_duration_seconds_sum[1m]) / \
                    rate(getid_command_duration_seconds_count[1m])"),
                "Average time of a call, microseconds."),
            RowPart::counter("rejected_calls", "getid_commands_rejected_total", "Requests rejected before they ran, \
        by command."),
            RowPart::counter("failed_calls", "getid_commands_failed_total", "Calls answered with an error, by \
        command."),
        ]),
];

#[rustfmt::skip]
const ERRORSTATS: &[Metric] = &[
    counter("errorstat_", "Error replies, by their first word.", |facts| {
        let errors = facts.metrics.errors().into_iter();
        let parts = |count: u64| MetricValue::Parts(vec![("count", count.into())]);
        MetricValue::Family(errors.map(|(code, count)| (code.word(), parts(count))).collect())
    }).export_parts("code", &[
        RowPart::counter("count", "getid_errors_total", "Error replies, by their first word."),
    ]),
];

#[rustfmt::skip]
const LATENCYSTATS: &[Metric] = &[
    gauge("latency_percentiles_usec_", "Percentiles of the duration of each command that was called, microseconds.",
        |facts| command_values(facts, |totals| {
            let at = |per_mille| MetricValue::us(totals.histogram.percentile_ns(per_mille));
            let parts = || vec![("p50", at(500)), ("p99", at(990)), ("p99.9", at(999))];
            (totals.calls > 0).then(|| MetricValue::Parts(parts()))
        }))
        .export_histogram("getid_command_duration_seconds", "Duration of calls, by command, seconds; an ID command's \
            duration is its share of the draw.", "command", durations),
];

fn durations(facts: &Facts<'_>) -> Vec<(String, Durations)> {
    let of = |row: &command::Command| {
        let CommandTotals { calls, ns, histogram, .. } = facts.metrics.command(row.verb)?;
        (calls > 0).then(|| (row.full_name.to_owned(), Durations { sum_ns: ns, histogram }))
    };
    command::rows().filter_map(of).collect()
}

fn command_values(facts: &Facts<'_>, value: fn(&CommandTotals) -> Option<MetricValue>) -> MetricValue {
    let of = |row: &command::Command| Some((row.full_name.to_owned(), value(&facts.metrics.command(row.verb)?)?));
    MetricValue::Family(command::rows().filter_map(of).collect())
}

#[rustfmt::skip]
const GENERATOR: &[Metric] = &[
    gauge("id_epoch", "Start of the ticks, Unix ms.", |facts| facts.layout.epoch().unix_ms().into())
        .export_ms("getid_epoch_timestamp_seconds").with_help("Start of the ticks, Unix seconds."),
    gauge("capacity_per_sec", "Capacity of the layout, IDs per second.", |facts| facts.layout.capacity_per_s().into())
        .export("getid_layout_capacity_per_second"),
    text("at_limit", "Warning while more IDs are requested than the layout's capacity: the demand, and the \
        shard-range that is wide enough; otherwise `no`.",
        |facts| facts.shortage().unwrap_or_else(|| "no".to_owned()).into())
        .computed("getid_ids_demanded_per_second > getid_layout_capacity_per_second"),
    text("layout_ends", "End of the layout's time.",
        |facts| timestamp::format_rfc3339(facts.layout.last_unix_ms()).into())
        .export_ms("getid_layout_end_timestamp_seconds").label_unnamed()
        .with_help("End of the time of the generator's IDs, Unix seconds.")
        .with_source(|facts| facts.layout.last_unix_ms().into()),
    gauge("layout_days_left", "Days until the end of the layout's time; negative after the end.",
        |facts| facts.days_until(facts.layout.last_unix_ms()).into())
        .computed("(getid_layout_end_timestamp_seconds - time()) / 86400"),
    counter("ids_issued", "IDs issued since the start.", |facts| facts.generator.mint.ids_issued.into())
        .export("getid_ids_issued_total").label_unnamed(),
    gauge("position", "First tick without an ID, ms since the epoch.", |facts| facts.generator.mint.position.0.into())
        .export_ms("getid_position_timestamp_seconds")
        .with_help("First tick without an ID, Unix seconds.")
        .with_source(|facts| facts.unix_ms(facts.generator.mint.position).into()),
    text("position_time", "`position` as a time.", |facts| facts.time(facts.generator.mint.position))
        .same_as("position"),
    gauge("reference", "Reference clock, which sets the time of IDs, ms since the epoch.",
        |facts| facts.generator.mint.reference.0.into())
        .export_ms("getid_reference_timestamp_seconds")
        .with_help("Reference clock, which sets the time of IDs, Unix seconds.")
        .with_source(|facts| facts.unix_ms(facts.generator.mint.reference).into()),
    text("reference_time", "`reference` as a time.", |facts| facts.time(facts.generator.mint.reference))
        .same_as("reference"),
    gauge("clock_offset_ms", "Offset of the system clock from the reference clock, ms; negative after the system \
        clock was set back.", |facts| facts.generator.mint.clock_offset_ms.into())
        .export_ms("getid_clock_offset_seconds")
        .with_help("Offset of the system clock from the reference clock, seconds; negative after the system clock \
            was set back."),
    counter("clock_set_back", "Times that the system clock was set back.",
        |facts| facts.generator.mint.rollbacks.into())
        .export("getid_clock_set_back_total"),
    counter("clock_jumps", "Times that the system clock jumped ahead.", |facts| facts.generator.mint.jumps.into())
        .export("getid_clock_jumps_total"),
    gauge("clock_jump_held", "1 while the reference clock does not yet follow a jump ahead.",
        |facts| facts.generator.mint.holds_jump.into())
        .export("getid_clock_jump_held"),
    text("refusing", "Reason for which requests for IDs are refused now, or `no`.",
        |facts| facts.generator.refusing.as_ref().map_or_else(|| "no".to_owned(), ToString::to_string).into())
        .export_unless("getid_refusing", "no").label_unnamed()
        .with_help("1 while requests for IDs of the generator are refused."),
    gauge("borrow_ms", "Distance of the next ID ahead of the reference clock, ms.",
        |facts| facts.generator.mint.borrow_ms.into())
        .export_ms("getid_borrow_seconds").label_unnamed(),
    gauge("borrow_ms_max", "Largest distance of an ID ahead of the reference clock since the start, ms.",
        |facts| facts.generator.mint.highest_borrow_ms.into()).export_ms("getid_borrow_highest_seconds"),
    gauge("borrow_limit_ms", "The directive `id-max-borrow-ms`, ms.", |facts| facts.config.id_max_borrow_ms.into())
        .export_ms("getid_borrow_limit_seconds"),
    text("borrow_policy", "The directive `id-borrow-policy`.", |facts| facts.config.id_borrow_policy.word().into())
        .export_label("getid_server_info", "borrow_policy"),
    gauge("ids_per_sec", "IDs issued or refused in the last second.", |facts| facts.generator.asked_per_s.into())
        .export("getid_ids_per_second").label_unnamed(),
    gauge("ids_per_sec_demanded", "IDs issued, refused or waited for in the last second.",
        |facts| facts.generator.demanded_per_s.into()).export("getid_ids_demanded_per_second"),
    gauge("draws_waiting", "Draws that wait now; a draw is the IDs of all requests of one read.",
        |facts| facts.generator.waiting.into()).export("getid_draws_waiting"),
    gauge("ids_waiting", "IDs of the draws that wait now.", |facts| facts.generator.waiting_ids.into())
        .export("getid_ids_waiting"),
    gauge("wait_ms", "Time that a large request would wait now, ms.", |facts| facts.generator.wait_ms.into())
        .export_ms("getid_wait_seconds"),
    gauge("wait_limit_ms", "The directive `id-max-wait-ms`, ms.", |facts| facts.config.id_max_wait_ms.into())
        .export_ms("getid_wait_limit_seconds"),
    counter("draws_waited", "Draws that waited since the start.", |facts| facts.generator.waits.into())
        .export("getid_draws_waited_total").label_unnamed(),
    counter("draws_waited_ms", "Total time that draws waited since the start, ms.",
        |facts| facts.generator.waited_ms.into())
        .export_ms("getid_draws_waited_seconds_total")
        .with_help("Total time that draws waited since the start, seconds."),
    counter("draws_refused", "Draws that were refused since the start.", |facts| facts.generator.refusals.into())
        .export("getid_draws_refused_total").label_unnamed(),
    text("state", "The directive `id-state`.", |facts| facts.config.id_state.word().into())
        .export_label("getid_server_info", "state"),
    text("state_dir", "State folder.", |facts| facts.config.state_dir.display().to_string().into())
        .export_label("getid_server_info", "state_dir"),
    gauge("watermark", "Saved tick, ms since the epoch: after a crash, IDs start above it.",
        |facts| facts.generator.mint.watermark.0.into())
        .export_ms("getid_watermark_timestamp_seconds")
        .with_help("Saved tick, Unix seconds: after a crash, IDs start above it.")
        .with_source(|facts| facts.unix_ms(facts.generator.mint.watermark).into()),
    text("watermark_time", "`watermark` as a time.", |facts| facts.time(facts.generator.mint.watermark))
        .same_as("watermark"),
    gauge("watermark_lead_ms", "Distance of the watermark ahead of the next ID, ms: time for which IDs are issued \
        without a successful save.", |facts| facts.generator.watermark_lead_ms().into())
        .export_ms("getid_watermark_lead_seconds"),
    counter("watermark_saves", "Successful saves of the watermark.", |facts| facts.generator.saves.into())
        .export("getid_watermark_saves_total"),
    counter("watermark_save_failures", "Failed saves of the watermark.", |facts| facts.generator.save_failures.into())
        .export("getid_watermark_save_failures_total"),
    gauge("watermark_last_save_time", "Time of the last successful save of the watermark, Unix seconds.",
        |facts| (facts.generator.last_save_unix_ms / 1000).into())
        .export_ms("getid_watermark_last_save_timestamp_seconds")
        .with_source(|facts| facts.generator.last_save_unix_ms.into()),
    gauge("watermark_last_save_usec", "Duration of the last successful save of the watermark, microseconds.",
        |facts| facts.generator.last_save_us.into())
        .export_us("getid_watermark_last_save_duration_seconds")
        .with_help("Duration of the last successful save of the watermark, seconds."),
    text("watermark_last_save_status", "Status of the last save of the watermark: `err` if it failed, otherwise \
        `ok`, also before the first save and for a standby.", |facts| facts.last_save().into())
        .export_if("getid_watermark_last_save_ok", "ok")
        .with_help("0 if the last save of the watermark failed, otherwise 1, also before the first save and for a \
            standby."),
    gauge("watermark_saving_ms", "Duration so far of the save in progress, ms; 0: none.",
        |facts| facts.generator.saving_ms.into()).export_ms("getid_watermark_saving_seconds"),
    text("claim", "State of the right to issue IDs with the server-id: `held`, `lost`, or `standby` while this \
        server waits for it.", |facts| facts.claim_state().into())
        .export_if("getid_claim_held", "held").with_help("1 while this server has the right to issue IDs with its \
            server-id."),
];

#[rustfmt::skip]
const GENERATORS: &[Metric] = &[
    generator_metric("kind", MetricKind::Text, "Declared kind of the generator.",
        |_, own| own.generator.declaration().kind().word.into())
        .export_label("getid_generator_info", "kind"),
    generator_metric("issued", MetricKind::Counter, "IDs issued since the start.", |_, own| own.issued.into())
        .export("getid_ids_issued_total"),
    generator_metric("waited", MetricKind::Counter, "Draws that waited since the start.", |_, own| own.waited.into())
        .export("getid_draws_waited_total"),
    generator_metric("refused", MetricKind::Counter, "Draws that were refused since the start.",
        |_, own| own.refused.into())
        .export("getid_draws_refused_total"),
    generator_metric("ahead_ms", MetricKind::Gauge, "Distance of the next ID ahead of the reference clock, ms.",
        |_, own| own.ahead_ms.into())
        .export_ms("getid_borrow_seconds"),
    generator_metric("rate", MetricKind::Gauge, "IDs issued or refused in the last second.",
        |_, own| own.asked_per_s.into())
        .export("getid_ids_per_second"),
    generator_metric("refuses", MetricKind::Gauge, "1 while requests for IDs of the generator are refused.",
        |_, own| own.refusing.is_some().into())
        .export("getid_refusing"),
    generator_metric("days_left", MetricKind::Gauge, "Days until the end of the time of the generator's IDs; negative \
        after the \
        end, absent for a kind without time.",
        |facts, own| own.generator.declaration().ends_unix_ms().map(|unix_ms| facts.days_until(unix_ms)).into())
        .export_ms("getid_layout_end_timestamp_seconds")
        .with_source_each(|_, own| own.generator.declaration().ends_unix_ms().into()),
];

#[rustfmt::skip]
const SEQUENCES: &[Metric] = &[
    gauge("sequences_in_memory", "Sequences in memory; others use no memory.",
        |facts| facts.sequence_totals().in_memory.into()).export("getid_sequences_in_memory"),
    counter("sequences_given", "Values issued since the start.", |facts| facts.sequence_totals().given.into())
        .export("getid_sequences_given_total"),
    gauge("sequences_held", "Values that are reserved and not issued: a `kill -9` skips them, and those of fetches \
        in progress.", |facts| facts.sequence_totals().held.into()).export("getid_sequences_held"),
    gauge("sequences_waiting", "Draws of values that wait now.", |facts| facts.sequence_totals().waiting.into())
        .export("getid_sequences_waiting"),
    counter("sequences_waited", "Draws of values that waited since the start.",
        |facts| facts.sequence_totals().waited.into())
        .export("getid_sequences_waited_total"),
    counter("sequences_refused", "Draws of values that were refused since the start.",
        |facts| facts.sequence_totals().refused.into())
        .export("getid_sequences_refused_total"),
    counter("sequences_fetches", "Fetches since the start, each for one sequence; one statement may contain several.",
        |facts| facts.sequence_totals().fetches.into()).export("getid_sequences_fetches_total"),
    counter("sequences_fetches_failed", "Fetches that failed, or whose outcome is unknown.",
        |facts| facts.sequence_totals().fetches_failed.into()).export("getid_sequences_fetches_failed_total"),
    gauge("sequences_fetches_under_way", "Fetches in progress.", |facts| facts.sequence_totals().fetching.into())
        .export("getid_sequences_fetches_under_way"),
    counter("sequences_regressed", "Sequences whose value in the store was lower than a value already reserved.",
        |facts| facts.sequence_totals().went_back.into()).export("getid_sequences_regressed_total"),
    gauge("series_keys_used", "Highest share of its maximum of keys (`keys-max`) that a generator with series has, 0 to 1.",
        |facts| super::sequences::share(facts.sequence_totals().keys_used)).export("getid_series_keys_used_ratio"),
    gauge("sequences_store_", "State of each store, in the order of the configuration; `state` is `opening`, `up`, \
        `held` or `down`.",
        sequences::store_lines)
        .export_parts("store", STORE_PARTS),
    gauge("sequences_unlisted", "Sequences in memory without a line of their own: INFO lists the 16 busiest, \
        `/metrics` the 1,000 busiest.", |facts| facts.unlisted_sequences().in_memory.into())
        .export("getid_sequences_unlisted"),
    gauge("sequences_unlisted_given", "Values of unlisted sequences, and of sequences that have left memory, issued \
        since the start.",
        |facts| facts.unlisted_sequences().given.into())
        .export("getid_sequences_unlisted_given"),
    gauge("sequences_unlisted_held", "Values held by unlisted sequences.",
        |facts| facts.unlisted_sequences().held.into())
        .export("getid_sequences_unlisted_held"),
    gauge("sequences_unlisted_waiting", "Draws that wait for values of unlisted sequences.",
        |facts| facts.unlisted_sequences().waiting.into())
        .export("getid_sequences_unlisted_waiting"),
    gauge("requests_kept", "Requests with a name (`REQUEST`) in the store, as this server last read their number.",
        |facts| facts.requests().kept.into()).export("getid_requests_kept"),
    gauge("requests_kept_most", "Kept requests of the generator or sequence that has the most.",
        |facts| facts.requests().kept_most.into()).export("getid_requests_kept_most"),
    gauge("requests_max", "Kept requests that one generator or sequence may have (`request-max`).",
        |facts| facts.requests().max.into()).export("getid_requests_max"),
    counter("requests_made", "Requests with a name that got new IDs since the start.",
        |facts| facts.requests().made.into()).export("getid_requests_made_total"),
    counter("requests_found", "Requests with a name that got the IDs of an earlier one since the start.",
        |facts| facts.requests().found.into()).export("getid_requests_found_total"),
    counter("requests_refused", "Requests with a name that were refused since the start: other arguments, no room, or \
        an error of the store.", |facts| facts.requests().refused.into()).export("getid_requests_refused_total"),
    counter("requests_removed", "Ended requests that this server has removed since the start.",
        |facts| facts.requests().removed.into()).export("getid_requests_removed_total"),
    gauge("sequence_", "State of each of the 16 busiest sequences.",
        sequences::busiest_lines)
        .export_parts("sequence", SEQUENCE_PARTS),
];

#[rustfmt::skip]
const NUMBERS: &[Metric] = &[
    gauge("numbers_", "Numbers of each gapless generator by their state, up to 100,000 rows of a state, of all \
        servers; at most 10 s old.",
        sequences::ledger_lines)
        .export_parts("generator", NUMBER_PARTS),
];

#[rustfmt::skip]
const NUMBER_PARTS: &[RowPart] = &[
    RowPart::gauge("reserved", "getid_numbers", "Numbers of a gapless generator, by their state.")
        .with_label("state", "reserved"),
    RowPart::gauge("overdue", "getid_numbers_overdue", "Reserved numbers that their requests did not settle in time."),
    RowPart::gauge("released", "getid_numbers", "Numbers of a gapless generator, by their state.")
        .with_label("state", "released"),
    RowPart::gauge("unclear", "getid_numbers", "Numbers of a gapless generator, by their state.")
        .with_label("state", "unclear"),
    RowPart::gauge("requests", "getid_numbers_requests", "Requests of a gapless generator. Each has a row of the store \
        for ever."),
    RowPart::gauge("requests_released", "getid_numbers_requests_released", "Requests that released their numbers for \
        other requests: `request-max` is the maximum."),
];

#[rustfmt::skip]
const WORKERS: &[Metric] = &[
    gauge("worker_pool_", "State of each pool of worker ids, as seen by this server; counts are since the start.",
        workers::pool_lines)
        .export_parts("pool", WORKER_PARTS),
];

#[rustfmt::skip]
const WORKER_PARTS: &[RowPart] = &[
    RowPart::gauge_if("known", "getid_worker_pool_known", "1 after the leases of the pool were read from the \
        store.", "yes"),
    RowPart::gauge("size", "getid_worker_pool_size", "Worker ids of the pool."),
    RowPart::gauge("leased", "getid_worker_pool_leased", "Worker ids leased by all servers, as seen by this server."),
    RowPart::gauge("free", "getid_worker_pool_free", "Free worker ids, as seen by this server."),
    RowPart::counter("leases", "getid_worker_leases_total", "Worker ids leased by this server."),
    RowPart::counter("renewals", "getid_worker_renewals_total", "Leases renewed by this server."),
    RowPart::counter("releases", "getid_worker_releases_total", "Leases released at this server."),
    RowPart::counter("revocations", "getid_worker_revocations_total", "Leases revoked by operators at this server."),
    RowPart::counter("refused", "getid_worker_refused_total", "Renewals and releases refused by this server."),
    RowPart::counter("exhausted", "getid_worker_exhausted_total", "Requests for a worker id while none was free."),
    RowPart::counter("errors", "getid_worker_store_errors_total", "Failed calls of the store of worker ids."),
];

#[rustfmt::skip]
const STORE_PARTS: &[RowPart] = &[
    RowPart::label("address", "getid_store_info", "address", "Address of the store, without a password."),
    RowPart::gauge_if("state", "getid_store_up", "1 while values can be reserved in the store of sequences.", "up"),
    RowPart::gauge("for_s", "getid_store_state_seconds", "Age of the store's state, seconds."),
    RowPart::label("database", "getid_store_info", "database", "Name and version of the database."),
    RowPart::counter("statements", "getid_store_statements_total", "Statements sent to the store."),
    RowPart::counter("errors", "getid_store_errors_total", "Failed statements and failed connections."),
    RowPart::gauge("servers", "getid_store_other_servers", "Other live servers that share the store."),
    RowPart::gauge("waits_for", "getid_store_awaited_servers", "Servers that the store waits for: without their \
        answer it reserves no values."),
    RowPart::gauge("unanswered", "getid_store_unanswered", "Statements that were not answered in time and may still \
        take effect."),
    RowPart::gauge_of_ms("slowest_ms", "getid_store_slowest_seconds", "Duration of the slowest statement, seconds."),
    RowPart::counter("reserved", "getid_store_values_reserved_total", "Values reserved in the store."),
    RowPart::omitted("reason", MetricKind::Text,
        OmitReason::Because("A sentence of the database. INFO, `SEQUENCE STORES` and the log contain it."),
        "Reason for which the store is `held` or `down`."),
];

#[rustfmt::skip]
const SEQUENCE_PARTS: &[RowPart] = &[
    RowPart::counter("given", "getid_sequence_given_total", "Values issued since the sequence was loaded into \
        memory."),
    RowPart::gauge("last", "getid_sequence_last_value", "Last value that this server issued."),
    RowPart::gauge("until", "getid_sequence_reserved_until", "Last value that this server holds."),
    RowPart::gauge("left", "getid_sequence_left", "Values that are held and not issued; absent for a sequence with \
        `cache 0`, which holds none."),
    RowPart::gauge("max_used", "getid_sequence_max_used_ratio", "Share of the values up to the sequence's max that \
        all servers had reserved at this server's last reservation, 0 to 1."),
    RowPart::gauge("rate_10s", "getid_sequence_values_per_second", "Values per second, by window.")
        .with_label("window", "10s"),
    RowPart::gauge("rate_5min", "getid_sequence_values_per_second", "Values per second, by window.")
        .with_label("window", "5m"),
    RowPart::gauge("rate_30min", "getid_sequence_values_per_second", "Values per second, by window.")
        .with_label("window", "30m"),
    RowPart::gauge("segment", "getid_sequence_segment_values", "Values of the last reservation."),
    RowPart::gauge_of_ms("fetched_ms_ago", "getid_sequence_last_fetch_age_seconds", "Age of the last reservation \
        to 0.064 s, seconds."),
    RowPart::gauge_of_ms("fetch_ms", "getid_sequence_last_fetch_duration_seconds", "Duration of the last \
        reservation, seconds."),
    RowPart::counter("waited", "getid_sequence_waited_total", "Draws that waited."),
    RowPart::gauge("waiting", "getid_sequence_waiting", "Draws that wait now."),
    RowPart::counter("errors", "getid_sequence_fetch_failures_total", "Failed fetches."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_one_name_and_a_sentence() {
        let mut names = std::collections::BTreeSet::new();
        for metric in SECTIONS.iter().flat_map(|section| section.metrics) {
            assert!(names.insert(metric.name), "{} has two rows", metric.name);
            let help = metric.help;
            assert!(help.ends_with('.') && !help.contains("  ") && help.is_ascii(), "{}: {help}", metric.name);
        }
    }
}
