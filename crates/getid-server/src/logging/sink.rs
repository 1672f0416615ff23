//! Receives events on the threads that log them, and puts their lines into the queues.

use std::sync::Arc;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::format::{AUDIT, LineFormat, LogRecord, level_name};
use super::queue::LogQueue;
use super::recent::{RecentLine, RecentLines};
use super::syslog::{SyslogFormat, SyslogOptions};

/// The sink as a layer of tracing.
pub(super) struct SinkLayer(pub(super) Arc<LogSink>);

impl<S: Subscriber> Layer<S> for SinkLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.write(event);
    }
}

/// The queues of lines. Dropping it ends the threads that read them.
pub(super) struct LogSink {
    pub(super) format: LineFormat,
    pub(super) queue: Arc<LogQueue>,
    pub(super) syslog: Option<SyslogOutput>,
    pub(super) recent: RecentLines,
}

/// The queue of lines for syslog.
pub(super) struct SyslogOutput {
    pub(super) queue: Arc<LogQueue>,
    pub(super) format: SyslogFormat,
}

impl SyslogOutput {
    pub(super) fn new(options: SyslogOptions, pid: u32) -> SyslogOutput {
        SyslogOutput { queue: Arc::default(), format: SyslogFormat { options, pid } }
    }
}

impl LogSink {
    fn write(&self, event: &Event<'_>) {
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        let unix_ms = (self.format.now_unix_ms)();
        let mut record = LogRecord::default();
        event.record(&mut record);
        if let Some(SyslogOutput { queue, format }) = &self.syslog {
            queue.push(format.line(level, unix_ms, &record.message_and_fields(target == AUDIT)));
        }
        if level <= Level::INFO && target != AUDIT {
            let text = record.message_and_fields(false);
            self.recent.push(RecentLine { unix_ms, level: level_name(level), text });
        }
        self.queue.push(self.format.line(unix_ms, level, target, &record));
    }
}

impl Drop for LogSink {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(output) = &self.syslog {
            output.queue.close();
        }
    }
}
