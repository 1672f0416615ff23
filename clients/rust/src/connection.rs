//! Connection to one server: RESP2 over TCP, TLS or a Unix socket, closed on any doubt.
//!
//! A reply is read to its end or the connection is dropped, so no request ever reads the reply of another one.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
#[cfg(unix)]
use std::os::fd::{AsFd, AsRawFd};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use crate::address::{Address, Target};
use crate::tls::{TlsConfig, wrap};

pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_secs(6);
const LINE_BYTES_MAX: usize = 64 * 1024;
const BULK_BYTES_MAX: i64 = 1024 * 1024;
const ARRAY_LENGTH_MAX: i64 = 1_000_000;
const DEPTH_MAX: usize = 4;
/// Most bytes of a whole reply.
const REPLY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Time between two ticks while a reply is waited for.
const TICK: Duration = Duration::from_millis(100);
const READ_BYTES: usize = 16 * 1024;
/// Most threads of a process that wait for calls of the system without a time-out.
const HELPERS_MAX: usize = 8;

/// Reply of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Status(String),
    Error(ServerError),
    Integer(i64),
    Bulk(Vec<u8>),
    Array(Vec<Reply>),
    Null,
}

/// Error that a server returned as its reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerError {
    pub(crate) text: String,
}

impl ServerError {
    /// First word of the error.
    pub(crate) fn code(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    /// Whether the server has no room for another connection.
    pub(crate) fn is_full(&self) -> bool {
        self.text.starts_with("ERR max number of clients reached")
    }
}

/// Failure of a connection, which is closed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection was lost. With `is_connect` no request had been sent on it.
    Lost { reason: String, is_connect: bool },
    /// The server returned an error to `AUTH`.
    Login(ServerError),
}

/// Returns the failure for a reply of unexpected form.
pub(crate) fn unexpected(what: impl std::fmt::Display) -> Failure {
    Failure::Lost { reason: format!("unexpected reply: {what}"), is_connect: false }
}

/// Called again and again while a reply is waited for.
pub(crate) type Tick = Box<dyn Fn() + Send + Sync>;

/// Socket whose reads and writes end at its deadline, and which another thread can shut down.
pub(crate) struct Socket {
    kind: SocketKind,
    deadline: Mutex<Instant>,
    tick: Tick,
}

#[derive(Debug)]
enum SocketKind {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

macro_rules! with_stream {
    ($socket:expr, $stream:ident => $action:expr) => {
        match &$socket.kind {
            SocketKind::Tcp($stream) => $action,
            #[cfg(unix)]
            SocketKind::Unix($stream) => $action,
        }
    };
}

impl Socket {
    /// Returns the error of a wait that has passed, or none before the deadline.
    fn check_wait(&self, error: io::Error) -> io::Result<()> {
        let is_timed_out = matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock);
        if !is_timed_out || self.left().is_err() {
            return Err(error);
        }
        (self.tick)();
        Ok(())
    }

    /// Ends a read or write that another thread has under way. Sends no byte, also with TLS.
    pub(crate) fn shut_down(&self) {
        let _ = with_stream!(self, stream => stream.shutdown(Shutdown::Both));
    }

    /// Descriptor, -1 where the system has none.
    pub(crate) fn descriptor(&self) -> i32 {
        #[cfg(unix)]
        return with_stream!(self, stream => stream.as_raw_fd());
        #[cfg(not(unix))]
        return -1;
    }

    fn set_deadline(&self, deadline: Instant) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
    }

    fn left(&self) -> io::Result<Duration> {
        let deadline = *self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// Reader and writer of a shared socket.
pub(crate) struct SharedSocket(Arc<Socket>);

impl Read for SharedSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let wait = self.0.left()?.min(TICK);
            let read =
                with_stream!(self.0, stream => { stream.set_read_timeout(Some(wait))?; (&*stream).read(buffer) });
            match read {
                Err(error) => self.0.check_wait(error)?,
                read => return read,
            }
        }
    }
}

impl Write for SharedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.0.left()?;
        with_stream!(self.0, stream => { stream.set_write_timeout(Some(left))?; (&*stream).write(bytes) })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes to and from a server, in clear or encrypted.
pub(crate) trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// One connection. Used by one thread at a time; [`Socket::shut_down`] may come from another one.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    socket: Arc<Socket>,
    buffer: Vec<u8>,
    start: usize,
    received: usize,
    elements: i64,
}

impl Connection {
    /// Connects and logs in before `deadline`. `register` gets the socket before anything is sent, and returns whether
    /// to go on.
    pub(crate) fn open(
        target: &Target,
        address: &Address,
        tls: Option<&TlsConfig>,
        deadline: Instant,
        tick: Tick,
        register: &dyn Fn(&Arc<Socket>) -> bool,
    ) -> Result<Connection, Failure> {
        let lost = |error: &io::Error| Failure::Lost {
            reason: format!("connect to {address}: {}", reason_of(error)),
            is_connect: true,
        };
        let kind = connect(address, deadline).map_err(|error| lost(&error))?;
        let socket = Arc::new(Socket { kind, deadline: Mutex::new(deadline), tick });
        if !register(&socket) {
            return Err(Failure::Lost { reason: "the client was closed".into(), is_connect: true });
        }
        let stream: Box<dyn Stream> = match (address, target.is_tls) {
            (Address::Tcp { host, .. }, true) => {
                wrap(host, SharedSocket(Arc::clone(&socket)), tls).map_err(|error| lost(&error))?
            }
            _ => Box::new(SharedSocket(Arc::clone(&socket))),
        };
        let mut connection = Connection { stream, socket, buffer: Vec::new(), start: 0, received: 0, elements: 0 };
        if !target.login.is_empty() {
            connection.log_in(target, deadline).map_err(|failure| match failure {
                Failure::Lost { reason, .. } => {
                    Failure::Lost { reason: format!("connect to {address}: AUTH: {reason}"), is_connect: true }
                }
                login @ Failure::Login(_) => login,
            })?;
        }
        Ok(connection)
    }

    fn log_in(&mut self, target: &Target, deadline: Instant) -> Result<(), Failure> {
        let mut arguments: Vec<&[u8]> = vec![b"AUTH"];
        arguments.extend(target.login.iter().map(Vec::as_slice));
        match self.request(&encode(&arguments), deadline)? {
            Reply::Status(text) if text == "OK" => Ok(()),
            Reply::Error(error) => Err(Failure::Login(error)),
            _ => Err(unexpected("no OK")),
        }
    }

    /// Sends a request and returns its reply. After a failure the caller drops the connection.
    pub(crate) fn request(&mut self, request: &[u8], deadline: Instant) -> Result<Reply, Failure> {
        if self.start < self.buffer.len() {
            return Err(unexpected("bytes before the request"));
        }
        self.buffer.clear();
        (self.start, self.received, self.elements) = (0, 0, 0);
        self.socket.set_deadline(deadline);
        let sent = self.stream.write_all(request).and_then(|()| self.stream.flush());
        sent.map_err(|error| lost(&error))?;
        let reply = self.read_reply(DEPTH_MAX)?;
        if self.start < self.buffer.len() { Err(unexpected("bytes behind the reply")) } else { Ok(reply) }
    }

    fn read_reply(&mut self, depth: usize) -> Result<Reply, Failure> {
        let line = self.read_line()?;
        let (&kind, rest) = line.split_first().unwrap_or((&b' ', b""));
        match kind {
            b'+' => Ok(Reply::Status(String::from_utf8_lossy(rest).into_owned())),
            b'-' => Ok(Reply::Error(ServerError { text: String::from_utf8_lossy(rest).into_owned() })),
            b':' => parse_integer(rest).map(Reply::Integer),
            b'$' => match parse_length("bulk string", rest, BULK_BYTES_MAX)? {
                Some(size) => self.read_bulk(size).map(Reply::Bulk),
                None => Ok(Reply::Null),
            },
            b'*' => match parse_length("array", rest, ARRAY_LENGTH_MAX)? {
                Some(length) => self.read_array(length, depth),
                None => Ok(Reply::Null),
            },
            _ => Err(unexpected("its first byte is none of + - : $ *")),
        }
    }

    fn read_array(&mut self, length: usize, depth: usize) -> Result<Reply, Failure> {
        if depth == 0 {
            return Err(unexpected(format_args!("arrays nested deeper than {DEPTH_MAX}")));
        }
        let mut elements = Vec::new();
        for _ in 0..length {
            self.elements += 1;
            if self.elements > ARRAY_LENGTH_MAX {
                return Err(unexpected(format_args!("more than {ARRAY_LENGTH_MAX} elements")));
            }
            elements.push(self.read_reply(depth - 1)?);
        }
        Ok(Reply::Array(elements))
    }

    fn read_line(&mut self) -> Result<Vec<u8>, Failure> {
        let mut searched = self.start;
        loop {
            let found = self.buffer[searched..].windows(2).position(|pair| pair == b"\r\n").map(|at| searched + at);
            let end = found.unwrap_or(self.buffer.len());
            if end - self.start > LINE_BYTES_MAX + 1 || (found.is_some() && end - self.start > LINE_BYTES_MAX) {
                return Err(unexpected(format_args!("a line has more than {LINE_BYTES_MAX} bytes")));
            }
            if found.is_some() {
                let line = self.buffer[self.start..end].to_vec();
                self.start = end + 2;
                return Ok(line);
            }
            searched = self.start.max(self.buffer.len().saturating_sub(1));
            self.read_more()?;
        }
    }

    fn read_bulk(&mut self, size: usize) -> Result<Vec<u8>, Failure> {
        while self.buffer.len() - self.start < size + 2 {
            self.read_more()?;
        }
        let end = self.start + size;
        if &self.buffer[end..end + 2] != b"\r\n" {
            return Err(unexpected("a bulk string without CRLF at its end"));
        }
        let bytes = self.buffer[self.start..end].to_vec();
        self.start = end + 2;
        Ok(bytes)
    }

    fn read_more(&mut self) -> Result<(), Failure> {
        if self.received > REPLY_BYTES_MAX {
            return Err(unexpected(format_args!("more than {REPLY_BYTES_MAX} bytes")));
        }
        let mut chunk = [0; READ_BYTES];
        let read = loop {
            match self.stream.read(&mut chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.map_err(|error| lost(&error))?,
            }
        };
        if read == 0 {
            return Err(Failure::Lost { reason: "the server closed the connection".into(), is_connect: false });
        }
        self.received += read;
        self.buffer.extend_from_slice(&chunk[..read]);
        Ok(())
    }
}

fn lost(error: &io::Error) -> Failure {
    Failure::Lost { reason: reason_of(error), is_connect: false }
}

fn reason_of(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "no reply within the time-out".into(),
        _ => error.to_string(),
    }
}

/// Returns a request: an array of bulk strings.
pub(crate) fn encode(arguments: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        request.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        request.extend_from_slice(argument);
        request.extend_from_slice(b"\r\n");
    }
    request
}

fn parse_integer(text: &[u8]) -> Result<i64, Failure> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let number = std::str::from_utf8(text).ok().filter(|_| digits.iter().all(u8::is_ascii_digit));
    number.and_then(|number| number.parse().ok()).ok_or_else(|| unexpected("no integer of 64 bits"))
}

fn parse_length(what: &str, text: &[u8], max: i64) -> Result<Option<usize>, Failure> {
    let length = parse_integer(text)?;
    if !(-1..=max).contains(&length) {
        return Err(unexpected(format_args!("length of the {what} is {length}, must be at most {max}")));
    }
    Ok(usize::try_from(length).ok())
}

fn connect(address: &Address, deadline: Instant) -> io::Result<SocketKind> {
    let (host, port) = match address {
        Address::Tcp { host, port } => (host, *port),
        Address::Unix(path) => return connect_unix(path, deadline),
    };
    let mut last = io::Error::other("the host name has no address");
    let places = resolve(host, port, deadline)?;
    for (index, place) in (0..).zip(&places) {
        // An address that does not answer leaves time for the others.
        let shares = u32::try_from(places.len()).unwrap_or(u32::MAX) - index;
        let left = deadline.saturating_duration_since(Instant::now()) / shares;
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(place, left) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                #[cfg(unix)]
                crate::system::keep_alive(stream.as_fd());
                return Ok(SocketKind::Tcp(stream));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(unix)]
fn connect_unix(path: &std::path::Path, deadline: Instant) -> io::Result<SocketKind> {
    let path = path.to_owned();
    run_until(deadline, move || UnixStream::connect(path).map(SocketKind::Unix))
}

#[cfg(not(unix))]
fn connect_unix(_: &std::path::Path, _: Instant) -> io::Result<SocketKind> {
    Err(io::Error::other("this system has no Unix sockets: use getid://"))
}

/// Resolves a host name before `deadline`.
fn resolve(host: &str, port: u16, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let name = host.to_owned();
    run_until(deadline, move || (name.as_str(), port).to_socket_addrs().map(Iterator::collect))
}

/// Runs a call of the system that has no time-out in a thread of its own, and waits for it until `deadline`.
fn run_until<T: Send + 'static>(
    deadline: Instant,
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    if !change_helpers(|count| if count < HELPERS_MAX { Some(count + 1) } else { None }) {
        return Err(io::Error::other(format!("{HELPERS_MAX} calls of the system that do not return are under way")));
    }
    let (sender, receiver) = mpsc::channel();
    let helper = move || {
        let result = call();
        change_helpers(|count| count.checked_sub(1));
        let _ = sender.send(result);
    };
    if let Err(error) = std::thread::Builder::new().name("getid-connect".into()).spawn(helper) {
        change_helpers(|count| count.checked_sub(1));
        return Err(error);
    }
    let left = deadline.saturating_duration_since(Instant::now());
    receiver.recv_timeout(left).map_err(|_| io::Error::from(ErrorKind::TimedOut))?
}

/// Changes the number of helper threads of this process. Those of a parent do not count in its child.
fn change_helpers(change: impl Fn(usize) -> Option<usize>) -> bool {
    static HELPERS: AtomicUsize = AtomicUsize::new(0);
    let forks = crate::system::forks() << 8;
    let update = |found: usize| {
        let count = if found & !0xff == forks { found & 0xff } else { 0 };
        change(count).map(|count| forks | count)
    };
    HELPERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).is_ok()
}
