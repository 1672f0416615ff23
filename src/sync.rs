//! The locks that decide who is served when, named in one place: `tests/interleavings/` compiles the issuer with
//! others, which try orders of threads that the system would hardly ever show.

pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};
