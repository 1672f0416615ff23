//! The text of INFO: the table's sections as lines of `name:value`.

use std::fmt::Write as _;

use super::table::{SECTIONS, Source};
use super::{Facts, Value};

/// INFO with the sections named, in any letter case: the default ones when none or `default` is, every one with `all`
/// or `everything`.
pub fn text(facts: &Facts<'_>, names: &[String]) -> String {
    let asked = |name: &str| names.iter().any(|asked| asked.eq_ignore_ascii_case(name));
    let all = asked("all") || asked("everything");
    let default = names.is_empty() || asked("default");
    let mut out = String::with_capacity(8192);
    for section in SECTIONS {
        if !(all || (default && section.is_default) || asked(section.title)) {
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
                Source::Constant(value) => write!(out, "{name}:{value}\r\n"),
                Source::Facts(read) => match read(facts) {
                    Value::Absent => Ok(()),
                    Value::Family(values) => {
                        values.iter().try_for_each(|(label, value)| write!(out, "{name}{label}:{value}\r\n"))
                    }
                    value => write!(out, "{name}:{value}\r\n"),
                },
            };
        }
    }
    out
}
