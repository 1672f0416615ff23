//! Errors of a rewrite.

use std::io;

use crate::report::ConfigProblem;

/// Why a configuration file was not rewritten.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is not UTF-8.
    #[error(transparent)]
    NotUtf8(#[from] std::str::Utf8Error),
    /// The file is not TOML, with the parser's sentence.
    #[error("{0}")]
    Toml(String),
    /// No start would accept the present file.
    #[error("{}", .0.one_line())]
    File(ConfigProblem),
    /// The next start would refuse the new file together with the other sources.
    #[error("the next start would refuse it: {}", .0.one_line())]
    NextStart(ConfigProblem),
    /// An included file, which is not rewritten, overrides a value.
    #[error("{directive} is also set in an included file, which is not rewritten")]
    Included {
        /// Name of the directive.
        directive: &'static str,
    },
}
