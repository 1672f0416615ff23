//! TLS as used by clients and operators: handshakes of both versions, certificates, reloads, and failures.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::tls::{Authority, Files, ONLY_12, ONLY_13, TlsDialer, TlsWire};
use crate::support::{self, PATIENCE, Server, Wire, eventually, free_port, getid, refused};
use crate::turns;
use getid_config::{BindAddr, Config, TlsAuthClients};
use getid_server::accept;
use getid_server::handshakes::{GracePeriods, Handshakes};
use getid_server::listen::listen;
use getid_server::metrics::Counter;
use getid_server::tls::{Acceptor, TlsSettings};
use getid_system::io_threads::{IoThreads, runtime};
use nix::sys::signal::Signal;
use rcgen::{DistinguishedName, DnType, ExtendedKeyUsagePurpose};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ProtocolVersion, SupportedProtocolVersion};

#[test]
fn ids_come_over_both_versions_and_any_thread() {
    let files = Files::new();
    for io_threads in ["1", "3"] {
        let (server, port) = files.start("no", &["--io-threads", io_threads]);
        let mut last = 0;
        let both: [(&'static SupportedProtocolVersion, _); 2] =
            [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)];
        for (version, expected) in both.into_iter().cycle().take(6) {
            let dial = TlsDialer { versions: &[version], ..TlsDialer::new(&files.authority) };
            let mut client = dial.connect(port).expect("connected");
            assert_eq!(client.version(), Some(expected));
            let id = client.id();
            assert!(id > last);
            client.send("MGETID 100\r\n");
            let many = client.read_ids(100);
            assert!(many[0] > id && many.is_sorted_by(|a, b| a < b));
            last = many[99];
            assert_eq!(client.ask("MGETID 101"), "-ERR parameters error! argv[1] = 101");
            // The server sends `close_notify`, which distinguishes an orderly close from an attacker's.
            assert_eq!(client.ask("QUIT"), "+OK");
            assert_eq!(client.rest(), "");
        }
        let mut plain = server.connect();
        assert!(plain.id() > last, "the plain port serves beside it");
        assert_eq!(plain.info("tls_handshakes"), "6");
        assert_eq!(plain.info("tls_handshakes_failed"), "0");
        assert_eq!(plain.info("tcp_port"), server.port.to_string());
    }
}

/// Python's ssl and other libraries leave Nagle's algorithm on: their first request waits for the acknowledgement of
/// the handshake.
#[test]
fn a_first_request_is_not_held_up() {
    let files = Files::new();
    let (_server, port) = files.start("no", &[]);
    // The first connection is not measured: some code is loaded on demand.
    drop(TlsDialer::new(&files.authority).connect(port).expect("connected"));
    // A delayed request would take 40 ms. On a slow machine some do.
    let mut fastest = Duration::MAX;
    eventually("a request without delay", || {
        let started = Instant::now();
        TlsDialer::new(&files.authority).connect(port).expect("connected");
        fastest = fastest.min(started.elapsed());
        fastest < Duration::from_millis(35)
    });
}

#[test]
fn tls_may_be_the_only_port() {
    let files = Files::new();
    let port = free_port().to_string();
    let mut child = getid()
        .args(["serve", "--port", "0", "--bind", "127.0.0.1", "--tls-port", &port, "--tls-auth-clients", "no"])
        .args(["--tls-cert-file", "server.crt", "--tls-key-file", "server.key", "--dir"])
        .arg(files.dir.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut log = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("Ready to accept connections") {
        line.clear();
        assert_ne!(log.read_line(&mut line).expect("a log"), 0, "the log ended");
    }
    assert!(line.contains(&format!("connections on tls://127.0.0.1:{port} (pid {}, ", child.id())), "{line}");
    let mut client = TlsDialer::new(&files.authority).connect(port.parse().expect("a port")).expect("connected");
    client.send("INFO server\r\n");
    while client.line() != format!("tcp_port:{port}") {}
    child.kill().expect("killed");
    child.wait().expect("its end");
}

#[test]
fn clients_need_certificates_according_to_tls_auth_clients() {
    let files = Files::new();
    let stranger = Authority::new("other");
    let (good, bad) = (files.authority.client(), stranger.client());
    let dial = TlsDialer::new(&files.authority);
    for (auth_clients, without, with_good, with_bad) in
        [("yes", false, true, false), ("optional", true, true, false), ("no", true, true, true)]
    {
        let (mut server, port) = files.start(auth_clients, &[]);
        let cases = [
            ("without", dial, without),
            ("good", dial.with_certificate(&good), with_good),
            ("bad", dial.with_certificate(&bad), with_bad),
        ];
        let mut failed = 0;
        for (name, dial, welcome) in cases {
            for version in [&TLS12, &TLS13] {
                let result = TlsDialer { versions: &[version], ..dial }.connect(port);
                assert_eq!(result.is_ok(), welcome, "{auth_clients}, {name}, {version:?}: {:?}", result.err());
                failed += usize::from(!welcome);
            }
        }
        server.connect().wait_info("tls_handshakes_failed", &failed.to_string());
        if auth_clients == "yes" {
            let line = server.wait_log("the client sent no certificate, and tls-auth-clients is yes");
            assert!(line.contains(" at 127.0.0.1:"), "{line}");
        }
        if failed > 0 {
            server.wait_log("invalid peer certificate: UnknownIssuer");
        }
    }
}

#[test]
fn a_client_that_trusts_another_authority_does_not_connect() {
    let files = Files::new();
    let (mut server, port) = files.start("no", &[]);
    let error = TlsDialer::new(&Authority::new("other")).connect(port).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    server.wait_log("TLS handshake failed: received fatal alert");
    server.connect().wait_info("tls_handshakes_failed", "1");
}

#[test]
fn plain_text_on_the_tls_port_is_closed_and_logged() {
    let files = Files::new();
    let (mut server, port) = files.start("no", &[]);
    let mut good = TlsDialer::new(&files.authority).connect(port).expect("connected");
    for (text, failed) in [("*1\r\n$5\r\nGETID\r\n", "1"), ("GETID\r\n", "2"), ("GET / HTTP/1.1\r\n\r\n", "3")] {
        let mut wire = Wire::connect(port);
        wire.send(text);
        let reply = wire.rest();
        assert!(!reply.contains("ERR") && !reply.contains(':'), "{reply:?}");
        server.connect().wait_info("tls_handshakes_failed", failed);
    }
    let line = server.wait_log("the client sent plain text, and this port accepts only TLS");
    assert!(line.contains("127.0.0.1:"), "{line}");
    // A client that only checks whether the port is open causes no warning.
    drop(TcpStream::connect(("127.0.0.1", port)).expect("connected"));
    server.wait_log("the client left before the end of the TLS handshake");
    assert_eq!(server.connect().info("tls_handshakes_failed"), "3");
    good.id();
}

/// Connects `count` sockets that never finish their handshake; every other one begins it.
fn stall(port: u16, count: usize) -> Vec<TcpStream> {
    let one = |at: usize| {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("connected");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        if at % 2 == 1 {
            // The start of a handshake record that declares 512 bytes.
            socket.write_all(&[22, 3, 1, 2, 0, 1]).expect("sent");
        }
        socket
    };
    (0..count).map(one).collect()
}

#[test]
fn a_slow_handshake_delays_no_client_and_takes_no_place() {
    let files = Files::new();
    for io_threads in ["1", "3"] {
        let words = ["--maxclients", "3", "--shutdown-timeout", "60", "--io-threads", io_threads];
        let (mut server, port) = files.start("no", &words);
        // More handshakes than places, including those of operators.
        let mut stalled = stall(port, 40);
        let mut good: Vec<TlsWire> =
            (0..3).map(|_| TlsDialer::new(&files.authority).connect(port).expect("connected")).collect();
        for client in &mut good {
            client.id();
        }
        let mut plain = server.connect();
        plain.wait_info("connected_clients", "4");
        // The good clients have their replies, and no handshake has timed out yet.
        plain.wait_info("tls_handshakes_under_way", "40");
        assert_eq!(plain.info("tls_handshakes_evicted"), "0");
        assert_eq!(plain.ask_bulk("CLIENT LIST").lines().count(), 4);
        drop(stalled.split_off(10));
        plain.wait_info("tls_handshakes_under_way", "10");
        // With every place taken, a client gets an error over TLS.
        let _operators: Vec<Wire> = (0..15)
            .map(|_| {
                let mut wire = server.connect();
                assert_eq!(wire.ask("PING"), "+PONG");
                wire
            })
            .collect();
        // A client that writes after the close gets a broken pipe and may miss the error.
        eventually("one more client is refused with the reason", || {
            let error = TlsDialer::new(&files.authority).connect(port).err().expect("refused").to_string();
            let is_cut = error.contains("Broken pipe") || error.contains("Connection reset");
            assert!(is_cut || error.contains("max number of clients reached"), "{error}");
            !is_cut
        });
        // A stop does not wait for handshakes, and closes open connections in the TLS way.
        server.signal(Signal::SIGTERM);
        assert_eq!(server.wait().code(), Some(0));
        server.wait_log("bye");
        assert_eq!(server.count_log("no TLS handshake within"), 0, "{}", server.log_so_far());
        assert_eq!(good[0].rest(), "");
        for socket in &mut stalled {
            let end = support::read(socket, &mut [0]).map_err(|error| error.kind());
            assert!(matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)), "the end: {end:?}");
        }
    }
}

/// Returns the configuration of a server in this process, with free ports and these certificates.
fn config_of(files: &Files) -> Config {
    let file = |name: &str| Some(files.dir.path().join(name));
    Config {
        bind: vec![BindAddr { ip: [127, 0, 0, 1].into(), optional: false }],
        port: free_port(),
        tls_port: free_port(),
        tls_cert_file: file("server.crt"),
        tls_key_file: file("server.key"),
        tls_ca_cert_file: file("ca.crt"),
        ..Config::default()
    }
}

/// Loads the certificates that a configuration names.
fn load(config: &Config) -> Result<Arc<Acceptor>, String> {
    let loaded = Acceptor::load(TlsSettings::of(config).expect("a port for TLS"));
    loaded.map(Arc::new).map_err(|error| error.to_string())
}

/// The server runs in this process, with grace periods of a fraction of a second.
#[test]
fn a_flood_of_stalled_handshakes_is_bounded_and_others_connect_meanwhile() {
    // Bound of handshakes with `maxclients 3`.
    const BOUND: usize = 64;
    const FLOOD: usize = 200;
    let grace = Duration::from_millis(50);
    let files = Files::new();
    for io_threads in [1, 3] {
        let tls_auth_clients = TlsAuthClients::No;
        let config = Config { tls_auth_clients, maxclients: 3, io_threads, ..config_of(&files) };
        let tls = load(&config).expect("certificates");
        let runtime = runtime().expect("a runtime");
        let mut server = turns::server(&runtime, config.clone(), Some(Arc::clone(&tls)));
        let grace_periods = GracePeriods { normal: grace, in_rush: 4 * grace, rush: grace };
        Arc::get_mut(&mut server).expect("sole reference").handshakes = Arc::new(Handshakes::new(grace_periods));
        let serving = std::thread::spawn({
            let (server, tls) = (Arc::clone(&server), Arc::clone(&tls));
            let config = config.clone();
            let threads = IoThreads::start(io_threads).expect("threads");
            move || {
                runtime.block_on(async {
                    let listeners = listen(&config, Some(&tls)).expect("ports");
                    accept::ClientAcceptor::new(server, threads).run(listeners).await;
                });
            }
        });
        eventually("the port listens", || TcpStream::connect(("127.0.0.1", config.tls_port)).is_ok());
        let mut stalled = stall(config.tls_port, FLOOD);
        let evicted = || server.metrics.counted(Counter::HandshakesEvicted);
        let mut most = 0;
        eventually("all handshakes have begun", || {
            most = most.max(server.handshakes.count());
            evicted() == (FLOOD - BOUND) as u64
        });
        assert!((1..=BOUND).contains(&most), "{most}");
        let mut good = TlsDialer::new(&files.authority).connect(config.tls_port).expect("connected");
        good.id();
        // The oldest handshakes were closed, and established clients stay.
        assert_eq!(support::read(&mut stalled[0], &mut [0]).expect("the end"), 0);
        assert_eq!(evicted(), (FLOOD - BOUND + 1) as u64);
        good.id();
        server.request_stop();
        serving.join().expect("it stops");
    }
}

/// Handshakes have reserved descriptors: with all of them and every place in use, none is missing.
#[test]
fn handshakes_take_no_descriptors_that_clients_need() {
    let files = Files::new();
    let port = free_port().to_string();
    let mut words = vec!["--tls-port", &port, "--tls-cert-file", "server.crt", "--tls-key-file", "server.key"];
    words.extend(["--tls-auth-clients", "no"]);
    let log = refused(files.dir.path(), &words, |command| support::by_shell(command, "ulimit -n 100"));
    assert!(log.contains("in reserve, 64 for TLS handshakes, and one for a client. Raise it with ulimit -n"), "{log}");

    let started = Server::try_start_in(files.dir.path(), &words, |command| support::by_shell(command, "ulimit -n 160"));
    let server = started.unwrap_or_else(|log| panic!("{log}"));
    let mut plain = server.connect();
    let places: usize = plain.info("maxclients").parse().expect("a number");
    assert!((1..160 - 64 - 16 - 16).contains(&places), "{places}");
    plain.wait_info("connected_clients", "1");
    let _stalled = stall(port.parse().expect("a port"), 100);
    plain.wait_info("tls_handshakes_under_way", "64");
    let _others: Vec<Wire> = (1..places + 16)
        .map(|_| {
            let mut wire = server.connect();
            assert_eq!(wire.ask("PING"), "+PONG");
            wire
        })
        .collect();
    assert_eq!(plain.info("tls_handshakes_under_way"), "64");
    assert_eq!(plain.info("connected_clients"), (places + 16).to_string());
    assert_eq!(plain.info("accept_errors"), "0");
    plain.id();
}

#[test]
fn a_pipeline_that_is_read_late_is_answered_whole_and_in_order() {
    const REQUESTS: usize = 1000;
    let files = Files::new();
    let (server, port) = files.start("no", &[]);
    for version in [&TLS12, &TLS13] {
        let dial = TlsDialer { versions: &[version], ..TlsDialer::new(&files.authority) };
        let mut client = dial.connect(port).expect("connected");
        client.send(b"*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n".repeat(REQUESTS));
        // 2.6 MB of replies do not fit into the socket buffers: the server waits, and serves other clients.
        server.wait_stuck(1);
        server.connect().id();
        let mut last = 0;
        for _ in 0..REQUESTS {
            for id in client.read_ids(100) {
                assert!(id > last);
                last = id;
            }
        }
        client.id();
    }
}

#[test]
fn sighup_loads_certificates_for_new_connections_and_keeps_good_ones() {
    let files = Files::new();
    let (mut server, port) = files.start("optional", &[]);
    let dial = TlsDialer::new(&files.authority);
    let mut old = dial.connect(port).expect("connected");
    let first = old.certificate();

    files.renew();
    assert_eq!(dial.connect(port).expect("connected").certificate(), first, "without a reload nothing changes");
    server.signal(Signal::SIGHUP);
    server.wait_log("the certificates are reloaded");
    let second = dial.connect(port).expect("connected").certificate();
    assert_ne!(second, first);
    old.id();

    // The authority for clients is loaded too.
    let other = Authority::new("other");
    let shown = other.client();
    assert!(dial.with_certificate(&shown).connect(port).is_err());
    files.write("ca.crt", &other.pem);
    server.signal(Signal::SIGHUP);
    eventually("the second SIGHUP is handled", || server.count_log("the certificates are reloaded") >= 2);
    dial.with_certificate(&shown).connect(port).expect("connected");

    // Half of a renewal: the certificate is new, its key is old.
    let key = std::fs::read_to_string(files.path("server.key")).expect("a key");
    files.renew();
    files.write("server.key", &key);
    server.signal(Signal::SIGHUP);
    let line = server.wait_log("the certificates are unchanged");
    assert!(line.contains("does not match the first certificate in tls-cert-file server.crt"), "{line}");
    assert_eq!(dial.connect(port).expect("connected").certificate(), second);
    old.id();
}

/// A pipe without a writer in place of a certificate must not block later changes.
#[test]
fn a_pipe_in_the_place_of_a_certificate_holds_up_no_reload_and_no_change() {
    let files = Files::new();
    let (mut server, port) = files.start("no", &[]);
    let mut wire = server.connect();
    let dial = TlsDialer::new(&files.authority);
    let first = dial.connect(port).expect("connected").certificate();
    let pair = files.authority.server();
    files.write("new.crt", &pair.cert);
    files.write("new.key", &pair.key);
    for name in ["server.crt", "pipe.crt"] {
        let _ = std::fs::remove_file(files.path(name));
        let made = std::process::Command::new("mkfifo").arg(files.path(name)).status().expect("mkfifo runs");
        assert!(made.success());
    }
    server.signal(Signal::SIGHUP);
    let line = server.wait_log("the certificates are unchanged");
    assert!(line.contains("it is a named pipe; a regular file is expected"), "{line}");
    assert_eq!(dial.connect(port).expect("connected").certificate(), first);
    let reply = wire.ask("CONFIG SET tls-cert-file pipe.crt");
    assert!(reply.contains("it is a named pipe; a regular file is expected"), "{reply}");
    wire.id();
    assert_eq!(wire.ask("CONFIG SET tls-cert-file new.crt tls-key-file new.key"), "+OK");
    assert_ne!(dial.connect(port).expect("connected").certificate(), first);
    server.signal(Signal::SIGHUP);
    server.wait_log("the certificates are reloaded");
    assert!(server.stop().success());
}

#[test]
fn config_set_changes_certificates_for_new_connections_or_leaves_them() {
    let files = Files::new();
    let (server, port) = files.start("no", &[]);
    let mut wire = server.connect();
    let dial = TlsDialer::new(&files.authority);
    let mut old = dial.connect(port).expect("connected");
    let first = old.certificate();
    old.id();

    // Both change at once, because either alone would not fit the other.
    let pair = files.authority.server();
    files.write("new.crt", &pair.cert);
    files.write("new.key", &pair.key);
    let refused = "-ERR CONFIG SET failed (possibly related to argument";
    let reply = wire.ask("CONFIG SET timeout 5 tls-cert-file new.crt");
    assert!(reply.starts_with(&format!("{refused} 'tls-cert-file') - the key in tls-key-file server.key")), "{reply}");
    let reply = wire.ask("CONFIG SET tls-key-file none.key timeout 5");
    assert!(
        reply.starts_with(&format!("{refused} 'tls-key-file') - tls-key-file none.key: cannot be read")),
        "{reply}"
    );
    assert_eq!(wire.ask("CONFIG GET timeout t?s-key-file"), "*4");
    let lines: Vec<_> = (0..8).map(|_| wire.line()).collect();
    assert!(lines.contains(&"server.key".to_owned()) && lines.contains(&"0".to_owned()), "{lines:?}");
    assert_eq!(dial.connect(port).expect("connected").certificate(), first);
    assert_eq!(wire.ask("CONFIG SET tls-cert-file new.crt tls-key-file new.key"), "+OK");
    let second = dial.connect(port).expect("connected").certificate();
    assert_ne!(second, first);

    // Setting the same path again loads its current content, as in Redis. SIGHUP does so too, from the paths in force.
    let pair = files.authority.server();
    files.write("new.crt", &pair.cert);
    files.write("new.key", &pair.key);
    assert_eq!(wire.ask("CONFIG SET tls-cert-file new.crt"), "+OK");
    let third = dial.connect(port).expect("connected").certificate();
    assert!(third != second && third != first);

    // Clients need a certificate, of the configured authority.
    assert_eq!(wire.ask("CONFIG SET tls-auth-clients yes"), "+OK");
    assert!(dial.connect(port).is_err());
    let shown = files.authority.client();
    dial.with_certificate(&shown).connect(port).expect("connected");
    let other = Authority::new("other");
    files.write("other.crt", &other.pem);
    assert_eq!(wire.ask("CONFIG SET tls-ca-cert-file other.crt"), "+OK");
    assert!(dial.with_certificate(&shown).connect(port).is_err());
    let others = other.client();
    dial.with_certificate(&others).connect(port).expect("connected");
    let reply = wire.ask("CONFIG SET tls-ca-cert-file \"\"");
    assert!(reply.starts_with(&format!("{refused} 'tls-ca-cert-file') - tls-auth-clients is yes")), "{reply}");
    assert_eq!(wire.ask("CONFIG SET tls-ca-cert-file \"\" tls-auth-clients no"), "+OK");
    dial.connect(port).expect("connected");
    // The old connection stays open throughout.
    old.id();
    wire.wait_info("tls_handshakes_failed", "2");
    assert_eq!(wire.ask("CONFIG RESETSTAT"), "+OK");
    assert_eq!(wire.info("tls_handshakes_failed"), "0");
}

#[test]
fn each_fault_of_a_certificate_file_has_its_error() {
    let files = Files::new();
    let other = files.authority.server();
    files.write("other.key", &other.key);
    files.write("empty", "");
    files.write("text", "hello");
    files.write("cut.crt", "-----BEGIN CERTIFICATE-----\nMIIB\n");
    files.write("letters.crt", "-----BEGIN CERTIFICATE-----\n*?!*\n-----END CERTIFICATE-----\n");
    files.write("junk.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    files.write("junk.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    files.write("secret.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
    std::fs::write(files.path("der"), CertificateDer::from_pem_slice(other.cert.as_bytes()).expect("PEM"))
        .expect("written");
    let (cert, key, ca) = ("server.crt", "server.key", "ca.crt");
    for (cert, key, ca, expected) in [
        ("none", key, ca, "tls-cert-file {}none: cannot be read: No such file or directory"),
        ("empty", key, ca, "no certificate in it, but nothing: the file is empty"),
        ("text", key, ca, "text: no certificate in it, but text that is not PEM"),
        ("der", key, ca, "no certificate in it, but DER, it seems"),
        (key, cert, ca, "server.key: no certificate in it, but \"-----BEGIN PRIVATE KEY-----\""),
        ("cut.crt", key, ca, "cut.crt: is damaged: '-----END CERTIFICATE-----' is missing"),
        ("letters.crt", key, ca, "letters.crt: is damaged: base64"),
        ("junk.crt", key, ca, "tls-cert-file {}junk.crt: the certificate cannot be used"),
        (cert, "none", ca, "tls-key-file {}none: cannot be read: No such file or directory"),
        (cert, cert, ca, "server.crt: no private key in it, but \"-----BEGIN CERTIFICATE-----\""),
        (cert, "junk.key", ca, "junk.key: the key cannot be used"),
        (cert, "secret.key", ca, "secret.key: no private key in it, but a key with a password"),
        (cert, "other.key", ca, "other.key does not match the first certificate in tls-cert-file"),
        (cert, key, "none", "tls-ca-cert-file {}none: cannot be read: No such file or directory"),
        (cert, key, "text", "tls-ca-cert-file {}text: no certificate in it"),
        (cert, key, "junk.crt", "junk.crt: no certificate in it can be used"),
    ] {
        let [cert, key, ca] = [cert, key, ca].map(|name| Some(PathBuf::from(files.path(name))));
        let config = Config { tls_cert_file: cert, tls_key_file: key, tls_ca_cert_file: ca, ..config_of(&files) };
        let error = load(&config).expect_err(expected);
        let expected = expected.replace("{}", &files.path(""));
        assert!(error.contains(&expected), "expected {expected:?}:\n{error}");
    }
}

#[test]
fn a_start_without_good_certificates_is_refused() {
    let files = Files::new();
    let [cert, key, ca, none] = ["server.crt", "server.key", "ca.crt", "none"].map(|name| files.path(name));
    let words_of = |port: &str, cert: &str, ca: &str| {
        let words = ["--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", &key, "--tls-ca-cert-file", ca];
        words.map(str::to_owned)
    };
    let start =
        |words: &[String]| refused(files.dir.path(), &words.iter().map(String::as_str).collect::<Vec<_>>(), |_| {});
    let port = free_port().to_string();
    for (cert, ca, expected) in [
        (&*none, &*ca, "none: cannot be read: No such file or directory"),
        (&cert, "", "tls-auth-clients is yes, but there is no tls-ca-cert-file and no"),
        ("", &ca, "but there is no tls-cert-file"),
    ] {
        let words = words_of(&port, cert, ca);
        let error = start(&words);
        assert!(error.contains(expected), "expected {expected:?}:\n{error}");
        let output = getid().args(["check-config", "--dir", &files.path("")]).args(words).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(expected), "check-config: expected {expected:?}:\n{text}");
    }
    assert!(!Path::new(&files.path("getid-0.state")).exists(), "a start that fails leaves no trace");
    let busy = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let error = start(&words_of(&busy.local_addr().expect("its address").port().to_string(), &cert, &ca));
    assert!(error.contains("stop it, or set another port with tls-port"), "{error}");
}

/// Returns a command for `redis-cli`, if it supports TLS.
fn redis_cli() -> Command {
    let mut command = Command::new("redis-cli");
    command.env_remove("REDISCLI_AUTH");
    command
}

#[test]
#[ignore = "needs redis-cli"]
fn redis_cli_and_redis_benchmark_work() {
    let files = Files::new();
    let (server, port) = files.start("yes", &[]);
    let pair = files.authority.client();
    files.write("client.crt", &pair.cert);
    files.write("client.key", &pair.key);
    let port = port.to_string();
    let own = ["--cert".to_owned(), files.path("client.crt"), "--key".to_owned(), files.path("client.key")];
    let run = |mut command: Command, own: &[String], words: &[&str]| {
        command
            .args(["-h", "127.0.0.1", "-p", &port, "--tls", "--cacert", &files.path("ca.crt")])
            .args(own)
            .args(words);
        let output = command.output().expect("it runs");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.success(), format!("{out}{err}"))
    };
    let id = |text: &str| text.trim().parse::<u64>().unwrap_or_else(|_| panic!("no id: {text}"));
    let (ok, first) = run(redis_cli(), &own, &["GETID"]);
    assert!(ok, "{first}");
    let (_, second) = run(redis_cli(), &own, &["-3", "GETID"]);
    assert!(id(second.trim_start_matches("(integer) ")) > id(&first));
    let (_, many) = run(redis_cli(), &own, &["MGETID", "100"]);
    assert_eq!(many.lines().count(), 100, "{many}");
    let (ok, output) = run(redis_cli(), &[], &["GETID"]);
    assert!(!ok || output.contains("rror"), "without a certificate: {output}");
    let words = ["-n", "20000", "-c", "20", "-P", "16", "-q", "MGETID", "100"];
    let (ok, output) = run(Command::new("redis-benchmark"), &own, &words);
    assert!(ok && output.contains("requests per second"), "{output}");
    assert_eq!(server.stop().code(), Some(0));
    assert!(PathBuf::from(files.path("getid-0.state")).exists());
}

/// Only configured versions and suites are used, from the start and after CONFIG SET, which changes all or nothing.
#[test]
fn versions_and_cipher_suites_are_those_configured() {
    let files = Files::new();
    let (server, port) =
        files.start("no", &["--tls-protocols", "TLSv1.3", "--tls-ciphersuites", "TLS_AES_128_GCM_SHA256"]);
    let dial = TlsDialer::new(&files.authority);
    let only = |versions: &'static [&'static SupportedProtocolVersion]| TlsDialer { versions, ..dial };
    assert!(only(ONLY_12).connect(port).is_err());
    assert_eq!(only(ONLY_13).connect(port).expect("1.3").suite(), "TLS13_AES_128_GCM_SHA256");
    let mut wire = server.connect();
    assert_eq!(wire.ask("CONFIG SET tls-protocols TLSv1.2 tls-ciphers ECDHE-ECDSA-CHACHA20-POLY1305"), "+OK");
    assert!(only(ONLY_13).connect(port).is_err());
    let suite = only(ONLY_12).connect(port).expect("1.2").suite();
    assert_eq!(suite, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256");
    // OpenSSL words that mean all suites; an empty value is the default.
    assert_eq!(wire.ask("CONFIG SET tls-protocols \"\" tls-ciphers DEFAULT:!MEDIUM tls-ciphersuites \"\""), "+OK");
    assert!(only(ONLY_12).connect(port).is_ok() && only(ONLY_13).connect(port).is_ok());
    for (pair, reason) in [
        ("tls-protocols \"TLSv1.1 TLSv1.2\"", "argument(s) must be one of the following: TLSv1.2, TLSv1.3"),
        ("tls-ciphers AES128-SHA", "argument(s) must be one of the following: ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("tls-ciphersuites TLS_AES_128_CCM_SHA256", "argument(s) must be one of the following: TLS_AES_256_GCM_SHA384"),
    ] {
        let reply = wire.ask(&format!("CONFIG SET {pair}"));
        assert!(reply.contains(reason), "{pair}: {reply}");
    }
    // The client's order of suites counts, unless the server's is preferred.
    assert_eq!(wire.ask("CONFIG SET tls-ciphersuites TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384"), "+OK");
    assert_eq!(only(ONLY_13).connect(port).expect("1.3").suite(), "TLS13_AES_256_GCM_SHA384");
    assert_eq!(wire.ask("CONFIG SET tls-prefer-server-ciphers yes"), "+OK");
    assert_eq!(only(ONLY_13).connect(port).expect("1.3").suite(), "TLS13_CHACHA20_POLY1305_SHA256");
}

#[test]
fn authorities_may_lie_in_a_folder() {
    let files = Files::new();
    let (second, stranger) = (Authority::new("second"), Authority::new("other"));
    let folder = files.dir.path().join("authorities");
    std::fs::create_dir(&folder).expect("made");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
    let port = free_port();
    let files_of = format!("--tls-port {port} --tls-cert-file server.crt --tls-key-file server.key --tls-ca-cert-dir");
    let (good_words, bad_words) = (format!("{files_of} authorities"), format!("{files_of} none"));
    let log = refused(files.dir.path(), &support::words(&good_words), |_| {});
    assert!(log.contains("tls-ca-cert-dir authorities: no certificate in any of its files. Give a folder"), "{log}");
    let log = refused(files.dir.path(), &support::words(&bad_words), |_| {});
    assert!(log.contains("tls-ca-cert-dir none: cannot be read: No such file or directory"), "{log}");
    assert!(log.contains("Give a folder of PEM files"), "{log}");
    write("own.pem", &files.authority.pem);
    write("README", "these are ours");
    std::fs::create_dir(folder.join("old")).expect("made");
    // A second name as c_rehash creates it.
    std::os::unix::fs::symlink("own.pem", folder.join("12ab34cd.0")).expect("a link");
    let server = Server::start_in(files.dir.path(), &support::words(&good_words));
    let dial = TlsDialer::new(&files.authority);
    let [good, later, bad] = [&files.authority, &second, &stranger].map(Authority::client);
    assert!(dial.with_certificate(&good).connect(port).is_ok());
    assert!(dial.with_certificate(&later).connect(port).is_err() && dial.with_certificate(&bad).connect(port).is_err());
    write("second.crt", &second.pem);
    assert_eq!(server.connect().ask("CONFIG SET tls-ca-cert-dir authorities"), "+OK");
    assert!(dial.with_certificate(&good).connect(port).is_ok() && dial.with_certificate(&later).connect(port).is_ok());
    assert!(dial.with_certificate(&bad).connect(port).is_err());
    // The file together with the folder, and neither.
    assert_eq!(server.connect().ask("CONFIG SET tls-ca-cert-dir \"\" tls-ca-cert-file ca.crt"), "+OK");
    assert!(dial.with_certificate(&good).connect(port).is_ok() && dial.with_certificate(&later).connect(port).is_err());
    let reply = server.connect().ask("CONFIG SET tls-ca-cert-file \"\"");
    assert!(reply.contains("there is no tls-ca-cert-file and no tls-ca-cert-dir"), "{reply}");
}

/// As in Redis 8, the common name of a certificate is the user, whatever its passwords.
#[test]
fn a_certificate_can_name_the_user() {
    let files = Files::new();
    let orders = "orders on >pw -@all +ping +getid +acl|whoami";
    let users = ["--requirepass", "secret", "--user", orders, "--user", "off off >pw +@all"];
    let by_name = ["--tls-auth-clients-user", "CN", "--io-threads", "2"];
    let (mut server, port) = files.start("optional", &[&users[..], &by_name].concat());
    let dial = TlsDialer::new(&files.authority);
    let named = |name: &str| files.authority.client_named(name);
    let orders = named("orders");
    let config = dial.with_certificate(&orders).config();
    let mut wire = TlsWire::connect_tls(&config, port).expect("it connects");
    assert_eq!(wire.user(), "orders");
    wire.id();
    assert!(wire.ask("SHUTDOWN").starts_with("-NOPERM"));
    let line = server.wait_log("logged in");
    assert!(line.contains("orders"), "{line}");
    // A resumed session keeps its client's certificate.
    assert_eq!(TlsWire::connect_tls(&config, port).expect("again").user(), "orders");
    assert_eq!(server.connect().ask("PING"), "-NOAUTH Authentication required.");
    // RESET removes the user, and a password still works.
    assert_eq!(wire.ask("RESET"), "+RESET");
    assert!(wire.user().starts_with("-NOAUTH"));
    assert_eq!(wire.ask("AUTH secret"), "+OK");
    assert_eq!(wire.user(), "default");
    // No such user, a disabled one, no certificate, a certificate without a name, and one with two.
    let two = files.authority.sign_with(ExtendedKeyUsagePurpose::ClientAuth, |params| {
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "orders");
        params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 3]), "default");
    });
    let none = files.authority.sign_with(ExtendedKeyUsagePurpose::ClientAuth, |params| {
        params.distinguished_name = DistinguishedName::new();
    });
    let cases = [
        ("unknown", Some(named("unknown"))),
        ("off", Some(named("off"))),
        ("two", Some(two)),
        ("none", Some(none)),
        ("", None),
    ];
    for (case, pair) in cases {
        let dial = pair.as_ref().map_or(dial, |pair| dial.with_certificate(pair));
        let mut wire = dial.connect(port).expect("it connects");
        assert!(wire.user().starts_with("-NOAUTH"), "{case:?}: {}", wire.user());
    }
    // A certificate of another authority is refused, whatever its name.
    assert!(dial.with_certificate(&Authority::new("other").client_named("default")).connect(port).is_err());
    // The connection of a deleted user is closed, and its certificate no longer logs in. It is valid for the next user
    // of that name.
    let mut admin = server.connect();
    assert_eq!(admin.ask("AUTH secret"), "+OK");
    let mut wire = TlsWire::connect_tls(&config, port).expect("it connects");
    assert_eq!(admin.ask("ACL DELUSER orders"), ":1");
    assert!(wire.try_send("PING\r\n").is_err() || wire.try_line().map_or(true, |line| line.is_empty()));
    assert!(TlsWire::connect_tls(&config, port).expect("it connects").user().starts_with("-NOAUTH"));
    // Without the directive the certificate is required but sets no user.
    assert_eq!(admin.ask("ACL SETUSER orders on >pw +@all"), "+OK");
    assert_eq!(TlsWire::connect_tls(&config, port).expect("it connects").user(), "orders");
    assert_eq!(admin.ask("CONFIG SET tls-auth-clients-user off"), "+OK");
    assert!(TlsWire::connect_tls(&config, port).expect("it connects").user().starts_with("-NOAUTH"));
    let reply = admin.ask("CONFIG SET tls-auth-clients-user CN tls-auth-clients no");
    assert!(reply.contains("clients present no certificate"), "{reply}");
}

#[test]
fn a_session_resumes_until_the_certificates_change() {
    let files = Files::new();
    let good = files.authority.client();
    let (mut server, port) = files.start("yes", &[]);
    let mut admin = server.connect();
    for (reloads, version) in [(1, &TLS13), (2, &TLS12)] {
        assert_eq!(admin.ask("CONFIG RESETSTAT"), "+OK");
        let config =
            TlsDialer { versions: &[version], ..TlsDialer::new(&files.authority).with_certificate(&good) }.config();
        let connect = || drop(TlsWire::connect_tls(&config, port).expect("it connects"));
        connect();
        connect();
        assert_eq!([admin.info("tls_handshakes"), admin.info("tls_handshakes_resumed")], ["2", "1"], "{version:?}");
        // After a reload the handshake needs the certificate again.
        assert_eq!(admin.ask("CONFIG SET tls-cert-file server.crt"), "+OK");
        connect();
        assert_eq!(admin.info("tls_handshakes_resumed"), "1");
        connect();
        assert_eq!(admin.info("tls_handshakes_resumed"), "2");
        server.signal(Signal::SIGHUP);
        eventually("SIGHUP is handled", || server.count_log("the certificates are reloaded") >= reloads);
        connect();
        assert_eq!(admin.info("tls_handshakes_resumed"), "2");
        assert_eq!(admin.ask("CONFIG SET tls-session-caching no"), "+OK");
        connect();
        connect();
        assert_eq!(admin.info("tls_handshakes_resumed"), "2");
        assert_eq!(admin.ask("CONFIG SET tls-session-caching yes"), "+OK");
    }
    // After an authority is removed, an old session cannot resume.
    let config = TlsDialer::new(&files.authority).with_certificate(&good).config();
    drop(TlsWire::connect_tls(&config, port).expect("it connects"));
    files.write("ca.crt", &Authority::new("other").pem);
    assert_eq!(admin.ask("CONFIG SET tls-ca-cert-file ca.crt"), "+OK");
    assert!(TlsWire::connect_tls(&config, port).is_err());
}

#[test]
fn the_end_of_a_certificate_is_logged() {
    let files = Files::new();
    let now_s = i64::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_secs()).expect("a time");
    let write = |days: i64| {
        let pair = files.authority.sign_with(ExtendedKeyUsagePurpose::ServerAuth, |params| {
            let date = jiff::Timestamp::from_second(now_s + days * 86_400).expect("a time").to_string();
            let mut parts = date[..10].split('-').map(|part| part.parse::<u16>().expect("a number"));
            let mut next = || parts.next().expect("a part");
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            let (year, month, day) = (next(), next(), next());
            params.not_after = rcgen::date_time_ymd(
                year.into(),
                u8::try_from(month).expect("small"),
                u8::try_from(day).expect("small"),
            );
        });
        files.write("server.crt", &pair.cert);
        files.write("server.key", &pair.key);
    };
    // The warning is logged once a day, and after each reload.
    write(20);
    let acceptor = load(&config_of(&files)).expect("certificates");
    let is_logged = |at_s: i64| acceptor.warning(now_s + at_s).is_some();
    assert_eq!([0, 1, 86_399, 86_400, 86_401].map(is_logged), [true, false, false, true, false]);
    acceptor.reload().expect("certificates");
    assert_eq!([86_402, 86_403].map(is_logged), [true, false]);
    write(400);
    acceptor.reload().expect("certificates");
    assert!(!is_logged(86_404));

    let (mut server, _) = files.start("no", &[]);
    let mut wire = server.connect();
    let left: i64 = wire.info("tls_certificate_days_left").parse().expect("a number");
    assert!((398..=400).contains(&left), "{left}");
    let end: i64 = wire.info("tls_certificate_ends").parse().expect("a number");
    assert!((end - now_s) / 86_400 == left || (end - now_s) / 86_400 == left + 1, "{end}");
    write(-3);
    server.signal(Signal::SIGHUP);
    server.wait_log("the certificate has ended: clients refuse it");
    assert!(wire.info("tls_certificate_days_left").starts_with('-'));
}
