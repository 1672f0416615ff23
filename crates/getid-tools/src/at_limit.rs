//! Watches whether a server reaches the limit of its layout, by the field `at_limit` of INFO.
//!
//! After a run a server has had a pause, and is no longer at its limit. So INFO is read during the run, on a connection
//! of its own, about once a second. A shorter run gets one request at its end. The last answer counts.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::client::Endpoint;
use super::replies::{Reply, push_request};

/// Time between two requests. A server reports the demand of the last second.
const EVERY: Duration = Duration::from_secs(1);

/// Runs `run`, and returns its result with each server's last report about its layout's limit: the demand, and the
/// shard-range that would hold it. The report is `None` if the server was below its limit, denies INFO, or is no getid.
pub fn watch_while<T>(endpoints: &[&Endpoint], run: impl FnOnce() -> T) -> (T, Vec<Option<String>>) {
    let (stop, stopped) = mpsc::channel::<()>();
    thread::scope(move |scope| {
        let watcher = scope.spawn(move || {
            let mut reports = vec![None; endpoints.len()];
            let mut was_read = false;
            loop {
                let is_over = stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
                if is_over && was_read {
                    break reports;
                }
                for (report, endpoint) in reports.iter_mut().zip(endpoints) {
                    record_report(report, fetch_report(endpoint));
                }
                was_read = true;
            }
        });
        let result = run();
        drop(stop);
        (result, watcher.join().unwrap_or_default())
    })
}

/// A server's report about its layout's limit.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LimitReport {
    Below,
    AtLimit(String),
}

/// Notes an answer. Without an answer, the previous report stays.
fn record_report(report: &mut Option<String>, answer: Option<LimitReport>) {
    match answer {
        Some(LimitReport::AtLimit(sentence)) => *report = Some(sentence),
        Some(LimitReport::Below) => *report = None,
        None => {}
    }
}

/// Reads the field from a server; `None` without a readable answer.
fn fetch_report(endpoint: &Endpoint) -> Option<LimitReport> {
    let mut request = Vec::new();
    push_request(&mut request, &["INFO", "generator"]);
    match endpoint.request_once(&request, 1).ok()?.first()? {
        Reply::Text(beginning) => parse_report(beginning),
        _ => None,
    }
}

/// Finds the field in the beginning of `INFO generator`.
fn parse_report(beginning: &str) -> Option<LimitReport> {
    // The last line may be incomplete.
    let whole = beginning.get(..=beginning.rfind('\n')?)?;
    let report = whole.lines().find_map(|line| line.strip_prefix("at_limit:"))?;
    Some(if report == "no" { LimitReport::Below } else { LimitReport::AtLimit(report.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::{LimitReport, parse_report, record_report};

    #[test]
    fn the_field_is_read() {
        let head = "# Generator\r\nid_epoch:1288834974657\r\ncapacity_per_sec:512000\r\n";
        assert_eq!(
            parse_report(&format!("{head}at_limit:9 ids; x\r\nlayout")),
            Some(LimitReport::AtLimit("9 ids; x".to_owned()))
        );
        assert_eq!(parse_report(&format!("{head}at_limit:no\r\nlayout")), Some(LimitReport::Below));
        for none in ["at_limit:9 ids", "layout_ends:2154\r\n", ""] {
            assert_eq!(parse_report(&format!("{head}{none}")), None, "{none}");
        }
        assert_eq!(parse_report(""), None);
    }

    #[test]
    fn the_last_answer_counts() {
        let mut report = None;
        let at_limit = LimitReport::AtLimit("9 ids".to_owned());
        for (answer, expected) in
            [(Some(at_limit), Some("9 ids")), (None, Some("9 ids")), (Some(LimitReport::Below), None), (None, None)]
        {
            record_report(&mut report, answer);
            assert_eq!(report.as_deref(), expected);
        }
    }
}
