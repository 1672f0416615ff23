//! The engine of getid: generators of IDs, claims of server-ids, worker ids.
//!
//! [`getid_core`] decides which IDs may be given; this crate carries that out with threads, a disk and stores.
//! [`generators`] draw IDs by the clock ([`Issuer`](generators::time::Issuer)) and values of sequences
//! ([`Sequences`](generators::sequence::Sequences)). A [`Claim`](claim::Claim) is the right to one server-id, and saves
//! its watermark. [`workers`] leases worker ids. Saves and calls of stores have threads of their own, so one that hangs
//! does not stop a thread that serves connections.
//!
//! Invariant: nothing is given before what forbids its repetition is durable: a watermark above an ID, the reservation
//! of a value, the record of a lease.

pub mod claim;
#[cfg(feature = "fixtures")]
pub mod fixtures;
pub mod generators;
pub mod workers;
