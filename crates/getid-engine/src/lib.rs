//! The engine of getid: generators of IDs, claims of server-ids, worker ids.

pub mod claim;
pub mod generators;
mod sync;
pub mod workers;
