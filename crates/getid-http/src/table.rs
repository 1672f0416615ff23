//! The table of endpoints, from which the router and `/openapi.json` are made. There is no other list of paths, except
//! for those of other servers (`compat`).

use super::endpoint::Endpoint;
use super::{decode, encode, generators, ids, metrics, numbers, openapi, page, probes, seals, sequences, workers};

/// Returns all endpoints, in the order of the document.
pub(super) fn all() -> impl Iterator<Item = &'static Endpoint> {
    let rows = [
        ids::ENDPOINTS,
        decode::ENDPOINTS,
        encode::ENDPOINTS,
        seals::ENDPOINTS,
        generators::ENDPOINTS,
        sequences::ENDPOINTS,
        numbers::ENDPOINTS,
        workers::ENDPOINTS,
        page::ENDPOINTS,
        metrics::ENDPOINTS,
        probes::ENDPOINTS,
        openapi::ENDPOINTS,
    ];
    rows.into_iter().flatten()
}

/// Whether there is an endpoint at this path.
pub(super) fn is_known(path: &str) -> bool {
    all().any(|row| row.has_path(path))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::endpoint::{EndpointAccess, Method, ParameterLocation};

    #[test]
    fn rows_are_whole() {
        let (mut routes, mut ids) = (HashSet::new(), HashSet::new());
        for row in all() {
            let name = format!("{} {}", row.method.word(), row.path);
            assert!(routes.insert(name.clone()), "{name} is repeated");
            assert!(ids.insert(row.id), "{name}: another endpoint has the name {}", row.id);
            assert!(!row.summary.is_empty() && !row.summary.ends_with('.'), "{name}: a summary is a few words");
            assert!(!row.responses.is_empty(), "{name} has no response");
            let in_braces: Vec<_> =
                row.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
            let of_path = row.parameters.iter().filter(|parameter| parameter.location == ParameterLocation::Path);
            assert_eq!(of_path.map(|parameter| parameter.name).collect::<Vec<_>>(), in_braces, "{name}");
            assert!(row.method != Method::Get || row.body.is_none(), "{name}: a GET has no body");
            if let EndpointAccess::Commands(commands) = row.access {
                assert!(!commands.is_empty(), "{name}: use EndpointAccess::Public");
                for (command, _) in commands {
                    let command = command.to_lowercase().replace(' ', "|");
                    assert!(getid_redis::command::rows().any(|row| row.full_name == command), "{name}: {command}");
                }
            }
        }
    }
}
