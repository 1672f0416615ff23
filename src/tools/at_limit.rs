//! Whether a server is at the limit of its layout, as it says itself: the field `at_limit` of INFO.
//!
//! A server that is asked after a run has had a pause, and is not at its limit any more. So it is asked beside the run,
//! on a connection of its own, about once a second. A run that is over before is asked about once, as it ends. The last
//! answer counts.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::client::Endpoint;
use super::replies::{Reply, push_request};

/// Between two questions. A server says what was asked for in the last second.
const EVERY: Duration = Duration::from_secs(1);

/// Runs this, and returns beside its result what each server said last of its layout's limit: what is asked for, and
/// which shard-range would hold it. `None`: it was not at its limit, may not be asked, or is no getid.
pub(crate) fn watch_while<T>(endpoints: &[&Endpoint], run: impl FnOnce() -> T) -> (T, Vec<Option<String>>) {
    let (stop, stopped) = mpsc::channel::<()>();
    thread::scope(move |scope| {
        let watcher = scope.spawn(move || {
            let mut said = vec![None; endpoints.len()];
            let mut was_asked = false;
            loop {
                let is_over = stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
                if is_over && was_asked {
                    break said;
                }
                for (said, endpoint) in said.iter_mut().zip(endpoints) {
                    note(said, ask(endpoint));
                }
                was_asked = true;
            }
        });
        let result = run();
        drop(stop);
        (result, watcher.join().unwrap_or_default())
    })
}

/// What a server says of its layout's limit.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Within,
    AtLimit(String),
}

/// Notes an answer; a server that gave none has said what it said before.
fn note(said: &mut Option<String>, answer: Option<Said>) {
    match answer {
        Some(Said::AtLimit(sentence)) => *said = Some(sentence),
        Some(Said::Within) => *said = None,
        None => {}
    }
}

/// `None` without an answer that says anything.
fn ask(endpoint: &Endpoint) -> Option<Said> {
    let mut request = Vec::new();
    push_request(&mut request, &["INFO", "generator"]);
    match endpoint.ask_once(&request, 1).ok()?.first()? {
        Reply::Text(beginning) => read(beginning),
        _ => None,
    }
}

/// The sentence in the beginning of `INFO generator`.
fn read(beginning: &str) -> Option<Said> {
    // The last line may have been cut.
    let whole = beginning.get(..=beginning.rfind('\n')?)?;
    let said = whole.lines().find_map(|line| line.strip_prefix("at_limit:"))?;
    Some(if said == "no" { Said::Within } else { Said::AtLimit(said.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::{Said, note, read};

    #[test]
    fn what_a_server_says_is_read() {
        let head = "# Generator\r\nid_epoch:1288834974657\r\ncapacity_per_sec:512000\r\n";
        assert_eq!(read(&format!("{head}at_limit:9 ids; x\r\nlayout")), Some(Said::AtLimit("9 ids; x".to_owned())));
        assert_eq!(read(&format!("{head}at_limit:no\r\nlayout")), Some(Said::Within));
        for none in ["at_limit:9 ids", "layout_ends:2154\r\n", ""] {
            assert_eq!(read(&format!("{head}{none}")), None, "{none}");
        }
        assert_eq!(read(""), None);
    }

    #[test]
    fn the_last_answer_counts() {
        let mut said = None;
        let at_limit = Said::AtLimit("9 ids".to_owned());
        for (answer, expected) in
            [(Some(at_limit), Some("9 ids")), (None, Some("9 ids")), (Some(Said::Within), None), (None, None)]
        {
            note(&mut said, answer);
            assert_eq!(said.as_deref(), expected);
        }
    }
}
