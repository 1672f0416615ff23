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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;

    use getid_core::Layout;

    use super::*;
    use crate::config::Config;
    use crate::generators::time::IssuerStatus;
    use crate::metrics::{ClientFacts, CpuFacts, Lazy, MemoryFacts, Metrics, ProcessFacts, TlsFacts};

    /// What is gathered for these sections, in its order.
    fn gathered(sections: &[&str]) -> Vec<&'static str> {
        fn noted<'a, T: 'a>(what: &'static str, by: &'a RefCell<Vec<&'static str>>, facts: T) -> Lazy<'a, T> {
            Lazy::new(Box::new(move || {
                by.borrow_mut().push(what);
                facts
            }))
        }
        let (metrics, by) = (Metrics::new(1), RefCell::default());
        let facts = Facts {
            metrics: &metrics,
            config: Arc::new(Config::default()),
            server_id: 0,
            layout: Layout::default(),
            generator: noted("generator", &by, IssuerStatus::default()),
            process: ProcessFacts { run_id: "", executable: "", config_file: "", tcp_port: 0, wall_unix_us: 0 },
            memory: noted("memory", &by, MemoryFacts { resident_bytes: 0, machine_bytes: None }),
            cpu: noted("cpu", &by, CpuFacts { own: None, of_children: None }),
            clients: noted("clients", &by, ClientFacts::default()),
            tls: TlsFacts::default(),
            log_lines_dropped: 0,
        };
        text(&facts, &sections.iter().map(|&section| section.to_owned()).collect::<Vec<_>>());
        by.take()
    }

    #[test]
    fn a_section_gathers_what_it_tells_and_no_more() {
        let cheap =
            ["server", "stats", "replication", "commandstats", "errorstats", "latencystats", "cluster", "keyspace"];
        assert_eq!(gathered(&cheap), [""; 0]);
        for (section, facts) in [
            ("clients", "clients"),
            ("memory", "memory"),
            ("cpu", "cpu"),
            ("persistence", "generator"),
            ("generator", "generator"),
        ] {
            assert_eq!(gathered(&[section]), [facts], "{section}");
        }
        assert_eq!(gathered(&[]), ["clients", "memory", "generator", "cpu"]);
    }
}
