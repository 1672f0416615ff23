//! The key files of sealed generators.
//!
//! A key opens every text that its generator gave, so a file that others can read is refused, where a password file
//! gets a warning. The file's group may read it: mounted secrets belong to root and to the group of the program. Errors
//! never quote the content of the file.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use getid_core::SealDeclaration;
use getid_seal::{KEY_FILE_BYTES_MAX, KeyFileError, SealKeys, Sealer, Sealers, ShortAlphabet};

use super::builder::Builder;
use super::files::Files;
use super::report::ConfigProblem;
use super::values::Config;

/// Permission bits that a key file must not have: writing by its group, and all of others.
const FOREIGN_BITS: u32 = 0o027;

/// Reason why a generator has no keys. `Display` is a sentence with the remedy.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SealKeysError {
    /// The file cannot be read.
    #[error("key-file '{}' cannot be read: {error}. It must be a file that getid's user may read", .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: Arc<io::Error>,
    },
    /// Other users may use the file, or its group may write it.
    #[error(
        "key-file '{path}' is open to other users (mode {mode:o}), must not be used by others nor written by its \
         group: chmod g-w,o= {path}",
        path = .path.display()
    )]
    Mode {
        /// Path of the file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The content is no list of keys.
    #[error("key-file '{}' {error}", .path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// The mistake.
        error: KeyFileError,
    },
    /// A number that is in use has another key.
    #[error(
        "key-file '{}' has another key of number {number} than this server had since its start: texts of the earlier \
         key would not open, or would open as other IDs. Give the new key a number of its own",
        .path.display()
    )]
    Replaced {
        /// Path of the file.
        path: PathBuf,
        /// Number of the key.
        number: u8,
    },
    /// The alphabet is too short.
    #[error("alphabet: {0}")]
    Alphabet(#[from] ShortAlphabet),
}

/// Reads a key file. Its path is relative to the working folder of the start.
///
/// # Errors
///
/// Returns [`SealKeysError`], which never quotes the content of the file.
pub fn read_seal_keys(path: &Path, files: &dyn Files) -> Result<SealKeys, SealKeysError> {
    let at = || path.to_owned();
    let content = files.read_with_mode(path, KEY_FILE_BYTES_MAX);
    let (content, mode) = content.map_err(|error| SealKeysError::Io { path: at(), error: Arc::new(error) })?;
    if mode & FOREIGN_BITS != 0 {
        return Err(SealKeysError::Mode { path: at(), mode });
    }
    SealKeys::parse(&content).map_err(|error| SealKeysError::Content { path: at(), error })
}

/// Reads the keys of all sealed generators. `in_force` are the sealers of a running server: under a number that it had
/// since its start, no file may have another key.
pub(super) fn read_sealers(files: &dyn Files, in_force: &Sealers, builder: &mut Builder) {
    let Config { generators, counters, .. } = &builder.values.config;
    let clocks = generators.iter().filter_map(|declared| Some((declared.name(), declared.seal()?)));
    let counted = counters.iter().filter_map(|declared| Some((declared.name(), declared.seal()?)));
    let sealed: Vec<_> = clocks.chain(counted).map(|(name, seal)| (name.to_owned(), seal.clone())).collect();
    // Several generators may have one file.
    let mut read: HashMap<String, Result<SealKeys, SealKeysError>> = HashMap::new();
    let mut sealers = Vec::new();
    for (name, seal) in sealed {
        let path = Path::new(&seal.key_file);
        let keys = read.entry(seal.key_file.clone()).or_insert_with(|| read_seal_keys(path, files)).clone();
        match keys.and_then(|keys| sealer_of(&name, &seal, keys, in_force)) {
            Ok(sealer) => sealers.push(sealer),
            Err(error) => {
                let places = builder.place_of_generator(&name).into_iter().collect();
                builder.problem(ConfigProblem::new(places, format!("generator {name}"), error.to_string()));
            }
        }
    }
    builder.values.config.sealers = Sealers::new(sealers).after(in_force);
}

fn sealer_of(name: &str, seal: &SealDeclaration, keys: SealKeys, in_force: &Sealers) -> Result<Sealer, SealKeysError> {
    if let Some(number) = in_force.number_with_other_key(name, &keys) {
        return Err(SealKeysError::Replaced { path: PathBuf::from(&seal.key_file), number });
    }
    Ok(Sealer::new(keys, name, seal.alphabet.clone())?.answering(seal.answers_sealed))
}
