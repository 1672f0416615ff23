//! The table of directives: one row each, and everything about a directive in its row.
//!
//! The reader checks values by it, `CONFIG GET` answers from it, the tests hold `config/getid.conf` against it. A range
//! is told once: it stands in the row, is checked before the setter runs, and goes into the error text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use getid_core::{Epoch, LOW_BITS};

use super::builder::Builder;
use super::value_error::ValueError;
use super::{
    BindAddr, BorrowPolicy, ClientMemory, Config, LogFormat, LogLevel, OutputBufferLimit, StateKind, Supervised,
    SyslogFacility, TlsAuthClients, TlsAuthClientsUser, UserLine, suites,
};
use crate::acl::{Protection, Users};
use crate::text::timestamp::{self, TimeError};

/// One directive.
#[derive(Debug)]
pub struct Directive {
    /// As it is written, in lower case.
    pub name: &'static str,
    /// The built-in value as text; empty for none.
    pub default: &'static str,
    /// What it does, in one line.
    pub doc: &'static str,
    /// Whether it may change while the server runs.
    pub change: Change,
    /// Whether each line adds to those before, instead of replacing them.
    pub accumulates: bool,
    /// What of its value is nobody's business.
    pub secrecy: Secrecy,
    /// What values it takes, and where they go.
    pub(super) value: Value,
}

/// When a directive takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// At the start only.
    AtStart,
    /// `CONFIG SET` may change it.
    AnyTime,
}

/// What of a directive's value is shown only to who may set it, and in no log, report or `MONITOR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrecy {
    /// All may see it.
    Open,
    /// It is a secret.
    Secret,
    /// Rules of a user, of which some are passwords or their digests.
    Passwords,
}

impl Directive {
    /// Every directive, in the order of `config/getid.conf`.
    pub const ALL: &'static [Directive] = DIRECTIVES;

    /// The directive of this name, in lower case.
    pub fn find(name: &str) -> Option<&'static Directive> {
        Directive::ALL.iter().find(|row| row.name == name)
    }

    /// How many words it takes.
    pub fn words(&self) -> (usize, usize) {
        match self.value {
            Value::Words { count, .. } => count,
            _ => (1, 1),
        }
    }

    /// Range and unit, for people.
    pub fn range(&self) -> String {
        match self.value {
            Value::Number { min, max: i64::MAX, unit, .. } => format!("{min} or more {unit}").trim_end().to_owned(),
            Value::Number { min, max, unit, .. } => format!("{min} to {max} {unit}").trim_end().to_owned(),
            Value::Memory { min, .. } => format!("{min} or more bytes"),
            Value::YesNo { .. } => "yes, no".to_owned(),
            Value::Word { words, .. } => words.join(", "),
            Value::Mode { .. } => "000 to 777, octal".to_owned(),
            Value::Text { .. } => "text".to_owned(),
            Value::Path { .. } => "path".to_owned(),
            Value::Words { expected, .. } => expected.to_owned(),
        }
    }

    /// The words of which its value is one; empty where there are others.
    pub fn choices(&self) -> &'static [&'static str] {
        match self.value {
            Value::YesNo { .. } => YES_NO,
            Value::Word { words, .. } => words,
            _ => &[],
        }
    }

    /// Whether its value is a path.
    pub fn is_path(&self) -> bool {
        matches!(self.value, Value::Path { .. })
    }

    /// The value that is in force, as `CONFIG GET` shows it; `None` for directives it doesn't show.
    pub fn get(&self, config: &Config) -> Option<String> {
        Some(match self.value {
            Value::Number { get, .. } => get(config).to_string(),
            Value::Memory { get, .. } => get(config).to_string(),
            Value::YesNo { get, .. } => yes_no(get(config)).to_owned(),
            Value::Word { get, .. } => get(config).to_owned(),
            Value::Mode { get, .. } => get(config).map_or_else(|| "0".to_owned(), |mode| format!("{mode:o}")),
            Value::Text { get, .. } => get(config).to_owned(),
            Value::Path { get, .. } => get(config).map_or_else(String::new, |path| path.display().to_string()),
            Value::Words { get, .. } => return get.map(|get| get(config)),
        })
    }

    /// Checks the words of a line and puts them where they belong.
    pub(super) fn set(&self, builder: &mut Builder, words: &[String]) -> Result<(), ValueError> {
        let (least, most) = self.words();
        if !(least..=most).contains(&words.len()) {
            let found = match words.len() {
                0 => "no value".to_owned(),
                1 => "one value".to_owned(),
                count => format!("{count} values"),
            };
            let expected = match self.value {
                Value::Words { expected, .. } => expected,
                _ => "one value",
            };
            return Err(ValueError::Count { found, expected });
        }
        let word = words.first().map_or("", String::as_str);
        match self.value {
            Value::Number { min, max, unit, set, .. } => set(builder, number(word, min, max, unit)?),
            Value::Memory { min, set, .. } => set(builder, memory(word, min)?),
            Value::YesNo { set, .. } => set(builder, choice(word, YES_NO)? == "yes"),
            Value::Word { words, set, .. } => set(builder, choice(word, words)?),
            Value::Mode { set, .. } => set(builder, mode(word)?),
            Value::Text { set, .. } => set(builder, word),
            Value::Path { set, .. } => set(builder, (!word.is_empty()).then(|| PathBuf::from(word))),
            Value::Words { set, .. } => set(builder, words)?,
        }
        Ok(())
    }

    /// Whether one word that has blanks in it stands for several, as in `bind "127.0.0.1 ::1"`.
    pub(super) fn takes_words(&self) -> bool {
        matches!(self.value, Value::Words { .. })
    }

    /// Whether its value is a whole number.
    pub(super) fn is_integer(&self) -> bool {
        matches!(self.value, Value::Number { .. })
    }

    /// Whether its value is a number, or a size.
    pub(super) fn is_number(&self) -> bool {
        matches!(self.value, Value::Number { .. } | Value::Memory { .. } | Value::Mode { .. })
    }

    /// Whether a number in a TOML file keeps its octal digits.
    pub(super) fn is_octal(&self) -> bool {
        matches!(self.value, Value::Mode { .. })
    }
}

/// What values a directive takes. A setter gets a value that was checked, so that only [`Value::Words`] can refuse.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Number {
        min: i64,
        max: i64,
        unit: &'static str,
        set: fn(&mut Builder, i64),
        get: fn(&Config) -> i64,
    },
    Memory {
        min: u64,
        set: fn(&mut Builder, u64),
        get: fn(&Config) -> u64,
    },
    YesNo {
        set: fn(&mut Builder, bool),
        get: fn(&Config) -> bool,
    },
    Word {
        words: &'static [&'static str],
        set: fn(&mut Builder, &str),
        get: fn(&Config) -> &'static str,
    },
    Mode {
        set: fn(&mut Builder, Option<u32>),
        get: fn(&Config) -> Option<u32>,
    },
    Text {
        set: fn(&mut Builder, &str),
        get: fn(&Config) -> &str,
    },
    Path {
        set: fn(&mut Builder, Option<PathBuf>),
        get: fn(&Config) -> Option<&Path>,
    },
    Words {
        count: (usize, usize),
        expected: &'static str,
        set: fn(&mut Builder, &[String]) -> Result<(), ValueError>,
        get: Option<fn(&Config) -> String>,
    },
}

pub(super) const YES_NO: &[&str] = &["yes", "no"];

/// The words of an `id-generator` line; each is a directive of its own too.
pub(super) const GENERATOR_WORDS: &[&str] = &["server-id", "id-range", "shard-range", "random-range"];

/// As in Redis: `CONFIG_BINDADDR_MAX`.
const BIND_ADDRESSES_MAX: usize = 16;

/// IDs of one MGETID at most. An ID takes up to 26 bytes (`$19`, CR LF, 19 digits, CR LF), so a reply stays below 260 KB,
/// which is what one client that doesn't read may cost.
const MGETID_MAX: i64 = 10_000;

/// Entries of a log that is held in memory: at a few KB each, some 100 MB.
const LOG_ENTRIES_MAX: i64 = 10_000;

/// Redis counts with an int.
const INT_MAX: i64 = i32::MAX as i64;

const MB: u64 = 1024 * 1024;

/// Bytes that a size can name, as in Redis; no machine has so many.
pub(super) const MEMORY_MAX: u64 = i64::MAX as u64;

/// 400 days: farther ahead the clock is never followed, whatever is configured.
const CLOCK_JUMP_MS_MAX: i64 = 400 * 24 * 3600 * 1000;

/// An hour. Without a record a server starts this far ahead of the clock.
const BORROW_MS_MAX: i64 = 3_600_000;

/// An hour. What is queued is bounded by it, some hundred bytes a draw.
const WAIT_MS_MAX: i64 = 3_600_000;

/// A row, changeable by `CONFIG SET`.
const fn row(name: &'static str, default: &'static str, value: Value, doc: &'static str) -> Directive {
    Directive { name, default, doc, change: Change::AnyTime, accumulates: false, secrecy: Secrecy::Open, value }
}

impl Directive {
    const fn at_start(self) -> Directive {
        Directive { change: Change::AtStart, ..self }
    }

    const fn accumulating(self) -> Directive {
        Directive { accumulates: true, ..self }
    }

    const fn secret(self) -> Directive {
        Directive { secrecy: Secrecy::Secret, ..self }
    }

    const fn with_passwords(self) -> Directive {
        Directive { secrecy: Secrecy::Passwords, ..self }
    }
}

/// A number in a field. A test sets both ends of every range, so they fit.
macro_rules! number {
    ($min:expr, $max:expr, $unit:literal, $field:ident) => {
        Value::Number {
            min: $min,
            max: $max,
            unit: $unit,
            set: |builder, value| builder.config.$field = fit(value),
            get: |config| i64::try_from(config.$field).unwrap_or(i64::MAX),
        }
    };
}

macro_rules! memory {
    ($min:expr, $field:ident) => {
        Value::Memory {
            min: $min,
            set: |builder, value| builder.config.$field = fit(value),
            get: |config| config.$field as u64,
        }
    };
}

macro_rules! word {
    ($words:ident, $field:ident) => {
        Value::Word {
            words: $words::WORDS,
            set: |builder, word| builder.config.$field = $words::from_word(word).unwrap_or_default(),
            get: |config| config.$field.word(),
        }
    };
}

macro_rules! path {
    ($field:ident) => {
        Value::Path { set: |builder, path| builder.config.$field = path, get: |config| config.$field.as_deref() }
    };
}

const DIRECTIVES: &[Directive] = &[
    row("include", "", INCLUDE, "Reads another file at this place; * ? [ in its path make it a pattern.")
        .at_start()
        .accumulating(),
    // Network
    row("bind", "127.0.0.1 -::1", BIND, "Addresses to listen on; - in front: passed over where it is missing.")
        .at_start(),
    row("port", "7890", number!(0, 65535, "", port), "TCP port; 0: no TCP.").at_start(),
    row("unixsocket", "", path!(unixsocket), "Path of a Unix socket to listen on.").at_start(),
    row("unixsocketperm", "0", UNIXSOCKETPERM, "Mode of the Unix socket; 0 leaves it to umask.").at_start(),
    row("tcp-backlog", "511", number!(0, INT_MAX, "", tcp_backlog), "Connections that wait for accept.").at_start(),
    row("tcp-keepalive", "300", number!(0, INT_MAX, "s", tcp_keepalive_s), "Silence before a probe; 0: never."),
    row("timeout", "0", number!(0, INT_MAX, "s", timeout_s), "Idle time before a client is closed; 0: never."),
    row("maxclients", "10000", number!(1, u32::MAX as i64, "", maxclients), "Clients at a time."),
    row("protected-mode", "", PROTECTED_MODE, "What clients from elsewhere may do without a password or a login."),
    row("io-threads", "1", number!(1, 128, "", io_threads), "Threads that serve connections.").at_start(),
    // Access
    row("requirepass", "", REQUIREPASS, "Password of the default user.").secret(),
    row("requirepass-file", "", path!(requirepass_file), "File that holds the password of the default user.")
        .at_start(),
    row("user", "", USER, "An ACL user and its rules.").accumulating().at_start().with_passwords(),
    row("aclfile", "", path!(aclfile), "File with ACL users.").at_start(),
    row("acllog-max-len", "128", number!(0, LOG_ENTRIES_MAX, "", acllog_max_len), "Entries of ACL LOG."),
    row("rename-command", "", RENAME_COMMAND, "Another name for a command; \"\" takes it away.")
        .at_start()
        .accumulating(),
    // TLS
    row("tls-port", "0", number!(0, 65535, "", tls_port), "TLS port; 0: no TLS.").at_start(),
    row("tls-cert-file", "", path!(tls_cert_file), "Certificate, PEM."),
    row("tls-key-file", "", path!(tls_key_file), "Key of the certificate, PEM."),
    row("tls-ca-cert-file", "", path!(tls_ca_cert_file), "Who signs clients' certificates, PEM."),
    row("tls-ca-cert-dir", "", path!(tls_ca_cert_dir), "A folder with more of those, PEM."),
    row("tls-auth-clients", "yes", word!(TlsAuthClients, tls_auth_clients), "Whether clients need a certificate."),
    row(
        "tls-auth-clients-user",
        "off",
        word!(TlsAuthClientsUser, tls_auth_clients_user),
        "Whether the CN of a client's certificate is its user.",
    ),
    row("tls-protocols", "", TLS_PROTOCOLS, "Versions of TLS; \"\": all."),
    row("tls-ciphers", "", TLS_CIPHERS, "Cipher suites of TLS 1.2; \"\": all."),
    row("tls-ciphersuites", "", TLS_CIPHERSUITES, "Cipher suites of TLS 1.3; \"\": all."),
    row("tls-prefer-server-ciphers", "no", TLS_PREFER_SERVER_CIPHERS, "Whether the server's order of them counts."),
    row("tls-session-caching", "yes", TLS_SESSION_CACHING, "Whether a client may go on with an earlier session."),
    row(
        "tls-session-cache-size",
        "20480",
        number!(1, TLS_SESSIONS_MAX, "", tls_session_cache_size),
        "Sessions that are kept for that.",
    ),
    row(
        "tls-session-cache-timeout",
        "300",
        number!(1, 86_400, "s", tls_session_cache_timeout_s),
        "How long they are kept.",
    ),
    // General
    row("daemonize", "no", DAEMONIZE, "Accepted with no only: getid stays in the foreground.").at_start(),
    row("supervised", "no", word!(Supervised, supervised), "Who is told about start and stop.").at_start(),
    row("pidfile", "", path!(pidfile), "File that gets the process id.").at_start(),
    row("dir", "", DIR, "Folder of the state, and of relative paths.").at_start(),
    row("databases", "16", number!(1, INT_MAX, "", databases), "SELECT accepts 0 up to one less.").at_start(),
    row("hz", "10", number!(1, 500, "", hz), "Background rounds a second: timeouts, statistics."),
    row("shutdown-timeout", "10", number!(0, INT_MAX, "s", shutdown_timeout_s), "How long a stop waits for clients."),
    // Logs
    row("loglevel", "notice", word!(LogLevel, loglevel), "The least serious event that is logged."),
    row("logfile", "", path!(logfile), "Where the log goes; \"\": standard output.").at_start(),
    row("log-format", "text", word!(LogFormat, log_format), "How a log line is written.").at_start(),
    row("syslog-enabled", "no", SYSLOG_ENABLED, "Whether the log goes to syslog too.").at_start(),
    row("syslog-ident", "getid", SYSLOG_IDENT, "Name in syslog.").at_start(),
    row("syslog-facility", "local0", word!(SyslogFacility, syslog_facility), "Facility in syslog.").at_start(),
    // Limits and watching
    row(
        "maxmemory-clients",
        "256mb",
        MAXMEMORY_CLIENTS,
        "What buffers of all clients may take; the largest go beyond.",
    ),
    row(
        "auth-timeout",
        "30",
        number!(0, INT_MAX, "s", auth_timeout_s),
        "How long a client may take to log in; 0: any.",
    ),
    row(
        "client-query-buffer-limit",
        "16mb",
        memory!(MB, client_query_buffer_limit),
        "Input a client may have waiting.",
    ),
    row(
        "client-output-buffer-limit",
        "normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60",
        CLIENT_OUTPUT_BUFFER_LIMIT,
        "Output a class of clients may have waiting: hard, soft, seconds.",
    ),
    row(
        "client-output-timeout",
        "60",
        number!(0, INT_MAX, "s", client_output_timeout_s),
        "How long a client may take none of its output; 0: for ever.",
    ),
    row("proto-max-bulk-len", "1mb", memory!(MB, proto_max_bulk_len), "Size of one argument."),
    row(
        "slowlog-log-slower-than",
        "10000",
        number!(-1, i64::MAX, "us", slowlog_log_slower_than_us),
        "When a command is slow; 0: always, -1: never.",
    ),
    row("slowlog-max-len", "128", number!(0, LOG_ENTRIES_MAX, "", slowlog_max_len), "Entries of the slow log."),
    row(
        "latency-monitor-threshold",
        "0",
        number!(0, i64::MAX, "ms", latency_monitor_threshold_ms),
        "When an event is kept for LATENCY; 0: never.",
    ),
    // IDs
    row("id-range", "2", ID_RANGE, "Bits for the server-id.").at_start(),
    row("shard-range", "9", SHARD_RANGE, "Bits for the counter inside a millisecond.").at_start(),
    row("random-range", "10", RANDOM_RANGE, "Bits for the random part.").at_start(),
    row("server-id", "0", SERVER_ID, "This server's number, below 2^id-range.").at_start(),
    row("id-generator", "server-id 0 id-range 2 shard-range 9 random-range 10", ID_GENERATOR, "The four in one line.")
        .at_start(),
    row("id-epoch", "1420041600000", ID_EPOCH, "When IDs start to count: Unix ms, RFC 3339, or a date in UTC.")
        .at_start(),
    row("id-mgetid-max", "100", number!(1, MGETID_MAX, "", id_mgetid_max), "IDs of one MGETID."),
    row(
        "id-max-borrow-ms",
        "3000",
        number!(100, BORROW_MS_MAX, "ms", id_max_borrow_ms),
        "How far IDs may run ahead of the clock.",
    ),
    row(
        "id-watermark-lead-ms",
        "3000",
        number!(100, 60_000, "ms", id_watermark_lead_ms),
        "How far the watermark is kept ahead; at most id-max-borrow-ms.",
    ),
    row("id-borrow-policy", "wait", word!(BorrowPolicy, id_borrow_policy), "At the borrow limit: wait, or -BUSY."),
    row(
        "id-max-wait-ms",
        "5000",
        number!(100, WAIT_MS_MAX, "ms", id_max_wait_ms),
        "How long a request may have to wait for IDs before it gets -BUSY.",
    ),
    row("id-state", "file", word!(StateKind, id_state), "Where the watermark is kept.").at_start(),
    row("id-machine-claim", "yes", ID_MACHINE_CLAIM, "Whether one server on this machine may have this server-id.")
        .at_start(),
    row(
        "id-max-clock-jump-ms",
        "3600000",
        number!(0, CLOCK_JUMP_MS_MAX, "ms", id_max_clock_jump_ms),
        "Jump of the clock that is followed at once; 0: any.",
    ),
];

const ID_MACHINE_CLAIM: Value =
    Value::YesNo { set: |builder, yes| builder.config.id_machine_claim = yes, get: |config| config.id_machine_claim };

/// Performed by the reader before any setter runs.
const INCLUDE: Value = Value::Words { count: (1, 1), expected: "one path", set: |_, _| Ok(()), get: None };

const BIND: Value = Value::Words {
    count: (1, usize::MAX),
    expected: "one or more IP addresses",
    set: |builder, words| {
        // As in Redis, one empty word is no address at all.
        let words = if words == [""] { &[] } else { words };
        if words.len() > BIND_ADDRESSES_MAX {
            return Err(ValueError::Addresses { found: words.len(), max: BIND_ADDRESSES_MAX });
        }
        builder.config.bind = words.iter().map(|word| address(word)).collect::<Result<_, _>>()?;
        builder.config.bind_given = true;
        Ok(())
    },
    get: Some(|config| {
        let addresses =
            config.bind.iter().map(|address| format!("{}{}", if address.optional { "-" } else { "" }, address.ip));
        addresses.collect::<Vec<_>>().join(" ")
    }),
};

const UNIXSOCKETPERM: Value =
    Value::Mode { set: |builder, mode| builder.config.unixsocketperm = mode, get: |config| config.unixsocketperm };

const PROTECTED_MODE: Value = Value::Word {
    words: Protection::WORDS,
    set: |builder, word| builder.config.protected_mode = Protection::from_word(word),
    get: |config| config.protection().word(),
};

const MAXMEMORY_CLIENTS: Value = Value::Words {
    count: (1, 1),
    expected: "a memory size or a percentage",
    set: |builder, words| {
        let word = words.first().map_or("", String::as_str);
        let wrong = || ValueError::ClientMemory { found: word.to_owned() };
        builder.config.maxmemory_clients = match word.strip_suffix('%') {
            Some(digits) => {
                let percent = digits.parse().ok().filter(|percent| (1..=100).contains(percent) && is_digits(digits));
                ClientMemory::Percent(percent.ok_or_else(wrong)?)
            }
            None => ClientMemory::Bytes(memory(word, 0).map_err(|_| wrong())?),
        };
        Ok(())
    },
    get: Some(|config| match config.maxmemory_clients {
        ClientMemory::Bytes(bytes) => bytes.to_string(),
        ClientMemory::Percent(percent) => format!("{percent}%"),
    }),
};

const REQUIREPASS: Value = Value::Text {
    set: |builder, text| builder.config.requirepass = (!text.is_empty()).then(|| text.to_owned()),
    get: |config| config.requirepass.as_deref().unwrap_or_default(),
};

/// Sessions of TLS: each takes at most 4 KiB.
const TLS_SESSIONS_MAX: i64 = 100_000;

const TLS_PROTOCOLS: Value = Value::Words {
    count: (1, 4),
    expected: "TLSv1.2, TLSv1.3 or both",
    set: |builder, words| {
        builder.config.tls_protocols = suites::protocols(&words.join(" "))?;
        Ok(())
    },
    get: Some(|config| config.tls_protocols.join(" ")),
};

const TLS_CIPHERS: Value = Value::Words {
    count: (1, 1),
    expected: "names with colons between them",
    set: |builder, words| {
        builder.config.tls_ciphers = suites::suites_12(&words.concat())?;
        Ok(())
    },
    get: Some(|config| config.tls_ciphers.join(":")),
};

const TLS_CIPHERSUITES: Value = Value::Words {
    count: (1, 1),
    expected: "names with colons between them",
    set: |builder, words| {
        builder.config.tls_ciphersuites = suites::suites_13(&words.concat())?;
        Ok(())
    },
    get: Some(|config| config.tls_ciphersuites.join(":")),
};

const TLS_PREFER_SERVER_CIPHERS: Value = Value::YesNo {
    set: |builder, yes| builder.config.tls_prefer_server_ciphers = yes,
    get: |config| config.tls_prefer_server_ciphers,
};

const TLS_SESSION_CACHING: Value = Value::YesNo {
    set: |builder, yes| builder.config.tls_session_caching = yes,
    get: |config| config.tls_session_caching,
};

const USER: Value = Value::Words {
    count: (1, usize::MAX),
    expected: "a name and its rules",
    set: |builder, words| {
        let [name, rules @ ..] = words else { return Err(ValueError::Empty) };
        if builder.config.users.iter().any(|line| line.name == *name) {
            return Err(ValueError::UserTwice { name: name.clone() });
        }
        Users::default().define(name.as_bytes(), rules)?;
        builder.config.users.push(UserLine { name: name.clone(), rules: rules.to_vec() });
        Ok(())
    },
    get: None,
};

const RENAME_COMMAND: Value = Value::Words {
    count: (2, 2),
    expected: "a command and its new name",
    set: |builder, words| match words {
        [command, new_name] if !command.is_empty() => {
            builder.config.rename_commands.push((command.clone(), new_name.clone()));
            Ok(())
        }
        _ => Err(ValueError::RenameNothing),
    },
    get: None,
};

const DAEMONIZE: Value = Value::Words {
    count: (1, 1),
    expected: "one value",
    set: |_, words| {
        let word = words.first().map_or("", String::as_str);
        if choice(word, YES_NO)? == "yes" { Err(ValueError::Daemonize) } else { Ok(()) }
    },
    get: Some(|_| "no".to_owned()),
};

const DIR: Value = Value::Words {
    count: (1, 1),
    expected: "one path",
    set: |builder, words| match words {
        [path] if !path.is_empty() => {
            builder.config.dir = Some(PathBuf::from(path));
            Ok(())
        }
        _ => Err(ValueError::Empty),
    },
    get: Some(|config| match &config.dir {
        Some(dir) if config.state_dir.as_os_str().is_empty() => dir.display().to_string(),
        _ => config.state_dir.display().to_string(),
    }),
};

const SYSLOG_ENABLED: Value =
    Value::YesNo { set: |builder, yes| builder.config.syslog_enabled = yes, get: |config| config.syslog_enabled };

const SYSLOG_IDENT: Value = Value::Text {
    set: |builder, text| text.clone_into(&mut builder.config.syslog_ident),
    get: |config| &config.syslog_ident,
};

/// One or more classes in a line, each with its three limits; classes that are not named keep theirs.
const CLIENT_OUTPUT_BUFFER_LIMIT: Value = Value::Words {
    count: (4, 12),
    expected: "a class (normal, replica, pubsub), hard limit, soft limit and seconds",
    set: |builder, words| {
        for group in words.chunks(4) {
            let [class, hard, soft, seconds] = group else {
                let expected = "a class (normal, replica, pubsub), hard limit, soft limit and seconds";
                return Err(ValueError::Count { found: format!("{} values", words.len()), expected });
            };
            let limits = &mut builder.config.client_output_buffer_limit;
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
    get: Some(|config| {
        let limits = config.client_output_buffer_limit;
        // Replicas under the name that Redis still answers with.
        let classes = [("normal", limits.normal), ("slave", limits.replica), ("pubsub", limits.pubsub)];
        let texts =
            classes.map(|(class, limit)| format!("{class} {} {} {}", limit.hard_bytes, limit.soft_bytes, limit.soft_s));
        texts.join(" ")
    }),
};

const ID_RANGE: Value = Value::Number {
    min: 0,
    max: LOW_BITS as i64,
    unit: "",
    set: |builder, bits| builder.id_range = fit(bits),
    get: |config| config.layout.server_bits().into(),
};

const SHARD_RANGE: Value = Value::Number {
    min: 0,
    max: LOW_BITS as i64,
    unit: "",
    set: |builder, bits| builder.shard_range = fit(bits),
    get: |config| config.layout.shard_bits().into(),
};

const RANDOM_RANGE: Value = Value::Number {
    min: 0,
    max: LOW_BITS as i64,
    unit: "",
    set: |builder, bits| builder.random_range = fit(bits),
    get: |config| config.layout.random_bits().into(),
};

const SERVER_ID: Value = Value::Number {
    min: 0,
    max: (1 << LOW_BITS) - 1,
    unit: "",
    set: |builder, number| {
        builder.config.server_id = fit(number);
        builder.config.server_id_given = true;
    },
    get: |config| config.server_id.into(),
};

/// Taken apart by the builder: each pair goes through the row of its own name.
const ID_GENERATOR: Value = Value::Words {
    count: (2, 8),
    expected: "server-id, id-range, shard-range and random-range, each with its number",
    set: |_, _| Ok(()),
    get: Some(|config| {
        let layout = config.layout;
        format!(
            "server-id {} id-range {} shard-range {} random-range {}",
            config.server_id,
            layout.server_bits(),
            layout.shard_bits(),
            layout.random_bits()
        )
    }),
};

const ID_EPOCH: Value = Value::Words {
    count: (1, 1),
    expected: "one time",
    set: |builder, words| {
        builder.epoch = epoch(words.first().map_or("", String::as_str))?;
        Ok(())
    },
    get: Some(|config| config.layout.epoch().unix_ms().to_string()),
};

/// A number that its row's range has made fit.
fn fit<N, F: TryFrom<N>>(value: N) -> F {
    F::try_from(value).unwrap_or_else(|_| unreachable!("the row's range is wider than its field"))
}

fn number(word: &str, min: i64, max: i64, unit: &'static str) -> Result<i64, ValueError> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    if !is_digits(digits) {
        return Err(ValueError::Number { found: word.to_owned(), min, max, unit });
    }
    // Digits that don't parse are too many.
    match word.parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(ValueError::Range { found: word.to_owned(), min, max, unit }),
    }
}

/// A size as Redis writes it: k is 1000, kb is 1024.
pub(super) fn memory(word: &str, min: u64) -> Result<u64, ValueError> {
    let wrong = || ValueError::Memory { found: word.to_owned() };
    let unit_at = word.find(|character: char| !character.is_ascii_digit()).unwrap_or(word.len());
    let (digits, unit) = word.split_at(unit_at);
    let factor: u128 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return Err(wrong()),
    };
    if digits.is_empty() {
        return Err(wrong());
    }
    // Digits that don't parse are too many.
    let bytes = digits.parse::<u128>().unwrap_or(u128::MAX).saturating_mul(factor);
    match u64::try_from(bytes) {
        Ok(bytes) if (min..=MEMORY_MAX).contains(&bytes) => Ok(bytes),
        _ => Err(ValueError::MemoryRange { found: word.to_owned(), min }),
    }
}

fn choice(word: &str, words: &'static [&'static str]) -> Result<&'static str, ValueError> {
    let found = words.iter().find(|candidate| candidate.eq_ignore_ascii_case(word));
    found.copied().ok_or_else(|| ValueError::Word { found: word.to_owned(), words })
}

fn mode(word: &str) -> Result<Option<u32>, ValueError> {
    let digits = word.len() <= 4 && !word.is_empty() && word.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let mode = digits.then(|| u32::from_str_radix(word, 8).ok()).flatten().filter(|mode| *mode <= 0o777);
    let mode = mode.ok_or_else(|| ValueError::Mode { found: word.to_owned() })?;
    Ok((mode != 0).then_some(mode))
}

/// `127.0.0.1`, `-::1`, and for all addresses of a kind `*` and `::*`.
fn address(word: &str) -> Result<BindAddr, ValueError> {
    let (optional, text) = match word.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, word),
    };
    let ip = match text {
        "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        "::*" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => text.parse().map_err(|_| ValueError::Address { found: word.to_owned() })?,
    };
    Ok(BindAddr { ip, optional })
}

fn epoch(word: &str) -> Result<Epoch, ValueError> {
    let out_of_range = || ValueError::EpochRange { found: word.to_owned() };
    let unix_ms = timestamp::parse_unix_ms(word).map_err(|error| match error {
        TimeError::Range { .. } => out_of_range(),
        error => ValueError::Epoch(error),
    })?;
    u64::try_from(unix_ms).ok().and_then(Epoch::from_unix_ms).ok_or_else(out_of_range)
}

fn is_digits(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) const fn yes_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}
