//! `/livez` and `/readyz`: one line each, for programs that start, stop and balance servers.
//!
//! They are answered from the server's own state, without a command: a probe each second is not in MONITOR, and needs
//! no login if `http-open` names probes. The reason why a server is not ready may name paths and databases, so only
//! callers that are logged in see it.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::on;
use getid_core::Refusal;

use super::api_request::ApiRequest;
use super::endpoint::{Endpoint, EndpointAccess, EndpointResponse, Method, Parameter, optional};
use super::openapi::TAG_SERVER;
use super::problem::Problem;
use super::schema::{Schema, UNNAMED};
use super::state::Http;
use getid_engine::generators::sequence::StoreStatus;
use getid_text::printable::printable;

pub(super) const ENDPOINTS: &[Endpoint] = &[LIVEZ, READYZ];

/// The media type of lines of text.
const TEXT: &str = "text/plain; charset=utf-8";

const LIVEZ: Endpoint = Endpoint {
    method: Method::Get,
    path: "/livez",
    tag: TAG_SERVER,
    id: "isLive",
    summary: "Check whether the process works",
    description: "The request needs a login only if http-open does not name probes.",
    access: EndpointAccess::Public,
    parameters: &[],
    body: None,
    responses: &[EndpointResponse { status: 200, media: TEXT, schema: None, description: "The process works." }],
    problems: &[400],
    route: |filter| on(filter, livez),
};

const READYZ: Endpoint = Endpoint {
    method: Method::Get,
    path: "/readyz",
    tag: TAG_SERVER,
    id: "isReady",
    summary: "Check whether the server gives IDs",
    description: "The probe checks the unnamed generator, or the generators that http-ready names. It does not check \
                  sequences and their stores. The request needs a login with verbose, or if http-open does not name \
                  probes. Clients that are logged in get the reason of a refusal.",
    access: EndpointAccess::Commands(&[("INFO", "with verbose")]),
    parameters: READYZ_PARAMETERS,
    body: None,
    responses: &[
        EndpointResponse { status: 200, media: TEXT, schema: None, description: "The server gives IDs." },
        EndpointResponse {
            status: 503,
            media: TEXT,
            schema: None,
            description: "The server gives no IDs; the text has the reason.",
        },
    ],
    problems: &[400],
    route: |filter| on(filter, readyz),
};

const READYZ_PARAMETERS: &[Parameter] = &[
    optional("verbose", &Schema::Flag, "Return a line for each generator and each store, with its state."),
    optional("standby", &Schema::Word(&["ok"]), "Count a standby that takes over automatically as ready."),
];

/// Answers that the process works.
async fn livez(State(http): State<Arc<Http>>, request: ApiRequest) -> Result<&'static str, Problem> {
    request.query()?;
    if !http.server.is_stopping() {
        check_login(&http, &request).await?;
    }
    Ok("ok\n")
}

/// Answers whether IDs are given.
async fn readyz(State(http): State<Arc<Http>>, request: ApiRequest) -> Result<Response, Problem> {
    let query = request.query()?;
    // A stopping server accepts no commands, and must not request a login in vain.
    if http.server.is_stopping() {
        return Ok(answer(StatusCode::SERVICE_UNAVAILABLE, "not ready: the server stops\n".to_owned()));
    }
    let is_known = check_login(&http, &request).await?;
    let readiness = Readiness::now(&http);
    let body = if query.text("verbose").is_some() {
        request.check_admission()?;
        request.run(&[b"INFO", b"cluster"]).await?;
        readiness.verbose(&http)
    } else {
        readiness.line(is_known, query.text("standby").is_some())
    };
    let is_ready = match &readiness.standby {
        None => readiness.refusing.is_empty(),
        Some(_) => readiness.takes_over && query.text("standby").is_some(),
    };
    Ok(answer(if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, body))
}

/// Returns whether the caller is logged in. Fails if probes require a login.
///
/// # Errors
///
/// 401 for a login that is wrong, or missing where it is required.
async fn check_login(http: &Http, request: &ApiRequest) -> Result<bool, Problem> {
    // A caller that the guard would refuse is answered like one that is not logged in.
    let is_known = request.check_admission().is_ok() && request.is_logged_in().await?;
    if !is_known && !http.server.config.get().http.open.probes {
        request.check_admission()?;
        return Err(Problem::unauthorized("http-open does not name probes, so the request needs a login".to_owned()));
    }
    Ok(is_known)
}

fn answer(status: StatusCode, body: String) -> Response {
    (status, [(CONTENT_TYPE, TEXT)], body).into_response()
}

/// State on which the answer of `/readyz` depends.
struct Readiness {
    /// Why this server waits for the claim of its server-id; `None` if it holds it.
    standby: Option<String>,
    /// Whether the standby takes over without an operator.
    takes_over: bool,
    /// Checked generators that refuse IDs, each with the reason.
    refusing: Vec<(String, String)>,
    /// Names in `http-ready`.
    names: Vec<String>,
}

impl Readiness {
    fn now(http: &Http) -> Readiness {
        let names = http.server.config.get().http.ready.clone();
        let refusing = if names.is_empty() {
            let refusal = http.server.issuer().refusing();
            refusal.and_then(|refusal| reason(&refusal)).map(|why| (UNNAMED.to_owned(), why)).into_iter().collect()
        } else {
            let found = http.server.generators_named(&names);
            let refusing = found.into_iter().zip(&names).filter_map(|(status, name)| {
                let why = match status {
                    None => Some("the generator is not declared any more".to_owned()),
                    Some(status) => reason(status.refusing.as_ref()?),
                };
                Some((name.clone(), why?))
            });
            refusing.collect()
        };
        let standby = http.server.claim().filter(|claim| claim.is_standby());
        let standby = standby.map(|claim| claim.status());
        let takes_over = standby.as_ref().is_some_and(|status| status.is_waiting());
        let standby = standby.map(|status| printable(status.reason()).into_owned());
        Readiness { standby, takes_over, refusing, names }
    }

    /// Returns the line of the answer; `with_reasons`: with reasons, else with names only.
    /// `accepts_standby`: a standby is ready.
    fn line(&self, with_reasons: bool, accepts_standby: bool) -> String {
        if let Some(why) = &self.standby {
            let ready = if accepts_standby && self.takes_over { "ready" } else { "not ready" };
            let why = if with_reasons { why } else { "this server is a standby; log in for the reason" };
            return format!("{ready}: {why}\n");
        }
        let shown = |(name, why): &(String, String)| match (with_reasons, name.as_str()) {
            (true, UNNAMED) => why.clone(),
            (true, name) => format!("{name}: {why}"),
            (false, name) => name.to_owned(),
        };
        let all: Vec<_> = self.refusing.iter().map(shown).collect();
        match (self.refusing.is_empty(), with_reasons, self.names.is_empty()) {
            (true, ..) => "ready\n".to_owned(),
            (_, true, _) => format!("not ready: {}\n", all.join("; ")),
            (_, _, true) => "not ready: no ids are given now; log in for the reason\n".to_owned(),
            _ => format!("not ready: no ids are given now by {}; log in for the reason\n", all.join(", ")),
        }
    }

    /// Returns a line for each generator and each store.
    fn verbose(&self, http: &Http) -> String {
        let mut text = String::new();
        let mut line = |is_good: bool, name: &str, state: &str, is_checked: bool| {
            let sign = if is_good { '+' } else { '-' };
            let note = if is_checked { "" } else { " (not checked)" };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "[{sign}]{name} {state}{note}");
        };
        if let Some(claim) = http.server.claim() {
            let status = claim.status();
            let (store, reason) = (printable(&status.store), printable(status.reason()).into_owned());
            let state = match (&self.standby, status.error.as_str()) {
                (None, "") => "held".to_owned(),
                (None, error) => format!("held, but the store does not answer: {}", printable(error)),
                (Some(_), "") => reason,
                (Some(_), error) => format!("{reason}; the store does not answer: {}", printable(error)),
            };
            line(self.standby.is_none(), &format!("claim in {store}"), &state, true);
        }
        let own = http.server.issuer().refusing().and_then(|refusal| reason(&refusal));
        line(own.is_none(), UNNAMED, own.as_deref().unwrap_or("gives ids"), self.names.is_empty());
        for status in http.server.named_generators() {
            let name = status.generator.declaration().name();
            let why = status.refusing.as_ref().and_then(reason);
            let is_checked = self.names.iter().any(|own| own == name);
            line(why.is_none(), name, why.as_deref().unwrap_or("gives ids"), is_checked);
        }
        for store in http.server.generators.sequences().map(|own| own.stores()).unwrap_or_default() {
            let (is_good, state) = of_store(&store);
            line(is_good, &format!("store {}", printable(&store.shown)), &state, false);
        }
        text + match (&self.standby, self.refusing.is_empty()) {
            (Some(_), _) => "standby\n",
            (None, true) => "ready\n",
            (None, false) => "not ready\n",
        }
    }
}

/// Returns whether a store of sequences can reserve values, as far as is known, and a description.
fn of_store(store: &StoreStatus) -> (bool, String) {
    let error = printable(store.reason.as_deref().unwrap_or_default());
    match store.is_up {
        Some(true) if store.is_held => (false, format!("is held: {error}")),
        Some(true) => (true, "answers".to_owned()),
        Some(false) => (false, format!("does not answer: {error}")),
        None => (true, "was not used yet".to_owned()),
    }
}

/// Returns why clients should leave a server, if they should. At the borrow limit it still gives IDs, only later; a
/// balancer that removed it would then remove one server after the other.
fn reason(refusal: &Refusal) -> Option<String> {
    (!refusal.is_overload()).then(|| printable(&refusal.to_string()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_store_is_distinguished_from_one_that_answers() {
        let store = StoreStatus::of_tests;
        let error = || Some("it waits for host-b:\n7".to_owned());
        for (store, expected) in [
            (store(), (true, "answers")),
            (StoreStatus { is_up: None, ..store() }, (true, "was not used yet")),
            (StoreStatus { is_held: true, reason: error(), ..store() }, (false, r"is held: it waits for host-b:\n7")),
            (
                StoreStatus { is_up: Some(false), reason: error(), ..store() },
                (false, r"does not answer: it waits for host-b:\n7"),
            ),
        ] {
            let (is_good, state) = of_store(&store);
            assert_eq!((is_good, state.as_str()), expected);
        }
    }
}
