//! A Redis-protocol server that hands out unique, time-ordered 64-bit IDs.

pub mod command;
pub mod id;
pub mod resp;
pub mod session;
pub mod timestamp;
