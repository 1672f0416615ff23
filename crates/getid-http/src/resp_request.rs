//! Writes requests in RESP.

use getid_redis::resp::{write_array_header, write_bulk};

/// Bytes of the frame of an argument, or of the array, in most requests.
const FRAME_BYTES: usize = 16;

/// Returns a request with these arguments.
pub(super) fn encode(args: &[&[u8]]) -> Vec<u8> {
    // Reserved at once: a request is short, and growing costs more than writing.
    let bytes = args.iter().map(|arg| arg.len() + FRAME_BYTES).sum::<usize>() + FRAME_BYTES;
    let mut request = Vec::with_capacity(bytes);
    write_array_header(args.len(), &mut request);
    for arg in args {
        write_bulk(arg, &mut request);
    }
    request
}
