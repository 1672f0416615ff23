//! Every kind of reply in both protocols, as Redis 7 writes it.

use getid_redis::resp::{
    ErrorKind, ErrorReply, Protocol, Value, encode, write_array_header, write_bulk, write_bulk_id, write_error,
    write_id,
};

fn check(value: &Value, resp2: &str, resp3: &str) {
    for (protocol, expected) in [(Protocol::Resp2, resp2), (Protocol::Resp3, resp3)] {
        // Earlier output stays.
        let mut output = b"before".to_vec();
        encode(value, protocol, &mut output);
        assert_eq!(String::from_utf8_lossy(&output), format!("before{expected}"), "{value:?} in {protocol:?}");
    }
}

fn written(write: impl Fn(&mut Vec<u8>)) -> String {
    let mut output = Vec::new();
    write(&mut output);
    String::from_utf8_lossy(&output).into_owned()
}

#[test]
fn scalars() {
    check(&Value::OK, "+OK\r\n", "+OK\r\n");
    check(&Value::Simple("".into()), "+\r\n", "+\r\n");
    check(&Value::error("ERR no"), "-ERR no\r\n", "-ERR no\r\n");
    check(&Value::Integer(0), ":0\r\n", ":0\r\n");
    check(&Value::Integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n");
    check(&Value::Integer(i64::MAX), ":9223372036854775807\r\n", ":9223372036854775807\r\n");
    check(&Value::bulk("a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n");
    check(&Value::bulk(""), "$0\r\n\r\n", "$0\r\n\r\n");
    check(&Value::text("# Server\r\n"), "$10\r\n# Server\r\n\r\n", "=14\r\ntxt:# Server\r\n\r\n");
    check(&Value::Null, "$-1\r\n", "_\r\n");
}

/// Numbers around powers of ten, whose digits a logarithm counts wrongly.
#[test]
fn integers_of_every_length() {
    for power in (0..19).map(|exponent| 10_i64.pow(exponent)) {
        for number in (-2..=2).map(|step| power + step).flat_map(|number| [number, -number]) {
            let line = format!(":{number}\r\n");
            check(&Value::Integer(number), &line, &line);
            let all = format!("*2\r\n{line}$1\r\na\r\n");
            check(&Value::Array(vec![Value::Integer(number), Value::from("a")]), &all, &all);
        }
    }
}

#[test]
fn doubles() {
    check(&Value::Double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n");
    check(&Value::Double(-3.0), "$2\r\n-3\r\n", ",-3\r\n");
    check(&Value::Double(f64::INFINITY), "$3\r\ninf\r\n", ",inf\r\n");
    check(&Value::Double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
    check(&Value::Double(f64::NAN), "$3\r\nnan\r\n", ",nan\r\n");
}

#[test]
fn collections() {
    let values = || vec![Value::from(1), Value::from("a")];
    check(&Value::Array(vec![]), "*0\r\n", "*0\r\n");
    check(&Value::Array(values()), "*2\r\n:1\r\n$1\r\na\r\n", "*2\r\n:1\r\n$1\r\na\r\n");
    check(&Value::Set(values()), "*2\r\n:1\r\n$1\r\na\r\n", "~2\r\n:1\r\n$1\r\na\r\n");
    check(&Value::Map(vec![]), "*0\r\n", "%0\r\n");
    check(
        &Value::map([("k", Value::Null), ("l", Value::Array(vec![Value::map([("m", Value::Integer(1))])]))]),
        "*4\r\n$1\r\nk\r\n$-1\r\n$1\r\nl\r\n*1\r\n*2\r\n$1\r\nm\r\n:1\r\n",
        "%2\r\n$1\r\nk\r\n_\r\n$1\r\nl\r\n*1\r\n%1\r\n$1\r\nm\r\n:1\r\n",
    );
}

/// The fields of HELLO and INFO keep their order.
#[test]
fn a_map_keeps_the_order_of_its_fields() {
    let names: Vec<String> = (0..100).map(|number| format!("field{number}")).collect();
    let fields = Value::Map(names.iter().map(|name| (Value::from(&**name), Value::Null)).collect());
    let resp3 = names.iter().map(|name| format!("${}\r\n{name}\r\n_\r\n", name.len())).collect::<Vec<_>>().concat();
    let resp2 = resp3.replace("_\r\n", "$-1\r\n");
    check(&fields, &format!("*200\r\n{resp2}"), &format!("%100\r\n{resp3}"));
}

fn error(text: &'static str) -> Value {
    Value::Error(ErrorReply::fixed(ErrorKind::Invalid, text))
}

#[test]
fn texts_stay_on_one_line() {
    let reply = "-ERR a  b\r\n";
    check(&error("\r\nERR a\r\nb\r\n\n"), reply, reply);
    assert_eq!(written(|output| write_error("\r\nERR a\r\nb\r\n\n", output)), reply);
    check(&Value::Simple("a\nb".into()), "+a b\r\n", "+a b\r\n");
    assert_eq!(written(|output| write_error("\r\n", output)), "-\r\n");
}

/// Programs print replies without escapes: no error text may control a terminal, whatever name it quotes.
#[test]
fn errors_are_escaped_as_logs_are() {
    for (text, shown) in [
        ("größe \\ \"x\" ~", "größe \\ \"x\" ~"),
        ("a\u{1b}[2J\0\u{7f}\t", r"a\u{1b}[2J\u{0}\u{7f}\t"),
        ("\u{9b}2J \u{202e}gpj\u{2028}", r"\u{9b}2J \u{202e}gpj\u{2028}"),
        ("\n\u{1b}\r\nb\u{1b}\n", r"\u{1b}  b\u{1b}"),
    ] {
        let reply = format!("-{shown}\r\n");
        check(&error(text), &reply, &reply);
        assert_eq!(written(|output| write_error(text, output)), reply);
    }
    // A character cut in the middle, and a control byte of terminals without UTF-8.
    assert_eq!(written(|output| write_error(b"ERR \xff\0 gr\xc3", output)), "-ERR \\xff\\u{0} gr\\xc3\r\n");
    assert_eq!(written(|output| write_error(b"ERR \x9b2J", output)), "-ERR \\x9b2J\r\n");
}

#[test]
fn the_hot_path_writes_what_encode_writes() {
    for id in [0, 9, 10, 139_840_286_867_072_072, u64::MAX >> 1] {
        let number = Value::Integer(i64::try_from(id).unwrap());
        let expected = |value: &Value| written(|output| encode(value, Protocol::Resp2, output));
        assert_eq!(written(|output| write_id(id, output)), expected(&number));
        assert_eq!(written(|output| write_bulk_id(id, output)), expected(&Value::bulk(id.to_string())));
    }
    assert_eq!(written(|output| write_array_header(100, output)), "*100\r\n");
    assert_eq!(written(|output| write_bulk(b"", output)), "$0\r\n\r\n");
}
