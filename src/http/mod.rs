//! The HTTP port: probes, metrics, a page and a JSON API, for people and programs that have no Redis client.
//!
//! It runs on a thread of its own, so that neither a slow nor a greedy HTTP client is felt on the Redis port. A request
//! that means a command becomes that command, and is run by a client of the server's like any other
//! ([`LocalClient`](crate::server::connection::LocalClient)): one function decides for both ports who may do what, and
//! one place counts, limits, logs and shows it.
//!
//! - `accept` takes connections in; `places` bounds them and their time. Each has a `gate`, through which one request
//!   at a time comes whose [`head`] and [`framing`] are beyond doubt, and a `caller`, which knows who asks.
//! - `answer` is the way of one request; `outgoing` its response's.
//! - `held` counts what a connection's buffers take of the memory of all clients.
//! - `guard` refuses what a page elsewhere, or somebody in between, may have sent.
//! - `endpoint` is the table of endpoints, whose rows stand beside their handlers. `router` and `openapi` are made from
//!   it, and requests are read by it: `query`, `body`, `schema`.
//! - `leaf` and `tinyid` have the paths of other servers, whose answers are as Spring writes them (`spring`).
//! - `page` is what people see; `problem` is every answer that is no success: RFC 9457.
//!
//! Invariant: nothing of a request is in a page, a header or the log unescaped.

mod accept;
mod answer;
mod ask;
mod body;
mod caller;
mod coding;
pub mod credentials;
mod decode;
mod endpoint;
pub mod framing;
mod gate;
mod generators;
mod guard;
pub mod head;
mod held;
mod id_list;
mod ids;
mod leaf;
mod metrics;
mod openapi;
mod outgoing;
mod page;
mod places;
mod probes;
mod problem;
mod query;
mod remedy;
mod reply;
mod request;
mod router;
mod schema;
mod sequences;
mod spring;
mod tinyid;
mod workers;

use std::borrow::Cow;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::server::Server;
use crate::system::{io_threads, threads};

/// The text of a query, decoded as it is for every request; `None` for what is refused. For fuzzers.
pub fn decoded(text: &str) -> Option<Cow<'_, str>> {
    query::decoded(text).ok()
}

/// Times and sizes of the HTTP port that no directive sets. Tests have smaller ones.
#[derive(Clone, Copy, Debug)]
pub struct PortBounds {
    /// Time for the head of a request, from its first byte on.
    pub head: Duration,
    /// Time for the body of a request, from the end of its head on.
    pub body: Duration,
    /// Time for the answer to begin, from the end of the body on. A request that waits for IDs is answered long before;
    /// this ends one that `CLIENT PAUSE` holds.
    pub answer: Duration,
    /// How long a client may take nothing, or send nothing, while other clients need the memory that it keeps.
    pub stuck: Duration,
    /// Interval at which connections that are late are ended.
    pub sweep: Duration,
    /// Interval at which the page's history gets a point, and its viewers get an event.
    pub step: Duration,
    /// Memory that large responses may take together, KiB.
    pub large_kib: usize,
}

impl Default for PortBounds {
    fn default() -> PortBounds {
        PortBounds {
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            answer: Duration::from_mins(1),
            stuck: Duration::from_secs(1),
            sweep: Duration::from_secs(1),
            step: Duration::from_secs(1),
            large_kib: 16 * 1024,
        }
    }
}

/// What all requests share.
struct Http {
    server: Arc<Server>,
    page: page::Page,
    bounds: PortBounds,
}

/// Serves these listeners on a thread of its own until the server stops, or the process ends. `thread` is its number
/// among the threads that serve clients.
///
/// # Errors
///
/// When the system gives no thread, or no descriptor for its runtime.
pub fn start(server: Arc<Server>, listeners: Vec<TcpListener>, thread: usize, bounds: PortBounds) -> io::Result<()> {
    let (ready, is_ready) = mpsc::sync_channel(1);
    threads::spawn("getid-http", move || {
        // Made here, as it may not be dropped on a thread that has one of its own, which the caller may be.
        let runtime = match io_threads::runtime() {
            Ok(runtime) => runtime,
            Err(error) => return drop(ready.send(Err(error))),
        };
        let _ = ready.send(Ok(()));
        io_threads::set_current(thread);
        let page = page::Page::new(&server, bounds.step);
        let http = Arc::new(Http { server, page, bounds });
        runtime.block_on(async {
            drop(tokio::spawn(page::Page::run(Arc::clone(&http))));
            accept::run(http, listeners).await;
        });
        runtime.shutdown_background();
    })?;
    is_ready.recv().map_err(io::Error::other)?
}
