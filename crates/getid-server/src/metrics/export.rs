//! The families of Prometheus, made from the rows of the table.

use std::borrow::Cow;

pub use super::row::{Conversion, Durations, Export, OmitReason, RowPart, Series, UNNAMED};
use super::row::{MetricKind, ValueSource};
use super::table::SECTIONS;

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
