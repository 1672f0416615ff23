//! What does each layer of a request cost, without the kernel?
//!
//! The layers are the draw, a maker in process, encoding, decoding, a whole turn in memory, and the command part of an
//! HTTP request. This does not measure a request over a socket, where system calls are nearly the whole cost, and does
//! not compare machines. Compare only figures of one run.
//!
//! `cargo bench --bench layers`; `cargo test` runs each once.

#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use getid_core::server::{Key, SequenceRequest, Spec};
use getid_core::{FileMaker, Layout, RandomCycle, Reservation, Scheme, Slot, Tick};
use getid_engine::claim::Identity;
use getid_engine::fixtures::roomy_issuer;
use getid_engine::generators::sequence::{CreateOptions, DrawOutcome, SequenceNotes, SequenceSettings, Sequences};
use getid_redis::command::Vocabulary;
use getid_redis::resp::{DecodeLimits, DecodeStep, Decoder, IdWriter, write_id};
use getid_redis::session::{Session, Settings, TURN_IDS_MAX, Timing, Turn};
use getid_store::sql::TableKind;
use getid_system::clock::{Clock, SystemClock};
use getid_text::name_hash::hash_of;
use getid_text::store_url::StoreUrl;
#[cfg(feature = "http")]
use {
    getid_config::{Config, LogFormat, LogLevel, Sources},
    getid_engine::generators::Generators,
    getid_redis::acl::Origin,
    getid_server::connection::LocalClient,
    getid_server::logging::{Log, LogOptions},
    getid_server::registry::{ConnectionAddr, SocketInfo},
    getid_server::settings::session_settings,
    getid_server::{Process, Server},
};

/// A layout so wide that no bench borrows.
fn layout() -> Layout {
    Layout::new(getid_core::Epoch::DEFAULT, 1, 19, 1).expect("21 bits")
}

fn scheme() -> Arc<Scheme> {
    let cycle = RandomCycle::new(vec![1, 0]).expect("a permutation");
    Arc::new(Scheme::new(layout(), 1, cycle).expect("they fit"))
}

fn reservation(len: u32) -> Reservation {
    Reservation { first: Slot::first_of(Tick(375_188_178_427), 19), count: 7, len }
}

/// A draw is compared with the clock reading that it contains.
fn draw(c: &mut Criterion) {
    let mut group = c.benchmark_group("draw");
    let clock = SystemClock::new();
    group.bench_function("bare clock reading", |b| b.iter(|| black_box(clock.boot_ns())));

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let identity = Identity { server_id: 1, layout: layout() };
    // The borrow limit is far beyond the IDs of the bench. The keeper, which does not run meanwhile, would save again
    // at it.
    let issuer = roomy_issuer(&runtime, SystemClock::new(), identity, 1 << 30);
    for n in [1, 128] {
        group.bench_function(format!("{n} ids"), |b| {
            b.iter(|| issuer.try_draw(black_box(n)).expect("no refusal").expect("no wait"));
        });
    }
    group.finish();
}

/// IDs made in process, without a server. Once a second one of the calls waits for the disk.
fn maker(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let maker = FileMaker::options().layout(layout()).open(folder.path().join("ids"), 1).expect("it opens");
    let mut group = c.benchmark_group("maker");
    // The call that detects a fork.
    group.bench_function("bare process number", |b| b.iter(std::process::id));
    group.bench_function("1 id", |b| b.iter(|| maker.next().expect("an ID")));
    group.throughput(Throughput::Elements(128));
    group.bench_function("128 ids", |b| b.iter(|| maker.next_many(128).expect("IDs")));
    group.finish();
}

fn encode(c: &mut Criterion) {
    let mut output = Vec::with_capacity(4096);
    let mut group = c.benchmark_group("encode");
    group.bench_function("one id, itoa alone", |b| {
        let mut digits = itoa::Buffer::new();
        b.iter(|| black_box(digits.format(black_box(786_827_840_126_452_656_u64)).len()));
    });
    group.bench_function("one id, itoa into a buffer", |b| {
        let mut digits = itoa::Buffer::new();
        b.iter(|| {
            output.clear();
            output.extend_from_slice(digits.format(black_box(786_827_840_126_452_656_u64)).as_bytes());
            black_box(output.len())
        });
    });
    group.bench_function("one id, as a line", |b| {
        b.iter(|| {
            output.clear();
            write_id(black_box(786_827_840_126_452_656), &mut output);
            black_box(output.len())
        });
    });
    group.finish();
}

/// A hundred neighbouring IDs, as in a reply to `MGETID 100`, compared with the cost of arbitrary numbers.
fn encode_many(c: &mut Criterion) {
    let scheme = scheme();
    let mut output = Vec::with_capacity(4096);
    let mut group = c.benchmark_group("encode");
    let ids: Vec<u64> = scheme.ids(reservation(100)).map(getid_core::Id::get).collect();
    group.throughput(Throughput::Elements(100));
    group.bench_function("100 ids, itoa alone", |b| {
        let mut digits = itoa::Buffer::new();
        b.iter(|| black_box(&ids).iter().map(|&id| black_box(digits.format(id)).len()).sum::<usize>());
    });
    group.bench_function("100 ids, itoa into a buffer", |b| {
        let mut digits = itoa::Buffer::new();
        b.iter(|| {
            output.clear();
            for &id in black_box(&ids) {
                output.extend_from_slice(digits.format(id).as_bytes());
            }
            black_box(output.len())
        });
    });
    group.bench_function("100 ids, as lines", |b| {
        b.iter(|| {
            output.clear();
            let mut writer = IdWriter::bulks();
            for &id in black_box(&ids) {
                writer.write(id, &mut output);
            }
            black_box(output.len())
        });
    });
    // What a server that sends a constant does at most: the reply is known, and is copied into the output.
    let mut lines = Vec::new();
    IdWriter::bulks().write_run(&scheme, reservation(100), &mut lines);
    group.bench_function("100 ids, a copy of their lines", |b| {
        b.iter(|| {
            output.clear();
            output.extend_from_slice(black_box(&lines));
            black_box(output.len())
        });
    });
    for (name, of) in [
        ("100 ids, from a reservation", IdWriter::bulks as fn() -> IdWriter),
        ("100 ids, from a reservation, as integers", IdWriter::integers),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| {
                output.clear();
                of().write_run(&scheme, black_box(reservation(100)), &mut output);
                black_box(output.len())
            });
        });
    }
    group.finish();
}

fn decode(c: &mut Criterion) {
    let pipeline = b"*1\r\n$5\r\nGETID\r\n".repeat(100);
    let limits = DecodeLimits::default();
    let mut decoder = Decoder::default();
    let mut group = c.benchmark_group("decode");
    group.throughput(Throughput::Elements(100));
    group.bench_function("100 GETID", |b| {
        b.iter(|| {
            let mut at = 0;
            while let Ok(DecodeStep::Request { used }) = decoder.decode(black_box(&pipeline[at..]), &limits) {
                at += used;
            }
            assert_eq!(at, pipeline.len());
        });
    });
    group.finish();
}

fn turn(c: &mut Criterion) {
    let settings = Arc::new(Settings {
        vocabulary: Vocabulary::new(&[]).expect("no renames"),
        scheme: scheme(),
        has_server_id: true,
        generators: Arc::default(),
        counters: Arc::default(),
        id_mgetid_max: 100,
        turn_ids_max: TURN_IDS_MAX,
        id_max_wait_ms: 5000,
        sequences: None,
        expiring: Arc::default(),
        databases: 16,
        users: Arc::default(),
        protection: getid_redis::acl::Protection::Nothing,
        sealers: getid_seal::Sealers::default(),
        is_standby: false,
        cluster: None,
        bulk_bytes_max: 512 << 20,
        request_bytes_max: 1 << 30,
        timing: Timing::default(),
    });
    let getid: &[u8] = b"*1\r\n$5\r\nGETID\r\n";
    let mgetid: &[u8] = b"*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n";
    let transaction = [b"*1\r\n$5\r\nMULTI\r\n", &getid.repeat(16)[..], b"*1\r\n$4\r\nEXEC\r\n"].concat();
    let mut group = c.benchmark_group("turn");
    for (name, input) in [
        ("1 GETID", getid.to_vec()),
        ("16 GETID", getid.repeat(16)),
        ("100 GETID", getid.repeat(100)),
        ("1 MGETID 100", mgetid.to_vec()),
        ("16 MGETID 100", mgetid.repeat(16)),
        ("MULTI, 16 GETID, EXEC", transaction),
    ] {
        let mut session = Session::new(1, Arc::clone(&settings));
        let mut turn = Turn::default();
        let mut output = Vec::new();
        group.bench_function(name, |b| {
            b.iter_batched(
                || (),
                |()| {
                    output.clear();
                    let mut at = 0;
                    loop {
                        at += session.read(black_box(&input[at..]), &mut turn);
                        let drawn = [reservation(turn.draws.unnamed)];
                        session.write(&turn, Ok(if turn.draws.unnamed == 0 { &[] } else { &drawn }), &mut output);
                        if !turn.more {
                            break;
                        }
                    }
                    black_box(output.len())
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

/// Returns the number of names in turn: 10,000 under `cargo bench`, 50 under `cargo test`, where each name costs a row
/// of SQLite.
fn name_count() -> u32 {
    if std::env::args().any(|word| word == "--bench") { 10_000 } else { 50 }
}

/// One value of a sequence in memory: of one name, and of ten thousand in turn. The store is a SQLite file, which
/// fetches concurrently.
fn sequence(c: &mut Criterion) {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    let url = StoreUrl::parse("sqlite:").expect("an address");
    let stores = vec![getid_store::sql::open(&url, TableKind::Native, dir.path(), 1).expect("a store")];
    let clock = Box::new(SystemClock::new());
    let sequences =
        Sequences::start(stores, SequenceSettings::default(), SequenceNotes::default(), clock).expect("a thread");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let names: Vec<(u64, String)> = (0..name_count())
        .map(|number| {
            let name = format!("orders:{number}");
            (hash_of(name.as_bytes()), name)
        })
        .collect();
    let ask = SequenceRequest { values: 1, times: 1 };
    let (mut runs, mut left) = (Vec::new(), Vec::new());
    let mut one = |(hash, name): &(u64, String)| {
        runs.clear();
        let drawn =
            sequences.try_draw(sequences.clock_ms(), *hash, name, &mut std::iter::once(ask), &mut runs, &mut left);
        if drawn != Ok(DrawOutcome::All) {
            let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(5);
            let asks = std::mem::take(&mut left);
            let waited = runtime.block_on(async { sequences.draw(*hash, name, asks, deadline, &mut runs).await });
            waited.expect("values");
        }
        black_box(runs.len())
    };
    // Each holds a million values beforehand: the bench measures the draw, and not the disk.
    let spec = Spec { cache: 1_000_000, ..Spec::default() };
    for named in &names {
        let key = Key::new(&named.1).expect("a name");
        let made = runtime.block_on(sequences.create(key, spec, None, CreateOptions::default()));
        made.expect("a sequence");
        one(named);
        one(named);
    }
    let mut group = c.benchmark_group("sequence");
    group.bench_function("1 value of one name", |b| b.iter(|| one(&names[0])));
    let mut at = 0;
    group.bench_function("1 value of 10,000 names in turn", |b| {
        b.iter(|| {
            at = (at + 7_919) % names.len();
            one(&names[at])
        });
    });
    group.finish();
}

/// Requests of the HTTP port's client in this process, as over a client's socket, without the socket.
#[cfg(feature = "http")]
fn local_client(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let server = server(&runtime);
    let address = ConnectionAddr::Tcp(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    let ends = SocketInfo { peer: address.clone(), local: address, fd: -1 };
    let mut client = LocalClient::new(&server, Origin::ThisMachine, ends).expect("a client");
    let mut group = c.benchmark_group("client in this process");
    for (name, request) in
        [("1 GETID", &b"*1\r\n$5\r\nGETID\r\n"[..]), ("1 MGETID 100", &b"*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n"[..])]
    {
        group.bench_function(name, |b| {
            b.iter(|| {
                let reply = runtime.block_on(client.ask(black_box(request))).expect("a reply").bytes;
                assert_ne!(reply[0], b'-', "{}", reply.escape_ascii());
                reply.len()
            });
        });
    }
    group.finish();
}

#[cfg(feature = "http")]
fn server(runtime: &tokio::runtime::Runtime) -> Arc<Server> {
    let config = Config { layout: layout(), ..Config::default() };
    let identity = Identity { server_id: 1, layout: layout() };
    let issuer = roomy_issuer(runtime, SystemClock::new(), identity, 60_000);
    let log = Log::start(LogOptions {
        level: LogLevel::Nothing,
        file: None,
        format: LogFormat::Text,
        syslog: None,
        now_unix_ms: || SystemClock::new().wall_unix_ms(),
    });
    let process = Process {
        run_id: String::new(),
        config_file: String::new(),
        sources: Sources::default(),
        started_in: std::path::PathBuf::new(),
        executable: String::new(),
        tcp_port: 0,
        announced: None,
    };
    let settings = Arc::new(session_settings(&config).expect("the default settings"));
    Server::new(config, settings, Generators::new(issuer), process, 1, None, log.expect("the log"))
}

#[cfg(feature = "http")]
criterion_group!(layers, draw, maker, sequence, encode, encode_many, decode, turn, local_client);
#[cfg(not(feature = "http"))]
criterion_group!(layers, draw, maker, sequence, encode, encode_many, decode, turn);
criterion_main!(layers);
