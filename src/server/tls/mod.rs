//! TLS on `tls-port`: certificates in, encrypted streams out.
//!
//! Everything that can be wrong with certificates is found when they are loaded, at the start or at a reload, never
//! when a client comes. A reload replaces all of it or nothing: connections that are open go on as they are, new ones
//! get what was loaded last.
//!
//! A handshake has a task of its own and is given [`HANDSHAKE_TIMEOUT`], so a slow client delays nobody. Only when it
//! is done does the client take a place of `maxclients`; how many may be under way, the server says.
//!
//! A client may go on with an earlier session for a while (`tls-session-caching`). What that takes is kept here and not
//! with the client, and goes with the certificates that it was made with: after a reload nobody comes in by a
//! certificate that is not trusted any more.

mod acceptor;
mod certificates;
mod sessions;
mod settings;
mod stream;

pub use acceptor::{Acceptor, Loaded};
pub use certificates::{Instead, TlsError, What};
pub use settings::Settings;
pub use stream::{HANDSHAKE_TIMEOUT, Stream};
