//! Helpers for tests of sessions: transcripts, and a fake shell.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::{keys, numbers};
use getid_config::Config;
use getid_core::server::{CivilTime, CounterDeclaration, NamedCounters, NamedGenerators, Run, SequenceRefusal};
use getid_core::{
    Alphabet, Declaration, Layout, NamedGenerator, RandomCycle, Reservation, Scheme, Slot, Tick, no_dates,
};
use getid_redis::acl::{Protection, Users};
use getid_redis::command::{
    ClusterMaster, ClusterView, Vocabulary, describe_any_id, describe_named_id, describe_named_span, describe_span,
};
use getid_redis::resp::{DecodeLimits, DecodeStep, Decoder, ErrorKind, ErrorReply, Value};
use getid_redis::session::{
    AclEffect, ClientEffect, ClientFilter, ClientKind, ClusterSettings, ConfigEffect, CounterPeriod, Effect,
    ExpiringNames, ExtraDraws, IdsEffect, IntrospectEffect, MasterName, NO_SUCH_MASTER, NamedDrawResults,
    RequestEffect, SentinelEffect, SequenceCommandSettings, SequenceDrawResults, Session, Settings, TURN_IDS_MAX,
    Timing, Turn,
};
use getid_seal::{SealKeys, Sealer, Sealers};
use getid_text::host_port::HostPort;

/// The setup of a session for a conversation.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Whether the server has `requirepass secret`.
    pub(crate) password: bool,
    /// Whether every draw is refused.
    pub(crate) refuses: bool,
    /// Whether it has `rename-command config "hidden"` and `rename-command shutdown ""`.
    pub(crate) renamed: bool,
    /// Whether it has `server-id auto`, and no server-id is free.
    pub(crate) unclaimed: bool,
    /// Whether there are named generators.
    pub(crate) generators: bool,
    /// Whether `tweets` and `browser` are sealed; `browser` answers with sealed texts.
    pub(crate) sealed: bool,
    /// Whether there are serials, of which `invoice` and `exact` have series.
    pub(crate) series: bool,
    /// Whether there is a store for sequences.
    pub(crate) sequences: bool,
    /// Whether there are the serial generators `receipt` and `bill`, which are gapless, and `ticket`. Only `bill` has
    /// series.
    pub(crate) numbers: bool,
    /// Whether it emulates a Redis Cluster.
    pub(crate) cluster: bool,
    /// Whether it is a standby of [`holder`].
    pub(crate) standby: bool,
    /// Value of `client-query-buffer-limit`.
    pub(crate) request_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            password: false,
            refuses: false,
            renamed: false,
            unclaimed: false,
            generators: false,
            sealed: false,
            series: false,
            sequences: false,
            numbers: false,
            cluster: false,
            standby: false,
            request_bytes_max: 1 << 30,
        }
    }
}

/// Returns the settings of the default configuration.
pub(crate) fn settings(options: &Options) -> Settings {
    let renames = [("config", "hidden"), ("shutdown", "")].map(|(from, to)| (from.to_owned(), to.to_owned()));
    let cycle = RandomCycle::new((0..1024).collect()).unwrap();
    let vocabulary = Vocabulary::new(if options.renamed { &renames } else { &[] }).unwrap();
    let settings = Settings {
        vocabulary,
        scheme: Arc::new(Scheme::new(Layout::default(), 0, cycle).unwrap()),
        has_server_id: !options.unclaimed,
        generators: Arc::default(),
        counters: Arc::default(),
        id_mgetid_max: 100,
        turn_ids_max: TURN_IDS_MAX,
        id_max_wait_ms: 5000,
        sequences: options
            .sequences
            .then(|| SequenceCommandSettings { incrby_max: 1000, ..SequenceCommandSettings::default() }),
        expiring: Arc::new(ExpiringNames::new(&["*20[0-9][0-9]*".to_owned()]).unwrap()),
        databases: 16,
        users: Arc::new(Users::default().with_default_password(options.password.then_some("secret"))),
        protection: Protection::Nothing,
        bulk_bytes_max: 512 << 20,
        request_bytes_max: options.request_bytes_max,
        timing: Timing::default(),
        sealers: if options.sealed { sealers() } else { Sealers::default() },
        is_standby: false,
        cluster: options.cluster.then(|| ClusterSettings { moved_to: options.standby.then(holder) }),
    };
    let settings = if options.sealed { settings.with_counters(Arc::new(counters())) } else { settings };
    let settings = if options.numbers { settings.with_counters(Arc::new(gapless_serials())) } else { settings };
    let settings = if options.series { settings.with_counters(Arc::new(keyed_serials())) } else { settings };
    settings.with_generators(Arc::new(if options.generators { generators() } else { NamedGenerators::default() }))
}

/// Returns the address of the holder, of which a standby is a replica.
pub(crate) fn holder() -> HostPort {
    HostPort { host: "10.1.0.7".to_owned(), port: 7890 }
}

/// Generators of many kinds; draws from `broken` are refused.
pub(crate) const GENERATORS: [&str; 18] = [
    "article layout time:39@1ms idc:2 server-id:7 business:4 counter:7 epoch 1451577600000 idc 1 business 3",
    "broken twitter",
    "browser js53",
    "column tsid time:41 epoch 0 format integer",
    "doc objectid process 5",
    "elsewhere redis-lua one-server 5",
    "invites nanoid alphabet base58 length 12",
    "lua redis-lua one-server 0",
    "narrow twitter format decimal pad 17",
    "orders:eu leaf",
    "orders:us leaf",
    "short twitter format base62 prefix T-",
    "slow layout time:31@10s server-id:8 epoch 0",
    "trace uuid7",
    "tweets twitter",
    "ulids ulid prefix order_",
    "users typeid prefix user",
    "v4 uuid4",
];

/// Returns the counters of a shell with numbers.
fn gapless_serials() -> NamedCounters {
    let lines = [
        "bill serial B-{key}-{n:6} gapless",
        "receipt serial R{n:6} gapless",
        "ticket serial T{n:6}",
        "yearly serial B{yyyy}-{n:6} zone UTC gapless",
    ];
    NamedCounters::new(lines.map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        Arc::new(CounterDeclaration::parse(&words, |_| Ok(())).unwrap().unwrap())
    }))
}

/// Returns the counter `member` of a shell with sealed generators.
fn counters() -> NamedCounters {
    let words = ["member", "sequence", "seal", "key-file", "k", "answer", "sealed"];
    NamedCounters::new([Arc::new(CounterDeclaration::parse(&words, |_| Ok(())).unwrap().unwrap())])
}

/// Returns the serials of a shell with series.
fn keyed_serials() -> NamedCounters {
    let lines =
        ["invoice serial INV-{key}-{n:5}", "exact serial {n:3} unique-per key key-case exact", "plain serial P{n:3}"];
    NamedCounters::new(lines.map(|line| {
        let words: Vec<_> = line.split(' ').collect();
        Arc::new(CounterDeclaration::parse(&words, |_| Ok(())).unwrap().unwrap())
    }))
}

/// Returns the sealers of `tweets`, and of `browser` and `member`, which answer with sealed texts. The key is that of
/// `crates/getid-seal/tests/sealed-vectors.json`.
fn sealers() -> Sealers {
    let key = (0..32).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let keys = SealKeys::parse(format!("0 {key}").as_bytes()).unwrap();
    let sealer = |name, alphabet| Sealer::new(keys.clone(), name, Alphabet::parse(alphabet).unwrap()).unwrap();
    let answering = [sealer("browser", "base62").answering(true), sealer("member", "base58").answering(true)];
    Sealers::new(answering.into_iter().chain([sealer("tweets", "base58")]))
}

/// Returns the generators of [`GENERATORS`], by their places from 1 on.
pub(crate) fn generators() -> NamedGenerators {
    let generators = GENERATORS.iter().enumerate().map(|(place, line)| {
        let words: Vec<&str> = line.split(' ').collect();
        let declaration = Declaration::parse(&words, no_dates).unwrap();
        (place + 1, Arc::new(NamedGenerator::new(declaration, 0, None).unwrap()))
    });
    NamedGenerators::new(generators)
}

/// Returns the slot of DESIGN's first vector in a generator's own units.
fn first_slot(generator: &NamedGenerator) -> u64 {
    let layout = generator.declaration().layout();
    layout.tick_at(1_488_793_021_966_000_000).unwrap_or(0) << layout.counter_bits()
}

/// A shell without clock and network. IDs are counted from the tick of DESIGN's first vector, in pieces of up to three,
/// and effects have canned replies.
pub(crate) struct Shell {
    settings: Settings,
    pub(crate) session: Session,
    pub(crate) turn: Turn,
    pub(crate) closed: bool,
    pub(crate) turns: usize,
    pub(crate) ids_a_turn_max: u32,
    refuses: bool,
    slot: Slot,
    count: u64,
    /// The next slot of each named generator and the number of draws, by its place.
    named_slots: Vec<(u64, u64)>,
    named: NamedDrawResults,
    sequences: SequenceDrawResults,
    /// The next value of each sequence.
    values: BTreeMap<String, i64>,
    noise: u128,
    pending: Vec<u8>,
}

impl Shell {
    pub(crate) fn new(options: &Options) -> Shell {
        let settings = settings(options);
        Shell {
            session: Session::new(7, Arc::new(settings.clone())),
            turn: Turn::default(),
            closed: false,
            turns: 0,
            ids_a_turn_max: 0,
            refuses: options.refuses,
            slot: Slot::first_of(Tick(68_751_421_966), 9),
            count: 0,
            named_slots: settings.generators.iter().map(|(_, generator)| (first_slot(generator), 0)).collect(),
            named: NamedDrawResults::default(),
            sequences: SequenceDrawResults::default(),
            values: BTreeMap::new(),
            noise: 0,
            pending: Vec::new(),
            settings,
        }
    }

    /// Sends `input` in reads of up to `cut` bytes and returns the replies.
    pub(crate) fn talk(&mut self, input: &[u8], cut: usize) -> Vec<u8> {
        let mut output = Vec::new();
        for piece in input.chunks(cut.clamp(1, input.len().max(1))) {
            self.pending.extend_from_slice(piece);
            loop {
                if self.closed {
                    return output;
                }
                let used = self.session.read(&self.pending, &mut self.turn);
                self.pending.drain(..used);
                self.write(&mut output);
                self.session.permit_logins(self.turn.logins_held);
                if !self.turn.more {
                    assert!(self.turn.close || self.pending.is_empty() || self.turn.wanted > 0);
                    break;
                }
                assert!(!self.turn.close);
            }
        }
        output
    }

    /// Returns the bytes that no request has used yet.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.pending
    }

    /// Writes the replies of the turn that was read, and of its effect.
    pub(crate) fn write(&mut self, output: &mut Vec<u8>) {
        self.turns += 1;
        self.ids_a_turn_max = self.ids_a_turn_max.max(self.turn.draws.unnamed);
        let drawn = self.draw(self.turn.draws.unnamed);
        let refused = ErrorReply::fixed(ErrorKind::Unavailable, "MISCONF no more ids today");
        let drawn = if self.refuses && self.turn.draws.unnamed > 0 { Err(&refused) } else { Ok(&drawn[..]) };
        if self.turn.draws.named == 0 && self.turn.draws.sequences == 0 {
            self.session.write(&self.turn, drawn, output);
        } else {
            self.draw_named();
            self.draw_values();
            let mut noise = || {
                self.noise = self.noise.wrapping_add(NOISE_STEP);
                self.noise
            };
            let mut extra = ExtraDraws { named: &mut self.named, sequences: &mut self.sequences, noise: &mut noise };
            self.session.write_with_extra(&self.turn, drawn, &mut extra, output);
        }
        if let Some(effect) = self.turn.effect.take() {
            let answer = match effect {
                Effect::Acl(effect) => self.acl(&effect),
                Effect::Cluster(query) => self.cluster_view().reply(&query),
                effect => answer(&effect),
            };
            self.session.reply(&answer, output);
        }
        self.closed |= self.turn.close;
    }

    /// Returns the nodes: [`holder`], this server where it is a standby, and a third one with a name.
    fn cluster_view(&self) -> ClusterView {
        let standby = HostPort { host: "fd00::8".to_owned(), port: 7891 };
        let third = HostPort { host: "ids-3.example.com".to_owned(), port: 7890 };
        let is_standby = self.settings.cluster.as_ref().is_some_and(|cluster| cluster.moved_to.is_some());
        let own = if is_standby { standby.clone() } else { holder() };
        let master = ClusterMaster { address: holder(), epoch: 1_795_219_200_000 };
        ClusterView::new(Some(&own), Ok(master), &[holder(), standby, third], "")
    }

    /// Changes users as a server does, without a log or a file.
    fn acl(&mut self, effect: &AclEffect) -> Value {
        let now = Arc::clone(&self.settings.users);
        let answer = match effect {
            AclEffect::SetUser { name, rules } => match now.with_user(name, rules) {
                Ok(users) => {
                    self.settings.users = Arc::new(users);
                    Value::OK
                }
                Err(error) => Value::error(error.reply(rules)),
            },
            AclEffect::DelUser(names) => {
                let (users, gone) = now.without(names);
                self.settings.users = Arc::new(users);
                Value::Integer(i64::try_from(gone.len()).unwrap())
            }
            AclEffect::List { shows_secrets } => {
                let lines = now.iter().map(|user| {
                    let rules = if *shows_secrets { user.describe() } else { user.describe_redacted() };
                    Value::bulk(format!("user {} {rules}", user.name()))
                });
                return Value::Array(lines.collect());
            }
            AclEffect::Users => return Value::Array(now.iter().map(|user| Value::from(&**user.name())).collect()),
            effect => Value::error(format!("ERR {effect:?}")),
        };
        self.session.set_settings(Arc::new(self.settings.clone()));
        answer
    }

    /// Draws for each named generator of the turn once.
    fn draw_named(&mut self) {
        let draws = self.turn.named_draws();
        self.named.begin(draws.len());
        for (at, draw) in draws.iter().enumerate() {
            assert!(draws[..at].iter().all(|before| before.generator != draw.generator), "{draws:?}");
            let part = self.named.part(at).unwrap();
            if GENERATORS[draw.generator - 1].starts_with("broken") {
                part.refused = Some(ErrorReply::fixed(ErrorKind::Unavailable, "MISCONF this one is broken"));
                continue;
            }
            let slots = &mut self.named_slots[draw.generator - 1];
            part.reservations.extend(pieces(slots, draw.ids));
        }
    }

    /// Draws for each sequence of the turn once, in runs of up to three commands, from 1 on. There is no sequence
    /// `noname`, and `nine` ends at 9.
    fn draw_values(&mut self) {
        let draws = self.turn.sequence_draws();
        self.sequences.begin(draws.len());
        for (at, draw) in draws.iter().enumerate() {
            let name = self.turn.sequence_name(draw);
            assert!(
                draws[..at].iter().all(|before| self.turn.sequence_name(before) != name),
                "{name} is drawn from twice"
            );
            let part = self.sequences.part(at).unwrap();
            if draw.is_counter() {
                part.period = Some(CounterPeriod { key: name.into(), hash: draw.hash, stamp: CivilTime::FIRST });
            }
            if name == "noname" {
                part.refused = Some(ErrorReply::of_sequence(&SequenceRefusal::NoSuch, name));
                continue;
            }
            let next = self.values.entry(name.to_owned()).or_insert(1);
            for ask in self.turn.sequence_asks(draw) {
                let mut left = ask.times;
                while left > 0 && part.refused.is_none() {
                    let max = if name == "nine" { (10 - *next) / i64::from(ask.values) } else { 3 };
                    let times = left.min(3).min(u32::try_from(max).unwrap());
                    let run = Run { first: *next, increment: 1, values: ask.values, times };
                    if times == 0 {
                        part.refused = Some(ErrorReply::of_sequence(&SequenceRefusal::AtMax { max: 9 }, name));
                        break;
                    }
                    part.runs.push(run);
                    *next = run.last_of(run.times - 1) + 1;
                    left -= run.times;
                }
            }
        }
    }

    /// Returns the next IDs of a named generator, by its index.
    pub(crate) fn draw_of(&mut self, generator: usize, ids: u32) -> Vec<Reservation> {
        pieces(&mut self.named_slots[generator - 1], ids)
    }

    /// Returns the same random bits in each test.
    pub(crate) fn noise(&self) -> impl FnMut() -> u128 + use<> {
        let mut noise = self.noise;
        move || {
            noise = noise.wrapping_add(NOISE_STEP);
            noise
        }
    }

    pub(crate) fn draw(&mut self, ids: u32) -> Vec<Reservation> {
        let mut slots = (self.slot.0, self.count);
        let drawn = pieces(&mut slots, ids);
        (self.slot.0, self.count) = slots;
        drawn
    }
}

const NOISE_STEP: u128 = 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f;

/// Returns `ids` IDs from a slot and a count on, in pieces of up to three.
fn pieces((slot, count): &mut (u64, u64), mut ids: u32) -> Vec<Reservation> {
    let mut drawn = Vec::new();
    while ids > 0 {
        let len = ids.min(3);
        drawn.push(Reservation { first: Slot(*slot), count: *count, len });
        (*slot, *count) = (*slot + u64::from(len), *count + u64::from(len));
        ids -= len;
    }
    drawn
}

fn answer(effect: &Effect) -> Value {
    match effect {
        Effect::Ids(IdsEffect::Decode(readings)) => describe_any_id(Layout::default(), readings, 1_488_793_021_000),
        Effect::Ids(IdsEffect::Encode(encoding)) => encoding.reply(1_488_793_021_000, Some(1_488_792_000_000)),
        Effect::Ids(IdsEffect::Generators) => Value::Array(Vec::new()),
        Effect::Ids(IdsEffect::DecodeNamed(id)) => describe_named_id(id, 1_488_793_021_000),
        Effect::Ids(IdsEffect::SpanNamed { generator, times }) => {
            describe_named_span(generator, *times, 1_488_793_021_000)
        }
        Effect::Ids(IdsEffect::Ready { shows_reasons: true }) => Value::Simple("READY".into()),
        Effect::Ids(IdsEffect::Ready { shows_reasons: false }) => {
            let text = "MISCONF no ids are given now; log in to see the reason";
            Value::Error(ErrorReply::fixed(ErrorKind::Unavailable, text))
        }
        Effect::Ids(IdsEffect::Span(times)) => describe_span(Layout::default(), *times, 1_488_793_021_000),
        Effect::Client(effect) => answer_client(effect),
        Effect::Config(effect) => answer_config(effect),
        Effect::Introspect(effect) => answer_introspect(effect),
        Effect::Acl(_) | Effect::Cluster(_) => unreachable!("the shell carries it out"),
        Effect::Sentinel(effect) => answer_sentinel(*effect),
        Effect::Keys(effect) => keys::answer(effect),
        Effect::Sequence(effect) => keys::answer_operator(effect),
        Effect::Number(effect) => numbers::answer(effect),
        Effect::Request(effect) => answer_request(effect),
        Effect::Script(effect) => keys::answer_script(effect),
        Effect::Worker(_) => Value::error("ERR there are no worker pools"),
        Effect::Shutdown(options) if options.abort => Value::error("ERR No shutdown in progress."),
        Effect::Shutdown(options) => Value::error(format!("ERR {options:?}")),
    }
}

/// Answers with the scope of a request, its arguments, the time for which it is kept, and the form of its reply.
fn answer_request(effect: &RequestEffect) -> Value {
    let RequestEffect { scope, fingerprint, for_s, form, .. } = effect;
    let (owner, name, request, words) = (scope.owner(), scope.name(), scope.request(), fingerprint.as_str());
    Value::Simple(format!("{owner} {name} '{request}' ({words}) for {for_s}: {form:?}").into())
}

/// Answers as the holder of server-id 0.
fn answer_sentinel(effect: SentinelEffect) -> Value {
    let is_known = |name| matches!(name, MasterName::Own | MasterName::Of(0));
    match effect {
        SentinelEffect::Address(name) if is_known(name) => Value::Array(vec!["127.0.0.1".into(), "7890".into()]),
        SentinelEffect::Address(_) => Value::NullArray,
        SentinelEffect::Masters => Value::Array(vec![Value::map([("name", Value::from("getid"))])]),
        SentinelEffect::MyId => Value::from("c9d01069952cfc4d423ef9d9d38295f5322601e3"),
        SentinelEffect::Master(name)
        | SentinelEffect::Replicas(name)
        | SentinelEffect::Sentinels(name)
        | SentinelEffect::CheckQuorum(name)
            if !is_known(name) =>
        {
            Value::error(NO_SUCH_MASTER)
        }
        SentinelEffect::Master(name) => Value::map([("name", Value::bulk(name.to_string()))]),
        SentinelEffect::Replicas(_) | SentinelEffect::Sentinels(_) => Value::Array(Vec::new()),
        SentinelEffect::CheckQuorum(_) => Value::Simple("OK 1 usable Sentinels".into()),
    }
}

fn answer_client(effect: &ClientEffect) -> Value {
    match effect {
        ClientEffect::Info => Value::text("id=7"),
        ClientEffect::List(ClientFilter::Ids(ids)) if ids.is_empty() => Value::text(""),
        ClientEffect::List(ClientFilter::Kind(kind)) if *kind != ClientKind::Normal => Value::text(""),
        ClientEffect::List(filter) => Value::text(format!("{filter:?}")),
        ClientEffect::Kill(kill) if kill.is_old_form => Value::error("ERR No such client"),
        ClientEffect::Kill(kill) => Value::text(format!("{kill:?}")),
        ClientEffect::Pause { .. } | ClientEffect::Unpause => Value::OK,
        ClientEffect::Unblock { .. } => Value::Integer(0),
    }
}

fn answer_config(effect: &ConfigEffect) -> Value {
    match effect {
        ConfigEffect::Get { patterns, .. } => {
            let known = patterns.iter().filter(|name| !name.starts_with(b"no-such"));
            let names: BTreeMap<String, Value> =
                known.map(|name| (String::from_utf8_lossy(name).into_owned(), Value::from("x"))).collect();
            Value::Map(names.into_iter().map(|(name, value)| (Value::from(&*name), value)).collect())
        }
        // Starts from the built-in values each time.
        ConfigEffect::Set(pairs) => match Config::default().set(pairs) {
            Ok(_) => Value::OK,
            Err(error) => Value::error(error.to_string()),
        },
        ConfigEffect::Rewrite => Value::error("ERR The server is running without a config file"),
        ConfigEffect::ResetStat => Value::OK,
    }
}

fn answer_introspect(effect: &IntrospectEffect) -> Value {
    match effect {
        IntrospectEffect::Info(sections) => Value::text(format!("info {}", sections.join(","))),
        IntrospectEffect::Time => Value::Array(vec![Value::from("1488793021"), Value::from("966000")]),
        IntrospectEffect::Monitor | IntrospectEffect::SlowLogReset => Value::OK,
        IntrospectEffect::SlowLogLen | IntrospectEffect::LatencyReset(_) => Value::Integer(0),
        IntrospectEffect::SlowLogGet(_) | IntrospectEffect::LatencyLatest | IntrospectEffect::LatencyHistory(_) => {
            Value::Array(Vec::new())
        }
        IntrospectEffect::LatencyGraph(name) => {
            Value::error(format!("ERR No samples available for event '{}'", String::from_utf8_lossy(name)))
        }
        IntrospectEffect::LatencyHistogram(_) => Value::Map(Vec::new()),
        IntrospectEffect::LatencyDoctor | IntrospectEffect::MemoryDoctor | IntrospectEffect::MemoryStats => {
            Value::text("all is well")
        }
    }
}

/// The ways to send a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feed {
    /// In one read.
    Whole,
    /// A byte per read.
    Bytes,
    /// Inline commands converted to arrays of bulk strings.
    Arrays,
}

impl Feed {
    pub(crate) const ALL: [Feed; 3] = [Feed::Whole, Feed::Bytes, Feed::Arrays];
}

/// One conversation of a transcript.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) title: String,
    pub(crate) options: Options,
    /// Whether it also runs against a real Redis.
    pub(crate) with_redis: bool,
    pub(crate) sent: Vec<Vec<u8>>,
    /// Whether some of it is written byte for byte.
    pub(crate) is_raw: bool,
    pub(crate) expected: Vec<u8>,
    pub(crate) closes: bool,
}

/// Returns all conversations of `tests/protocol/transcripts`.
pub(crate) fn conversations() -> Vec<Conversation> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocol/transcripts");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for (number, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            let place = format!("{name}:{}", number + 1);
            read_line(line, &place, &mut all);
        }
    }
    all
}

fn read_line(line: &str, place: &str, all: &mut Vec<Conversation>) {
    if line.is_empty() || line.starts_with('#') {
        return;
    }
    if let Some(title) = line.strip_prefix("== ") {
        let marks = title.split_once(" [").map_or("", |(_, marks)| marks.trim_end_matches(']'));
        let mut conversation = Conversation {
            title: format!("{place}: {title}"),
            options: Options::default(),
            with_redis: false,
            sent: Vec::new(),
            is_raw: false,
            expected: Vec::new(),
            closes: false,
        };
        for mark in marks.split_whitespace() {
            match mark {
                "redis" => conversation.with_redis = true,
                "password" => conversation.options.password = true,
                "refuses" => conversation.options.refuses = true,
                "renamed" => conversation.options.renamed = true,
                "unclaimed" => conversation.options.unclaimed = true,
                "generators" => conversation.options.generators = true,
                "sealed" => (conversation.options.generators, conversation.options.sealed) = (true, true),
                "series" => (conversation.options.series, conversation.options.sequences) = (true, true),
                "numbers" => {
                    (conversation.options.sequences, conversation.options.numbers) = (true, true);
                    conversation.options.generators = true;
                }
                "sequences" => conversation.options.sequences = true,
                "cluster" => conversation.options.cluster = true,
                "standby" => (conversation.options.cluster, conversation.options.standby) = (true, true),
                _ => panic!("{place}: unknown mark '{mark}'"),
            }
        }
        all.push(conversation);
        return;
    }
    let current = all.last_mut().unwrap_or_else(|| panic!("{place}: a conversation begins with =="));
    if let Some(raw) = line.strip_prefix(">> ") {
        current.is_raw = true;
        current.sent.push(unescape(raw));
    } else if let Some(text) = line.strip_prefix("> ") {
        current.sent.push([text.as_bytes(), b"\r\n"].concat());
    } else if let Some(text) = line.strip_prefix("< ") {
        current.expected.extend_from_slice(&unescape(text));
        current.expected.extend_from_slice(b"\r\n");
    } else if line == "<" {
        current.expected.extend_from_slice(b"\r\n");
    } else if line == "close" {
        current.closes = true;
    } else {
        panic!("{place}: {line}");
    }
}

/// Converts inline commands to arrays of bulk strings.
pub(crate) fn as_arrays(lines: &[Vec<u8>]) -> Vec<u8> {
    let mut sent = Vec::new();
    for line in lines {
        let mut decoder = Decoder::default();
        let Ok(DecodeStep::Request { .. }) = decoder.decode(line, &DecodeLimits::default()) else {
            sent.extend_from_slice(line);
            continue;
        };
        let args = decoder.args(line);
        sent.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
        for arg in args.iter() {
            sent.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            sent.extend_from_slice(arg);
            sent.extend_from_slice(b"\r\n");
        }
    }
    sent
}

/// Replaces `\r`, `\n`, `\\` and `\xHH` by their bytes.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let (byte, taken) = match behind {
            [b'r', ..] if first == b'\\' => (b'\r', 2),
            [b'n', ..] if first == b'\\' => (b'\n', 2),
            [b'\\', ..] if first == b'\\' => (b'\\', 2),
            [b'x', high, low, ..] if first == b'\\' => {
                let digits = [*high, *low];
                (u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap(), 4)
            }
            _ => (first, 1),
        };
        bytes.push(byte);
        rest = &rest[taken..];
    }
    bytes
}

/// Returns bytes in the form of a transcript.
pub(crate) fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string().replace("\\r\\n", "\n")
}
