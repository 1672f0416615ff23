//! The folder of a server of a fleet. Its lock proves after a kill that the previous holder is gone, and its notes keep
//! the highest known beat of each claim.
//!
//! `claims.lock` is locked with flock, which ends with the process. The file contains a random token and its own device
//! and inode number, so a copy or a new file gets another token. A claim's record names the token and the boot of its
//! holder. A process that holds the lock of that very file, on that boot, knows that the holder is gone.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::claim::{MarkedRecord, RecordError, TakeError};
use getid_text::shell::shell_word;
use getid_text::store_url::for_command;

/// Name of the lock file.
pub(super) const LOCK: &str = "claims.lock";

/// File in which Linux shows the id of the current boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Tries to lock the file, [`PAUSE`] apart. A killed process may still exist for a moment.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// Longest line of the lock file, in bytes.
const LINE_BYTES_MAX: u64 = 200;

/// A folder that this process has locked until the value is dropped.
#[derive(Debug)]
pub(super) struct FleetDir {
    pub(super) path: PathBuf,
    /// Token that records name this folder by.
    pub(super) token: String,
    /// Id of the current boot. Empty if unknown: then no record counts as this folder's.
    pub(super) boot_id: String,
    _lock: File,
}

impl FleetDir {
    /// Locks the folder; waits for at most 200 ms.
    pub(super) fn lock(dir: &Path) -> Result<FleetDir, TakeError> {
        let path = dir.join(LOCK);
        let failed = |action, source| TakeError::Io { action, path: path.clone(), source };
        let open = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let mut lock = open.map_err(|source| failed("open the lock file", source))?;
        let mut tries = 1;
        while let Err(error) = lock.try_lock() {
            match error {
                std::fs::TryLockError::WouldBlock if tries < TRIES => {}
                std::fs::TryLockError::WouldBlock => {
                    let holder = first_line(&mut lock).and_then(|line| line.split(' ').next()?.parse::<u32>().ok());
                    let holder = holder.map_or_else(|| "another process".to_owned(), |pid| format!("pid {pid}"));
                    let subject =
                        format!("the folder {} (a server with a claim store has one of its own)", dir.display());
                    return Err(TakeError::Held { path, subject, holder });
                }
                std::fs::TryLockError::Error(source) => return Err(failed("lock", source)),
            }
            tries += 1;
            std::thread::sleep(PAUSE);
        }
        let found = lock.metadata().map_err(|source| failed("inspect the lock file", source))?;
        let file = format!("{}-{}", found.dev(), found.ino());
        let known = first_line(&mut lock).and_then(|line| Some(line.split_once(' ')?.1.trim_end().to_owned()));
        let is_own = |token: &String| token.strip_suffix(&file).is_some_and(|random| random.len() == 33);
        let token = known.filter(is_own).unwrap_or_else(|| format!("{:032x}-{file}", rand::random::<u128>()));
        let write = |lock: &mut File| {
            lock.set_len(0)?;
            lock.rewind()?;
            lock.write_all(format!("{} {token}\n", std::process::id()).as_bytes())
        };
        // Without the token the next start waits until the claim is silent.
        if let Err(error) = write(&mut lock) {
            tracing::warn!(
                "cannot write {}: {error}; after a kill this server waits for the time-out of its claim",
                path.display()
            );
        }
        let boot_id = std::fs::read_to_string(BOOT_ID).map(|id| id.trim().to_owned()).unwrap_or_default();
        Ok(FleetDir { path: dir.to_owned(), token, boot_id, _lock: lock })
    }

    /// Whether a record with this folder and boot was written by a process that is gone: this process has its lock.
    pub(super) fn is_named(&self, folder: &str, boot_id: &str) -> bool {
        !boot_id.is_empty() && folder == self.token && boot_id == self.boot_id
    }

    /// Returns an error sentence if this folder has a record of the server-id that was not moved to the store. Two
    /// valid records of one server-id would give the same IDs twice.
    pub(super) fn unmoved_record(&self, server_id: u32, store: &str) -> Option<String> {
        let path = self.path.join(format!("getid-{server_id}.state"));
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => {
                return Some(format!(
                    "cannot read {}: {error}; a server with a claim store must check that it was moved there",
                    path.display()
                ));
            }
        };
        let remedy = format!(
            "move it: getid state move --server-id {server_id} --from {} --to {}; or set claim-store file",
            shell_word(&self.path.display().to_string()),
            shell_word(&for_command(store))
        );
        match MarkedRecord::parse(&bytes) {
            Ok(MarkedRecord { mark: Some(_), .. }) | Err(RecordError::Marked(_)) => None,
            Ok(_) => Some(format!(
                "server-id {server_id} has a record in {}, and claim-store is {store}: only one of them can be in \
                 force; {remedy}",
                path.display()
            )),
            Err(error) => Some(format!(
                "cannot use the record {}: {error}; repair it with getid state advance, then {remedy}",
                path.display()
            )),
        }
    }
}

/// Returns the first line of the lock file.
fn first_line(lock: &mut File) -> Option<String> {
    lock.rewind().ok()?;
    let mut text = String::new();
    lock.take(LINE_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text.lines().next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use getid_core::{Layout, SavePoint, Tick};
    use tempfile::TempDir;

    use super::*;
    use crate::claim::{Identity, Mark, Owner, Record, RecordLocation};

    #[test]
    fn a_folder_has_one_server_and_a_permanent_token() {
        let dir = TempDir::new().unwrap();
        let first = FleetDir::lock(dir.path()).unwrap();
        let token = first.token.clone();
        assert!(first.is_named(&token, &first.boot_id));
        assert!(!first.is_named(&token, "") && !first.is_named("", &first.boot_id) && !first.is_named(&token, "other"));
        let refused = FleetDir::lock(dir.path()).unwrap_err().to_string();
        let message =
            format!("is locked by pid {}; stop that process, or set another server-id or dir", std::process::id());
        assert!(refused.contains(&message), "{refused}");
        drop(first);
        assert_eq!(FleetDir::lock(dir.path()).unwrap().token, token, "the folder keeps its token");
    }

    #[test]
    fn a_copy_of_the_folder_is_another_one() {
        let [dir, copy] = [TempDir::new().unwrap(), TempDir::new().unwrap()];
        let token = FleetDir::lock(dir.path()).unwrap().token;
        std::fs::copy(dir.path().join(LOCK), copy.path().join(LOCK)).unwrap();
        assert_ne!(FleetDir::lock(copy.path()).unwrap().token, token);
        for text in ["", "x", "1 ", "1 -1-2", "\0\u{ff}", &"9".repeat(300)] {
            std::fs::write(copy.path().join(LOCK), text).unwrap();
            assert!(FleetDir::lock(copy.path()).unwrap().token.len() > 33, "{text}");
        }
    }

    #[test]
    fn a_record_in_the_folder_has_to_be_moved_first() {
        let dir = TempDir::new().unwrap();
        let locked = FleetDir::lock(dir.path()).unwrap();
        let message = |server_id| locked.unmoved_record(server_id, "etcd://a/p");
        assert_eq!(message(3), None);
        let path = dir.path().join("getid-3.state");
        let identity = Identity { server_id: 3, layout: Layout::default() };
        let point = SavePoint { watermark: Tick(10), reference: Tick(5), max_borrow_ms: 3000 };
        let record = Record { identity, point, declarations: std::sync::Arc::default(), owner: Owner::default() };
        std::fs::write(&path, record.to_text()).unwrap();
        let remedy = format!("move it: getid state move --server-id 3 --from {} --to etcd://a/p", dir.path().display());
        assert!(message(3).unwrap().contains(&remedy), "{:?}", message(3));
        assert_eq!(message(2), None, "the record of another server-id");
        let moved = MarkedRecord { record, mark: Some(Mark::MovedTo(RecordLocation::of_store("etcd://a/p"))) };
        std::fs::write(&path, moved.to_text()).unwrap();
        assert_eq!(message(3), None);
        std::fs::write(&path, "rubbish").unwrap();
        assert!(message(3).unwrap().contains("cannot use the record"), "{:?}", message(3));
    }
}
