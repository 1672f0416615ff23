//! The directives of announced addresses. Single mistakes are in `mistakes/announce*.conf`; `host_port` in the crate
//! `getid-text` has the syntax.

use getid_config::Config;
use getid_config::directive::Directive;

use crate::change::{files, sources};

const STORE: &str = "claim-store postgres://getid@db/ids?password-file=p\n";

const TLS: &str = "tls-port 7891\ntls-cert-file c\ntls-key-file k\ntls-auth-clients no\n";

fn load(text: &str) -> (Config, Vec<String>) {
    let given = files(&[("t.conf", text), ("p", "hunter2\n")]);
    let loaded = Config::load(&sources("t.conf", &[], &[]), &given);
    let (config, warnings) = loaded.unwrap_or_else(|report| panic!("{text}: {report}"));
    (config, warnings.iter().map(ToString::to_string).collect())
}

#[test]
fn a_server_announces_an_address_that_other_machines_reach() {
    for (text, expected) in [
        ("", "127.0.0.1:7890"),
        ("bind 127.0.0.1 10.1.0.7 10.1.0.8\n", "10.1.0.7:7890"),
        ("bind ::1 fd00::7\nport 1\n", "[fd00::7]:1"),
        ("bind 127.0.0.1 fe80::7 10.1.0.7\n", "10.1.0.7:7890"),
        ("bind fe80::7 0.0.0.0\n", "host-a:7890"),
        ("bind 127.0.0.1 0.0.0.0\n", "host-a:7890"),
        ("bind 0.0.0.0 10.1.0.7\n", "10.1.0.7:7890"),
        ("bind 10.1.0.7\nport 0\ntls-port 2\ntls-cert-file c\ntls-key-file k\ntls-auth-clients no\n", "10.1.0.7:2"),
        ("port 0\nunixsocket s\n", ""),
        ("bind \"\"\nunixsocket s\n", ""),
        ("port 0\nunixsocket s\nannounce-address a:3\n", "a:3"),
        ("bind 10.1.0.7\nannounce-address Ids-1.example.com\n", "ids-1.example.com:7890"),
        ("bind 10.1.0.7\nannounce-address [fd00::7]:3\n", "[fd00::7]:3"),
        ("bind 10.1.0.7\nannounce-address a\nannounce-address \"\"\n", "10.1.0.7:7890"),
    ] {
        let (config, _) = load(text);
        let address = config.announced_address("Host-A").map_or_else(String::new, |address| address.to_string());
        assert_eq!(address, expected, "{text}");
    }
    assert_eq!(load("bind 0.0.0.0\n").0.announced_address(""), None);
}

#[test]
fn the_announced_port_is_for_tls_where_no_other_one_is() {
    for (text, expected) in [
        ("", false),
        (TLS, false),
        (&format!("port 0\n{TLS}"), true),
        (&format!("port 0\nannounce-address a:1\n{TLS}"), true),
        (&format!("announce-address a:7891\n{TLS}"), true),
        (&format!("announce-address a:1\n{TLS}"), false),
    ] {
        assert_eq!(load(text).0.announces_tls(), expected, "{text}");
    }
}

#[test]
fn peers_have_the_port_of_this_server_unless_it_is_written() {
    let (config, warnings) =
        load(&format!("{STORE}bind 0.0.0.0\nport 7000\nannounce-peers 10.1.0.7 [FD00::7]:1 Ids-2 10.1.0.7:7000\n"));
    assert_eq!(warnings, [""; 0]);
    let peers: Vec<_> = config.announced_peers().iter().map(ToString::to_string).collect();
    assert_eq!(peers, ["10.1.0.7:7000", "[fd00::7]:1", "ids-2:7000"]);
    let shown = |name: &str| Directive::find(name).unwrap().get(&config).unwrap();
    assert_eq!(shown("announce-peers"), "10.1.0.7 [fd00::7]:1 ids-2 10.1.0.7:7000");
    assert_eq!(shown("announce-address"), "");
    let changed = config.set(&[(b"announce-peers".to_vec(), b"a:1 b:2".to_vec())]).unwrap().config;
    assert_eq!(changed.announced_peers().len(), 2);
    let refused = config.set(&[(b"announce-address".to_vec(), b"a:1".to_vec())]).unwrap_err().to_string();
    assert!(refused.contains("can't set immutable config"), "{refused}");
}

/// Each row: the configuration, and a part of its only warning.
#[test]
fn an_address_that_is_certainly_wrong_is_warned_about() {
    let local = "claim-store postgres://getid@localhost/ids\n";
    let file = "claim-store sqlite:c.db\nsequence-store none\n";
    for (text, expected) in [
        (
            format!("{STORE}bind 0.0.0.0\nannounce-address 127.0.0.1\n"),
            Some("announce-address: is 127.0.0.1:7890, while bind"),
        ),
        (
            format!("{STORE}bind 10.1.0.7\nannounce-address localhost:1\n"),
            Some("connect to themselves; set announce-address"),
        ),
        (
            format!("{STORE}announce-peers a 127.0.0.1\n"),
            Some("announce-peers: has a, and this server's own address is 127.0.0.1:7890"),
        ),
        (format!("{local}announce-peers 127.0.0.1:1 10.1.0.8\n"), Some("announce-peers: has 10.1.0.8")),
        (format!("{STORE}announce-peers localhost:1 127.0.0.1:2\n"), None),
        (format!("{STORE}announce-address 127.0.0.1\n"), None),
        (format!("{local}bind 0.0.0.0\nannounce-address 127.0.0.1\n"), None),
        (format!("{file}bind 0.0.0.0\nannounce-address 127.0.0.1\nannounce-peers a\n"), None),
        (format!("{STORE}bind 0.0.0.0\nannounce-peers a b\n"), None),
        (format!("{STORE}bind 0.0.0.0 -::1\nannounce-peers a b\n"), None),
        (STORE.to_owned(), Some("claim-store: is on another machine, and this server's own address is 127.0.0.1:7890")),
        (local.to_owned(), None),
        (
            format!("{STORE}bind 0.0.0.0\n{TLS}"),
            Some("tls-port: is 7891, and clients that ask where the holder is get port 7890, also over TLS"),
        ),
        (format!("cluster-emulation yes\n{TLS}"), Some("tls-port: is 7891")),
        (format!("{STORE}bind 0.0.0.0\nannounce-address a:7891\n{TLS}"), None),
        (format!("{STORE}bind 0.0.0.0\nport 0\n{TLS}"), None),
        (TLS.to_owned(), None),
        ("bind 10.1.0.7\nannounce-address 10.1.0.7:1\n".to_owned(), Some("but this server listens on port 7890 only")),
        ("bind 10.1.0.7\nannounce-address 10.1.0.7:7890\n".to_owned(), None),
        ("bind 10.1.0.7\nannounce-address 192.0.2.7:1\n".to_owned(), None),
        ("announce-peers a\n".to_owned(), Some("announce-peers: has no effect: claim-store is file")),
    ] {
        let (_, warnings) = load(&text);
        match expected {
            Some(part) => assert!(warnings.len() == 1 && warnings[0].contains(part), "{text}: {warnings:?}"),
            None => assert_eq!(warnings, [""; 0], "{text}"),
        }
    }
}
