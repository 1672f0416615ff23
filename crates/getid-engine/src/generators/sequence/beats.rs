//! Beats in shared stores ([`getid_core::server::beat`]): this server's requests, and the handling of their answers.
//!
//! During a beat, this server runs no reservation and no other statement in the store. So each reservation is either
//! noted before the beat, or its answer is never used.
//!
//! Invariant: nothing is reserved in a shared store without the credentials of a cleared [`Member`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use getid_core::server::VALUE_MAX;
use getid_core::server::beat::{BeatKind, BeatRequest, Credentials, Member, MemberTask, Nonce};
use tokio::sync::SemaphorePermit;

use super::Sequences;
use super::error::SequenceError;
use super::pool::StorePool;
use getid_store::sql::{
    BATCH_MAX, Comparison, GENERATORS_MAX, Generator, LedgerNote, NotedRow, SequenceRow, ServerBeat, StoreError,
};
use getid_system::{host, noise};

/// Maximum number of beats in one turn: joining takes three, comparing some more.
const STEPS_MAX: usize = 8;

/// Time after a store lost writes before notes are compared with its rows: a dump is restored table by table,
/// `getid_beat` first.
const SETTLES_IN: Duration = Duration::from_secs(5);

/// Number of rows in a page that an operator raises.
const PAGE_ROWS: u32 = 64;

/// Time after which a counter of an ended period has no more lost numbers, ms: a server discards what it has of it much
/// earlier.
const RESTS_MS: i64 = 86_400_000;

/// Number of live servers per second of the interval between one server's beats. It bounds the rows that a store must
/// read.
const SERVERS_A_SECOND: usize = 64;

impl Sequences {
    /// Beats in a shared store until this server may reserve there, or waits for others. Returns true if it may
    /// reserve.
    pub(super) async fn beat(&self, pool: &Arc<StorePool>) -> Result<bool, StoreError> {
        let Some(uuid) = pool.about().map(|about| about.uuid.clone()) else { return Ok(false) };
        self.become_member(pool, &uuid).await;
        for _ in 0..STEPS_MAX {
            let slots = pool.all_slots().await?;
            if self.step(pool, &uuid, &slots).await? {
                break;
            }
        }
        Ok(pool.member().as_ref().is_some_and(Member::is_cleared))
    }

    /// Beats after a row was changed. A store that loses the change then loses that beat too, and this server notices.
    /// A failed beat begins a doubt.
    pub(super) async fn beat_after_change(&self, pool: &Arc<StorePool>) {
        if pool.store.is_shared() && pool.held().is_none() {
            let _ = self.beat(pool).await;
        }
    }

    /// Returns the seconds until the next beat of a server that may reserve.
    pub(super) fn beat_every_s(pool: &StorePool) -> u64 {
        let others = pool.member().as_ref().map_or(0, Member::others_live);
        (others / SERVERS_A_SECOND + 1).min(16) as u64
    }

    /// Makes this server a member, from its notes about the store.
    async fn become_member(&self, pool: &StorePool, uuid: &str) {
        if pool.member().is_some() {
            return;
        }
        let (own, others) = self.notes.servers(uuid).await;
        let (nonce, beat) = own.unwrap_or_else(|| (Nonce(noise::bits()), 0));
        let life = Nonce(noise::bits());
        let address = format!("{} (process {})", host::name(), std::process::id());
        *pool.member() = Some(Member::new(nonce, life, address, beat, others, self.now_ms()));
    }

    /// Makes one beat or one comparison. Returns true if the turn is over.
    async fn step(&self, pool: &StorePool, uuid: &str, slots: &SemaphorePermit<'_>) -> Result<bool, StoreError> {
        let is_comparing = pool.member().as_ref().is_some_and(|member| member.comparing().is_some());
        let has_settled = pool.behind_for(is_comparing) >= SETTLES_IN;
        if is_comparing && !(has_settled && self.compare(pool, uuid, slots).await?) {
            return Ok(true);
        }
        let now_ms = self.now_ms();
        let Some((ask, own)) =
            pool.member().as_mut().map(|member| (member.ask(now_ms), (member.nonce(), member.beat())))
        else {
            return Ok(true);
        };
        // A server without a note of its nonce would join under another one after a crash.
        if matches!(ask.kind, BeatKind::Join { .. }) {
            self.notes.note_servers(uuid, own, Vec::new()).await;
        }
        let next = self.ask(pool, slots, ask).await?;
        if next.is_copied {
            tracing::warn!(
                "sequence store {}: another process uses the notes of this server's dir, which was copied: this one joins \
                 as a new server",
                pool.store.shown()
            );
            if let Some(member) = &mut *pool.member() {
                member.renew(Nonce(noise::bits()));
            }
            return Ok(false);
        }
        let Some((own, others)) =
            pool.member().as_ref().map(|member| ((member.nonce(), member.beat()), member.unnoted()))
        else {
            return Ok(true);
        };
        // If notes cannot be written, this process remembers the servers while it lives.
        self.notes.note_servers(uuid, own, others).await;
        let mut member = pool.member();
        let Some(member) = &mut *member else { return Ok(true) };
        member.has_noted();
        Ok(member.is_cleared() || !member.awaited().is_empty())
    }

    async fn ask(
        &self,
        pool: &StorePool,
        slots: &SemaphorePermit<'_>,
        ask: BeatRequest,
    ) -> Result<MemberTask, StoreError> {
        let sent = ask.clone();
        let answer = pool
            .run(slots, move |mut connection| {
                Box::pin(async move {
                    let answer = connection.beat(&sent).await;
                    (connection, answer)
                })
            })
            .await?;
        Ok(pool.member().as_mut().map(|member| member.answered(&ask, &answer)).unwrap_or_default())
    }

    /// Compares all notes of a store with its rows, page by page. Returns true if that was done. Unreadable notes
    /// acknowledge nothing.
    async fn compare(&self, pool: &StorePool, uuid: &str, slots: &SemaphorePermit<'_>) -> Result<bool, StoreError> {
        let (mut after, mut raised, mut marked) = (String::new(), 0, 0);
        let ledgers = self.notes.ledgers(uuid).await;
        pool.has_unread_notes.store(ledgers.is_none(), Relaxed);
        let Some(ledgers) = ledgers else { return Ok(false) };
        loop {
            let page = self.notes.rows_after(uuid, &after).await;
            pool.has_unread_notes.store(page.is_none(), Relaxed);
            let Some(page) = page else { return Ok(false) };
            let Some(credentials) = pool.member().as_ref().and_then(Member::comparing) else { return Ok(true) };
            let is_last = page.last.is_none();
            let notes = page.rows;
            after = page.last.unwrap_or(after);
            let counters = counters_of(&ledgers, &notes);
            let compared = compare_page(pool, slots, credentials, notes).await?;
            raised += compared.map_or(0, |compared| compared.raised);
            if let Some(member) = &mut *pool.member() {
                member.page_compared(compared.map(|compared| compared.beat));
            }
            if compared.is_none() {
                return Ok(true);
            }
            let Some(of_page) = compare_ledgers(pool, slots, Member::comparing, counters).await? else {
                return Ok(true);
            };
            marked += of_page;
            if is_last {
                break;
            }
        }
        let Some(of_all) = compare_ledgers(pool, slots, Member::comparing, ledgers).await? else { return Ok(true) };
        log_marked(pool, marked + of_all);
        self.counts.went_back.fetch_add(raised as u64, Relaxed);
        let shown = pool.store.shown();
        if raised > 0 {
            tracing::error!(
                "sequence store {shown} lost writes: it was restored, or failed over to a replica that lagged behind. \
                 {raised} of its sequences were below this server's notes, and continue above them"
            );
        } else {
            tracing::warn!("sequence store {shown}: no sequence was below this server's notes");
        }
        if let Some(member) = &mut *pool.member() {
            member.compared();
        }
        Ok(true)
    }

    /// `SEQUENCE STORES CONFIRM`: releases a server that has stopped permanently, in each store that waits for it. With
    /// a `margin`, all rows of the store are first raised by that many values, since the server may have had more than
    /// the notes show. Changes of ledgers that only its notes had may be lost too: reserved and released numbers become
    /// unclear.
    ///
    /// # Errors
    ///
    /// Fails if the nonce is invalid, no store waits for that server, or the store fails.
    pub async fn release(self: &Arc<Self>, nonce: &str, margin: u32) -> Result<(), SequenceError> {
        let expected = "a nonce is 32 hexadecimal digits, as SEQUENCE STORES shows it under 'waits_for'";
        let nonce = Nonce::parse(nonce).ok_or_else(|| SequenceError::Not(expected.to_owned()))?;
        let own = Arc::clone(self);
        self.on_driver(async move {
            let waits = |pool: &Arc<StorePool>| {
                let awaited = pool.member().as_ref().map(Member::awaited).unwrap_or_default();
                awaited.iter().any(|other| other.nonce == nonce)
            };
            let pools: Vec<_> = own.pools.iter().filter(|pool| waits(pool)).cloned().collect();
            if pools.is_empty() {
                return Err(SequenceError::Not(format!("no store waits for it: {nonce}")));
            }
            for pool in pools {
                own.prepare_release(&pool, margin).await?;
                let is_released = pool.member().as_mut().is_some_and(|member| member.release(nonce));
                if !is_released {
                    return Err(in_doubt());
                }
                own.beat(&pool).await.map_err(SequenceError::from_store)?;
                pool.probe.notify_one();
                if waits(&pool) {
                    return Err(in_doubt());
                }
            }
            Ok(())
        })
        .await
    }

    /// Raises all rows of a store by `margin` values, and marks its ledgers.
    async fn prepare_release(&self, pool: &Arc<StorePool>, margin: u32) -> Result<(), SequenceError> {
        let slots = pool.all_slots().await.map_err(SequenceError::from_store)?;
        let generators = pool.run(&slots, |mut connection| {
            Box::pin(async move {
                let generators = connection.generators(None).await;
                (connection, generators)
            })
        });
        let generators = generators.await.map_err(SequenceError::from_store)?;
        if generators.len() >= GENERATORS_MAX {
            let what = format!(
                "its table getid_generator has {GENERATORS_MAX} rows or more: DELETE those that no server declares"
            );
            return Err(SequenceError::Not(what));
        }
        let newest = generators.into_iter().filter(Generator::has_ledger).map(|found| (found.name, found.newest));
        let newest: BTreeMap<String, String> = newest.collect();
        if margin > 0 {
            raise_all(pool, &slots, margin, &newest).await?;
        }
        let suspect = |name: &String| LedgerNote { is_suspect: true, ..LedgerNote::of(name) };
        let suspects = newest.keys().map(suspect).collect();
        let marked =
            compare_ledgers(pool, &slots, Member::raising, suspects).await.map_err(SequenceError::from_store)?;
        log_marked(pool, marked.ok_or_else(in_doubt)?);
        Ok(())
    }

    /// Applies the beat of a reservation. Returns true if its values may be used.
    pub(super) fn take_beat(&self, pool: &StorePool, beaten: Option<&ServerBeat>) -> bool {
        let Some(beaten) = beaten else { return true };
        let is_good = pool.member().as_mut().is_some_and(|member| member.reserved(beaten.beat, &beaten.instance));
        if !is_good {
            self.confirmed.leave(pool.index);
            pool.probe.notify_one();
        }
        is_good
    }

    /// Leaves a shared store after everything was given back there, so that no server waits for this one.
    pub(super) async fn leave(&self, pool: &StorePool) -> Result<(), StoreError> {
        let slots = pool.all_slots().await?;
        let Some(ask) = pool.member().as_ref().and_then(Member::leave) else { return Ok(()) };
        self.ask(pool, &slots, ask).await.map(drop)
    }
}

/// Returns the error of an operator's request during which a doubt began.
fn in_doubt() -> SequenceError {
    SequenceError::Not("the store is in doubt again: check it and repeat the command".to_owned())
}

/// Compares a page of notes with the rows of a store.
async fn compare_page(
    pool: &StorePool,
    slots: &SemaphorePermit<'_>,
    credentials: Credentials,
    notes: Vec<NotedRow>,
) -> Result<Option<Comparison>, StoreError> {
    let comparing = pool.run(slots, move |mut connection| {
        Box::pin(async move {
            let compared = connection.compare(credentials, &notes).await;
            (connection, compared)
        })
    });
    comparing.await
}

/// Raises all rows of a store by `margin` values, and completes the ledgers of those that have one. `newest` has the
/// newest period of each generator with a ledger: a counter of an earlier period that has rested for a day stays.
async fn raise_all(
    pool: &Arc<StorePool>,
    slots: &SemaphorePermit<'_>,
    margin: u32,
    newest: &BTreeMap<String, String>,
) -> Result<(), SequenceError> {
    let ledgers: Vec<LedgerNote> = newest.keys().map(|name| LedgerNote::of(name)).collect();
    let rests_since = pool.unix_ms().map_or(i64::MIN, |now_ms| now_ms.saturating_sub(RESTS_MS));
    let is_over = |row: &SequenceRow| {
        let newest = newest.get(row.key.name());
        newest.is_some_and(|newest| *row.key.period() < **newest) && row.updated_unix_ms < rests_since
    };
    let mut after = String::new();
    loop {
        let listed = {
            let after = after.clone();
            pool.run(slots, move |mut connection| {
                Box::pin(async move {
                    let listed = connection.list(&after, PAGE_ROWS, true).await;
                    (connection, listed)
                })
            })
            .await
            .map_err(SequenceError::from_store)?
        };
        // Either all rows are raised, or nothing is confirmed.
        if let Some(bad) = listed.bad.into_iter().next() {
            return Err(SequenceError::Not(bad.error));
        }
        if listed.rows.is_empty() {
            // Pages after an empty one may have rows.
            let Some(next) = listed.next else { return Ok(()) };
            after = next;
            continue;
        }
        let raised = |row: SequenceRow| NotedRow {
            next: row.next.saturating_add(i64::from(margin) * i64::from(row.spec.increment)).min(VALUE_MAX + 1),
            generation: row.generation,
            created_unix_ms: row.created_unix_ms,
            key: row.key,
        };
        let notes: Vec<NotedRow> = listed.rows.into_iter().filter(|row| !is_over(row)).map(raised).collect();
        let counters = counters_of(&ledgers, &notes);
        let credentials = pool.member().as_ref().and_then(Member::raising).ok_or_else(in_doubt)?;
        let compared = compare_page(pool, slots, credentials, notes).await.map_err(SequenceError::from_store)?;
        let beat = compared.ok_or_else(in_doubt)?.beat;
        if let Some(member) = &mut *pool.member() {
            member.raised(beat);
        }
        let completed = compare_ledgers(pool, slots, Member::raising, counters).await;
        completed.map_err(SequenceError::from_store)?.ok_or_else(in_doubt)?;
        let Some(next) = listed.next else { return Ok(()) };
        after = next;
    }
}

/// Returns the ledgers of the noted counters, each with its counters.
pub(super) fn counters_of(ledgers: &[LedgerNote], notes: &[NotedRow]) -> Vec<LedgerNote> {
    let mut of_names: BTreeMap<&str, LedgerNote> = BTreeMap::new();
    for note in notes {
        let Some(ledger) = ledgers.iter().find(|ledger| ledger.name == note.key.name()) else { continue };
        let of_name = of_names.entry(&ledger.name).or_insert_with(|| ledger.clone());
        of_name.counters.push((note.key.clone(), note.next));
    }
    of_names.into_values().collect()
}

/// Compares notes of ledgers with a store that may have lost writes, by these credentials. Returns the number of
/// changed ledgers; `None` if the row of the server does not permit it.
async fn compare_ledgers(
    pool: &StorePool,
    slots: &SemaphorePermit<'_>,
    credentials: fn(&Member) -> Option<Credentials>,
    notes: Vec<LedgerNote>,
) -> Result<Option<usize>, StoreError> {
    let mut changed = 0;
    for page in notes.chunks(BATCH_MAX) {
        let Some(credentials) = pool.member().as_ref().and_then(credentials) else { return Ok(None) };
        let page = page.to_vec();
        let compared = pool.run(slots, move |mut connection| {
            Box::pin(async move {
                let compared = connection.compare_ledgers(Some(credentials), &page).await;
                (connection, compared)
            })
        });
        let compared = compared.await?;
        if let Some(member) = &mut *pool.member() {
            member.page_compared(compared.map(|compared| compared.beat));
            member.raised(compared.map_or(0, |compared| compared.beat));
        }
        let Some(compared) = compared else { return Ok(None) };
        changed += compared.raised;
    }
    Ok(Some(changed))
}

/// Logs that ledgers were changed, if `ledgers` is not 0.
pub(super) fn log_marked(pool: &StorePool, ledgers: usize) {
    if ledgers > 0 {
        tracing::error!(
            "sequence store {} may have lost changes of ledgers: numbers whose state may be lost are unclear. NUMBER \
             LEDGER lists them, and NUMBER SETTLE settles each",
            pool.store.shown()
        );
    }
}
