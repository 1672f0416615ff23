//! `docs/monitoring.md` explains all values of INFO and `/metrics`; the dashboard and the alerts name existing metrics.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use getid_server::metrics::export::{Conversion, Export, FamilyType, OmitReason, RowPart, Series, families, unit_of};
use getid_server::metrics::table::{Metric, MetricKind, SECTIONS, ValueSource};

use crate::support::program::run;

const PAGE: &str = "docs/monitoring.md";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Below its head, the page has the table from which INFO and `/metrics` are made. With `GETID_WRITE_PAGES` set, the
/// test writes it.
#[test]
fn every_value_is_explained() {
    let page = read(PAGE);
    let head = page.split("\n### Server").next().expect("a head").trim_end();
    let (mut text, mut constants) = (format!("{head}\n"), Vec::new());
    for section in SECTIONS {
        let (constant, others): (Vec<&Metric>, Vec<_>) =
            section.metrics.iter().partition(|metric| matches!(metric.source, ValueSource::Constant(_)));
        constants.extend(constant.iter().map(|metric| format!("`{}`", metric.name)));
        let rows: String = others.iter().flat_map(|metric| rows_of(metric)).collect();
        if !rows.is_empty() {
            write!(text, "\n### {}\n\n| INFO | `/metrics` | type | unit | meaning |\n", section.title).unwrap();
            text += &("|---|---|---|---|---|\n".to_owned() + &rows);
        }
    }
    text += "\n## Fields that never change\n\nTools look for them:";
    let mut columns = "Tools look for them:".len();
    for word in constants.join(", ").split(' ') {
        let is_full = columns + word.len() >= 120;
        text += if is_full { "\n" } else { " " };
        columns = word.len() + if is_full { 0 } else { columns + 1 };
        text += word;
    }
    text += ".\n";
    if std::env::var_os("GETID_WRITE_PAGES").is_some() {
        std::fs::write(root().join(PAGE), &text).expect("written");
    }
    assert_eq!(read(PAGE), text, "GETID_WRITE_PAGES=1 cargo test --test docs writes it");
}

/// Returns the page's rows of a metric: one, or one for each of its parts.
fn rows_of(metric: &Metric) -> Vec<String> {
    let Metric { name, kind, help, ref source, ref export } = *metric;
    match export {
        Export::Parts { label, parts } => {
            let all = (parts.len() > 1).then(|| format!("| `{name}*` | | | | {help} |\n"));
            let rows = parts.iter().filter_map(|RowPart { name: part, kind, help, export }| {
                row_of(&format!("{name}*: {part}"), *kind, help, Some(label), export)
            });
            all.into_iter().chain(rows).collect()
        }
        _ if matches!(source, ValueSource::Generator(_)) => {
            row_of(&format!("generator_*: {name}"), kind, help, Some("generator"), export).into_iter().collect()
        }
        _ => {
            let field = if name.ends_with('_') { format!("{name}*") } else { name.to_owned() };
            row_of(&field, kind, help, None, export).into_iter().collect()
        }
    }
}

/// Returns the page's row of a value, or `None` if the row of another value names it.
fn row_of(field: &str, kind: MetricKind, help: &str, owner: Option<&str>, export: &Export) -> Option<String> {
    assert!(!help.is_empty(), "{field} has no description");
    let mut kind = format!("{kind:?}").to_lowercase();
    let (mut unit, mut meaning) = ("", help.to_owned());
    let with_labels = |family: &str, label: Option<String>| {
        let labels: Vec<String> = owner.map(str::to_owned).into_iter().chain(label).collect();
        if labels.is_empty() { format!("`{family}`") } else { format!("`{family}{{{}}}`", labels.join(", ")) }
    };
    let metric = match *export {
        Export::Series(series) => {
            unit = match series.conversion {
                _ if series.family.ends_with("_timestamp_seconds") => "",
                Conversion::Ms => "ms / s",
                Conversion::Us => "µs / s",
                _ => unit_of(series.family).map_or("", |unit| if unit == "seconds" { "s" } else { unit }),
            };
            if let Conversion::OneIf(word) | Conversion::OneUnless(word) = series.conversion {
                let info = if owner.is_some() { format!("`{word}`, or another word.") } else { meaning };
                "text".clone_into(&mut kind);
                meaning = format!("{info} The metric: {}", series.help.unwrap_or(help));
            }
            let alerts = alerts_of(series);
            if !alerts.is_empty() {
                write!(meaning, " Alert: {}.", alerts.join(", ")).unwrap();
            }
            with_labels(series.family, series.label.map(|(label, value)| format!("{label}=\"{value}\"")))
        }
        Export::Histogram { family, help, label, .. } => {
            "histogram".clone_into(&mut kind);
            meaning = format!("{meaning} The metric: {help}");
            with_labels(family, Some(label.to_owned()))
        }
        Export::Label { family, label } => with_labels(family, Some(label.to_owned())),
        Export::Omitted(OmitReason::SameAs(_)) => return None,
        Export::Omitted(OmitReason::Computed(expression)) => format!("`{expression}`"),
        Export::Omitted(_) => "none".to_owned(),
        Export::Parts { .. } => unreachable!("a part has no parts"),
    };
    if !unit.is_empty() {
        for unit in [", ms", ", microseconds", ", seconds", ", bytes"] {
            meaning = meaning.replace(unit, "");
        }
    }
    let mut fields = vec![format!("`{field}`")];
    for other in SECTIONS.iter().flat_map(|section| section.metrics) {
        if matches!(other.export, Export::Omitted(OmitReason::SameAs(target)) if target == field) {
            fields.push(format!("`{}`", other.name));
        }
    }
    Some(format!("| {} | {metric} | {kind} | {unit} | {meaning} |\n", fields.join(", ")))
}

/// Returns the alerts whose expressions read a metric.
fn alerts_of(series: Series) -> Vec<String> {
    let rules = include_str!("../../dashboards/alerts.yml").split("- alert: ").skip(1);
    let reads = |expression: &str| {
        let selects = series.label.filter(|_| expression.contains(&format!("{}{{", series.family)));
        named(expression).contains(series.family)
            && selects.is_none_or(|(label, value)| expression.contains(&format!("{label}=\"{value}\"")))
    };
    let rules = rules.filter(|rule| reads(rule.split("labels:").next().expect("an expression")));
    rules.map(|rule| format!("`{}`", rule.lines().next().expect("a name"))).collect()
}

/// Returns the words of a text that are names of metrics.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|char: char| !(char.is_ascii_alphanumeric() || char == '_'));
    words.filter(|word| word.starts_with("getid_") && !word.ends_with('_')).collect()
}

#[test]
fn dashboard_alerts_and_page_name_metrics_that_there_are() {
    let families = families();
    let is_exported = |name: &str| {
        families.iter().any(|family| {
            let rest = name.strip_prefix(family.name);
            rest == Some("")
                || family.family_type == FamilyType::Histogram && matches!(rest, Some("_sum" | "_count" | "_bucket"))
        })
    };
    for file in ["dashboards/getid.json", "dashboards/alerts.yml", "dashboards/alerts_test.yml", PAGE] {
        // Another test compares the page's tables, which contain fields of INFO, too.
        let text: String =
            read(file).lines().filter(|line| !line.starts_with("| ")).flat_map(|line| [line, "\n"]).collect();
        let names = named(&text);
        assert!(names.len() > 10 || file == PAGE, "{file}: {names:?}");
        let unknown: Vec<_> = names.into_iter().filter(|name| !is_exported(name)).collect();
        assert!(unknown.is_empty(), "{file} names metrics that are not exported: {unknown:?}");
    }
}

/// Each alert is explained, and has a test that it fires and a test that it does not fire.
#[test]
fn alerts_are_explained_and_tried() {
    let (rules, tests, page) = (read("dashboards/alerts.yml"), read("dashboards/alerts_test.yml"), read(PAGE));
    let alerts: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() >= 8, "{alerts:?}");
    for alert in alerts {
        assert!(page.contains(&format!("| `{alert}` |")), "{PAGE} does not explain {alert}");
        let tried: Vec<_> = tests.split(&format!("alertname: {alert}\n")).skip(1).collect();
        assert!(tried.iter().any(|rest| rest.trim_start().starts_with("exp_alerts:\n")), "{alert} is not tried");
        if alert != "GetidLayoutEnds" {
            assert!(tried.iter().any(|rest| rest.trim_start().starts_with("exp_alerts: []")), "{alert} always comes");
        }
    }
}

fn promtool(words: &[&str], folder: &Path) -> String {
    run(Command::new("promtool").args(words).current_dir(folder), "")
}

#[test]
#[ignore = "needs promtool"]
fn promtool_accepts_the_rules_and_their_tests() {
    let folder = root().join("dashboards");
    let output = promtool(&["check", "rules", "alerts.yml"], &folder);
    assert!(output.contains("SUCCESS"), "{output}");
    let output = promtool(&["test", "rules", "alerts_test.yml"], &folder);
    assert!(output.contains("SUCCESS") && !output.contains("FAILED"), "{output}");
}

/// A wrong rule is found: without this, the test above proves nothing.
#[test]
#[ignore = "needs promtool"]
fn promtool_finds_a_rule_that_is_wrong() {
    let folder = crate::support::folder();
    let rules = read("dashboards/alerts.yml");
    let wrong = rules.replace("getid_refusing == 1", "getid_refusing == 2");
    assert_ne!(rules, wrong);
    std::fs::write(folder.path().join("alerts.yml"), wrong).expect("written");
    std::fs::copy(root().join("dashboards/alerts_test.yml"), folder.path().join("alerts_test.yml")).expect("copied");
    let output = crate::support::program::fails(
        Command::new("promtool").args(["test", "rules", "alerts_test.yml"]).current_dir(folder.path()),
    );
    assert!(output.contains("GetidRefusing"), "{output}");
}
