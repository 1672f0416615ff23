//! The body of a response on its way: where it ends the next request may begin, and a stop ends it if it is a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use super::held::Held;
use super::places::{Phase, Place, Stream, Told};

/// Bytes that hyper is given of a large response at a time.
const PIECE_BYTES: usize = 8 * 1024;

/// What a large response takes: of the memory for large ones, and of that of all clients.
pub(super) struct Large {
    pub(super) _permit: OwnedSemaphorePermit,
    pub(super) _held: Held,
}

/// A response's body.
pub(super) struct Outgoing {
    body: Body,
    place: Arc<Place>,
    /// Its place among the streams, if it is one.
    stream: Option<Stream>,
    /// What it takes, if it is large.
    large: Option<Arc<Large>>,
    /// What of a large response hyper was not given yet.
    rest: Bytes,
}

/// Bytes that are counted for as long as anybody has a piece of them. hyper is done with a body once all of it is
/// in its own queue, which is long before the client has taken it.
struct Counted {
    bytes: Bytes,
    _large: Arc<Large>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Outgoing {
    pub(super) fn new(body: Body, place: Arc<Place>, stream: Option<Stream>, large: Option<Large>) -> Outgoing {
        place.begin_response();
        Outgoing { body, place, stream, large: large.map(Arc::new), rest: Bytes::new() }
    }

    /// The next piece of a large response: over TLS hyper copies what it is given, so it is given little at a time.
    fn piece(&mut self) -> Frame<Bytes> {
        Frame::data(self.rest.split_to(self.rest.len().min(PIECE_BYTES)))
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if self.place.told() != Told::Late && self.place.refusal().is_none() {
            self.place.enter(Phase::Idle);
        }
        if self.place.has_more.load(Relaxed) {
            self.place.wake();
        }
    }
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let outgoing = self.get_mut();
        if outgoing.stream.is_some() && outgoing.place.told() >= Told::End {
            return Poll::Ready(None);
        }
        if !outgoing.rest.is_empty() {
            return Poll::Ready(Some(Ok(outgoing.piece())));
        }
        let frame = ready!(Pin::new(&mut outgoing.body).poll_frame(cx));
        let Some(large) = outgoing.large.clone() else { return Poll::Ready(frame) };
        Poll::Ready(frame.map(|frame| {
            Ok(match frame?.into_data() {
                Ok(bytes) => {
                    outgoing.rest = Bytes::from_owner(Counted { bytes, _large: large });
                    outgoing.piece()
                }
                Err(trailers) => trailers,
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let of_body = self.body.size_hint();
        match of_body.exact() {
            Some(bytes) => SizeHint::with_exact(bytes + rest),
            None => of_body,
        }
    }
}
