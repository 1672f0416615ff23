//! A false wall clock for the unmodified binary, by a preloaded libfaketime. A file contains the offset, which a test
//! may change while the server runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Server;

/// A wall clock with an offset, which a file contains.
pub struct FakeClock {
    library: PathBuf,
    dir: tempfile::TempDir,
}

impl FakeClock {
    /// Creates a clock with the offset 0. Needs libfaketime.
    pub fn new() -> FakeClock {
        let name = "faketime/libfaketime.so.1";
        let folders = fs::read_dir("/usr/lib").expect("listed").filter_map(|entry| Some(entry.ok()?.path()));
        let mut places = folders.map(|folder| folder.join(name)).chain([Path::new("/usr/lib").join(name)]);
        let library = places.find(|path| path.exists()).expect("libfaketime is installed (Debian: libfaketime)");
        let clock = FakeClock { library, dir: tempfile::tempdir().expect("a folder") };
        clock.set(0);
        clock
    }

    /// Sets the offset in seconds.
    pub fn set(&self, offset_s: i64) {
        let path = self.dir.path().join("offset");
        fs::write(path.with_extension("new"), format!("{offset_s:+}\n")).expect("written");
        fs::rename(path.with_extension("new"), path).expect("renamed");
    }

    /// Starts a server with this clock.
    pub fn start(&self, dir: &Path, words: &[&str]) -> Server {
        let prepare = |command: &mut Command| {
            command
                .env("LD_PRELOAD", &self.library)
                .env("FAKETIME_TIMESTAMP_FILE", self.dir.path().join("offset"))
                .env("FAKETIME_NO_CACHE", "1")
                .env("FAKETIME_DISABLE_SHM", "1")
                // The older and the newer name of the variable.
                .env("DONT_FAKE_MONOTONIC", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        };
        Server::try_start_in(dir, words, prepare).unwrap_or_else(|log| panic!("the server did not start:\n{log}"))
    }
}
