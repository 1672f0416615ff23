//! Sealed IDs of a running server: key files at a start and at SIGHUP, texts on the wire, and what is never shown.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;

use crate::support::{self, Server, Wire, eventually, refused};

const OLD: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const NEW: &str = "2b7e151628aed2a6abf7158809cf4f3cef4359d8d580aa4f7f036d6f04fc6a94";

/// A server with sealed generators, whose key file the test edits.
struct Sealed {
    server: Server,
    wire: Wire,
    dir: tempfile::TempDir,
}

fn write_keys(path: &Path, text: &str, mode: u32) {
    let _ = fs::set_permissions(path, Permissions::from_mode(0o600));
    fs::write(path, text).expect("written");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
}

impl Sealed {
    fn start(keys: &str, generators: &str) -> Sealed {
        let dir = support::folder();
        write_keys(&dir.path().join("seal.keys"), keys, 0o600);
        let key_file = dir.path().join("seal.keys");
        let config = generators.replace("SEAL", &format!("seal key-file {}", key_file.display()));
        fs::write(dir.path().join("t.conf"), config).expect("written");
        Sealed::start_again(dir)
    }

    fn start_again(dir: tempfile::TempDir) -> Sealed {
        let config = dir.path().join("t.conf");
        let server = Server::start_in(dir.path(), &["--config", config.to_str().expect("text")]);
        let wire = server.connect();
        Sealed { server, wire, dir }
    }

    fn keys(&self) -> PathBuf {
        self.dir.path().join("seal.keys")
    }

    /// Writes the key file, sends SIGHUP, and waits for a new log line that contains `expected`.
    #[track_caller]
    fn reload(&mut self, keys: &str, mode: u32, expected: &str) {
        let before = self.server.count_log(expected);
        write_keys(&self.keys(), keys, mode);
        self.server.signal(Signal::SIGHUP);
        eventually(expected, || self.server.count_log(expected) > before);
    }
}

#[test]
fn keys_are_replaced_in_two_steps() {
    let mut sealed = Sealed::start(&format!("0 {OLD}\n"), "generator order fork SEAL\n");
    sealed.server.wait_log("generator order seals by key 0, opens texts of 0, answers with integers");
    // The first of the fixed vectors.
    assert_eq!(sealed.wire.ask_bulk("SEALID order 1"), "3rTGUx6w9tqZ");
    sealed.reload(&format!("0 {OLD}\n1 {NEW} open-only\n"), 0o600, "SIGHUP: generators: other keys: order");
    assert_eq!(sealed.wire.ask_bulk("SEALID order 1"), "3rTGUx6w9tqZ");
    sealed.reload(&format!("0 {OLD}\n1 {NEW}\n"), 0o400, "SIGHUP: generators: other keys: order");
    sealed.server.wait_log("SIGHUP: generator order seals by key 1, opens texts of 0, 1, answers with integers");
    let text = sealed.wire.ask_bulk("SEALID order 1");
    assert_ne!(text, "3rTGUx6w9tqZ");
    for text in [&*text, "3rTGUx6w9tqZ"] {
        assert_eq!(sealed.wire.ask(&format!("OPENID order {text}")), ":1", "{text}");
    }
    // The server's group may read the file, as mounted secrets are read.
    sealed.reload(&format!("1 {NEW}\n"), 0o440, "SIGHUP: generators: other keys: order");
    let gone = "-ERR '3rTGUx6w9tqZ' is sealed by key 0, and the key file has only 1";
    assert_eq!(sealed.wire.ask("OPENID order 3rTGUx6w9tqZ"), gone);

    // What is refused changes nothing.
    for (keys, mode, expected) in [
        (format!("1 {OLD}\n"), 0o600, "has another key of number 1 than this server had since its start: texts of"),
        // The key 0 is removed, and its number is not free.
        (format!("1 {NEW}\n0 {NEW}\n"), 0o600, "has another key of number 0 than this server had since its start"),
        (format!("1 {NEW}\n"), 0o660, "is open to other users (mode 660), must not be used by others nor written"),
        (format!("1 {NEW}\n"), 0o604, "is open to other users (mode 604), must not be used by others nor written"),
        (format!("1 {NEW} open-only\n"), 0o600, "has no key that seals"),
        (format!("1 {}\n", &NEW[1..]), 0o600, "line 1 has a key 1 of 63 characters, must have 64 hex digits"),
    ] {
        sealed.reload(&keys, mode, expected);
        assert_eq!(sealed.wire.ask(&format!("OPENID order {text}")), ":1", "{expected}");
    }
    fs::remove_file(sealed.keys()).expect("it was there");
    sealed.server.signal(Signal::SIGHUP);
    sealed.server.wait_log("seal.keys' cannot be read: No such file or directory");
    assert_eq!(sealed.wire.ask(&format!("OPENID order {text}")), ":1");
    assert_no_key_is_shown(&mut sealed);
}

#[test]
fn another_alphabet_is_logged() {
    let mut sealed = Sealed::start(&format!("0 {OLD}\n"), "generator order fork SEAL\n");
    let path = sealed.dir.path().join("t.conf");
    let config = fs::read_to_string(&path).expect("text").replace("order fork", "order fork alphabet base62");
    fs::write(&path, config).expect("written");
    sealed.server.signal(Signal::SIGHUP);
    sealed.server.wait_log(
        "SIGHUP: generator order has another alphabet: texts that were given before do not open any more, or open as \
         other IDs",
    );
    assert_eq!(sealed.wire.ask_bulk("SEALID order 1").len(), 12);
}

/// A user without the right to open finds the value of a sealed sequence nowhere.
#[test]
fn the_value_of_a_sealed_sequence_is_hidden() {
    let generators = "generator member sequence SEAL answer sealed\ngenerator user sequence SEAL\n\
                      sequence-create on-first-use\n";
    let mut sealed = Sealed::start(&format!("0 {OLD}\n"), generators);
    let wire = &mut sealed.wire;
    for name in ["member", "user"] {
        for _ in 0..340 {
            wire.send(format!("MGETID 100 {name}\r\n"));
            wire.reply();
        }
    }
    let next: u64 = wire.ask("GETID user")[1..].parse().expect("a value");
    assert_eq!(next, 34_001);
    assert_eq!(wire.ask_bulk("GET member"), "34000");
    assert_eq!(wire.ask("ACL SETUSER reader on >pw ~* +@all -openid -sealid"), "+OK");
    assert_eq!(wire.ask("AUTH reader pw"), "+OK");
    assert!(wire.ask("GET member").starts_with("-NOPERM the value of a sealed sequence needs the right 'openid'"));
    for command in ["SEQUENCE LIST", "INFO everything", "GENERATORS", "SEQUENCE STORES", "ACL LOG", "MGET member user"]
    {
        wire.send(format!("{command}\r\n"));
        let reply = String::from_utf8_lossy(&wire.reply()).into_owned();
        let of_member: Vec<_> = reply.lines().filter(|line| line.contains("member")).collect();
        assert!(!of_member.iter().any(|line| line.contains("last=") || line.contains("until=")), "{of_member:?}");
        assert!(!reply.contains("\n34000") && !reply.contains(":34000") && !reply.contains("=34000,last"), "{reply}");
    }
}

/// Neither the log nor any command shows a part of a key; the path is shown, and is kept by a rewrite.
fn assert_no_key_is_shown(sealed: &mut Sealed) {
    assert_eq!(sealed.wire.ask("CONFIG REWRITE"), "+OK");
    let rewritten = fs::read_to_string(sealed.dir.path().join("t.conf")).expect("text");
    let mut shown = sealed.server.log_so_far() + &rewritten;
    for command in ["CONFIG GET *", "GENERATORS", "INFO everything", "SLOWLOG GET 100", "ACL LOG"] {
        sealed.wire.send(format!("{command}\r\n"));
        shown += &String::from_utf8_lossy(&sealed.wire.reply());
    }
    for key in [OLD, NEW, &OLD.to_uppercase(), &NEW.to_uppercase()] {
        assert!(!shown.contains(&key[..16]) && !shown.contains(&key[48..]), "{shown}");
    }
    assert!(rewritten.contains("seal.keys"), "{rewritten}");
}

#[test]
fn a_generator_answers_with_sealed_texts() {
    let generators = "generator order fork SEAL alphabet base62 answer sealed\ngenerator user sequence SEAL\n\
                      generator member sequence SEAL answer sealed\ngenerator plain fork\nsequence-create on-first-use\n";
    let mut sealed = Sealed::start(&format!("0 {OLD}\n"), generators);
    let text = sealed.wire.ask_bulk("GETID order");
    assert_eq!(text.len(), 12);
    let id = sealed.wire.ask(&format!("OPENID order {text}"));
    let id = id.strip_prefix(':').expect("an integer");
    assert_eq!(sealed.wire.ask_bulk(&format!("SEALID order {id}")), text);
    assert!(sealed.wire.ask("GETID plain").starts_with(':'));
    assert_eq!(sealed.wire.ask("MGETID 3 order"), "*3");
    let texts: Vec<_> = (0..3).map(|_| (sealed.wire.line(), sealed.wire.line()).1.trim_end().to_owned()).collect();
    let opened = texts.iter().map(|text| sealed.wire.ask(&format!("OPENID order {text}")));
    let opened: Vec<_> = opened.map(|id| id[1..].parse::<u64>().expect("an id")).collect();
    assert!(opened.is_sorted() && opened[0] > id.parse().expect("an id"), "{opened:?}");

    // Sequences count in plain integers, and their public texts do not show the count.
    assert_eq!(sealed.wire.ask("GETID user"), ":1");
    let first = sealed.wire.ask_bulk("GETID member");
    assert_eq!(sealed.wire.ask(&format!("OPENID member {first}")), ":1");
    assert_eq!(sealed.wire.ask("MGETID 2 member"), "*2");
    let texts: Vec<_> = (0..2).map(|_| (sealed.wire.line(), sealed.wire.line()).1.trim_end().to_owned()).collect();
    assert_eq!(sealed.wire.ask(&format!("OPENID member {}", texts[1])), ":3");

    // The seal is no part of the record: a start without it, and with another alphabet, gives IDs.
    for generators in ["generator order fork\n", "generator order fork SEAL alphabet base36\n"] {
        let Sealed { server, dir, .. } = sealed;
        assert_eq!(server.stop().code(), Some(0));
        let key_file = format!("seal key-file {}", dir.path().join("seal.keys").display());
        fs::write(dir.path().join("t.conf"), generators.replace("SEAL", &key_file)).expect("written");
        sealed = Sealed::start_again(dir);
        let next = sealed.wire.ask("GETID order");
        assert!(next[1..].parse::<u64>().expect("an id") > opened[2], "{next}");
    }
}

#[test]
fn a_start_reads_keys_from_a_small_private_file_alone() {
    let dir = support::folder();
    let path = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    nix::unistd::mkfifo(&dir.path().join("pipe"), Mode::S_IRWXU).expect("a pipe");
    fs::create_dir(dir.path().join("folder")).expect("a folder");
    write_keys(&dir.path().join("open"), &format!("0 {OLD}"), 0o604);
    write_keys(&dir.path().join("huge"), &format!("0 {OLD}\n{}", "#".repeat(16 << 10)), 0o600);
    write_keys(&dir.path().join("binary"), "\0\u{7f}\n", 0o600);
    for (name, expected) in [
        (path("pipe"), "it is a named pipe; a regular file is expected"),
        (path("folder"), "cannot be read: Is a directory"),
        (path("missing"), "cannot be read: No such file or directory"),
        (path("open"), "is open to other users (mode 604)"),
        (path("huge"), "is larger than 16384 bytes"),
        (path("binary"), "line 1 is not of the form NUMBER HEX"),
        ("/dev/zero".to_owned(), "it is a device; a regular file is expected"),
        ("/dev/null".to_owned(), "is open to other users (mode 666)"),
    ] {
        let words = ["--generator", "order", "fork", "seal", "key-file", name.as_str()];
        let log = refused(dir.path(), &words, |_| {});
        assert!(log.contains(expected) && log.contains("generator order: key-file '"), "{name}: {log}");
        assert!(!log.contains(&OLD[..16]), "{log}");
    }
}

#[test]
fn hostile_texts_are_refused_and_the_server_goes_on() {
    let alphabets = ["decimal", "hex", "base32", "base36", "base58", "base62"];
    let generators = alphabets.map(|alphabet| format!("generator {alphabet} fork SEAL alphabet {alphabet}\n")).concat();
    let mut sealed = Sealed::start(&format!("0 {OLD}\n"), &generators);
    let bytes: Vec<u8> = (0..=255).collect();
    let texts = [vec![b'1'; 500_000], vec![0; 22], vec![0xff; 12], bytes.clone(), Vec::new(), bytes[100..112].to_vec()];
    for name in alphabets {
        for command in ["OPENID", "SEALID"] {
            for text in &texts {
                let head = format!("*3\r\n$6\r\n{command}\r\n${}\r\n{name}\r\n${}\r\n", name.len(), text.len());
                sealed.wire.send([head.as_bytes(), text, b"\r\n"].concat());
                let reply = sealed.wire.reply();
                assert!(reply.starts_with(b"-ERR ") && reply.len() < 1024, "{command} {name}: {}", reply.len());
            }
        }
    }
    // A pipeline of guesses is answered in order.
    let guesses = (0..10_000).map(|guess| format!("OPENID base58 {}\r\n", format!("1{guess:011}").replace('0', "z")));
    let (count, guesses) = (10_000, guesses.collect::<String>());
    let sender = sealed.wire.stream().try_clone().expect("a socket");
    let sending = std::thread::spawn(move || std::io::Write::write_all(&mut &sender, guesses.as_bytes()));
    let opened = (0..count).filter(|_| sealed.wire.reply().starts_with(b":")).count();
    sending.join().expect("a thread").expect("sent");
    // The check lets about one of nine pass.
    assert!((count / 20..count / 6).contains(&opened), "{opened}");
    assert!(sealed.wire.id() > 0);
}
