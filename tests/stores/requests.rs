//! Request keys in every store: a repetition of a claim gets the reply of the first one, and ended ones are removed.

use std::collections::HashSet;
use std::sync::Barrier;

use getid_core::server::beat::ServerState;
use getid_core::server::request_key::{
    ClaimVerdict, Fingerprint, KEPT_AFTER_MS, RequestReply, RequestRow, RequestScope,
};
use getid_store::sql::{ClaimBatch, REQUESTS_MAX, StoreError};

use crate::beats::{credentials, joins};
use crate::db::{Db, StoreFixture};

const NOW: i64 = 1_800_000_000_000;

fn scope(request: &str) -> RequestScope {
    RequestScope::new("shop", "orders", request)
}

fn row(request: &str, id: u64) -> RequestRow {
    RequestRow {
        scope: scope(request),
        fingerprint: Fingerprint::new(1, "", &[]),
        reply: RequestReply::Integers(vec![id]).to_column(),
        made_unix_ms: NOW,
        until_unix_ms: NOW + 60_000,
    }
}

/// Claims requests, and returns the reply of each; an error is its name.
fn claim(db: &mut Db, rows: &[RequestRow]) -> Vec<String> {
    let word = |verdict: ClaimVerdict| match verdict {
        ClaimVerdict::Made { row } => row.reply,
        ClaimVerdict::Found { reply } => reply,
        ClaimVerdict::OtherArguments => "other arguments".to_owned(),
        ClaimVerdict::TooMany { max } => format!("more than {max}"),
    };
    let claimed = db.claim_requests(None, &ClaimBatch { rows: rows.to_vec(), rows_max: 400 }).unwrap();
    claimed.into_iter().map(|result| word(result.verdict)).collect()
}

pub(crate) fn a_request_keeps_its_first_reply(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    assert_eq!(db.find_requests(&[scope("a")]), [None]);
    let (first, second) = (row("a", 1), row("a", 2));
    assert_eq!(claim(&mut db, std::slice::from_ref(&first)), [&*first.reply]);
    assert_eq!(claim(&mut db, std::slice::from_ref(&second)), [&*first.reply]);
    let mut other = Db::open_second(fixture);
    let client = other.as_mut().unwrap_or(&mut db);
    assert_eq!(claim(client, std::slice::from_ref(&second)), [&*first.reply]);
    let more = RequestRow { fingerprint: Fingerprint::new(2, "", &[]), ..second };
    assert_eq!(claim(client, &[more]), ["other arguments"]);
    let found = client.find_requests(&[scope("b"), scope("a")]);
    let kept = found[1].as_ref().unwrap();
    assert_eq!((&found[0], &kept.reply, kept.fingerprint.as_str()), (&None, &first.reply, "1"));
    assert!(kept.until_unix_ms >= first.until_unix_ms, "{kept:?}");
    assert_eq!(client.count_requests(), [("orders".to_owned(), 1)]);
}

/// Scopes are compared byte for byte, and any text of a request, a reply or a user is kept as it is.
pub(crate) fn requests_are_compared_byte_for_byte(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let texts = ["r", "R", "r ", " r", "\u{e9}", "e\u{301}", "it's", "a\\b", "%", "\u{1f600}", "x' OR '1'='1", "--"];
    let mut rows: Vec<RequestRow> = (1..).zip(texts).map(|(id, text)| row(text, id)).collect();
    for (user, name) in [("shop ", "orders"), ("shop", "Orders"), ("'", "-")] {
        rows.push(RequestRow { scope: RequestScope::new(user, name, "r"), ..row("r", 100 + rows.len() as u64) });
    }
    let long = RequestReply::Texts((0..100).map(|n| format!("{n:0>100}'\\")).collect()).to_column();
    rows.push(RequestRow { reply: long, ..row("long", 0) });
    let replies: Vec<&str> = rows.iter().map(|row| &*row.reply).collect();
    assert_eq!(claim(&mut db, &rows), replies);
    let scopes: Vec<RequestScope> = rows.iter().map(|row| row.scope.clone()).collect();
    let found: Vec<String> = db.find_requests(&scopes).into_iter().map(|row| row.unwrap().reply).collect();
    assert_eq!(found, replies);
    assert_eq!(db.find_requests(&[scope("e")]), [None]);
}

/// A batch is one transaction, in which a later claim of a request finds the earlier one; the maximum is exact.
pub(crate) fn a_batch_of_claims_is_counted(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    let batch: Vec<RequestRow> = (0..REQUESTS_MAX as u64).map(|n| row(&format!("r{}", n / 2), n)).collect();
    let claimed = claim(&mut db, &batch);
    let first_of = |n: usize| batch[n / 2 * 2].reply.clone();
    assert!(claimed.iter().enumerate().all(|(n, reply)| *reply == first_of(n)));
    let half = REQUESTS_MAX as u64 / 2;
    assert_eq!(db.count_requests(), [("orders".to_owned(), half)]);
    let full = ClaimBatch { rows: vec![row("r0", 9), row("new", 9), row("newer", 9)], rows_max: half + 1 };
    let claimed = db.claim_requests(None, &full).unwrap();
    let verdicts: Vec<_> = claimed.iter().map(|result| (&result.verdict, result.requests)).collect();
    assert!(matches!(verdicts[0], (ClaimVerdict::Found { .. }, requests) if requests == half), "{verdicts:?}");
    assert!(matches!(verdicts[1], (ClaimVerdict::Made { .. }, requests) if requests == half + 1), "{verdicts:?}");
    assert_eq!(verdicts[2], (&ClaimVerdict::TooMany { max: half + 1 }, half + 1));
    assert_eq!(db.find_requests(&[scope("newer")]), [None]);
}

pub(crate) fn ended_requests_are_removed_by_both_clocks(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    assert_eq!(db.remove_requests(i64::MAX), 0);
    claim(
        &mut db,
        &[row("a", 1), row("b", 2), RequestRow { scope: RequestScope::new("desk", "-", "c"), ..row("c", 3) }],
    );
    let far = 4_000_000_000_000;
    // Of both clocks the one that is behind counts: first the store's, then the server's.
    assert_eq!(db.remove_requests(far), 0);
    drop(db);
    fixture.sql(&format!("UPDATE getid_request SET kept_until = {NOW} WHERE request <> 'b';")).unwrap();
    let mut db = Db::open(fixture);
    assert_eq!(db.remove_requests(NOW + KEPT_AFTER_MS), 0);
    let removed = db.remove_requests(NOW + KEPT_AFTER_MS + 1);
    let store_is_later = db.info().unix_ms > NOW + KEPT_AFTER_MS;
    assert_eq!(removed, if store_is_later { 2 } else { 0 });
    if store_is_later {
        let found = db.find_requests(&[scope("a"), scope("b"), RequestScope::new("desk", "-", "c")]);
        assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(db.count_requests(), [("orders".to_owned(), 1)]);
        assert_eq!(claim(&mut db, &[row("a", 9)]), [&*row("a", 9).reply]);
    }
}

/// Of two servers that claim the same requests at the same time, one is first for each, and the other gets its reply.
pub(crate) fn one_reply_for_a_request_of_two_servers(fixture: &dyn StoreFixture) {
    const ROUNDS: u64 = 30;
    let start = Barrier::new(2);
    let claims = |server: u64| {
        let mut db = Db::open(fixture);
        let start = &start;
        (0..ROUNDS)
            .map(|round| {
                let rows: Vec<_> =
                    (0..8).map(|n| row(&format!("{round}-{n}"), server * 10_000 + round * 8 + n)).collect();
                start.wait();
                claim(&mut db, &rows)
            })
            .collect::<Vec<_>>()
    };
    let [one, other] = std::thread::scope(|scope| {
        [1, 2].map(|server| scope.spawn(move || claims(server))).map(|claimed| claimed.join().unwrap())
    });
    assert_eq!(one, other);
    let replies: HashSet<&String> = one.iter().flatten().collect();
    assert_eq!(replies.len() as u64, ROUNDS * 8);
    assert_eq!(Db::open(fixture).count_requests(), [("orders".to_owned(), ROUNDS * 8)]);
}

/// A claim needs the server's row: nothing is claimed in a store that may have lost writes.
pub(crate) fn a_claim_needs_the_row_of_its_server(fixture: &dyn StoreFixture) {
    let mut db = Db::open(fixture);
    joins(&mut db, 1, ServerState::Live);
    let ask = ClaimBatch { rows: vec![row("a", 1)], rows_max: 9 };
    assert_eq!(db.claim_requests(Some(credentials(1, 1)), &ask).unwrap().len(), 1);
    let ask = ClaimBatch { rows: vec![row("b", 1)], rows_max: 9 };
    let refused = db.claim_requests(Some(credentials(1, 9)), &ask);
    assert!(matches!(refused, Err(StoreError::Unknown(_))), "{refused:?}");
    drop(db);
    assert_eq!(Db::open(fixture).find_requests(&[scope("b")]), [None]);
}

/// A user with the documented rights can claim, find and remove requests.
#[track_caller]
pub(crate) fn rights_suffice_for_requests(db: &mut Db) {
    let kept = row("kept", 1);
    assert_eq!(claim(db, std::slice::from_ref(&kept)), [&*kept.reply]);
    let found = db.find_requests(&[scope("kept")]);
    assert_eq!(found[0].as_ref().map(|row| &row.reply), Some(&kept.reply));
    db.remove_requests(NOW);
    assert_eq!(db.count_requests(), [("orders".to_owned(), 1)]);
}
