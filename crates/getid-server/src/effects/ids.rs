//! Commands about IDs that need the clock or the issuer.

use std::sync::Arc;

use getid_core::Refusal;
use getid_core::server::{CounterDeclaration, CounterKind, ReleasedNumbers};

use super::EffectReply;
use super::chunks::Items;
use crate::Server;
use crate::error_replies::of_standby;
use getid_engine::generators::NamedStatus;
use getid_redis::command::{self, IdEncoding};
use getid_redis::resp::{ErrorKind, ErrorReply, Value};
use getid_redis::session::{IdsEffect, Settings};
use getid_seal::Sealers;
use getid_system::clock::Clock as _;
use getid_text::timestamp;

pub(super) fn perform(server: &Server, effect: IdsEffect) -> EffectReply {
    let layout = server.issuer().identity().layout;
    let now_ms = || server.issuer().clock().wall_unix_ms();
    EffectReply::Value(match effect {
        IdsEffect::Decode(readings) => command::describe_any_id(layout, &readings, now_ms()),
        IdsEffect::DecodeNamed(id) => command::describe_named_id(&id, now_ms()),
        IdsEffect::Encode(encoding) => encode(server, &encoding, now_ms()),
        IdsEffect::Generators => return generators(server.named_generators(), &server.settings.get()),
        IdsEffect::Ready { shows_reasons } => ready(server, shows_reasons),
        IdsEffect::Span(times) => command::describe_span(layout, times, now_ms()),
        IdsEffect::SpanNamed { generator, times } => command::describe_named_span(&generator, times, now_ms()),
    })
}

/// Answers the ID of a time. Without a record of earlier lives any ID may have been given.
fn encode(server: &Server, encoding: &IdEncoding, now_unix_ms: i64) -> Value {
    if !encoding.is_unique() {
        return encoding.reply(now_unix_ms, None);
    }
    if let Some(refusal) = server.generators.standby_refusal() {
        return Value::Error(of_standby(&refusal));
    }
    match server.issuer().given_since(encoding.name()) {
        Ok(since) => encoding.reply(now_unix_ms, since.filter(|_| server.config.get().keeps_record())),
        Err(refusal) => Value::error(&refusal),
    }
}

/// A generator in the answer of `GENERATORS`.
enum ListedGenerator {
    Named(NamedStatus),
    Counter(Arc<CounterDeclaration>),
}

/// Answers a map for each; fields that a kind without time lacks are null.
fn generators(named: Vec<NamedStatus>, settings: &Settings) -> EffectReply {
    let sealers = settings.sealers.clone();
    let counters = settings.counters.iter().cloned().map(ListedGenerator::Counter);
    let all: Vec<_> = named.into_iter().map(ListedGenerator::Named).chain(counters).collect();
    let held_bytes = all.len() * size_of::<ListedGenerator>();
    let describe = move |listed| match listed {
        ListedGenerator::Named(own) => describe(&own, &sealers),
        ListedGenerator::Counter(own) => describe_counter(&own, &sealers),
    };
    EffectReply::Chunks(Box::new(Items::new(all.into_iter().map(describe), held_bytes)))
}

/// Returns a counter with the keys of other generators; fields of clocks are null. `SEQUENCE INFO` has the state of its
/// sequence.
fn describe_counter(own: &CounterDeclaration, sealers: &Sealers) -> Value {
    let (layout, format) = match own.kind() {
        CounterKind::Sequence(None) => (Value::Null, Value::Null),
        CounterKind::Sequence(Some(format)) => {
            (Value::Null, Value::bulk(format.to_string().split_off("format ".len())))
        }
        CounterKind::Serial(serial) => {
            let zone = serial.zone.as_deref().map_or_else(String::new, |zone| format!(" zone {zone}"));
            let overflow = if serial.grows { " overflow grow" } else { "" };
            let fiscal: Vec<_> = serial.fiscal_options().map(|(option, value)| format!(" {option} {value}")).collect();
            let fiscal = fiscal.concat();
            let ledger = match serial.gapless {
                None => "",
                Some(ReleasedNumbers::Reused) => " gapless",
                Some(ReleasedNumbers::Void) => " gapless released void",
            };
            let format = format!("reset {}{fiscal}{zone}{overflow}{ledger}", serial.reset.word());
            (Value::from(serial.template.text()), Value::bulk(format))
        }
    };
    Value::map([
        ("name", Value::from(own.name())),
        ("kind", Value::from(own.word())),
        ("layout", layout),
        ("format", format),
        ("epoch", Value::Null),
        ("capacity_per_sec", Value::Null),
        ("ends", Value::Null),
        ("position", Value::Null),
        ("ahead_ms", Value::Integer(0)),
        ("refusing", Value::from("no")),
        ("evenness", Value::Null),
        ("seal", answer_of(own.name(), sealers)),
    ])
}

/// Returns what a sealed generator answers with, in the words of its option `answer`; null if it is not sealed.
fn answer_of(name: &str, sealers: &Sealers) -> Value {
    let sealer = sealers.find(name.as_bytes());
    sealer.map_or(Value::Null, |sealer| Value::from(if sealer.answers_sealed() { "sealed" } else { "integer" }))
}

fn describe(own: &NamedStatus, sealers: &Sealers) -> Value {
    let declaration = own.generator.declaration();
    let layout = declaration.layout();
    let number = |number: u64| Value::Integer(number.try_into().unwrap_or(i64::MAX));
    let or_null = |value: Option<Value>| value.unwrap_or(Value::Null);
    let time = |unix_ms: i64| Value::bulk(timestamp::format_rfc3339(unix_ms));
    Value::map([
        ("name", Value::from(declaration.name())),
        ("kind", Value::from(declaration.kind().word)),
        ("layout", Value::bulk(layout.to_string())),
        ("format", or_null(declaration.written_as().map(Value::bulk))),
        ("epoch", or_null(layout.has_time().then(|| time(layout.epoch_unix_ms())))),
        ("capacity_per_sec", or_null(own.generator.capacity_per_s().map(number))),
        ("ends", or_null(declaration.ends_unix_ms().map(time))),
        ("position", or_null(own.position_unix_ms.map(time))),
        ("ahead_ms", number(own.ahead_ms)),
        ("refusing", Value::bulk(own.refusing.as_ref().map_or_else(|| "no".to_owned(), ToString::to_string))),
        ("evenness", or_null(declaration.quiet_evenness(None).map(|evenness| Value::bulk(evenness.to_string())))),
        ("seal", answer_of(declaration.name(), sealers)),
    ])
}

/// Answers whether IDs are given. At the borrow limit they are, though not to all clients at once: a load balancer that
/// removed such a server would remove one after the other.
fn ready(server: &Server, shows_reasons: bool) -> Value {
    match server.generators.standby_refusal() {
        Some(refusal) if shows_reasons => return Value::Error(of_standby(&refusal)),
        Some(_) => return Value::Error(HIDDEN_STANDBY),
        None => {}
    }
    match server.issuer().refusing().filter(|refusal| !refusal.is_overload()) {
        None => Value::Simple("READY".into()),
        Some(refusal) if shows_reasons => Value::error(&refusal),
        Some(Refusal::Closed) => Value::Error(HIDDEN_STOP),
        Some(_) => Value::Error(HIDDEN_REFUSAL),
    }
}

/// Errors of `IDREADY` to a client that has not logged in.
const HIDDEN_STANDBY: ErrorReply =
    ErrorReply::fixed(ErrorKind::Standby, "LOADING this server is a standby; log in to see the reason");
const HIDDEN_STOP: ErrorReply = ErrorReply::fixed(ErrorKind::Unavailable, "ERR no ids are given now");
const HIDDEN_REFUSAL: ErrorReply =
    ErrorReply::fixed(ErrorKind::Unavailable, "MISCONF no ids are given now; log in to see the reason");

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use getid_core::{Declaration, NamedGenerator, no_dates};

    use super::*;
    use getid_redis::resp::{self, Protocol};

    fn own(text: &str, position_unix_ms: Option<i64>, refusing: Option<Refusal>) -> NamedStatus {
        let words: Vec<_> = text.split(' ').collect();
        let declaration = Declaration::parse(&words, no_dates).expect(text);
        let generator = Arc::new(NamedGenerator::new(declaration, 0, None).expect(text));
        let (issued, waited, refused, asked_per_s) = (0, 0, 0, 0);
        let ahead_ms = 12;
        NamedStatus { generator, issued, waited, refused, asked_per_s, ahead_ms, position_unix_ms, refusing }
    }

    /// Returns the description of `orders js53`.
    fn orders() -> Value {
        Value::map([
            ("name", Value::from("orders")),
            ("kind", Value::from("js53")),
            ("layout", Value::from("time:41@1ms server-id:3 counter:9")),
            ("format", Value::Null),
            ("epoch", Value::from("2014-12-31T16:00:00.000Z")),
            ("capacity_per_sec", Value::Integer(512_000)),
            ("ends", Value::from("2084-09-06T07:47:35.552Z")),
            ("position", Value::Null),
            ("ahead_ms", Value::Integer(12)),
            ("refusing", Value::from("no")),
            (
                "evenness",
                Value::from(
                    "even with counter-start 0..511 up to id % 512; 'server-id' is equal in all of a server's IDs",
                ),
            ),
            ("seal", Value::from("sealed")),
        ])
    }

    #[test]
    fn generators_are_described() {
        let all = vec![
            own("tweets twitter format base62", Some(1_700_000_000_000), Some(Refusal::SaveTimeout)),
            own("trace uuid4", None, None),
            own("orders js53", None, None),
        ];
        let keys = getid_seal::SealKeys::parse(format!("0 {}", "00".repeat(32)).as_bytes()).unwrap();
        let sealer = getid_seal::Sealer::new(keys, "orders", getid_core::Alphabet::parse("base58").unwrap()).unwrap();
        let settings = crate::settings::session_settings(&getid_config::Config::default()).unwrap();
        let settings = Settings { sealers: Sealers::new([sealer.answering(true)]), ..settings };
        let EffectReply::Chunks(mut chunks) = generators(all, &settings) else { panic!("a value") };
        let mut output = Vec::new();
        while chunks.write_next(Protocol::Resp3, &mut output) {}
        let expected = Value::Array(vec![
            Value::map([
                ("name", Value::from("tweets")),
                ("kind", Value::from("twitter")),
                ("layout", Value::from("time:41@1ms datacenter:5 worker:5 counter:12")),
                ("format", Value::from("base62 pad 11")),
                ("epoch", Value::from("2010-11-04T01:42:54.657Z")),
                ("capacity_per_sec", Value::Integer(4_096_000)),
                ("ends", Value::from("2080-07-10T17:30:30.209Z")),
                ("position", Value::from("2023-11-14T22:13:20.000Z")),
                ("ahead_ms", Value::Integer(12)),
                ("refusing", Value::bulk(Refusal::SaveTimeout.to_string())),
                ("evenness", Value::Null),
                ("seal", Value::Null),
            ]),
            Value::map([
                ("name", Value::from("trace")),
                ("kind", Value::from("uuid4")),
                ("layout", Value::from("noise:122")),
                ("format", Value::Null),
                ("epoch", Value::Null),
                ("capacity_per_sec", Value::Null),
                ("ends", Value::Null),
                ("position", Value::Null),
                ("ahead_ms", Value::Integer(12)),
                ("refusing", Value::from("no")),
                ("evenness", Value::Null),
                ("seal", Value::Null),
            ]),
            orders(),
        ]);
        let mut text = Vec::new();
        resp::encode(&expected, Protocol::Resp3, &mut text);
        assert_eq!(String::from_utf8_lossy(&output), String::from_utf8_lossy(&text));
    }
}
