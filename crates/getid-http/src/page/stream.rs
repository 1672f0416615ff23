//! `GET /v1/status/stream`: the status once a second, as server-sent events, while the viewer has the right to it.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::on;
use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::status::{ACCESS, check_info_access};
use crate::caller::Caller;
use crate::endpoint::{Endpoint, EndpointResponse, Method};
use crate::openapi::TAG_SERVER;
use crate::problem::Problem;
use crate::state::Http;
use crate::status::{VIEWERS_MAX, status_event};

/// How long a viewer may take to read an event.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an event waits for the check of its viewer's right. `CLIENT PAUSE` holds the check, and the page must show
/// the pause.
const PERMISSION_WAIT: Duration = Duration::from_millis(100);

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// An open stream.
struct Viewer {
    http: Arc<Http>,
    caller: Arc<Caller>,
    headers: HeaderMap,
    events: mpsc::Sender<Bytes>,
    _place: OwnedSemaphorePermit,
}

pub(super) const STREAM: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/status/stream",
    tag: TAG_SERVER,
    id: "watchStatus",
    summary: "Watch the status",
    description: "An endless stream of server-sent events, one a second, for at most 32 viewers at a time. Each event \
                  'status' has a status; only the first has a history. An event 'end' has the problem that ends the \
                  stream.",
    access: ACCESS,
    parameters: &[],
    body: None,
    responses: &[EndpointResponse { status: 200, media: "text/event-stream", schema: None, description: "Events." }],
    problems: &[],
    route: |filter| on(filter, stream),
};

/// Serves `GET /v1/status/stream`.
async fn stream(
    State(http): State<Arc<Http>>,
    Extension(caller): Extension<Arc<Caller>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    check_info_access(&caller, &headers).await?;
    let Ok(place) = Arc::clone(&http.page.viewers).try_acquire_owned() else {
        let detail =
            format!("{VIEWERS_MAX} viewers are connected, which is the limit; GET /v1/status returns the status once");
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail));
    };
    let (events, receiver) = mpsc::channel(1);
    tokio::spawn(Viewer { http, caller, headers, events, _place: place }.run());
    Ok(([(CONTENT_TYPE, EVENT_STREAM)], Body::new(EventBody(receiver))).into_response())
}

impl Viewer {
    /// Sends events until the viewer disconnects or loses the right, or the server stops.
    async fn run(self) {
        let problem = tokio::select! {
            problem = self.send_events() => problem,
            () = self.events.closed() => return,
            () = self.http.server.stop_requested() => Problem::stopping(),
        };
        // If there is no room, the viewer is not reading, and the stream just ends.
        let _ = self.events.try_send(format!("event: end\ndata: {}\n\n", problem.to_json()).into());
    }

    /// Sends an event a second; returns why the stream ends.
    async fn send_events(&self) -> Problem {
        let mut event = self.http.page.event.subscribe();
        event.mark_unchanged();
        let mut next = Bytes::from(status_event(&self.http.page.whole(&self.http.server)).to_string());
        let mut permission = pin!(check_info_access(&self.caller, &self.headers));
        let mut is_checking = false;
        loop {
            if !send_event(&self.events, next).await {
                return Problem::stopping();
            }
            if event.changed().await.is_err() || self.caller.is_stopping() {
                return Problem::stopping();
            }
            if !is_checking {
                permission.set(check_info_access(&self.caller, &self.headers));
                is_checking = true;
            }
            match tokio::time::timeout(PERMISSION_WAIT, permission.as_mut()).await {
                Ok(Ok(())) => is_checking = false,
                Ok(Err(problem)) => return problem,
                Err(_) => {}
            }
            next = Bytes::from(event.borrow_and_update().to_string());
        }
    }
}

/// Passes an event to the connection; returns false if the viewer does not read it in time, or is gone.
async fn send_event(events: &mpsc::Sender<Bytes>, event: Bytes) -> bool {
    events.send_timeout(event, READ_TIMEOUT).await.is_ok()
}

/// The body of the response.
struct EventBody(mpsc::Receiver<Bytes>);

impl hyper::body::Body for EventBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        self.0.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_viewer_that_reads_nothing_is_dropped_after_the_timeout() {
        let (events, mut receiver) = mpsc::channel(1);
        let start = Instant::now();
        assert!(send_event(&events, Bytes::from_static(b"first")).await);
        assert!(!send_event(&events, Bytes::from_static(b"second")).await);
        assert_eq!(start.elapsed().as_secs(), READ_TIMEOUT.as_secs());
        // An event that is read makes room for the next.
        assert_eq!(receiver.recv().await.as_deref(), Some(&b"first"[..]));
        assert!(send_event(&events, Bytes::from_static(b"third")).await);
        drop(receiver);
        assert!(!send_event(&events, Bytes::from_static(b"fourth")).await);
    }
}
