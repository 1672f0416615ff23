//! Worker ids: `/v1/workers`, whose requests are subcommands of `WORKERID`.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use getid_core::worker::{HOLDER_NAME_BYTES_MAX, LEASE_MS_MAX, POOL_SIZE_MAX};
use redis_protocol::resp3::types::OwnedFrame;
use serde_json::{Map, Value, json};

use super::ask::{Ask, Name, PoolAndId};
use super::endpoint::{Access, Answer, Endpoint, Method, Parameter, in_path, optional};
use super::openapi::TAG_WORKERS;
use super::problem::Problem;
use super::reply;
use super::schema::{self, AMOUNT, Field, Schema, TEXT, field, maybe};

pub(super) const ENDPOINTS: &[Endpoint] = &[TELL, LIST, LEASE, RENEW, RELEASE, REVOKE];

const POOL: Schema = Schema::Text { chars_min: 1, chars_max: 64, pattern: "^[A-Za-z0-9_.-]+$" };

const HOLDER: Schema = Schema::Text { chars_min: 1, chars_max: HOLDER_NAME_BYTES_MAX, pattern: "^[!-~]+$" };

const TOKEN: Schema = Schema::Text { chars_min: 32, chars_max: 32, pattern: "^[0-9a-f]{32}$" };

const WORKER_ID: Schema = Schema::Integer { min: 0, max: POOL_SIZE_MAX as i64 - 1 };

const TTL_S: Schema = Schema::Integer { min: 1, max: (LEASE_MS_MAX / 1000).cast_signed() };

const OF_POOL: &[Parameter] = &[in_path("pool", &POOL, "The pool.")];

const OF_LEASE: &[Parameter] = &[in_path("pool", &POOL, "The pool."), in_path("id", &WORKER_ID, "The worker id.")];

const NOT_AFTER: Field =
    field("not_after", &AMOUNT, "Unix ms: from here on no IDs may be made, until a renewal was answered.");

const TELL: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/workers/{pool}",
    tag: TAG_WORKERS,
    id: "getWorkerPool",
    summary: "How a pool of worker ids does",
    description: "",
    access: Access::Commands(&[("WORKERID INFO", "")]),
    parameters: OF_POOL,
    body: None,
    answers: &[Answer::ok(&WORKER_POOL, "What is known of it.")],
    problems: &[404],
    route: |filter| on(filter, tell),
};

const WORKER_POOL: Schema = Schema::Named(
    "WorkerPool",
    &Schema::Object(&[
        field("pool", &POOL, ""),
        field("size", &AMOUNT, "Its worker ids are below it."),
        field("leased", &AMOUNT, "Ids that are leased, by all servers."),
        field("free", &AMOUNT, "Ids that are free."),
        field("lease_ms", &AMOUNT, "How long a lease lasts."),
        field("longest_ms", &AMOUNT, "How far past the server's time a lease may reach."),
        field("opens", &AMOUNT, "Unix ms: before it nothing is leased."),
        field("store", &TEXT, "The address of the store."),
        field("leases", &AMOUNT, "Ids that this server has leased."),
        field("renewals", &AMOUNT, "Leases that it has renewed."),
        field("releases", &AMOUNT, "Leases that were given back to it."),
        field("revocations", &AMOUNT, "Leases that operators have ended."),
        field("refused", &AMOUNT, "Renewals and releases that it has refused."),
        field("exhausted", &AMOUNT, "Requests for an id when there was none."),
        field("errors", &AMOUNT, "Calls of the store that failed."),
    ]),
);

async fn tell(Name(pool): Name, ask: Ask) -> Result<Response, Problem> {
    let told = ask.run(&[b"WORKERID", b"INFO", pool.as_bytes()]).await?;
    Ok(reply::json(StatusCode::OK, &reply::shaped(&told, &WORKER_POOL)))
}

const LIST: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/workers/{pool}/leases",
    tag: TAG_WORKERS,
    id: "listWorkerLeases",
    summary: "The leases of a pool in the order of their ids, page by page",
    description: "Of each id the latest, also if it is over.",
    access: Access::Commands(&[("WORKERID LIST", "")]),
    parameters: &[
        in_path("pool", &POOL, "The pool."),
        optional("from", &WORKER_ID, "Begin with this id: the 'next' of the page before."),
        optional("limit", &Schema::Integer { min: 1, max: 1000 }, "Leases of a page; 100 if it is left away."),
    ],
    body: None,
    answers: &[Answer::ok(
        &Schema::Object(&[
            field("leases", &Schema::List { of: &LISTED, items_max: 1000 }, ""),
            field("next", &Schema::OrNull(&WORKER_ID), "'from' of the next page; null: this is the last one."),
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
        field("name", &TEXT, "Who has it, as it calls itself; empty: it does not say."),
        field("state", &Schema::Word(&["held", "revoked", "over", "released"]), ""),
        field("not_before", &AMOUNT, "Unix ms: no IDs of before may be made."),
        NOT_AFTER,
        field("ttl_ms", &AMOUNT, "For how long it is renewed."),
    ]),
);

async fn list(Name(pool): Name, ask: Ask) -> Result<Response, Problem> {
    let query = ask.query()?;
    let limit = query.number("limit").unwrap_or(100).to_string();
    let from = query.number("from").unwrap_or(0).to_string();
    let args: [&[u8]; 7] =
        [b"WORKERID", b"LIST", pool.as_bytes(), b"CURSOR", from.as_bytes(), b"COUNT", limit.as_bytes()];
    let told = ask.run(&args).await?;
    let OwnedFrame::Array { data, .. } = &told else { return Err(Problem::stopping()) };
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
    description: "Make only IDs with not_before <= time < not_after, and renew in time.",
    access: Access::Commands(&[("WORKERID LEASE", "")]),
    parameters: OF_POOL,
    body: Some(&[
        maybe("name", &HOLDER, "Your name: an id that had it comes back to it, if it is free."),
        maybe("ttl_s", &TTL_S, "How long the lease is to last; what the pool says if it is left away."),
    ]),
    answers: &[Answer {
        status: 201,
        media: "application/json",
        schema: Some(&Schema::Object(&[
            field("id", &WORKER_ID, "The worker id."),
            field("token", &TOKEN, "What renewals and the release show. Keep it to yourself."),
            field("not_before", &AMOUNT, "Unix ms: no IDs of before may be made."),
            NOT_AFTER,
        ])),
        description: "It is leased.",
    }],
    problems: &[404, 409],
    route: |filter| on(filter, lease),
};

async fn lease(Name(pool): Name, ask: Ask, body: Body) -> Result<Response, Problem> {
    let body = ask.body(body).await?;
    let ttl_s = number_of(&body, "ttl_s");
    let mut args: Vec<&[u8]> = vec![b"WORKERID", b"LEASE", pool.as_bytes()];
    if let Some(name) = body.get("name").and_then(Value::as_str) {
        args.extend([&b"NAME"[..], name.as_bytes()]);
    }
    if let Some(ttl_s) = &ttl_s {
        args.extend([&b"TTL"[..], ttl_s.as_bytes()]);
    }
    let told = ask.run(&args).await?;
    let OwnedFrame::Array { data, .. } = &told else { return Err(Problem::stopping()) };
    let number = |at: usize| data.get(at).map(|frame| reply::shaped(frame, &AMOUNT));
    let granted = json!({
        "id": number(0),
        "token": data.get(1).and_then(reply::text_of),
        "not_before": number(2),
        "not_after": number(3),
    });
    Ok(reply::json(StatusCode::CREATED, &granted))
}

/// Returns a number that matches its schema as a word of a command.
fn number_of(body: &Map<String, Value>, name: &str) -> Option<String> {
    body.get(name).and_then(schema::integer).map(|number| number.to_string())
}

const SHOWN: &[Field] = &[
    field("token", &TOKEN, "What the lease was answered with."),
    maybe("last", &AMOUNT, "Unix ms: the time of the newest ID that you made."),
];

const RENEW: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/workers/{pool}/leases/{id}/renew",
    tag: TAG_WORKERS,
    id: "renewWorkerLease",
    summary: "Renew the lease of a worker id",
    description: "",
    access: Access::Commands(&[("WORKERID RENEW", "")]),
    parameters: OF_LEASE,
    body: Some(SHOWN),
    answers: &[Answer::ok(&Schema::Object(&[NOT_AFTER]), "It goes on.")],
    problems: &[404, 409],
    route: |filter| on(filter, renew),
};

async fn renew(of: PoolAndId, ask: Ask, body: Body) -> Result<Response, Problem> {
    let told = show(&ask, b"RENEW", &of, body).await?;
    let not_after = match &told {
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
    description: "With 'last', the next lease of this id begins right behind it.",
    access: Access::Commands(&[("WORKERID RELEASE", "")]),
    parameters: OF_LEASE,
    body: Some(SHOWN),
    answers: &[Answer::ok(&Schema::Object(&[field("released", &Schema::Bool, "True.")]), "It is over.")],
    problems: &[404, 409],
    route: |filter| on(filter, release),
};

async fn release(of: PoolAndId, ask: Ask, body: Body) -> Result<Response, Problem> {
    show(&ask, b"RELEASE", &of, body).await?;
    Ok(reply::json(StatusCode::OK, &json!({ "released": true })))
}

/// Runs a command that passes the lease's token.
async fn show(ask: &Ask, what: &[u8], of: &PoolAndId, body: Body) -> Result<reply::Reply, Problem> {
    let body = ask.body(body).await?;
    let token = body.get("token").and_then(Value::as_str).unwrap_or_default();
    let last = number_of(&body, "last");
    let mut args: Vec<&[u8]> = vec![b"WORKERID", what, of.pool.as_bytes(), of.id.as_bytes(), token.as_bytes()];
    if let Some(last) = &last {
        args.extend([&b"LAST"[..], last.as_bytes()]);
    }
    ask.run(&args).await
}

const REVOKE: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/workers/{pool}/leases/{id}/revoke",
    tag: TAG_WORKERS,
    id: "revokeWorkerLease",
    summary: "End the lease of a worker id",
    description: "It is not renewed any more, and the id is free at its end.",
    access: Access::Commands(&[("WORKERID REVOKE", "")]),
    parameters: OF_LEASE,
    body: None,
    answers: &[Answer::ok(&Schema::Object(&[NOT_AFTER]), "When it ends.")],
    problems: &[404, 409],
    route: |filter| on(filter, revoke),
};

async fn revoke(of: PoolAndId, ask: Ask) -> Result<Response, Problem> {
    let told = ask.run(&[b"WORKERID", b"REVOKE", of.pool.as_bytes(), of.id.as_bytes()]).await?;
    Ok(reply::json(StatusCode::OK, &json!({ "not_after": reply::shaped(&told, &AMOUNT) })))
}
