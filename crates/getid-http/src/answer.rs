//! Answers one request: from the request that hyper read to the response that hyper writes.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service as _;

use super::api_request::{ApiRequest, PathName};
use super::body::BODY_BYTES_MAX;
use super::buffer_memory::BufferMemory;
use super::caller::Caller;
use super::endpoint::Endpoint;
use super::problem::Problem;
use super::response_body::{LargeResponseMemory, ResponseBody};
use super::slots::{CloseSignal, ConnectionPhase, ConnectionSlot, ConnectionSlots};
use super::state::Http;
use super::{guard, ids, router, sequences, table};
use getid_core::server::NAME_BYTES_MAX;
use getid_server::Server;
use getid_server::metrics::Counter;

/// Size from which a response counts as large, bytes. The smaller responses of all connections together take little.
const LARGE_BYTES: u64 = 8 * 1024;

/// Largest body that takes none of the memory for large bodies, bytes.
const SMALL_BODY_BYTES: usize = 4 * 1024;

/// Memory that a larger body takes, KiB: twice the largest body, since a growing body may be in two buffers.
const LARGE_BODY_KIB: u32 = 128;

/// Memory of a body: its part of all clients' memory, and of that for large bodies if it is large.
type BodyMemory = (BufferMemory, Option<OwnedSemaphorePermit>);

/// Memory for all large requests together, KiB. It is separate from that of responses, so that slow bodies do not delay
/// pages and metrics.
const LARGE_BODIES_KIB_MAX: usize = 8 * 1024;

/// Answers the requests of all connections.
pub(super) struct RequestHandler {
    pub(super) http: Arc<Http>,
    pub(super) slots: Arc<ConnectionSlots>,
    router: axum::Router,
    /// KiB left for large responses.
    memory: Arc<Semaphore>,
    /// KiB left for large requests.
    body_memory: Arc<Semaphore>,
}

impl RequestHandler {
    pub(super) fn new(http: Arc<Http>) -> RequestHandler {
        RequestHandler {
            router: router::router(&http),
            slots: ConnectionSlots::new(),
            memory: Arc::new(Semaphore::new(http.bounds.large_kib)),
            http,
            body_memory: Arc::new(Semaphore::new(LARGE_BODIES_KIB_MAX)),
        }
    }

    fn server(&self) -> &Server {
        &self.http.server
    }

    /// Answers one request. The gate replaces a bad head with a request of its own, which is answered with the fault.
    pub(super) async fn answer(
        &self,
        request: Request,
        slot: Arc<ConnectionSlot>,
        caller: Arc<Caller>,
    ) -> Result<Response<ResponseBody>, Infallible> {
        let mut is_last = false;
        let buffer = caller.buffer_memory();
        let response = match self.respond(request, &slot, caller).await {
            Ok(response) => response,
            Err(CloseAfter(problem)) => {
                is_last = true;
                Response::from(problem)
            }
        };
        Ok(self.prepare(response, slot, buffer, is_last))
    }

    async fn respond(
        &self,
        request: Request,
        slot: &ConnectionSlot,
        caller: Arc<Caller>,
    ) -> Result<Response, CloseAfter> {
        if let Some(fault) = slot.refusal() {
            self.server().metrics.count(Counter::HttpHeadsBad);
            return Err(CloseAfter(Problem::of_fault(fault)));
        }
        if slot.signal() == CloseSignal::TimedOut {
            let seconds = self.http.bounds.head.as_secs_f64();
            return Err(CloseAfter(Problem::late(format!(
                "the head of the request did not arrive within {seconds} s"
            ))));
        }
        // The router refuses OPTIONS with the methods of a known path.
        let is_routed = *request.method() == Method::OPTIONS && table::is_known(request.uri().path());
        if !is_routed && let Err(problem) = guard::check(&request, &caller) {
            // The body may be large, and nothing reads it.
            return if request.body().is_end_stream() { Ok(problem.into()) } else { Err(CloseAfter(problem)) };
        }
        // The body's memory is released when the response is ready.
        let (request, _memory) = if request.body().is_end_stream() {
            (request, None)
        } else {
            self.read_body(request, slot, caller.buffer_memory()).await?
        };
        let is_unread = request.extensions().get::<UnreadBody>().is_some();
        let mut answer = pin!(self.call_handler(request, caller));
        let seconds = self.http.bounds.answer.as_secs_f64();
        poll_fn(|cx| match answer.as_mut().poll(cx) {
            Poll::Ready(mut response) => {
                if is_unread {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Poll::Ready(Ok(response))
            }
            Poll::Pending if slot.signal() == CloseSignal::TimedOut => Poll::Ready(Err(CloseAfter(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("the request was not answered within {seconds} s; CLIENT PAUSE may hold it"),
            )))),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Returns the response of the request's handler. The router finds it, except for the most frequent requests.
    async fn call_handler(&self, mut request: Request, caller: Arc<Caller>) -> Response {
        // Boxed, since each idle connection would otherwise keep room for them.
        if let Some(name) = plain_name(&request, "/v1/ids/", "") {
            let (name, request, body) = direct(name, request, &ids::DRAW, caller);
            return Box::pin(ids::draw(name, request, body)).await.into_response();
        }
        if let Some(name) = plain_name(&request, "/v1/sequences/", "/values") {
            let (name, request, body) = direct(name, request, &sequences::COUNT, caller);
            return Box::pin(sequences::count(name, request, body)).await.into_response();
        }
        request.extensions_mut().insert(caller);
        let Ok(response) = self.router.clone().call(request).await;
        response
    }

    /// Reads the body of a request. Returns the request and the memory that the body takes.
    ///
    /// The body is copied as it arrives: hyper returns it in pieces as they came from the network. Each piece keeps the
    /// whole buffer that it was read into, even for one byte.
    async fn read_body(
        &self,
        request: Request,
        slot: &ConnectionSlot,
        mut buffer: BufferMemory,
    ) -> Result<(Request, Option<BodyMemory>), CloseAfter> {
        let metrics = &self.server().metrics;
        let too_large = || {
            metrics.count(Counter::HttpBodiesTooLarge);
            let detail = format!("the body is larger than {} KiB", BODY_BYTES_MAX / 1024);
            CloseAfter(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail))
        };
        let (parts, mut body) = request.into_parts();
        // Leaf and CosId accept any body without reading it; Tinyid treats a form that is too long as one without
        // parameters.
        let may_be_unread = guard::is_compat_path(parts.uri.path());
        let unread = |mut parts: axum::http::request::Parts| {
            if !may_be_unread {
                return Err(too_large());
            }
            parts.extensions.insert(UnreadBody);
            Ok((Request::from_parts(parts, Body::empty()), None))
        };
        if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
            return unread(parts);
        }
        let (mut bytes, mut memory) = (Vec::new(), None);
        loop {
            let frame = poll_fn(|cx| match pin!(body.frame()).poll(cx) {
                Poll::Pending if slot.signal() == CloseSignal::TimedOut => {
                    let seconds = self.http.bounds.body.as_secs_f64();
                    Poll::Ready(Err(Problem::late(format!(
                        "the body of the request did not arrive within {seconds} s"
                    ))))
                }
                polled => polled.map(Ok),
            });
            let data = match frame.await.map_err(CloseAfter)? {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(_)) => {
                    metrics.count(Counter::HttpHeadsBad);
                    let broken = || Problem::new(StatusCode::BAD_REQUEST, "the body could not be read".to_owned());
                    return Err(CloseAfter(slot.refusal().map_or_else(broken, Problem::of_fault)));
                }
                None => return Ok((Request::from_parts(parts, Body::from(bytes)), Some((buffer, memory)))),
            };
            let len = bytes.len() + data.len();
            if len > BODY_BYTES_MAX {
                return unread(parts);
            }
            if len > SMALL_BODY_BYTES && memory.is_none() {
                memory = Arc::clone(&self.body_memory).try_acquire_many_owned(LARGE_BODY_KIB).ok();
                if memory.is_none() {
                    self.slots.end_stuck(self.http.bounds.stuck);
                    return Err(CloseAfter(busy("the memory for large requests is in use")));
                }
            }
            bytes.extend_from_slice(&data);
            // The body is in two buffers while it is parsed as JSON.
            buffer.set(2 * bytes.capacity());
        }
    }

    /// Prepares a response for sending, within the memory for all responses.
    fn prepare(
        &self,
        response: Response,
        slot: Arc<ConnectionSlot>,
        mut buffer: BufferMemory,
        mut is_last: bool,
    ) -> Response<ResponseBody> {
        let (mut response, mut stream, mut large) = (response, None, None);
        match response.body().size_hint().exact() {
            Some(bytes) if bytes >= LARGE_BYTES => {
                let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
                if let Ok(permit) = Arc::clone(&self.memory).try_acquire_many_owned(kib) {
                    buffer.set(usize::try_from(bytes).unwrap_or(usize::MAX));
                    large = Some(LargeResponseMemory { _permit: permit, _buffer: buffer });
                } else {
                    self.slots.end_stuck(self.http.bounds.stuck);
                    response = busy("the memory for large responses is in use").into();
                }
            }
            Some(_) => {}
            None => {
                stream = self.slots.begin_stream(self.server().config.get().http.clients_max as usize);
                if stream.is_none() {
                    response =
                        busy("streams use half of the connections of http-max-clients, which is their limit").into();
                }
            }
        }
        is_last |= slot.signal() != CloseSignal::None;
        let metrics = &self.server().metrics;
        metrics.count(match response.status().as_u16() {
            ..400 => Counter::HttpAnswered,
            400..500 => Counter::HttpFaulty,
            _ => Counter::HttpFailed,
        });
        let mut response = guard::with_security_headers(response);
        if is_last {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if slot.phase() == ConnectionPhase::Body {
            // The body is not read any more.
            slot.enter(ConnectionPhase::Answering);
        }
        response.map(|body| ResponseBody::new(body, slot, stream, large))
    }
}

/// Returns the name in the path of a POST request between `before` and `after`, if it is short and not escaped.
///
/// The router leads to the same handlers, including for other names. But it copies the name twice and builds a table of
/// path parameters, which costs a tenth of the whole request.
fn plain_name(request: &Request, before: &str, after: &str) -> Option<PathName> {
    let name = request.uri().path().strip_prefix(before)?.strip_suffix(after)?;
    let is_plain = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.bytes().any(|byte| matches!(byte, b'/' | b'%'));
    (is_plain && *request.method() == Method::POST).then(|| PathName(name.to_owned()))
}

/// Returns the arguments of the handler of `row`.
fn direct(
    name: PathName,
    request: Request,
    row: &'static Endpoint,
    caller: Arc<Caller>,
) -> (PathName, ApiRequest, Body) {
    let (parts, body) = request.into_parts();
    (name, ApiRequest::new(parts.headers, parts.uri, row, caller), body)
}

fn busy(detail: &str) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail.to_owned())
}

/// Marks a request whose body is too large to be read, so that no request can follow on its connection.
#[derive(Clone, Copy)]
struct UnreadBody;

/// A problem after which the connection is closed.
struct CloseAfter(Problem);
