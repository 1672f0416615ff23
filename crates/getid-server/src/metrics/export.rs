//! The export of each row of the table to Prometheus: family name, unit and label; or the reason why it is not
//! exported.
//!
//! Units are base units, as Prometheus recommends: seconds, bytes. A name ends with its unit, and with `_total` for a
//! counter. Families of generators have the label `generator`, in which [`UNNAMED`] is the unnamed generator.

use std::borrow::Cow;

use super::table::{Metric, MetricKind, SECTIONS, ValueSource};
use super::{Facts, MetricValue};
use getid_engine::generators::NamedStatus;
use getid_redis::stats::Histogram;

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
        parts: &'static [RowPart],
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
    Omitted(OmitReason),
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
    pub conversion: Conversion,
    /// Source of the value, if it differs from that of INFO's field.
    pub source: Option<ValueSource>,
}

/// Conversion of a value to a number in a base unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
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
pub struct RowPart {
    /// Name of the value in INFO.
    pub name: &'static str,
    /// Kind of the value.
    pub kind: MetricKind,
    /// Description in one sentence, with the unit.
    pub help: &'static str,
    /// How the value is exported.
    pub export: Export,
}

/// Reason why a value is not exported to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OmitReason {
    /// The value never changes, and exists for Redis's tools.
    Constant,
    /// Another field has the same value.
    SameAs(&'static str),
    /// Prometheus computes the value by this expression.
    Computed(&'static str),
    /// Another reason, as a sentence.
    Because(&'static str),
    /// The row has no export yet; a test fails.
    Unmapped,
}

/// Durations of one kind of event.
#[derive(Clone, Debug)]
pub struct Durations {
    /// Sum of the durations, in ns.
    pub(crate) sum_ns: u64,
    /// Histogram of the durations.
    pub histogram: Histogram,
}

/// Returns the export as a family without label.
const fn series(family: &'static str, conversion: Conversion) -> Export {
    Export::Series(Series { family, help: None, label: None, conversion, source: None })
}

impl Metric {
    const fn with_export(self, export: Export) -> Metric {
        Metric { export, ..self }
    }

    const fn series(self) -> Series {
        match self.export {
            Export::Series(series) => series,
            _ => panic!("the row has no family yet"),
        }
    }

    /// Exports the row as this family.
    pub(super) const fn export(self, family: &'static str) -> Metric {
        self.with_export(series(family, Conversion::Plain))
    }

    /// Exports the row as this family, in seconds instead of milliseconds.
    pub(super) const fn export_ms(self, family: &'static str) -> Metric {
        self.with_export(series(family, Conversion::Ms))
    }

    /// Exports the row as this family, in seconds instead of microseconds.
    pub(super) const fn export_us(self, family: &'static str) -> Metric {
        self.with_export(series(family, Conversion::Us))
    }

    /// Exports the row as this family: 1 for a word, 0 for others.
    pub(super) const fn export_if(self, family: &'static str, word: &'static str) -> Metric {
        self.with_export(series(family, Conversion::OneIf(word)))
    }

    /// Exports the row as this family: 0 for a word, 1 for others.
    pub(super) const fn export_unless(self, family: &'static str, word: &'static str) -> Metric {
        self.with_export(series(family, Conversion::OneUnless(word)))
    }

    /// Exports the row as a label of a family whose value is always 1.
    pub(super) const fn export_label(self, family: &'static str, label: &'static str) -> Metric {
        self.with_export(Export::Label { family, label })
    }

    /// Exports the row as several families.
    pub(super) const fn export_parts(self, label: &'static str, parts: &'static [RowPart]) -> Metric {
        self.with_export(Export::Parts { label, parts })
    }

    /// Exports the row as a histogram.
    pub(super) const fn export_histogram(
        self,
        family: &'static str,
        help: &'static str,
        label: &'static str,
        read: fn(&Facts<'_>) -> Vec<(String, Durations)>,
    ) -> Metric {
        self.with_export(Export::Histogram { family, help, label, read })
    }

    /// Adds a label to the samples.
    pub(super) const fn with_label(self, label: &'static str, value: &'static str) -> Metric {
        let series = Series { label: Some((label, value)), ..self.series() };
        self.with_export(Export::Series(series))
    }

    /// Labels the samples as those of the unnamed generator.
    pub(super) const fn label_unnamed(self) -> Metric {
        self.with_label("generator", UNNAMED)
    }

    /// Sets the help text.
    pub(super) const fn with_help(self, help: &'static str) -> Metric {
        let series = Series { help: Some(help), ..self.series() };
        self.with_export(Export::Series(series))
    }

    /// Sets another source of the value than INFO's.
    pub(super) const fn with_source(self, read: fn(&Facts<'_>) -> MetricValue) -> Metric {
        let series = Series { source: Some(ValueSource::Facts(read)), ..self.series() };
        self.with_export(Export::Series(series))
    }

    /// Sets another source of the value for each named generator.
    pub(super) const fn with_source_each(self, read: fn(&Facts<'_>, &NamedStatus) -> MetricValue) -> Metric {
        let series = Series { source: Some(ValueSource::Generator(read)), ..self.series() };
        self.with_export(Export::Series(series))
    }

    /// Excludes the row from the export: another field has the same value.
    pub(super) const fn same_as(self, field: &'static str) -> Metric {
        self.with_export(Export::Omitted(OmitReason::SameAs(field)))
    }

    /// Excludes the row from the export: Prometheus computes the value.
    pub(super) const fn computed(self, expression: &'static str) -> Metric {
        self.with_export(Export::Omitted(OmitReason::Computed(expression)))
    }
}

impl RowPart {
    /// Returns a part whose number only grows.
    pub(super) const fn counter(name: &'static str, family: &'static str, help: &'static str) -> RowPart {
        RowPart::of(name, MetricKind::Counter, family, help, Conversion::Plain)
    }

    /// Returns a part whose number may fall.
    pub(super) const fn gauge(name: &'static str, family: &'static str, help: &'static str) -> RowPart {
        RowPart::of(name, MetricKind::Gauge, family, help, Conversion::Plain)
    }

    /// Returns a part whose value is a time in milliseconds.
    pub(super) const fn gauge_of_ms(name: &'static str, family: &'static str, help: &'static str) -> RowPart {
        RowPart::of(name, MetricKind::Gauge, family, help, Conversion::Ms)
    }

    /// Returns a part whose value is a word: 1 for this one, 0 for others.
    pub(super) const fn gauge_if(
        name: &'static str,
        family: &'static str,
        help: &'static str,
        word: &'static str,
    ) -> RowPart {
        RowPart::of(name, MetricKind::Gauge, family, help, Conversion::OneIf(word))
    }

    /// Returns a part that is a label of a family whose value is always 1.
    pub(super) const fn label(
        name: &'static str,
        family: &'static str,
        label: &'static str,
        help: &'static str,
    ) -> RowPart {
        RowPart { name, kind: MetricKind::Text, help, export: Export::Label { family, label } }
    }

    /// Returns a part that is not exported.
    pub(super) const fn omitted(name: &'static str, kind: MetricKind, why: OmitReason, help: &'static str) -> RowPart {
        RowPart { name, kind, help, export: Export::Omitted(why) }
    }

    /// Adds a label beside that of the row.
    pub(super) const fn with_label(self, label: &'static str, value: &'static str) -> RowPart {
        let Export::Series(series) = self.export else { panic!("the part has no family") };
        RowPart { export: Export::Series(Series { label: Some((label, value)), ..series }), ..self }
    }

    const fn of(
        name: &'static str,
        kind: MetricKind,
        family: &'static str,
        help: &'static str,
        conversion: Conversion,
    ) -> RowPart {
        RowPart {
            name,
            kind,
            help,
            export: Export::Series(Series { family, help: Some(help), label: None, conversion, source: None }),
        }
    }
}

/// Help texts of the families whose value is always 1.
pub(crate) const INFOS: &[(&str, &str)] = &[
    ("getid_build_info", "Version of the program, and Redis version whose protocol it speaks."),
    ("getid_process_info", "Process id, program, configuration file and system of the process."),
    ("getid_server_info", "Settings of the server that are texts."),
    ("getid_generator_info", "Declared kind of each named generator."),
    ("getid_claim_info", "Claim in a cluster store: the store, the holder, and this server."),
    ("getid_store_info", "Address, without a password, and database of each store of sequences."),
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
    /// Type of its samples.
    pub family_type: FamilyType,
    /// Help text of one sentence.
    pub help: Cow<'static, str>,
    /// Names of its labels.
    pub labels: Vec<&'static str>,
    /// Section of INFO that contains the first of its fields.
    pub section: &'static str,
    /// Fields of INFO that it is made from.
    pub fields: Vec<String>,
}

/// Type of a family's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyType {
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
            let own = matches!(metric.source, ValueSource::Generator(_)).then_some("generator");
            if let Export::Parts { label, parts } = metric.export {
                for RowPart { name, kind, help, export } in parts {
                    let field = format!("{}*: {name}", metric.name);
                    add(&mut families, export, FamilyRow { section, kind: *kind, help, own: Some(label), field });
                }
            } else {
                let field =
                    if own.is_some() { format!("generator_*: {}", metric.name) } else { metric.name.to_owned() };
                add(&mut families, &metric.export, FamilyRow { section, kind: metric.kind, help, own, field });
            }
        }
    }
    families
}

/// A row, or a part of one, as input of a family.
struct FamilyRow {
    section: &'static str,
    kind: MetricKind,
    help: &'static str,
    own: Option<&'static str>,
    field: String,
}

fn add(families: &mut Vec<Family>, export: &Export, row: FamilyRow) {
    let FamilyRow { section, kind, help, own, field } = row;
    let (name, family_type, help, label) = match *export {
        Export::Series(series) => {
            let family_type = if kind == MetricKind::Counter { FamilyType::Counter } else { FamilyType::Gauge };
            (series.family, family_type, series.help_or(help), series.label.map(|(label, _)| label))
        }
        Export::Histogram { family, help, label, .. } => (family, FamilyType::Histogram, help.into(), Some(label)),
        Export::Label { family, label } => (family, FamilyType::Info, info_help(family).into(), Some(label)),
        Export::Omitted(_) | Export::Parts { .. } => return,
    };
    let labels = own.into_iter().chain(label);
    if let Some(family) = families.iter_mut().find(|family| family.name == name) {
        let new: Vec<_> = labels.filter(|label| !family.labels.contains(label)).collect();
        family.labels.extend(new);
        family.fields.push(field);
    } else {
        families.push(Family { name, family_type, help, labels: labels.collect(), section, fields: vec![field] });
    }
}

/// Returns the help text of a family whose value is always 1.
fn info_help(family: &str) -> &'static str {
    INFOS.iter().find(|(name, _)| *name == family).map_or("", |(_, help)| help)
}

impl Series {
    /// Returns the family's help text; `help` is that of its row. Times are in seconds.
    pub(super) fn help_or(&self, help: &'static str) -> Cow<'static, str> {
        match (self.help, self.conversion) {
            (Some(help), _) => help.into(),
            (None, Conversion::Ms) => help.replace(", ms", ", seconds").into(),
            (None, _) => help.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Returns for each row and part: its field, kind, export, and the labels of its samples.
    fn row_exports() -> Vec<(String, MetricKind, Export, Vec<&'static str>)> {
        let mut exports = Vec::new();
        for metric in SECTIONS.iter().flat_map(|section| section.metrics) {
            let own: Vec<_> =
                matches!(metric.source, ValueSource::Generator(_)).then_some("generator").into_iter().collect();
            if let Export::Parts { label, parts } = metric.export {
                let of =
                    |part: &RowPart| (format!("{}{}", metric.name, part.name), part.kind, part.export, vec![label]);
                exports.extend(parts.iter().map(of));
            } else {
                exports.push((metric.name.to_owned(), metric.kind, metric.export, own));
            }
        }
        exports
    }

    #[test]
    fn each_field_is_exported_or_has_a_reason() {
        let fields: BTreeSet<String> = row_exports().into_iter().map(|(field, ..)| field).collect();
        let families: BTreeSet<&str> = families().iter().map(|family| family.name).collect();
        for (field, _, export, _) in row_exports() {
            let Export::Omitted(why) = export else { continue };
            match why {
                OmitReason::Constant => {}
                OmitReason::SameAs(other) => {
                    let target = row_exports().into_iter().find(|(field, ..)| field == other);
                    let (.., export, _) = target.unwrap_or_else(|| panic!("{field} is as {other}, which is no field"));
                    assert!(!matches!(export, Export::Omitted(_)), "{field} is as {other}, which is not exported");
                }
                OmitReason::Computed(expression) => {
                    let words = expression.split(|char: char| !(char.is_ascii_alphanumeric() || char == '_'));
                    let named: Vec<_> = words.filter(|word| word.starts_with("getid_")).collect();
                    assert!(!named.is_empty(), "{field}: {expression}");
                    for name in named {
                        let base = name.strip_suffix("_sum").or_else(|| name.strip_suffix("_count")).unwrap_or(name);
                        assert!(families.contains(base), "{field}: {expression} has {name}");
                    }
                }
                OmitReason::Because(why) => assert!(why.ends_with('.'), "{field}: {why}"),
                OmitReason::Unmapped => panic!("{field} has no export to Prometheus and no reason"),
            }
        }
        assert!(fields.len() > 200, "{}", fields.len());
    }

    #[test]
    fn families_are_named_by_the_rules() {
        let mut bases = BTreeSet::new();
        for Family { name, family_type, help, labels, .. } in families() {
            let is_name_char = |char: char| char.is_ascii_lowercase() || char == '_';
            assert!(name.starts_with("getid_") && name.chars().all(is_name_char), "{name}");
            assert_eq!(name.ends_with("_total"), family_type == FamilyType::Counter, "{name}");
            assert_eq!(name.ends_with("_info"), family_type == FamilyType::Info, "{name}");
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
        let mut families: BTreeMap<&str, (MetricKind, Vec<&str>)> = BTreeMap::new();
        let mut samples = BTreeSet::new();
        for (field, kind, export, mut labels) in row_exports() {
            let Export::Series(series) = export else { continue };
            assert!(
                series.conversion == Conversion::Plain
                    || kind != MetricKind::Text
                    || series.source.is_some()
                    || is_word_test(series)
            );
            if matches!(series.conversion, Conversion::Ms | Conversion::Us) {
                assert_eq!(unit_of(series.family), Some("seconds"), "{field}");
            }
            labels.extend(series.label.map(|(label, _)| label));
            let sample = (series.family, series.label, labels.len());
            let is_named = series.label.is_none() && labels == ["generator"];
            assert!(samples.insert(sample) || is_named, "{field} has the samples of another field");
            let kind = if kind == MetricKind::Text { MetricKind::Gauge } else { kind };
            let first = families.entry(series.family).or_insert_with(|| (kind, labels.clone()));
            assert_eq!(*first, (kind, labels), "{field}");
        }
    }

    fn is_word_test(series: Series) -> bool {
        matches!(series.conversion, Conversion::OneIf(_) | Conversion::OneUnless(_))
    }
}
