//! A Redis-protocol server that hands out unique, time-ordered 64-bit IDs.

pub mod cli;
pub mod config;
pub mod id;
pub mod logging;
pub mod supervision;
pub mod timestamp;
pub mod verify;
pub mod watermark;
