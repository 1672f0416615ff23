//! All claims of a claim store, as the page shows them.
//!
//! The list is read when somebody asks for it, and at most once in `LIST_EVERY` for all who ask: beats go on beside
//! it over connections of their own. It grants nothing, and no decision rests on it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use getid_core::Tick;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::fleet::{ClaimRecord, Holding};
use crate::records::{CLAIMS, LIST_MAX, RecordStore, Row};

/// How old a list may be.
const LIST_EVERY: Duration = Duration::from_secs(5);

/// Claims that are listed: 1024 of them are about 400 KB of JSON.
pub const CLAIMS_MAX: usize = 1024;

/// Lists the claims of a store.
pub struct ClaimLister {
    store: Arc<dyn RecordStore>,
    latest: Mutex<Option<(Instant, Arc<ClaimList>)>>,
}

impl fmt::Debug for ClaimLister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClaimLister")
    }
}

/// The claims of a store at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimList {
    /// When they were read, Unix ms by this machine's wall clock.
    pub read_unix_ms: i64,
    /// By their server-ids, [`CLAIMS_MAX`] at most.
    pub claims: Vec<ListedClaim>,
    /// Whether there are more.
    pub has_more: bool,
    /// Why there is no list, or only a part of one.
    pub error: Option<String>,
}

/// One claim of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedClaim {
    /// Whose claim it is.
    pub server_id: u32,
    /// `held`, `free`, `moved` or `unreadable`.
    pub state: &'static str,
    /// The `instance-name` of the holder, or of the server that had the claim last; empty: none had it.
    pub name: String,
    /// The holder's machine; empty without a holder.
    pub host: String,
    /// Where clients reach the holder; empty: unknown.
    pub address: String,
    /// Since when the claim is held or free, by the clock of who wrote that, Unix ms.
    pub since_unix_ms: i64,
    /// When the record was written last, by its holder's clock, Unix ms; `None`: no server ever had the claim.
    pub written_unix_ms: Option<i64>,
    /// Silence after which a standby takes the claim over, ms.
    pub timeout_ms: u64,
}

impl ClaimLister {
    /// Over these connections, which nothing else uses.
    pub fn new(store: Arc<dyn RecordStore>) -> ClaimLister {
        ClaimLister { store, latest: Mutex::default() }
    }

    /// The claims of the store, at most `LIST_EVERY` old. `now_unix_ms` reads the wall clock.
    pub async fn list(&self, now_unix_ms: impl Fn() -> i64) -> Arc<ClaimList> {
        let mut latest = self.latest.lock().await;
        if let Some((at, list)) = latest.as_ref()
            && at.elapsed() < LIST_EVERY
        {
            return Arc::clone(list);
        }
        let mut list = ClaimList::default();
        if let Err(error) = self.read(&mut list).await {
            list.error = Some(error);
        }
        list.claims.sort_by_key(|claim| claim.server_id);
        list.read_unix_ms = now_unix_ms();
        let list = Arc::new(list);
        *latest = Some((Instant::now(), Arc::clone(&list)));
        list
    }

    async fn read(&self, list: &mut ClaimList) -> Result<(), String> {
        let mut after = String::new();
        loop {
            let page = self.store.list(CLAIMS, &after, LIST_MAX).await.map_err(|error| error.to_string())?;
            for (key, row) in &page.rows {
                let Some(server_id) = key.server_id() else { continue };
                if list.claims.len() == CLAIMS_MAX {
                    list.has_more = true;
                    return Ok(());
                }
                list.claims.push(ListedClaim::of_row(server_id, row));
            }
            match page.rows.last() {
                Some((key, _)) if page.rows.len() >= LIST_MAX => key.as_str().clone_into(&mut after),
                _ => return Ok(()),
            }
        }
    }
}

impl ListedClaim {
    fn of_row(server_id: u32, row: &Row) -> ListedClaim {
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

    use super::super::fleet::Holder;
    use super::super::record::Identity;
    use super::*;
    use crate::records::{Key, Stamp, memory::MemoryStore};

    #[tokio::test(start_paused = true)]
    async fn claims_are_listed_by_their_ids_and_read_once_for_all_who_ask() {
        let store = Arc::new(MemoryStore::default());
        let layout = Layout::new(Epoch::default(), 4, 7, 10).unwrap();
        let put = async |server_id: u32, holder: Option<&str>| {
            let mut claim = ClaimRecord::new(Identity { server_id, layout }, 2000, 1_795_000_000_000);
            if let Some(name) = holder {
                let reference = Tick(1_795_000_000_500 - Epoch::default().unix_ms());
                claim.record.point = SavePoint { watermark: reference, reference, max_borrow_ms: 0 };
                claim.holding = Holding::Held(Holder { instance: 1, name: name.to_owned(), ..Holder::default() });
            }
            let row = claim.to_row(1).unwrap();
            store.write(&Key::of_claim(server_id), None, &row).await.unwrap();
        };
        put(10, Some("host-b")).await;
        put(2, None).await;
        let row = Row { stamp: Stamp { writer: 1, beat: 1 }, text: "no record".to_owned() };
        store.write(&Key::of_claim(3), None, &row).await.unwrap();
        let lister = ClaimLister::new(Arc::clone(&store) as _);
        let list = lister.list(|| 7).await;
        let seen: Vec<_> =
            list.claims.iter().map(|claim| (claim.server_id, claim.state, claim.name.as_str())).collect();
        assert_eq!(seen, [(2, "free", ""), (3, "unreadable", ""), (10, "held", "host-b")]);
        assert_eq!((list.claims[2].written_unix_ms, list.claims[0].written_unix_ms), (Some(1_795_000_000_500), None));
        assert_eq!((list.read_unix_ms, list.has_more, &list.error), (7, false, &None));
        put(11, None).await;
        assert!(Arc::ptr_eq(&list, &lister.list(|| 8).await));
        tokio::time::advance(LIST_EVERY).await;
        assert_eq!(lister.list(|| 9).await.claims.len(), 4);
    }
}
