//! Errors in one value.

use getid_core::server::worker::POOL_SIZE_MAX;
use getid_core::server::{COUNTER_KINDS, CounterError, OPTIONS, RESERVED_NAME, kind_words};
use getid_core::{DeclarationError, Notation};

use super::conf_syntax::SyntaxError;
use super::values::{INSTANCE_NAME_BYTES_MAX, POOL_NAME_BYTES_MAX, POOLS_MAX};
use getid_redis::acl::{RuleError, SetUserError};
use getid_redis::session::NamePatternError;
use getid_text::host_port::HostPortError;
use getid_text::printable::printable_up_to;
use getid_text::store_url::StoreUrlError;
use getid_text::suggest::did_you_mean;
use getid_text::timestamp::TimeError;

/// Mistake in a `worker-pool` line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PoolError {
    #[error("needs a name, a size and a lease")]
    Empty,
    #[error("'{name}' is not a name of a pool, must be 1 to {POOL_NAME_BYTES_MAX} bytes of A-Z a-z 0-9 _ . -")]
    Name { name: String },
    #[error("the pool's name '{name}' {RESERVED_NAME}")]
    Reserved { name: String },
    #[error("{word} has no value after it")]
    NoValue { word: String },
    #[error("'{word}' is not one of size, lease, longest")]
    Option { word: String },
    #[error("{word} is given twice")]
    Twice { word: String },
    #[error("has no size, must have one, such as size 1024")]
    NoSize,
    #[error("the size must be a number of worker ids, 1 to {POOL_SIZE_MAX}")]
    Size,
    #[error("has no lease, must have one, such as lease 30s")]
    NoLease,
    #[error("lease is '{text}', must be 1s to 24h, as in 30s, 5m or 1h")]
    Lease { text: String },
    #[error("longest is '{text}', must be a time from the lease, which is {lease}, to 24h")]
    Longest { text: String, lease: String },
    #[error("this is one pool too many, there are at most {POOLS_MAX}")]
    TooMany,
}

/// Why a directive cannot have a value. `Display` shows the value found and the permitted ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ValueError {
    #[error("{found} given, must be {expected}")]
    Count { found: String, expected: &'static str },
    #[error("'{found}' is not a whole number; must be {}", range(*.min, *.max, .unit))]
    Number { found: String, min: i64, max: i64, unit: &'static str },
    #[error("{found} is out of range; must be {}", range(*.min, *.max, .unit))]
    Range { found: String, min: i64, max: i64, unit: &'static str },
    #[error(
        "'{found}' is not a memory size; must be a whole number of bytes, or one with the unit k, kb, m, mb, g or gb"
    )]
    Memory { found: String },
    #[error("'{found}' is out of range; must be {} or more", size(*.min))]
    MemoryRange { found: String, min: u64 },
    #[error(
        "'{found}' is neither auto, a memory size nor a percentage; must be auto, a number of bytes such as 256mb, 0 \
         for no \
         bound, or 1% to 100% of the machine's memory"
    )]
    ClientMemory { found: String },
    #[error("'{found}' is not a mode; must be three octal digits such as 770, or 0 to leave it to umask")]
    Mode { found: String },
    #[error("'{found}' is not one of {}", .words.join(", "))]
    Word { found: String, words: &'static [&'static str] },
    #[error("must not be empty")]
    Empty,
    #[error("'{found}' is not an IP address; must be such as 127.0.0.1, ::1, -::1 (skipped if it is missing) or *")]
    Address { found: String },
    #[error("{found} addresses given, must be at most {max}")]
    Addresses { found: usize, max: usize },
    #[error(transparent)]
    Epoch(TimeError),
    #[error("'{found}' is out of range; must be 1970-01-01T00:00:00Z to 9860-06-30T10:40:00Z (0 to 249000000000000)")]
    EpochRange { found: String },
    #[error("{name} is given twice")]
    PartTwice { name: &'static str },
    #[error("{name} has no value after it")]
    PartValue { name: &'static str },
    #[error("'{found}' is not one of the classes normal, replica, pubsub")]
    BufferClass { found: String },
    #[error("'{found}' is not a number of seconds, 0 to {max}")]
    BufferSeconds { found: String, max: u64 },
    #[error("a command needs a name")]
    RenameNothing,
    #[error("{}", user_error(.0))]
    User(#[from] SetUserError),
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// A text that Redis refuses as a number, in its words.
    #[error("argument couldn't be parsed into an integer")]
    NotAnInteger,
    #[error("{0}")]
    Declaration(DeclarationError),
    #[error(transparent)]
    WorkerPool(#[from] PoolError),
    #[error("{0}")]
    Store(StoreUrlError),
    #[error("'{shown}' appears in two lines, must be in one")]
    StoreTwice { shown: String },
    #[error("this is one store too many, there are at most {max}")]
    Stores { max: usize },
    #[error(transparent)]
    NamePattern(NamePatternError),
    #[error("'none' is given together with a store, must be alone")]
    StoreBesideNone,
    #[error("{0}")]
    Counter(CounterError),
    #[error("'{found}' is not the name of a host; must be such as ids.example.com, without a scheme and a port")]
    HttpHost { found: String },
    #[error("{error}, or {}", words.join(" or "))]
    Or { error: Box<ValueError>, words: &'static [&'static str] },
    #[error("{0}; or file, for the folder of the state")]
    ClaimStore(StoreUrlError),
    #[error(
        "'{}' is not the name of a server; must have at most {} letters, digits, '.', '_' and '-'",
        printable_up_to(.found, 64),
        INSTANCE_NAME_BYTES_MAX
    )]
    InstanceName { found: String },
    #[error(transparent)]
    Announced(#[from] HostPortError),
    #[error("{found} is given twice, must be in the line once")]
    PeerTwice { found: String },
    #[error("'user' must follow leaf, tinyid or cosid, and the name of an ACL user must follow it")]
    HttpApiUser,
}

impl From<ValueError> for Vec<ValueError> {
    fn from(error: ValueError) -> Self {
        vec![error]
    }
}

impl ValueError {
    /// Returns the remedy, if the error text doesn't show it.
    pub(super) fn help(&self) -> Option<String> {
        let help = match self {
            ValueError::Number { found, unit, .. } if found.starts_with(|first: char| first.is_ascii_digit()) => {
                match *unit {
                    "" => "write the digits only".to_owned(),
                    unit => format!("the unit is always {unit}; write the digits only"),
                }
            }
            ValueError::Word { found, words } => {
                let meant = did_you_mean(&found.to_ascii_lowercase(), words.iter().copied())?;
                format!("did you mean '{meant}'?")
            }
            ValueError::Address { found }
                if found.bytes().any(|byte| byte.is_ascii_alphabetic()) && !found.contains(':') =>
            {
                "names other than localhost are not looked up; give the address".to_owned()
            }
            ValueError::User(SetUserError::Rule { error: RuleError::Unknown, .. }) => {
                "commands and categories are those of getid and of Redis 7, such as +getid, +@connection or -@dangerous"
                    .to_owned()
            }
            ValueError::User(SetUserError::Rule { error: RuleError::Syntax, .. }) => {
                "rules are such as on, >password, nopass, -@all, +getid or ~*".to_owned()
            }
            ValueError::User(SetUserError::Rule { error: RuleError::BadHash, .. }) => {
                "printf %s 'the password' | sha256sum prints it; >password takes the password itself".to_owned()
            }
            ValueError::Declaration(error) => declaration_help(error)?,
            ValueError::Store(error) | ValueError::ClaimStore(error) => error.help()?,
            ValueError::Or { error, words } => match &**error {
                ValueError::Number { found, .. } => {
                    match did_you_mean(&found.to_ascii_lowercase(), words.iter().copied()) {
                        Some(meant) => format!("did you mean '{meant}'?"),
                        None => error.help()?,
                    }
                }
                error => error.help()?,
            },
            ValueError::Counter(error) => counter_help(error)?,
            _ => return None,
        };
        Some(help)
    }
}

/// Common names of IDs, without punctuation, and the kinds that they mean.
const KIND_SYNONYMS: [(&[&str], &[&str]); 15] = [
    (&["snowflakes", "snowflakeid", "twittersnowflake"], &["snowflake", "leaf"]),
    (&["uuid", "guid"], &["uuid7", "uuid4"]),
    (&["uuidv7"], &["uuid7"]),
    (&["uuidv4"], &["uuid4"]),
    (&["random", "cuid", "shortid"], &["nanoid", "uuid4"]),
    (&["traceid", "spanid", "opentelemetry"], &["trace64"]),
    (&["stripe", "prefixedid"], &["typeid"]),
    (&["mongo", "mongodb", "mongoid", "bson", "oid"], &["objectid"]),
    (&["meituan", "leafsnowflake"], &["leaf"]),
    (&["uidgenerator", "baiduuid"], &["baidu"]),
    (&["autoincrement", "identity", "counter", "incr", "nextval", "segment", "leafsegment", "tinyid"], &["sequence"]),
    (
        &["order", "ordernumber", "invoice", "invoicenumber", "ticket", "serialnumber", "template", "number"],
        &["serial"],
    ),
    (&["tso", "tidb", "tikv", "oracle"], &["pd", "chronos"]),
    (&["timestamp", "time", "epoch", "unixtime"], &["timestamp-ms", "timestamp-us"]),
    (&["javascript", "js", "browser"], &["js53"]),
];

/// Returns a suggestion of kinds for a word: by its meaning, else by its spelling.
pub fn kind_meant(word: &str) -> Option<String> {
    let word = word.to_ascii_lowercase();
    let bare: String = word.chars().filter(char::is_ascii_alphanumeric).collect();
    let synonyms =
        KIND_SYNONYMS.iter().find(|(words, _)| words.contains(&bare.as_str())).map(|(_, kinds)| kinds.to_vec());
    let kinds = synonyms.or_else(|| Some(vec![did_you_mean(&word, kind_words().chain(COUNTER_KINDS))?]))?;
    let kinds: Vec<_> = kinds.iter().map(|kind| format!("'{kind}'")).collect();
    Some(format!("did you mean {}?", kinds.join(" or ")))
}

/// Returns the remedy for an error in a declaration, if the error text does not show it.
pub fn declaration_help(error: &DeclarationError) -> Option<String> {
    let meant = match error {
        DeclarationError::Kind { word } => {
            let kinds = || format!("kinds are {}", kind_words().chain(COUNTER_KINDS).collect::<Vec<_>>().join(", "));
            return Some(kind_meant(word).unwrap_or_else(kinds));
        }
        DeclarationError::Option { name, fields } => {
            let known = OPTIONS.iter().copied().chain(fields.iter().map(String::as_str));
            did_you_mean(&name.to_ascii_lowercase(), known)
        }
        DeclarationError::NoSuchField { name, fields } => {
            did_you_mean(&name.to_ascii_lowercase(), fields.iter().copied())
        }
        DeclarationError::Format { word } => did_you_mean(&word.to_ascii_lowercase(), Notation::WORDS.into_iter()),
        _ => None,
    };
    meant.map(|meant| format!("did you mean '{meant}'?"))
}

/// Returns the remedy for an error in the declaration of a generator over a sequence.
pub fn counter_help(error: &CounterError) -> Option<String> {
    let CounterError::Format { text } = error else { return None };
    let meant = did_you_mean(&text.to_ascii_lowercase(), Notation::WORDS.into_iter())?;
    Some(format!("did you mean '{meant}'?"))
}

/// Formats an error in a user's rules. The rule is shown only if it cannot be a password, because any other word may be
/// one.
fn user_error(error: &SetUserError) -> String {
    match error {
        SetUserError::Rule { index, rule, error } => {
            let rule = String::from_utf8_lossy(rule);
            let shown =
                if rule.starts_with(['+', '-', '~', '%', '&', '(']) { format!(" '{rule}'") } else { String::new() };
            format!("rule {}{shown}: {error}", index + 1)
        }
        error => error.to_string(),
    }
}

fn range(min: i64, max: i64, unit: &str) -> String {
    let blank = if unit.is_empty() { "" } else { " " };
    match (min, max) {
        (_, i64::MAX) => format!("{min} or more{blank}{unit}"),
        _ => format!("{min} to {max}{blank}{unit}"),
    }
}

/// Formats a size as an operator would write it.
fn size(bytes: u64) -> String {
    if bytes > 0 && bytes.is_multiple_of(1 << 20) { format!("{}mb", bytes >> 20) } else { bytes.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_names_suggest_kinds() {
        for (word, expected) in [
            ("snowflake_id", Some("did you mean 'snowflake' or 'leaf'?")),
            ("Snow-Flakes", Some("did you mean 'snowflake' or 'leaf'?")),
            ("nano-id", Some("did you mean 'nanoid'?")),
            ("uuid", Some("did you mean 'uuid7' or 'uuid4'?")),
            ("AUTO_INCREMENT", Some("did you mean 'sequence'?")),
            ("twiter", Some("did you mean 'twitter'?")),
            ("Sequence", Some("did you mean 'sequence'?")),
            ("xyz", None),
        ] {
            assert_eq!(kind_meant(word).as_deref(), expected, "{word}");
        }
        for kind in KIND_SYNONYMS.iter().flat_map(|(_, kinds)| *kinds) {
            assert!(kind_words().chain(COUNTER_KINDS).any(|known| known == *kind), "{kind}");
        }
        for word in KIND_SYNONYMS.iter().flat_map(|(words, _)| *words) {
            assert!(!kind_words().chain(COUNTER_KINDS).any(|kind| kind == *word), "{word} is a kind");
        }
    }
}
