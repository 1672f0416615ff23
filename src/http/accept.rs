//! Takes HTTP connections in, as many as there may be, and serves each until it ends or the server stops.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower_service::Service as _;

use super::caller::Caller;
use super::{Http, guard, router};
use crate::acl::Origin;
use crate::server::registry::{Endpoint, Ends};
use crate::server::tls;

/// Time for the head of a request, from its first byte or from the connection on.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a request's head, and what is read of its body at a time.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Fields of a head.
const HEADERS_MAX: usize = 64;

/// Pause after an `accept` that failed, most often for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts on all listeners until the server stops, and then until its connections have ended.
pub(super) async fn run(http: Arc<Http>, listeners: Vec<std::net::TcpListener>) {
    let places = http.server.config.get().http.clients_max as usize;
    let port = Arc::new(Port { router: router::router(&http), http, places: Semaphore::new(places) });
    let mut tasks = tokio::task::JoinSet::new();
    for listener in listeners {
        match TcpListener::from_std(listener) {
            Ok(listener) => drop(tasks.spawn(Arc::clone(&port).accept_all(listener))),
            Err(error) => tracing::error!("the HTTP port cannot be served: {error}"),
        }
    }
    port.http.server.stop_requested().await;
    tasks.shutdown().await;
    // Those that are left end by themselves: their tasks hear of the stop too.
    let _ = port.places.acquire_many(u32::try_from(places).unwrap_or(u32::MAX)).await;
}

struct Port {
    http: Arc<Http>,
    router: axum::Router,
    places: Semaphore,
}

impl Port {
    async fn accept_all(self: Arc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => drop(tokio::spawn(Arc::clone(&self).serve(stream, peer))),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let Ok(_place) = self.places.try_acquire() else { return };
        let _ = stream.set_nodelay(true);
        let local = stream.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
        let ends = Ends { peer: Endpoint::Tcp(peer), local: Endpoint::Tcp(local), fd: stream.as_raw_fd() };
        let server = &self.http.server;
        let acceptor = server.tls.as_ref().filter(|_| server.config.get().http.tls);
        let caller = Arc::new(Caller::new(Arc::clone(server), Origin::of(peer.ip()), ends, acceptor.is_some()));
        match acceptor {
            Some(acceptor) => self.talk(tls::Stream::new(stream, Arc::clone(acceptor)), caller).await,
            None => self.talk(stream, caller).await,
        }
    }

    async fn talk(&self, stream: impl AsyncRead + AsyncWrite + Unpin, caller: Arc<Caller>) {
        let service = service_fn(|request: Request<Incoming>| self.answer(request, Arc::clone(&caller)));
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        builder.max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let stop = pin!(async {
            tokio::select! {
                () = self.http.server.stop_requested() => {}
                () = caller.stopped() => {}
            }
        });
        tokio::select! {
            _ = connection.as_mut() => return,
            () = stop => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }

    async fn answer(&self, request: Request<Incoming>, caller: Arc<Caller>) -> Result<Response, Infallible> {
        let mut request = request.map(Body::new);
        if let Err(problem) = guard::check(&request, &caller) {
            return Ok(guard::sealed(problem.into()));
        }
        request.extensions_mut().insert(caller);
        self.router.clone().call(request).await.map(guard::sealed)
    }
}
