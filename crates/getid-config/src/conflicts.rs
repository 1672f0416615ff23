//! Checks of a server's own directives against each other: ports, TLS, users, and the watermark's lead.
//!
//! Features with a file of their own (`claim.rs`, `http.rs`, `stores.rs`, `workers.rs`) have their checks there.

use super::enums::{TlsAuthClients, TlsAuthClientsUser};
use super::report::DirectiveConflict;
use super::values::Config;

/// Returns all conflicts.
pub(super) fn conflicts(config: &Config) -> Vec<DirectiveConflict> {
    let mut found: Vec<_> = lead(config).into_iter().chain(listens(config)).collect();
    if config.has_tls() {
        found.extend(tls_port(config));
        found.extend(tls_files(config));
        found.extend(tls_clients(config));
    }
    found.extend(users(config));
    found
}

fn lead(config: &Config) -> Option<DirectiveConflict> {
    let (lead_ms, borrow_ms) = (config.id_watermark_lead_ms, config.id_max_borrow_ms);
    (lead_ms > borrow_ms).then(|| {
        DirectiveConflict::new(
            &["id-watermark-lead-ms", "id-max-borrow-ms"],
            format!("id-watermark-lead-ms is {lead_ms}, must be at most id-max-borrow-ms, which is {borrow_ms}"),
            format!("add the line 'id-watermark-lead-ms {borrow_ms}', or raise id-max-borrow-ms"),
        )
    })
}

fn listens(config: &Config) -> Option<DirectiveConflict> {
    let has_tcp = (config.port != 0 || config.tls_port != 0) && !config.bind.is_empty();
    (!has_tcp && config.unixsocket.is_none()).then(|| {
        DirectiveConflict::new(
            &["port", "tls-port", "bind", "unixsocket"],
            "no client could connect: there is no TCP port and no unixsocket",
            "set port, tls-port, bind or unixsocket",
        )
    })
}

fn tls_port(config: &Config) -> Option<DirectiveConflict> {
    let port = config.tls_port;
    (port != 0 && port == config.port).then(|| {
        DirectiveConflict::new(
            &["port", "tls-port"],
            format!("port and tls-port are both {port}, must differ"),
            "for TLS only, write 'port 0'",
        )
    })
}

/// Returns the directive that requires TLS, and its value in a sentence.
fn tls_user(config: &Config) -> (&'static str, String) {
    match config.tls_port {
        0 => ("http-tls", "http-tls is yes".to_owned()),
        port => ("tls-port", format!("tls-port is {port}")),
    }
}

fn tls_files(config: &Config) -> Option<DirectiveConflict> {
    let (user, what) = tls_user(config);
    let files = [("tls-cert-file", &config.tls_cert_file), ("tls-key-file", &config.tls_key_file)];
    let missing = files.iter().filter(|(_, path)| path.is_none()).map(|(name, _)| *name);
    let missing = missing.collect::<Vec<_>>().join(" and no ");
    (!missing.is_empty()).then(|| {
        DirectiveConflict::new(
            &[user, "tls-cert-file", "tls-key-file"],
            format!("{what}, but there is no {missing}"),
            "give the paths of the server's certificate and of its key, both PEM",
        )
    })
}

fn tls_clients(config: &Config) -> Vec<DirectiveConflict> {
    let (clients, by) = (config.tls_auth_clients, config.tls_auth_clients_user);
    let mut found = Vec::new();
    if clients != TlsAuthClients::No && config.tls_ca_cert_file.is_none() && config.tls_ca_cert_dir.is_none() {
        found.push(DirectiveConflict::new(
            &[tls_user(config).0, "tls-auth-clients", "tls-ca-cert-file"],
            format!(
                "tls-auth-clients is {}, but there is no tls-ca-cert-file and no tls-ca-cert-dir to check clients' \
                 certificates by",
                clients.word()
            ),
            "add it, or the line 'tls-auth-clients no' to accept clients without a certificate",
        ));
    }
    if clients == TlsAuthClients::No && by != TlsAuthClientsUser::Off {
        found.push(DirectiveConflict::new(
            &["tls-auth-clients", "tls-auth-clients-user"],
            format!(
                "tls-auth-clients-user is {}, but tls-auth-clients is no: clients present no certificate",
                by.word()
            ),
            "set tls-auth-clients yes or optional, or remove tls-auth-clients-user",
        ));
    }
    found
}

/// Checks that users are defined in one place, as in Redis.
fn users(config: &Config) -> Option<DirectiveConflict> {
    (config.aclfile.is_some() && !config.users.is_empty()).then(|| {
        DirectiveConflict::new(
            &["user", "aclfile"],
            "users are defined both by lines and by aclfile, must be in one place",
            "move the user lines into the ACL file, or remove aclfile",
        )
    })
}
