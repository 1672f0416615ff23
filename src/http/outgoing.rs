//! The body of a response on its way: where it ends the next request may begin, and a stop ends it if it is a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::places::{Phase, Place, Stream, Told};

/// A response's body.
#[derive(Debug)]
pub(super) struct Outgoing {
    body: Body,
    place: Arc<Place>,
    /// Its place among the streams, if it is one.
    stream: Option<Stream>,
    /// What it takes of the memory for large responses, if it does.
    _memory: Option<tokio::sync::OwnedSemaphorePermit>,
}

impl Outgoing {
    pub(super) fn new(
        body: Body,
        place: Arc<Place>,
        stream: Option<Stream>,
        memory: Option<tokio::sync::OwnedSemaphorePermit>,
    ) -> Outgoing {
        place.begin_response();
        Outgoing { body, place, stream, _memory: memory }
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
        Pin::new(&mut outgoing.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
