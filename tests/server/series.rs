//! Generators with a series for each key, on real sockets with the default store.

use std::collections::HashSet;

use crate::support::{Server, Wire, eventually, folder};

const INVOICE: [&str; 6] = ["--generator", "invoice", "serial", "INV-{key}-{yyyy}-{n:5}", "zone", "Europe/Berlin"];

/// Returns the text of a reply, without the frames of its parts.
fn text_of(reply: &[u8]) -> String {
    let reply = String::from_utf8_lossy(reply).into_owned();
    let lines: Vec<&str> = reply.lines().filter(|line| !line.starts_with('$') && !line.starts_with('*')).collect();
    lines.join(" ")
}

fn ask(wire: &mut Wire, request: &str) -> String {
    wire.send(format!("{request}\r\n"));
    text_of(&wire.reply())
}

/// Returns the number at the end of an ID.
fn number_of(id: &str) -> u32 {
    id.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{id}"))
}

#[test]
fn each_key_counts_by_itself_over_lives() {
    let dir = folder();
    let words = [&INVOICE[..], &["cache", "0"]].concat();
    for life in 0..3 {
        let server = Server::start_in(dir.path(), &words);
        let mut wire = server.connect();
        for nth in 1..=2 {
            for key in ["acme", "b.2"] {
                let id = ask(&mut wire, &format!("GETID invoice key {key}"));
                let prefix = format!("INV-{}-20", key.to_uppercase());
                assert!(id.starts_with(&prefix), "{id}");
                assert_eq!(number_of(&id), life * 2 + nth, "{id}");
            }
        }
        let many = ask(&mut wire, &format!("MGETID 3 invoice key life{life}"));
        assert_eq!(many.split(' ').map(number_of).collect::<Vec<_>>(), [1, 2, 3], "{many}");
        let read = ask(&mut wire, &format!("DECODEID {} invoice", many.split(' ').next().unwrap_or_default()));
        assert!(read.contains("value :1") && read.contains(&format!("key LIFE{life}")), "{read}");
        let keys = ask(&mut wire, "SERIES LIST invoice");
        assert!(keys.trim_start().starts_with("ACME B.2 LIFE0"), "{keys}");
        if life % 2 == 0 {
            server.kill();
        } else {
            assert!(server.stop().success());
        }
    }
}

#[test]
fn no_number_of_a_key_is_given_twice_over_connections() {
    let server = Server::start(&INVOICE);
    let port = server.port;
    let all: Vec<Vec<String>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|client| {
                scope.spawn(move || {
                    let mut wire = Wire::connect(port);
                    let keys = |nth: usize| (nth * 7 + client) % 50;
                    (0..300).for_each(|nth| wire.send(format!("GETID invoice key k{}\r\n", keys(nth))));
                    (0..300).map(|_| text_of(&wire.reply())).collect()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let mut seen = HashSet::new();
    for id in all.into_iter().flatten() {
        assert!(id.starts_with("INV-K"), "{id}");
        assert!(seen.insert(id.clone()), "{id} twice");
    }
    let mut wire = server.connect();
    wire.send("SERIES LIST invoice COUNT 20\r\n");
    let first = text_of(&wire.reply());
    let cursor = first.split(' ').next().unwrap_or_default().to_owned();
    assert_eq!(first.split(' ').count(), 21, "{first}");
    let second = ask(&mut wire, &format!("SERIES LIST invoice CURSOR {cursor} COUNT 100"));
    let keys: HashSet<&str> = first.split(' ').skip(1).chain(second.split_whitespace()).collect();
    assert_eq!(keys.len(), 50, "{first} {second}");
}

#[test]
fn keys_are_bounded_and_an_error_consumes_nothing() {
    let mut server = Server::start(&[&INVOICE[..], &["keys-max", "2"]].concat());
    let mut wire = server.connect();
    assert_eq!(number_of(&ask(&mut wire, "GETID invoice key a")), 1);
    assert_eq!(number_of(&ask(&mut wire, "GETID invoice key b")), 1);
    for _ in 0..2 {
        let refused = ask(&mut wire, "GETID invoice key c");
        assert!(
            refused.starts_with("-ERR generator 'invoice' has no series of the key 'C' yet, and its maximum of 2 keys")
                && refused.contains("keys-max"),
            "{refused}"
        );
    }
    for bad in ["GETID invoice", "GETID invoice key a/b", "GETID invoice key a key a", "MGETID 0 invoice key a"] {
        let refused = ask(&mut wire, bad);
        assert!(refused.starts_with("-ERR"), "{bad}: {refused}");
    }
    assert_eq!(number_of(&ask(&mut wire, "GETID invoice key a")), 2);
    let full = ask(&mut wire, "INFO sequences");
    assert!(full.contains("series_keys_used:1.0000"), "{full}");
    server.wait_log("has 2 of its 2 keys");
}

#[test]
fn declared_keys_are_created_first() {
    let server = Server::start(&[&INVOICE[..], &["keys", "declared"]].concat());
    let mut wire = server.connect();
    let refused = ask(&mut wire, "GETID invoice key acme");
    assert!(
        refused.starts_with("-ERR generator 'invoice' has no series of the key 'ACME'")
            && refused.contains("'SERIES CREATE invoice ACME' makes it"),
        "{refused}"
    );
    assert_eq!(ask(&mut wire, "SERIES LIST invoice").trim(), "");
    for _ in 0..2 {
        assert_eq!(ask(&mut wire, "SERIES CREATE invoice acme"), "+OK");
    }
    assert_eq!(number_of(&ask(&mut wire, "GETID invoice key Acme")), 1);
    assert_eq!(ask(&mut wire, "SERIES LIST invoice").trim(), "ACME");
    // The operator's commands concern the current counter of a key.
    assert_eq!(ask(&mut wire, "SEQUENCE RAISE invoice/acme 500"), "+OK");
    assert_eq!(number_of(&ask(&mut wire, "GETID invoice key acme")), 501);
    let info = ask(&mut wire, "SEQUENCE INFO invoice/ACME");
    assert!(info.contains("invoice/ACME@") && info.contains(":501"), "{info}");
    let missing = ask(&mut wire, "SEQUENCE INFO invoice/OTHER");
    assert!(missing.starts_with("-ERR generator 'invoice/OTHER' has no row"), "{missing}");
    // A raise of a new key creates and counts it.
    assert_eq!(ask(&mut wire, "SEQUENCE RAISE invoice/new 7"), "+OK");
    assert_eq!(number_of(&ask(&mut wire, "GETID invoice key new")), 8);
    assert_eq!(ask(&mut wire, "SERIES LIST invoice").trim(), "ACME NEW");
    let unmarked = ask(&mut wire, "SEQUENCE CONFIRM invoice/acme");
    assert!(unmarked.contains("nothing to confirm"), "{unmarked}");
}

/// A changed template is a changed declaration for all keys, and numbers continue.
#[test]
fn a_changed_declaration_is_that_of_all_keys() {
    let dir = folder();
    let mut seen = HashSet::new();
    let reset = |reset| [&INVOICE[..], &["reset", reset]].concat();
    for words in [reset("year"), reset("never"), reset("year"), reset("never")] {
        let server = Server::start_in(dir.path(), &words);
        let mut wire = server.connect();
        for key in ["a", "b", "a", "c", "b"] {
            let id = ask(&mut wire, &format!("GETID invoice key {key}"));
            assert!(id.starts_with("INV-"), "{id}");
            assert!(seen.insert(id.clone()), "{id} twice");
        }
        server.kill();
    }
    let words = ["--generator", "invoice", "serial", "INV-{n:5}", "unique-per", "key"];
    let server = Server::start_in(dir.path(), &words);
    let mut wire = server.connect();
    let [first, other] = ["a", "b"].map(|key| ask(&mut wire, &format!("GETID invoice key {key}")));
    assert!(first.starts_with("INV-") && number_of(&first) > 4 && number_of(&other) > 4, "{first} {other}");
    assert_eq!(ask(&mut wire, "SEQUENCE DECLARE invoice"), "+OK");
    assert_eq!(number_of(&ask(&mut wire, "GETID invoice key z")), 1);
}

#[test]
fn users_have_the_keys_of_their_patterns() {
    let server = Server::start(&INVOICE);
    let mut admin = server.connect();
    let rules = "on nopass +@all -@dangerous ~invoice ~invoice/ACME* %R~invoice/B";
    assert_eq!(ask(&mut admin, &format!("ACL SETUSER eve {rules}")), "+OK");
    for key in ["acme", "acme2", "b", "c"] {
        ask(&mut admin, &format!("GETID invoice key {key}"));
    }
    let mut eve = server.connect();
    assert_eq!(ask(&mut eve, "AUTH eve x"), "+OK");
    for (request, is_allowed) in [
        ("GETID invoice key acme", true),
        ("MGETID 2 invoice key Acme2", true),
        ("GETID invoice key b", true),
        ("GETID invoice key c", false),
        ("MGETID 2 invoice key c", false),
        ("SERIES CREATE invoice acme3", true),
        ("SERIES CREATE invoice b", false),
        ("SEQUENCE INFO invoice/acme", true),
        ("SEQUENCE INFO invoice/c", false),
    ] {
        let reply = ask(&mut eve, request);
        assert_eq!(reply.starts_with("-NOPERM"), !is_allowed, "{request}: {reply}");
        assert!(is_allowed || reply.contains("keys used as arguments"), "{request}: {reply}");
    }
    assert_eq!(ask(&mut eve, "SERIES LIST invoice").trim(), "ACME ACME2 ACME3 B");
    assert_eq!(ask(&mut admin, "SERIES LIST invoice").trim(), "ACME ACME2 ACME3 B C");
    let log = ask(&mut admin, "ACL LOG");
    assert!(log.contains("invoice/C"), "{log}");
}

/// A page that ends at a key which the user may not read has a cursor that does not reveal it.
#[test]
fn a_list_reveals_no_key_that_the_user_may_not_read() {
    let server = Server::start(&INVOICE);
    let mut admin = server.connect();
    assert_eq!(ask(&mut admin, "ACL SETUSER eve on nopass +@all -@dangerous ~invoice ~invoice/SEEN*"), "+OK");
    for key in ["hid1", "hid2", "seen1", "hid3", "seen2", "zhid"] {
        ask(&mut admin, &format!("GETID invoice key {key}"));
    }
    let mut eve = server.connect();
    assert_eq!(ask(&mut eve, "AUTH eve x"), "+OK");
    for count in 1..=7 {
        let (mut cursor, mut seen, mut pages) = (String::new(), Vec::new(), 0);
        loop {
            eve.send(format!("SERIES LIST invoice CURSOR \"{cursor}\" COUNT {count}\r\n"));
            let reply = String::from_utf8_lossy(&eve.reply()).into_owned();
            assert!(!reply.contains("HID"), "{reply}");
            let mut words = reply.lines().filter(|line| !line.starts_with(['$', '*'])).map(str::to_owned);
            cursor = words.next().unwrap_or_default();
            seen.extend(words);
            pages += 1;
            if cursor.is_empty() {
                break;
            }
        }
        assert_eq!((seen.join(" ").as_str(), pages), ("SEEN1 SEEN2", 6 / count + 1), "{count}");
    }
    let unknown = ask(&mut eve, "SERIES LIST invoice CURSOR :1");
    assert_eq!(unknown, "-ERR invalid cursor: it is unknown or too old. Begin again without CURSOR");
    assert_eq!(ask(&mut eve, "SERIES LIST invoice CURSOR :0"), unknown);
}

/// A turn has a bounded number of keys, and a client that invents keys is bounded by `keys-max`.
#[test]
fn many_keys_in_one_pipeline_are_bounded() {
    let server = Server::start(&[&INVOICE[..], &["keys-max", "300", "cache", "5"]].concat());
    let mut wire = server.connect();
    let requests: Vec<_> = (0..400).map(|nth| format!("GETID invoice key x{nth}\r\n")).collect();
    let requests = requests.concat();
    wire.send(requests);
    let replies: Vec<String> = (0..400).map(|_| text_of(&wire.reply())).collect();
    let given = replies.iter().filter(|reply| reply.starts_with("INV-X")).count();
    assert!(given <= 300, "{given}");
    eventually("a key that was counted gets numbers", || {
        ask(&mut server.connect(), "GETID invoice key x0").starts_with("INV-X0-")
    });
}
