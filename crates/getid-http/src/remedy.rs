//! Rewrites remedies in errors for clients of the HTTP port.
//!
//! A command's error names the command that helps: `SEQUENCE CREATE orders`. A client of the HTTP port gets the
//! equivalent request: `POST /v1/sequences/orders`. Commands without one are marked as commands of the Redis port.

use std::iter;

/// A command as errors name it, and the equivalent request; `None`: there is none. A `*` is a name, which is inserted
/// in the request. No path has a name with a series, such as `invoice/ACME`, so a command with one has no request.
type Remedy = (&'static str, Option<&'static str>);

/// Of commands with a common beginning, the longest is first.
const REMEDIES: [Remedy; 40] = [
    ("'sequence-create on-first-use' so does INCR", Some("'sequence-create on-first-use' so does asking for a value")),
    ("SEQUENCE ALTER * max N", Some("PATCH /v1/sequences/* with {\"max\": N}")),
    ("SEQUENCE ALTER *", Some("PATCH /v1/sequences/*")),
    ("SEQUENCE ALTER", Some("PATCH /v1/sequences/{name}")),
    ("SEQUENCE CREATE makes another", Some("POST /v1/sequences/{name} makes another")),
    ("SEQUENCE CREATE *", Some("POST /v1/sequences/*")),
    ("SEQUENCE INFO *", Some("GET /v1/sequences/*")),
    ("SEQUENCE RAISE * N", Some("PATCH /v1/sequences/* with {\"last\": N}")),
    ("SEQUENCE RAISE * n", Some("PATCH /v1/sequences/* with {\"last\": n}")),
    ("SEQUENCE LIST", Some("GET /v1/sequences")),
    ("SEQUENCE RAISE or CONFIRM", None),
    ("SEQUENCE RAISE *", Some("PATCH /v1/sequences/* with {\"last\": N}")),
    ("SERIES CREATE * *", None),
    ("SEQUENCE STORES CONFIRM *", None),
    ("SEQUENCE STORES", None),
    ("SEQUENCE CONFIRM *", None),
    ("SEQUENCE DECLARE", None),
    ("PERSIST *", None),
    ("CLIENT UNBLOCK", None),
    ("WORKERID LIST *", Some("GET /v1/workers/*/leases")),
    ("WORKERID LEASE", Some("POST /v1/workers/{pool}/leases")),
    ("NUMBER RESERVE * REQUEST r KEY *", Some("POST /v1/numbers/*/reserve with {\"request\": \"r\", \"key\": \"*\"}")),
    ("NUMBER RESERVE * REQUEST r", Some("POST /v1/numbers/*/reserve with {\"request\": \"r\"}")),
    ("NUMBER RESERVE reserves", Some("POST /v1/numbers/{name}/reserve reserves")),
    ("NUMBER COMMIT, RELEASE or VOID of", Some("POST /v1/numbers/{name}/commit, release or void of")),
    ("NUMBER COMMIT or VOID of", Some("POST /v1/numbers/{name}/commit or void of")),
    ("NUMBER SETTLE changes", Some("POST /v1/numbers/{name}/settle changes")),
    ("NUMBER SETTLE settles", Some("POST /v1/numbers/{name}/settle settles")),
    ("NUMBER VOID and NUMBER SETTLE", Some("POST /v1/numbers/{name}/void and settle")),
    ("NUMBER LEDGER * KEY *", Some("GET /v1/numbers/*/ledger?key=*")),
    ("NUMBER LEDGER *", Some("GET /v1/numbers/*/ledger")),
    ("send KEY *", Some("send {\"key\": \"*\"}")),
    ("GETID * key * REQUEST r", Some("POST /v1/ids/*?key=* with the header Idempotency-Key: \"r\"")),
    ("GETID * key *", Some("POST /v1/ids/*?key=*")),
    ("GETID * gives", Some("POST /v1/ids/* gives")),
    ("GETID * REQUEST r", Some("POST /v1/ids/* with the header Idempotency-Key: \"r\"")),
    ("GETID * * 0", Some("POST /v1/ids/* with {\"fields\": {\"*\": 0}}")),
    ("GETID begins it", Some("POST /v1/ids/{name} begins it")),
    ("use GETID *", Some("use POST /v1/ids/*")),
    ("add FORCE", Some("add the query parameter 'force'")),
];

/// The beginning of Redis's error for a key of another kind.
const WRONG_TYPE: &str = "Operation against a key holding the wrong kind of value: ";

/// Texts before the quoted name of the subject of an error.
const KINDS: [&str; 7] = ["sequence ", "generator ", "pool ", "never goes back: ", "values of ", "request ", "number "];

/// Returns the text of an error for a client of the HTTP port.
pub(super) fn for_http(message: &str) -> String {
    let message = message.strip_prefix(WRONG_TYPE).unwrap_or(message);
    let (before, name) = name_in(message).unwrap_or_default();
    // A name stays as it is, even if it contains a command.
    let end_of_name = before.len() + name.len();
    let mut text = String::with_capacity(message.len());
    text.push_str(&with_requests(before, ""));
    text.push_str(name);
    with_requests(&message[end_of_name..], &text)
}

/// Returns the text before the first quoted text of an error, with the quote, and the quoted text; `None` if that is a
/// command.
fn name_in(message: &str) -> Option<(&str, &str)> {
    let (before, behind) = message.split_once('\'')?;
    let (name, _) = behind.split_once('\'')?;
    let is_command = || REMEDIES.iter().any(|row| found(behind, row).is_some());
    let is_name = KINDS.iter().any(|kind| before.ends_with(kind)) || !is_command();
    is_name.then_some((&message[..=before.len()], name))
}

/// Returns `done` and `rest` with requests in place of commands.
fn with_requests(mut rest: &str, done: &str) -> String {
    let mut text = done.to_owned();
    while let Some(first) = rest.chars().next() {
        // A command begins at the beginning of a word.
        let begins = !text.ends_with(is_name_char);
        let found = REMEDIES.iter().filter(|_| begins).find_map(|row| found(rest, row));
        let Some((len, request)) = found else {
            text.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        let (command, behind) = rest.split_at(len);
        rest = behind;
        if let Some(request) = request {
            text.push_str(&request);
        } else {
            text.push_str(command);
            if let Some(behind) = rest.strip_prefix('\'') {
                text.push('\'');
                rest = behind;
            }
            text.push_str(" on the Redis port");
        }
    }
    text
}

/// Returns the length of this command at the start of `text`, and the equivalent request.
fn found(text: &str, (command, request): &Remedy) -> Option<(usize, Option<String>)> {
    let (mut rest, mut names) = (text, Vec::new());
    for (place, word) in command.split(' ').enumerate() {
        if place > 0 {
            rest = rest.strip_prefix(' ')?;
        }
        if word == "*" {
            let end = |rest: &str| rest.find(|letter| !is_name_char(letter) && letter != '/').unwrap_or(rest.len());
            let (name, behind) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => rest.split_at(end(rest)),
            };
            (!name.is_empty()).then(|| names.push(name))?;
            rest = behind;
        } else {
            rest = rest.strip_prefix(word)?;
        }
    }
    let request = request.filter(|_| !names.iter().any(|name| name.contains('/')));
    let request = request.map(|request| {
        let filled = request.split('*').zip(names.iter().copied().chain(iter::repeat("")));
        filled.flat_map(|(part, name)| [part.to_owned(), escaped(name)]).collect()
    });
    (!rest.starts_with(is_name_char)).then_some((text.len() - rest.len(), request))
}

/// Returns the name of a sequence or a generator, escaped for a path.
pub(super) fn escaped(name: &str) -> String {
    name.replace('{', "%7B").replace('}', "%7D").replace('#', "%23").replace(' ', "%20")
}

fn is_name_char(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_.:-".contains(letter)
}

#[cfg(test)]
mod tests {
    use getid_core::server::ledger::{NumberRefusal, NumberState};
    use getid_core::server::{Key, SequenceRefusal};

    use super::*;
    use getid_engine::generators::sequence::SequenceError;
    use getid_engine::workers::WorkerError;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of sentences, each as both ports have it")]
    fn a_command_becomes_the_equivalent_request() {
        for (message, expected) in [
            (
                "no such sequence 'nope': 'SEQUENCE CREATE nope' makes it",
                "no such sequence 'nope': 'POST /v1/sequences/nope' makes it",
            ),
            ("GETID lua shard 0", "POST /v1/ids/lua with {\"fields\": {\"shard\": 0}}"),
            (
                "no such sequence 'SEQUENCE LIST': 'SEQUENCE CREATE \"SEQUENCE LIST\"' makes it",
                "no such sequence 'SEQUENCE LIST': 'POST /v1/sequences/SEQUENCE%20LIST' makes it",
            ),
            (
                "no such sequence 'makes': 'SEQUENCE CREATE makes' makes it",
                "no such sequence 'makes': 'POST /v1/sequences/makes' makes it",
            ),
            (
                "sequence '{a} #b' has begun: SEQUENCE RAISE \"{a} #b\" n lets it go on",
                "sequence '{a} #b' has begun: PATCH /v1/sequences/%7Ba%7D%20%23b with {\"last\": n} lets it go on",
            ),
            (
                "'SEQUENCE CONFIRM \"{a} #b\"' lets it go on",
                "'SEQUENCE CONFIRM \"{a} #b\"' on the Redis port lets it go on",
            ),
            ("'SEQUENCE CREATE \"a' makes it", "'SEQUENCE CREATE \"a' makes it"),
            ("'SEQUENCE CREATE \"\"' makes it", "'SEQUENCE CREATE \"\"' makes it"),
            ("'SEQUENCE CONFIRM a.b:c' lets it go on", "'SEQUENCE CONFIRM a.b:c' on the Redis port lets it go on"),
            (
                "no number of generator 'x' belongs to request 'r': NUMBER RESERVE x REQUEST r reserves one",
                "no number of generator 'x' belongs to request 'r': POST /v1/numbers/x/reserve with {\"request\": \
                 \"r\"} reserves one",
            ),
            (
                "request 'NUMBER LEDGER x' has a number of the key 'A': send KEY A, or choose another request",
                "request 'NUMBER LEDGER x' has a number of the key 'A': send {\"key\": \"A\"}, or choose another \
                 request",
            ),
            (
                "generator 'x' is gapless, and each of its numbers has a request: GETID x REQUEST r gives one",
                "generator 'x' is gapless, and each of its numbers has a request: POST /v1/ids/x with the header \
                 Idempotency-Key: \"r\" gives one",
            ),
            (
                "generator 'x' has a series for each key, so a request names its key: GETID x key ACME",
                "generator 'x' has a series for each key, so a request names its key: POST /v1/ids/x?key=ACME",
            ),
            (
                "GETID x key ACME REQUEST r gives one and commits it, NUMBER RESERVE x REQUEST r KEY ACME reserves it",
                "POST /v1/ids/x?key=ACME with the header Idempotency-Key: \"r\" gives one and commits it, POST \
                 /v1/numbers/x/reserve with {\"request\": \"r\", \"key\": \"ACME\"} reserves it",
            ),
            ("names its key: NUMBER LEDGER x KEY ACME", "names its key: GET /v1/numbers/x/ledger?key=ACME"),
            (
                "generator 'x' is not gapless, so its numbers have no ledger: GETID x gives one. A generator",
                "generator 'x' is not gapless, so its numbers have no ledger: POST /v1/ids/x gives one. A generator",
            ),
            (
                "NUMBER VOID and NUMBER SETTLE change the states",
                "POST /v1/numbers/{name}/void and settle change the states",
            ),
            ("names its key: SEQUENCE INFO x/ACME", "names its key: SEQUENCE INFO x/ACME on the Redis port"),
            ("names its key: SEQUENCE RAISE x/ACME", "names its key: SEQUENCE RAISE x/ACME on the Redis port"),
            ("SEQUENCE RAISE x/ACME N lets", "SEQUENCE RAISE x/ACME N on the Redis port lets"),
            ("'SERIES CREATE x ACME' makes it", "'SERIES CREATE x ACME' on the Redis port makes it"),
            ("SEQUENCE RAISE x N, or", "PATCH /v1/sequences/x with {\"last\": N}, or"),
            (
                "Operation against a key holding the wrong kind of value: 'x' is a generator; use GETID x",
                "'x' is a generator; use POST /v1/ids/x",
            ),
            (
                "generator 'x' itself gives ids from then on: take an earlier time, or add FORCE for an id",
                "generator 'x' itself gives ids from then on: take an earlier time, or add the query parameter 'force' \
                 for an id",
            ),
            // Texts without a command, or with an incomplete one.
            ("MGETID lua shard 0", "MGETID lua shard 0"),
            ("SEQUENCE CREATEd", "SEQUENCE CREATEd"),
            ("SEQUENCE INFO ", "SEQUENCE INFO "),
            ("GETID", "GETID"),
            ("\u{e4}\u{20ac} SEQUENCE LIST\u{e4}", "\u{e4}\u{20ac} GET /v1/sequences\u{e4}"),
            ("", ""),
        ] {
            assert_eq!(for_http(message), expected);
        }
    }

    /// The texts come from the code that makes them, so a new text that names a command is found here.
    #[test]
    fn no_error_of_sequences_and_workers_names_a_command_alone() {
        let refusals = [
            SequenceRefusal::NoSuch,
            SequenceRefusal::Dropped { last: 7 },
            SequenceRefusal::Ended { unix_ms: 7 },
            SequenceRefusal::AtMax { max: 7 },
            SequenceRefusal::NotGiven { above: 7 },
            SequenceRefusal::NotAbove { above: 7, first: 6 },
            SequenceRefusal::WentBack,
            SequenceRefusal::Lost { store: "gone".into() },
            SequenceRefusal::TooLarge { values: 7, max: 6 },
            SequenceRefusal::Busy { waited_ms: 0 },
            SequenceRefusal::Newer { period: "2026".into() },
        ];
        let names = ["orders", "{a} #b", "makes", "SEQUENCE LIST", "invoice/ACME"];
        let sequences = names.iter().flat_map(|name| refusals.iter().map(move |refusal| (*name, refusal.of(name))));
        let of_series = [SequenceRefusal::NoSeries, SequenceRefusal::TooManySeries { max: 7 }];
        let sequences = sequences.chain(of_series.iter().map(|refusal| ("invoice", refusal.of("invoice/ACME"))));
        let operators = [
            SequenceError::Lower { last: 7 },
            SequenceError::TooMany { max: 7 },
            SequenceError::Unknown("gone".to_owned()),
        ];
        let operators = names.iter().flat_map(|name| operators.iter().map(move |error| (*name, error.of(name))));
        let workers = [
            WorkerError::NotLeased { pool: "p".to_owned(), id: 7 },
            WorkerError::NoSuchPool { pool: "p".to_owned() },
            WorkerError::Lease {
                pool: "p".to_owned(),
                id: 7,
                why: getid_core::server::worker::LeaseRefusal::WrongToken,
            },
        ];
        let workers = workers.iter().map(|error| ("p", error.to_string()));
        let settled = |state| NumberRefusal::Settled { text: "R1".to_owned(), state };
        let numbers = NumberState::ALL.map(settled).into_iter().chain([
            NumberRefusal::UnknownRequest,
            NumberRefusal::OtherUser,
            NumberRefusal::OtherSeries { series: "ACME".to_owned() },
            NumberRefusal::UnknownText,
            NumberRefusal::AtMax { max: 7 },
            NumberRefusal::TooManyReleased { max: 7 },
            NumberRefusal::NotFromTheStart { key: Key::parse("invoice").unwrap() },
        ]);
        let numbers: Vec<_> = numbers.map(|refusal| ("invoice", refusal.of("invoice", "NUMBER LEDGER"))).collect();
        for (name, message) in sequences.chain(operators).chain(workers).chain(numbers) {
            let text = for_http(&message);
            assert!(!text.contains("/v1/sequences/{"), "{text}");
            let quoted = format!("'{name}'");
            assert!(!message.contains(&quoted) || text.contains(&quoted), "{text}");
            let text = text.replace(&quoted, "").replace("'NUMBER LEDGER'", "");
            for (at, _) in ["SEQUENCE ", "SERIES ", "WORKERID ", "INCR", "GETID", "NUMBER "]
                .iter()
                .flat_map(|word| text.match_indices(word))
            {
                let end = text[at..].find(['\'', ',', ';']).map_or(text.len(), |len| at + len);
                let behind = &text[end..];
                assert!(behind.starts_with("' on the Redis port"), "{text}");
            }
        }
    }
}
