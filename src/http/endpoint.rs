//! The table of endpoints: the router is made from it, and so is `/openapi.json`. There is no other list of paths but
//! Leaf's and Tinyid's, which are those servers' own and not this one's to describe.
//!
//! An endpoint's row stands beside its handler, which gets it with each request ([`Served`]) and reads parameters and
//! body by it ([`Ask`](super::ask::Ask)). So what the document says of them is what is checked.

use std::sync::Arc;

use axum::extract::FromRef;
use axum::routing::{MethodFilter, MethodRouter};

use super::schema::{Field, Schema};
use super::{Http, decode, generators, ids, metrics, openapi, page, probes, sequences, workers};

/// All of them, in the order in which the document has them.
pub(super) fn all() -> impl Iterator<Item = &'static Endpoint> {
    let rows = [
        ids::ENDPOINTS,
        decode::ENDPOINTS,
        generators::ENDPOINTS,
        sequences::ENDPOINTS,
        workers::ENDPOINTS,
        page::ENDPOINTS,
        metrics::ENDPOINTS,
        probes::ENDPOINTS,
        openapi::ENDPOINTS,
    ];
    rows.into_iter().flatten()
}

/// Whether an endpoint is at this path.
pub(super) fn is_known(path: &str) -> bool {
    all().any(|row| is_at(row, path))
}

/// Whether this endpoint is at this path.
pub(super) fn is_at(row: &Endpoint, path: &str) -> bool {
    let parts = path.split('/');
    let is_it = |(own, part): (&str, &str)| own == part || (own.starts_with('{') && !part.is_empty());
    row.path.split('/').count() == parts.clone().count() && row.path.split('/').zip(parts).all(is_it)
}

/// One method of one path.
pub(super) struct Endpoint {
    pub(super) method: Method,
    /// With names in braces, each of which is in `parameters`.
    pub(super) path: &'static str,
    /// Under which heading the document has it.
    pub(super) tag: &'static str,
    /// What programs that are made from the document call it.
    pub(super) id: &'static str,
    /// A few words.
    pub(super) summary: &'static str,
    /// Sentences; may be empty.
    pub(super) description: &'static str,
    pub(super) access: Access,
    /// Without any for a query, the router refuses queries; else the handler reads them, by [`Ask`](super::ask::Ask).
    pub(super) parameters: &'static [Parameter],
    /// The fields of its JSON body, which may be left away where none is required; `None`: it takes no body.
    pub(super) body: Option<&'static [Field]>,
    pub(super) answers: &'static [Answer],
    /// Statuses of its problems, beside those that every endpoint may have.
    pub(super) problems: &'static [u16],
    /// Its handler, for the filter of its method: `|filter| on(filter, handler)`.
    pub(super) route: fn(MethodFilter) -> MethodRouter<Served>,
}

/// What a handler is given beside the request. One that needs no row takes `State<Arc<Http>>`.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) http: Arc<Http>,
    /// The endpoint that it is for.
    pub(super) row: &'static Endpoint,
}

impl FromRef<Served> for Arc<Http> {
    fn from_ref(served: &Served) -> Arc<Http> {
        Arc::clone(&served.http)
    }
}

/// An endpoint's method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// HEAD too.
    Get,
    Post,
    Patch,
}

impl Method {
    /// As the document has it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Method::Get => "get",
            Method::Post => "post",
            Method::Patch => "patch",
        }
    }

    /// As the router has it.
    pub(super) const fn filter(self) -> MethodFilter {
        match self {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Patch => MethodFilter::PATCH,
        }
    }
}

/// Who may ask.
pub(super) enum Access {
    /// Who may run these commands, each when the second text says.
    Commands(&'static [(&'static str, &'static str)]),
    /// Whoever may come in at all.
    Anybody,
}

/// A parameter of a path or a query.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) place: Place,
    pub(super) schema: &'static Schema,
    pub(super) description: &'static str,
}

/// Where a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Between slashes; always there.
    Path,
    /// Behind the question mark.
    Query { is_required: bool },
}

/// What is answered if all goes well.
pub(super) struct Answer {
    pub(super) status: u16,
    /// `application/json` and the like.
    pub(super) media: &'static str,
    /// Of a JSON body.
    pub(super) schema: Option<&'static Schema>,
    pub(super) description: &'static str,
}

impl Answer {
    /// 200, with a JSON body.
    pub(super) const fn ok(schema: &'static Schema, description: &'static str) -> Answer {
        Answer { status: 200, media: "application/json", schema: Some(schema), description }
    }
}

/// A parameter of a path.
pub(super) const fn in_path(name: &'static str, schema: &'static Schema, description: &'static str) -> Parameter {
    Parameter { name, place: Place::Path, schema, description }
}

/// A parameter of a query that may be left away.
pub(super) const fn optional(name: &'static str, schema: &'static Schema, description: &'static str) -> Parameter {
    Parameter { name, place: Place::Query { is_required: false }, schema, description }
}

/// A parameter of a query that must be there.
pub(super) const fn required(name: &'static str, schema: &'static Schema, description: &'static str) -> Parameter {
    Parameter { name, place: Place::Query { is_required: true }, schema, description }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn rows_are_whole() {
        let (mut routes, mut ids) = (HashSet::new(), HashSet::new());
        for row in all() {
            let name = format!("{} {}", row.method.word(), row.path);
            assert!(routes.insert(name.clone()), "{name} is there twice");
            assert!(ids.insert(row.id), "{name}: the name {} is another's", row.id);
            assert!(!row.summary.is_empty() && !row.summary.ends_with('.'), "{name}: a summary is a few words");
            assert!(!row.answers.is_empty(), "{name} answers nothing");
            let in_braces: Vec<_> =
                row.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
            let of_path = row.parameters.iter().filter(|parameter| parameter.place == Place::Path);
            assert_eq!(of_path.map(|parameter| parameter.name).collect::<Vec<_>>(), in_braces, "{name}");
            assert!(row.method != Method::Get || row.body.is_none(), "{name}: a GET has no body");
            if let Access::Commands(commands) = row.access {
                assert!(!commands.is_empty(), "{name}: say that anybody may");
                for (command, _) in commands {
                    let command = command.to_lowercase().replace(' ', "|");
                    assert!(crate::command::rows().any(|row| row.full_name == command), "{name}: {command}");
                }
            }
        }
    }
}
