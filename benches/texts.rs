//! What does the text of an ID cost, beside the crate that has this kind of text?
//!
//! Each pair writes, or reads, the same thing: an ID as a ULID, as a UUID of version 7, as a code of Sqids, and the
//! permutation behind a sealed text. A crate that returns a `String` is compared with a buffer that is used again, as
//! a server has one; for ULIDs and UUIDs both write into a buffer. This does not measure how an ID is found. Compare
//! only figures of one run.
//!
//! `cargo bench --bench texts`; `cargo test` runs each once.

#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;

use aes::Aes256;
use criterion::{Criterion, criterion_group, criterion_main};
use fpe::ff1::{BinaryNumeralString, FF1};
use getid_core::{Alphabet, Declaration, Number, no_dates};
use getid_seal::{SealKeys, Sealer};

/// An ID of 63 bits.
const ID: u64 = 786_827_840_126_452_656;

/// 128 bits of a time and of noise.
const WIDE: u128 = 0x01a2_04c9_3e38_7000_8ca2_eb44_e234_3e20;

fn declared(words: &str) -> Declaration {
    Declaration::parse(&words.split(' ').collect::<Vec<_>>(), no_dates).expect("a declaration")
}

/// Measures how long the server takes to write a number, and to read its text.
fn of_server(c: &mut Criterion, group: &str, words: &str, text: &str) {
    let declaration = declared(words);
    let number = declaration.read(text).expect("an ID of the generator");
    let mut output = Vec::with_capacity(64);
    let mut group = c.benchmark_group(group);
    group.bench_function("written", |b| {
        b.iter(|| {
            output.clear();
            assert!(declaration.write(black_box(number), &mut output));
            output.len()
        });
    });
    assert_eq!(output, text.as_bytes());
    group.bench_function("read", |b| b.iter(|| declaration.read(black_box(text))));
    group.finish();
}

fn ulid(c: &mut Criterion) {
    let ulid = ulid::Ulid::from(WIDE);
    let text = ulid.to_string();
    of_server(c, "ulid", "u ulid", &text);
    let mut group = c.benchmark_group("ulid");
    let mut output = [0; ulid::ULID_LEN];
    group.bench_function("written, crate ulid", |b| b.iter(|| black_box(ulid).array_to_str(&mut output).len()));
    group.bench_function("read, crate ulid", |b| b.iter(|| ulid::Ulid::from_string(black_box(&text))));
    group.finish();
}

fn uuid7(c: &mut Criterion) {
    let uuid = uuid::Uuid::from_u128(WIDE);
    let text = uuid.to_string();
    of_server(c, "uuid7", "u uuid7", &text);
    let mut group = c.benchmark_group("uuid7");
    let mut output = [0; uuid::fmt::Hyphenated::LENGTH];
    group.bench_function("written, crate uuid", |b| {
        b.iter(|| black_box(uuid).hyphenated().encode_lower(&mut output).len());
    });
    group.bench_function("read, crate uuid", |b| b.iter(|| uuid::Uuid::try_parse(black_box(&text))));
    group.finish();
}

fn sqids(c: &mut Criterion) {
    let sqids = sqids::Sqids::default();
    let text = sqids.encode(&[ID]).expect("a text");
    of_server(c, "sqids", "u fork format sqids", &text);
    let mut group = c.benchmark_group("sqids");
    group.bench_function("written, crate sqids", |b| b.iter(|| sqids.encode(&[black_box(ID)])));
    // It reads texts that it does not write; the server writes what it has read, and compares.
    group.bench_function("read, crate sqids", |b| b.iter(|| sqids.decode(black_box(&text))));
    group.finish();
}

/// A sealed text is a permutation by FF1, a check by HMAC-SHA256, and digits.
fn sealed(c: &mut Criterion) {
    let key = [7; 32];
    let keys = SealKeys::parse(format!("0 {}\n", "07".repeat(key.len())).as_bytes()).expect("a key");
    let sealer = Sealer::new(keys, "order", Alphabet::parse("base58").expect("a word")).expect("58 characters");
    let text = sealer.seal(ID).expect("63 bits");
    let mut group = c.benchmark_group("sealed");
    group.bench_function("sealed", |b| b.iter(|| sealer.seal(black_box(ID))));
    group.bench_function("opened", |b| b.iter(|| sealer.open(black_box(text.as_bytes())).is_ok()));
    let ff1 = FF1::<Aes256>::new(&key, 2).expect("a radix of FF1");
    let numerals = BinaryNumeralString::from_bytes_le(&ID.to_le_bytes());
    group.bench_function("FF1 of 64 bits alone, crate fpe", |b| b.iter(|| ff1.encrypt(b"order", black_box(&numerals))));
    group.finish();
}

/// A number as digits, for comparison: what the unnamed generator's IDs cost with a format.
fn base62(c: &mut Criterion) {
    let declaration = declared("u fork format base62");
    let mut text = Vec::new();
    assert!(declaration.write(Number::from(ID), &mut text));
    of_server(c, "base62", "u fork format base62", std::str::from_utf8(&text).expect("ASCII"));
}

criterion_group!(texts, ulid, uuid7, sqids, sealed, base62);
criterion_main!(texts);
