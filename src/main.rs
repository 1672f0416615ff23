//! The `getid` binary.
fn main() {}
