#![doc = include_str!("../README.md")]

mod address;
mod client;
mod clock;
mod connection;
mod core;
mod error;
mod event;
mod fake;
mod layout;
mod sequence;
mod sha256;
mod signal;
mod source;
mod system;
mod tls;
mod worker;

pub use client::{Client, ClientBuilder};
#[doc(hidden)]
pub use clock::TestClock;
pub use error::{Error, Result};
pub use event::{Event, EventKind};
pub use fake::{FakeClient, FakeSequence, FakeWorker};
pub use layout::{Layout, Parts};
pub use sequence::{SequenceOptions, SequenceStats};
pub use source::{IdSource, NextId, Sequence, Worker};
pub use worker::{WorkerOptions, WorkerStats};
