//! How each row of the table is told to Prometheus: by which name, in which unit, with which label; or why it is not.
//!
//! Units are base units, as Prometheus has it: seconds, bytes. A name says its unit, and `_total` that it is a counter.
//! Families of generators have the label `generator`, in which [`UNNAMED`] is the unnamed one.

use std::borrow::Cow;

use super::table::{Kind, Metric, SECTIONS, Source};
use super::{Facts, Value};
use crate::generators::NamedStatus;
use crate::stats::Histogram;

/// The unnamed generator in the label `generator`. It is no name, so no other generator has it.
pub const UNNAMED: &str = "(unnamed)";

/// How a metric, or a part of one, is told to Prometheus.
#[derive(Clone, Copy, Debug)]
pub enum Export {
    /// As a family, or as those samples of one that have this label.
    Series(Series),
    /// As several families: its values have names of their own.
    Parts {
        /// What the values belong to, such as `command`.
        label: &'static str,
        /// One for each name.
        parts: &'static [Part],
    },
    /// As a classic histogram.
    Histogram {
        /// Its name.
        family: &'static str,
        /// What it says, in one sentence.
        help: &'static str,
        /// What the histograms belong to, such as `command`.
        label: &'static str,
        /// Reads them.
        read: fn(&Facts<'_>) -> Vec<(String, Durations)>,
    },
    /// As a label of a family whose value is always 1.
    Label {
        /// The family.
        family: &'static str,
        /// The label.
        label: &'static str,
    },
    /// Not at all.
    Untold(Untold),
}

/// Samples of a family.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// The family.
    pub family: &'static str,
    /// What it says, where that is not what INFO's field says.
    pub help: Option<&'static str>,
    /// The label that tells these samples from others of the family.
    pub label: Option<(&'static str, &'static str)>,
    /// How the value becomes a number in a base unit.
    pub convert: Convert,
    /// Where the value comes from, where that is not where INFO's comes from.
    pub source: Option<Source>,
}

/// How a value becomes a number in a base unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convert {
    /// It is one.
    Plain,
    /// Of milliseconds.
    Ms,
    /// Of microseconds.
    Us,
    /// 1 for this word, 0 for all others.
    OneIf(&'static str),
    /// 0 for this word, 1 for all others.
    OneUnless(&'static str),
}

/// One of several values that a row has together.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its name in INFO.
    pub name: &'static str,
    /// What kind of value it has.
    pub kind: Kind,
    /// How it is told.
    pub export: Export,
}

/// Why something is not told to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untold {
    /// It never changes, and is there for Redis's tools.
    Constant,
    /// Another field says the same.
    SameAs(&'static str),
    /// Prometheus computes it, by this expression.
    Computed(&'static str),
    /// For another reason.
    Because(&'static str),
    /// Nobody has said it yet, which a test finds.
    NotSaid,
}

/// How long something took, each time.
#[derive(Clone, Debug)]
pub struct Durations {
    /// Together, ns.
    pub sum_ns: u64,
    /// How often it took how long.
    pub histogram: Histogram,
}

/// Samples of this family, with the value as it is.
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

    /// Told as this family.
    pub(super) const fn told(self, family: &'static str) -> Metric {
        self.export(series(family, Convert::Plain))
    }

    /// Told as this family, in seconds instead of milliseconds.
    pub(super) const fn told_of_ms(self, family: &'static str) -> Metric {
        self.export(series(family, Convert::Ms))
    }

    /// Told as this family, in seconds instead of microseconds.
    pub(super) const fn told_of_us(self, family: &'static str) -> Metric {
        self.export(series(family, Convert::Us))
    }

    /// Told as this family: 1 for a word, 0 for others.
    pub(super) const fn told_if(self, family: &'static str, word: &'static str) -> Metric {
        self.export(series(family, Convert::OneIf(word)))
    }

    /// Told as this family: 0 for a word, 1 for others.
    pub(super) const fn told_unless(self, family: &'static str, word: &'static str) -> Metric {
        self.export(series(family, Convert::OneUnless(word)))
    }

    /// Told as a label of a family whose value is always 1.
    pub(super) const fn told_as_label(self, family: &'static str, label: &'static str) -> Metric {
        self.export(Export::Label { family, label })
    }

    /// Told as several families.
    pub(super) const fn told_in_parts(self, label: &'static str, parts: &'static [Part]) -> Metric {
        self.export(Export::Parts { label, parts })
    }

    /// Told as a histogram.
    pub(super) const fn told_as_histogram(
        self,
        family: &'static str,
        help: &'static str,
        label: &'static str,
        read: fn(&Facts<'_>) -> Vec<(String, Durations)>,
    ) -> Metric {
        self.export(Export::Histogram { family, help, label, read })
    }

    /// With this label.
    pub(super) const fn with(self, label: &'static str, value: &'static str) -> Metric {
        let series = Series { label: Some((label, value)), ..self.series() };
        self.export(Export::Series(series))
    }

    /// Of the unnamed generator, beside the named ones.
    pub(super) const fn of_unnamed(self) -> Metric {
        self.with("generator", UNNAMED)
    }

    /// With this sentence.
    pub(super) const fn saying(self, help: &'static str) -> Metric {
        let series = Series { help: Some(help), ..self.series() };
        self.export(Export::Series(series))
    }

    /// With a value of its own.
    pub(super) const fn reading(self, read: fn(&Facts<'_>) -> Value) -> Metric {
        let series = Series { source: Some(Source::Facts(read)), ..self.series() };
        self.export(Export::Series(series))
    }

    /// With a value of its own for each named generator.
    pub(super) const fn reading_each(self, read: fn(&Facts<'_>, &NamedStatus) -> Value) -> Metric {
        let series = Series { source: Some(Source::Generator(read)), ..self.series() };
        self.export(Export::Series(series))
    }

    /// Not told: another field says the same.
    pub(super) const fn same_as(self, field: &'static str) -> Metric {
        self.export(Export::Untold(Untold::SameAs(field)))
    }

    /// Not told: Prometheus computes it.
    pub(super) const fn computed(self, expression: &'static str) -> Metric {
        self.export(Export::Untold(Untold::Computed(expression)))
    }
}

impl Part {
    /// A number that only grows.
    pub(super) const fn counter(name: &'static str, family: &'static str, help: &'static str) -> Part {
        Part::of(name, Kind::Counter, family, help, Convert::Plain)
    }

    /// A number that may fall.
    pub(super) const fn gauge(name: &'static str, family: &'static str, help: &'static str) -> Part {
        Part::of(name, Kind::Gauge, family, help, Convert::Plain)
    }

    /// A time in milliseconds.
    pub(super) const fn gauge_of_ms(name: &'static str, family: &'static str, help: &'static str) -> Part {
        Part::of(name, Kind::Gauge, family, help, Convert::Ms)
    }

    /// A word: 1 for this one, 0 for others.
    pub(super) const fn gauge_if(
        name: &'static str,
        family: &'static str,
        help: &'static str,
        word: &'static str,
    ) -> Part {
        Part::of(name, Kind::Gauge, family, help, Convert::OneIf(word))
    }

    /// A label of a family whose value is always 1.
    pub(super) const fn label(name: &'static str, family: &'static str, label: &'static str) -> Part {
        Part { name, kind: Kind::Text, export: Export::Label { family, label } }
    }

    /// One that is not told.
    pub(super) const fn untold(name: &'static str, why: Untold) -> Part {
        Part { name, kind: Kind::Text, export: Export::Untold(why) }
    }

    /// With this label beside that of the row.
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

/// What all labels of a family whose value is always 1 are about.
pub const INFOS: &[(&str, &str)] = &[
    ("getid_build_info", "The program: its version, and the Redis whose protocol it speaks."),
    ("getid_process_info", "The process: what it is, and where it came from."),
    ("getid_server_info", "Settings of the server that are words."),
    ("getid_generator_info", "Each named generator: what it is declared as."),
    ("getid_claim_info", "The claim in a cluster store: where it is, whose it is, and who this server is."),
    ("getid_store_info", "Each store of sequences: its address without a password, and its database."),
];

/// The unit that a family's name says, for OpenMetrics.
pub fn unit_of(family: &str) -> Option<&'static str> {
    let name = family.strip_suffix("_total").unwrap_or(family);
    ["seconds", "bytes"].into_iter().find(|unit| name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')))
}

/// What Prometheus is told: one row a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What kind of samples it has.
    pub shape: Shape,
    /// What it says, in one sentence.
    pub help: Cow<'static, str>,
    /// Its labels.
    pub labels: Vec<&'static str>,
    /// The section of INFO that has the first of its fields.
    pub section: &'static str,
    /// The fields of INFO that it is made from.
    pub fields: Vec<String>,
}

/// What kind of samples a family has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number that only grows, until the next start or `CONFIG RESETSTAT`.
    Counter,
    /// A number that may fall.
    Gauge,
    /// How often something took how long.
    Histogram,
    /// 1, with words in its labels.
    Info,
}

/// All families, in the order of the table.
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

/// A row, or a part of one.
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

/// What a family says whose value is always 1.
fn info_help(family: &str) -> &'static str {
    INFOS.iter().find(|(name, _)| *name == family).map_or("", |(_, help)| help)
}

impl Series {
    /// What the family says, where its row has `help`. Times are in seconds.
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

    /// Each row and part: its field, its kind, how it is told, and the labels that its samples have.
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
    fn each_field_is_told_or_says_why_not() {
        let fields: BTreeSet<String> = told().into_iter().map(|(field, ..)| field).collect();
        let families: BTreeSet<&str> = families().iter().map(|family| family.name).collect();
        for (field, _, export, _) in told() {
            let Export::Untold(why) = export else { continue };
            match why {
                Untold::Constant => {}
                Untold::SameAs(other) => {
                    let target = told().into_iter().find(|(field, ..)| field == other);
                    let (.., export, _) = target.unwrap_or_else(|| panic!("{field} is as {other}, which is no field"));
                    assert!(!matches!(export, Export::Untold(_)), "{field} is as {other}, which is not told");
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
                Untold::NotSaid => panic!("{field} does not say how it is told to Prometheus"),
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
            assert!(bases.insert(base), "{name} has the name of another");
            let is_plain = help.ends_with('.') && help.is_ascii() && !help.contains(['\\', '\n', '"']);
            assert!(is_plain && !help.contains("  "), "{name}: {help}");
            // Names of directives, between backticks, may say a unit.
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
