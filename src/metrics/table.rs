//! The table of all metrics: one row each, in INFO's order.
//!
//! Sections, fields and their order are Redis 7.2's where Redis has them, so that redis-cli --stat, exporters and
//! agents find their fields. The section `Generator` is getid's own. Fields of features that getid lacks are omitted,
//! unless a widely used program reads them and would fail, or lack a graph, without them. These are clients when they
//! connect (`loading:0` for ioredis), prometheus-redis-exporter and its dashboards, the templates of Zabbix, and the
//! modules of Datadog, Telegraf and Metricbeat. Those fields are constants, with the values of an empty Redis.
//!
//! A new metric is a row here. It reads a [`Counter`], or another of the [`Facts`]. Each row ends with its export to
//! Prometheus, or the reason why it has none ([`super::export`]), so that INFO and Prometheus have the same values.

use super::claim;
use super::export::{Durations, Export, Part, Untold};
use super::facts::load;
use super::{CommandTotals, Counter, Facts, Value, sequences, workers};
use crate::command::{self, REDIS_VERSION};
use crate::generators::NamedStatus;
use crate::text::timestamp;

/// A section of INFO.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Name of the section.
    pub title: &'static str,
    /// Whether INFO includes the section when no section is named.
    pub is_default: bool,
    /// Rows of the section, in order.
    pub metrics: &'static [Metric],
}

impl Section {
    /// Returns true for the section of the HTTP port.
    pub fn is_of_http(&self) -> bool {
        self.title == "Http"
    }

    /// Returns true for the section of the claim in a cluster store.
    pub fn is_of_claim(&self) -> bool {
        self.title == "Claim"
    }

    /// Returns true for the section of sequences.
    pub fn is_of_sequences(&self) -> bool {
        self.title == "Sequences"
    }

    /// Returns true for the section of worker ids.
    pub fn is_of_workers(&self) -> bool {
        self.title == "Workers"
    }

    /// Returns true if the section has a line for each named generator.
    pub fn is_of_generators(&self) -> bool {
        matches!(self.metrics, [Metric { source: Source::Generator(_), .. }, ..])
    }
}

/// A metric of the server.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name of INFO's field; for a family, the prefix of its labels.
    pub name: &'static str,
    /// Kind of the value.
    pub kind: Kind,
    /// Description in one sentence, with the unit.
    pub help: &'static str,
    /// Source of the value.
    pub source: Source,
    /// Export to Prometheus.
    pub export: Export,
}

/// Kind of a metric's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows while the server runs, and restarts at 0 with `CONFIG RESETSTAT`.
    Counter,
    /// A number that may fall.
    Gauge,
    /// Words, or a number that is an identifier.
    Text,
}

/// Source of a metric's value.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// A value that never changes, for tools that read it.
    Constant(&'static str),
    /// A value read from the facts.
    Facts(fn(&Facts<'_>) -> Value),
    /// A value of each named generator. INFO has a line for each generator, with all metrics of its section.
    Generator(fn(&Facts<'_>, &NamedStatus) -> Value),
}

type Read = fn(&Facts<'_>) -> Value;

const NOT_SAID: Export = Export::Untold(Untold::NotSaid);

pub(super) const fn counter(name: &'static str, help: &'static str, read: Read) -> Metric {
    Metric { name, kind: Kind::Counter, help, source: Source::Facts(read), export: NOT_SAID }
}

pub(super) const fn gauge(name: &'static str, help: &'static str, read: Read) -> Metric {
    Metric { name, kind: Kind::Gauge, help, source: Source::Facts(read), export: NOT_SAID }
}

pub(super) const fn text(name: &'static str, help: &'static str, read: Read) -> Metric {
    Metric { name, kind: Kind::Text, help, source: Source::Facts(read), export: NOT_SAID }
}

const fn constant(name: &'static str, value: &'static str) -> Metric {
    let help = "Never changes; there for tools that look for it.";
    Metric { name, kind: Kind::Text, help, source: Source::Constant(value), export: Export::Untold(Untold::Constant) }
}

const fn each(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    read: fn(&Facts<'_>, &NamedStatus) -> Value,
) -> Metric {
    Metric { name, kind, help, source: Source::Generator(read), export: NOT_SAID }
}

const fn section(title: &'static str, metrics: &'static [Metric]) -> Section {
    Section { title, is_default: true, metrics }
}

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
    section("Cluster", &[constant("cluster_enabled", "0")]),
    section("Keyspace", &[]),
    section("Generator", GENERATOR),
    section("Claim", claim::ROWS),
    section("Generators", GENERATORS),
    section("Sequences", SEQUENCES),
    section("Workers", WORKERS),
    section("Http", HTTP),
];

#[rustfmt::skip]
const SERVER: &[Metric] = &[
    text("redis_version", "The Redis whose protocol getid speaks.", |_| REDIS_VERSION.into())
        .told_as_label("getid_build_info", "redis_version"),
    text("getid_version", "The version of getid.", |_| env!("CARGO_PKG_VERSION").into())
        .told_as_label("getid_build_info", "version"),
    constant("redis_mode", "standalone"),
    text("os", "The system's name, release and machine.", |_| crate::system::usage::os().into())
        .told_as_label("getid_process_info", "os"),
    text("arch_bits", "Bits of an address.", |_| usize::BITS.into()).told_as_label("getid_build_info", "arch_bits"),
    constant("monotonic_clock", "POSIX clock_gettime"),
    text("multiplexing_api", "What the runtime waits for sockets with.",
        |_| if cfg!(target_os = "linux") { "epoll" } else { "kqueue" }.into())
        .told_as_label("getid_build_info", "multiplexing_api"),
    text("process_id", "The process id.", |_| std::process::id().into())
        .told_as_label("getid_process_info", "process_id"),
    text("process_supervised", "The directive `supervised`.", |facts| facts.config.supervised.word().into())
        .told_as_label("getid_process_info", "supervised"),
    text("run_id", "40 hex digits, new at each start.", |facts| facts.process.run_id.into())
        .told_as_label("getid_process_info", "run_id"),
    text("tcp_port", "`port`, or `tls-port` where that is 0.", |facts| facts.process.tcp_port.into())
        .told_as_label("getid_server_info", "tcp_port"),
    gauge("server_time_usec", "The system's clock, Unix time in microseconds.", |facts| facts.process.wall_unix_us.into())
        .told_of_us("getid_time_seconds").saying("The system's clock, Unix time in seconds."),
    gauge("uptime_in_seconds", "Seconds since the start.", |facts| load(&facts.metrics.uptime_s))
        .told("getid_uptime_seconds"),
    gauge("uptime_in_days", "Whole days since the start.", |facts| (facts.metrics.uptime_s() / 86_400).into())
        .computed("getid_uptime_seconds / 86400"),
    gauge("hz", "The directive `hz`.", |facts| facts.config.hz.into()).told("getid_hz"),
    gauge("configured_hz", "The directive `hz`.", |facts| facts.config.hz.into()).same_as("hz"),
    text("executable", "The path of the program.", |facts| facts.process.executable.into())
        .told_as_label("getid_process_info", "executable"),
    text("config_file", "The path of the configuration file; empty without one.",
        |facts| facts.process.config_file.into()).told_as_label("getid_process_info", "config_file"),
    gauge("io_threads_active", "1 with several `io-threads`.", |facts| facts.is_threaded().into())
        .told("getid_io_threads_active"),
    // The four lines of the fork.
    text("server_id", "The directive `server-id`; with `auto` the one that is claimed, or `none`.",
        |facts| facts.server_id.map_or_else(|| "none".into(), Value::from))
        .told_as_label("getid_server_info", "server_id"),
    gauge("id_range", "Bits of the server id in an ID.", |facts| facts.layout.server_bits().into())
        .told("getid_layout_field_width").with("field", "server_id")
        .saying("Widths of the fields of the unnamed generator's layout, bits."),
    gauge("shard_range", "Bits of the counter in an ID.", |facts| facts.layout.shard_bits().into())
        .told("getid_layout_field_width").with("field", "shard"),
    gauge("random_range", "Random bits in an ID.", |facts| facts.layout.random_bits().into())
        .told("getid_layout_field_width").with("field", "random"),
];

#[rustfmt::skip]
const CLIENTS: &[Metric] = &[
    gauge("connected_clients", "Clients that are connected.", |facts| facts.clients.connected.into())
        .told("getid_clients"),
    constant("cluster_connections", "0"),
    gauge("maxclients", "The directive `maxclients`, as far as the limit of open files allows it.",
        |facts| facts.clients.max.into()).told("getid_clients_max"),
    // Redis's values are the largest of the last few seconds.
    gauge("client_recent_max_input_buffer", "The largest input that waits to be read, of the clients that are connected \
        now, bytes.", |facts| facts.clients.input_bytes_max.into()).told("getid_client_input_max_bytes"),
    gauge("client_recent_max_output_buffer", "The largest output that waits to be taken, of the clients that are connected \
        now, bytes.", |facts| facts.clients.output_bytes_max.into()).told("getid_client_output_max_bytes"),
    gauge("client_buffers_bytes", "What all clients' buffers take while they wait, bytes.",
        |facts| facts.clients.held_bytes.into()).told("getid_client_buffers_bytes"),
    gauge("maxmemory_clients", "What all clients' buffers may take (`maxmemory-clients`), bytes; 0: no limit.",
        |facts| facts.clients.held_bytes_max.unwrap_or(0).into()).told("getid_client_buffers_limit_bytes"),
    gauge("blocked_clients", "Clients that wait for IDs.", |facts| facts.clients.waiting.into())
        .told("getid_clients_blocked"),
    gauge("unixsocket_clients", "Clients on the Unix socket.", |facts| facts.clients.on_unix_socket.into())
        .told("getid_clients_on_unix_socket"),
    gauge("clients_peak", "The most clients at one time.", |facts| load(&facts.metrics.clients_peak))
        .told("getid_clients_peak"),
    gauge("monitors", "Clients that monitor.", |facts| facts.clients.monitors.into()).told("getid_monitors"),
    counter("monitors_dropped", "Monitors that fell behind and were closed.", |facts| facts.clients.monitors_dropped.into())
        .told("getid_monitors_dropped_total"),
    // These fields have the names of later versions of Redis.
    text("paused_reason", "Why requests are held: `client_pause`, or `none`.",
        |facts| if facts.clients.pause.is_some() { "client_pause" } else { "none" }.into())
        .told_unless("getid_paused", "none")
        .saying("1 while `CLIENT PAUSE` holds requests."),
    text("paused_actions", "What `CLIENT PAUSE` holds: `write`, `all` or `none`.",
        |facts| facts.clients.pause.map_or("none", |(actions, _)| actions).into())
        .told_if("getid_paused_all", "all")
        .saying("1 while `CLIENT PAUSE` holds all requests, not only those that change something."),
    gauge("paused_timeout_milliseconds", "For how long `CLIENT PAUSE` still holds, ms.",
        |facts| facts.clients.pause.map_or(0, |(_, left_ms)| left_ms).into()).told_of_ms("getid_pause_left_seconds"),
    constant("tracking_clients", "0"),
    constant("clients_in_timeout_table", "0"),
];

#[rustfmt::skip]
const HTTP: &[Metric] = &[
    gauge("http_connected_clients", "Connections to the HTTP port.", |facts| load(&facts.metrics.http.connected))
        .told("getid_http_connected_clients"),
    gauge("http_peak_clients", "The most of them at one time.", |facts| load(&facts.metrics.http.peak))
        .told("getid_http_peak_clients"),
    gauge("http_max_clients", "The directive `http-max-clients`, as far as the limit of open files allows it.",
        |facts| facts.config.http.clients_max.into()).told("getid_http_max_clients"),
    gauge("http_streams", "Streams of events that are under way, a second ago at most.",
        |facts| load(&facts.metrics.http.streams)).told("getid_http_streams"),
    counter("http_connections_received", "Connections to the HTTP port, refused ones included.",
        |facts| facts.counted(Counter::HttpConnections)).told("getid_http_connections_total"),
    counter("http_connections_refused", "HTTP connections refused because all places of `http-max-clients` were at work.",
        |facts| facts.counted(Counter::HttpRefused)).told("getid_http_connections_ended_total").with("why", "refused")
        .saying("HTTP connections that the server ended, by the reason."),
    counter("http_connections_evicted", "HTTP connections that were idle or stuck, and made room for others.",
        |facts| facts.counted(Counter::HttpEvicted)).told("getid_http_connections_ended_total").with("why", "evicted"),
    counter("http_connections_idle_closed", "HTTP connections closed after `http-timeout` without a request.",
        |facts| facts.counted(Counter::HttpIdleClosed)).told("getid_http_connections_ended_total").with("why", "idle"),
    counter("http_requests_2xx", "HTTP requests answered with a status below 400.",
        |facts| facts.counted(Counter::HttpAnswered)).told("getid_http_requests_total").with("status", "2xx")
        .saying("HTTP requests, by the status they were answered with."),
    counter("http_requests_4xx", "HTTP requests answered with a status of 400 to 499.",
        |facts| facts.counted(Counter::HttpFaulty)).told("getid_http_requests_total").with("status", "4xx"),
    counter("http_requests_5xx", "HTTP requests answered with a status of 500 and more.",
        |facts| facts.counted(Counter::HttpFailed)).told("getid_http_requests_total").with("status", "5xx"),
    counter("http_requests_malformed", "HTTP requests refused for the form of their head or of their chunks.",
        |facts| facts.counted(Counter::HttpHeadsBad)).told("getid_http_requests_refused_total").with("why", "malformed")
        .saying("HTTP requests refused by the bounds of the port, by the reason; they are among those with a status of \
            4xx and 5xx."),
    counter("http_heads_late", "HTTP requests whose head did not come within 10 s.",
        |facts| facts.counted(Counter::HttpHeadsLate)).told("getid_http_requests_refused_total").with("why", "head_late"),
    counter("http_bodies_late", "HTTP requests whose body did not come within 30 s.",
        |facts| facts.counted(Counter::HttpBodiesLate)).told("getid_http_requests_refused_total").with("why", "body_late"),
    counter("http_bodies_too_large", "HTTP requests whose body was larger than 64 KiB.",
        |facts| facts.counted(Counter::HttpBodiesTooLarge)).told("getid_http_requests_refused_total")
        .with("why", "body_too_large"),
    counter("http_answers_late", "HTTP requests that were not done within 60 s.",
        |facts| facts.counted(Counter::HttpAnswersLate)).told("getid_http_requests_refused_total").with("why", "answer_late"),
];

#[rustfmt::skip]
const MEMORY: &[Metric] = &[
    gauge("used_memory", "Resident memory, bytes.", |facts| facts.memory.resident_bytes.into())
        .told("getid_memory_resident_bytes"),
    text("used_memory_human", "Resident memory.", |facts| Value::human(facts.memory.resident_bytes))
        .same_as("used_memory"),
    gauge("used_memory_rss", "Resident memory, bytes.", |facts| facts.memory.resident_bytes.into())
        .same_as("used_memory"),
    text("used_memory_rss_human", "Resident memory.", |facts| Value::human(facts.memory.resident_bytes))
        .same_as("used_memory"),
    gauge("used_memory_peak", "The most resident memory seen, bytes.", |facts| load(&facts.metrics.memory_peak))
        .told("getid_memory_peak_bytes"),
    text("used_memory_peak_human", "The most resident memory seen.", |facts| Value::human(facts.metrics.memory_peak()))
        .same_as("used_memory_peak"),
    text("used_memory_peak_perc", "Resident memory as a part of its peak, percent.",
        |facts| Value::percent(facts.memory.resident_bytes, facts.metrics.memory_peak()))
        .computed("100 * getid_memory_resident_bytes / getid_memory_peak_bytes"),
    // There is no data: all memory apart from the program itself belongs to clients.
    gauge("used_memory_overhead", "Resident memory, bytes.", |facts| facts.memory.resident_bytes.into())
        .same_as("used_memory"),
    gauge("used_memory_startup", "Resident memory when the first client could connect, bytes.",
        |facts| load(&facts.metrics.memory_startup)).told("getid_memory_startup_bytes"),
    constant("used_memory_dataset", "0"),
    constant("used_memory_dataset_perc", "0.00%"),
    gauge("allocator_allocated", "Resident memory, bytes.", |facts| facts.memory.resident_bytes.into())
        .same_as("used_memory"),
    gauge("allocator_active", "Resident memory, bytes.", |facts| facts.memory.resident_bytes.into())
        .same_as("used_memory"),
    gauge("allocator_resident", "Resident memory, bytes.", |facts| facts.memory.resident_bytes.into())
        .same_as("used_memory"),
    gauge("total_system_memory", "The machine's memory, bytes.", |facts| facts.memory.machine_bytes.into())
        .told("getid_machine_memory_bytes"),
    text("total_system_memory_human", "The machine's memory.", |facts| facts.memory.machine_bytes.map(Value::human).into())
        .same_as("total_system_memory"),
    gauge("mem_clients_normal", "Resident memory that came since the start, bytes.",
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
    gauge("rdb_last_save_time", "When the watermark was last saved, Unix seconds.",
        |facts| (facts.generator.last_save_unix_ms / 1000).into()).same_as("watermark_last_save_time"),
    text("rdb_last_bgsave_status", "Whether the last save of the watermark failed: `err`, else `ok`.",
        |facts| facts.last_save().into()).same_as("watermark_last_save_status"),
    gauge("rdb_last_bgsave_time_sec", "How long the last save of the watermark took, whole seconds.",
        |facts| (facts.generator.last_save_us / 1_000_000).into()).same_as("watermark_last_save_usec"),
    counter("rdb_saves", "Saves of the watermark that succeeded.", |facts| facts.generator.saves.into())
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
        |facts| facts.counted(Counter::Connections)).told("getid_connections_total"),
    counter("total_commands_processed", "Requests answered, errors included.", |facts| facts.metrics.work().requests.into())
        .told("getid_requests_total"),
    gauge("instantaneous_ops_per_sec", "Requests a second, over the last samples.", |facts| facts.metrics.rate.per_s().into())
        .computed("rate(getid_requests_total[1m])"),
    counter("total_net_input_bytes", "Bytes read from clients.", |facts| facts.metrics.work().input_bytes.into())
        .told("getid_input_bytes_total"),
    counter("total_net_output_bytes", "Bytes written to clients.", |facts| facts.metrics.work().output_bytes.into())
        .told("getid_output_bytes_total"),
    gauge("instantaneous_input_kbps", "Kilobytes (1024 bytes) read a second, over the last samples.",
        |facts| Value::hundredths(facts.metrics.input_rate.per_s() * 100 / 1024))
        .computed("rate(getid_input_bytes_total[1m]) / 1024"),
    gauge("instantaneous_output_kbps", "Kilobytes (1024 bytes) written a second, over the last samples.",
        |facts| Value::hundredths(facts.metrics.output_rate.per_s() * 100 / 1024))
        .computed("rate(getid_output_bytes_total[1m]) / 1024"),
    counter("rejected_connections", "Connections refused at `maxclients`, or from other machines in protected mode.",
        |facts| facts.counted(Counter::ConnectionsRejected)).told("getid_connections_rejected_total"),
    counter("total_error_replies", "Error replies.",
        |facts| facts.metrics.errors().iter().map(|(_, count)| count).sum::<u64>().into())
        .computed("sum without (code) (getid_errors_total)"),
    counter("total_reads_processed", "Reads that brought something.", |facts| facts.metrics.work().reads.into())
        .told("getid_reads_total"),
    counter("total_writes_processed", "Writes to clients.", |facts| facts.metrics.work().writes.into())
        .told("getid_writes_total"),
    // With several threads, each thread reads and writes for its own connections.
    counter("io_threaded_reads_processed", "The same as `total_reads_processed` with several `io-threads`, otherwise 0.",
        |facts| if facts.is_threaded() { facts.metrics.work().reads } else { 0 }.into())
        .same_as("total_reads_processed"),
    counter("io_threaded_writes_processed", "The same as `total_writes_processed` with several `io-threads`, otherwise 0.",
        |facts| if facts.is_threaded() { facts.metrics.work().writes } else { 0 }.into())
        .same_as("total_writes_processed"),
    counter("acl_access_denied_auth", "Logins that failed.", |facts| facts.counted(Counter::DeniedLogins))
        .told("getid_denied_total").with("what", "login")
        .saying("Logins that failed, and requests for what their user may not have."),
    counter("acl_access_denied_cmd", "Commands that their user may not run.", |facts| facts.counted(Counter::DeniedCommands))
        .told("getid_denied_total").with("what", "command"),
    counter("acl_access_denied_key", "Requests for a generator or a sequence that their user may not ask.",
        |facts| facts.counted(Counter::DeniedKeys)).told("getid_denied_total").with("what", "key"),
    counter("acl_access_denied_channel", "Requests for a channel that their user may not use.",
        |facts| facts.counted(Counter::DeniedChannels)).told("getid_denied_total").with("what", "channel"),
    counter("protocol_error_connections", "Connections closed for breaking the protocol.",
        |facts| facts.counted(Counter::ProtocolErrors))
        .told("getid_connections_closed_total").with("reason", "protocol_error")
        .saying("Connections closed by the server, by the reason."),
    counter("client_query_buffer_limit_disconnections", "Of these, those that sent a request larger than \
        `client-query-buffer-limit`.", |facts| facts.counted(Counter::InputLimitClosed))
        .told("getid_protocol_errors_query_buffer_limit_total")
        .saying("Of the connections closed for breaking the protocol, those that sent a request larger than \
            `client-query-buffer-limit`."),
    counter("client_output_buffer_limit_disconnections", "Connections closed because more output waited than \
        `client-output-buffer-limit` allows.", |facts| facts.counted(Counter::OutputLimitClosed))
        .told("getid_connections_closed_total").with("reason", "output_buffer_limit"),
    counter("client_output_timeout_disconnections", "Connections closed because they took no output for \
        `client-output-timeout`.", |facts| facts.counted(Counter::OutputTimeoutClosed))
        .told("getid_connections_closed_total").with("reason", "output_timeout"),
    counter("cross_protocol_disconnections", "Connections closed for breaking the protocol with `POST` or `Host:`.",
        |facts| facts.counted(Counter::HttpClosed))
        .told("getid_protocol_errors_cross_protocol_total")
        .saying("Of the connections closed for breaking the protocol, those that did so with `POST` or `Host:`."),
    counter("evicted_clients", "Connections closed because they were the largest when all clients' buffers together passed \
        `maxmemory-clients`.", |facts| facts.counted(Counter::Evicted))
        .told("getid_connections_closed_total").with("reason", "evicted"),
    counter("auth_timeout_disconnections", "Connections closed because nobody logged in within `auth-timeout`.",
        |facts| facts.counted(Counter::AuthTimeoutClosed))
        .told("getid_connections_closed_total").with("reason", "auth_timeout"),
    counter("idle_closed_connections", "Connections closed for being silent longer than `timeout`.",
        |facts| facts.counted(Counter::IdleClosed)).told("getid_connections_closed_total").with("reason", "idle"),
    counter("accept_errors", "Connections that could not be accepted, for want of open files; tried again ten times a second.",
        |facts| facts.counted(Counter::AcceptErrors)).told("getid_accept_errors_total"),
    counter("tls_handshakes", "TLS handshakes that succeeded.", |facts| facts.tls.handshakes.into())
        .told("getid_tls_handshakes_total"),
    counter("tls_handshakes_failed", "TLS handshakes that failed.", |facts| facts.tls.failures.into())
        .told("getid_tls_handshakes_failed_total"),
    counter("tls_handshakes_resumed", "TLS handshakes that succeeded with an earlier session.",
        |facts| facts.tls.resumed.into()).told("getid_tls_handshakes_resumed_total"),
    counter("tls_handshakes_evicted", "TLS handshakes closed because they were stalled while others waited for their place.",
        |facts| facts.counted(Counter::HandshakesEvicted)).told("getid_tls_handshakes_evicted_total"),
    gauge("tls_handshakes_under_way", "TLS handshakes that are under way.", |facts| facts.tls.under_way.into())
        .told("getid_tls_handshakes_under_way"),
    gauge("tls_certificate_ends", "With `tls-port`: when the server's certificate ends, Unix seconds.",
        |facts| facts.tls.ends_s.into()).told("getid_tls_certificate_end_timestamp_seconds"),
    gauge("tls_certificate_days_left", "With `tls-port`: days until the server's certificate ends, negative once it has \
        ended.", |facts| facts.certificate_days_left().into())
        .computed("(getid_tls_certificate_end_timestamp_seconds - time()) / 86400"),
    counter("connection_panics", "Connections ended by a bug in getid; please report it.",
        |facts| facts.counted(Counter::Panics)).told("getid_connections_closed_total").with("reason", "panic"),
    counter("log_lines_dropped", "Lines of the log that were not taken in time, or could not be written: its disk may be full.", |facts| facts.log_lines_dropped.into())
        .told("getid_log_lines_dropped_total"),
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
    text("role", "`master`, or `standby` while another server has the claim of its server-id, or nobody.",
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
        |facts| facts.cpu.own.map(|cpu| Value::s(cpu.system_us)).into())
        .told("getid_cpu_seconds_total").with("mode", "system")
        .saying("CPU time in and outside the kernel, seconds."),
    counter("used_cpu_user", "CPU time outside the kernel, seconds.",
        |facts| facts.cpu.own.map(|cpu| Value::s(cpu.user_us)).into())
        .told("getid_cpu_seconds_total").with("mode", "user"),
    counter("used_cpu_sys_children", "CPU time of child processes in the kernel, seconds.",
        |facts| facts.cpu.of_children.map(|cpu| Value::s(cpu.system_us)).into())
        .told("getid_children_cpu_seconds_total").with("mode", "system")
        .saying("CPU time of child processes in and outside the kernel, seconds."),
    counter("used_cpu_user_children", "CPU time of child processes outside the kernel, seconds.",
        |facts| facts.cpu.of_children.map(|cpu| Value::s(cpu.user_us)).into())
        .told("getid_children_cpu_seconds_total").with("mode", "user"),
    // The value is at most a second old.
    counter("used_cpu_sys_main_thread", "CPU time of the main thread in the kernel, seconds.",
        |facts| Value::s(facts.metrics.main_cpu().system_us))
        .told("getid_main_thread_cpu_seconds_total").with("mode", "system")
        .saying("CPU time of the main thread in and outside the kernel, seconds."),
    counter("used_cpu_user_main_thread", "CPU time of the main thread outside the kernel, seconds.",
        |facts| Value::s(facts.metrics.main_cpu().user_us))
        .told("getid_main_thread_cpu_seconds_total").with("mode", "user"),
];

#[rustfmt::skip]
const COMMANDSTATS: &[Metric] = &[
    counter("cmdstat_", "Of each command that was called: calls that ran, their time in microseconds together and each, \
        requests rejected before they ran, calls answered by an error.",
        |facts| of_commands(facts, |totals| {
            let CommandTotals { calls, failed, rejected, ns, .. } = *totals;
            // In hundredths, from the exact time: many IDs take less than a microsecond.
            let per_call = (u128::from(ns) + 5 * u128::from(calls)) / (10 * u128::from(calls.max(1)));
            Some(Value::Parts(vec![
                ("calls", calls.into()),
                ("usec", (ns / 1000).into()),
                ("usec_per_call", Value::hundredths(per_call.try_into().unwrap_or(u64::MAX))),
                ("rejected_calls", rejected.into()),
                ("failed_calls", failed.into()),
            ]))
        }))
        .told_in_parts("command", &[
            Part::counter("calls", "getid_commands_total", "Calls of each command that ran."),
            Part::untold("usec", Untold::Computed("getid_command_duration_seconds_sum")),
            Part::untold("usec_per_call", Untold::Computed("rate(getid_command_duration_seconds_sum[1m]) / \
                rate(getid_command_duration_seconds_count[1m])")),
            Part::counter("rejected_calls", "getid_commands_rejected_total",
                "Requests of each command that were rejected before they ran."),
            Part::counter("failed_calls", "getid_commands_failed_total",
                "Calls of each command that were answered by an error."),
        ]),
];

#[rustfmt::skip]
const ERRORSTATS: &[Metric] = &[
    counter("errorstat_", "Error replies with each first word.", |facts| {
        let errors = facts.metrics.errors().into_iter();
        let parts = |count: u64| Value::Parts(vec![("count", count.into())]);
        Value::Family(errors.map(|(code, count)| (code.word(), parts(count))).collect())
    }).told_in_parts("code", &[
        Part::counter("count", "getid_errors_total", "Error replies, by their first word."),
    ]),
];

#[rustfmt::skip]
const LATENCYSTATS: &[Metric] = &[
    gauge("latency_percentiles_usec_", "Of each command that was called: percentiles of its time, microseconds.",
        |facts| of_commands(facts, |totals| {
            let at = |per_mille| Value::us(totals.histogram.percentile_ns(per_mille));
            let parts = || vec![("p50", at(500)), ("p99", at(990)), ("p99.9", at(999))];
            (totals.calls > 0).then(|| Value::Parts(parts()))
        }))
        .told_as_histogram("getid_command_duration_seconds", "How long calls of each command took, seconds; of those \
            that give IDs, their share of the draw.", "command", durations),
];

fn durations(facts: &Facts<'_>) -> Vec<(String, Durations)> {
    let of = |row: &command::Command| {
        let CommandTotals { calls, ns, histogram, .. } = facts.metrics.command(row.verb)?;
        (calls > 0).then(|| (row.full_name.to_owned(), Durations { sum_ns: ns, histogram }))
    };
    command::rows().filter_map(of).collect()
}

fn of_commands(facts: &Facts<'_>, value: fn(&CommandTotals) -> Option<Value>) -> Value {
    let of = |row: &command::Command| Some((row.full_name.to_owned(), value(&facts.metrics.command(row.verb)?)?));
    Value::Family(command::rows().filter_map(of).collect())
}

#[rustfmt::skip]
const GENERATOR: &[Metric] = &[
    gauge("id_epoch", "Where ticks are counted from, Unix ms.", |facts| facts.layout.epoch().unix_ms().into())
        .told_of_ms("getid_epoch_timestamp_seconds").saying("Where ticks are counted from, Unix seconds."),
    gauge("capacity_per_sec", "IDs a second that the layout holds.", |facts| facts.layout.capacity_per_s().into())
        .told("getid_layout_capacity_per_second"),
    text("at_limit", "While more IDs are asked for than the layout holds: how many, and which shard-range would hold them; \
        else `no`.", |facts| facts.shortage().unwrap_or_else(|| "no".to_owned()).into())
        .computed("getid_ids_demanded_per_second > getid_layout_capacity_per_second"),
    text("layout_ends", "Until when the layout lasts.",
        |facts| timestamp::format_rfc3339(facts.layout.last_unix_ms()).into())
        .told_of_ms("getid_layout_end_timestamp_seconds").of_unnamed()
        .saying("When the time of the generator's IDs ends, Unix seconds.")
        .reading(|facts| facts.layout.last_unix_ms().into()),
    gauge("layout_days_left", "Days until then, negative once it has ended.",
        |facts| facts.days_until(facts.layout.last_unix_ms()).into())
        .computed("(getid_layout_end_timestamp_seconds - time()) / 86400"),
    counter("ids_issued", "IDs given in this life.", |facts| facts.generator.mint.ids_issued.into())
        .told("getid_ids_issued_total").of_unnamed(),
    gauge("position", "The first tick without an ID, ms since the epoch.", |facts| facts.generator.mint.position.0.into())
        .told_of_ms("getid_position_timestamp_seconds")
        .saying("The first tick without an ID, as a time, Unix seconds.")
        .reading(|facts| facts.unix_ms(facts.generator.mint.position).into()),
    text("position_time", "The same as a time.", |facts| facts.time(facts.generator.mint.position)).same_as("position"),
    gauge("reference", "The reference clock, by which IDs are made, ms since the epoch.",
        |facts| facts.generator.mint.reference.0.into())
        .told_of_ms("getid_reference_timestamp_seconds")
        .saying("The reference clock, by which IDs are made, Unix seconds.")
        .reading(|facts| facts.unix_ms(facts.generator.mint.reference).into()),
    text("reference_time", "The same as a time.", |facts| facts.time(facts.generator.mint.reference))
        .same_as("reference"),
    gauge("clock_offset_ms", "How far the system's clock is ahead of the reference clock, ms; negative: behind, after it \
        was set back.", |facts| facts.generator.mint.clock_offset_ms.into())
        .told_of_ms("getid_clock_offset_seconds")
        .saying("How far the system's clock is ahead of the reference clock, seconds; negative: behind, after it was set \
            back."),
    counter("clock_set_back", "Times the system's clock was set back.", |facts| facts.generator.mint.rollbacks.into())
        .told("getid_clock_set_back_total"),
    counter("clock_jumps", "Times the system's clock jumped ahead.", |facts| facts.generator.mint.jumps.into())
        .told("getid_clock_jumps_total"),
    gauge("clock_jump_held", "1 while a jump ahead is not followed yet.", |facts| facts.generator.mint.holds_jump.into())
        .told("getid_clock_jump_held"),
    text("refusing", "Why requests for IDs are refused now, or `no`.",
        |facts| facts.generator.refusing.as_ref().map_or_else(|| "no".to_owned(), ToString::to_string).into())
        .told_unless("getid_refusing", "no").of_unnamed()
        .saying("1 while requests for IDs of the generator are refused."),
    gauge("borrow_ms", "How far the next ID is ahead of the reference clock, ms.", |facts| facts.generator.mint.borrow_ms.into())
        .told_of_ms("getid_borrow_seconds").of_unnamed(),
    gauge("borrow_ms_max", "The furthest an ID of this life was ahead of the reference clock, ms.",
        |facts| facts.generator.mint.highest_borrow_ms.into()).told_of_ms("getid_borrow_highest_seconds"),
    gauge("borrow_limit_ms", "The directive `id-max-borrow-ms`, ms.", |facts| facts.config.id_max_borrow_ms.into())
        .told_of_ms("getid_borrow_limit_seconds"),
    text("borrow_policy", "The directive `id-borrow-policy`.", |facts| facts.config.id_borrow_policy.word().into())
        .told_as_label("getid_server_info", "borrow_policy"),
    gauge("ids_per_sec", "IDs given or refused in the last second.", |facts| facts.generator.asked_per_s.into())
        .told("getid_ids_per_second").of_unnamed(),
    gauge("ids_per_sec_demanded", "IDs given, refused or waited for in the last second.",
        |facts| facts.generator.demanded_per_s.into()).told("getid_ids_demanded_per_second"),
    gauge("draws_waiting", "Draws that wait now; a draw is what the requests of one read ask for together.",
        |facts| facts.generator.waiting.into()).told("getid_draws_waiting"),
    gauge("ids_waiting", "IDs that they wait for.", |facts| facts.generator.waiting_ids.into())
        .told("getid_ids_waiting"),
    gauge("wait_ms", "How long a large request would wait now, ms.", |facts| facts.generator.wait_ms.into())
        .told_of_ms("getid_wait_seconds"),
    gauge("wait_limit_ms", "The directive `id-max-wait-ms`, ms.", |facts| facts.config.id_max_wait_ms.into())
        .told_of_ms("getid_wait_limit_seconds"),
    counter("draws_waited", "Draws of this life that had to wait.", |facts| facts.generator.waits.into())
        .told("getid_draws_waited_total").of_unnamed(),
    counter("draws_waited_ms", "How long they waited together, ms.", |facts| facts.generator.waited_ms.into())
        .told_of_ms("getid_draws_waited_seconds_total")
        .saying("How long draws of this life waited together, seconds."),
    counter("draws_refused", "Draws of this life that were refused.", |facts| facts.generator.refusals.into())
        .told("getid_draws_refused_total").of_unnamed(),
    text("state", "The directive `id-state`.", |facts| facts.config.id_state.word().into())
        .told_as_label("getid_server_info", "state"),
    text("state_dir", "The folder of the state.", |facts| facts.config.state_dir.display().to_string().into())
        .told_as_label("getid_server_info", "state_dir"),
    gauge("watermark", "The tick that is saved, ms since the epoch: a life after a crash begins past it.",
        |facts| facts.generator.mint.watermark.0.into())
        .told_of_ms("getid_watermark_timestamp_seconds")
        .saying("The tick that is saved, as a time, Unix seconds: a life after a crash begins past it.")
        .reading(|facts| facts.unix_ms(facts.generator.mint.watermark).into()),
    text("watermark_time", "The same as a time.", |facts| facts.time(facts.generator.mint.watermark))
        .same_as("watermark"),
    gauge("watermark_lead_ms", "How far the watermark is ahead of the next ID, ms: so much time can pass, or be borrowed, \
        while no save succeeds.", |facts| facts.generator.watermark_lead_ms().into())
        .told_of_ms("getid_watermark_lead_seconds"),
    counter("watermark_saves", "Saves of the watermark that succeeded.", |facts| facts.generator.saves.into())
        .told("getid_watermark_saves_total"),
    counter("watermark_save_failures", "Saves of the watermark that failed.", |facts| facts.generator.save_failures.into())
        .told("getid_watermark_save_failures_total"),
    gauge("watermark_last_save_time", "When the last save succeeded, Unix seconds.",
        |facts| (facts.generator.last_save_unix_ms / 1000).into())
        .told_of_ms("getid_watermark_last_save_timestamp_seconds")
        .reading(|facts| facts.generator.last_save_unix_ms.into()),
    gauge("watermark_last_save_usec", "How long it took, microseconds.", |facts| facts.generator.last_save_us.into())
        .told_of_us("getid_watermark_last_save_duration_seconds")
        .saying("How long the last save of the watermark that succeeded took, seconds."),
    text("watermark_last_save_status", "`err` if the last save failed, else `ok`: before the first one, and of a standby, \
        too.", |facts| facts.last_save().into())
        .told_if("getid_watermark_last_save_ok", "ok")
        .saying("0 if the last save of the watermark failed, else 1: before the first one, and of a standby, too."),
    gauge("watermark_saving_ms", "How long the save that is under way has taken, ms; 0: none is.",
        |facts| facts.generator.saving_ms.into()).told_of_ms("getid_watermark_saving_seconds"),
    text("claim", "Whether this server has the right to give IDs with its server-id: `held`, `lost`, or `standby` while \
        it waits for it.", |facts| facts.claim_state().into())
        .told_if("getid_claim_held", "held").saying("1 while this server has the right to give IDs with its server-id."),
];

#[rustfmt::skip]
const GENERATORS: &[Metric] = &[
    each("kind", Kind::Text, "What it is declared as.", |_, own| own.generator.declaration().kind().word.into())
        .told_as_label("getid_generator_info", "kind"),
    each("issued", Kind::Counter, "IDs given in this life.", |_, own| own.issued.into()).told("getid_ids_issued_total"),
    each("waited", Kind::Counter, "Draws of this life that had to wait.", |_, own| own.waited.into())
        .told("getid_draws_waited_total"),
    each("refused", Kind::Counter, "Draws of this life that were refused.", |_, own| own.refused.into())
        .told("getid_draws_refused_total"),
    each("ahead_ms", Kind::Gauge, "How far the next ID is ahead of the reference clock, ms.", |_, own| own.ahead_ms.into())
        .told_of_ms("getid_borrow_seconds"),
    each("rate", Kind::Gauge, "IDs given or refused in the last second.", |_, own| own.asked_per_s.into())
        .told("getid_ids_per_second"),
    each("refuses", Kind::Gauge, "1 while requests for its IDs are refused.", |_, own| own.refusing.is_some().into())
        .told("getid_refusing"),
    each("days_left", Kind::Gauge, "Days until the time of its IDs ends, negative once it has ended; a kind without time \
        has none.", |facts, own| own.generator.declaration().ends_unix_ms().map(|unix_ms| facts.days_until(unix_ms)).into())
        .told_of_ms("getid_layout_end_timestamp_seconds")
        .reading_each(|_, own| own.generator.declaration().ends_unix_ms().into()),
];

#[rustfmt::skip]
const SEQUENCES: &[Metric] = &[
    gauge("sequences_in_memory", "Sequences in memory; the others cost nothing.",
        |facts| facts.sequence_totals().in_memory.into()).told("getid_sequences_in_memory"),
    counter("sequences_given", "Values given in this life.", |facts| facts.sequence_totals().given.into())
        .told("getid_sequences_given_total"),
    gauge("sequences_held", "Values that are reserved and not given: as many are skipped after a `kill -9`, and with them \
        those of fetches under way.", |facts| facts.sequence_totals().held.into()).told("getid_sequences_held"),
    gauge("sequences_waiting", "Draws that wait now.", |facts| facts.sequence_totals().waiting.into())
        .told("getid_sequences_waiting"),
    counter("sequences_waited", "Draws of this life that had to wait.", |facts| facts.sequence_totals().waited.into())
        .told("getid_sequences_waited_total"),
    counter("sequences_refused", "Draws of this life that were refused.", |facts| facts.sequence_totals().refused.into())
        .told("getid_sequences_refused_total"),
    counter("sequences_fetches", "Fetches of this life, each for one sequence; one statement may have several.",
        |facts| facts.sequence_totals().fetches.into()).told("getid_sequences_fetches_total"),
    counter("sequences_fetches_failed", "Fetches that a store has failed, or whose outcome is unknown.",
        |facts| facts.sequence_totals().fetches_failed.into()).told("getid_sequences_fetches_failed_total"),
    gauge("sequences_fetches_under_way", "Fetches under way.", |facts| facts.sequence_totals().fetching.into())
        .told("getid_sequences_fetches_under_way"),
    counter("sequences_went_back", "Sequences found lower in a store than they had been.",
        |facts| facts.sequence_totals().went_back.into()).told("getid_sequences_went_back_total"),
    gauge("sequences_store_", "Of each store, in the order of the configuration: its address without a password; whether it \
        is `opening`, `up`, `held` or `down`, and for how many seconds; the database; statements, those that failed; other \
        live servers; servers that it waits for while it is held; statements that were not answered and may be done yet; the slowest, ms; values reserved; and if \
        it is held or down, the reason.",
        sequences::of_stores)
        .told_in_parts("store", STORE_PARTS),
    gauge("sequences_unlisted", "Sequences in memory that are not told of one by one: INFO has the 16 that are used most, \
        `/metrics` 1,000.", |facts| facts.unlisted_sequences().in_memory.into())
        .told("getid_sequences_unlisted"),
    gauge("sequences_unlisted_given", "Values given in this life by those, and by sequences that have left memory.",
        |facts| facts.unlisted_sequences().given.into())
        .told("getid_sequences_unlisted_given"),
    gauge("sequences_unlisted_held", "Values that those hold.", |facts| facts.unlisted_sequences().held.into())
        .told("getid_sequences_unlisted_held"),
    gauge("sequences_unlisted_waiting", "Draws that wait for values of those.",
        |facts| facts.unlisted_sequences().waiting.into())
        .told("getid_sequences_unlisted_waiting"),
    gauge("sequence_", "Of each of the 16 sequences that are used most: values given since it came into memory; the one given \
        last; the last that is held; how many are left, except with `cache 0`, which holds none; the share of the values up \
        to its max that all servers have reserved, 0 to 1; values a second over 10 s, 5 min and 30 min; values of the last reservation; how long \
        ago that was, and how long it took, ms; draws that had to wait; those that wait now; fetches that failed.",
        sequences::of_busiest)
        .told_in_parts("sequence", SEQUENCE_PARTS),
];

#[rustfmt::skip]
const WORKERS: &[Metric] = &[
    gauge("worker_pool_", "Of each pool of worker ids, as far as this server knows: whether its leases were read from the \
        store; its size; ids that are leased by all servers, and that are free; and what this server has done in this \
        life: ids leased, leases renewed, released, revoked; renewals and releases that were refused; requests for an id \
        when there was none; and calls of the store that failed.",
        workers::of_pools)
        .told_in_parts("pool", WORKER_PARTS),
];

#[rustfmt::skip]
const WORKER_PARTS: &[Part] = &[
    Part::gauge_if("known", "getid_worker_pool_known", "1 once the leases of the pool were read from the store.", "yes"),
    Part::gauge("size", "getid_worker_pool_size", "Worker ids that the pool has."),
    Part::gauge("leased", "getid_worker_pool_leased", "Worker ids that are leased by all servers, as far as this one knows."),
    Part::gauge("free", "getid_worker_pool_free", "Worker ids that are free, as far as this server knows."),
    Part::counter("leases", "getid_worker_leases_total", "Worker ids that this server has leased."),
    Part::counter("renewals", "getid_worker_renewals_total", "Leases that it has renewed."),
    Part::counter("releases", "getid_worker_releases_total", "Leases that were given back to it."),
    Part::counter("revocations", "getid_worker_revocations_total", "Leases that operators have ended."),
    Part::counter("refused", "getid_worker_refused_total", "Renewals and releases that it has refused."),
    Part::counter("exhausted", "getid_worker_exhausted_total", "Requests for a worker id when there was none."),
    Part::counter("errors", "getid_worker_store_errors_total", "Calls of the store of worker ids that failed."),
];

#[rustfmt::skip]
const STORE_PARTS: &[Part] = &[
    Part::label("address", "getid_store_info", "address"),
    Part::gauge_if("state", "getid_store_up", "1 while values can be reserved in the store of sequences.", "up"),
    Part::gauge("for_s", "getid_store_state_seconds", "For how long the store has answered, or has not, seconds."),
    Part::label("database", "getid_store_info", "database"),
    Part::counter("statements", "getid_store_statements_total", "Statements that the store was sent."),
    Part::counter("errors", "getid_store_errors_total", "Statements that failed, and connections that were not opened."),
    Part::gauge("servers", "getid_store_other_servers", "Other servers that share the store and are live."),
    Part::gauge("waits_for", "getid_store_awaited_servers", "Servers that hold the store: nothing is reserved in it before \
        they have answered."),
    Part::gauge("unanswered", "getid_store_unanswered", "Statements that were not answered in time and may be done yet."),
    Part::gauge_of_ms("slowest_ms", "getid_store_slowest_seconds", "The slowest statement, seconds."),
    Part::counter("reserved", "getid_store_values_reserved_total", "Values that were reserved in the store."),
    Part::untold("said", Untold::Because("A sentence of the database; INFO, `SEQUENCE STORES` and the log have it.")),
];

#[rustfmt::skip]
const SEQUENCE_PARTS: &[Part] = &[
    Part::counter("given", "getid_sequence_given_total", "Values given since the sequence came into memory."),
    Part::gauge("last", "getid_sequence_last_value", "The value that this server gave last."),
    Part::gauge("until", "getid_sequence_reserved_until", "The last value that is held."),
    Part::gauge("left", "getid_sequence_left", "Values that are held and not given; not of a sequence with `cache 0`, which \
        holds none."),
    Part::gauge("max_used", "getid_sequence_max_used_ratio", "Share of the values up to the sequence's max that all servers \
        had reserved when this one reserved last, 0 to 1."),
    Part::gauge("rate_10s", "getid_sequence_values_per_second", "Values a second, over each window.").with("window", "10s"),
    Part::gauge("rate_5min", "getid_sequence_values_per_second", "Values a second, over each window.").with("window", "5m"),
    Part::gauge("rate_30min", "getid_sequence_values_per_second", "Values a second, over each window.").with("window", "30m"),
    Part::gauge("segment", "getid_sequence_segment_values", "Values of the last reservation."),
    Part::gauge_of_ms("fetched_ms_ago", "getid_sequence_last_fetch_age_seconds", "How long ago that was, seconds."),
    Part::gauge_of_ms("fetch_ms", "getid_sequence_last_fetch_duration_seconds", "How long it took, seconds."),
    Part::counter("waited", "getid_sequence_waited_total", "Draws that had to wait."),
    Part::gauge("waiting", "getid_sequence_waiting", "Draws that wait now."),
    Part::counter("errors", "getid_sequence_fetch_failures_total", "Fetches that failed."),
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
