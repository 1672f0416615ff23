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
//! answer. What has no room, or can't be written, is lost, counted and told. Spans are not shown; every event carries
//! the fields it needs.

mod queue;
mod record;
mod syslog;
mod target;
pub mod throttle;

use std::io::{self, IsTerminal, Write as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use queue::Queue;
use record::Record;
use syslog::{Syslog, SyslogShape};
use target::{Target, Writer};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;

use crate::config::{LogFormat, LogLevel};
use crate::text::timestamp;

pub use syslog::{SYSLOG_SOCKET, SyslogOptions};

/// The target of lines that say who did what.
pub const AUDIT: &str = "audit";

/// How long [`say`] waits for standard error.
const SAY_PATIENCE: Duration = Duration::from_secs(1);

/// The log of this process: changes its level, opens its file again. Cheap to clone.
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
        let shape = Shape { format: options.format, colors, pid, now_unix_ms: options.now_unix_ms };
        let queue = Arc::new(Queue::default());
        let sink =
            Sink { shape, queue: Arc::clone(&queue), syslog: options.syslog.map(|to| SyslogOutput::new(to, pid)) };
        // From here on the sink closes its queues, and the threads end with them.
        let writer = Writer::new(target, shape);
        spawn("log", move || writer.run(&queue))?;
        if let Some(SyslogOutput { queue, shape: to }) = &sink.syslog {
            let (queue, syslog) = (Arc::clone(queue), Syslog::open(to.clone()));
            spawn("syslog", move || syslog.run(&queue, &shape))?;
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

    /// How many lines were dropped because nobody took those before them.
    pub fn dropped(&self) -> u64 {
        let syslog = self.sink.syslog.as_ref().map_or(0, |output| output.queue.dropped_ever());
        self.sink.queue.dropped_ever() + syslog
    }

    /// Waits until everything is written, for this long at most; whether it is.
    pub fn flush(&self, patience: Duration) -> bool {
        let written = self.sink.queue.flush(patience);
        // Not longer again: a daemon that hangs is as good as none.
        let patience = if written { patience } else { Duration::ZERO };
        written & self.sink.syslog.as_ref().is_none_or(|output| output.queue.flush(patience))
    }

    /// Has panics told by the log, in one line each: what the standard library writes to standard error, the thread
    /// that panics waits for, and it may be one that serves.
    pub fn tell_panics(&self) {
        std::panic::set_hook(Box::new(|panic| {
            let message = panic.payload_as_str().unwrap_or("no message");
            let place = panic.location().map_or_else(|| "?".to_owned(), ToString::to_string);
            let thread = thread::current().name().unwrap_or("?").to_owned();
            let backtrace = std::backtrace::Backtrace::capture();
            if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
                tracing::error!("a bug: the thread '{thread}' panicked at {place}: {message}: {backtrace}");
            } else {
                tracing::error!("a bug: the thread '{thread}' panicked at {place}: {message}");
            }
        }));
    }
}

/// Writes a line to standard error, and waits for that no longer than a second: it may be a pipe that nobody reads. For
/// a start and its end, not for threads that serve.
pub fn say(text: &str) {
    let line: Arc<str> = format!("{}\n", text.trim_end()).into();
    let (done, wait) = mpsc::channel();
    let told = Arc::clone(&line);
    let write = move || {
        // Nothing to fall back on when standard error is gone.
        let _ = io::stderr().write_all(told.as_bytes());
        let _ = done.send(());
    };
    if spawn("stderr", write).is_ok() {
        let _ = wait.recv_timeout(SAY_PATIENCE);
    } else {
        say_what_has_room(line.as_bytes());
    }
}

/// [`say`] where no thread can be made, which may be what is to be said. A pipe that says that it has room takes this
/// much without a wait.
fn say_what_has_room(line: &[u8]) {
    const ROOM: usize = nix::libc::PIPE_BUF;
    let stderr = io::stderr();
    let mut wait = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    let patience = PollTimeout::try_from(SAY_PATIENCE).unwrap_or(PollTimeout::ZERO);
    if poll(&mut wait, patience).is_ok_and(|ready| ready > 0) {
        let _ = stderr.lock().write_all(&line[..line.len().min(ROOM)]);
    }
}

fn spawn(name: &'static str, run: impl FnOnce() + Send + 'static) -> Result<(), LogError> {
    let thread = thread::Builder::new().name(format!("getid-{name}")).spawn(run);
    thread.map(drop).map_err(|error| LogError::Thread { error })
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
    /// The thread that writes it.
    #[error("can't start the thread that writes the log: {error}. Raise the limit of processes (ulimit -u, TasksMax=)")]
    Thread {
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

/// How an event becomes a line.
#[derive(Clone, Copy, Debug)]
struct Shape {
    format: LogFormat,
    colors: bool,
    pid: u32,
    now_unix_ms: fn() -> i64,
}

impl Shape {
    fn now(&self) -> String {
        timestamp::format_rfc3339((self.now_unix_ms)())
    }

    fn line(&self, time: &str, level: Level, target: &str, record: &Record) -> String {
        let mut line = match self.format {
            LogFormat::Text => record.text(time, self.pid, level, self.colors, target == AUDIT),
            LogFormat::Json => record.json(time, self.pid, level, target),
        };
        line.push('\n');
        line
    }

    /// A line of the log's own, about itself.
    fn line_of(&self, level: Level, message: String) -> String {
        self.line(&self.now(), level, module_path!(), &Record::of(message))
    }
}

/// Takes events in, on the threads that have them.
struct Sink {
    shape: Shape,
    queue: Arc<Queue>,
    syslog: Option<SyslogOutput>,
}

struct SyslogOutput {
    queue: Arc<Queue>,
    shape: SyslogShape,
}

impl SyslogOutput {
    fn new(options: SyslogOptions, pid: u32) -> SyslogOutput {
        SyslogOutput { queue: Arc::default(), shape: SyslogShape { options, pid } }
    }
}

impl Sink {
    fn write(&self, event: &Event<'_>) {
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        let time = self.shape.now();
        let mut record = Record::default();
        event.record(&mut record);
        if let Some(SyslogOutput { queue, shape }) = &self.syslog {
            queue.push(shape.line(level, &time, &record.message_and_fields(target == AUDIT)));
        }
        self.queue.push(self.shape.line(&time, level, target, &record));
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(output) = &self.syslog {
            output.queue.close();
        }
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

    const PATIENCE: Duration = Duration::from_secs(20);

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
        assert!(log.flush(PATIENCE));
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
        assert!(log.flush(PATIENCE));
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
        assert!(log.flush(PATIENCE));
    }

    #[test]
    fn what_could_not_be_written_is_told_when_it_can_be_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let shape = Shape { format: LogFormat::Text, colors: false, pid: 1, now_unix_ms: || 0 };
        let mut writer = Writer::new(Target::open(Path::new("/dev/full")).unwrap(), shape);
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
        let told = format!("{dropped} log lines were dropped here");
        let mut read = Vec::new();
        while !String::from_utf8_lossy(&read[read.len().saturating_sub(200_000)..]).contains(&told) {
            let mut bytes = vec![0; 65536];
            let count = io::Read::read(&mut reader, &mut bytes).unwrap();
            read.extend(&bytes[..count]);
        }
        assert!(log.flush(PATIENCE));
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
            assert!(log.flush(PATIENCE));
            let daemon = UnixDatagram::bind(&path).unwrap();
            info!("{}", "ü".repeat(7_000));
            let len = daemon.recv(&mut bytes).unwrap();
            let told = String::from_utf8_lossy(&bytes[..len]).into_owned();
            assert!(told.ends_with("1 log lines did not get to syslog before this one"), "{told}");
            let len = daemon.recv(&mut bytes).unwrap();
            assert!(len <= SYSLOG_BYTES_MAX && std::str::from_utf8(&bytes[..len]).is_ok());
        });
    }
}
