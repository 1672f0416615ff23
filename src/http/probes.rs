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

use super::Http;
use super::ask::Ask;
use super::endpoint::{Access, Answer, Endpoint, Method, Parameter, optional};
use super::openapi::TAG_SERVER;
use super::problem::Problem;
use super::schema::Schema;
use crate::generators::sequence::StoreStatus;
use crate::text::printable::printable;

pub(super) const ENDPOINTS: &[Endpoint] = &[LIVEZ, READYZ];

/// The media type of lines of text.
const TEXT: &str = "text/plain; charset=utf-8";

const LIVEZ: Endpoint = Endpoint {
    method: Method::Get,
    path: "/livez",
    tag: TAG_SERVER,
    id: "isLive",
    summary: "Whether the process works",
    description: "It needs a login only if http-open does not name probes.",
    access: Access::Anybody,
    parameters: &[],
    body: None,
    answers: &[Answer { status: 200, media: TEXT, schema: None, description: "It answers." }],
    problems: &[400],
    route: |filter| on(filter, livez),
};

const READYZ: Endpoint = Endpoint {
    method: Method::Get,
    path: "/readyz",
    tag: TAG_SERVER,
    id: "isReady",
    summary: "Whether IDs are given",
    description: "It looks at the unnamed generator, or at those that http-ready names; sequences and their stores are not \
                  in it. It needs a login only if http-open does not name probes, or with verbose. Who is logged in is \
                  told why IDs are refused.",
    access: Access::Commands(&[("INFO", "with verbose")]),
    parameters: READYZ_PARAMETERS,
    body: None,
    answers: &[
        Answer { status: 200, media: TEXT, schema: None, description: "They are." },
        Answer { status: 503, media: TEXT, schema: None, description: "They are not, and why." },
    ],
    problems: &[400],
    route: |filter| on(filter, readyz),
};

const READYZ_PARAMETERS: &[Parameter] = &[
    optional("verbose", &Schema::Flag, "A line for each generator and each store, with what it says of itself."),
    optional("standby", &Schema::Word(&["ok"]), "A standby is ready too, if it takes over by itself."),
];

/// Answers that the process works.
async fn livez(State(http): State<Arc<Http>>, ask: Ask) -> Result<&'static str, Problem> {
    ask.query()?;
    if !http.server.is_stopping() {
        let_in(&http, &ask).await?;
    }
    Ok("ok\n")
}

/// Answers whether IDs are given.
async fn readyz(State(http): State<Arc<Http>>, ask: Ask) -> Result<Response, Problem> {
    let query = ask.query()?;
    // A stopping server accepts no commands, and must not ask for a login in vain.
    if http.server.is_stopping() {
        return Ok(answer(StatusCode::SERVICE_UNAVAILABLE, "not ready: the server stops\n".to_owned()));
    }
    let is_known = let_in(&http, &ask).await?;
    let checks = Checks::now(&http);
    let body = if query.text("verbose").is_some() {
        ask.check_admission()?;
        ask.run(&[b"INFO", b"cluster"]).await?;
        checks.verbose(&http)
    } else {
        checks.line(is_known, query.text("standby").is_some())
    };
    let is_ready = match &checks.standby {
        None => checks.refusing.is_empty(),
        Some(_) => checks.waits && query.text("standby").is_some(),
    };
    Ok(answer(if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, body))
}

/// Returns whether the caller is logged in. Fails if probes require a login.
///
/// # Errors
///
/// 401 for a login that is wrong, or missing where it is required.
async fn let_in(http: &Http, ask: &Ask) -> Result<bool, Problem> {
    // A caller that the guard would refuse is answered like one that is not logged in.
    let is_known = ask.check_admission().is_ok() && ask.is_logged_in().await?;
    if !is_known && !http.server.config.get().http.open.probes {
        ask.check_admission()?;
        return Err(Problem::unauthorized("http-open does not name probes, so this needs a login".to_owned()));
    }
    Ok(is_known)
}

fn answer(status: StatusCode, body: String) -> Response {
    (status, [(CONTENT_TYPE, TEXT)], body).into_response()
}

/// State on which the answer of `/readyz` depends.
struct Checks {
    /// Why this server waits for the claim of its server-id; `None` if it holds it.
    standby: Option<String>,
    /// Whether the standby takes over without an operator.
    waits: bool,
    /// Checked generators that refuse IDs, each with the reason.
    refusing: Vec<(String, String)>,
    /// Names in `http-ready`.
    names: Vec<String>,
}

impl Checks {
    fn now(http: &Http) -> Checks {
        let names = http.server.config.get().http.ready.clone();
        let refusing = if names.is_empty() {
            let refusal = http.server.issuer().refusing();
            refusal.and_then(|refusal| reason(&refusal)).map(|why| (UNNAMED.to_owned(), why)).into_iter().collect()
        } else {
            let found = http.server.generators_named(&names);
            let told = found.into_iter().zip(&names).filter_map(|(status, name)| {
                let why = match status {
                    None => Some("it is not declared any more".to_owned()),
                    Some(status) => reason(status.refusing.as_ref()?),
                };
                Some((name.clone(), why?))
            });
            told.collect()
        };
        let standby = http.server.claim().filter(|claim| claim.is_standby());
        let standby = standby.map(|claim| claim.status());
        let waits = standby.as_ref().is_some_and(|status| status.is_waiting());
        let standby = standby.map(|status| printable(status.reason()).into_owned());
        Checks { standby, waits, refusing, names }
    }

    /// Returns the line of the answer; `tells_why`: with reasons, else with names only. `takes_standby`: a standby is
    /// ready.
    fn line(&self, tells_why: bool, takes_standby: bool) -> String {
        if let Some(why) = &self.standby {
            let ready = if takes_standby && self.waits { "ready" } else { "not ready" };
            let why = if tells_why { why } else { "this server is a standby; who logs in is told more" };
            return format!("{ready}: {why}\n");
        }
        let told = |(name, why): &(String, String)| match (tells_why, name.as_str()) {
            (true, UNNAMED) => why.clone(),
            (true, name) => format!("{name}: {why}"),
            (false, name) => name.to_owned(),
        };
        let all: Vec<_> = self.refusing.iter().map(told).collect();
        match (self.refusing.is_empty(), tells_why, self.names.is_empty()) {
            (true, ..) => "ready\n".to_owned(),
            (_, true, _) => format!("not ready: {}\n", all.join("; ")),
            (_, _, true) => "not ready: no ids are given now; who logs in is told why\n".to_owned(),
            _ => format!("not ready: no ids are given now by {}; who logs in is told why\n", all.join(", ")),
        }
    }

    /// Returns a line for each generator and each store.
    fn verbose(&self, http: &Http) -> String {
        let mut text = String::new();
        let mut line = |is_good: bool, name: &str, said: &str, is_looked_at: bool| {
            let sign = if is_good { '+' } else { '-' };
            let note = if is_looked_at { "" } else { " (not looked at)" };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "[{sign}]{name} {said}{note}");
        };
        if let Some(claim) = http.server.claim() {
            let status = claim.status();
            let (store, reason) = (printable(&status.store), printable(status.reason()).into_owned());
            let said = match (&self.standby, status.error.as_str()) {
                (None, "") => "held".to_owned(),
                (None, error) => format!("held, but the store does not answer: {}", printable(error)),
                (Some(_), "") => reason,
                (Some(_), error) => format!("{reason}; the store does not answer: {}", printable(error)),
            };
            line(self.standby.is_none(), &format!("claim in {store}"), &said, true);
        }
        let own = http.server.issuer().refusing().and_then(|refusal| reason(&refusal));
        line(own.is_none(), UNNAMED, own.as_deref().unwrap_or("gives ids"), self.names.is_empty());
        for status in http.server.named_generators() {
            let name = status.generator.declaration().name();
            let why = status.refusing.as_ref().and_then(reason);
            let is_looked_at = self.names.iter().any(|own| own == name);
            line(why.is_none(), name, why.as_deref().unwrap_or("gives ids"), is_looked_at);
        }
        for store in http.server.generators.sequences().map(|own| own.stores()).unwrap_or_default() {
            let (is_good, said) = of_store(&store);
            line(is_good, &format!("store {}", printable(&store.shown)), &said, false);
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
    let said = printable(store.said.as_deref().unwrap_or_default());
    match store.is_up {
        Some(true) if store.is_held => (false, format!("is held: {said}")),
        Some(true) => (true, "answers".to_owned()),
        Some(false) => (false, format!("does not answer: {said}")),
        None => (true, "was not asked yet".to_owned()),
    }
}

/// Name of the unnamed generator.
const UNNAMED: &str = "-";

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
        let said = || Some("it waits for host-b:\n7".to_owned());
        for (store, expected) in [
            (store(), (true, "answers")),
            (StoreStatus { is_up: None, ..store() }, (true, "was not asked yet")),
            (StoreStatus { is_held: true, said: said(), ..store() }, (false, r"is held: it waits for host-b:\n7")),
            (
                StoreStatus { is_up: Some(false), said: said(), ..store() },
                (false, r"does not answer: it waits for host-b:\n7"),
            ),
        ] {
            let (is_good, told) = of_store(&store);
            assert_eq!((is_good, told.as_str()), expected);
        }
    }
}
