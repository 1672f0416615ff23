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
//! - `endpoint` is a row of the `table` of endpoints; rows are beside their handlers. `router` and `openapi` are made
//!   from the table, and `query`, `body` and `schema` parse requests by a row.
//! - `idempotency` parses `Idempotency-Key`, the client's name for a request that it may repeat.
//! - `leaf`, `tinyid` and `cosid` answer the paths of other servers (`compat`) in the format of Spring (`spring`).
//! - `page` is the page for people, and `status` its data; `problem` is every error response: RFC 9457.
//!
//! Invariant: no part of a request reaches a page, a header or the log unescaped.

mod accept;
mod answer;
mod api_request;
mod body;
mod bounds;
mod buffer_memory;
mod caller;
mod coding;
mod compat;
mod cosid;
pub mod credentials;
mod decode;
mod encode;
mod endpoint;
pub mod framing;
mod gate;
mod generators;
mod guard;
pub mod head;
mod id_list;
mod idempotency;
mod ids;
mod leaf;
mod metrics;
mod numbers;
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
mod seals;
mod sequences;
mod slots;
mod spring;
mod state;
mod status;
mod table;
mod tinyid;
mod workers;

use std::borrow::Cow;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};

pub use self::bounds::PortBounds;
use self::state::Http;
use getid_server::Server;
use getid_system::{io_threads, threads};

/// Returns the text of a query, decoded as for every request; `None` if it is refused. For fuzzers.
pub fn decoded(text: &str) -> Option<Cow<'_, str>> {
    query::decoded(text).ok()
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
        let http = Arc::new(Http::new(server, bounds, |bounds| openapi::document(table::all(), bounds)));
        let noted = Arc::clone(&http);
        runtime.block_on(async {
            drop(tokio::spawn(async move { noted.page.run(&noted.server).await }));
            accept::run(http, listeners).await;
        });
        runtime.shutdown_background();
    })?;
    result.recv().map_err(io::Error::other)?
}
