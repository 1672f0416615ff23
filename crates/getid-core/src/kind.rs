//! Kinds of generators: the word behind a generator's name, its first fields, and how its IDs are written.

use alloc::vec::Vec;

use uuid::Uuid;

use crate::fields::{Field, Role};
use crate::number::{Number, low_ones};
use crate::radix::{Digits, Radix, parse_digits};
use crate::unit::Unit;

mod base32;
pub(crate) mod nano_id;

/// Unix time in ms at which a UUID's 100 ns ticks start to count: 1582-10-15 (RFC 9562, section 5.1).
const GREGORIAN_UNIX_MS: i64 = -12_219_292_800_000;

/// Width of an `ObjectId`, bits.
const OBJECT_ID_BITS: u32 = 96;

/// Number of digits of an `ObjectId` as one decimal number: those of 2^96 - 1.
const OBJECT_ID_DIGITS: usize = 29;

/// Width of a KSUID, bits.
const KSUID_BITS: u32 = 160;

/// Number of base62 digits of a KSUID.
const KSUID_DIGITS: usize = 27;

/// Unix time in ms at which a KSUID's seconds start to count: 1.4e9 s, 2014-05-13.
const KSUID_MS: i64 = 1_400_000_000_000;

/// How numbers of a kind become IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An integer, or the text of a format.
    Number,
    /// A UUID of this version: 1, 4, 6 or 7.
    Uuid(u8),
    /// 24 hex digits.
    ObjectId,
    /// An `ObjectId` as a decimal number of 29 digits.
    ObjectIdDecimal,
    /// A KSUID: 27 base62 digits. Their case counts.
    Ksuid,
    /// Hibernate's `CustomVersionOneStrategy`, written as a UUID.
    Hibernate,
    /// A ULID: 26 characters of Crockford's base32.
    Ulid,
    /// A `TypeID`: a UUID of version 7 as 26 characters of Crockford's base32, in small letters behind its prefix.
    TypeId,
    /// An xid: 20 characters of `base32hex`, in small letters.
    Xid,
    /// A `NanoID`: random characters, whose alphabet and length only a declaration has.
    NanoId,
}

/// One kind: a preset of a layout, a text kind, or `layout`, whose fields are declared.
#[derive(Debug)]
pub struct Kind {
    /// The word that declares it.
    pub word: &'static str,
    /// Description in one line.
    pub doc: &'static str,
    /// Its fields, from the most significant down; none for `layout`.
    pub fields: &'static [(&'static str, u32, Role)],
    /// Epoch of its time, Unix ms.
    pub epoch_unix_ms: i64,
    /// The step of its time.
    pub unit: Unit,
    /// Default of the highest random start of a unit that was not borrowed; 0: units start at 0.
    pub counter_start: u64,
    /// How its IDs are written.
    pub shape: Shape,
    /// The digits of its numbers if a declaration has no `format`; `None`: they are integers.
    pub radix: Option<Radix>,
}

impl PartialEq for Kind {
    fn eq(&self, other: &Kind) -> bool {
        self.word == other.word
    }
}

impl Eq for Kind {}

const TIME: &str = "time";
const COUNTER: &str = "counter";

const fn number(
    word: &'static str,
    doc: &'static str,
    fields: &'static [(&'static str, u32, Role)],
    epoch_unix_ms: i64,
    unit: Unit,
) -> Kind {
    Kind { word, doc, fields, epoch_unix_ms, unit, counter_start: 0, shape: Shape::Number, radix: None }
}

const fn text(
    word: &'static str,
    doc: &'static str,
    fields: &'static [(&'static str, u32, Role)],
    epoch_unix_ms: i64,
    unit: Unit,
    shape: Shape,
) -> Kind {
    Kind { word, doc, fields, epoch_unix_ms, unit, counter_start: 0, shape, radix: None }
}

const TWITTER_MS: i64 = 1_288_834_974_657;
const FORK_MS: i64 = 1_420_041_600_000;

/// Twitter's fields, with one field for the worker.
const WORKER_10: &[(&str, u32, Role)] =
    &[(TIME, 41, Role::Time), ("worker", 10, Role::Server), (COUNTER, 12, Role::Counter)];

const OBJECT_ID: &[(&str, u32, Role)] =
    &[(TIME, 32, Role::Time), ("process", 40, Role::Drawn), (COUNTER, 24, Role::Counter)];

/// An xid's fields: an `ObjectId` whose 40 bits are two values.
const XID: &[(&str, u32, Role)] =
    &[(TIME, 32, Role::Time), ("machine", 24, Role::Drawn), ("process", 16, Role::Drawn), (COUNTER, 24, Role::Counter)];

const UUID_7: &[(&str, u32, Role)] =
    &[(TIME, 48, Role::Time), (COUNTER, 12, Role::Counter), ("noise", 62, Role::Noise)];

const UUID_TIME: &[(&str, u32, Role)] =
    &[(TIME, 60, Role::Time), ("clock-seq", 14, Role::Drawn), ("node", 48, Role::Drawn)];

/// All kinds.
pub static KINDS: &[Kind] = &[
    number("layout", "the fields that are declared", &[], FORK_MS, Unit::MS),
    number(
        "fork",
        "the unnamed generator's default layout",
        &[
            (TIME, 42, Role::Time),
            ("server-id", 2, Role::Server),
            (COUNTER, 9, Role::Counter),
            ("random", 10, Role::Random),
        ],
        FORK_MS,
        Unit::MS,
    ),
    number(
        "twitter",
        "Twitter's Snowflake",
        &[
            (TIME, 41, Role::Time),
            ("datacenter", 5, Role::Server),
            ("worker", 5, Role::Server),
            (COUNTER, 12, Role::Counter),
        ],
        TWITTER_MS,
        Unit::MS,
    ),
    // Leaf draws the first count of a new millisecond by `nextInt(100)`.
    Kind { counter_start: 99, ..number("leaf", "Leaf's snowflake mode", WORKER_10, TWITTER_MS, Unit::MS) },
    number("keets", "the snowflakes of keets, 10 bits for the worker", WORKER_10, FORK_MS, Unit::MS),
    number(
        "discord",
        "Discord's snowflakes, 64 bits",
        &[
            (TIME, 42, Role::Time),
            ("worker", 5, Role::Server),
            ("process", 5, Role::Server),
            (COUNTER, 12, Role::Counter),
        ],
        1_420_070_400_000,
        Unit::MS,
    ),
    number(
        "sonyflake",
        "Sonyflake, version 1",
        &[(TIME, 39, Role::Time), (COUNTER, 8, Role::Counter), ("machine", 16, Role::Server)],
        1_409_529_600_000,
        Unit::MS_10,
    ),
    number(
        "sonyflake2",
        "Sonyflake, version 2",
        &[(TIME, 39, Role::Time), (COUNTER, 8, Role::Counter), ("machine", 16, Role::Server)],
        1_735_689_600_000,
        Unit::MS_10,
    ),
    number(
        "baidu",
        "Baidu's UidGenerator",
        &[(TIME, 28, Role::Time), ("worker", 22, Role::Server), (COUNTER, 13, Role::Counter)],
        1_463_673_600_000,
        Unit::S,
    ),
    number(
        "redis-lua",
        "the Lua script for Redis, whose shard comes with the request",
        &[(TIME, 41, Role::Time), ("shard", 12, Role::Request), (COUNTER, 10, Role::Counter)],
        0,
        Unit::MS,
    ),
    number(
        "icicle",
        "Icicle",
        &[(TIME, 41, Role::Time), ("shard", 10, Role::Server), (COUNTER, 12, Role::Counter)],
        1_455_788_600_316,
        Unit::MS,
    ),
    number(
        "chronos",
        "Chronos's timestamps, 64 bits",
        &[(TIME, 46, Role::Time), (COUNTER, 18, Role::Counter)],
        0,
        Unit::MS,
    ),
    number(
        "pd",
        "the timestamps of TiKV's PD, 64 bits",
        &[(TIME, 46, Role::Time), (COUNTER, 18, Role::Counter)],
        0,
        Unit::MS,
    ),
    number(
        "js53",
        "53 bits, for JavaScript's numbers",
        &[(TIME, 41, Role::Time), ("server-id", 3, Role::Server), (COUNTER, 9, Role::Counter)],
        FORK_MS,
        Unit::MS,
    ),
    number(
        "instagram",
        "Instagram's sharded IDs, 64 bits",
        &[(TIME, 41, Role::Time), ("shard", 13, Role::Server), (COUNTER, 10, Role::Counter)],
        1_314_220_021_721,
        Unit::MS,
    ),
    number(
        "mastodon",
        "Mastodon's IDs of posts, 64 bits",
        &[(TIME, 48, Role::Time), (COUNTER, 16, Role::Counter)],
        0,
        Unit::MS,
    ),
    number(
        "yitter",
        "Yitter's IdGenerator, with its default lengths",
        &[(TIME, 51, Role::Time), ("worker", 6, Role::Server), (COUNTER, 6, Role::Counter)],
        1_582_136_402_000,
        Unit::MS,
    ),
    // The library `tsid-creator` and Hypersistence's have this epoch and these widths.
    Kind {
        radix: Some(Radix::Base32),
        ..number(
            "tsid",
            "TSID, 64 bits as 13 characters of Crockford's base32",
            &[(TIME, 42, Role::Time), ("node", 10, Role::Server), (COUNTER, 12, Role::Counter)],
            1_577_836_800_000,
            Unit::MS,
        )
    },
    number("trace64", "63 random bits, for traces", &[("noise", 63, Role::Noise)], 0, Unit::MS),
    number("timestamp-ms", "Unix time in ms, strictly ascending", &[(TIME, 63, Role::Time)], 0, Unit::MS),
    number("timestamp-us", "Unix time in microseconds, strictly ascending", &[(TIME, 63, Role::Time)], 0, Unit::US),
    text("uuid1", "UUID of a time and a node", UUID_TIME, GREGORIAN_UNIX_MS, Unit::NS_100, Shape::Uuid(1)),
    text("uuid4", "UUID of random bits", &[("noise", 122, Role::Noise)], 0, Unit::MS, Shape::Uuid(4)),
    text("uuid6", "UUID of a time and a node, ascending", UUID_TIME, GREGORIAN_UNIX_MS, Unit::NS_100, Shape::Uuid(6)),
    text("uuid7", "UUID of a Unix time, a counter and random bits, ascending", UUID_7, 0, Unit::MS, Shape::Uuid(7)),
    text("objectid", "MongoDB's ObjectId", OBJECT_ID, 0, Unit::S, Shape::ObjectId),
    text("objectid-decimal", "ObjectId as 29 decimal digits", OBJECT_ID, 0, Unit::S, Shape::ObjectIdDecimal),
    // Segment's payload of 128 random bits begins with a counter, so that the IDs of a server ascend.
    text(
        "ksuid",
        "KSUID of a time in seconds, a counter and random bits, ascending",
        &[(TIME, 32, Role::Time), (COUNTER, 24, Role::Counter), ("noise", 104, Role::Noise)],
        KSUID_MS,
        Unit::S,
        Shape::Ksuid,
    ),
    text(
        "hibernate",
        "Hibernate's CustomVersionOneStrategy",
        &[
            (TIME, 46, Role::Time),
            ("address", 32, Role::Drawn),
            ("process", 28, Role::Drawn),
            (COUNTER, 15, Role::Counter),
        ],
        0,
        Unit::MS,
        Shape::Hibernate,
    ),
    text(
        "ulid",
        "ULID of a Unix time, a counter and random bits, ascending",
        &[(TIME, 48, Role::Time), (COUNTER, 16, Role::Counter), ("noise", 64, Role::Noise)],
        0,
        Unit::MS,
        Shape::Ulid,
    ),
    text("typeid", "TypeID: a UUID of version 7 in base32, behind a prefix", UUID_7, 0, Unit::MS, Shape::TypeId),
    text("xid", "xid: an ObjectId as 20 characters of base32hex", XID, 0, Unit::S, Shape::Xid),
    // The width is that of the default alphabet and length.
    text("nanoid", "NanoID of random characters", &[("noise", 126, Role::Noise)], 0, Unit::MS, Shape::NanoId),
];

/// Other words for kinds, each with the word of the table.
const SYNONYMS: &[(&str, &str)] = &[("snowflake", "twitter")];

impl Kind {
    /// Returns the kind that this word declares. `snowflake` is another word for `twitter`.
    pub fn find(word: &str) -> Option<&'static Kind> {
        let word = SYNONYMS.iter().find(|(synonym, _)| *synonym == word).map_or(word, |(_, word)| word);
        KINDS.iter().find(|kind| kind.word == word)
    }

    /// Returns true if its IDs hold a time; those of a kind without one are unique by chance alone. (The fields of
    /// `layout` are declared, and have a time.)
    pub fn has_time(&self) -> bool {
        self.fields.is_empty() || self.fields.iter().any(|(_, _, role)| *role == Role::Time)
    }

    /// Returns its fields, for a layout.
    pub fn own_fields(&self) -> Vec<Field> {
        self.fields.iter().map(|&(name, bits, role)| Field::new(name, bits, role)).collect()
    }
}

/// Bits of an xid's last character behind its number, which are 0.
const XID_SPARE_BITS: u32 = 4;

/// The lower 62 bits of a UUID, below version and variant.
const LOW_62: u128 = (1 << 62) - 1;
const VARIANT: u128 = 0b10 << 62;

impl Shape {
    /// Returns true if a server's IDs ascend as texts or integers.
    pub fn is_ordered(self) -> bool {
        !matches!(self, Shape::Uuid(1 | 4) | Shape::Hibernate | Shape::NanoId)
    }

    /// Returns the form of a text as a noun with its length: `a UUID of version 7`.
    pub fn description(self) -> &'static str {
        match self {
            Shape::Number => "a decimal number",
            Shape::Uuid(1) => "a UUID of version 1",
            Shape::Uuid(4) => "a UUID of version 4",
            Shape::Uuid(6) => "a UUID of version 6",
            Shape::Uuid(_) => "a UUID of version 7",
            Shape::ObjectId => "24 hex digits",
            Shape::ObjectIdDecimal => "29 decimal digits",
            Shape::Ksuid => "a KSUID, 27 digits of base62, at most aWgEPTl1tmebfsQzFP4bxwgy80V",
            Shape::Hibernate => "a UUID as Hibernate makes them",
            Shape::Ulid => "a ULID, 26 characters of Crockford's base32, the first at most 7",
            Shape::TypeId => "a TypeID of a UUID of version 7, 26 small letters and digits of Crockford's base32",
            Shape::Xid => "an xid, 20 characters 0-9 and a-v, the last of them 0 or g",
            Shape::NanoId => "a NanoID",
        }
    }

    /// Appends the text of a number; for [`Shape::Number`] and [`Shape::NanoId`] its decimal digits.
    pub(crate) fn write(self, number: Number, out: &mut Vec<u8>) {
        match self {
            Shape::Uuid(version) => write_uuid(uuid_of(version, number.as_u128()), out),
            Shape::Hibernate => write_uuid(hibernate_of(number.as_u128()), out),
            Shape::Ulid => base32::write(Radix::Base32.alphabet(), base32::CHARS_128, number.as_u128(), out),
            Shape::TypeId => {
                base32::write(base32::CROCKFORD_SMALL, base32::CHARS_128, uuid_of(7, number.as_u128()), out);
            }
            Shape::Xid => base32::write(base32::HEX_SMALL, base32::CHARS_XID, number.as_u128() << XID_SPARE_BITS, out),
            Shape::Number | Shape::NanoId => write_digits(number, Radix::Decimal, 1, out),
            Shape::ObjectIdDecimal => write_digits(number, Radix::Decimal, OBJECT_ID_DIGITS, out),
            Shape::Ksuid => write_digits(number, Radix::Base62, KSUID_DIGITS, out),
            Shape::ObjectId => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                let number = number.as_u128();
                out.extend((0..24).rev().map(|digit| HEX[(number >> (4 * digit)) as usize & 15]));
            }
        }
    }

    /// Returns the longest text, bytes, for numbers of `bits` bits.
    pub(crate) fn bytes_max(self, bits: u32) -> usize {
        match self {
            Shape::Uuid(_) | Shape::Hibernate => 36,
            Shape::ObjectId => 24,
            Shape::ObjectIdDecimal => OBJECT_ID_DIGITS,
            Shape::Ulid | Shape::TypeId => base32::CHARS_128 as usize,
            Shape::Xid => base32::CHARS_XID as usize,
            Shape::Ksuid => KSUID_DIGITS,
            Shape::Number | Shape::NanoId => Radix::Decimal.digits_of(bits) as usize,
        }
    }

    /// Parses a text; `None` if this shape does not write it. Letters may be of either case, and a UUID may come
    /// without its hyphens, in braces, or as a URN. A ULID may have Crockford's look-alikes (O, I, L); a `TypeID` and
    /// an xid have small letters, as their specifications demand, and the case of a KSUID's letters counts.
    pub(crate) fn read(self, text: &str) -> Option<Number> {
        match self {
            Shape::Uuid(version) => {
                let bits = Uuid::try_parse(text).ok()?.as_u128();
                (has_version(bits, version)).then(|| number_of_uuid(version, bits).into())
            }
            Shape::Hibernate => {
                let bits = Uuid::try_parse(text).ok()?.as_u128();
                (has_version(bits, 1) && bits & 0x8000 == 0).then(|| number_of_hibernate(bits).into())
            }
            Shape::Ulid => base32::read(text, base32::CHARS_128, |byte| Radix::Base32.value(byte)).map(Number::from),
            Shape::TypeId => base32::read(text, base32::CHARS_128, base32::exact(base32::CROCKFORD_SMALL))
                .filter(|&bits| has_version(bits, 7))
                .map(|bits| number_of_uuid(7, bits).into()),
            Shape::Xid => base32::read(text, base32::CHARS_XID, base32::exact(base32::HEX_SMALL))
                .filter(|bits| bits & ((1 << XID_SPARE_BITS) - 1) == 0)
                .map(|bits| (bits >> XID_SPARE_BITS).into()),
            Shape::Number | Shape::NanoId => digits(text),
            Shape::ObjectIdDecimal => {
                digits(text).filter(|&number| text.len() == OBJECT_ID_DIGITS && number <= low_ones(OBJECT_ID_BITS))
            }
            Shape::Ksuid => {
                let number = parse_digits(text, Radix::Base62).filter(|_| text.len() == KSUID_DIGITS);
                number.filter(|&number| number <= low_ones(KSUID_BITS))
            }
            Shape::ObjectId => {
                let is_hex = text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                is_hex.then(|| parse_digits(text, Radix::Hex)).flatten()
            }
        }
    }
}

fn digits(text: &str) -> Option<Number> {
    if text.is_empty() { None } else { parse_digits(text, Radix::Decimal) }
}

fn write_digits(number: Number, radix: Radix, width: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(Digits::of(number, radix).padded(width));
}

fn write_uuid(bits: u128, out: &mut Vec<u8>) {
    let mut buffer = Uuid::encode_buffer();
    out.extend_from_slice(Uuid::from_u128(bits).hyphenated().encode_lower(&mut buffer).as_bytes());
}

fn has_version(bits: u128, version: u8) -> bool {
    (bits >> 76) & 15 == u128::from(version) && bits & (0b11 << 62) == VARIANT
}

/// Returns the UUID of a number of 122 bits: version and variant are inserted, and version 1 has the words of its time
/// in reverse order (RFC 9562, sections 5.1 and 5.6).
fn uuid_of(version: u8, number: u128) -> u128 {
    let (time, low) = (number >> 62, number & LOW_62);
    let high = if version == 1 {
        let (time_low, time_mid, time_high) = (time & 0xffff_ffff, (time >> 32) & 0xffff, time >> 48);
        (time_low << 32) | (time_mid << 16) | time_high
    } else {
        ((time >> 12) << 16) | (time & 0xfff)
    };
    (high << 64) | (u128::from(version) << 76) | VARIANT | low
}

fn number_of_uuid(version: u8, bits: u128) -> u128 {
    let high = bits >> 64;
    let time = if version == 1 {
        ((high & 0xfff) << 48) | (((high >> 16) & 0xffff) << 32) | (high >> 32)
    } else {
        ((high >> 16) << 12) | (high & 0xfff)
    };
    (time << 62) | (bits & LOW_62)
}

/// Returns the UUID of a Hibernate number. Bytes 0 to 3 are the address; 4 to 7 the process, whose byte 6 begins with
/// the version; 8 and 9 the upper half of the time behind the variant; 10 to 13 its lower half; 14 and 15 the counter.
fn hibernate_of(number: u128) -> u128 {
    let counter = number & 0x7fff;
    let process = (number >> 15) & 0xfff_ffff;
    let address = (number >> 43) & 0xffff_ffff;
    let time = number >> 75;
    (address << 96)
        | ((process >> 12) << 80)
        | (1 << 76)
        | ((process & 0xfff) << 64)
        | VARIANT
        | ((time >> 32) << 48)
        | ((time & 0xffff_ffff) << 16)
        | counter
}

fn number_of_hibernate(bits: u128) -> u128 {
    let address = bits >> 96;
    let process = (((bits >> 80) & 0xffff) << 12) | ((bits >> 64) & 0xfff);
    let time = (((bits >> 48) & 0x3fff) << 32) | ((bits >> 16) & 0xffff_ffff);
    (time << 75) | (address << 43) | (process << 15) | (bits & 0x7fff)
}

/// Returns the words of all kinds, and the other words for them.
pub fn kind_words() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.word).chain(SYNONYMS.iter().map(|(synonym, _)| *synonym))
}
