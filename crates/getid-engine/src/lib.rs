//! The engine of getid: generators of IDs, claims of server-ids, worker ids.

pub mod claim;
#[cfg(feature = "fixtures")]
pub mod fixtures;
pub mod generators;
pub mod workers;
