//! Tests of the claim tools, over a store in memory.

use super::change::{ClaimReleaseArgs, ClaimTakeArgs, confirm, release, take};
use super::show::{ClaimShowArgs, show};
use crate::cli::claim_store::ClaimStore;
use crate::cli::claim_store::testing::*;
use getid_engine::claim::fleet::{ClaimRecord, Holding, ReleaseReason};
use getid_engine::claim::{Mark, RecordLocation};
use getid_store::records::Key;

fn run_show(words: &str, store: &ClaimStore) -> Result<String, String> {
    let args: ClaimShowArgs = parse_args(words)?;
    output_of(|out| show(&args, store, NOW, out))
}

fn run_release(words: &str, store: &ClaimStore) -> Result<String, String> {
    let args: ClaimReleaseArgs = parse_args(words)?;
    output_of(|out| release(&args, store, NOW, out))
}

fn run_take(words: &str, store: &ClaimStore) -> Result<String, String> {
    let args: ClaimTakeArgs = parse_args(words)?;
    output_of(|out| take(&args, store, NOW, out))
}

#[track_caller]
fn freed_by(claim: &ClaimRecord) -> (ReleaseReason, &str) {
    match &claim.holding {
        Holding::Free(freed) => (freed.why, freed.by.as_str()),
        Holding::Held(holder) => panic!("held by {}", holder.name),
    }
}

#[test]
fn show_prints_one_claim() {
    let (memory, store) = fleet();
    put(&memory, &held(0));
    let expected = "server-id 0: memory\n  \
           held by    host-a (10.1.0.7:7890, a.example) since 2026-11-20T23:59:00.000Z, instance \
           00000000000000000000000000001234\n  \
           beat       7, time-out 20 ms\n  \
           watched    silent for 20 ms: a standby may take it\n  \
           watermark  2026-11-21T00:00:02.500Z (tick 375177602500), 2.500 s ahead of the clock\n  \
           reference  2026-11-21T00:00:00.000Z (tick 375177600000), now\n  \
           ids        given: below 786804459438080000; after a restart: none below it\n  \
           layout     id-range 2 shard-range 9 random-range 10, epoch 1420041600000 (2014-12-31T16:00:00.000Z)\n  \
           borrow     IDs were at most 3000 ms ahead of the reference\n  \
           term       0, the number of this life\n";
    assert_eq!(run_show("0 --watch", &store), Ok(expected.to_owned()));
    let without = expected.replace("  watched    silent for 20 ms: a standby may take it\n", "");
    assert_eq!(run_show("", &store), Ok(without));
    let beats = BeatThread::of(&memory, held(0));
    let text = run_show("0 --watch", &store).unwrap();
    assert!(text.contains("\n  watched    it beats\n"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&run_show("0 --watch --json", &store).unwrap()).unwrap();
    drop(beats);
    assert_eq!((&json[0]["silent"], &json[0]["holder"]["name"]), (&false.into(), &"host-a".into()));
    assert_eq!((&json[0]["watermark_ahead_ms"], &json[0]["ids_below"]), (&2500.into(), &"786804459438080000".into()));
    assert_eq!(run_show("9", &store), Err("memory: there is no record of server-id 9".to_owned()));
}

/// Claims are shown whether held or free, and control characters in names are escaped.
#[test]
fn show_prints_all_claims_in_order() {
    let (memory, store) = fleet();
    let mut named = held(2);
    let Holding::Held(holder) = &mut named.holding else { panic!() };
    holder.name = "a\u{1b}[2J\n".to_owned();
    put(&memory, &named);
    put(&memory, &free(1));
    let text = run_show("", &store).unwrap();
    let heads: Vec<_> = text.lines().filter(|line| line.contains("server-id") || line.contains("held by")).collect();
    assert_eq!(
        heads[..2],
        ["server-id 1: memory", "  held by    no server since 2026-11-21T00:00:00.000Z: no server ever held it"]
    );
    assert!(heads[3].starts_with("  held by    a\\u{1b}[2J\\n (10.1.0.7:7890"), "{}", heads[3]);

    let moved = Mark::MovedTo(RecordLocation::of_store("etcd://b/getid"));
    put(&memory, &ClaimRecord { mark: Some(moved), ..free(0) });
    let mut row = memory.get(&Key::of_claim(1)).unwrap();
    row.text.insert(0, 'x');
    memory.set(Key::of_claim(1), Some(row));
    let text = run_show("", &store).unwrap_err();
    assert!(text.contains("  mark       it was moved to etcd://b/getid, and no server"), "{text}");
    assert!(text.contains("--server-id 0 --from etcd://b/getid --to memory`\n"), "{text}");
    assert!(
        text.contains("  unusable   memory: cannot use the record of server-id 1: it starts with 'xgetid"),
        "{text}"
    );
    assert!(text.ends_with("memory: some of these records are unusable; see above"), "{text}");
}

#[test]
fn release_ends_only_a_silent_claim() {
    let (memory, store) = fleet();
    let none = "memory: there is no record of server-id 0. If the server-id never gave an ID, run `getid \
                cluster init --new 0`; if it has a state file, run `getid state move`";
    assert_eq!(run_release("0", &store), Err(none.to_owned()));
    let beats = BeatThread::of(&memory, held(0));
    let refused = run_release("0", &store).unwrap_err();
    assert_eq!(
        refused,
        "server-id 0 is held by host-a (10.1.0.7:7890, a.example), which wrote it just now, so it is not released: stop \
         that server, which releases it; or run `getid claim take 0`, which prints the risks"
    );
    drop(beats);
    let before = stored_claim(&memory, 0);
    let text = run_release("0", &store).unwrap();
    let expected = "server-id 0: memory\n  released   host-a (10.1.0.7:7890, a.example) was silent for 20 ms; any server may take \
                it\n";
    assert_eq!(text, expected);
    let after = stored_claim(&memory, 0);
    assert_eq!(freed_by(&after), (ReleaseReason::Operator, "host-a"));
    assert_eq!((after.beat, &after.record), (before.beat + 1, &before.record), "nothing else has changed");
    let text = run_release("0", &store).unwrap();
    assert!(text.ends_with("  free       already: an operator took it from host-a\n"), "{text}");
    assert_eq!(stored_claim(&memory, 0), after);
}

#[test]
fn a_holder_that_beats_loses_its_claim_to_take() {
    let (memory, store) = fleet();
    let beats = BeatThread::of(&memory, held(0));
    let text = run_take("0 --yes", &store).unwrap();
    let expected = "server-id 0: memory\n  taken      from host-a (10.1.0.7:7890, a.example); a standby takes it at \
                once\n";
    assert_eq!(text, expected);
    drop(beats);
    assert_eq!(freed_by(&stored_claim(&memory, 0)), (ReleaseReason::Operator, "host-a"), "its next beat was refused");
    let refused = run_take("0 --yes", &store).unwrap_err();
    assert_eq!(refused, "server-id 0 has no holder: any standby takes it at once");
}

/// The risks are shown before the question, and without a terminal there is no question.
#[test]
fn take_asks_for_confirmation() {
    let risks = super::change::risks(3, &held(3));
    assert!(
        risks.contains("No ID is given twice") && risks.contains("until its next beat, for 15 ms at most"),
        "{risks}"
    );
    let confirmed = |terminal, answer: &str| output_of(|_| confirm(&risks, terminal, &mut answer.as_bytes()));
    assert_eq!(confirmed(true, "yes\n"), Ok(String::new()));
    for answer in ["", "no\n", "y\n", "yes, please\n"] {
        assert_eq!(confirmed(true, answer), Err("nothing was changed".to_owned()), "{answer}");
    }
    let refused = confirmed(false, "yes\n").unwrap_err();
    assert!(refused.starts_with(&risks) && refused.ends_with("add --yes to confirm"), "{refused}");
}

/// Neither tool touches a record that was moved or cannot be read.
#[test]
fn marked_and_damaged_records_are_unchanged() {
    let (memory, store) = fleet();
    let moving = Mark::MovingTo(RecordLocation::of_store("etcd://b/getid"));
    put(&memory, &ClaimRecord { mark: Some(moving), ..free(0) });
    put(&memory, &held(1));
    let mut row = memory.get(&Key::of_claim(1)).unwrap();
    row.text = row.text.replace("beat 7", "beat 8");
    memory.set(Key::of_claim(1), Some(row));
    for (server_id, expected) in [
        (
            0,
            "memory: server-id 0: it is being moved to etcd://b/getid, and no server may start with it here. To continue, finish \
             the move: run `getid state move --server-id 0 --from memory --to etcd://b/getid` once more",
        ),
        (1, "memory: cannot use the record of server-id 1: its checksum is"),
    ] {
        let before = memory.get(&Key::of_claim(server_id));
        for refused in [run_release(&server_id.to_string(), &store), run_take(&format!("{server_id} --yes"), &store)] {
            assert!(refused.as_ref().unwrap_err().starts_with(expected), "{refused:?}");
        }
        assert_eq!(memory.get(&Key::of_claim(server_id)), before);
    }
}
