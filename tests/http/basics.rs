//! The HTTP port without any setting.

use crate::support::http::HttpServer;

#[test]
fn probes_and_ids_are_answered() {
    let server = HttpServer::start(&[]);
    let mut http = server.connect();
    assert_eq!(http.ask("GET /livez", &[], "").text(), "ok\n");
    assert_eq!(http.ask("GET /readyz", &[], "").text(), "ready\n");
    let three = http.ask("POST /v1/ids/-?count=3", &[], "");
    assert_eq!(three.status, 200, "{three:?}");
    let ids = three.json()["ids"].as_array().unwrap().clone();
    assert_eq!(ids.len(), 3);
    let numbers: Vec<u64> = ids.iter().map(|id| id.as_str().unwrap().parse().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let unknown = http.ask("POST /v1/ids/-", &["Authorization: Bearer unknown:secret"], "");
    assert_eq!((unknown.status, unknown.json()["code"].as_str()), (401, Some("WRONGPASS")));
    assert_eq!(http.ask("GET /nothing", &[], "").status, 404);
}

#[test]
fn the_document_has_all_endpoints() {
    let server = HttpServer::start(&["--id-mgetid-max", "7"]);
    let document = server.ask("GET /openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    let draw = &document["paths"]["/v1/ids/{name}"]["post"];
    assert_eq!(draw["parameters"][1]["schema"]["maximum"], 7, "bounds are the current ones: {draw}");
    assert_eq!(server.ask("POST /v1/ids/-?count=7").status, 200);
    assert_eq!(server.ask("POST /v1/ids/-?count=8").status, 400);
    let allowed = server.ask("PATCH /v1/ids/-");
    assert_eq!((allowed.status, allowed.header("allow")), (405, Some("POST,GET,HEAD")), "{allowed:?}");
    let asked = server.ask("OPTIONS /v1/sequences/x/values");
    assert_eq!((asked.status, asked.header("allow")), (405, Some("POST")), "{asked:?}");
    assert!(server.ask("GET /livez/").text().contains("use /livez;"));
}

/// Plain names are routed by a fast path, which must give the same results as the router for encoded names.
#[test]
fn a_name_may_be_written_with_percent_signs() {
    let server = HttpServer::start(&["--generator", "trace", "uuid7"]);
    let mut http = server.connect();
    for (plain, percent) in [("-", "%2D"), ("trace", "tr%61ce"), ("unknown", "unkn%6fwn"), ("a:b", "a%3Ab")] {
        for (query, body) in
            [("", ""), ("?count=1", "{}"), ("?count=3", ""), ("?count=0", ""), ("?cuont=1", ""), ("", "[]"), ("", "{")]
        {
            let [plain, percent] = [plain, percent].map(|name| {
                let mut response = http.ask(&format!("POST /v1/ids/{name}{query}"), &[], body);
                let ids = response.json()["ids"].as_array().map(Vec::len);
                if ids.is_some() {
                    // The bodies of IDs differ.
                    response.body.clear();
                }
                response.headers.retain(|(name, _)| name != "date");
                response.headers.sort();
                (response, ids)
            });
            assert_eq!(plain, percent, "{query} {body}");
        }
    }
    for line in ["DELETE /v1/ids/-", "PATCH /v1/ids/-", "POST /v1/ids/", "POST /v1/ids/-/", "POST /v1/ids/a/b"] {
        let status = http.ask(line, &[], "").status;
        assert!(matches!(status, 404 | 405), "{line}: {status}");
    }
}
