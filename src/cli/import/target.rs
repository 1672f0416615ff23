//! Where counters are imported to: stores, or a running server.

use getid_core::server::{Key, Spec};

use crate::cli::sequence::stores::{OpenStore, Stores, drop_held_segments, sentence, spec_of_store};
use crate::cli::server_args::ServerArgs;
use getid_store::sql::{CreateRequest, RowChange, RowState, SequenceRow, Verdict};
use getid_text::printable::printable_up_to;
use getid_tools::client::{Connection, Endpoint};
use getid_tools::replies::push_request;

/// What happened to one counter.
pub(super) enum ImportOutcome {
    Created {
        next: i64,
    },
    Raised {
        from: i64,
    },
    /// The sequence exists, and is not lower.
    Same {
        at: i64,
    },
    Refused(String),
}

pub(super) enum ImportTarget<'a> {
    Stores(Vec<OpenStore<'a>>),
    Server { endpoint: Box<Endpoint>, connection: Box<Connection> },
}

impl<'a> ImportTarget<'a> {
    pub(super) fn stores(stores: &'a Stores) -> Result<ImportTarget<'a>, String> {
        Ok(ImportTarget::Stores(stores.connect_all()?))
    }

    pub(super) fn server(word: &str, at: &ServerArgs, timeout_ms: u64) -> Result<ImportTarget<'a>, String> {
        // The password of the Redis is not sent to this server.
        let endpoint = at.for_other_server(word).endpoint(Some(word), timeout_ms)?;
        let connection = endpoint.connect().map_err(|error| format!("{endpoint}: {error}"))?;
        Ok(ImportTarget::Server { endpoint: Box::new(endpoint), connection: Box::new(connection) })
    }

    /// Raises a sequence above `last`, or creates it. An error ends the import.
    pub(super) fn import_counter(&mut self, key: &Key, last: i64, is_dry: bool) -> Result<ImportOutcome, String> {
        match self {
            ImportTarget::Stores(all) => {
                let count = all.len();
                let mut done = None;
                for (index, opened) in all.iter_mut().enumerate() {
                    let spec = spec_of_store(Spec { start: last + 1, ..Spec::default() }, index, count)?;
                    done = Some(combine(done, import_into_store(opened, key, last, spec, is_dry)?));
                }
                Ok(done.unwrap_or_else(|| ImportOutcome::Refused("there is no store".to_owned())))
            }
            ImportTarget::Server { endpoint, connection } => {
                import_by_commands(endpoint, connection, key, last, is_dry)
            }
        }
    }
}

/// Combines the results of two stores: a refusal wins over a creation, that over a raise, and that over no change.
fn combine(before: Option<ImportOutcome>, now: ImportOutcome) -> ImportOutcome {
    let rank = |done: &ImportOutcome| match done {
        ImportOutcome::Refused(_) => 3,
        ImportOutcome::Created { .. } => 2,
        ImportOutcome::Raised { .. } => 1,
        ImportOutcome::Same { .. } => 0,
    };
    match (before, now) {
        (Some(ImportOutcome::Created { next }), ImportOutcome::Created { next: other }) => {
            ImportOutcome::Created { next: next.min(other) }
        }
        (Some(ImportOutcome::Same { at }), ImportOutcome::Same { at: other }) => {
            ImportOutcome::Same { at: at.max(other) }
        }
        (Some(ImportOutcome::Raised { from }), ImportOutcome::Raised { from: other }) => {
            ImportOutcome::Raised { from: from.max(other) }
        }
        (Some(before), now) if rank(&before) > rank(&now) => before,
        (_, now) => now,
    }
}

fn import_into_store(
    opened: &mut OpenStore<'_>,
    key: &Key,
    last: i64,
    spec: Spec,
    is_dry: bool,
) -> Result<ImportOutcome, String> {
    let found = match opened.read(|connection| connection.row(key))? {
        Some(row) if row.state == RowState::Dropped => {
            let dropped =
                format!("a sequence of this name was dropped: 'getid sequence create {key}' creates it again");
            return Ok(ImportOutcome::Refused(dropped));
        }
        Some(row) => row,
        None if is_dry => return Ok(ImportOutcome::Created { next: spec.next_from(last + 1) }),
        None => {
            let new = CreateRequest {
                key: key.clone(),
                spec,
                above_dropped: false,
                fresh_after_ms: None,
                floor: 0,
                rows_max: 0,
                server: None,
            };
            match opened.write_row(|connection| connection.create(&new))? {
                Ok(row) => return Ok(ImportOutcome::Created { next: row.next }),
                // Another program created the sequence just now.
                Err(Verdict::Exists(row)) => *row,
                Err(verdict) => return Ok(ImportOutcome::Refused(sentence(key.as_str(), verdict))),
            }
        }
    };
    raise(opened, key, last, &found, is_dry)
}

fn raise(
    opened: &mut OpenStore<'_>,
    key: &Key,
    last: i64,
    found: &SequenceRow,
    is_dry: bool,
) -> Result<ImportOutcome, String> {
    let at = found.last();
    if found.next > last {
        if !is_dry {
            drop_held_segments(opened, key, found, last)?;
        }
        return Ok(ImportOutcome::Same { at });
    }
    if is_dry {
        return Ok(ImportOutcome::Raised { from: at });
    }
    // Only an operator clears the mark of a store that went back.
    let change = RowChange::Raise { last, settles: None };
    Ok(match opened.write_row(|connection| connection.change(key, &change))? {
        Ok(_) => ImportOutcome::Raised { from: at },
        Err(Verdict::Lower { row }) => ImportOutcome::Same { at: row.last() },
        Err(verdict) => ImportOutcome::Refused(sentence(key.as_str(), verdict)),
    })
}

/// Imports a counter by commands of a running server.
fn import_by_commands(
    endpoint: &Endpoint,
    connection: &mut Connection,
    key: &Key,
    last: i64,
    is_dry: bool,
) -> Result<ImportOutcome, String> {
    let mut request = |words: &[&str]| -> Result<Result<Vec<u8>, String>, String> {
        let mut bytes = Vec::new();
        push_request(&mut bytes, words);
        let replies = endpoint.request_values(connection, &bytes, 1).map_err(|error| format!("{endpoint}: {error}"))?;
        let reply = replies.into_iter().next().unwrap_or_else(|| Ok(Vec::new()));
        Ok(reply.map(|words| words.first().map(|word| word.text().to_vec()).unwrap_or_default()))
    };
    let shown = |error: &str| printable_up_to(error, 300);
    let before =
        match request(&["GET", key.as_str()])? {
            Err(error) if is_fatal(&error) => return Err(format!("{endpoint}: {}", shown(&error))),
            Err(error) => return Ok(ImportOutcome::Refused(shown(&error))),
            Ok(text) if text.is_empty() => None,
            Ok(text) => {
                let at = str::from_utf8(&text).ok().and_then(|text| text.parse::<i64>().ok());
                Some(at.ok_or_else(|| {
                    format!("{endpoint}: the reply to GET {key} is not a number; is the server a getid?")
                })?)
            }
        };
    if let Some(at) = before.filter(|at| *at >= last) {
        return Ok(ImportOutcome::Same { at });
    }
    let done = before.map_or(ImportOutcome::Created { next: last + 1 }, |from| ImportOutcome::Raised { from });
    if is_dry {
        return Ok(done);
    }
    match request(&["SET", key.as_str(), &last.to_string()])? {
        Ok(_) => Ok(done),
        // The sequence has grown meanwhile.
        Err(error) if error.contains("never goes back") => Ok(ImportOutcome::Same { at: last }),
        Err(error) if is_fatal(&error) => Err(format!("{endpoint}: {}", shown(&error))),
        Err(error) => Ok(ImportOutcome::Refused(shown(&error))),
    }
}

/// Whether every other counter would get the same error.
fn is_fatal(error: &str) -> bool {
    let code = error.split(' ').next().unwrap_or_default();
    ["NOAUTH", "NOPERM", "MISCONF", "DENIED", "BUSY"].contains(&code)
        || error.contains("unknown command")
        || error.contains("sequences are off")
}
