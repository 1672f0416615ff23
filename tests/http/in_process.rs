//! A server with an HTTP port in the test's own process. Its time-outs, intervals and claim are arguments.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use getid_config::{Config, LogFormat, LogLevel, Sources};
use getid_core::{Epoch, Layout};
use getid_engine::claim::Identity;
use getid_engine::claim::status::ClaimView;
use getid_engine::generators::Generators;
use getid_http::PortBounds;
use getid_redis::acl::Origin;
use getid_server::connection::LocalClient;
use getid_server::logging::{Log, LogOptions};
use getid_server::metrics::Counter;
use getid_server::registry::{ConnectionAddr, SocketInfo};
use getid_server::settings::session_settings;
use getid_server::{Process, Server};
use getid_system::clock::{Clock as _, SystemClock};
use getid_system::io_threads::runtime;
use tokio::runtime::Runtime;

use crate::support::http::{Http, Response};
use getid_engine::fixtures::roomy_issuer;

/// A server that stops when this is dropped.
pub(crate) struct InProcess {
    server: Arc<Server>,
    pub(crate) port: u16,
}

/// Returns the bounds of a port with an interval of 20 ms for sweeps and events.
pub(crate) fn quick() -> PortBounds {
    let interval = Duration::from_millis(20);
    PortBounds { sweep: interval, step: interval, ..PortBounds::default() }
}

impl InProcess {
    /// Starts a server with server-id 3, these bounds and the default configuration after `change`.
    pub(crate) fn start(bounds: PortBounds, change: impl FnOnce(&mut Config)) -> InProcess {
        InProcess::start_with(bounds, change, None)
    }

    /// Starts a server whose claim is in a cluster store.
    pub(crate) fn start_with(
        bounds: PortBounds,
        change: impl FnOnce(&mut Config),
        claim: Option<&Arc<ClaimView>>,
    ) -> InProcess {
        let runtime = runtime().unwrap();
        let layout = Layout::new(Epoch::default(), 2, 9, 10).unwrap();
        let mut config = Config { layout, ..Config::default() };
        config.http.port = 1;
        change(&mut config);
        let issuer = roomy_issuer(&runtime, SystemClock::new(), Identity { server_id: 3, layout }, 60_000);
        let generators = Generators::new(issuer);
        if let Some(claim) = claim {
            generators.set_claim(Arc::clone(claim));
        }
        let process = Process {
            run_id: String::new(),
            config_file: String::new(),
            sources: Sources::default(),
            started_in: PathBuf::new(),
            executable: String::new(),
            tcp_port: 0,
            announced: None,
        };
        let settings = Arc::new(session_settings(&config).unwrap());
        let server = Server::new(config, settings, generators, process, 2, None, log());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        getid_http::start(Arc::clone(&server), vec![listener], 1, bounds).unwrap();
        let stops = Arc::clone(&server);
        // The keeper of the issuer needs the runtime.
        std::thread::spawn(move || runtime.block_on(stops.stop_requested()));
        InProcess { server, port }
    }

    pub(crate) fn connect(&self) -> Http {
        Http::connect(self.port)
    }

    pub(crate) fn ask(&self, line: &str) -> Response {
        self.connect().ask(line, &[], "")
    }

    /// Returns a client of the Redis commands.
    pub(crate) fn commands(&self) -> Commands {
        let address = ConnectionAddr::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        let ends = SocketInfo { peer: address.clone(), local: address, fd: -1 };
        let client = LocalClient::new(&self.server, Origin::ThisMachine, ends).expect("a client");
        Commands { client, runtime: runtime().unwrap() }
    }

    pub(crate) fn counted(&self, counter: Counter) -> u64 {
        self.server.metrics.counted(counter)
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.server.request_stop();
    }
}

/// A client without a socket, which speaks RESP3.
pub(crate) struct Commands {
    client: LocalClient,
    runtime: Runtime,
}

impl Commands {
    /// Runs a command and returns its reply without the last CRLF.
    #[track_caller]
    pub(crate) fn ask(&mut self, command: &str) -> String {
        let reply = self.runtime.block_on(self.client.ask(format!("{command}\r\n").as_bytes())).expect("a reply");
        String::from_utf8(reply.bytes).unwrap().trim_end().to_owned()
    }
}

/// Returns the log of this process, which can have only one.
fn log() -> Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    let start = || {
        Log::start(LogOptions {
            level: LogLevel::Nothing,
            file: None,
            format: LogFormat::Text,
            syslog: None,
            now_unix_ms: || SystemClock::new().wall_unix_ms(),
        })
    };
    LOG.get_or_init(|| start().unwrap()).clone()
}
