//! Many hostile clients at once: their cost is bounded, and a good client among them gets every reply.
//!
//! These are small forms of `benches/attack`, which compares with Redis. The checks here must hold however slow the
//! machine is. Single strange clients, idle ones and those that never read over TLS are in the binary `server`.
//!
//! A separate binary, so that no other test uses the machine meanwhile: some of these measure the server's use of
//! resources.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![allow(clippy::too_many_lines, reason = "a test is one story from beginning to end")]

mod control_group;
#[path = "../support/mod.rs"]
mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::{Random, Server, Wire, eventually};

/// A layout whose limit of IDs per second is out of reach.
const WIDE: [&str; 6] = ["--id-range", "1", "--shard-range", "19", "--random-range", "1"];
const MGETID: &[u8] = b"*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n";

/// Bound of memory that the allocator reserves beyond the requested bytes.
const RESERVED_BYTES_MAX: u64 = 256 << 20;

/// Attacks a server while a good client sends requests. Asserts that this client gets every reply, and that the
/// server's memory grows by less than `bytes_max`. All attackers must be removed after they left, and no connection may
/// panic.
fn attack_server<T>(server: &Server, password: Option<&str>, bytes_max: usize, attack: impl FnOnce() -> T) {
    let mut watch = server.connect();
    let probe = Probe::start(server, password);
    if let Some(password) = password {
        assert_eq!(watch.ask(&format!("AUTH {password}")), "+OK");
    }
    // The connection of the readiness check is gone.
    let others = "2";
    watch.wait_info("connected_clients", others);
    let before_kb = (server.memory_kb("VmRSS"), server.memory_kb("VmSize"));
    let attackers = attack();
    let grown_kb = server.memory_kb("VmHWM").saturating_sub(before_kb.0);
    assert!(grown_kb < bytes_max as u64 / 1024, "the resident memory grew by {grown_kb} kB");
    // Memory that is reserved and never touched is bounded too.
    let reserved_kb = server.memory_kb("VmPeak").saturating_sub(before_kb.1);
    assert!(
        reserved_kb < (bytes_max as u64 + RESERVED_BYTES_MAX) / 1024,
        "the reserved memory grew by {reserved_kb} kB"
    );
    println!("{grown_kb} kB resident and {reserved_kb} kB reserved more than before");
    assert_eq!(watch.info("connection_panics"), "0");
    drop(attackers);
    watch.wait_info("connected_clients", others);
    let requests = probe.stop();
    assert!(requests >= 2, "{requests} requests of the good client");
    watch.id();
}

/// The good client, on its own thread.
struct Probe {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<usize>,
}

impl Probe {
    fn start(server: &Server, password: Option<&str>) -> Probe {
        let stop = Arc::new(AtomicBool::new(false));
        let mut wire = server.connect();
        if let Some(password) = password {
            assert_eq!(wire.ask(&format!("AUTH {password}")), "+OK");
        }
        // The server has accepted the connection.
        assert_eq!(wire.ask("PING"), "+PONG");
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut requests_sent, mut last) = (0, 0);
            while !stopped.load(Ordering::Relaxed) {
                assert_eq!(wire.ask("PING"), "+PONG");
                let id = wire.id();
                assert!(id > last, "{id} came after {last}");
                last = id;
                requests_sent += 2;
                std::thread::sleep(Duration::from_millis(2));
            }
            requests_sent
        });
        Probe { stop, thread }
    }

    /// Returns the number of requests, all of them with correct replies.
    fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("each reply is correct")
    }
}

#[test]
fn hundreds_of_slow_senders_get_replies_at_a_low_cost() {
    const CLIENTS: usize = 300;
    let server = Server::start(&[]);
    attack_server(&server, None, CLIENTS * 4 * 1024, || {
        let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| server.connect().into_stream()).collect();
        for byte in b"*1\r\n$5\r\nGETID\r\n" {
            for client in &mut clients {
                client.write_all(&[*byte]).expect("sent");
            }
        }
        for client in &mut clients {
            let mut reply = [0];
            client.read_exact(&mut reply).expect("a reply");
            assert_eq!(&reply, b":");
        }
        clients
    });
}

/// Declared lengths, and whether the server accepts them from a client that has logged in.
const DECLARED: [(&[u8], bool); 10] = [
    (b"*1048576\r\n$1048576\r\nfew", true),
    (b"*2\r\n$4\r\nECHO\r\n$1048576\r\nfew", true),
    (b"*2\r\n$4\r\nECHO\r\n$1048577\r\nfew", false),
    (b"*2\r\n$4\r\nECHO\r\n$8192\r\nfew", true),
    (b"*11\r\n$4\r\nECHO\r\n", true),
    (b"*2147483648\r\n", false),
    (b"*9223372036854775807\r\n", false),
    (b"*2\r\n$4\r\nECHO\r\n$5368709120\r\nfew", false),
    (b"*2\r\n$4\r\nECHO\r\n$9223372036854775807\r\nfew", false),
    (b"*1\r\n$-1\r\n", false),
];

#[test]
fn declared_lengths_reserve_no_memory() {
    const ROUNDS: usize = 40;
    let clients = ROUNDS * DECLARED.len();
    for password in [None, Some("secret")] {
        let words: &[&str] = if password.is_some() { &["--requirepass", "secret"] } else { &[] };
        let server = Server::start(words);
        attack_server(&server, password, clients * 8 * 1024, || {
            let mut open = Vec::new();
            for (declared, believed) in DECLARED.iter().cycle().take(clients) {
                let mut wire = server.connect();
                wire.send(declared);
                open.push((wire, *believed && password.is_none()));
            }
            for (wire, believed) in &mut open {
                if *believed {
                    // The server waits for the declared bytes.
                    wire.stream().set_nonblocking(true).expect("an option");
                    let kind = wire.stream().read(&mut [0]).map_err(|error| error.kind());
                    assert_eq!(kind, Err(ErrorKind::WouldBlock));
                } else {
                    let line = wire.line();
                    assert!(line.starts_with("-ERR Protocol error: "), "{line}");
                    assert_closed(wire);
                }
            }
            open
        });
    }
}

#[test]
fn incomplete_requests_cost_only_the_sent_bytes() {
    const CLIENTS: usize = 60;
    const ARGUMENTS: usize = 5_000;
    let request = [b"*1048576\r\n", &b"$0\r\n\r\n".repeat(ARGUMENTS)[..]].concat();
    let server = Server::start(&[]);
    // An argument is six bytes of input and an entry of sixteen, both in memory that grew by doubling. The declared
    // million would be a thousand times as much.
    let bytes_max = CLIENTS * (ARGUMENTS * 2 * (6 + 16) + 64 * 1024);
    attack_server(&server, None, bytes_max, || {
        let mut open: Vec<Wire> = (0..CLIENTS).map(|_| server.connect()).collect();
        for wire in &mut open {
            wire.send(&request);
        }
        // The server has read all of it.
        let mut watch = server.connect();
        let request_bytes = (CLIENTS * request.len()) as u64;
        eventually("the server has read all", || watch.info_number("total_net_input_bytes") >= request_bytes);
        open
    });
}

#[test]
fn clients_that_never_read_are_held_back() {
    const CLIENTS: usize = 10;
    const REQUESTS: usize = 4_000;
    let server = Server::start(&WIDE);
    // A turn's replies, and a read's requests: a few hundred KB each.
    attack_server(&server, None, CLIENTS * 512 * 1024, || {
        let requests = MGETID.repeat(REQUESTS);
        let mut open: Vec<TcpStream> = (0..CLIENTS).map(|_| narrow(&server)).collect();
        let mut sent = [0; CLIENTS];
        let mut watch = server.connect();
        eventually("the clients are held back", || {
            for (client, sent) in open.iter_mut().zip(&mut sent) {
                match client.write(&requests[*sent..]) {
                    Ok(n) => *sent += n,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
            watch.ask_bulk("CLIENT LIST").matches(" events=w ").count() == CLIENTS
        });
        let issued = watch.info_number("ids_issued");
        println!("{issued} IDs");
        assert!(issued < (CLIENTS * REQUESTS * 100 * 3 / 4) as u64, "{issued} IDs for clients that read none");
        // A client that reads after all gets everything, in order.
        let mut late = open.pop().expect("a client");
        late.set_nonblocking(false).expect("an option");
        let rest = &requests[sent[CLIENTS - 1]..];
        std::thread::scope(|scope| {
            let mut sender = late.try_clone().expect("a second handle");
            scope.spawn(move || sender.write_all(rest).expect("sent"));
            let mut reply = vec![0; 64 * 1024];
            let mut left = REQUESTS * ("*100\r\n".len() + 100 * "$18\r\n144182182078841378\r\n".len());
            while left > 0 {
                let n = late.read(&mut reply[..left.min(64 * 1024)]).expect("more replies");
                assert_ne!(n, 0, "closed with {left} bytes missing");
                left -= n;
            }
        });
        open.push(late);
        open
    });
}

#[test]
fn a_thousand_short_connections_leave_nothing_behind() {
    const CLIENTS: usize = 1_000;
    let server = Server::start(&[]);
    attack_server(&server, None, 4 << 20, || {
        for client in 0..CLIENTS {
            let mut wire = server.connect();
            match client % 5 {
                0 => {
                    wire.id();
                }
                1 => wire.send("GETID\r\n"),
                2 => wire.send("*1\r\n$5\r\nGET"),
                _ => {}
            }
            if client % 2 == 0 {
                // The client ends with a reset, as a process that is killed with replies unread.
                socket2::SockRef::from(wire.stream()).set_linger(Some(Duration::ZERO)).expect("an option");
            }
        }
        let mut watch = server.connect();
        eventually("all connections are counted", || watch.info_number("total_connections_received") >= CLIENTS as u64);
    });
}

#[test]
fn hundreds_of_clients_send_near_requests_at_once() {
    const CLIENTS: usize = 300;
    let server = Server::start(&["--loglevel", "debug"]);
    let mut random = Random(0x5eed);
    attack_server(&server, None, CLIENTS * 16 * 1024, || {
        let mut open: Vec<TcpStream> = (0..CLIENTS).map(|_| narrow(&server)).collect();
        for _ in 0..10 {
            for client in &mut open {
                let mut bytes = Vec::new();
                for _ in 0..10 {
                    bytes.extend(random.near_miss());
                }
                // It may be closed, or have too much in flight.
                let _ = client.write(&bytes);
            }
        }
        // They leave with replies unread: requests that the server has not read by then are lost.
        let mut watch = server.connect();
        eventually("some of the requests are valid", || watch.info_number("ids_issued") > CLIENTS as u64);
        eventually("some of the requests break the protocol", || watch.info("protocol_error_connections") != "0");
        open
    });
}

/// Clients with the right to one key send hostile words to the commands about numbers and series. No reply has a key,
/// a request or a user of others, or a character that could begin a line of its own.
#[test]
fn hostile_words_about_numbers_reveal_nothing() {
    const CLIENTS: usize = 4;
    const COMMANDS: [&str; 19] = [
        "NUMBER RESERVE bill REQUEST ? KEY mine",
        "NUMBER RESERVE bill REQUEST r KEY ?",
        "NUMBER RESERVE bill REQUEST r KEY mine DUE ?",
        "NUMBER COMMIT bill ? KEY mine",
        "NUMBER COMMIT bill r KEY ?",
        "NUMBER VOID bill ? REASON x KEY mine",
        "NUMBER VOID bill unknown REASON ? KEY mine",
        "NUMBER SETTLE bill ? VOID REASON x",
        "NUMBER LEDGER bill KEY mine CURSOR ?",
        "NUMBER LEDGER bill KEY mine PERIOD ?",
        "NUMBER LEDGER bill KEY mine COUNT ?",
        "NUMBER LEDGER bill KEY ?",
        "SERIES LIST bill CURSOR ?",
        "SERIES LIST bill COUNT ?",
        "SERIES CREATE bill ?",
        "SEQUENCE INFO ?",
        "GETID bill key mine REQUEST ?",
        "GETID bill key mine REQUEST r FOR ?",
        "GETID bill key ?",
    ];
    let long = vec![b'a'; 70_000];
    let words: [&[u8]; 20] = [
        b"",
        b"\xff\xfe",
        b"a\r\nb",
        b"\x1b[31m",
        b"\xe2\x80\xae",
        b"'; DELETE FROM getid_number; --",
        b"\\",
        b"\\' OR ''='",
        b"%s%n{}",
        b"..",
        b"/",
        b":1",
        b"A//0",
        b"hidden-key",
        b"hidden-request",
        b"bill/hidden-key",
        b"1",
        b"-9223372036854775808",
        b"9223372036854775807",
        &long,
    ];
    let server = Server::start(&["--generator", "bill serial B-{key}-{n:6} zone UTC gapless"]);
    let mut admin = server.connect();
    for request in [
        "ACL SETUSER mallory on nopass +@all -@dangerous ~bill/MINE",
        "NUMBER RESERVE bill REQUEST hidden-request KEY hidden-key",
    ] {
        admin.send(format!("{request}\r\n"));
        assert!(!admin.reply().starts_with(b"-"), "{request}");
    }
    drop(admin);
    attack_server(&server, None, 64 << 20, || {
        for _ in 0..CLIENTS {
            let mut wire = server.connect();
            wire.send("AUTH mallory x\r\n");
            assert_eq!(wire.reply(), b"+OK\r\n");
            for (command, word) in COMMANDS.iter().flat_map(|command| words.iter().map(move |word| (command, word))) {
                let parts = command.split(' ').map(|part| if part == "?" { *word } else { part.as_bytes() });
                let mut request = format!("*{}\r\n", command.split(' ').count()).into_bytes();
                for part in parts {
                    request.extend(format!("${}\r\n", part.len()).into_bytes());
                    request.extend([part, b"\r\n"].concat());
                }
                wire.send(request);
                let reply = String::from_utf8(wire.reply()).unwrap();
                assert!(!reply.contains("HIDDEN") && !reply.contains("default"), "{command}: {reply}");
                let is_plain = !reply.trim_end().contains(|char: char| char.is_control() && !"\r\n".contains(char));
                assert!(is_plain && (!reply.starts_with('-') || reply.lines().count() == 1), "{command}: {reply:?}");
            }
        }
    });
    let mut admin = server.connect();
    admin.send("NUMBER LEDGER bill KEY hidden-key\r\n");
    let ledger = String::from_utf8(admin.reply()).unwrap();
    assert!(ledger.contains("B-HIDDEN-KEY-000001") && ledger.contains("reserved"), "{ledger}");
}

/// Hundreds of clients that each request a thousand settings at a time, by names and by patterns, again and again. A
/// good client has its turn once a round, and the state is saved.
#[test]
#[ignore = "needs the release binary and 10 s"]
fn hundreds_of_clients_request_a_thousand_settings_at_a_time() {
    const CLIENTS: usize = 450;
    const NAMES: usize = 1_024;
    const REQUESTS: usize = 8;
    support::need_open_files(CLIENTS + 100);
    let request = |name: &str| {
        let argument = format!("${}\r\n{name}\r\n", name.len());
        format!("*{}\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n{}", NAMES + 2, argument.repeat(NAMES))
    };
    // So many patterns are refused, which is work, too.
    let requests = [request("timeout"), request("*z?")].concat().repeat(REQUESTS / 2);
    let server = Server::start(&[]);
    attack_server(&server, None, CLIENTS * 128 * 1024, || {
        let mut good = server.connect();
        let calls = |wire: &mut Wire| -> usize {
            let text = wire.ask_bulk("INFO commandstats");
            let rest = text.split_once("cmdstat_config|get:calls=").map_or("0,", |(_, rest)| rest);
            rest.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number")
        };
        let saves = good.info_number("rdb_saves");
        let mut open: Vec<TcpStream> = Vec::new();
        // If the good client itself stalls, others are served before it. Then the round is repeated.
        let has_its_turns = (0..3).any(|_| {
            open = (0..CLIENTS).map(|_| server.connect().into_stream()).collect();
            let is_over = AtomicBool::new(false);
            let first = calls(&mut good);
            let (mut requests_sent, mut most, mut before) = (0, 0, first);
            std::thread::scope(|scope| {
                // They read their replies, so that only the server's work delays them.
                scope.spawn(|| flood_requests(&open, requests.as_bytes(), &is_over));
                while before - first < CLIENTS * REQUESTS {
                    let now = calls(&mut good);
                    (requests_sent, most, before) = (requests_sent + 1, most.max(now - before), now);
                }
                is_over.store(true, Ordering::Relaxed);
            });
            println!("{requests_sent} requests in between; at most {most} of {} went before one", before - first);
            most < CLIENTS * REQUESTS / 2
        });
        assert!(has_its_turns, "the good client waited for more than half of all requests");
        println!("{} saves", good.info_number("rdb_saves") - saves);
        assert_eq!(good.info("watermark_save_failures"), "0");
        open
    });
}

/// Sends `requests` to each client's server as fast as they are read, and discards the replies, until `is_over`.
fn flood_requests(clients: &[TcpStream], requests: &[u8], is_over: &AtomicBool) {
    let mut piece = vec![0; 64 << 10];
    let mut sent = vec![0; clients.len()];
    while !is_over.load(Ordering::Relaxed) {
        for (mut client, sent) in clients.iter().zip(&mut sent) {
            client.set_nonblocking(true).expect("an option");
            while let Ok(written @ 1..) = client.write(&requests[*sent..]) {
                *sent += written;
            }
            while matches!(client.read(&mut piece), Ok(1..)) {}
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Thousands of clients wait for more IDs than the layout holds in minutes, and cost little. They leave without
/// reading, half of them with a reset. Then they are removed from the queue at once, and their memory is free for the
/// next thousands.
#[test]
#[ignore = "needs the release binary and 20 s"]
fn twelve_thousand_waiting_clients_disconnect() {
    const CLIENTS: usize = 12_000;
    /// Number of requests whose IDs take one turn.
    const PIPELINE: usize = 82;
    let requests = MGETID.repeat(PIPELINE);
    // If the limit of open files is lower, the clients come in several waves.
    let at_once = support::raise_open_files().saturating_sub(300).min(CLIENTS);
    let words = ["--maxclients", "13000", "--id-max-wait-ms", "3600000", "--loglevel", "warning"];
    let server = Server::start(&words);
    // Uses a connection that is closed afterwards, because `attack_server` counts the open ones.
    let number = |field: &str| server.connect().info(field).parse::<usize>().expect("a number");
    let mut most_kb = Vec::new();
    for wave in [at_once].repeat(CLIENTS.div_ceil(at_once).max(2)) {
        attack_server(&server, None, CLIENTS * 16 * 1024, || {
            let open: Vec<TcpStream> = (0..wave).map(|_| server.connect().into_stream()).collect();
            for mut client in &open {
                client.write_all(&requests).expect("sent");
            }
            // IDs may be borrowed for three seconds, so the first clients have theirs.
            eventually("the clients wait", || number("draws_waiting") >= wave * 9 / 10);
            let waiting = number("ids_waiting");
            assert!(waiting > wave * PIPELINE * 100 / 2, "{waiting}");
            // Clients that wait for long are checked less and less often. A slow machine still reads requests at first.
            let cost = || {
                std::thread::sleep(Duration::from_secs(2));
                let (began, before) = (Instant::now(), cpu_of_clients(&server));
                std::thread::sleep(Duration::from_secs(2));
                (cpu_of_clients(&server) - before) / began.elapsed().as_secs_f64()
            };
            let is_little = (0..5).any(|_| {
                let share = cost();
                println!("{wave} wait for {waiting} IDs, with {:.1} % of their thread's time", share * 100.0);
                share < 0.1
            });
            assert!(is_little, "waiting clients take more than a tenth of their thread");

            for (at, client) in open.into_iter().enumerate() {
                if at % 2 == 0 {
                    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).expect("an option");
                }
            }
            let before = number("ids_issued");
            server.connect().id();
            let others = number("ids_issued") - before;
            println!("{others} IDs for others went before a new client's");
            assert!(others < waiting / 4, "{others}");
        });
        most_kb.push(server.memory_kb("VmHWM"));
        for field in ["draws_waiting", "ids_waiting", "blocked_clients"] {
            assert_eq!(number(field), 0, "{field}");
        }
        let held = number("client_buffers_bytes");
        assert!(held < 64 * 1024, "{held} bytes are held");
        // No draw is queued or was queued before it.
        let before = number("ids_issued");
        server.connect().id();
        assert_eq!(number("ids_issued") - before, 1);
    }
    let (first, last) = (most_kb[0], most_kb[most_kb.len() - 1]);
    println!("{first} kB were resident at most after the first wave, {last} after the last");
    assert!(last < first * 5 / 4, "{most_kb:?}");
}

/// Returns the CPU seconds used by the thread of all clients: the first thread, in a server with one I/O thread.
fn cpu_of_clients(server: &Server) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{0}/task/{0}/stat", server.pid())).expect("its first thread");
    // Fields behind the name, which may contain blanks: user and system time, in hundredths of a second.
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().expect("a number") / 100.0).sum()
}

/// The whole comparison in a small form, so that the script keeps working.
#[test]
#[ignore = "needs python3 and redis-server"]
fn the_comparison_under_attack_prints_every_row() {
    let dir = tempfile::tempdir().expect("a folder");
    let json = dir.path().join("result.json");
    let output = std::process::Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/attack"))
        .args(["--no-build", "--rounds", "1", "--scale", "small"])
        .args([std::ffi::OsStr::new("--getid"), support::binary().as_os_str()])
        .args([std::ffi::OsStr::new("--dir"), dir.path().as_os_str()])
        .args([std::ffi::OsStr::new("--json"), json.as_os_str()])
        .output()
        .expect("python3 runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(json).expect("the figures")).expect("JSON");
    let attacks = report["attacks"].as_object().expect("attacks");
    // Attacks on the HTTP port have no counterpart to compare with.
    let is_http = |name: &String| name.starts_with("http-");
    let over_http = attacks.keys().filter(|name| is_http(name)).count();
    assert_eq!((attacks.len() - over_http, over_http), (21, 8), "{text}");
    for (name, kinds) in attacks {
        for kind in ["getid", "redis"].into_iter().filter(|kind| !is_http(name) || *kind == "getid") {
            let runs = kinds[kind].as_array().expect("runs");
            assert_eq!(runs.len(), 1, "{name}, {kind}");
            for figure in [
                "peak_mib",
                "after_mib",
                "p50_us",
                "p99_us",
                "max_us",
                "ping_p99_us",
                "id_p99_us",
                "requests",
                "probe_connections",
            ] {
                assert!(runs[0][figure].as_f64().is_some_and(|figure| figure > 0.0), "{name}, {kind}: {}", runs[0]);
            }
        }
    }
    assert_eq!(attacks["declare-password"]["getid"][0]["closed"], 50);
    // Three tables with a row for each attack, and one for those on the HTTP port.
    assert_eq!(text.lines().filter(|line| line.starts_with("| ")).count(), 3 * (21 + 1) + 8 + 1, "{text}");
    // The script removed its folder and the servers in it.
    assert_eq!(std::fs::read_dir(dir.path()).expect("the folder").count(), 1);
}

/// Connects a non-blocking client with a small receive buffer, so that the server has to keep the rest.
fn narrow(server: &Server) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("an option");
    socket.connect(&std::net::SocketAddr::from(([127, 0, 0, 1], server.port)).into()).expect("the server accepts");
    socket.set_nonblocking(true).expect("an option");
    socket.into()
}

/// Asserts that the server has closed, if need be with a reset because there was more to read.
fn assert_closed(wire: &mut Wire) {
    let mut rest = Vec::new();
    match wire.stream().read_to_end(&mut rest) {
        Ok(_) => assert_eq!(rest, b""),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

impl Random {
    /// Returns a request, in some cases with one byte changed, removed or inserted.
    fn near_miss(&mut self) -> Vec<u8> {
        const REQUESTS: [&[u8]; 5] = [
            b"*1\r\n$5\r\nGETID\r\n",
            b"*2\r\n$6\r\nMGETID\r\n$2\r\n60\r\n",
            b"PING\r\n",
            b"ECHO \"a b\"\r\n",
            b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nx\r\n",
        ];
        const ALPHABET: &[u8] = b"\r\n$*:0123456789-\0\"' \xff";
        let mut request = REQUESTS[self.index(REQUESTS.len())].to_vec();
        if self.below(10) == 0 {
            let at = self.index(request.len());
            let byte = ALPHABET[self.index(ALPHABET.len())];
            match self.below(3) {
                0 => request[at] = byte,
                1 => request.insert(at, byte),
                _ => {
                    request.remove(at);
                }
            }
        }
        request
    }
}
