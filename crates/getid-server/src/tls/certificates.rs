//! Certificates and keys, read from PEM files, with the faults of a file as one sentence.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use getid_config::TlsAuthClients;
use getid_system::files;

/// Maximum size of a certificate or key file, bytes: all the authorities that Linux distributions trust are 230 KB.
const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum number of files of `tls-ca-cert-dir` that are read.
pub(super) const AUTHORITY_FILES_MAX: usize = 1000;

/// Maximum size of these files together, bytes.
pub(super) const AUTHORITY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Time before a certificate's end from which a warning is logged, seconds.
const ENDS_SOON_S: i64 = 30 * DAY_S;

pub(super) const DAY_S: i64 = 24 * 3600;

pub(super) fn certificates(what: PemFile, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(what, path)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsError::Pem { what, path: path.to_owned(), error })?;
    if found.is_empty() {
        return Err(TlsError::Nothing { what, path: path.to_owned(), instead: UnexpectedContent::of(&bytes) });
    }
    Ok(found)
}

pub(super) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let what = PemFile::Key;
    let bytes = read(what, path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            TlsError::Nothing { what, path: path.to_owned(), instead: UnexpectedContent::of(&bytes) }
        }
        error => TlsError::Pem { what, path: path.to_owned(), error },
    })
}

fn read(what: PemFile, path: &Path) -> Result<Vec<u8>, TlsError> {
    let fail = |error| TlsError::Read { what, path: path.to_owned(), error };
    let bytes = files::read(path, FILE_BYTES_MAX).map_err(fail)?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(TlsError::TooLarge { what, path: path.to_owned() });
    }
    Ok(bytes)
}

/// Reason why certificates could not be loaded: the file, its fault, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{what} {}: cannot be read: {error}. Give a PEM file that getid's user may read", .path.display())]
    Read { what: PemFile, path: PathBuf, error: io::Error },
    #[error("{what} {}: is larger than {FILE_BYTES_MAX} bytes. Give a PEM file", .path.display())]
    TooLarge { what: PemFile, path: PathBuf },
    #[error("tls-ca-cert-dir {}: cannot be read: {error}. Give a folder of PEM files that getid's user may read", .path.display())]
    Folder { path: PathBuf, error: io::Error },
    #[error("tls-ca-cert-dir {}: no certificate in any of its files. Give a folder of authorities' certificates, PEM", .path.display())]
    EmptyFolder { path: PathBuf },
    #[error(
        "tls-ca-cert-dir {}: more than {AUTHORITY_FILES_MAX} files, or {AUTHORITY_BYTES_MAX} bytes of certificates. Give a \
         folder that has authorities' certificates only", .path.display()
    )]
    TooMany { path: PathBuf },
    #[error("{what} {}: is damaged: {}. Copy the file again, or export it again", .path.display(), PemFault(.error))]
    Pem { what: PemFile, path: PathBuf, error: pem::Error },
    #[error("{what} {}: no {} in it, but {instead}", .path.display(), .what.item_name())]
    Nothing { what: PemFile, path: PathBuf, instead: UnexpectedContent },
    #[error(
        "tls-key-file {}: the key cannot be used: {error}. getid takes RSA keys of 2048 bits and more, ECDSA keys on P-256 \
         and P-384, and Ed25519 keys", .path.display()
    )]
    Key { path: PathBuf, error: rustls::Error },
    #[error("tls-cert-file {}: the certificate cannot be used: {error}. It must be X.509 version 3", .path.display())]
    Certificate { path: PathBuf, error: rustls::Error },
    #[error(
        "the key in tls-key-file {} does not match the first certificate in tls-cert-file {}. Give the files that were made \
         together; the server's own certificate comes first in its file, followed by those of the authorities",
        .key.display(), .cert.display()
    )]
    Mismatch { cert: PathBuf, key: PathBuf },
    #[error(
        "tls-auth-clients is {}, but there is no tls-ca-cert-file and no tls-ca-cert-dir to verify clients' certificates. \
         Set one, or set tls-auth-clients no", .auth_clients.word()
    )]
    NoAuthority { auth_clients: TlsAuthClients },
    #[error("{what} {}: no certificate in it can be used: {error}. Each must be X.509 version 3", .path.display())]
    Authority { what: PemFile, path: PathBuf, error: rustls::Error },
    #[error("TLS: {0}")]
    Other(rustls::Error),
}

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PemFile {
    Certificate,
    Key,
    Authority,
    AuthorityDir,
}

impl PemFile {
    fn item_name(self) -> &'static str {
        match self {
            PemFile::Certificate | PemFile::Authority | PemFile::AuthorityDir => "certificate",
            PemFile::Key => "private key",
        }
    }
}

impl fmt::Display for PemFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PemFile::Certificate => "tls-cert-file",
            PemFile::Key => "tls-key-file",
            PemFile::Authority => "tls-ca-cert-file",
            PemFile::AuthorityDir => "tls-ca-cert-dir",
        })
    }
}

/// Content that a file has instead of the expected one, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnexpectedContent {
    Empty,
    Encrypted,
    /// The first line of some other section of PEM.
    Section(String),
    Der,
    Other,
}

/// Maximum number of characters shown of a file's line.
const LINE_CHARS_MAX: usize = 60;

impl UnexpectedContent {
    fn of(bytes: &[u8]) -> UnexpectedContent {
        let text = String::from_utf8_lossy(bytes);
        let mut sections = text.lines().filter(|line| line.starts_with("-----BEGIN "));
        // In the old format the word is inside the section.
        if text.contains("-----BEGIN ENCRYPTED") || text.contains("Proc-Type: 4,ENCRYPTED") {
            return UnexpectedContent::Encrypted;
        }
        match (sections.next(), bytes) {
            (Some(line), _) => UnexpectedContent::Section(line.chars().take(LINE_CHARS_MAX).collect()),
            (None, []) => UnexpectedContent::Empty,
            (None, [0x30, ..]) => UnexpectedContent::Der,
            (None, _) => UnexpectedContent::Other,
        }
    }
}

impl fmt::Display for UnexpectedContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnexpectedContent::Empty => f.write_str("nothing: the file is empty. Give a PEM file"),
            UnexpectedContent::Encrypted => f.write_str(
                "a key with a password, which getid does not support. Decrypt it: openssl pkey -in FILE -out NEW",
            ),
            UnexpectedContent::Section(line) => write!(f, "{line:?}. Give the file that has it"),
            UnexpectedContent::Der => {
                f.write_str("DER, it seems. Convert it to PEM with openssl x509 or openssl pkey, -inform der")
            }
            UnexpectedContent::Other => {
                f.write_str("text that is not PEM. A line that starts with '-----BEGIN ' is expected")
            }
        }
    }
}

/// A fault in PEM, without lines as lists of byte values.
struct PemFault<'a>(&'a pem::Error);

impl fmt::Display for PemFault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            pem::Error::MissingSectionEnd { end_marker } => {
                let name = String::from_utf8_lossy(end_marker);
                write!(f, "'-----END {}-----' is missing", name.trim_start_matches("-----END ").trim_end_matches('-'))
            }
            pem::Error::IllegalSectionStart { line } => {
                let line: String = String::from_utf8_lossy(line).chars().take(LINE_CHARS_MAX).collect();
                write!(f, "the line {line:?} begins no section")
            }
            error => error.fmt(f),
        }
    }
}

/// Returns the warning about a certificate that ends at `ends_s`, at the time `now_s`, both Unix time; `None` if its
/// end is far off.
pub(super) fn end_warning(ends_s: i64, now_s: i64, path: &Path) -> Option<String> {
    let path = path.display();
    let left_s = ends_s.saturating_sub(now_s);
    match left_s {
        ..0 => Some(format!(
            "tls-cert-file {path}: the certificate has ended: clients refuse it. Renew it; SIGHUP loads it"
        )),
        0..DAY_S => Some(format!("tls-cert-file {path}: the certificate ends within a day. Renew it; SIGHUP loads it")),
        DAY_S..ENDS_SOON_S => Some(format!(
            "tls-cert-file {path}: the certificate ends in {} days. Renew it; SIGHUP loads it",
            left_s / DAY_S
        )),
        _ => None,
    }
}

/// Returns the last second of a certificate, Unix time.
pub(super) fn end_of(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

/// Returns the common name of a certificate's subject; `None` if there are several, which is ambiguous.
pub(super) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let mut names = certificate.subject().iter_common_name();
    match (names.next(), names.next()) {
        (Some(name), None) => name.as_str().ok().map(str::to_owned),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_comes_a_month_before_a_certificate_ends() {
        let at = |days: i64| end_warning(1_000_000_000, 1_000_000_000 - days * DAY_S - 10, Path::new("c"));
        assert_eq!([at(400), at(30)], [None, None]);
        assert!(at(29).unwrap().contains("ends in 29 days"));
        assert!(at(0).unwrap().contains("ends within a day"));
        assert!(at(-1).unwrap().contains("has ended"));
    }
}
