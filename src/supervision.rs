//! stub
#![allow(missing_docs)]
use crate::config::*;
pub struct Notifier; impl Notifier { pub fn new(_: Supervised) -> Self { Notifier } pub fn ready(&self) {} pub fn stopping(&self) {} }
pub struct PidFile; impl PidFile { pub fn write(_: &std::path::Path) -> Result<PidFile, String> { Ok(PidFile) } }
