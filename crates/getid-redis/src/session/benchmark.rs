//! The default tests of `redis-benchmark` and `valkey-benchmark`, which end at the first error reply.
//!
//! A run without options measures PING and INCR, and also sends SET, LPUSH and others, which need a keyspace. getid has
//! none. So a request of those tests gets a reply that is no error, and stores nothing: to a read what Redis replies
//! for a missing key, to a write a status that contains the error. The status is neither `OK` nor a number, so that no
//! program takes its data for stored or counted. All other requests with these commands get the error.
//!
//! A request is recognised by all of its words: its key, and the data that the tools make, whose pseudo-random
//! characters are always the same (`VXK`). Other programs do not send these, so no directive disables this. Invariant:
//! only an error is replaced, so requests that a sequence can answer are not affected.

use crate::command::Verb;
use crate::resp::{Args, ErrorKind, ErrorReply, Value};

use Answer::{NotStored, Null, Nulls};

/// Reply to a request of a default test.
#[derive(Clone, Copy)]
enum Answer {
    /// A status that contains the error.
    NotStored,
    Null,
    /// An array of nulls.
    Nulls(usize),
}

/// Requests of the default tests of Redis 6.2 to 8.0 and of Valkey 9. In the place of `#` is a number, of `$` the
/// generated data, and of `^` a library of functions.
const REQUESTS: [(Verb, &str, Answer); 22] = [
    (Verb::Set, "key:# $", NotStored),
    (Verb::Get, "key:#", Null),
    (Verb::Incr, "counter:#", NotStored),
    (Verb::LPush, "mylist $", NotStored),
    (Verb::RPush, "mylist $", NotStored),
    (Verb::LPop, "mylist", Null),
    (Verb::RPop, "mylist", Null),
    (Verb::SAdd, "myset element:#", NotStored),
    (Verb::HSet, "myhash element:# $", NotStored),
    (Verb::SPop, "myset", Null),
    (Verb::ZAdd, "myzset 0 element:#", NotStored),
    (Verb::ZAdd, "myzset # element:#", NotStored),
    (Verb::ZPopMin, "myzset", Nulls(0)),
    (Verb::LRange, "mylist 0 99", Nulls(0)),
    (Verb::LRange, "mylist 0 299", Nulls(0)),
    (Verb::LRange, "mylist 0 499", Nulls(0)),
    (Verb::LRange, "mylist 0 599", Nulls(0)),
    (Verb::MSet, "key:# $ key:# $ key:# $ key:# $ key:# $ key:# $ key:# $ key:# $ key:# $ key:# $", NotStored),
    (Verb::MGet, "key:# key:# key:# key:# key:# key:# key:# key:# key:# key:#", Nulls(10)),
    (Verb::XAdd, "mystream * myfield $", NotStored),
    (Verb::FunctionLoad, "load replace ^", NotStored),
    (Verb::FCall, "foo1 1 key1", NotStored),
];

/// What a number is without the option `-r`; with it, it has as many digits.
const PLACEHOLDERS: [&[u8]; 2] = [b"__rand_int__", b"__rand_1st__"];
/// The beginning of the library that Valkey's tests load.
const LIBRARY: &[u8] = b"#!lua name=benchlib\n";

/// Returns the reply to a request of a default test that would get `error`; `None` for any other request.
#[cold]
pub(super) fn reply(verb: Verb, args: Args<'_>, error: &ErrorReply) -> Option<Value> {
    let is_replaced = match verb {
        // With a store, they are about a sequence.
        Verb::Get | Verb::MGet | Verb::Incr => error.kind == ErrorKind::SequencesOff,
        _ => error.kind != ErrorKind::NoPermission,
    };
    let mut requests = REQUESTS.iter().filter(|(known, ..)| is_replaced && *known == verb);
    let (.., answer) = requests.find(|(_, words, _)| is_request(words, args))?;
    Some(match *answer {
        NotStored => not_stored(error),
        Null => Value::Null,
        Nulls(count) => Value::Array(vec![Value::Null; count]),
    })
}

/// Returns the reply to `INCR name` of the default test if there is no such sequence; `None` for any other request.
#[cold]
pub(super) fn incr_reply(verb: Verb, name: &str, error: &ErrorReply) -> Option<Value> {
    let is_missing = verb == Verb::Incr && error.kind == ErrorKind::NoSuchSequence;
    (is_missing && is_word("counter:#", name.as_bytes())).then(|| not_stored(error))
}

/// Returns the status for a request that stores nothing and counts nothing, with the error that others get.
fn not_stored(error: &ErrorReply) -> Value {
    let text = error.text.strip_prefix(b"ERR ").unwrap_or(&error.text);
    let text = String::from_utf8_lossy(text);
    Value::Simple(format!("NOTSTORED an error for all but redis-benchmark: {text}").into())
}

/// Returns true if the arguments are the words of a request.
fn is_request(words: &str, args: Args<'_>) -> bool {
    let mut args = args.iter().skip(1);
    words.split(' ').all(|word| args.next().is_some_and(|arg| is_word(word, arg))) && args.next().is_none()
}

fn is_word(word: &str, arg: &[u8]) -> bool {
    match word {
        "$" => is_data(arg),
        "^" => arg.starts_with(LIBRARY),
        _ => match word.strip_suffix('#') {
            Some(prefix) => arg.strip_prefix(prefix.as_bytes()).is_some_and(is_number),
            None => arg == word.as_bytes(),
        },
    }
}

fn is_number(arg: &[u8]) -> bool {
    PLACEHOLDERS.contains(&arg) || (arg.len() == PLACEHOLDERS[0].len() && arg.iter().all(u8::is_ascii_digit))
}

/// Returns true for the characters of the tools' generator of data, of any number (option `-d`).
fn is_data(arg: &[u8]) -> bool {
    let mut state: u32 = 1234;
    let mut next = || {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        u32::from(b'0') + (state >> 16 & 63)
    };
    !arg.is_empty() && arg.iter().all(|&byte| u32::from(byte) == next())
}
