//! stub
pub mod serve;
