//! The Redis protocol: bytes become requests, replies become bytes.
//!
//! The [`Decoder`] is our own: it is the hot path and the attack surface, and a request is only a flat array of
//! strings. [`encode`] is our own too: a list of 100,000 names has two million values.
//!
//! The module is pure: no clock, no socket, no `async`. Modules `command` and `session` execute requests.

mod decode;
mod digits;
mod encode;
mod error;

pub use decode::{Args, DecodeLimits, DecodeStep, Decoder, ProtocolError, Span, parse_integer};
pub use digits::{ID_BYTES_MAX, IdWriter};
pub use encode::{
    Protocol, Value, encode, write_array_header, write_bulk, write_bulk_header, write_bulk_id, write_count,
    write_error, write_id, write_null, write_push_header, write_text_header,
};
pub use error::{ErrorKind, ErrorReply};
