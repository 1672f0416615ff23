//! Records in etcd: the contract, and the outcome when members are killed, paused, full, or need a login or a
//! certificate.

mod fake;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use getid_store::records::etcd::{CompactionRounds, EtcdStore};
use getid_store::records::{RecordStore, RecordStoreError, WriteResult};
use getid_text::store_url::{StoreKind, StoreUrl};
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::json;

use crate::contract::{Records, StoreFixture, check_all, row, wait};
use crate::support::etcd::{EtcdCluster, PASSWORD};
use crate::support::eventually;
use crate::support::tls::Files;
#[cfg(all(feature = "mysql", feature = "postgres"))]
use crate::takeover::fleet::{Fleet, init};

/// Deadline of a call. Only tests about deadlines reach it, although the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(20);

fn open(url: &str, deadline: Duration) -> Arc<dyn RecordStore> {
    Arc::new(etcd(url, deadline))
}

fn etcd(url: &str, deadline: Duration) -> EtcdStore {
    let url = StoreUrl::parse(url).unwrap();
    let StoreKind::Etcd(address) = url.kind() else { panic!("{url:?}") };
    EtcdStore::new(address, url.shown(), deadline)
}

fn records(url: &str, deadline: Duration) -> Records {
    Records(open(url, deadline))
}

/// Returns the store's refusal: nothing was written, and it contains no password.
#[track_caller]
fn refusal(url: &str) -> String {
    let store = records(url, DEADLINE);
    let errors = [store.read("claim/1").unwrap_err(), store.write("claim/1", None, &row(1, 1, "")).unwrap_err()];
    for error in &errors {
        assert!(matches!(error, RecordStoreError::Refused(_)), "{error:?}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    errors[0].to_string()
}

pub(crate) struct Cluster(pub(crate) EtcdCluster);

impl StoreFixture for Cluster {
    fn clear(&self) {
        self.0.clear();
    }

    fn store(&self) -> Arc<dyn RecordStore> {
        open(&self.0.url(), DEADLINE)
    }

    fn spoil(&self, key: &str) {
        let coded = |text: &str| BASE64_STANDARD.encode(text);
        let put = json!({ "key": coded(&format!("getid/{key}")), "value": coded("beat 0 of none\n") });
        self.0.ask("", "/v3/kv/put", &put);
    }
}

#[test]
#[ignore = "needs etcd"]
fn an_etcd_of_three_members_keeps_the_contract() {
    // A leader that stalls for some seconds stays the leader. A new election would leave writes with an unknown
    // outcome.
    check_all(&Cluster(EtcdCluster::start(3, &["--heartbeat-interval", "1000", "--election-timeout", "10000"])));
}

/// Each server of a fleet has a record, and one answer lists them all.
#[test]
#[ignore = "needs etcd"]
fn a_thousand_records_are_listed() {
    let cluster = EtcdCluster::one(&[]);
    let store = records(&cluster.url(), DEADLINE);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let text = "x".repeat(600);
    runtime.block_on(async {
        for id in 0..1024 {
            let key = crate::contract::key(&format!("claim/{id}"));
            assert_eq!(store.0.write(&key, None, &row(1, 1, &text)).await, Ok(WriteResult::Done));
        }
    });
    let first = store.list("claim/", "", 1000);
    let rest = store.list("claim/", &first[999].0, 1000);
    assert_eq!((first.len(), rest.len()), (1000, 24));
    // Long records come in smaller pages, because together they exceed the size limit of an answer.
    let long = "x".repeat(getid_store::records::TEXT_BYTES_MAX);
    for id in 0..20 {
        store.put(&format!("worker/{id:02}"), None, &row(1, 1, &long));
    }
    let found = store.list("worker/", "", 1000);
    assert!(found.len() == 20 && found.iter().all(|(_, row)| row.text == long), "{} records", found.len());
}

/// The value that `etcdctl get` shows an operator.
#[test]
#[ignore = "needs etcd"]
fn a_record_is_one_key_that_people_can_read() {
    let cluster = EtcdCluster::one(&[]);
    let store = records(&cluster.url_of("", "team/ids"), DEADLINE);
    store.put("claim/3", None, &row(0xab, 17, "getid state 4\nbody\n"));
    // The key is `team/ids/claim/3`.
    let found = cluster.ask("", "/v3/kv/range", &serde_json::json!({ "key": "dGVhbS9pZHMvY2xhaW0vMw==" }));
    // The value has the line of the stamp, and the text.
    let value = "YmVhdCAxNyBvZiAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDBhYgpnZXRpZCBzdGF0ZSA0CmJvZHkK";
    assert_eq!(found["kvs"][0]["value"], value, "{found}");
    assert_eq!(records(&cluster.url(), DEADLINE).read("claim/3"), Ok(None), "another prefix is another store");
    // Another program writes to the key.
    cluster.ask("", "/v3/kv/put", &serde_json::json!({ "key": "dGVhbS9pZHMvY2xhaW0vMw==", "value": "aGk=" }));
    let expected = "the key 'team/ids/claim/3' has a value that does not begin with a stamp";
    let written = store.write("claim/3", None, &row(1, 1, "")).unwrap_err();
    for error in [store.read("claim/3").unwrap_err(), written] {
        assert!(matches!(&error, RecordStoreError::Damaged(bad) if bad.what == expected), "{error:?}");
    }
}

#[test]
#[ignore = "needs etcd"]
fn users_and_rights_are_reported() {
    let mut cluster = EtcdCluster::one(&[]);
    let login = format!("ids:{PASSWORD}@");
    // While authentication is off, a login succeeds, with a warning.
    let early = records(&cluster.url_of(&login, "getid"), DEADLINE);
    early.put("claim/1", None, &row(1, 1, "1"));
    let warnings = early.info().unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("has authentication disabled")), "{warnings:?}");
    cluster.switch_users_on();
    // The store opened before logs in now.
    early.put("claim/1", Some(row(1, 1, "").stamp), &row(1, 2, "2"));
    let message = refusal(&cluster.url_of("ids:other-secret@", "getid"));
    assert!(message.contains("the user or the password is wrong"), "{message}");
    let message = refusal(&cluster.url());
    assert!(message.contains("it requires a user and a password: write etcd://USER:PASSWORD@HOST/PREFIX"), "{message}");
    for (user, prefix) in [("other", "getid"), ("ids", "team")] {
        let message = refusal(&cluster.url_of(&format!("{user}:{PASSWORD}@"), prefix));
        let expected = format!(
            "the user '{user}' may not read and write there: etcdctl role grant-permission ROLE --prefix=true readwrite \
             {prefix}/"
        );
        assert!(message.contains(&expected), "{message}");
    }
    // etcd forgets all logins when it ends.
    cluster.kill();
    cluster.start_again();
    early.put("claim/1", Some(row(1, 2, "").stamp), &row(1, 3, "3"));
    assert_eq!(early.read("claim/1"), Ok(Some(row(1, 3, "3"))));
    assert!(early.list("claim/", "", 10).len() == 1 && early.info().unwrap().product.starts_with("etcd "));
}

#[test]
#[ignore = "needs etcd"]
fn certificates_are_verified_both_ways() {
    let files = Files::new();
    let client = files.authority.client();
    files.write("client.crt", &client.cert);
    files.write("client.key", &client.key);
    let path = |name: &str| files.path(name);
    let (cert, key, ca) = (path("server.crt"), path("server.key"), path("ca.crt"));
    let own = ["--cert-file", &cert, "--key-file", &key];
    let cluster = EtcdCluster::one(&own);
    let url = |options: &str| format!("{}?{options}", cluster.url());
    for good in ["tls=yes".to_owned(), format!("tls=verify&ca-file={ca}")] {
        let store = records(&url(&good), DEADLINE);
        let found = store.read("claim/1").unwrap().map(|row| row.stamp);
        let beat = found.map_or(1, |stamp| stamp.beat + 1);
        store.put("claim/1", found, &row(1, beat, "1"));
    }
    let message = refusal(&url("tls=verify"));
    assert!(message.contains("has an invalid certificate") && message.contains("set ca-file= to"), "{message}");
    let message = refusal(&url(&format!("tls=verify&ca-file={}", path("missing.crt"))));
    assert!(message.contains("missing.crt: No such file"), "{message}");
    let error = records(&url("tls=no"), DEADLINE).read("claim/1").unwrap_err();
    assert!(error.to_string().contains("tls=verify"), "{error}");
    drop(cluster);

    // etcd's gateway is itself a client of etcd, with the same certificate.
    {
        let own = [own.as_slice(), &["--client-cert-auth", "--trusted-ca-file", &ca]].concat();
        let cluster = EtcdCluster::one(&own);
        let shown = format!("&cert-file={}&key-file={}", path("client.crt"), path("client.key"));
        let store = records(&format!("{}?tls=verify&ca-file={ca}{shown}", cluster.url()), DEADLINE);
        // The gateway's connection may end before it gets the reason.
        eventually("etcd reports the reason", || {
            let message = store.write("claim/1", None, &row(1, 1, "1")).unwrap_err().to_string();
            message.contains("extended key usage clientAuth")
        });
    }
    let pair = files.authority.sign_with(ExtendedKeyUsagePurpose::ServerAuth, |params| {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
    });
    files.write("server.crt", &pair.cert);
    files.write("server.key", &pair.key);
    let both = [own.as_slice(), &["--client-cert-auth", "--trusted-ca-file", &ca]].concat();
    let cluster = EtcdCluster::one(&both);
    let url = |options: &str| format!("{}?tls=verify&ca-file={ca}{options}", cluster.url());
    let shown = format!("&cert-file={}&key-file={}", path("client.crt"), path("client.key"));
    records(&url(&shown), DEADLINE).put("claim/1", None, &row(1, 1, "1"));
    let message = refusal(&url(""));
    assert!(message.contains("rejects this client's certificate"), "{message}");
    let message = refusal(&url(&format!("&cert-file={}&key-file={}", path("client.crt"), path("server.key"))));
    assert!(message.contains("key-file= must be this certificate's key"), "{message}");
    drop(cluster);

    let cluster = EtcdCluster::one(&[]);
    let error = records(&format!("{}?tls=yes", cluster.url()), DEADLINE).read("claim/1").unwrap_err();
    assert!(error.to_string().contains("write tls=no"), "{error}");
}

/// Writes until it is done, as a holder does. An unknown outcome is settled by reading. Returns false if the store was
/// not reached.
fn write_through(store: &Records, beat: u64) -> bool {
    let new = row(1, beat, "text");
    let expect = (beat > 1).then(|| row(1, beat - 1, "").stamp);
    match store.write("claim/1", expect, &new) {
        Ok(WriteResult::Done) => true,
        Ok(WriteResult::Conflict(Some(found))) => {
            // An earlier write was executed after its caller dropped it.
            assert_eq!(found, new);
            true
        }
        Ok(WriteResult::Conflict(None)) => panic!("the record is gone"),
        Err(error @ (RecordStoreError::Refused(_) | RecordStoreError::Damaged(_))) => panic!("{error}"),
        Err(RecordStoreError::Away(_)) => false,
        Err(RecordStoreError::Unknown(_)) => store.read("claim/1").is_ok_and(|found| found == Some(new)),
    }
}

#[test]
#[ignore = "needs etcd"]
fn members_are_killed_and_paused_under_writes() {
    let mut cluster = EtcdCluster::start(3, &[]);
    let store = records(&cluster.url(), Duration::from_secs(2));
    let mut beat = 0;
    let mut write = |what: &str| {
        beat += 1;
        eventually(what, || write_through(&store, beat));
    };
    write("the first");
    for round in 0..3 {
        let leader = cluster.leader();
        cluster.members[leader].kill();
        write("without the leader");
        cluster.start_again();
        cluster.members[round].pause();
        write("with one member standing still");
        cluster.members[round].resume();
        write("with all of them");
    }
    // Two of three members are down: nothing is written, and writes have an unknown outcome.
    cluster.members[1].kill();
    cluster.members[2].kill();
    let store = records(&cluster.url(), Duration::from_secs(2));
    let error = store.read("claim/1").unwrap_err();
    assert!(matches!(error, RecordStoreError::Away(_)), "{error:?}");
    let error = store.write("other/1", None, &row(2, 1, "")).unwrap_err();
    assert!(matches!(error, RecordStoreError::Unknown(_) | RecordStoreError::Away(_)), "{error:?}");
    cluster.start_again();
    write("after the members are back");
    let found = records(&cluster.url(), DEADLINE).read("claim/1").unwrap().unwrap();
    assert_eq!(found.stamp.beat, beat);
}

/// The only member is restarted between two writes, so the kept connection is broken.
#[test]
#[ignore = "needs etcd"]
fn a_restart_between_writes_is_not_noticed() {
    let mut cluster = EtcdCluster::one(&[]);
    let store = records(&cluster.url(), DEADLINE);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut expect = None;
    for beat in 1..=3 {
        let new = row(1, beat, "text");
        let written = runtime.block_on(store.0.write(&crate::contract::key("claim/1"), expect, &new));
        assert_eq!(written, Ok(WriteResult::Done));
        expect = Some(new.stamp);
        cluster.kill();
        let error = runtime.block_on(store.0.read(&crate::contract::key("claim/1"))).unwrap_err();
        assert!(matches!(&error, RecordStoreError::Away(text) if text.contains("Connection refused")), "{error:?}");
        cluster.start_again();
    }
}

#[test]
#[ignore = "needs etcd"]
fn a_store_that_is_restored_has_the_stamp_of_before() {
    let mut cluster = EtcdCluster::one(&[]);
    let store = records(&cluster.url(), DEADLINE);
    store.put("claim/1", None, &row(1, 1, "1"));
    cluster.save();
    store.put("claim/1", Some(row(1, 1, "").stamp), &row(1, 2, "2"));
    cluster.restore();
    // Another client writes a value with the same revision number as the lost write.
    store.put("claim/1", Some(row(1, 1, "").stamp), &row(9, 2, "another's"));
    let written = store.write("claim/1", Some(row(1, 2, "").stamp), &row(1, 3, "3"));
    assert_eq!(written, Ok(WriteResult::Conflict(Some(row(9, 2, "another's")))));
}

#[test]
#[ignore = "needs etcd"]
fn a_full_database_is_reported_and_settled_by_reading() {
    let cluster = EtcdCluster::one(&["--quota-backend-bytes", "1000000"]);
    let store = records(&cluster.url(), DEADLINE);
    let text = "x".repeat(100_000);
    let mut last = None;
    let error = (1..100).find_map(|beat| {
        let new = row(1, beat, &text);
        let written = store.write("claim/1", last, &new);
        match written {
            Ok(written) => {
                assert_eq!(written, WriteResult::Done);
                last = Some(new.stamp);
                None
            }
            Err(error) => Some(error),
        }
    });
    let error = error.expect("it is full");
    let RecordStoreError::Unknown(message) = &error else { panic!("{error:?}") };
    assert!(message.contains("etcdctl alarm disarm"), "{message}");
    // Reads continue, and show whether the write was executed.
    let found = store.read("claim/1").unwrap().unwrap().stamp;
    assert!(Some(found) >= last, "{found}");
    let warnings = store.info().unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("NOSPACE")), "{warnings:?}");
}

/// Writes beats of one record until the database is full, or `beats_max`. After each `every` beats one of two servers
/// compacts. Returns the number of beats.
fn beats_until_full(quota: &str, beats_max: u64, every: Option<u64>) -> u64 {
    let cluster = EtcdCluster::one(&["--quota-backend-bytes", quota]);
    let servers = [etcd(&cluster.url(), DEADLINE), etcd(&cluster.url(), DEADLINE)];
    let mut rounds = [CompactionRounds::new(1), CompactionRounds::new(2)];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (claim, text) = (crate::contract::key("claim/1"), "x".repeat(10_000));
    runtime.block_on(async {
        let (mut last, mut compactions) = (None, 0);
        for beat in 1..=beats_max {
            let new = row(1, beat, &text);
            if servers[0].write(&claim, last, &new).await != Ok(WriteResult::Done) {
                return beat;
            }
            last = Some(new.stamp);
            if every.is_some_and(|every| beat % every == 0) {
                for (server, rounds) in servers.iter().zip(&mut rounds) {
                    compactions += u64::from(server.compact(rounds).await.unwrap().is_some());
                }
            }
        }
        let size = servers[1].size().await.unwrap();
        assert!(size.used_bytes <= size.bytes && size.bytes > 10_000, "{size:?}");
        assert!(every.is_none_or(|every| compactions >= beats_max / every - 1), "{compactions}");
        beats_max
    })
}

#[test]
#[ignore = "needs etcd"]
fn an_etcd_that_is_compacted_does_not_fill_up() {
    const QUOTA: &str = "8000000";
    let full_at = beats_until_full(QUOTA, 10_000, None);
    assert!(full_at < 10_000, "without a compaction it fills up");
    let beats = 5 * full_at;
    assert_eq!(beats_until_full(QUOTA, beats, Some(full_at / 10)), beats);
    println!("full after {full_at} beats of 10 kB; not after {beats} with compactions");
}

/// A logged-in user compacts. etcd then rejects reads below the compacted revision, and no others.
#[test]
#[ignore = "needs etcd"]
fn etcd_forgets_only_compacted_revisions() {
    let cluster = EtcdCluster::one(&[]);
    cluster.switch_users_on();
    let server = etcd(&cluster.url_of(&format!("ids:{PASSWORD}@"), "getid"), DEADLINE);
    let store = records(&cluster.url_of(&format!("ids:{PASSWORD}@"), "getid"), DEADLINE);
    store.put("claim/1", None, &row(1, 1, "1"));
    let mut rounds = CompactionRounds::new(1);
    assert_eq!(wait(server.compact(&mut rounds)), Ok(None), "what it sees now is compacted in the next round");
    store.put("claim/1", Some(row(1, 1, "").stamp), &row(1, 2, "2"));
    let compacted = wait(server.compact(&mut rounds)).unwrap().expect("its turn");
    assert_eq!(store.read("claim/1"), Ok(Some(row(1, 2, "2"))));
    let token = cluster.ask("", "/v3/auth/authenticate", &json!({ "name": "root", "password": PASSWORD }));
    let at = |revision: u64| {
        let read = json!({ "key": BASE64_STANDARD.encode("getid/claim/1"), "revision": revision.to_string() });
        cluster.members[0].try_ask(token["token"].as_str().unwrap(), "/v3/kv/range", &read)
    };
    assert_eq!(at(compacted).status, 200);
    let gone = at(compacted - 1);
    assert!(gone.status != 200 && gone.text().contains("required revision has been compacted"), "{}", gone.text());
}

/// Two servers share a claim. One of them compacts, and both report the size of the database.
#[cfg(all(feature = "mysql", feature = "postgres"))]
#[test]
#[ignore = "needs etcd"]
fn servers_compact_the_etcd_of_their_claims() {
    let cluster = EtcdCluster::one(&[]);
    init(&cluster.url());
    let read = json!({ "key": BASE64_STANDARD.encode("getid/cluster"), "revision": "1" });
    let first_revision = || cluster.members[0].try_ask("", "/v3/kv/range", &read);
    assert_eq!(first_revision().status, 200);
    let url = format!("{}?compact-every-s=1", cluster.url());
    let mut fleet = Fleet::start(&[url.clone(), url], &[]);
    fleet.holder();
    eventually("its history is compacted", || first_revision().text().contains("has been compacted"));
    let mut wires = [0, 1].map(|at| fleet.server(at).connect());
    eventually("a compaction is counted", || {
        wires.iter_mut().map(|wire| wire.info_number("claim_store_compactions")).sum::<u64>() > 0
    });
    for wire in &mut wires {
        let (bytes, used) = (wire.info_number("claim_store_bytes"), wire.info_number("claim_store_used_bytes"));
        assert!(0 < used && used <= bytes, "{used} of {bytes}");
    }
}
