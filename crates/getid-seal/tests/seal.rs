//! The format of sealed texts, by fixed vectors that the decoders in other languages read too, and by properties.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeSet;

use getid_core::Alphabet;
use getid_seal::{OpenError, Opened, SealKeys, Sealer};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

const VECTORS: &str = include_str!("sealed-vectors.json");

/// Sealed texts, and texts that are refused.
#[derive(Serialize, Deserialize)]
struct Vectors {
    /// Meaning of the file.
    comment: String,
    /// Lines of the key file of all vectors.
    key_file: Vec<String>,
    sealed: Vec<Sealed>,
    refused: Vec<Refused>,
}

#[derive(Serialize, Deserialize)]
struct Sealed {
    generator: String,
    alphabet: String,
    /// Number of the key that seals.
    key: u8,
    /// The ID in decimal digits: JSON numbers of many programs have 53 bits.
    id: String,
    text: String,
}

#[derive(Serialize, Deserialize)]
struct Refused {
    generator: String,
    alphabet: String,
    text: String,
    /// `length`, `character`, `range`, `key` or `check`.
    error: String,
}

fn sealer(lines: &[String], sealing: Option<u8>, name: &str, alphabet: &str) -> Sealer {
    let is_open_only = |line: &&String| {
        let number = line.split(' ').next().and_then(|number| number.parse::<u8>().ok());
        sealing.is_some_and(|sealing| number != Some(sealing))
    };
    let line = |line: &String| if is_open_only(&line) { format!("{line} open-only\n") } else { format!("{line}\n") };
    let file: String = lines.iter().map(line).collect();
    let keys = SealKeys::parse(file.as_bytes()).unwrap();
    Sealer::new(keys, name, Alphabet::parse(alphabet).unwrap()).unwrap()
}

fn word(error: &OpenError) -> &'static str {
    match error {
        OpenError::Length { .. } => "length",
        OpenError::Character { .. } => "character",
        OpenError::Range => "range",
        OpenError::Key { .. } => "key",
        OpenError::Check { .. } => "check",
    }
}

#[test]
fn vectors() {
    let vectors: Vectors = serde_json::from_str(VECTORS).unwrap();
    assert!(vectors.sealed.len() >= 20 && vectors.refused.len() >= 5);
    for Sealed { generator, alphabet, key, id, text } in &vectors.sealed {
        let sealer = sealer(&vectors.key_file, Some(*key), generator, alphabet);
        let id = id.parse().unwrap();
        assert_eq!(sealer.seal(id).as_ref(), Ok(text), "{generator} {alphabet} {key} {id}");
        assert_eq!(sealer.open(text.as_bytes()), Ok(Opened { id, key: *key }), "{text}");
    }
    for Refused { generator, alphabet, text, error } in &vectors.refused {
        let found = sealer(&vectors.key_file, None, generator, alphabet).open(text.as_bytes()).unwrap_err();
        assert_eq!(word(&found), error, "{text}: {found}");
    }
}

const KEY_LINES: [&str; 2] = [
    "0 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
    "1 1f1e1d1c1b1a191817161514131211100f0e0d0c0b0a09080706050403020100",
];

fn key_lines() -> Vec<String> {
    KEY_LINES.map(str::to_owned).to_vec()
}

/// Of the changes of a text, the check lets pass about one in `C`: 9 for base58.
#[test]
fn most_changed_texts_are_refused() {
    let order = sealer(&key_lines(), Some(0), "order", "base58");
    let alphabet = Alphabet::parse("base58").unwrap();
    let (mut changes, mut opened) = (0, 0);
    for id in 0..20 {
        let text = order.seal(id << 40).unwrap().into_bytes();
        for place in 0..text.len() {
            for &character in alphabet.as_bytes().iter().filter(|&&character| character != text[place]) {
                let mut changed = text.clone();
                changed[place] = character;
                changes += 1;
                opened += usize::from(order.open(&changed).is_ok());
            }
        }
    }
    assert!(opened * 8 < changes, "{opened} of {changes} changed texts were opened");
}

/// Neighbouring IDs have texts of no visible order: about half of the steps ascend.
#[test]
fn texts_do_not_show_the_order() {
    let order = sealer(&key_lines(), None, "order", "base58");
    let texts: Vec<_> = (0..1000).map(|id| order.seal(id).unwrap()).collect();
    let ascents = texts.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((400..600).contains(&ascents), "{ascents}");
    assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), texts.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_sealed_is_opened(
        id in 0..1_u64 << 63,
        name in "[A-Za-z0-9_.:-]{1,128}",
        key in 0..2_u8,
        alphabet in prop::sample::select(vec!["base58", "base62", "base36", "base32", "hex", "decimal", "zyxwvutsrq"]),
    ) {
        let sealer = sealer(&key_lines(), Some(key), &name, alphabet);
        let text = sealer.seal(id).unwrap();
        prop_assert_eq!(text.len(), sealer.text_chars());
        prop_assert_eq!(sealer.open(text.as_bytes()), Ok(Opened { id, key }));
    }

    /// No text makes it panic, and what it opens is what it would seal.
    #[test]
    fn an_opened_text_is_the_one_of_its_id(text in "[1-9A-HJ-NP-Za-km-z]{12}", bytes: Vec<u8>) {
        let both: Vec<_> = (0..2).map(|key| sealer(&key_lines(), Some(key), "order", "base58")).collect();
        if let Ok(Opened { id, key }) = both[0].open(text.as_bytes()) {
            prop_assert_eq!(both[usize::from(key)].seal(id), Ok(text));
        }
        prop_assert!(both[0].open(&bytes).is_err() || bytes.len() == 12);
    }
}

/// Writes the file of vectors. They are a promise: a text that was given must open for ever.
#[test]
#[ignore = "writes the file of vectors"]
#[expect(clippy::disallowed_methods, reason = "the crate is pure, and this writes a file of its repository")]
fn write_vectors() {
    let mut lines = key_lines();
    lines.push("15 2b7e151628aed2a6abf7158809cf4f3cef4359d8d580aa4f7f036d6f04fc6a94".to_owned());
    let mut sealed = Vec::new();
    let own = "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA9876543210_-";
    let cases = ["base58", "base62", "base36", "base32", "hex", "decimal", own].map(|alphabet| ("order", alphabet, 0));
    for (generator, alphabet, key) in cases.into_iter().chain([("order", "base58", 1), ("a.b:c-d_e", "base62", 15)]) {
        for id in [0, 1, 2_124_589_679_662_596_096, u64::MAX >> 1] {
            let text = sealer(&lines, Some(key), generator, alphabet).seal(id).unwrap();
            let (generator, alphabet) = (generator.to_owned(), alphabet.to_owned());
            sealed.push(Sealed { generator, alphabet, key, id: id.to_string(), text });
        }
    }
    let text = sealed[2].text.clone();
    let key_7 = ["7 2b7e151628aed2a6abf7158809cf4f3cef4359d8d580aa4f7f036d6f04fc6a94".to_owned()];
    let foreign = sealer(&lines, Some(0), "invoice", "base58");
    let order = sealer(&lines, None, "order", "base58");
    let foreign = (0..100).map(|id| foreign.seal(id).unwrap()).find(|text| order.open(text.as_bytes()).is_err());
    let refused = [
        (text[1..].to_owned(), "length"),
        (format!("{text}1"), "length"),
        (String::new(), "length"),
        (format!("{}0", &text[..11]), "character"),
        (format!("l{}", &text[1..]), "character"),
        ("zzzzzzzzzzzz".to_owned(), "range"),
        (sealer(&key_7, None, "order", "base58").seal(1).unwrap(), "key"),
        (foreign.unwrap(), "check"),
    ];
    let refused = refused.map(|(text, error)| Refused {
        generator: "order".to_owned(),
        alphabet: "base58".to_owned(),
        text,
        error: error.to_owned(),
    });
    let comment = "Sealed texts of docs/sealed.md, by keys of the file `key_file`. `refused` texts do not open.";
    let comment = comment.to_owned();
    let vectors = Vectors { comment, key_file: lines, sealed, refused: refused.into() };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sealed-vectors.json");
    std::fs::write(path, serde_json::to_string_pretty(&vectors).unwrap() + "\n").unwrap();
}
