//! What does a request cost if the server does no work for it?
//!
//! A server that sends a constant reply to each request: the system calls and the runtime, and nothing else. It does
//! not parse its input; it only divides the number of bytes by the length of a request. So the quotient of getid's cost
//! and this one's shows what getid adds. It is built like getid: one thread, one read and one write per wake-up, and a
//! buffer per thread rather than one per connection.
//!
//! This does not measure what a server could do by other means than a read and a write per wake-up (`io_uring`, busy
//! polling, a kernel bypass).
//!
//! `cargo build --profile dist --example null_server`, then
//! `null_server --request '*1\r\n$5\r\nGETID\r\n' --reply ':144182182078841378\r\n' [--unixsocket PATH]`
//! prints the TCP port that the system picked, and serves until it is killed. `benches/compare` does all that.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "a test includes this file too")]

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, Write as _};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, UnixListener};

/// Size of the read buffer, as in getid, bytes.
const READ_BYTES: usize = 16 * 1024;

/// Size of the prepared replies, bytes; more replies take more than one write.
const READY_BYTES: usize = 256 * 1024;

/// A request's size and its reply, repeated many times.
pub struct Constant {
    request_bytes: usize,
    reply_bytes: usize,
    ready: Vec<u8>,
}

impl Constant {
    /// Prepares the replies; `None` without a request or a reply.
    pub fn new(request: &[u8], reply: &[u8]) -> Option<Constant> {
        if request.is_empty() || reply.is_empty() {
            return None;
        }
        let ready = reply.repeat((READY_BYTES / reply.len()).max(1));
        Some(Constant { request_bytes: request.len(), reply_bytes: reply.len(), ready })
    }
}

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Reads once into the thread's buffer. It uses `poll_read`, which does not read a drained socket a second time, as
/// `try_read` does.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
    poll_fn(|cx| {
        BUFFER.with_borrow_mut(|buffer| {
            let mut room = ReadBuf::new(buffer);
            Pin::new(&mut *stream).poll_read(cx, &mut room).map_ok(|()| room.filled().len())
        })
    })
    .await
}

/// Answers one client until it disconnects.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, constant: Arc<Constant>) -> io::Result<()> {
    let mut bytes = 0;
    loop {
        match read(&mut stream).await? {
            0 => return Ok(()),
            n => bytes += n,
        }
        let mut left = bytes / constant.request_bytes * constant.reply_bytes;
        bytes %= constant.request_bytes;
        while left > 0 {
            let part = left.min(constant.ready.len());
            stream.write_all(&constant.ready[..part]).await?;
            left -= part;
        }
    }
}

/// Serves clients over TCP for ever.
///
/// # Errors
///
/// Fails if `accept` does.
pub async fn serve_tcp(listener: TcpListener, constant: Arc<Constant>) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(answer(stream, Arc::clone(&constant)));
    }
}

/// Serves clients over a Unix socket for ever.
///
/// # Errors
///
/// Fails if `accept` does.
pub async fn serve_unix(listener: UnixListener, constant: Arc<Constant>) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer(stream, Arc::clone(&constant)));
    }
}

/// Replaces `\r` and `\n` as in a string literal.
pub fn unescape(text: &str) -> Vec<u8> {
    text.replace("\\r", "\r").replace("\\n", "\n").into_bytes()
}

const USAGE: &str = "usage: null_server --request ESCAPED --reply ESCAPED [--unixsocket PATH]";

fn main() -> ExitCode {
    let (mut request, mut reply, mut unixsocket) = (Vec::new(), Vec::new(), None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match (word.as_str(), words.next()) {
            ("--request", Some(text)) => request = unescape(&text),
            ("--reply", Some(text)) => reply = unescape(&text),
            ("--unixsocket", Some(path)) => unixsocket = Some(path),
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let Some(constant) = Constant::new(&request, &reply) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(Arc::new(constant), unixsocket) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("null_server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(constant: Arc<Constant>, unixsocket: Option<String>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let unix = unixsocket.map(UnixListener::bind).transpose()?;
        let tcp = TcpListener::bind(("127.0.0.1", 0)).await?;
        writeln!(io::stdout(), "{}", tcp.local_addr()?.port())?;
        io::stdout().flush()?;
        if let Some(unix) = unix {
            tokio::spawn(serve_unix(unix, Arc::clone(&constant)));
        }
        serve_tcp(tcp, constant).await
    })
}
