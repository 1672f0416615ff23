//! Decoder of requests: arrays of bulk strings, and inline commands.
//!
//! Anyone may send any bytes to an open port, so the decoder is strict and bounded before it is fast:
//!
//! - It copies nothing. A request is a list of [`Span`]s into the caller's input. Only an inline command with quotes is
//!   written to a side buffer, since its bytes differ from the sent ones.
//! - It reads each byte once. An incomplete request leaves its position behind, and the next call continues there. So a
//!   request that arrives byte by byte costs as much as in one piece.
//! - It allocates nothing for sizes that a client merely declares. The list of spans grows as arguments arrive.
//! - It keeps nothing unnecessary. A large request is shown to the caller as soon as its size is known
//!   ([`DecodeStep::Large`]); one that would be refused anyway is then skipped as it arrives.
//! - The same bytes give the same requests and the same error, however they were cut on the way.
//!
//! Limits, order of checks and error texts are those of Redis 7.0 (`processMultibulkBuffer`, `processInlineBuffer`,
//! `sdssplitargs`, `string2ll`), including what Redis does not check. The byte after a header's CR and the two bytes
//! after a bulk's data are skipped whatever they are, and a line with a NUL before its end never ends.
//! `tests/protocol/table/` proves it.
//!
//! Invariant: `scanned` and every span are within the given input, `position <= input.len()`.

use std::fmt;

/// Longest line without its end, in bytes: an inline command, or one header of an array (`PROTO_INLINE_MAX_SIZE`).
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Most arguments of a request before authentication (Redis 7.0 `authRequired`).
const UNAUTHENTICATED_ARGS_MAX: usize = 10;

/// Longest request before authentication, in bytes as sent: enough for `AUTH` and `HELLO`. (Redis 7.0 takes arguments
/// of 16 KiB, ten of them.)
const UNAUTHENTICATED_BYTES_MAX: usize = 8 * 1024;

/// Sizes of a request, in bytes as sent, beyond which the caller decides whether to continue.
const LARGE_BYTES: [usize; 2] = [16 * 1024, 64 * 1024];

/// Length of the last argument's beginning that is present when the caller decides: an error text quotes it.
const QUOTED_BYTES: usize = 128;

/// Number of spans that are kept between requests, 16 KiB, and as many bytes of the side buffer. A larger request's
/// memory is released when the next one begins.
const SPANS_KEPT: usize = 1024;

/// Number of spans that a quiet connection keeps: 256 bytes, and as much for unquoted arguments.
const SPANS_QUIET: usize = 16;

/// Reads requests from a connection's input, one at a time.
///
/// A new decoder owns no memory. After an error the connection must be closed; a decoder that is used again starts with
/// a new request.
#[derive(Debug, Default)]
pub struct Decoder {
    stage: Stage,
    /// First byte that is not parsed yet: of a header line, or of a bulk's data.
    position: usize,
    /// End of the bytes in which the current line's end was searched.
    scanned: usize,
    /// Number of arguments that the array still lacks.
    args_missing: usize,
    /// The last request's arguments, or the current one's so far.
    spans: Vec<Span>,
    /// An inline command's arguments without their quotes.
    side: Vec<u8>,
    /// Whether `spans` point into `side`.
    spans_in_side: bool,
    /// Number of [`LARGE_BYTES`] that the current array has passed.
    large: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Between,
    Inline,
    ArrayHeader,
    BulkHeader,
    BulkData {
        bytes: usize,
    },
    /// [`Stage::BulkData`] of a large array whose last span covers the bytes that have arrived.
    Large {
        bytes: usize,
    },
    /// Before the header of an argument to skip.
    SkipHeader,
    /// Before this number of bytes of such an argument, its end included.
    SkipData {
        bytes: usize,
    },
}

/// Result of [`Decoder::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeStep {
    /// The request continues behind the input.
    Incomplete {
        /// Lower bound of the missing bytes, >= 1. A client chose this number, which may be as large as
        /// [`DecodeLimits::bulk_bytes_max`]: never allocate that much before the bytes have arrived.
        wanted: usize,
    },
    /// An empty line, or an array of no or a negative number of arguments: no reply.
    Skip {
        /// Number of bytes used.
        used: usize,
    },
    /// One request, of at least one argument: see [`Decoder::args`].
    Request {
        /// Number of bytes used.
        used: usize,
    },
    /// An array is large, and the caller decides whether to take it. [`Decoder::args`] are its arguments so far, with
    /// at least the beginning of the last one; [`Decoder::args_declared`] is their final number. Whether and when this
    /// is returned depends only on the request's bytes. Decode again with the same input to take it; call
    /// [`Decoder::skip`] first to skip it.
    Large {
        /// Lower bound of its size, bytes.
        bytes: usize,
    },
    /// The next part of a skipped array; more follows.
    Dropped {
        /// Number of bytes used.
        used: usize,
    },
    /// The end of a skipped array: the caller now replies with the error.
    Skipped {
        /// Number of bytes used.
        used: usize,
    },
}

/// Limits of a request's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Longest argument of an array, in bytes (`proto-max-bulk-len`).
    pub bulk_bytes_max: usize,
    /// Most arguments of an array: 1024 * 1024, as in Redis until 6.2. (Redis 7.0 takes 2^31 - 1.)
    pub args_max: usize,
    /// Whether the client has authenticated, or need not. Otherwise a request has at most 10 arguments and 8 KiB.
    pub authenticated: bool,
    /// Longest request, in bytes as sent (`client-query-buffer-limit`).
    pub request_bytes_max: usize,
}

impl Default for DecodeLimits {
    /// Returns Redis's defaults, for a client that need not authenticate.
    fn default() -> DecodeLimits {
        DecodeLimits {
            bulk_bytes_max: 512 << 20,
            args_max: 1024 * 1024,
            authenticated: true,
            request_bytes_max: 1 << 30,
        }
    }
}

impl Decoder {
    /// Reads the request at the beginning of `input`.
    ///
    /// `input` starts at the first byte that no request has used yet. After [`DecodeStep::Incomplete`] the caller calls
    /// again with the same bytes and more behind them.
    ///
    /// A fast path for requests that are known byte for byte (`*1\r\n$5\r\nGETID\r\n`) belongs in front of this call.
    /// It may be used whenever [`Decoder::is_between_requests`] returns true.
    ///
    /// # Errors
    ///
    /// Fails with [`ProtocolError`] if the bytes can't become a request within `limits`; then the connection must be
    /// closed.
    ///
    /// # Panics
    ///
    /// Panics if `input` is shorter than in the previous call.
    #[inline]
    pub fn decode(&mut self, input: &[u8], limits: &DecodeLimits) -> Result<DecodeStep, ProtocolError> {
        let decoded = match self.stage {
            Stage::Between => {
                let Some(&first) = input.first() else { return Ok(DecodeStep::Incomplete { wanted: 1 }) };
                self.begin();
                if first == b'*' { self.array_header(input, limits) } else { self.inline(input, limits) }
            }
            Stage::Inline => self.inline(input, limits),
            Stage::ArrayHeader => self.array_header(input, limits),
            Stage::BulkHeader | Stage::BulkData { .. } => self.bulks(input, limits),
            Stage::Large { bytes } => {
                self.spans.pop();
                self.stage = Stage::BulkData { bytes };
                self.bulks(input, limits)
            }
            Stage::SkipHeader | Stage::SkipData { .. } => self.skipped(input, limits),
        };
        if matches!(
            decoded,
            Ok(DecodeStep::Request { .. } | DecodeStep::Skip { .. } | DecodeStep::Skipped { .. }) | Err(_)
        ) {
            self.stage = Stage::Between;
        }
        decoded
    }

    /// Returns the arguments of the request that the last call of [`Decoder::decode`] found in this same `input`.
    #[inline]
    pub fn args<'a>(&'a self, input: &'a [u8]) -> Args<'a> {
        Args { bytes: if self.spans_in_side { &self.side } else { input }, ranges: &self.spans }
    }

    /// Returns the number of arguments that the current array declares.
    pub fn args_declared(&self) -> usize {
        let partial = usize::from(matches!(self.stage, Stage::Large { .. }));
        self.spans.len() - partial + self.args_missing
    }

    /// Skips the array of [`DecodeStep::Large`], from the next call on.
    pub fn skip(&mut self) {
        if let Stage::Large { bytes } = self.stage {
            self.stage = Stage::SkipData { bytes: bytes + 2 };
            self.spans = Vec::new();
        }
    }

    /// Returns true if no request is incomplete.
    #[inline]
    pub fn is_between_requests(&self) -> bool {
        matches!(self.stage, Stage::Between)
    }

    /// Returns true if no request is incomplete and [`Decoder::release_memory`] has nothing to do.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.is_between_requests() && !self.is_large()
    }

    #[inline]
    fn is_large(&self) -> bool {
        self.spans.capacity() > SPANS_QUIET || self.side.capacity() > SPANS_QUIET * size_of::<Span>()
    }

    /// Releases memory if no request is incomplete, for a connection that may become quiet. Ten thousand connections
    /// that each sent one request of a million arguments must not keep their tables. Memory for usual requests is kept,
    /// so that they cost no allocation.
    pub fn release_memory(&mut self) {
        if self.is_large() && self.is_between_requests() {
            *self = Decoder::default();
        }
    }

    /// Returns the memory held beside the input, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.side.capacity()
    }

    #[inline]
    fn begin(&mut self) {
        self.spans.clear();
        self.side.clear();
        self.spans.shrink_to(SPANS_KEPT);
        self.side.shrink_to(SPANS_KEPT * size_of::<Span>());
        self.spans_in_side = false;
        self.position = 0;
        self.scanned = 0;
        self.large = 0;
    }

    /// Parses `*<count>\r\n`.
    #[inline]
    fn array_header(&mut self, input: &[u8], limits: &DecodeLimits) -> Result<DecodeStep, ProtocolError> {
        let Some(header) = self.header(input, limits, ProtocolError::TooBigMultibulkCount)? else {
            self.stage = Stage::ArrayHeader;
            return Ok(DecodeStep::Incomplete { wanted: 1 });
        };
        let count = header.number.ok_or(ProtocolError::InvalidMultibulkLength)?;
        let Ok(count) = usize::try_from(count) else { return Ok(DecodeStep::Skip { used: header.end }) };
        if count > limits.args_max {
            return Err(ProtocolError::InvalidMultibulkLength);
        }
        if count > UNAUTHENTICATED_ARGS_MAX && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedMultibulkLength);
        }
        self.position = header.end;
        if count == 0 {
            return Ok(DecodeStep::Skip { used: header.end });
        }
        self.scanned = header.end;
        self.args_missing = count;
        self.stage = Stage::BulkHeader;
        self.bulks(input, limits)
    }

    /// Parses `$<bytes>\r\n<data>\r\n` for each missing argument.
    #[inline]
    fn bulks(&mut self, input: &[u8], limits: &DecodeLimits) -> Result<DecodeStep, ProtocolError> {
        loop {
            let bytes = match self.stage {
                Stage::BulkData { bytes } => bytes,
                _ => match self.bulk_header(input, limits)? {
                    Some(bytes) => bytes,
                    None => return Ok(DecodeStep::Incomplete { wanted: 1 }),
                },
            };
            // bulk_header has checked that this doesn't overflow.
            let end = self.position + bytes + 2;
            if end > LARGE_BYTES[0] && self.is_shown(end, input) {
                self.spans.push(Span { start: self.position, end: input.len().min(end - 2) });
                self.stage = Stage::Large { bytes };
                return Ok(DecodeStep::Large { bytes: end });
            }
            if input.len() < end {
                self.stage = Stage::BulkData { bytes };
                return Ok(DecodeStep::Incomplete { wanted: end - input.len() });
            }
            self.spans.push(Span { start: self.position, end: self.position + bytes });
            self.position = end;
            self.scanned = end;
            self.stage = Stage::BulkHeader;
            self.args_missing -= 1;
            if self.args_missing == 0 {
                return Ok(DecodeStep::Request { used: end });
            }
        }
    }

    /// Returns true if an array that extends at least to `end` has just passed one of [`LARGE_BYTES`].
    #[cold]
    fn is_shown(&mut self, end: usize, input: &[u8]) -> bool {
        let passed = LARGE_BYTES.iter().filter(|&&bytes| end > bytes).count();
        let is_quotable = input.len() >= (end - 2).min(self.position + QUOTED_BYTES);
        let is_shown = passed > self.large && is_quotable;
        if is_shown {
            self.large = passed;
        }
        is_shown
    }

    /// Skips the arrived part of an array.
    #[cold]
    fn skipped(&mut self, input: &[u8], limits: &DecodeLimits) -> Result<DecodeStep, ProtocolError> {
        // Nothing of it is held, so it may have any size.
        let limits = DecodeLimits { request_bytes_max: usize::MAX, ..*limits };
        loop {
            if let Stage::SkipData { bytes } = self.stage {
                let there = bytes.min(input.len() - self.position);
                self.position += there;
                self.scanned = self.position;
                if there < bytes {
                    self.stage = Stage::SkipData { bytes: bytes - there };
                    return Ok(self.dropped());
                }
                self.stage = Stage::SkipHeader;
                self.args_missing -= 1;
                if self.args_missing == 0 {
                    return Ok(DecodeStep::Skipped { used: self.position });
                }
            }
            match self.bulk_header(input, &limits)? {
                Some(bytes) => self.stage = Stage::SkipData { bytes: bytes + 2 },
                None => return Ok(self.dropped()),
            }
        }
    }

    /// Releases the bytes that were skipped so far.
    fn dropped(&mut self) -> DecodeStep {
        let used = std::mem::take(&mut self.position);
        self.scanned -= used;
        if used == 0 { DecodeStep::Incomplete { wanted: 1 } } else { DecodeStep::Dropped { used } }
    }

    /// Returns the length of the bulk whose header begins at `position`, and moves `position` to its data.
    #[inline]
    fn bulk_header(&mut self, input: &[u8], limits: &DecodeLimits) -> Result<Option<usize>, ProtocolError> {
        let line = self.position;
        let Some(header) = self.header(input, limits, ProtocolError::TooBigBulkCount)? else { return Ok(None) };
        // Checked only when the line is complete, as in Redis.
        if input[line] != b'$' {
            return Err(ProtocolError::ExpectedDollar { got: input[line] });
        }
        let bytes = header.number.and_then(|number| usize::try_from(number).ok());
        let bytes = bytes.filter(|&bytes| bytes <= limits.bulk_bytes_max).ok_or(ProtocolError::InvalidBulkLength)?;
        let end = header.end.checked_add(bytes).and_then(|end| end.checked_add(2));
        if !limits.authenticated && end.is_none_or(|end| end > UNAUTHENTICATED_BYTES_MAX) {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        if end.is_none_or(|end| end > limits.request_bytes_max) {
            return Err(ProtocolError::RequestTooBig);
        }
        self.position = header.end;
        Ok(Some(bytes))
    }

    /// Returns the header line that begins at `position`, or `None` if its end has not arrived.
    #[inline]
    fn header(
        &mut self,
        input: &[u8],
        limits: &DecodeLimits,
        too_long: ProtocolError,
    ) -> Result<Option<LengthHeader>, ProtocolError> {
        // Fast path: nearly all headers have one or two digits.
        let line = self.position;
        let (number, end) = match input[line..] {
            [b'$' | b'*', ones @ b'0'..=b'9', b'\r', _, ..] => (Some(i64::from(ones - b'0')), line + 4),
            [b'$' | b'*', tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', _, ..] => {
                (Some(i64::from(tens - b'0') * 10 + i64::from(ones - b'0')), line + 5)
            }
            _ => {
                let Some(cr) = self.line_end(input, b'\r', limits, too_long)? else { return Ok(None) };
                // The byte after the CR must be present, and may be any.
                if cr + 2 > input.len() {
                    return if input.len() > limits.request_bytes_max {
                        Err(ProtocolError::RequestTooBig)
                    } else {
                        Ok(None)
                    };
                }
                // A line may be only its CR.
                (parse_integer(input.get(line + 1..cr).unwrap_or_default()), cr + 2)
            }
        };
        if end > limits.request_bytes_max {
            return Err(ProtocolError::RequestTooBig);
        }
        Ok(Some(LengthHeader { number, end }))
    }

    /// Parses an inline command: `PING\n`, `ECHO "two words"\r\n`.
    fn inline(&mut self, input: &[u8], limits: &DecodeLimits) -> Result<DecodeStep, ProtocolError> {
        let Some(newline) = self.line_end(input, b'\n', limits, ProtocolError::TooBigInline)? else {
            self.stage = Stage::Inline;
            return Ok(DecodeStep::Incomplete { wanted: 1 });
        };
        let used = newline + 1;
        if used > limits.request_bytes_max {
            return Err(ProtocolError::RequestTooBig);
        }
        // A CR in front of the line feed separates arguments as a space does.
        let line = &input[..newline];
        if line.iter().any(|&byte| matches!(byte, b'"' | b'\'')) {
            self.spans_in_side = true;
            split_quoted(line, &mut self.side, &mut self.spans)?;
        } else {
            split_plain(line, &mut self.spans);
        }
        Ok(if self.spans.is_empty() { DecodeStep::Skip { used } } else { DecodeStep::Request { used } })
    }

    /// Returns the end of the line that begins at `position`, or `None` if it has not arrived.
    ///
    /// A NUL hides everything behind it, as from Redis's `strchr`: the line continues until it is too long.
    fn line_end(
        &mut self,
        input: &[u8],
        end: u8,
        limits: &DecodeLimits,
        too_long: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let line = self.position;
        let line_bytes_max = if limits.authenticated { LINE_BYTES_MAX } else { UNAUTHENTICATED_BYTES_MAX };
        // Redis searches all bytes that it has read, up to 16 KiB more. This searches the same number of bytes, however
        // they arrived.
        let longest = line + line_bytes_max + 1;
        let window = &input[self.scanned..input.len().min(longest)];
        match window.iter().position(|&byte| byte == end || byte == 0) {
            Some(at) => {
                self.scanned += at;
                if window[at] == end {
                    return Ok(Some(self.scanned));
                }
            }
            None => self.scanned += window.len(),
        }
        // Both limits may be exceeded at once; the one that was exceeded first counts.
        if input.len() >= longest && longest <= limits.request_bytes_max {
            Err(too_long)
        } else if input.len() > limits.request_bytes_max {
            Err(ProtocolError::RequestTooBig)
        } else {
            Ok(None)
        }
    }
}

/// A parsed header line.
struct LengthHeader {
    /// The number; `None` if it is not an integer.
    number: Option<i64>,
    /// End of the line, exclusive.
    end: usize,
}

/// Position of an argument, as `start..end` in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// End, exclusive.
    pub end: usize,
}

/// The arguments of one request, the command's name first: a view without copies.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    bytes: &'a [u8],
    ranges: &'a [Span],
}

impl<'a> Args<'a> {
    /// Creates a view of the arguments at `ranges` of `bytes`.
    ///
    /// # Panics
    ///
    /// Does not panic itself. Reading an argument whose range is not within `bytes` panics.
    pub const fn new(bytes: &'a [u8], ranges: &'a [Span]) -> Args<'a> {
        Args { bytes, ranges }
    }

    /// Returns the number of arguments, the name included.
    #[inline]
    pub const fn len(self) -> usize {
        self.ranges.len()
    }

    /// Returns true if there is no argument, not even a name.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the argument at `index`; the name has 0.
    #[inline]
    pub fn get(self, index: usize) -> Option<&'a [u8]> {
        self.ranges.get(index).map(|span| &self.bytes[span.start..span.end])
    }

    /// Returns the command's name as it was sent; empty if there is none.
    #[inline]
    pub fn name(self) -> &'a [u8] {
        self.get(0).unwrap_or_default()
    }

    /// Returns the arguments from `index` on, as a request: `ACL DRYRUN` carries one.
    #[must_use]
    pub fn behind(self, index: usize) -> Args<'a> {
        Args { bytes: self.bytes, ranges: self.ranges.get(index..).unwrap_or_default() }
    }

    /// Returns the arguments before `index`.
    #[must_use]
    pub fn until(self, index: usize) -> Args<'a> {
        Args { bytes: self.bytes, ranges: self.ranges.get(..index).unwrap_or(self.ranges) }
    }

    /// Returns all arguments, the name first.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
        self.ranges.iter().map(move |span| &self.bytes[span.start..span.end])
    }
}

impl fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(String::from_utf8_lossy)).finish()
    }
}

/// Reason why bytes are not a request. `Display` is Redis's text behind `ERR `, safe for a log;
/// [`ProtocolError::write_reply`] writes the exact bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The number after `$` is not an integer, or it is negative or above `proto-max-bulk-len`.
    #[error("Protocol error: invalid bulk length")]
    InvalidBulkLength,
    /// The number after `*` is not an integer, or it is above [`DecodeLimits::args_max`].
    #[error("Protocol error: invalid multibulk length")]
    InvalidMultibulkLength,
    /// An argument of an array is not a bulk string but a nested array, an integer or anything else.
    #[error("Protocol error: expected '$', got '{}'", Printable(*got))]
    ExpectedDollar {
        /// The byte in the place of the `$`.
        got: u8,
    },
    /// An inline command's quotes don't close, or another character follows a closing quote.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// More than 64 KiB without an end of line.
    #[error("Protocol error: too big inline request")]
    TooBigInline,
    /// More than 64 KiB after `*` without an end of line.
    #[error("Protocol error: too big mbulk count string")]
    TooBigMultibulkCount,
    /// More than 64 KiB in the place of `$<bytes>` without an end of line.
    #[error("Protocol error: too big bulk count string")]
    TooBigBulkCount,
    /// More than 10 arguments before authentication.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedMultibulkLength,
    /// A request of more than 8 KiB before authentication.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// The request is larger than `client-query-buffer-limit`. Redis closes without an error.
    #[error("request is larger than client-query-buffer-limit")]
    RequestTooBig,
}

impl ProtocolError {
    /// Appends the reply that Redis sends before it closes the connection; nothing for
    /// [`ProtocolError::RequestTooBig`].
    pub fn write_reply(self, output: &mut Vec<u8>) {
        match self {
            ProtocolError::RequestTooBig => {}
            // Redis writes the byte unchanged.
            ProtocolError::ExpectedDollar { got } => {
                super::write_error(
                    [b"ERR Protocol error: expected '$', got '" as &[u8], &[got], b"'"].concat(),
                    output,
                );
            }
            _ => super::write_error(format!("ERR {self}"), output),
        }
    }
}

/// A byte from a client, escaped for a log.
struct Printable(u8);

impl fmt::Display for Printable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b' '..=b'~' => write!(f, "{}", char::from(self.0)),
            other => write!(f, "\\x{other:02x}"),
        }
    }
}

/// Parses an integer as Redis does (`string2ll`): digits with at most a `-` in front, and no leading zero. `-0` is
/// refused.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        b"0" => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !matches!(digits, [b'1'..=b'9', ..]) {
        return None;
    }
    // Counted downwards, since there is one more negative number.
    let mut number = 0i64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number.checked_mul(10)?.checked_sub(i64::from(digit - b'0'))?;
    }
    if negative { Some(number) } else { number.checked_neg() }
}

/// Returns true for a separator of arguments: C's `isspace`. (A vertical tab or form feed within an argument belongs to
/// it.)
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Returns true for a byte that ends an argument outside of quotes.
const fn is_end(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Splits a line without quotes.
fn split_plain(line: &[u8], spans: &mut Vec<Span>) {
    let mut rest = skip_space(line);
    while !rest.is_empty() {
        let start = line.len() - rest.len();
        let bytes = rest.iter().take_while(|&&byte| !is_end(byte)).count();
        spans.push(Span { start, end: start + bytes });
        rest = skip_space(&rest[bytes..]);
    }
}

/// Splits a line with quotes; the arguments, unquoted, go to `side`, which never grows beyond the line's length.
fn split_quoted(line: &[u8], side: &mut Vec<u8>, spans: &mut Vec<Span>) -> Result<(), ProtocolError> {
    let mut rest = line;
    loop {
        rest = skip_space(rest);
        if rest.is_empty() {
            return Ok(());
        }
        let start = side.len();
        rest = loop {
            match rest {
                [] => break rest,
                [byte, tail @ ..] if is_end(*byte) => break tail,
                [b'"', tail @ ..] => break closed(double_quoted(tail, side)?)?,
                [b'\'', tail @ ..] => break closed(single_quoted(tail, side)?)?,
                [byte, tail @ ..] => {
                    side.push(*byte);
                    rest = tail;
                }
            }
        };
        spans.push(Span { start, end: side.len() });
    }
}

/// Unquotes what follows a `"` and returns what is behind the closing one, which is required.
fn double_quoted<'a>(mut rest: &'a [u8], side: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'"', tail @ ..] => return Ok(tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex_digit(*high) << 4 | hex_digit(*low), tail)
            }
            [b'\\', b'n', tail @ ..] => (b'\n', tail),
            [b'\\', b'r', tail @ ..] => (b'\r', tail),
            [b'\\', b't', tail @ ..] => (b'\t', tail),
            [b'\\', b'b', tail @ ..] => (0x08, tail),
            [b'\\', b'a', tail @ ..] => (0x07, tail),
            [b'\\', byte, tail @ ..] | [byte, tail @ ..] => (*byte, tail),
        };
        side.push(byte);
        rest = tail;
    }
}

/// Unquotes what follows a `'`, where only `\'` is special, and returns what is behind the closing one.
fn single_quoted<'a>(mut rest: &'a [u8], side: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'\'', tail @ ..] => return Ok(tail),
            [b'\\', b'\'', tail @ ..] => (b'\'', tail),
            [byte, tail @ ..] => (*byte, tail),
        };
        side.push(byte);
        rest = tail;
    }
}

/// Returns the rest behind a closing quote, which must be followed by a space or the end.
fn closed(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest {
        [byte, ..] if !is_space(*byte) => Err(ProtocolError::UnbalancedQuotes),
        rest => Ok(rest),
    }
}

fn skip_space(line: &[u8]) -> &[u8] {
    &line[line.iter().take_while(|&&byte| is_space(byte)).count()..]
}

/// Returns the value of an ASCII hexadecimal digit.
const fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
