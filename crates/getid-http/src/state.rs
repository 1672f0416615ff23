//! State that all requests share.

use std::sync::{Arc, Mutex, PoisonError};

use super::bounds::PortBounds;
use super::coding::StaticText;
use super::idempotency::KeysUnderWay;
use super::schema::RequestBounds;
use super::status::PageState;
use getid_server::Server;

/// State that all requests share.
pub(super) struct Http {
    pub(super) server: Arc<Server>,
    pub(super) page: PageState,
    pub(super) bounds: PortBounds,
    /// Keys of requests that are under way.
    pub(super) keys: Arc<KeysUnderWay>,
    /// Makes `/openapi.json`. This module must not depend on the table of endpoints, so the function is passed in.
    write_openapi: fn(RequestBounds) -> String,
    /// The last `/openapi.json` that was made, and its bounds.
    openapi: Mutex<Option<(RequestBounds, Arc<StaticText>)>>,
}

impl Http {
    /// Creates the state. Must be called before the first client connects.
    pub(super) fn new(server: Arc<Server>, bounds: PortBounds, write_openapi: fn(RequestBounds) -> String) -> Http {
        let page = PageState::new(&server, bounds.step);
        Http { server, page, bounds, keys: Arc::default(), write_openapi, openapi: Mutex::default() }
    }

    /// Returns `/openapi.json` with these bounds.
    pub(super) fn openapi(&self, bounds: RequestBounds) -> Arc<StaticText> {
        let mut cached = self.openapi.lock().unwrap_or_else(PoisonError::into_inner);
        match &*cached {
            Some((known, text)) if *known == bounds => Arc::clone(text),
            _ => {
                let text = Arc::new(StaticText::new("application/json", (self.write_openapi)(bounds)));
                *cached = Some((bounds, Arc::clone(&text)));
                text
            }
        }
    }
}
