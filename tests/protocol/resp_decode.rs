//! Properties of the request decoder for every input: no byte is lost or read twice, cuts do not matter, and memory
//! follows the received bytes, not the declared ones.

use getid_redis::resp::{Args, DecodeLimits, DecodeStep, Decoder, ProtocolError, Span, parse_integer};
use nix::time::{ClockId, clock_gettime};
use proptest::prelude::*;

/// The result of decoding an input.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    requests: Vec<Vec<Vec<u8>>>,
    used: usize,
    error: Option<ProtocolError>,
    /// Large requests as shown before they were complete: bytes, declared arguments, arguments so far.
    large: Vec<(usize, usize, Vec<Vec<u8>>)>,
}

/// Decodes `input`, which arrives up to each of `cuts` and then whole. Asserts the invariants on the way.
fn outcome(input: &[u8], cuts: &[usize], limits: &DecodeLimits) -> Outcome {
    outcome_without(&|_| false, input, cuts, limits)
}

/// Decodes `input` as [`outcome`] does, and skips large requests whose size satisfies `is_unwanted`. Skipped requests
/// are not in the result.
fn outcome_without(
    is_unwanted: &dyn Fn(usize) -> bool,
    input: &[u8],
    cuts: &[usize],
    limits: &DecodeLimits,
) -> Outcome {
    let mut decoder = Decoder::default();
    let mut is_skipping = false;
    let mut outcome = Outcome::default();
    for &cut in cuts.iter().chain([&input.len()]) {
        loop {
            let rest = &input[outcome.used..cut.max(outcome.used)];
            let step = decoder.decode(rest, limits);
            assert!(
                decoder.memory_bytes() <= MEMORY_KEPT_BYTES + 16 * rest.len(),
                "{} bytes of memory for {} of input",
                decoder.memory_bytes(),
                rest.len()
            );
            let used = match step {
                Ok(DecodeStep::Incomplete { wanted }) => {
                    assert!(wanted > 0);
                    assert!(rest.len() <= limits.request_bytes_max, "held {} bytes back", rest.len());
                    assert_eq!(decoder.is_between_requests(), rest.is_empty() && !is_skipping);
                    break;
                }
                Ok(DecodeStep::Large { bytes }) => {
                    let mut args: Vec<Vec<u8>> = decoder.args(rest).iter().map(<[u8]>::to_vec).collect();
                    // The first 128 bytes, which error texts quote, are always there; more depends on the cut.
                    args.last_mut().expect("it has a name").truncate(128);
                    outcome.large.push((bytes, decoder.args_declared(), args));
                    if is_unwanted(bytes) {
                        is_skipping = true;
                        decoder.skip();
                        assert_eq!(decoder.memory_bytes(), 0);
                    }
                    continue;
                }
                Ok(DecodeStep::Dropped { used }) => {
                    assert!(is_skipping && (1..=rest.len()).contains(&used));
                    outcome.used += used;
                    continue;
                }
                Ok(DecodeStep::Skipped { used }) => {
                    assert!(is_skipping);
                    is_skipping = false;
                    used
                }
                Ok(DecodeStep::Skip { used }) => used,
                Ok(DecodeStep::Request { used }) => {
                    let args = decoder.args(rest);
                    assert!(!args.is_empty());
                    assert_eq!(args.iter().len(), args.len());
                    assert_eq!(args.get(args.len()), None);
                    assert_eq!(args.get(0), Some(args.name()));
                    outcome.requests.push(args.iter().map(<[u8]>::to_vec).collect());
                    used
                }
                Err(error) => {
                    outcome.error = Some(error);
                    return outcome;
                }
            };
            assert!(decoder.is_between_requests());
            assert!((1..=rest.len()).contains(&used), "used {used} of {}", rest.len());
            outcome.used += used;
        }
    }
    outcome
}

/// Memory that a decoder may keep between requests, and the minimum size of a list.
const MEMORY_KEPT_BYTES: usize = 32 * 1024 + 64;

fn array(args: &[Vec<u8>]) -> Vec<u8> {
    let mut output = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        output.extend(format!("${}\r\n", arg.len()).into_bytes());
        output.extend(arg);
        output.extend(b"\r\n");
    }
    output
}

/// Encodes in double quotes, every byte by its digits or itself; or in single quotes where these suffice.
fn inline(args: &[Vec<u8>]) -> Vec<u8> {
    let mut output = Vec::new();
    for (index, arg) in args.iter().enumerate() {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric();
        if !arg.is_empty() && arg.iter().all(plain) {
            output.extend(arg);
        } else if index % 2 == 1 && !arg.iter().any(|byte| matches!(byte, b'\n' | b'\\' | 0)) {
            output.push(b'\'');
            for &byte in arg {
                output.extend(if byte == b'\'' { &b"\\'"[..] } else { &[] });
                output.extend((byte != b'\'').then_some(byte));
            }
            output.push(b'\'');
        } else {
            let quoted =
                arg.iter().map(|byte| if plain(byte) { char::from(*byte).into() } else { format!("\\x{byte:02x}") });
            output.extend(format!("\"{}\"", quoted.collect::<String>()).into_bytes());
        }
        output.extend(if index % 3 == 0 { &b" "[..] } else { b" \t " });
    }
    output.extend(b"\r\n");
    output
}

fn any_args() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop_oneof![
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..6),
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..1500), 1..3),
        prop::collection::vec("[a-zA-Z' \"\\\\]{0,12}".prop_map(String::into_bytes), 1..40),
    ]
}

/// Bytes that resemble the protocol often enough to get far.
fn any_noise() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "*1\r\n", "*2\r\n", "*3\r\n", "$0\r\n\r\n", "$4\r\nPING\r\n", "$12\r\n", "$1\r\na\r\n", "\r\n", "\n", "\r", "*", "$", "1", "0",
            "-", "*-1\r\n", "*0\r\n", "PING\r\n", "ECHO 'a b'\r\n", "ECHO \"a\\x41\"\n", "'", "\"", "\\", " ", "*11\r\n", "$40\r\n",
            "*007\r\n", "*10\r\n", "*9999999999\r\n",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

fn any_limits() -> impl Strategy<Value = DecodeLimits> {
    (any::<bool>(), 1usize..60, 1usize..14, any::<bool>(), 1usize..120).prop_map(
        |(default, bulk_bytes_max, args_max, authenticated, request_bytes_max)| {
            if default {
                DecodeLimits { authenticated, ..DecodeLimits::default() }
            } else {
                DecodeLimits { bulk_bytes_max, args_max, authenticated, request_bytes_max }
            }
        },
    )
}

fn sorted(mut cuts: Vec<prop::sample::Index>, len: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> = cuts.drain(..).map(|cut| cut.index(len + 1)).collect();
    cuts.sort_unstable();
    cuts
}

proptest! {
    #![proptest_config(crate::cases(200))]

    #[test]
    fn requests_come_out_as_they_went_in(
        requests in prop::collection::vec((any_args(), any::<bool>()), 1..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let input: Vec<u8> =
            requests.iter().flat_map(|(args, is_array)| if *is_array { array(args) } else { inline(args) }).collect();
        let found = outcome(&input, &sorted(cuts, input.len()), &DecodeLimits::default());
        let sent: Vec<_> = requests.into_iter().map(|(args, _)| args).collect();
        prop_assert_eq!(found, Outcome { requests: sent, used: input.len(), ..Outcome::default() });
    }

    #[test]
    fn noise_is_read_the_same_however_it_is_cut(
        input in any_noise(),
        limits in any_limits(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let whole = outcome(&input, &[], &limits);
        prop_assert_eq!(&whole, &outcome(&input, &sorted(cuts, input.len()), &limits));
        let all: Vec<usize> = (0..input.len()).collect();
        prop_assert_eq!(&whole, &outcome(&input, &all, &limits));
    }

    #[test]
    fn random_bytes_are_only_read(input in prop::collection::vec(any::<u8>(), 0..300), limits in any_limits()) {
        outcome(&input, &[], &limits);
    }

    #[test]
    fn integers_are_those_that_print_alike(text in "[-+ ]?[0-9]{0,21}") {
        let alike = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
        prop_assert_eq!(parse_integer(text.as_bytes()), alike);
    }
}

#[test]
fn integers_at_the_edges() {
    for number in [0, 1, -1, 9, 10, i64::MAX, i64::MIN] {
        assert_eq!(parse_integer(number.to_string().as_bytes()), Some(number));
    }
    for text in [
        "",
        "-",
        "-0",
        "00",
        "01",
        "+1",
        " 1",
        "1 ",
        "1.0",
        "0x1",
        "1\0",
        "9223372036854775808",
        "-9223372036854775809",
    ] {
        assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn every_cut_of_a_pipeline_gives_the_same_requests() {
    let input = b"*1\r\n$5\r\nGETID\r\n\r\nMGETID 3\n*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n*0\r\nECHO \"a \\x00b\" 'c'\r\n*-1\r\n*1\r\n$4\r\nPING\r\n*1\r\n:";
    let limits = DecodeLimits::default();
    let whole = outcome(input, &[], &limits);
    assert_eq!(whole.requests.len(), 5);
    assert_eq!(whole.requests[3], [&b"ECHO"[..], b"a \0b", b"c"]);
    for first in 0..=input.len() {
        for second in first..=input.len() {
            assert_eq!(outcome(input, &[first, second], &limits), whole, "cut at {first} and {second}");
        }
    }
}

#[test]
fn declared_lengths_take_no_memory() {
    let mut decoder = Decoder::default();
    let limits = DecodeLimits::default();
    let incomplete = decoder.decode(b"*1048576\r\n$536870912\r\n", &limits);
    assert_eq!(incomplete, Ok(DecodeStep::Incomplete { wanted: 536_870_914 }));
    assert_eq!(decoder.memory_bytes(), 0);
}

/// Large requests between small ones, cut anywhere: each is shown by its bytes alone, and accepted or skipped whole.
#[test]
fn refused_requests_are_skipped_however_they_are_cut() {
    let small = array(&[b"PING".to_vec()]);
    let one = array(&[b"ECHO".to_vec(), vec![b'x'; 100_000]]);
    let many = array(&vec![b"abcde".to_vec(); 3_000]);
    let some = array(&[b"A".to_vec(), vec![b'y'; 20_000], vec![b'z'; 100], vec![b'z'; 60_000]]);
    let input = [&small[..], &one, &small, &many, &some, &small].concat();
    let limits = DecodeLimits::default();
    let mut cuts: Vec<Vec<usize>> = vec![vec![], (0..input.len()).step_by(1000).collect()];
    cuts.extend([1, 7, 14, 28, 40, 160, 16_000, 16_500].map(|at| vec![at, at + 1, at + 100_000, input.len() - at]));
    let taken = outcome(&input, &[], &limits);
    assert_eq!((taken.requests.len(), taken.used), (6, input.len()));
    // At 16 KiB and at 64 KiB; by the number of arguments if they are small and many.
    let sizes: Vec<_> = taken.large.iter().map(|(bytes, len, args)| (*bytes, *len, args.len())).collect();
    assert_eq!(
        sizes,
        [(100_025, 2, 2), (16_386, 3_000, 1_489), (20_021, 4, 2), (80_139, 4, 4)],
        "an array is shown once at each size"
    );
    let left = outcome_without(&|_| true, &input, &[], &limits);
    assert_eq!((left.requests, left.used), (vec![vec![b"PING".to_vec()]; 3], input.len()));
    let late = outcome_without(&|bytes| bytes > 64 << 10, &input, &[], &limits);
    assert_eq!((late.requests.len(), late.used), (4, input.len()));
    for cuts in cuts {
        assert_eq!(outcome(&input, &cuts, &limits), taken, "{:?}", &cuts[..cuts.len().min(4)]);
        assert_eq!(outcome_without(&|_| true, &input, &cuts, &limits).used, input.len());
        let late_too = outcome_without(&|bytes| bytes > 64 << 10, &input, &cuts, &limits);
        assert_eq!(late_too, late);
    }
    // A skipped request may have any size, but must be well-formed.
    let limits = DecodeLimits { request_bytes_max: 50_000, ..limits };
    let wide = array(&vec![vec![b'x'; 20_000]; 10]);
    assert_eq!(outcome(&wide, &[], &limits).error, Some(ProtocolError::RequestTooBig));
    assert_eq!(outcome_without(&|_| true, &wide, &[], &limits).used, wide.len());
    let broken = [&wide[..wide.len() - 20_010], b":1\r\n"].concat();
    let error = outcome_without(&|_| true, &broken, &[30_000], &limits).error;
    assert_eq!(error, Some(ProtocolError::ExpectedDollar { got: b':' }));
}

#[test]
fn memory_of_a_large_request_is_given_back() {
    let mut decoder = Decoder::default();
    let limits = DecodeLimits::default();
    let small = b"*1\r\n$4\r\nPING\r\n";
    let many = array(&vec![b"x".to_vec(); 100_000]);
    assert_eq!(decoder.decode(&many, &limits).map(is_large), Ok(true));
    assert_eq!(decoder.decode(&many, &limits).map(is_large), Ok(true));
    assert_eq!(decoder.decode(&many, &limits), Ok(DecodeStep::Request { used: many.len() }));
    assert!(decoder.memory_bytes() >= 100_000 * size_of::<Span>());
    let quoted = [b"ECHO \"", &b"x".repeat(60_000)[..], b"\"\r\n"].concat();
    assert_eq!(decoder.decode(&quoted, &limits), Ok(DecodeStep::Request { used: quoted.len() }));
    assert_eq!(decoder.decode(small, &limits), Ok(DecodeStep::Request { used: small.len() }));
    assert!(decoder.memory_bytes() <= MEMORY_KEPT_BYTES, "{}", decoder.memory_bytes());

    // In the middle of a request no memory can be released.
    assert_eq!(decoder.decode(&small[..8], &limits), Ok(DecodeStep::Incomplete { wanted: 6 }));
    decoder.release_memory();
    assert!(!decoder.is_between_requests());
    assert_eq!(decoder.decode(small, &limits), Ok(DecodeStep::Request { used: small.len() }));
    decoder.release_memory();
    assert_eq!(decoder.memory_bytes(), 0);
}

fn is_large(decoded: DecodeStep) -> bool {
    matches!(decoded, DecodeStep::Large { .. })
}

#[test]
fn a_warm_decoder_takes_no_more_memory() {
    let mut decoder = Decoder::default();
    let limits = DecodeLimits::default();
    let requests: [&[u8]; 3] = [b"*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n", b"ECHO \"a b\"\r\n", b"GETID\r\n"];
    let mut round = || {
        for request in requests {
            assert_eq!(decoder.decode(request, &limits), Ok(DecodeStep::Request { used: request.len() }));
        }
        decoder.memory_bytes()
    };
    let warm = round();
    assert!((0..1000).all(|_| round() == warm));
}

#[test]
fn a_line_that_arrives_byte_by_byte_is_searched_once() {
    // If each call searched all bytes of 64 KiB again, that would be two billion steps.
    let line = b"x".repeat(64 * 1024);
    for start in ["", "*", "*1\r\n$"] {
        let input = [start.as_bytes(), &line].concat();
        let cuts: Vec<usize> = (0..input.len()).collect();
        // CPU time of this thread, so that stalls do not count.
        let cpu_s = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock").tv_sec();
        let started = cpu_s();
        assert!(outcome(&input, &cuts, &DecodeLimits::default()).requests.is_empty());
        assert!(cpu_s() - started < 5, "took {} s", cpu_s() - started);
    }
}

/// A line can exceed both the bound of lines and that of requests.
#[test]
fn the_limit_that_is_passed_first_counts() {
    let line = b"x".repeat(70_000);
    for (request_bytes_max, error) in [
        (65_536, ProtocolError::RequestTooBig),
        (65_537, ProtocolError::TooBigInline),
        (1 << 20, ProtocolError::TooBigInline),
    ] {
        let limits = DecodeLimits { request_bytes_max, ..DecodeLimits::default() };
        for cuts in [&[][..], &[65_536], &[65_537], &[65_538]] {
            assert_eq!(outcome(&line, cuts, &limits).error, Some(error), "{request_bytes_max} {cuts:?}");
        }
    }
}

#[test]
fn errors_get_replies_except_the_last_kind() {
    let reply = |error: ProtocolError| {
        let mut output = Vec::new();
        error.write_reply(&mut output);
        output
    };
    assert_eq!(reply(ProtocolError::InvalidBulkLength), b"-ERR Protocol error: invalid bulk length\r\n");
    assert_eq!(
        reply(ProtocolError::ExpectedDollar { got: 0xff }),
        b"-ERR Protocol error: expected '$', got '\\xff'\r\n"
    );
    assert_eq!(ProtocolError::ExpectedDollar { got: 0xff }.to_string(), "Protocol error: expected '$', got '\\xff'");
    assert_eq!(ProtocolError::ExpectedDollar { got: b'*' }.to_string(), "Protocol error: expected '$', got '*'");
    assert_eq!(reply(ProtocolError::RequestTooBig), b"");
}

#[test]
fn a_decoder_starts_again_after_an_error() {
    let mut decoder = Decoder::default();
    let limits = DecodeLimits::default();
    assert_eq!(decoder.decode(b"*2\r\n$4\r\nPING\r\n:", &limits), Ok(DecodeStep::Incomplete { wanted: 1 }));
    assert!(decoder.decode(b"*2\r\n$4\r\nPING\r\n:1\r\n", &limits).is_err());
    assert_eq!(decoder.decode(b"PING\n", &limits), Ok(DecodeStep::Request { used: 5 }));
    assert_eq!(decoder.args(b"PING\n").name(), b"PING");
}

#[test]
fn args_can_be_made_of_any_ranges() {
    let ranges = [Span { start: 0, end: 4 }, Span { start: 5, end: 5 }];
    let args = Args::new(b"ECHO x", &ranges);
    assert_eq!(args.name(), b"ECHO");
    assert_eq!(args.iter().collect::<Vec<_>>(), [&b"ECHO"[..], b""]);
    assert_eq!(Args::new(b"", &[]).name(), b"");
    assert_eq!(format!("{args:?}"), r#"["ECHO", ""]"#);
}
