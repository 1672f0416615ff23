//! Worker ids: `/v1/workers`, whose requests are subcommands of `WORKERID`.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use getid_core::server::worker::{HOLDER_NAME_BYTES_MAX, LEASE_MS_MAX, POOL_SIZE_MAX};
use redis_protocol::resp3::types::OwnedFrame;
use serde_json::{Map, Value, json};

use super::api_request::{ApiRequest, PathName, WorkerIdPath};
use super::endpoint::{Endpoint, EndpointAccess, EndpointResponse, Method, Parameter, in_path, optional};
use super::openapi::TAG_WORKERS;
use super::problem::Problem;
use super::reply;
use super::schema::{self, AMOUNT, Field, Schema, TEXT, field, maybe};

pub(super) const ENDPOINTS: &[Endpoint] = &[GET, LIST, LEASE, RENEW, RELEASE, REVOKE];

const POOL: Schema = Schema::Text { chars_min: 1, chars_max: 64, pattern: "^[A-Za-z0-9_.-]+$" };

const HOLDER: Schema = Schema::Text { chars_min: 1, chars_max: HOLDER_NAME_BYTES_MAX, pattern: "^[!-~]+$" };

const TOKEN: Schema = Schema::Text { chars_min: 32, chars_max: 32, pattern: "^[0-9a-f]{32}$" };

const WORKER_ID: Schema = Schema::Integer { min: 0, max: POOL_SIZE_MAX as i64 - 1 };

const TTL_S: Schema = Schema::Integer { min: 1, max: (LEASE_MS_MAX / 1000).cast_signed() };

const POOL_PARAMETER: &[Parameter] = &[in_path("pool", &POOL, "The pool.")];

const LEASE_PARAMETERS: &[Parameter] =
    &[in_path("pool", &POOL, "The pool."), in_path("id", &WORKER_ID, "The worker id.")];

const NOT_AFTER: Field =
    field("not_after", &AMOUNT, "Unix ms: no IDs may be generated at or after this time without a renewal.");

const GET: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/workers/{pool}",
    tag: TAG_WORKERS,
    id: "getWorkerPool",
    summary: "Get the state of a pool of worker ids",
    description: "",
    access: EndpointAccess::Commands(&[("WORKERID INFO", "")]),
    parameters: POOL_PARAMETER,
    body: None,
    responses: &[EndpointResponse::ok(&WORKER_POOL, "The pool.")],
    problems: &[404],
    route: |filter| on(filter, get),
};

const WORKER_POOL: Schema = Schema::Named(
    "WorkerPool",
    &Schema::Object(&[
        field("pool", &POOL, ""),
        field("size", &AMOUNT, "The number of worker ids; each is below it."),
        field("leased", &AMOUNT, "Ids that are leased now, by all servers."),
        field("free", &AMOUNT, "Ids that are free."),
        field("lease_ms", &AMOUNT, "The duration of a lease, ms."),
        field("longest_ms", &AMOUNT, "The latest end of a lease, ms after the server's time."),
        field("opens", &AMOUNT, "Unix ms: before this time the pool leases nothing."),
        field("store", &TEXT, "The address of the store."),
        field("leases", &AMOUNT, "Ids that this server has leased."),
        field("renewals", &AMOUNT, "Leases that this server has renewed."),
        field("releases", &AMOUNT, "Leases that clients have returned to this server."),
        field("revocations", &AMOUNT, "Leases that operators have ended."),
        field("refused", &AMOUNT, "Renewals and releases that this server has refused."),
        field("exhausted", &AMOUNT, "Requests that found no free id."),
        field("errors", &AMOUNT, "Calls of the store that failed."),
    ]),
);

async fn get(PathName(pool): PathName, request: ApiRequest) -> Result<Response, Problem> {
    let reply = request.run(&[b"WORKERID", b"INFO", pool.as_bytes()]).await?;
    Ok(reply::json(StatusCode::OK, &reply::shaped(&reply, &WORKER_POOL)))
}

const LIST: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/workers/{pool}/leases",
    tag: TAG_WORKERS,
    id: "listWorkerLeases",
    summary: "List the leases of a pool by id, page by page",
    description: "The list has the latest lease of each id, even if it has ended.",
    access: EndpointAccess::Commands(&[("WORKERID LIST", "")]),
    parameters: &[
        in_path("pool", &POOL, "The pool."),
        optional("from", &WORKER_ID, "The first id: the 'next' of the previous page."),
        optional(
            "limit",
            &Schema::Integer { min: 1, max: 1000 },
            "The number of leases in a page; the default is 100.",
        ),
    ],
    body: None,
    responses: &[EndpointResponse::ok(
        &Schema::Object(&[
            field("leases", &Schema::List { of: &LISTED, items_max: 1000 }, ""),
            field("next", &Schema::OrNull(&WORKER_ID), "The 'from' of the next page; null: this page is the last one."),
        ]),
        "One page.",
    )],
    problems: &[404],
    route: |filter| on(filter, list),
};

const LISTED: Schema = Schema::Named(
    "WorkerLease",
    &Schema::Object(&[
        field("id", &WORKER_ID, ""),
        field("name", &TEXT, "The holder's own name; empty if it sent none."),
        field("state", &Schema::Word(&["held", "kept", "revoked", "over", "released"]), ""),
        field("not_before", &AMOUNT, "Unix ms: no IDs with an earlier time may be generated."),
        NOT_AFTER,
        field("ttl_ms", &AMOUNT, "The duration of a renewal, ms."),
    ]),
);

async fn list(PathName(pool): PathName, request: ApiRequest) -> Result<Response, Problem> {
    let query = request.query()?;
    let limit = query.number("limit").unwrap_or(100).to_string();
    let from = query.number("from").unwrap_or(0).to_string();
    let args: [&[u8]; 7] =
        [b"WORKERID", b"LIST", pool.as_bytes(), b"CURSOR", from.as_bytes(), b"COUNT", limit.as_bytes()];
    let reply = request.run(&args).await?;
    let OwnedFrame::Array { data, .. } = &reply else { return Err(Problem::stopping()) };
    let next: Option<u32> = data.first().and_then(reply::text_of).and_then(|next| next.parse().ok());
    let all = data.get(1).map(|all| reply::shaped(all, &Schema::List { of: &LISTED, items_max: usize::MAX }));
    Ok(reply::json(StatusCode::OK, &json!({ "leases": all, "next": next })))
}

const LEASE: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/workers/{pool}/leases",
    tag: TAG_WORKERS,
    id: "leaseWorkerId",
    summary: "Lease a worker id",
    description: "Generate only IDs with not_before <= time < not_after, and renew in time.",
    access: EndpointAccess::Commands(&[("WORKERID LEASE", "")]),
    parameters: POOL_PARAMETER,
    body: Some(&[
        maybe("name", &HOLDER, "Your name: the id that you had before is leased again, if it is free."),
        maybe("ttl_s", &TTL_S, "The duration of the lease; the default is that of the pool."),
    ]),
    responses: &[EndpointResponse {
        status: 201,
        media: "application/json",
        schema: Some(&Schema::Object(&[
            field("id", &WORKER_ID, "The worker id."),
            field("token", &TOKEN, "The secret for renewals and the release."),
            field("not_before", &AMOUNT, "Unix ms: no IDs with an earlier time may be generated."),
            NOT_AFTER,
            field("lease_ms", &AMOUNT, "The length of the lease, ms: renew when a third of it has passed."),
        ])),
        description: "The worker id is leased.",
    }],
    problems: &[404, 409],
    route: |filter| on(filter, lease),
};

async fn lease(PathName(pool): PathName, request: ApiRequest, body: Body) -> Result<Response, Problem> {
    let body = request.body(body).await?;
    let ttl_s = number_of(&body, "ttl_s");
    let mut args: Vec<&[u8]> = vec![b"WORKERID", b"LEASE", pool.as_bytes()];
    if let Some(name) = body.get("name").and_then(Value::as_str) {
        args.extend([&b"NAME"[..], name.as_bytes()]);
    }
    if let Some(ttl_s) = &ttl_s {
        args.extend([&b"TTL"[..], ttl_s.as_bytes()]);
    }
    let reply = request.run(&args).await?;
    let OwnedFrame::Array { data, .. } = &reply else { return Err(Problem::stopping()) };
    let number = |at: usize| data.get(at).map(|frame| reply::shaped(frame, &AMOUNT));
    let granted = json!({
        "id": number(0),
        "token": data.get(1).and_then(reply::text_of),
        "not_before": number(2),
        "not_after": number(3),
        "lease_ms": number(4),
    });
    Ok(reply::json(StatusCode::CREATED, &granted))
}

/// Returns a number that matches its schema as a word of a command.
fn number_of(body: &Map<String, Value>, name: &str) -> Option<String> {
    body.get(name).and_then(schema::integer).map(|number| number.to_string())
}

const TOKEN_FIELDS: &[Field] = &[
    field("token", &TOKEN, "The token of the lease."),
    maybe("last", &AMOUNT, "Unix ms: the time of the newest ID that you generated."),
];

const RENEW: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/workers/{pool}/leases/{id}/renew",
    tag: TAG_WORKERS,
    id: "renewWorkerLease",
    summary: "Renew the lease of a worker id",
    description: "",
    access: EndpointAccess::Commands(&[("WORKERID RENEW", "")]),
    parameters: LEASE_PARAMETERS,
    body: Some(TOKEN_FIELDS),
    responses: &[EndpointResponse::ok(&Schema::Object(&[NOT_AFTER]), "The lease is renewed.")],
    problems: &[404, 409],
    route: |filter| on(filter, renew),
};

async fn renew(path: WorkerIdPath, request: ApiRequest, body: Body) -> Result<Response, Problem> {
    let reply = run_with_token(&request, b"RENEW", &path, body).await?;
    let not_after = match &reply {
        OwnedFrame::Array { data, .. } => data.first().map(|frame| reply::shaped(frame, &AMOUNT)),
        _ => None,
    };
    Ok(reply::json(StatusCode::OK, &json!({ "not_after": not_after })))
}

const RELEASE: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/workers/{pool}/leases/{id}/release",
    tag: TAG_WORKERS,
    id: "releaseWorkerLease",
    summary: "Release the lease of a worker id",
    description: "With 'last', the next lease of this id begins right after it.",
    access: EndpointAccess::Commands(&[("WORKERID RELEASE", "")]),
    parameters: LEASE_PARAMETERS,
    body: Some(TOKEN_FIELDS),
    responses: &[EndpointResponse::ok(
        &Schema::Object(&[field("released", &Schema::Bool, "True.")]),
        "The lease is released.",
    )],
    problems: &[404, 409],
    route: |filter| on(filter, release),
};

async fn release(path: WorkerIdPath, request: ApiRequest, body: Body) -> Result<Response, Problem> {
    run_with_token(&request, b"RELEASE", &path, body).await?;
    Ok(reply::json(StatusCode::OK, &json!({ "released": true })))
}

/// Runs a command that passes the lease's token.
async fn run_with_token(
    request: &ApiRequest,
    subcommand: &[u8],
    path: &WorkerIdPath,
    body: Body,
) -> Result<reply::ReplyFrame, Problem> {
    let body = request.body(body).await?;
    let token = body.get("token").and_then(Value::as_str).unwrap_or_default();
    let last = number_of(&body, "last");
    let mut args: Vec<&[u8]> =
        vec![b"WORKERID", subcommand, path.pool.as_bytes(), path.id.as_bytes(), token.as_bytes()];
    if let Some(last) = &last {
        args.extend([&b"LAST"[..], last.as_bytes()]);
    }
    request.run(&args).await
}

const REVOKE: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/workers/{pool}/leases/{id}/revoke",
    tag: TAG_WORKERS,
    id: "revokeWorkerLease",
    summary: "End the lease of a worker id",
    description: "The lease cannot be renewed any more, and the id is free after its end.",
    access: EndpointAccess::Commands(&[("WORKERID REVOKE", "")]),
    parameters: LEASE_PARAMETERS,
    body: None,
    responses: &[EndpointResponse::ok(&Schema::Object(&[NOT_AFTER]), "The end of the lease.")],
    problems: &[404, 409],
    route: |filter| on(filter, revoke),
};

async fn revoke(path: WorkerIdPath, request: ApiRequest) -> Result<Response, Problem> {
    let reply = request.run(&[b"WORKERID", b"REVOKE", path.pool.as_bytes(), path.id.as_bytes()]).await?;
    Ok(reply::json(StatusCode::OK, &json!({ "not_after": reply::shaped(&reply, &AMOUNT) })))
}
