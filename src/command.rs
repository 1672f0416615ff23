//! The command table.

use crate::id::{Id, Layout};
use crate::resp::Value;

/// The Redis version that `HELLO` and `INFO` name: clients that look at it choose what they send by it.
pub const REDIS_VERSION: &str = "7.2.5";

/// The commands by the names they go by on this server.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {}

impl Vocabulary {
    /// All commands, with `rename-command` applied: each pair is a command's name and its new name, `""` to disable it.
    ///
    /// # Errors
    ///
    /// A sentence when a name is no command's, or a new name is taken.
    pub fn new(renames: &[(String, String)]) -> Result<Vocabulary, String> {
        let _ = renames;
        Ok(Vocabulary {})
    }
}

/// The reply to `DECODEID`.
pub fn describe_id(layout: Layout, id: Id, now_unix_ms: i64) -> Value {
    let _ = (layout, id, now_unix_ms);
    Value::Null
}

/// Whether `text` matches a glob as Redis's `CONFIG GET` and `KEYS` have them; letter case is ignored.
pub fn glob_matches(pattern: &[u8], text: &[u8]) -> bool {
    pattern == text
}
