//! Malformed and odd input gets the replies of Redis 7.0, byte for byte, and closes the connection when Redis does.
//!
//! The table in `tests/protocol/table/` runs against the decoder and, in the ignored test, against a real
//! `redis-server`, which proves the table right. The commands do not matter here, so a dozen lines below play `PING`,
//! `ECHO` and `AUTH`, which the table proves too.

use std::time::Duration;

use getid_redis::resp::{Args, DecodeLimits, DecodeStep, Decoder, write_bulk, write_error};

use crate::support::redis::RedisServer;
use crate::support::talk;
use crate::table::{Outcome, Row, Server, rows};

/// Time without further bytes after the last reply of Redis.
const SILENCE: Duration = Duration::from_millis(40);

#[test]
fn the_decoder_answers_as_in_the_table() {
    let rows = rows();
    assert!(rows.len() >= 60, "the table has shrunk to {} rows", rows.len());
    for row in &rows {
        check(row, row.input.chunks(16 * 1024));
        check(row, row.input.chunks(1));
        if row.input.len() <= 300 {
            for cut in 0..=row.input.len() {
                check(row, <[_; 2]>::from(row.input.split_at(cut)).into_iter());
            }
        }
    }
}

#[test]
fn every_difference_from_redis_has_its_reason() {
    for row in rows() {
        if let Some((redis, why)) = &row.redis {
            assert!(!why.is_empty(), "{} {}: why", row.place, row.name);
            assert_ne!(*redis, row.outcome, "{} {}: no difference", row.place, row.name);
        }
    }
}

/// Asserts that the row's input, arriving in `pieces`, has the row's outcome.
fn check<'a>(row: &Row, pieces: impl ExactSizeIterator<Item = &'a [u8]>) {
    let mut player = Player::new(row.server);
    let count = pieces.len();
    for bytes in pieces {
        player.read(bytes);
    }
    let outcome = Outcome { reply: player.output, closes: player.closed };
    assert_eq!(outcome, row.outcome, "{} {}, in {count} pieces", row.place, row.name);
}

/// A server's connection, as far as the table needs one.
struct Player {
    decoder: Decoder,
    limits: DecodeLimits,
    /// Received bytes. Those from `used` on belong to no request yet.
    input: Vec<u8>,
    used: usize,
    output: Vec<u8>,
    closed: bool,
    /// The reply to the request that is skipped.
    refused: Vec<u8>,
}

impl Player {
    fn new(server: Server) -> Player {
        let plain = DecodeLimits::default();
        let limits = match server {
            Server::Plain => plain,
            Server::Password => DecodeLimits { authenticated: false, ..plain },
            Server::Small => DecodeLimits { bulk_bytes_max: 1 << 20, request_bytes_max: 1 << 20, ..plain },
        };
        Player {
            decoder: Decoder::default(),
            limits,
            input: Vec::new(),
            used: 0,
            output: Vec::new(),
            closed: false,
            refused: Vec::new(),
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        while !self.closed {
            let input = &self.input[self.used..];
            match self.decoder.decode(input, &self.limits) {
                Ok(DecodeStep::Incomplete { wanted }) => {
                    assert!(wanted > 0);
                    return;
                }
                Ok(DecodeStep::Skip { used } | DecodeStep::Dropped { used }) => self.used += used,
                Ok(DecodeStep::Large { .. }) => {
                    // Only the number of arguments can be wrong in a large request here.
                    let args = self.decoder.args(input);
                    let len = self.decoder.args_declared();
                    if args.name().eq_ignore_ascii_case(b"echo") && len != 2 {
                        self.refused.clear();
                        write_error("ERR wrong number of arguments for 'echo' command", &mut self.refused);
                        self.decoder.skip();
                    }
                }
                Ok(DecodeStep::Skipped { used }) => {
                    self.used += used;
                    self.output.extend_from_slice(&self.refused);
                }
                Ok(DecodeStep::Request { used }) => {
                    let args = self.decoder.args(input);
                    let authenticated = answer(args, self.limits.authenticated, &mut self.output);
                    self.limits.authenticated = authenticated;
                    self.used += used;
                }
                Err(error) => {
                    error.write_reply(&mut self.output);
                    self.closed = true;
                }
            }
        }
    }
}

/// Replies to the few commands of the table. Returns true if the client is authenticated afterwards.
fn answer(args: Args<'_>, authenticated: bool, output: &mut Vec<u8>) -> bool {
    let name = args.name().to_ascii_lowercase();
    let arity = match &name[..] {
        b"ping" => 1..=2,
        b"echo" => 2..=2,
        b"auth" => 2..=3,
        _ => {
            write_error(unknown_command(args), output);
            return authenticated;
        }
    };
    if !arity.contains(&args.len()) {
        let name = String::from_utf8_lossy(&name);
        write_error(format!("ERR wrong number of arguments for '{name}' command"), output);
    } else if name == b"auth" {
        assert_eq!(args.get(1), Some(&b"secret"[..]), "the table knows no wrong password");
        output.extend_from_slice(b"+OK\r\n");
        return true;
    } else if !authenticated {
        write_error("NOAUTH Authentication required.", output);
    } else if let Some(text) = args.get(1) {
        write_bulk(text, output);
    } else {
        output.extend_from_slice(b"+PONG\r\n");
    }
    authenticated
}

/// Redis prints with `%.128s`, so a NUL ends a text.
fn unknown_command(args: Args<'_>) -> Vec<u8> {
    let printed = |text: &[u8], bytes_max: usize| {
        text.iter().copied().take(bytes_max).take_while(|&byte| byte != 0).collect::<Vec<u8>>()
    };
    let mut quoted = Vec::new();
    for argument in args.iter().skip(1) {
        if quoted.len() >= 128 {
            break;
        }
        let text = printed(argument, 128 - quoted.len());
        quoted.extend([b"'", &text[..], b"' "].concat());
    }
    let name = printed(args.name(), 128);
    [b"ERR unknown command '", &name[..], b"', with args beginning with: ", &quoted].concat()
}

#[test]
#[ignore = "needs redis-server"]
fn redis_answers_as_in_the_table() {
    let plain = RedisServer::start(&[]);
    let password = RedisServer::start(&["--requirepass", "secret"]);
    let small = RedisServer::start(&["--client-query-buffer-limit", "1mb", "--proto-max-bulk-len", "1mb"]);
    let mut differences = Vec::new();
    for row in rows() {
        let redis = match row.server {
            Server::Plain => &plain,
            Server::Password => &password,
            Server::Small => &small,
        };
        let expected = row.redis.as_ref().map_or(&row.outcome, |(outcome, _)| outcome);
        // In one piece, and byte by byte if that is quick.
        let pieces: &[usize] = if row.input.len() <= 100 { &[usize::MAX, 1] } else { &[usize::MAX] };
        for &piece in pieces {
            let found = {
                let (reply, closes) =
                    talk(redis.port, &row.input, piece, (expected.reply.len(), expected.closes), SILENCE);
                Outcome { reply, closes }
            };
            if found != *expected {
                differences
                    .push(format!("{} {} ({piece})\n  table {expected:?}\n  redis {found:?}", row.place, row.name));
            }
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}
