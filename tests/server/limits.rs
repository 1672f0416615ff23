//! Limits on clients that read no replies, send too much, or speak another protocol.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::support::tls::{Files, TlsDialer};
use crate::support::{self, SHORT_LEAD, Server, Wire, config_get, eventually};
use crate::turns::{self, Flood, ReadMode};
use getid_config::{Config, OutputBufferLimit};
use getid_redis::session::{ClientView, Session};
use getid_server::housekeeping::{close_idle, close_unauthenticated};
use getid_server::registry::{Admission, MemoryHolder};
use getid_server::settings::session_settings;
use getid_system::io_threads::runtime;
use nix::sys::signal::Signal;
use socket2::{Domain, Socket, Type};
use tokio::time::Instant;

/// Each connection of a burst beyond `maxclients` reads the refusal, even one that sends before it is accepted.
#[test]
fn a_burst_beyond_maxclients_reads_the_error() {
    let server = Server::start(&["--maxclients", "1", "--unixsocket", "getid.sock"]);
    let wire = server.connect();
    let operators = server.take_operators_places();
    server.signal(Signal::SIGSTOP);
    let mut tcp: Vec<_> = (0..64).map(|_| server.connect()).collect();
    let mut unix: Vec<_> = (0..64).map(|_| Wire::connect_unix(&server.dir.join("getid.sock"))).collect();
    for wire in &mut tcp {
        wire.send("PING\r\n");
    }
    for wire in &mut unix {
        wire.send("PING\r\n");
    }
    server.signal(Signal::SIGCONT);
    for reply in tcp.iter_mut().map(Wire::rest).chain(unix.iter_mut().map(Wire::rest)) {
        assert_eq!(reply, "-ERR max number of clients reached\r\n");
    }
    drop((wire, operators));
}

/// Bound of the bytes held for a client that does not read: one turn of IDs and earlier output.
const OUTPUT_BYTES_MAX: usize = 400_000;

#[test]
fn clients_that_read_no_replies_are_bounded_and_closed_on_every_transport() {
    let files = Files::new();
    let (mut server, tls_port) = files.start("no", &["--client-output-timeout", "0", "--unixsocket", "getid.sock"]);
    let (mut wire, mut tcp) = (server.connect(), server.connect());
    let mut tls = TlsDialer::new(&files.authority).connect(tls_port).expect("connected");
    let mut unix = Wire::connect_unix(&files.dir.path().join("getid.sock"));
    tcp.send_and_never_read();
    tls.send_and_never_read();
    unix.send_and_never_read();
    server.wait_stuck(3);
    wire.wait_info("connected_clients", "4");
    let list = wire.ask_bulk("CLIENT LIST");
    let stuck: Vec<&str> = list.lines().filter(|line| !line.contains(" cmd=client|list ")).collect();
    assert_eq!(stuck.len(), 3, "{list}");
    for line in stuck {
        let bytes = |field: &str| {
            let value = line.split(' ').find_map(|pair| pair.strip_prefix(field)?.strip_prefix('='));
            value.expect("a field").parse::<usize>().expect("bytes")
        };
        assert!((1..OUTPUT_BYTES_MAX).contains(&bytes("omem")), "{line}");
        assert!(bytes("tot-mem") < 2 * OUTPUT_BYTES_MAX, "{line}");
        assert!(line.contains(" events=w "), "{line}");
    }
    let most = wire.info_number("client_recent_max_output_buffer");
    assert!((1..OUTPUT_BYTES_MAX as u64).contains(&most), "{most} bytes wait");
    assert!(wire.info_number("used_memory_rss") < 64 << 20);
    wire.id();
    // Limits may change while clients wait.
    assert_eq!(wire.ask("CONFIG SET client-output-timeout 1"), "+OK");
    wire.wait_info("client_output_timeout_disconnections", "3");
    wire.wait_info("connected_clients", "1");
    assert_eq!(wire.info("client_output_buffer_limit_disconnections"), "0");
    server.wait_log("bytes of unread output: the client read nothing within client-output-timeout 1 s");
    // Earlier output can still be read. Then the connection ends with a reset, because requests were left unread.
    assert_eq!([unix.line(), unix.line()], ["*100", "$18"]);

    let limit = "client-output-buffer-limit \"normal 100 0 0\"";
    assert_eq!(wire.ask(&format!("CONFIG SET client-output-timeout 0 {limit}")), "+OK");
    let mut limited = server.connect();
    limited.send_and_never_read();
    wire.wait_info("client_output_buffer_limit_disconnections", "1");
    server.wait_log("the hard limit of client-output-buffer-limit is 100 bytes");
    let disconnections = ["client_output_timeout_disconnections", "client_output_buffer_limit_disconnections"];
    assert_eq!(disconnections.map(|field| wire.info(field)), ["3", "1"]);
    assert_eq!(wire.ask("CONFIG RESETSTAT"), "+OK");
    assert_eq!(disconnections.map(|field| wire.info(field)), ["0", "0"]);
}

/// Uses tokio's paused clock, which advances when all tasks wait.
#[test]
fn output_limits_disconnect_in_time_and_spare_a_slow_reader() {
    const REQUESTS: usize = 300;
    let runtime = runtime().expect("a runtime");
    let server = turns::server(&runtime, Config::default(), None);
    let set = |hard_bytes, soft_bytes, soft_s, client_output_timeout_s| {
        let Ok(()) = server.config.update(|config| {
            let mut config = Config { client_output_timeout_s, ..config.clone() };
            config.client_output_buffer_limit.normal = OutputBufferLimit { hard_bytes, soft_bytes, soft_s };
            Ok::<_, Infallible>(config)
        });
    };
    // The client requests 720 KB of replies.
    let client = |takes| Flood::once(b"MGETID 100\r\n".repeat(REQUESTS), takes);
    runtime.block_on(async {
        tokio::time::pause();
        for (hard_bytes, soft_bytes, soft_s, timeout_s, after_s) in
            [(100, 0, 0, 0, 0), (0, 100, 2, 0, 2), (0, 100, 2, 5, 2), (0, 0, 0, 5, 5)]
        {
            set(hard_bytes, soft_bytes, soft_s, timeout_s);
            let began = Instant::now();
            turns::serve(&server, client(ReadMode::None)).await.expect("it is cut off");
            assert_eq!(began.elapsed().as_secs(), after_s, "{hard_bytes} {soft_bytes} {soft_s} {timeout_s}");
        }
        // A limit that is set while a client waits takes effect within a second.
        set(0, 0, 0, 0);
        let waiting = turns::serve(&server, client(ReadMode::None));
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(!waiting.is_finished());
        set(0, 0, 0, 1);
        let began = Instant::now();
        waiting.await.expect("it is cut off");
        assert!(began.elapsed() <= Duration::from_millis(1_001), "{:?}", began.elapsed());

        // Each flush of its replies takes longer than the timeout of 1 s.
        let slow = client(ReadMode::Slowly(tokio::time::interval(Duration::from_millis(200))));
        let (began, bytes_read) = (Instant::now(), slow.bytes_read());
        turns::serve(&server, slow).await.expect("it ends");
        let all = REQUESTS * (b"*100\r\n".len() + 100 * b"$18\r\n144182182078840832\r\n".len());
        assert_eq!(bytes_read.load(Relaxed), all, "the client was closed after {:?}", began.elapsed());
        assert!(began.elapsed() > Duration::from_secs(8), "the client was not slow");
    });
}

#[test]
fn a_request_over_the_query_buffer_limit_is_counted_and_logged() {
    let mut server = Server::start(&["--client-query-buffer-limit", "1mb", "--proto-max-bulk-len", "2mb"]);
    let mut large = server.connect();
    large.send("*2\r\n$4\r\nECHO\r\n$2000000\r\n");
    assert_eq!(large.rest(), "");
    let mut wire = server.connect();
    assert_eq!(wire.info("client_query_buffer_limit_disconnections"), "1");
    assert_eq!(wire.info("protocol_error_connections"), "1");
    server.wait_log("its request is larger than client-query-buffer-limit");
}

#[test]
fn http_closes_with_a_warning_once_a_minute() {
    let mut server = Server::start(&[]);
    for line in [
        "POST / HTTP/1.1\r\n",
        "host: example.com\r\n",
        "GET / HTTP/1.1\r\nHost: example.com\r\nSHUTDOWN\r\n",
        "OPTIONS * http/1.0\r\nSHUTDOWN\r\n",
        // A page can choose the method freely.
        "PING / HTTP/1.1\r\nSHUTDOWN\r\n",
        "TIME / HTTP/1.1\r\nSHUTDOWN\r\n",
        "SHUTDOWN / HTTP/1.1\r\n",
    ] {
        let mut browser = server.connect();
        browser.send(line);
        assert_eq!(browser.rest(), "", "{line:?}");
    }
    let mut wire = server.connect();
    assert_eq!(wire.info("cross_protocol_disconnections"), "7");
    // Behind the first line the text is an argument like any other.
    assert_eq!(wire.ask_bulk("ECHO HTTP/1.1"), "HTTP/1.1");
    assert!(wire.ask("CLIENT SETINFO HTTP/1.1").starts_with("-ERR wrong number"));
    let mut wire = server.connect();
    assert_eq!(wire.ask_bulk("ECHO HTTP/1.1"), "HTTP/1.1");
    server.wait_log("Possible SECURITY ATTACK detected. It looks like somebody is sending HTTP requests to getid.");
    assert_eq!(server.count_log("SECURITY ATTACK"), 1);
}

#[test]
fn maxclients_is_lowered_to_fit_the_open_files() {
    let dir = support::folder();
    let started = Server::try_start_in(dir.path(), &[], |command| support::by_shell(command, "ulimit -n 80"));
    let mut server = started.unwrap_or_else(|log| panic!("{log}"));
    let line = server.wait_log("maxclients 10000 needs more open files than the limit allows: maxclients is ");
    let room = line.split(" maxclients is ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
    let places: usize = room.parse().expect("a number");
    assert!((1..48).contains(&places), "{places}");
    let mut wires: Vec<Wire> = (0..places).map(|_| server.connect()).collect();
    assert_eq!(wires[0].info("maxclients"), room);
    wires[0].wait_info("connected_clients", room);
    let _operators = server.take_operators_places();
    eventually("all clients are connected", || wires[0].info("connected_clients") == (places + 16).to_string());
    assert_eq!(server.connect().rest(), "-ERR max number of clients reached\r\n");
    assert_eq!(wires[0].info("rejected_connections"), "1");
    assert_eq!(wires[0].info("accept_errors"), "0");
    wires[0].id();
}

#[test]
#[cfg(feature = "http")]
fn the_http_port_has_its_share_of_the_open_files() {
    let dir = support::folder();
    let http = support::free_port().to_string();
    let words = ["--http-port", &http, "--maxclients", "100"];
    let lowered = |server: &mut Server| {
        let log = ["maxclients 100 needs", "http-max-clients 1024 needs"].map(|what| server.wait_log(what));
        log.map(|line| {
            line.split(" is ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a number")
        })
    };
    let started = Server::try_start_in(dir.path(), &words, |command| support::by_shell(command, "ulimit -n 120"));
    let mut server = started.unwrap_or_else(|log| panic!("{log}"));
    let [clients, of_http]: [usize; 2] = lowered(&mut server);
    assert!((30..100).contains(&clients) && (1..=clients / 7).contains(&of_http), "{clients} and {of_http}");
    assert_eq!(config_get(&server, "http-max-clients"), of_http.to_string());
    let error = server.connect().ask("CONFIG SET maxclients 100");
    let room: usize = error.split("try with ").nth(1).and_then(|rest| rest.parse().ok()).expect(&error);
    // The files that a thread has open now are counted, not estimated.
    assert!(room.abs_diff(clients) < 8, "the places of the HTTP port are kept: {room} and {clients}");
    drop(server);
    // With enough open files, both ports get their configured limits.
    let mut server = Server::try_start_in(dir.path(), &words, |command| {
        support::by_shell(command, "ulimit -Sn 1024 && ulimit -Hn 4096");
    })
    .unwrap_or_else(|log| panic!("{log}"));
    server.wait_log("Ready to accept");
    assert_eq!(server.count_log("needs more open files"), 0);
    assert_eq!(["maxclients", "http-max-clients"].map(|name| config_get(&server, name)), ["100", "1024"]);
}

#[test]
fn a_start_without_room_for_a_client_names_the_limit_and_the_number() {
    let dir = support::folder();
    let log =
        support::refused(dir.path(), &["--io-threads", "8"], |command| support::by_shell(command, "ulimit -n 50"));
    assert!(log.contains("the limit of open files (RLIMIT_NOFILE) is 50, and getid needs "), "{log}");
    assert!(log.contains("Raise it with ulimit -n or LimitNOFILE="), "{log}");
}

/// Clients without a login open as many idle sockets as the limit of open files permits. IDs continue, and the state is
/// saved.
#[test]
fn idle_sockets_up_to_the_limit_take_no_descriptor_that_ids_need() {
    const SOCKETS: usize = 1_024;
    support::need_open_files(SOCKETS + 100);
    let dir = support::folder();
    let words = format!("--io-threads 8 --requirepass pw {SHORT_LEAD}");
    let started = Server::try_start_in(dir.path(), &support::words(&words), |command| {
        support::by_shell(command, "ulimit -Sn 512 && ulimit -Hn 1024");
    });
    let server = started.unwrap_or_else(|log| panic!("{log}"));
    let mut wire = server.connect();
    assert_eq!(wire.ask("AUTH pw"), "+OK");
    let idle: Vec<TcpStream> =
        (0..SOCKETS).map(|_| TcpStream::connect(("127.0.0.1", server.port)).expect("connected")).collect();
    let saves = wire.info_number("rdb_saves");
    eventually("the state is saved", || {
        wire.id();
        wire.info_number("rdb_saves") >= saves + 2
    });
    assert_eq!(wire.info("accept_errors"), "0");
    assert_eq!(wire.info("rdb_last_bgsave_status"), "ok");
    drop(idle);
}

#[test]
fn without_descriptors_accepting_backs_off_and_resumes() {
    let mut server = Server::start(&[]);
    let mut wire = server.connect();
    wire.id();
    let set_open_files = |soft: &str| {
        let status = Command::new("prlimit").args(["--pid", &server.pid().to_string(), soft]).status();
        assert!(status.expect("prlimit of util-linux").success());
    };
    set_open_files("--nofile=4:");
    // The kernel accepts the connection; the server cannot.
    let mut later = server.connect();
    eventually("accept fails", || wire.info_number("accept_errors") >= 2);
    wire.id();
    set_open_files("--nofile=1000:");
    assert_eq!(later.ask("PING"), "+PONG");
    server.wait_log("accepting a client failed");
    server.wait_log("clients can be accepted again");
    assert_eq!(server.count_log("accepting a client failed"), 1);
}

/// Returns the beginning of an `ECHO` of `bytes` bytes without its end.
fn unfinished(bytes: usize) -> String {
    format!("*2\r\n$4\r\nECHO\r\n${}\r\n{}", bytes + 1, "x".repeat(bytes))
}

#[test]
fn over_maxmemory_clients_the_largest_are_closed() {
    let mut server = Server::start(&["--maxmemory-clients", "4mb"]);
    let mut wire = server.connect();
    assert_eq!(wire.info("maxmemory_clients"), (4 << 20).to_string());
    let mut spared = server.connect();
    assert_eq!(spared.ask("CLIENT NO-EVICT ON"), "+OK");
    spared.send(unfinished(1_000_000));
    let mut small: Vec<Wire> = (0..5).map(|_| server.connect()).collect();
    for small in &mut small {
        small.send(unfinished(50_000));
    }
    eventually("all requests are read", || {
        wire.info("client_buffers_bytes").parse::<usize>().is_ok_and(|bytes| bytes > 1_200_000)
    });
    let mut large: Vec<Wire> = (0..10).map(|_| server.connect()).collect();
    for large in &mut large {
        // The server may close it meanwhile.
        let _ = large.stream().write_all(unfinished(900_000).as_bytes());
    }
    eventually("some clients are closed", || {
        wire.info("evicted_clients").parse::<usize>().is_ok_and(|count| count >= 5)
    });
    eventually("the remaining clients fit", || {
        wire.info("client_buffers_bytes").parse::<usize>().is_ok_and(|bytes| bytes <= 4 << 20)
    });
    // Clients with small buffers stay connected, and so does the client with `no-evict`.
    for wire in small.iter_mut().chain([&mut spared]) {
        wire.send("y\r\n");
        assert!(wire.line().starts_with('$'));
    }
    server.wait_log("the buffers of all clients exceed maxmemory-clients 4194304");
    // A lower limit takes effect at once.
    drop(large);
    let mut late = server.connect();
    late.send(unfinished(700_000));
    eventually("the request is read", || {
        let list = wire.ask_bulk("CLIENT LIST");
        let mut held = list.split([' ', '\n']).filter_map(|pair| pair.strip_prefix("qbuf=")?.parse::<usize>().ok());
        held.any(|bytes| bytes >= 700_000)
    });
    let before = wire.info("evicted_clients");
    assert_eq!(wire.ask("CONFIG SET maxmemory-clients 100kb"), "+OK");
    assert_ne!(wire.info("evicted_clients"), before);
    assert_eq!(wire.ask("CONFIG SET maxmemory-clients 5%"), "+OK");
    assert_ne!(wire.info("maxmemory_clients"), "0");
    assert!(wire.ask("CONFIG SET maxmemory-clients 101%").contains("neither auto, a memory size nor a percentage"));
    assert_eq!(wire.ask("CONFIG SET maxmemory-clients 0"), "+OK");
    assert_eq!(wire.info("maxmemory_clients"), "0");
}

/// A client that was chosen counts as gone: otherwise each read until it has left would search all clients again.
#[test]
fn a_client_chosen_for_eviction_counts_as_gone() {
    let runtime = runtime().expect("a runtime");
    let server = turns::server(&runtime, Config::default(), None);
    let clients = &server.clients;
    clients.set_held_bytes_max(100);
    let mut all: Vec<Admission> = (0..4).map(|_| turns::admit(&server).0).collect();
    let id = |holder: &MemoryHolder| match holder {
        MemoryHolder::Client(client) => client.id,
        MemoryHolder::Http(connection) => panic!("{connection:?} is no client"),
    };
    let chosen = || clients.choose_evicted().iter().map(id).collect::<Vec<_>>();
    assert!(!all[0].note_held(60) && !all[1].note_held(30));
    assert!(all[2].note_held(20));
    assert_eq!(chosen(), [1]);
    assert_eq!(clients.held_bytes(), 110);
    assert!(!all[3].note_held(50));
    // A chosen client may still grow before it closes.
    assert!(!all[0].note_held(70));
    assert!(chosen().is_empty());
    assert!(all[3].note_held(55));
    assert_eq!(chosen(), [4]);
    // The chosen clients leave in any order, and the others share the whole limit.
    drop(all.pop());
    drop(all.remove(0));
    assert_eq!(clients.held_bytes(), 50);
    assert!(!all[0].note_held(80) && all[0].note_held(81));
}

/// Both ports share one bound, and the largest holders are closed first, whatever their port.
#[test]
#[cfg(feature = "http")]
fn http_connections_and_clients_share_one_bound() {
    let runtime = runtime().expect("a runtime");
    let server = turns::server(&runtime, Config::default(), None);
    let clients = &server.clients;
    clients.set_held_bytes_max(100);
    let small = turns::admit(&server).0;
    let http: Vec<_> = (0..2).map(|_| clients.admit_http_connection(small.client.peer.clone())).collect();
    assert!(!small.note_held(10) && !http[0].change_held(0, 60) && !http[1].change_held(0, 30));
    // Two buffers of one connection.
    assert!(http[1].change_held(0, 5));
    let chosen = clients.choose_evicted();
    assert!(matches!(&chosen[..], [MemoryHolder::Http(one)] if Arc::ptr_eq(one, &http[0].connection)), "{chosen:?}");
    let waker = std::task::Waker::noop();
    assert!(!http[0].connection.is_evicted_or_wake(waker));
    chosen[0].evict();
    assert!(http[0].connection.is_evicted_or_wake(waker) && !http[1].connection.is_evicted_or_wake(waker));
    // Each reader is put off once until the chosen connection has left, not again.
    let (mut one, mut another) = (0, 0);
    assert!(
        clients.is_read_delayed(&mut one)
            && !clients.is_read_delayed(&mut one)
            && clients.is_read_delayed(&mut another)
    );
    drop(http);
    assert_eq!(clients.held_bytes(), 10);
    assert!(!clients.is_read_delayed(&mut 0));
    small.release_held();
    assert_eq!(clients.held_bytes(), 0);
}

/// The C library's heap would keep most of this memory, between small pieces that stay: half of `maxmemory-clients` and
/// more.
#[test]
#[cfg(target_env = "gnu")]
fn memory_of_large_requests_goes_back_to_the_system() {
    const ROUNDS: usize = 2;
    const CLIENTS: usize = 250;
    const MIB: u64 = 1024;
    let server = Server::start(&["--maxmemory-clients", "128mb"]);
    let mut wire = server.connect();
    let before = server.memory_kb("VmRSS");
    for _ in 0..ROUNDS {
        // Small requests come between the large ones and stay for the round.
        let mut open: Vec<Wire> = Vec::new();
        let request = unfinished(990_000);
        for part in request.as_bytes().chunks(40_000) {
            for at in 0..CLIENTS {
                if open.len() <= at {
                    open.push(server.connect());
                }
                // The server may have closed it.
                let _ = open[at].stream().write_all(part);
            }
        }
        drop(open);
        wire.wait_info("connected_clients", "1");
    }
    assert_ne!(wire.info("evicted_clients"), "0");
    let after = server.memory_kb("VmRSS").saturating_sub(before);
    println!("{after} kB more afterwards");
    assert!(after < 45 * MIB, "{after} kB are kept");
}

#[test]
fn a_client_that_does_not_log_in_in_time_is_closed() {
    let mut server = Server::start(&["--requirepass", "pw", "--auth-timeout", "1000"]);
    let mut good = server.connect();
    assert_eq!(good.ask("AUTH pw"), "+OK");
    let mut silent = server.connect();
    let mut talking = server.connect();
    assert!(talking.ask("GETID").starts_with("-NOAUTH"));
    let mut former = server.connect();
    assert_eq!((former.ask("AUTH pw"), former.ask("RESET")), ("+OK".to_owned(), "+RESET".to_owned()));
    assert_eq!(good.ask("CONFIG SET auth-timeout 1"), "+OK");
    for wire in [&mut silent, &mut talking, &mut former] {
        assert_eq!(wire.rest(), "");
    }
    assert_eq!(good.info("auth_timeout_disconnections"), "3");
    good.wait_info("connected_clients", "1");
    server.wait_log("is closed: it has not logged in within auth-timeout 1 s");
}

/// Returns the ids of the clients that are not closing.
fn alive(server: &getid_server::Server) -> Vec<u64> {
    server.clients.alive().iter().map(|client| client.id).collect()
}

#[test]
fn timeout_closes_idle_clients_and_spares_those_that_wait_monitor_or_subscribe() {
    let runtime = runtime().expect("a runtime");
    let server = turns::server(&runtime, Config { timeout_s: 5, ..Config::default() }, None);
    let all: [Admission; 6] = std::array::from_fn(|_| turns::admit(&server).0);
    let [_idle, active, waits, held, monitors, listens] = &all;
    let view = turns::admit(&server).1.view().clone();
    monitors.client.publish(&ClientView { id: monitors.client.id, monitors: true, ..view.clone() });
    listens.client.publish(&ClientView { id: listens.client.id, subscriptions: [1, 0], ..view });
    active.client.note_active(1);
    let (wait, hold) = (waits.client.ids_wait_guard(), held.client.hold_guard());
    close_idle(&server, 5);
    assert_eq!(alive(&server), [1, 2, 3, 4, 5, 6]);
    close_idle(&server, 6);
    assert_eq!(alive(&server), [2, 3, 4, 5, 6]);
    close_idle(&server, 1_000);
    assert_eq!(alive(&server), [3, 4, 5, 6]);
    // After a wait the idle time begins at 0.
    for waited in [waits, held] {
        waited.client.note_active(1_000);
    }
    drop((wait, hold));
    close_idle(&server, 1_005);
    assert_eq!(alive(&server), [3, 4, 5, 6]);
    close_idle(&server, 1_006);
    assert_eq!(alive(&server), [5, 6]);
}

#[test]
fn auth_timeout_closes_clients_only_while_a_login_is_required() {
    let runtime = runtime().expect("a runtime");
    let with_password = Config { requirepass: Some("pw".to_owned()), auth_timeout_s: 5, ..Config::default() };
    let server = turns::server(&runtime, with_password.clone(), None);
    let all: [(Admission, Session); 3] = std::array::from_fn(|_| turns::admit(&server));
    let [_silent, (known, of_known), (answered_late, _)] = &all;
    known.client.publish(&ClientView { authenticated: true, ..of_known.view().clone() });
    let wait = answered_late.client.hold_guard();
    // While no login is required, no client is late.
    server.settings.update(|_| session_settings(&Config::default())).expect("settings");
    close_unauthenticated(&server, 1_000);
    server.settings.update(|_| session_settings(&with_password)).expect("settings");
    close_unauthenticated(&server, 5);
    assert_eq!(alive(&server), [1, 2, 3]);
    close_unauthenticated(&server, 6);
    assert_eq!(alive(&server), [2, 3]);
    drop(wait);
    close_unauthenticated(&server, 6);
    assert_eq!(alive(&server), [2]);
}

#[test]
fn a_client_without_a_login_costs_little() {
    let server = Server::start(&["--requirepass", "pw"]);
    let mut wire = server.connect();
    assert_eq!(wire.ask("AUTH pw"), "+OK");
    let mut strangers: Vec<Wire> = Vec::new();
    // One client of a pair has sent an incomplete AUTH, the other reads no replies.
    let mut come = |pairs: usize| {
        for _ in 0..pairs {
            let (mut sends, asks) = (server.connect(), server.connect());
            sends.send(format!("*2\r\n$4\r\nAUTH\r\n$8000\r\n{}", "x".repeat(7_900)));
            let socket = socket2::SockRef::from(asks.stream());
            socket.set_recv_buffer_size(2048).expect("an option");
            socket.set_send_buffer_size(64 * 1024).expect("an option");
            socket.set_nonblocking(true).expect("an option");
            strangers.extend([sends, asks]);
        }
        let pairs = strangers.len() / 2;
        eventually("the requests are read", || wire.info_number("client_buffers_bytes") > pairs as u64 * 7_900);
        // The reply to HELLO is twenty times as long.
        let requests = [b"PING\r\n".repeat(1000), b"HELLO 3\r\n".repeat(1000)];
        eventually("the other clients wait for output", || {
            for (asks, requests) in strangers.iter().skip(1).step_by(2).zip(requests.iter().cycle()) {
                // Writes until the buffers are full. A slow server has not read all of them, and takes more later.
                while asks.stream().write(requests).is_ok() {}
            }
            wire.ask_bulk("CLIENT LIST").matches(" events=w ").count() == pairs
        });
        server.memory_kb("VmRSS")
    };
    // The first pairs fill the server's pool of buffers, which all clients share.
    let before_kb = come(66);
    let per_client = come(66).saturating_sub(before_kb) * 1024 / 132;
    println!("{per_client} bytes a stranger");
    assert!(per_client < 16 * 1024, "{per_client} bytes per client without a login");
}

#[test]
fn a_long_list_is_held_in_pieces() {
    const CLIENTS: usize = 200;
    let server = Server::start(&["--client-output-timeout", "0"]);
    let mut wire = server.connect();
    let named: Vec<Wire> = (0..CLIENTS).map(|_| server.connect()).collect();
    for client in &named {
        // Each name takes 1 KB in the list.
        (client.stream()).write_all(format!("CLIENT SETNAME {}\r\n", "n".repeat(1000)).as_bytes()).expect("sent");
    }
    eventually("all clients have a name", || wire.ask_bulk("CLIENT LIST").matches("nnn ").count() == CLIENTS);
    let (long, users) = ("u".repeat(60), 200);
    let rules = (0..12).map(|key| format!(" ~{long}{key}")).collect::<Vec<_>>().concat();
    let made: Vec<String> = (0..users).map(|user| format!("ACL SETUSER {long}{user}{rules}\r\n")).collect();
    let slow = format!("CLIENT SETNAME {}\r\n", "y".repeat(200)).repeat(2_000);
    wire.send(made.concat() + "CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 2000\r\n" + &slow);
    (0..users + 2_001).for_each(|_| assert_eq!(wire.line(), "+OK"));
    assert_eq!(wire.ask("CONFIG SET slowlog-log-slower-than -1"), "+OK");
    for (what, kept_bytes) in
        [("CLIENT LIST", 1_000 * CLIENTS), ("ACL LIST", 0), ("ACL USERS", 0), ("SLOWLOG GET -1", 200 * 2_000)]
    {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a size");
        socket.connect(&SocketAddr::from(([127, 0, 0, 1], server.port)).into()).expect("the server accepts");
        let mut slow = TcpStream::from(socket);
        slow.write_all(format!("{what}\r\n").repeat(20).as_bytes()).expect("sent");
        eventually("output waits", || wire.info("client_recent_max_output_buffer") != "0");
        let most: usize = wire.info("client_recent_max_output_buffer").parse().expect("a number");
        assert!(most < 150_000, "{most} bytes of {what} wait");
        // The unwritten part is kept for this client alone, even if its source is cleared, and counts as its memory.
        let line = format!(" cmd={} ", what.split(" -").next().expect("a word").to_lowercase().replace(' ', "|"));
        eventually(&format!("more than {kept_bytes} bytes are held for {what}"), || {
            let list = wire.ask_bulk("CLIENT LIST");
            let held: Vec<usize> = list
                .lines()
                .filter(|client| client.contains(&line) && !client.contains(" omem=0 "))
                .filter_map(|client| client.split(" tot-mem=").nth(1)?.split(' ').next()?.parse().ok())
                .collect();
            held.len() == 1 && held[0] > kept_bytes
        });
        // The reply is complete all the same.
        slow.set_read_timeout(Some(support::PATIENCE)).expect("a timeout");
        slow.write_all(b"QUIT\r\n").expect("sent");
        let mut all = Vec::new();
        slow.read_to_end(&mut all).expect("all of it");
        assert!(all.ends_with(b"\r\n+OK\r\n"), "{what}");
        assert!(all.len() > 20 * 8_000, "{} bytes of {what}", all.len());
    }
}
