//! The text for Prometheus: the table's rows as families of samples.
//!
//! The crate writes OpenMetrics. Prometheus's own text format, 0.0.4, differs only in names and types. There the family
//! of a counter has the name of its samples, and a family whose value is always 1 is a gauge. So one collector makes
//! both.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{
    CounterValueEncoder, DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabel as _, EncodeLabelSet,
    GaugeValueEncoder, LabelSetEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::export::{Conversion, Durations, Export, Family, FamilyType, Series, families, unit_of};
use super::table::{Metric, SECTIONS, ValueSource};
use super::{Facts, MetricValue};

/// Powers of two in ns that bound the histograms' buckets: from 64 ns to 17 s.
const FIRST_BOUND_OCTAVE: u32 = 6;
const LAST_BOUND_OCTAVE: u32 = 34;

/// Text format of Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// Prometheus's own format, version 0.0.4.
    Prometheus,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl TextFormat {
    /// Returns the media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            TextFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            TextFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Returns all exported metrics in a text format.
pub fn text(facts: &Facts<'_>, format: TextFormat) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exposition { families: collect_samples(facts), format }));
    let mut text = String::with_capacity(64 * 1024);
    // Writing to a String cannot fail.
    let _ = encode_registry(&mut text, &registry);
    if format == TextFormat::OpenMetrics {
        let _ = encode_eof(&mut text);
    }
    text
}

static FAMILIES: LazyLock<(Vec<Family>, HashMap<&'static str, usize>)> = LazyLock::new(|| {
    let families = families();
    let indices = families.iter().enumerate().map(|(index, family)| (family.name, index)).collect();
    (families, indices)
});

/// All families, each with its samples at one moment.
#[derive(Debug)]
struct Exposition {
    families: Vec<(&'static Family, Vec<FamilySample>)>,
    format: TextFormat,
}

#[derive(Debug)]
struct FamilySample {
    labels: Labels,
    value: SampleValue,
}

#[derive(Clone, Debug, Default)]
struct Labels {
    /// Owner of the sample: `("command", "getid")`.
    of: Option<(&'static str, Arc<str>)>,
    /// Fixed label of its row.
    fixed: Option<(&'static str, &'static str)>,
    /// Labels of a family whose value is always 1.
    words: Vec<(&'static str, String)>,
}

#[derive(Debug)]
enum SampleValue {
    Number(SampleNumber),
    Durations(Durations),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum SampleNumber {
    Unsigned(u64),
    Signed(i64),
    Real(f64),
}

/// Samples by the index of their family.
struct Samples(Vec<Vec<FamilySample>>);

impl Samples {
    fn of(&mut self, family: &str) -> Option<&mut Vec<FamilySample>> {
        FAMILIES.1.get(family).and_then(|&index| self.0.get_mut(index))
    }

    fn add(&mut self, series: &Series, of: Option<(&'static str, Arc<str>)>, value: &MetricValue) {
        let Some(number) = number(value, series.conversion) else { return };
        let labels = Labels { of, fixed: series.label, words: Vec::new() };
        if let Some(samples) = self.of(series.family) {
            samples.push(FamilySample { labels, value: SampleValue::Number(number) });
        }
    }

    /// Adds a label to the family's sample of the same owner; the first label creates the sample.
    fn add_word(
        &mut self,
        family: &str,
        label: &'static str,
        of: Option<(&'static str, Arc<str>)>,
        value: &MetricValue,
    ) {
        let Some(samples) = self.of(family) else { return };
        // Unchanged: INFO's text replaces some characters.
        let word = (label, text_of(value).map_or_else(|| value.to_string(), str::to_owned));
        if let Some(last) = samples.last_mut().filter(|last| last.labels.of == of) {
            last.labels.words.push(word);
        } else {
            let labels = Labels { of, fixed: None, words: vec![word] };
            samples.push(FamilySample { labels, value: SampleValue::Number(SampleNumber::Unsigned(1)) });
        }
    }

    /// Adds the value of a row, or of a part of one.
    fn add_value(&mut self, export: &Export, of: Option<(&'static str, Arc<str>)>, value: &MetricValue) {
        match export {
            Export::Series(series) => self.add(series, of, value),
            Export::Label { family, label } => self.add_word(family, label, of, value),
            Export::Histogram { .. } | Export::Parts { .. } | Export::Omitted(_) => {}
        }
    }
}

/// Returns the samples of all rows.
fn collect_samples(facts: &Facts<'_>) -> Vec<(&'static Family, Vec<FamilySample>)> {
    let mut samples = Samples(FAMILIES.0.iter().map(|_| Vec::new()).collect());
    let generators: Vec<Arc<str>> =
        facts.generators.iter().map(|own| own.generator.declaration().name().into()).collect();
    for metric in SECTIONS.iter().flat_map(|section| section.metrics) {
        add_row(&mut samples, facts, metric, &generators);
    }
    FAMILIES.0.iter().zip(samples.0).filter(|(_, samples)| !samples.is_empty()).collect()
}

fn add_row(samples: &mut Samples, facts: &Facts<'_>, metric: &Metric, generators: &[Arc<str>]) {
    match metric.export {
        Export::Omitted(_) => return,
        Export::Histogram { family, label, read, .. } => {
            let Some(samples) = samples.of(family) else { return };
            samples.extend(read(facts).into_iter().map(|(owner, durations)| FamilySample {
                labels: Labels { of: Some((label, owner.into())), ..Labels::default() },
                value: SampleValue::Durations(durations),
            }));
            return;
        }
        _ => {}
    }
    let own_source = if let Export::Series(Series { source, .. }) = metric.export { source } else { None };
    match own_source.unwrap_or(metric.source) {
        ValueSource::Constant(_) => {}
        ValueSource::Facts(read) => match (metric.export, read(facts)) {
            (Export::Parts { label, parts }, MetricValue::Family(entries)) => {
                for (owner, values) in entries {
                    let MetricValue::Parts(values) = values else { continue };
                    let owner: Arc<str> = owner.into();
                    for (name, value) in &values {
                        let Some(part) = parts.iter().find(|part| part.name == *name) else { continue };
                        samples.add_value(&part.export, Some((label, Arc::clone(&owner))), value);
                    }
                }
            }
            (export, value) => samples.add_value(&export, None, &value),
        },
        ValueSource::Generator(read) => {
            for (own, name) in facts.generators.iter().zip(generators) {
                samples.add_value(&metric.export, Some(("generator", Arc::clone(name))), &read(facts, own));
            }
        }
    }
}

/// Converts a value to a base unit; `None` if it is not a number.
fn number(value: &MetricValue, conversion: Conversion) -> Option<SampleNumber> {
    let decimals_more = match conversion {
        Conversion::Plain => 0,
        Conversion::Ms => 3,
        Conversion::Us => 6,
        Conversion::OneIf(word) => return text_of(value).map(|text| SampleNumber::Unsigned((text == word).into())),
        Conversion::OneUnless(word) => return text_of(value).map(|text| SampleNumber::Unsigned((text != word).into())),
    };
    match value {
        MetricValue::Integer(integer) if decimals_more == 0 => Some(SampleNumber::integer(*integer)),
        MetricValue::Integer(integer) => Some(SampleNumber::Real(scale(*integer, decimals_more))),
        MetricValue::Decimal { units, decimals } => {
            Some(SampleNumber::Real(scale((*units).into(), decimals + decimals_more)))
        }
        MetricValue::Absent | MetricValue::Text(_) | MetricValue::Parts(_) | MetricValue::Family(_) => None,
    }
}

fn text_of(value: &MetricValue) -> Option<&str> {
    if let MetricValue::Text(text) = value { Some(text) } else { None }
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floating point numbers only")]
fn scale(units: i128, decimals: u32) -> f64 {
    units as f64 / 10_i128.pow(decimals) as f64
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (family, samples) in &self.families {
            let (name, unit, kind) = describe(family, self.format);
            let mut encoder = encoder.encode_descriptor(name, &family.help, unit.as_ref(), kind)?;
            for sample in samples {
                self.encode_sample(&mut encoder, family.family_type, sample)?;
            }
        }
        Ok(())
    }
}

/// Returns the name, unit and type of a family in a format.
fn describe(family: &Family, format: TextFormat) -> (&'static str, Option<Unit>, MetricType) {
    let name = family.name;
    match (format, family.family_type) {
        (_, FamilyType::Histogram) | (TextFormat::OpenMetrics, _) => {}
        (TextFormat::Prometheus, FamilyType::Counter) => return (name, None, MetricType::Counter),
        (TextFormat::Prometheus, FamilyType::Gauge | FamilyType::Info) => return (name, None, MetricType::Gauge),
    }
    let kind = match family.family_type {
        FamilyType::Counter => MetricType::Counter,
        FamilyType::Gauge => MetricType::Gauge,
        FamilyType::Histogram => MetricType::Histogram,
        FamilyType::Info => MetricType::Info,
    };
    let name = name.strip_suffix("_total").or_else(|| name.strip_suffix("_info")).unwrap_or(name);
    if format == TextFormat::Prometheus {
        return (name, None, kind);
    }
    let unit =
        unit_of(family.name).and_then(|unit| name.strip_suffix(unit)?.strip_suffix('_').map(|rest| (rest, unit)));
    match unit {
        Some((rest, unit)) => (rest, Some(Unit::Other(unit.to_owned())), kind),
        None => (name, None, kind),
    }
}

impl Exposition {
    fn encode_sample(
        &self,
        encoder: &mut MetricEncoder<'_>,
        family_type: FamilyType,
        sample: &FamilySample,
    ) -> fmt::Result {
        let FamilySample { labels, value } = sample;
        if family_type == FamilyType::Info && self.format == TextFormat::OpenMetrics {
            return encoder.encode_info(labels);
        }
        if labels.is_empty() {
            return self.encode_value(encoder, family_type, value);
        }
        self.encode_value(&mut encoder.encode_family(labels)?, family_type, value)
    }

    fn encode_value(
        &self,
        encoder: &mut MetricEncoder<'_>,
        family_type: FamilyType,
        value: &SampleValue,
    ) -> fmt::Result {
        match value {
            SampleValue::Durations(durations) => encode_histogram(encoder, durations),
            // In Prometheus's own text the family has the name of its samples: no suffix is added.
            SampleValue::Number(number)
                if family_type == FamilyType::Counter && self.format == TextFormat::OpenMetrics =>
            {
                encoder.encode_counter::<NoLabelSet, _, u64>(number, None)
            }
            SampleValue::Number(number) => encoder.encode_gauge(number),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "bounds are powers of two")]
fn encode_histogram(encoder: &mut MetricEncoder<'_>, durations: &Durations) -> fmt::Result {
    let Durations { sum_ns, histogram } = durations;
    let (bounds, above) = histogram.between_powers(FIRST_BOUND_OCTAVE..=LAST_BOUND_OCTAVE);
    let mut buckets: Vec<(f64, u64)> = bounds.iter().map(|&(ns, count)| (ns as f64 / 1e9, count)).collect();
    buckets.push((f64::INFINITY, above));
    encoder.encode_histogram::<NoLabelSet>(scale((*sum_ns).into(), 9), histogram.total(), &buckets, None)
}

impl Labels {
    fn is_empty(&self) -> bool {
        self.of.is_none() && self.fixed.is_none() && self.words.is_empty()
    }
}

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        if let Some((label, owner)) = &self.of {
            (*label, &**owner).encode(encoder.encode_label())?;
        }
        if let Some(fixed) = self.fixed {
            fixed.encode(encoder.encode_label())?;
        }
        self.words.iter().try_for_each(|(label, word)| (*label, word.as_str()).encode(encoder.encode_label()))
    }
}

impl SampleNumber {
    /// Converts an integer; one beyond 64 bits becomes a floating point number.
    fn integer(integer: i128) -> SampleNumber {
        match (u64::try_from(integer), i64::try_from(integer)) {
            (Ok(unsigned), _) => SampleNumber::Unsigned(unsigned),
            (_, Ok(signed)) => SampleNumber::Signed(signed),
            _ => SampleNumber::Real(scale(integer, 0)),
        }
    }
}

impl EncodeGaugeValue for SampleNumber {
    fn encode(&self, encoder: &mut GaugeValueEncoder<'_>) -> fmt::Result {
        match self {
            SampleNumber::Unsigned(unsigned) => EncodeGaugeValue::encode(unsigned, encoder),
            SampleNumber::Signed(signed) => signed.encode(encoder),
            SampleNumber::Real(real) => EncodeGaugeValue::encode(real, encoder),
        }
    }
}

impl EncodeCounterValue for SampleNumber {
    fn encode(&self, encoder: &mut CounterValueEncoder<'_>) -> fmt::Result {
        match self {
            SampleNumber::Unsigned(unsigned) => EncodeCounterValue::encode(unsigned, encoder),
            SampleNumber::Signed(signed) => EncodeCounterValue::encode(&scale((*signed).into(), 0), encoder),
            SampleNumber::Real(real) => EncodeCounterValue::encode(real, encoder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::info::tests::generator;
    use crate::metrics::{Lazy, MeasuredDraw, Metrics};
    use getid_redis::command::Verb;
    use getid_redis::session::{Calls, ErrorCode};

    /// Returns the lines about a family, in this format.
    fn lines(facts: &Facts<'_>, format: TextFormat, family: &str) -> String {
        let text = text(facts, format);
        let is_of = |line: &&str| line.trim_start_matches("# HELP ").trim_start_matches("# TYPE ").starts_with(family);
        text.lines().filter(is_of).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_counter_is_named_by_the_rules_of_its_format() {
        let metrics = Metrics::new(1);
        let facts = Facts {
            generators: Lazy::new(Box::new(|| vec![generator("orders:eu uuid4")])),
            ..Facts::of_tests(&metrics)
        };
        let samples = "getid_ids_issued_total{generator=\"orders:eu\"} 7\n\
            getid_ids_issued_total{generator=\"(unnamed)\"} 0";
        let sorted = |text: String| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort_unstable_by(|a, b| b.cmp(a));
            lines.join("\n")
        };
        assert_eq!(
            sorted(lines(&facts, TextFormat::Prometheus, "getid_ids_issued")),
            format!(
                "{samples}\n# TYPE getid_ids_issued_total counter\n# HELP getid_ids_issued_total IDs issued since the start."
            )
        );
        assert_eq!(
            sorted(lines(&facts, TextFormat::OpenMetrics, "getid_ids_issued")),
            format!("{samples}\n# TYPE getid_ids_issued counter\n# HELP getid_ids_issued IDs issued since the start.")
        );
    }

    #[test]
    fn words_are_labels_of_a_gauge_or_an_info() {
        let metrics = Metrics::new(1);
        let facts = Facts::of_tests(&metrics);
        let plain = lines(&facts, TextFormat::Prometheus, "getid_build");
        assert!(plain.contains("# TYPE getid_build_info gauge\ngetid_build_info{redis_version=\""), "{plain}");
        let open = lines(&facts, TextFormat::OpenMetrics, "getid_build");
        assert!(open.contains("# TYPE getid_build info\ngetid_build_info{redis_version=\""), "{open}");
        assert!(plain.ends_with("\"} 1") && open.ends_with("\"} 1"), "{plain}\n{open}");
    }

    #[test]
    fn only_openmetrics_has_units_and_an_end() {
        let metrics = Metrics::new(1);
        let facts = Facts::of_tests(&metrics);
        let open = text(&facts, TextFormat::OpenMetrics);
        assert!(open.contains("\n# UNIT getid_borrow_seconds seconds\n"), "{open}");
        assert!(open.ends_with("\n# EOF\n") && open.matches("# EOF").count() == 1, "{open}");
        let plain = text(&facts, TextFormat::Prometheus);
        assert!(!plain.contains("# EOF") && !plain.contains("# UNIT") && plain.ends_with('\n'), "{plain}");
    }

    #[test]
    fn a_histogram_has_all_calls_in_its_last_bucket() {
        let metrics = Metrics::new(1);
        let counters = metrics.own_commands().unwrap();
        let turn = [Calls { verb: Verb::GetId, calls: 3, failed: 0, rejected: 0, ns: 0, bucket: 0 }];
        counters.add(&turn);
        counters.attribute_time(&turn, MeasuredDraw { ns: 300, waited: false });
        counters.refuse(Verb::GetId, 1, ErrorCode::of(b"BUSY x"));
        let facts = Facts::of_tests(&metrics);
        let exported = lines(&facts, TextFormat::Prometheus, "getid_command_duration_seconds");
        for line in [
            "# TYPE getid_command_duration_seconds histogram",
            "getid_command_duration_seconds_sum{command=\"getid\"} 3e-7",
            "getid_command_duration_seconds_count{command=\"getid\"} 3",
            "getid_command_duration_seconds_bucket{le=\"6.4e-8\",command=\"getid\"} 0",
            "getid_command_duration_seconds_bucket{le=\"1.28e-7\",command=\"getid\"} 3",
            "getid_command_duration_seconds_bucket{le=\"+Inf\",command=\"getid\"} 3",
        ] {
            assert!(exported.lines().any(|exported| exported == line), "{line} is missing in\n{exported}");
        }
        let errors = lines(&facts, TextFormat::Prometheus, "getid_errors_total{");
        assert_eq!(errors, "getid_errors_total{code=\"BUSY\"} 1");
    }

    #[test]
    fn numbers_are_in_base_units() {
        let of = |value: MetricValue, conversion| number(&value, conversion);
        assert_eq!(of(1234_u64.into(), Conversion::Ms), Some(SampleNumber::Real(1.234)));
        assert_eq!(of((-5_i64).into(), Conversion::Ms), Some(SampleNumber::Real(-0.005)));
        assert_eq!(of(i64::MAX.into(), Conversion::Plain), Some(SampleNumber::Unsigned(i64::MAX.unsigned_abs())));
        assert_eq!(of(i64::MIN.into(), Conversion::Plain), Some(SampleNumber::Signed(i64::MIN)));
        assert_eq!(
            of(MetricValue::Integer(i128::MIN), Conversion::Plain),
            Some(SampleNumber::Real(-(2_f64.powi(127))))
        );
        assert_eq!(of(MetricValue::s(1_500_000), Conversion::Plain), Some(SampleNumber::Real(1.5)));
        assert_eq!(of(2_500_000_u64.into(), Conversion::Us), Some(SampleNumber::Real(2.5)));
        assert_eq!(of("up".into(), Conversion::OneIf("up")), Some(SampleNumber::Unsigned(1)));
        assert_eq!(of("down".into(), Conversion::OneIf("up")), Some(SampleNumber::Unsigned(0)));
        assert_eq!(of("no".into(), Conversion::OneUnless("no")), Some(SampleNumber::Unsigned(0)));
        assert_eq!(of(MetricValue::Absent, Conversion::OneUnless("no")), None);
        assert_eq!(of("a word".into(), Conversion::Plain), None);
    }
}
