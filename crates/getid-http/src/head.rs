//! The head of a request, parsed strictly before hyper reads it.
//!
//! A proxy in front may read an unusual head differently from the server behind it. Then one request becomes two, and
//! the proxy has not checked the second. So ambiguous heads are refused here: two lengths, a length beside chunks,
//! lines that end in one character alone, folded lines, names with a blank after them. A head that passes has one
//! meaning for every reader.
//!
//! Pure: bytes in, a verdict out. A head may be scanned again with each byte that arrives.

use memchr::{memchr, memchr_iter};

use super::framing::Framing;

/// The longest head, bytes.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The longest first line, bytes.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// The most fields of a head.
pub(crate) const FIELDS_MAX: usize = 64;

/// The longest method, bytes. The longest registered one has 17.
const METHOD_BYTES_MAX: usize = 24;

/// Verdict on the bytes at the beginning of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadScan {
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
    Bad(RequestFault),
}

/// Why a head or a body is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the text of each describes it")]
pub enum RequestFault {
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
    HostMismatch,
    RepeatedField,
    Length,
    LengthAndChunks,
    Coding,
    Expect,
    Chunk,
}

impl RequestFault {
    /// Returns the status and the detail of the response.
    pub fn response(self) -> (u16, &'static str) {
        match self {
            RequestFault::NotHttp => (400, "the first line is not HTTP: it must be a method, a path and HTTP/1.1"),
            RequestFault::Redis => {
                (400, "this is the HTTP port; send Redis commands to the port of the directive 'port'")
            }
            RequestFault::Tls => {
                (400, "this port requires plain HTTP, and the request is TLS; http-tls yes switches it to TLS")
            }
            RequestFault::Version => (505, "the version must be HTTP/1.1 or HTTP/1.0"),
            RequestFault::Http2 => (505, "HTTP/2 is not supported; use HTTP/1.1"),
            RequestFault::LineTooLong => (414, "the first line is longer than 8 KiB"),
            RequestFault::HeadTooLarge => (431, "the head is larger than 16 KiB"),
            RequestFault::TooManyFields => (431, "the head has more than 64 fields"),
            RequestFault::LineEnd => (400, "a line of the head does not end in CR LF"),
            RequestFault::Target => (400, "the path has a character that must be written as % and two digits"),
            RequestFault::Field => (400, "a field of the head is not a name, a colon and a value"),
            RequestFault::Folded => (400, "a field of the head continues in a second line"),
            RequestFault::NoHost => (400, "a request of HTTP/1.1 requires the field Host"),
            RequestFault::TwoHosts => (400, "the head has two fields Host"),
            RequestFault::Host => (400, "the field Host is not a name or an address, and perhaps a port"),
            RequestFault::HostMismatch => (400, "the address in the first line differs from the field Host"),
            RequestFault::RepeatedField => (400, "Authorization, Content-Type, Expect and Origin must not be repeated"),
            RequestFault::Length => (400, "Content-Length must be a number, and must not be repeated"),
            RequestFault::LengthAndChunks => (400, "Content-Length and Transfer-Encoding must not be sent together"),
            RequestFault::Coding => (400, "Transfer-Encoding must be chunked, once, in HTTP/1.1"),
            RequestFault::Expect => (417, "Expect must be 100-continue"),
            RequestFault::Chunk => (400, "the chunks of the body are invalid, or it has trailers"),
        }
    }
}

/// Scans the bytes at the beginning of a request; the first `scanned` of them were partial.
pub fn scan(bytes: &[u8], scanned: usize) -> HeadScan {
    // One extra empty line is ignored, as RFC 9112 recommends.
    let skipped = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
    let Some(first) = bytes.get(skipped).filter(|_| bytes != b"\r") else { return HeadScan::Partial };
    match first {
        b'*' | b'$' => return HeadScan::Bad(RequestFault::Redis),
        0x16 => return HeadScan::Bad(RequestFault::Tls),
        first if !is_token(*first) => return HeadScan::Bad(RequestFault::NotHttp),
        _ => {}
    }
    match end(bytes, skipped, scanned) {
        Ok(Some(len)) => match read(&bytes[skipped..len]) {
            Ok(body) => HeadScan::Complete { len, body },
            Err(fault) => HeadScan::Bad(fault),
        },
        Ok(None) => HeadScan::Partial,
        Err(fault) => HeadScan::Bad(fault),
    }
}

/// Returns the end of the head; `None` if it is incomplete. Fails on faults that are visible before the end.
fn end(bytes: &[u8], skipped: usize, scanned: usize) -> Result<Option<usize>, RequestFault> {
    let mut line = None;
    // The first line of a complete head is parsed later, with the rest.
    let check = |line: Option<usize>| line.map_or(Ok(()), |end| first_line(&bytes[skipped..end]).map(drop));
    let from = scanned.max(skipped);
    for at in memchr_iter(b'\n', &bytes[from..]).map(|at| from + at) {
        if at == skipped || bytes[at - 1] != b'\r' {
            check(line)?;
            // A client that does not speak HTTP gets that as the fault, not its line ends.
            return Err(if has_version(&bytes[skipped..at]) {
                RequestFault::LineEnd
            } else {
                not_http(&bytes[skipped..at])
            });
        }
        if line.is_none() && !bytes[skipped..from].contains(&b'\n') {
            line = Some(at - 1);
        }
        if at >= skipped + 3 && bytes[at - 3..at - 1] == *b"\r\n" {
            let len = at + 1;
            if len <= HEAD_BYTES_MAX {
                return Ok(Some(len));
            }
            check(line)?;
            return Err(RequestFault::HeadTooLarge);
        }
    }
    check(line)?;
    let has_line = line.is_some() || bytes[skipped..].contains(&b'\n');
    if !has_line && bytes.len() > LINE_BYTES_MAX + skipped {
        return Err(RequestFault::LineTooLong);
    }
    if bytes.len() >= HEAD_BYTES_MAX { Err(RequestFault::HeadTooLarge) } else { Ok(None) }
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
fn not_http(line: &[u8]) -> RequestFault {
    let word = line.split(|byte| matches!(byte, b' ' | b'\r')).next().unwrap_or_default();
    let commands: [&[u8]; 8] = [b"PING", b"GETID", b"MGETID", b"AUTH", b"HELLO", b"INFO", b"CLIENT", b"INCR"];
    if commands.iter().any(|command| command.eq_ignore_ascii_case(word)) {
        RequestFault::Redis
    } else {
        RequestFault::NotHttp
    }
}

fn first_line(line: &[u8]) -> Result<FirstLine<'_>, RequestFault> {
    if line.len() > LINE_BYTES_MAX {
        return Err(RequestFault::LineTooLong);
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
        b"HTTP/2.0" | b"HTTP/2" => return Err(RequestFault::Http2),
        _ => return Err(RequestFault::Version),
    };
    Ok(FirstLine { is_1_1, authority: authority(method, target)? })
}

/// Returns the server that a target names, if any. Fails if the target has no form of RFC 9112.
fn authority<'a>(method: &[u8], target: &'a [u8]) -> Result<Option<&'a [u8]>, RequestFault> {
    if !target.iter().all(|byte| is_target_byte(*byte)) {
        return Err(RequestFault::Target);
    }
    if method == b"CONNECT" {
        return if is_host(target) { Ok(Some(target)) } else { Err(RequestFault::Target) };
    }
    if target.starts_with(b"/") || (target == b"*" && method == b"OPTIONS") {
        return Ok(None);
    }
    let scheme = target.windows(3).position(|part| part == b"://").ok_or(RequestFault::Target)?;
    if !target[..scheme].eq_ignore_ascii_case(b"http") && !target[..scheme].eq_ignore_ascii_case(b"https") {
        return Err(RequestFault::Target);
    }
    let rest = &target[scheme + 3..];
    let len = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let authority = &rest[..len];
    if authority.is_empty() || !is_host(authority) { Err(RequestFault::Host) } else { Ok(Some(authority)) }
}

/// Values of the fields that are checked here.
#[derive(Default)]
struct HeadFields<'a> {
    host: Option<&'a [u8]>,
    length: Option<u64>,
    is_chunked: bool,
    /// Fields that may appear once and have appeared: one bit each.
    seen: u8,
}

/// Parses a whole head, including the empty line at its end. Every line of it ends in CR LF.
fn read(head: &[u8]) -> Result<Framing, RequestFault> {
    let mut rest = head;
    let first = first_line(line(&mut rest))?;
    let mut fields = HeadFields::default();
    let mut count = 0;
    loop {
        let line = line(&mut rest);
        if line.is_empty() {
            break;
        }
        count += 1;
        if count > FIELDS_MAX {
            return Err(RequestFault::TooManyFields);
        }
        field(line, &mut fields, first.is_1_1)?;
    }
    match (fields.host, first.authority) {
        (None, _) if first.is_1_1 => return Err(RequestFault::NoHost),
        (Some(host), _) if !is_host(host) => return Err(RequestFault::Host),
        (Some(host), Some(authority)) if !host.eq_ignore_ascii_case(authority) => {
            return Err(RequestFault::HostMismatch);
        }
        _ => {}
    }
    match (fields.length, fields.is_chunked) {
        (Some(_), true) => Err(RequestFault::LengthAndChunks),
        (length, false) => Ok(Framing::length(length.unwrap_or(0))),
        (None, true) => Ok(Framing::chunked()),
    }
}

/// Removes and returns the first line; a rest without a line end counts as a line.
fn line<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let end = memchr(b'\n', rest).unwrap_or(rest.len());
    let line = &rest[..end.saturating_sub(1)];
    *rest = rest.get(end + 1..).unwrap_or_default();
    line
}

fn field<'a>(line: &'a [u8], fields: &mut HeadFields<'a>, is_1_1: bool) -> Result<(), RequestFault> {
    if matches!(line[0], b' ' | b'\t') {
        return Err(RequestFault::Folded);
    }
    let colon = memchr(b':', line).ok_or(RequestFault::Field)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    let is_value_byte = |byte: u8| byte == b'\t' || byte >= b' ' && byte != 0x7f;
    // Without an early exit, so that it tests many bytes at once.
    let is_value = line[colon + 1..].iter().fold(true, |all, byte| all & is_value_byte(*byte));
    if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) || !is_value {
        return Err(RequestFault::Field);
    }
    let mut once = |bit: u8, fault: RequestFault| {
        let is_first = fields.seen & bit == 0;
        fields.seen |= bit;
        if is_first { Ok(()) } else { Err(fault) }
    };
    // By length first: most fields are none of these.
    match name.len() {
        4 if name.eq_ignore_ascii_case(b"host") => {
            once(1, RequestFault::TwoHosts)?;
            fields.host = Some(value);
        }
        14 if name.eq_ignore_ascii_case(b"content-length") => {
            once(2, RequestFault::Length)?;
            fields.length = Some(number(value).ok_or(RequestFault::Length)?);
        }
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
            once(4, RequestFault::Coding)?;
            if !is_1_1 || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(RequestFault::Coding);
            }
            fields.is_chunked = true;
        }
        13 if name.eq_ignore_ascii_case(b"authorization") => once(8, RequestFault::RepeatedField)?,
        12 if name.eq_ignore_ascii_case(b"content-type") => once(16, RequestFault::RepeatedField)?,
        6 if name.eq_ignore_ascii_case(b"origin") => once(32, RequestFault::RepeatedField)?,
        6 if name.eq_ignore_ascii_case(b"expect") => {
            once(64, RequestFault::RepeatedField)?;
            if !value.eq_ignore_ascii_case(b"100-continue") {
                return Err(RequestFault::Expect);
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
fn is_target_byte(byte: u8) -> bool {
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

    fn fault(head: &str) -> Option<RequestFault> {
        match scan(head.as_bytes(), 0) {
            HeadScan::Bad(fault) => Some(fault),
            HeadScan::Complete { len, .. } => {
                assert_eq!(len, head.len(), "{head:?}");
                None
            }
            HeadScan::Partial => panic!("partial: {head:?}"),
        }
    }

    /// Returns the fault of a request with the field Host and these lines.
    fn with(lines: &str) -> Option<RequestFault> {
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
            HeadScan::Complete { body, .. } => body,
            other => panic!("{other:?}"),
        };
        assert_eq!(body("X: y"), Framing::length(0));
        assert_eq!(body("Content-Length: 0042"), Framing::length(42));
        assert_eq!(body("Transfer-Encoding: Chunked"), Framing::chunked());
    }

    #[test]
    fn ambiguous_heads_are_refused() {
        for (lines, expected) in [
            ("Content-Length: 1\r\nContent-Length: 1", RequestFault::Length),
            ("Content-Length: 1\r\ncontent-length: 2", RequestFault::Length),
            ("Content-Length: 1, 1", RequestFault::Length),
            ("Content-Length: +1", RequestFault::Length),
            ("Content-Length: -1", RequestFault::Length),
            ("Content-Length: 0x1", RequestFault::Length),
            ("Content-Length: 1 1", RequestFault::Length),
            ("Content-Length:", RequestFault::Length),
            ("Content-Length: 99999999999999999999", RequestFault::Length),
            ("Content-Length: 1\r\nTransfer-Encoding: chunked", RequestFault::LengthAndChunks),
            ("Transfer-Encoding: chunked\r\nContent-Length: 1", RequestFault::LengthAndChunks),
            ("Transfer-Encoding: xchunked", RequestFault::Coding),
            ("Transfer-Encoding: gzip, chunked", RequestFault::Coding),
            ("Transfer-Encoding: chunked, chunked", RequestFault::Coding),
            ("Transfer-Encoding: identity", RequestFault::Coding),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", RequestFault::Coding),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", RequestFault::Coding),
            ("Transfer-Encoding : chunked", RequestFault::Field),
            ("X: y\r\n folded", RequestFault::Folded),
            ("X: y\r\n\tfolded", RequestFault::Folded),
            ("X: a\0b", RequestFault::Field),
            ("X: a\rb", RequestFault::Field),
            ("X", RequestFault::Field),
            (": y", RequestFault::Field),
            ("X\u{e9}: y", RequestFault::Field),
            ("Host: a", RequestFault::TwoHosts),
            ("Origin: http://a\r\nOrigin: http://b", RequestFault::RepeatedField),
            ("Authorization: a b\r\nAuthorization: a c", RequestFault::RepeatedField),
            ("Expect: 200-maybe", RequestFault::Expect),
        ] {
            assert_eq!(with(lines), Some(expected), "{lines:?}");
        }
    }

    #[test]
    fn the_first_line_and_the_host_are_checked() {
        for (head, expected) in [
            ("GET / HTTP/1.1\r\n\r\n", RequestFault::NoHost),
            ("GET / HTTP/1.1\r\nHost: user@a\r\n\r\n", RequestFault::Host),
            ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", RequestFault::Host),
            ("GET / HTTP/1.1\r\nHost: a:123456\r\n\r\n", RequestFault::Host),
            ("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", RequestFault::Host),
            ("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestFault::HostMismatch),
            ("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestFault::Host),
            ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestFault::Target),
            ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", RequestFault::Target),
            ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", RequestFault::Target),
            ("GET /#x HTTP/1.1\r\nHost: a\r\n\r\n", RequestFault::Target),
            ("GET /\\x HTTP/1.1\r\nHost: a\r\n\r\n", RequestFault::Target),
            ("GET /ü HTTP/1.1\r\nHost: a\r\n\r\n", RequestFault::Target),
            ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", RequestFault::NotHttp),
            ("GET /\r\n\r\n", RequestFault::NotHttp),
            ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", RequestFault::Version),
            ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", RequestFault::NotHttp),
            ("GET / HTTP/1.1\nHost: a\r\n\r\n", RequestFault::LineEnd),
            ("GET / HTTP/1.1\r\nHost: a\n\r\n", RequestFault::LineEnd),
            ("GET / HTTP/1.1\r\nHost: a\r\n\n", RequestFault::LineEnd),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", RequestFault::Http2),
            ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", RequestFault::Coding),
            ("*1\r\n$4\r\nPING\r\n", RequestFault::Redis),
            ("PING\r\n", RequestFault::Redis),
            ("getid\n", RequestFault::Redis),
            ("\x16\x03\x01", RequestFault::Tls),
            ("\0", RequestFault::NotHttp),
            ("\n", RequestFault::NotHttp),
            ("\r\n\r\n", RequestFault::NotHttp),
        ] {
            assert_eq!(fault(head), Some(expected), "{head:?}");
        }
    }

    #[test]
    fn a_head_has_bounds() {
        let long = |bytes: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(bytes));
        assert_eq!(fault(&long(8000)), None);
        assert_eq!(fault(&long(8190)), Some(RequestFault::LineTooLong));
        assert_eq!(scan(&long(9000).as_bytes()[..8500], 0), HeadScan::Bad(RequestFault::LineTooLong));
        assert_eq!(with(&vec!["X: y"; FIELDS_MAX - 1].join("\r\n")), None);
        assert_eq!(with(&vec!["X: y"; FIELDS_MAX].join("\r\n")), Some(RequestFault::TooManyFields));
        let large = format!("X: {}", "y".repeat(HEAD_BYTES_MAX));
        assert_eq!(with(&large[..HEAD_BYTES_MAX - 100]), None);
        assert_eq!(with(&large), Some(RequestFault::HeadTooLarge));
        let endless = format!("GET / HTTP/1.1\r\nHost: a\r\n{large}");
        assert_eq!(scan(endless.as_bytes(), 0), HeadScan::Bad(RequestFault::HeadTooLarge));
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
            let mut dripped = HeadScan::Partial;
            for len in 1..=head.len() {
                dripped = scan(&head.as_bytes()[..len], len - 1);
                if dripped != HeadScan::Partial {
                    break;
                }
            }
            assert_eq!(dripped, whole, "{head:?}");
        }
    }
}
