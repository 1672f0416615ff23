//! All values that can be configured.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use getid_core::server::CounterDeclaration;
use getid_core::server::worker::PoolRules;
use getid_core::{Declaration, Epoch, Layout};

use super::enums::{
    BorrowPolicy, LogFormat, LogLevel, SequenceCreate, SequencePolicy, SequenceTable, StateKind, Supervised,
    SyslogFacility, TlsAuthClients, TlsAuthClientsUser,
};
use getid_redis::acl::{Origin, Protection};
use getid_redis::session::ExpiringNames;
use getid_seal::Sealers;
use getid_text::host_port::HostMaybePort;
use getid_text::store_url::StoreUrl;

/// A struct, and its value in which nothing is set.
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
    /// All configured values. A field has the name of its directive, with its unit last.
    ///
    /// Ranges and meanings are in the table of directives, and for operators in `config/getid.conf`.
    #[derive(Clone, PartialEq, Eq)]
    pub struct Config {
        /// Addresses to listen on; empty: no TCP (`bind`).
        pub bind: Vec<BindAddr>,
        /// Whether `bind` was set: then its exposure is the operator's decision.
        pub bind_given: bool,
        /// TCP port; 0: no TCP (`port`).
        pub port: u16,
        /// Unix socket (`unixsocket`).
        pub unixsocket: Option<PathBuf>,
        /// Mode of the Unix socket, such as `0o770`; `None` for that of umask (`unixsocketperm`).
        pub unixsocketperm: Option<u32>,
        /// Connections that the kernel queues for accept (`tcp-backlog`).
        pub tcp_backlog: u32,
        /// Seconds of silence before a connection is probed; 0: never (`tcp-keepalive`).
        pub tcp_keepalive_s: u32,
        /// Seconds after which an idle client is closed; 0: never (`timeout`).
        pub timeout_s: u64,
        /// Largest number of clients at a time (`maxclients`).
        pub maxclients: u32,
        /// The configured word; see [`Config::protection`] (`protected-mode`).
        pub protected_mode: Option<Protection>,
        /// Threads that serve connections (`io-threads`).
        pub io_threads: usize,
        /// Password of the default user (`requirepass`).
        pub requirepass: Option<String>,
        /// File with the password of the default user (`requirepass-file`), relative to the working folder of the
        /// start.
        pub requirepass_file: Option<PathBuf>,
        /// File that the password was read from: `requirepass-file`, or a credential of systemd.
        pub password_file: Option<PathBuf>,
        /// ACL users (`user`), each once and valid; empty with `aclfile`.
        pub users: Vec<UserLine>,
        /// File with ACL users (`aclfile`).
        pub aclfile: Option<PathBuf>,
        /// Entries of `ACL LOG` (`acllog-max-len`).
        pub acllog_max_len: u64,
        /// Commands and their new names; an empty name removes the command (`rename-command`).
        ///
        /// The names are as written: the file of a Redis may rename commands that getid does not have.
        pub rename_commands: Vec<(String, String)>,
        /// The least serious event that is logged (`loglevel`).
        pub loglevel: LogLevel,
        /// File of the log; `None` for standard output (`logfile`).
        pub logfile: Option<PathBuf>,
        /// Format of log lines (`log-format`).
        pub log_format: LogFormat,
        /// Folder of the state and of relative paths, as configured; `None` for the default one (`dir`).
        pub dir: Option<PathBuf>,
        /// Absolute path of the folder in force; empty until a start has determined it.
        pub state_dir: PathBuf,
        /// Seconds that a stop waits for clients; 0: it does not wait (`shutdown-timeout`).
        pub shutdown_timeout_s: u64,
        /// TLS port; 0: no TLS (`tls-port`).
        pub tls_port: u16,
        /// Certificate (`tls-cert-file`).
        pub tls_cert_file: Option<PathBuf>,
        /// Key of the certificate (`tls-key-file`).
        pub tls_key_file: Option<PathBuf>,
        /// Authorities that may sign clients' certificates (`tls-ca-cert-file`).
        pub tls_ca_cert_file: Option<PathBuf>,
        /// Folder with more authorities (`tls-ca-cert-dir`).
        pub tls_ca_cert_dir: Option<PathBuf>,
        /// Whether clients need a certificate (`tls-auth-clients`).
        pub tls_auth_clients: TlsAuthClients,
        /// Whether a certificate selects the client's user (`tls-auth-clients-user`).
        pub tls_auth_clients_user: TlsAuthClientsUser,
        /// Versions from [`suites::PROTOCOLS`](super::suites::PROTOCOLS); empty: all (`tls-protocols`).
        pub tls_protocols: Vec<&'static str>,
        /// Suites from [`suites::SUITES_12`](super::suites::SUITES_12); empty: all (`tls-ciphers`).
        pub tls_ciphers: Vec<&'static str>,
        /// Suites from [`suites::SUITES_13`](super::suites::SUITES_13); empty: all (`tls-ciphersuites`).
        pub tls_ciphersuites: Vec<&'static str>,
        /// Whether the server's order of cipher suites counts, not the client's (`tls-prefer-server-ciphers`).
        pub tls_prefer_server_ciphers: bool,
        /// Whether a client may resume an earlier session (`tls-session-caching`).
        pub tls_session_caching: bool,
        /// Number of sessions kept for resumption (`tls-session-cache-size`).
        pub tls_session_cache_size: usize,
        /// Seconds for which a session is kept (`tls-session-cache-timeout`).
        pub tls_session_cache_timeout_s: u64,
        /// Microseconds from which on a command is slow; 0: all are, negative: none (`slowlog-log-slower-than`).
        pub slowlog_log_slower_than_us: i64,
        /// Entries of the slow log (`slowlog-max-len`).
        pub slowlog_max_len: u64,
        /// Milliseconds from which on an event is a latency event; 0: none (`latency-monitor-threshold`).
        pub latency_monitor_threshold_ms: u64,
        /// Memory for the buffers of all clients together (`maxmemory-clients`).
        pub maxmemory_clients: ClientMemory,
        /// Seconds within which a client must log in, if it needs a login; 0: any (`auth-timeout`).
        pub auth_timeout_s: u64,
        /// Largest unprocessed input of a client, bytes (`client-query-buffer-limit`).
        pub client_query_buffer_limit: usize,
        /// Largest unsent output of a client, bytes (`client-output-buffer-limit`).
        pub client_output_buffer_limit: OutputBufferLimits,
        /// Seconds after which a client that reads no output is closed; 0: never (`client-output-timeout`).
        pub client_output_timeout_s: u64,
        /// Largest size of one argument, bytes (`proto-max-bulk-len`).
        pub proto_max_bulk_len: usize,
        /// `SELECT 0` to `SELECT databases - 1` reply `+OK` (`databases`).
        pub databases: u32,
        /// File for the process id (`pidfile`).
        pub pidfile: Option<PathBuf>,
        /// Supervisor that is notified about start and stop (`supervised`).
        pub supervised: Supervised,
        /// Whether the log is also sent to syslog (`syslog-enabled`).
        pub syslog_enabled: bool,
        /// Name in syslog (`syslog-ident`).
        pub syslog_ident: String,
        /// Facility in syslog (`syslog-facility`).
        pub syslog_facility: SyslogFacility,
        /// Background rounds a second: timeouts, statistics (`hz`).
        pub hz: u32,
        /// This server's number, below `2^id-range`; 0 with [`ServerIdSource::ClaimStore`], until one is claimed
        /// (`server-id`).
        pub server_id: u32,
        /// Source of the server's number.
        pub server_id_from: ServerIdSource,
        /// Bit widths and epoch (`id-range`, `shard-range`, `random-range`, `id-epoch`).
        pub layout: Layout,
        /// Named generators by the clock (`generator`), in the order of their declaration, at most
        /// [`GENERATORS_MAX`](super::GENERATORS_MAX), with distinct names.
        pub generators: Vec<Arc<Declaration>>,
        /// Keys and alphabets of the sealed generators, by name. No directive shows them.
        pub sealers: Sealers,
        /// Generators over sequences, of the kinds `sequence` and `serial` (`generator`). They count towards the same
        /// bound.
        pub counters: Vec<Arc<CounterDeclaration>>,
        /// Largest number of IDs of one MGETID (`id-mgetid-max`).
        pub id_mgetid_max: u32,
        /// Milliseconds that IDs may run ahead of the clock (`id-max-borrow-ms`).
        pub id_max_borrow_ms: u64,
        /// Milliseconds that the watermark is kept ahead, at most `id_max_borrow_ms` (`id-watermark-lead-ms`).
        pub id_watermark_lead_ms: u64,
        /// Handling of requests at the borrow limit (`id-borrow-policy`).
        pub id_borrow_policy: BorrowPolicy,
        /// Milliseconds that a request may have to wait for IDs (`id-max-wait-ms`).
        pub id_max_wait_ms: u64,
        /// Where the watermark is kept (`id-state`).
        pub id_state: StateKind,
        /// Whether the server-id is claimed for the whole machine (`id-machine-claim`).
        pub id_machine_claim: bool,
        /// Milliseconds that the clock may jump ahead and be followed at once; 0: any (`id-max-clock-jump-ms`).
        pub id_max_clock_jump_ms: u64,
        /// Claims of server-ids: their store, and the rules of a takeover (`claim-...`, `instance-name`).
        pub claim: ClaimConfig,
        /// Addresses for clients (`announce-...`).
        pub announce: AnnounceConfig,
        /// Pools of worker ids for programs (`worker-pool`), at most [`POOLS_MAX`](super::POOLS_MAX), with distinct
        /// names.
        pub worker_pools: Vec<WorkerPool>,
        /// Configuration of sequences (`sequence-...`).
        pub sequences: SequenceConfig,
        /// Configuration of the HTTP port (`http-...`).
        pub http: HttpConfig,
    }
}

/// Largest number of addresses, as in Redis: `CONFIG_BINDADDR_MAX`.
pub(super) const BIND_ADDRESSES_MAX: usize = 16;

/// Largest number of stores of one server.
pub const STORES_MAX: usize = 4;

/// Configuration of sequences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceConfig {
    /// The configured stores, at most [`STORES_MAX`], without repetition; see [`Config::sequence_stores`]
    /// (`sequence-store`).
    pub stores: Vec<StoreUrl>,
    /// Whether there are no sequences (`sequence-store none`).
    pub is_off: bool,
    /// Tables in the stores (`sequence-table`).
    pub table: SequenceTable,
    /// Whether `INCR` creates a sequence (`sequence-create`).
    pub create: SequenceCreate,
    /// Number of rows up to which `INCR` creates more (`sequence-max`).
    pub rows_max: u64,
    /// Largest number of kept requests of one generator or sequence (`request-max`).
    pub requests_max: u64,
    /// `cache` of a sequence that a client creates without options (`sequence-cache`).
    pub cache: u32,
    /// Seconds that a segment lasts at the recent rate; also the seconds after the last answer of a shared store for
    /// which its values are given (`sequence-ride-out-s`).
    pub ride_out_s: u64,
    /// Milliseconds that a turn may wait for stores (`sequence-wait-ms`).
    pub wait_ms: u64,
    /// Whether a turn waits for stores at all (`sequence-policy`).
    pub policy: SequencePolicy,
    /// Largest number of values of one `INCRBY` (`sequence-incrby-max`).
    pub incrby_max: u32,
    /// Patterns of the names that may have an end (`sequence-expire`).
    pub expiring: Arc<ExpiringNames>,
    /// Whether `DEL` drops a sequence (`sequence-delete`).
    pub may_delete: bool,
}

impl Config {
    /// Returns the rights of clients from other machines without a login.
    pub fn protection(&self) -> Protection {
        self.protected_mode.unwrap_or(Protection::without_word(self.bind_given))
    }

    /// Whether the claim store assigns the number (`server-id auto`).
    pub fn server_id_auto(&self) -> bool {
        self.server_id_from == ServerIdSource::ClaimStore
    }

    /// Returns true if a record of the IDs that were given is kept from life to life.
    pub fn keeps_record(&self) -> bool {
        self.id_state != StateKind::None || self.claim.store.is_some()
    }

    /// Returns the stores of sequences, in their order; empty without sequences. By default it is the file in `dir`,
    /// next to the state. With a claim store there is no default, because the next holder of the claim, on another
    /// machine, would count from the start again.
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

    /// Returns the addresses of the HTTP port.
    pub fn http_bind(&self) -> &[BindAddr] {
        if self.http.bind.is_empty() { &self.bind } else { &self.http.bind }
    }

    /// Whether any port speaks TLS.
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

/// Configuration of the HTTP port (`http-...`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpConfig {
    /// The port; 0: none (`http-port`).
    pub port: u16,
    /// Addresses to listen on; empty: those of `bind` (`http-bind`).
    pub bind: Vec<BindAddr>,
    /// Whether the port speaks TLS, with the files of `tls-...` (`http-tls`).
    pub tls: bool,
    /// Largest number of connections at a time (`http-max-clients`).
    pub clients_max: u32,
    /// Seconds after which a connection without a request is closed (`http-timeout`).
    pub timeout_s: u64,
    /// Paths that need no login (`http-open`).
    pub open: HttpOpen,
    /// The named generators that `/readyz` checks; empty: the unnamed one (`http-ready`).
    pub ready: Vec<String>,
    /// Names of this server in the header `Host`, in addition to addresses and `localhost` (`http-host`).
    pub hosts: Vec<String>,
    /// APIs of other servers on this port (`http-api`).
    pub apis: HttpApis,
}

/// Paths that need no login, wherever the request comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpOpen {
    /// Whether the paths `/livez` and `/readyz` are served.
    pub probes: bool,
    /// Whether the path `/metrics` is served.
    pub metrics: bool,
}

/// APIs of other servers on the HTTP port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpApis {
    /// The API of Leaf.
    pub leaf: Option<HttpApi>,
    /// The API of Tinyid.
    pub tinyid: Option<HttpApi>,
    /// The API of CosId's proxy server.
    pub cosid: Option<HttpApi>,
}

impl HttpApis {
    /// Returns the APIs that are on, each with its word in `http-api`.
    pub fn on(&self) -> impl Iterator<Item = (&'static str, &HttpApi)> {
        let all = [("leaf", &self.leaf), ("tinyid", &self.tinyid), ("cosid", &self.cosid)];
        all.into_iter().filter_map(|(word, api)| Some((word, api.as_ref()?)))
    }

    /// Returns the users that the APIs name.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.on().filter_map(|(_, api)| api.user.as_deref())
    }
}

/// The API of another server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpApi {
    /// The ACL user of its requests; `None`: the user who logs in, or the default user.
    pub user: Option<String>,
}

/// Configuration of claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimConfig {
    /// The store that servers share; `None` for the folder of the state (`claim-store`).
    pub store: Option<StoreUrl>,
    /// Silence after which another server takes a claim, ms (`claim-timeout-ms`).
    pub timeout_ms: u64,
    /// Largest time by which a standby's clock may be ahead of the claim's time, ms; 0: any
    /// (`claim-max-clock-ahead-ms`).
    pub max_clock_ahead_ms: u64,
    /// Whether a standby takes a claim without a check of its clock (`claim-takeover any`).
    pub takes_any: bool,
    /// This server's name; `None` for the host's (`instance-name`).
    pub instance_name: Option<String>,
}

/// Addresses that this server gives to clients which ask where servers are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnounceConfig {
    /// This server's address; `None` for one out of `bind`, see [`Config::announced_address`] (`announce-address`).
    pub address: Option<HostMaybePort>,
    /// All servers with this server-id, with or without this one, at most 16; see [`Config::announced_peers`]
    /// (`announce-peers`).
    pub peers: Vec<HostMaybePort>,
    /// Whether the server answers as a Redis Cluster with one master (`cluster-emulation`).
    pub cluster_emulation: bool,
}

/// Longest name of a server, bytes: RFC 1035's limit of a host name.
pub const INSTANCE_NAME_BYTES_MAX: usize = 253;

/// Largest number of pools of one server.
pub const POOLS_MAX: usize = 100;

/// Longest name of a pool, bytes.
pub(super) const POOL_NAME_BYTES_MAX: usize = 64;

/// A pool of worker ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerPool {
    /// Name of the pool: 1 to 64 characters of `A-Z a-z 0-9 _ . -`.
    pub name: String,
    /// Rules of the pool's leases.
    pub rules: PoolRules,
}

/// The source of the server's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerIdSource {
    /// No source: the number is 0, and a start warns about it.
    #[default]
    Default,
    /// The configuration.
    Number,
    /// The number at the end of the host's name (`auto-ordinal`).
    HostName,
    /// The host's name, which was not read, for a tool that needs no number. The number is 0 meanwhile.
    UnknownHostName,
    /// The claim store, which records the free numbers (`auto`). The number is 0 meanwhile.
    ClaimStore,
}

impl ServerIdSource {
    /// Whether the number is known at a start, and no default.
    pub fn is_known(self) -> bool {
        matches!(self, ServerIdSource::Number | ServerIdSource::HostName)
    }
}

/// A configuration while its values are set one by one. The widths and the epoch are separate, because they need not
/// make a layout until the last of them is set.
#[derive(Clone)]
pub(super) struct ConfigValues {
    pub(super) config: Config,
    pub(super) id_range: u32,
    pub(super) shard_range: u32,
    pub(super) random_range: u32,
    pub(super) epoch: Epoch,
    /// Whether the last line of `daemonize` is yes, which a check between values refuses.
    pub(super) daemonize: bool,
}

impl ConfigValues {
    /// Returns the values of a configuration, for changes of it.
    pub(super) fn of(config: &Config) -> ConfigValues {
        let layout = config.layout;
        ConfigValues {
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
    /// The address to listen on.
    pub ip: IpAddr,
    /// Whether it was written as `-::1`: a machine without this address starts all the same.
    pub optional: bool,
}

/// One `user` line.
#[derive(Clone, PartialEq, Eq)]
pub struct UserLine {
    /// The user's name.
    pub name: String,
    /// ACL rules, including passwords.
    pub rules: Vec<String>,
}

impl fmt::Debug for UserLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserLine").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Memory for the buffers of all clients together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientMemory {
    /// A quarter of the memory that the process may use, at most [`ClientMemory::AUTO_BYTES_MAX`].
    #[default]
    Auto,
    /// A number of bytes; 0: any.
    Bytes(u64),
    /// A percentage of the memory that the process may use, 1 to 100.
    Percent(u8),
}

impl ClientMemory {
    /// Largest value of `auto`, bytes, reached if the process may use 1 GiB or more.
    pub const AUTO_BYTES_MAX: u64 = 256 << 20;

    /// Returns the limit in bytes, if the process may use `limit_bytes`; `usize::MAX`: any.
    pub fn bytes(self, limit_bytes: Option<u64>) -> usize {
        let bytes = match (self, limit_bytes) {
            (ClientMemory::Bytes(0), _) | (ClientMemory::Percent(_), None) => return usize::MAX,
            (ClientMemory::Bytes(bytes), _) => bytes,
            (ClientMemory::Percent(percent), Some(all)) => all / 100 * u64::from(percent),
            // A share that leaves room: a growing request is in memory twice for a moment, and clients that are closed
            // to make room need a moment to end.
            (ClientMemory::Auto, all) => all.map_or(Self::AUTO_BYTES_MAX, |all| (all / 4).min(Self::AUTO_BYTES_MAX)),
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

/// `client-output-buffer-limit` of each class of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputBufferLimits {
    /// Limit of all clients of getid.
    pub normal: OutputBufferLimit,
    /// Limit of replicas, which getid does not have; kept for CONFIG GET.
    pub replica: OutputBufferLimit,
    /// Limit of subscribers, which getid does not have; kept for CONFIG GET.
    pub pubsub: OutputBufferLimit,
}

/// When a client that does not read its replies is closed. Zeros: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputBufferLimit {
    /// Size of unsent output above which the client is closed at once, bytes.
    pub hard_bytes: u64,
    /// Size of unsent output above which the client is closed after `soft_s`, bytes.
    pub soft_bytes: u64,
    /// Time for `soft_bytes`, s.
    pub soft_s: u64,
}
