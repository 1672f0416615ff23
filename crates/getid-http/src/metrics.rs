//! `GET /metrics`: INFO's values in the formats of Prometheus.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::header::{ACCEPT, VARY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use axum::routing::on;

use super::caller::Caller;
use super::coding;
use super::endpoint::{Endpoint, EndpointAccess, EndpointResponse, Method};
use super::openapi::TAG_SERVER;
use super::problem::Problem;
use super::state::Http;
use getid_engine::generators::sequence::LISTED_MAX;
use getid_server::metrics::prometheus::{self, TextFormat};

pub(super) const ENDPOINTS: &[Endpoint] = &[METRICS];

const METRICS: Endpoint = Endpoint {
    method: Method::Get,
    path: "/metrics",
    tag: TAG_SERVER,
    id: "getMetrics",
    summary: "Get the metrics for Prometheus",
    description: "The format is OpenMetrics if the header Accept prefers it, else Prometheus's text format. The \
                  response is compressed if the client accepts gzip.",
    access: EndpointAccess::Commands(&[("INFO", "unless http-open has metrics")]),
    parameters: &[],
    body: None,
    responses: &[
        EndpointResponse {
            status: 200,
            media: TextFormat::Prometheus.content_type(),
            schema: None,
            description: METRICS_TEXT,
        },
        EndpointResponse {
            status: 200,
            media: TextFormat::OpenMetrics.content_type(),
            schema: None,
            description: METRICS_TEXT,
        },
    ],
    problems: &[],
    route: |filter| on(filter, metrics),
};

const METRICS_TEXT: &str = "All metrics.";

/// Returns the metrics to callers that may run INFO; with `http-open metrics`, to all.
async fn metrics(
    State(http): State<Arc<Http>>,
    Extension(caller): Extension<Arc<Caller>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !http.server.config.get().http.open.metrics {
        // The shortest section: only its permission matters.
        caller.run(&headers, &[b"INFO", b"cluster"]).await?;
    }
    let accept: Vec<_> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let format = preferred_format(&accept.join(","));
    let text = prometheus::text(&http.server.facts_with(LISTED_MAX), format);
    let mut response = coding::response(&headers, format.content_type(), text);
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    Ok(response)
}

/// Returns OpenMetrics if the header prefers it to text, else Prometheus's text format.
fn preferred_format(accept: &str) -> TextFormat {
    let [mut open, mut plain, mut any] = [0, 0, 0];
    for range in accept.split(',') {
        let mut words = range.split(';').map(str::trim);
        let media = words.next().unwrap_or("").to_ascii_lowercase();
        let weight = words.find_map(|word| word.strip_prefix("q=").or_else(|| word.strip_prefix("Q=")));
        let weight = weight.map_or(1000, per_mille);
        let best = match media.as_str() {
            "application/openmetrics-text" => &mut open,
            "text/plain" => &mut plain,
            "*/*" | "text/*" => &mut any,
            _ => continue,
        };
        *best = weight.max(*best);
    }
    if open > plain.max(any) { TextFormat::OpenMetrics } else { TextFormat::Prometheus }
}

/// Returns `0.75` as 750, and an invalid weight as 0.
fn per_mille(weight: &str) -> u32 {
    weight.parse::<f64>().ok().filter(|weight| (0.0..=1.0).contains(weight)).map_or(0, |weight| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
        let per_mille = (weight * 1000.0) as u32;
        per_mille
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_used_if_the_client_prefers_it() {
        let of_prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;\
            q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let of_browsers = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";
        for (accept, format) in [
            (of_prometheus, TextFormat::OpenMetrics),
            ("application/openmetrics-text", TextFormat::OpenMetrics),
            ("Application/OpenMetrics-Text; version=1.0.0; Q=0.9, text/plain; q=0.8", TextFormat::OpenMetrics),
            ("", TextFormat::Prometheus),
            ("*/*", TextFormat::Prometheus),
            (of_browsers, TextFormat::Prometheus),
            ("text/plain;version=0.0.4;q=1,application/openmetrics-text;q=0.9", TextFormat::Prometheus),
            ("application/openmetrics-text;q=0", TextFormat::Prometheus),
            ("application/openmetrics-text;q=2", TextFormat::Prometheus),
            (";;,,q=;=\u{fffd}", TextFormat::Prometheus),
        ] {
            assert_eq!(preferred_format(accept), format, "{accept}");
        }
    }
}
