//! The claims of a claim store, as the page shows them and `SENTINEL` looks up the servers of other server-ids.
//!
//! A request for the list names the greatest age of a list that it accepts. It starts a read in the background if the
//! last list is older, at most one at a time for all requests. A store that does not answer delays no request longer
//! than its [`ListLimits::wait_max`]. The last list stays, with the error beside it. The reads have their own
//! connections, apart from those of the beats. They grant nothing: no ID depends on them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use getid_core::Tick;
use tokio::sync::Mutex as Turn;
use tokio::time::{Instant, timeout};

use super::fleet::{ClaimRecord, Holding};
use getid_store::records::{CLAIMS, LIST_MAX, RecordRow, RecordStore, RecordStoreError};

/// Limits of one request for a list.
#[derive(Clone, Copy, Debug)]
pub struct ListLimits {
    /// Age of a list above which the request starts another read.
    pub age_max: Duration,
    /// Longest wait of the request for a read.
    pub wait_max: Duration,
}

/// Most claims in a list: 1024 of them are about 400 KB of JSON.
pub(crate) const CLAIMS_MAX: usize = 1024;

type Latest = Mutex<Option<(Instant, Arc<ClaimList>)>>;

/// Lists the claims of a store.
pub struct ClaimLister {
    store: Arc<dyn RecordStore>,
    /// The last list and the time at which its read ended; `None` before the first.
    latest: Arc<Latest>,
    /// Held by the read in progress.
    turn: Arc<Turn<()>>,
}

impl fmt::Debug for ClaimLister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClaimLister")
    }
}

/// The claims of a store, as of the last read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimList {
    /// Time at which the last claim was read, in Unix ms of this machine's wall clock. `None` before the first read.
    pub read_unix_ms: Option<i64>,
    /// The same time by a clock that is not set back.
    pub read_at: Option<Instant>,
    /// Claims sorted by server-id, at most `CLAIMS_MAX`.
    pub claims: Vec<ListedClaim>,
    /// Whether the store has more claims.
    pub has_more: bool,
    /// Error of the last read. The claims are then those of the last read that succeeded.
    pub error: Option<String>,
}

/// One claim of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedClaim {
    /// Server-id of the claim.
    pub server_id: u32,
    /// State of the claim: `held`, `free`, `moved` or `unreadable`.
    pub state: &'static str,
    /// The `instance-name` of the holder, or of the last holder. Empty if the claim was never held.
    pub name: String,
    /// Host name of the holder's machine; empty without a holder.
    pub host: String,
    /// Address at which clients reach the holder; empty if unknown.
    pub address: String,
    /// Time since which the claim is held or free, by the clock of its writer, in Unix ms.
    pub since_unix_ms: i64,
    /// Time of the last write, by the holder's clock, in Unix ms. `None` if no server ever held the claim.
    pub written_unix_ms: Option<i64>,
    /// Time at which the record was read, in Unix ms of this machine's wall clock.
    pub read_unix_ms: i64,
    /// Silence after which a standby takes the claim over, in ms.
    pub timeout_ms: u64,
}

impl ClaimLister {
    /// Lists over these connections, which must have no other user.
    pub fn new(store: Arc<dyn RecordStore>) -> ClaimLister {
        ClaimLister { store, latest: Arc::default(), turn: Arc::default() }
    }

    /// Returns the claims of the store within `limits`. If the store does not answer in time, the last list is
    /// returned. `now_unix_ms` reads the wall clock.
    pub async fn list(&self, limits: ListLimits, now_unix_ms: impl Fn() -> i64 + Send + 'static) -> Arc<ClaimList> {
        if !self.is_fresh(limits) {
            if let Ok(turn) = Arc::clone(&self.turn).try_lock_owned() {
                // Another request's read may have ended since.
                if !self.is_fresh(limits) {
                    let (store, latest) = (Arc::clone(&self.store), Arc::clone(&self.latest));
                    tokio::spawn(async move {
                        refresh(&*store, &latest, now_unix_ms).await;
                        drop(turn);
                    });
                }
            }
            let _ = timeout(limits.wait_max, self.turn.lock()).await;
        }
        self.latest().unwrap_or_else(|| {
            let error = "the claim store has not answered yet".to_owned();
            Arc::new(ClaimList { error: Some(error), ..ClaimList::default() })
        })
    }

    /// Returns the last list, however old, without a read. `None` before the first.
    pub fn latest(&self) -> Option<Arc<ClaimList>> {
        locked(&self.latest).as_ref().map(|(_, list)| Arc::clone(list))
    }

    fn is_fresh(&self, limits: ListLimits) -> bool {
        locked(&self.latest).as_ref().is_some_and(|(at, _)| at.elapsed() < limits.age_max)
    }
}

fn locked(latest: &Latest) -> std::sync::MutexGuard<'_, Option<(Instant, Arc<ClaimList>)>> {
    latest.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads all claims. The previous claims stay if that fails.
async fn refresh(store: &dyn RecordStore, latest: &Latest, now_unix_ms: impl Fn() -> i64) {
    let list = match read(store, now_unix_ms).await {
        Ok(list) => list,
        Err(error) => {
            let before = locked(latest).as_ref().map(|(_, list)| ClaimList::clone(list)).unwrap_or_default();
            ClaimList { error: Some(error.to_string()), ..before }
        }
    };
    *locked(latest) = Some((Instant::now(), Arc::new(list)));
}

async fn read(store: &dyn RecordStore, now_unix_ms: impl Fn() -> i64) -> Result<ClaimList, RecordStoreError> {
    let mut list = ClaimList::default();
    let mut after = String::new();
    loop {
        let page = store.list(CLAIMS, &after, LIST_MAX).await?;
        let read_unix_ms = now_unix_ms();
        (list.read_unix_ms, list.read_at) = (Some(read_unix_ms), Some(Instant::now()));
        for (key, row) in &page.rows {
            let Some(server_id) = key.server_id() else { continue };
            if list.claims.len() == CLAIMS_MAX {
                list.has_more = true;
                break;
            }
            list.claims.push(ListedClaim { read_unix_ms, ..ListedClaim::of_row(server_id, row) });
        }
        match page.rows.last() {
            Some((key, _)) if page.rows.len() >= LIST_MAX && !list.has_more => key.as_str().clone_into(&mut after),
            _ => break,
        }
    }
    list.claims.sort_by_key(|claim| claim.server_id);
    Ok(list)
}

impl ListedClaim {
    fn of_row(server_id: u32, row: &RecordRow) -> ListedClaim {
        let Ok(claim) = ClaimRecord::of_row(row, server_id) else {
            return ListedClaim { server_id, state: "unreadable", ..ListedClaim::default() };
        };
        let reference = claim.record.point.reference;
        let common = ListedClaim {
            server_id,
            timeout_ms: claim.timeout_ms,
            written_unix_ms: (reference > Tick(0)).then(|| reference.unix_ms(claim.record.identity.layout.epoch())),
            ..ListedClaim::default()
        };
        let state = |otherwise| if claim.mark.is_some() { "moved" } else { otherwise };
        match claim.holding {
            Holding::Held(holder) => ListedClaim {
                state: state("held"),
                name: holder.name,
                host: holder.host,
                address: holder.address,
                since_unix_ms: holder.since_unix_ms,
                ..common
            },
            Holding::Free(freed) => {
                ListedClaim { state: state("free"), name: freed.by, since_unix_ms: freed.since_unix_ms, ..common }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use getid_core::{Epoch, Layout, SavePoint};

    use super::super::fleet::ClaimHolder;
    use super::super::record::Identity;
    use super::*;
    use getid_store::records::{
        DamagedRow, Key, RecordFuture, RecordPage, RecordStoreError, RecordStoreInfo, Stamp, WriteResult,
        memory::MemoryStore,
    };

    const LIMITS: ListLimits = ListLimits { age_max: Duration::from_secs(5), wait_max: Duration::from_millis(300) };

    #[tokio::test(start_paused = true)]
    async fn claims_are_sorted_by_id_and_read_once_for_all_requests() {
        let store = Arc::new(MemoryStore::default());
        let layout = Layout::new(Epoch::default(), 4, 7, 10).unwrap();
        let put = async |server_id: u32, holder: Option<&str>| {
            let mut claim = ClaimRecord::new(Identity { server_id, layout }, 2000, 1_795_000_000_000);
            if let Some(name) = holder {
                let reference = Tick(1_795_000_000_500 - Epoch::default().unix_ms());
                claim.record.point = SavePoint { watermark: reference, reference, max_borrow_ms: 0 };
                claim.holding =
                    Holding::Held(ClaimHolder { instance: 1, name: name.to_owned(), ..ClaimHolder::default() });
            }
            let row = claim.to_row(1).unwrap();
            store.write(&Key::of_claim(server_id), None, &row).await.unwrap();
        };
        put(10, Some("host-b")).await;
        put(2, None).await;
        let row = RecordRow { stamp: Stamp { writer: 1, beat: 1 }, text: "no record".to_owned() };
        store.write(&Key::of_claim(3), None, &row).await.unwrap();
        let lister = ClaimLister::new(Arc::clone(&store) as _);
        let list = lister.list(LIMITS, || 7).await;
        let seen: Vec<_> =
            list.claims.iter().map(|claim| (claim.server_id, claim.state, claim.name.as_str())).collect();
        assert_eq!(seen, [(2, "free", ""), (3, "unreadable", ""), (10, "held", "host-b")]);
        assert_eq!((list.claims[2].written_unix_ms, list.claims[0].written_unix_ms), (Some(1_795_000_000_500), None));
        assert_eq!((list.read_unix_ms, list.has_more, &list.error), (Some(7), false, &None));
        put(11, None).await;
        assert!(Arc::ptr_eq(&list, &lister.list(LIMITS, || 8).await));
        tokio::time::advance(LIMITS.age_max).await;
        assert_eq!(lister.list(LIMITS, || 9).await.claims.len(), 4);
    }

    /// The behaviour of the next reads of an [`UnreliableStore`].
    #[derive(Clone, Copy)]
    enum StoreState {
        Answers,
        Fails,
        Hangs,
    }

    /// A store of `claims` claims that answers, fails or hangs.
    struct UnreliableStore {
        claims: u32,
        mood: Mutex<StoreState>,
    }

    impl RecordStore for UnreliableStore {
        fn shown(&self) -> &'static str {
            "fickle"
        }

        fn read<'a>(&'a self, _: &'a Key) -> RecordFuture<'a, Option<RecordRow>> {
            unreachable!("a lister only lists")
        }

        fn list<'a>(&'a self, _: &'a str, after: &'a str, limit: usize) -> RecordFuture<'a, RecordPage> {
            Box::pin(async move {
                let mood = *self.mood.lock().unwrap();
                match mood {
                    StoreState::Answers => {}
                    StoreState::Fails => return Err(RecordStoreError::Away("connection refused".to_owned())),
                    StoreState::Hangs => std::future::pending().await,
                }
                let keys = (0..self.claims).map(Key::of_claim);
                let mut keys: Vec<_> = keys.filter(|key| key.as_str() > after).collect();
                keys.sort_by(|one, other| one.as_str().cmp(other.as_str()));
                let row = RecordRow { stamp: Stamp { writer: 1, beat: 1 }, text: "no record".to_owned() };
                let rows = keys.into_iter().take(limit).map(|key| (key, row.clone())).collect();
                Ok(RecordPage { rows, ..RecordPage::default() })
            })
        }

        fn write<'a>(&'a self, _: &'a Key, _: Option<Stamp>, _: &'a RecordRow) -> RecordFuture<'a, WriteResult> {
            unreachable!("a lister only lists")
        }

        fn mend<'a>(&'a self, _: &'a Key, _: &'a DamagedRow, _: &'a RecordRow) -> RecordFuture<'a, bool> {
            unreachable!("a lister only lists")
        }

        fn info(&self) -> RecordFuture<'_, RecordStoreInfo> {
            unreachable!("a lister only lists")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_does_not_answer_delays_no_request_and_the_last_list_stays() {
        let store = Arc::new(UnreliableStore { claims: 2, mood: Mutex::new(StoreState::Hangs) });
        let first = ClaimLister::new(Arc::clone(&store) as _);
        let begun = Instant::now();
        let list = first.list(LIMITS, || 1).await;
        assert_eq!((begun.elapsed(), list.claims.len(), list.read_unix_ms), (LIMITS.wait_max, 0, None));
        assert_eq!(list.error.as_deref(), Some("the claim store has not answered yet"));

        *store.mood.lock().unwrap() = StoreState::Answers;
        let lister = ClaimLister::new(Arc::clone(&store) as _);
        assert_eq!(lister.list(LIMITS, || 2).await.claims.len(), 2);
        for (mood, waits, error) in [
            (StoreState::Fails, Duration::ZERO, Some("connection refused")),
            (StoreState::Hangs, LIMITS.wait_max, Some("connection refused")),
        ] {
            *store.mood.lock().unwrap() = mood;
            tokio::time::advance(LIMITS.age_max).await;
            let begun = Instant::now();
            let list = lister.list(LIMITS, || 3).await;
            assert_eq!((begun.elapsed(), list.claims.len(), list.read_unix_ms), (waits, 2, Some(2)));
            assert_eq!(list.error.as_deref(), error);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_reading_is_that_of_its_page() {
        let lister =
            ClaimLister::new(Arc::new(UnreliableStore { claims: 1010, mood: Mutex::new(StoreState::Answers) }));
        let clock = std::sync::atomic::AtomicI64::new(0);
        let list = lister.list(LIMITS, move || clock.fetch_add(1, std::sync::atomic::Ordering::Relaxed)).await;
        let second = list.claims.iter().filter(|claim| claim.read_unix_ms == 1).count();
        assert_eq!((list.claims.len(), second, list.read_unix_ms), (1010, 1010 - LIST_MAX, Some(1)));
    }
}
