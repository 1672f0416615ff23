//! What does a request over HTTP cost if the server does no work for it?
//!
//! A bare axum handler that answers a constant: the system calls, the runtime, hyper, axum's router, and nothing else.
//! It is built like getid's HTTP port: one thread, HTTP/1, hyper's timer set so that a slow head ends, and bounds on
//! the head. So the quotient of both costs shows what getid adds: login, rights, the command, the statistics.
//!
//! This does not measure what a server could do without hyper or axum.
//!
//! `cargo build --profile dist --example null_http`, then `null_http --ids 100` prints the TCP port that the system
//! picked, and answers `POST /v1/ids/{name}` with that many IDs, and `POST /v1/sequences/{name}/values` with a value,
//! until it is killed. `benches/compare --only HTTP` does all that.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tower_service::Service as _;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

const USAGE: &str = "usage: null_http [--ids COUNT]";

/// Answers with the constant.
async fn answer(State(body): State<Bytes>) -> Response {
    ([(CONTENT_TYPE, JSON)], body).into_response()
}

/// Returns as many IDs as a real answer has, none of them real.
fn body(ids: usize) -> Bytes {
    Bytes::from(format!("{{\"ids\":[{}]}}", vec!["\"144182182078841378\""; ids].join(",")))
}

async fn serve(stream: TcpStream, router: Router) {
    let service = service_fn(move |request: Request<Incoming>| router.clone().call(request.map(Body::new)));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(10));
    builder.max_buf_size(16 * 1024).max_headers(64);
    // A client that has disconnected is no error.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

fn run(ids: usize) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let of = |path, text| Router::new().route(path, post(answer)).with_state(text);
        let value = Bytes::from_static(b"{\"values\":[\"1000000\"]}");
        let router = of("/v1/ids/{name}", body(ids)).merge(of("/v1/sequences/{name}/values", value));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        writeln!(io::stdout(), "{}", listener.local_addr()?.port())?;
        io::stdout().flush()?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(serve(stream, router.clone()));
        }
    })
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let ids = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Some(1),
        ["--ids", count] => count.parse().ok(),
        _ => None,
    };
    let Some(ids) = ids else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(ids) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("null_http: {error}");
            ExitCode::FAILURE
        }
    }
}
