//! Certificates, servers that use them, and clients that connect over TLS.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use socket2::SockRef;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use super::wire::Socket;
use super::{PATIENCE, Server, Wire, folder, free_port};

/// A certificate authority.
pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, PEM.
pub struct Pair {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([]).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = params.self_signed(&key).expect("signed").pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    pub fn sign(&self, usage: ExtendedKeyUsagePurpose) -> Pair {
        self.sign_with(usage, |_| {})
    }

    pub fn sign_with(&self, usage: ExtendedKeyUsagePurpose, change: impl Fn(&mut CertificateParams)) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("names");
        params.extended_key_usages = vec![usage];
        change(&mut params);
        let cert = params.signed_by(&key, &self.issuer).expect("signed").pem();
        Pair { cert, key: key.serialize_pem() }
    }

    pub fn server(&self) -> Pair {
        self.sign(ExtendedKeyUsagePurpose::ServerAuth)
    }

    pub fn client(&self) -> Pair {
        self.sign(ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// Creates a client's certificate with this common name in its subject.
    pub fn client_named(&self, name: &str) -> Pair {
        self.sign_with(ExtendedKeyUsagePurpose::ClientAuth, |params| {
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, name);
        })
    }
}

/// A folder with `ca.crt`, `server.crt`, `server.key`, `client.crt` and `client.key`, and the authority that signed
/// them.
pub struct Files {
    pub dir: tempfile::TempDir,
    pub authority: Authority,
}

impl Files {
    pub fn new() -> Files {
        let files = Files { dir: folder(), authority: Authority::new("own") };
        files.write("ca.crt", &files.authority.pem);
        files.renew();
        files
    }

    /// Replaces the server's certificate.
    pub fn renew(&self) {
        let pair = self.authority.server();
        self.write("server.crt", &pair.cert);
        self.write("server.key", &pair.key);
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).expect("written");
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("a path").to_owned()
    }

    /// Starts a server with both ports, and returns it with its TLS port.
    pub fn start(&self, auth_clients: &str, words: &[&str]) -> (Server, u16) {
        let port = free_port();
        let port_text = port.to_string();
        // Relative paths count from `dir`.
        let mut all = vec!["--tls-port", &port_text, "--tls-cert-file", "server.crt", "--tls-key-file", "server.key"];
        all.extend(["--tls-auth-clients", auth_clients, "--tls-ca-cert-file", "ca.crt", "--loglevel", "verbose"]);
        all.extend(words);
        (Server::start_in(self.dir.path(), &all), port)
    }
}

pub const BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
pub const ONLY_12: &[&SupportedProtocolVersion] = &[&TLS12];
pub const ONLY_13: &[&SupportedProtocolVersion] = &[&TLS13];

/// A client's settings: the trusted authority, its certificate and its versions and suites.
#[derive(Clone, Copy)]
pub struct TlsDialer<'a> {
    pub trusts: &'a str,
    pub shows: Option<&'a Pair>,
    pub versions: &'a [&'static SupportedProtocolVersion],
}

impl<'a> TlsDialer<'a> {
    pub fn new(trusts: &'a Authority) -> TlsDialer<'a> {
        TlsDialer { trusts: &trusts.pem, shows: None, versions: BOTH }
    }

    pub fn with_certificate(self, pair: &'a Pair) -> TlsDialer<'a> {
        TlsDialer { shows: Some(pair), ..self }
    }

    /// Connects and sends a command: only its reply shows whether the server accepted the client's certificate.
    pub fn connect(self, port: u16) -> io::Result<TlsWire> {
        TlsWire::connect_tls(&self.config(), port)
    }

    /// Returns the settings of the client, which also keep its sessions.
    pub fn config(self) -> Arc<ClientConfig> {
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
        Arc::new(config)
    }
}

/// A client's end of a TLS connection.
pub type TlsWire = Wire<StreamOwned<ClientConnection, TcpStream>>;

impl Socket for StreamOwned<ClientConnection, TcpStream> {
    fn socket(&self) -> SockRef<'_> {
        SockRef::from(&self.sock)
    }
}

impl TlsWire {
    pub fn connect_tls(config: &Arc<ClientConfig>, port: u16) -> io::Result<TlsWire> {
        let name = ServerName::try_from("localhost").expect("a name");
        let session = ClientConnection::new(Arc::clone(config), name).expect("a session");
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut secure = Wire::new(StreamOwned::new(session, socket));
        secure.try_send("PING\r\n")?;
        match secure.try_line()?.as_str() {
            "+PONG" => Ok(secure),
            other if other.starts_with("-NOAUTH") => Ok(secure),
            other => Err(io::Error::other(other.to_owned())),
        }
    }

    /// Returns the user's name as reported by the server.
    pub fn user(&mut self) -> String {
        match self.ask("ACL WHOAMI") {
            name if name.starts_with('$') => self.line(),
            error => error,
        }
    }

    pub fn suite(&self) -> String {
        let suite = self.stream().conn.negotiated_cipher_suite().expect("a suite");
        format!("{:?}", suite.suite())
    }

    pub fn certificate(&self) -> Vec<u8> {
        let session = &self.stream().conn;
        session.peer_certificates().and_then(|chain| chain.first()).expect("a certificate").to_vec()
    }

    pub fn version(&self) -> Option<ProtocolVersion> {
        self.stream().conn.protocol_version()
    }
}
