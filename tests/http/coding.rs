//! Compression, and responses that are not sent again: `Accept-Encoding` and `If-None-Match`.

use std::io::Read as _;

use crate::support::http::HttpServer;

fn unzipped(bytes: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).expect("gzip");
    text
}

#[test]
fn the_page_and_the_document_are_compressed_and_not_sent_again() {
    let server = HttpServer::start(&[]);
    for path in ["/", "/openapi.json"] {
        let (get, head) = (format!("GET {path}"), format!("HEAD {path}"));
        let plain = server.ask(&get);
        assert_eq!((plain.status, plain.header("content-encoding")), (200, None), "{path}");
        assert_eq!((plain.header("cache-control"), plain.header("vary")), (Some("no-cache"), Some("Accept-Encoding")));
        let gzip = server.ask_with(&get, &["Accept-Encoding: gzip, deflate, br"], "");
        assert_eq!((gzip.status, gzip.header("content-encoding")), (200, Some("gzip")), "{path}");
        assert_eq!(gzip.header("content-type"), plain.header("content-type"), "{path}");
        assert!(unzipped(&gzip.body) == plain.text(), "{path}: the texts differ");
        assert!(gzip.body.len() < plain.body.len() / 2, "{path}: {} of {}", gzip.body.len(), plain.body.len());

        let tag = plain.header("etag").expect("a tag").to_owned();
        assert_eq!(gzip.header("etag"), Some(&*tag), "{path}");
        let known = format!("If-None-Match: \"other\", {tag}");
        let mut http = server.connect();
        for line in [&get, &head] {
            http.send(
                format!("{line} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n{known}\r\n\r\n").as_bytes(),
            );
            let same = http.head().expect("a head");
            assert_eq!((same.status, same.header("etag"), same.header("content-encoding")), (304, Some(&*tag), None));
        }
        assert_eq!(server.ask_with(&get, &["If-None-Match: W/\"other\""], "").status, 200, "{path}");
    }
    // A changed bound changes the document and its tag.
    let tag = server.ask("GET /openapi.json").header("etag").expect("a tag").to_owned();
    assert_eq!(server.server.connect().ask("CONFIG SET id-mgetid-max 77"), "+OK");
    let changed = server.ask_with("GET /openapi.json", &[&format!("If-None-Match: {tag}")], "");
    assert!(changed.status == 200 && changed.text().contains("77"), "{}", changed.status);
}

#[test]
fn metrics_are_compressed_if_accepted() {
    let server = HttpServer::start(&[]);
    let gzip = server.ask_with("GET /metrics", &["Accept-Encoding: gzip"], "");
    assert_eq!((gzip.status, gzip.header("content-encoding")), (200, Some("gzip")));
    assert_eq!((gzip.header("vary"), gzip.header("etag")), (Some("Accept, Accept-Encoding"), None));
    let text = unzipped(&gzip.body);
    assert!(text.contains("# TYPE getid_ids_issued") && gzip.body.len() < text.len() / 3, "{text}");
    let plain = server.ask_with("GET /metrics", &["Accept-Encoding: gzip;q=0"], "");
    assert_eq!((plain.status, plain.header("content-encoding")), (200, None));
    // IDs and problems are never compressed, because they are short.
    for line in ["POST /v1/ids/-?count=100", "GET /v1/status", "GET /nothing"] {
        assert_eq!(server.ask_with(line, &["Accept-Encoding: gzip"], "").header("content-encoding"), None, "{line}");
    }
}
