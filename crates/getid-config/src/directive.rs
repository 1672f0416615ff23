//! The table of directives: one row each, with all properties of the directive.
//!
//! The readers check values by it, `CONFIG GET`, `SET` and `REWRITE` use it, and tests compare `config/getid.conf` with
//! it. A range is defined once, in the row: it is checked before the setter runs, and appears in the error text.
//!
//! To add a directive: a field in [`Config`], a row here, and a few lines in `config/getid.conf`.

use getid_core::LOW_BITS;
use getid_core::server::RESERVED_MAX;
use getid_redis::session::EXPIRING_NAMES_MAX;

use super::announce;
use super::claim;
use super::enums::{
    BorrowPolicy, LogFormat, LogLevel, SequenceCreate, SequencePolicy, SequenceTable, StateKind, Supervised,
    SyslogFacility, TlsAuthClients, TlsAuthClientsUser,
};
use super::generators;
use super::http;
use super::ignored;
use super::parse::{address_words, addresses, epoch, is_digits, memory};
pub use super::row::{ChangeMode, Directive, Secrecy};
use super::row::{Line, LineStyle, ValueShape};
use super::server_id;
use super::stores;
use super::suites;
use super::value_error::ValueError;
use super::values::{ClientMemory, Config, ConfigValues, OutputBufferLimit, OutputBufferLimits, UserLine};
use super::workers;
use getid_redis::acl::{Protection, Users};

impl Directive {
    /// Every directive, in the order of `config/getid.conf`.
    pub const ALL: &'static [Directive] = DIRECTIVES;

    /// Returns the directive of this name, in lower case.
    pub fn find(name: &str) -> Option<&'static Directive> {
        Directive::ALL.iter().find(|row| row.name == name)
    }

    /// Returns the directive whose lines can set this one along with others.
    pub(super) fn whole(&self) -> Option<&'static Directive> {
        Directive::ALL.iter().find(|row| row.parts().contains(&self.name))
    }

    const fn change(self, change: ChangeMode) -> Directive {
        Directive { change, ..self }
    }

    const fn at_start(self) -> Directive {
        self.change(ChangeMode::AtStart)
    }

    const fn secrecy(self, secrecy: Secrecy) -> Directive {
        Directive { secrecy, ..self }
    }

    const fn written(self, written: fn(&Config) -> Option<String>) -> Directive {
        Directive { written: Some(written), ..self }
    }
}

/// Returns all known names, getid's own first: among equally near suggestions the first one then has an effect.
pub(super) fn known_names() -> impl Iterator<Item = &'static str> {
    let own = Directive::ALL.iter().map(|row| row.name);
    own.chain(ignored::IGNORED_DIRECTIVES.iter().map(|row| row.name))
}

/// Largest `id-mgetid-max`. An ID takes up to 26 bytes (`$19`, CR LF, 19 digits, CR LF), so a reply stays below 260 KB,
/// which is the cost of a client that does not read.
const MGETID_MAX: i64 = 10_000;

/// Largest number of entries of a log in memory: at a few KB each, some 100 MB.
const LOG_ENTRIES_MAX: i64 = 10_000;

/// Redis stores these values in an int.
const INT_MAX: i64 = i32::MAX as i64;

const MB: u64 = 1024 * 1024;

/// Largest clock jump, ms: 400 days. The clock is never followed farther, whatever is configured.
const CLOCK_JUMP_MS_MAX: i64 = 400 * 24 * 3600 * 1000;

/// Ten minutes, the longest time-out of a claim, so that IDs can be given for all of it, ms.
const LEAD_MS_MAX: i64 = 600_000;

/// Ten minutes, ms. A lost claim stays without a holder for this time.
const CLAIM_TIMEOUT_MS_MAX: i64 = 600_000;

/// An hour, ms. Without a record a server starts this far ahead of the clock.
const BORROW_MS_MAX: i64 = 3_600_000;

/// An hour, ms. It bounds the queue, at some hundred bytes a draw.
const WAIT_MS_MAX: i64 = 3_600_000;

/// Returns a row of a directive that `CONFIG SET` changes at once, and whose value is no secret.
const fn row(name: &'static str, default: &'static str, shape: ValueShape, doc: &'static str) -> Directive {
    Directive { name, default, doc, change: ChangeMode::AtOnce, secrecy: Secrecy::Open, shape, written: None }
}

/// Returns the shape of one word with a syntax of its own.
const fn custom(
    expected: &'static str,
    set: fn(&mut ConfigValues, &str) -> Result<(), ValueError>,
    get: fn(&ConfigValues) -> String,
) -> ValueShape {
    ValueShape::Custom { expected, set, get }
}

/// Returns the shape of several words in a line.
const fn words(
    count: (usize, usize),
    expected: &'static str,
    set: fn(&mut ConfigValues, &[String]) -> Result<(), ValueError>,
    get: fn(&ConfigValues) -> Line,
) -> ValueShape {
    ValueShape::Words { count, expected, quoted: false, set, get }
}

/// Returns the shape of lines that add up.
const fn lines(
    count: (usize, usize),
    expected: &'static str,
    canonical: Option<fn(&[String]) -> Line>,
    style: LineStyle,
    set: fn(&mut ConfigValues, &[String]) -> Result<(), Vec<ValueError>>,
    get: fn(&ConfigValues) -> Vec<Line>,
) -> ValueShape {
    ValueShape::Lines { count, expected, canonical, style, set, get }
}

/// A number in a field. A test sets both ends of every range, so they fit.
macro_rules! number {
    ($min:expr, $max:expr, $unit:literal, $($field:ident).+) => {
        ValueShape::Number {
            min: $min,
            max: $max,
            unit: $unit,
            set: |values, number| values.config.$($field).+ = fit(number),
            get: |values| i64::try_from(values.config.$($field).+).unwrap_or(i64::MAX),
        }
    };
}

/// The width of a field of an ID.
macro_rules! bits {
    ($field:ident) => {
        ValueShape::Number {
            min: 0,
            max: LOW_BITS as i64,
            unit: "",
            set: |values, bits| values.$field = fit(bits),
            get: |values| values.$field.into(),
        }
    };
}

macro_rules! memory {
    ($min:expr, $field:ident) => {
        ValueShape::Memory {
            min: $min,
            set: |values, bytes| values.config.$field = fit(bytes),
            get: |values| values.config.$field as u64,
        }
    };
}

macro_rules! yes_no {
    ($($field:ident).+) => {
        ValueShape::YesNo { set: |values, yes| values.config.$($field).+ = yes, get: |values| values.config.$($field).+ }
    };
}

macro_rules! word {
    ($words:ident, $($field:ident).+) => {
        ValueShape::Word {
            words: $words::WORDS,
            set: |values, word| values.config.$($field).+ = $words::from_word(word).unwrap_or_default(),
            get: |values| values.config.$($field).+.word(),
        }
    };
}

/// A path, relative to `dir` by default, with the kind of secret in the file.
macro_rules! path {
    ($field:ident) => {
        path!($field, in_dir: true, holds: None)
    };
    ($field:ident, in_dir: $in_dir:literal, holds: $holds:expr) => {
        ValueShape::Path {
            in_dir: $in_dir,
            holds: $holds,
            set: |values, path| values.config.$field = path,
            get: |values| values.config.$field.as_deref(),
        }
    };
}

/// Names of cipher suites.
macro_rules! suites {
    ($field:ident, $parse:path) => {
        ValueShape::Custom {
            expected: "names with colons between them",
            set: |values, word| {
                values.config.$field = $parse(word)?;
                Ok(())
            },
            get: |values| values.config.$field.join(":"),
        }
    };
}

const ADDRESSES: &str = "one or more IP addresses";

// The table has few lines a row, the second with its meaning.
#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("include", "", ValueShape::Include,
        "Reads another file here; * ? [ in its path make it a pattern.").at_start(),
    // Network
    row("bind", "127.0.0.1 -::1", BIND,
        "Addresses to listen on; with - in front: skipped if missing.").at_start(),
    row("port", "7890", number!(0, 65535, "", port), "TCP port; 0: no TCP.").at_start(),
    row("unixsocket", "", path!(unixsocket), "Path of a Unix socket to listen on.").at_start(),
    row("unixsocketperm", "0", UNIXSOCKETPERM, "Mode of the Unix socket; 0: that of umask.").at_start(),
    row("tcp-backlog", "511", number!(0, INT_MAX, "", tcp_backlog), "Connections that wait for accept.").at_start(),
    row("tcp-keepalive", "300", number!(0, INT_MAX, "s", tcp_keepalive_s), "Silence before a probe; 0: never."),
    row("timeout", "0", number!(0, INT_MAX, "s", timeout_s), "Idle time before a client is closed; 0: never."),
    row("maxclients", "10000", number!(1, u32::MAX as i64, "", maxclients),
        "Clients at a time.").change(ChangeMode::OpenFiles),
    row("protected-mode", "", PROTECTED_MODE,
        "Rights of clients from other machines without a password or a login.")
            .written(|config| Some(config.protected_mode?.word().to_owned())),
    row("io-threads", "1", number!(1, 128, "", io_threads), "Threads that serve connections.").at_start(),
    // Access
    row("requirepass", "", REQUIREPASS,
        "Password of the default user.").change(ChangeMode::Password).secrecy(Secrecy::Secret),
    row("requirepass-file", "", path!(requirepass_file, in_dir: false, holds: Some("a password")),
        "File that holds the password of the default user.").at_start(),
    row("user", "", USER, "An ACL user and its rules.").at_start().secrecy(Secrecy::Passwords),
    row("aclfile", "", path!(aclfile, in_dir: true, holds: Some("passwords' digests")),
        "File with ACL users.").at_start(),
    row("acllog-max-len", "128", number!(0, LOG_ENTRIES_MAX, "", acllog_max_len), "Entries of ACL LOG."),
    row("rename-command", "", RENAME_COMMAND, "Another name for a command; \"\" removes the command.").at_start(),
    // TLS
    row("tls-port", "0", number!(0, 65535, "", tls_port), "TLS port; 0: no TLS.").at_start(),
    row("tls-cert-file", "", path!(tls_cert_file), "Certificate, PEM.").change(ChangeMode::Certificates),
    row("tls-key-file", "", path!(tls_key_file, in_dir: true, holds: Some("a private key")),
        "Key of the certificate, PEM.").change(ChangeMode::Certificates),
    row("tls-ca-cert-file", "", path!(tls_ca_cert_file),
        "Authorities that sign clients' certificates, PEM.").change(ChangeMode::Certificates),
    row("tls-ca-cert-dir", "", path!(tls_ca_cert_dir),
        "A folder with more authorities, PEM.").change(ChangeMode::Certificates),
    row("tls-auth-clients", "yes", word!(TlsAuthClients, tls_auth_clients),
        "Whether clients need a certificate.").change(ChangeMode::Certificates),
    row("tls-auth-clients-user", "off", word!(TlsAuthClientsUser, tls_auth_clients_user),
        "Whether the CN of a client's certificate is its user.").change(ChangeMode::Certificates),
    row("tls-protocols", "", TLS_PROTOCOLS, "Versions of TLS; \"\": all.").change(ChangeMode::Certificates),
    row("tls-ciphers", "", suites!(tls_ciphers, suites::suites_12),
        "Cipher suites of TLS 1.2; \"\": all.").change(ChangeMode::Certificates),
    row("tls-ciphersuites", "", suites!(tls_ciphersuites, suites::suites_13),
        "Cipher suites of TLS 1.3; \"\": all.").change(ChangeMode::Certificates),
    row("tls-prefer-server-ciphers", "no", yes_no!(tls_prefer_server_ciphers),
        "Whether the server's order of cipher suites counts.").change(ChangeMode::Certificates),
    row("tls-session-caching", "yes", yes_no!(tls_session_caching),
        "Whether a client may resume an earlier session.").change(ChangeMode::Certificates),
    row("tls-session-cache-size", "20480", number!(1, TLS_SESSIONS_MAX, "", tls_session_cache_size),
        "Number of sessions kept for resumption.").change(ChangeMode::Certificates),
    row("tls-session-cache-timeout", "300", number!(1, 86_400, "s", tls_session_cache_timeout_s),
        "How long a session is kept.").change(ChangeMode::Certificates),
    // General
    row("daemonize", "no", DAEMONIZE,
        "Only no is accepted: getid stays in the foreground.").at_start().written(|_| None),
    row("supervised", "no", word!(Supervised, supervised),
        "The supervisor that is notified of start and stop.").at_start(),
    row("pidfile", "", path!(pidfile), "File that gets the process id.").at_start(),
    row("dir", "", DIR,
        "Folder of the state, and of relative paths.")
            .at_start().written(|config| config.dir.as_ref().map(|dir| dir.display().to_string())),
    row("databases", "16", number!(1, INT_MAX, "", databases), "SELECT accepts 0 up to one less.").at_start(),
    row("hz", "10", number!(1, 500, "", hz), "Background rounds a second: timeouts, statistics."),
    row("shutdown-timeout", "10", number!(0, INT_MAX, "s", shutdown_timeout_s), "How long a stop waits for clients."),
    // Logs
    row("loglevel", "notice", word!(LogLevel, loglevel), "The least serious event that is logged."),
    row("logfile", "", path!(logfile), "File of the log; \"\": standard output.").at_start(),
    row("log-format", "text", word!(LogFormat, log_format), "Format of a log line.").at_start(),
    row("syslog-enabled", "no", yes_no!(syslog_enabled), "Whether the log goes to syslog too.").at_start(),
    row("syslog-ident", "getid", SYSLOG_IDENT, "Name in syslog.").at_start(),
    row("syslog-facility", "local0", word!(SyslogFacility, syslog_facility), "Facility in syslog.").at_start(),
    // Limits and watching
    row("maxmemory-clients", "auto", MAXMEMORY_CLIENTS,
        "Memory for the buffers of all clients; above it, the largest are closed. auto: a quarter, up to 256mb."),
    row("auth-timeout", "30", number!(0, INT_MAX, "s", auth_timeout_s),
        "How long a client may take to log in; 0: any."),
    row("client-query-buffer-limit", "16mb", memory!(MB, client_query_buffer_limit),
        "Largest unprocessed input of a client."),
    row("client-output-buffer-limit", "normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60", CLIENT_OUTPUT_BUFFER_LIMIT,
        "Largest unsent output of a class of clients: hard, soft, seconds."),
    row("client-output-timeout", "60", number!(0, INT_MAX, "s", client_output_timeout_s),
        "How long a client may read none of its output; 0: any time."),
    row("proto-max-bulk-len", "1mb", memory!(MB, proto_max_bulk_len), "Size of one argument."),
    row("slowlog-log-slower-than", "10000", number!(-1, i64::MAX, "us", slowlog_log_slower_than_us),
        "Duration from which a command is slow; 0: any, -1: none."),
    row("slowlog-max-len", "128", number!(0, LOG_ENTRIES_MAX, "", slowlog_max_len), "Entries of the slow log."),
    row("latency-monitor-threshold", "0", number!(0, i64::MAX, "ms", latency_monitor_threshold_ms),
        "Duration from which an event is kept for LATENCY; 0: none."),
    // IDs
    row("id-range", "2", bits!(id_range), "Bits for the server-id.").at_start(),
    row("shard-range", "9", bits!(shard_range), "Bits for the counter inside a millisecond.").at_start(),
    row("random-range", "10", bits!(random_range), "Bits for the random part.").at_start(),
    row("server-id", "0", SERVER_ID,
        "This server's number, below 2^id-range; auto: a free one; auto-ordinal: that of the host's name.")
        .at_start().written(|config| Some(server_id::written(config.server_id_from, config.server_id))),
    row("id-generator", "server-id 0 id-range 2 shard-range 9 random-range 10", ID_GENERATOR,
        "Server-id and widths in one line.").at_start(),
    row("generator", "", lines((1, usize::MAX), "a name, a kind and its options", Some(generators::canonical),
        LineStyle::Declarations, generators::add, generators::lines),
        "A named generator: its kind and options.").change(ChangeMode::Reload),
    row("id-epoch", "1420041600000", ID_EPOCH,
        "Begin of the time in IDs: Unix ms, RFC 3339, or a date in UTC.").at_start(),
    row("id-mgetid-max", "100", number!(1, MGETID_MAX, "", id_mgetid_max), "IDs of one MGETID."),
    row("id-max-borrow-ms", "3000", number!(100, BORROW_MS_MAX, "ms", id_max_borrow_ms),
        "How far IDs may run ahead of the clock.").change(ChangeMode::BorrowLimit),
    row("id-watermark-lead-ms", "3000", number!(100, LEAD_MS_MAX, "ms", id_watermark_lead_ms),
        "How far the watermark is kept ahead; at most id-max-borrow-ms."),
    row("id-borrow-policy", "wait", word!(BorrowPolicy, id_borrow_policy), "At the borrow limit: wait, or -BUSY."),
    row("id-max-wait-ms", "5000", number!(100, WAIT_MS_MAX, "ms", id_max_wait_ms),
        "How long a request may have to wait for IDs before it gets -BUSY."),
    row("id-state", "file", word!(StateKind, id_state), "Store of the watermark.").at_start(),
    row("id-machine-claim", "yes", yes_no!(id_machine_claim),
        "Whether only one server on this machine may have this server-id.").at_start(),
    row("id-max-clock-jump-ms", "3600000", number!(0, CLOCK_JUMP_MS_MAX, "ms", id_max_clock_jump_ms),
        "Largest jump of the clock that is followed at once; 0: any."),
    // Claims
    row("claim-store", "file", custom("file, or one address", claim::set_store, claim::store_text),
        "Store of the claims of server-ids: file, or a store that servers share.")
            .at_start().secrecy(Secrecy::Addresses),
    row("claim-timeout-ms", "2000", number!(500, CLAIM_TIMEOUT_MS_MAX, "ms", claim.timeout_ms),
        "Silence after which another server takes a claim.").at_start(),
    row("claim-takeover", "checked", CLAIM_TAKEOVER,
        "Whether a standby checks its clock against the claim's first: checked, any.").at_start(),
    row("claim-max-clock-ahead-ms", "60000", number!(0, CLOCK_JUMP_MS_MAX, "ms", claim.max_clock_ahead_ms),
        "How far a standby's clock may be ahead of the claim's; 0: any.").at_start(),
    row("instance-name", "", custom("one name", claim::set_name,
        |values| values.config.claim.instance_name.clone().unwrap_or_default()),
        "This server's name in its claim; \"\": the host's.").at_start(),
    row("announce-address", "", custom("one host with or without a port", announce::set_address,
        announce::address_text),
        "This server's address for clients; \"\": one of bind, or the host's name.").at_start(),
    row("announce-peers", "", words((1, announce::PEERS_MAX), "at most 16 hosts with or without ports",
        announce::set_peers, announce::peer_words),
        "Addresses of all servers with this server-id."),
    row("cluster-emulation", "no", yes_no!(announce.cluster_emulation),
        "Whether the server answers clients in cluster mode as a Redis Cluster with one master.").at_start(),
    // Sequences
    row("sequence-store", "", lines((1, 1), "one address", None, LineStyle::Values, stores::set, stores::lines),
        "Store of sequences; \"\": a file in dir, none: no sequences.").at_start().secrecy(Secrecy::Addresses),
    row("sequence-table", "native", word!(SequenceTable, sequences.table), "Kind of tables in the stores.").at_start(),
    row("sequence-create", "explicit", word!(SequenceCreate, sequences.create),
        "Whether INCR creates a missing sequence."),
    row("sequence-max", "1000000", number!(1, SEQUENCES_MAX, "", sequences.rows_max),
        "Number of sequences up to which INCR creates more."),
    row("request-max", "1000000", number!(1, SEQUENCES_MAX, "", sequences.requests_max),
        "Kept requests (REQUEST) of one generator or sequence; further ones are refused."),
    row("sequence-cache", "100", number!(0, RESERVED_MAX as i64, "", sequences.cache),
        "Cache of a sequence that INCR or SET creates; 0: each value is in the store before its reply."),
    row("sequence-ride-out-s", "900", number!(5, 3600, "s", sequences.ride_out_s),
        "How long sequences last without their store: values reserved ahead, which a crash may skip.").at_start(),
    row("sequence-wait-ms", "1000", number!(0, 60_000, "ms", sequences.wait_ms),
        "How long a request may wait for a store before it gets -BUSY."),
    row("sequence-policy", "wait", word!(SequencePolicy, sequences.policy), "Without values in memory: wait, or \
         -BUSY."),
    row("sequence-incrby-max", "10000000", number!(1, RESERVED_MAX as i64, "", sequences.incrby_max),
        "Values of one INCRBY."),
    row("sequence-expire", "", words((1, EXPIRING_NAMES_MAX), "patterns of names", stores::set_expiring,
        |values| values.config.sequences.expiring.texts().to_vec()),
        "Sequences that EXPIRE may end, by patterns of their names; \"\": none."),
    row("sequence-delete", "no", yes_no!(sequences.may_delete), "Whether DEL drops a sequence."),
    // Worker ids
    row("worker-pool", "", lines((1, usize::MAX), "a name, a size and a lease", Some(workers::canonical),
        LineStyle::Named, workers::add, workers::lines),
        "Worker ids for other programs: a pool's name, its size, and how long a lease lasts.").at_start(),
    // HTTP
    row("http-port", "0", number!(0, 65535, "", http.port), "HTTP port; 0: none.").at_start(),
    row("http-bind", "", words((1, usize::MAX), ADDRESSES, http::set_bind,
        |values| address_words(&values.config.http.bind)),
        "Addresses of the HTTP port; \"\": those of bind.").at_start(),
    row("http-tls", "no", yes_no!(http.tls), "Whether the HTTP port uses TLS, with the files of tls-...").at_start(),
    row("http-max-clients", "1024", number!(1, HTTP_CLIENTS_MAX, "", http.clients_max),
        "HTTP connections at a time.").at_start(),
    row("http-timeout", "60", number!(1, 86_400, "s", http.timeout_s),
        "How long an HTTP connection may be without a request."),
    row("http-open", "probes", words((1, 2), "probes, metrics or both", http::set_open, http::open_words),
        "Paths that need no login: probes, metrics."),
    row("http-ready", "", words((1, http::NAMES_MAX), "names of generators", http::set_ready,
        |values| values.config.http.ready.clone()),
        "Named generators that /readyz checks; \"\": the unnamed one."),
    row("http-host", "", words((1, http::NAMES_MAX), "names of hosts", http::set_hosts,
        |values| values.config.http.hosts.clone()),
        "Names of this server in the header Host."),
    row("http-api", "", words((1, 9), "leaf, tinyid, cosid, each with an optional 'user NAME' after it",
        http::set_apis, http::api_words),
        "APIs of other ID servers: leaf, tinyid, cosid.").at_start(),
];

/// Largest `http-max-clients`: each connection has a descriptor, and some 20 KiB during a request.
const HTTP_CLIENTS_MAX: i64 = 65_535;

/// Largest number of rows in a table of names.
const SEQUENCES_MAX: i64 = 1_000_000_000;

const BIND: ValueShape = ValueShape::Words {
    count: (1, usize::MAX),
    expected: ADDRESSES,
    quoted: false,
    set: |values, words| {
        values.config.bind = addresses(words)?;
        values.config.bind_given = true;
        Ok(())
    },
    get: |values| address_words(&values.config.bind),
};

const UNIXSOCKETPERM: ValueShape = ValueShape::Mode {
    set: |values, mode| values.config.unixsocketperm = mode,
    get: |values| values.config.unixsocketperm,
};

const PROTECTED_MODE: ValueShape = ValueShape::Word {
    words: Protection::WORDS,
    set: |values, word| values.config.protected_mode = Protection::from_word(word),
    get: |values| values.config.protection().word(),
};

const MAXMEMORY_CLIENTS: ValueShape = ValueShape::Custom {
    expected: "auto, a memory size or a percentage",
    set: |values, word| {
        let wrong = || ValueError::ClientMemory { found: word.to_owned() };
        values.config.maxmemory_clients = match word.strip_suffix('%') {
            None if word.eq_ignore_ascii_case("auto") => ClientMemory::Auto,
            Some(digits) => {
                let percent = digits.parse().ok().filter(|percent| (1..=100).contains(percent) && is_digits(digits));
                ClientMemory::Percent(percent.ok_or_else(wrong)?)
            }
            None => ClientMemory::Bytes(memory(word, 0).map_err(|_| wrong())?),
        };
        Ok(())
    },
    get: |values| match values.config.maxmemory_clients {
        ClientMemory::Auto => "auto".to_owned(),
        ClientMemory::Bytes(bytes) => bytes.to_string(),
        ClientMemory::Percent(percent) => format!("{percent}%"),
    },
};

const REQUIREPASS: ValueShape = ValueShape::Text {
    set: |values, text| values.config.requirepass = (!text.is_empty()).then(|| text.to_owned()),
    get: |values| values.config.requirepass.as_deref().unwrap_or_default(),
};

/// Largest number of TLS sessions; each takes at most 4 KiB.
const TLS_SESSIONS_MAX: i64 = 100_000;

const TLS_PROTOCOLS: ValueShape = ValueShape::Words {
    count: (1, 4),
    expected: "TLSv1.2, TLSv1.3 or both",
    quoted: true,
    set: |values, words| {
        values.config.tls_protocols = suites::protocols(&words.join(" "))?;
        Ok(())
    },
    get: |values| values.config.tls_protocols.iter().map(|&name| name.to_owned()).collect(),
};

const USER: ValueShape = ValueShape::Lines {
    count: (1, usize::MAX),
    expected: "a name and its rules",
    canonical: Some(user_line),
    style: LineStyle::LinesOnly,
    set: |values, words| {
        let [name, rules @ ..] = words else { return Err(ValueError::Empty.into()) };
        Users::default().define(name.as_bytes(), rules).map_err(ValueError::from)?;
        values.config.users.push(UserLine { name: name.clone(), rules: rules.to_vec() });
        Ok(())
    },
    get: |values| {
        let line = |user: &UserLine| [std::slice::from_ref(&user.name), &user.rules].concat();
        values.config.users.iter().map(line).collect()
    },
};

/// Returns a user's line as `ACL LIST` prints it, so that equal rights have equal words. (Passwords are digests by
/// then, as in Redis.)
fn user_line(line: &[String]) -> Line {
    let [name, rules @ ..] = line else { return Line::new() };
    let mut users = Users::default();
    let described = match users.define(name.as_bytes(), rules) {
        Ok(()) => users.get(name.as_bytes()).map(|user| user.describe()),
        // No server starts with such a line.
        Err(_) => None,
    };
    let rules = described.map_or_else(|| rules.to_vec(), |text| text.split(' ').map(str::to_owned).collect());
    std::iter::once(name.clone()).chain(rules).collect()
}

const RENAME_COMMAND: ValueShape = ValueShape::Lines {
    count: (2, 2),
    expected: "a command and its new name",
    canonical: None,
    style: LineStyle::Pairs,
    set: |values, words| match words {
        [command, new_name] if !command.is_empty() => {
            values.config.rename_commands.push((command.clone(), new_name.clone()));
            Ok(())
        }
        _ => Err(ValueError::RenameNothing.into()),
    },
    get: |values| values.config.rename_commands.iter().map(|(from, to)| vec![from.clone(), to.clone()]).collect(),
};

/// Only the last line counts, as in Redis: `--daemonize no` is valid whatever the file contains.
const DAEMONIZE: ValueShape =
    ValueShape::YesNo { set: |values, yes| values.daemonize = yes, get: |values| values.daemonize };

const DIR: ValueShape = ValueShape::Custom {
    expected: "one path",
    set: |values, path| {
        if path.is_empty() {
            return Err(ValueError::Empty);
        }
        values.config.dir = Some(path.into());
        Ok(())
    },
    get: |values| match &values.config {
        Config { dir: Some(dir), state_dir, .. } if state_dir.as_os_str().is_empty() => dir.display().to_string(),
        config => config.state_dir.display().to_string(),
    },
};

const SYSLOG_IDENT: ValueShape = ValueShape::Text {
    set: |values, text| text.clone_into(&mut values.config.syslog_ident),
    get: |values| &values.config.syslog_ident,
};

/// One or more classes in a line, each with its three limits; other classes keep theirs.
const CLIENT_OUTPUT_BUFFER_LIMIT: ValueShape = ValueShape::Table {
    count: (4, 12),
    expected: BUFFER_LIMIT,
    keys: &[&["normal"], &["replica", "slave"], &["pubsub"]],
    redis_error: |error| match error {
        ValueError::Count { .. } => "Wrong number of arguments in buffer limit configuration.",
        ValueError::BufferClass { .. } => "Invalid client class specified in buffer limit configuration.",
        _ => "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
    },
    set: |values, words| {
        for group in words.chunks(4) {
            let [class, hard, soft, seconds] = group else {
                return Err(ValueError::Count { found: format!("{} values", words.len()), expected: BUFFER_LIMIT });
            };
            let limits = &mut values.config.client_output_buffer_limit;
            let limit = match class.to_ascii_lowercase().as_str() {
                "normal" => &mut limits.normal,
                "replica" | "slave" => &mut limits.replica,
                "pubsub" => &mut limits.pubsub,
                _ => return Err(ValueError::BufferClass { found: class.clone() }),
            };
            let max = INT_MAX.unsigned_abs();
            let soft_s = seconds.parse().ok().filter(|soft_s| *soft_s <= max && is_digits(seconds));
            *limit = OutputBufferLimit {
                hard_bytes: memory(hard, 0)?,
                soft_bytes: memory(soft, 0)?,
                soft_s: soft_s.ok_or_else(|| ValueError::BufferSeconds { found: seconds.clone(), max })?,
            };
        }
        Ok(())
    },
    get: |values| {
        let OutputBufferLimits { normal, replica, pubsub } = values.config.client_output_buffer_limit;
        let classes = [("normal", normal), ("replica", replica), ("pubsub", pubsub)];
        let line = |(class, limit): (&str, OutputBufferLimit)| {
            let numbers = [limit.hard_bytes, limit.soft_bytes, limit.soft_s];
            [vec![class.to_owned()], numbers.map(|number| number.to_string()).to_vec()].concat()
        };
        classes.map(line).to_vec()
    },
};

const BUFFER_LIMIT: &str = "a class (normal, replica, pubsub), hard limit, soft limit and seconds";

const SERVER_ID: ValueShape = ValueShape::NumberOr {
    words: server_id::WORDS,
    min: 0,
    max: (1 << LOW_BITS) - 1,
    set: server_id::set,
    get: server_id::get,
};

const CLAIM_TAKEOVER: ValueShape = ValueShape::Word {
    words: claim::TAKEOVER_WORDS,
    set: |values, word| values.config.claim.takes_any = word.eq_ignore_ascii_case("any"),
    get: |values| if values.config.claim.takes_any { "any" } else { "checked" },
};

const ID_GENERATOR: ValueShape = ValueShape::Parts {
    names: &["server-id", "id-range", "shard-range", "random-range"],
    expected: "server-id, id-range, shard-range and random-range, each with its number",
    get: |values| {
        let ConfigValues { config, id_range, shard_range, random_range, .. } = values;
        let server_id = config.shown_server_id();
        format!("server-id {server_id} id-range {id_range} shard-range {shard_range} random-range {random_range}")
    },
};

const ID_EPOCH: ValueShape = ValueShape::Custom {
    expected: "one time",
    set: |values, word| {
        values.epoch = epoch(word)?;
        Ok(())
    },
    get: |values| values.epoch.unix_ms().to_string(),
};

/// Converts a number that its row's range has limited.
fn fit<N, F: TryFrom<N>>(value: N) -> F {
    F::try_from(value).unwrap_or_else(|_| unreachable!("the row's range is wider than its field"))
}
