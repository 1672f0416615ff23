//! TLS as clients and operators meet it: handshakes of both versions, certificates, reloads, and what goes wrong.

#![allow(missing_docs, reason = "a test file")]

mod common;

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{PATIENCE, Server, Wire, free_port, getid, refused};
use nix::sys::signal::Signal;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

/// Who signs certificates.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, PEM.
struct Pair {
    cert: String,
    key: String,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([]).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = params.self_signed(&key).expect("signed").pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    fn sign(&self, usage: ExtendedKeyUsagePurpose) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("names");
        params.extended_key_usages = vec![usage];
        let cert = params.signed_by(&key, &self.issuer).expect("signed").pem();
        Pair { cert, key: key.serialize_pem() }
    }

    fn server(&self) -> Pair {
        self.sign(ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn client(&self) -> Pair {
        self.sign(ExtendedKeyUsagePurpose::ClientAuth)
    }
}

/// A folder with the files of a server, and who signed them.
struct Files {
    dir: tempfile::TempDir,
    authority: Authority,
}

impl Files {
    fn new() -> Files {
        let files = Files { dir: tempfile::tempdir().expect("a folder"), authority: Authority::new("own") };
        files.write("ca.crt", &files.authority.pem);
        files.renew();
        files
    }

    /// Another certificate for the server.
    fn renew(&self) {
        let pair = self.authority.server();
        self.write("server.crt", &pair.cert);
        self.write("server.key", &pair.key);
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).expect("written");
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("a path").to_owned()
    }

    /// A server with both ports, and the number of the second.
    fn start(&self, auth_clients: &str, words: &[&str]) -> (Server, u16) {
        let port = free_port();
        let port_text = port.to_string();
        // Relative paths count from `dir`.
        let mut all = vec!["--tls-port", &port_text, "--tls-cert-file", "server.crt", "--tls-key-file", "server.key"];
        all.extend(["--tls-auth-clients", auth_clients, "--tls-ca-cert-file", "ca.crt", "--loglevel", "verbose"]);
        all.extend(words);
        (Server::start_in(self.dir.path(), &all), port)
    }
}

const BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

/// A client: whom it trusts, what it shows, what it speaks.
#[derive(Clone, Copy)]
struct Dial<'a> {
    trusts: &'a str,
    shows: Option<&'a Pair>,
    versions: &'a [&'static SupportedProtocolVersion],
}

impl<'a> Dial<'a> {
    fn new(trusts: &'a Authority) -> Dial<'a> {
        Dial { trusts: &trusts.pem, shows: None, versions: BOTH }
    }

    fn showing(self, pair: &'a Pair) -> Dial<'a> {
        Dial { shows: Some(pair), ..self }
    }

    /// Connects, and asks for an answer: only that shows whether the server took the client's certificate.
    fn connect(self, port: u16) -> io::Result<Secure> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.trusts.as_bytes()).expect("PEM")).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(self.versions)
            .expect("versions")
            .with_root_certificates(roots);
        let config = match self.shows {
            None => config.with_no_client_auth(),
            Some(pair) => {
                let cert = CertificateDer::from_pem_slice(pair.cert.as_bytes()).expect("PEM");
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("PEM");
                config.with_client_auth_cert(vec![cert], key).expect("a pair")
            }
        };
        let name = ServerName::try_from("localhost").expect("a name");
        let session = ClientConnection::new(Arc::new(config), name).expect("a session");
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut secure = Secure(BufReader::new(StreamOwned::new(session, socket)));
        secure.send("PING\r\n")?;
        match secure.line()?.as_str() {
            "+PONG" => Ok(secure),
            other => Err(io::Error::other(other.to_owned())),
        }
    }
}

/// A client's end of a TLS connection.
struct Secure(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl Secure {
    fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.0.get_mut().write_all(bytes.as_ref())?;
        self.0.get_mut().flush()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        Ok(line.trim_end_matches("\r\n").to_owned())
    }

    fn ask(&mut self, inline: &str) -> String {
        self.send(format!("{inline}\r\n")).expect("sent");
        self.line().expect("a line in time")
    }

    fn id(&mut self) -> u64 {
        let reply = self.ask("GETID");
        reply.strip_prefix(':').and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("GETID: {reply}"))
    }

    /// The reply to `MGETID count`, which was sent.
    fn ids(&mut self, count: usize) -> Vec<u64> {
        assert_eq!(self.line().expect("a header"), format!("*{count}"));
        let one = |_| {
            self.line().expect("a length");
            self.line().expect("digits").parse().expect("an id")
        };
        (0..count).map(one).collect()
    }

    /// What comes until the server says that nothing more will.
    fn rest(&mut self) -> io::Result<String> {
        let mut text = String::new();
        self.0.read_to_string(&mut text)?;
        Ok(text)
    }

    fn certificate(&self) -> Vec<u8> {
        let session = &self.0.get_ref().conn;
        session.peer_certificates().and_then(|chain| chain.first()).expect("a certificate").to_vec()
    }

    fn version(&self) -> Option<ProtocolVersion> {
        self.0.get_ref().conn.protocol_version()
    }
}

#[test]
fn ids_come_over_both_versions_and_any_thread() {
    let files = Files::new();
    for io_threads in ["1", "3"] {
        let (server, port) = files.start("no", &["--io-threads", io_threads]);
        let mut last = 0;
        let both: [(&'static SupportedProtocolVersion, _); 2] =
            [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)];
        for (version, expected) in both.into_iter().cycle().take(6) {
            let dial = Dial { versions: &[version], ..Dial::new(&files.authority) };
            let mut client = dial.connect(port).expect("connected");
            assert_eq!(client.version(), Some(expected));
            let id = client.id();
            assert!(id > last);
            client.send("MGETID 100\r\n").expect("sent");
            let many = client.ids(100);
            assert!(many[0] > id && many.is_sorted_by(|a, b| a < b));
            last = many[99];
            assert_eq!(client.ask("MGETID 101"), "-ERR parameters error! argv[1] = 101");
            // The end is said, so that nobody takes it for one that an attacker made.
            assert_eq!(client.ask("QUIT"), "+OK");
            assert_eq!(client.rest().expect("close_notify"), "");
        }
        let mut plain = server.connect();
        assert!(plain.id() > last, "the plain port serves beside it");
        assert_eq!(plain.info("tls_handshakes"), "6");
        assert_eq!(plain.info("tls_handshakes_failed"), "0");
        assert_eq!(plain.info("tcp_port"), server.port.to_string());
    }
}

/// Python's ssl and others leave Nagle's algorithm on: their first request waits for the acknowledgement of the handshake.
#[test]
fn a_first_request_is_not_held_up() {
    let files = Files::new();
    let (_server, port) = files.start("no", &[]);
    // A first connection without the clock: what is loaded on demand.
    drop(Dial::new(&files.authority).connect(port).expect("connected"));
    let fastest = (0..5).map(|_| {
        let started = Instant::now();
        Dial::new(&files.authority).connect(port).expect("connected");
        started.elapsed()
    });
    let fastest = fastest.min().expect("five");
    assert!(fastest < Duration::from_millis(35), "{fastest:?}");
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
    while !line.contains("listens on") {
        line.clear();
        assert_ne!(log.read_line(&mut line).expect("a log"), 0, "it ended");
    }
    assert!(line.trim_end().ends_with(&format!("listens on tls://127.0.0.1:{port}")), "{line}");
    let mut client = Dial::new(&files.authority).connect(port.parse().expect("a port")).expect("connected");
    client.send("INFO server\r\n").expect("sent");
    while client.line().expect("a line") != format!("tcp_port:{port}") {}
    child.kill().expect("killed");
    child.wait().expect("its end");
}

#[test]
fn clients_show_certificates_as_tls_auth_clients_says() {
    let files = Files::new();
    let stranger = Authority::new("other");
    let (good, bad) = (files.authority.client(), stranger.client());
    let dial = Dial::new(&files.authority);
    for (auth_clients, without, with_good, with_bad) in
        [("yes", false, true, false), ("optional", true, true, false), ("no", true, true, true)]
    {
        let (mut server, port) = files.start(auth_clients, &[]);
        let cases = [
            ("without", dial, without),
            ("good", dial.showing(&good), with_good),
            ("bad", dial.showing(&bad), with_bad),
        ];
        let mut failed = 0;
        for (name, dial, welcome) in cases {
            for version in [&TLS12, &TLS13] {
                let result = Dial { versions: &[version], ..dial }.connect(port);
                assert_eq!(result.is_ok(), welcome, "{auth_clients}, {name}, {version:?}: {:?}", result.err());
                failed += usize::from(!welcome);
            }
        }
        assert_eq!(server.connect().info("tls_handshakes_failed"), failed.to_string());
        if auth_clients == "yes" {
            let line = server.wait_log("it sent no certificate, and tls-auth-clients is yes");
            assert!(line.contains(" at 127.0.0.1:"), "{line}");
        }
        if failed > 0 {
            server.wait_log("invalid peer certificate: UnknownIssuer");
        }
    }
}

#[test]
fn who_trusts_another_authority_does_not_connect() {
    let files = Files::new();
    let (mut server, port) = files.start("no", &[]);
    let error = Dial::new(&Authority::new("other")).connect(port).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    server.wait_log("TLS handshake failed: received fatal alert");
    assert_eq!(server.connect().info("tls_handshakes_failed"), "1");
}

#[test]
fn plain_text_on_the_tls_port_is_closed_and_told() {
    let files = Files::new();
    let (mut server, port) = files.start("no", &[]);
    let mut good = Dial::new(&files.authority).connect(port).expect("connected");
    for (text, failed) in [("*1\r\n$5\r\nGETID\r\n", "1"), ("GETID\r\n", "2"), ("GET / HTTP/1.1\r\n\r\n", "3")] {
        let mut wire = Wire::connect(port);
        wire.send(text);
        let reply = wire.rest();
        assert!(!reply.contains("ERR") && !reply.contains(':'), "{reply:?}");
        assert_eq!(server.connect().info("tls_handshakes_failed"), failed);
    }
    let line = server.wait_log("it sent plain text, and this port takes TLS only");
    assert!(line.contains("127.0.0.1:"), "{line}");
    // Who only looks whether the port is open did nothing wrong.
    drop(TcpStream::connect(("127.0.0.1", port)).expect("connected"));
    server.wait_log("it left before the end of the TLS handshake");
    assert_eq!(server.connect().info("tls_handshakes_failed"), "3");
    good.id();
}

#[test]
fn who_is_slow_in_the_handshake_delays_nobody_and_has_a_place() {
    let files = Files::new();
    let (server, port) = files.start("no", &["--maxclients", "4"]);
    let mut silent = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    let mut halfway = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    // A record of a handshake that promises 512 bytes.
    halfway.write_all(&[22, 3, 1, 2, 0, 1]).expect("sent");
    let started = Instant::now();
    let mut good = Dial::new(&files.authority).connect(port).expect("connected");
    good.id();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    // Three have a place. The next gets the fourth, and the one after it an answer, through TLS.
    let mut plain = server.connect();
    assert_eq!(plain.info("connected_clients"), "4");
    let error = Dial::new(&files.authority).connect(port).err().expect("refused");
    assert!(error.to_string().contains("max number of clients reached"), "{error}");
    // A stop does not wait for handshakes, and tells who is open.
    let started = Instant::now();
    assert_eq!(server.stop().code(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(good.rest().expect("close_notify"), "");
    assert_eq!(silent.read(&mut [0]).expect("the end"), 0);
    assert_eq!(halfway.read(&mut [0]).expect("the end"), 0);
}

#[test]
fn a_pipeline_that_is_read_late_is_answered_whole_and_in_order() {
    const REQUESTS: usize = 1000;
    let files = Files::new();
    let (server, port) = files.start("no", &[]);
    for version in [&TLS12, &TLS13] {
        let dial = Dial { versions: &[version], ..Dial::new(&files.authority) };
        let mut client = dial.connect(port).expect("connected");
        client.send(b"*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n".repeat(REQUESTS)).expect("sent");
        // 2.6 MB of replies: more than the socket's buffers hold. The server waits, and serves others.
        std::thread::sleep(Duration::from_millis(300));
        server.connect().id();
        let mut last = 0;
        for _ in 0..REQUESTS {
            for id in client.ids(100) {
                assert!(id > last);
                last = id;
            }
        }
        client.id();
    }
}

#[test]
fn a_client_that_never_reads_costs_a_bounded_amount() {
    let files = Files::new();
    let (server, port) = files.start("no", &[]);
    let mut stuck = Dial::new(&files.authority).connect(port).expect("connected");
    let socket = &stuck.0.get_ref().sock;
    socket.set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let request = b"*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n".repeat(1000);
    let mut sent = 0;
    while sent < 1_000_000 && stuck.send(&request).is_ok() {
        sent += 1000;
    }
    assert!(sent < 1_000_000, "the server read on although nobody takes its replies");
    let mut good = server.connect();
    good.id();
    let resident: u64 = good.info("used_memory_rss").parse().expect("bytes");
    assert!(resident < 64 << 20, "{resident} bytes");
}

#[test]
fn a_client_that_never_reads_is_cut_off_in_time() {
    let files = Files::new();
    let (server, port) = files.start("no", &["--client-output-timeout", "1"]);
    let mut stuck = Dial::new(&files.authority).connect(port).expect("connected");
    stuck.0.get_ref().sock.set_write_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    let request = b"*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n".repeat(1000);
    while stuck.send(&request).is_ok() {}
    let mut good = server.connect();
    let begun = std::time::Instant::now();
    while good.info("client_output_timeout_disconnections") != "1" || good.info("connected_clients") != "1" {
        assert!(begun.elapsed() < common::PATIENCE, "it is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn sighup_loads_certificates_for_new_connections_and_keeps_good_ones() {
    let files = Files::new();
    let (mut server, port) = files.start("optional", &[]);
    let dial = Dial::new(&files.authority);
    let mut old = dial.connect(port).expect("connected");
    let first = old.certificate();

    files.renew();
    assert_eq!(dial.connect(port).expect("connected").certificate(), first, "nobody asked for it");
    server.signal(Signal::SIGHUP);
    server.wait_log("the certificates are loaded anew");
    let second = dial.connect(port).expect("connected").certificate();
    assert_ne!(second, first);
    old.id();

    // The authority of clients is loaded with the rest.
    let other = Authority::new("other");
    let shown = other.client();
    assert!(dial.showing(&shown).connect(port).is_err());
    files.write("ca.crt", &other.pem);
    server.signal(Signal::SIGHUP);
    while server.count_log("the certificates are loaded anew") < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    dial.showing(&shown).connect(port).expect("connected");

    // Half of a renewal: the certificate is there, its key is not yet.
    let key = std::fs::read_to_string(files.path("server.key")).expect("a key");
    files.renew();
    files.write("server.key", &key);
    server.signal(Signal::SIGHUP);
    let line = server.wait_log("the certificates stay as they were");
    assert!(line.contains("is not that of the first certificate in tls-cert-file server.crt"), "{line}");
    assert_eq!(dial.connect(port).expect("connected").certificate(), second);
    old.id();
}

/// The disk is one that hangs: a pipe that nobody writes to.
#[test]
fn sighup_waits_for_the_disk_beside_the_server_and_undoes_no_change() {
    let files = Files::new();
    let (mut server, port) = files.start("no", &[]);
    let mut wire = server.connect();
    let dial = Dial::new(&files.authority);
    let first = dial.connect(port).expect("connected").certificate();
    let pair = files.authority.server();
    files.write("new.crt", &pair.cert);
    files.write("new.key", &pair.key);

    let old = std::fs::read(files.path("server.crt")).expect("a certificate");
    std::fs::remove_file(files.path("server.crt")).expect("removed");
    let made = std::process::Command::new("mkfifo").arg(files.path("server.crt")).status().expect("mkfifo runs");
    assert!(made.success());
    server.signal(Signal::SIGHUP);
    server.wait_log("the log is opened anew");
    wire.id();
    assert_eq!(dial.connect(port).expect("connected").certificate(), first);
    let mut changing = server.connect();
    changing.send("CONFIG SET tls-cert-file new.crt tls-key-file new.key\r\n");
    wire.id();
    std::fs::write(files.path("server.crt"), &old).expect("written to whoever reads");
    server.wait_log("the certificates are loaded anew");
    assert_eq!(changing.line(), "+OK");
    assert_ne!(dial.connect(port).expect("connected").certificate(), first, "the change came after it");

    // While it hangs, the server can be stopped.
    assert_eq!(wire.ask("CONFIG GET tls-cert-file"), "*2");
    std::fs::remove_file(files.path("new.crt")).expect("removed");
    let made = std::process::Command::new("mkfifo").arg(files.path("new.crt")).status().expect("mkfifo runs");
    assert!(made.success());
    server.signal(Signal::SIGHUP);
    while server.count_log("the log is opened anew") < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(server.stop().success());
}

#[test]
fn config_set_changes_certificates_for_new_connections_or_leaves_them() {
    let files = Files::new();
    let (server, port) = files.start("no", &[]);
    let mut wire = server.connect();
    let dial = Dial::new(&files.authority);
    let mut old = dial.connect(port).expect("connected");
    let first = old.certificate();
    old.id();

    // Both at once: each by itself would not fit the other.
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

    // The same path again loads what is there by now, as in Redis; SIGHUP does so too, by the paths in force.
    let pair = files.authority.server();
    files.write("new.crt", &pair.cert);
    files.write("new.key", &pair.key);
    assert_eq!(wire.ask("CONFIG SET tls-cert-file new.crt"), "+OK");
    let third = dial.connect(port).expect("connected").certificate();
    assert!(third != second && third != first);

    // Who has to show a certificate, and whose counts.
    assert_eq!(wire.ask("CONFIG SET tls-auth-clients yes"), "+OK");
    assert!(dial.connect(port).is_err());
    let shown = files.authority.client();
    dial.showing(&shown).connect(port).expect("connected");
    let other = Authority::new("other");
    files.write("other.crt", &other.pem);
    assert_eq!(wire.ask("CONFIG SET tls-ca-cert-file other.crt"), "+OK");
    assert!(dial.showing(&shown).connect(port).is_err());
    let others = other.client();
    dial.showing(&others).connect(port).expect("connected");
    let reply = wire.ask("CONFIG SET tls-ca-cert-file \"\"");
    assert!(reply.starts_with(&format!("{refused} 'tls-ca-cert-file') - tls-auth-clients is yes")), "{reply}");
    assert_eq!(wire.ask("CONFIG SET tls-ca-cert-file \"\" tls-auth-clients no"), "+OK");
    dial.connect(port).expect("connected");
    // All the while.
    old.id();
    assert_eq!(wire.info("tls_handshakes_failed").parse::<u32>().expect("a number"), 2);
    assert_eq!(wire.ask("CONFIG RESETSTAT"), "+OK");
    assert_eq!(wire.info("tls_handshakes_failed"), "0");
}

#[test]
fn a_start_without_good_certificates_says_what_is_wrong() {
    let files = Files::new();
    let (cert, key, ca) = (files.path("server.crt"), files.path("server.key"), files.path("ca.crt"));
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
    let path = |name: &str| files.path(name);
    let cases = [
        (path("none"), key.clone(), ca.clone(), "tls-cert-file {}none: cannot be read: No such file or directory"),
        (path("empty"), key.clone(), ca.clone(), "no certificate in it, but nothing: the file is empty"),
        (path("text"), key.clone(), ca.clone(), "text: no certificate in it, but no PEM at all"),
        (path("der"), key.clone(), ca.clone(), "no certificate in it, but DER, it seems"),
        (
            key.clone(),
            cert.clone(),
            ca.clone(),
            "server.key: no certificate in it, but \"-----BEGIN PRIVATE KEY-----\"",
        ),
        (path("cut.crt"), key.clone(), ca.clone(), "cut.crt: is damaged: '-----END CERTIFICATE-----' is missing"),
        (path("letters.crt"), key.clone(), ca.clone(), "letters.crt: is damaged: base64"),
        (path("junk.crt"), key.clone(), ca.clone(), "tls-cert-file {}junk.crt: the certificate cannot be used"),
        (cert.clone(), path("none"), ca.clone(), "tls-key-file {}none: cannot be read: No such file or directory"),
        (
            cert.clone(),
            cert.clone(),
            ca.clone(),
            "server.crt: no private key in it, but \"-----BEGIN CERTIFICATE-----\"",
        ),
        (cert.clone(), path("junk.key"), ca.clone(), "junk.key: the key cannot be used"),
        (cert.clone(), path("secret.key"), ca.clone(), "secret.key: no private key in it, but a key with a password"),
        (
            cert.clone(),
            path("other.key"),
            ca.clone(),
            "other.key is not that of the first certificate in tls-cert-file",
        ),
        (cert.clone(), key.clone(), path("none"), "tls-ca-cert-file {}none: cannot be read: No such file or directory"),
        (cert.clone(), key.clone(), path("text"), "tls-ca-cert-file {}text: no certificate in it"),
        (cert.clone(), key.clone(), path("junk.crt"), "junk.crt: no certificate in it can be used"),
        (cert.clone(), key.clone(), String::new(), "tls-auth-clients is yes, but there is no tls-ca-cert-file"),
        (String::new(), key.clone(), ca.clone(), "but there is no tls-cert-file"),
    ];
    let folder = format!("{}/", files.dir.path().display());
    let port = free_port().to_string();
    for (cert, key, ca, expected) in cases {
        let words = ["--tls-port", &port, "--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
        let expected = expected.replace("{}", &folder);
        let said = refused(files.dir.path(), &words, |_| {});
        assert!(said.contains(&expected), "expected {expected:?}:\n{said}");
        let output = getid().args(["check-config", "--dir", &folder]).args(words).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&expected), "check-config: expected {expected:?}:\n{said}");
    }
    assert!(!Path::new(&format!("{folder}getid-0.state")).exists(), "a start that fails leaves no trace");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let words = ["--tls-port", &port, "--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
    let said = refused(files.dir.path(), &words, |_| {});
    assert!(said.contains("stop it, or set another with tls-port"), "{said}");
}

/// Where `redis-cli` is, if it can speak TLS.
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
    let (ok, said) = run(redis_cli(), &[], &["GETID"]);
    assert!(!ok || said.contains("rror"), "without a certificate: {said}");
    let words = ["-n", "20000", "-c", "20", "-P", "16", "-q", "MGETID", "100"];
    let (ok, said) = run(Command::new("redis-benchmark"), &own, &words);
    assert!(ok && said.contains("requests per second"), "{said}");
    assert_eq!(server.stop().code(), Some(0));
    assert!(PathBuf::from(files.path("getid-0.state")).exists());
}
