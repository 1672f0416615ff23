//! The load side: one connection, its requests and their replies.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use hdrhistogram::Histogram;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixStream};

use super::super::ping::push_request;
use super::super::wall_unix_ms;
use crate::id::Id;
use crate::verify::{Asked, Seen, Watch};

/// Bytes of one line of a reply; longer ones are no Redis's.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Bytes of one read.
const READ_BYTES: usize = 16 * 1024;

/// Different error texts counted on one connection; a server may put a changing number into each.
const ERROR_TEXTS_MAX: usize = 16;

/// A pause after an error reply: a server that refuses needs no thousand requests a second to say so.
const ERROR_PAUSE: Duration = Duration::from_millis(10);

/// What all connections of a run share.
pub(super) struct Plan {
    /// IDs of one MGETID; `None`: GETID.
    pub(super) batch: Option<u32>,
    /// Requests in flight.
    pub(super) pipeline: usize,
    /// For a connection, and for a reply.
    pub(super) timeout: Duration,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    /// IDs not asked for yet.
    pub(super) ids_left: AtomicU64,
    /// IDs received, for the progress bar.
    pub(super) ids_seen: AtomicU64,
    /// Time is up: ask for no more.
    pub(super) stop: AtomicBool,
}

impl Plan {
    /// How many IDs the next request is to ask for; `None` when there is to be none.
    fn next_request(&self) -> Option<u32> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let wanted = u64::from(self.batch.unwrap_or(1));
        let take = |left: u64| (left > 0).then(|| left - left.min(wanted));
        let left = self.ids_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        u32::try_from(left.min(wanted)).ok()
    }
}

/// A server's address.
pub(super) enum Target {
    Tcp(String),
    Unix(PathBuf),
}

impl Target {
    /// HOST:PORT, or a path with a slash in it.
    pub(super) fn parse(text: &str) -> Result<Target, String> {
        if text.contains('/') {
            return Ok(Target::Unix(text.into()));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(Target::Tcp(text.to_owned())),
            _ => Err(format!("'{text}' is no server: write HOST:PORT, or a Unix socket's path with a / in it")),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Tcp(text) => f.write_str(text),
            Target::Unix(path) => path.display().fmt(f),
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Latencies in µs from 1 µs to 1 hour, to 1 %.
pub(super) fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 2).unwrap_or_else(|_| unreachable!("the bounds are constants"))
}

/// One connection that is ready to draw.
pub(super) struct Load {
    reader: ReadHalf<Box<dyn Stream>>,
    writer: WriteHalf<Box<dyn Stream>>,
    plan: Arc<Plan>,
    watch: Watch,
    input: BytesMut,
    output: BytesMut,
    pending: VecDeque<Pending>,
    latency_us: Histogram<u64>,
    requests: u64,
    errors: Vec<(String, u64)>,
}

/// A request without its reply yet.
struct Pending {
    asked: Asked,
    asked_at: Instant,
    asked_unix_ms: i64,
    ids: u32,
}

/// What one connection brought.
pub(super) struct Outcome {
    pub(super) watch: Watch,
    pub(super) latency_us: Histogram<u64>,
    pub(super) requests: u64,
    pub(super) errors: Vec<(String, u64)>,
    pub(super) disconnect: Option<String>,
}

impl Load {
    /// Connects, gives the password, and makes sure that there is a server that answers.
    pub(super) async fn connect(target: &Target, plan: &Arc<Plan>, watch: Watch) -> io::Result<Load> {
        let connecting = async {
            Ok::<Box<dyn Stream>, io::Error>(match target {
                Target::Unix(path) => Box::new(UnixStream::connect(path).await?),
                Target::Tcp(address) => {
                    let stream = TcpStream::connect(address).await?;
                    stream.set_nodelay(true)?;
                    Box::new(stream)
                }
            })
        };
        let stream = tokio::time::timeout(plan.timeout, connecting).await.map_err(|_| timed_out())??;
        let (reader, writer) = tokio::io::split(stream);
        let mut load = Load {
            reader,
            writer,
            plan: Arc::clone(plan),
            watch,
            input: BytesMut::new(),
            output: BytesMut::new(),
            pending: VecDeque::new(),
            latency_us: new_histogram(),
            requests: 0,
            errors: Vec::new(),
        };
        if let Some(password) = &plan.password {
            let words: Vec<&[u8]> =
                [Some("AUTH"), plan.user.as_deref(), Some(password)].into_iter().flatten().map(str::as_bytes).collect();
            load.greet(&words).await?;
        }
        load.greet(&[b"PING"]).await?;
        Ok(load)
    }

    async fn greet(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut bytes = Vec::new();
        push_request(&mut bytes, words);
        self.output.extend_from_slice(&bytes);
        loop {
            match take_reply(&mut self.input)? {
                Some(Reply::Error(text)) => return Err(io::Error::other(text)),
                Some(_) => return Ok(()),
                None => self.exchange().await?,
            }
        }
    }

    /// Draws until the plan says stop, or the connection breaks.
    pub(super) async fn run(mut self) -> Outcome {
        let disconnect = self.draw().await.err().map(|error| error.to_string());
        let Load { watch, latency_us, requests, errors, .. } = self;
        Outcome { watch, latency_us, requests, errors, disconnect }
    }

    async fn draw(&mut self) -> io::Result<()> {
        loop {
            self.ask();
            if self.pending.is_empty() {
                return Ok(());
            }
            self.exchange().await?;
            if self.take_replies()? {
                tokio::time::sleep(ERROR_PAUSE).await;
            }
        }
    }

    /// Fills the pipeline. What is known is noted before a byte of it is sent.
    fn ask(&mut self) {
        if self.pending.len() >= self.plan.pipeline {
            return;
        }
        let asked = self.watch.server.ask();
        let (asked_at, asked_unix_ms) = (Instant::now(), wall_unix_ms());
        while self.pending.len() < self.plan.pipeline
            && let Some(ids) = self.plan.next_request()
        {
            if self.plan.batch.is_some() {
                let count = ids.to_string();
                let mut request = bytes::BufMut::writer(&mut self.output);
                let _ = write!(request, "*2\r\n$6\r\nMGETID\r\n${}\r\n{count}\r\n", count.len());
            } else {
                self.output.extend_from_slice(b"*1\r\n$5\r\nGETID\r\n");
            }
            self.pending.push_back(Pending { asked, asked_at, asked_unix_ms, ids });
        }
    }

    /// Reads something; meanwhile writes what there is to write.
    async fn exchange(&mut self) -> io::Result<()> {
        let Load { reader, writer, input, output, .. } = self;
        input.reserve(READ_BYTES);
        let exchanging = async {
            loop {
                tokio::select! {
                    biased;
                    written = writer.write(output), if !output.is_empty() => {
                        match written? {
                            0 => return Err(io::ErrorKind::WriteZero.into()),
                            written => output.advance(written),
                        }
                    }
                    read = reader.read_buf(input) => {
                        return match read? {
                            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
                            _ => Ok(()),
                        };
                    }
                }
            }
        };
        tokio::time::timeout(self.plan.timeout, exchanging).await.map_err(|_| timed_out())?
    }

    /// Shows all complete replies to the watch. True when one of them was an error.
    fn take_replies(&mut self) -> io::Result<bool> {
        let (received_at, received_unix_ms) = (Instant::now(), wall_unix_ms());
        let mut refused = false;
        while let Some(reply) = take_reply(&mut self.input)? {
            let Some(pending) = self.pending.pop_front() else {
                self.watch.wrong_reply("a reply that nobody asked for");
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the server sent more replies than requests"));
            };
            let Pending { asked, asked_at, asked_unix_ms, ids } = pending;
            let seen = Seen { asked_unix_ms, received_unix_ms };
            let latency_us = u64::try_from(received_at.duration_since(asked_at).as_micros()).unwrap_or(u64::MAX);
            self.latency_us.saturating_record(latency_us.max(1));
            self.requests += 1;
            match (reply, self.plan.batch) {
                (Reply::Error(text), _) => {
                    refused = true;
                    self.count_error(text);
                }
                (Reply::Id(id), None) => self.received(asked, seen, &[id]),
                (Reply::Ids(list), Some(_)) => {
                    if list.len() != ids as usize {
                        self.watch.wrong_reply(&format!("{} ids in reply to MGETID {ids}", list.len()));
                    }
                    self.received(asked, seen, &list);
                }
                (Reply::Other(text), _) => self.watch.wrong_reply(&format!("'{text}' in place of ids")),
                (Reply::Id(_) | Reply::Ids(_), _) => self.watch.wrong_reply("a reply of the other command's kind"),
            }
        }
        Ok(refused)
    }

    fn received(&mut self, asked: Asked, seen: Seen, ids: &[Id]) {
        for &id in ids {
            self.watch.received(asked, seen, id);
        }
        self.plan.ids_seen.fetch_add(ids.len() as u64, Ordering::Relaxed);
    }

    fn count_error(&mut self, text: String) {
        let full = self.errors.len() >= ERROR_TEXTS_MAX;
        let known = self.errors.iter().position(|(known, _)| *known == text);
        match known.or(full.then_some(0)) {
            Some(index) => self.errors[index].1 += 1,
            None => self.errors.push((text, 1)),
        }
    }
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}

/// A reply as far as this client needs it.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Id(Id),
    Ids(Vec<Id>),
    Error(String),
    /// Anything else, for people.
    Other(String),
}

/// Takes the first reply off `input` if it is whole.
fn take_reply(input: &mut BytesMut) -> io::Result<Option<Reply>> {
    let mut rest = Rest { bytes: input, at: 0 };
    let reply = rest.reply()?;
    let used = rest.at;
    if reply.is_some() {
        input.advance(used);
    }
    Ok(reply)
}

/// The bytes from `at` on are not read yet.
struct Rest<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Rest<'a> {
    fn reply(&mut self) -> io::Result<Option<Reply>> {
        let Some(line) = self.line()? else { return Ok(None) };
        let (Some(kind), text) = (line.first(), line.get(1..).unwrap_or_default()) else {
            return Err(no_resp());
        };
        match kind {
            b'*' => match parse::<usize>(text) {
                Some(count) => self.array(count),
                None => Ok(Some(other(line))),
            },
            _ => self.element(line),
        }
    }

    fn array(&mut self, count: usize) -> io::Result<Option<Reply>> {
        // No memory is taken on the word of a server: the list grows as elements come.
        let mut ids = Vec::new();
        let mut odd = None;
        for _ in 0..count {
            let Some(line) = self.line()? else { return Ok(None) };
            // An ID of an array is a bulk string, as the fork has it; an integer would do.
            let element = match line.split_first() {
                Some((b'$', text)) => self.bulk(text)?.map(|text| id(text).map_or_else(|| other(text), Reply::Id)),
                _ => self.element(line)?,
            };
            match element {
                None => return Ok(None),
                Some(Reply::Id(id)) => ids.push(id),
                Some(reply) => odd = odd.or(Some(reply)),
            }
        }
        Ok(Some(odd.unwrap_or(Reply::Ids(ids))))
    }

    fn element(&mut self, line: &'a [u8]) -> io::Result<Option<Reply>> {
        match line.split_first() {
            Some((b':', text)) => Ok(Some(id(text).map_or_else(|| other(line), Reply::Id))),
            Some((b'-', text)) => Ok(Some(Reply::Error(String::from_utf8_lossy(text).into_owned()))),
            Some((b'+', _)) => Ok(Some(other(line))),
            Some((b'$', text)) => Ok(self.bulk(text)?.map(other)),
            _ => Err(no_resp()),
        }
    }

    /// The string behind a `$` line.
    fn bulk(&mut self, len: &[u8]) -> io::Result<Option<&'a [u8]>> {
        if len == b"-1" {
            return Ok(Some(b"null"));
        }
        let len = parse::<usize>(len).filter(|&len| len <= LINE_BYTES_MAX).ok_or_else(no_resp)?;
        match self.bytes.get(self.at..self.at + len + 2) {
            None => Ok(None),
            Some(bytes) if bytes.ends_with(b"\r\n") => {
                self.at += bytes.len();
                Ok(Some(&bytes[..len]))
            }
            Some(_) => Err(no_resp()),
        }
    }

    fn line(&mut self) -> io::Result<Option<&'a [u8]>> {
        let rest = &self.bytes[self.at..];
        match rest.windows(2).position(|pair| pair == b"\r\n") {
            Some(len) => {
                self.at += len + 2;
                Ok(Some(&rest[..len]))
            }
            None if rest.len() > LINE_BYTES_MAX => Err(no_resp()),
            None => Ok(None),
        }
    }
}

fn no_resp() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the server does not speak RESP")
}

fn other(text: &[u8]) -> Reply {
    Reply::Other(String::from_utf8_lossy(&text[..text.len().min(64)]).into_owned())
}

fn id(text: &[u8]) -> Option<Id> {
    parse(text).and_then(Id::new)
}

/// A number without a sign.
fn parse<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    let digits = text.first().is_some_and(u8::is_ascii_digit);
    if digits { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The replies in `text`, however it is cut in two.
    #[track_caller]
    fn check(text: &str, expected: &[Reply]) {
        for cut in 0..=text.len() {
            let mut input = BytesMut::new();
            let mut replies = Vec::new();
            for part in [&text[..cut], &text[cut..]] {
                input.extend_from_slice(part.as_bytes());
                while let Some(reply) = take_reply(&mut input).unwrap() {
                    replies.push(reply);
                }
            }
            assert_eq!(replies, expected, "cut at {cut}");
        }
    }

    #[test]
    fn replies_are_read_however_they_are_cut() {
        let id = |number| Id::new(number).unwrap();
        check(":5\r\n:6\r\n", &[Reply::Id(id(5)), Reply::Id(id(6))]);
        check(
            "*2\r\n$1\r\n7\r\n$2\r\n18\r\n+OK\r\n",
            &[Reply::Ids(vec![id(7), id(18)]), Reply::Other("+OK".to_owned())],
        );
        check("*0\r\n-BUSY x\r\n", &[Reply::Ids(vec![]), Reply::Error("BUSY x".to_owned())]);
        check(
            ":-1\r\n$2\r\n15\r\n$-1\r\n",
            &[Reply::Other(":-1".to_owned()), Reply::Other("15".to_owned()), Reply::Other("null".to_owned())],
        );
        check(":9223372036854775808\r\n", &[Reply::Other(":9223372036854775808".to_owned())]);
        check("*2\r\n:1\r\n$1\r\nx\r\n", &[Reply::Other("x".to_owned())]);
    }

    #[test]
    fn what_is_no_resp_is_an_error() {
        for text in ["HTTP/1.1 400 Bad Request\r\n", "\r\n", "$5\r\nabcdefgh\r\n", "$99999999999\r\n", "*1\r\n*1\r\n"] {
            assert!(take_reply(&mut text.into()).is_err(), "{text:?}");
        }
        assert!(take_reply(&mut BytesMut::from(&vec![b'+'; LINE_BYTES_MAX + 2][..])).is_err());
    }
}
