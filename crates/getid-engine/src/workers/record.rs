//! Records of pools and leases, as text in the envelope that all records have. Pure.
//!
//! Only the first half of a token's SHA-256 is stored, so a reader of the store cannot renew a lease.

use getid_core::server::worker::{HOLDER_NAME_BYTES_MAX, Lease, LeaseState, PoolState, TokenDigest};

use crate::claim::envelope::Envelope;
use crate::claim::{Owner, RecordError, Term};
use getid_store::records::Stamp;

const KIND_POOL: &str = "worker-pool";
const KIND_LEASE: &str = "worker-lease";

/// Text of a value that is absent.
const NONE: &str = "-";

/// Stored state of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PoolRecord {
    /// Opening time of the pool, and longest reach of its leases.
    pub(super) pool: PoolState,
    /// R at the time of the write, Unix ms. Informational only.
    pub(super) written_ms: u64,
}

/// Returns the text of a pool's record.
pub(super) fn pool_text(name: &str, record: &PoolRecord, stamp: Stamp) -> String {
    let body = vec![
        format!("opens {}", record.pool.opens_ms),
        format!("longest {}", record.pool.longest_ms),
        format!("written {}", record.written_ms),
    ];
    text(KIND_POOL, name, body, stamp, format!("The pool {name} of worker ids."))
}

/// Returns the text of a lease's record, such as:
///
/// ```text
/// getid state 4
/// # The lease of worker id 7 of pool orders.
/// kind worker-lease
/// key 7
/// term 12
/// nonce 9f86d081884c7d65
/// max-borrow-ms 0
/// pool orders
/// state held
/// name api-5d8f
/// token 2c26b46b68ffc68ff99b453c1d304134
/// token-before -
/// not-before 1767225600000
/// not-after 1767225630000
/// ttl 30000
/// checksum crc32 440dd966
/// ```
pub(super) fn lease_text(pool: &str, id: u32, lease: &Lease, stamp: Stamp) -> String {
    let state = match lease.state {
        LeaseState::Held => "held",
        LeaseState::Kept => "kept",
        LeaseState::Released => "released",
        LeaseState::Revoked => "revoked",
    };
    let name = if lease.name.is_empty() { NONE } else { &lease.name };
    let before = lease.token_before.map_or_else(|| NONE.to_owned(), hex);
    let body = vec![
        format!("pool {pool}"),
        format!("state {state}"),
        format!("name {name}"),
        format!("token {}", hex(lease.token)),
        format!("token-before {before}"),
        format!("not-before {}", lease.not_before_ms),
        format!("not-after {}", lease.not_after_ms),
        format!("ttl {}", lease.ttl_ms),
    ];
    text(KIND_LEASE, &id.to_string(), body, stamp, format!("The lease of worker id {id} of pool {pool}."))
}

fn text(kind: &str, key: &str, body: Vec<String>, stamp: Stamp, comment: String) -> String {
    let nonce = u64::try_from(stamp.writer & u128::from(u64::MAX)).unwrap_or(u64::MAX);
    let owner = Owner { term: Term(stamp.beat), nonce };
    let (kind, key) = (kind.to_owned(), key.to_owned());
    Envelope { kind, key, owner, max_borrow_ms: 0, body }.to_text(&[comment])
}

/// Parses a pool's record.
///
/// # Errors
///
/// [`RecordError`] for anything but its exact text.
pub(super) fn read_pool(name: &str, text: &str) -> Result<PoolRecord, RecordError> {
    let mut lines = BodyLines::of(text, KIND_POOL, name)?;
    let pool = PoolState { opens_ms: lines.number("opens")?, longest_ms: lines.number("longest")? };
    let written_ms = lines.number("written")?;
    lines.end()?;
    Ok(PoolRecord { pool, written_ms })
}

/// Parses a lease's record.
///
/// # Errors
///
/// [`RecordError`] for anything but its exact text.
pub(super) fn read_lease(pool: &str, id: u32, text: &str) -> Result<Lease, RecordError> {
    let mut lines = BodyLines::of(text, KIND_LEASE, &id.to_string())?;
    lines.value("pool", pool, |found| (found == pool).then_some(()))?;
    let state = lines.value("state", "held, kept, released or revoked", |word| match word {
        "held" => Some(LeaseState::Held),
        "kept" => Some(LeaseState::Kept),
        "released" => Some(LeaseState::Released),
        "revoked" => Some(LeaseState::Revoked),
        _ => None,
    })?;
    let name = lines.value("name", "a name or -", |name| {
        let name = if name == NONE { "" } else { name };
        (name.is_empty() || is_holder_name(name.as_bytes())).then(|| name.to_owned())
    })?;
    let token = lines.value("token", "32 hex digits", unhex)?;
    let token_before = lines.value("token-before", "32 hex digits or -", |text| match text {
        NONE => Some(None),
        text => unhex(text).map(Some),
    })?;
    let lease = Lease {
        name,
        token,
        token_before,
        state,
        not_before_ms: lines.number("not-before")?,
        not_after_ms: lines.number("not-after")?,
        ttl_ms: lines.number("ttl")?,
    };
    lines.end()?;
    if lease.not_before_ms > lease.not_after_ms {
        return Err(RecordError::Range);
    }
    Ok(lease)
}

/// Returns true if `name` is a valid name of a holder: 1 to [`HOLDER_NAME_BYTES_MAX`] bytes of printable ASCII without
/// a blank, and not `-`, which denotes no name.
pub fn is_holder_name(name: &[u8]) -> bool {
    (1..=HOLDER_NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(u8::is_ascii_graphic) && name != b"-"
}

/// Reader of a body, line by line.
struct BodyLines {
    body: std::vec::IntoIter<String>,
    number: usize,
}

impl BodyLines {
    fn of(text: &str, kind: &'static str, key: &str) -> Result<BodyLines, RecordError> {
        let opened = Envelope::parse(text.as_bytes())?;
        let envelope = opened.envelope;
        if envelope.kind != kind {
            return Err(RecordError::Kind { found: envelope.kind, expected: kind });
        }
        if envelope.key != key {
            let (found, expected) = (format!("key {}", envelope.key), format!("key {key}"));
            return Err(RecordError::Line { line: 3, found, expected });
        }
        Ok(BodyLines { body: envelope.body.into_iter(), number: opened.body_line })
    }

    fn value<T>(
        &mut self,
        name: &'static str,
        meaning: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, RecordError> {
        let line = self.body.next().ok_or(RecordError::Missing { name })?;
        let number = self.number;
        self.number += 1;
        let value = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')).and_then(read);
        value.ok_or_else(|| RecordError::Line { line: number, found: line, expected: format!("{name} with {meaning}") })
    }

    fn number(&mut self, name: &'static str) -> Result<u64, RecordError> {
        self.value(name, "a number", |text| text.parse().ok().filter(|number: &u64| number.to_string() == text))
    }

    fn end(mut self) -> Result<(), RecordError> {
        match self.body.next() {
            None => Ok(()),
            Some(found) => {
                Err(RecordError::Line { line: self.number, found, expected: "the line of the checksum".to_owned() })
            }
        }
    }
}

fn hex(digest: TokenDigest) -> String {
    format!("{:032x}", u128::from_be_bytes(digest.0))
}

fn unhex(text: &str) -> Option<TokenDigest> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_whole = text.len() == 32 && text.bytes().all(is_digit);
    let number = u128::from_str_radix(text, 16).ok().filter(|_| is_whole)?;
    Some(TokenDigest(number.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { writer: 0x1234_5678_9abc_def0, beat: 12 };

    fn lease() -> Lease {
        Lease {
            name: "api-5d8f".to_owned(),
            token: TokenDigest([7; 16]),
            token_before: Some(TokenDigest([0; 16])),
            state: LeaseState::Revoked,
            not_before_ms: 1_767_225_600_000,
            not_after_ms: 1_767_225_630_000,
            ttl_ms: 30_000,
        }
    }

    #[test]
    fn texts_read_back() {
        let nameless = Lease { name: String::new(), token_before: None, state: LeaseState::Held, ..lease() };
        let kept = Lease { token: TokenDigest::NONE, state: LeaseState::Kept, ..lease() };
        for lease in [lease(), nameless, kept] {
            let text = lease_text("orders", 7, &lease, STAMP);
            assert_eq!(read_lease("orders", 7, &text), Ok(lease), "{text}");
        }
        let record = PoolRecord { pool: PoolState { opens_ms: 7, longest_ms: 60_000 }, written_ms: 9 };
        let text = pool_text("orders", &record, STAMP);
        assert_eq!(read_pool("orders", &text), Ok(record), "{text}");
        assert!(text.contains("\nterm 12\nnonce 123456789abcdef0\n"), "{text}");
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let text = lease_text("orders", 7, &lease(), STAMP);
        assert!(matches!(read_lease("others", 7, &text), Err(RecordError::Line { .. })));
        assert!(matches!(read_lease("orders", 8, &text), Err(RecordError::Line { line: 3, .. })));
        assert!(matches!(read_pool("orders", &text), Err(RecordError::Kind { .. })));
        assert!(read_lease("orders", 7, &text.replace("revoked", "revoke")).is_err());
        assert!(matches!(
            read_lease("orders", 7, &text.replace("ttl 30000", "ttl 30001")),
            Err(RecordError::Checksum { .. })
        ));
        let record = PoolRecord { pool: PoolState { opens_ms: 7, longest_ms: 60_000 }, written_ms: 9 };
        assert!(read_lease("orders", 7, &pool_text("orders", &record, STAMP)).is_err());
        for cut in 0..text.len() {
            assert!(read_lease("orders", 7, &text[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn names_of_holders() {
        for good in ["a", "api-5d8f", "host:1/x", "--"] {
            assert!(is_holder_name(good.as_bytes()), "{good}");
        }
        for bad in ["", "-", "a b", "a\n", "ä", &"x".repeat(HOLDER_NAME_BYTES_MAX + 1)] {
            assert!(!is_holder_name(bad.as_bytes()), "{bad}");
        }
    }
}
