//! A Redis-protocol server that hands out unique, time-ordered 64-bit IDs.

pub mod acl;
pub mod bench;
pub mod cli;
pub mod clients;
pub mod clock;
pub mod command;
pub mod config;
pub mod connection;
pub mod glob;
pub mod id;
pub mod info;
pub mod io_threads;
pub mod issuer;
pub mod logging;
pub mod metrics;
pub mod pause;
pub mod published;
pub mod resp;
pub mod server;
pub mod session;
pub mod supervision;
pub mod timestamp;
pub mod tls;
pub mod verify;
pub mod watermark;
