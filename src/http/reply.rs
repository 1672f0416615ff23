//! Replies of RESP3, as far as this server writes them.

use redis_protocol::resp3::decode::complete::decode;
use redis_protocol::resp3::types::OwnedFrame;

use super::problem::Problem;

/// A reply that is no error.
pub(super) type Reply = OwnedFrame;

/// The one reply that these bytes are.
///
/// # Errors
///
/// The problem that an error reply means.
pub(super) fn read(bytes: &[u8]) -> Result<Reply, Problem> {
    match decode(bytes) {
        Ok(Some((OwnedFrame::SimpleError { data, .. }, _))) => Err(Problem::of_error(&data)),
        Ok(Some((OwnedFrame::BlobError { data, .. }, _))) => Err(Problem::of_error(&String::from_utf8_lossy(&data))),
        Ok(Some((frame, _))) => Ok(frame),
        // It was written by this process.
        Ok(None) | Err(_) => Err(Problem::stopping()),
    }
}
