//! Tinyid's paths, answered as its server answers them (`http-api tinyid`): a Tinyid client needs only another address.
//!
//! A bizType is a sequence. A segment has as many of its values as its `cache` is (in Tinyid's own table, its step).
//! The table `tiny_id_token` has the tokens that may request it. A failure has status 200 and Tinyid's text.

use std::borrow::Cow;
use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use serde::Serialize;

use super::caller::Caller;
use super::compat::CompatCaller;
use super::problem::Problem;
use super::reply::{ReplyFrame, text_of};
use super::spring::{self, Parameters, log_invalid_name};
use super::state::Http;
use getid_engine::generators::sequence::TokenVerdict;
use getid_redis::resp::ErrorKind;
use getid_text::printable::printable_up_to;

/// The prefix of all paths.
const PREFIX: &str = "/tinyid/id/";

/// The most IDs of one response: Tinyid's `batch.size.max`.
const BATCH_MAX: u32 = 100_000;

/// Values of a segment of a sequence without a `cache` (`cache 0`, or one that this request creates).
const SEGMENT_VALUES: u32 = 100;

/// The part of a segment after which its client requests the next one, percent.
const LOADING_PERCENT: i64 = 20;

/// The longest message of this server, characters.
const MESSAGE_CHARS_MAX: usize = 500;

/// Bytes of a long response that are written at a time.
const PIECE_BYTES: usize = 8 * 1024;

/// What a path requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TinyidRequest {
    Ids,
    Segment,
}

/// The form of a response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResponseForm {
    /// A JSON object with data, code and message.
    Full,
    /// The data with commas between values; an empty body after a failure.
    Simple,
}

fn request_of_path(path: &str) -> Option<(TinyidRequest, ResponseForm)> {
    let name = path.strip_prefix(PREFIX)?;
    match name.strip_suffix('/').unwrap_or(name) {
        "nextId" => Some((TinyidRequest::Ids, ResponseForm::Full)),
        "nextIdSimple" => Some((TinyidRequest::Ids, ResponseForm::Simple)),
        "nextSegmentId" => Some((TinyidRequest::Segment, ResponseForm::Full)),
        "nextSegmentIdSimple" => Some((TinyidRequest::Segment, ResponseForm::Simple)),
        _ => None,
    }
}

/// Answers every path of Tinyid, and other paths with its prefix.
pub(super) async fn answer(
    State(http): State<Arc<Http>>,
    Extension(caller): Extension<Arc<Caller>>,
    request: Request,
) -> Response {
    let (uri, headers) = (request.uri().clone(), request.headers().clone());
    let Some((requested, form)) = request_of_path(uri.path()) else { return spring::not_found(uri.path()) };
    if let Some(response) = spring::of_method(request.method(), uri.path()) {
        return response;
    }
    let parameters = Parameters::of(request).await;
    let config = http.server.config.get();
    let user = config.http.apis.tinyid.as_ref().and_then(|api| api.user.as_deref());
    let handler = TinyidHandler { caller: CompatCaller { connection: &caller, user, headers: &headers }, form };
    match requested {
        TinyidRequest::Ids => match batch(&parameters, config.sequences.incrby_max) {
            Ok(count) => handler.ids(&parameters, count).await,
            Err(invalid) => invalid.response(uri.path()),
        },
        TinyidRequest::Segment => handler.segment(&parameters).await,
    }
}

/// Parses `batchSize`, clamped to 0 and the bounds of one response.
///
/// # Errors
///
/// Fails with [`NotANumber`] if the parameter is no number.
fn batch(parameters: &Parameters, incrby_max: u32) -> Result<u32, NotANumber> {
    let text = parameters.first("batchSize").unwrap_or_default();
    if text.is_empty() {
        return Ok(1);
    }
    let number = spring::integer(text).and_then(|number| i32::try_from(number).ok());
    let number = number.ok_or_else(|| NotANumber(spring::without_blanks(text)))?;
    Ok(u32::try_from(number.max(0)).unwrap_or(0).min(BATCH_MAX).min(incrby_max))
}

/// The text of a parameter that is not a number.
#[derive(Debug, PartialEq, Eq)]
struct NotANumber(String);

impl NotANumber {
    fn response(&self, path: &str) -> Response {
        spring::error(
            StatusCode::BAD_REQUEST,
            Some("org.springframework.web.method.annotation.MethodArgumentTypeMismatchException"),
            &format!(
                "Failed to convert value of type 'java.lang.String' to required type 'java.lang.Integer'; nested \
                 exception is java.lang.NumberFormatException: For input string: \"{}\"",
                self.0
            ),
            path,
        )
    }
}

/// Tinyid's response, with its fields in their order.
#[derive(Serialize)]
struct TinyidResponse<'a, T> {
    data: Option<T>,
    code: u16,
    message: &'a str,
}

/// A segment owned by one client, with its fields in their order. Its values `v` are above `current_id`, up to
/// `max_id`, with `v % delta == remainder`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct TinyidSegment {
    max_id: i64,
    loading_id: i64,
    current_id: i64,
    delta: i64,
    remainder: i64,
}

impl TinyidSegment {
    fn of(run: ValueRun) -> TinyidSegment {
        let ValueRun { first, last, increment: delta } = run;
        // One step below the first value, but not negative.
        let current_id = (first - delta).max(0);
        let loading_id = current_id.saturating_add((last - current_id) / 100 * LOADING_PERCENT)
            + (last - current_id) % 100 * LOADING_PERCENT / 100;
        TinyidSegment { max_id: last, loading_id, current_id, delta, remainder: first % delta }
    }
}

/// Consecutive values of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ValueRun {
    first: i64,
    last: i64,
    increment: i64,
}

/// The caller of a request, with the form of the response.
struct TinyidHandler<'a> {
    caller: CompatCaller<'a>,
    form: ResponseForm,
}

/// Why a request failed.
enum TinyidFailure {
    /// The token is not valid for this bizType.
    InvalidToken,
    /// The message of an exception, as Tinyid words it.
    Message(String),
}

impl TinyidHandler<'_> {
    async fn ids(&self, parameters: &Parameters, count: u32) -> Response {
        let drawn = async {
            let biz_type = self.biz_type(parameters).await?;
            self.draw(&biz_type, count).await
        };
        let run = match drawn.await {
            Ok(run) => run,
            // Tinyid wraps the message of a failed segment for IDs.
            Err(TinyidFailure::Message(message)) => {
                return self.failed(&TinyidFailure::Message(format!("error query segmentId: {message}")));
            }
            Err(failure) => return self.failed(&failure),
        };
        let mut response = match self.form {
            ResponseForm::Full => spring::json(&()),
            ResponseForm::Simple => spring::text(self.caller.headers, String::new()),
        };
        *response.body_mut() = ValueWriter::body(run, self.form);
        response
    }

    async fn segment(&self, parameters: &Parameters) -> Response {
        let drawn = async {
            let biz_type = self.biz_type(parameters).await?;
            let values = self.segment_values(&biz_type).await?;
            self.next(&biz_type, values).await
        };
        match drawn.await.map(TinyidSegment::of) {
            Ok(segment) if self.form == ResponseForm::Full => {
                spring::json(&TinyidResponse { data: Some(segment), code: 200, message: "" })
            }
            Ok(TinyidSegment { max_id, loading_id, current_id, delta, remainder }) => {
                spring::text(self.caller.headers, format!("{current_id},{loading_id},{max_id},{delta},{remainder}"))
            }
            Err(failure) => self.failed(&failure),
        }
    }

    fn failed(&self, failure: &TinyidFailure) -> Response {
        let (code, message) = match failure {
            TinyidFailure::InvalidToken => (5, "token is error"),
            TinyidFailure::Message(message) => (6, message.as_str()),
        };
        match self.form {
            ResponseForm::Full => spring::json(&TinyidResponse::<()> { data: None, code, message }),
            ResponseForm::Simple => spring::text(self.caller.headers, String::new()),
        }
    }

    /// Returns the bizType if the token is valid for it.
    async fn biz_type<'p>(&self, parameters: &'p Parameters) -> Result<Cow<'p, str>, TinyidFailure> {
        let biz_type = parameters.joined("bizType").unwrap_or_default();
        let token = parameters.joined("token").unwrap_or_default();
        let Some(sequences) = self.caller.connection.server.generators.sequences() else {
            return Err(TinyidFailure::InvalidToken);
        };
        match sequences.may_visit(&token, &biz_type).await {
            TokenVerdict::Allowed => Ok(biz_type),
            TokenVerdict::Denied => Err(TinyidFailure::InvalidToken),
            TokenVerdict::Unknown => {
                Err(TinyidFailure::Message("the tokens are not read yet: no store has answered; retry".to_owned()))
            }
        }
    }

    async fn run(&self, biz_type: &str, args: &[&[u8]]) -> Result<ReplyFrame, TinyidFailure> {
        let reply = self.caller.run(args).await;
        reply.map_err(|problem| {
            log_invalid_name(&self.caller.connection.server, "Tinyid's bizType", biz_type);
            TinyidFailure::Message(message_of(&problem, biz_type))
        })
    }

    /// Draws `count` values; with 0 it only checks whether the sequence exists.
    async fn draw(&self, biz_type: &str, count: u32) -> Result<Option<ValueRun>, TinyidFailure> {
        let name = biz_type.as_bytes();
        match count {
            0 => self.run(biz_type, &[b"SEQUENCE", b"INFO", name]).await.map(|_| None),
            1 => {
                let reply = self.run(biz_type, &[b"INCR", name]).await?;
                let value = text_of(&reply).and_then(|text| text.parse().ok()).ok_or_else(unexpected)?;
                Ok(Some(ValueRun { first: value, last: value, increment: 1 }))
            }
            count => self.next(biz_type, count).await.map(Some),
        }
    }

    async fn next(&self, biz_type: &str, count: u32) -> Result<ValueRun, TinyidFailure> {
        let count = count.to_string();
        let reply =
            self.run(biz_type, &[b"SEQUENCE", b"NEXT", biz_type.as_bytes(), b"COUNT", count.as_bytes()]).await?;
        let numbers = match &reply {
            ReplyFrame::Array { data, .. } => data.iter().map_while(|number| text_of(number)?.parse().ok()).collect(),
            _ => Vec::new(),
        };
        match numbers[..] {
            [first, last, increment] if increment > 0 => Ok(ValueRun { first, last, increment }),
            _ => Err(unexpected()),
        }
    }

    /// Returns the number of values of a segment.
    async fn segment_values(&self, biz_type: &str) -> Result<u32, TinyidFailure> {
        let reply = self.caller.run(&[b"SEQUENCE", b"INFO", biz_type.as_bytes()]).await;
        let cache = match reply {
            Ok(ReplyFrame::Map { data, .. }) => {
                let cache = data.iter().find(|(name, _)| text_of(name).as_deref() == Some("cache"));
                cache.and_then(|(_, value)| text_of(value)?.parse().ok()).unwrap_or(0)
            }
            // The first request for the sequence may create it.
            Ok(_) | Err(Problem { kind: Some(ErrorKind::NoSuchSequence), .. }) => 0,
            Err(problem) => return Err(TinyidFailure::Message(message_of(&problem, biz_type))),
        };
        let most = self.caller.connection.server.config.get().sequences.incrby_max;
        Ok(if cache == 0 { SEGMENT_VALUES } else { cache }.min(most))
    }
}

/// Returns Tinyid's text for a problem if it has one.
pub(super) fn message_of(problem: &Problem, biz_type: &str) -> String {
    match problem.kind {
        Some(ErrorKind::NoSuchSequence) => format!("can not find biztype:{biz_type}"),
        Some(ErrorKind::Contended) => "get next segmentId conflict".to_owned(),
        _ => printable_up_to(&problem.detail, MESSAGE_CHARS_MAX),
    }
}

fn unexpected() -> TinyidFailure {
    TinyidFailure::Message("the values have an unknown form; this is a bug of getid, report it".to_owned())
}

/// Writes values a piece at a time: a hundred thousand of them take two megabytes.
struct ValueWriter {
    /// The values that are left.
    run: Option<ValueRun>,
    /// Text before the next value: the beginning, or a comma.
    before: &'static str,
    /// Text after the last value.
    behind: &'static str,
    is_over: bool,
}

impl ValueWriter {
    fn body(run: Option<ValueRun>, form: ResponseForm) -> Body {
        let (before, behind) = match form {
            ResponseForm::Full => ("{\"data\":[", "],\"code\":200,\"message\":\"\"}"),
            ResponseForm::Simple => ("", ""),
        };
        let mut values = ValueWriter { run, before, behind, is_over: false };
        let bytes_left = values.bytes();
        let first = values.piece();
        if values.is_over { Body::from(first) } else { Body::new(ValueBody { first: Some(first), values, bytes_left }) }
    }

    /// Returns the number of bytes of the body.
    fn bytes(&self) -> u64 {
        let around = self.before.len() + self.behind.len();
        let Some(ValueRun { first, last, increment }) = self.run else { return around as u64 };
        let (mut value, mut digits) = (first, 0);
        while value <= last {
            digits += 1 + u64::from(value.checked_ilog10().unwrap_or(0));
            value += increment;
        }
        let commas = (last - first) / increment;
        around as u64 + digits + commas.unsigned_abs()
    }

    fn piece(&mut self) -> Vec<u8> {
        let mut piece = Vec::new();
        while let Some(ValueRun { first, last, increment }) = self.run
            && piece.len() < PIECE_BYTES
        {
            // Writing to a Vec cannot fail.
            let _ = write!(piece, "{}{first}", self.before);
            self.before = ",";
            self.run = (last - first >= increment).then(|| ValueRun { first: first + increment, last, increment });
        }
        if self.run.is_none() {
            if self.before != "," {
                piece.extend_from_slice(self.before.as_bytes());
            }
            piece.extend_from_slice(self.behind.as_bytes());
            self.is_over = true;
        }
        piece
    }
}

/// The body of a response that is longer than a piece.
struct ValueBody {
    first: Option<Vec<u8>>,
    values: ValueWriter,
    bytes_left: u64,
}

impl axum::body::HttpBody for ValueBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match self.first.take() {
            Some(first) => first,
            None if self.values.is_over => return Poll::Ready(None),
            None => self.values.piece(),
        };
        self.bytes_left = self.bytes_left.saturating_sub(piece.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(piece)))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes_left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: i64, last: i64, increment: i64) -> ValueRun {
        ValueRun { first, last, increment }
    }

    #[test]
    fn a_segment_has_exactly_the_values_of_its_run() {
        for given in
            [run(2, 100_001, 1), run(3, 100_001, 2), run(1, 1, 1), run(1, 7, 3), run(999, 1998, 3), run(5, 5, 7)]
        {
            let TinyidSegment { max_id, current_id, delta, remainder, loading_id } = TinyidSegment::of(given);
            let values: Vec<i64> = (current_id + 1..=max_id).filter(|value| value % delta == remainder).collect();
            let own: Vec<i64> = (given.first..=given.last).step_by(usize::try_from(given.increment).unwrap()).collect();
            assert_eq!(values, own, "{given:?}");
            assert!(current_id >= 0 && (current_id..=max_id).contains(&loading_id), "{given:?}");
            assert_eq!(java_client_values(TinyidSegment::of(given)), own, "{given:?}");
        }
    }

    /// The values that Tinyid's Java client takes from a segment, to its end.
    fn java_client_values(segment: TinyidSegment) -> Vec<i64> {
        let TinyidSegment { max_id, current_id, delta, remainder, .. } = segment;
        let mut id = current_id;
        if id % delta != remainder {
            for _ in 0..=delta {
                id += 1;
                if id % delta == remainder {
                    id -= delta;
                    break;
                }
            }
        }
        let mut values = Vec::new();
        while id + delta <= max_id {
            id += delta;
            values.push(id);
        }
        values
    }

    #[test]
    fn the_first_segments_of_tinyids_own_rows_are_its_own() {
        assert_eq!(
            serde_json::to_string(&TinyidResponse {
                data: Some(TinyidSegment::of(run(2, 100_001, 1))),
                code: 200,
                message: ""
            })
            .unwrap(),
            r#"{"data":{"maxId":100001,"loadingId":20001,"currentId":1,"delta":1,"remainder":0},"code":200,"message":""}"#
        );
        let odd = TinyidSegment { max_id: 100_001, loading_id: 20_001, current_id: 1, delta: 2, remainder: 1 };
        assert_eq!(TinyidSegment::of(run(3, 100_001, 2)), odd);
        let last = TinyidSegment::of(run(1, getid_core::server::VALUE_MAX, 1));
        assert_eq!((last.loading_id, last.max_id), (1_800_000_000_000_000_000, getid_core::server::VALUE_MAX));
    }

    #[test]
    fn a_batch_is_read_as_spring_does() {
        let of = |text: &str| batch(&Parameters::of_query(Some(&format!("batchSize={text}"))), 10_000_000);
        for (text, count) in [
            ("", 1),
            ("1", 1),
            ("%2B5", 5),
            ("+5", 5),
            ("1%200", 10),
            ("0x10", 16),
            ("-0x10", 0),
            ("%2310", 16),
            ("0", 0),
            ("-1", 0),
            ("-2147483648", 0),
            ("100000", 100_000),
            ("2147483647", 100_000),
        ] {
            assert_eq!(of(text), Ok(count), "{text}");
        }
        for (text, invalid) in [("a", "a"), ("1e9", "1e9"), ("2147483648", "2147483648"), ("1.5", "1.5"), ("%20", "")] {
            assert_eq!(of(text), Err(NotANumber(invalid.to_owned())), "{text}");
        }
        assert_eq!(batch(&Parameters::of_query(None), 10), Ok(1));
        assert_eq!(batch(&Parameters::of_query(Some("batchSize=100")), 10), Ok(10));
    }

    #[test]
    fn values_are_written_whole_however_many_pieces_they_take() {
        for (run, form, text) in [
            (None, ResponseForm::Full, r#"{"data":[],"code":200,"message":""}"#.to_owned()),
            (None, ResponseForm::Simple, String::new()),
            (Some(run(7, 7, 1)), ResponseForm::Full, r#"{"data":[7],"code":200,"message":""}"#.to_owned()),
            (Some(run(7, 11, 2)), ResponseForm::Simple, "7,9,11".to_owned()),
            (
                Some(run(1, 100_000, 1)),
                ResponseForm::Simple,
                (1..=100_000).map(|n: i64| n.to_string()).collect::<Vec<_>>().join(","),
            ),
        ] {
            let (before, behind) = match form {
                ResponseForm::Full => ("{\"data\":[", "],\"code\":200,\"message\":\"\"}"),
                ResponseForm::Simple => ("", ""),
            };
            let mut values = ValueWriter { run, before, behind, is_over: false };
            let (bytes, mut whole) = (values.bytes(), Vec::new());
            while !values.is_over {
                let piece = values.piece();
                assert!(piece.len() < PIECE_BYTES + 100, "{}", piece.len());
                whole.extend(piece);
            }
            assert_eq!(bytes, whole.len() as u64);
            assert_eq!(String::from_utf8(whole).unwrap(), text);
        }
    }
}
