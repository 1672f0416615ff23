//! Parses single words of a line into values.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use getid_core::Epoch;

use super::value_error::ValueError;
use super::values::{BIND_ADDRESSES_MAX, BindAddr};
use getid_text::timestamp::{self, TimeError};

pub(super) const YES_NO: &[&str] = &["yes", "no"];

/// Largest size in bytes, as in Redis; no machine has as much memory.
pub(super) const MEMORY_MAX: u64 = i64::MAX as u64;

pub(super) fn number(word: &str, min: i64, max: i64, unit: &'static str) -> Result<i64, ValueError> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    if !is_digits(digits) {
        return Err(ValueError::Number { found: word.to_owned(), min, max, unit });
    }
    // Digits that don't parse are too many.
    match word.parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(ValueError::Range { found: word.to_owned(), min, max, unit }),
    }
}

/// Parses a size as Redis writes it: k is 1000, kb is 1024.
pub(super) fn memory(word: &str, min: u64) -> Result<u64, ValueError> {
    let wrong = || ValueError::Memory { found: word.to_owned() };
    let unit_at = word.find(|character: char| !character.is_ascii_digit()).unwrap_or(word.len());
    let (digits, unit) = word.split_at(unit_at);
    let factor: u128 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return Err(wrong()),
    };
    if digits.is_empty() {
        return Err(wrong());
    }
    // Digits that don't parse are too many.
    let bytes = digits.parse::<u128>().unwrap_or(u128::MAX).saturating_mul(factor);
    match u64::try_from(bytes) {
        Ok(bytes) if (min..=MEMORY_MAX).contains(&bytes) => Ok(bytes),
        _ => Err(ValueError::MemoryRange { found: word.to_owned(), min }),
    }
}

pub(super) fn choice(word: &str, words: &'static [&'static str]) -> Result<&'static str, ValueError> {
    let found = words.iter().find(|candidate| candidate.eq_ignore_ascii_case(word));
    found.copied().ok_or_else(|| ValueError::Word { found: word.to_owned(), words })
}

pub(super) fn mode(word: &str) -> Result<Option<u32>, ValueError> {
    let digits = word.len() <= 4 && !word.is_empty() && word.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let mode = digits.then(|| u32::from_str_radix(word, 8).ok()).flatten().filter(|mode| *mode <= 0o777);
    let mode = mode.ok_or_else(|| ValueError::Mode { found: word.to_owned() })?;
    Ok((mode != 0).then_some(mode))
}

/// Parses `127.0.0.1`, `-::1`, and `*` and `::*` for all addresses of a kind. The name localhost is the address that
/// Redis binds for it.
fn address(word: &str) -> Result<BindAddr, ValueError> {
    let (optional, text) = match word.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, word),
    };
    let ip = match text {
        "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        "::*" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ if text.eq_ignore_ascii_case("localhost") => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => text.parse().map_err(|_| ValueError::Address { found: word.to_owned() })?,
    };
    Ok(BindAddr { ip, optional })
}

/// Parses the addresses of a line; a lone empty word means none, as in Redis.
pub(super) fn addresses(words: &[String]) -> Result<Vec<BindAddr>, ValueError> {
    let words = listed(words);
    if words.len() > BIND_ADDRESSES_MAX {
        return Err(ValueError::Addresses { found: words.len(), max: BIND_ADDRESSES_MAX });
    }
    words.iter().map(|word| address(word)).collect()
}

/// Returns the words that [`addresses`] reads back.
pub(super) fn address_words(addresses: &[BindAddr]) -> Vec<String> {
    let word = |address: &BindAddr| format!("{}{}", if address.optional { "-" } else { "" }, address.ip);
    addresses.iter().map(word).collect()
}

/// Returns the words; a lone empty word means none.
pub(super) fn listed(words: &[String]) -> &[String] {
    if words == [""] { &[] } else { words }
}

pub(super) fn epoch(word: &str) -> Result<Epoch, ValueError> {
    let out_of_range = || ValueError::EpochRange { found: word.to_owned() };
    let unix_ms = timestamp::parse_unix_ms(word).map_err(|error| match error {
        TimeError::Range { .. } => out_of_range(),
        error => ValueError::Epoch(error),
    })?;
    u64::try_from(unix_ms).ok().and_then(Epoch::from_unix_ms).ok_or_else(out_of_range)
}

pub(super) fn is_digits(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) const fn yes_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}
