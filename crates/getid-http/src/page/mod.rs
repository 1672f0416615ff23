//! The page for people (`GET /`) and its data: `GET /v1/status` once, `GET /v1/status/stream` continuously.
//!
//! The page is one file without data, for every client that may connect. Its script requests the data with the reader's
//! login, which requires the right to `INFO`. A generator, the log and the claims of a fleet require rights of their
//! own.
//!
//! - `document` has the rows of the table of endpoints.
//! - `history` has the last ten minutes and the last day, noted once a second, with viewers or without.
//! - `details` has data that changes more slowly, and the reader's rights: `GET /v1/status/details`.
//! - `sequences` has the first sequences of the store, and the reader's rights to each.
//! - `status` has the server's state at one moment, gathered at most once a second for all viewers.
//! - `notices` has its sentences: why no IDs are given, remedies, and what needs attention soon.
//! - `stream` sends each viewer the status once a second, as server-sent events.
//!
//! Invariant: outside text (names, addresses, a database's messages) is only in the JSON, never in the HTML, and the
//! script makes text nodes of it. The page's content security policy forbids scripts everything else.

mod details;
mod document;
mod history;
mod notices;
mod sequences;
mod status;
mod stream;

use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_FRAME_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, MissedTickBehavior};

use self::details::{GeneratorDetails, SharedDetails, check_generator_access, details_of};
pub(super) use self::document::ENDPOINTS;
use self::history::{DayHistory, GeneratorCharts, History, HistoryPoint, POINTS_OF_STEP, RecentRates};
use self::sequences::sequences;
use self::status::Status;
use self::stream::stream;
use super::Http;
use super::api_request::PathName;
use super::caller::Caller;
use super::coding::StaticText;
use super::problem::Problem;
use super::reply;
use getid_server::Server;
use getid_text::printable::printable_up_to;

/// The page's file.
const HTML: &str = include_str!("index.html");

/// The most viewers at a time.
const VIEWERS_MAX: usize = 32;

/// State that all viewers share.
pub(super) struct PageState {
    history: Mutex<History>,
    charts: Mutex<GeneratorCharts>,
    latest: Cached<Status>,
    /// Details that are equal for all readers.
    common: Cached<SharedDetails>,
    /// The latest event, for all viewers.
    event: watch::Sender<Arc<str>>,
    viewers: Arc<Semaphore>,
    /// Interval at which the history gets a point and viewers get an event.
    step: Duration,
}

/// A gathered value that requests share until it is too old.
struct Cached<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Cached<T> {
    fn default() -> Cached<T> {
        Cached(Mutex::default())
    }
}

impl<T> Cached<T> {
    fn keep(&self, value: Arc<T>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), value));
    }

    /// Returns the value; gathers another one if it is as old as `age_max`.
    fn get(&self, age_max: Duration, gather: impl FnOnce() -> T) -> Arc<T> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.as_ref() {
            Some((at, value)) if at.elapsed() < age_max => Arc::clone(value),
            _ => {
                let value = Arc::new(gather());
                *kept = Some((Instant::now(), Arc::clone(&value)));
                value
            }
        }
    }
}

/// The first event of a stream, and the response of `/v1/status`.
#[derive(Serialize)]
struct StatusWithHistory<'a> {
    #[serde(flatten)]
    status: &'a Status,
    history: RecentRates,
}

impl PageState {
    /// Creates it with the current counters. Must be called before the first client connects.
    pub(super) fn new(server: &Server, step: Duration) -> PageState {
        PageState {
            history: Mutex::new(History::since(HistoryPoint::of(server), step)),
            charts: Mutex::default(),
            latest: Cached::default(),
            common: Cached::default(),
            event: watch::Sender::new(Arc::from("")),
            viewers: Arc::new(Semaphore::new(VIEWERS_MAX)),
            step,
        }
    }

    /// Notes the counters each second and sends the status to the viewers, until the server stops.
    pub(super) async fn run(http: Arc<Http>) {
        let (page, server) = (&http.page, &http.server);
        let mut ticks = tokio::time::interval_at(Instant::now() + page.step, page.step);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut points = 0;
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    page.note(server);
                    if points % POINTS_OF_STEP == 0 {
                        let given = GeneratorCharts::given(server);
                        page.charts.lock().unwrap_or_else(PoisonError::into_inner).note(given);
                    }
                    points = (points + 1) % POINTS_OF_STEP;
                }
                () = server.stop_requested() => return,
            }
        }
    }

    fn note(&self, server: &Server) {
        let point = self.history.lock().unwrap_or_else(PoisonError::into_inner).note(&HistoryPoint::of(server));
        if self.event.receiver_count() > 0 {
            let status = Arc::new(Status::of(server, point));
            self.event.send_replace(stream::event(&serde_json::to_string(&*status).unwrap_or_default()));
            self.latest.keep(status);
        }
    }

    /// Returns the minutes of the last day.
    fn day(&self) -> DayHistory {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).day()
    }

    /// Returns the steps of a generator's chart.
    fn chart(&self, name: &str) -> Vec<u32> {
        self.charts.lock().unwrap_or_else(PoisonError::into_inner).of(name)
    }

    /// Returns the details that are equal for all readers, gathered by `gather` at most once in a step.
    fn common(&self, gather: impl FnOnce() -> SharedDetails) -> Arc<SharedDetails> {
        self.common.get(self.step, gather)
    }

    /// Returns the current status with the last ten minutes, as JSON.
    fn whole(&self, server: &Server) -> String {
        let (history, point) = {
            let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
            (history.rates(), history.last())
        };
        let status = self.latest.get(self.step, || Status::of(server, point));
        serde_json::to_string(&StatusWithHistory { status: &status, history }).unwrap_or_default()
    }
}

/// Serves `GET /`.
async fn page(request: HeaderMap) -> Response {
    static TEXT: LazyLock<StaticText> = LazyLock::new(|| StaticText::new("text/html; charset=utf-8", HTML));
    static POLICY: LazyLock<HeaderValue> = LazyLock::new(policy);
    let headers = [
        (CONTENT_SECURITY_POLICY, POLICY.clone()),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    ];
    (headers, TEXT.response(&request)).into_response()
}

/// Returns the policy that allows the page's style and script by their hashes, requests to this server, and nothing
/// else.
fn policy() -> HeaderValue {
    let hash = |tag: &str| STANDARD.encode(digest(&SHA256, inside(HTML, tag).as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; img-src data:; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'",
        hash("style"),
        hash("script")
    );
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
}

/// Returns the content of the first element of this name.
fn inside<'a>(html: &'a str, tag: &str) -> &'a str {
    let (_, from) = html.split_once(&format!("<{tag}>")).unwrap_or_default();
    from.split_once(&format!("</{tag}>")).unwrap_or_default().0
}

/// Serves `GET /v1/status`.
async fn status(
    State(http): State<Arc<Http>>,
    Extension(caller): Extension<Arc<Caller>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    check_info_access(&caller, &headers).await?;
    Ok(reply::json_text(http.page.whole(&http.server).into_bytes()))
}

/// Serves `GET /v1/status/details`.
async fn details(
    State(http): State<Arc<Http>>,
    Extension(caller): Extension<Arc<Caller>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    check_info_access(&caller, &headers).await?;
    Ok(reply::json_text(details_of(&http.page, &http.server, &caller, &headers).await?))
}

/// Serves `GET /v1/status/generators/{name}`.
async fn generator(
    State(http): State<Arc<Http>>,
    Extension(caller): Extension<Arc<Caller>>,
    PathName(name): PathName,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    check_info_access(&caller, &headers).await?;
    check_generator_access(&caller, &headers, &name).await?;
    let Some(details) = GeneratorDetails::of(&http.page, &http.server, &name) else {
        let shown = printable_up_to(&name, 64);
        let detail = format!("no generator '{shown}' is declared; GET /v1/generators lists the declared ones");
        return Err(Problem::new(StatusCode::NOT_FOUND, detail));
    };
    Ok(reply::json_text(serde_json::to_vec(&details).unwrap_or_default()))
}

/// Fails without the right to `INFO`, by running its cheapest section.
async fn check_info_access(caller: &Caller, headers: &HeaderMap) -> Result<(), Problem> {
    // A foreign page cannot read the response, but it could take all places of viewers.
    let is_cross_site = headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none");
    if is_cross_site {
        let detail =
            "the request is from a page of another site: Sec-Fetch-Site must be same-origin or none".to_owned();
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    caller.run(headers, &[b"INFO", b"cluster"]).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_style_and_one_script_and_requests_only_this_server() {
        for tag in ["style", "script"] {
            assert_eq!(HTML.matches(&format!("<{tag}")).count(), 1, "{tag}");
            assert!(inside(HTML, tag).len() > 1000, "{tag}");
        }
        // Constructs that the policy forbids, or that would send a request elsewhere.
        for forbidden in
            [" style=\"", " onclick", "innerHTML", "insertAdjacent", "document.write", "eval(", "//cdn", "url(h"]
        {
            assert!(!HTML.contains(forbidden), "{forbidden}");
        }
        let addresses: Vec<_> = HTML.match_indices("://").map(|(at, _)| &HTML[at..(at + 40).min(HTML.len())]).collect();
        // Known addresses are a name of XML and the address of a Redis port, to copy.
        let is_known = |from: &&str| from.starts_with("://www.w3.org/2000/svg") || from.starts_with("://${user}");
        assert!(addresses.iter().all(is_known), "{addresses:?}");
    }

    #[test]
    fn the_policy_allows_by_hash_only() {
        let policy = policy();
        let policy = policy.to_str().expect("text");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(policy.matches("'sha256-").count(), 2, "{policy}");
        assert_eq!((inside("<a>x</a><a>y</a>", "a"), inside("<b>", "a")), ("x", ""));
    }
}
