//! The Redis protocol: bytes in become requests, replies become bytes.
//!
//! Requests are read by our own [`Decoder`]: it is the hot path and the attack surface, and a request is never more
//! than a flat array of strings. Replies other than IDs go through the frames of `redis-protocol`.
//!
//! Pure: no clock, no socket, no `async`. What a request means is not here but in `command` and `session`.

mod decode;
mod digits;
mod encode;

pub use decode::{Args, DecodeLimits, Decoded, Decoder, ProtocolError, Span, parse_integer};
pub use digits::{ID_BYTES_MAX, IdWriter};
pub use encode::{
    Protocol, Value, encode, write_array_header, write_bulk, write_bulk_header, write_bulk_id, write_count,
    write_error, write_id, write_null, write_push_header, write_text_header,
};
