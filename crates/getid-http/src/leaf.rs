//! Leaf's paths, answered as its server answers them (`http-api leaf`): a Leaf client needs only another address.
//!
//! `/api/segment/get/{key}` is the sequence `key`. `/api/snowflake/get/{key}` is the generator `key`, or the only one
//! of kind `leaf` if none has that name. The unnamed generator's layout is not Leaf's, so its IDs are never returned
//! here. Any method works, `HEAD` too, and a failure is status 500 with Spring's body.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use getid_core::server::{NamedCounters, NamedGenerators, is_sequence_name};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::caller::Caller;
use super::compat::CompatCaller;
use super::problem::Problem;
use super::reply::ReplyFrame;
use super::spring::{self, Parameters, log_invalid_name};
use super::state::Http;
use getid_redis::resp::ErrorKind;
use getid_text::percent;

/// Leaf's failures, by the number that it writes in place of an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeafFailure {
    /// Not ready: there is no store or no generator of its layout, or the server stops or is a standby.
    NotReady = -1,
    /// There is no such key.
    NoSuchKey = -2,
    /// There is no value now: the store is unreachable, or no values are left.
    NothingLeft = -3,
}

impl LeafFailure {
    /// Returns the failure of a request for a value of a sequence.
    pub(super) fn of_segment(problem: &Problem) -> LeafFailure {
        match problem.kind {
            Some(ErrorKind::NoSuchSequence) => LeafFailure::NoSuchKey,
            Some(ErrorKind::SequencesOff) => LeafFailure::NotReady,
            _ if is_unavailable(problem) => LeafFailure::NotReady,
            _ => LeafFailure::NothingLeft,
        }
    }
}

/// Bits of Leaf's layout: the counter, and the worker above it; the time is above both.
const COUNTER_BITS: u32 = 12;
const WORKER_BITS: u32 = 10;

/// The Unix time from which its time field counts, ms.
const EPOCH_UNIX_MS: i64 = 1_288_834_974_657;

const SEGMENT: &str = "/api/segment/get/";
const SNOWFLAKE: &str = "/api/snowflake/get/";
const DECODE: &str = "/decodeSnowflakeId";

/// What a path requests.
enum LeafRequest {
    Segment(String),
    Snowflake(String),
    Decode,
}

impl LeafRequest {
    fn of_path(path: &str) -> Option<LeafRequest> {
        if path.strip_suffix('/').unwrap_or(path) == DECODE {
            return Some(LeafRequest::Decode);
        }
        let segment = key_of(path, SEGMENT).map(LeafRequest::Segment);
        segment.or_else(|| key_of(path, SNOWFLAKE).map(LeafRequest::Snowflake))
    }
}

/// Returns the key after a prefix: one part of a path, not empty, optionally followed by a `/`.
fn key_of(path: &str, prefix: &str) -> Option<String> {
    let key = path.strip_prefix(prefix)?;
    let key = key.strip_suffix('/').unwrap_or(key);
    let is_one = !key.is_empty() && !key.contains('/');
    let key = percent::decode(key.as_bytes()).filter(|_| is_one)?;
    Some(String::from_utf8_lossy(&key).into_owned())
}

/// Answers every path of Leaf, and other paths with their prefixes.
pub(super) async fn answer(
    State(http): State<Arc<Http>>,
    Extension(caller): Extension<Arc<Caller>>,
    request: Request,
) -> Response {
    let (path, headers) = (request.uri().path(), request.headers());
    let Some(requested) = LeafRequest::of_path(path) else { return spring::not_found(path) };
    if let Some(response) = spring::of_method(request.method(), path) {
        return response;
    }
    let config = http.server.config.get();
    let user = config.http.apis.leaf.as_ref().and_then(|api| api.user.as_deref());
    let caller = CompatCaller { connection: &caller, user, headers };
    let result = match &requested {
        LeafRequest::Segment(key) => segment(&caller, key).await,
        LeafRequest::Snowflake(key) => snowflake(&caller, key).await,
        LeafRequest::Decode => return decode(&caller, request.uri().query(), path).await,
    };
    match result {
        Ok(id) => spring::text(headers, id),
        Err((failure, problem)) => spring::refused(&problem, path).unwrap_or_else(|| failed(failure, path)),
    }
}

async fn segment(caller: &CompatCaller<'_>, key: &str) -> Result<String, (LeafFailure, Problem)> {
    let result = caller.run(&[b"INCR", key.as_bytes()]).await.and_then(id_of);
    result.map_err(|problem| {
        log_invalid_name(&caller.connection.server, "Leaf's key", key);
        let failure = if is_sequence_name(key) { LeafFailure::of_segment(&problem) } else { LeafFailure::NoSuchKey };
        (failure, problem)
    })
}

async fn snowflake(caller: &CompatCaller<'_>, key: &str) -> Result<String, (LeafFailure, Problem)> {
    let settings = caller.connection.server.settings.get();
    let requested = snowflake_generator(key, &settings.generators, &settings.counters);
    // A sealed text would be wasted, as every ID as text.
    let is_number = |name: &String| settings.sealers.answering(name).is_none();
    let requested = requested.and_then(|name| Some(name).filter(is_number).ok_or(LeafFailure::NoSuchKey));
    // An unknown key still runs a command, so that a standby or a missing login is refused first. The field `@`,
    // which no generator has, prevents a draw.
    let result = match &requested {
        Ok(name) => caller.run(&[b"GETID", name.as_bytes()]).await,
        Err(_) => caller.run(&[b"GETID", key.as_bytes(), b"@"]).await,
    };
    let result = result.and_then(id_of);
    result.map_err(|problem| {
        let failure = if is_unavailable(&problem) {
            LeafFailure::NotReady
        } else {
            requested.err().unwrap_or(LeafFailure::NothingLeft)
        };
        (failure, problem)
    })
}

/// Returns the generator for a key of Leaf's snowflake mode: the one of its name, else the only one of kind `leaf`,
/// since Leaf ignores the key.
fn snowflake_generator(
    key: &str,
    generators: &NamedGenerators,
    counters: &NamedCounters,
) -> Result<String, LeafFailure> {
    match spring::gives_numbers(key, generators, counters) {
        Some(true) => return Ok(key.to_owned()),
        // Leaf's clients parse numbers, so an ID as text would be wasted.
        Some(false) => return Err(LeafFailure::NoSuchKey),
        None => {}
    }
    let declarations = generators.iter().map(|(_, generator)| generator.declaration());
    let mut of_leaf = declarations.filter(|declared| declared.kind().word == "leaf" && declared.is_integer());
    match (of_leaf.next(), of_leaf.next()) {
        (Some(only), None) => Ok(only.name().to_owned()),
        (Some(_), Some(_)) => Err(LeafFailure::NoSuchKey),
        (None, _) => Err(LeafFailure::NotReady),
    }
}

/// Whether the problem is the server's state, and not a refused command: it stops, waits for its claim, or refuses all
/// clients.
fn is_unavailable(problem: &Problem) -> bool {
    match problem.kind {
        Some(kind) => kind == ErrorKind::Standby,
        None => problem.status == StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn id_of(reply: ReplyFrame) -> Result<String, Problem> {
    match reply {
        ReplyFrame::Number { data, .. } => Ok(data.to_string()),
        ReplyFrame::BlobString { data, .. } | ReplyFrame::SimpleString { data, .. } => {
            Ok(String::from_utf8_lossy(&data).into_owned())
        }
        // A command that returns an ID returns nothing else.
        _ => Err(Problem::stopping()),
    }
}

fn failed(failure: LeafFailure, path: &str) -> Response {
    let message = format!("Result{{id={}, status=EXCEPTION}}", failure as i8);
    let exception = Some("com.sankuai.inf.leaf.server.exception.LeafServerException");
    spring::error(StatusCode::INTERNAL_SERVER_ERROR, exception, &message, path)
}

/// The reply of Leaf's decoder, with its fields in their order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LeafDecodedId {
    timestamp: String,
    sequence_id: String,
    worker_id: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LeafDecodeError {
    error_msg: &'static str,
}

/// Decodes an ID by Leaf's layout, whatever generators exist, with the time in this machine's zone.
///
/// The reply contains nothing of this server, but it requires the right to run `DECODEID`.
async fn decode(caller: &CompatCaller<'_>, query: Option<&str>, path: &str) -> Response {
    if let Err(problem) = caller.run(&[b"DECODEID", b"0"]).await
        && let Some(response) = spring::refused(&problem, path)
    {
        return response;
    }
    let parameters = Parameters::of_query(query);
    let Some(text) = parameters.joined("snowflakeId") else {
        return spring::error(
            StatusCode::BAD_REQUEST,
            Some("org.springframework.web.bind.MissingServletRequestParameterException"),
            "Required String parameter 'snowflakeId' is not present",
            path,
        );
    };
    match text.parse() {
        Ok(id) => spring::json(&decoded(id, &TimeZone::system())),
        Err(_) => spring::json(&LeafDecodeError { error_msg: "snowflake Id反解析发生异常!" }),
    }
}

fn decoded(id: i64, zone: &TimeZone) -> LeafDecodedId {
    let unix_ms = (id >> (WORKER_BITS + COUNTER_BITS)) + EPOCH_UNIX_MS;
    // The result is between 1941 and 2080.
    let time = Timestamp::from_millisecond(unix_ms).unwrap_or_default().to_zoned(zone.clone());
    LeafDecodedId {
        timestamp: format!("{unix_ms}({})", time.strftime("%Y-%m-%d %H:%M:%S%.3f")),
        sequence_id: (id & ((1 << COUNTER_BITS) - 1)).to_string(),
        worker_id: ((id >> COUNTER_BITS) & ((1 << WORKER_BITS) - 1)).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_decoded_as_leaf_does() {
        let china = TimeZone::get("Asia/Shanghai").unwrap();
        let id = (1_567_733_700_834 - EPOCH_UNIX_MS) << 22 | 39 << 12 | 0xd78;
        let text = |id, zone: &TimeZone| serde_json::to_string(&decoded(id, zone)).unwrap();
        assert_eq!(
            text(id, &china),
            r#"{"timestamp":"1567733700834(2019-09-06 09:35:00.834)","sequenceId":"3448","workerId":"39"}"#
        );
        assert_eq!(
            text(0, &TimeZone::UTC),
            r#"{"timestamp":"1288834974657(2010-11-04 01:42:54.657)","sequenceId":"0","workerId":"0"}"#
        );
        // As Java shifts negative numbers.
        assert_eq!(
            text(-1, &TimeZone::UTC),
            r#"{"timestamp":"1288834974656(2010-11-04 01:42:54.656)","sequenceId":"4095","workerId":"1023"}"#
        );
        assert_eq!(
            text(i64::MIN, &TimeZone::UTC),
            r#"{"timestamp":"-910188280895(1941-02-27 09:55:19.105)","sequenceId":"0","workerId":"0"}"#
        );
    }

    #[test]
    fn a_snowflake_key_means_one_generator() {
        use getid_core::server::CounterDeclaration;
        use getid_core::{Declaration, NamedGenerator, no_dates};
        for (declared, key, expected) in [
            (&["leaf leaf"][..], "test", Ok("leaf")),
            (&["leaf leaf"], "leaf", Ok("leaf")),
            (&["a leaf", "b twitter"], "test", Ok("a")),
            (&["a leaf", "b twitter"], "b", Ok("b")),
            (&["a leaf", "b leaf format hex"], "test", Ok("a")),
            (&["a leaf", "b leaf"], "test", Err(LeafFailure::NoSuchKey)),
            (&["a leaf", "b leaf"], "b", Ok("b")),
            (&["a twitter", "b leaf format hex"], "test", Err(LeafFailure::NotReady)),
            (&[], "test", Err(LeafFailure::NotReady)),
            (&[], "counter", Ok("counter")),
        ] {
            let generators = declared.iter().enumerate().map(|(at, text)| {
                let words: Vec<_> = text.split(' ').collect();
                let declaration = Declaration::parse(&words, no_dates).unwrap();
                (at, Arc::new(NamedGenerator::new(declaration, 0, None).unwrap()))
            });
            let generators = NamedGenerators::new(generators);
            let counter = CounterDeclaration::parse(&["counter", "sequence"], |_| Ok(())).unwrap().unwrap();
            let counters = NamedCounters::new([Arc::new(counter)]);
            let found = snowflake_generator(key, &generators, &counters);
            assert_eq!(found.as_deref().map_err(|&failure| failure), expected, "{declared:?} {key}");
        }
    }

    #[test]
    fn a_key_is_one_piece_of_a_path() {
        for (path, key) in [
            ("/api/segment/get/orders", Some("orders")),
            ("/api/segment/get/orders/", Some("orders")),
            ("/api/segment/get/a%20b", Some("a b")),
            ("/api/segment/get/a%2Fb", Some("a/b")),
            ("/api/segment/get/", None),
            ("/api/segment/get//", None),
            ("/api/segment/get/a/b", None),
            ("/api/segment/get/%", None),
            ("/api/segment/got/a", None),
        ] {
            assert_eq!(key_of(path, SEGMENT).as_deref(), key, "{path}");
        }
    }
}
