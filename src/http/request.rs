//! Requests of RESP.

use crate::resp::{write_array_header, write_bulk};

/// Bytes of what stands around an argument, or around them all, in most requests.
const FRAME_BYTES: usize = 16;

/// A request with these arguments.
pub(super) fn of(args: &[&[u8]]) -> Vec<u8> {
    let mut request = Vec::new();
    encode(args, &mut request);
    request
}

/// Appends a request with these arguments.
pub(super) fn encode(args: &[&[u8]], request: &mut Vec<u8>) {
    // At once, for a request is short and growing costs more than writing.
    request.reserve(args.iter().map(|arg| arg.len() + FRAME_BYTES).sum::<usize>() + FRAME_BYTES);
    write_array_header(args.len(), request);
    for arg in args {
        write_bulk(arg, request);
    }
}
