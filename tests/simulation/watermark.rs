//! The record on disk: the states after a crash, the records that a start accepts, and the loss of the folder.
//!
//! Crashes are enumerated on the simulated disk, which runs the same steps as the real one; the rest uses real folders.

// The helpers are part of the tests.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use getid_core::{Declaration, Epoch, Layout, SavePoint, Tick, no_dates};
use getid_engine::claim::envelope::Envelope;
use getid_engine::claim::{
    AcquiredClaim, Claim, Declarations, Folder, FolderClaim, Identity, Owner, Record, SaveError, SaveStep, Term,
    check_record,
};
use tempfile::TempDir;

use crate::disk::{SimDisk, StepFault};

fn identity(server_id: u32) -> Identity {
    Identity { server_id, layout: Layout::default() }
}

fn point(watermark: u64) -> SavePoint {
    SavePoint { watermark: Tick(watermark), reference: Tick(watermark / 2), max_borrow_ms: 3000 }
}

fn record(watermark: u64) -> Record {
    let owner = Owner { term: Term(1), nonce: 1 };
    Record { identity: identity(0), point: point(watermark), declarations: Arc::default(), owner }
}

/// Returns the point of the record in these bytes.
fn read(bytes: &[u8]) -> SavePoint {
    Record::parse(bytes).unwrap().point
}

/// Returns the result of `future` when it is polled at most `polls` times and then dropped.
async fn polled<F: Future>(future: F, mut polls: u64) -> Option<F::Output> {
    let mut future = Box::pin(future);
    std::future::poll_fn(|context| {
        if polls == 0 {
            return Poll::Ready(None);
        }
        polls -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

mod simulated {
    use super::*;

    /// Does `steps` of a save of each of `watermarks`, and checks after each step the states after a crash: the last
    /// record whose steps were all done, or the one under way.
    fn crash_everywhere(steps: &[SaveStep], watermarks: &[u64]) -> Result<(), String> {
        let disk = SimDisk::new(1);
        let mut done = None;
        for &watermark in watermarks {
            let text = record(watermark).to_text();
            for step in steps {
                disk.run_step(*step, &text).map_err(|error| format!("{step:?}: {error}"))?;
                for state in disk.after_crash() {
                    let found = state.map(|bytes| Record::parse(&bytes)).transpose();
                    match found {
                        Ok(found) if found == done || found == Some(record(watermark)) => {}
                        Ok(found) => return Err(format!("after {step:?}: {found:?}")),
                        Err(error) => return Err(format!("after {step:?}: {error}")),
                    }
                }
            }
            done = Some(record(watermark));
            for state in disk.after_crash() {
                if state != Some(text.clone().into_bytes()) {
                    return Err(format!("lost after the last step: {state:?}"));
                }
            }
        }
        Ok(())
    }

    #[test]
    fn a_crash_leaves_the_old_record_or_the_new_one() {
        assert_eq!(crash_everywhere(&SaveStep::ALL, &[10, 20, 30]), Ok(()));
    }

    /// The test of the test: without any one step, or with two in the wrong order, it fails.
    #[test]
    fn every_step_is_needed() {
        use SaveStep::{Rename, SyncFile, SyncFolder, Write};
        let wrong: [&[SaveStep]; 5] = [
            &[Write, Rename, SyncFolder],
            &[Write, SyncFile, Rename],
            &[Write, Rename],
            &[Write, Rename, SyncFile, SyncFolder],
            &[Write, SyncFile, SyncFolder, Rename],
        ];
        for steps in wrong {
            assert!(crash_everywhere(steps, &[10, 20, 30]).is_err(), "{steps:?} passed");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_save_that_fails_at_any_step_leaves_a_record_and_works_the_next_time() {
        for step in SaveStep::ALL {
            let disk = SimDisk::new(2);
            let mut claim = disk.open(identity(0));
            claim.save(point(10)).await.unwrap();
            disk.trouble(step, StepFault::Fail(ErrorKind::StorageFull), 2);
            for _ in 0..2 {
                let error = claim.save(point(20)).await.unwrap_err();
                assert!(matches!(&error, SaveError::Io { source, .. } if source.kind() == ErrorKind::StorageFull));
                for state in disk.after_crash() {
                    let found = read(&state.unwrap());
                    assert!([point(10), point(20)].contains(&found), "{step:?}");
                }
            }
            claim.save(point(30)).await.unwrap();
            let after: Vec<_> = disk.after_crash().into_iter().map(|state| read(&state.unwrap())).collect();
            assert_eq!(after, [point(30)], "{step:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_and_hanging_saves_take_the_clock_of_the_test() {
        let disk = SimDisk::new(3);
        let mut claim = disk.open(identity(0));
        disk.trouble(SaveStep::SyncFile, StepFault::Slow(Duration::from_millis(300)), 1);
        let start = tokio::time::Instant::now();
        claim.save(point(10)).await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_millis(300));

        disk.trouble(SaveStep::SyncFile, StepFault::Hang, 1);
        let hanging = tokio::time::timeout(Duration::from_hours(1), claim.save(point(20))).await;
        assert!(hanging.is_err());
        claim.save(point(30)).await.unwrap();
        assert_eq!(disk.record().unwrap().point, point(30));
        assert_eq!(disk.saves(), 2);
    }

    /// Lives that save and crash: no saved record is lost, and every found record was saved on purpose.
    #[tokio::test(start_paused = true)]
    async fn thousands_of_crashes() {
        for seed in 0..2000 {
            let disk = SimDisk::new(seed);
            let mut last = 0;
            for life in 1..=4_u64 {
                let found = disk.record().map_or(0, |record| record.point.watermark.0);
                assert!(found >= last, "seed {seed}: {found} after {last}");
                last = found;
                let mut claim = disk.open(identity(0));
                for save in 1..=3 {
                    let watermark = 100 * life + 10 * save;
                    // The power fails at one of the await points, or after the save.
                    let polls = (seed + life * 7 + save * 3) % 6;
                    if polled(claim.save(point(watermark)), polls).await.is_none() {
                        break;
                    }
                    last = watermark;
                }
                if seed % 3 == 0 { disk.kill() } else { disk.crash() }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_is_lost_and_found() {
        let disk = SimDisk::new(4);
        let mut claim = disk.open(identity(0));
        claim.save(point(10)).await.unwrap();
        disk.lose_claim("pid 7 has it");
        assert_eq!(claim.save(point(20)).await.unwrap_err().to_string(), "claim lost: pid 7 has it");
        disk.free_claim(Some(&record(15).to_text()));
        let retaken = claim.save(point(20)).await;
        assert!(matches!(retaken, Err(SaveError::ClaimRetaken { found: Some(found), .. }) if found == point(15)));
        claim.save(point(20)).await.unwrap();
        disk.crash();
        assert_eq!(disk.record().unwrap().point, point(20));
        let late = claim.save(point(30)).await.unwrap_err();
        assert!(matches!(late, SaveError::ClaimLost { .. }), "a claim from before a crash has written");
    }
}

fn folder(dir: &Path, identity: Identity) -> Folder {
    Folder { dir: dir.to_owned(), identity, max_borrow_ms: 3000, generators: Vec::new() }
}

fn open(dir: &Path) -> AcquiredClaim<FolderClaim> {
    FolderClaim::take_blocking(&folder(dir, identity(0))).unwrap()
}

/// Returns the claim in `dir`, which is created if missing, once it has saved `point(10)`.
async fn claimed(dir: &Path) -> AcquiredClaim<FolderClaim> {
    fs::create_dir_all(dir).unwrap();
    let mut claim = open(dir);
    claim.save(point(10)).await.unwrap();
    claim
}

/// Returns why a start in `dir` is refused.
fn refusal(dir: &Path, identity: Identity) -> String {
    FolderClaim::take_blocking(&folder(dir, identity)).map(|opened| opened.point).unwrap_err().to_string()
}

/// Returns the point in the record's file.
fn saved(dir: &Path) -> SavePoint {
    read(&fs::read(state_file(dir)).unwrap())
}

fn state_file(dir: &Path) -> std::path::PathBuf {
    dir.join("getid-0.state")
}

#[tokio::test]
async fn a_record_outlives_its_store() {
    let dir = TempDir::new().unwrap();
    let mut claim = open(dir.path());
    assert_eq!(claim.point, None);
    for watermark in [10, 20, 15] {
        claim.save(point(watermark)).await.unwrap();
        assert_eq!(saved(dir.path()), point(watermark));
    }
    drop(claim);
    let mut names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["getid-0.lock", "getid-0.state"]);
    assert_eq!(open(dir.path()).point, Some(point(15)));
}

#[tokio::test]
async fn servers_share_a_folder_and_not_a_claim() {
    let dir = TempDir::new().unwrap();
    let _first = open(dir.path());
    let _other = FolderClaim::take_blocking(&folder(dir.path(), identity(1))).unwrap();
    let lock = dir.path().join("getid-0.lock");
    assert_eq!(
        refusal(dir.path(), identity(0)),
        format!(
            "server-id 0 is in use: {} is locked by pid {}; stop that process, or set another server-id or dir",
            lock.display(),
            std::process::id()
        )
    );
    // An empty lock file (the disk was full) is still a lock.
    fs::write(&lock, "").unwrap();
    assert!(refusal(dir.path(), identity(0)).contains("is locked by another process"));
}

const HOLD_DIR: &str = "GETID_TEST_HOLD_DIR";

/// Child process of the next test.
#[tokio::test]
async fn hold_the_claim_for_another_process() {
    let Some(dir) = std::env::var_os(HOLD_DIR) else { return };
    let mut claim = open(dir.as_ref());
    claim.save(point(10)).await.unwrap();
    // Straight to the descriptor: the test harness captures what is printed.
    fs::write("/dev/stderr", "held\n").unwrap();
    std::thread::sleep(Duration::from_mins(1));
}

#[test]
fn a_claim_ends_with_its_process() {
    let dir = TempDir::new().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "watermark::hold_the_claim_for_another_process"])
        .env(HOLD_DIR, dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    assert!(refusal(dir.path(), identity(0)).contains(&format!("is locked by pid {};", child.id())));

    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(open(dir.path()).point, Some(point(10)));
}

#[test]
fn folders_that_are_none() {
    fn check(dir: &Path, error: &str) {
        assert_eq!(refusal(dir, identity(0)), error);
    }
    let dir = TempDir::new().unwrap();
    let missing = dir.path().join("missing");
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    check(
        &missing,
        &format!(
            "cannot open the folder {}: No such file or directory (os error 2); create it, or set another one with dir",
            missing.display()
        ),
    );
    check(
        &file,
        &format!("cannot open the folder {}: Not a directory (os error 20); dir must name a folder", file.display()),
    );
    let below = file.join("below");
    check(
        &below,
        &format!("cannot open the folder {}: Not a directory (os error 20); dir must name a folder", below.display()),
    );
    // No process may create files there, root included.
    let error = refusal(Path::new("/proc"), identity(0));
    assert!(error.starts_with("cannot open the lock file /proc/getid-0.lock: "), "{error}");
    assert!(error.ends_with("; getid must be able to write to its folder (dir)"), "{error}");
}

#[test]
fn records_that_are_none() {
    fn check(make: impl FnOnce(&Path), expected: &str) {
        let dir = TempDir::new().unwrap();
        let state = state_file(dir.path());
        make(&state);
        let remedy = format!(
            "`getid state advance {} --server-id 0 --max-borrow 3000 --past-id ID`, ID being the largest in any table",
            dir.path().display()
        );
        let expected = expected.replace("STATE", &state.display().to_string()).replace("REMEDY", &remedy);
        assert_eq!(refusal(dir.path(), identity(0)), expected);
    }
    let text = record(10).to_text();
    check(
        |state| fs::write(state, "").unwrap(),
        "cannot use the record STATE: the file is empty; to continue, run REMEDY",
    );
    check(
        |state| fs::write(state, &text[..text.find(" show").unwrap()]).unwrap(),
        "cannot use the record STATE: it ends in the middle of the line '# Never delete or edit this file, or IDs are \
         given twice. To read it: getid stat...'; to continue, run REMEDY",
    );
    check(
        |state| {
            let body = "getid state 7\n";
            fs::write(state, format!("{body}checksum crc32 {:08x}\n", crc32fast::hash(body.as_bytes()))).unwrap();
        },
        "cannot use the record STATE: it is of format version 7, this getid reads version 4; to continue, start the getid \
         that wrote it, or run REMEDY",
    );
    check(
        |state| {
            let other = Record { identity: identity(3), ..record(10) };
            fs::write(state, other.to_text()).unwrap();
        },
        "cannot use the record STATE: it is the record of server-id 3, and this is server-id 0; to continue, put each \
         record back under its own name (this one is getid-3.state), or run REMEDY",
    );
    check(
        |state| fs::create_dir(state).unwrap(),
        "cannot read the record STATE: it is no regular file; getid must be able to write to its folder (dir)",
    );
    check(
        |state| symlink("/nowhere", state).unwrap(),
        "cannot read the record STATE: it is a symbolic link, a regular file is expected; getid must be able to write \
         to its folder (dir)",
    );
    check(
        |state| nix::unistd::mkfifo(state, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        "cannot read the record STATE: it is no regular file; getid must be able to write to its folder (dir)",
    );
}

#[tokio::test]
async fn the_epoch_may_only_move_back() {
    let at = |epoch_ms| Layout::new(Epoch::from_unix_ms(epoch_ms).unwrap(), 2, 9, 10).unwrap();
    let dir = TempDir::new().unwrap();
    let old = Identity { server_id: 0, layout: at(100_000_000_000) };
    let mut claim = FolderClaim::take(folder(dir.path(), old)).await.unwrap();
    claim.save(SavePoint { max_borrow_ms: 9000, ..point(50) }).await.unwrap();
    drop(claim);

    let later = Identity { server_id: 0, layout: at(186_400_000_000) };
    let error = refusal(dir.path(), later);
    assert!(error.contains("IDs would be given again"), "{error}");
    assert!(error.contains("set id-epoch back to 100000000000; or, if IDs may run 1000 days ahead"), "{error}");
    let remedy = "--server-id 0 --epoch 186400000000 --max-borrow 9000 --force --past-id ID`";
    assert!(error.contains(remedy), "the larger B is the record's: {error}");

    let earlier = Identity { server_id: 0, layout: at(99_999_999_000) };
    let mut claim = FolderClaim::take(folder(dir.path(), earlier)).await.unwrap();
    let found = claim.point.unwrap();
    assert_eq!(found, SavePoint { watermark: Tick(1050), reference: Tick(1025), max_borrow_ms: 9000 });
    claim.save(found).await.unwrap();
    assert_eq!(Record::parse(&fs::read(state_file(dir.path())).unwrap()).unwrap().identity, earlier);
}

#[tokio::test]
async fn bit_widths_may_change() {
    let dir = TempDir::new().unwrap();
    let mut claim = open(dir.path());
    claim.save(point(50)).await.unwrap();
    drop(claim);
    let identity = Identity { server_id: 0, layout: Layout::new(Epoch::DEFAULT, 4, 12, 5).unwrap() };
    assert_eq!(FolderClaim::take_blocking(&folder(dir.path(), identity)).unwrap().point, Some(point(50)));
}

#[tokio::test]
async fn leftovers_go_and_permissions_stay() {
    let dir = TempDir::new().unwrap();
    drop(claimed(dir.path()).await);
    let temp = dir.path().join("getid-0.state.tmp");
    fs::write(&temp, "half").unwrap();
    fs::set_permissions(state_file(dir.path()), fs::Permissions::from_mode(0o640)).unwrap();

    let mut claim = open(dir.path());
    assert_eq!(claim.point, Some(point(10)));
    assert!(!temp.exists());
    claim.save(point(20)).await.unwrap();
    assert_eq!(fs::metadata(state_file(dir.path())).unwrap().permissions().mode() & 0o777, 0o640);
}

#[tokio::test]
async fn a_dropped_save_ends_before_the_next_begins() {
    let dir = TempDir::new().unwrap();
    let mut claim = open(dir.path());
    for watermark in (10..200).step_by(10) {
        let done = polled(claim.save(point(watermark)), 1).await.is_some();
        if watermark % 20 == 0 || done {
            claim.save(point(watermark + 1)).await.unwrap();
            assert_eq!(saved(dir.path()), point(watermark + 1));
        }
    }
}

async fn lost(claim: &mut AcquiredClaim<FolderClaim>) -> String {
    match claim.save(point(1000)).await {
        Err(error @ SaveError::ClaimLost { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_folder_that_goes_and_comes_back() {
    let dir = TempDir::new().unwrap();
    let (here, away) = (dir.path().join("here"), dir.path().join("away"));
    let mut claim = claimed(&here).await;

    fs::rename(&here, &away).unwrap();
    let gone = format!("claim lost: the folder {} does not exist; put it back, or create it again", here.display());
    assert_eq!(lost(&mut claim).await, gone);
    // Another folder of that name is refused while the first, with the record, still exists.
    fs::create_dir(&here).unwrap();
    assert!(lost(&mut claim).await.contains("is not the folder that was opened at the start, which still exists"));
    assert!(fs::read_dir(&here).unwrap().next().is_none(), "written to a folder that was not claimed");
    assert_eq!(saved(&away), point(10));

    fs::remove_dir(&here).unwrap();
    fs::rename(&away, &here).unwrap();
    // Another server may have had a folder there meanwhile.
    let outcome = claim.save(point(15)).await;
    assert!(
        matches!(outcome, Err(SaveError::ClaimRetaken { found: Some(found), .. }) if found == point(10)),
        "{outcome:?}"
    );
    assert_eq!(saved(&here), point(10), "written before the position was raised");
    claim.save(point(20)).await.unwrap();
    assert_eq!(saved(&here), point(20));
}

#[tokio::test]
async fn a_recreated_folder_is_claimed_again() {
    let dir = TempDir::new().unwrap();
    let here = dir.path().join("here");
    let mut claim = claimed(&here).await;

    fs::remove_dir_all(&here).unwrap();
    lost(&mut claim).await;
    fs::create_dir(&here).unwrap();
    assert!(matches!(claim.save(point(20)).await, Err(SaveError::ClaimRetaken { found: None, .. })));
    assert!(!state_file(&here).exists(), "written before the position was raised");
    claim.save(point(30)).await.unwrap();
    assert_eq!(saved(&here), point(30));
    assert!(refusal(&here, identity(0)).contains("is in use"));
}

/// The folder is deleted and created again under a running server while a second one starts.
#[tokio::test]
async fn a_second_server_in_the_new_folder() {
    let dir = TempDir::new().unwrap();
    let here = dir.path().join("here");
    let mut first = claimed(&here).await;

    fs::remove_dir_all(&here).unwrap();
    fs::create_dir(&here).unwrap();
    let mut second = open(&here);
    assert_eq!(second.point, None);
    second.save(point(50)).await.unwrap();

    let error = lost(&mut first).await;
    assert!(error.contains("was deleted and created again, and server-id 0 is in use"), "{error}");
    assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
    second.save(point(60)).await.unwrap();
    assert_eq!(saved(&here), point(60));

    // The second server stops: the first continues, past IDs of the second.
    drop(second);
    let retaken = first.save(point(20)).await;
    assert!(matches!(retaken, Err(SaveError::ClaimRetaken { found: Some(found), .. }) if found == point(60)));
    // Even if the caller is wrong, the record does not go below the found point.
    first.save(point(20)).await.unwrap();
    assert_eq!(saved(&here).watermark, Tick(60));
}

#[tokio::test]
async fn a_lock_file_that_is_deleted() {
    let dir = TempDir::new().unwrap();
    let mut first = claimed(dir.path()).await;
    fs::remove_file(dir.path().join("getid-0.lock")).unwrap();
    let mut second = open(dir.path());
    assert_eq!(second.point, Some(point(10)));
    second.save(point(50)).await.unwrap();
    let error = lost(&mut first).await;
    assert!(error.contains("is not the one that was locked at the start, and server-id 0 is in use"), "{error}");
    assert_eq!(saved(dir.path()), point(50));
    drop(second);

    fs::remove_file(dir.path().join("getid-0.lock")).unwrap();
    let retaken = first.save(point(20)).await;
    assert!(matches!(retaken, Err(SaveError::ClaimRetaken { found: Some(found), .. }) if found == point(50)));
    first.save(point(70)).await.unwrap();
}

fn declared(words: &str) -> Arc<Declaration> {
    Arc::new(Declaration::parse(&words.split(' ').collect::<Vec<_>>(), no_dates).unwrap())
}

/// Returns declarations of these generators.
fn declarations(of: &[&str]) -> Arc<Declarations> {
    let of: Vec<_> = of.iter().map(|words| declared(words)).collect();
    Arc::new(Declarations::default().with(&of, 0, |_| 7).unwrap())
}

/// Returns the names of declarations in the record's file.
fn saved_names(dir: &Path) -> Vec<String> {
    let record = Record::parse(&fs::read(state_file(dir)).unwrap()).unwrap();
    record.declarations.generators().iter().map(|known| known.name().to_owned()).collect()
}

#[tokio::test]
async fn declarations_outlive_their_store() {
    let dir = TempDir::new().unwrap();
    let mut claim = claimed(dir.path()).await;
    claim.declarations = declarations(&["doc objectid"]);
    claim.save(point(20)).await.unwrap();
    drop(claim);
    let folder = |words| Folder { generators: vec![declared(words)], ..folder(dir.path(), identity(0)) };
    let Err(refused) = FolderClaim::take_blocking(&folder("doc objectid-decimal")) else { panic!("it is taken") };
    let refused = refused.to_string();
    let expected = format!(
        "cannot use the record {}: generator 'doc' cannot be declared so: its kind was objectid and is objectid-decimal now, \
         and its IDs could be given again; to continue, declare it as before (generator doc objectid process 7), or give it \
         another name; or, if all its IDs are known, run `getid state forget doc {} --server-id 0 --past-id ID`, ID being \
         its largest in any table",
        state_file(dir.path()).display(),
        dir.path().display()
    );
    assert_eq!(refused, expected);
    assert_eq!(check_record(&folder("doc objectid-decimal")).unwrap_err().to_string(), expected);
    assert!(check_record(&folder("doc objectid")).is_ok());
    let taken = FolderClaim::take_blocking(&folder("doc objectid")).unwrap();
    assert_eq!(taken.declarations.find("doc").unwrap().drawn_value("process"), Some(7));
}

/// A life without an ID leaves no binding declarations.
#[tokio::test]
async fn declarations_of_a_life_that_gave_nothing() {
    let dir = TempDir::new().unwrap();
    let mut claim = open(dir.path());
    claim.declarations = declarations(&["doc objectid"]);
    claim.release(SavePoint::NOTHING).await.unwrap();
    assert_eq!(saved_names(dir.path()), ["doc"]);
    let folder = Folder { generators: vec![declared("doc uuid7")], ..folder(dir.path(), identity(0)) };
    assert_eq!(FolderClaim::take_blocking(&folder).unwrap().declarations, declarations(&["doc uuid7"]));
}

/// Another server had the folder, with other generators: its declarations are kept, and returned.
#[tokio::test]
async fn declarations_of_another_server_are_taken_over() {
    let dir = TempDir::new().unwrap();
    let lock = dir.path().join("getid-0.lock");
    let mut first = claimed(dir.path()).await;
    first.declarations = declarations(&["mine uuid7", "both js53"]);
    first.save(point(20)).await.unwrap();
    fs::remove_file(&lock).unwrap();
    let mut second = open(dir.path());
    second.declarations = declarations(&["both js53", "theirs uuid7"]);
    second.save(point(50)).await.unwrap();
    drop(second);
    fs::remove_file(&lock).unwrap();

    let Err(SaveError::ClaimRetaken { declarations, .. }) = first.save(point(60)).await else { panic!("not lost") };
    assert_eq!(declarations, first.declarations);
    first.save(point(70)).await.unwrap();
    assert_eq!(saved_names(dir.path()), ["both", "theirs", "mine"]);

    // A save without that knowledge may not declare the name differently.
    let known = Arc::clone(&first.declarations);
    first.declarations = self::declarations(&["theirs uuid6"]);
    let error = lost(&mut first).await;
    assert!(error.contains("generator 'theirs' cannot be declared so: its kind was uuid7"), "{error}");
    assert_eq!(saved(dir.path()), point(70));
    first.declarations = known;
    first.save(point(80)).await.unwrap();
}

/// If two servers' declarations of one name contradict, it is unknown which one the given numbers have, and the folder
/// is not claimed.
#[tokio::test]
async fn a_folder_whose_generators_contradict_is_not_claimed() {
    let dir = TempDir::new().unwrap();
    let lock = dir.path().join("getid-0.lock");
    let mut first = claimed(dir.path()).await;
    first.declarations = declarations(&["both uuid7"]);
    first.save(point(20)).await.unwrap();
    fs::remove_file(&lock).unwrap();
    let record = Record::parse(&fs::read(state_file(dir.path())).unwrap()).unwrap();
    let theirs = Record { declarations: declarations(&["both uuid6"]), ..record };
    fs::write(state_file(dir.path()), theirs.to_text()).unwrap();
    let error = lost(&mut first).await;
    assert!(error.contains("generator 'both' cannot be declared so: its kind was uuid6 and is uuid7 now"), "{error}");
    assert_eq!(saved_names(dir.path()), ["both"]);
}

#[tokio::test]
async fn a_new_folder_with_a_damaged_record_is_not_claimed() {
    let dir = TempDir::new().unwrap();
    let here = dir.path().join("here");
    let mut claim = claimed(&here).await;
    fs::remove_dir_all(&here).unwrap();
    fs::create_dir(&here).unwrap();
    fs::write(state_file(&here), "junk\n").unwrap();
    let error = lost(&mut claim).await;
    assert!(error.contains("cannot use the record") && error.contains("getid state advance"), "{error}");
    assert_eq!(fs::read_to_string(state_file(&here)).unwrap(), "junk\n");
}

/// A found point is kept until a caller has received it, however many saves are dropped.
#[tokio::test]
async fn a_lost_claim_is_reported_although_the_save_that_found_it_was_dropped() {
    for dropped in 1..=3 {
        let dir = TempDir::new().unwrap();
        let mut first = claimed(dir.path()).await;
        fs::remove_file(dir.path().join("getid-0.lock")).unwrap();
        let mut second = open(dir.path());
        second.save(point(50)).await.unwrap();
        drop(second);

        for _ in 0..dropped {
            // The save may be done at the first poll: its answer is ignored.
            let term = first.term;
            let _ = polled(first.claim.save(point(20), Arc::default(), term), 1).await;
        }
        let outcome = first.save(point(30)).await;
        let Err(SaveError::ClaimRetaken { found, term, .. }) = outcome else {
            panic!("{dropped} dropped: {outcome:?}")
        };
        assert_eq!((found, term), (Some(point(50)), first.term));
        assert_eq!(saved(dir.path()), point(50), "nothing was written before a caller received it");
        first.save(point(70)).await.unwrap();
        assert_eq!(saved(dir.path()), point(70));
    }
}

/// Two processes believe that they hold the lock, as on a file system that loses locks: the last writer continues, and
/// the other one writes nothing more.
#[tokio::test]
async fn two_holders_of_one_lock() {
    let dir = TempDir::new().unwrap();
    let mut first = claimed(dir.path()).await;
    let ours = fs::read(state_file(dir.path())).unwrap();
    let owner = Record::parse(&ours).unwrap().owner;
    assert_eq!((owner.term, first.term), (Term(1), Term(1)));
    let lock = fs::read_to_string(dir.path().join("getid-0.lock")).unwrap();
    let file = fs::metadata(dir.path().join("getid-0.lock")).unwrap();
    let (pid, nonce) = (std::process::id(), owner.nonce);
    let expected = format!("pid {pid} term 1 nonce {nonce:016x} device {} inode {} host ", file.dev(), file.ino());
    assert!(lock.starts_with(&expected) && lock.ends_with('\n'), "{lock}");

    // An owner that started at the same moment, and one that started later.
    for other in [Owner { term: Term(1), nonce: owner.nonce ^ 1 }, Owner { term: Term(2), nonce: 5 }] {
        let theirs = Record { owner, ..record(50) };
        let theirs = Record { owner: other, ..theirs }.to_text();
        fs::write(state_file(dir.path()), &theirs).unwrap();
        for _ in 0..2 {
            let error = lost(&mut first).await;
            assert!(error.contains("as can happen on a network file system"), "{error}");
            assert!(error.contains("stop one of the two, then restart this one"), "{error}");
            assert_eq!(fs::read_to_string(state_file(dir.path())).unwrap(), theirs, "another's record was replaced");
        }
    }
    // The other process has written the lock file, and no record so far.
    fs::write(state_file(dir.path()), &ours).unwrap();
    fs::write(dir.path().join("getid-0.lock"), "pid 1 term 2 nonce 0000000000000005\n").unwrap();
    assert!(lost(&mut first).await.contains("has written"));
    fs::write(dir.path().join("getid-0.lock"), lock).unwrap();
    let outcome = first.save(point(55)).await;
    assert!(
        matches!(outcome, Err(SaveError::ClaimRetaken { found: Some(found), .. }) if found == point(10)),
        "{outcome:?}"
    );
    first.save(point(60)).await.unwrap();
    assert!(!dir.path().join("getid-0.state.tmp").exists());
}

/// A record of an earlier life is restored under a running server (from a backup, or by a holder that has lost its
/// lock). No later owner has it, so this life begins again with it.
#[tokio::test]
async fn an_older_record_put_back() {
    let dir = TempDir::new().unwrap();
    let first = claimed(dir.path()).await;
    let old = fs::read(state_file(dir.path())).unwrap();
    drop(first);
    let mut second = open(dir.path());
    assert_eq!(second.term, Term(2));
    second.save(point(90)).await.unwrap();
    fs::write(state_file(dir.path()), old).unwrap();
    let outcome = second.save(point(95)).await;
    let Err(SaveError::ClaimRetaken { found, term, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!((found, term), (Some(point(10)), Term(3)));
    second.save(point(100)).await.unwrap();
    assert_eq!(saved(dir.path()), point(100));
}

/// The writer of a copied record may still run on the original. A lock file contains its own identity, so that a copy
/// of it, or a new one, is detected; but only after the first save.
#[tokio::test]
async fn a_folder_that_is_a_copy() {
    let above = TempDir::new().unwrap();
    let (dir, copy) = (above.path().join("dir"), above.path().join("copy"));
    fs::create_dir(&dir).unwrap();
    let opened = |dir: &Path| open(dir).is_copy;
    assert!(opened(&dir) && opened(&dir), "no process has saved with this claim");
    let claim = claimed(&dir).await;
    // A copy, made while it runs.
    fs::create_dir(&copy).unwrap();
    for name in ["getid-0.state", "getid-0.lock"] {
        fs::copy(dir.join(name), copy.join(name)).unwrap();
    }
    drop(claim);
    assert!(!opened(&dir));
    assert!(opened(&copy) && opened(&copy));
    let mut claim = open(&copy);
    claim.save(point(20)).await.unwrap();
    drop(claim);
    assert!(!opened(&copy));
    fs::remove_file(copy.join("getid-0.lock")).unwrap();
    assert!(opened(&copy));
    // A lock file without its own identity is that of a copy.
    fs::write(dir.join("getid-0.lock"), "pid 1 term 7 nonce 00000000000000aa\n").unwrap();
    assert!(opened(&dir));
    // Moved away and back, it is the original.
    let mut claim = open(&dir);
    claim.save(point(30)).await.unwrap();
    drop(claim);
    fs::rename(&dir, above.path().join("away")).unwrap();
    fs::rename(above.path().join("away"), &dir).unwrap();
    assert!(!opened(&dir));
}

/// A record that is deleted or damaged under a running server has no owner: the server has newer numbers, and writes it
/// again.
#[tokio::test]
async fn a_record_without_an_owner_is_replaced() {
    let dir = TempDir::new().unwrap();
    let mut claim = claimed(dir.path()).await;
    fs::remove_file(state_file(dir.path())).unwrap();
    claim.save(point(20)).await.unwrap();
    fs::write(state_file(dir.path()), "junk\n").unwrap();
    claim.save(point(30)).await.unwrap();
    assert_eq!(saved(dir.path()), point(30));
    // But not a record of another format version.
    let body = "getid state 9\n";
    let newer = format!("{body}checksum crc32 {:08x}\n", crc32fast::hash(body.as_bytes()));
    fs::write(state_file(dir.path()), &newer).unwrap();
    lost(&mut claim).await;
    assert_eq!(fs::read_to_string(state_file(dir.path())).unwrap(), newer);
}

#[tokio::test]
async fn each_life_has_a_later_term_and_a_nonce_of_its_own() {
    let dir = TempDir::new().unwrap();
    let mut nonces = Vec::new();
    for term in 1..=4 {
        let mut claim = open(dir.path());
        assert_eq!(claim.term, Term(term));
        // The third one ends before its first save: the lock file shows it.
        if term != 3 {
            claim.save(point(10 * term)).await.unwrap();
            let envelope = Envelope::parse(&fs::read(state_file(dir.path())).unwrap()).unwrap().envelope;
            assert_eq!((envelope.kind.as_str(), envelope.key.as_str()), ("time", "0"));
            assert_eq!(envelope.owner.term, Term(term));
            nonces.push(envelope.owner.nonce);
        }
    }
    nonces.sort_unstable();
    nonces.dedup();
    assert_eq!(nonces.len(), 3);
}

/// A user who can open the lock file can lock it, and keep a server from starting.
#[tokio::test]
async fn only_the_owner_may_open_the_lock_file() {
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let dir = TempDir::new().unwrap();
    let lock = dir.path().join("getid-0.lock");
    drop(open(dir.path()));
    assert_eq!(mode(&lock), 0o600);
    // As a restored file may be.
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
    let mut claim = open(dir.path());
    assert_eq!(mode(&lock), 0o600);

    // A file that other users may write, they may replace by one that repeats IDs.
    claim.save(point(10)).await.unwrap();
    assert_eq!(mode(&state_file(dir.path())) & 0o022, 0);
    drop(claim);
    fs::set_permissions(state_file(dir.path()), fs::Permissions::from_mode(0o666)).unwrap();
    let mut claim = open(dir.path());
    claim.save(point(20)).await.unwrap();
    assert_eq!(mode(&state_file(dir.path())), 0o644);
}

const FULL_DIR: &str = "GETID_TEST_FULL_DIR";

/// Child process of the next test, with a separate limit.
#[tokio::test]
async fn save_in_a_process_that_may_open_no_more() {
    let Some(dir) = std::env::var_os(FULL_DIR) else { return };
    let limit = nix::sys::resource::Resource::RLIMIT_NOFILE;
    nix::sys::resource::setrlimit(limit, 64, 64).unwrap();
    let mut claim = open(dir.as_ref());
    claim.save(point(10)).await.unwrap();
    let mut full = Vec::new();
    let take_all = |full: &mut Vec<fs::File>| loop {
        match fs::File::open("/dev/null") {
            Ok(file) => full.push(file),
            Err(error) => return error.raw_os_error(),
        }
    };
    assert_eq!(take_all(&mut full), Some(nix::errno::Errno::EMFILE as i32));
    for watermark in 20..40 {
        claim.save(point(watermark)).await.unwrap();
        // A descriptor that the save closes is taken at once.
        take_all(&mut full);
        assert_eq!(saved_by_parts(dir.as_ref(), &mut full), point(watermark));
        take_all(&mut full);
    }
    std::process::exit(42);
}

/// Returns [`saved`] in a process that must close a file first.
fn saved_by_parts(dir: &Path, full: &mut Vec<fs::File>) -> SavePoint {
    full.pop();
    saved(dir)
}

/// A descriptor is reserved for the save: clients that have taken all others do not stop IDs.
#[test]
fn a_save_at_the_limit_of_open_files() {
    let dir = TempDir::new().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "watermark::save_in_a_process_that_may_open_no_more", "--nocapture"])
        .env(FULL_DIR, dir.path())
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].concat();
    assert_eq!(output.status.code(), Some(42), "{}", String::from_utf8_lossy(&printed));
}

/// A small separate file system, unmounted at the end.
struct Mounted(TempDir);

impl Mounted {
    fn new(options: &str) -> Mounted {
        let dir = TempDir::new().unwrap();
        run("mount", &["-t", "tmpfs", "-o", options, "tmpfs"], dir.path());
        Mounted(dir)
    }

    fn remount(&self, options: &str) {
        run("mount", &["-o", &format!("remount,{options}")], self.0.path());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run("umount", &["--lazy"], self.0.path());
    }
}

fn run(command: &str, args: &[&str], dir: &Path) {
    assert!(Command::new(command).args(args).arg(dir).status().unwrap().success(), "{command} {args:?}");
}

#[tokio::test]
#[ignore = "needs root"]
async fn a_full_disk() {
    let disk = Mounted::new("size=64k");
    let dir = disk.0.path();
    let mut claim = claimed(dir).await;
    let filler = dir.join("filler");
    let _ = fs::write(&filler, vec![0; 1 << 20]);
    let error = claim.save(point(20)).await.unwrap_err();
    let temp = dir.join("getid-0.state.tmp");
    assert_eq!(error.to_string(), format!("cannot write {}: No space left on device (os error 28)", temp.display()));
    assert!(!temp.exists());
    assert_eq!(saved(dir), point(10));
    fs::remove_file(filler).unwrap();
    // A program that another test starts at this moment may hold the filler's blocks until it runs.
    let end = Instant::now() + Duration::from_secs(20);
    while let Err(error) = claim.save(point(30)).await {
        assert!(Instant::now() < end, "{error}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(saved(dir), point(30));
}

#[tokio::test]
#[ignore = "needs root"]
async fn a_read_only_disk() {
    let disk = Mounted::new("size=64k");
    let dir = disk.0.path();
    let claim = claimed(dir).await;
    drop(claim);
    disk.remount("ro");
    assert_eq!(
        refusal(dir, identity(0)),
        format!(
            "cannot open the lock file {}: Read-only file system (os error 30); mount a volume there that can be \
             written",
            dir.join("getid-0.lock").display()
        )
    );
    disk.remount("rw");
    assert_eq!(open(dir).point, Some(point(10)));
}

/// The state disk is unmounted: the folder below the mount point is not used in its place.
#[tokio::test]
#[ignore = "needs root"]
async fn a_disk_that_is_unmounted() {
    let below = TempDir::new().unwrap();
    run("mount", &["-t", "tmpfs", "tmpfs"], below.path());
    let mut claim = open(below.path());
    claim.save(point(10)).await.unwrap();
    run("umount", &["--lazy"], below.path());
    assert!(lost(&mut claim).await.contains("moved, or hidden by a mount"));
    assert!(fs::read_dir(below.path()).unwrap().next().is_none());
}
