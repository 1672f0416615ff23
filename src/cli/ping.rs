//! `getid ping`: a health check that needs nothing but this binary.
//!
//! It really asks and really waits for the answer: a port that accepts while the server hangs is not healthy. A server
//! that answers "who are you" is: it has read a request and replied, and no restart would bring it a password. So
//! NOAUTH and NOPERM count as alive, while a password that was given and is wrong does not.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use super::output::{complain, finish, print};

/// The port when nobody says one, as the server has it.
const PORT_DEFAULT: u16 = 7890;

/// Bytes of one reply line; the longest, that of protected mode, has about 1,000.
const LINE_BYTES_MAX: u64 = 16 * 1024;

/// Arguments of `getid ping`.
#[derive(Args)]
#[command(after_help = "\
Without arguments it asks where `getid serve` in the same environment listens: GETID_PORT (7890), or GETID_UNIXSOCKET
when GETID_PORT is 0. The password comes from --password, REDISCLI_AUTH (as with redis-cli) or GETID_REQUIREPASS; the
environment does not show in `ps`.

Exit code 0: the server answered PONG, or answered that it wants a password (NOAUTH) or that this user may not ping
(NOPERM): it is alive. Exit code 1: anything else, no answer in time included.

Examples:
  getid ping
  getid ping --host 10.0.0.5 --port 7890 --timeout-ms 500
  getid ping --unixsocket /run/getid/getid.sock
  HEALTHCHECK CMD [\"getid\", \"ping\"]          # in a Dockerfile")]
pub(super) struct PingArgs {
    /// Host name or address
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Port [default: `GETID_PORT` or 7890]
    #[arg(long)]
    port: Option<u16>,
    /// Unix socket, in place of host and port
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port"])]
    unixsocket: Option<PathBuf>,
    /// Milliseconds for all of it: finding the host, connecting, asking, the answer
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    timeout_ms: u64,
    /// User, where the server has users (ACL)
    #[arg(long, requires = "password")]
    user: Option<String>,
    /// Password [default: `GETID_PASSWORD` or `GETID_REQUIREPASS`]
    #[arg(long)]
    password: Option<String>,
}

/// Asks once. Docker reserves exit code 2 of a health check, so everything that is not alive is 1.
pub(super) fn run(args: PingArgs) -> ExitCode {
    let target = match target(&args) {
        Ok(target) => target,
        Err(message) => {
            complain(&message);
            return ExitCode::FAILURE;
        }
    };
    let password = args.password.or_else(password_variable);
    let request = request(args.user.as_deref(), password.as_deref());
    let replies = if password.is_some() { 2 } else { 1 };
    let timeout = Duration::from_millis(args.timeout_ms);
    let name = target.to_string();

    // Looking up a host name cannot be given a time limit; waiting for a thread can. It ends with the process.
    let started = Instant::now();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(target.ask(&request, replies, timeout)));
    let answer = receiver.recv_timeout(timeout).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));

    let elapsed_ms = started.elapsed().as_secs_f64() * 1000.0;
    match answer {
        Ok(reply) => match judge(&reply) {
            Ok(verdict) => {
                finish(print(|out| writeln!(out, "{name}: {verdict} in {elapsed_ms:.1} ms")), ExitCode::SUCCESS)
            }
            Err(message) => failed(&name, &message),
        },
        Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
            failed(&name, &format!("no answer within {} ms", args.timeout_ms))
        }
        Err(error) => failed(&name, &error.to_string()),
    }
}

fn failed(name: &str, message: &str) -> ExitCode {
    complain(&format!("{name}: {message}"));
    ExitCode::FAILURE
}

/// What the replies say, the last one last. An error in any of them is the answer.
fn judge(replies: &[String]) -> Result<&'static str, String> {
    for reply in replies {
        if let Some(error) = reply.strip_prefix('-') {
            return match error.split(' ').next() {
                Some("NOAUTH") => Ok("alive, wants a password"),
                Some("NOPERM") => Ok("alive, this user may not ping"),
                _ => Err(error.to_owned()),
            };
        }
    }
    match replies.last().map(String::as_str) {
        Some("+PONG") => Ok("PONG"),
        other => Err(format!("'{}' instead of PONG", other.unwrap_or_default())),
    }
}

enum Target {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Target::Tcp { host, port } => write!(f, "{host}:{port}"),
            Target::Unix(path) => path.display().fmt(f),
        }
    }
}

impl Target {
    fn ask(&self, request: &[u8], replies: usize, timeout: Duration) -> io::Result<Vec<String>> {
        match self {
            Target::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                exchange(stream, request, replies)
            }
            Target::Tcp { host, port } => {
                let mut last_error = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, timeout) {
                        Ok(stream) => {
                            stream.set_read_timeout(Some(timeout))?;
                            stream.set_write_timeout(Some(timeout))?;
                            return exchange(stream, request, replies);
                        }
                        Err(error) => last_error = error,
                    }
                }
                Err(last_error)
            }
        }
    }
}

fn exchange(mut stream: impl Read + Write, request: &[u8], replies: usize) -> io::Result<Vec<String>> {
    // A server that refuses connections may have replied and closed already: its words are worth more than our error.
    let sent = stream.write_all(request);
    let mut lines = Vec::with_capacity(replies);
    let mut reader = BufReader::new(stream);
    for _ in 0..replies {
        let mut line = Vec::new();
        match reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(_) if line.ends_with(b"\r\n") => {
                lines.push(String::from_utf8_lossy(&line[..line.len() - 2]).into_owned());
            }
            Ok(_) if lines.is_empty() => {
                sent?;
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
            }
            Ok(_) => break,
            Err(error) if lines.is_empty() => return Err(sent.err().unwrap_or(error)),
            Err(error) => return Err(error),
        }
    }
    Ok(lines)
}

fn request(user: Option<&str>, password: Option<&str>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(password) = password {
        let words: Vec<&[u8]> = [Some("AUTH"), user, Some(password)].into_iter().flatten().map(str::as_bytes).collect();
        push_request(&mut bytes, &words);
    }
    push_request(&mut bytes, &[b"PING"]);
    bytes
}

/// Appends one request as an array of bulk strings.
pub(super) fn push_request(bytes: &mut Vec<u8>, words: &[&[u8]]) {
    bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
}

fn target(args: &PingArgs) -> Result<Target, String> {
    if let Some(path) = &args.unixsocket {
        return Ok(Target::Unix(path.clone()));
    }
    let port = args.port.map_or_else(port, Ok)?;
    match (port, variable("GETID_UNIXSOCKET")) {
        (0, Some(path)) => Ok(Target::Unix(path.into())),
        (0, None) => Err("the port is 0: say where the server listens by --port or --unixsocket".to_owned()),
        (port, _) => Ok(Target::Tcp { host: args.host.clone(), port }),
    }
}

/// The port that a server in this environment listens on.
///
/// In Kubernetes, a service named getid gives every pod a `GETID_PORT` such as `tcp://10.0.0.7:7890`, which the server
/// does not take for its directive either.
pub(super) fn port() -> Result<u16, String> {
    match variable("GETID_PORT").filter(|text| !text.contains("://")) {
        Some(text) => text.parse().map_err(|_| format!("GETID_PORT is '{text}', must be 0 to 65535")),
        None => Ok(PORT_DEFAULT),
    }
}

/// The password in the environment: redis-cli's variable, or the one that gives the server its own.
pub(super) fn password_variable() -> Option<String> {
    variable("REDISCLI_AUTH").or_else(|| variable("GETID_REQUIREPASS"))
}

/// An environment variable that says something.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
