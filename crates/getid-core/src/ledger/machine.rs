//! Decisions about numbers: [`Ledger`] has the rows that a transaction has locked and read, decides the requests of the
//! transaction one after the other, and returns the rows to write.
//!
//! Each transaction that changes something adds 1 to the number of changes in the generator's row, and writes that
//! number into the rows of the ledger that it changes. So the highest change in the ledger is the generator's, unless
//! one of both was restored from a backup. A server notes the number too, and notices that all of it was restored.
//! What an old ledger knows of reserved and released numbers may be wrong: they become unclear.
//!
//! Invariant: a request that is refused changes nothing.

use alloc::borrow::ToOwned as _;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{LedgerRow, NumberAct, NumberAnswer, NumberRefusal, NumberRequest, NumberState};
use crate::sequence::Key;
use crate::serial::{CivilTime, CounterDeclaration, CounterKind, ReleasedNumbers};

/// The number of a request. It stays for ever, because a request is repeated whenever a reply was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHandle {
    /// Name of the generator.
    pub name: String,
    /// The request.
    pub request: String,
    /// User of the request.
    pub user: String,
    /// Key of the counter of its number.
    pub key: Key,
    /// Its number. Another request may have it by now, if this one has released it.
    pub number: i64,
    /// What the request has done with it.
    pub state: NumberState,
}

/// The ledger of a generator as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GeneratorLedger {
    /// Number of changes of the ledger, by the row of the generator.
    pub changes: u64,
    /// Highest number of a change in the rows of the ledger; 0 if it has none.
    pub highest_change: u64,
    /// Number of changes in the notes of the server; 0 without a note.
    pub noted_changes: u64,
    /// A counter of the generator that has given numbers, if there is one and the ledger has no row.
    pub counted_without: Option<Key>,
    /// Number of requests that have released their numbers, by the row of the generator.
    pub released_requests: u64,
}

/// The counter of a key, as its row and the ledger have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterView {
    /// First number that is not handed out.
    pub next: i64,
    /// Highest number that the counter may give.
    pub max: i64,
    /// Highest number in the ledger; 0 without one.
    pub highest: i64,
    /// First number that was not handed out by the notes of the server; 0 without a note.
    pub noted_next: i64,
}

/// A row to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenNumber {
    /// The row.
    pub row: LedgerRow,
    /// Whether it is a new row.
    pub is_new: bool,
}

/// A request whose number was settled without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledRequest {
    /// Name of the generator.
    pub name: String,
    /// The request.
    pub request: String,
    /// Its new state, if its present one is reserved.
    pub state: NumberState,
}

/// A change of a generator's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratorWrite {
    /// Name of the generator.
    pub name: String,
    /// New number of changes of its ledger.
    pub changes: u64,
    /// Number of requests that are new.
    pub new_requests: u64,
    /// Number of requests that have released their numbers for other requests.
    pub new_released_requests: u64,
}

/// What a transaction writes. Generators and counters are in the order of their names and keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerWrites {
    /// Generators whose reserved and released numbers become unclear, before the other writes.
    pub unclear: Vec<String>,
    /// Generators whose ledger has changed.
    pub generators: Vec<GeneratorWrite>,
    /// Counters that have changed, with their new `next`.
    pub counters: Vec<(Key, i64)>,
    /// Rows of numbers.
    pub numbers: Vec<WrittenNumber>,
    /// New rows of requests.
    pub new_requests: Vec<RequestHandle>,
    /// Rows of requests with another state.
    pub changed_requests: Vec<RequestHandle>,
    /// Requests whose numbers were settled without them.
    pub settled_requests: Vec<SettledRequest>,
}

impl LedgerWrites {
    /// Returns true if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.generators.is_empty()
    }
}

/// How a row differs from the one that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RowWrite {
    #[default]
    None,
    Changed,
    New,
}

#[derive(Clone, Debug, Default)]
struct GeneratorState {
    view: GeneratorLedger,
    /// Whether its reserved and released numbers become unclear.
    is_stale: bool,
    is_changed: bool,
    /// Number of requests of this transaction that have released their numbers.
    new_released_requests: u64,
}

/// The rows that a transaction has read, with the changes of the requests that it has decided.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    now_unix_ms: i64,
    released_max: u64,
    generators: BTreeMap<String, GeneratorState>,
    counters: BTreeMap<Key, (CounterView, bool)>,
    numbers: BTreeMap<(Key, i64), (LedgerRow, RowWrite)>,
    requests: BTreeMap<(String, String), (RequestHandle, RowWrite)>,
    settled: Vec<SettledRequest>,
    /// Texts that other numbers have, by the names of their generators.
    taken: BTreeSet<(String, String)>,
}

impl Ledger {
    /// Creates a ledger without rows. `now_unix_ms`: the database's time. `released_max`: most requests of a generator
    /// that have released their numbers. Such a request keeps its row, and another one gets its number; so without a
    /// maximum a client could write any number of rows with one number.
    pub fn new(now_unix_ms: i64, released_max: u64) -> Ledger {
        Ledger { now_unix_ms, released_max, ..Ledger::default() }
    }

    /// Adds a generator. Must be called before its rows are added.
    pub fn add_generator(&mut self, name: &str, view: GeneratorLedger) {
        let is_stale = view.changes != view.highest_change || view.changes < view.noted_changes;
        // A ledger that has never had a row is as old as its generator.
        let is_stale = is_stale && view.counted_without.is_none();
        self.generators.insert(
            name.to_owned(),
            GeneratorState { view, is_stale, is_changed: is_stale, ..GeneratorState::default() },
        );
    }

    /// Adds a counter, before any request is decided. Numbers that the ledger has lost become unclear: `declaration`
    /// and `stamp` write their text.
    pub fn add_counter(
        &mut self,
        key: &Key,
        view: CounterView,
        declaration: Option<&CounterDeclaration>,
        stamp: CivilTime,
    ) {
        if self.generators.get(key.name()).is_none_or(|generator| generator.view.counted_without.is_some()) {
            self.counters.insert(key.clone(), (view, false));
            return;
        }
        let highest = view.highest.max(0);
        let first_free = highest.saturating_add(1);
        let next = view.next.max(view.noted_next).max(first_free);
        if first_free < next {
            // The ledger has lost numbers that were handed out.
            let (number, last) = (first_free, next - 1);
            let text = declaration.and_then(|declaration| text_in(declaration, key, stamp, number));
            let text = text.filter(|text| !self.is_taken(key.name(), text));
            let row = LedgerRow {
                key: key.clone(),
                number,
                last,
                text: text.unwrap_or_else(|| format!("{key}#{number}")),
                state: NumberState::Unclear,
                since_unix_ms: self.now_unix_ms,
                due_unix_ms: 0,
                request: String::new(),
                user: String::new(),
                reason: "the store has lost its entry".to_owned(),
            };
            self.numbers.insert((key.clone(), number), (row, RowWrite::New));
            self.note_change(key.name());
        }
        // A counter below its ledger is written with the next change: by itself it is no change of the ledger.
        self.counters.insert(key.clone(), (CounterView { next, ..view }, view.next < next));
    }

    /// Adds a row of the ledger.
    pub fn add_number(&mut self, mut row: LedgerRow) {
        let is_stale = self.generators.get(row.key.name()).is_some_and(|generator| generator.is_stale);
        if is_stale && matches!(row.state, NumberState::Reserved | NumberState::Released) {
            (row.state, row.due_unix_ms) = (NumberState::Unclear, 0);
        }
        self.numbers.entry((row.key.clone(), row.number)).or_insert((row, RowWrite::None));
    }

    /// Adds the row of a request.
    pub fn add_request(&mut self, row: RequestHandle) {
        self.requests.entry((row.name.clone(), row.request.clone())).or_insert((row, RowWrite::None));
    }

    /// Adds a text that a number has which is not the one that would get it.
    pub fn add_taken(&mut self, name: &str, text: &str) {
        self.taken.insert((name.to_owned(), text.to_owned()));
    }

    /// Returns the texts of the new numbers. No other number may have one of them: if one has, its text is added, and
    /// the requests are decided again.
    pub fn new_texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let new = self.numbers.values().filter(|(_, change)| *change == RowWrite::New);
        new.map(|(row, _)| (row.key.name(), &*row.text))
    }

    /// Decides a request.
    ///
    /// # Errors
    ///
    /// The reason why it was refused.
    pub fn apply(&mut self, ask: &NumberRequest) -> Result<NumberAnswer, NumberRefusal> {
        match &ask.act {
            NumberAct::Reserve { due_s, commits } => self.reserve(ask, *due_s, *commits),
            NumberAct::Commit => self.finish(ask, NumberState::Committed, ""),
            NumberAct::Release => self.finish(ask, NumberState::Released, ""),
            NumberAct::Void { reason } => self.finish(ask, NumberState::Void, reason),
            NumberAct::Settle { text, commits, reason } => {
                let state = if *commits { NumberState::Committed } else { NumberState::Void };
                self.settle(ask, text, state, reason)
            }
            NumberAct::Raise { last, reason } => self.raise(ask, *last, reason),
        }
    }

    /// Returns what is to be written.
    pub fn into_writes(self) -> LedgerWrites {
        let mut writes = LedgerWrites { settled_requests: self.settled, ..LedgerWrites::default() };
        for (name, state) in self.generators.into_iter().filter(|(_, state)| state.is_changed) {
            let GeneratorLedger { changes, highest_change, noted_changes, .. } = state.view;
            if state.is_stale {
                writes.unclear.push(name.clone());
            }
            writes.generators.push(GeneratorWrite {
                changes: changes.max(highest_change).max(noted_changes).saturating_add(1),
                new_requests: self
                    .requests
                    .values()
                    .filter(|(row, change)| *change == RowWrite::New && row.name == name)
                    .count() as u64,
                new_released_requests: state.new_released_requests,
                name,
            });
        }
        let counters = self.counters.into_iter().filter(|(_, (_, is_changed))| *is_changed);
        writes.counters.extend(counters.map(|(key, (view, _))| (key, view.next)));
        for (row, change) in self.numbers.into_values().filter(|(_, change)| *change != RowWrite::None) {
            writes.numbers.push(WrittenNumber { row, is_new: change == RowWrite::New });
        }
        for (row, change) in self.requests.into_values() {
            match change {
                RowWrite::None => {}
                RowWrite::Changed => writes.changed_requests.push(row),
                RowWrite::New => writes.new_requests.push(row),
            }
        }
        writes
    }

    fn reserve(&mut self, ask: &NumberRequest, due_s: u32, commits: bool) -> Result<NumberAnswer, NumberRefusal> {
        let name = ask.key.name();
        self.check_begin(name)?;
        if let Some(found) = self.request(ask)? {
            if found.key.series() != ask.key.series() {
                return Err(NumberRefusal::OtherSeries { series: found.key.series().to_owned() });
            }
            return match self.state_of_request(&found) {
                NumberState::Reserved if commits => self.finish(ask, NumberState::Committed, ""),
                state @ (NumberState::Reserved | NumberState::Committed) => {
                    Ok(NumberAnswer { text: self.text_of_request(&found), state, is_changed: false })
                }
                state => Err(NumberRefusal::Settled { text: self.text_of_request(&found), state }),
            };
        }
        let mut row = match self.lowest_released(ask) {
            Some(released) => released,
            None => self.next_number(ask)?,
        };
        row.state = if commits { NumberState::Committed } else { NumberState::Reserved };
        row.since_unix_ms = self.now_unix_ms;
        row.due_unix_ms = if commits { 0 } else { self.now_unix_ms.saturating_add(i64::from(due_s) * 1000) };
        row.request.clone_from(&ask.request);
        row.user.clone_from(&ask.user);
        row.reason.clear();
        let answer = NumberAnswer { text: row.text.clone(), state: row.state, is_changed: true };
        let request = RequestHandle {
            name: name.to_owned(),
            request: ask.request.clone(),
            user: ask.user.clone(),
            key: row.key.clone(),
            number: row.number,
            state: row.state,
        };
        self.requests.insert((name.to_owned(), ask.request.clone()), (request, RowWrite::New));
        self.write_number(row);
        Ok(answer)
    }

    /// Does what a request asks for its number.
    fn finish(&mut self, ask: &NumberRequest, to: NumberState, reason: &str) -> Result<NumberAnswer, NumberRefusal> {
        let found = self.request(ask)?.ok_or(NumberRefusal::UnknownRequest)?;
        let text = self.text_of_request(&found);
        if found.state == to {
            return Ok(NumberAnswer { text, state: to, is_changed: false });
        }
        let state = self.state_of_request(&found);
        let row = self.numbers.get(&(found.key.clone(), found.number)).map(|(row, _)| row.clone());
        let Some(mut row) = row.filter(|_| state == NumberState::Reserved) else {
            return Err(NumberRefusal::Settled { text, state });
        };
        let voids = to == NumberState::Released && ask.declaration.gapless() == Some(ReleasedNumbers::Void);
        if to == NumberState::Released && !voids {
            self.count_released(&found.name)?;
        }
        (row.state, row.since_unix_ms, row.due_unix_ms) = (to, self.now_unix_ms, 0);
        reason.clone_into(&mut row.reason);
        if voids {
            (row.state, row.reason) = (NumberState::Void, "released".to_owned());
        }
        self.write_request(RequestHandle { state: to, ..found });
        self.write_number(row);
        Ok(NumberAnswer { text, state: to, is_changed: true })
    }

    /// Counts a request that releases its number.
    fn count_released(&mut self, name: &str) -> Result<(), NumberRefusal> {
        let Some(generator) = self.generators.get_mut(name) else { return Ok(()) };
        let released = generator.view.released_requests.saturating_add(generator.new_released_requests);
        if released >= self.released_max {
            return Err(NumberRefusal::TooManyReleased { max: self.released_max });
        }
        generator.new_released_requests += 1;
        Ok(())
    }

    /// Settles a number without its request.
    fn settle(
        &mut self,
        ask: &NumberRequest,
        text: &str,
        to: NumberState,
        reason: &str,
    ) -> Result<NumberAnswer, NumberRefusal> {
        if !ask.is_admin {
            return Err(NumberRefusal::OtherUser);
        }
        let name = ask.key.name();
        let place = self.place_of(ask, text).ok_or(NumberRefusal::UnknownText)?;
        let row = &self.numbers.get(&place.0).ok_or(NumberRefusal::UnknownText)?.0;
        if row.state == to {
            return Ok(NumberAnswer { text: text.to_owned(), state: to, is_changed: false });
        }
        if matches!(row.state, NumberState::Committed | NumberState::Void) {
            return Err(NumberRefusal::Settled { text: text.to_owned(), state: row.state });
        }
        let (found, before) = (row.clone(), row.state);
        let mut row = self.split_at(found, place.1, &ask.declaration, ask.stamp);
        text.clone_into(&mut row.text);
        (row.state, row.since_unix_ms, row.due_unix_ms) = (to, self.now_unix_ms, 0);
        reason.clone_into(&mut row.reason);
        if before != NumberState::Released && !row.request.is_empty() {
            let of_number = (name.to_owned(), row.request.clone());
            if let Some((request, _)) = self
                .requests
                .get(&of_number)
                .filter(|(request, _)| request.number == row.number && request.state == NumberState::Reserved)
            {
                self.write_request(RequestHandle { state: to, ..request.clone() });
            }
            self.settled.push(SettledRequest { name: of_number.0, request: of_number.1, state: to });
        }
        self.write_number(row);
        Ok(NumberAnswer { text: text.to_owned(), state: to, is_changed: true })
    }

    /// Makes all numbers up to `last` void.
    fn raise(&mut self, ask: &NumberRequest, last: i64, reason: &str) -> Result<NumberAnswer, NumberRefusal> {
        self.check_begin(ask.key.name())?;
        let Some((view, is_changed)) = self.counters.get_mut(&ask.key) else { return Err(NumberRefusal::UnknownText) };
        let number = view.next;
        if last < number {
            return Err(NumberRefusal::Lower { last: number - 1 });
        }
        if last > view.max {
            return Err(NumberRefusal::AtMax { max: view.max });
        }
        let text = text_of(&ask.declaration, ask.stamp, ask.key.series(), number);
        let text = text.ok_or(NumberRefusal::AtMax { max: view.max })?;
        if self.taken.contains(&(ask.key.name().to_owned(), text.clone())) {
            return Err(NumberRefusal::TextTaken { text });
        }
        (view.next, *is_changed) = (last + 1, true);
        let row = LedgerRow {
            last,
            state: NumberState::Void,
            reason: reason.to_owned(),
            user: ask.user.clone(),
            ..self.new_row(&ask.key, number, text.clone())
        };
        self.write_number(row);
        Ok(NumberAnswer { text, state: NumberState::Void, is_changed: true })
    }

    /// Fails if the generator has given numbers before it had a ledger.
    fn check_begin(&self, name: &str) -> Result<(), NumberRefusal> {
        let counted = self.generators.get(name).and_then(|generator| generator.view.counted_without.clone());
        counted.map_or(Ok(()), |key| Err(NumberRefusal::NotFromTheStart { key }))
    }

    /// Returns the row of the request. Fails if it is another user's.
    ///
    /// A user may have the right to one series alone. So a request for the number of a series finds no other one, and
    /// does not reveal whether there is one.
    fn request(&self, ask: &NumberRequest) -> Result<Option<RequestHandle>, NumberRefusal> {
        let is_hidden = |found: &RequestHandle| {
            let series = ask.key.series();
            let reserves = matches!(ask.act, NumberAct::Reserve { .. });
            !reserves && !series.is_empty() && found.key.series() != series
        };
        let found = self.requests.get(&(ask.key.name().to_owned(), ask.request.clone()));
        let found = found.filter(|(found, _)| !is_hidden(found));
        match found {
            // An administrator settles the requests of others; the number of another user is not handed out again.
            Some((found, _))
                if found.user != ask.user && (!ask.is_admin || matches!(ask.act, NumberAct::Reserve { .. })) =>
            {
                Err(NumberRefusal::OtherUser)
            }
            found => Ok(found.map(|(found, _)| found.clone())),
        }
    }

    /// Returns the state of a request. A reserved number is unclear if its row is not the request's, as after a restore
    /// of one table.
    fn state_of_request(&self, found: &RequestHandle) -> NumberState {
        let row = self.numbers.get(&(found.key.clone(), found.number)).map(|(row, _)| row);
        let is_own = row.is_some_and(|row| row.state == NumberState::Reserved && row.request == found.request);
        if found.state == NumberState::Reserved && !is_own { NumberState::Unclear } else { found.state }
    }

    fn text_of_request(&self, found: &RequestHandle) -> String {
        let row = self.numbers.get(&(found.key.clone(), found.number));
        row.map_or_else(|| format!("{}#{}", found.key, found.number), |(row, _)| row.text.clone())
    }

    /// Returns the lowest released number of the counter, unless released numbers are void.
    fn lowest_released(&self, ask: &NumberRequest) -> Option<LedgerRow> {
        if ask.declaration.gapless() == Some(ReleasedNumbers::Void) {
            return None;
        }
        let rows = self.numbers.range((ask.key.clone(), 0)..=(ask.key.clone(), i64::MAX));
        let mut released = rows.filter(|(_, (row, _))| row.state == NumberState::Released);
        released.next().map(|(_, (row, _))| row.clone())
    }

    /// Takes the next number of the counter.
    fn next_number(&mut self, ask: &NumberRequest) -> Result<LedgerRow, NumberRefusal> {
        let Some((view, is_changed)) = self.counters.get_mut(&ask.key) else { return Err(NumberRefusal::UnknownText) };
        let (number, max) = (view.next, view.max);
        let text = text_of(&ask.declaration, ask.stamp, ask.key.series(), number).filter(|_| number <= max);
        let text = text.ok_or(NumberRefusal::AtMax { max })?;
        if self.taken.contains(&(ask.key.name().to_owned(), text.clone())) {
            return Err(NumberRefusal::TextTaken { text });
        }
        (view.next, *is_changed) = (number + 1, true);
        Ok(self.new_row(&ask.key, number, text))
    }

    fn new_row(&self, key: &Key, number: i64, text: String) -> LedgerRow {
        LedgerRow {
            key: key.clone(),
            number,
            last: number,
            text,
            state: NumberState::Reserved,
            since_unix_ms: self.now_unix_ms,
            due_unix_ms: 0,
            request: String::new(),
            user: String::new(),
            reason: String::new(),
        }
    }

    /// Returns the row that has a text, and its number. A row whose text was computed has the numbers that the text
    /// shows.
    fn place_of(&self, ask: &NumberRequest, text: &str) -> Option<((Key, i64), i64)> {
        let is_of_name = |row: &LedgerRow| row.key.name() == ask.key.name();
        let exact = self.numbers.iter().find(|(_, (row, _))| is_of_name(row) && row.text == text);
        if let Some((place, _)) = exact {
            return Some((place.clone(), place.1));
        }
        let (key, number) = place_in_text(&ask.declaration, ask.stamp, text)?;
        let has_it = |row: &LedgerRow| {
            let is_guessed = row.state == NumberState::Unclear && row.request.is_empty();
            let is_in = row.key == key && (row.number..=row.last).contains(&number);
            is_in && is_guessed
        };
        let (place, _) = self.numbers.iter().find(|(_, (row, _))| has_it(row))?;
        Some((place.clone(), number))
    }

    /// Splits a range, so that a row has only this number. Returns that row.
    fn split_at(
        &mut self,
        row: LedgerRow,
        number: i64,
        declaration: &CounterDeclaration,
        stamp: CivilTime,
    ) -> LedgerRow {
        let text = |number: i64| {
            let text = text_in(declaration, &row.key, stamp, number);
            let text = text.filter(|text| !self.is_taken(row.key.name(), text));
            text.unwrap_or_else(|| format!("{}#{number}", row.key))
        };
        let behind =
            (number < row.last).then(|| LedgerRow { number: number + 1, text: text(number + 1), ..row.clone() });
        let of_number = LedgerRow { number, last: number, text: text(number), ..row.clone() };
        if row.number < number {
            self.write_number(LedgerRow { last: number - 1, ..row });
        }
        if let Some(behind) = behind {
            self.write_number(behind);
        }
        of_number
    }

    fn is_taken(&self, name: &str, text: &str) -> bool {
        self.taken.contains(&(name.to_owned(), text.to_owned()))
    }

    fn write_number(&mut self, row: LedgerRow) {
        self.note_change(row.key.name());
        let place = (row.key.clone(), row.number);
        let change = match self.numbers.get(&place) {
            Some((_, RowWrite::None | RowWrite::Changed)) => RowWrite::Changed,
            Some((_, RowWrite::New)) | None => RowWrite::New,
        };
        self.numbers.insert(place, (row, change));
    }

    fn write_request(&mut self, row: RequestHandle) {
        let place = (row.name.clone(), row.request.clone());
        let change = match self.requests.get(&place) {
            Some((_, RowWrite::New)) => RowWrite::New,
            _ => RowWrite::Changed,
        };
        self.requests.insert(place, (row, change));
    }

    fn note_change(&mut self, name: &str) {
        if let Some(generator) = self.generators.get_mut(name) {
            generator.is_changed = true;
        }
    }
}

/// Returns the text of a number; `None` if the template does not hold it.
fn text_of(declaration: &CounterDeclaration, stamp: CivilTime, series: &str, number: i64) -> Option<String> {
    let CounterKind::Serial(serial) = declaration.kind() else { return None };
    let mut text = Vec::new();
    let is_written = serial.write(stamp, series, number, &mut text);
    String::from_utf8(text).ok().filter(|_| is_written)
}

/// Returns the text of a number of a counter, which may be of another period than `stamp`.
fn text_in(declaration: &CounterDeclaration, key: &Key, stamp: CivilTime, number: i64) -> Option<String> {
    let reset = declaration.reset();
    let is_in = reset.period(stamp).unwrap_or_default() == key.period();
    let stamp = if is_in { stamp } else { reset.first_of(key.period())? };
    text_of(declaration, stamp, key.series(), number)
}

/// Returns the counter and the number that a text shows; `None` if the generator does not write it.
///
/// A year of two digits is the last one up to the year of `now`, because no number is handed out before its period.
pub fn place_in_text(declaration: &CounterDeclaration, now: CivilTime, text: &str) -> Option<(Key, i64)> {
    let reading = declaration.read(text)?;
    let stamp = match declaration.kind() {
        CounterKind::Serial(serial) if serial.template.has_short_years() => {
            let years_ago = (now.year + 100 - reading.stamp.year % 100) % 100;
            let mut years = (0..4).filter_map(|century| now.year.checked_sub(years_ago + 100 * century));
            years.find_map(|year| serial.template.time_in(reading.stamp, year))?
        }
        _ => reading.stamp,
    };
    let period = declaration.reset().period(stamp).unwrap_or_default();
    Some((Key::of(declaration.name(), reading.series.as_str(), &period)?, reading.value))
}
