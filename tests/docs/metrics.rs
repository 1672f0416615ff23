//! `docs/metrics.md`, the dashboard and the alerts name only existing metrics, and the page names all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use getid_server::metrics::export::{Export, Family, FamilyType, OmitReason, families, unit_of};
use getid_server::metrics::table::SECTIONS;

use crate::support::program::run;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Below its head, the page has the table from which `/metrics` is made. With `GETID_WRITE_PAGES` set, the test writes
/// it.
#[test]
fn every_metric_is_explained() {
    let page = read("docs/metrics.md");
    let head = page.split("\n## Families").next().expect("a head");
    let mut text = format!("{head}\n## Families\n");
    let mut section = "";
    for Family { name, family_type, help, labels, section: own, fields } in families() {
        if own != section {
            write!(text, "\n### {own}\n\n| family | type | unit | labels | description | INFO |\n").unwrap();
            text += "|---|---|---|---|---|---|\n";
            section = own;
        }
        let kind = match family_type {
            FamilyType::Counter => "counter",
            FamilyType::Gauge => "gauge",
            FamilyType::Histogram => "histogram",
            FamilyType::Info => "info",
        };
        let code = |words: Vec<String>| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
        let labels = code(labels.into_iter().map(str::to_owned).collect());
        let unit = unit_of(name).unwrap_or("");
        writeln!(text, "| `{name}` | {kind} | {unit} | {labels} | {help} | {} |", code(fields)).unwrap();
    }
    text += "\n## Values computed by Prometheus\n\n| INFO | expression |\n|---|---|\n";
    let (mut computed, mut same, mut others) = (String::new(), BTreeMap::new(), String::new());
    for (field, why) in omitted_fields() {
        match why {
            OmitReason::Computed(expression) => writeln!(computed, "| `{field}` | `{expression}` |").unwrap(),
            OmitReason::SameAs(other) => same.entry(other).or_insert_with(Vec::new).push(format!("`{field}`")),
            OmitReason::Because(why) => writeln!(others, "| `{field}` | {why} |").unwrap(),
            OmitReason::Constant | OmitReason::Unmapped => {}
        }
    }
    text += &computed;
    text += "\n## INFO fields that repeat another field\n\n| INFO | same value |\n|---|---|\n";
    for (other, fields) in same {
        writeln!(text, "| {} | `{other}` |", fields.join(", ")).unwrap();
    }
    text += "\n## Fields in INFO only\n\nFields that [never change](info.md#fields-that-never-change), and:\n\n";
    write!(text, "| INFO | reason |\n|---|---|\n{others}").unwrap();
    if std::env::var_os("GETID_WRITE_PAGES").is_some() {
        std::fs::write(root().join("docs/metrics.md"), &text).expect("written");
    }
    assert_eq!(read("docs/metrics.md"), text, "GETID_WRITE_PAGES=1 cargo test --test docs writes it");
}

/// Returns each field, or part of a field, that is not exported, with the reason.
fn omitted_fields() -> Vec<(String, OmitReason)> {
    let mut omitted = Vec::new();
    for metric in SECTIONS.iter().flat_map(|section| section.metrics) {
        match metric.export {
            Export::Omitted(why) => omitted.push((metric.name.to_owned(), why)),
            Export::Parts { parts, .. } => omitted.extend(parts.iter().filter_map(|part| match part.export {
                Export::Omitted(why) => Some((format!("{}*: {}", metric.name, part.name), why)),
                _ => None,
            })),
            _ => {}
        }
    }
    omitted
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
    for file in ["dashboards/getid.json", "dashboards/alerts.yml", "dashboards/alerts_test.yml", "docs/metrics.md"] {
        // Another test compares the page's tables, which contain fields of INFO, too.
        let text: String =
            read(file).lines().filter(|line| !line.starts_with("| ")).flat_map(|line| [line, "\n"]).collect();
        let names = named(&text);
        assert!(names.len() > 10 || file == "docs/metrics.md", "{file}: {names:?}");
        let unknown: Vec<_> = names.into_iter().filter(|name| !is_exported(name)).collect();
        assert!(unknown.is_empty(), "{file} names metrics that are not exported: {unknown:?}");
    }
}

/// Each alert is explained, and has a test that it fires and a test that it does not fire.
#[test]
fn alerts_are_explained_and_tried() {
    let (rules, tests, page) =
        (read("dashboards/alerts.yml"), read("dashboards/alerts_test.yml"), read("docs/metrics.md"));
    let alerts: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() >= 8, "{alerts:?}");
    for alert in alerts {
        assert!(page.contains(&format!("| `{alert}` |")), "docs/metrics.md does not explain {alert}");
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
