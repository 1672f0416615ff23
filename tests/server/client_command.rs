//! CLIENT over real connections: what a client does to other clients.

use std::time::{Duration, Instant};

use crate::support::{self, NARROW, Server, Wire, eventually, words};

fn id_of(wire: &mut Wire) -> u64 {
    let reply = wire.ask("CLIENT ID");
    reply.strip_prefix(':').and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("{reply}"))
}

fn addr_of(wire: &mut Wire, field: &str) -> String {
    let line = wire.ask_bulk("CLIENT INFO");
    let found = line.split(' ').find_map(|pair| pair.strip_prefix(field)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {field} in {line}")).to_owned()
}

/// Asserts that the client reads only the end of the stream.
#[track_caller]
fn assert_gone(mut wire: Wire) {
    assert_eq!(wire.rest(), "");
}

#[test]
fn kill_by_id_and_by_address() {
    let server = Server::start(&[]);
    let mut wire = server.connect();
    let (mut by_id, mut by_addr, mut by_old_form) = (server.connect(), server.connect(), server.connect());

    let id = id_of(&mut by_id);
    assert_eq!(wire.ask(&format!("CLIENT KILL ID {id}")), ":1");
    // A killed client is neither listed nor killed again, even before its task has run.
    assert_eq!(wire.ask(&format!("CLIENT KILL ID {id}")), ":0");
    assert!(!wire.ask_bulk("CLIENT LIST").contains(&format!("id={id} ")));
    assert_gone(by_id);

    let addr = addr_of(&mut by_addr, "addr");
    assert_eq!(wire.ask(&format!("CLIENT KILL LADDR {addr}")), ":0");
    assert_eq!(wire.ask(&format!("CLIENT KILL ADDR {addr} ID {id}")), ":0", "all filters must hold");
    assert_eq!(wire.ask(&format!("CLIENT KILL ADDR {addr}")), ":1");
    assert_gone(by_addr);

    let addr = addr_of(&mut by_old_form, "addr");
    assert_eq!(wire.ask(&format!("CLIENT KILL {addr}")), "+OK");
    assert_eq!(wire.ask(&format!("CLIENT KILL {addr}")), "-ERR No such client");
    assert_gone(by_old_form);
    wire.id();
}

#[test]
fn kill_by_kind_by_user_and_by_our_end() {
    let server = Server::start(&["--requirepass", "secret"]);
    let mut wire = server.connect();
    assert_eq!(wire.ask("AUTH secret"), "+OK");
    let (stranger, mut known) = (server.connect(), server.connect());
    assert_eq!(known.ask("AUTH secret"), "+OK");
    wire.wait_info("connected_clients", "3");
    for filter in ["TYPE master", "TYPE pubsub", "TYPE replica", "LADDR 127.0.0.1:1"] {
        assert_eq!(wire.ask(&format!("CLIENT KILL {filter} SKIPME yes")), ":0", "{filter}");
    }
    // Without SKIPME, the connection that sends the command is left alone.
    assert_eq!(wire.ask("CLIENT KILL TYPE normal USER default"), ":2");
    assert_gone(stranger);
    assert_gone(known);
    let other = server.connect();
    wire.wait_info("connected_clients", "2");
    let laddr = addr_of(&mut wire, "laddr");
    assert_eq!(wire.ask(&format!("CLIENT KILL LADDR {laddr}")), ":1");
    assert_gone(other);
}

#[test]
fn a_client_that_kills_itself_gets_the_reply_and_nothing_after_it() {
    let server = Server::start(&[]);
    for (kill, reply) in [("CLIENT KILL ID {id} SKIPME no", ":1\r\n"), ("CLIENT KILL {addr}", "+OK\r\n")] {
        let mut wire = server.connect();
        let (id, addr) = (id_of(&mut wire), addr_of(&mut wire, "addr"));
        let kill = kill.replace("{id}", &id.to_string()).replace("{addr}", &addr);
        wire.send(format!("PING\r\n{kill}\r\nGETID\r\nPING\r\n"));
        assert_eq!(wire.rest(), format!("+PONG\r\n{reply}"));
    }
    // In a transaction the array breaks off, as in Redis: the replies of its other commands have no reader.
    let mut wire = server.connect();
    let id = id_of(&mut wire);
    wire.send(format!("MULTI\r\nCLIENT KILL ID {id} SKIPME no\r\nGETID\r\nEXEC\r\n"));
    assert_eq!(wire.rest(), "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n");
}

#[test]
fn a_killed_client_gives_its_place_back() {
    let server = Server::start(&["--maxclients", "2"]);
    let mut wire = server.connect();
    let mut other = server.connect();
    other.id();
    wire.wait_info("connected_clients", "2");
    let operators = server.take_operators_places();
    assert_eq!(server.connect().rest(), "-ERR max number of clients reached\r\n");
    drop(operators);
    let id = id_of(&mut other);
    assert_eq!(wire.ask(&format!("CLIENT KILL ID {id}")), ":1");
    assert_gone(other);
    wire.wait_info("connected_clients", "1");
    assert_eq!(server.connect().ask("PING"), "+PONG");
    assert_eq!(wire.info("rejected_connections"), "1");
}

#[test]
fn a_client_that_waits_for_ids_can_be_killed() {
    let server = Server::start(&words(NARROW));
    let mut waiting = server.connect();
    let id = id_of(&mut waiting);
    waiting.send("GETID\r\n".repeat(20_000));
    let mut wire = server.connect();
    wire.wait_info("blocked_clients", "1");
    assert_eq!(wire.ask(&format!("CLIENT KILL ID {id}")), ":1");
    wire.wait_info("blocked_clients", "0");
}

#[test]
fn with_more_threads_a_client_of_another_thread_is_killed_at_once() {
    let server = Server::start(&["--io-threads", "3"]);
    let mut wires: Vec<Wire> = (0..6).map(|_| server.connect()).collect();
    let ids: Vec<u64> = wires.iter_mut().map(id_of).collect();
    let mut first = wires.remove(0);
    for id in &ids[1..] {
        assert_eq!(first.ask(&format!("CLIENT KILL ID {id}")), ":1");
    }
    wires.into_iter().for_each(assert_gone);
    first.id();
}

#[test]
fn unblock_ends_a_wait_for_ids_with_an_error() {
    let server = Server::start(&words(NARROW));
    let mut wire = server.connect();
    let id = id_of(&mut wire);
    assert_eq!(wire.ask(&format!("CLIENT UNBLOCK {id}")), ":0", "the client does not wait");
    let ways = [
        ("", "-BUSY the wait for ids was ended by CLIENT UNBLOCK"),
        (" TIMEOUT", "-BUSY the wait for ids was ended by CLIENT UNBLOCK"),
        (" ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK"),
    ];
    for (how, text) in ways {
        let mut waiting = server.connect();
        let id = id_of(&mut waiting);
        // 20,000 IDs come in many turns. Once a client no longer waits for one draw, it waits for none.
        waiting.send(format!("MULTI\r\n{}EXEC\r\nPING\r\n", "MGETID 100\r\n".repeat(200)));
        // Between two turns the client does not wait for a moment. Its flags are xb: in MULTI, and waiting.
        wire.wait_info("blocked_clients", "1");
        eventually("CLIENT LIST shows it", || wire.ask_bulk(&format!("CLIENT LIST ID {id}")).contains("b db="));
        eventually("UNBLOCK succeeds", || wire.ask(&format!("CLIENT UNBLOCK {id}{how}")) == ":1");
        assert_eq!(waiting.line(), "+OK");
        (0..200).for_each(|_| assert_eq!(waiting.line(), "+QUEUED"));
        assert_eq!(waiting.line(), "*200");
        let replies: Vec<Vec<u8>> = (0..200).map(|_| waiting.reply()).collect();
        let replied = replies.iter().take_while(|reply| reply.starts_with(b"*100\r\n")).count();
        let refusal = format!("{text}\r\n").into_bytes();
        assert!(replied < 200 && replies[replied..].iter().all(|reply| *reply == refusal), "{replied}");
        assert_eq!(waiting.line(), "+PONG");
        wire.wait_info("blocked_clients", "0");
    }
}

#[test]
fn pause_write_holds_ids_and_nothing_else() {
    let server = Server::start(&[]);
    let (mut wire, mut held) = (server.connect(), server.connect());
    let before = held.id();
    assert_eq!(wire.info("paused_actions"), "none");
    assert_eq!(wire.ask("CLIENT PAUSE 600000 WRITE"), "+OK");
    assert_eq!(wire.info("paused_reason"), "client_pause");
    assert_eq!(wire.info("paused_actions"), "write");
    let left_ms = wire.info_number("paused_timeout_milliseconds");
    assert!((1..=600_000).contains(&left_ms), "{left_ms}");
    // Commands before the held one get a reply; those behind it keep their order.
    held.send("PING a\r\nGETID\r\nPING b\r\nMGETID 2\r\n");
    assert_eq!((held.line(), held.line()), ("$1".into(), "a".into()));
    wire.wait_info("blocked_clients", "1");
    assert!(wire.ask_bulk("CLIENT LIST").contains(" flags=b "));
    let mut multi = server.connect();
    multi.send("MULTI\r\nPING\r\nEXEC\r\n");
    assert_eq!([multi.line(), multi.line(), multi.line(), multi.line()], ["+OK", "+QUEUED", "*1", "+PONG"]);
    assert_eq!(wire.ask("CLIENT UNPAUSE"), "+OK");
    let id: u64 = held.line().trim_start_matches(':').parse().expect("an id");
    assert!(id > before);
    assert_eq!([held.line(), held.line(), held.line()], ["$1", "b", "*2"]);
    assert_eq!(wire.info("paused_actions"), "none");
    wire.wait_info("blocked_clients", "0");
}

#[test]
fn a_transaction_with_ids_is_held_at_exec_too() {
    let server = Server::start(&[]);
    let (mut wire, mut held) = (server.connect(), server.connect());
    held.send("MULTI\r\nGETID\r\nGETID\r\n");
    assert_eq!([held.line(), held.line(), held.line()], ["+OK", "+QUEUED", "+QUEUED"]);
    assert_eq!(wire.ask("CLIENT PAUSE 600000 WRITE"), "+OK");
    held.send("EXEC\r\n");
    wire.wait_info("blocked_clients", "1");
    assert_eq!(wire.ask("CLIENT UNPAUSE"), "+OK");
    assert_eq!(held.line(), "*2");
}

#[test]
fn pause_all_holds_all_but_the_commands_that_end_it() {
    let server = Server::start(&["--requirepass", "secret"]);
    let mut held = server.connect();
    assert_eq!(held.ask("AUTH secret"), "+OK");
    assert_eq!(held.ask("CLIENT PAUSE 600000"), "+OK");
    let id = id_of(&mut held);
    held.send("PING\r\nGETID\r\n");
    // A new client can still log in, list the clients and end the pause.
    let mut operator = server.connect();
    assert_eq!(operator.ask("PING"), "-NOAUTH Authentication required.");
    assert_eq!(operator.ask("AUTH secret"), "+OK");
    eventually("the client is held", || operator.ask_bulk(&format!("CLIENT LIST ID {id}")).contains(" flags=b "));
    assert_eq!(operator.ask(&format!("CLIENT UNBLOCK {id}")), ":0", "a pause is no wait for ids");
    assert_eq!(operator.ask("CLIENT UNPAUSE"), "+OK");
    assert_eq!(held.line(), "+PONG");
    assert!(held.line().starts_with(':'));
}

#[test]
fn a_pause_ends_by_itself_and_releases_all_clients() {
    let server = Server::start(&["--io-threads", "2"]);
    let mut wires: Vec<Wire> = (0..8).map(|_| server.connect()).collect();
    for wire in &mut wires {
        wire.id();
    }
    let begun = Instant::now();
    assert_eq!(wires[0].ask("CLIENT PAUSE 300"), "+OK");
    for wire in &mut wires {
        wire.send("GETID\r\n");
    }
    for wire in &mut wires {
        assert!(wire.line().starts_with(':'));
    }
    assert!(begun.elapsed() >= Duration::from_millis(250), "nothing was held");
}

#[test]
fn a_paused_server_can_be_stopped_and_gives_no_id_then() {
    let server = Server::start(&["--shutdown-timeout", "60"]);
    let (mut wire, mut held) = (server.connect(), server.connect());
    held.id();
    assert_eq!(wire.ask("CLIENT PAUSE 600000 ALL"), "+OK");
    held.send("GETID\r\n");
    eventually("the client is held", || wire.ask_bulk("CLIENT LIST").contains(" flags=b "));
    wire.send("SHUTDOWN\r\n");
    assert_eq!(wire.rest(), "");
    assert_eq!(held.rest(), "");
    let mut server = server;
    assert!(server.wait().success());
}

#[test]
fn a_client_that_leaves_while_held_is_removed() {
    let server = Server::start(&[]);
    let (mut wire, mut held) = (server.connect(), server.connect());
    assert_eq!(wire.ask("CLIENT PAUSE 600000 WRITE"), "+OK");
    held.send("GETID\r\n");
    wire.wait_info("blocked_clients", "1");
    socket2::SockRef::from(held.stream()).set_linger(Some(Duration::ZERO)).expect("an option");
    drop(held);
    wire.wait_info("connected_clients", "1");
}

#[test]
fn client_list_shows_the_state_of_a_client() {
    let dir = support::folder();
    let path = dir.path().join("getid.sock");
    let server = Server::start(&["--unixsocket", path.to_str().expect("text")]);
    let mut wire = server.connect();
    let flags = |wire: &mut Wire| addr_of(wire, "flags");
    assert_eq!(flags(&mut wire), "N");
    assert_eq!(wire.ask("CLIENT NO-EVICT ON"), "+OK");
    assert_eq!(flags(&mut wire), "e");
    assert_eq!(wire.ask("CLIENT NO-TOUCH ON"), "+OK");
    assert_eq!(flags(&mut wire), "eT");
    assert_eq!(wire.ask("CLIENT NO-EVICT OFF"), "+OK");
    let id = id_of(&mut wire);
    assert_eq!(wire.ask("MULTI"), "+OK");
    assert_eq!(wire.ask("GETID"), "+QUEUED");
    let mut other = server.connect();
    let line = other.ask_bulk(&format!("CLIENT LIST ID {id}"));
    assert!(line.contains(" flags=xT ") && line.contains(" multi=1 "), "{line}");
    assert!(line.contains(" cmd=getid "), "{line}");
    // After a transaction `cmd` is EXEC, not a command of the transaction.
    let mut third = server.connect();
    let id_of_third = id_of(&mut third);
    third.send("MULTI\r\nPING\r\nEXEC\r\n");
    for reply in ["+OK", "+QUEUED", "*1", "+PONG"] {
        assert_eq!(third.line(), reply);
    }
    let line = other.ask_bulk(&format!("CLIENT LIST ID {id_of_third}"));
    assert!(line.contains(" cmd=exec "), "{line}");
    // The request itself counts, as in Redis.
    for what in ["LIST", "INFO"] {
        third.send(format!("*2\r\n$6\r\nCLIENT\r\n$4\r\n{what}\r\n"));
        let head = third.line();
        let list = if head.starts_with('$') { third.lines_until_empty() } else { String::new() };
        assert!(list.contains(&format!("id={id_of_third} ")) && list.contains(" qbuf=26 "), "{head}: {list}");
    }
    // The beginning of a request whose rest has not arrived.
    wire.send("DISCARD\r\n*2\r\n$4\r\nECHO\r\n$100\r\nabc");
    assert_eq!(wire.line(), "+OK");
    eventually("the request has arrived", || {
        let line = other.ask_bulk(&format!("CLIENT LIST ID {id}"));
        line.contains(" qbuf=23 ") && line.contains(" tot-mem=23 ") && line.contains(" events=r ")
    });
    let mut unix = std::os::unix::net::UnixStream::connect(&path).expect("the server accepts");
    std::io::Write::write_all(&mut unix, b"PING\r\n").expect("sent");
    eventually("CLIENT LIST shows the client", || other.ask_bulk("CLIENT LIST").contains(" flags=U "));
}

#[test]
fn a_held_client_has_the_name_set_in_the_same_packet() {
    let server = Server::start(&[]);
    let mut operator = server.connect();
    for user in ["bob", "eve"] {
        assert_eq!(operator.ask(&format!("ACL SETUSER {user} on >pw +@all")), "+OK");
    }
    assert_eq!(operator.ask("CLIENT PAUSE 60000 WRITE"), "+OK");
    let held = |user: &str| {
        let mut wire = server.connect();
        wire.send(format!("AUTH {user} pw\r\nCLIENT SETNAME {user}\r\nGETID\r\n"));
        assert_eq!((wire.line().as_str(), wire.line().as_str()), ("+OK", "+OK"));
        wire
    };
    let (bob, eve) = (held("bob"), held("eve"));
    operator.wait_info("blocked_clients", "2");
    let list = operator.ask_bulk("CLIENT LIST");
    assert!(list.contains(" name=bob ") && list.contains(" user=eve "), "{list}");
    assert_eq!(operator.ask("CLIENT KILL USER bob"), ":1");
    assert_gone(bob);
    // Its user is deleted, and it must not continue as the default user.
    assert_eq!(operator.ask("ACL DELUSER eve"), ":1");
    assert_eq!(operator.ask("CLIENT UNPAUSE"), "+OK");
    assert_gone(eve);
}

#[test]
fn work_for_a_client_that_breaks_off_is_counted() {
    let server = Server::start(&[]);
    let mut operator = server.connect();
    let before = operator.info_number("total_commands_processed");
    let requests = "MGETID 100\r\n".repeat(20_000);
    for _ in 0..3 {
        let wire = server.connect();
        wire.stream().set_nonblocking(true).expect("a socket");
        // Writes as much as the socket takes and reads nothing; the end is a reset.
        let _ = std::io::Write::write(&mut wire.stream(), requests.as_bytes());
        server.wait_stuck(1);
    }
    eventually("the work is counted", || {
        let count = operator.info_number("total_commands_processed");
        let issued = operator.info_number("ids_issued");
        issued > 1000 && count - before >= issued / 100
    });
}
