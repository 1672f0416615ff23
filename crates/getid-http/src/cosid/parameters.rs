//! The parameters of a request: CosId's server reads them from the query alone, and converts them as Spring does.

use std::borrow::Cow;

use super::failure::CosidFailure;
use crate::spring::{self, Parameters};
use jiff::SignedDuration;

/// The parameters of a query.
pub(super) struct CosidParameters(Parameters);

impl CosidParameters {
    pub(super) fn of_query(query: Option<&str>) -> CosidParameters {
        CosidParameters(Parameters::of_query(query))
    }

    /// Returns a text, whose values Spring joins with commas.
    pub(super) fn text(&self, name: &str) -> Result<Cow<'_, str>, CosidFailure> {
        self.0.joined(name).ok_or_else(|| CosidFailure::missing(name))
    }

    /// Returns the value that Spring converts: the first of several. To it, an empty one is missing.
    fn word(&self, name: &str) -> Result<&str, CosidFailure> {
        self.0.first(name).filter(|word| !word.is_empty()).ok_or_else(|| CosidFailure::missing(name))
    }

    pub(super) fn integer(&self, name: &str) -> Result<i64, CosidFailure> {
        let word = self.word(name)?;
        spring::integer(word).ok_or_else(|| CosidFailure::mismatch(name, word, "an integer of 64 bits"))
    }

    pub(super) fn small_integer(&self, name: &str) -> Result<i32, CosidFailure> {
        let word = self.word(name)?;
        let integer = spring::integer(word).and_then(|integer| i32::try_from(integer).ok());
        integer.ok_or_else(|| CosidFailure::mismatch(name, word, "an integer of 32 bits"))
    }

    pub(super) fn boolean(&self, name: &str) -> Result<bool, CosidFailure> {
        let word = self.word(name)?;
        match word.trim().to_ascii_lowercase().as_str() {
            "true" | "on" | "yes" | "1" => Ok(true),
            "false" | "off" | "no" | "0" => Ok(false),
            _ => Err(CosidFailure::mismatch(name, word, "true or false")),
        }
    }

    /// Returns a duration in ms, as Java's `Duration` writes it: `PT5M`.
    pub(super) fn duration_ms(&self, name: &str) -> Result<u64, CosidFailure> {
        let text = self.text(name)?;
        let duration = text.parse::<SignedDuration>().ok().filter(|_| text.starts_with(['P', 'p']));
        let ms = duration.and_then(|duration| u64::try_from(duration.as_millis()).ok());
        ms.ok_or_else(|| CosidFailure::mismatch(name, &text, "a duration such as PT5M or PT1H30M"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> CosidParameters {
        CosidParameters::of_query(Some(&format!("p={text}")))
    }

    #[test]
    fn durations_are_those_of_java() {
        for (text, ms) in [
            ("PT5M", Some(300_000)),
            ("PT1H30M", Some(5_400_000)),
            ("PT0.5S", Some(500)),
            ("PT30.000000001S", Some(30_000)),
            ("pt10s", Some(10_000)),
            ("PT0S", Some(0)),
            // The longest duration of CosId, which is for ever.
            ("PT2562047788015H12M55.807S", Some(i64::MAX.cast_unsigned())),
            ("PT-5M", None),
            ("-PT5M", None),
            ("PT5", None),
            ("5m", None),
            ("5 minutes", None),
            ("300000", None),
            ("P1Y", None),
            ("", None),
            ("PT5M,PT5M", None),
            ("PT99999999999999999999H", None),
        ] {
            assert_eq!(of(text).duration_ms("p").ok(), ms, "{text}");
        }
    }

    #[test]
    fn words_are_converted_as_spring_does() {
        for (text, is_true) in [("true", true), ("TRUE", true), ("1", true), ("on", true), ("no", false), ("0", false)]
        {
            assert_eq!(of(text).boolean("p"), Ok(is_true), "{text}");
        }
        assert!(of("maybe").boolean("p").is_err() && of("").boolean("p").is_err() && of("").integer("p").is_err());
        assert_eq!(of("1%200&p=2").integer("p"), Ok(10));
        assert_eq!((of("2147483647").small_integer("p"), of("-0x10").small_integer("p")), (Ok(i32::MAX), Ok(-16)));
        assert!(of("2147483648").small_integer("p").is_err() && of("1.0").integer("p").is_err());
        assert_eq!(of("a&p=b").text("p").as_deref(), Ok("a,b"));
        assert_eq!((of("").text("p").as_deref(), of("").text("q")), (Ok(""), Err(CosidFailure::missing("q"))));
    }
}
