//! The HTTP port: probes, metrics, a page and a JSON API, for people and for programs without a Redis client.
//!
//! The port runs on its own thread, so that slow or greedy HTTP clients do not affect the Redis port. A request that
//! means a command becomes that command, and a client of the server runs it
//! ([`LocalClient`](getid_server::connection::LocalClient)). So both ports share one check of permissions and one
//! place that counts, limits, logs and shows it.
//!
//! - `accept` accepts connections; `slots` bounds them and their time. Each has a `gate`, which passes one request at
//!   a time with an unambiguous [`head`] and [`framing`], and a `caller`, which logs in.
//! - `answer` handles one request; `response_body` sends its response.
//! - `buffer_memory` counts a connection's buffers in the memory of all clients.
//! - `guard` refuses requests that a foreign page or an intermediary may have sent.
//! - `endpoint` is the table of endpoints, whose rows are beside their handlers. `router` and `openapi` are made from
//!   it, and `query`, `body` and `schema` parse requests by it.
//! - `leaf` and `tinyid` answer the paths of other servers in the format of Spring (`spring`).
//! - `page` is the page for people; `problem` is every error response: RFC 9457.
//!
//! Invariant: no part of a request reaches a page, a header or the log unescaped.

mod accept;
mod answer;
mod api_request;
mod body;
mod buffer_memory;
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
mod id_list;
mod ids;
mod leaf;
mod metrics;
mod openapi;
mod page;
mod probes;
mod problem;
mod query;
mod remedy;
mod reply;
mod resp_request;
mod response_body;
mod router;
mod schema;
mod sequences;
mod slots;
mod spring;
mod tinyid;
mod workers;

use std::borrow::Cow;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use getid_server::Server;
use getid_system::{io_threads, threads};

/// Returns the text of a query, decoded as for every request; `None` if it is refused. For fuzzers.
pub fn decoded(text: &str) -> Option<Cow<'_, str>> {
    query::decoded(text).ok()
}

/// Times and sizes of the HTTP port that no directive sets. Tests use smaller ones.
#[derive(Clone, Copy, Debug)]
pub struct PortBounds {
    /// Time for the head of a request, from its first byte.
    pub head: Duration,
    /// Time for the body of a request, from the end of its head.
    pub body: Duration,
    /// Time until the response begins, from the end of the body. A request that waits for IDs is answered long before;
    /// this ends one that `CLIENT PAUSE` holds.
    pub answer: Duration,
    /// How long a client may read or send nothing while other clients need its memory.
    pub stuck: Duration,
    /// Interval at which late connections are ended.
    pub sweep: Duration,
    /// Interval at which the page's history gets a point, and its viewers get an event.
    pub step: Duration,
    /// Memory for all large responses together, KiB.
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

/// State that all requests share.
struct Http {
    server: Arc<Server>,
    page: page::PageState,
    bounds: PortBounds,
}

/// Serves these listeners on a new thread until the server stops or the process ends. `thread` is its number among the
/// threads that serve clients.
///
/// # Errors
///
/// Fails if the system has no thread left, or no descriptor for its runtime.
pub fn start(server: Arc<Server>, listeners: Vec<TcpListener>, thread: usize, bounds: PortBounds) -> io::Result<()> {
    let (started, result) = mpsc::sync_channel(1);
    threads::spawn("getid-http", move || {
        // Made here, because it must not be dropped on a thread that runs another runtime, as the caller's may.
        let runtime = match io_threads::runtime() {
            Ok(runtime) => runtime,
            Err(error) => return drop(started.send(Err(error))),
        };
        let _ = started.send(Ok(()));
        io_threads::set_current(thread);
        let page = page::PageState::new(&server, bounds.step);
        let http = Arc::new(Http { server, page, bounds });
        runtime.block_on(async {
            drop(tokio::spawn(page::PageState::run(Arc::clone(&http))));
            accept::run(http, listeners).await;
        });
        runtime.shutdown_background();
    })?;
    result.recv().map_err(io::Error::other)?
}
