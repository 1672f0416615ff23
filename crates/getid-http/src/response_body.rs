//! The body of a response while it is sent. At its end the next request may begin; a stop ends it if it is a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use super::buffer_memory::BufferMemory;
use super::slots::{CloseSignal, ConnectionPhase, ConnectionSlot, StreamGuard};

/// Bytes of a large response that hyper gets at a time.
const PIECE_BYTES: usize = 8 * 1024;

/// Memory of a large response: of that for large ones, and of that of all clients.
pub(super) struct LargeResponseMemory {
    pub(super) _permit: OwnedSemaphorePermit,
    pub(super) _buffer: BufferMemory,
}

/// The body of a response.
pub(super) struct ResponseBody {
    body: Body,
    slot: Arc<ConnectionSlot>,
    /// Its share of the streams, if it is one.
    stream: Option<StreamGuard>,
    /// Its memory, if it is large.
    large: Option<Arc<LargeResponseMemory>>,
    /// The rest of a large response that hyper did not get yet.
    rest: Bytes,
}

/// Bytes that are counted until the last piece of them is dropped. hyper finishes a body once all of it is in its
/// queue, long before the client has read it.
struct CountedBytes {
    bytes: Bytes,
    _large: Arc<LargeResponseMemory>,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl ResponseBody {
    pub(super) fn new(
        body: Body,
        slot: Arc<ConnectionSlot>,
        stream: Option<StreamGuard>,
        large: Option<LargeResponseMemory>,
    ) -> ResponseBody {
        slot.begin_response();
        ResponseBody { body, slot, stream, large: large.map(Arc::new), rest: Bytes::new() }
    }

    /// Returns the next piece of a large response. Over TLS hyper copies each piece, so pieces are small.
    fn piece(&mut self) -> Frame<Bytes> {
        Frame::data(self.rest.split_to(self.rest.len().min(PIECE_BYTES)))
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        if self.slot.signal() != CloseSignal::TimedOut && self.slot.refusal().is_none() {
            self.slot.enter(ConnectionPhase::Idle);
        }
        if self.slot.has_more.load(Relaxed) {
            self.slot.wake();
        }
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let response = self.get_mut();
        if response.stream.is_some() && response.slot.signal() >= CloseSignal::Drain {
            return Poll::Ready(None);
        }
        if !response.rest.is_empty() {
            return Poll::Ready(Some(Ok(response.piece())));
        }
        let frame = ready!(Pin::new(&mut response.body).poll_frame(cx));
        let Some(large) = response.large.clone() else { return Poll::Ready(frame) };
        Poll::Ready(frame.map(|frame| {
            Ok(match frame?.into_data() {
                Ok(bytes) => {
                    response.rest = Bytes::from_owner(CountedBytes { bytes, _large: large });
                    response.piece()
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
