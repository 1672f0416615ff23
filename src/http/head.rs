//! The head of a request, parsed strictly before hyper reads it.
//!
//! A proxy in front may read an unusual head differently from the server behind it. Then one request becomes two, and
//! the proxy has not checked the second. So ambiguous heads are refused here: two lengths, a length beside chunks,
//! lines that end in one character alone, folded lines, names with a blank after them. A head that passes has one
//! meaning for every reader.
//!
//! Pure: bytes in, a verdict out. A head may be scanned again with each byte that arrives.

use super::framing::Framing;

/// The longest head, bytes.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The longest first line, bytes.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// The most fields of a head.
pub const FIELDS_MAX: usize = 64;

/// The longest method, bytes. The longest registered one has 17.
const METHOD_BYTES_MAX: usize = 24;

/// Verdict on the bytes at the beginning of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// The beginning of a head, without a fault so far.
    Partial,
    /// A complete head.
    Complete {
        /// Its length in bytes, with the empty line.
        len: usize,
        /// The body that follows.
        body: Framing,
    },
    /// Not a request that may be answered normally.
    Bad(Fault),
}

/// Why a head or a body is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the text of each describes it")]
pub enum Fault {
    NotHttp,
    Redis,
    Tls,
    Version,
    Http2,
    LineTooLong,
    HeadTooLarge,
    TooManyFields,
    LineEnd,
    Target,
    Field,
    Folded,
    NoHost,
    TwoHosts,
    Host,
    OtherHost,
    Twice,
    Length,
    LengthAndChunks,
    Coding,
    Expect,
    Chunk,
}

impl Fault {
    /// Returns the status and the detail of the response.
    pub fn answer(self) -> (u16, &'static str) {
        match self {
            Fault::NotHttp => (400, "the first line is not one of HTTP: it must be a method, a path and HTTP/1.1"),
            Fault::Redis => (400, "this is the HTTP port; Redis commands are answered on the one that 'port' names"),
            Fault::Tls => (400, "this port speaks plain HTTP, and the request is TLS; http-tls yes makes it speak TLS"),
            Fault::Version => (505, "the version must be HTTP/1.1 or HTTP/1.0"),
            Fault::Http2 => (505, "HTTP/2 is not spoken here; use HTTP/1.1"),
            Fault::LineTooLong => (414, "the first line is longer than 8 KiB"),
            Fault::HeadTooLarge => (431, "the head is larger than 16 KiB"),
            Fault::TooManyFields => (431, "the head has more than 64 fields"),
            Fault::LineEnd => (400, "a line of the head does not end in CR LF"),
            Fault::Target => (400, "the path has a character that must be written as % and two digits"),
            Fault::Field => (400, "a field of the head is not a name, a colon and a value"),
            Fault::Folded => (400, "a field of the head goes on in a second line"),
            Fault::NoHost => (400, "a request of HTTP/1.1 needs the field Host"),
            Fault::TwoHosts => (400, "the head has two fields Host"),
            Fault::Host => (400, "the field Host is not a name or an address, and perhaps a port"),
            Fault::OtherHost => (400, "the address in the first line is another than the field Host says"),
            Fault::Twice => (400, "Authorization, Content-Type, Expect and Origin may be there once only"),
            Fault::Length => (400, "Content-Length must be there once, and be a number"),
            Fault::LengthAndChunks => (400, "Content-Length and Transfer-Encoding must not be there together"),
            Fault::Coding => (400, "Transfer-Encoding must be chunked, once, in HTTP/1.1"),
            Fault::Expect => (417, "Expect can only be 100-continue"),
            Fault::Chunk => (400, "the body is not made of chunks as HTTP/1.1 has them, or has trailers"),
        }
    }
}

/// Scans the bytes at the beginning of a request; the first `seen` of them were partial.
pub fn scan(bytes: &[u8], seen: usize) -> Scan {
    // One extra empty line is ignored, as RFC 9112 recommends.
    let skipped = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
    let Some(first) = bytes.get(skipped).filter(|_| bytes != b"\r") else { return Scan::Partial };
    match first {
        b'*' | b'$' => return Scan::Bad(Fault::Redis),
        0x16 => return Scan::Bad(Fault::Tls),
        first if !is_token(*first) => return Scan::Bad(Fault::NotHttp),
        _ => {}
    }
    match end(bytes, skipped, seen) {
        Ok(Some(len)) => match read(&bytes[skipped..len]) {
            Ok(body) => Scan::Complete { len, body },
            Err(fault) => Scan::Bad(fault),
        },
        Ok(None) => Scan::Partial,
        Err(fault) => Scan::Bad(fault),
    }
}

/// Returns the end of the head; `None` if it is incomplete. Fails on faults that are visible before the end.
fn end(bytes: &[u8], skipped: usize, seen: usize) -> Result<Option<usize>, Fault> {
    let mut line = None;
    // The first line of a complete head is parsed later, with the rest.
    let check = |line: Option<usize>| line.map_or(Ok(()), |end| first_line(&bytes[skipped..end]).map(drop));
    for (at, _) in bytes.iter().enumerate().skip(seen.max(skipped)).filter(|(_, byte)| **byte == b'\n') {
        if at == skipped || bytes[at - 1] != b'\r' {
            check(line)?;
            // A client that does not speak HTTP gets that as the fault, not its line ends.
            return Err(if has_version(&bytes[skipped..at]) { Fault::LineEnd } else { not_http(&bytes[skipped..at]) });
        }
        if line.is_none() && !bytes[skipped..seen.max(skipped)].contains(&b'\n') {
            line = Some(at - 1);
        }
        if at >= skipped + 3 && bytes[at - 3..at - 1] == *b"\r\n" {
            let len = at + 1;
            if len <= HEAD_BYTES_MAX {
                return Ok(Some(len));
            }
            check(line)?;
            return Err(Fault::HeadTooLarge);
        }
    }
    check(line)?;
    let has_line = line.is_some() || bytes[skipped..].contains(&b'\n');
    if !has_line && bytes.len() > LINE_BYTES_MAX + skipped {
        return Err(Fault::LineTooLong);
    }
    if bytes.len() >= HEAD_BYTES_MAX { Err(Fault::HeadTooLarge) } else { Ok(None) }
}

/// Parts of the first line.
struct FirstLine<'a> {
    is_1_1: bool,
    /// The authority of a target in absolute form.
    authority: Option<&'a [u8]>,
}

fn has_version(line: &[u8]) -> bool {
    line.windows(6).any(|part| part == b" HTTP/")
}

/// Returns the fault of a first line without a version.
fn not_http(line: &[u8]) -> Fault {
    let word = line.split(|byte| matches!(byte, b' ' | b'\r')).next().unwrap_or_default();
    let commands: [&[u8]; 8] = [b"PING", b"GETID", b"MGETID", b"AUTH", b"HELLO", b"INFO", b"CLIENT", b"INCR"];
    if commands.iter().any(|command| command.eq_ignore_ascii_case(word)) { Fault::Redis } else { Fault::NotHttp }
}

fn first_line(line: &[u8]) -> Result<FirstLine<'_>, Fault> {
    if line.len() > LINE_BYTES_MAX {
        return Err(Fault::LineTooLong);
    }
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(not_http(line));
    };
    if !version.starts_with(b"HTTP/") || method.len() > METHOD_BYTES_MAX || !method.iter().all(|byte| is_token(*byte)) {
        return Err(not_http(line));
    }
    let is_1_1 = match version {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" => false,
        b"HTTP/2.0" | b"HTTP/2" => return Err(Fault::Http2),
        _ => return Err(Fault::Version),
    };
    Ok(FirstLine { is_1_1, authority: authority(method, target)? })
}

/// Returns the server that a target names, if any. Fails if the target has no form of RFC 9112.
fn authority<'a>(method: &[u8], target: &'a [u8]) -> Result<Option<&'a [u8]>, Fault> {
    if !target.iter().all(|byte| is_of_target(*byte)) {
        return Err(Fault::Target);
    }
    if method == b"CONNECT" {
        return if is_host(target) { Ok(Some(target)) } else { Err(Fault::Target) };
    }
    if target.starts_with(b"/") || (target == b"*" && method == b"OPTIONS") {
        return Ok(None);
    }
    let scheme = target.windows(3).position(|part| part == b"://").ok_or(Fault::Target)?;
    if !target[..scheme].eq_ignore_ascii_case(b"http") && !target[..scheme].eq_ignore_ascii_case(b"https") {
        return Err(Fault::Target);
    }
    let rest = &target[scheme + 3..];
    let len = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let authority = &rest[..len];
    if authority.is_empty() || !is_host(authority) { Err(Fault::Host) } else { Ok(Some(authority)) }
}

/// Values of the fields that are checked here.
#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a [u8]>,
    length: Option<u64>,
    is_chunked: bool,
    /// Fields that may appear once and have appeared: one bit each.
    seen: u8,
}

/// Parses a whole head, including the empty line at its end. Every line of it ends in CR LF.
fn read(head: &[u8]) -> Result<Framing, Fault> {
    let mut rest = head;
    let first = first_line(line(&mut rest))?;
    let mut fields = Fields::default();
    let mut count = 0;
    loop {
        let line = line(&mut rest);
        if line.is_empty() {
            break;
        }
        count += 1;
        if count > FIELDS_MAX {
            return Err(Fault::TooManyFields);
        }
        field(line, &mut fields, first.is_1_1)?;
    }
    match (fields.host, first.authority) {
        (None, _) if first.is_1_1 => return Err(Fault::NoHost),
        (Some(host), _) if !is_host(host) => return Err(Fault::Host),
        (Some(host), Some(authority)) if !host.eq_ignore_ascii_case(authority) => return Err(Fault::OtherHost),
        _ => {}
    }
    match (fields.length, fields.is_chunked) {
        (Some(_), true) => Err(Fault::LengthAndChunks),
        (length, false) => Ok(Framing::length(length.unwrap_or(0))),
        (None, true) => Ok(Framing::chunked()),
    }
}

/// Removes and returns the first line; a rest without a line end counts as a line.
fn line<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let line = &rest[..end.saturating_sub(1)];
    *rest = rest.get(end + 1..).unwrap_or_default();
    line
}

fn field<'a>(line: &'a [u8], fields: &mut Fields<'a>, is_1_1: bool) -> Result<(), Fault> {
    if matches!(line[0], b' ' | b'\t') {
        return Err(Fault::Folded);
    }
    let colon = line.iter().position(|byte| *byte == b':').ok_or(Fault::Field)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    let is_of_value = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) || !line[colon + 1..].iter().all(is_of_value) {
        return Err(Fault::Field);
    }
    let mut once = |bit: u8, fault: Fault| {
        let is_first = fields.seen & bit == 0;
        fields.seen |= bit;
        if is_first { Ok(()) } else { Err(fault) }
    };
    // By length first: most fields are none of these.
    match name.len() {
        4 if name.eq_ignore_ascii_case(b"host") => {
            once(1, Fault::TwoHosts)?;
            fields.host = Some(value);
        }
        14 if name.eq_ignore_ascii_case(b"content-length") => {
            once(2, Fault::Length)?;
            fields.length = Some(number(value).ok_or(Fault::Length)?);
        }
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
            once(4, Fault::Coding)?;
            if !is_1_1 || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Fault::Coding);
            }
            fields.is_chunked = true;
        }
        13 if name.eq_ignore_ascii_case(b"authorization") => once(8, Fault::Twice)?,
        12 if name.eq_ignore_ascii_case(b"content-type") => once(16, Fault::Twice)?,
        6 if name.eq_ignore_ascii_case(b"origin") => once(32, Fault::Twice)?,
        6 if name.eq_ignore_ascii_case(b"expect") => {
            once(64, Fault::Twice)?;
            if !value.eq_ignore_ascii_case(b"100-continue") {
                return Err(Fault::Expect);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Parses digits only, at most as many as any body needs.
fn number(value: &[u8]) -> Option<u64> {
    if !(1..=18).contains(&value.len()) {
        return None;
    }
    value.iter().try_fold(0_u64, |number, byte| byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0')))
}

/// Whether this is a name or an address, with an optional port. A user before an `@` is refused.
fn is_host(host: &[u8]) -> bool {
    let (name, port) = match host.iter().rposition(|byte| *byte == b':') {
        Some(colon) if host.last() != Some(&b']') => (&host[..colon], &host[colon + 1..]),
        _ => (host, &[][..]),
    };
    let is_name = match name {
        [b'[', address @ .., b']'] => {
            !address.is_empty() && address.iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'))
        }
        name => name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')),
    };
    is_name && port.len() <= 5 && port.iter().all(u8::is_ascii_digit)
}

/// Whether the byte may appear in a method or a field's name.
fn is_token(byte: u8) -> bool {
    const ALL: [bool; 256] = alphanumeric_or(b"!#$%&'*+-.^_`|~");
    ALL[usize::from(byte)]
}

/// Whether the byte may appear in a target: the characters of RFC 3986, and the braces, bars and carets that some
/// programs do not escape.
fn is_of_target(byte: u8) -> bool {
    const ALL: [bool; 256] = alphanumeric_or(b"-._~:/?@!$&'()*+,;=%[]{}|^");
    ALL[usize::from(byte)]
}

/// Returns a lookup table of alphanumeric bytes and `others`. Comparing each byte with all of them would take longer
/// than hyper's work on a head.
const fn alphanumeric_or(others: &[u8]) -> [bool; 256] {
    let mut all = [false; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        all[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        all[others[at] as usize] = true;
        at += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(head: &str) -> Option<Fault> {
        match scan(head.as_bytes(), 0) {
            Scan::Bad(fault) => Some(fault),
            Scan::Complete { len, .. } => {
                assert_eq!(len, head.len(), "{head:?}");
                None
            }
            Scan::Partial => panic!("partial: {head:?}"),
        }
    }

    /// Returns the fault of a request with the field Host and these lines.
    fn with(lines: &str) -> Option<Fault> {
        fault(&format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n"))
    }

    #[test]
    fn unambiguous_heads_pass() {
        for head in [
            "GET / HTTP/1.1\r\nHost: localhost:7880\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nhost:\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET http://a:1/x?y HTTP/1.1\r\nHost: A:1\r\n\r\n",
            "GET /{a}|b^?c=[1]%20 HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
            "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX-Name:\t ü\r\nEmpty:\r\nExpect: 100-Continue\r\n\r\n",
        ] {
            assert_eq!(fault(head), None, "{head:?}");
        }
        let framing = |lines: &str| scan(format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n").as_bytes(), 0);
        let body = |lines: &str| match framing(lines) {
            Scan::Complete { body, .. } => body,
            other => panic!("{other:?}"),
        };
        assert_eq!(body("X: y"), Framing::length(0));
        assert_eq!(body("Content-Length: 0042"), Framing::length(42));
        assert_eq!(body("Transfer-Encoding: Chunked"), Framing::chunked());
    }

    #[test]
    fn ambiguous_heads_are_refused() {
        for (lines, expected) in [
            ("Content-Length: 1\r\nContent-Length: 1", Fault::Length),
            ("Content-Length: 1\r\ncontent-length: 2", Fault::Length),
            ("Content-Length: 1, 1", Fault::Length),
            ("Content-Length: +1", Fault::Length),
            ("Content-Length: -1", Fault::Length),
            ("Content-Length: 0x1", Fault::Length),
            ("Content-Length: 1 1", Fault::Length),
            ("Content-Length:", Fault::Length),
            ("Content-Length: 99999999999999999999", Fault::Length),
            ("Content-Length: 1\r\nTransfer-Encoding: chunked", Fault::LengthAndChunks),
            ("Transfer-Encoding: chunked\r\nContent-Length: 1", Fault::LengthAndChunks),
            ("Transfer-Encoding: xchunked", Fault::Coding),
            ("Transfer-Encoding: gzip, chunked", Fault::Coding),
            ("Transfer-Encoding: chunked, chunked", Fault::Coding),
            ("Transfer-Encoding: identity", Fault::Coding),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", Fault::Coding),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", Fault::Coding),
            ("Transfer-Encoding : chunked", Fault::Field),
            ("X: y\r\n folded", Fault::Folded),
            ("X: y\r\n\tfolded", Fault::Folded),
            ("X: a\0b", Fault::Field),
            ("X: a\rb", Fault::Field),
            ("X", Fault::Field),
            (": y", Fault::Field),
            ("X\u{e9}: y", Fault::Field),
            ("Host: a", Fault::TwoHosts),
            ("Origin: http://a\r\nOrigin: http://b", Fault::Twice),
            ("Authorization: a b\r\nAuthorization: a c", Fault::Twice),
            ("Expect: 200-maybe", Fault::Expect),
        ] {
            assert_eq!(with(lines), Some(expected), "{lines:?}");
        }
    }

    #[test]
    fn the_first_line_and_the_host_are_checked() {
        for (head, expected) in [
            ("GET / HTTP/1.1\r\n\r\n", Fault::NoHost),
            ("GET / HTTP/1.1\r\nHost: user@a\r\n\r\n", Fault::Host),
            ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Fault::Host),
            ("GET / HTTP/1.1\r\nHost: a:123456\r\n\r\n", Fault::Host),
            ("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", Fault::Host),
            ("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", Fault::OtherHost),
            ("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", Fault::Host),
            ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", Fault::Target),
            ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", Fault::Target),
            ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", Fault::Target),
            ("GET /#x HTTP/1.1\r\nHost: a\r\n\r\n", Fault::Target),
            ("GET /\\x HTTP/1.1\r\nHost: a\r\n\r\n", Fault::Target),
            ("GET /ü HTTP/1.1\r\nHost: a\r\n\r\n", Fault::Target),
            ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Fault::NotHttp),
            ("GET /\r\n\r\n", Fault::NotHttp),
            ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", Fault::Version),
            ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", Fault::NotHttp),
            ("GET / HTTP/1.1\nHost: a\r\n\r\n", Fault::LineEnd),
            ("GET / HTTP/1.1\r\nHost: a\n\r\n", Fault::LineEnd),
            ("GET / HTTP/1.1\r\nHost: a\r\n\n", Fault::LineEnd),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Fault::Http2),
            ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Fault::Coding),
            ("*1\r\n$4\r\nPING\r\n", Fault::Redis),
            ("PING\r\n", Fault::Redis),
            ("getid\n", Fault::Redis),
            ("\x16\x03\x01", Fault::Tls),
            ("\0", Fault::NotHttp),
            ("\n", Fault::NotHttp),
            ("\r\n\r\n", Fault::NotHttp),
        ] {
            assert_eq!(fault(head), Some(expected), "{head:?}");
        }
    }

    #[test]
    fn a_head_has_bounds() {
        let long = |bytes: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(bytes));
        assert_eq!(fault(&long(8000)), None);
        assert_eq!(fault(&long(8190)), Some(Fault::LineTooLong));
        assert_eq!(scan(&long(9000).as_bytes()[..8500], 0), Scan::Bad(Fault::LineTooLong));
        assert_eq!(with(&vec!["X: y"; FIELDS_MAX - 1].join("\r\n")), None);
        assert_eq!(with(&vec!["X: y"; FIELDS_MAX].join("\r\n")), Some(Fault::TooManyFields));
        let large = format!("X: {}", "y".repeat(HEAD_BYTES_MAX));
        assert_eq!(with(&large[..HEAD_BYTES_MAX - 100]), None);
        assert_eq!(with(&large), Some(Fault::HeadTooLarge));
        let endless = format!("GET / HTTP/1.1\r\nHost: a\r\n{large}");
        assert_eq!(scan(endless.as_bytes(), 0), Scan::Bad(Fault::HeadTooLarge));
    }

    #[test]
    fn the_verdict_does_not_depend_on_how_bytes_arrive() {
        for head in [
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\nContent-Length: 3\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\n",
            "QUIT\r\n",
        ] {
            let whole = scan(head.as_bytes(), 0);
            let mut dripped = Scan::Partial;
            for len in 1..=head.len() {
                dripped = scan(&head.as_bytes()[..len], len - 1);
                if dripped != Scan::Partial {
                    break;
                }
            }
            assert_eq!(dripped, whole, "{head:?}");
        }
    }
}
