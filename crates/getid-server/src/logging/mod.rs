//! The log: one line an event, as text or JSON, to standard output or a file, and optionally to syslog too.
//!
//! Levels have Redis's names, as `loglevel` in redis.conf has:
//!
//! | `loglevel` | logs events of tracing's | written as | syslog severity |
//! |---|---|---|---|
//! | `debug` | TRACE and below | `debug` | debug |
//! | `verbose` | DEBUG and below | `verbose` | info |
//! | `notice` | INFO and below | `notice` | notice |
//! | `warning` | WARN, ERROR | `warning`, `error` | warning, err |
//! | `nothing` | none | | |
//!
//! A line of text has the time (RFC 3339 in UTC, as for decoded IDs), process id, level, message and fields:
//!
//! ```text
//! 2026-11-21T02:36:16.123Z 4711 notice  ready to accept connections port=7890
//! ```
//!
//! Lines with the target `audit` record who did what; in text their message begins with `audit: `.
//!
//! A client's text may become part of a line (a client's name, a bad command), so control characters are escaped: one
//! event is always one line. The lines that clients cause are bounded too ([`throttle`]).
//!
//! Invariant: logging never stops the server or makes a thread wait. Lines go into a bounded queue. The log's own
//! threads write them and reopen the file; only they may block on a pipe without a reader or a disk that hangs. Lines
//! without room, or that cannot be written, are lost, counted and reported. Spans are not logged: every event carries
//! the fields it needs.

mod error;
mod format;
mod queue;
mod recent;
mod sink;
pub mod stderr;
mod syslog;
mod thread;
pub mod throttle;
mod writer;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;

use self::format::LineFormat;
use self::queue::LogQueue;
use self::recent::RecentLines;
use self::sink::{LogSink, SinkLayer, SyslogOutput};
use self::syslog::Syslog;
use self::writer::{LogTarget, LogWriter};
use getid_config::{LogFormat, LogLevel};

pub use self::error::LogError;
pub use self::format::AUDIT;
pub use self::recent::{LINES_MAX, RecentLine};
pub use self::syslog::{SYSLOG_SOCKET, SyslogOptions};

/// The log of this process. Cheap to clone.
#[derive(Clone)]
pub struct Log {
    filter: reload::Handle<LevelFilter, Registry>,
    sink: Arc<LogSink>,
}

impl Log {
    /// Opens the log, starts its threads and installs it for the process. Once per process.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened, a thread cannot be started, or the process already has a log. A missing
    /// syslog is not an error: it is reported on standard error, and the log works without it.
    pub fn start(options: LogOptions) -> Result<Log, LogError> {
        let (subscriber, log) = Log::build(options)?;
        tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::AlreadyStarted)?;
        Ok(log)
    }

    /// Returns the subscriber without installing it, for tests.
    fn build(options: LogOptions) -> Result<(impl Subscriber + Send + Sync, Log), LogError> {
        let target = match &options.file {
            None => LogTarget::stdout()?,
            Some(path) => LogTarget::open(path)?,
        };
        let pid = std::process::id();
        let colors = options.file.is_none() && options.format == LogFormat::Text && has_colors();
        let format = LineFormat { format: options.format, colors, pid, now_unix_ms: options.now_unix_ms };
        let queue = Arc::new(LogQueue::default());
        let syslog = options.syslog.map(|options| SyslogOutput::new(options, pid));
        // From here on, dropping the sink closes its queues and so ends the threads.
        let sink = LogSink { format, queue: Arc::clone(&queue), syslog, recent: RecentLines::default() };
        let writer = LogWriter::new(target, format);
        thread::spawn("log", move || writer.run(&queue))?;
        if let Some(SyslogOutput { queue, format }) = &sink.syslog {
            let (queue, syslog) = (Arc::clone(queue), Syslog::open(format.clone()));
            thread::spawn("syslog", move || syslog.run(&queue, options.now_unix_ms))?;
        }
        let sink = Arc::new(sink);
        let (filter, handle) = reload::Layer::new(filter(options.level));
        let subscriber = Registry::default().with(filter).with(SinkLayer(Arc::clone(&sink)));
        Ok((subscriber, Log { filter: handle, sink }))
    }

    /// Sets the least severe level that is logged from now on.
    pub(crate) fn set_level(&self, level: LogLevel) {
        // Fails only if the subscriber is gone, and then no event is logged.
        let _ = self.filter.reload(filter(level));
    }

    /// Reopens the log file under its path after it was rotated (SIGHUP), after the queued lines. The log reports the
    /// result. If it fails, the log keeps the file that it has.
    pub fn reopen(&self) {
        self.sink.queue.reopen();
    }

    /// Returns the number of lines that were dropped for lack of room or could not be written.
    pub fn dropped(&self) -> u64 {
        let syslog = self.sink.syslog.as_ref().map_or(0, |output| output.queue.dropped_total());
        self.sink.queue.dropped_total() + syslog
    }

    /// Returns the newest lines of level `notice` and above, the oldest first, without audit lines.
    pub fn recent(&self) -> Vec<RecentLine> {
        self.sink.recent.all()
    }

    /// Waits up to `timeout` until all lines are written; returns whether they are.
    pub fn flush(&self, timeout: Duration) -> bool {
        let written = self.sink.queue.flush(timeout);
        // The time is not spent twice: a daemon that hangs counts as missing.
        let timeout = if written { timeout } else { Duration::ZERO };
        written & self.sink.syslog.as_ref().is_none_or(|output| output.queue.flush(timeout))
    }

    /// Logs panics, in one line each. The standard library would write them to standard error and make the panicking
    /// thread wait, which may serve connections.
    pub fn log_panics(&self) {
        std::panic::set_hook(Box::new(|panic| {
            let message = panic.payload_as_str().unwrap_or("no message");
            let location = panic.location().map_or_else(|| "?".to_owned(), ToString::to_string);
            let thread = std::thread::current().name().unwrap_or("?").to_owned();
            let backtrace = std::backtrace::Backtrace::capture();
            if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
                tracing::error!("the thread '{thread}' panicked at {location}: {message}: {backtrace}");
            } else {
                tracing::error!("the thread '{thread}' panicked at {location}: {message}");
            }
        }));
    }
}

/// Settings of the log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The least severe events that are logged (`loglevel`).
    pub level: LogLevel,
    /// Path of the log file; `None`: standard output (`logfile`).
    pub file: Option<PathBuf>,
    /// Format of the lines (`log-format`).
    pub format: LogFormat,
    /// Settings of syslog, if lines go there too (`syslog-enabled`).
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

/// Whether standard output shows colors: it is a terminal, and the environment does not forbid them
/// (<https://no-color.org>).
fn has_colors() -> bool {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    io::stdout().is_terminal() && variable("NO_COLOR").is_none() && variable("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::net::UnixDatagram;
    use std::path::Path;

    use super::syslog::SYSLOG_BYTES_MAX;
    use tracing::{debug, error, info, trace, warn};

    const TIMEOUT: Duration = Duration::from_secs(20);

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
        assert!(log.flush(TIMEOUT));
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
            |_| info!(target: "getid::x", port = 7890, time = 3, id = 1_u64 << 62, far = f64::INFINITY, "a \"quoted\"\n"),
            &[concat!(
                r#"{"time":"2017-03-06T09:37:01.966Z","level":"notice","pid":PID,"target":"getid::x","#,
                r#""message":"a \"quoted\"\n","port":7890,"field_time":3,"id":"4611686018427387904","far":"inf"}"#
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
                log.reopen();
                info!("three");
            },
            &[
                "2017-03-06T09:37:01.966Z PID notice  SIGHUP: the log is reopened",
                "2017-03-06T09:37:01.966Z PID notice  three",
            ],
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
            log.reopen();
            info!("still here");
        });
        assert!(log.flush(TIMEOUT));
        let text = fs::read_to_string(moved.join("log")).unwrap();
        assert!(text.contains("error   SIGHUP: the log is not reopened: can't open the log file"), "{text}");
        assert!(text.contains("still here"));
    }

    #[test]
    fn a_full_disk_loses_lines_and_nothing_else() {
        // Every write to /dev/full fails with ENOSPC.
        let (subscriber, log) = Log::build(options(Path::new("/dev/full"))).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            info!("lost");
            info!("lost too");
        });
        assert!(log.flush(TIMEOUT));
        assert_eq!(log.dropped(), 2, "counted before there is space again");
    }

    #[test]
    fn lines_that_could_not_be_written_are_reported_by_the_next_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let format = LineFormat { format: LogFormat::Text, colors: false, pid: 1, now_unix_ms: || 0 };
        let mut writer = LogWriter::new(LogTarget::open(Path::new("/dev/full")).unwrap(), format);
        writer.write("one\n".to_owned());
        writer.write("two\n".to_owned());
        writer.target = LogTarget::open(&path).unwrap();
        writer.write("three\n".to_owned());
        let text = fs::read_to_string(path).unwrap();
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "",
                "1970-01-01T00:00:00.000Z 1 warning 2 log lines before this one could not be written: No space left on \
                 device (os error 28)",
                "three"
            ]
        );
    }

    #[test]
    fn a_stalled_reader_blocks_no_logging_thread() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // A pipe has room for 64 KiB.
        let mut reader = fs::File::options().read(true).write(true).open(&path).unwrap();
        let (subscriber, log) = Log::build(options(&path)).unwrap();
        let text = "x".repeat(1000);
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..2 * queue::LINES_MAX {
                info!("{text}");
            }
            // The writer is blocked, so the file cannot be reopened yet.
            log.reopen();
            assert!(!log.flush(Duration::from_millis(10)));
        });
        let dropped = log.dropped();
        assert!(dropped > queue::LINES_MAX as u64 / 2);
        let report = format!("{dropped} log lines were dropped here");
        let mut read = Vec::new();
        while !String::from_utf8_lossy(&read[read.len().saturating_sub(200_000)..]).contains(&report) {
            let mut bytes = vec![0; 65536];
            let count = io::Read::read(&mut reader, &mut bytes).unwrap();
            read.extend(&bytes[..count]);
        }
        assert!(log.flush(TIMEOUT));
    }

    #[test]
    fn audit_lines_are_marked() {
        let dir = tempfile::tempdir().unwrap();
        check(
            options(&dir.path().join("log")),
            |_| info!(target: AUDIT, user = "a b", client = 3, "logged in"),
            &[r#"2017-03-06T09:37:01.966Z PID notice  audit: logged in user="a b" client=3"#],
        );
        let mut options = options(&dir.path().join("json"));
        options.format = LogFormat::Json;
        check(
            options,
            |_| info!(target: AUDIT, user = "a b", client = 3, "logged in"),
            &[concat!(
                r#"{"time":"2017-03-06T09:37:01.966Z","level":"notice","pid":PID,"target":"audit","#,
                r#""message":"logged in","user":"a b","client":3}"#
            )],
        );
    }

    #[test]
    fn syslog_gets_datagrams_and_may_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dev-log");
        let daemon = UnixDatagram::bind(&path).unwrap();
        let mut options = options(&dir.path().join("log"));
        options.syslog = Some(SyslogOptions { ident: "getid-1".to_owned(), facility: 16, socket: path.clone() });
        let (subscriber, log) = Log::build(options).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            let mut bytes = [0; 16 * 1024];
            warn!(n = 1, "first");
            let len = daemon.recv(&mut bytes).unwrap();
            let text = format!("<132>Mar  6 09:37:01 getid-1[{}]: first n=1", std::process::id());
            assert_eq!(String::from_utf8_lossy(&bytes[..len]), text);

            drop(daemon);
            fs::remove_file(&path).unwrap();
            info!("lost");
            assert!(log.flush(TIMEOUT));
            let daemon = UnixDatagram::bind(&path).unwrap();
            info!("{}", "ü".repeat(7_000));
            let len = daemon.recv(&mut bytes).unwrap();
            let report = String::from_utf8_lossy(&bytes[..len]).into_owned();
            assert!(report.ends_with("1 log lines did not reach syslog before this one"), "{report}");
            let len = daemon.recv(&mut bytes).unwrap();
            assert!(len <= SYSLOG_BYTES_MAX && std::str::from_utf8(&bytes[..len]).is_ok());
        });
    }
}
