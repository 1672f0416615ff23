//! INFO's lines about stores and the busiest sequences, one line each, of bounded length.
//!
//! These lines contain texts of other systems: addresses, versions, errors of a database. Each text is cut, and its
//! control characters become blanks.

use getid_core::server::SequenceStatus;
use getid_core::server::ledger::LedgerCounts;

use super::{Facts, MetricValue};
use getid_engine::generators::sequence::StoreStatus;
use getid_text::printable::is_unprintable;

/// Most bytes of an address, or of a database's error.
const TEXT_BYTES_MAX: usize = 256;

/// Returns a line for each store, by its number.
pub(super) fn store_lines(facts: &Facts<'_>) -> MetricValue {
    let stores = facts.sequences.iter().flat_map(|own| &own.stores).enumerate();
    MetricValue::Family(stores.map(|(number, store)| (number.to_string(), store_line(store))).collect())
}

fn store_line(store: &StoreStatus) -> MetricValue {
    let parts = vec![
        ("address", plain(&store.shown).into()),
        ("state", store.state().into()),
        ("for_s", (store.for_ms / 1000).into()),
        ("database", plain(&store.product).into()),
        ("statements", store.statements.into()),
        ("errors", store.errors.into()),
        ("servers", store.servers.into()),
        ("waits_for", store.awaited.len().into()),
        ("unanswered", store.abandoned.into()),
        ("slowest_ms", store.slowest_ms.into()),
        ("reserved", store.reserved.into()),
        ("reason", store.reason.as_deref().map(plain).into()),
    ];
    MetricValue::Parts(parts.into_iter().filter(|(_, value)| *value != MetricValue::Absent).collect())
}

/// Returns a line for each of the busiest sequences, by name.
pub(super) fn busiest_lines(facts: &Facts<'_>) -> MetricValue {
    let Some(own) = facts.sequences.as_ref() else { return MetricValue::Absent };
    let lines = own.busiest.iter().map(|(name, status)| (name.clone(), sequence_line(status, own.clock_ms)));
    MetricValue::Family(lines.collect())
}

fn sequence_line(status: &SequenceStatus, clock_ms: u64) -> MetricValue {
    let [per_10_s, per_5_min, per_30_min] = status.per_s.map(rate);
    let parts = vec![
        ("given", status.used.into()),
        ("last", status.last_given.into()),
        ("until", status.reserved_until.into()),
        ("left", (!status.is_uncached).then_some(status.left).into()),
        ("max_used", status.used_share.map(share).into()),
        ("rate_10s", per_10_s),
        ("rate_5min", per_5_min),
        ("rate_30min", per_30_min),
        ("segment", status.segment_values.into()),
        ("fetched_ms_ago", status.fetched_ms.map(|at_ms| clock_ms.saturating_sub(at_ms)).into()),
        ("fetch_ms", status.fetch_took_ms.into()),
        ("waited", status.waits.into()),
        ("waiting", status.waiting.into()),
        ("errors", status.errors.into()),
    ];
    MetricValue::Parts(parts.into_iter().filter(|(_, value)| *value != MetricValue::Absent).collect())
}

/// Returns a line for each ledger, by the name of its generator.
pub(super) fn ledger_lines(facts: &Facts<'_>) -> MetricValue {
    MetricValue::Family(facts.ledgers.iter().map(|(name, counts)| (name.clone(), ledger_line(*counts))).collect())
}

fn ledger_line(counts: LedgerCounts) -> MetricValue {
    MetricValue::Parts(vec![
        ("reserved", counts.reserved.into()),
        ("overdue", counts.overdue.into()),
        ("released", counts.released.into()),
        ("unclear", counts.unclear.into()),
        ("requests", counts.requests.into()),
        ("requests_released", counts.released_requests.into()),
    ])
}

/// Converts a share in ten-thousandths to a number from 0 to 1.
pub(super) fn share(ten_thousandths: u16) -> MetricValue {
    MetricValue::Decimal { units: ten_thousandths.into(), decimals: 4 }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative, and casts saturate"
)]
fn rate(per_s: f64) -> MetricValue {
    MetricValue::hundredths((per_s * 100.0).round() as u64)
}

/// Returns the start of a text, with blanks for control characters, so that no escape lengthens it.
fn plain(text: &str) -> String {
    let text = text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or(text);
    text.replace(is_unprintable, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> SequenceStatus {
        SequenceStatus {
            last_given: Some(120),
            reserved_until: Some(200),
            left: 80,
            asked: 100,
            used: 120,
            is_uncached: false,
            used_share: Some(8125),
            per_s: [12.345, 0.5, 0.0],
            segment_values: 100,
            fetched_ms: Some(900),
            fetch_took_ms: 3,
            waits: 2,
            waiting: 1,
            errors: 4,
        }
    }

    #[test]
    fn the_line_of_a_store_has_its_state_and_error() {
        let rest = "database=MariaDB 10.11,statements=12,errors=1,servers=2,waits_for=0,unanswered=0,slowest_ms=5,reserved=1200";
        let up = format!("address=mysql://shop:***@db/ids,state=up,for_s=61,{rest}");
        assert_eq!(store_line(&StoreStatus::of_tests()).to_string(), up);
        let reason = Some("db: Access denied, twice\r\n# Server".to_owned());
        let down = StoreStatus { is_up: Some(false), reason, ..StoreStatus::of_tests() };
        let expected = format!("{},reason=db: Access denied; twice  # Server", up.replace("=up", "=down"));
        assert_eq!(store_line(&down).to_string(), expected);
        let held = StoreStatus { is_held: true, ..StoreStatus::of_tests() };
        assert_eq!(store_line(&held).to_string(), up.replace("=up", "=held"));
        let opening = StoreStatus { is_up: None, ..StoreStatus::of_tests() };
        assert_eq!(store_line(&opening).to_string(), up.replace("=up", "=opening"));
    }

    #[test]
    fn the_line_of_a_sequence_has_its_position() {
        let rest = "rate_10s=12.35,rate_5min=0.50,rate_30min=0.00,segment=100";
        let ends = "fetch_ms=3,waited=2,waiting=1,errors=4";
        assert_eq!(
            sequence_line(&status(), 1000).to_string(),
            format!("given=120,last=120,until=200,left=80,max_used=0.8125,{rest},fetched_ms_ago=100,{ends}")
        );
        let (last_given, reserved_until, fetched_ms, used_share) = (None, None, None, None);
        let new = SequenceStatus { last_given, reserved_until, fetched_ms, used_share, ..status() };
        assert_eq!(sequence_line(&new, 1000).to_string(), format!("given=120,left=80,{rest},{ends}"));
        let uncached = SequenceStatus { is_uncached: true, left: 0, ..new };
        assert_eq!(sequence_line(&uncached, 1000).to_string(), format!("given=120,{rest},{ends}"));
    }

    #[test]
    fn the_line_of_a_ledger_has_its_open_numbers() {
        let counts =
            LedgerCounts { reserved: 3, overdue: 1, released: 2, unclear: 4, requests: 9, released_requests: 5 };
        let expected = "reserved=3,overdue=1,released=2,unclear=4,requests=9,requests_released=5";
        assert_eq!(ledger_line(counts).to_string(), expected);
    }

    #[test]
    fn lines_are_no_longer_than_documented() {
        let long = Some("ü,\n".repeat(10_000));
        let store =
            StoreStatus { is_up: Some(false), shown: "x".repeat(10_000), reason: long, ..StoreStatus::of_tests() };
        let store = StoreStatus { statements: u64::MAX, errors: u64::MAX, reserved: u64::MAX, ..store };
        let line = store_line(&store).to_string();
        assert!(line.len() <= 800 && !line.contains('\n'), "{}: {line}", line.len());
        let most = SequenceStatus {
            last_given: Some(i64::MAX),
            used: u64::MAX,
            reserved_until: Some(i64::MAX),
            left: u64::MAX,
            per_s: [f64::MAX; 3],
            segment_values: u32::MAX,
            fetched_ms: Some(0),
            fetch_took_ms: u32::MAX,
            waits: u32::MAX,
            waiting: usize::MAX,
            errors: u32::MAX,
            ..status()
        };
        let line = sequence_line(&most, u64::MAX).to_string();
        assert!(line.len() <= 400, "{}: {line}", line.len());
    }
}
