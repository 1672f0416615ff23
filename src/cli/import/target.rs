//! Where counters are imported to: stores, or a running server.

use getid_core::{Key, Spec};

use crate::cli::sequence::stores::{Opened, Stores, drop_what_is_held, sentence, spec_of_store};
use crate::cli::server_args::ServerArgs;
use crate::sql::{Create, Row, RowChange, RowState, Verdict};
use crate::text::printable::printable_up_to;
use crate::tools::client::{Connection, Endpoint};
use crate::tools::replies::push_request;

/// What happened to one counter.
pub(super) enum Done {
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

pub(super) enum Target<'a> {
    Stores(Vec<Opened<'a>>),
    Server { endpoint: Box<Endpoint>, connection: Box<Connection> },
}

impl<'a> Target<'a> {
    pub(super) fn stores(stores: &'a Stores) -> Result<Target<'a>, String> {
        Ok(Target::Stores(stores.connect_all()?))
    }

    pub(super) fn server(word: &str, at: &ServerArgs, timeout_ms: u64) -> Result<Target<'a>, String> {
        // The password of the Redis is not sent to this server.
        let endpoint = at.of_another(word).endpoint(Some(word), timeout_ms)?;
        let connection = endpoint.connect().map_err(|error| format!("{endpoint}: {error}"))?;
        Ok(Target::Server { endpoint: Box::new(endpoint), connection: Box::new(connection) })
    }

    /// Raises a sequence above `last`, or creates it. An error ends the import.
    pub(super) fn take(&mut self, key: &Key, last: i64, is_dry: bool) -> Result<Done, String> {
        match self {
            Target::Stores(all) => {
                let count = all.len();
                let mut done = None;
                for (index, opened) in all.iter_mut().enumerate() {
                    let spec = spec_of_store(Spec { start: last + 1, ..Spec::default() }, index, count)?;
                    done = Some(larger(done, take_in(opened, key, last, spec, is_dry)?));
                }
                Ok(done.unwrap_or_else(|| Done::Refused("there is no store".to_owned())))
            }
            Target::Server { endpoint, connection } => ask(endpoint, connection, key, last, is_dry),
        }
    }
}

/// Combines the results of two stores: a refusal wins over a creation, that over a raise, and that over no change.
fn larger(before: Option<Done>, now: Done) -> Done {
    let rank = |done: &Done| match done {
        Done::Refused(_) => 3,
        Done::Created { .. } => 2,
        Done::Raised { .. } => 1,
        Done::Same { .. } => 0,
    };
    match (before, now) {
        (Some(Done::Created { next }), Done::Created { next: other }) => Done::Created { next: next.min(other) },
        (Some(Done::Same { at }), Done::Same { at: other }) => Done::Same { at: at.max(other) },
        (Some(Done::Raised { from }), Done::Raised { from: other }) => Done::Raised { from: from.max(other) },
        (Some(before), now) if rank(&before) > rank(&now) => before,
        (_, now) => now,
    }
}

fn take_in(opened: &mut Opened<'_>, key: &Key, last: i64, spec: Spec, is_dry: bool) -> Result<Done, String> {
    let found = match opened.read(|connection| connection.row(key))? {
        Some(row) if row.state == RowState::Dropped => {
            let dropped = format!("a sequence of this name was dropped: 'getid sequence create {key}' makes it again");
            return Ok(Done::Refused(dropped));
        }
        Some(row) => row,
        None if is_dry => return Ok(Done::Created { next: spec.next_from(last + 1) }),
        None => {
            let new = Create {
                key: key.clone(),
                spec,
                above_dropped: false,
                fresh_after_ms: None,
                floor: 0,
                rows_max: 0,
                server: None,
            };
            match opened.write_row(|connection| connection.create(&new))? {
                Ok(row) => return Ok(Done::Created { next: row.next }),
                // Another program created the sequence just now.
                Err(Verdict::Exists(row)) => *row,
                Err(verdict) => return Ok(Done::Refused(sentence(key.as_str(), verdict))),
            }
        }
    };
    raise(opened, key, last, &found, is_dry)
}

fn raise(opened: &mut Opened<'_>, key: &Key, last: i64, found: &Row, is_dry: bool) -> Result<Done, String> {
    let at = found.last();
    if found.next > last {
        if !is_dry {
            drop_what_is_held(opened, key, found, last)?;
        }
        return Ok(Done::Same { at });
    }
    if is_dry {
        return Ok(Done::Raised { from: at });
    }
    // Only an operator clears the mark of a store that went back.
    let change = RowChange::Raise { last, settles: None };
    Ok(match opened.write_row(|connection| connection.change(key, &change))? {
        Ok(_) => Done::Raised { from: at },
        Err(Verdict::Lower { row }) => Done::Same { at: row.last() },
        Err(verdict) => Done::Refused(sentence(key.as_str(), verdict)),
    })
}

/// Imports a counter by commands of a running server.
fn ask(endpoint: &Endpoint, connection: &mut Connection, key: &Key, last: i64, is_dry: bool) -> Result<Done, String> {
    let mut asked = |words: &[&str]| -> Result<Result<Vec<u8>, String>, String> {
        let mut bytes = Vec::new();
        push_request(&mut bytes, words);
        let replies = endpoint.request_values(connection, &bytes, 1).map_err(|error| format!("{endpoint}: {error}"))?;
        let reply = replies.into_iter().next().unwrap_or_else(|| Ok(Vec::new()));
        Ok(reply.map(|words| words.first().map(|word| word.text().to_vec()).unwrap_or_default()))
    };
    let said = |error: &str| printable_up_to(error, 300);
    let before = match asked(&["GET", key.as_str()])? {
        Err(error) if ends_it(&error) => return Err(format!("{endpoint}: {}", said(&error))),
        Err(error) => return Ok(Done::Refused(said(&error))),
        Ok(text) if text.is_empty() => None,
        Ok(text) => {
            let at = str::from_utf8(&text).ok().and_then(|text| text.parse::<i64>().ok());
            Some(at.ok_or_else(|| format!("{endpoint}: GET {key} was answered with no number; is it a getid?"))?)
        }
    };
    if let Some(at) = before.filter(|at| *at >= last) {
        return Ok(Done::Same { at });
    }
    let done = before.map_or(Done::Created { next: last + 1 }, |from| Done::Raised { from });
    if is_dry {
        return Ok(done);
    }
    match asked(&["SET", key.as_str(), &last.to_string()])? {
        Ok(_) => Ok(done),
        // The sequence has grown meanwhile.
        Err(error) if error.contains("never goes back") => Ok(Done::Same { at: last }),
        Err(error) if ends_it(&error) => Err(format!("{endpoint}: {}", said(&error))),
        Err(error) => Ok(Done::Refused(said(&error))),
    }
}

/// Whether every other counter would get the same error.
fn ends_it(error: &str) -> bool {
    let code = error.split(' ').next().unwrap_or_default();
    ["NOAUTH", "NOPERM", "MISCONF", "DENIED", "BUSY"].contains(&code)
        || error.contains("unknown command")
        || error.contains("sequences are off")
}
