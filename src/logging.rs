//! The log: one line an event, as text or JSON, to standard output or a file, and to syslog beside it.
//!
//! Levels carry Redis's names, because `loglevel` in redis.conf does:
//!
//! | `loglevel` | shows events of tracing's | written as | syslog severity |
//! |---|---|---|---|
//! | `debug` | TRACE and below | `debug` | debug |
//! | `verbose` | DEBUG and below | `verbose` | info |
//! | `notice` | INFO and below | `notice` | notice |
//! | `warning` | WARN, ERROR | `warning`, `error` | warning, err |
//! | `nothing` | none | | |
//!
//! A line of text is time (RFC 3339 in UTC, as IDs are decoded), process id, level, message, fields:
//!
//! ```text
//! 2026-11-21T02:36:16.123Z 4711 notice  ready to accept connections port=7890
//! ```
//!
//! What clients say may end up in a line (a client's name, a bad command), so control characters are escaped: one
//! event is always one line.
//!
//! Invariant: logging never stops the server. An error in writing (a full disk, a closed pipe, syslog gone) loses the
//! line and nothing else. Spans are not shown; every event carries the fields it needs.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;

use crate::config::{LogFormat, LogLevel};
use crate::timestamp;

/// Where syslog listens.
pub const SYSLOG_SOCKET: &str = "/dev/log";

/// Bytes of one syslog datagram. RFC 3164 asks for 1,024; today's daemons take 8 KiB, and a longer line is cut.
const SYSLOG_BYTES_MAX: usize = 8192;

/// The log of this process: changes its level, opens its file again. Cheap to clone.
#[derive(Clone)]
pub struct Log {
    filter: reload::Handle<LevelFilter, Registry>,
    sink: Arc<Sink>,
}

impl Log {
    /// Opens the log and makes it the process's own. Once per process.
    ///
    /// # Errors
    ///
    /// When the file can't be opened, or the process has a log already. A missing syslog is no error: it is said on
    /// standard error, and the log goes on without it.
    pub fn start(options: LogOptions) -> Result<Log, LogError> {
        let (subscriber, log) = Log::build(options)?;
        tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::Twice)?;
        Ok(log)
    }

    /// The subscriber by itself, for tests.
    fn build(options: LogOptions) -> Result<(impl Subscriber + Send + Sync, Log), LogError> {
        let pid = std::process::id();
        let target = match &options.file {
            None => Target::Stdout,
            Some(path) => {
                // Opened again after a rename, and maybe after a change of folder.
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                let file = open_append(&path).map_err(|error| LogError::Open { path: path.clone(), error })?;
                Target::File { path, file }
            }
        };
        let syslog = options.syslog.map(|syslog| Syslog::open(syslog, pid));
        let colors = options.file.is_none() && options.format == LogFormat::Text && wants_colors();
        let sink = Arc::new(Sink {
            format: options.format,
            colors,
            pid,
            now_unix_ms: options.now_unix_ms,
            output: Mutex::new(Output { target, torn: false, syslog }),
        });
        let (filter, handle) = reload::Layer::new(filter(options.level));
        let subscriber = Registry::default().with(filter).with(SinkLayer(Arc::clone(&sink)));
        Ok((subscriber, Log { filter: handle, sink }))
    }

    /// Shows events from `level` on from now on.
    pub fn set_level(&self, level: LogLevel) {
        // Fails only when the subscriber is gone, and then nobody logs.
        let _ = self.filter.reload(filter(level));
    }

    /// Opens the log file again under its path, after it was rotated (SIGHUP). Without a file nothing happens.
    ///
    /// # Errors
    ///
    /// When the file can't be opened; the log then goes on into the file it has.
    pub fn reopen(&self) -> Result<(), LogError> {
        let path = match &self.sink.lock().target {
            Target::File { path, .. } => path.clone(),
            Target::Stdout => return Ok(()),
        };
        // Not under the lock, which whoever logs takes: the disk may take its time.
        let reopened = open_append(&path).map_err(|error| LogError::Open { path, error })?;
        let mut output = self.sink.lock();
        if let Target::File { file, .. } = &mut output.target {
            *file = reopened;
            output.torn = false;
        }
        Ok(())
    }
}

/// What the log is to be.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The least severe events shown (`loglevel`).
    pub level: LogLevel,
    /// Where to; `None`: standard output (`logfile`).
    pub file: Option<PathBuf>,
    /// How (`log-format`).
    pub format: LogFormat,
    /// Beside that, to syslog (`syslog-enabled`).
    pub syslog: Option<SyslogOptions>,
    /// Reads the wall clock, Unix ms.
    pub now_unix_ms: fn() -> i64,
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Debug => LevelFilter::TRACE,
        LogLevel::Verbose => LevelFilter::DEBUG,
        LogLevel::Notice => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Nothing => LevelFilter::OFF,
    }
}

/// Who the log is in syslog.
#[derive(Clone, Debug)]
pub struct SyslogOptions {
    /// The name (`syslog-ident`).
    pub ident: String,
    /// The facility's number: user is 1, local0 to local7 are 16 to 23 (`syslog-facility`).
    pub facility: u8,
    /// The socket, usually [`SYSLOG_SOCKET`].
    pub socket: PathBuf,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file can't be opened.
    #[error("can't open the log file {}: {error}", path.display())]
    Open {
        /// Its path, absolute.
        path: PathBuf,
        /// The OS error.
        error: io::Error,
    },
    /// Somebody set up logging before.
    #[error("the process has a log already")]
    Twice,
}

struct SinkLayer(Arc<Sink>);

impl<S: Subscriber> Layer<S> for SinkLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.write(event);
    }
}

struct Sink {
    format: LogFormat,
    colors: bool,
    pid: u32,
    now_unix_ms: fn() -> i64,
    output: Mutex<Output>,
}

struct Output {
    target: Target,
    /// The last line was not written to its end, so the next one starts with a line break.
    torn: bool,
    syslog: Option<Syslog>,
}

enum Target {
    Stdout,
    File { path: PathBuf, file: File },
}

impl Sink {
    fn write(&self, event: &Event<'_>) {
        let level = *event.metadata().level();
        let time = timestamp::format_rfc3339((self.now_unix_ms)());
        let mut record = Record::default();
        event.record(&mut record);
        let mut line = match self.format {
            LogFormat::Text => record.text(&time, self.pid, level, self.colors),
            LogFormat::Json => record.json(&time, self.pid, level, event.metadata().target()),
        };
        line.push('\n');

        let mut output = self.lock();
        if let Some(syslog) = &mut output.syslog {
            syslog.send(level, &time, &record.message_and_fields());
        }
        if output.torn {
            line.insert(0, '\n');
        }
        let written = match &mut output.target {
            Target::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush())
            }
            Target::File { file, .. } => file.write_all(line.as_bytes()),
        };
        output.torn = written.is_err();
    }

    fn lock(&self) -> MutexGuard<'_, Output> {
        // A panic elsewhere leaves at worst half a line.
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Whether standard output shows colors: a terminal, and nobody said no (<https://no-color.org>).
fn wants_colors() -> bool {
    let says = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    io::stdout().is_terminal() && says("NO_COLOR").is_none() && says("TERM").is_none_or(|term| term != "dumb")
}

/// An event's message and fields, in their order.
#[derive(Default)]
struct Record {
    message: String,
    fields: Vec<(&'static str, Value)>,
}

enum Value {
    /// Text as it is, or what `Debug` and `Display` make of a thing.
    Text(String),
    /// A number, or true or false: needs no quotes anywhere.
    Plain(String),
    /// An integer that a double can't hold: in JSON it becomes a string, or JavaScript would round it.
    Large(String),
}

impl Record {
    fn text(&self, time: &str, pid: u32, level: tracing::Level, colors: bool) -> String {
        let name = level_name(level);
        let body = self.message_and_fields();
        if !colors {
            return format!("{time} {pid} {name:<7} {body}");
        }
        let color = match level {
            tracing::Level::ERROR => "\x1b[1;31m",
            tracing::Level::WARN => "\x1b[33m",
            tracing::Level::INFO => "\x1b[32m",
            _ => "\x1b[2m",
        };
        format!("\x1b[2m{time} {pid}\x1b[0m {color}{name:<7}\x1b[0m {body}")
    }

    fn message_and_fields(&self) -> String {
        let mut line = escaped(&self.message);
        for (name, value) in &self.fields {
            let _ = match value {
                Value::Plain(text) | Value::Large(text) => write!(line, " {name}={text}"),
                Value::Text(text) => write!(line, " {name}={}", quoted(text)),
            };
        }
        line
    }

    fn json(&self, time: &str, pid: u32, level: tracing::Level, target: &str) -> String {
        let mut line = format!(r#"{{"time":"{time}","level":"{}","pid":{pid}"#, level_name(level));
        let _ = write!(line, r#","target":{},"message":{}"#, json_string(target), json_string(&self.message));
        for (name, value) in &self.fields {
            // A field named as one of ours must not hide it.
            let ours = matches!(*name, "time" | "level" | "pid" | "target" | "message");
            let _ = write!(line, ",{}:", json_string(&format!("{}{name}", if ours { "field_" } else { "" })));
            match value {
                Value::Plain(text) => line.push_str(text),
                Value::Text(text) | Value::Large(text) => line.push_str(&json_string(text)),
            }
        }
        line.push('}');
        line
    }

    fn integer(&mut self, field: &Field, magnitude: u128, text: String) {
        let value = if magnitude <= 1 << 53 { Value::Plain(text) } else { Value::Large(text) };
        self.fields.push((field.name(), value));
    }
}

impl Visit for Record {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.fields.push((field.name(), Value::Text(value.to_owned())));
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.record_str(field, &value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.push((field.name(), Value::Plain(value.to_string())));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.integer(field, value.into(), value.to_string());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.integer(field, value.unsigned_abs().into(), value.to_string());
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.integer(field, value, value.to_string());
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.integer(field, value.unsigned_abs(), value.to_string());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no infinities.
        let text = value.to_string();
        self.fields.push((field.name(), if value.is_finite() { Value::Plain(text) } else { Value::Text(text) }));
    }
}

fn level_name(level: tracing::Level) -> &'static str {
    match level {
        tracing::Level::ERROR => "error",
        tracing::Level::WARN => "warning",
        tracing::Level::INFO => "notice",
        tracing::Level::DEBUG => "verbose",
        tracing::Level::TRACE => "debug",
    }
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// `text` without control characters, so that it is one line and no terminal command.
fn escaped(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    text.chars().fold(String::new(), |mut out, char| {
        if char.is_control() {
            out.extend(char.escape_default());
        } else {
            out.push(char);
        }
        out
    })
}

/// `text` as one word: in quotes when it would not read as one.
fn quoted(text: &str) -> String {
    // What `Debug` wrote is in quotes already.
    let in_quotes = text.len() > 1 && text.starts_with('"') && text.ends_with('"');
    let one_word = !text.is_empty() && !text.contains([' ', '"', '=']);
    if in_quotes || one_word { escaped(text) } else { format!("\"{}\"", escaped(&text.replace('"', "\\\""))) }
}

/// Datagrams to the local syslog daemon, as RFC 3164 has them. What can't be sent is lost.
struct Syslog {
    options: SyslogOptions,
    pid: u32,
    socket: Option<UnixDatagram>,
}

impl Syslog {
    fn open(options: SyslogOptions, pid: u32) -> Syslog {
        let mut syslog = Syslog { options, pid, socket: None };
        if let Err(error) = syslog.connect() {
            let path = syslog.options.socket.display();
            let _ = writeln!(io::stderr(), "getid: syslog is not there, nothing goes to it: {path}: {error}");
        }
        syslog
    }

    fn connect(&mut self) -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        // A daemon that does not read must not hold up the server.
        socket.set_nonblocking(true)?;
        socket.connect(&self.options.socket)?;
        self.socket = Some(socket);
        Ok(())
    }

    fn send(&mut self, level: tracing::Level, time: &str, body: &str) {
        let line = self.line(level, time, body);
        for _ in 0..2 {
            match self.socket.as_ref().map(|socket| socket.send(line.as_bytes())) {
                Some(Ok(_)) => return,
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The daemon was started again, or comes up after us.
                Some(Err(_)) | None => {
                    self.socket = None;
                    if self.connect().is_err() {
                        return;
                    }
                }
            }
        }
    }

    fn line(&self, level: tracing::Level, time: &str, body: &str) -> String {
        let severity = match level {
            tracing::Level::ERROR => 3,
            tracing::Level::WARN => 4,
            tracing::Level::INFO => 5,
            tracing::Level::DEBUG => 6,
            tracing::Level::TRACE => 7,
        };
        let SyslogOptions { ident, facility, .. } = &self.options;
        let priority = u16::from(*facility) * 8 + severity;
        let stamp = syslog_stamp(time).unwrap_or_default();
        let mut line = format!("<{priority}>{stamp}{ident}[{}]: {body}", self.pid);
        let mut end = line.len().min(SYSLOG_BYTES_MAX);
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        line
    }
}

/// `Nov 21 02:36:16 ` from `2026-11-21T02:36:16.123Z`. UTC; journald and rsyslog put their own local time to it.
fn syslog_stamp(rfc3339: &str) -> Option<String> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month: usize = rfc3339.get(5..7)?.parse().ok()?;
    let day: u8 = rfc3339.get(8..10)?.parse().ok()?;
    Some(format!("{} {day:>2} {} ", MONTHS.get(month.checked_sub(1)?)?, rfc3339.get(11..19)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tracing::{debug, error, info, trace, warn};

    fn options(file: &Path) -> LogOptions {
        LogOptions {
            level: LogLevel::Notice,
            file: Some(file.to_owned()),
            format: LogFormat::Text,
            syslog: None,
            now_unix_ms: || 1_488_793_021_966,
        }
    }

    #[track_caller]
    fn check(options: LogOptions, events: impl FnOnce(&Log), expected: &[&str]) {
        let path = options.file.clone().unwrap();
        let (subscriber, log) = Log::build(options).unwrap();
        tracing::subscriber::with_default(subscriber, || events(&log));
        let pid = std::process::id();
        let text = fs::read_to_string(path).unwrap();
        let text = text.replace(&format!(" {pid} "), " PID ").replace(&format!(r#""pid":{pid},"#), r#""pid":PID,"#);
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn text_is_time_level_message_and_fields() {
        let dir = tempfile::tempdir().unwrap();
        check(
            options(&dir.path().join("log")),
            |_| {
                info!(port = 7890, addr = "::1", "ready");
                warn!(client = "a b\nc", name = ?"x y", id = u64::MAX, "line\u{1b}[2J");
                error!(ok = true, share = 0.5, empty = "", "bad");
                debug!("not shown");
            },
            &[
                "2017-03-06T09:37:01.966Z PID notice  ready port=7890 addr=::1",
                r#"2017-03-06T09:37:01.966Z PID warning line\u{1b}[2J client="a b\nc" name="x y" id=18446744073709551615"#,
                r#"2017-03-06T09:37:01.966Z PID error   bad ok=true share=0.5 empty="""#,
            ],
        );
    }

    #[test]
    fn json_is_one_object_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(&dir.path().join("log"));
        options.format = LogFormat::Json;
        check(
            options,
            |_| info!(target: "getid::x", port = 7890, time = 3, id = 1_u64 << 62, far = f64::INFINITY, "say \"hi\"\n"),
            &[concat!(
                r#"{"time":"2017-03-06T09:37:01.966Z","level":"notice","pid":PID,"target":"getid::x","#,
                r#""message":"say \"hi\"\n","port":7890,"field_time":3,"id":"4611686018427387904","far":"inf"}"#
            )],
        );
    }

    #[test]
    fn the_level_changes_at_run_time() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(&dir.path().join("log"));
        options.level = LogLevel::Warning;
        let shown = |log: &Log, level: LogLevel| {
            log.set_level(level);
            trace!("t");
            debug!("d");
            info!("i");
            warn!("w");
            error!("e");
        };
        check(
            options,
            |log| {
                info!("no");
                for level in
                    [LogLevel::Debug, LogLevel::Verbose, LogLevel::Notice, LogLevel::Warning, LogLevel::Nothing]
                {
                    shown(log, level);
                }
            },
            &[
                "2017-03-06T09:37:01.966Z PID debug   t",
                "2017-03-06T09:37:01.966Z PID verbose d",
                "2017-03-06T09:37:01.966Z PID notice  i",
                "2017-03-06T09:37:01.966Z PID warning w",
                "2017-03-06T09:37:01.966Z PID error   e",
                "2017-03-06T09:37:01.966Z PID verbose d",
                "2017-03-06T09:37:01.966Z PID notice  i",
                "2017-03-06T09:37:01.966Z PID warning w",
                "2017-03-06T09:37:01.966Z PID error   e",
                "2017-03-06T09:37:01.966Z PID notice  i",
                "2017-03-06T09:37:01.966Z PID warning w",
                "2017-03-06T09:37:01.966Z PID error   e",
                "2017-03-06T09:37:01.966Z PID warning w",
                "2017-03-06T09:37:01.966Z PID error   e",
            ],
        );
    }

    #[test]
    fn a_rotated_file_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let old = dir.path().join("log.1");
        fs::write(&path, "kept\n").unwrap();
        check(
            options(&path),
            |log| {
                info!("one");
                fs::rename(&path, &old).unwrap();
                info!("two");
                log.reopen().unwrap();
                info!("three");
            },
            &["2017-03-06T09:37:01.966Z PID notice  three"],
        );
        assert_eq!(fs::read_to_string(old).unwrap().lines().count(), 3);
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named_and_a_failed_reopen_keeps_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("no").join("log");
        let error = Log::build(options(&missing)).err().unwrap().to_string();
        assert!(error.contains("no/log") && error.contains("No such file"), "{error}");

        fs::create_dir(missing.parent().unwrap()).unwrap();
        let (subscriber, log) = Log::build(options(&missing)).unwrap();
        let moved = dir.path().join("moved");
        fs::rename(missing.parent().unwrap(), &moved).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            assert!(log.reopen().is_err());
            info!("still here");
        });
        assert!(fs::read_to_string(moved.join("log")).unwrap().contains("still here"));
    }

    #[test]
    fn a_full_disk_loses_lines_and_nothing_else() {
        // Every write to /dev/full fails with ENOSPC.
        let (subscriber, log) = Log::build(options(Path::new("/dev/full"))).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            info!("lost");
            info!("lost too");
        });
        assert!(log.sink.lock().torn);
    }

    #[test]
    fn syslog_gets_datagrams_and_may_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dev-log");
        let daemon = UnixDatagram::bind(&path).unwrap();
        let mut options = options(&dir.path().join("log"));
        options.syslog = Some(SyslogOptions { ident: "getid-1".to_owned(), facility: 16, socket: path.clone() });
        let (subscriber, _log) = Log::build(options).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            let mut bytes = [0; 16 * 1024];
            warn!(n = 1, "first");
            let len = daemon.recv(&mut bytes).unwrap();
            let text = format!("<132>Mar  6 09:37:01 getid-1[{}]: first n=1", std::process::id());
            assert_eq!(String::from_utf8_lossy(&bytes[..len]), text);

            drop(daemon);
            fs::remove_file(&path).unwrap();
            info!("lost");
            let daemon = UnixDatagram::bind(&path).unwrap();
            info!("{}", "ü".repeat(10_000));
            let len = daemon.recv(&mut bytes).unwrap();
            assert!(len <= SYSLOG_BYTES_MAX && std::str::from_utf8(&bytes[..len]).is_ok());
        });
    }
}
