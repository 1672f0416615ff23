//! A Redis-protocol server that hands out unique, time-ordered 64-bit IDs.

pub mod cli;
