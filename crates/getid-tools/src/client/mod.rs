//! The tools' client: reaches a server by TCP, TLS or a Unix socket, and logs in.
//!
//! A connection has one time limit for its whole set-up: the look-up, the connect, the handshake, the login. Afterwards
//! it is a pair of `read` and `write`, blocking or not. So an epoll of many connections, a Tokio task and a health
//! check use the same type.
//!
//! Every error names its remedy, because a user at a command line has no other help.

mod tls;

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Type};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConnection};

pub use self::tls::{Tls, TlsFileError, TlsFiles};
use super::address::Address;
use super::replies::{
    FlatReply, IdReplyCollector, InvalidReply, Replies, Reply, ReplyCollector, ValueCollector, push_request,
};
use getid_text::printable::printable;

/// A server, with the settings of connections to it.
#[derive(Debug)]
pub struct Endpoint {
    /// Address of the server.
    pub address: Address,
    /// Settings of TLS; `None` for an unencrypted connection.
    pub tls: Option<Tls>,
    /// Credentials for AUTH; `None` for a connection without AUTH.
    pub login: Option<Login>,
    /// Database that is selected after the login, unless it is 0.
    pub database: u32,
    /// Time-out of a connection's set-up, and of a reply.
    pub timeout: Duration,
    /// Addresses of the host's name, once they were looked up.
    pub addresses: OnceLock<Vec<SocketAddr>>,
}

/// Credentials of a user.
#[derive(Clone)]
pub struct Login {
    /// User name; `None` for the default user.
    pub user: Option<String>,
    /// Password, which `Debug` does not print.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Why a server could not be reached, or did not answer as a server of Redis's protocol. `Display` includes the remedy,
/// and no control characters.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The look-up of the host's name failed or passed the time-out. Holds the quoted name and the reason.
    #[error("the host has no address: {0}. Is the name right?")]
    Lookup(String),
    /// The system could not connect to the address.
    #[error("{}", connect_sentence(.0))]
    Connect(io::Error),
    /// The time-out passed before a connection was open. Holds the time-out, ms.
    #[error("no connection within {0} ms: is the address right, and does a firewall let this through?")]
    ConnectTimeout(u128),
    /// The time-out passed before the handshake or the replies were complete.
    #[error(
        "no answer within {ms} ms: does the server hang, or does this port {}?",
        if *.tls { "not speak TLS" } else { "speak TLS (--tls)" }
    )]
    Timeout {
        /// Time-out, ms.
        ms: u128,
        /// Whether the client uses TLS.
        tls: bool,
    },
    /// The server closed or reset the connection.
    #[error("the server closed the connection{}", if *.tls { "" } else { "; if this port speaks TLS: --tls" })]
    Closed {
        /// Whether the client uses TLS.
        tls: bool,
    },
    /// TLS failed, for example by the server's certificate or an alert.
    #[error("TLS: {}", tls_sentence(.0))]
    Tls(rustls::Error),
    /// The expected name of the server is neither a DNS name nor an IP address. Holds the name.
    #[error("TLS: '{0}' is not a name that a certificate can have; --sni NAME gives the expected name")]
    ServerName(String),
    /// The received bytes are not replies of Redis's protocol.
    #[error("{}", invalid_reply_sentence(.0))]
    InvalidReply(InvalidReply),
    /// The client received more replies than it had sent requests.
    #[error("the server sent more replies than there were requests: is it a Redis protocol server?")]
    TooMany,
    /// The server replied with an error to a command that sets up or checks the connection.
    #[error("{command}: {}{}", printable(.text), login_help(.text))]
    Refused {
        /// Command name, such as AUTH.
        command: &'static str,
        /// Text of the server's error, unescaped.
        text: String,
    },
    /// Any other error of a socket.
    #[error("{0}")]
    Io(io::Error),
}

fn connect_sentence(error: &io::Error) -> String {
    let help = match error.kind() {
        io::ErrorKind::ConnectionRefused => ": no server listens there. Is the server running, and is this its port?",
        io::ErrorKind::NotFound => ": is this the server's unixsocket, and is the server running?",
        io::ErrorKind::PermissionDenied => ": the server's unixsocketperm sets which users may connect",
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => ": is the address right?",
        _ => "",
    };
    format!("{error}{help}")
}

fn tls_sentence(error: &rustls::Error) -> String {
    use rustls::{CertificateError, Error};
    let help = match error {
        Error::InvalidMessage(_) => "the server does not speak TLS on this port: leave --tls out, or name its tls-port",
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "no trusted authority has signed the server's certificate: --cacert FILE gives the authority that did"
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "the server's certificate is for another name: --sni NAME gives the expected name",
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "the server's certificate has expired: the server needs a new one"
        }
        Error::AlertReceived(_) => "the server refused: it may require a client certificate (--cert and --key)",
        Error::NoCertificatesPresented => "the server has no certificate",
        _ => return printable(&error.to_string()).into_owned(),
    };
    format!("{help} ({})", printable(&error.to_string()))
}

fn invalid_reply_sentence(error: &InvalidReply) -> String {
    if error.is_tls() {
        return "the server speaks TLS on this port: --tls".to_owned();
    }
    format!("{}; is this a Redis protocol server, and the right port?", printable(&error.to_string()))
}

fn login_help(text: &str) -> &'static str {
    match text.split(' ').next() {
        Some("WRONGPASS") => {
            " The password comes from --password-file, --password, the URL, REDISCLI_AUTH or GETID_REQUIREPASS"
        }
        Some("NOAUTH") => " --password-file FILE or REDISCLI_AUTH gives the password, --user the user",
        Some("ERR") if text.contains("without any password") => " (this server needs no password: unset REDISCLI_AUTH)",
        _ => "",
    }
}

impl Endpoint {
    /// Connects, completes the TLS handshake, logs in and selects the database, all within the time-out.
    ///
    /// # Errors
    ///
    /// Fails if the connection is not open within the time-out, TLS fails, or the server refuses AUTH or SELECT.
    pub fn connect(&self) -> Result<Connection, ClientError> {
        self.connect_by(&Deadline::after(self.timeout))
    }

    /// Connects, logs in, sends requests and waits for as many replies, all within the time-out. If the server rejects
    /// the client, the last reply is its error, and later replies are missing.
    ///
    /// # Errors
    ///
    /// Fails if [`Endpoint::connect`] fails, the connection ends or the time-out passes before the replies are
    /// complete, or they are invalid or too many.
    pub fn request_once(&self, requests: &[u8], replies: usize) -> Result<Vec<Reply>, ClientError> {
        let deadline = Deadline::after(self.timeout);
        self.connect_by(&deadline)?.exchange(requests, replies, &deadline)
    }

    fn tls_connection(&self, tls: &Tls) -> Result<Box<ClientConnection>, ClientError> {
        let host = tls.expected_name(&self.address).to_owned();
        let name = ServerName::try_from(host.clone()).map_err(|_| ClientError::ServerName(host))?;
        Ok(Box::new(ClientConnection::new(tls.config(), name).map_err(ClientError::Tls)?))
    }

    fn connect_by(&self, deadline: &Deadline) -> Result<Connection, ClientError> {
        let socket = self.open(deadline)?;
        let tls = self.tls.as_ref().map(|tls| self.tls_connection(tls)).transpose()?;
        let mut connection = Connection { socket, tls };
        connection.complete_handshake(deadline)?;
        self.log_in(&mut connection, deadline)?;
        Ok(connection)
    }

    fn open(&self, deadline: &Deadline) -> Result<Socket, ClientError> {
        let Address::Tcp { host, port } = &self.address else { return self.open_unix(deadline) };
        let addresses = if let Some(addresses) = self.addresses.get() {
            addresses
        } else {
            let found = look_up(host, *port, deadline)?;
            self.addresses.get_or_init(|| found)
        };
        let mut last_error = ClientError::Lookup(format!("'{host}'"));
        for address in addresses {
            let left = deadline.left().ok_or_else(|| deadline.connect_timeout())?;
            last_error = match TcpStream::connect_timeout(address, left) {
                Ok(stream) => {
                    // Otherwise a request that is written in two pieces waits for the acknowledgement of the first.
                    stream.set_nodelay(true).map_err(ClientError::Io)?;
                    return Ok(Socket::Tcp(stream));
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => deadline.connect_timeout(),
                Err(error) => ClientError::Connect(error),
            };
        }
        Err(last_error)
    }

    /// Connects to a Unix socket. A blocking connect would wait until a server with a full queue accepts.
    fn open_unix(&self, deadline: &Deadline) -> Result<Socket, ClientError> {
        let Address::Unix(path) = &self.address else { return Err(deadline.connect_timeout()) };
        let address = SockAddr::unix(path).map_err(ClientError::Connect)?;
        let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None).map_err(ClientError::Io)?;
        socket.set_nonblocking(true).map_err(ClientError::Io)?;
        while let Err(error) = socket.connect(&address) {
            if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) {
                return Err(ClientError::Connect(error));
            }
            // The queue is full, and there is no event for its next free place.
            deadline.left().ok_or_else(|| deadline.connect_timeout())?;
            thread::sleep(Duration::from_millis(5));
        }
        socket.set_nonblocking(false).map_err(ClientError::Io)?;
        Ok(Socket::Unix(UnixStream::from(OwnedFd::from(socket))))
    }

    fn log_in(&self, connection: &mut Connection, deadline: &Deadline) -> Result<(), ClientError> {
        let mut requests = Vec::new();
        let mut commands = Vec::new();
        if let Some(Login { user, password }) = &self.login {
            let words: Vec<&str> = [Some("AUTH"), user.as_deref(), Some(password)].into_iter().flatten().collect();
            push_request(&mut requests, &words);
            commands.push("AUTH");
        }
        if self.database > 0 {
            push_request(&mut requests, &["SELECT", &self.database.to_string()]);
            commands.push("SELECT");
        }
        if commands.is_empty() {
            return Ok(());
        }
        let replies = connection.exchange(&requests, commands.len(), deadline)?;
        for (command, reply) in commands.into_iter().zip(replies) {
            if let Reply::Error(text) = reply {
                return Err(ClientError::Refused { command, text });
            }
        }
        Ok(())
    }

    /// Sends requests on a connection of [`Endpoint::connect`], and waits for as many replies, as
    /// [`Endpoint::request_once`] does.
    ///
    /// # Errors
    ///
    /// Fails if the connection ends or the time-out passes before the replies are complete, or they are invalid or too
    /// many.
    pub fn request(
        &self,
        connection: &mut Connection,
        requests: &[u8],
        replies: usize,
    ) -> Result<Vec<Reply>, ClientError> {
        connection.exchange(requests, replies, &Deadline::after(self.timeout))
    }

    /// Sends requests on a connection, and waits for as many replies, which are no IDs.
    ///
    /// # Errors
    ///
    /// Fails if the connection ends or the time-out passes before the replies are complete, or they are invalid or too
    /// many.
    pub fn request_values(
        &self,
        connection: &mut Connection,
        requests: &[u8],
        replies: usize,
    ) -> Result<Vec<FlatReply>, ClientError> {
        connection.collect::<ValueCollector>(requests, replies, &Deadline::after(self.timeout))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.address.to_string()))
    }
}

/// Looks up the addresses of a host. The system's resolver cannot be stopped, so it runs in a thread that may be
/// abandoned.
fn look_up(host: &str, port: u16, deadline: &Deadline) -> Result<Vec<SocketAddr>, ClientError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (sender, receiver) = mpsc::channel();
    let name = host.to_owned();
    thread::spawn(move || sender.send((name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>)));
    let left = deadline.left().unwrap_or_default();
    match receiver.recv_timeout(left) {
        Ok(Ok(addresses)) if !addresses.is_empty() => Ok(addresses),
        Ok(Ok(_)) => Err(ClientError::Lookup(format!("'{}'", printable(host)))),
        Ok(Err(error)) => Err(ClientError::Lookup(format!("'{}': {error}", printable(host)))),
        Err(_) => Err(ClientError::Lookup(format!("'{}' was not found within {} ms", printable(host), deadline.ms()))),
    }
}

#[derive(Debug)]
struct Deadline {
    at: Instant,
    timeout: Duration,
}

impl Deadline {
    fn after(timeout: Duration) -> Deadline {
        Deadline { at: Instant::now() + timeout, timeout }
    }

    /// Returns the time left; `None` if the deadline has passed.
    fn left(&self) -> Option<Duration> {
        Some(self.at.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    fn ms(&self) -> u128 {
        self.timeout.as_millis()
    }

    fn connect_timeout(&self) -> ClientError {
        ClientError::ConnectTimeout(self.ms())
    }
}

/// An open connection to a server, with or without TLS.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connection {
    /// Makes the connection non-blocking: calls that would wait return [`io::ErrorKind::WouldBlock`].
    ///
    /// # Errors
    ///
    /// Fails if the system cannot change the mode of the socket.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        match &self.socket {
            Socket::Tcp(stream) => stream.set_nonblocking(true),
            Socket::Unix(stream) => stream.set_nonblocking(true),
        }
    }

    /// Reads available bytes. 0 means that the server closed. On an encrypted connection, `buffer` may be too small for
    /// all received bytes: read until it would block.
    ///
    /// # Errors
    ///
    /// Fails if the socket fails or would block. An error of TLS has the kind [`io::ErrorKind::InvalidData`].
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.read(buffer) };
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // An end without TLS's close message is an end too.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            if tls.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            tls.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    /// Accepts some of `bytes` for sending; unsent TLS records go first.
    ///
    /// # Errors
    ///
    /// Fails if the socket fails, or would block before any byte is accepted.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.write(bytes) };
        while tls.wants_write() {
            tls.write_tls(&mut self.socket)?;
        }
        let taken = tls.writer().write(bytes)?;
        self.flush().or_else(|error| if error.kind() == io::ErrorKind::WouldBlock { Ok(()) } else { Err(error) })?;
        Ok(taken)
    }

    /// Sends the unsent TLS records. Does nothing on an unencrypted connection.
    ///
    /// # Errors
    ///
    /// Fails if the socket fails or would block.
    pub fn flush(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                tls.write_tls(&mut self.socket)?;
            }
        }
        Ok(())
    }

    /// Whether accepted bytes are still unsent.
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Sets the remaining time as the time-out of the next blocking calls.
    fn set_timeouts(&self, deadline: &Deadline) -> io::Result<()> {
        let left = Some(deadline.left().ok_or(io::ErrorKind::TimedOut)?);
        match &self.socket {
            Socket::Tcp(stream) => stream.set_read_timeout(left).and(stream.set_write_timeout(left)),
            Socket::Unix(stream) => stream.set_read_timeout(left).and(stream.set_write_timeout(left)),
        }
    }

    fn complete_handshake(&mut self, deadline: &Deadline) -> Result<(), ClientError> {
        let failed = |error: io::Error| error_of(error, deadline, true);
        while self.is_tls() {
            self.set_timeouts(deadline).map_err(failed)?;
            let Some(tls) = &mut self.tls else { break };
            if tls.wants_write() {
                tls.write_tls(&mut self.socket).map_err(failed)?;
            } else if !tls.is_handshaking() {
                return Ok(());
            } else {
                if tls.read_tls(&mut self.socket).map_err(failed)? == 0 {
                    return Err(ClientError::Closed { tls: true });
                }
                tls.process_new_packets().map_err(ClientError::Tls)?;
            }
        }
        Ok(())
    }

    fn exchange(&mut self, requests: &[u8], count: usize, deadline: &Deadline) -> Result<Vec<Reply>, ClientError> {
        self.collect::<IdReplyCollector>(requests, count, deadline)
    }

    /// Sends, and reads until that many replies have arrived, or one that ends the connection. It blocks.
    fn collect<G: ReplyCollector>(
        &mut self,
        requests: &[u8],
        count: usize,
        deadline: &Deadline,
    ) -> Result<Vec<G::Reply>, ClientError> {
        let is_tls = self.is_tls();
        let failed = |error: io::Error| error_of(error, deadline, is_tls);
        // A server that rejects the connection may have replied and closed already. Its reply explains more than this
        // error.
        let mut unsent = None;
        let mut rest = requests;
        while !rest.is_empty() && unsent.is_none() {
            self.set_timeouts(deadline).map_err(failed)?;
            match self.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => unsent = Some(error),
            }
        }
        let (mut scanner, mut collector) = (Replies::default(), G::default());
        let mut buffer = [0; 4096];
        while collector.replies().len() < count {
            self.set_timeouts(deadline).map_err(failed)?;
            let ended = match self.read(&mut buffer) {
                Ok(0) => ClientError::Closed { tls: is_tls },
                Ok(n) => {
                    scanner.scan(&buffer[..n], &mut collector).map_err(ClientError::InvalidReply)?;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error_of(error, deadline, is_tls),
            };
            // The server's last error.
            if collector.ends_with_error() {
                return Ok(collector.into_replies());
            }
            return Err(match unsent {
                Some(error) if matches!(ended, ClientError::Io(_)) => failed(error),
                _ => ended,
            });
        }
        if collector.replies().len() > count {
            return Err(ClientError::TooMany);
        }
        Ok(collector.into_replies())
    }
}

/// Converts the error of a read or write.
fn error_of(error: io::Error, deadline: &Deadline, tls: bool) -> ClientError {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => ClientError::Timeout { ms: deadline.ms(), tls },
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => ClientError::Closed { tls },
        io::ErrorKind::InvalidData => match error.downcast::<rustls::Error>() {
            Ok(error) => ClientError::Tls(error),
            Err(error) => ClientError::Io(error),
        },
        _ => ClientError::Io(error),
    }
}

impl ClientError {
    /// Converts the error of a read or write on a connection that worked before.
    pub fn of(error: io::Error, connection: &Connection, timeout: Duration) -> ClientError {
        error_of(error, &Deadline::after(timeout), connection.is_tls())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsRawFd for Connection {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
