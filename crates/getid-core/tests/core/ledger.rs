//! Numbers without gaps: rules of the ledger, and worlds of a store, two servers and clients.
//!
//! A world is made from a seed. Replies are lost, requests are repeated, and backups of all tables or of some of them
//! are restored. An oracle sees every reply, and the tables after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use getid_core::server::ledger::{
    CounterView, GeneratorLedger, Ledger, LedgerRow, LedgerWrites, NumberAct, NumberAnswer, NumberRefusal,
    NumberRequest, NumberState, RequestHandle, place_in_text,
};
use getid_core::server::{CivilTime, CounterDeclaration, Key};

use crate::random::Random;

/// Most released requests of a world: none reaches it.
const RELEASED_MAX: u64 = 1_000_000;

/// Mistakes that the model around the ledger makes on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlantedMistake {
    /// A reservation that is overdue is released.
    ReservationExpires,
    /// A number that is settled by hand is released.
    SettleReleases,
    /// A change leaves the number of changes as it is.
    ChangeIsNotCounted,
    /// The row of a request is not written.
    RequestIsForgotten,
    /// A released number stays with its request.
    ReleaseIsForgotten,
    /// The notes of servers are not compared after a restore.
    NotesAreIgnored,
    /// Counters without a request are not compared after a restore.
    QuietCountersAreIgnored,
    /// A server that never runs again has had nothing that the store has lost.
    LostServerIsTrusted,
}

const MISTAKES: [PlantedMistake; 8] = [
    PlantedMistake::ReservationExpires,
    PlantedMistake::SettleReleases,
    PlantedMistake::ChangeIsNotCounted,
    PlantedMistake::RequestIsForgotten,
    PlantedMistake::ReleaseIsForgotten,
    PlantedMistake::NotesAreIgnored,
    PlantedMistake::QuietCountersAreIgnored,
    PlantedMistake::LostServerIsTrusted,
];

/// The tables of a store.
#[derive(Clone, Default)]
struct Tables {
    changes: u64,
    /// Whether its counters have given numbers without a ledger.
    is_plain: bool,
    counters: BTreeMap<Key, i64>,
    numbers: BTreeMap<(Key, i64), (LedgerRow, u64)>,
    requests: BTreeMap<String, RequestHandle>,
    released_requests: u64,
}

/// What a server has noted.
#[derive(Clone, Default)]
struct Notes {
    changes: u64,
    counters: BTreeMap<Key, i64>,
}

impl Tables {
    /// Compares the notes of a server with the store. `is_suspect`: changes may be lost that no server has noted.
    fn compare(
        &mut self,
        notes: &Notes,
        client: &Client,
        is_suspect: bool,
        now_unix_ms: i64,
        mistake: Option<PlantedMistake>,
    ) {
        let is_suspect = is_suspect && self.changes > 0;
        let changes = notes.changes.max(if is_suspect { self.changes + 1 } else { 0 });
        let notes = Notes { changes, counters: notes.counters.clone() };
        let quiet = NumberRequest { stamp: stamp(1999), ..client.reserve("") };
        let asks: Vec<NumberRequest> =
            notes.counters.keys().map(|key| NumberRequest { key: key.clone(), ..quiet.clone() }).collect();
        let asks = if mistake == Some(PlantedMistake::QuietCountersAreIgnored) { Vec::new() } else { asks };
        let mut taken = Vec::new();
        loop {
            let ledger = self.ledger(&asks, &notes, now_unix_ms, &taken);
            let more = self.taken(&ledger);
            if more.is_empty() {
                self.write(ledger.into_writes(), mistake);
                return;
            }
            taken.extend(more);
        }
    }

    /// Returns the texts of new numbers that other numbers have.
    fn taken(&self, ledger: &Ledger) -> Vec<String> {
        let texts: BTreeSet<&str> = self.numbers.values().map(|(row, _)| &*row.text).collect();
        ledger.new_texts().map(|(_, text)| text).filter(|text| texts.contains(text)).map(str::to_owned).collect()
    }

    /// Returns a ledger with all rows that a transaction for these requests reads.
    fn ledger(&self, asks: &[NumberRequest], notes: &Notes, now_unix_ms: i64, taken: &[String]) -> Ledger {
        let highest_change = self.numbers.values().map(|(_, entry)| *entry).max().unwrap_or(0);
        let mut ledger = Ledger::new(now_unix_ms, RELEASED_MAX);
        let counted = self.counters.iter().find(|(_, next)| **next > 1).map(|(key, _)| key.clone());
        let is_new = self.numbers.is_empty() && self.changes == 0 && notes.changes == 0;
        let counted_without = counted.filter(|_| is_new && self.is_plain);
        let (changes, noted_changes) = (self.changes, notes.changes);
        let view = GeneratorLedger {
            changes,
            highest_change,
            noted_changes,
            counted_without,
            released_requests: self.released_requests,
        };
        ledger.add_generator("i", view);
        for (row, _) in self.numbers.values() {
            ledger.add_number(row.clone());
        }
        for row in self.requests.values() {
            ledger.add_request(row.clone());
        }
        for text in taken {
            ledger.add_taken("i", text);
        }
        let mut added = BTreeSet::new();
        for ask in asks.iter().filter(|ask| added.insert(ask.key.clone())) {
            let rows = self.numbers.range((ask.key.clone(), 0)..=(ask.key.clone(), i64::MAX));
            let view = CounterView {
                next: self.counters.get(&ask.key).copied().unwrap_or(1),
                max: 999_999,
                highest: rows.map(|(_, (row, _))| row.last).max().unwrap_or(0),
                noted_next: notes.counters.get(&ask.key).copied().unwrap_or(0),
            };
            ledger.add_counter(&ask.key, view, Some(&ask.declaration), ask.stamp);
        }
        ledger
    }

    fn write(&mut self, writes: LedgerWrites, mistake: Option<PlantedMistake>) {
        let highest = self.numbers.values().map(|(_, entry)| *entry).max().unwrap_or(0);
        let is_counted = mistake != Some(PlantedMistake::ChangeIsNotCounted);
        let entry = writes.generators.first().map_or(0, |write| write.changes);
        let entry = if is_counted { entry } else { self.changes };
        for write in &writes.generators {
            self.changes = entry;
            self.released_requests += write.new_released_requests;
            assert_eq!(write.new_requests, writes.new_requests.len() as u64);
        }
        if !writes.unclear.is_empty() {
            for (row, of_row) in self.numbers.values_mut() {
                if matches!(row.state, NumberState::Reserved | NumberState::Released) {
                    row.state = NumberState::Unclear;
                }
                *of_row = if *of_row == highest { entry } else { *of_row };
            }
        }
        self.counters.extend(writes.counters);
        for written in writes.numbers {
            let place = (written.row.key.clone(), written.row.number);
            assert_eq!(written.is_new, !self.numbers.contains_key(&place), "{written:?}");
            let is_released = written.row.state == NumberState::Released;
            if !(is_released && mistake == Some(PlantedMistake::ReleaseIsForgotten)) {
                self.numbers.insert(place, (written.row, entry));
            }
        }
        if mistake != Some(PlantedMistake::RequestIsForgotten) {
            self.requests.extend(writes.new_requests.into_iter().map(|row| (row.request.clone(), row)));
        }
        self.requests.extend(writes.changed_requests.into_iter().map(|row| (row.request.clone(), row)));
        for settled in writes.settled_requests {
            if let Some(row) = self.requests.get_mut(&settled.request)
                && row.state == NumberState::Reserved
            {
                row.state = settled.state;
            }
        }
    }

    /// Decides requests in one transaction.
    fn number(
        &mut self,
        asks: &[NumberRequest],
        notes: &Notes,
        now_unix_ms: i64,
        mistake: Option<PlantedMistake>,
    ) -> Vec<Result<NumberAnswer, NumberRefusal>> {
        let notes = if mistake == Some(PlantedMistake::NotesAreIgnored) { &Notes::default() } else { notes };
        let mut taken = Vec::new();
        loop {
            let mut ledger = self.ledger(asks, notes, now_unix_ms, &taken);
            let each = asks.iter().map(|ask| ledger.apply(ask)).collect();
            let more = self.taken(&ledger);
            if more.is_empty() {
                self.write(ledger.into_writes(), mistake);
                return each;
            }
            taken.extend(more);
        }
    }
}

fn declared(words: &str) -> Arc<CounterDeclaration> {
    let words: Vec<&str> = words.split(' ').collect();
    Arc::new(CounterDeclaration::parse(&words, |_| Ok(())).unwrap().unwrap())
}

fn stamp(year: u16) -> CivilTime {
    CivilTime { year, ..CivilTime::FIRST }
}

/// Requests of a generator.
struct Client {
    declaration: Arc<CounterDeclaration>,
    stamp: CivilTime,
}

impl Client {
    fn new(words: &str) -> Client {
        Client { declaration: declared(words), stamp: stamp(2026) }
    }

    fn ask(&self, user: &str, request: &str, act: NumberAct) -> NumberRequest {
        let period = self.declaration.reset().period(self.stamp).unwrap_or_default();
        NumberRequest {
            key: Key::of("i", "", &period).unwrap(),
            declaration: Arc::clone(&self.declaration),
            stamp: self.stamp,
            user: user.to_owned(),
            is_admin: user == "admin",
            request: request.to_owned(),
            act,
        }
    }

    fn reserve(&self, request: &str) -> NumberRequest {
        self.ask("u", request, NumberAct::Reserve { due_s: 60, commits: false })
    }

    fn settle(&self, text: &str, commits: bool) -> NumberRequest {
        let reason = "checked".to_owned();
        self.ask("admin", "", NumberAct::Settle { text: text.to_owned(), commits, reason })
    }
}

const GAPLESS: &str = "i serial R{yyyy}-{n:6} zone UTC gapless";

/// A store with one server, which loses nothing.
struct Calm {
    tables: Tables,
    client: Client,
}

impl Calm {
    fn new(words: &str) -> Calm {
        Calm { tables: Tables::default(), client: Client::new(words) }
    }

    fn run(&mut self, ask: NumberRequest) -> Result<(String, NumberState, bool), NumberRefusal> {
        let notes = Notes { changes: self.tables.changes, counters: self.tables.counters.clone() };
        let answer = self.tables.number(&[ask], &notes, 1_000, None).remove(0);
        check_coverage(&self.tables);
        answer.map(|answer| (answer.text, answer.state, answer.is_changed))
    }

    fn reserve(&mut self, request: &str) -> String {
        let ask = self.client.reserve(request);
        self.run(ask).unwrap().0
    }

    fn act(&mut self, request: &str, act: NumberAct) -> Result<(NumberState, bool), NumberRefusal> {
        let ask = self.client.ask("u", request, act);
        self.run(ask).map(|(_, state, is_changed)| (state, is_changed))
    }
}

/// Every number from 1 to the highest of each counter is in one row.
fn check_coverage(tables: &Tables) {
    for (key, next) in &tables.counters {
        let rows = tables.numbers.range((key.clone(), 0)..=(key.clone(), i64::MAX));
        let mut expected = 1;
        for ((_, number), (row, _)) in rows {
            assert_eq!((*number, row.number), (expected, expected), "{key}");
            expected = row.last + 1;
        }
        assert_eq!(expected, *next, "{key}");
    }
    let texts: BTreeSet<&str> = tables.numbers.values().map(|(row, _)| &*row.text).collect();
    assert_eq!(texts.len(), tables.numbers.len(), "each text once");
}

#[test]
fn a_number_is_the_lowest_released_one_or_the_next() {
    let mut calm = Calm::new(GAPLESS);
    let texts = ["a", "b", "c"].map(|request| calm.reserve(request));
    assert_eq!(texts, ["R2026-000001", "R2026-000002", "R2026-000003"]);
    assert_eq!(calm.reserve("b"), texts[1], "a repeated request has its number");
    assert_eq!(calm.act("c", NumberAct::Release), Ok((NumberState::Released, true)));
    assert_eq!(calm.act("a", NumberAct::Release), Ok((NumberState::Released, true)));
    assert_eq!(["d", "e", "f"].map(|request| calm.reserve(request))[..2], [texts[0].clone(), texts[2].clone()]);
    assert_eq!(calm.act("a", NumberAct::Release), Ok((NumberState::Released, false)), "another request has it now");
    assert_eq!(calm.act("d", NumberAct::Commit), Ok((NumberState::Committed, true)));
    assert_eq!(calm.act("d", NumberAct::Commit), Ok((NumberState::Committed, false)));
    let settled = |text: &str, state| Err(NumberRefusal::Settled { text: text.to_owned(), state });
    assert_eq!(calm.act("d", NumberAct::Release), settled(&texts[0], NumberState::Committed));
    assert_eq!(calm.act("a", NumberAct::Commit), settled(&texts[0], NumberState::Released));
    let again = calm.client.reserve("a");
    let released = NumberRefusal::Settled { text: texts[0].clone(), state: NumberState::Released };
    assert_eq!(calm.run(again), Err(released));
    assert_eq!(calm.act("x", NumberAct::Commit), Err(NumberRefusal::UnknownRequest));
}

#[test]
fn a_release_may_be_void_and_a_reservation_committed_at_once() {
    let mut calm = Calm::new("i serial R{yyyy}-{n:6} zone UTC gapless released void");
    calm.reserve("a");
    assert_eq!(calm.act("a", NumberAct::Release), Ok((NumberState::Released, true)));
    assert_eq!(calm.act("a", NumberAct::Release), Ok((NumberState::Released, false)));
    assert_eq!(calm.reserve("b"), "R2026-000002");
    let states: Vec<NumberState> = calm.tables.numbers.values().map(|(row, _)| row.state).collect();
    assert_eq!(states, [NumberState::Void, NumberState::Reserved]);
    let at_once = NumberAct::Reserve { due_s: 60, commits: true };
    assert_eq!(calm.act("c", at_once.clone()), Ok((NumberState::Committed, true)));
    assert_eq!(calm.act("c", at_once.clone()), Ok((NumberState::Committed, false)));
    assert_eq!(calm.act("b", at_once), Ok((NumberState::Committed, true)), "a reserved number is committed");
    assert!(calm.tables.numbers.values().all(|(row, _)| row.due_unix_ms == 0));
}

#[test]
fn released_requests_have_a_maximum() {
    let mut calm = Calm::new(GAPLESS);
    calm.tables.released_requests = RELEASED_MAX - 1;
    let texts = ["a", "b"].map(|request| calm.reserve(request));
    assert_eq!(calm.act("a", NumberAct::Release), Ok((NumberState::Released, true)));
    let refused = Err(NumberRefusal::TooManyReleased { max: RELEASED_MAX });
    let before = calm.tables.clone();
    assert_eq!(calm.act("b", NumberAct::Release), refused);
    assert_eq!((calm.tables.changes, &calm.tables.numbers), (before.changes, &before.numbers), "nothing has changed");
    assert_eq!(calm.act("a", NumberAct::Release), Ok((NumberState::Released, false)), "a repeated one adds no row");
    assert_eq!(calm.reserve("c"), texts[0]);
    assert_eq!(calm.act("c", NumberAct::Release), refused);
    assert_eq!(calm.act("c", NumberAct::Commit), Ok((NumberState::Committed, true)));
    let reason = "not printed".to_owned();
    assert_eq!(calm.act("b", NumberAct::Void { reason }), Ok((NumberState::Void, true)), "the remedy of the error");
    assert_eq!(calm.tables.released_requests, RELEASED_MAX);
    // Two of one transaction.
    let asks = ["d", "e"].map(|request| calm.client.reserve(request));
    let mut ledger = calm.tables.ledger(&asks, &Notes::default(), 1, &[]);
    ledger.add_generator("i", GeneratorLedger { released_requests: RELEASED_MAX - 1, ..GeneratorLedger::default() });
    for ask in &asks {
        ledger.apply(ask).unwrap();
    }
    let [first, second] = ["d", "e"].map(|request| ledger.apply(&calm.client.ask("u", request, NumberAct::Release)));
    assert!(first.is_ok() && second == Err(NumberRefusal::TooManyReleased { max: RELEASED_MAX }), "{second:?}");
    let writes = ledger.into_writes();
    assert_eq!((writes.generators[0].new_requests, writes.generators[0].new_released_requests), (2, 1));
    // A void number is not handed out again, so each such request has its own.
    let mut calm = Calm::new("i serial R{yyyy}-{n:6} zone UTC gapless released void");
    calm.tables.released_requests = RELEASED_MAX;
    calm.reserve("a");
    assert_eq!(calm.act("a", NumberAct::Release), Ok((NumberState::Released, true)));
}

#[test]
fn a_request_belongs_to_its_user_and_only_an_administrator_settles() {
    let mut calm = Calm::new(GAPLESS);
    let text = calm.reserve("a");
    for user in ["v", "admin"] {
        let ask = calm.client.ask(user, "a", NumberAct::Reserve { due_s: 1, commits: false });
        assert_eq!(calm.run(ask), Err(NumberRefusal::OtherUser), "{user}");
    }
    let settle = calm.client.settle(&text, false);
    let by_user = NumberRequest { is_admin: false, ..settle.clone() };
    assert_eq!(calm.run(by_user), Err(NumberRefusal::OtherUser));
    assert_eq!(calm.run(settle.clone()), Ok((text.clone(), NumberState::Void, true)));
    assert_eq!(calm.run(settle), Ok((text.clone(), NumberState::Void, false)));
    let refused = NumberRefusal::Settled { text: text.clone(), state: NumberState::Void };
    assert_eq!(calm.act("a", NumberAct::Commit), Err(refused.clone()));
    let other = calm.client.settle(&text, true);
    assert_eq!(calm.run(other), Err(refused));
    let unknown = calm.client.settle("R2026-000009", true);
    assert_eq!(calm.run(unknown), Err(NumberRefusal::UnknownText));
}

#[test]
fn a_raise_is_one_row_and_the_next_number_follows() {
    let mut calm = Calm::new(GAPLESS);
    calm.reserve("a");
    let raise = |last| NumberAct::Raise { last, reason: "moved".to_owned() };
    assert_eq!(calm.act("", raise(100)), Ok((NumberState::Void, true)));
    assert_eq!(calm.act("", raise(100)), Err(NumberRefusal::Lower { last: 100 }));
    assert_eq!(calm.act("", raise(1_000_000)), Err(NumberRefusal::AtMax { max: 999_999 }));
    assert_eq!(calm.reserve("b"), "R2026-000101");
    assert_eq!(calm.tables.numbers.len(), 3);
    assert_eq!(calm.act("", raise(999_999)), Ok((NumberState::Void, true)));
    let last = calm.client.reserve("c");
    assert_eq!(calm.run(last), Err(NumberRefusal::AtMax { max: 999_999 }));
}

#[test]
fn a_generator_that_has_given_numbers_cannot_become_gapless() {
    let mut calm = Calm::new(GAPLESS);
    let key = Key::of("i", "", "Y20250101").unwrap();
    calm.tables.counters.insert(key.clone(), 7);
    calm.tables.is_plain = true;
    let tables = calm.tables.clone();
    let ask = calm.client.reserve("a");
    let notes = Notes::default();
    let refused = calm.tables.number(&[ask], &notes, 1, None);
    assert_eq!(refused, [Err(NumberRefusal::NotFromTheStart { key })]);
    assert_eq!(calm.tables.counters, tables.counters);
    assert!(calm.tables.numbers.is_empty(), "nothing is consumed");
}

#[test]
fn numbers_that_a_ledger_lost_are_settled_one_by_one() {
    let mut calm = Calm::new(GAPLESS);
    let texts: Vec<String> = (0..5).map(|n| calm.reserve(&format!("r{n}"))).collect();
    calm.tables.numbers.retain(|(_, number), _| *number <= 2);
    calm.tables.requests.retain(|_, row| row.number <= 2);
    assert_eq!(calm.reserve("new"), "R2026-000006");
    let state = |calm: &Calm, number: i64| {
        let mut rows = calm.tables.numbers.values().map(|(row, _)| row);
        rows.find(|row| (row.number..=row.last).contains(&number)).unwrap().state
    };
    for number in 1..=5 {
        assert_eq!(state(&calm, number), NumberState::Unclear, "{number}");
    }
    for (nth, commits) in [(3, true), (1, false), (0, true), (4, false), (2, true)] {
        let settle = calm.client.settle(&texts[nth], commits);
        let expected = if commits { NumberState::Committed } else { NumberState::Void };
        assert_eq!(calm.run(settle), Ok((texts[nth].clone(), expected, true)), "{nth}");
        assert_eq!(state(&calm, i64::try_from(nth).unwrap() + 1), expected);
    }
}

#[test]
fn a_text_that_another_number_has_is_refused() {
    let client = Client::new(GAPLESS);
    let asks = [client.reserve("a")];
    let mut ledger = Tables::default().ledger(&asks, &Notes::default(), 1, &["R2026-000001".to_owned()]);
    let text = "R2026-000001".to_owned();
    assert_eq!(ledger.apply(&asks[0]), Err(NumberRefusal::TextTaken { text }));
    assert!(ledger.into_writes().is_empty());
}

#[test]
fn a_text_shows_its_place() {
    let serial = declared(GAPLESS);
    let place = |period| Key::of("i", "", period).map(|key| (key, 42));
    assert_eq!(place_in_text(&serial, stamp(2030), "R2026-000042"), place("Y20260101"));
    assert_eq!(place_in_text(&serial, stamp(2030), "X2026-000042"), None);
    let short = declared("i serial R{yy}-{n:6} zone UTC gapless");
    for (now, text, period) in [
        (2026, "R26-000042", "Y20260101"),
        (2030, "R26-000042", "Y20260101"),
        (2026, "R27-000042", "Y19270101"),
        (2103, "R03-000042", "Y21030101"),
        (2103, "R99-000042", "Y20990101"),
    ] {
        assert_eq!(place_in_text(&short, stamp(now), text), place(period), "{now} {text}");
    }
    assert_eq!(place_in_text(&short, stamp(5), "R06-000042"), None, "before the calendar");
    // 2100 has no such day.
    let day = declared("i serial R{yyMMdd}-{n:6} zone UTC gapless");
    assert_eq!(place_in_text(&day, stamp(2105), "R000229-000042"), place("D20000229"));
}

#[test]
fn a_number_of_a_lost_entry_is_settled_by_its_text_with_a_short_year() {
    let mut calm = Calm::new("i serial R{yy}-{n:6} zone UTC gapless");
    let texts: Vec<String> = (0..3).map(|n| calm.reserve(&format!("r{n}"))).collect();
    calm.tables.numbers.clear();
    calm.tables.requests.clear();
    assert_eq!(calm.reserve("new"), "R26-000004");
    for text in texts.iter().rev() {
        let settle = calm.client.settle(text, true);
        assert_eq!(calm.run(settle), Ok((text.clone(), NumberState::Committed, true)));
    }
}

#[test]
fn an_act_for_a_series_finds_no_request_of_another_one() {
    let mut calm = Calm::new("i serial R-{key}-{n:6} zone UTC gapless");
    let of_series = |ask: NumberRequest, series: &str| NumberRequest {
        key: Key::of("i", series, ask.key.period()).unwrap(),
        ..ask
    };
    let reserve = of_series(calm.client.reserve("a"), "ACME");
    assert_eq!(calm.run(reserve).unwrap().0, "R-ACME-000001");
    let acts = [NumberAct::Commit, NumberAct::Release, NumberAct::Void { reason: "x".to_owned() }];
    for (user, act) in ["u", "v", "admin"].iter().flat_map(|user| acts.iter().map(move |act| (user, act))) {
        let ask = of_series(calm.client.ask(user, "a", act.clone()), "GLOBEX");
        assert_eq!(calm.run(ask), Err(NumberRefusal::UnknownRequest), "{user} {act:?}");
    }
    let by_other = of_series(calm.client.ask("v", "a", NumberAct::Commit), "ACME");
    assert_eq!(calm.run(by_other), Err(NumberRefusal::OtherUser));
    let commit = of_series(calm.client.ask("u", "a", NumberAct::Commit), "ACME");
    assert_eq!(calm.run(commit), Ok(("R-ACME-000001".to_owned(), NumberState::Committed, true)));
    assert_eq!(calm.act("a", NumberAct::Commit), Ok((NumberState::Committed, false)), "without a series too");
}

/// Two servers, their clients, and backups.
struct World {
    seed: u64,
    rng: Random,
    mistake: Option<PlantedMistake>,
    tables: Tables,
    backups: Vec<Tables>,
    notes: [Notes; 2],
    client: Client,
    now_unix_ms: i64,
    next_request: u32,
    /// Requests in use.
    open: Vec<String>,
    /// Texts that clients have, each with the request that got it and has not returned it.
    held: BTreeMap<String, String>,
    /// Text of each request, as answered since the last restore.
    texts: BTreeMap<String, String>,
    /// Requests that were sent a release.
    returned: BTreeSet<String>,
    settled: BTreeMap<String, NumberState>,
}

impl World {
    fn new(seed: u64, mistake: Option<PlantedMistake>) -> World {
        World {
            seed,
            rng: Random(seed),
            mistake,
            tables: Tables::default(),
            backups: vec![Tables::default()],
            notes: Default::default(),
            client: Client::new(GAPLESS),
            now_unix_ms: 1,
            next_request: 0,
            open: Vec::new(),
            held: BTreeMap::new(),
            texts: BTreeMap::new(),
            returned: BTreeSet::new(),
            settled: BTreeMap::new(),
        }
    }

    fn run(&mut self) {
        for _ in 0..150 {
            self.now_unix_ms += 1 + i64::try_from(self.rng.below(40_000)).unwrap();
            match self.rng.below(100) {
                0..=84 => {
                    let server = self.pick(2);
                    self.requests(server);
                }
                85..=89 => self.settle(),
                90..=93 => self.backups.push(self.tables.clone()),
                94..=96 => self.restore(),
                97 => self.client.stamp = stamp(2027),
                _ => self.expire(),
            }
            check_coverage(&self.tables);
        }
    }

    /// Sends some requests in one transaction, by one of the servers.
    fn requests(&mut self, server: usize) {
        let mut asks = Vec::new();
        for _ in 0..=self.rng.below(4) {
            let is_new = self.open.is_empty() || self.rng.below(3) == 0;
            if is_new {
                self.next_request += 1;
                self.open.push(format!("r{}", self.next_request));
            }
            let at = if is_new { self.open.len() - 1 } else { self.pick(self.open.len()) };
            let request = self.open[at].clone();
            let act = match self.rng.below(6) {
                _ if is_new => NumberAct::Reserve { due_s: 60, commits: false },
                0 | 1 => NumberAct::Reserve { due_s: 60, commits: self.rng.below(4) == 0 },
                2 => NumberAct::Commit,
                3 | 4 => NumberAct::Release,
                _ => NumberAct::Void { reason: "spoiled".to_owned() },
            };
            if act == NumberAct::Release {
                self.returned.insert(request.clone());
                self.held.retain(|_, holder| *holder != request);
            }
            asks.push(self.client.ask("u", &request, act));
        }
        let answers = self.tables.number(&asks, &self.notes[server], self.now_unix_ms, self.mistake);
        self.note(server);
        for (ask, answer) in asks.iter().zip(answers) {
            // The reply is lost.
            if self.rng.below(4) > 0 {
                self.judge(ask, answer);
            }
        }
    }

    fn pick(&mut self, of: usize) -> usize {
        usize::try_from(self.rng.below(of as u64)).unwrap()
    }

    fn note(&mut self, server: usize) {
        let notes = &mut self.notes[server];
        notes.changes = notes.changes.max(self.tables.changes);
        for (key, next) in &self.tables.counters {
            let noted = notes.counters.entry(key.clone()).or_default();
            *noted = (*noted).max(*next);
        }
    }

    fn judge(&mut self, ask: &NumberRequest, answer: Result<NumberAnswer, NumberRefusal>) {
        let (seed, request) = (self.seed, &ask.request);
        let Ok(NumberAnswer { text, state, .. }) = answer else { return };
        let is_held = matches!(ask.act, NumberAct::Reserve { .. } | NumberAct::Commit);
        if is_held && !self.returned.contains(request) {
            let holder = self.held.entry(text.clone()).or_insert_with(|| request.clone());
            assert_eq!(holder, request, "seed {seed}: {text} has two holders");
            let own = self.texts.entry(request.clone()).or_insert_with(|| text.clone());
            assert_eq!(*own, text, "seed {seed}: {request} has two numbers");
        }
        // A repeated release has its old answer, although another request may have had the number since.
        let is_release = ask.act == NumberAct::Release;
        if let Some(settled) = self.settled.get(&text).filter(|_| !is_release) {
            assert_eq!(state, *settled, "seed {seed}: {text} was settled");
        }
    }

    fn settle(&mut self) {
        let rows: Vec<&LedgerRow> = self.tables.numbers.values().map(|(row, _)| row).collect();
        let unsettled: Vec<String> = rows
            .iter()
            .filter(|row| matches!(row.state, NumberState::Unclear | NumberState::Reserved))
            .map(|row| row.text.clone())
            .collect();
        if unsettled.is_empty() {
            return;
        }
        let text = unsettled[self.pick(unsettled.len())].clone();
        let ask = self.client.settle(&text, self.rng.below(2) == 0);
        let answer = self.tables.number(&[ask], &self.notes[0], self.now_unix_ms, self.mistake).remove(0).unwrap();
        if self.mistake == Some(PlantedMistake::SettleReleases) {
            for (row, _) in self.tables.numbers.values_mut().filter(|(row, _)| row.text == text) {
                row.state = NumberState::Released;
            }
        }
        self.settled.insert(text.clone(), answer.state);
        self.note(0);
    }

    /// Puts a backup back: all tables, or those of the ledger, or the counters. Sometimes the second server never runs
    /// again, and an operator confirms that.
    fn restore(&mut self) {
        let nth = self.pick(self.backups.len());
        let is_lost = self.rng.below(3) == 0;
        let backup = if is_lost { self.tables.clone() } else { self.backups[nth].clone() };
        // What the second server does now, it alone has noted.
        for _ in 0..if is_lost { 4 } else { 0 } {
            self.requests(1);
        }
        match self.rng.below(4) {
            0 => (self.tables.numbers, self.tables.requests) = (backup.numbers, backup.requests),
            1 => self.tables.counters = backup.counters,
            _ => self.tables = backup,
        }
        // What was settled, or answered, may be lost.
        self.settled.clear();
        self.texts.clear();
        if self.mistake == Some(PlantedMistake::NotesAreIgnored) {
            return;
        }
        // Both servers compare their notes before either reserves. The margin of the operator covers what only the lost
        // one had.
        let mut notes = self.notes.clone();
        if is_lost {
            let lost = std::mem::take(&mut self.notes[1]);
            notes[1] = Notes { changes: 0, counters: lost.counters };
        }
        for (key, noted) in notes.iter().flat_map(|notes| &notes.counters) {
            let next = self.tables.counters.entry(key.clone()).or_insert(1);
            *next = (*next).max(*noted);
        }
        for (server, notes) in notes.iter().enumerate() {
            let is_suspect = is_lost && server == 1 && self.mistake != Some(PlantedMistake::LostServerIsTrusted);
            self.tables.compare(notes, &self.client, is_suspect, self.now_unix_ms, self.mistake);
        }
        self.note(0);
        if !is_lost {
            self.note(1);
        }
    }

    /// Does nothing: reservations do not expire.
    fn expire(&mut self) {
        if self.mistake != Some(PlantedMistake::ReservationExpires) {
            return;
        }
        for (row, _) in self.tables.numbers.values_mut() {
            if row.state == NumberState::Reserved && row.due_unix_ms <= self.now_unix_ms {
                row.state = NumberState::Released;
            }
        }
    }
}

#[test]
fn no_text_has_two_holders_and_no_number_is_without_a_state() {
    for seed in 0..100 {
        World::new(seed, None).run();
    }
}

#[test]
fn planted_mistakes_are_found() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let missed: Vec<PlantedMistake> = MISTAKES
        .into_iter()
        .filter(|mistake| {
            let runs = |seed| std::panic::catch_unwind(|| World::new(seed, Some(*mistake)).run()).is_ok();
            (0..400).all(runs)
        })
        .collect();
    std::panic::set_hook(hook);
    assert_eq!(missed, []);
}
