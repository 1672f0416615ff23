//! `GET /v1/status` and its details, with the checks of the reader's rights.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::on;
use schemars::JsonSchema as _;

use crate::api_request::PathName;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, EndpointAccess, EndpointResponse, Method, in_path};
use crate::ids::NAME;
use crate::openapi::TAG_SERVER;
use crate::problem::Problem;
use crate::reply;
use crate::schema::Schema;
use crate::state::Http;
use crate::status::{Details, GeneratorDetails, StatusWithHistory, check_generator_access, details_of};
use getid_text::printable::printable_up_to;

/// The status requires the right to INFO.
pub(super) const ACCESS: EndpointAccess = EndpointAccess::Commands(&[("INFO", "always")]);

pub(super) const ONCE: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/status",
    tag: TAG_SERVER,
    id: "getStatus",
    summary: "Get the status",
    description: "The data of the page, at most a second old.",
    access: ACCESS,
    parameters: &[],
    body: None,
    responses: &[EndpointResponse::ok(
        &Schema::Derived("Status", StatusWithHistory::json_schema),
        "The status, with the history of the last ten minutes.",
    )],
    problems: &[],
    route: |filter| on(filter, status),
};

/// Serves `GET /v1/status`.
async fn status(
    State(http): State<Arc<Http>>,
    Extension(caller): Extension<Arc<Caller>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    check_info_access(&caller, &headers).await?;
    Ok(reply::json_text(http.page.whole(&http.server).into_bytes()))
}

pub(super) const DETAILS: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/status/details",
    tag: TAG_SERVER,
    id: "getStatusDetails",
    summary: "Get details of the status",
    description: "The details have the user's rights, the last day, commands, errors and worker ids, at most a second \
                  old. For a user with the right to CONFIG GET, they also have the newest lines of the log and the \
                  claims of a fleet. The claims are at most five seconds old while the claim store answers.",
    access: ACCESS,
    parameters: &[],
    body: None,
    responses: &[EndpointResponse::ok(&Schema::Derived("StatusDetails", Details::json_schema), "The details.")],
    problems: &[],
    route: |filter| on(filter, details),
};

/// Serves `GET /v1/status/details`.
async fn details(
    State(http): State<Arc<Http>>,
    Extension(caller): Extension<Arc<Caller>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    check_info_access(&caller, &headers).await?;
    Ok(reply::json_text(details_of(&http.page.common(&http.server), &http.server, &caller, &headers).await?))
}

pub(super) const GENERATOR: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/status/generators/{name}",
    tag: TAG_SERVER,
    id: "getStatusGenerator",
    summary: "Get the details of one generator",
    description: "A user without the right to GENERATORS needs the right to GETID with the generator's name as its \
                  key.",
    access: EndpointAccess::Commands(&[("INFO", "always"), ("GENERATORS", "or GETID with this generator")]),
    parameters: &[in_path("name", &NAME, "The generator; '-' is the unnamed one.")],
    body: None,
    responses: &[EndpointResponse::ok(
        &Schema::Derived("StatusGenerator", GeneratorDetails::json_schema),
        "The layout, and the chart of the last ten minutes.",
    )],
    problems: &[404],
    route: |filter| on(filter, generator),
};

/// Serves `GET /v1/status/generators/{name}`.
async fn generator(
    State(http): State<Arc<Http>>,
    Extension(caller): Extension<Arc<Caller>>,
    PathName(name): PathName,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    check_info_access(&caller, &headers).await?;
    check_generator_access(&caller, &headers, &name).await?;
    let Some(details) = http.page.generator(&http.server, &name) else {
        let shown = printable_up_to(&name, 64);
        let detail = format!("no generator '{shown}' is declared; GET /v1/generators lists the declared ones");
        return Err(Problem::new(StatusCode::NOT_FOUND, detail));
    };
    Ok(reply::json_text(serde_json::to_vec(&details).unwrap_or_default()))
}

/// Fails without the right to `INFO`, by running its cheapest section.
pub(super) async fn check_info_access(caller: &Caller, headers: &HeaderMap) -> Result<(), Problem> {
    // A foreign page cannot read the response, but it could take all places of viewers.
    let is_cross_site = headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none");
    if is_cross_site {
        let detail =
            "the request is from a page of another site: Sec-Fetch-Site must be same-origin or none".to_owned();
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    caller.run(headers, &[b"INFO", b"cluster"]).await.map(drop)
}
