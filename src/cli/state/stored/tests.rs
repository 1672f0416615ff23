//! Tests of records in a claim store, shown and moved ahead.

use std::sync::Arc;

use super::*;
use crate::cli::claim_store::testing::*;
use getid_config::Config;
use getid_engine::claim::fleet::Holding;
use getid_engine::claim::{Mark, RecordLocation};
use getid_store::records::memory::MemoryStore;

fn run(words: &str, store: &ClaimStore) -> Result<String, String> {
    let args: AdvanceArgs = parse_args(words)?;
    let configured = StateConfig { config: Config::default(), sets_layout: false, environment: Vec::new() };
    advance(&args, store, NOW, &configured).map_err(|error| error.to_string())
}

/// Returns watermark and reference, ms from [`NOW`].
fn point(memory: &Arc<MemoryStore>, server_id: u32) -> (i64, i64) {
    let record = stored_claim(memory, server_id).record;
    let from_now = |tick: getid_core::Tick| tick.unix_ms(record.identity.layout.epoch()) - NOW;
    (from_now(record.point.watermark), from_now(record.point.reference))
}

#[test]
fn advance_moves_free_and_silent_records() {
    let (memory, store) = fleet();
    for claim in [free(0), held(1)] {
        let server_id = claim.record.identity.server_id;
        put(&memory, &claim);
        let text = run(&format!("--server-id {server_id} --to {}", NOW + 9000), &store).unwrap();
        let expected = format!(
            "server-id {server_id}: memory\n  \
               before     2026-11-21T00:00:02.500Z (tick 375177602500), 2.500 s ahead of the clock\n  \
               after      2026-11-21T00:00:09.000Z (tick 375177609000), 9.000 s ahead of the clock\n"
        );
        assert!(text.starts_with(&expected), "{text}");
        assert!(
            text.ends_with("  beat       4294967303: servers that have noted a later beat accept the store again\n")
        );
        assert_eq!(point(&memory, server_id), (9000, 6000));
        let after = stored_claim(&memory, server_id);
        assert!(matches!(&after.holding, Holding::Free(freed) if freed.why == ReleaseReason::Advanced));
        assert_eq!((after.beat, after.timeout_ms), (7 + (1 << 32), claim.timeout_ms));
    }
    // An advance of a record that is far enough still raises its beat, so that servers accept the store.
    run(&format!("--server-id 0 --to {}", NOW + 100), &store).unwrap();
    assert_eq!((point(&memory, 0), stored_claim(&memory, 0).beat), ((9000, 6000), 7 + (2 << 32)));
}

#[test]
fn advance_refuses_held_moved_and_newer_records() {
    let (memory, store) = fleet();
    let beats = BeatThread::of(&memory, held(0));
    let moved = Mark::MovedTo(RecordLocation::of_store("etcd://b/getid"));
    put(&memory, &ClaimRecord { mark: Some(moved), ..free(1) });
    let text = |server_id| memory.get(&Key::of_claim(server_id)).unwrap().text;
    let mut damaged = memory.get(&Key::of_claim(1)).unwrap();
    damaged.text = damaged.text.replace("beat 7", "beat 8");
    memory.set(Key::of_claim(2), Some(damaged));
    let newer =
        getid_store::records::RecordRow { text: sealed_newer(&text(1)), ..memory.get(&Key::of_claim(1)).unwrap() };
    memory.set(Key::of_claim(3), Some(newer));
    for (words, expected) in [
        ("--server-id 9 --to now", "server-id 9 does not fit id-range 2: at most 3"),
        (
            "--server-id 0 --to now",
            "server-id 0 is held by host-a (10.1.0.7:7890, a.example), which wrote it just now, so it must be stopped",
        ),
        (
            "--server-id 1 --to now",
            "memory: server-id 1: it was moved to etcd://b/getid, and no server may start with it",
        ),
        (
            "--server-id 2 --to now",
            "memory: server-id 2: it was moved to etcd://b/getid, and no server may start with it",
        ),
    ] {
        let refused = run(words, &store).unwrap_err();
        assert!(refused.starts_with(expected), "{words}: {refused}");
    }
    drop(beats);
    let refused = run("--server-id 3 --to now", &store).unwrap_err();
    assert!(refused.ends_with("reads version 4; use the getid that wrote it"), "{refused}");
    for (words, expected) in [
        ("--server-id 0 --to now --epoch 1420041600001", "--epoch is 1420041600001, and this fleet"),
        (
            "--server-id 0 --to now --id-range 3 --shard-range 8",
            "--id-range is 3, and this fleet's id-range is 2: omit",
        ),
        (
            "--server-id 0 --to 2027-11-21",
            "the record would be at 2027-11-21T00:00:00.000Z, 365 days ahead of the clock",
        ),
    ] {
        let refused = run(words, &store).unwrap_err();
        assert!(refused.starts_with(expected), "{words}: {refused}");
    }
    assert_eq!(point(&memory, 0), (2500, 0));
}

/// A store has lost a record, whose holder may still give IDs up to its watermark.
#[test]
fn advance_recreates_a_lost_record() {
    let (memory, store) = fleet();
    let text = run(&format!("--server-id 1 --to {}", NOW + 9000), &store).unwrap();
    assert!(text.starts_with("server-id 1: memory\n  before     no record\n"), "{text}");
    let after = stored_claim(&memory, 1);
    assert!(matches!(&after.holding, Holding::Free(freed) if freed.why == ReleaseReason::Advanced));
    assert_eq!((point(&memory, 1), after.beat), ((9000, 6000), 1 + (1 << 32)));
    let text = run("--server-id 2 --to now", &store).unwrap();
    assert!(text.contains("servers that have noted a later beat accept the store again"), "{text}");
    assert_eq!(point(&memory, 2), (3201, 201), "past B and the room of a save");
    let refused = run("--server-id 0 --to now --id-range 3 --shard-range 8", &store).unwrap_err();
    assert!(refused.starts_with("--id-range is 3, and this fleet's id-range is 2: omit"), "{refused}");
    let (memory, store) = empty();
    let refused = run("--server-id 0 --to now", &store).unwrap_err();
    assert!(refused.starts_with("memory: there is no fleet record here, and none of server-id 0;"), "{refused}");
    assert!(memory.get(&Key::of_claim(0)).is_none());
}

/// Returns the text as a getid of the next format would write it, without the mark, which this version cannot find in
/// it.
fn sealed_newer(text: &str) -> String {
    let body = text.replace("getid state 4", "getid state 5").replace("mark moved-to etcd://b/getid\n", "");
    let body = &body[..body.find("checksum").unwrap()];
    format!("{body}checksum crc32 {:08x}\n", crc32fast::hash(body.as_bytes()))
}

/// A damaged record is replaced once it is silent, past all of its readable lines, and a copy is kept.
#[test]
fn advance_replaces_a_damaged_record() {
    let (memory, store) = fleet();
    put(&memory, &held(1));
    let mut row = memory.get(&Key::of_claim(1)).unwrap();
    row.text = row.text.replace("term 0", "term ?").replace("timeout-ms 20\n", "timeout-ms 30\n");
    memory.set(Key::of_claim(1), Some(row.clone()));
    let configured = StateConfig {
        config: Config {
            claim: getid_config::ClaimConfig { timeout_ms: 20, ..Config::default().claim },
            ..Config::default()
        },
        sets_layout: false,
        environment: Vec::new(),
    };
    let args: AdvanceArgs = parse_args(&format!("--server-id 1 --to {}", NOW + 600)).unwrap();
    let text = advance(&args, &store, NOW, &configured).unwrap();
    assert!(text.contains("  before     an unusable record: its checksum is"), "{text}");
    let copy = text.lines().find_map(|line| line.strip_prefix("  copy       ")).expect("a copy").to_owned();
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), row.text);
    std::fs::remove_file(copy).unwrap();
    let after = stored_claim(&memory, 1);
    // Past B and the room of a save, as for every record whose numbers are uncertain.
    assert_eq!((point(&memory, 1), after.timeout_ms, after.beat), ((3201, 201), 30, 7 + (1 << 32)));
}

#[test]
fn show_prints_a_stored_record_as_a_claim() {
    let (memory, store) = fleet();
    put(&memory, &held(1));
    let CommandOutput { text, good } = show(&store, Some(1), false, NOW).unwrap();
    assert!(good && text.starts_with("server-id 1: memory\n  held by    host-a"), "{text}");
    let CommandOutput { text, .. } = show(&store, None, true, NOW).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json[0]["server_id"], &json[0]["holder"]["name"]), (&1.into(), &"host-a".into()));
    assert_eq!(
        show(&store, Some(2), false, NOW).err().unwrap().to_string(),
        "memory: there is no record of server-id 2"
    );
    assert!(!show(&store, Some(2), true, NOW).unwrap().good);
}

/// Returns a fleet with another layout than the default: five bits of server-id, and another epoch.
fn other_fleet() -> (Arc<MemoryStore>, ClaimStore, getid_core::Layout) {
    let (memory, store) = empty();
    let layout =
        getid_core::Layout::new(getid_core::Epoch::from_unix_ms(1_500_000_000_000).unwrap(), 5, 6, 10).unwrap();
    let fleet = ClusterRecord::new(layout, getid_engine::claim::fleet::IdRanges::default());
    memory.set(Key::of_cluster(), Some(fleet.to_row(new_stamp(1)).unwrap()));
    (memory, store, layout)
}

/// Without layout flags the fleet's layout counts, for a lost record, a damaged one, and a row that is no record.
#[test]
fn the_fleet_sets_the_layout_of_an_unreadable_record() {
    let (memory, store, layout) = other_fleet();
    let damaged = RecordRow { stamp: new_stamp(7), text: "getid state 4\ntimeout-ms 20\n".to_owned() };
    memory.set(Key::of_claim(20), Some(damaged));
    memory.set_bad(Key::of_claim(30), bad_row(30, "watermark 5"));
    let id = layout.epoch().tick_at(NOW).unwrap().0 << 21;
    for server_id in [10, 20, 30] {
        let text = run(&format!("--server-id {server_id} --past-id {id}"), &store).unwrap();
        assert_eq!(take_copy(&text).is_some(), server_id > 10, "{text}");
        assert_eq!(stored_claim(&memory, server_id).record.identity.layout, layout);
        assert!(point(&memory, server_id).0 > 3000, "past what was under way");
    }
    for (words, expected) in [
        ("--id-range 2 --shard-range 9", "--id-range is 2, and this fleet's id-range is 5: omit --id-range"),
        ("--epoch 0", "--epoch is 0, and this fleet's id-epoch is 1500000000000: omit --epoch"),
    ] {
        let refused = run(&format!("--server-id 1 --past-id {id} {words}"), &store).unwrap_err();
        assert!(refused.starts_with(expected) && !refused.contains("claim-store"), "{refused}");
    }
}

#[test]
fn advance_overwrites_a_row_that_is_no_record() {
    let (memory, store) = fleet();
    put(&memory, &held(0));
    let text = memory.get(&Key::of_claim(0)).unwrap().text;
    memory.set_bad(Key::of_claim(0), bad_row(0, &text));
    let expected = "memory: cannot use the record of server-id 0: the row 'claim/0' has the beat -7; to continue, run `getid \
                    state advance --store memory --server-id 0 --past-id ID`";
    assert!(store.claim(0).unwrap_err().to_string().starts_with(expected), "{:?}", store.claim(0));
    let shown = run("--server-id 0 --to now", &store).unwrap();
    assert!(shown.contains("before     an unusable record: the row 'claim/0' has the beat -7\n"), "{shown}");
    assert!(
        shown.contains("  salvaged   watermark 2026-11-21T00:00:02.500Z"),
        "its readable lines still count: {shown}"
    );
    let after = stored_claim(&memory, 0);
    assert!(after.holder().is_none() && after.beat >= ADVANCE_BEATS);
    assert_eq!(take_copy(&shown), Some(text));
    // A record that was moved is not taken back by an advance.
    let moved = ClaimRecord { mark: Some(Mark::MovedTo(RecordLocation::of_store("etcd://b/getid"))), ..free(1) };
    let text = moved.to_row(1).unwrap().text;
    memory.set_bad(Key::of_claim(1), bad_row(1, &text));
    let refused = run("--server-id 1 --to now", &store).unwrap_err();
    assert!(refused.contains("server-id 1: it was moved to etcd://b/getid"), "{refused}");
}

/// Returns the kept copy, and deletes its file.
fn take_copy(shown: &str) -> Option<String> {
    let path = shown.lines().find_map(|line| line.strip_prefix("  copy       "))?;
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::remove_file(path).unwrap();
    Some(text)
}

fn bad_row(server_id: u32, text: &str) -> DamagedRow {
    let what = format!("the row 'claim/{server_id}' has the beat -7");
    DamagedRow {
        key: format!("claim/{server_id}"),
        what,
        writer: String::new(),
        beat: -7,
        text: text.as_bytes().to_vec(),
    }
}
