//! The tables of ledgers in any database: `getid_number` has the state of each number, `getid_number_request` the
//! number of each request. [`Ledger`] decides about the rows; the databases lock, read and write them.
//!
//! | `getid_number` | |
//! |---|---|
//! | `name`, `series`, `period`, `number` | the primary key; `name`, `series` and `period` are those of the counter |
//! | `last` | the last number of a range of void or unclear ones; else `number` |
//! | `text` | the number as it was handed out: a declaration may change later |
//! | `state` | `reserved`, `committed`, `released`, `void` or `unclear` |
//! | `since`, `due` | Unix ms by the database's clock; `due` is 0 unless the number is reserved |
//! | `request`, `owner` | the request that has the number, or had it last, and its user |
//! | `reason` | why the number is in its state |
//! | `entry` | number of the change that wrote the row |
//!
//! | `getid_number_request` | a row for each request, for ever |
//! |---|---|
//! | `name`, `request` | the primary key |
//! | `owner` | user of the request |
//! | `series`, `period`, `number` | its number |
//! | `state` | what the request has done with it |
//!
//! In `getid_generator`, `requests` counts the rows of `getid_number_request`, and `released_requests` those that have
//! released their numbers: a client can make many of these with one number, so they have a maximum.
//!
//! The column `ledger` of `getid_generator` is the number of changes of a ledger. A transaction that changes a ledger
//! holds the lock of that row, so that it sees all that earlier ones have written.
//!
//! Invariant: a transaction that changes a ledger adds 1 to `ledger` and writes it into a row of `getid_number`.

use std::collections::{BTreeMap, BTreeSet};

use getid_core::server::beat::Credentials;
use getid_core::server::ledger::{
    COUNTED_MAX, CounterView, GeneratorLedger, GeneratorWrite, Ledger, LedgerCounts, LedgerPage, LedgerQuery,
    LedgerRow, LedgerWrites, NumberAct, NumberAnswer, NumberRequest, NumberState, RequestHandle, place_in_text,
};
use getid_core::server::{CivilDay, CivilTime, CounterDeclaration, Key, VALUE_MAX};

use super::beats::{self, BeatStatements};
use super::native::{self, GENERATOR_COLUMNS, RawRow, column};
use super::packet::{Link, Packet, SqlRow, StatementResult};
use super::script::{self, is_row};
use super::{
    Generator, LedgerNote, NumberAnswers, NumberVerdict, OpenPeriodRequest, RowState, SequenceRow, StoreError, Verdict,
    declares_ledger,
};

/// Columns of a [`LedgerRow`], in its order.
const NUMBER_COLUMNS: [&str; 12] =
    ["name", "series", "period", "number", "last", "text", "state", "since", "due", "request", "owner", "reason"];

/// Columns of a [`RequestHandle`], in its order.
const REQUEST_COLUMNS: &str = "name, request, owner, series, period, number, state";

/// Most rows of a page.
const PAGE_MAX: u32 = 1000;

/// Most rows that are read for a page of one period of all series.
const SCANNED_MAX: u32 = 10_000;

/// Most rounds of decisions in one transaction. Each round knows more texts that other numbers have.
const ROUNDS_MAX: usize = 3;

/// Rows that a transaction has locked and read.
struct Found {
    now_unix_ms: i64,
    generators: BTreeMap<String, (Generator, GeneratorLedger)>,
    numbers: Vec<LedgerRow>,
    requests: Vec<RequestHandle>,
    /// Rows of counters, with the highest number of each in the ledger.
    counters: BTreeMap<Key, (Result<SequenceRow, Verdict>, i64)>,
    /// First numbers that were not handed out by the notes of the server.
    noted_counters: BTreeMap<Key, i64>,
    /// Texts that other numbers have, with the names of their generators.
    taken: BTreeSet<(String, String)>,
}

impl Found {
    /// Returns the requests that have a row, each with the name of its generator.
    fn known_requests(&self) -> BTreeSet<(&str, &str)> {
        self.requests.iter().map(|known| (&*known.request, &*known.name)).collect()
    }
}

/// Positions of statements whose results are read.
struct Statements {
    now: usize,
    generators: usize,
    /// Highest change, and a counter that has given numbers without a ledger, for each name.
    of_names: Vec<(String, usize, usize)>,
    numbers: Vec<usize>,
    requests: Vec<usize>,
}

/// Does [`Connection::number`](super::Connection::number).
pub(super) async fn number<L: Link>(
    link: &mut L,
    server: Option<Credentials>,
    asks: &[NumberRequest],
    noted: &[LedgerNote],
    released_max: u64,
) -> Result<NumberAnswers, StoreError> {
    let mut packet = Packet::locking();
    let own = server.map(|server| BeatStatements::add::<L>(&mut packet, server, beats::LIVE));
    let statements = Statements::add::<L>(&mut packet, asks, &[]);
    let done = link.run(packet).await?;
    let server = own.map(|own| own.read(&done)).transpose()?;
    let mut keys: BTreeMap<&Key, usize> = BTreeMap::new();
    for ask in asks.iter().filter(|ask| matches!(ask.act, NumberAct::Reserve { .. } | NumberAct::Raise { .. })) {
        *keys.entry(&ask.key).or_default() += 1;
    }
    let decided = async {
        let mut found = statements.read(&done, noted)?;
        read_counters(link, &keys, &mut found).await?;
        let decided = decide_untaken(link, asks, &mut found, released_max).await?;
        Ok((found, decided))
    };
    let (found, (ledger, each, settles)) = match decided.await {
        Ok(decided) => decided,
        Err(error) => return Err(rolled_back(link, error).await),
    };
    let writes = ledger.into_writes();
    let (ledgers, counters) = write(link, &writes, &found, &settles).await?;
    Ok(NumberAnswers { server, each, ledgers, counters })
}

/// Does [`Connection::compare_ledgers`](super::Connection::compare_ledgers).
pub(super) async fn compare<L: Link>(
    link: &mut L,
    server: Option<Credentials>,
    noted: &[LedgerNote],
) -> Result<Option<super::Comparison>, StoreError> {
    let mut packet = Packet::locking();
    let own = server.map(|server| BeatStatements::add::<L>(&mut packet, server, beats::COMPARING));
    let statements = Statements::add::<L>(&mut packet, &[], noted);
    let done = link.run(packet).await?;
    let Ok(beaten) = own.map(|own| own.read(&done)).transpose() else {
        link.rollback().await?;
        return Ok(None);
    };
    let decided = async {
        let mut found = statements.read(&done, noted)?;
        let keys = noted.iter().flat_map(|note| &note.counters).map(|(key, _)| (key, 0)).collect();
        read_counters(link, &keys, &mut found).await?;
        let decided = decide_untaken(link, &[], &mut found, 0).await?;
        Ok((found, decided.0.into_writes()))
    };
    let (found, writes) = match decided.await {
        Ok(decided) => decided,
        Err(error) => return Err(rolled_back(link, error).await),
    };
    let raised = writes.generators.len();
    write(link, &writes, &found, &BTreeSet::new()).await?;
    Ok(Some(super::Comparison { beat: beaten.map_or(0, |beaten| beaten.beat), raised }))
}

/// Decides all requests, so that no new number has the text of another one.
async fn decide_untaken<L: Link>(
    link: &mut L,
    asks: &[NumberRequest],
    found: &mut Found,
    released_max: u64,
) -> Result<Decisions, StoreError> {
    for _ in 0..=ROUNDS_MAX {
        let decided = decide(asks, found, released_max);
        let more = taken_texts(link, &decided.0).await?;
        if more.is_empty() {
            return Ok(decided);
        }
        found.taken.extend(more);
    }
    Err(StoreError::Refused("the texts of new numbers are those of other numbers".to_owned()))
}

/// Returns a page of a ledger. A page of one period of all series may have fewer rows than its limit, or none, and a
/// cursor nevertheless.
pub(super) async fn page<L: Link>(link: &mut L, query: &LedgerQuery) -> Result<LedgerPage, StoreError> {
    let limit = query.limit.clamp(1, PAGE_MAX);
    let mut condition = L::compared("name", "=", &query.name);
    if let Some(series) = &query.series {
        condition = format!("{condition} AND {}", L::compared("series", "=", series));
    }
    if let Some(state) = query.state {
        condition = format!("{condition} AND state = '{}'", state.word());
    }
    if !query.after.is_empty() {
        // A cursor may be any text: a part that is in no key is read as an empty one.
        let mut parts = query.after.splitn(3, '/');
        let mut part = || parts.next().unwrap_or_default();
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        let of_key = |part: &str| literal(if part.bytes().all(is_known) { part } else { "" });
        let (series, period) = (of_key(part()), of_key(part()));
        let number = part().parse::<i64>().unwrap_or(0).to_string();
        let is_behind = L::is_behind(&[("series", &series), ("period", &period), ("number", &number)]);
        condition = format!("{condition} AND {is_behind}");
    }
    let table = format!("getid_number{}", query.state.map_or("", |_| L::BY_STATE));
    let (order, columns) = ("ORDER BY name, series, period, number", number_columns(""));
    let Some(period) = query.period.as_ref().filter(|_| query.series.is_none()) else {
        if let Some(period) = &query.period {
            condition = format!("{condition} AND {}", L::compared("period", "=", period));
        }
        let done =
            link.run(Packet::of(format!("SELECT {columns} FROM {table} WHERE {condition} {order} LIMIT {limit}")));
        let rows: Vec<LedgerRow> = done.await?[0].rows.iter().map(number_of).collect::<Result<_, _>>()?;
        let next = rows.last().filter(|_| rows.len() >= limit as usize).map(cursor_of);
        return Ok(LedgerPage { rows, next });
    };
    // No index has the periods of all series together. So a bounded number of rows is read, and the cursor
    // continues behind the last of them. One statement reads both, so that no change of a state is between them.
    let scanned = format!("SELECT {columns} FROM {table} WHERE {condition} {order} LIMIT");
    let is_period = L::compared("period", "=", period);
    let done = link.run(Packet::of(format!(
        "SELECT {columns}, 0 FROM (SELECT {columns} FROM ({scanned} {SCANNED_MAX}) AS scanned WHERE {is_period} \
         {order} LIMIT {limit}) AS page UNION ALL SELECT {columns}, 1 FROM ({scanned} 1 OFFSET {}) AS ending",
        SCANNED_MAX - 1
    )));
    let done = done.await?;
    let (ending, rows): (Vec<&SqlRow>, Vec<&SqlRow>) =
        done[0].rows.iter().partition(|row| row.number(NUMBER_COLUMNS.len()) == Some(1));
    let read = |rows: Vec<&SqlRow>| rows.into_iter().map(number_of).collect::<Result<Vec<_>, _>>();
    let (mut rows, ending) = (read(rows)?, read(ending)?);
    let place = |row: &LedgerRow| (row.key.clone(), row.number);
    // The order of a union is not defined.
    rows.sort_by_key(place);
    let next = match ending.first() {
        _ if rows.len() >= limit as usize => rows.last(),
        Some(end) => rows.last().into_iter().chain([end]).max_by_key(|row| place(row)),
        None => None,
    };
    let next = next.map(cursor_of);
    Ok(LedgerPage { rows, next })
}

/// Returns the cursor of the page behind a row.
fn cursor_of(row: &LedgerRow) -> String {
    format!("{}/{}/{}", row.key.series(), row.key.period(), row.number)
}

/// Returns the numbers of a generator by their states, as far as [`COUNTED_MAX`] rows of each. An index finds them, so
/// committed and void numbers cost nothing.
pub(super) async fn counts<L: Link>(link: &mut L, name: &str) -> Result<LedgerCounts, StoreError> {
    let is_name = L::compared("name", "=", name);
    let (mut packet, now) = (Packet::new(), L::NOW);
    for (columns, state, sums, of_counted) in [
        ("due", "reserved", format!("COUNT(*), SUM(CASE WHEN due <= {now} THEN 1 ELSE 0 END)"), String::new()),
        ("last, number", "unclear", "SUM(last - number + 1)".to_owned(), String::new()),
        (
            "period",
            "released",
            "COUNT(*)".to_owned(),
            format!(" WHERE period = (SELECT newest FROM getid_generator WHERE {is_name})"),
        ),
    ] {
        packet.add(format!(
            "SELECT {sums} FROM (SELECT {columns} FROM getid_number{} WHERE {is_name} AND state = '{state}' \
             LIMIT {COUNTED_MAX}) AS counted{of_counted}",
            L::BY_STATE
        ));
    }
    packet.add(format!("SELECT requests, released_requests FROM getid_generator WHERE {is_name}"));
    let done = link.run(packet).await?;
    let number = |of: usize, at| done[of].rows.first().and_then(|row| row.number(at)).unwrap_or(0).unsigned_abs();
    Ok(LedgerCounts {
        reserved: number(0, 0),
        overdue: number(0, 1),
        unclear: number(1, 0),
        released: number(2, 0),
        requests: number(3, 0),
        released_requests: number(3, 1),
    })
}

/// Returns the query for the period of a counter that has given numbers without a ledger. A row with the mark of a
/// store that went back may be the counter of a ledger.
pub(super) fn counted_without_sql(name: &str) -> String {
    format!(
        "SELECT period FROM getid_sequence WHERE name = '{name}' AND state IN ('live', 'dropped') \
         AND (next > 1 OR next > start) AND NOT EXISTS (SELECT 1 FROM getid_number WHERE name = '{name}') \
         AND NOT EXISTS (SELECT 1 FROM getid_generator WHERE name = '{name}' AND ledger > 0) ORDER BY period LIMIT 1"
    )
}

/// Returns the query whether a generator has a ledger.
pub(super) fn has_ledger_sql<L: Link>(name: &str) -> String {
    format!("SELECT 1 FROM getid_number WHERE name = '{name}' LIMIT 1{}", L::CURRENT)
}

/// Ends the transaction, and returns the error; or the error of the end.
async fn rolled_back<L: Link>(link: &mut L, error: StoreError) -> StoreError {
    link.rollback().await.err().unwrap_or(error)
}

impl Statements {
    /// Adds the statements that lock the generators, and read the rows of the requests.
    fn add<L: Link>(packet: &mut Packet, asks: &[NumberRequest], noted: &[LedgerNote]) -> Statements {
        let mut names: BTreeMap<&str, Vec<&str>> = noted.iter().map(|note| (&*note.name, Vec::new())).collect();
        for ask in asks {
            let requests = names.entry(ask.key.name()).or_default();
            requests.extend(Some(&*ask.request).filter(|request| !request.is_empty()));
        }
        let now = packet.add(format!("SELECT {}", L::NOW));
        let any = script::or(names.keys().map(|name| format!("name = {}", literal(name))));
        let generators = packet.add(format!(
            "SELECT ledger, released_requests, {GENERATOR_COLUMNS} FROM getid_generator WHERE {any} ORDER BY name{}",
            L::FOR_UPDATE
        ));
        let (mut of_names, mut numbers, mut requests) = (Vec::new(), Vec::new(), Vec::new());
        for (name, asked) in names {
            let (text, current) = (literal(name), L::CURRENT);
            let change =
                format!("SELECT entry FROM getid_number WHERE name = {text} ORDER BY entry DESC LIMIT 1{current}");
            of_names.push((name.to_owned(), packet.add(change), packet.add(counted_without_sql(name))));
            if asked.is_empty() {
                continue;
            }
            let asked: Vec<String> = asked.into_iter().map(L::text).collect();
            let asked = asked.join(", ");
            requests.push(packet.add(format!(
                "SELECT {REQUEST_COLUMNS} FROM getid_number_request WHERE name = {text} \
                 AND request IN ({asked}){current}"
            )));
            numbers.push(packet.add(format!(
                "SELECT {} FROM getid_number_request r JOIN getid_number n ON n.name = r.name AND n.series = r.series \
                 AND n.period = r.period AND n.number = r.number WHERE r.name = {text} \
                 AND r.request IN ({asked}){current}",
                number_columns("n.")
            )));
        }
        for ask in asks {
            let NumberAct::Settle { text, .. } = &ask.act else { continue };
            let select = format!("SELECT {} FROM getid_number", number_columns(""));
            let name = literal(ask.key.name());
            numbers.push(packet.add(format!(
                "{select} WHERE name = {name} AND text = {}{}",
                L::text(text),
                L::CURRENT
            )));
            if let Some((key, number)) = place_in_text(&ask.declaration, ask.stamp, text) {
                numbers.push(packet.add(format!(
                    "{select}{} WHERE name = {name} AND state = 'unclear' AND request = '' AND series = {} \
                     AND period = {} AND number <= {number} AND last >= {number}{}",
                    L::BY_STATE,
                    literal(key.series()),
                    literal(key.period()),
                    L::CURRENT
                )));
            }
        }
        Statements { now, generators, of_names, numbers, requests }
    }

    /// Reads the results.
    fn read(&self, done: &[StatementResult], noted: &[LedgerNote]) -> Result<Found, StoreError> {
        let mut generators = BTreeMap::new();
        for row in &done[self.generators].rows {
            let generator = Generator::of(&SqlRow(row.0.get(2..).unwrap_or_default().to_vec()));
            let [changes, released_requests] = [0, 1].map(|at| row.number(at).unwrap_or(0).unsigned_abs());
            let Some((name, change, without)) = self.of_names.iter().find(|(name, ..)| *name == generator.name) else {
                continue;
            };
            let highest_change = done[*change].number().unwrap_or(0).unsigned_abs();
            let note = noted.iter().find(|note| note.name == *name);
            let noted_changes = note.map_or(0, |note| note.changes);
            let period = done[*without].rows.first().map(|row| row.shown(0));
            // A generator that had a ledger has lost it.
            let period = period.filter(|_| noted_changes == 0);
            let is_suspect = changes > 0 && note.is_some_and(|note| note.is_suspect);
            let noted_changes = if is_suspect { noted_changes.max(changes.saturating_add(1)) } else { noted_changes };
            let counted_without = period.and_then(|period| Key::of(name, "", &period));
            let ledger = GeneratorLedger { changes, highest_change, noted_changes, counted_without, released_requests };
            generators.insert(name.clone(), (generator, ledger));
        }
        let rows = |places: &[usize]| places.iter().flat_map(|at| &done[*at].rows).cloned().collect::<Vec<_>>();
        Ok(Found {
            now_unix_ms: done[self.now].number().unwrap_or(0),
            generators,
            numbers: rows(&self.numbers).iter().map(number_of).collect::<Result<_, _>>()?,
            requests: rows(&self.requests).iter().map(request_of).collect::<Result<_, _>>()?,
            counters: BTreeMap::new(),
            noted_counters: noted.iter().flat_map(|note| note.counters.iter().cloned()).collect(),
            taken: BTreeSet::new(),
        })
    }
}

/// Locks and reads counters, so many of the lowest released numbers of each, and the requests that have the numbers to
/// be settled.
async fn read_counters<L: Link>(
    link: &mut L,
    keys: &BTreeMap<&Key, usize>,
    found: &mut Found,
) -> Result<(), StoreError> {
    let known = found.known_requests();
    let is_settled = |row: &&LedgerRow| !row.request.is_empty() && !known.contains(&(&*row.request, row.key.name()));
    let settled: Vec<String> = found
        .numbers
        .iter()
        .filter(is_settled)
        .map(|row| format!("name = {} AND request = {}", literal(row.key.name()), L::text(&row.request)))
        .collect();
    if keys.is_empty() && settled.is_empty() {
        return Ok(());
    }
    let mut packet = Packet::within();
    let rows = (!keys.is_empty()).then(|| packet.add(script::lock_rows_sql::<L>(keys.keys().copied())));
    let mut of_keys = Vec::new();
    for (key, reserves) in keys {
        let (of_key, current) = (is_row(key), L::CURRENT);
        let highest =
            packet.add(format!("SELECT last FROM getid_number WHERE {of_key} ORDER BY number DESC LIMIT 1{current}"));
        let released = packet.add(format!(
            "SELECT {} FROM getid_number{} WHERE {of_key} AND state = 'released' ORDER BY number \
             LIMIT {reserves}{current}",
            number_columns(""),
            L::BY_STATE
        ));
        of_keys.push(((*key).clone(), highest, released));
    }
    let requests = (!settled.is_empty()).then(|| {
        let any = script::or(settled.into_iter());
        packet.add(format!("SELECT {REQUEST_COLUMNS} FROM getid_number_request WHERE {any}{}", L::CURRENT))
    });
    let done = link.run(packet).await?;
    let mut rows = rows.map(|rows| script::by_key(&done[rows])).unwrap_or_default();
    for (key, highest, released) in of_keys {
        for row in &done[released].rows {
            found.numbers.push(number_of(row)?);
        }
        let row = match rows.remove(key.as_str()).map(RawRow::read) {
            None => Err(Verdict::NoSuch),
            Some(Err(bad)) => Err(Verdict::BadRow(bad.to_string())),
            Some(Ok(row)) => Ok(row),
        };
        found.counters.insert(key, (row, done[highest].number().unwrap_or(0)));
    }
    for row in requests.iter().flat_map(|at| &done[*at].rows) {
        found.requests.push(request_of(row)?);
    }
    Ok(())
}

/// The ledger, an answer to each request, and the counters whose mark a raise removes.
type Decisions = (Ledger, Vec<Result<NumberAnswer, NumberVerdict>>, BTreeSet<Key>);

/// Completes the ledgers of the counters that were read, and decides all requests.
fn decide(asks: &[NumberRequest], found: &Found, released_max: u64) -> Decisions {
    let mut ledger = Ledger::new(found.now_unix_ms, released_max);
    for (name, (_, view)) in &found.generators {
        ledger.add_generator(name, view.clone());
    }
    for (name, text) in &found.taken {
        ledger.add_taken(name, text);
    }
    for row in &found.numbers {
        ledger.add_number(row.clone());
    }
    for row in &found.requests {
        ledger.add_request(row.clone());
    }
    let mut added = BTreeSet::new();
    for ask in asks {
        if let Some((Ok(row), highest)) = found.counters.get(&ask.key)
            && added.insert(&ask.key)
        {
            let noted_next = found.noted_counters.get(&ask.key).copied().unwrap_or(0);
            let view = CounterView { next: row.next, max: row.spec.max, highest: *highest, noted_next };
            ledger.add_counter(&ask.key, view, Some(&ask.declaration), ask.stamp);
        }
    }
    if asks.is_empty() {
        add_noted_counters(&mut ledger, found);
    }
    let known = found.known_requests();
    let mut settles = BTreeSet::new();
    let each = asks.iter().map(|ask| {
        if let Some(verdict) = verdict_of(ask, found, &known) {
            return Err(NumberVerdict::Row(verdict));
        }
        let answer = ledger.apply(ask).map_err(NumberVerdict::Refused)?;
        if matches!(ask.act, NumberAct::Raise { .. }) {
            settles.insert(ask.key.clone());
        }
        Ok(answer)
    });
    let each = each.collect();
    (ledger, each, settles)
}

/// Adds the noted counters, to which no request belongs. Their declaration is that of the store.
fn add_noted_counters(ledger: &mut Ledger, found: &Found) {
    let stamp = CivilTime::at(CivilDay::of_unix_ms(found.now_unix_ms), 0);
    for (key, (row, highest)) in &found.counters {
        let Some((generator, _)) = found.generators.get(key.name()) else { continue };
        let words: Vec<&str> = std::iter::once(key.name()).chain(generator.declaration.split(' ')).collect();
        let declaration = CounterDeclaration::parse(&words, |_| Ok(())).and_then(Result::ok);
        let (next, max) = row.as_ref().map_or((0, 0), |row| (row.next, row.spec.max));
        let noted_next = found.noted_counters.get(key).copied().unwrap_or(0);
        let view = CounterView { next, max, highest: *highest, noted_next };
        ledger.add_counter(key, view, declaration.as_ref(), stamp);
    }
}

/// Returns why a request is refused by the rows of its generator and its counter.
fn verdict_of(ask: &NumberRequest, found: &Found, known: &BTreeSet<(&str, &str)>) -> Option<Verdict> {
    let is_known = known.contains(&(&*ask.request, ask.key.name()));
    let takes = match ask.act {
        // A repeated request needs no counter.
        NumberAct::Reserve { .. } => !is_known,
        NumberAct::Raise { .. } => true,
        _ => false,
    };
    let has_ledger = || is_known || found.numbers.iter().any(|row| row.key.name() == ask.key.name());
    if !takes && !found.generators.contains_key(ask.key.name()) && has_ledger() {
        // The store has lost the generator's row, which counts the changes of its ledger. It is begun again first.
        return Some(Verdict::NoSuch);
    }
    if !takes {
        return None;
    }
    let Some((generator, ledger)) = found.generators.get(ask.key.name()) else { return Some(Verdict::NoSuch) };
    if ledger.counted_without.is_some() {
        return None;
    }
    let configured = ask.declaration.shared_text();
    if generator.declaration != configured {
        return Some(Verdict::Declared { stored: generator.declaration.clone(), configured });
    }
    let newest = generator.newest_as(ask.declaration.reset());
    if *newest > *ask.key.period() {
        return Some(Verdict::Newer { period: newest });
    }
    match found.counters.get(&ask.key) {
        None => Some(Verdict::NoSuch),
        Some((Err(verdict), _)) => Some(verdict.clone()),
        Some((Ok(row), _)) => match row.state {
            RowState::Ledger => None,
            RowState::WentBack if matches!(ask.act, NumberAct::Raise { .. }) => None,
            // It has given nothing, and becomes a counter of the ledger when it is opened.
            RowState::Live => Some(Verdict::NoSuch),
            RowState::WentBack | RowState::Dropped => native::refusal(row),
        },
    }
}

/// Returns the texts of new numbers that other numbers have.
async fn taken_texts<L: Link>(link: &mut L, ledger: &Ledger) -> Result<Vec<(String, String)>, StoreError> {
    let mut texts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, text) in ledger.new_texts() {
        texts.entry(name).or_default().push(L::text(text));
    }
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let mut packet = Packet::within();
    for (name, texts) in &texts {
        packet.add(format!(
            "SELECT name, text FROM getid_number WHERE name = {} AND text IN ({}){}",
            literal(name),
            texts.join(", "),
            L::CURRENT
        ));
    }
    let done = link.run(packet).await?;
    Ok(done.iter().flat_map(|done| &done.rows).map(|row| (row.shown(0), row.shown(1))).collect())
}

/// Writes what was decided, and ends the transaction. Returns the number of changes of each ledger, and the counters
/// that were written, each with its `next` before.
async fn write<L: Link>(
    link: &mut L,
    writes: &LedgerWrites,
    found: &Found,
    settles: &BTreeSet<Key>,
) -> Result<(Vec<LedgerNote>, Vec<(i64, SequenceRow)>), StoreError> {
    let changed = |name: &str| writes.generators.iter().find(|write| write.name == name).map(|write| write.changes);
    let note = |(name, (_, ledger)): (&String, &(Generator, GeneratorLedger))| LedgerNote {
        name: name.clone(),
        changes: changed(name).unwrap_or(ledger.changes),
        is_suspect: false,
        counters: Vec::new(),
    };
    let ledgers: Vec<LedgerNote> = found.generators.iter().map(note).collect();
    if writes.is_empty() {
        // The beat is written.
        link.run(Packet::commit()).await?;
        return Ok((ledgers, Vec::new()));
    }
    let mut packet = Packet::commit();
    let (mut counters, mut updates) = (Vec::new(), Vec::new());
    add_generators::<L>(&mut packet, writes, found);
    for (key, next) in &writes.counters {
        let Some((Ok(row), _)) = found.counters.get(key) else { continue };
        let is_settled = settles.contains(key);
        let state = if is_settled { ", state = 'ledger'" } else { "" };
        updates.push(packet.add(format!(
            "UPDATE getid_sequence SET next = {next}, version = version + 1, updated = {}{state} WHERE {} \
             AND version = {}",
            found.now_unix_ms,
            is_row(key),
            column(row.version)
        )));
        let state = if is_settled { RowState::Ledger } else { row.state };
        let after = SequenceRow {
            next: *next,
            version: row.version + 1,
            state,
            updated_unix_ms: found.now_unix_ms,
            ..row.clone()
        };
        counters.push((row.next, after));
    }
    add_numbers::<L>(&mut packet, writes, found, &changed);
    add_requests::<L>(&mut packet, writes);
    let done = link.run(packet).await?;
    if updates.into_iter().any(|at| done[at].affected != 1) {
        return Err(StoreError::Unknown(
            "the row of a counter was changed while numbers were taken from it".to_owned(),
        ));
    }
    Ok((ledgers, counters))
}

/// Adds the statements that write the generators, and make numbers unclear.
fn add_generators<L: Link>(packet: &mut Packet, writes: &LedgerWrites, found: &Found) {
    for GeneratorWrite { name, changes, new_requests, new_released_requests } in &writes.generators {
        let (text, changes) = (literal(name), column(*changes));
        packet.add(format!(
            "UPDATE getid_generator SET ledger = {changes}, requests = requests + {new_requests}, \
             released_requests = released_requests + {new_released_requests}, updated = {} WHERE name = {text}",
            L::NOW
        ));
        if !writes.unclear.contains(name) {
            continue;
        }
        packet.add(format!(
            "UPDATE getid_number SET state = 'unclear', due = 0, since = {}, reason = 'the store has lost writes' \
             WHERE name = {text} AND state IN ('reserved', 'released')",
            found.now_unix_ms
        ));
        // The highest change of the ledger is the generator's.
        let highest = found.generators.get(name).map_or(0, |(_, ledger)| ledger.highest_change);
        packet.add(format!(
            "UPDATE getid_number SET entry = {changes} WHERE name = {text} AND entry = {}",
            column(highest)
        ));
    }
}

/// Adds the statements that write rows of numbers: one for all new rows, and one for all rows of a counter that change
/// in the same way.
fn add_numbers<L: Link>(
    packet: &mut Packet,
    writes: &LedgerWrites,
    found: &Found,
    changes_of: &dyn Fn(&str) -> Option<u64>,
) {
    let before: BTreeMap<(&Key, i64), &LedgerRow> =
        found.numbers.iter().map(|row| ((&row.key, row.number), row)).collect();
    let mut new = Vec::new();
    let mut changed: BTreeMap<(&Key, String), Vec<String>> = BTreeMap::new();
    for written in &writes.numbers {
        let LedgerRow { key, number, last, text, state, since_unix_ms, due_unix_ms, request, user, reason } =
            &written.row;
        let entry = column(changes_of(key.name()).unwrap_or(0));
        let state = state.word();
        let reason_text = L::text(reason);
        let holder = || [text, request, user].map(|text| L::text(text));
        if written.is_new {
            let [text, request, user] = holder();
            let [name, series, period] = [key.name(), key.series(), key.period()].map(literal);
            new.push(format!(
                "({name}, {series}, {period}, {number}, {last}, {text}, '{state}', {since_unix_ms}, {due_unix_ms}, \
                 {request}, {user}, {reason_text}, {entry})"
            ));
            continue;
        }
        let mut change = format!(
            "state = '{state}', since = {since_unix_ms}, due = {due_unix_ms}, reason = {reason_text}, entry = {entry}"
        );
        let keeps_holder = before
            .get(&(key, *number))
            .is_some_and(|row| (row.last, &row.text, &row.request, &row.user) == (*last, text, request, user));
        if !keeps_holder {
            let [text, request, user] = holder();
            change = format!("{change}, last = {last}, text = {text}, request = {request}, owner = {user}");
        }
        changed.entry((key, change)).or_default().push(number.to_string());
    }
    for ((key, change), numbers) in changed {
        let (of_key, numbers) = (is_row(key), numbers.join(", "));
        packet.add(format!("UPDATE getid_number SET {change} WHERE {of_key} AND number IN ({numbers})"));
    }
    if !new.is_empty() {
        let columns = number_columns("");
        packet.add(format!("INSERT INTO getid_number ({columns}, entry) VALUES {}", new.join(", ")));
    }
}

/// Adds the statements that write rows of requests.
fn add_requests<L: Link>(packet: &mut Packet, writes: &LedgerWrites) {
    let new = writes.new_requests.iter().map(|row| {
        let RequestHandle { name, request, user, key, number, state } = row;
        let [request, user] = [request, user].map(|text| L::text(text));
        let [name, series, period] = [name, key.series(), key.period()].map(literal);
        format!("({name}, {request}, {user}, {series}, {period}, {number}, '{}')", state.word())
    });
    let new: Vec<String> = new.collect();
    if !new.is_empty() {
        packet.add(format!("INSERT INTO getid_number_request ({REQUEST_COLUMNS}) VALUES {}", new.join(", ")));
    }
    let mut changed: BTreeMap<(&str, NumberState), Vec<String>> = BTreeMap::new();
    for row in &writes.changed_requests {
        changed.entry((&row.name, row.state)).or_default().push(L::text(&row.request));
    }
    for ((name, state), requests) in changed {
        packet.add(format!(
            "UPDATE getid_number_request SET state = '{}' WHERE name = {} AND request IN ({})",
            state.word(),
            literal(name),
            requests.join(", ")
        ));
    }
    for settled in &writes.settled_requests {
        packet.add(format!(
            "UPDATE getid_number_request SET state = '{}' WHERE name = {} AND request = {} AND state = 'reserved'",
            settled.state.word(),
            literal(&settled.name),
            L::text(&settled.request)
        ));
    }
}

/// Returns the columns of a row, each with a prefix.
fn number_columns(prefix: &str) -> String {
    NUMBER_COLUMNS.map(|column| format!("{prefix}{column}")).join(", ")
}

/// Returns a part of a key as a literal: no character of a key ends one.
fn literal(part: &str) -> String {
    format!("'{part}'")
}

/// Returns a row of `getid_number`.
fn number_of(row: &SqlRow) -> Result<LedgerRow, StoreError> {
    let text = |at| row.text(at).unwrap_or_default();
    let key = Key::of(&text(0), &text(1), &text(2));
    let number = row.number(3).filter(|number| *number >= 1);
    let last = row.number(4).filter(|last| Some(*last) >= number && *last <= VALUE_MAX);
    let bad = || {
        StoreError::Refused(format!(
            "a row of getid_number has name '{}', series '{}', period '{}', number {}, last {} and state '{}', which \
             is not a number of a counter: correct it by hand",
            text(0).escape_debug(),
            text(1).escape_debug(),
            text(2).escape_debug(),
            row.shown(3).escape_debug(),
            row.shown(4).escape_debug(),
            text(6).escape_debug()
        ))
    };
    let state = NumberState::of_word(&text(6));
    let (Some(key), Some(number), Some(last), Some(state)) = (key, number, last, state) else { return Err(bad()) };
    Ok(LedgerRow {
        key,
        number,
        last,
        text: text(5),
        state,
        since_unix_ms: row.number(7).unwrap_or(0),
        due_unix_ms: row.number(8).unwrap_or(0),
        request: text(9),
        user: text(10),
        reason: text(11),
    })
}

/// Returns a row of `getid_number_request`.
fn request_of(row: &SqlRow) -> Result<RequestHandle, StoreError> {
    let text = |at| row.text(at).unwrap_or_default();
    let key = Key::of(&text(0), &text(3), &text(4));
    let (Some(key), Some(number), Some(state)) = (key, row.number(5), NumberState::of_word(&text(6))) else {
        return Err(StoreError::Refused(format!(
            "the row of getid_number_request with name '{}' and request '{}' has series '{}', period '{}', number {} \
             and state '{}', which is not a number of a counter: correct it by hand",
            text(0).escape_debug(),
            text(1).escape_debug(),
            text(3).escape_debug(),
            text(4).escape_debug(),
            row.shown(5).escape_debug(),
            text(6).escape_debug()
        )));
    };
    Ok(RequestHandle { name: text(0), request: text(1), user: text(2), key, number, state })
}

/// Returns the verdict on a change of a counter whose numbers are in a ledger.
pub(super) fn has_ledger() -> Verdict {
    Verdict::Unsupported(
        "it is gapless: a ledger has the state of each of its numbers, and this change would contradict it. NUMBER \
         VOID and NUMBER SETTLE change the states of numbers, and SEQUENCE RAISE of a running server makes the next \
         ones void"
            .to_owned(),
    )
}

/// Checks that a generator with a ledger keeps its interval, and its ledger.
pub(super) fn check_declaration(found: &Generator, ask: &OpenPeriodRequest) -> Result<(), Verdict> {
    let stored = &found.reset;
    if *stored != ask.reset.to_string() {
        return Err(Verdict::Unsupported(format!(
            "it is gapless, and its ledger has numbers by 'reset {stored}': declare it so again, or declare another name"
        )));
    }
    if declares_ledger(&ask.declaration) { Ok(()) } else { Err(native::loses_ledger()) }
}

/// Returns the error of a generator that cannot have a ledger, as a counter of this period has given numbers.
pub(super) fn cannot_begin(key: &Key, period: &str) -> Verdict {
    let at = if period.is_empty() { "" } else { "@" };
    Verdict::Unsupported(format!(
        "it cannot become gapless: its counter '{}{at}{period}' has given numbers without a ledger. Declare another \
         name with gapless, or remove the word from this one",
        key.name()
    ))
}
