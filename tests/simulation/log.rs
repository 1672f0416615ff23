//! Captured log lines.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

thread_local! {
    /// Lines of this thread; `None` while it does not capture.
    static LINES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Installs the subscriber for threads that [`capture`]. Call it before any logging: tests run side by side, and a
/// subscriber that is installed by one of them only would miss lines.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Listener)).expect("the first one");
    });
}

/// Captures this thread's log lines from here on.
pub(crate) fn capture() -> Log {
    install();
    LINES.with_borrow_mut(|lines| *lines = Some(Vec::new()));
    Log
}

pub(crate) struct Log;

impl Log {
    /// Returns the lines that contain `words`.
    #[allow(clippy::unused_self)]
    pub(crate) fn lines(&self, words: &str) -> Vec<String> {
        LINES.with_borrow(|lines| lines.iter().flatten().filter(|line| line.contains(words)).cloned().collect())
    }
}

struct Listener;

impl<S: Subscriber> Layer<S> for Listener {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // It depends on the thread, so each call must check it.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::INFO && LINES.with_borrow(Option::is_some)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut Message);
    }
}

struct Message;

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            LINES.with_borrow_mut(|lines| lines.get_or_insert_default().push(format!("{value:?}")));
        }
    }
}
