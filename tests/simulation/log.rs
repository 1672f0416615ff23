//! What was logged, line by line.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Takes this thread's log lines from here on.
pub(crate) fn capture() -> Log {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::registry().with(lines.clone());
    Log { lines, _guard: tracing::subscriber::set_default(subscriber) }
}

pub(crate) struct Log {
    lines: Lines,
    _guard: DefaultGuard,
}

impl Log {
    /// The lines that contain `words`.
    pub(crate) fn lines(&self, words: &str) -> Vec<String> {
        let lines = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter(|line| line.contains(words)).cloned().collect()
    }
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("getid") && *event.metadata().level() <= Level::INFO {
            event.record(&mut Message(self));
        }
    }
}

struct Message<'a>(&'a Lines);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0.0.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{value:?}"));
        }
    }
}
