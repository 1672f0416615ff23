//! Where counters are imported to: stores, or a running server.

use getid_core::server::{Key, Spec};

use super::error::{ErrorReply, ImportError};
use crate::cli::sequence::stores::{OpenStore, RowRefusal, Stores, StoresError, drop_held_segments, spec_of_store};
use crate::cli::server_args::ServerArgs;
use getid_store::sql::{CreateRequest, RowChange, RowState, SequenceRow, Verdict};
use getid_text::printable::printable_up_to;
use getid_text::shell::shell_word;
use getid_tools::client::{Connection, Endpoint};
use getid_tools::replies::{ErrorText, push_request};

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
    Refused(RefusedCounter),
}

/// Reason why the target does not take a counter.
#[derive(Debug, thiserror::Error)]
pub(super) enum RefusedCounter {
    #[error("there is no store")]
    NoStore,
    #[error("a sequence of this name was dropped: `getid sequence create {}` creates it again", shell_word(.0.as_str()))]
    Dropped(Key),
    #[error(transparent)]
    Row(#[from] RowRefusal),
    /// The server's error reply, in printable characters.
    #[error("{0}")]
    Server(String),
}

pub(super) enum ImportTarget<'a> {
    Stores(Vec<OpenStore<'a>>),
    Server { endpoint: Box<Endpoint>, connection: Box<Connection> },
}

impl<'a> ImportTarget<'a> {
    pub(super) fn stores(stores: &'a Stores) -> Result<ImportTarget<'a>, StoresError> {
        Ok(ImportTarget::Stores(stores.connect_all()?))
    }

    pub(super) fn server(word: &str, at: &ServerArgs, timeout_ms: u64) -> Result<ImportTarget<'a>, ImportError> {
        // The password of the Redis is not sent to this server.
        let endpoint = at.for_other_server(word).endpoint(Some(word), timeout_ms)?;
        let mut connection = endpoint.connect().map_err(|error| ImportError::client(&endpoint, error))?;
        // No sequence has this name, so a plain error is not about a counter: sequences are off, or there is no GET.
        match request(&endpoint, &mut connection, &["GET", "?"])? {
            Err(error) if code_of(&error) == "ERR" => Err(error_reply(&endpoint, &error)),
            _ => Ok(ImportTarget::Server { endpoint: Box::new(endpoint), connection: Box::new(connection) }),
        }
    }

    /// Raises a sequence above `last`, or creates it. An error ends the import.
    pub(super) fn import_counter(&mut self, key: &Key, last: i64, is_dry: bool) -> Result<ImportOutcome, ImportError> {
        match self {
            ImportTarget::Stores(all) => {
                let count = all.len();
                let mut done = None;
                for (index, opened) in all.iter_mut().enumerate() {
                    let spec = spec_of_store(Spec { start: last + 1, ..Spec::default() }, index, count)?;
                    done = Some(combine(done, import_into_store(opened, key, last, spec, is_dry)?));
                }
                Ok(done.unwrap_or(ImportOutcome::Refused(RefusedCounter::NoStore)))
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
) -> Result<ImportOutcome, StoresError> {
    let found = match opened.read(|connection| connection.row(key))? {
        Some(row) if row.state == RowState::Dropped => {
            return Ok(ImportOutcome::Refused(RefusedCounter::Dropped(key.clone())));
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
                values: 0,
                rows_max: 0,
                server: None,
            };
            match opened.write_row(|connection| connection.create(&new))? {
                Ok(row) => return Ok(ImportOutcome::Created { next: row.next }),
                // Another program created the sequence just now.
                Err(Verdict::Exists(row)) => *row,
                Err(verdict) => return Ok(refused(key, verdict)),
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
) -> Result<ImportOutcome, StoresError> {
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
        Err(verdict) => refused(key, verdict),
    })
}

fn refused(key: &Key, verdict: Verdict) -> ImportOutcome {
    ImportOutcome::Refused(RowRefusal { name: key.to_string(), verdict }.into())
}

/// Imports a counter by commands of a running server.
fn import_by_commands(
    endpoint: &Endpoint,
    connection: &mut Connection,
    key: &Key,
    last: i64,
    is_dry: bool,
) -> Result<ImportOutcome, ImportError> {
    let refused = |error: &ErrorText| ImportOutcome::Refused(RefusedCounter::Server(shown(error)));
    let before = match last_value(endpoint, connection, key)? {
        Ok(before) => before,
        Err(error) => return Ok(refused(&error)),
    };
    if let Some(at) = before.filter(|at| *at >= last) {
        return Ok(ImportOutcome::Same { at });
    }
    let done = before.map_or(ImportOutcome::Created { next: last + 1 }, |from| ImportOutcome::Raised { from });
    if is_dry {
        return Ok(done);
    }
    match request(endpoint, connection, &["SET", key.as_str(), &last.to_string()])? {
        Ok(_) => Ok(done),
        Err(error) if is_fatal(&error) => Err(error_reply(endpoint, &error)),
        Err(error) => Ok(match last_value(endpoint, connection, key)? {
            // The sequence has grown meanwhile, and never goes back.
            Ok(Some(at)) if at >= last => ImportOutcome::Same { at },
            _ => refused(&error),
        }),
    }
}

/// Returns the last value of a sequence, or the error reply about it. Any other error ends the import.
fn last_value(
    endpoint: &Endpoint,
    connection: &mut Connection,
    key: &Key,
) -> Result<Result<Option<i64>, ErrorText>, ImportError> {
    let text = match request(endpoint, connection, &["GET", key.as_str()])? {
        Err(error) if is_fatal(&error) => return Err(error_reply(endpoint, &error)),
        Err(error) => return Ok(Err(error)),
        Ok(text) if text.is_empty() => return Ok(Ok(None)),
        Ok(text) => text,
    };
    let at = str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
    let at = at.ok_or_else(|| ImportError::NoNumber { endpoint: endpoint.to_string(), key: key.clone() })?;
    Ok(Ok(Some(at)))
}

/// Returns the reply to a request, or the error reply, without `-`.
fn request(
    endpoint: &Endpoint,
    connection: &mut Connection,
    words: &[&str],
) -> Result<Result<Vec<u8>, ErrorText>, ImportError> {
    let mut bytes = Vec::new();
    push_request(&mut bytes, words);
    let replies = endpoint.request_values(connection, &bytes, 1);
    let replies = replies.map_err(|error| ImportError::client(endpoint, error))?;
    let reply = replies.into_iter().next().unwrap_or_else(|| Ok(Vec::new()));
    Ok(reply.map(|words| words.first().map(|word| word.text().to_vec()).unwrap_or_default()))
}

fn error_reply(endpoint: &Endpoint, error: &ErrorText) -> ImportError {
    ErrorReply { endpoint: endpoint.to_string(), text: shown(error) }.into()
}

fn shown(error: &ErrorText) -> String {
    printable_up_to(&error.0, 300)
}

/// Whether every other counter would get the same error.
fn is_fatal(error: &ErrorText) -> bool {
    ["NOAUTH", "NOPERM", "MISCONF", "DENIED", "BUSY"].contains(&code_of(error))
}

/// Returns the first word of an error reply.
fn code_of(error: &ErrorText) -> &str {
    error.0.split(' ').next().unwrap_or_default()
}
