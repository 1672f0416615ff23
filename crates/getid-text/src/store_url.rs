//! Addresses of stores, such as `mysql://getid:secret@db.example:3306/ids?tls=verify`.
//!
//! Operators write them by hand, with passwords in them. So every error names the expected form, and neither an error
//! nor [`StoreUrl::shown`] contains anything that may be a password. [`without_password`] also hides it in a text that
//! is not an address.
//!
//! Not here: reading the password file, and opening a store.

use std::fmt;
use std::path::{Path, PathBuf};

mod error;
mod etcd;
mod parts;

use super::printable::printable_up_to;
use super::suggest::did_you_mean;
pub use error::StoreUrlError;
use error::{AddressForms, Mistake, STORE_URL_BYTES_MAX};
pub use etcd::EtcdAddress;
pub use parts::StoreTls;
use parts::{AddressParts, decoded, host_and_port, is_loopback, option, port_of, set_once, split_address, tls_of};

/// The address of a store. Two are equal if their texts are equal.
#[derive(Clone)]
pub struct StoreUrl {
    text: String,
    shown: String,
    has_password: bool,
    kind: StoreKind,
}

/// A kind of store and its place.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreKind {
    /// `sqlite:PATH`: this server's own file. Without a path: the one in `dir` for its server-id.
    Sqlite {
        /// The path as written: a relative one begins in `dir`.
        path: Option<PathBuf>,
    },
    /// `mysql://`: a database of MySQL or MariaDB.
    Mysql(ServerAddress),
    /// `postgres://`: a database of PostgreSQL.
    Postgres(ServerAddress),
    /// `etcd://`: etcd, which keeps claims and no sequences.
    Etcd(EtcdAddress),
}

/// A database on a server, and how to connect to it.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerAddress {
    /// Name of the machine, or an IP address without brackets. `localhost` with a socket.
    pub host: String,
    /// The port; 3306 or 5432 by default.
    pub port: u16,
    /// A Unix socket instead of host and port (`socket=`). PostgreSQL's is named by its folder.
    pub socket: Option<PathBuf>,
    /// Name of the user that logs in.
    pub user: String,
    /// The password from the address or from its file.
    pub password: Option<String>,
    /// The file with the password (`password-file=`), relative to the folder of the start.
    pub password_file: Option<PathBuf>,
    /// Name of the database.
    pub database: String,
    /// How the connection is encrypted (`tls=`).
    pub tls: StoreTls,
    /// Authorities that may have signed the server's certificate, PEM (`ca-file=`), relative to `dir`; `None`: the
    /// authorities of this system.
    pub ca_file: Option<PathBuf>,
    /// UUID of the store (`uuid=`), 32 hexadecimal digits: another database is refused. `None`: any.
    pub uuid: Option<String>,
}

/// The schemes and their meanings. Of synonyms, errors name the first.
const SCHEMES: [(&str, Scheme); 6] = [
    ("sqlite", Scheme::Sqlite),
    ("mysql", Scheme::Mysql),
    ("postgres", Scheme::Postgres),
    ("etcd", Scheme::Etcd),
    ("mariadb", Scheme::Mysql),
    ("postgresql", Scheme::Postgres),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Sqlite,
    Mysql,
    Postgres,
    Etcd,
}

/// Options after the `?` of a database's address.
const OPTIONS: [&str; 5] = ["password-file", "tls", "ca-file", "socket", "uuid"];

impl StoreUrl {
    /// Returns the address of the file in `dir`, which is the store if none is configured.
    pub fn default_file() -> StoreUrl {
        let text = "sqlite:".to_owned();
        StoreUrl { shown: text.clone(), text, has_password: false, kind: StoreKind::Sqlite { path: None } }
    }

    /// Parses `sqlite:PATH`, `mysql://USER:PASSWORD@HOST:PORT/DATABASE?OPTIONS`, `postgres://...` or
    /// `etcd://USER:PASSWORD@HOST:PORT,HOST:PORT/PREFIX?OPTIONS`.
    ///
    /// # Errors
    ///
    /// [`StoreUrlError`], which contains no password.
    pub fn parse(text: &str) -> Result<StoreUrl, StoreUrlError> {
        StoreUrl::parse_as(text, ALL_FORMS)
    }

    /// Parses the address of a store of sequences. Refuses etcd, which keeps none.
    ///
    /// # Errors
    ///
    /// [`StoreUrlError`], which contains no password.
    pub fn parse_for_sequences(text: &str) -> Result<StoreUrl, StoreUrlError> {
        let url = StoreUrl::parse_as(text, SEQUENCE_FORMS)?;
        if matches!(url.kind, StoreKind::Etcd(_)) {
            let mistake = Mistake::EtcdForSequences { expected: SEQUENCE_FORMS };
            return Err(StoreUrlError { shown: url.shown, mistake });
        }
        Ok(url)
    }

    /// Parses an address; errors name the forms of `expected`.
    fn parse_as(text: &str, expected: AddressForms) -> Result<StoreUrl, StoreUrlError> {
        let kind =
            parse_kind(text, expected).map_err(|mistake| StoreUrlError { shown: without_password(text), mistake })?;
        let has_password = match &kind {
            StoreKind::Sqlite { .. } => false,
            StoreKind::Mysql(server) | StoreKind::Postgres(server) => server.password.is_some(),
            StoreKind::Etcd(etcd) => etcd.password.is_some(),
        };
        Ok(StoreUrl { text: text.to_owned(), shown: without_password(text), has_password, kind })
    }

    /// Returns the kind of the store and its place.
    pub fn kind(&self) -> &StoreKind {
        &self.kind
    }

    /// Returns the address as all users may see it: with three asterisks for a password.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the address as written, with its password, for readers who may see it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the address contains a password.
    pub fn has_password(&self) -> bool {
        self.has_password
    }

    /// Whether the connection crosses a network unencrypted.
    pub fn is_in_clear(&self) -> bool {
        match &self.kind {
            StoreKind::Sqlite { .. } => false,
            StoreKind::Mysql(server) | StoreKind::Postgres(server) => server.tls == StoreTls::No && !self.is_local(),
            StoreKind::Etcd(etcd) => etcd.tls == StoreTls::No && !self.is_local(),
        }
    }

    /// Whether the store is on this machine, by its address.
    pub fn is_local(&self) -> bool {
        match &self.kind {
            StoreKind::Sqlite { .. } => true,
            StoreKind::Mysql(server) | StoreKind::Postgres(server) => {
                server.socket.is_some() || is_loopback(&server.host)
            }
            StoreKind::Etcd(etcd) => etcd.is_local(),
        }
    }

    /// Returns the file with the password.
    pub fn password_file(&self) -> Option<&Path> {
        match &self.kind {
            StoreKind::Sqlite { .. } => None,
            StoreKind::Mysql(server) | StoreKind::Postgres(server) => server.password_file.as_deref(),
            StoreKind::Etcd(etcd) => etcd.password_file.as_deref(),
        }
    }

    /// Makes paths that are relative to `dir` absolute, for a process that does not enter it: SQLite's file and
    /// certificate files.
    pub fn resolve_paths(&mut self, dir: &Path) {
        let paths = match &mut self.kind {
            StoreKind::Sqlite { path } => [Some(path), None, None],
            StoreKind::Mysql(server) | StoreKind::Postgres(server) => [Some(&mut server.ca_file), None, None],
            StoreKind::Etcd(etcd) => [Some(&mut etcd.ca_file), Some(&mut etcd.cert_file), Some(&mut etcd.key_file)],
        };
        for path in paths.into_iter().flatten().flatten() {
            *path = dir.join(&*path);
        }
    }

    /// Sets the password that was read from the password file.
    pub fn set_password(&mut self, read: String) {
        match &mut self.kind {
            StoreKind::Sqlite { .. } => {}
            StoreKind::Mysql(server) | StoreKind::Postgres(server) => server.password = Some(read),
            StoreKind::Etcd(etcd) => etcd.password = Some(read),
        }
    }
}

impl PartialEq for StoreUrl {
    fn eq(&self, other: &StoreUrl) -> bool {
        self.text == other.text
    }
}

impl Eq for StoreUrl {}

/// Hides the password.
impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreUrl").field(&self.shown).finish()
    }
}

const MYSQL_FORM: &str = "must be mysql://USER:PASSWORD@HOST:PORT/DATABASE";

const POSTGRES_FORM: &str = "must be postgres://USER:PASSWORD@HOST:PORT/DATABASE";

const ALL_FORMS: AddressForms = AddressForms {
    schemes: "sqlite, mysql, postgres and etcd",
    forms: "sqlite:PATH, mysql://USER@HOST/DATABASE, postgres://USER@HOST/DATABASE or etcd://HOST,HOST/PREFIX",
};

const SEQUENCE_FORMS: AddressForms = AddressForms {
    schemes: "sqlite, mysql and postgres",
    forms: "sqlite:PATH, mysql://USER@HOST/DATABASE or postgres://USER@HOST/DATABASE",
};

/// Parses the kind of a store and its place.
fn parse_kind(text: &str, expected: AddressForms) -> Result<StoreKind, Mistake> {
    if text.is_empty() {
        return Err(Mistake::Empty { expected });
    }
    if text.len() > STORE_URL_BYTES_MAX {
        return Err(Mistake::TooLong { bytes: text.len() });
    }
    if text.chars().any(|character| character.is_control() || character == ' ') {
        return Err(Mistake::Blank);
    }
    let (scheme, rest) = text.split_once(':').ok_or(Mistake::NoScheme { expected })?;
    let known = scheme_of(scheme).ok_or_else(|| {
        let meant = did_you_mean(&scheme.to_ascii_lowercase(), SCHEMES.iter().map(|(word, _)| *word));
        Mistake::Scheme { expected, meant }
    })?;
    Ok(match known {
        Scheme::Sqlite => StoreKind::Sqlite { path: sqlite_path(rest)? },
        Scheme::Mysql => StoreKind::Mysql(server(rest, MYSQL_FORM, 3306)?),
        Scheme::Postgres => StoreKind::Postgres(server(rest, POSTGRES_FORM, 5432)?),
        Scheme::Etcd => StoreKind::Etcd(etcd::address(rest)?),
    })
}

/// Placeholder for a password file in printed commands: the user who runs one replaces it.
const PASSWORD_FILE: &str = "PASSWORD_FILE";

/// Returns a store's address for a printed command. `shown` is from [`StoreUrl::shown`]: a hidden password is replaced
/// with `password-file=PASSWORD_FILE`.
pub fn for_command(shown: &str) -> String {
    let Some(mut text) = without_hidden_password(shown) else { return shown.to_owned() };
    text.push(if text.contains('?') { '&' } else { '?' });
    text + "password-file=" + PASSWORD_FILE
}

/// Returns a store's address for a printed command that does not log in.
pub fn for_schema_command(shown: &str) -> String {
    without_hidden_password(shown).unwrap_or_else(|| shown.to_owned())
}

/// Returns the address without its hidden password; `None` if it hides none.
fn without_hidden_password(shown: &str) -> Option<String> {
    let (user, place) = shown.split_once(&format!(":{HIDDEN}@")).filter(|_| !shown.starts_with("sqlite:"))?;
    Some(format!("{user}@{place}"))
}

/// Text in place of a password in a shown address.
const HIDDEN: &str = "***";

/// Returns a text that is or was meant as an address, as all users may see it. Three asterisks replace anything that is
/// or may be a password.
pub fn without_password(text: &str) -> String {
    const CHARS_MAX: usize = 200;
    let is_scheme = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) && (rest.starts_with('/') || scheme_of(scheme).is_some()) => {
            text.split_at(text.len() - rest.len())
        }
        _ => ("", text),
    };
    let known = scheme_of(scheme.trim_end_matches(':'));
    // A file has no password, but the address of a server may have been given the scheme of a file.
    if known == Some(Scheme::Sqlite) && (!rest.starts_with("//") || rest.starts_with("///")) {
        return printable_up_to(text, CHARS_MAX);
    }
    let slashes = rest.len() - rest.trim_start_matches('/').len();
    let (slashes, rest) = rest.split_at(slashes);
    // A password that is not escaped may contain any of the characters that end it.
    let (login, place) = rest.rfind('@').map_or(("", rest), |at| rest.split_at(at));
    let login = match login.split_once(':') {
        Some((user, _)) => format!("{user}:{HIDDEN}"),
        None => login.to_owned(),
    };
    let (before, options) = place.split_once('?').map_or((place, None), |(before, options)| (before, Some(options)));
    let authority = before.split('/').next().unwrap_or(before);
    let (mut hosts, behind) = (String::new(), &before[authority.len()..]);
    let commas = if known == Some(Scheme::Etcd) { usize::MAX } else { 1 };
    for (index, place) in authority.splitn(commas, ',').enumerate() {
        hosts += if index == 0 { "" } else { "," };
        match port_of(place) {
            // A port that is not a number may be a password, if the host was left out; and a password may contain
            // commas.
            Some(port) if !port.bytes().all(|byte| byte.is_ascii_digit()) => {
                hosts = hosts + &place[..place.len() - port.len()] + HIDDEN;
                break;
            }
            _ => hosts += place,
        }
    }
    let option = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if !OPTIONS.contains(&name) && !etcd::OPTIONS.contains(&name) => format!("{name}={HIDDEN}"),
        _ => pair.to_owned(),
    };
    let options = options.map(|options| format!("?{}", options.split('&').map(option).collect::<Vec<_>>().join("&")));
    printable_up_to(&format!("{scheme}{slashes}{login}{hosts}{behind}{}", options.unwrap_or_default()), CHARS_MAX)
}

fn scheme_of(word: &str) -> Option<Scheme> {
    SCHEMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, scheme)| *scheme)
}

fn sqlite_path(rest: &str) -> Result<Option<PathBuf>, Mistake> {
    if rest.contains('?') {
        return Err(Mistake::SqliteOptions);
    }
    let path = match rest.strip_prefix("//") {
        Some(path) if path.starts_with('/') || path.is_empty() => path,
        Some(path) if path.contains('@') => return Err(Mistake::SqliteUser),
        Some(path) => return Err(Mistake::SqliteHost { path: path.to_owned() }),
        None => rest,
    };
    let path = decoded(path, "path")?;
    if path.contains('\0') {
        return Err(Mistake::SqliteNul);
    }
    Ok((!path.is_empty()).then(|| PathBuf::from(path)))
}

/// Parses a server's address after its scheme.
fn server(rest: &str, form: &'static str, default_port: u16) -> Result<ServerAddress, Mistake> {
    let AddressParts { authority, path: database, options } = split_address(rest, form)?;
    let (login, place) = authority.rsplit_once('@').ok_or(Mistake::Missing { part: "user", form })?;
    let (user, password) = login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
    let user = decoded(user, "user")?;
    if user.is_empty() {
        return Err(Mistake::Missing { part: "user", form });
    }
    let password = password.map(|password| decoded(password, "password")).transpose()?;
    let (host, port) = host_and_port(place, default_port)?;
    let database = decoded(database, "database")?;
    if database.is_empty() || database.contains('/') {
        return Err(Mistake::Missing { part: "database", form });
    }
    let is_local = is_loopback(&host);
    let tls = StoreTls::No;
    let (socket, password_file, ca_file, uuid) = (None, None, None, None);
    let mut address = ServerAddress { host, port, socket, user, password, password_file, database, tls, ca_file, uuid };
    let mut tls = None;
    for pair in options.split('&').filter(|pair| !pair.is_empty()) {
        set_option(&mut address, &mut tls, pair)?;
    }
    complete(&mut address, tls, is_local, form)?;
    Ok(address)
}

/// Checks the parts against each other, and sets defaults.
fn complete(
    address: &mut ServerAddress,
    tls: Option<StoreTls>,
    is_local: bool,
    form: &'static str,
) -> Result<(), Mistake> {
    if address.host.is_empty() && address.socket.is_none() {
        return Err(Mistake::Missing { part: "host", form });
    }
    if address.password.is_some() && address.password_file.is_some() {
        return Err(Mistake::TwoPasswords);
    }
    if address.socket.is_some() {
        if !address.host.is_empty() && !is_local {
            return Err(Mistake::SocketAndHost);
        }
        "localhost".clone_into(&mut address.host);
    }
    let default = if is_local || address.socket.is_some() { StoreTls::No } else { StoreTls::Verify };
    address.tls = tls.unwrap_or(default);
    if address.ca_file.is_some() && address.tls != StoreTls::Verify {
        return Err(Mistake::CaUnused);
    }
    Ok(())
}

fn set_option(address: &mut ServerAddress, tls: &mut Option<StoreTls>, pair: &str) -> Result<(), Mistake> {
    let (name, value) = option(pair, &OPTIONS)?;
    match name {
        "tls" => set_once(tls, tls_of(&value)?, name),
        "password-file" => set_once(&mut address.password_file, value.into(), name),
        "ca-file" => set_once(&mut address.ca_file, value.into(), name),
        "uuid" => set_once(&mut address.uuid, uuid_of(&value)?, name),
        _ => set_once(&mut address.socket, value.into(), name),
    }
}

/// Parses a UUID with or without hyphens, in any case, into the form of the stores.
fn uuid_of(text: &str) -> Result<String, Mistake> {
    let uuid = text.replace('-', "").to_ascii_lowercase();
    let is_uuid = uuid.len() == 32 && uuid.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_uuid { Ok(uuid) } else { Err(Mistake::Uuid { found: printable_up_to(text, 60) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn server_of(text: &str) -> ServerAddress {
        match StoreUrl::parse(text).unwrap().kind {
            StoreKind::Mysql(server) | StoreKind::Postgres(server) => server,
            StoreKind::Sqlite { .. } | StoreKind::Etcd(_) => panic!("{text} is not a database server"),
        }
    }

    #[test]
    fn files_and_servers_are_distinguished() {
        for (text, path) in [
            ("sqlite:", None),
            ("sqlite://", None),
            ("sqlite:a.db", Some("a.db")),
            ("SQLite:/var/lib/a.db", Some("/var/lib/a.db")),
            ("sqlite:///var/lib/a.db", Some("/var/lib/a.db")),
            ("sqlite:a%20b%3F", Some("a b?")),
        ] {
            let url = StoreUrl::parse(text).unwrap();
            assert!(*url.kind() == StoreKind::Sqlite { path: path.map(PathBuf::from) }, "{text}");
            assert_eq!((url.shown(), url.has_password()), (text, false));
        }
        let found = server_of("mysql://app:s%40%3a%2f@db.example/ids");
        assert!(
            found
                == ServerAddress {
                    host: "db.example".to_owned(),
                    port: 3306,
                    socket: None,
                    user: "app".to_owned(),
                    password: Some("s@:/".to_owned()),
                    password_file: None,
                    database: "ids".to_owned(),
                    tls: StoreTls::Verify,
                    ca_file: None,
                    uuid: None,
                }
        );
        let found = server_of("postgresql://a@[::1]:6000/b?password-file=/etc/p&tls=verify&ca-file=ca.pem");
        assert_eq!((found.host.as_str(), found.port, found.tls), ("::1", 6000, StoreTls::Verify));
        assert_eq!((found.password_file, found.ca_file), (Some("/etc/p".into()), Some("ca.pem".into())));
        let found = server_of("mariadb://a@/b?socket=/run/mysqld/mysqld.sock");
        assert_eq!((found.host.as_str(), found.socket), ("localhost", Some("/run/mysqld/mysqld.sock".into())));
        for (host, tls) in [
            ("localhost", StoreTls::No),
            ("127.9.9.9", StoreTls::No),
            ("[::1]", StoreTls::No),
            ("10.0.0.1", StoreTls::Verify),
            ("localhost.example", StoreTls::Verify),
        ] {
            assert_eq!(server_of(&format!("postgres://a@{host}/b")).tls, tls, "{host}");
        }
        let uuid = server_of("postgres://a@h/b?uuid=01234567-89AB-cdef-0123-456789abcdef").uuid;
        assert_eq!(uuid.as_deref(), Some("0123456789abcdef0123456789abcdef"));
        assert_eq!(server_of("postgres://a@h/b?tls=no").tls, StoreTls::No);
        assert_eq!(server_of("postgres://a@localhost/b?tls=yes").tls, StoreTls::Yes);
    }

    #[test]
    fn an_error_names_the_mistake_and_a_suggestion() {
        for (text, expected) in [
            ("", "'' is empty, must be sqlite:PATH"),
            ("orders.db", "'orders.db' has no scheme"),
            ("mysq://a@h/b", "'mysq://a@h/b' has none of the schemes"),
            ("sqlite://host/b", "names a host, and SQLite is a file: write sqlite:host/b or sqlite:/host/b"),
            ("sqlite:a?b=c", "has options"),
            ("mysql:a@h/b", "has no // after the scheme, must be mysql://USER:PASSWORD@HOST:PORT/DATABASE"),
            ("mysql://h/b", "names no user"),
            ("mysql://:x@h/b", "names no user"),
            ("mysql://a@/b", "names no host"),
            ("mysql://a@h", "names no database"),
            ("mysql://a@h/", "names no database"),
            ("mysql://a@h/b/c", "names no database"),
            ("mysql://a@h:0/b", "has no port after the ':', must be 1 to 65535"),
            ("mysql://a@h:99999/b", "has no port after the ':'"),
            ("mysql://a@::1/b", "an IPv6 address is in brackets"),
            ("mysql://a@[h]/b", "other than an IPv6 address"),
            (
                "mysql://a@h/b?tsl=no",
                "has the option 'tsl', must be one of password-file, tls, ca-file, socket, uuid; did you mean 'tls'?",
            ),
            ("mysql://a@h/b?tls=perhaps", "has tls=perhaps, must be tls=no"),
            ("mysql://a@h/b?tls=no&tls=no", "has the option 'tls' twice"),
            ("mysql://a@h/b?socket=", "has no value after 'socket='"),
            ("mysql://a@h/b?uuid=12", "has uuid=12, must be the store's own, 32 hexadecimal digits"),
            ("mysql://a@h/b?uuid=0123456789abcdef0123456789abcdeg", "has uuid=0123456789abcdef0123456789abcdeg, must"),
            ("mysql://a@h/b?socket=/s", "has a socket, which is on this machine, and another host"),
            ("mysql://a:x@h/b?password-file=/p", "has a password and a password-file"),
            ("mysql://a@localhost/b?ca-file=/p", "has a ca-file, which only tls=verify uses"),
            ("mysql://a@h/b%2", "has a '%' in its database"),
            ("mysql://a@h/b%ff", "has a database that is not UTF-8"),
            ("mysql://a@h/b#c", "has a '#' in it"),
            ("mysql://a@h/b c", "has a blank or a control character in it"),
        ] {
            let error = StoreUrl::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert_eq!(
            StoreUrl::parse("postgre://a@h/b").unwrap_err().help().as_deref(),
            Some("did you mean 'postgres:'?")
        );
        let long = format!("mysql://a@h/{}", "b".repeat(STORE_URL_BYTES_MAX));
        assert!(StoreUrl::parse(&long).unwrap_err().to_string().len() < 400);
    }

    #[test]
    fn printed_commands_name_a_file_for_a_password() {
        for (address, command, schema) in [
            (
                "mysql://ids:hunter2@db/fleet?tls=no",
                "mysql://ids@db/fleet?tls=no&password-file=PASSWORD_FILE",
                "mysql://ids@db/fleet?tls=no",
            ),
            ("etcd://ids:hunter2@a,b/p", "etcd://ids@a,b/p?password-file=PASSWORD_FILE", "etcd://ids@a,b/p"),
            ("postgres://ids@db/f?password-file=p", "postgres://ids@db/f?password-file=p", ""),
            ("sqlite:a:***@b", "sqlite:a:***@b", ""),
        ] {
            let url = StoreUrl::parse(address).unwrap();
            assert_eq!(for_command(url.shown()), command);
            assert_eq!(for_schema_command(url.shown()), if schema.is_empty() { command } else { schema });
            assert!(!StoreUrl::parse(command).unwrap().has_password());
        }
    }

    /// The password of a mistyped address is never shown.
    #[test]
    fn a_password_is_never_shown() {
        for (text, shown) in [
            ("mysql://a:hunter2@h/b", "mysql://a:***@h/b"),
            ("postgres://a:hunter2@h:1/b?tls=no", "postgres://a:***@h:1/b?tls=no"),
            ("mysq://a:hunter2@h/b", "mysq://a:***@h/b"),
            ("mysql:a:hunter2@h/b", "mysql:a:***@h/b"),
            ("a:hunter2@h/b", "a:***@h/b"),
            ("mysql://a:hun/ter2@h/b", "mysql://a:***@h/b"),
            ("mysql://a:hun?ter2@h/b", "mysql://a:***@h/b"),
            ("mysql://a:hun@ter2@h/b", "mysql://a:***@h/b"),
            ("mysql://a:hun#ter2@h/b", "mysql://a:***@h/b"),
            ("mysql://a:hunter2/b", "mysql://a:***/b"),
            ("mysql://a@h/b?password=hunter2", "mysql://a@h/b?password=***"),
            ("mysql://a:hun ter2@h/b", "mysql://a:***@h/b"),
            ("mysql://a:hunter2%@h/b", "mysql://a:***@h/b"),
            ("mysql://a:p@h?hunter2@h/b", "mysql://a:***@h/b"),
            ("mysql://a:p@h?hun&tls=ter2@h/b", "mysql://a:***@h/b"),
            ("postgres://a:p@h/b?tls=hunter2@h/b", "postgres://a:***@h/b"),
            ("sqlite://a:hunter2@h/b", "sqlite://a:***@h/b"),
        ] {
            assert_eq!(without_password(text), shown, "{text}");
            let printed = match StoreUrl::parse(text) {
                Ok(url) => format!("{url:?} {}", url.shown()),
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!printed.contains("hun") && !printed.contains("ter2"), "{text}: {printed}");
        }
        let mut url = StoreUrl::parse("mysql://a@h/b?password-file=p").unwrap();
        url.set_password("hunter2".to_owned());
        assert!(!format!("{url:?}{}{}", url.shown(), url.text()).contains("hunter2") && !url.has_password());
        assert_eq!(url.password_file(), Some(Path::new("p")));
    }
}
