//! A row of the table of metrics: INFO's field, and its export to Prometheus (family name, unit and label), or the
//! reason why it is not exported.
//!
//! Units are base units, as Prometheus recommends: seconds, bytes. A name ends with its unit, and with `_total` for a
//! counter. Families of generators have the label `generator`, in which [`UNNAMED`] is the unnamed generator.

use std::borrow::Cow;

use super::{Facts, MetricValue};
use getid_engine::generators::NamedStatus;
use getid_redis::stats::Histogram;

/// A section of INFO.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Name of the section.
    pub title: &'static str,
    /// Whether INFO includes the section when no section is named.
    pub(crate) is_default: bool,
    /// Rows of the section, in order.
    pub metrics: &'static [Metric],
}

impl Section {
    /// Returns true for the section of the HTTP port.
    pub(crate) fn is_http_section(&self) -> bool {
        self.title == "Http"
    }

    /// Returns true for the section of the claim in a cluster store.
    pub(crate) fn is_claim_section(&self) -> bool {
        self.title == "Claim"
    }

    /// Returns true for the section of sequences.
    pub(crate) fn is_sequences_section(&self) -> bool {
        self.title == "Sequences"
    }

    /// Returns true for the section of ledgers.
    pub(crate) fn is_numbers_section(&self) -> bool {
        self.title == "Numbers"
    }

    /// Returns true for the section of worker ids.
    pub(crate) fn is_workers_section(&self) -> bool {
        self.title == "Workers"
    }

    /// Returns true if the section has a line for each named generator.
    pub(crate) fn is_generators_section(&self) -> bool {
        matches!(self.metrics, [Metric { source: ValueSource::Generator(_), .. }, ..])
    }
}

/// A metric of the server.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name of INFO's field; for a family, the prefix of its labels.
    pub name: &'static str,
    /// Kind of the value.
    pub kind: MetricKind,
    /// Description in one sentence, with the unit.
    pub help: &'static str,
    /// Source of the value.
    pub source: ValueSource,
    /// Export to Prometheus.
    pub export: Export,
}

/// Kind of a metric's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows while the server runs, and restarts at 0 with `CONFIG RESETSTAT`.
    Counter,
    /// A number that may fall.
    Gauge,
    /// Words, or a number that is an identifier.
    Text,
}

/// Source of a metric's value.
#[derive(Clone, Copy, Debug)]
pub enum ValueSource {
    /// A value that never changes, for tools that read it.
    Constant(&'static str),
    /// A value read from the facts.
    Facts(fn(&Facts<'_>) -> MetricValue),
    /// A value of each named generator. INFO has a line for each generator, with all metrics of its section.
    Generator(fn(&Facts<'_>, &NamedStatus) -> MetricValue),
}

type ReadFacts = fn(&Facts<'_>) -> MetricValue;

const UNMAPPED: Export = Export::Omitted(OmitReason::Unmapped);

pub(super) const fn counter(name: &'static str, help: &'static str, read: ReadFacts) -> Metric {
    Metric { name, kind: MetricKind::Counter, help, source: ValueSource::Facts(read), export: UNMAPPED }
}

pub(super) const fn gauge(name: &'static str, help: &'static str, read: ReadFacts) -> Metric {
    Metric { name, kind: MetricKind::Gauge, help, source: ValueSource::Facts(read), export: UNMAPPED }
}

pub(super) const fn text(name: &'static str, help: &'static str, read: ReadFacts) -> Metric {
    Metric { name, kind: MetricKind::Text, help, source: ValueSource::Facts(read), export: UNMAPPED }
}

pub(super) const fn constant(name: &'static str, value: &'static str) -> Metric {
    let help = "Constant, for tools that read it.";
    let export = Export::Omitted(OmitReason::Constant);
    Metric { name, kind: MetricKind::Text, help, source: ValueSource::Constant(value), export }
}

pub(super) const fn generator_metric(
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    read: fn(&Facts<'_>, &NamedStatus) -> MetricValue,
) -> Metric {
    Metric { name, kind, help, source: ValueSource::Generator(read), export: UNMAPPED }
}

pub(super) const fn section(title: &'static str, metrics: &'static [Metric]) -> Section {
    Section { title, is_default: true, metrics }
}

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

    /// Returns a field with the same value under another name, which is not exported.
    pub(super) const fn alias(self, name: &'static str) -> Metric {
        Metric { name, ..self }.same_as(self.name)
    }

    /// Excludes the row from the export for this reason, a sentence.
    pub(super) const fn omit(self, why: &'static str) -> Metric {
        self.with_export(Export::Omitted(OmitReason::Because(why)))
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
