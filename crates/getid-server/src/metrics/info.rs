//! The text of INFO: the table's sections as lines of `name:value`.

use std::fmt::Write as _;

use super::table::{SECTIONS, Section, ValueSource};
use super::{Facts, MetricValue};
use getid_engine::generators::NamedStatus;

/// Returns the text of INFO with the named sections, in any letter case. Without names, or with `default`, it has the
/// default sections, and with `all` or `everything` all of them. The sections of named generators, sequences, ledgers,
/// worker ids, the HTTP port and a claim in a cluster store are omitted if they are empty and not named.
pub fn text(facts: &Facts<'_>, names: &[String]) -> String {
    let is_named = |name: &str| names.iter().any(|given| given.eq_ignore_ascii_case(name));
    let all = is_named("all") || is_named("everything");
    let default = names.is_empty() || is_named("default");
    let mut out = String::with_capacity(8192);
    for section in SECTIONS {
        let has_lines = || {
            (!section.is_generators_section() || !facts.generators.is_empty())
                && (!section.is_sequences_section() || facts.sequences.is_some())
                && (!section.is_claim_section() || facts.claim.is_some())
                && (!section.is_numbers_section() || !facts.ledgers.is_empty())
                && (!section.is_workers_section() || !facts.workers.is_empty())
                && (!section.is_http_section() || facts.config.http.port != 0)
        };
        if !(is_named(section.title) || (all || default && section.is_default) && has_lines()) {
            continue;
        }
        if !out.is_empty() {
            out.push_str("\r\n");
        }
        // Writing to a String cannot fail.
        let _ = write!(out, "# {}\r\n", section.title);
        for metric in section.metrics {
            let name = metric.name;
            let _ = match metric.source {
                ValueSource::Constant(value) => write!(out, "{name}:{value}\r\n"),
                ValueSource::Facts(read) => match read(facts) {
                    MetricValue::Absent => Ok(()),
                    MetricValue::Family(values) => values
                        .iter()
                        .try_for_each(|(label, value)| write!(out, "{name}{}:{value}\r\n", field_of(label))),
                    value => write!(out, "{name}:{value}\r\n"),
                },
                ValueSource::Generator(_) => Ok(()),
            };
        }
        if section.is_generators_section() {
            facts.generators.iter().for_each(|own| generator_line(&mut out, facts, section, own));
        }
    }
    out
}

/// Converts a name to a part of a field's name. `:` becomes `/`, because clients end a field's name there.
fn field_of(name: &str) -> String {
    name.replace(':', "/")
}

/// Writes the line of one named generator.
fn generator_line(out: &mut String, facts: &Facts<'_>, section: &Section, own: &NamedStatus) {
    let values = section.metrics.iter().filter_map(|metric| match metric.source {
        ValueSource::Generator(read) => {
            Some((metric.name, read(facts, own))).filter(|(_, value)| *value != MetricValue::Absent)
        }
        _ => None,
    });
    let name = field_of(own.generator.declaration().name());
    // Writing to a String cannot fail.
    let _ = write!(out, "generator_{name}:{}\r\n", MetricValue::Parts(values.collect()));
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;

    use getid_core::{Declaration, NamedGenerator, Refusal};

    use super::*;
    use crate::metrics::table::MetricKind;
    use crate::metrics::{ClientFacts, CpuFacts, Lazy, MemoryFacts, Metrics, ProcessFacts};
    use getid_config::Config;
    use getid_engine::claim::status::{ClaimStatus, HolderStatus, TakeoverStatus};
    use getid_engine::generators::sequence::{SequencesStatus, StoreStatus};
    use getid_engine::generators::time::IssuerStatus;

    /// Returns the text of these sections of a server with these generators, and the facts gathered for it, in order.
    fn info_text(sections: &[&str], generators: &[NamedStatus]) -> (String, Vec<&'static str>) {
        fn noted<'a, T: 'a>(what: &'static str, by: &'a RefCell<Vec<&'static str>>, facts: T) -> Lazy<'a, T> {
            Lazy::new(Box::new(move || {
                by.borrow_mut().push(what);
                facts
            }))
        }
        let (metrics, by) = (Metrics::new(1), RefCell::default());
        let facts = Facts {
            generator: noted("generator", &by, IssuerStatus::default()),
            generators: noted("generators", &by, generators.to_vec()),
            memory: noted("memory", &by, MemoryFacts { resident_bytes: 0, machine_bytes: None }),
            cpu: noted("cpu", &by, CpuFacts { own: None, of_children: None }),
            clients: noted("clients", &by, ClientFacts::default()),
            sequences: noted("sequences", &by, None),
            ..Facts::of_tests(&metrics)
        };
        let text = text(&facts, &sections.iter().map(|&section| section.to_owned()).collect::<Vec<_>>());
        (text, by.take())
    }

    /// Returns the status of a generator in the middle of its life.
    pub(in crate::metrics) fn generator(words: &str) -> NamedStatus {
        let mut declaration = Declaration::from_text(words).expect(words);
        declaration.draw_missing(|_, _| 1);
        let generator = NamedGenerator::new(declaration, 0, None);
        NamedStatus {
            generator: Arc::new(generator.expect(words)),
            issued: 7,
            waited: 2,
            refused: 1,
            asked_per_s: 3,
            ahead_ms: 12,
            position_unix_ms: None,
            refusing: None,
        }
    }

    #[test]
    fn a_section_gathers_its_own_facts_only() {
        let gathered = |sections: &[&str]| info_text(sections, &[]).1;
        let cheap =
            ["server", "stats", "replication", "commandstats", "errorstats", "latencystats", "cluster", "keyspace"];
        assert_eq!(gathered(&cheap), [""; 0]);
        for (section, facts) in [
            ("clients", "clients"),
            ("memory", "memory"),
            ("cpu", "cpu"),
            ("persistence", "generator"),
            ("generator", "generator"),
            ("generators", "generators"),
            ("sequences", "sequences"),
        ] {
            assert_eq!(gathered(&[section]), [facts], "{section}");
        }
        assert_eq!(gathered(&[]), ["clients", "memory", "generator", "cpu", "generators", "sequences"]);
    }

    #[test]
    fn each_named_generator_has_a_line() {
        let day = "time:10@86400s server-id:10 counter:4 epoch -86400000";
        let generators = [generator(&format!("orders:eu layout {day}")), generator("trace uuid4")];
        let expected = "# Generators\r\n\
            generator_orders/eu:kind=layout,issued=7,waited=2,refused=1,ahead_ms=12,rate=3,refuses=0,days_left=1023\r\n\
            generator_trace:kind=uuid4,issued=7,waited=2,refused=1,ahead_ms=12,rate=3,refuses=0\r\n";
        assert_eq!(info_text(&["generators"], &generators).0, expected);
        for sections in [&[] as &[&str], &["default"], &["all"], &["everything"]] {
            assert!(info_text(sections, &generators).0.ends_with(expected), "{sections:?}");
            assert!(!info_text(sections, &[]).0.contains("# Generators"), "{sections:?}");
        }
        assert_eq!(info_text(&["generators"], &[]).0, "# Generators\r\n");
    }

    /// Parses a value like redis-py 2.10 to 4.6: its fields, none of a plain value.
    fn read_as_redis_py_does(value: &str) -> Result<Vec<(&str, &str)>, String> {
        if !value.contains(',') || !value.contains('=') {
            return Ok(Vec::new());
        }
        let fields = value.split(',').map(|item| item.rsplit_once('=').ok_or_else(|| format!("{item:?} of {value:?}")));
        fields.collect()
    }

    #[test]
    fn no_text_is_parsed_as_several_values() {
        const ODD: &str = "etcd://a:2379,b:2379/x?tls=no, y=1\r\nz:2\u{2028}w,";
        let odd = || ODD.to_owned();
        let holder =
            HolderStatus { instance: odd(), name: odd(), host: odd(), address: odd(), ..HolderStatus::default() };
        let claim = ClaimStatus {
            store: odd(),
            product: odd(),
            instance_name: odd(),
            instance: odd(),
            holder: Some(holder),
            why: odd(),
            not_eligible: Some(odd()),
            error: odd(),
            last_takeover: Some(TakeoverStatus { cause: odd(), ..TakeoverStatus::default() }),
            ..ClaimStatus::default()
        };
        let metrics = Metrics::new(1);
        let of_process =
            || ProcessFacts { executable: ODD, config_file: ODD, run_id: ODD, tcp_port: 0, wall_unix_us: 0 };
        let of_store = || StoreStatus {
            shown: odd(),
            product: odd(),
            reason: Some(odd()),
            is_up: Some(false),
            ..StoreStatus::of_tests()
        };
        let facts = Facts {
            config: Arc::new(Config { state_dir: ODD.into(), ..Config::default() }),
            claim: Some(Arc::new(claim)),
            process: of_process(),
            generator: Lazy::new(Box::new(|| IssuerStatus {
                refusing: Some(Refusal::Standby(ODD.into())),
                ..IssuerStatus::default()
            })),
            generators: Lazy::new(Box::new(|| vec![generator("orders:eu uuid4")])),
            sequences: Lazy::new(Box::new(move || {
                Some(SequencesStatus { stores: vec![of_store()], ..SequencesStatus::default() })
            })),
            ..Facts::of_tests(&metrics)
        };
        let text = text(&facts, &["everything".to_owned()]);
        let mut odd_lines = 0;
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("{line:?} has no name"));
            let fields = read_as_redis_py_does(value).unwrap_or_else(|item| panic!("{name}: {item}"));
            let row = SECTIONS.iter().flat_map(|section| section.metrics).find(|row| row.name == name);
            if row.is_some_and(|row| row.kind == MetricKind::Text) {
                // Later versions parse a value with one of these characters as a list.
                assert!(!value.contains([',', '=']), "{line}");
            }
            let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte));
            assert!(fields.iter().all(|(name, _)| is_name(name)), "{line}");
            odd_lines += usize::from(value.contains("etcd://a:2379;b:2379/x?tls:no; y:1"));
        }
        assert!(odd_lines >= 14, "{odd_lines}: {text}");
    }

    #[test]
    fn a_thousand_generators_are_no_more_than_documented() {
        let mut longest = generator(&format!("{} objectid-decimal", "x".repeat(128)));
        for count in [
            &mut longest.issued,
            &mut longest.waited,
            &mut longest.refused,
            &mut longest.asked_per_s,
            &mut longest.ahead_ms,
        ] {
            *count = u64::MAX;
        }
        let text = info_text(&["generators"], &vec![longest; 1000]).0;
        assert!((256 << 10..336 << 10).contains(&text.len()), "{}", text.len());
    }
}
