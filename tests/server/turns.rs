//! Turns at the thread: a client with endless requests yields to others, whatever it sends.
//!
//! The client here is a socket that is always ready to read and write, which no real one is for long. So the test needs
//! no clock to see whether the connection yields. The tests of time limits use it too, and the server in this process.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use getid_config::{Config, LogFormat, LogLevel, Sources};
use getid_core::{Epoch, Layout};
use getid_engine::claim::Identity;
use getid_engine::fixtures::roomy_issuer;
use getid_engine::generators::Generators;
use getid_redis::session::Session;
use getid_server::connection::ClientConnection;
use getid_server::logging::{Log, LogOptions};
use getid_server::registry::{Admission, ConnectionAddr, SocketInfo};
use getid_server::settings::session_settings;
use getid_server::transport::Transport;
use getid_server::{Process, Server, tls};
use getid_system::clock::{Clock as _, SystemClock};
use getid_system::io_threads::runtime;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::Interval;

/// Bound of reads in a row for which other clients may wait: 16 KiB, begun and ended anywhere.
const READS_IN_A_ROW_MAX: usize = 3;

/// A client that sends the same requests again and again, as fast as they are read.
pub(crate) struct Flood {
    requests: Vec<u8>,
    /// Position of the next read in the requests.
    at: usize,
    /// Largest number of bytes per read.
    piece: usize,
    /// Reads before the client is gone.
    reads_left: usize,
    /// Number of reads since other clients had a turn.
    in_a_row: Arc<AtomicUsize>,
    read_mode: ReadMode,
    /// Bytes of replies read.
    bytes_read: Arc<AtomicUsize>,
}

/// Replies that a client reads.
pub(crate) enum ReadMode {
    All,
    None,
    /// Reads 16 KiB per tick.
    Slowly(Interval),
}

impl Flood {
    /// Creates a client that sends these requests once, in one read.
    pub(crate) fn once(requests: Vec<u8>, read_mode: ReadMode) -> Flood {
        let piece = requests.len();
        Flood { requests, at: 0, piece, reads_left: 1, in_a_row: Arc::default(), read_mode, bytes_read: Arc::default() }
    }

    /// Returns the counter of reply bytes that the client has read.
    pub(crate) fn bytes_read(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.bytes_read)
    }
}

impl AsyncRead for Flood {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(reads_left) = self.reads_left.checked_sub(1) else { return Poll::Ready(Ok(())) };
        self.reads_left = reads_left;
        self.in_a_row.fetch_add(1, Relaxed);
        let mut left = buf.remaining().min(self.piece);
        while left > 0 {
            let rest = &self.requests[self.at..];
            let part = &rest[..rest.len().min(left)];
            buf.put_slice(part);
            left -= part.len();
            self.at = (self.at + part.len()) % self.requests.len();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Flood {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let len = match &mut self.read_mode {
            ReadMode::All => bytes.len(),
            ReadMode::None => return Poll::Pending,
            ReadMode::Slowly(ticks) => {
                ready!(ticks.poll_tick(cx));
                bytes.len().min(16 * 1024)
            }
        };
        self.bytes_read.fetch_add(len, Relaxed);
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Transport for Flood {
    async fn ready(&self, _: Interest) -> io::Result<Ready> {
        std::future::pending().await
    }
}

/// Creates a server in this process whose layout has enough IDs for any test.
pub(crate) fn server(runtime: &Runtime, config: Config, tls: Option<Arc<tls::Acceptor>>) -> Arc<Server> {
    let layout = Layout::new(Epoch::default(), 1, 19, 1).expect("a layout");
    let config = Config { layout, ..config };
    let issuer = roomy_issuer(runtime, SystemClock::new(), Identity { server_id: 0, layout }, 60_000);
    let process = Process {
        run_id: String::new(),
        config_file: String::new(),
        sources: Sources::default(),
        started_in: PathBuf::new(),
        executable: String::new(),
        tcp_port: 0,
        announced: None,
    };
    let settings = Arc::new(session_settings(&config).expect("the default settings"));
    let io_threads = config.io_threads;
    Server::new(config, settings, Generators::new(issuer), process, io_threads, tls, log())
}

/// Serves a new client on `io`.
pub(crate) fn serve<T: Transport + 'static>(server: &Arc<Server>, io: T) -> JoinHandle<()> {
    let (admission, session) = admit(server);
    tokio::spawn(ClientConnection::new(Arc::clone(server), admission, session, io).run())
}

/// Admits a new client, at uptime 0 s.
pub(crate) fn admit(server: &Arc<Server>) -> (Admission, Session) {
    let session = Session::new(server.clients.next_id(), server.settings.get());
    let end = || ConnectionAddr::Unix(Arc::default());
    let ends = SocketInfo { peer: end(), local: end(), fd: 0 };
    (server.clients.admit(session.view().clone(), ends, 0, usize::MAX).expect("a place"), session)
}

/// Returns the log of all servers in this process, of which there can be only one. It logs nothing.
pub(crate) fn log() -> Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    let options = || LogOptions {
        level: LogLevel::Nothing,
        file: None,
        format: LogFormat::Text,
        syslog: None,
        now_unix_ms: || SystemClock::new().wall_unix_ms(),
    };
    LOG.get_or_init(|| Log::start(options()).expect("the log")).clone()
}

#[test]
fn a_client_with_endless_requests_yields_to_others() {
    let runtime = runtime().expect("a runtime");
    let server = server(&runtime, Config::default(), None);
    let array = |name: &str, arg: &str| format!("*2\r\n${}\r\n{name}\r\n${}\r\n{arg}\r\n", name.len(), arg.len());
    let floods: [(&str, Vec<u8>, usize); 10] = [
        ("PING", b"*1\r\n$4\r\nPING\r\n".to_vec(), usize::MAX),
        ("GETID", b"*1\r\n$5\r\nGETID\r\n".to_vec(), usize::MAX),
        ("MGETID that is wrong", array("MGETID", "101").into_bytes(), usize::MAX),
        ("unknown commands", b"x\n".to_vec(), usize::MAX),
        ("empty lines", b"\n".to_vec(), usize::MAX),
        ("empty arrays", b"*0\r\n".to_vec(), usize::MAX),
        ("long lines", format!("PING {}\r\n", "y".repeat(65_000)).into_bytes(), usize::MAX),
        ("large arguments", array("PING", &"z".repeat(900_000)).into_bytes(), usize::MAX),
        ("skipped requests", array("SET", &"z".repeat(900_000)).into_bytes(), usize::MAX),
        // Reads that are never full: the client is just as fast as the server.
        ("small pieces", b"*1\r\n$5\r\nGETID\r\n".to_vec(), 10_000),
    ];
    for (what, requests, piece) in floods {
        let flood = Flood { piece, reads_left: 20, ..Flood::once(requests, ReadMode::All) };
        let in_a_row = Arc::clone(&flood.in_a_row);
        let mut most = 0;
        runtime.block_on(async {
            let flood = serve(&server, flood);
            // The other client's turn.
            while !flood.is_finished() {
                tokio::task::yield_now().await;
                most = most.max(in_a_row.swap(0, Relaxed));
            }
            flood.await.expect("it ends well");
        });
        assert!((1..=READS_IN_A_ROW_MAX).contains(&most), "{what}: {most} reads while another waited");
    }
}
