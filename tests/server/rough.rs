//! Clients that no library would write, and operators in a hurry: no other client may notice them.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{self, NARROW, PATIENCE, Random, SHORT_LEAD, Server, Wire, eventually, words};
use nix::sys::signal::Signal;

#[test]
fn thousands_of_idle_connections() {
    const CLIENTS: usize = 3_000;
    support::need_open_files(CLIENTS + 100);
    let server = Server::start(&["--loglevel", "warning"]);
    let mut wire = server.connect();
    let before = server.memory_kb("VmRSS");
    let mut idle: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(&server)).collect();
    // Each has sent a request, and half of another now.
    for stream in &mut idle {
        stream.write_all(b"PING\r\n*1\r\n$5\r\nGET").expect("sent");
    }
    for stream in &mut idle {
        let mut reply = [0; 7];
        stream.read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply, b"+PONG\r\n");
    }
    let per_client = (server.memory_kb("VmRSS") - before) * 1024 / CLIENTS as u64;
    println!("{per_client} bytes a client");
    assert!(per_client < 8 * 1024, "{per_client} bytes for an idle client");
    wire.wait_info("connected_clients", &(CLIENTS + 1).to_string());
    let list = wire.ask_bulk("CLIENT LIST");
    assert_eq!(list.lines().count(), CLIENTS + 1);
    for stream in &mut idle {
        stream.write_all(b"ID\r\n").expect("sent");
    }
    for stream in &mut idle {
        let mut reply = [0];
        stream.read_exact(&mut reply).expect("a reply");
        assert_eq!(reply[0], b':');
    }
    drop(idle);
    wire.wait_info("connected_clients", "1");
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn random_bytes_harm_no_other_client() {
    let mut server = Server::start(&["--loglevel", "debug"]);
    let mut good = server.connect();
    let mut last = good.id();
    let mut random = Random(0x5eed);
    let alphabet: &[u8] = b"*$:+-\r\n0123456789 GETIDMPNQUX\"'\\\0\xff";
    for round in 0..300 {
        let len = random.index(if round % 10 == 0 { 60_000 } else { 200 });
        let bytes: Vec<u8> = (0..len)
            .map(|_| match round % 3 {
                0 => u8::try_from(random.below(256)).expect("a byte"),
                _ => alphabet[random.index(alphabet.len())],
            })
            .collect();
        let mut stream = connect(&server);
        let mut sender = stream.try_clone().expect("a second handle");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // The server may close in the middle.
                let _ = sender.write_all(&bytes);
                let _ = sender.shutdown(Shutdown::Write);
            });
            // Whatever the reply, the connection ends.
            let mut reply = Vec::new();
            let end = stream.read_to_end(&mut reply).map_err(|error| error.kind());
            assert!(!matches!(end, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "round {round} hangs");
        });
        if round % 20 == 0 {
            let id = good.id();
            assert!(id > last);
            last = id;
        }
    }
    assert_ne!(good.info("protocol_error_connections"), "0");
    assert_eq!(good.info("connection_panics"), "0");
    assert_eq!(server.count_log("panicked"), 0, "{}", server.log_so_far());
}

#[test]
fn protocol_errors_are_counted_without_quit() {
    let server = Server::start(&[]);
    let mut wire = server.connect();
    for (bytes, count) in [("*1\r\n:1\r\n", "1"), ("QUIT\r\n", "1"), ("GETID\r\n*x\r\n", "2")] {
        let mut other = server.connect();
        other.send(bytes);
        other.rest();
        wire.wait_info("protocol_error_connections", count);
    }
}

#[test]
fn a_client_that_leaves_while_it_waits_frees_its_slot() {
    let server = Server::start(&words(&format!("{NARROW} --id-max-wait-ms 600000")));
    let mut gone: Vec<Wire> = (0..10).map(|_| server.connect()).collect();
    for wire in &mut gone {
        wire.send("GETID\r\n".repeat(6_000));
    }
    let mut wire = server.connect();
    wire.wait_info("blocked_clients", "10");
    for gone in gone {
        // The client ends with a reset, as a process that is killed with replies unread.
        socket2::SockRef::from(gone.stream()).set_linger(Some(Duration::ZERO)).expect("an option");
    }
    // The others' wait would take a minute.
    wire.wait_info("ids_waiting", "0");
    wire.id();
}

#[test]
fn a_client_gone_without_a_reset_costs_one_reply() {
    const GONE: usize = 8;
    let server = Server::start(&words(&format!("{NARROW} {SHORT_LEAD} --id-max-wait-ms 100000")));
    let mut gone: Vec<Wire> = (0..GONE).map(|_| server.connect()).collect();
    for wire in &mut gone {
        wire.send("MGETID 100\r\n".repeat(20));
    }
    let mut wire = server.connect();
    eventually("the clients wait", || wire.info_number("blocked_clients") >= GONE as u64 - 1);
    // Both directions are closed. The server sees a client that has finished sending and still reads.
    drop(gone);
    wire.wait_info("connected_clients", "1");
    wire.id();
    let issued = wire.info_number("ids_issued");
    assert!(issued < GONE as u64 * 2_000 / 2, "{issued} IDs of the 16,000 in the requests");
}

#[test]
fn a_client_that_has_finished_sending_gets_every_reply() {
    let server = Server::start(&words(&format!("{NARROW} {SHORT_LEAD} --id-max-wait-ms 100000")));
    let mut wire = server.connect();
    wire.send("MGETID 100\r\nPING\r\nGETID\r\n".repeat(6) + "ECHO end\r\n");
    wire.stream().shutdown(Shutdown::Write).expect("shut down");
    let mut last = 0;
    let mut id = |text: &str| {
        let id: u64 = text.parse().expect("an ID");
        assert!(id > last, "{id} came after {last}");
        last = id;
    };
    for _ in 0..6 {
        assert_eq!(wire.line(), "*100");
        for _ in 0..100 {
            wire.line();
            id(&wire.line());
        }
        assert_eq!(wire.line(), "+PONG");
        id(wire.line().strip_prefix(':').expect("an ID"));
    }
    assert_eq!(wire.rest(), "$3\r\nend\r\n");
}

#[test]
fn a_client_that_waits_for_ids_holds_only_its_request() {
    const CLIENTS: usize = 200;
    // So few IDs per millisecond that all clients wait, however slow the machine.
    let server = Server::start(&words("--id-range 2 --shard-range 6 --random-range 13 --id-max-wait-ms 3600000"));
    let mut watch = server.connect();
    let mut waiting: Vec<TcpStream> = (0..CLIENTS).map(|_| server.connect().into_stream()).collect();
    let before = server.memory_kb("VmRSS");
    // 20,000 IDs each, of which the first 8,192 may come at once: 200 KB of replies, and a read's worth of requests
    // behind.
    let request = b"*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n".repeat(200);
    for client in &mut waiting {
        client.write_all(&request).expect("sent");
        client.set_nonblocking(true).expect("an option");
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let reader = std::thread::spawn(move || {
        let mut piece = vec![0; 256 << 10];
        while !stopped.load(Ordering::Relaxed) {
            for client in &mut waiting {
                while matches!(client.read(&mut piece), Ok(1..)) {}
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        waiting
    });
    // IDs are borrowed for three seconds. Then all clients without their IDs wait.
    let mut blocked = 0;
    eventually("clients wait", || {
        blocked = watch.info_number("blocked_clients");
        blocked >= CLIENTS as u64 * 3 / 4
    });
    let held = watch.info_number("client_buffers_bytes");
    let per_client = server.memory_kb("VmRSS").saturating_sub(before) * 1024 / CLIENTS as u64;
    println!("{blocked} clients wait; {per_client} bytes a client are resident, {held} are counted");
    // The bound includes the buffers shared by working connections.
    assert!(per_client < 32 * 1024, "{per_client} bytes per waiting client");
    assert!((blocked * 1000..CLIENTS as u64 * 24 * 1024).contains(&held), "{held} bytes are counted");
    stop.store(true, Ordering::Relaxed);
    drop(reader.join());
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut server = Server::start(&["--shutdown-timeout", "60"]);
    let last = server.connect().id();
    let mut stuck = server.connect();
    stuck.send_and_never_read();
    server.wait_stuck(1);
    server.signal(Signal::SIGTERM);
    server.wait_log("SIGTERM received, stopping");
    server.signal(Signal::SIGINT);
    server.wait_log("SIGINT received again, stopping at once");
    assert_eq!(server.wait().code(), Some(0));
    server.wait_log("the position is stored");
    let dir = server.dir.clone();
    assert!(Server::start_in(&dir, &[]).connect().id() > last);
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.port)).expect("the server accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

#[test]
fn a_request_of_very_many_arguments_leaves_nothing_behind() {
    const ARGUMENTS: usize = 200_000;
    let server = Server::start(&[]);
    let request =
        [format!("*{ARGUMENTS}\r\n$4\r\nNONE\r\n").as_bytes(), &b"$0\r\n\r\n".repeat(ARGUMENTS - 1)[..]].concat();
    let mut quiet = Vec::new();
    let mut before_kb = 0;
    for client in 0..15 {
        let mut wire = server.connect();
        wire.send(&request);
        assert!(wire.line().starts_with("-ERR unknown command 'NONE'"));
        quiet.push(wire);
        if client == 0 {
            before_kb = server.memory_kb("VmRSS");
        }
    }
    // A table of so many arguments is 3 MB; 14 more clients would keep 40 MB.
    let grown_kb = server.memory_kb("VmRSS").saturating_sub(before_kb);
    assert!(grown_kb < 20_000, "{grown_kb} kB");
}
