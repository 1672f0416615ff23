//! The meaning of etcd's errors, each with its remedy.

use super::gateway;
use getid_text::printable::printable_up_to;

/// Most characters of an etcd message that are shown.
const SHOWN_CHARS: usize = 200;

/// Reason why a member gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MemberFailure {
    /// The cluster refuses the request, and nothing was done. Another member would refuse it too.
    Refused(String),
    /// Nothing was done, and this member cannot be used before an operator acts. Another member may serve the request.
    Unfit(String),
    /// Nothing was done. Another member may serve the request now, and this one later.
    Away(String),
    /// The request was sent, and its result is unknown.
    Unknown(String),
    /// The answer is longer than permitted.
    TooLong(String),
    /// Nothing was done: the revision was compacted.
    Compacted(String),
    /// Nothing was done: the login has expired.
    LoginExpired(String),
    /// Nothing was done: authentication is disabled in etcd.
    AuthDisabled(String),
}

impl MemberFailure {
    /// Returns what happened, and the remedy.
    pub(super) fn text(self) -> String {
        match self {
            MemberFailure::Refused(text)
            | MemberFailure::Unfit(text)
            | MemberFailure::Away(text)
            | MemberFailure::Unknown(text)
            | MemberFailure::TooLong(text)
            | MemberFailure::Compacted(text)
            | MemberFailure::LoginExpired(text)
            | MemberFailure::AuthDisabled(text) => text,
        }
    }
}

/// The request that an error is about.
#[derive(Clone, Copy)]
pub(super) struct RequestContext<'a> {
    /// Name of the member, such as `etcd at db1:2379`.
    pub(super) place: &'a str,
    /// Path of the request.
    pub(super) path: &'a str,
    /// User of the login, if there is one.
    pub(super) user: Option<&'a str>,
    /// Prefix of the keys.
    pub(super) prefix: &'a str,
}

#[derive(Clone, Copy)]
enum FailureKind {
    Refused,
    Away,
    Unknown,
    /// The user is unknown, or lacks the permission.
    Right,
    LoginExpired,
    AuthDisabled,
    Compacted,
}

/// etcd's messages, each with its meaning for a request, and the remedy.
///
/// Some [`FailureKind::Unknown`] messages look as if nothing was done. But the write by which the database becomes too
/// large is done and refused at once (`quotaApplierV3.Txn` of etcd). `no leader` may also answer a write that is in
/// flight.
const MESSAGES: [(&str, FailureKind, &str); 20] = [
    ("authentication failed", FailureKind::Refused, "the user or the password is wrong"),
    ("user name is empty", FailureKind::LoginExpired, ""),
    ("permission denied", FailureKind::Right, ""),
    ("invalid auth token", FailureKind::LoginExpired, ""),
    ("revision of auth store is old", FailureKind::LoginExpired, ""),
    ("authentication is not enabled", FailureKind::AuthDisabled, ""),
    ("request is too large", FailureKind::Refused, TOO_LARGE),
    ("message larger than max", FailureKind::Refused, TOO_LARGE),
    ("too many requests", FailureKind::Refused, "it has more writes than its disk can take: check its load"),
    ("required revision has been compacted", FailureKind::Compacted, ""),
    ("not supported for learner", FailureKind::Away, "it is a learner: name the other members"),
    (
        "database space exceeded",
        FailureKind::Unknown,
        "its database is full: compact and defragment it (etcdctl compact, etcdctl defrag) or raise \
         --quota-backend-bytes, then etcdctl alarm disarm; have it compacted from then on \
         (--auto-compaction-mode=periodic --auto-compaction-retention=1h)",
    ),
    (
        "corrupt cluster",
        FailureKind::Unknown,
        "its members have different data: restore it from a snapshot, or ask its operator",
    ),
    ("connection closed", FailureKind::Unknown, OWN_CLIENT),
    ("closed network connection", FailureKind::Unknown, OWN_CLIENT),
    ("transport is closing", FailureKind::Unknown, OWN_CLIENT),
    ("handshake failed", FailureKind::Unknown, OWN_CLIENT),
    ("no leader", FailureKind::Unknown, MAJORITY),
    ("leader changed", FailureKind::Unknown, MAJORITY),
    ("request timed out", FailureKind::Unknown, MAJORITY),
];

const OWN_CLIENT: &str = "its gateway has lost the server behind it; if that lasts and it has --client-cert-auth, \
                          etcd's own certificate must be good for a client too (extended key usage clientAuth)";

const TOO_LARGE: &str = "its --max-request-bytes must be 1572864, which is the default, or more";

const MAJORITY: &str = "its members elect a leader, or most of them are not reached: it recovers by itself once more \
                        than half of them run and reach each other";

/// Returns the meaning of an answer with a status other than 200.
pub(super) fn of_answer(context: RequestContext<'_>, status: u16, body: &[u8]) -> MemberFailure {
    let RequestContext { place, path, user, prefix } = context;
    let text = String::from_utf8_lossy(body);
    let Some(error_message) = message(body) else {
        let shown = printable_up_to(text.trim(), SHOWN_CHARS);
        if text.contains("HTTPS server") {
            return MemberFailure::Unfit(format!("{place} accepts only TLS: write tls=verify, or omit tls=no"));
        }
        let sentence = format!("{place} answered {path} with status {status} and '{shown}'");
        let expected = "etcd 3.4 or newer with its JSON gateway is expected there (--enable-grpc-gateway, which \
                        etcd 3.4 leaves out when it has a configuration file)";
        return match status {
            404 | 405 | 501 => MemberFailure::Unfit(format!("{sentence}; {expected}")),
            _ => MemberFailure::Unknown(format!("{sentence}; {expected}")),
        };
    };
    let shown = printable_up_to(&error_message, SHOWN_CHARS);
    let Some((_, kind, remedy)) = MESSAGES.iter().find(|(known, _, _)| error_message.contains(known)) else {
        return MemberFailure::Unknown(format!("{place} answered '{shown}'"));
    };
    let because = |remedy: &str| format!("{place} answered '{shown}': {remedy}");
    match (kind, user) {
        (FailureKind::Refused, _) => MemberFailure::Refused(because(remedy)),
        (FailureKind::Away, _) => MemberFailure::Away(because(remedy)),
        (FailureKind::Unknown, _) => MemberFailure::Unknown(because(remedy)),
        (FailureKind::Compacted, _) => MemberFailure::Compacted(format!("{place} answered '{shown}'")),
        (FailureKind::AuthDisabled, _) => {
            MemberFailure::AuthDisabled(because("leave the user out, or etcdctl auth enable"))
        }
        (FailureKind::LoginExpired, Some(_)) => {
            MemberFailure::LoginExpired(because("its login has expired, and expires again"))
        }
        (FailureKind::LoginExpired | FailureKind::Right, None) => {
            MemberFailure::Refused(because("it requires a user and a password: write etcd://USER:PASSWORD@HOST/PREFIX"))
        }
        (FailureKind::Right, Some(user)) if path == gateway::COMPACT => MemberFailure::Refused(because(&format!(
            "the user '{}' may not compact: start etcd with --auto-compaction-mode=periodic \
             --auto-compaction-retention=1h, and write compact-every-s=0 into the address",
            printable_up_to(user, 64)
        ))),
        (FailureKind::Right, Some(user)) => MemberFailure::Refused(because(&format!(
            "the user '{}' may not read and write there: etcdctl role grant-permission ROLE --prefix=true readwrite \
             {prefix}/",
            printable_up_to(user, 64)
        ))),
    }
}

/// Returns the message of an error, which 3.4 and 3.5 contain twice.
fn message(body: &[u8]) -> Option<String> {
    let found: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(body).ok()?;
    let text = ["message", "error"].iter().find_map(|name| found.get(*name)?.as_str());
    Some(text?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: RequestContext<'_> =
        RequestContext { place: "etcd at db1:2379", path: "/v3/kv/txn", user: Some("ids"), prefix: "getid" };

    fn failure_of(message: &str, status: u16) -> MemberFailure {
        let body = format!(r#"{{"error":"{message}","message":"{message}","code":3}}"#);
        of_answer(CONTEXT, status, body.as_bytes())
    }

    #[test]
    fn each_error_has_its_meaning_and_its_remedy() {
        for (message, expected) in [
            (
                "etcdserver: authentication failed, invalid user ID or password",
                MemberFailure::Refused(
                    "etcd at db1:2379 answered 'etcdserver: authentication failed, invalid user ID or password': the \
                     user or the password is wrong"
                        .to_owned(),
                ),
            ),
            (
                "etcdserver: permission denied",
                MemberFailure::Refused(
                    "etcd at db1:2379 answered 'etcdserver: permission denied': the user 'ids' may not read and write \
                     there: etcdctl role grant-permission ROLE --prefix=true readwrite getid/"
                        .to_owned(),
                ),
            ),
            ("something new", MemberFailure::Unknown("etcd at db1:2379 answered 'something new'".to_owned())),
        ] {
            assert_eq!(failure_of(message, 400), expected);
        }
        for (message, remedy) in [
            ("etcdserver: mvcc: database space exceeded", "etcdctl alarm disarm"),
            ("connection closed", "extended key usage clientAuth"),
            ("etcdserver: no leader", "more than half of them"),
            ("etcdserver: leader changed", "more than half of them"),
            ("etcdserver: request timed out, possibly due to previous leader failure", "more than half of them"),
        ] {
            let found = failure_of(message, 503);
            assert!(matches!(&found, MemberFailure::Unknown(text) if text.contains(remedy)), "{found:?}");
        }
        for message in ["etcdserver: invalid auth token", "etcdserver: user name is empty"] {
            assert!(matches!(failure_of(message, 401), MemberFailure::LoginExpired(_)), "{message}");
            let body = format!(r#"{{"code":16,"message":"{message}","details":[]}}"#);
            let found = of_answer(RequestContext { user: None, ..CONTEXT }, 401, body.as_bytes());
            assert!(matches!(&found, MemberFailure::Refused(text) if text.contains("USER:PASSWORD@")), "{found:?}");
        }
        assert!(matches!(failure_of("etcdserver: rpc not supported for learner", 400), MemberFailure::Away(_)));
        assert!(matches!(failure_of("etcdserver: authentication is not enabled", 400), MemberFailure::AuthDisabled(_)));
    }

    #[test]
    fn an_answer_that_is_not_etcds_is_shown_as_one_line() {
        let found = of_answer(CONTEXT, 404, b"<html>\n\x1b[2J");
        let MemberFailure::Unfit(text) = &found else { panic!("{found:?}") };
        assert!(text.contains(r"status 404 and '<html>\n\u{1b}[2J'; etcd 3.4 or newer"), "{text}");
        assert!(matches!(of_answer(CONTEXT, 502, b"bad gateway"), MemberFailure::Unknown(_)));
        assert!(matches!(of_answer(CONTEXT, 500, b"[]"), MemberFailure::Unknown(_)));
        let found = of_answer(CONTEXT, 400, b"Client sent an HTTP request to an HTTPS server.\n");
        assert!(matches!(&found, MemberFailure::Unfit(text) if text.contains("tls=verify")), "{found:?}");
        let found = failure_of(&"x".repeat(1000), 500);
        assert!(matches!(&found, MemberFailure::Unknown(text) if text.len() < 300), "{found:?}");
    }
}
