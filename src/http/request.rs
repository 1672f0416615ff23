//! Requests of RESP.

use std::io::Write as _;

/// Appends a request with these arguments.
pub(super) fn encode(args: &[&[u8]], request: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let _ = write!(request, "*{}\r\n", args.len());
    for arg in args {
        let _ = write!(request, "${}\r\n", arg.len());
        request.extend_from_slice(arg);
        request.extend_from_slice(b"\r\n");
    }
}
