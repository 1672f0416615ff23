//! The row of a request: its scope, its fingerprint and its reply, as values and as texts of a store.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

/// Longest name of a user in a scope, bytes. A longer one is replaced by its hash.
const OWNER_BYTES_MAX: usize = 128;

/// Longest fingerprint that is kept as its words, bytes. A longer one is replaced by its hash.
const WORDS_BYTES_MAX: usize = 64;

/// First character of a hash. Words of a fingerprint begin with a digit.
const HASH_MARK: char = '#';

/// What a request is unique in: the same text of another user, generator or series is another request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestScope {
    /// Name of the ACL user, or its hash.
    owner: String,
    /// Name of the generator or sequence; [`UNNAMED`](super::UNNAMED) for the unnamed generator.
    name: String,
    /// The request, a text that its client chooses.
    request: String,
}

impl RequestScope {
    /// Creates the scope of a user's request.
    pub fn new(user: &str, name: &str, request: &str) -> RequestScope {
        let owner = if user.len() > OWNER_BYTES_MAX { hashed(user) } else { user.to_owned() };
        RequestScope::of_columns(owner, name.to_owned(), request.to_owned())
    }

    /// Creates the scope of a row as a store has it.
    pub fn of_columns(owner: String, name: String, request: String) -> RequestScope {
        RequestScope { owner, name, request }
    }

    /// Returns the owner: a user's name, or its hash.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns the name of the generator or sequence.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the request.
    pub fn request(&self) -> &str {
        &self.request
    }
}

/// Arguments of a request, as a short text that differs for different arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Returns the fingerprint of a number of IDs, of the key of a series, which is empty without one, and of fields
    /// with their values in any order. No key and no name of a field has a blank.
    pub fn new(count: u32, series: &str, fields: &[(&str, u64)]) -> Fingerprint {
        let mut fields: Vec<_> = fields.iter().collect();
        fields.sort_unstable();
        let mut words = count.to_string();
        if !series.is_empty() {
            // A field has two words.
            let _ = write!(words, " {series}");
        }
        for (name, value) in fields {
            // Writing to a string cannot fail.
            let _ = write!(words, " {name} {value}");
        }
        Fingerprint(if words.len() > WORDS_BYTES_MAX { hashed(&words) } else { words })
    }

    /// Returns the fingerprint of a row as a store has it.
    pub fn of_column(text: String) -> Fingerprint {
        Fingerprint(text)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns a hash of 128 bits (FNV-1a) behind [`HASH_MARK`]. It distinguishes the arguments of one user's own requests,
/// so it need not resist an attacker.
fn hashed(text: &str) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let hash = text.bytes().fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    format!("{HASH_MARK}{hash:032x}")
}

/// Reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestReply {
    /// IDs as integers of a generator.
    Integers(Vec<u64>),
    /// IDs as texts of a generator, none of which has a line end.
    Texts(Vec<String>),
    /// Values of a sequence.
    Range {
        /// The first value.
        first: i64,
        /// The last value, inclusive.
        last: i64,
        /// Distance between two values.
        increment: u32,
    },
}

impl RequestReply {
    /// Returns the text of the reply for a store: its kind and each of its values on a line of their own.
    pub fn to_column(&self) -> String {
        let mut text = String::new();
        let mut add = |value: &dyn core::fmt::Display| {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{value}");
        };
        let kind = match self {
            RequestReply::Integers(ids) => {
                for id in ids {
                    add(id);
                }
                "integers"
            }
            RequestReply::Texts(ids) => {
                for id in ids {
                    add(id);
                }
                "texts"
            }
            RequestReply::Range { first, last, increment } => {
                add(first);
                add(last);
                add(increment);
                "range"
            }
        };
        text.insert_str(0, kind);
        text
    }

    /// Parses the text of a store; `None` if it is not a reply's.
    pub fn of_column(text: &str) -> Option<RequestReply> {
        let (kind, values) = text.split_once('\n')?;
        let mut values = values.split('\n');
        match kind {
            "integers" => values.map(|id| id.parse().ok()).collect::<Option<_>>().map(RequestReply::Integers),
            "texts" => Some(RequestReply::Texts(values.map(str::to_owned).collect())),
            "range" => {
                let mut number = || values.next()?.parse::<i64>().ok();
                let (first, last, increment) = (number()?, number()?, u32::try_from(number()?).ok()?);
                values.next().is_none().then_some(RequestReply::Range { first, last, increment })
            }
            _ => None,
        }
    }
}

/// A request in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRow {
    /// Scope of the request, the key of its row.
    pub scope: RequestScope,
    /// Arguments of the request.
    pub fingerprint: Fingerprint,
    /// The reply, as [`RequestReply::to_column`] writes it.
    pub reply: String,
    /// Time of the claim, Unix ms.
    pub made_unix_ms: i64,
    /// Time until which the row is kept at least, Unix ms.
    pub until_unix_ms: i64,
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn a_fingerprint_has_the_arguments_in_one_order_and_is_short() {
        let of = |count, fields: &[(&str, u64)]| Fingerprint::new(count, "", fields).as_str().to_owned();
        assert_eq!(Fingerprint::new(1, "ACME", &[]).as_str(), "1 ACME");
        assert_eq!(of(1, &[]), "1");
        assert_eq!(of(5, &[("shard", 7), ("business", 2)]), "5 business 2 shard 7");
        assert_eq!(of(5, &[("business", 2), ("shard", 7)]), of(5, &[("shard", 7), ("business", 2)]));
        let long: Vec<_> = (0..9).map(|value| ("a-long-name", value)).collect();
        let hash = of(1, &long);
        assert!(hash.len() == 33 && hash.starts_with(HASH_MARK), "{hash}");
        assert_ne!(hash, of(2, &long));
        assert_ne!(hash, of(1, &long[1..]));
    }

    #[test]
    fn a_long_user_is_kept_as_its_hash() {
        let scope = |user: &str| RequestScope::new(user, "orders", "r");
        assert_eq!(scope("shop").owner(), "shop");
        let long = "u".repeat(OWNER_BYTES_MAX + 1);
        assert_eq!(scope(&long).owner().len(), 33);
        assert_ne!(scope(&long), scope(&long[1..]));
        assert_ne!(scope(&long), scope(&(long.clone() + "u")));
    }

    #[test]
    fn a_reply_comes_back_from_its_column() {
        for reply in [
            RequestReply::Integers(vec![0, u64::MAX]),
            RequestReply::Texts(vec!["INV 2026-0001".to_owned(), "é".to_owned()]),
            RequestReply::Texts(vec!["integers".to_owned()]),
            RequestReply::Range { first: 1, last: 100, increment: 1 },
        ] {
            assert_eq!(RequestReply::of_column(&reply.to_column()), Some(reply));
        }
        for text in ["", "integers", "integers\nx", "integers\n1\n", "range\n1\n2", "range\n1\n2\n3\n4", "other\n1"] {
            assert_eq!(RequestReply::of_column(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(hashed(""), "#6c62272e07bb014262b821756295c58d");
        assert_eq!(hashed("a"), "#d228cb696f1a8caf78912b704e4a8964");
    }
}
