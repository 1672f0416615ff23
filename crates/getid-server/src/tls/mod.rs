//! TLS on `tls-port`: certificates in, encrypted streams out.
//!
//! All faults of certificates are found when they are loaded, at the start or at a reload, never when a client
//! connects. A reload replaces all of it or nothing: open connections stay as they are, new ones use the last
//! certificates.
//!
//! A handshake has a task of its own and at most [`HANDSHAKE_TIMEOUT`], so a slow client delays no other. Only when it
//! is done does the client take a place of `maxclients`; the server bounds the number of running handshakes.
//!
//! A client may resume an earlier session for a while (`tls-session-caching`). Sessions are kept here and not with the
//! client, and are dropped with the certificates they were made with: after a reload, no client connects with a
//! certificate that is no longer trusted.

mod acceptor;
mod certificates;
mod sessions;
mod settings;
mod stream;

pub use acceptor::{Acceptor, TlsConfigs};
pub use certificates::{PemFile, TlsError, UnexpectedContent};
pub use settings::TlsSettings;
pub use stream::{ClientStream, HANDSHAKE_TIMEOUT};
