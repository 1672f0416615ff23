//! Requests to etcd members, and the outcome when a member answers wrongly, late or not at all. A fake gateway answers
//! by a script, byte for byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::pin::pin;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use getid_store::records::etcd::CompactionRounds;
use getid_store::records::{LIST_MAX, RecordRow, RecordStoreError, Stamp, StoreSize, WriteResult};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::{DEADLINE, etcd, records};
use crate::contract::{Records, key, row, stamp, wait};
use crate::support::{PATIENCE, free_port};

/// The gateway's response to one request.
enum GatewayReply {
    Answers(u16, String),
    /// Answers, and closes the connection.
    AnswersAndEnds(u16, String),
    /// Answers with `Connection: close`, and closes the connection.
    AnswersLast(String),
    /// Closes the connection without an answer.
    Ends,
    /// Sends nothing, and keeps the connection open.
    Nothing,
    /// Sends an endless answer.
    Endless,
}

/// A request as received.
struct Request {
    path: String,
    token: Option<String>,
    /// Position of the request on its connection, from 1 on.
    number: usize,
    body: Value,
}

/// A fake gateway with its own port. Its threads run until the test process ends.
struct Gateway {
    port: u16,
    /// Paths of the requests since the last call of `seen`.
    seen: Arc<Mutex<Vec<String>>>,
    /// Receives one message for each closed connection.
    ended: Receiver<()>,
}

impl Gateway {
    fn new(script: impl FnMut(&Request) -> GatewayReply + Send + 'static) -> Gateway {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (end, ended) = channel();
        let (seen, script) = (Arc::<Mutex<Vec<String>>>::default(), Arc::new(Mutex::new(script)));
        let paths = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, paths, end) = (Arc::clone(&script), Arc::clone(&paths), end.clone());
                std::thread::spawn(move || {
                    let mut number = 0;
                    let mut stream = BufReader::new(stream.unwrap());
                    while let Some(mut request) = read(&mut stream) {
                        number += 1;
                        request.number = number;
                        paths.lock().unwrap().push(request.path.clone());
                        let does = (script.lock().unwrap())(&request);
                        if !act(stream.get_mut(), does) {
                            break;
                        }
                    }
                    drop(stream);
                    let _ = end.send(());
                });
            }
        });
        Gateway { port, seen, ended }
    }

    /// Returns the paths requested since the last call.
    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    fn store(&self) -> Records {
        records(&format!("etcd://127.0.0.1:{}/p", self.port), DEADLINE)
    }

    fn store_with_user(&self) -> Records {
        records(&format!("etcd://ids:hunter2@127.0.0.1:{}/p", self.port), DEADLINE)
    }

    /// Returns the outcome of `call`. Its clock stops until the gateway has a request, and is then advanced by
    /// `passes`.
    fn late<T>(&self, passes: Duration, call: impl Future<Output = T>) -> T {
        paused().block_on(async {
            // The clock of a paused runtime stops while one of its blocking threads runs.
            let (release, released) = channel::<()>();
            tokio::task::spawn_blocking(move || released.recv());
            let mut call = pin!(call);
            while self.seen.lock().unwrap().is_empty() {
                tokio::select! {
                    biased;
                    outcome = &mut call => return outcome,
                    () = tokio::task::yield_now() => {}
                }
            }
            tokio::time::advance(passes).await;
            let outcome = call.await;
            drop(release);
            outcome
        })
    }
}

/// Returns a runtime whose clock advances to the next timer as soon as it is idle.
fn paused() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    let (mut path, mut token, mut length) = (None, None, 0);
    loop {
        line.clear();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let words = line.trim_end();
        if words.is_empty() {
            break;
        }
        match words.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value)) {
            None => path = words.strip_prefix("POST ")?.strip_suffix(" HTTP/1.1").map(str::to_owned),
            Some((name, value)) if name == "authorization" => token = Some(value.to_owned()),
            Some((name, value)) if name == "content-length" => length = value.parse().unwrap(),
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Request { path: path?, token, number: 0, body: serde_json::from_slice(&body).unwrap() })
}

/// Sends the response. Returns true if the connection stays open.
fn act(stream: &mut TcpStream, does: GatewayReply) -> bool {
    let head = |status: u16, length: usize, more: &str| {
        format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}{more}\r\n\r\n")
    };
    let mut send = |text: &str| stream.write_all(text.as_bytes()).is_ok();
    match does {
        GatewayReply::Answers(status, body) => send(&(head(status, body.len(), "") + &body)),
        GatewayReply::AnswersAndEnds(status, body) => {
            send(&(head(status, body.len(), "") + &body));
            false
        }
        GatewayReply::AnswersLast(body) => {
            send(&(head(200, body.len(), "\r\nConnection: close") + &body));
            false
        }
        GatewayReply::Ends => false,
        GatewayReply::Nothing => {
            let _ = stream.read(&mut [0]);
            false
        }
        GatewayReply::Endless => {
            send(&head(200, usize::MAX / 2, ""));
            while send(&" ".repeat(64 * 1024)) {}
            false
        }
    }
}

const HEADER: &str = r#""header":{"cluster_id":"1","member_id":"2","revision":"3","raft_term":"4"}"#;

fn done() -> GatewayReply {
    GatewayReply::Answers(200, format!(r#"{{{HEADER},"succeeded":true,"responses":[{{"response_put":{{}}}}]}}"#))
}

fn empty() -> GatewayReply {
    GatewayReply::Answers(200, format!("{{{HEADER}}}"))
}

fn error(status: u16, code: u8, message: &str) -> GatewayReply {
    GatewayReply::Answers(status, format!(r#"{{"error":"{message}","message":"{message}","code":{code}}}"#))
}

fn new() -> RecordRow {
    row(1, 1, "text")
}

const WRITE: &str = "/v3/kv/txn";
const READ: &str = "/v3/kv/range";
const LOGIN: &str = "/v3/auth/authenticate";

#[test]
fn a_write_is_one_request_and_it_is_kept_open() {
    let gateway = Gateway::new(|request| {
        let compare = request.body["compare"].as_array().unwrap().len();
        // The first write expects no stamp. All requests use the same connection.
        assert_eq!(compare, if request.number == 1 { 1 } else { 2 });
        assert!(request.token.is_none());
        done()
    });
    let store = gateway.store();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut expect = None;
        for beat in 1..=5 {
            let new = row(1, beat, "text");
            let written = store.0.write(&key("claim/1"), expect, &new).await;
            assert_eq!(written, Ok(WriteResult::Done));
            expect = Some(new.stamp);
        }
    });
    assert_eq!(gateway.seen(), [WRITE; 5]);
}

#[test]
fn a_write_without_an_answer_is_unknown_and_not_sent_again() {
    let (other, claim) = (Gateway::new(|_| done()), key("claim/1"));
    for does in [|| GatewayReply::Ends, || GatewayReply::Nothing, || GatewayReply::Endless] {
        let gateway = Gateway::new(move |_| does());
        let url = format!("etcd://127.0.0.1:{},127.0.0.1:{}/p", gateway.port, other.port);
        let store = records(&url, DEADLINE);
        let error = gateway.late(DEADLINE, store.0.write(&claim, None, &new())).unwrap_err();
        assert!(matches!(error, RecordStoreError::Unknown(_)), "{error:?}");
        assert!(error.to_string().contains(&format!("etcd at 127.0.0.1:{}", gateway.port)), "{error}");
        assert_eq!((gateway.seen(), other.seen()), (vec![WRITE.to_owned()], vec![]));
        // The next write goes to another member.
        assert_eq!(store.write("claim/1", None, &new()), Ok(WriteResult::Done));
        assert_eq!((gateway.seen(), other.seen()), (vec![], vec![WRITE.to_owned()]));
    }
}

#[test]
fn a_read_is_sent_to_the_next_member() {
    let (other, claim) = (Gateway::new(|_| empty()), key("claim/1"));
    for does in [|| GatewayReply::Ends, || GatewayReply::Nothing, || error(503, 14, "etcdserver: request timed out")] {
        let gateway = Gateway::new(move |_| does());
        let url = format!("etcd://127.0.0.1:{},127.0.0.1:{}/p", gateway.port, other.port);
        let store = records(&url, DEADLINE);
        // The first of two members has half of the time.
        assert_eq!(gateway.late(DEADLINE / 2, store.0.read(&claim)), Ok(None));
        assert_eq!((gateway.seen(), other.seen()), (vec![READ.to_owned()], vec![READ.to_owned()]));
        // From then on, the member that answered gets requests first.
        assert_eq!(store.read("claim/1"), Ok(None));
        assert_eq!((gateway.seen(), other.seen()), (vec![], vec![READ.to_owned()]));
    }
}

#[test]
fn a_member_that_is_not_there_is_passed_over_by_writes_too() {
    let gateway = Gateway::new(|_| done());
    let store = records(&format!("etcd://127.0.0.1:{},127.0.0.1:{}/p", free_port(), gateway.port), DEADLINE);
    assert_eq!(store.write("claim/1", None, &new()), Ok(WriteResult::Done));
    let store = records(&format!("etcd://127.0.0.1:{},localhost:{}/p", free_port(), free_port()), DEADLINE);
    for error in [store.read("claim/1").unwrap_err(), store.write("claim/1", None, &new()).unwrap_err()] {
        let RecordStoreError::Away(text) = &error else { panic!("{error:?}") };
        assert!(text.contains("etcd at 127.0.0.1:") && text.contains("; etcd at localhost:"), "{text}");
        assert!(text.contains("is not reached: Connection refused"), "{text}");
    }
}

#[test]
fn a_connection_that_was_ended_meanwhile_is_not_used() {
    for does in [|| GatewayReply::AnswersAndEnds(200, body_of(done())), || GatewayReply::AnswersLast(body_of(done()))] {
        let gateway = Gateway::new(move |request| {
            assert_eq!(request.number, 1, "it is a new connection");
            does()
        });
        let store = gateway.store();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for _ in 0..20 {
            let key = key("claim/1");
            let written = runtime.block_on(store.0.write(&key, None, &new()));
            assert_eq!(written, Ok(WriteResult::Done));
            gateway.ended.recv_timeout(PATIENCE).unwrap();
        }
        assert_eq!(gateway.seen().len(), 20);
    }
}

fn body_of(does: GatewayReply) -> String {
    let GatewayReply::Answers(_, body) = does else { panic!("no answer") };
    body
}

#[test]
fn slow_calls_end() {
    let (gateway, claim) = (Gateway::new(|_| GatewayReply::Nothing), key("claim/1"));
    let store = gateway.store();
    let error = gateway.late(DEADLINE, store.0.read(&claim)).unwrap_err();
    assert!(matches!(&error, RecordStoreError::Away(text) if text.contains("has not answered in time")), "{error:?}");
    gateway.seen();
    let error = gateway.late(DEADLINE, store.0.write(&claim, None, &new())).unwrap_err();
    assert!(matches!(error, RecordStoreError::Unknown(_)), "{error:?}");
    gateway.seen();
    assert!(gateway.late(DEADLINE, store.0.info()).is_err());
    // The port listens, but accepts no connection.
    let full = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = records(&format!("etcd://127.0.0.1:{}/p", full.local_addr().unwrap().port()), DEADLINE);
    assert!(paused().block_on(store.0.read(&claim)).is_err());
}

#[test]
fn an_answer_has_a_bound() {
    let gateway = Gateway::new(|_| GatewayReply::Endless);
    let error = gateway.store().read("claim/1").unwrap_err();
    assert!(matches!(&error, RecordStoreError::Refused(text) if text.contains("with more than")), "{error:?}");
    let error = gateway.store().write("claim/1", None, &new()).unwrap_err();
    assert!(matches!(error, RecordStoreError::Unknown(_)), "{error:?}");
}

#[test]
fn fewer_records_are_asked_for_where_they_are_long() {
    let gateway = Gateway::new(|request| {
        let limit = request.body["limit"].as_u64().unwrap();
        if limit > 3 { GatewayReply::Endless } else { empty() }
    });
    assert_eq!(gateway.store().list("claim/", "", LIST_MAX), []);
    assert_eq!(gateway.seen(), [READ; 3], "200, 25, and 3 of them");
}

#[test]
fn a_login_is_renewed_when_it_is_over() {
    let (mut logins, mut writes) = (0, 0);
    let gateway = Gateway::new(move |request| {
        if request.path == LOGIN {
            assert_eq!(request.body, serde_json::json!({ "name": "ids", "password": "hunter2" }));
            assert!(request.token.is_none());
            logins += 1;
            return GatewayReply::Answers(200, format!(r#"{{{HEADER},"token":"token.{logins}"}}"#));
        }
        writes += 1;
        assert_eq!(request.token.as_deref(), Some(format!("token.{logins}").as_str()));
        // The second write is refused once.
        if writes == 2 { error(401, 16, "etcdserver: invalid auth token") } else { done() }
    });
    let store = gateway.store_with_user();
    for _ in 0..3 {
        assert_eq!(store.write("claim/1", None, &new()), Ok(WriteResult::Done));
    }
    assert_eq!(gateway.seen(), [LOGIN, WRITE, WRITE, LOGIN, WRITE, WRITE]);
}

#[test]
fn a_login_that_is_never_good_is_no_loop() {
    let gateway = Gateway::new(|request| match request.path.as_str() {
        LOGIN => GatewayReply::Answers(200, format!(r#"{{{HEADER},"token":"t"}}"#)),
        _ => error(401, 16, "etcdserver: invalid auth token"),
    });
    let error = gateway.store_with_user().write("claim/1", None, &new()).unwrap_err();
    assert!(matches!(error, RecordStoreError::Refused(_)), "{error:?}");
    assert_eq!(gateway.seen(), [LOGIN, WRITE, LOGIN, WRITE]);
    // A login without an answer changed nothing.
    let gateway = Gateway::new(|_| GatewayReply::Ends);
    let error = gateway.store_with_user().write("claim/1", None, &new()).unwrap_err();
    assert!(matches!(error, RecordStoreError::Away(_)), "{error:?}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[test]
fn a_refused_login_is_not_tried_at_once_again() {
    let gateway = Gateway::new(|_| error(400, 3, "etcdserver: authentication failed, invalid user ID or password"));
    let store = gateway.store_with_user();
    let error = store.read("claim/1").unwrap_err();
    let RecordStoreError::Refused(text) = &error else { panic!("{error:?}") };
    assert!(text.contains("the user or the password is wrong") && !text.contains("hunter2"), "{text}");
    assert_eq!(store.write("claim/1", None, &new()), Err(error));
    assert!(gateway.seen().len() <= 2, "a busy machine may take a second for that");
}

#[test]
fn users_may_be_switched_off() {
    let gateway = Gateway::new(|request| match request.path.as_str() {
        LOGIN => error(400, 9, "etcdserver: authentication is not enabled"),
        "/v3/maintenance/status" => GatewayReply::Answers(200, format!(r#"{{{HEADER},"version":"3.6.9"}}"#)),
        _ => done(),
    });
    let store = gateway.store_with_user();
    for _ in 0..2 {
        assert_eq!(store.write("claim/1", None, &new()), Ok(WriteResult::Done));
    }
    assert_eq!(gateway.seen(), [LOGIN, WRITE, WRITE]);
    let info = store.info().unwrap();
    assert_eq!(info.product, "etcd 3.6.9");
    assert!(info.warnings.len() == 1 && info.warnings[0].contains("etcdctl auth enable"), "{info:?}");
}

#[test]
fn other_servers_are_refused_by_name() {
    let gateway = Gateway::new(|_| GatewayReply::Answers(404, "<html>\u{1b}[2Jnot here\n</html>".to_owned()));
    for error in
        [gateway.store().read("claim/1").unwrap_err(), gateway.store().write("claim/1", None, &new()).unwrap_err()]
    {
        let RecordStoreError::Refused(text) = &error else { panic!("{error:?}") };
        assert!(text.contains("etcd 3.4 or newer with its JSON gateway is expected there"), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\n'), "{text:?}");
    }
    // The write may have been executed although the answer does not confirm it.
    for body in ["", "null", "{}", "<html>", r#"{"succeeded":true}"#] {
        let body = body.to_owned();
        let gateway = Gateway::new(move |_| GatewayReply::Answers(200, body.clone()));
        let error = gateway.store().write("claim/1", None, &new()).unwrap_err();
        assert!(matches!(error, RecordStoreError::Unknown(_)), "{error:?}");
        let error = gateway.store().read("claim/1").unwrap_err();
        assert!(matches!(error, RecordStoreError::Refused(_)), "{error:?}");
    }
}

#[test]
fn a_refusal_is_the_clusters_and_no_other_member_is_asked() {
    let other = Gateway::new(|_| done());
    let gateway = Gateway::new(|_| error(403, 7, "etcdserver: permission denied"));
    let store = records(&format!("etcd://127.0.0.1:{},127.0.0.1:{}/p", gateway.port, other.port), DEADLINE);
    let error = store.write("claim/1", None, &new()).unwrap_err();
    assert!(matches!(error, RecordStoreError::Refused(_)), "{error:?}");
    assert_eq!(other.seen(), [""; 0]);
}

#[test]
fn a_handshake_that_breaks_has_a_remedy() {
    // A server that closes before it has read everything resets the connection.
    for resets in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.peek(&mut [0]).unwrap();
            if !resets {
                stream.shutdown(Shutdown::Write).unwrap();
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
        let error = records(&format!("etcd://127.0.0.1:{port}/p?tls=yes"), DEADLINE).read("claim/1").unwrap_err();
        server.join().unwrap();
        assert!(matches!(&error, RecordStoreError::Away(text) if text.contains("write tls=no")), "{error:?}");
    }
}

#[test]
fn a_full_database_may_have_done_the_write() {
    let gateway = Gateway::new(|_| error(429, 8, "etcdserver: mvcc: database space exceeded"));
    let error = gateway.store().write("claim/1", None, &new()).unwrap_err();
    assert!(matches!(&error, RecordStoreError::Unknown(text) if text.contains("etcdctl alarm disarm")), "{error:?}");
}

#[test]
fn a_text_that_is_too_long_is_not_sent() {
    let gateway = Gateway::new(|_| done());
    let long = row(1, 1, &"x".repeat(getid_store::records::TEXT_BYTES_MAX + 1));
    let error = gateway.store().write("claim/1", None, &long).unwrap_err();
    assert!(matches!(error, RecordStoreError::Refused(_)), "{error:?}");
    assert_eq!(gateway.seen(), [""; 0]);
    let most = Stamp { beat: Stamp::BEAT_MAX, ..stamp(u128::MAX, 1) };
    assert_eq!(gateway.store().write("claim/1", Some(most), &new()), Ok(WriteResult::Done));
}

/// The state of an etcd that compaction needs.
#[derive(Default)]
struct History {
    revision: u64,
    compacted: u64,
    rounds: Option<Vec<u8>>,
    may_compact: bool,
}

impl History {
    fn answer(&self, rest: &str) -> GatewayReply {
        let revision = self.revision;
        GatewayReply::Answers(200, format!(r#"{{"header":{{"cluster_id":"1","revision":"{revision}"}}{rest}}}"#))
    }

    fn does(&mut self, request: &Request) -> GatewayReply {
        let number = |name: &str| request.body[name].as_str().map_or(0, |text| text.parse::<u64>().unwrap());
        let bytes = |value: &Value| BASE64_STANDARD.decode(value.as_str().unwrap()).unwrap();
        match request.path.as_str() {
            WRITE => {
                let compare = request.body["compare"].as_array().unwrap();
                let holds = |compare: &Value| match (compare["result"].as_str().unwrap(), &self.rounds) {
                    ("EQUAL", found) => found.is_none(),
                    ("GREATER", Some(found)) => *found > bytes(&compare["value"]),
                    (_, Some(found)) => *found < bytes(&compare["value"]),
                    (_, None) => false,
                };
                if compare.iter().all(holds) {
                    let put = &request.body["success"][0]["request_put"];
                    assert_eq!(bytes(&put["key"]), b"p/compaction");
                    self.rounds = Some(bytes(&put["value"]));
                    self.revision += 1;
                    return self.answer(r#","succeeded":true"#);
                }
                let (coded, key) = (|value| BASE64_STANDARD.encode(value), BASE64_STANDARD.encode("p/compaction"));
                let kv = |value| format!(r#"{{"key":"{key}","value":"{}"}}"#, coded(value));
                let kvs = self.rounds.as_ref().map_or_else(String::new, kv);
                let found = format!(r#","responses":[{{"response_range":{{"kvs":[{kvs}]}}}}]"#);
                self.answer(&found)
            }
            READ if number("revision") != 0 && number("revision") < self.compacted => {
                error(400, 11, "etcdserver: mvcc: required revision has been compacted")
            }
            READ => self.answer(r#","count":"1""#),
            "/v3/kv/compaction" if !self.may_compact => error(403, 7, "etcdserver: permission denied"),
            "/v3/kv/compaction" if number("revision") <= self.compacted => {
                error(400, 11, "etcdserver: mvcc: required revision has been compacted")
            }
            "/v3/kv/compaction" => {
                self.compacted = number("revision");
                self.answer("")
            }
            LOGIN => self.answer(r#","token":"t""#),
            _ => self.answer(r#","version":"3.6.9","dbSize":"900","dbSizeInUse":"500","dbSizeQuota":"2147483648""#),
        }
    }
}

fn history(history: History) -> (Arc<Mutex<History>>, Gateway) {
    let history = Arc::new(Mutex::new(history));
    let played = Arc::clone(&history);
    (history, Gateway::new(move |request| played.lock().unwrap().does(request)))
}

/// In each round one of the servers compacts, and only revisions older than the round before.
#[test]
fn one_server_a_round_compacts_older_revisions() {
    let (history, gateway) = history(History { revision: 100, may_compact: true, ..History::default() });
    let url = format!("etcd://127.0.0.1:{}/p", gateway.port);
    let servers: Vec<_> =
        (1..=3).map(|writer| (etcd(&url, DEADLINE), Mutex::new(CompactionRounds::new(writer)))).collect();
    let mut began_at = Vec::new();
    for round in 0..10 {
        began_at.push(history.lock().unwrap().revision);
        let mut done = Vec::new();
        // Any server may be the first of a round.
        for turn in 0..3 {
            let (server, rounds) = &servers[(turn + round) % 3];
            history.lock().unwrap().revision += 50;
            done.extend(wait(server.compact(&mut rounds.lock().unwrap())).unwrap());
        }
        let compacted = history.lock().unwrap().compacted;
        if round == 0 {
            assert_eq!((done, compacted), (vec![], 0), "no revision is old enough yet");
        } else {
            assert_eq!(done, [compacted], "round {round}");
            assert!((began_at[round - 1]..began_at[round]).contains(&compacted), "round {round}: {compacted}");
        }
    }
    // A restored store has lower revisions, so the revisions seen before are no longer valid.
    *history.lock().unwrap() = History { revision: 5, may_compact: true, ..History::default() };
    for _ in 0..3 {
        for (server, rounds) in &servers {
            wait(server.compact(&mut rounds.lock().unwrap())).unwrap();
        }
    }
    let History { compacted, revision, .. } = *history.lock().unwrap();
    assert!(compacted > 0 && compacted <= revision, "{compacted} of {revision}");
}

#[test]
fn a_refused_compaction_names_the_remedy() {
    let (_, gateway) = history(History { revision: 100, ..History::default() });
    let server = etcd(&format!("etcd://ids:hunter2@127.0.0.1:{}/p", gateway.port), DEADLINE);
    let mut rounds = CompactionRounds::new(7);
    assert_eq!(wait(server.compact(&mut rounds)), Ok(None));
    let RecordStoreError::Refused(message) = wait(server.compact(&mut rounds)).unwrap_err() else {
        panic!("not refused")
    };
    let expected = "the user 'ids' may not compact: start etcd with --auto-compaction-mode=periodic";
    assert!(message.contains(expected) && message.contains("compact-every-s=0"), "{message}");
}

#[test]
fn an_uncompacted_etcd_is_warned_about() {
    for (revision, compacted, warned) in [
        (1000, 0, None),
        (200_000, 0, Some("the last 200000 revisions")),
        (200_000, 2, None),
        (3_000_000, 2, Some("the last 1000001 revisions")),
        (3_000_000, 2_900_000, None),
    ] {
        let (_, gateway) = history(History { revision, compacted, ..History::default() });
        let info = gateway.store().info().unwrap();
        match warned {
            None => assert_eq!(info.warnings, [""; 0], "{revision}"),
            Some(part) => assert!(
                info.warnings.len() == 1
                    && info.warnings[0].contains(part)
                    && info.warnings[0].contains("--auto-compaction-mode=periodic --auto-compaction-retention=1h"),
                "{info:?}"
            ),
        }
    }
}

#[test]
fn the_size_is_that_of_the_largest_member() {
    let (_, small) = history(History::default());
    let large =
        Gateway::new(|_| GatewayReply::Answers(200, format!(r#"{{{HEADER},"version":"3.4.42","dbSize":"1000"}}"#)));
    let url = format!("etcd://127.0.0.1:{},127.0.0.1:{},127.0.0.1:{}/p", free_port(), small.port, large.port);
    let size = wait(etcd(&url, DEADLINE).size()).unwrap();
    assert_eq!(size, StoreSize { bytes: 1000, used_bytes: 1000, quota_bytes: None });
    let size = wait(etcd(&format!("etcd://127.0.0.1:{}/p", small.port), DEADLINE).size()).unwrap();
    assert_eq!(size, StoreSize { bytes: 900, used_bytes: 500, quota_bytes: Some(2 << 30) });
}
