//! The export of each row of the table to Prometheus: family name, unit and label; or the reason why it is not
//! exported.
//!
//! Units are base units, as Prometheus recommends: seconds, bytes. A name ends with its unit, and with `_total` for a
//! counter. Families of generators have the label `generator`, in which [`UNNAMED`] is the unnamed generator.

use std::borrow::Cow;

use super::table::{Kind, Metric, SECTIONS, Source};
use super::{Facts, Value};
use crate::generators::NamedStatus;
use crate::stats::Histogram;

/// Value of the label `generator` for the unnamed generator. It is no valid name, so no other generator has it.
pub const UNNAMED: &str = "(unnamed)";

/// How a metric, or a part of one, is exported to Prometheus.
#[derive(Clone, Copy, Debug)]
pub enum Export {
    /// As a family, or as the samples of a family with one label value.
    Series(Series),
    /// As several families: its values have names of their own.
    Parts {
        /// Label that identifies the owner of the values, such as `command`.
        label: &'static str,
        /// The parts, one for each name.
        parts: &'static [Part],
    },
    /// As a classic histogram.
    Histogram {
        /// Name of the family.
        family: &'static str,
        /// Help text of one sentence.
        help: &'static str,
        /// Label that identifies the owner of each histogram, such as `command`.
        label: &'static str,
        /// Reads the histograms.
        read: fn(&Facts<'_>) -> Vec<(String, Durations)>,
    },
    /// As a label of a family whose value is always 1.
    Label {
        /// Name of the family.
        family: &'static str,
        /// Name of the label.
        label: &'static str,
    },
    /// Not exported, for this reason.
    Untold(Untold),
}

/// Samples of a family.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// Name of the family.
    pub family: &'static str,
    /// Help text, if it differs from that of INFO's field.
    pub help: Option<&'static str>,
    /// Label name and value that distinguish these samples from others of the family.
    pub label: Option<(&'static str, &'static str)>,
    /// Conversion of the value to a number in a base unit.
    pub convert: Convert,
    /// Source of the value, if it differs from that of INFO's field.
    pub source: Option<Source>,
}

/// Conversion of a value to a number in a base unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convert {
    /// The value is already in a base unit.
    Plain,
    /// The value is in milliseconds.
    Ms,
    /// The value is in microseconds.
    Us,
    /// 1 for this word, 0 for all others.
    OneIf(&'static str),
    /// 0 for this word, 1 for all others.
    OneUnless(&'static str),
}

/// One of several values of a row.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Name of the value in INFO.
    pub name: &'static str,
    /// Kind of the value.
    pub kind: Kind,
    /// How the value is exported.
    pub export: Export,
}

/// Reason why a value is not exported to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untold {
    /// The value never changes, and exists for Redis's tools.
    Constant,
    /// Another field has the same value.
    SameAs(&'static str),
    /// Prometheus computes the value by this expression.
    Computed(&'static str),
    /// Another reason, as a sentence.
    Because(&'static str),
    /// The row has no export yet; a test fails.
    NotSaid,
}

/// Durations of one kind of event.
#[derive(Clone, Debug)]
pub struct Durations {
    /// Sum of the durations, in ns.
    pub sum_ns: u64,
    /// Histogram of the durations.
    pub histogram: Histogram,
}

/// Returns the export as a family without label.
const fn series(family: &'static str, convert: Convert) -> Export {
    Export::Series(Series { family, help: None, label: None, convert, source: None })
}

impl Metric {
    const fn export(self, export: Export) -> Metric {
        Metric { export, ..self }
    }

    const fn series(self) -> Series {
        match self.export {
            Export::Series(series) => series,
            _ => panic!("the row has no family yet"),
        }
    }

    /// Exports the row as this family.
    pub(super) const fn told(self, family: &'static str) -> Metric {
        self.export(series(family, Convert::Plain))
    }

    /// Exports the row as this family, in seconds instead of milliseconds.
    pub(super) const fn told_of_ms(self, family: &'static str) -> Metric {
        self.export(series(family, Convert::Ms))
    }

    /// Exports the row as this family, in seconds instead of microseconds.
    pub(super) const fn told_of_us(self, family: &'static str) -> Metric {
        self.export(series(family, Convert::Us))
    }

    /// Exports the row as this family: 1 for a word, 0 for others.
    pub(super) const fn told_if(self, family: &'static str, word: &'static str) -> Metric {
        self.export(series(family, Convert::OneIf(word)))
    }

    /// Exports the row as this family: 0 for a word, 1 for others.
    pub(super) const fn told_unless(self, family: &'static str, word: &'static str) -> Metric {
        self.export(series(family, Convert::OneUnless(word)))
    }

    /// Exports the row as a label of a family whose value is always 1.
    pub(super) const fn told_as_label(self, family: &'static str, label: &'static str) -> Metric {
        self.export(Export::Label { family, label })
    }

    /// Exports the row as several families.
    pub(super) const fn told_in_parts(self, label: &'static str, parts: &'static [Part]) -> Metric {
        self.export(Export::Parts { label, parts })
    }

    /// Exports the row as a histogram.
    pub(super) const fn told_as_histogram(
        self,
        family: &'static str,
        help: &'static str,
        label: &'static str,
        read: fn(&Facts<'_>) -> Vec<(String, Durations)>,
    ) -> Metric {
        self.export(Export::Histogram { family, help, label, read })
    }

    /// Adds a label to the samples.
    pub(super) const fn with(self, label: &'static str, value: &'static str) -> Metric {
        let series = Series { label: Some((label, value)), ..self.series() };
        self.export(Export::Series(series))
    }

    /// Labels the samples as those of the unnamed generator.
    pub(super) const fn of_unnamed(self) -> Metric {
        self.with("generator", UNNAMED)
    }

    /// Sets the help text.
    pub(super) const fn saying(self, help: &'static str) -> Metric {
        let series = Series { help: Some(help), ..self.series() };
        self.export(Export::Series(series))
    }

    /// Sets another source of the value than INFO's.
    pub(super) const fn reading(self, read: fn(&Facts<'_>) -> Value) -> Metric {
        let series = Series { source: Some(Source::Facts(read)), ..self.series() };
        self.export(Export::Series(series))
    }

    /// Sets another source of the value for each named generator.
    pub(super) const fn reading_each(self, read: fn(&Facts<'_>, &NamedStatus) -> Value) -> Metric {
        let series = Series { source: Some(Source::Generator(read)), ..self.series() };
        self.export(Export::Series(series))
    }

    /// Excludes the row from the export: another field has the same value.
    pub(super) const fn same_as(self, field: &'static str) -> Metric {
        self.export(Export::Untold(Untold::SameAs(field)))
    }

    /// Excludes the row from the export: Prometheus computes the value.
    pub(super) const fn computed(self, expression: &'static str) -> Metric {
        self.export(Export::Untold(Untold::Computed(expression)))
    }
}

impl Part {
    /// Returns a part whose number only grows.
    pub(super) const fn counter(name: &'static str, family: &'static str, help: &'static str) -> Part {
        Part::of(name, Kind::Counter, family, help, Convert::Plain)
    }

    /// Returns a part whose number may fall.
    pub(super) const fn gauge(name: &'static str, family: &'static str, help: &'static str) -> Part {
        Part::of(name, Kind::Gauge, family, help, Convert::Plain)
    }

    /// Returns a part whose value is a time in milliseconds.
    pub(super) const fn gauge_of_ms(name: &'static str, family: &'static str, help: &'static str) -> Part {
        Part::of(name, Kind::Gauge, family, help, Convert::Ms)
    }

    /// Returns a part whose value is a word: 1 for this one, 0 for others.
    pub(super) const fn gauge_if(
        name: &'static str,
        family: &'static str,
        help: &'static str,
        word: &'static str,
    ) -> Part {
        Part::of(name, Kind::Gauge, family, help, Convert::OneIf(word))
    }

    /// Returns a part that is a label of a family whose value is always 1.
    pub(super) const fn label(name: &'static str, family: &'static str, label: &'static str) -> Part {
        Part { name, kind: Kind::Text, export: Export::Label { family, label } }
    }

    /// Returns a part that is not exported.
    pub(super) const fn untold(name: &'static str, why: Untold) -> Part {
        Part { name, kind: Kind::Text, export: Export::Untold(why) }
    }

    /// Adds a label beside that of the row.
    pub(super) const fn with(self, label: &'static str, value: &'static str) -> Part {
        let Export::Series(series) = self.export else { panic!("the part has no family") };
        Part { export: Export::Series(Series { label: Some((label, value)), ..series }), ..self }
    }

    const fn of(name: &'static str, kind: Kind, family: &'static str, help: &'static str, convert: Convert) -> Part {
        Part {
            name,
            kind,
            export: Export::Series(Series { family, help: Some(help), label: None, convert, source: None }),
        }
    }
}

/// Help texts of the families whose value is always 1.
pub const INFOS: &[(&str, &str)] = &[
    ("getid_build_info", "The program: its version, and the Redis whose protocol it speaks."),
    ("getid_process_info", "The process: what it is, and where it came from."),
    ("getid_server_info", "Settings of the server that are words."),
    ("getid_generator_info", "Each named generator: what it is declared as."),
    ("getid_claim_info", "The claim in a cluster store: where it is, whose it is, and who this server is."),
    ("getid_store_info", "Each store of sequences: its address without a password, and its database."),
];

/// Returns the unit in a family's name, for OpenMetrics.
pub fn unit_of(family: &str) -> Option<&'static str> {
    let name = family.strip_suffix("_total").unwrap_or(family);
    ["seconds", "bytes"].into_iter().find(|unit| name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')))
}

/// A family of Prometheus, made from one or several rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// Name of the family.
    pub name: &'static str,
    /// Shape of its samples.
    pub shape: Shape,
    /// Help text of one sentence.
    pub help: Cow<'static, str>,
    /// Names of its labels.
    pub labels: Vec<&'static str>,
    /// Section of INFO that contains the first of its fields.
    pub section: &'static str,
    /// Fields of INFO that it is made from.
    pub fields: Vec<String>,
}

/// Shape of a family's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number that only grows, until the next start or `CONFIG RESETSTAT`.
    Counter,
    /// A number that may fall.
    Gauge,
    /// A classic histogram of durations.
    Histogram,
    /// The constant 1, with words in its labels.
    Info,
}

/// Returns all families, in the order of the table.
pub fn families() -> Vec<Family> {
    let mut families = Vec::new();
    for section in SECTIONS {
        for metric in section.metrics {
            let (section, help) = (section.title, metric.help);
            let own = matches!(metric.source, Source::Generator(_)).then_some("generator");
            if let Export::Parts { label, parts } = metric.export {
                for Part { name, kind, export } in parts {
                    let field = format!("{}*: {name}", metric.name);
                    add(&mut families, export, Row { section, kind: *kind, help: name, own: Some(label), field });
                }
            } else {
                let field =
                    if own.is_some() { format!("generator_*: {}", metric.name) } else { metric.name.to_owned() };
                add(&mut families, &metric.export, Row { section, kind: metric.kind, help, own, field });
            }
        }
    }
    families
}

/// A row, or a part of one, as input of a family.
struct Row {
    section: &'static str,
    kind: Kind,
    help: &'static str,
    own: Option<&'static str>,
    field: String,
}

fn add(families: &mut Vec<Family>, export: &Export, row: Row) {
    let Row { section, kind, help, own, field } = row;
    let (name, shape, help, label) = match *export {
        Export::Series(series) => {
            let shape = if kind == Kind::Counter { Shape::Counter } else { Shape::Gauge };
            (series.family, shape, series.help_or(help), series.label.map(|(label, _)| label))
        }
        Export::Histogram { family, help, label, .. } => (family, Shape::Histogram, help.into(), Some(label)),
        Export::Label { family, label } => (family, Shape::Info, info_help(family).into(), Some(label)),
        Export::Untold(_) | Export::Parts { .. } => return,
    };
    let labels = own.into_iter().chain(label);
    if let Some(family) = families.iter_mut().find(|family| family.name == name) {
        let new: Vec<_> = labels.filter(|label| !family.labels.contains(label)).collect();
        family.labels.extend(new);
        family.fields.push(field);
    } else {
        families.push(Family { name, shape, help, labels: labels.collect(), section, fields: vec![field] });
    }
}

/// Returns the help text of a family whose value is always 1.
fn info_help(family: &str) -> &'static str {
    INFOS.iter().find(|(name, _)| *name == family).map_or("", |(_, help)| help)
}

impl Series {
    /// Returns the family's help text; `help` is that of its row. Times are in seconds.
    pub(super) fn help_or(&self, help: &'static str) -> Cow<'static, str> {
        match (self.help, self.convert) {
            (Some(help), _) => help.into(),
            (None, Convert::Ms) => help.replace(", ms", ", seconds").into(),
            (None, _) => help.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Returns for each row and part: its field, kind, export, and the labels of its samples.
    fn told() -> Vec<(String, Kind, Export, Vec<&'static str>)> {
        let mut told = Vec::new();
        for metric in SECTIONS.iter().flat_map(|section| section.metrics) {
            let own: Vec<_> =
                matches!(metric.source, Source::Generator(_)).then_some("generator").into_iter().collect();
            if let Export::Parts { label, parts } = metric.export {
                let of = |part: &Part| (format!("{}{}", metric.name, part.name), part.kind, part.export, vec![label]);
                told.extend(parts.iter().map(of));
            } else {
                told.push((metric.name.to_owned(), metric.kind, metric.export, own));
            }
        }
        told
    }

    #[test]
    fn each_field_is_exported_or_has_a_reason() {
        let fields: BTreeSet<String> = told().into_iter().map(|(field, ..)| field).collect();
        let families: BTreeSet<&str> = families().iter().map(|family| family.name).collect();
        for (field, _, export, _) in told() {
            let Export::Untold(why) = export else { continue };
            match why {
                Untold::Constant => {}
                Untold::SameAs(other) => {
                    let target = told().into_iter().find(|(field, ..)| field == other);
                    let (.., export, _) = target.unwrap_or_else(|| panic!("{field} is as {other}, which is no field"));
                    assert!(!matches!(export, Export::Untold(_)), "{field} is as {other}, which is not exported");
                }
                Untold::Computed(expression) => {
                    let words = expression.split(|char: char| !(char.is_ascii_alphanumeric() || char == '_'));
                    let named: Vec<_> = words.filter(|word| word.starts_with("getid_")).collect();
                    assert!(!named.is_empty(), "{field}: {expression}");
                    for name in named {
                        let base = name.strip_suffix("_sum").or_else(|| name.strip_suffix("_count")).unwrap_or(name);
                        assert!(families.contains(base), "{field}: {expression} has {name}");
                    }
                }
                Untold::Because(why) => assert!(why.ends_with('.'), "{field}: {why}"),
                Untold::NotSaid => panic!("{field} has no export to Prometheus and no reason"),
            }
        }
        assert!(fields.len() > 200, "{}", fields.len());
    }

    #[test]
    fn families_are_named_by_the_rules() {
        let mut bases = BTreeSet::new();
        for Family { name, shape, help, labels, .. } in families() {
            let is_of_name = |char: char| char.is_ascii_lowercase() || char == '_';
            assert!(name.starts_with("getid_") && name.chars().all(is_of_name), "{name}");
            assert_eq!(name.ends_with("_total"), shape == Shape::Counter, "{name}");
            assert_eq!(name.ends_with("_info"), shape == Shape::Info, "{name}");
            for ending in ["_sum", "_count", "_bucket", "_created"] {
                assert!(!name.ends_with(ending), "{name}");
            }
            // In OpenMetrics a family has no `_total` and no `_info`.
            let base = name.strip_suffix("_total").or_else(|| name.strip_suffix("_info")).unwrap_or(name);
            assert!(bases.insert(base), "{name} has the base name of another family");
            let is_plain = help.ends_with('.') && help.is_ascii() && !help.contains(['\\', '\n', '"']);
            assert!(is_plain && !help.contains("  "), "{name}: {help}");
            // Names of directives, between backticks, may contain a unit.
            let prose: String = help.split('`').step_by(2).collect();
            let words: Vec<_> = prose.split(|char: char| !char.is_ascii_alphabetic()).collect();
            assert!(!words.contains(&"ms") && !words.contains(&"microseconds"), "{name}: {help}");
            assert_eq!(labels.iter().collect::<BTreeSet<_>>().len(), labels.len(), "{name}");
        }
    }

    #[test]
    fn samples_of_a_family_are_of_one_kind() {
        let mut families: BTreeMap<&str, (Kind, Vec<&str>)> = BTreeMap::new();
        let mut samples = BTreeSet::new();
        for (field, kind, export, mut labels) in told() {
            let Export::Series(series) = export else { continue };
            assert!(
                series.convert == Convert::Plain || kind != Kind::Text || series.source.is_some() || is_of_word(series)
            );
            if matches!(series.convert, Convert::Ms | Convert::Us) {
                assert_eq!(unit_of(series.family), Some("seconds"), "{field}");
            }
            labels.extend(series.label.map(|(label, _)| label));
            let sample = (series.family, series.label, labels.len());
            let is_named = series.label.is_none() && labels == ["generator"];
            assert!(samples.insert(sample) || is_named, "{field} has the samples of another field");
            let kind = if kind == Kind::Text { Kind::Gauge } else { kind };
            let first = families.entry(series.family).or_insert_with(|| (kind, labels.clone()));
            assert_eq!(*first, (kind, labels), "{field}");
        }
    }

    fn is_of_word(series: Series) -> bool {
        matches!(series.convert, Convert::OneIf(_) | Convert::OneUnless(_))
    }
}
