//! The HTTP port of a server that waits for the claim of its server-id. Here the test sets the state of the claim, in a
//! server in its own process. `tests/fleet` tests real stores and servers.

use std::sync::Arc;

use getid_config::HttpApi;
use getid_engine::claim::status::{ClaimRole, ClaimStatus, ClaimView, HolderStatus};
use serde_json::{Value, json};

use crate::in_process::{InProcess, quick};
use crate::support::eventually;
use crate::support::http::{Http, Response};
use crate::support::standby::{WHY, standby};

fn holder() -> ClaimStatus {
    let taken = standby();
    let own = HolderStatus { instance: taken.instance.clone(), name: "host-b".to_owned(), ..HolderStatus::default() };
    ClaimStatus {
        role: ClaimRole::Holder,
        holder: Some(own),
        why: String::new(),
        ride_through_ms: 1_480,
        beats: 7,
        takeovers: 1,
        ..taken
    }
}

fn ask(port: u16, line: &str) -> Response {
    Http::connect(port).ask(line, &[], "")
}

#[track_caller]
fn get(port: u16, path: &str) -> (u16, String) {
    let response = ask(port, &format!("GET {path}"));
    (response.status, response.text())
}

#[test]
fn a_standby_reports_it_everywhere() {
    let claim = Arc::new(ClaimView::default());
    claim.publish(standby());
    let server =
        InProcess::start_with(quick(), |config| config.http.apis.leaf = Some(HttpApi::default()), Some(&claim));
    let port = server.port;

    assert_eq!(get(port, "/readyz"), (503, format!("not ready: {WHY}\n")));
    assert_eq!(get(port, "/readyz?standby=ok"), (200, format!("ready: {WHY}\n")));
    let (status, text) = get(port, "/readyz?verbose");
    assert!(status == 503 && text.ends_with("\nstandby\n"), "{text}");
    assert!(text.starts_with(&format!("[-]claim in postgres://getid:***@db/ids {WHY}\n")), "{text}");
    assert_eq!(get(port, "/livez"), (200, "ok\n".to_owned()));

    let refused = ask(port, "POST /v1/sequences/orders/values");
    let problem = refused.json();
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "{refused:?}");
    assert_eq!((&problem["code"], &problem["detail"]), (&json!("LOADING"), &json!(WHY)));
    let leaf = ask(port, "GET /api/segment/get/orders");
    assert!(leaf.status == 500 && leaf.text().contains("Result{id=-1, status=EXCEPTION}"), "{leaf:?}");
    assert_eq!(ask(port, "GET /v1/ids/786829717956198794").status, 200, "a standby decodes IDs");

    let status = ask(port, "GET /v1/status").json();
    assert_eq!((&status["giving"]["state"], &status["giving"]["reason"]), (&json!("standby"), &json!(WHY)));
    let own = &status["claim"]["cluster"];
    assert_eq!((&own["role"], &own["timeout_ms"], &own["error"]), (&json!("standby"), &json!(2000), &Value::Null));
    assert_eq!((&own["holder"]["name"], &own["holder"]["is_this"]), (&json!("host-a"), &json!(false)));
    assert_eq!(own["holder"]["since"], json!("2023-11-14T22:13:20.000Z"));
    let (_, metrics) = get(port, "/metrics");
    for line in [
        "getid_claim_standby 1\n",
        "getid_claim_held 0\n",
        "getid_claim_timeout_seconds 2.0\n",
        "getid_claim_holder_until_timestamp_seconds 1700000001.5\n",
        "getid_claim_info{server_id=\"3\",store=\"postgres://getid:***@db/ids\",product=\"PostgreSQL 15\",\
         instance_name=\"host-b\",instance_id=\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\",holder=\"host-a\",",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }

    // The server takes over.
    claim.publish(holder());
    eventually("the server is ready", || get(port, "/readyz") == (200, "ready\n".to_owned()));
    assert_eq!(get(port, "/readyz?standby=ok"), (200, "ready\n".to_owned()));
    eventually("the page shows it", || ask(port, "GET /v1/status").json()["giving"]["state"] == "giving");
    let status = ask(port, "GET /v1/status").json();
    let own = &status["claim"]["cluster"];
    assert_eq!((&own["role"], &own["holder"]["is_this"]), (&json!("holder"), &json!(true)));
    assert!(get(port, "/metrics").1.contains("getid_claim_ride_through_seconds 1.48\n"));

    // The store does not answer.
    claim.publish(ClaimStatus { error: "connection refused".to_owned(), ..holder() });
    eventually("the page warns", || {
        let status = ask(port, "GET /v1/status").json();
        status["notices"][0]["text"]
            .as_str()
            .is_some_and(|text| text.ends_with("IDs end in 1 second: connection refused"))
    });
    let (code, text) = get(port, "/readyz?verbose");
    assert!(code == 200 && text.contains(" held, but the store does not answer: connection refused\n"), "{text}");

    // No server-id is free.
    let why = "standby: server-id is auto, and none is free";
    claim.publish(ClaimStatus { server_id: None, holder: None, why: why.to_owned(), ..standby() });
    assert_eq!(get(port, "/readyz"), (503, format!("not ready: {why}\n")));
    eventually("the page shows it", || {
        let status = ask(port, "GET /v1/status").json();
        (&status["server"]["server_id"], &status["claim"]["cluster"]["holder"]) == (&Value::Null, &Value::Null)
    });

    // The store went back: the server does not recover without an operator.
    let why = "claim lost: claim store went back: it has beat 7 of server-id 3, and this server has seen beat 9";
    claim.publish(ClaimStatus { why: why.to_owned(), needs_operator: true, ..standby() });
    assert_eq!(get(port, "/readyz?standby=ok"), (503, format!("not ready: {why}\n")));
    assert_eq!(ask(port, "POST /v1/sequences/orders/values").json()["code"], "MISCONF");
    eventually("the page shows it", || ask(port, "GET /v1/status").json()["giving"]["state"] == "refusing");
}
