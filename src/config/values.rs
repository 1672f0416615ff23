//! Every value that can be configured.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use getid_core::{CounterDeclaration, Declaration, Epoch, Layout};

use super::claim::ClaimConfig;
use super::enums::{
    BorrowPolicy, LogFormat, LogLevel, SequenceCreate, SequencePolicy, SequenceTable, StateKind, Supervised,
    SyslogFacility, TlsAuthClients, TlsAuthClientsUser,
};
use super::http::HttpConfig;
use super::server_id::{self, ServerIdFrom};
use super::workers::WorkerPool;
use crate::acl::{Origin, Protection};
use crate::text::store_url::StoreUrl;

/// A struct, and the value of it in which nothing is set.
macro_rules! unset {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: $type:ty,)+ }) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$doc])* pub $field: $type),+
        }

        impl $name {
            pub(super) fn unset() -> $name {
                $name { $($field: <$type>::default()),+ }
            }
        }
    };
}

unset! {
    /// Everything that can be configured; a field is named as its directive, with its unit last.
    ///
    /// Ranges and meanings stand in the table of directives, and in `config/getid.conf` for people.
    #[derive(Clone, PartialEq, Eq)]
    pub struct Config {
        /// Addresses to listen on; empty: no TCP (`bind`).
        pub bind: Vec<BindAddr>,
        /// Whether anybody set `bind`: then what it opens is the operator's decision.
        pub bind_given: bool,
        /// TCP port; 0: no TCP (`port`).
        pub port: u16,
        /// Unix socket (`unixsocket`).
        pub unixsocket: Option<PathBuf>,
        /// Mode of the Unix socket, such as `0o770`; `None` leaves what umask gives (`unixsocketperm`).
        pub unixsocketperm: Option<u32>,
        /// Connections the kernel keeps waiting for accept (`tcp-backlog`).
        pub tcp_backlog: u32,
        /// Seconds of silence before a connection is probed; 0: never (`tcp-keepalive`).
        pub tcp_keepalive_s: u32,
        /// Seconds after which an idle client is closed; 0: never (`timeout`).
        pub timeout_s: u64,
        /// Clients at a time (`maxclients`).
        pub maxclients: u32,
        /// As written; see [`Config::protection`] (`protected-mode`).
        pub protected_mode: Option<Protection>,
        /// Threads that serve connections (`io-threads`).
        pub io_threads: usize,
        /// Password of the default user (`requirepass`).
        pub requirepass: Option<String>,
        /// The file that it is in (`requirepass-file`), relative to the folder of the start.
        pub requirepass_file: Option<PathBuf>,
        /// The file that it was read from: that one, or a credential of systemd's.
        pub password_file: Option<PathBuf>,
        /// ACL users (`user`), none twice, all of them right; empty with `aclfile`.
        pub users: Vec<UserLine>,
        /// File with ACL users (`aclfile`).
        pub aclfile: Option<PathBuf>,
        /// Entries of `ACL LOG` (`acllog-max-len`).
        pub acllog_max_len: u64,
        /// Commands and the names they get instead; an empty name takes the command away (`rename-command`).
        ///
        /// The names are as written: the file of a Redis may rename commands that getid does not have.
        pub rename_commands: Vec<(String, String)>,
        /// What is logged (`loglevel`).
        pub loglevel: LogLevel,
        /// Where it is logged; `None`: standard output (`logfile`).
        pub logfile: Option<PathBuf>,
        /// How it is logged (`log-format`).
        pub log_format: LogFormat,
        /// Folder of the state, and of relative paths, as somebody named it; `None`: the default one (`dir`).
        pub dir: Option<PathBuf>,
        /// The same as it is in force, absolute; empty until a start has settled it.
        pub state_dir: PathBuf,
        /// Seconds a stop waits for clients; 0: not at all (`shutdown-timeout`).
        pub shutdown_timeout_s: u64,
        /// TLS port; 0: no TLS (`tls-port`).
        pub tls_port: u16,
        /// Certificate (`tls-cert-file`).
        pub tls_cert_file: Option<PathBuf>,
        /// Its key (`tls-key-file`).
        pub tls_key_file: Option<PathBuf>,
        /// Who may sign clients' certificates (`tls-ca-cert-file`).
        pub tls_ca_cert_file: Option<PathBuf>,
        /// Folder of more of those (`tls-ca-cert-dir`).
        pub tls_ca_cert_dir: Option<PathBuf>,
        /// Whether clients need a certificate (`tls-auth-clients`).
        pub tls_auth_clients: TlsAuthClients,
        /// Whether a certificate says who its client is (`tls-auth-clients-user`).
        pub tls_auth_clients_user: TlsAuthClientsUser,
        /// Of [`suites::PROTOCOLS`](super::suites::PROTOCOLS); empty: all (`tls-protocols`).
        pub tls_protocols: Vec<&'static str>,
        /// Of [`suites::SUITES_12`](super::suites::SUITES_12); empty: all (`tls-ciphers`).
        pub tls_ciphers: Vec<&'static str>,
        /// Of [`suites::SUITES_13`](super::suites::SUITES_13); empty: all (`tls-ciphersuites`).
        pub tls_ciphersuites: Vec<&'static str>,
        /// Whether the server's order of cipher suites counts, not the client's (`tls-prefer-server-ciphers`).
        pub tls_prefer_server_ciphers: bool,
        /// Whether a client may go on with an earlier session (`tls-session-caching`).
        pub tls_session_caching: bool,
        /// Sessions that are kept for that (`tls-session-cache-size`).
        pub tls_session_cache_size: usize,
        /// Seconds for which they are (`tls-session-cache-timeout`).
        pub tls_session_cache_timeout_s: u64,
        /// Microseconds from which a command is slow; 0: all are, negative: none (`slowlog-log-slower-than`).
        pub slowlog_log_slower_than_us: i64,
        /// Entries of the slow log (`slowlog-max-len`).
        pub slowlog_max_len: u64,
        /// Milliseconds from which an event is a latency event; 0: none (`latency-monitor-threshold`).
        pub latency_monitor_threshold_ms: u64,
        /// What buffers of all clients together may take (`maxmemory-clients`).
        pub maxmemory_clients: ClientMemory,
        /// Seconds that a client may take to log in, where it has to; 0: any (`auth-timeout`).
        pub auth_timeout_s: u64,
        /// Bytes of input a client may have waiting (`client-query-buffer-limit`).
        pub client_query_buffer_limit: usize,
        /// Bytes of output a client may have waiting (`client-output-buffer-limit`).
        pub client_output_buffer_limit: OutputBufferLimits,
        /// Seconds after which a client that takes nothing of its output is closed; 0: never.
        pub client_output_timeout_s: u64,
        /// Bytes of one argument (`proto-max-bulk-len`).
        pub proto_max_bulk_len: usize,
        /// `SELECT 0` to `SELECT databases - 1` are answered `+OK` (`databases`).
        pub databases: u32,
        /// File that gets the process id (`pidfile`).
        pub pidfile: Option<PathBuf>,
        /// Who is told about start and stop (`supervised`).
        pub supervised: Supervised,
        /// Whether the log goes to syslog too (`syslog-enabled`).
        pub syslog_enabled: bool,
        /// Name in syslog (`syslog-ident`).
        pub syslog_ident: String,
        /// Facility in syslog (`syslog-facility`).
        pub syslog_facility: SyslogFacility,
        /// Background rounds a second: timeouts, statistics (`hz`).
        pub hz: u32,
        /// This server's number, below `2^id-range`; 0 with [`ServerIdFrom::ClaimStore`], until one is claimed
        /// (`server-id`).
        pub server_id: u32,
        /// Who says so.
        pub server_id_from: ServerIdFrom,
        /// Bit widths and epoch (`id-range`, `shard-range`, `random-range`, `id-epoch`).
        pub layout: Layout,
        /// Named generators (`generator`), in the order they were declared, at most
        /// [`GENERATORS_MAX`](super::GENERATORS_MAX), no name twice.
        pub generators: Vec<Arc<Declaration>>,
        /// Those whose numbers sequences count, of the kinds `sequence` and `serial` (`generator`). They count for the
        /// same bound.
        pub counters: Vec<Arc<CounterDeclaration>>,
        /// IDs of one MGETID (`id-mgetid-max`).
        pub id_mgetid_max: u32,
        /// Milliseconds IDs may run ahead of the clock (`id-max-borrow-ms`).
        pub id_max_borrow_ms: u64,
        /// Milliseconds the watermark is kept ahead, at most `id_max_borrow_ms` (`id-watermark-lead-ms`).
        pub id_watermark_lead_ms: u64,
        /// What happens at the borrow limit (`id-borrow-policy`).
        pub id_borrow_policy: BorrowPolicy,
        /// Milliseconds a request may have to wait for IDs (`id-max-wait-ms`).
        pub id_max_wait_ms: u64,
        /// Where the watermark is kept (`id-state`).
        pub id_state: StateKind,
        /// Whether the server-id is claimed for the whole machine (`id-machine-claim`).
        pub id_machine_claim: bool,
        /// Milliseconds the clock may jump ahead and be followed at once; 0: any (`id-max-clock-jump-ms`).
        pub id_max_clock_jump_ms: u64,
        /// Where claims of server-ids are kept, and when one is taken (`claim-...`, `instance-name`).
        pub claim: ClaimConfig,
        /// Pools of worker ids for programs (`worker-pool`), at most [`POOLS_MAX`](super::POOLS_MAX), no name twice.
        pub worker_pools: Vec<WorkerPool>,
        /// Everything about sequences (`sequence-...`).
        pub sequences: SequenceConfig,
        /// Everything about the HTTP port (`http-...`).
        pub http: HttpConfig,
    }
}

/// As in Redis: `CONFIG_BINDADDR_MAX`.
pub(super) const BIND_ADDRESSES_MAX: usize = 16;

/// Stores of one server at most.
pub const STORES_MAX: usize = 4;

/// What is configured of sequences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceConfig {
    /// The stores that somebody named, at most [`STORES_MAX`], none twice; see [`Config::sequence_stores`]
    /// (`sequence-store`).
    pub stores: Vec<StoreUrl>,
    /// There are no sequences (`sequence-store none`).
    pub is_off: bool,
    /// Which tables the stores have (`sequence-table`).
    pub table: SequenceTable,
    /// Whether `INCR` makes a sequence (`sequence-create`).
    pub create: SequenceCreate,
    /// Rows that may be made by that (`sequence-max`).
    pub rows_max: u64,
    /// `cache` of a sequence that a client makes without options (`sequence-cache`).
    pub cache: u32,
    /// Seconds for which a segment lasts at the recent rate, and after the last answer of a shared store for which
    /// values of it are given (`sequence-ride-out-s`).
    pub ride_out_s: u64,
    /// Milliseconds that a turn may wait for stores (`sequence-wait-ms`).
    pub wait_ms: u64,
    /// Whether it waits at all (`sequence-policy`).
    pub policy: SequencePolicy,
    /// Values of one `INCRBY` (`sequence-incrby-max`).
    pub incrby_max: u32,
    /// Whether `DEL` drops a sequence (`sequence-delete`).
    pub may_delete: bool,
}

impl Config {
    /// What clients from other machines may do without a login.
    pub fn protection(&self) -> Protection {
        self.protected_mode.unwrap_or(Protection::without_word(self.bind_given))
    }

    /// The server-id, as far as it is known: a number, or the word that stands for it.
    pub fn shown_server_id(&self) -> String {
        match self.server_id_from {
            ServerIdFrom::HostName => self.server_id.to_string(),
            from => server_id::written(from, self.server_id),
        }
    }

    /// Whether the claim store has the number (`server-id auto`).
    pub fn server_id_auto(&self) -> bool {
        self.server_id_from == ServerIdFrom::ClaimStore
    }

    /// The stores of sequences, in their order. Where none is named it is the file in `dir`, which goes with the state
    /// there: a claim that another machine may take has none, for its next holder would count from the start again.
    /// Empty where there are no sequences.
    pub fn sequence_stores(&self) -> Vec<StoreUrl> {
        let SequenceConfig { stores, is_off, .. } = &self.sequences;
        let has_state = self.id_state != StateKind::None && self.claim.store.is_none();
        let has_default = has_state && cfg!(feature = "sqlite");
        match stores.is_empty() {
            _ if *is_off => Vec::new(),
            true if has_default => vec![StoreUrl::default_file()],
            _ => stores.clone(),
        }
    }

    /// The addresses of the HTTP port.
    pub fn http_bind(&self) -> &[BindAddr] {
        if self.http.bind.is_empty() { &self.bind } else { &self.http.bind }
    }

    /// Whether anything speaks TLS.
    pub fn has_tls(&self) -> bool {
        self.tls_port != 0 || (self.http.port != 0 && self.http.tls)
    }

    /// Whether other machines can reach a port.
    pub fn is_reached_from_elsewhere(&self) -> bool {
        let is_elsewhere = |bind: &BindAddr| Origin::of(bind.ip) == Origin::Elsewhere;
        let (has_redis, has_http) = (self.port != 0 || self.tls_port != 0, self.http.port != 0);
        (has_redis && self.bind.iter().any(is_elsewhere)) || (has_http && self.http_bind().iter().any(is_elsewhere))
    }
}

/// A configuration while its values are set one by one. The widths and the epoch are beside it, because they need not
/// make a layout before the last of them is set.
#[derive(Clone)]
pub(super) struct Values {
    pub(super) config: Config,
    pub(super) id_range: u32,
    pub(super) shard_range: u32,
    pub(super) random_range: u32,
    pub(super) epoch: Epoch,
    /// Whether the last line of `daemonize` is yes, which a check between values refuses.
    pub(super) daemonize: bool,
}

impl Values {
    /// Those of a configuration, to begin changes of it with.
    pub(super) fn of(config: &Config) -> Values {
        let layout = config.layout;
        Values {
            config: config.clone(),
            id_range: layout.server_bits(),
            shard_range: layout.shard_bits(),
            random_range: layout.random_bits(),
            epoch: layout.epoch(),
            daemonize: false,
        }
    }
}

/// One address of `bind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindAddr {
    /// Where to listen.
    pub ip: IpAddr,
    /// Written `-::1`: a machine without this address starts all the same.
    pub optional: bool,
}

/// One `user` line.
#[derive(Clone, PartialEq, Eq)]
pub struct UserLine {
    /// The user's name.
    pub name: String,
    /// ACL rules, passwords among them.
    pub rules: Vec<String>,
}

impl fmt::Debug for UserLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserLine").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What buffers of all clients together may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientMemory {
    /// A quarter of the memory that the process may take, and no more than [`ClientMemory::AUTO_BYTES_MAX`].
    #[default]
    Auto,
    /// So many bytes; 0: any.
    Bytes(u64),
    /// So many percent of the memory that the process may take, 1 to 100.
    Percent(u8),
}

impl ClientMemory {
    /// The most that `auto` stands for, bytes: what it is where the process may take 1 GiB or more.
    pub const AUTO_BYTES_MAX: u64 = 256 << 20;

    /// In bytes, where the process may take `limit_bytes`; `usize::MAX`: any.
    pub fn bytes(self, limit_bytes: Option<u64>) -> usize {
        let bytes = match (self, limit_bytes) {
            (ClientMemory::Bytes(0), _) | (ClientMemory::Percent(_), None) => return usize::MAX,
            (ClientMemory::Bytes(bytes), _) => bytes,
            (ClientMemory::Percent(percent), Some(all)) => all / 100 * u64::from(percent),
            // A share that leaves room: a request that grows is in memory twice for a moment, and those that are
            // closed for its sake take a moment to go.
            (ClientMemory::Auto, all) => all.map_or(Self::AUTO_BYTES_MAX, |all| (all / 4).min(Self::AUTO_BYTES_MAX)),
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

/// `client-output-buffer-limit` of each class of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputBufferLimits {
    /// Of every client that getid has.
    pub normal: OutputBufferLimit,
    /// Of replicas, which getid does not have: kept for CONFIG GET.
    pub replica: OutputBufferLimit,
    /// Of subscribers, which getid does not have: kept for CONFIG GET.
    pub pubsub: OutputBufferLimit,
}

/// When a client that does not read its replies is closed. Zeros: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputBufferLimit {
    /// Closed at once with more than this waiting, bytes.
    pub hard_bytes: u64,
    /// Closed with more than this waiting for `soft_s`, bytes.
    pub soft_bytes: u64,
    /// Seconds.
    pub soft_s: u64,
}
