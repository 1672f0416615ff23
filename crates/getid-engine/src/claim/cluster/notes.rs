//! Notes of the highest beat and watermark of each claim that this server has written or read.
//!
//! A store that was restored from a backup, or whose replica took over without the last writes, has lower beats. The
//! notes detect that after a restart too. They are not synced: after a power loss the last ones may be missing.
//!
//! ```text
//! getid notes 1
//! store etcd://a:2379/getid
//! claim 3 beat 4711 watermark 375145820123
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use getid_core::Tick;

use crate::claim::saver::SaverThread;

/// Name of the notes file.
const NOTES: &str = "claims.notes";

const FIRST_LINE: &str = "getid notes 1";

/// Most claims with a note: every server-id of a fleet that `server-id auto` reads.
const CLAIMS_MAX: usize = 1 << 16;

const FILE_BYTES_MAX: u64 = 8 << 20;

/// The highest beat and watermark known of one claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClaimNote {
    pub(super) beat: u64,
    pub(super) watermark: Tick,
}

/// The notes of all claims of one store.
#[derive(Debug)]
pub(super) struct ClaimNotes {
    path: PathBuf,
    store: String,
    claims: BTreeMap<u32, ClaimNote>,
    /// Thread that writes the file, so that a slow disk delays no beat.
    thread: Option<SaverThread>,
    is_writing: Arc<AtomicBool>,
    /// Whether some notes are not in the file yet.
    is_dirty: bool,
}

impl ClaimNotes {
    /// Reads the notes of `store` from a folder. A file of another store yields no notes.
    pub(super) fn open(dir: &Path, store: &str) -> ClaimNotes {
        let path = dir.join(NOTES);
        let is_small = std::fs::metadata(&path).is_ok_and(|found| found.len() <= FILE_BYTES_MAX);
        let text = if is_small { std::fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
        let thread = SaverThread::start()
            .inspect_err(|error| tracing::warn!("cannot start a thread that keeps {}: {error}", path.display()))
            .ok();
        let claims = read(&text, store);
        ClaimNotes { path, store: store.to_owned(), claims, thread, is_writing: Arc::default(), is_dirty: false }
    }

    /// Returns the note of this claim; zeros if there is none.
    pub(super) fn of(&self, server_id: u32) -> ClaimNote {
        self.claims.get(&server_id).copied().unwrap_or_default()
    }

    /// Records a beat and a watermark that were written or read. A note never decreases.
    pub(super) fn note(&mut self, server_id: u32, beat: u64, watermark: Tick) {
        if self.claims.len() >= CLAIMS_MAX && !self.claims.contains_key(&server_id) {
            return;
        }
        let known = self.claims.entry(server_id).or_default();
        let new = ClaimNote { beat: beat.max(known.beat), watermark: watermark.max(known.watermark) };
        self.is_dirty |= new != *known;
        *known = new;
    }

    /// Starts writing the file if there are changes and no write is in progress.
    pub(super) fn keep(&mut self) {
        let Some(thread) = self.thread.as_ref().filter(|_| self.is_dirty) else { return };
        if self.is_writing.swap(true, Relaxed) {
            return;
        }
        self.is_dirty = false;
        let (path, text, is_writing) = (self.path.clone(), self.text(), Arc::clone(&self.is_writing));
        // The result is not awaited.
        drop(thread.run(move || {
            let temp = path.with_extension("notes.tmp");
            let written = std::fs::write(&temp, text).and_then(|()| std::fs::rename(&temp, &path));
            if let Err(error) = written {
                tracing::debug!("cannot write {}: {error}", path.display());
            }
            is_writing.store(false, Relaxed);
        }));
    }

    fn text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\nstore {}\n", self.store);
        for (server_id, ClaimNote { beat, watermark }) in &self.claims {
            // Writing to a String does not fail.
            let _ = writeln!(text, "claim {server_id} beat {beat} watermark {}", watermark.0);
        }
        text
    }
}

/// Parses the notes of this store. Damaged lines are skipped.
fn read(text: &str, store: &str) -> BTreeMap<u32, ClaimNote> {
    let mut lines = text.lines();
    if lines.next() != Some(FIRST_LINE) || lines.next().and_then(|line| line.strip_prefix("store ")) != Some(store) {
        return BTreeMap::new();
    }
    let claims = lines.filter_map(|line| {
        let mut words = line.strip_prefix("claim ")?.split(' ');
        let server_id = words.next()?.parse().ok()?;
        let beat = words.next().filter(|word| *word == "beat").and(words.next())?.parse().ok()?;
        let watermark = words.next().filter(|word| *word == "watermark").and(words.next())?.parse().ok()?;
        Some((server_id, ClaimNote { beat, watermark: Tick(watermark).min(Tick::END) }))
    });
    claims.take(CLAIMS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn notes_never_decrease_and_survive_a_restart() {
        let dir = TempDir::new().unwrap();
        let mut notes = ClaimNotes::open(dir.path(), "etcd://a");
        notes.note(3, 7, Tick(100));
        notes.note(3, 5, Tick(200));
        let expected = ClaimNote { beat: 7, watermark: Tick(200) };
        assert_eq!((notes.of(3), notes.of(4)), (expected, ClaimNote::default()));
        let text = notes.text();
        assert_eq!(read(&text, "etcd://a"), BTreeMap::from([(3, expected)]));
        assert_eq!(read(&text, "etcd://b"), BTreeMap::new(), "notes of another store are not used");
        notes.keep();
        let path = dir.path().join(NOTES);
        while !path.exists() {
            std::thread::yield_now();
        }
        assert_eq!(ClaimNotes::open(dir.path(), "etcd://a").of(3), expected);
    }

    #[test]
    fn damaged_lines_are_skipped() {
        let head = "getid notes 1\nstore s\n";
        for (line, is_valid) in [
            ("claim 3 beat 7 watermark 9", true),
            ("claim 3 beat 7", false),
            ("claim x beat 7 watermark 9", false),
            ("claim 3 watermark 7 beat 9", false),
            ("claim 3 beat -7 watermark 9", false),
        ] {
            assert_eq!(!read(&format!("{head}{line}\n"), "s").is_empty(), is_valid, "{line}");
        }
        assert!(read("getid notes 2\nstore s\nclaim 3 beat 7 watermark 9", "s").is_empty());
    }
}
