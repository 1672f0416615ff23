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
//! Lines with the target `audit` say who did what; in text their message begins with `audit: `.
//!
//! What clients say may end up in a line (a client's name, a bad command), so control characters are escaped: one
//! event is always one line. What clients cause is bounded too ([`throttle`]).
//!
//! Invariant: logging never stops the server, and nobody who logs waits. Lines go into a queue with a bound; threads of
//! the log's own write them, open the file again, and may hang on a pipe that nobody reads or a disk that does not
//! answer. Lines that have no room, or can't be written, are lost; the log counts them and says how many. Spans are not
//! shown; every event carries the fields it needs.

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
use self::queue::Queue;
use self::recent::Recent;
use self::sink::{Sink, SinkLayer, SyslogOutput};
use self::syslog::Syslog;
use self::writer::{Target, Writer};
use crate::config::{LogFormat, LogLevel};

pub use self::error::LogError;
pub use self::format::AUDIT;
pub use self::recent::{LINES_MAX, RecentLine};
pub use self::syslog::{SYSLOG_SOCKET, SyslogOptions};

/// The log of this process. Cheap to clone.
#[derive(Clone)]
pub struct Log {
    filter: reload::Handle<LevelFilter, Registry>,
    sink: Arc<Sink>,
}

impl Log {
    /// Opens the log, starts its threads and makes it the process's own. Once per process.
    ///
    /// # Errors
    ///
    /// When the file can't be opened, a thread can't be started, or the process has a log already. A missing syslog is
    /// no error: it is said on standard error, and the log goes on without it.
    pub fn start(options: LogOptions) -> Result<Log, LogError> {
        let (subscriber, log) = Log::build(options)?;
        tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::Twice)?;
        Ok(log)
    }

    /// The subscriber by itself, for tests.
    fn build(options: LogOptions) -> Result<(impl Subscriber + Send + Sync, Log), LogError> {
        let target = match &options.file {
            None => Target::stdout()?,
            Some(path) => Target::open(path)?,
        };
        let pid = std::process::id();
        let colors = options.file.is_none() && options.format == LogFormat::Text && wants_colors();
        let format = LineFormat { format: options.format, colors, pid, now_unix_ms: options.now_unix_ms };
        let queue = Arc::new(Queue::default());
        let syslog = options.syslog.map(|options| SyslogOutput::new(options, pid));
        // From here on the sink closes its queues, and the threads end with them.
        let sink = Sink { format, queue: Arc::clone(&queue), syslog, recent: Recent::default() };
        let writer = Writer::new(target, format);
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

    /// Shows events from `level` on from now on.
    pub fn set_level(&self, level: LogLevel) {
        // Fails only when the subscriber is gone, and then nobody logs.
        let _ = self.filter.reload(filter(level));
    }

    /// Has the log file opened again under its path, after it was rotated (SIGHUP), behind the lines that wait. The log
    /// itself says how that went; where it fails, the log goes on into the file it has.
    pub fn reopen(&self) {
        self.sink.queue.reopen();
    }

    /// How many lines were dropped because nobody took those before them, or could not be written.
    pub fn dropped(&self) -> u64 {
        let syslog = self.sink.syslog.as_ref().map_or(0, |output| output.queue.dropped_ever());
        self.sink.queue.dropped_ever() + syslog
    }

    /// The newest lines of level `notice` and above, the oldest first. Lines that say who did what are not among them.
    pub fn recent(&self) -> Vec<RecentLine> {
        self.sink.recent.all()
    }

    /// Waits until everything is written, for this long at most; whether it is.
    pub fn flush(&self, timeout: Duration) -> bool {
        let written = self.sink.queue.flush(timeout);
        // Not twice: a daemon that hangs is as good as none.
        let timeout = if written { timeout } else { Duration::ZERO };
        written & self.sink.syslog.as_ref().is_none_or(|output| output.queue.flush(timeout))
    }

    /// Has panics written to the log, in one line each. The standard library would write them to standard error, and
    /// have the thread that panics wait for that; it may be one that serves.
    pub fn log_panics(&self) {
        std::panic::set_hook(Box::new(|panic| {
            let message = panic.payload_as_str().unwrap_or("no message");
            let place = panic.location().map_or_else(|| "?".to_owned(), ToString::to_string);
            let thread = std::thread::current().name().unwrap_or("?").to_owned();
            let backtrace = std::backtrace::Backtrace::capture();
            if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
                tracing::error!("a bug: the thread '{thread}' panicked at {place}: {message}: {backtrace}");
            } else {
                tracing::error!("a bug: the thread '{thread}' panicked at {place}: {message}");
            }
        }));
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

/// Whether standard output shows colors: a terminal, and nobody said no (<https://no-color.org>).
fn wants_colors() -> bool {
    let says = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    io::stdout().is_terminal() && says("NO_COLOR").is_none() && says("TERM").is_none_or(|term| term != "dumb")
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
                log.reopen();
                info!("three");
            },
            &[
                "2017-03-06T09:37:01.966Z PID notice  SIGHUP: the log is opened anew",
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
        assert!(text.contains("error   SIGHUP: the log stays as it was: can't open the log file"), "{text}");
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
    fn what_could_not_be_written_is_told_when_it_can_be_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let format = LineFormat { format: LogFormat::Text, colors: false, pid: 1, now_unix_ms: || 0 };
        let mut writer = Writer::new(Target::open(Path::new("/dev/full")).unwrap(), format);
        writer.write("one\n".to_owned());
        writer.write("two\n".to_owned());
        writer.target = Target::open(&path).unwrap();
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
    fn a_reader_that_stalls_holds_up_nobody_who_logs() {
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
            // Not that it could be.
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
    fn audit_lines_say_so() {
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
            assert!(report.ends_with("1 log lines did not get to syslog before this one"), "{report}");
            let len = daemon.recv(&mut bytes).unwrap();
            assert!(len <= SYSLOG_BYTES_MAX && std::str::from_utf8(&bytes[..len]).is_ok());
        });
    }
}
