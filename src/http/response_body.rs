//! The body of a response while it is sent. At its end the next request may begin; a stop ends it if it is a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use super::held::Held;
use super::places::{Phase, Place, Stream, Told};

/// Bytes of a large response that hyper gets at a time.
const PIECE_BYTES: usize = 8 * 1024;

/// Memory of a large response: of that for large ones, and of that of all clients.
pub(super) struct Large {
    pub(super) _permit: OwnedSemaphorePermit,
    pub(super) _held: Held,
}

/// The body of a response.
pub(super) struct Outgoing {
    body: Body,
    place: Arc<Place>,
    /// Its place among the streams, if it is one.
    stream: Option<Stream>,
    /// Its memory, if it is large.
    large: Option<Arc<Large>>,
    /// The rest of a large response that hyper did not get yet.
    rest: Bytes,
}

/// Bytes that are counted until the last piece of them is dropped. hyper finishes a body once all of it is in its
/// queue, long before the client has read it.
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

    /// Returns the next piece of a large response. Over TLS hyper copies each piece, so pieces are small.
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
