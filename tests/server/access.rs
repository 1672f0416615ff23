//! Users and ACL rules on a whole server: connections, threads and files. Rules of a single session are in
//! `tests/protocol/access.rs`.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::support::{self, Server, Wire, eventually, refused};
use getid_redis::acl::Users;
use getid_redis::command::{Command, CommandFlags, TABLE};
use socket2::{Domain, Socket, Type};

/// SHA-256 of `pw`: `printf pw | sha256sum`.
const PW: &str = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4";

/// Sends an inline command and returns all lines of the reply.
fn reply<S: Read + Write>(wire: &mut Wire<S>, inline: &str) -> Vec<String> {
    wire.send(format!("{inline}\r\n"));
    let mut lines = Vec::new();
    rest_of_reply(wire, &mut lines);
    lines
}

fn rest_of_reply<S: Read + Write>(wire: &mut Wire<S>, lines: &mut Vec<String>) {
    let head = wire.line();
    let count = head.get(1..).and_then(|count| count.parse::<i64>().ok()).unwrap_or(0);
    match head.as_bytes().first() {
        Some(b'$') if count >= 0 => lines.push(wire.line()),
        Some(b'*') => (0..count).for_each(|_| rest_of_reply(wire, lines)),
        _ => lines.push(head),
    }
}

/// Starts a server with a configuration file.
fn start_with(dir: &Path, config: &Path) -> Server {
    Server::try_start_in(dir, &[], |command| {
        // The file comes first, as in Redis.
        let words: Vec<_> = command.get_args().skip(1).map(ToOwned::to_owned).collect();
        *command = support::getid();
        command.arg("serve").arg(config).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    })
    .unwrap()
}

fn rows() -> impl Iterator<Item = &'static Command> {
    TABLE.iter().flat_map(|command| std::iter::once(command).chain(command.subcommands))
}

/// A change of users reaches the connections of all threads: rules apply at once, connections of deleted users are
/// closed.
#[test]
fn a_change_of_users_reaches_every_thread() {
    let server = Server::start(&["--io-threads", "2"]);
    let mut admin = server.connect();
    for name in ["a", "b", "c"] {
        assert_eq!(admin.ask(&format!("ACL SETUSER {name} on nopass +@all")), "+OK");
    }
    let mut login = |name: &str| {
        let mut wire = server.connect();
        assert_eq!(wire.ask(&format!("AUTH {name} x")), "+OK");
        wire
    };
    let mut gone: Vec<Wire> = (0..6).map(|_| login("a")).collect();
    let [mut own, mut stays] = ["b", "c"].map(&mut login);
    assert_eq!(admin.ask("ACL SETUSER a -time"), "+OK");
    assert!(gone.iter_mut().all(|wire| wire.ask("TIME").starts_with("-NOPERM")));
    assert_eq!(admin.ask("ACL DELUSER a missing"), ":1");
    assert!(gone.iter_mut().all(|wire| wire.rest().is_empty()));
    // A user that deletes itself gets the reply first.
    own.send("ACL DELUSER b\r\n");
    assert_eq!(own.rest(), ":1\r\n");
    assert_eq!(stays.ask("PING"), "+PONG");
    assert_eq!(admin.ask("CLIENT KILL USER c"), ":1");
    assert_eq!(stays.rest(), "");
    assert_eq!(admin.ask("ACL DELUSER default"), "-ERR The 'default' user cannot be removed");
    assert_eq!(admin.ask("PING"), "+PONG");
    // Passwords are random.
    let (one, other) = (admin.ask_bulk("ACL GENPASS"), admin.ask_bulk("ACL GENPASS"));
    assert!(one.len() == 64 && one != other && one.bytes().all(|digit| b"0123456789abcdef".contains(&digit)), "{one}");
    assert_eq!([5, 4096].map(|bits| admin.ask_bulk(&format!("ACL GENPASS {bits}")).len()), [2, 1024]);
    for command in ["ACL SAVE", "ACL LOAD"] {
        let text = admin.ask(command);
        assert!(text.starts_with("-ERR This Redis instance is not configured to use an ACL file."), "{text}");
    }
}

#[test]
fn refusals_are_logged_and_counted() {
    let server = Server::start(&["--acllog-max-len", "3"]);
    let mut admin = server.connect();
    assert_eq!(admin.ask("ACL SETUSER app on >pw -@all +ping +multi"), "+OK");
    let mut wire = server.connect();
    assert!(wire.ask("auth app wrong").starts_with("-WRONGPASS"));
    assert_eq!(wire.ask("AUTH app pw"), "+OK");
    wire.send("CONFIG GET x\r\n".repeat(5));
    assert!((0..5).all(|_| wire.line().starts_with("-NOPERM")));
    assert_eq!(wire.ask("MULTI"), "+OK");
    assert!(wire.ask("GETID").starts_with("-NOPERM"));

    let log = reply(&mut admin, "ACL LOG");
    let entries: Vec<&[String]> = log.chunks(20).collect();
    assert_eq!(entries.len(), 3, "{log:#?}");
    let facts = |entry: &[String]| entry.iter().skip(1).step_by(2).take(5).cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(facts(entries[0]), ":1 command multi getid app");
    assert_eq!(facts(entries[1]), ":5 command toplevel config|get app");
    assert_eq!(facts(entries[2]), ":1 auth toplevel auth app");
    let names: Vec<_> = entries[0].iter().step_by(2).cloned().collect();
    assert_eq!(
        names,
        [
            "count",
            "reason",
            "context",
            "object",
            "username",
            "age-seconds",
            "client-info",
            "entry-id",
            "timestamp-created",
            "timestamp-last-updated"
        ]
    );
    let client = &entries[0][13];
    assert!(
        client.contains("cmd=getid user=app") && client.contains("flags=x") && client.starts_with("id="),
        "{client}"
    );
    // A failed login leaves the connection with its previous user.
    assert!(entries[2][13].contains("user=default"), "{}", entries[2][13]);
    assert!(entries[0][11].parse::<f64>().unwrap() < 60.0);
    assert_eq!(entries[0][15], ":2");

    assert_eq!(reply(&mut admin, "ACL LOG 1").len(), 20);
    // A fourth entry removes the oldest.
    assert!(wire.ask("TIME").starts_with("-NOPERM"));
    assert_eq!(reply(&mut admin, "ACL LOG 100").len(), 60);
    // A smaller limit takes effect at the next refusal.
    assert_eq!(admin.ask("CONFIG SET acllog-max-len 2"), "+OK");
    assert!(wire.ask("TIME").starts_with("-NOPERM"));
    assert_eq!(reply(&mut admin, "ACL LOG 100").len(), 40);
    assert_eq!(admin.info("acl_access_denied_auth"), "1");
    assert_eq!(admin.info("acl_access_denied_cmd"), "8");
    assert_eq!(admin.ask("ACL LOG RESET"), "+OK");
    assert_eq!(admin.ask("ACL LOG"), "*0");
    assert!(admin.ask("ACL LOG RESET x").starts_with("-ERR unknown subcommand or wrong number of arguments for 'LOG'"));
    assert_eq!(admin.info("acl_access_denied_cmd"), "8");
    assert_eq!(admin.ask("CONFIG RESETSTAT"), "+OK");
    assert_eq!([admin.info("acl_access_denied_cmd"), admin.info("acl_access_denied_auth")], ["0", "0"]);
}

#[test]
fn user_lines_are_read_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("getid.conf");
    let lines =
        format!("requirepass secret\nuser default on >other -@all +ping\nuser app on #{PW} ~* +getid -get\nuser eve\n");
    fs::write(&config, lines).unwrap();
    let mut server = start_with(dir.path(), &config);
    let mut wire = server.connect();
    assert!(wire.ask("AUTH secret").starts_with("-WRONGPASS"));
    assert_eq!([wire.ask("AUTH other"), wire.ask("PING")], ["+OK", "+PONG"]);
    assert!(wire.ask("GETID").starts_with("-NOPERM"));
    assert_eq!(wire.ask("AUTH app pw"), "+OK");
    wire.id();
    server.wait_log("requirepass is ignored: a user line defines the default user");
    server.wait_log("the user 'eve' is disabled");
    assert!(!server.log_so_far().contains("secret") && !server.log_so_far().contains(PW));
}

/// Users made by `ACL SETUSER` survive other changes, and `CONFIG REWRITE` writes them.
#[test]
fn users_outlive_other_changes_and_are_written_into_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("getid.conf");
    fs::write(&config, "# mine\nuser bob on nopass +getid\nrequirepass secret\n").unwrap();
    let mut server = start_with(dir.path(), &config);
    let mut admin = server.connect();
    assert_eq!(admin.ask("AUTH secret"), "+OK");
    assert_eq!(admin.ask("ACL SETUSER app on >pw (+mgetid +ping) +getid &c"), "+OK");
    let check = |server: &Server| {
        let mut wire = server.connect();
        assert!(wire.ask("AUTH secret").starts_with("-WRONGPASS"));
        assert_eq!(wire.ask("AUTH other"), "+OK");
        assert_eq!(wire.ask("TIME"), "*2");
        let mut wire = server.connect();
        assert_eq!(wire.ask("AUTH app pw"), "+OK");
        wire.id();
        assert_eq!(wire.ids(1).len(), 1);
        assert!(wire.ask("TIME").starts_with("-NOPERM"));
        wire
    };
    assert_eq!(admin.ask("CONFIG SET timeout 1000 requirepass other id-mgetid-max 7"), "+OK");
    let mut app = check(&server);
    assert_eq!(admin.ask("CONFIG SET proto-max-bulk-len 2mb"), "+OK");
    app.id();
    let listed = reply(&mut admin, "ACL LIST");
    assert_eq!(admin.ask("CONFIG REWRITE"), "+OK");
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.starts_with("# mine\nuser bob on nopass +getid\nrequirepass other\n"), "{text}");
    assert!(text.contains(&format!("\nuser app on sanitize-payload \"#{PW}\" ")), "{text}");
    assert!(!text.contains(">pw") && !text.contains("user default"), "{text}");
    server.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(server.wait().success());
    let server = start_with(dir.path(), &config);
    check(&server);
    let mut admin = server.connect();
    assert_eq!(admin.ask("AUTH other"), "+OK");
    assert_eq!(reply(&mut admin, "ACL LIST"), listed);
}

#[test]
fn an_acl_file_is_loaded_saved_and_loaded_again() {
    let dir = tempfile::tempdir().unwrap();
    // The folder is not that of the state, which the server writes to at any time.
    let folder = dir.path().join("acl");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("users.acl");
    fs::write(&file, "user root on >root +@all ~* &*\nuser app on >pw -@all +getid\n").unwrap();
    let mut server = Server::start_in(dir.path(), &["--aclfile", "acl/users.acl", "--requirepass", "secret"]);
    server.wait_log("requirepass is ignored: aclfile defines the default user, who needs no password");
    let [mut admin, mut app] = [server.connect(), server.connect()];
    assert_eq!(admin.ask("AUTH root root"), "+OK");
    assert_eq!(app.ask("AUTH app pw"), "+OK");
    app.id();

    // Mistakes change nothing, and the reply lists all of them.
    fs::write(&file, "user root on nopass +nope\n# comment\nuser root on\n").unwrap();
    assert_eq!(
        admin.ask("ACL LOAD"),
        "-ERR acl/users.acl:1: Error in applying operation '+nope': Unknown command or category name in ACL. acl/users.acl:2 \
         should start with user keyword followed by the username. WARNING: Duplicate user 'root' found on line 3. WARNING: \
         ACL errors detected, no change to the previously active ACL rules was performed"
    );
    app.id();
    fs::remove_file(&file).unwrap();
    assert_eq!(
        admin.ask("ACL LOAD"),
        "-ERR Error loading ACLs, opening file 'acl/users.acl': No such file or directory"
    );

    // The rules in force are written with mode 600.
    assert_eq!(admin.ask("ACL SETUSER app +ping"), "+OK");
    assert_eq!(admin.ask("ACL SAVE"), "+OK");
    let saved = fs::read_to_string(&file).unwrap();
    assert_eq!(
        saved.lines().next().unwrap(),
        format!("user app on sanitize-payload #{PW} resetchannels -@all +getid +ping")
    );
    assert_eq!(saved.lines().count(), 3);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // Mode 600 replaces an existing mode that lets others read.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(admin.ask("ACL SAVE"), "+OK");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let others = fs::read_dir(&folder)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains("tmp-"));
    assert_eq!(others.count(), 0);

    // Loaded rules apply at once. Connections of removed users are closed, others stay.
    fs::write(&file, saved.replace("+getid ", "")).unwrap();
    assert_eq!(admin.ask("ACL LOAD"), "+OK");
    assert!(app.ask("GETID").starts_with("-NOPERM"));
    assert_eq!(app.ask("PING"), "+PONG");
    fs::write(&file, "user root on >root +@all\n").unwrap();
    assert_eq!(admin.ask("ACL LOAD"), "+OK");
    assert_eq!(app.rest(), "");
    assert_eq!(reply(&mut admin, "ACL USERS"), ["default", "root"]);

    // The folder is missing.
    fs::remove_dir_all(&folder).unwrap();
    assert!(
        admin
            .ask("ACL SAVE")
            .starts_with("-ERR There was an error trying to save the ACLs. Please check the server logs")
    );
    server.wait_log("ACL SAVE: 'acl/users.acl' was not written: No such file or directory");
}

#[test]
fn a_link_to_an_acl_file_stays_one() {
    let dir = tempfile::tempdir().unwrap();
    let [real, link] = ["real.acl", "users.acl"].map(|name| dir.path().join(name));
    fs::write(&real, "user app on\n").unwrap();
    std::os::unix::fs::symlink("real.acl", &link).unwrap();
    let server = Server::start_in(dir.path(), &["--aclfile", "users.acl"]);
    let mut admin = server.connect();
    assert_eq!(admin.ask("ACL SETUSER app +ping"), "+OK");
    assert_eq!(admin.ask("ACL SAVE"), "+OK");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("+ping"));
    // A file without a password keeps the mode that it has.
    fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(admin.ask("ACL SAVE"), "+OK");
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o644);
    // A new file has mode 600.
    fs::remove_file(&real).unwrap();
    fs::remove_file(&link).unwrap();
    assert_eq!(admin.ask("ACL SAVE"), "+OK");
    assert_eq!(fs::metadata(&link).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_wrong_or_missing_acl_file_prevents_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let log = refused(dir.path(), &["--aclfile", "users.acl"], |_| {});
    assert!(log.contains("aclfile: 'users.acl' cannot be read: No such file or directory"), "{log}");
    fs::write(dir.path().join("users.acl"), "user app on >hunter2 <hunter3\nuser\nuser bob +kestrel\n").unwrap();
    let log = refused(dir.path(), &["--aclfile", "users.acl"], |_| {});
    for line in [
        "users.acl:1: aclfile: The password you are trying to remove from the user does not exist",
        "users.acl:2: aclfile: must begin with 'user' and a name; an ACL file has no comments",
        "users.acl:3: aclfile: '+kestrel': Unknown command or category name in ACL",
        "3 errors",
    ] {
        assert!(log.contains(line), "{log}");
    }
    assert!(!log.contains("hunter"), "{log}");
    // No state is left behind, and `check-config` reports the same errors.
    let mut command = support::getid();
    command.args(["check-config", "--aclfile", "users.acl", "--dir"]).arg(dir.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("users.acl:3: aclfile"), "{output:?}");
    fs::write(dir.path().join("users.acl"), "user app on\n").unwrap();
    let mut command = support::getid();
    command.args(["check-config", "--aclfile", "users.acl", "--dir"]).arg(dir.path());
    assert!(command.status().unwrap().success());
}

/// `ACL DELUSER x` and `ACL SETUSER x` in one pipeline while clients log in on another thread: no connection stays
/// logged in as the old user. After the reply to AUTH, `CLIENT KILL USER` finds the connection.
#[test]
fn a_user_that_is_replaced_at_once_keeps_no_old_login() {
    let server = Server::start(&["--io-threads", "2", "--user", "x on >pw +@all"]);
    let mut admin = server.connect();
    for round in 0..20 {
        let mut wires: Vec<Wire> = (0..4).map(|_| server.connect()).collect();
        for (at, wire) in wires.iter_mut().enumerate() {
            // Half of the clients have logged in, the others log in during the change.
            wire.send("AUTH x pw\r\n");
            if at % 2 == 0 {
                assert_eq!(wire.line(), "+OK");
            }
        }
        admin.send("ACL DELUSER x\r\nACL SETUSER x on >new +@all\r\n");
        assert_eq!([admin.line(), admin.line()], [":1", "+OK"]);
        for (at, wire) in wires.iter_mut().enumerate() {
            let is_sent = wire.stream().write_all(b"ACL WHOAMI\r\nQUIT\r\n").is_ok();
            let lines = if is_sent { wire.try_lines() } else { Vec::new() };
            let was_refused = lines.first().is_some_and(|line| line.starts_with("-WRONGPASS"));
            assert!(!lines.iter().any(|line| line == "x"), "round {round}: {lines:?}");
            assert!(at % 2 == 1 || lines.is_empty() || was_refused, "round {round}: {lines:?}");
        }
        assert_eq!(admin.ask("ACL SETUSER x >pw"), "+OK");
        let mut wire = server.connect();
        assert_eq!(wire.ask("AUTH x pw"), "+OK");
        assert_eq!(admin.ask("CLIENT KILL USER x"), ":1", "round {round}");
        assert_eq!(wire.rest(), "");
    }
}

/// `ACL SETUSER x resetpass >new` and `CLIENT KILL USER x` in one pipeline: no client stays logged in with the old
/// password. Meanwhile clients log in on another thread, each with a long pipeline behind. A third of the rounds
/// changes the default user, which new connections and RESET get.
#[test]
fn a_password_that_is_replaced_at_once_keeps_no_old_login() {
    let server = Server::start(&["--io-threads", "2", "--user", "admin on >admin ~* &* +@all", "--user", "x on +@all"]);
    let mut admin = server.connect();
    assert_eq!(admin.ask("AUTH admin admin"), "+OK");
    let pings = "PING\r\n".repeat(1_500);
    for round in 0..60 {
        assert_eq!(admin.ask("ACL SETUSER x resetpass >old"), "+OK");
        assert_eq!(admin.ask("ACL SETUSER default on nopass"), "+OK");
        let mut wires: Vec<Wire> = (0..8).map(|_| server.connect()).collect();
        let who = if round % 3 == 2 { "default" } else { "x" };
        // Half of them send before, half of them while the password is replaced.
        let begin = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (at, wire) in wires.iter_mut().enumerate() {
                    if at == 4 {
                        begin.wait();
                    }
                    let login = if at % 4 == 3 { "RESET" } else { "AUTH x old" };
                    // A connection that is closed already takes no more bytes.
                    let _ = wire.stream().write_all(format!("{login}\r\n{pings}").as_bytes());
                }
            });
            begin.wait();
            admin.send(format!("ACL SETUSER {who} resetpass >new\r\nCLIENT KILL USER {who}\r\n"));
            assert_eq!(admin.line(), "+OK");
            assert!(admin.line().starts_with(':'));
        });
        for wire in &mut wires {
            let is_sent = wire.stream().write_all(b"ACL WHOAMI\r\nQUIT\r\n").is_ok();
            let lines = if is_sent { wire.try_lines() } else { Vec::new() };
            assert!(
                !lines.iter().any(|line| line == who),
                "round {round}: {:?}",
                &lines[lines.len().saturating_sub(4)..]
            );
        }
    }
}

/// Deleting a user ends its `MONITOR` too, however late the login.
#[test]
fn a_monitor_of_a_deleted_user_ends() {
    let server = Server::start(&["--io-threads", "2"]);
    let mut admin = server.connect();
    for _ in 0..15 {
        assert_eq!(admin.ask("ACL SETUSER x on >pw +@all"), "+OK");
        let mut wire = server.connect();
        wire.send("AUTH x pw\r\nMONITOR\r\n");
        assert_eq!(admin.ask("ACL DELUSER x"), ":1");
        // A closed connection sends nothing more; a refused AUTH leaves the default user.
        let reply = wire.line();
        if reply.starts_with("-WRONGPASS") {
            continue;
        }
        assert!(["+OK", ""].contains(&reply.as_str()), "{reply}");
        assert!(wire.rest().lines().all(|line| line.starts_with('+')));
    }
}

/// Connects from another loopback address, which has a limit of guesses of its own.
fn connect_from(server: &Server, from: [u8; 4]) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&SocketAddr::from(([127, 0, 0, 1], server.port)).into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(support::PATIENCE)).unwrap();
    stream
}

/// Guesses in pipelines, on many connections, and by clients that close before the reply: the number per second is
/// bounded. Logins from other addresses succeed meanwhile.
#[test]
fn guessing_is_slow_for_the_guesser() {
    let mut server = Server::start(&["--requirepass", "secret", "--user", "app on >pw +getid +acl|whoami"]);
    let port = server.port;
    let began = Instant::now();
    let over = Arc::new(AtomicBool::new(false));
    let attackers: Vec<_> = (0..8)
        .map(|_| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                while !over.load(Relaxed) {
                    // The client closes without reading a reply.
                    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
                    _ = stream.write_all("AUTH guess\r\nHELLO 3 AUTH missing x\r\n".repeat(50).as_bytes());
                }
            })
        })
        .collect();
    let mut waiting: Vec<Wire> = (0..100).map(|_| server.connect()).collect();
    for wire in &mut waiting {
        wire.send("AUTH guess\r\n".repeat(100));
    }
    // Logs in from another address until the attackers have used up the guesses of theirs.
    let ask_from_elsewhere = || {
        let mut stream = connect_from(&server, [127, 0, 0, 2]);
        stream.write_all(b"AUTH secret\r\nINFO stats\r\nQUIT\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("+OK\r\n$"), "{reply}");
        let tried = reply.split_once("acl_access_denied_auth:").unwrap().1.lines().next().unwrap();
        tried.parse::<u64>().unwrap()
    };
    for _ in 0..20 {
        ask_from_elsewhere();
    }
    eventually("an address has used up its guesses", || ask_from_elsewhere() >= 1000);
    over.store(true, Relaxed);
    for thread in attackers {
        thread.join().unwrap();
    }
    let tried = ask_from_elsewhere();
    let seconds = began.elapsed().as_secs() + 1;
    assert!(tried <= 1000 + 1000 * seconds, "{tried} guesses in {seconds} s");
    server.wait_log("login failed");
    let lines = server.count_log("login failed");
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap() + 1;
    assert!(lines <= 10 * (seconds + 1), "{lines} lines in {seconds} s");
    drop(waiting);
}

/// On one connection each reply to a wrong login comes later than the last. Replies to earlier commands do not wait.
#[test]
fn replies_to_wrong_logins_are_delayed() {
    let server = Server::start(&["--requirepass", "secret", "--shutdown-timeout", "60"]);
    let mut wire = server.connect();
    let began = Instant::now();
    wire.send("AUTH x\r\n".repeat(4));
    assert!((0..4).all(|_| wire.line().starts_with("-WRONGPASS")));
    // 10, 20, 40 and 80 ms.
    assert!(began.elapsed() >= Duration::from_millis(150), "{:?}", began.elapsed());
    assert_eq!(wire.ask("AUTH secret"), "+OK");
    wire.send("PING\r\nAUTH x\r\n");
    assert_eq!(wire.line(), "+PONG");
    assert!(wire.line().starts_with("-WRONGPASS"));
    // A stop does not wait for delayed replies.
    wire.send("AUTH x\r\n".repeat(100));
    assert!(server.stop().success());
}

/// Returns the users in docs/access.md as (name, password, line).
fn documented_users() -> Vec<(String, String, String)> {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/access.md")).unwrap();
    let lines = page.lines().filter_map(|line| line.strip_prefix("user ")).filter(|line| line.contains(" on >"));
    let users = lines.map(|line| {
        let mut words = line.split(' ');
        let name = words.next().unwrap().to_owned();
        let password = words.find_map(|word| word.strip_prefix('>')).unwrap().to_owned();
        (name, password, line.to_owned())
    });
    users.collect()
}

/// Passwords that a user must not find out, in the order in which they were set.
const SECRETS: [&str; 3] = ["first-secret", "second-secret", "third-secret"];

/// Returns the texts that reveal a password: the passwords and their digests.
fn secret_texts() -> Vec<String> {
    let digests = SECRETS.map(|secret| getid_redis::acl::Digest::of(secret.as_bytes()).to_string());
    SECRETS.map(str::to_owned).into_iter().chain(digests).collect()
}

/// Asserts that every command needs a login.
fn assert_commands_need_a_login<S: Read + Write>(wire: &mut Wire<S>, way: &str) {
    for command in rows().filter(|command| !command.flags.has(CommandFlags::NO_AUTH)) {
        let Some(request) = crate::support::request_of(command) else { continue };
        let reply = wire.ask(&request);
        assert!(reply.contains("NOAUTH "), "{way}: {request}: {reply}");
    }
}

/// Runs each command that the user has a right to, with arguments that ask for much: no reply contains a secret.
/// Commands without a right are refused.
fn assert_user_gains_no_rights<S: Read + Write>(wire: &mut Wire<S>, way: &str, [name, password, line]: [&str; 3]) {
    let mut all = Users::default();
    let rules: Vec<&str> = line.split(' ').skip(1).collect();
    all.define(name.as_bytes(), &rules).unwrap();
    let user = all.get(name.as_bytes()).unwrap();
    assert_eq!(wire.ask(&format!("AUTH {name} {password}")), "+OK", "{way}");
    let (mut requests, mut refused): (Vec<String>, Vec<String>) = Default::default();
    for command in rows().filter(|command| !command.flags.has(CommandFlags::NO_AUTH)) {
        if !user.may(command) {
            refused.extend(crate::support::request_of(command));
            continue;
        }
        requests.extend(crate::support::request_of(command));
        let whole = command.full_name.replace('|', " ");
        requests.extend(
            ["*", "requirepass", "REQUIREPASS", "*pass*", "all", "everything", "1000", "-1"]
                .map(|arg| format!("{whole} {arg}")),
        );
    }
    requests.push("HELLO 3".to_owned());
    requests.push(format!("HELLO 2 AUTH {name} {password}"));
    // Also refused in MULTI and in other indirect ways.
    refused.extend(
        ["CONFIG SET requirepass x", "ACL SETUSER default nopass", "CLIENT KILL TYPE normal", "SHUTDOWN"]
            .map(str::to_owned),
    );
    requests.extend(["MULTI", "CONFIG SET requirepass x", "ACL SETUSER default nopass", "EXEC"].map(str::to_owned));
    requests.extend(["AUTH default (redacted)", "AUTH hidden (redacted)"].map(str::to_owned));
    let secret_texts = secret_texts();
    for (at, request) in requests.iter().chain(&refused).enumerate() {
        // Each end mark is unique, because SLOWLOG shows the earlier ones.
        let end = format!("end-{at}");
        wire.send(format!("{request}\r\nPING {end}\r\n"));
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line| *line != end) {
            lines.push(wire.line());
            assert!(lines.len() < 100_000, "{request}");
        }
        assert!(at < requests.len() || lines[0].contains("NOPERM "), "{way}: {name}: {request}: {lines:?}");
        let text = lines.join("\n");
        for secret in &secret_texts {
            assert!(!text.contains(secret), "{way}: {name}: {request}: {text}");
        }
    }
    assert_eq!(wire.ask("RESET"), "+RESET");
    assert!(wire.ask("PING").starts_with("-NOAUTH"));
}

/// Each user of the page, over TCP and over the Unix socket in a connection reserved for operators: no user gets more
/// rights than the page grants, and nothing has changed.
#[test]
fn no_documented_user_gains_rights() {
    const PLACES: u64 = 8;
    let users = documented_users();
    assert!(users.len() >= 2, "{users:?}");
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("getid.sock");
    let mut words = vec!["--requirepass", SECRETS[0], "--slowlog-log-slower-than", "0", "--io-threads", "2"];
    words.extend(["--unixsocket", socket.to_str().unwrap(), "--maxclients", "8", "--auth-timeout", "0"]);
    for (_, _, line) in &users {
        words.extend(["--user", line]);
    }
    let server = Server::start(&words);
    let mut admin = server.connect();
    assert_eq!(admin.ask(&format!("AUTH {}", SECRETS[0])), "+OK");
    // Secrets that SLOWLOG could reveal.
    assert_eq!(admin.ask(&format!("ACL SETUSER hidden on >{} +@all", SECRETS[2])), "+OK");
    assert_eq!(admin.ask(&format!("CONFIG SET requirepass {}", SECRETS[1])), "+OK");
    let (list, settings) = (reply(&mut admin, "ACL LIST"), reply(&mut admin, "CONFIG GET *"));
    assert!(list.concat().contains(&secret_texts()[4]) && settings.iter().any(|value| value == SECRETS[1]));
    let is_kept_place = |admin: &mut Wire| admin.info_number("connected_clients") > PLACES;
    let (mut tcp, way) = (server.connect(), "TCP");
    assert_commands_need_a_login(&mut tcp, way);
    assert!(!is_kept_place(&mut admin));
    for (name, password, line) in &users {
        assert_user_gains_no_rights(&mut tcp, way, [name, password, line]);
    }
    // From here on only the operators' connections are free.
    let mut others: Vec<Wire> = (0..PLACES - 2).map(|_| server.connect()).collect();
    assert!(others.iter_mut().all(|wire| wire.ask("PING").starts_with("-NOAUTH")));
    let (mut unix, way) = (Wire::connect_unix(&socket), "Unix socket, an operator's place");
    assert_commands_need_a_login(&mut unix, way);
    assert!(is_kept_place(&mut admin));
    for (name, password, line) in &users {
        assert_user_gains_no_rights(&mut unix, way, [name, password, line]);
    }
    drop(others);
    assert_eq!(reply(&mut admin, "ACL LIST"), list);
    assert_eq!(reply(&mut admin, "CONFIG GET *"), settings);
}
