//! Compression and caching of responses: `gzip` and `ETag`.
//!
//! Only large texts without secrets are compressed: the page, `/openapi.json` and `/metrics`, whose labels may contain
//! names from clients. The first two are compressed once for all clients.

use std::io::Write as _;

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use ring::digest::{SHA256, digest};

const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// Bytes of a digest in an entity tag: 96 bits, so that two texts never share one by accident.
const TAG_BYTES: usize = 12;

/// Shorter texts are not compressed, bytes: they fit a packet or two.
const COMPRESSED_FROM_BYTES: usize = 1024;

/// A text that seldom changes, plain and compressed.
pub(super) struct StaticText {
    content_type: HeaderValue,
    plain: Bytes,
    gzip: Bytes,
    /// A weak tag: it holds for both forms.
    tag: HeaderValue,
}

impl StaticText {
    pub(super) fn new(content_type: &'static str, text: impl Into<Bytes>) -> StaticText {
        let plain = text.into();
        let digest = digest(&SHA256, &plain);
        let tag = format!("W/\"{}\"", STANDARD.encode(&digest.as_ref()[..TAG_BYTES]));
        StaticText {
            content_type: HeaderValue::from_static(content_type),
            gzip: compressed(&plain, Compression::best()).into(),
            // Base64 has only characters that are allowed in a header.
            tag: HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("W/\"\"")),
            plain,
        }
    }

    /// Returns the response to a request with these headers: the text, or 304 if the client has it.
    pub(super) fn response(&self, request: &HeaderMap) -> Response {
        let is_known = is_known(request, &self.tag);
        let is_gzip = !is_known && accepts_gzip(request);
        let body = match (is_known, is_gzip) {
            (true, _) => Body::empty(),
            (false, true) => Body::from(self.gzip.clone()),
            (false, false) => Body::from(self.plain.clone()),
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(ETAG, self.tag.clone());
        // The client may store it, but must revalidate it before each use.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        if is_gzip {
            headers.insert(CONTENT_ENCODING, GZIP);
        }
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else {
            response.headers_mut().insert(CONTENT_TYPE, self.content_type.clone());
        }
        response
    }
}

/// Returns a response with this text, compressed if the request's headers accept gzip.
pub(super) fn response(request: &HeaderMap, content_type: &'static str, text: String) -> Response {
    let is_gzip = text.len() >= COMPRESSED_FROM_BYTES && accepts_gzip(request);
    // Numbers in text shrink by nine tenths at the fastest level.
    let body = if is_gzip { compressed(text.as_bytes(), Compression::fast()).into() } else { Bytes::from(text) };
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if is_gzip {
        headers.insert(CONTENT_ENCODING, GZIP);
    }
    response
}

fn compressed(text: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 4), level);
    // Writing to a Vec never fails.
    let _ = encoder.write_all(text);
    encoder.finish().unwrap_or_default()
}

/// Whether a client accepts gzip (RFC 9110, section 12.5.3). Without the header the text is sent uncompressed.
fn accepts_gzip(request: &HeaderMap) -> bool {
    let (mut gzip, mut any) = (None, None);
    let values = request.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    for range in values.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let coding = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let is_wanted = weight.is_none_or(|weight| weight.parse().is_ok_and(|weight: f32| weight > 0.0));
        if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") {
            gzip = Some(is_wanted);
        } else if coding == "*" {
            any = Some(is_wanted);
        }
    }
    gzip.or(any).unwrap_or(false)
}

/// Whether a client has the text of this tag (RFC 9110, section 13.1.2).
fn is_known(request: &HeaderMap, tag: &HeaderValue) -> bool {
    let opaque = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
    let own = tag.to_str().map(opaque).unwrap_or_default();
    let values = request.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).any(|tag| tag == "*" || opaque(tag) == own)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn headers(name: &axum::http::HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn gzip_is_used_if_the_client_accepts_it() {
        for (accept, expected) in [
            (&[][..], false),
            (&[""], false),
            (&["gzip"], true),
            (&["GZip;q=0.5"], true),
            (&["gzip, deflate, br, zstd"], true),
            (&["br", "x-gzip"], true),
            (&["*"], true),
            (&["*;q=0"], false),
            (&["gzip;q=0, *"], false),
            (&["gzip;q=0.000"], false),
            (&["gzip ; q=1"], true),
            (&["gzip;q=x"], false),
            (&["identity, br"], false),
            (&["gzipped"], false),
            (&[",;,=;"], false),
        ] {
            assert_eq!(accepts_gzip(&headers(&ACCEPT_ENCODING, accept)), expected, "{accept:?}");
        }
    }

    #[test]
    fn a_client_has_the_text_of_a_known_tag() {
        let tag = HeaderValue::from_static("W/\"abc\"");
        for (known, expected) in [
            (&[][..], false),
            (&["W/\"abc\""], true),
            (&["\"abc\""], true),
            (&["\"x\", W/\"abc\""], true),
            (&["\"x\"", "\"abc\""], true),
            (&["*"], true),
            (&["W/\"ab\""], false),
            (&["abc"], false),
            (&["w/\"abc\""], false),
        ] {
            assert_eq!(is_known(&headers(&IF_NONE_MATCH, known), &tag), expected, "{known:?}");
        }
    }

    #[test]
    fn compressed_bytes_decode_to_the_text() {
        let text = "getid_ids_total 1\n".repeat(1000);
        for level in [Compression::fast(), Compression::best()] {
            let bytes = compressed(text.as_bytes(), level);
            assert!(bytes.len() < text.len() / 10, "{} of {}", bytes.len(), text.len());
            let mut read = String::new();
            flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut read).unwrap();
            assert_eq!(read, text);
        }
        let short = response(&headers(&ACCEPT_ENCODING, &["gzip"]), "text/plain", "short".to_owned());
        assert!(!short.headers().contains_key(CONTENT_ENCODING));
        let one = StaticText::new("text/plain", "one");
        assert_ne!(one.tag, StaticText::new("text/plain", "other").tag);
        assert_eq!(one.response(&headers(&IF_NONE_MATCH, &["*"])).status(), StatusCode::NOT_MODIFIED);
    }
}
