//! Masters: for each server-id the server that gives its IDs, and the address at which clients reach it.
//!
//! `SENTINEL` and `CLUSTER` send clients to the master, so both read it here. A claim store names the holder of each
//! server-id, and the holder's address is in its claim. This server reads its own claim ten times a second; the claims
//! of other server-ids come from a list that all clients share, at most `OTHERS_AGE_MAX` old. A server without a claim
//! store is the master of its server-id.
//!
//! Invariants: no server names itself as the master after its hold has ended, because another one may hold the claim.
//! No server names another one for longer than a time-out without an answer of the store: clients then ask the next
//! server of their list.

use std::sync::Arc;
use std::time::Duration;

use crate::Server;
use crate::registry::ConnectionAddr;
use getid_core::server::claim::Clocks;
use getid_engine::claim::listing::{ClaimList, ClaimLister, ListLimits, ListedClaim};
use getid_engine::claim::status::{ClaimRole, ClaimStatus, HolderStatus};
use getid_system::clock::{Clock as _, wall_unix_ms};
use getid_text::host_port::HostPort;

/// Greatest age of the list of other server-ids' claims.
const OTHERS_AGE_MAX: Duration = Duration::from_secs(1);

/// Longest wait of a request for a newer list. Some clients wait 100 ms for a Sentinel's reply.
const OTHERS_WAIT_MAX: Duration = Duration::from_millis(50);

/// Longest wait of a request for the first list, for which this server connects to the claim store: before it, other
/// server-ids are unknown.
const FIRST_WAIT_MAX: Duration = Duration::from_millis(300);

/// The server that gives the IDs of a server-id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Master {
    /// Server-id whose IDs it gives.
    pub server_id: u32,
    /// Name of the server, for error replies and the log.
    pub name: String,
    /// Address for clients; `None` if the server has not announced one.
    pub address: Option<HostPort>,
    /// Time since which it is the master, in Unix ms.
    pub since_unix_ms: u64,
    /// Time since this server saw a sign of life of it, in ms; 0 for this server.
    pub silent_ms: u64,
    /// Silence after which another server takes over, in ms; 0 if none can.
    pub timeout_ms: u64,
    /// Whether it is this server.
    pub is_this_server: bool,
}

impl Server {
    /// Returns this server's server-id. `None` with `server-id auto` while no claim is free.
    pub fn own_server_id(&self) -> Option<u32> {
        match self.claim() {
            Some(claim) => claim.status().server_id,
            None => Some(self.issuer().identity().server_id),
        }
    }

    /// Returns the master of this server's server-id. `None` if the claim is free or not known, if this server is the
    /// holder and its hold has ended, or if this server cannot read whether a silent holder has a successor.
    /// `reached_at` is the address at which the requesting client reached this server.
    pub fn own_master(&self, reached_at: &ConnectionAddr) -> Option<Master> {
        if self.claim().is_some() { self.claim_master() } else { Some(self.only_master(reached_at)) }
    }

    /// Returns the master of this server's server-id by its claim. `None` too without a claim store.
    pub(crate) fn claim_master(&self) -> Option<Master> {
        master_of(&self.claim()?.status(), self.issuer().clock().clocks())
    }

    /// Returns this server, which has no claim store, as the master: at `announce-address`, or else at the address at
    /// which the client reached it.
    fn only_master(&self, reached_at: &ConnectionAddr) -> Master {
        let address = match reached_at {
            ConnectionAddr::Tcp(address) if self.config.get().announce.address.is_none() => {
                Some(HostPort { host: address.ip().to_canonical().to_string(), port: address.port() })
            }
            _ => self.process.announced.clone(),
        };
        Master {
            server_id: self.issuer().identity().server_id,
            name: String::new(),
            address,
            since_unix_ms: 0,
            silent_ms: 0,
            timeout_ms: 0,
            is_this_server: true,
        }
    }

    /// Returns the masters of other server-ids than this server's, sorted by server-id. Without a claim store there are
    /// none. While the store does not answer, they are those of the last list, up to their time-out.
    pub async fn other_masters(&self) -> Vec<Master> {
        let list = self.claims().await;
        self.other_masters_of(&list).collect()
    }

    /// Returns the master of another server-id than this server's, as [`Server::other_masters`] does.
    pub async fn other_master(&self, server_id: u32) -> Option<Master> {
        let list = self.claims().await;
        let at = list.claims.binary_search_by_key(&server_id, |claim| claim.server_id).ok()?;
        listed(&list, &list.claims[at], self.issuer().clock().wall_unix_ms())
    }

    /// Returns the masters in a list, without this server's server-id.
    pub(crate) fn other_masters_of<'a>(&self, list: &'a ClaimList) -> impl Iterator<Item = Master> + use<'a> {
        let (own, now_ms) = (self.own_server_id(), self.issuer().clock().wall_unix_ms());
        let others = list.claims.iter().filter(move |claim| Some(claim.server_id) != own);
        others.filter_map(move |claim| listed(list, claim, now_ms))
    }

    /// Returns the claims of the store, from the shared list; none without a claim store.
    pub(crate) async fn claims(&self) -> Arc<ClaimList> {
        let Some(lister) = self.claim_lister() else { return Arc::default() };
        let wait_max = if lister.latest().is_some() { OTHERS_WAIT_MAX } else { FIRST_WAIT_MAX };
        lister.list(ListLimits { age_max: OTHERS_AGE_MAX, wait_max }, wall_unix_ms).await
    }

    /// Returns the lister of the store's claims, if there is one.
    pub(crate) fn claim_lister(&self) -> Option<&ClaimLister> {
        self.claim()?.lister()
    }
}

/// Returns the master by the state of this server's own claim.
pub(crate) fn master_of(claim: &ClaimStatus, now: Clocks) -> Option<Master> {
    let master = holder_of(claim, now.wall_ms.max(0).cast_unsigned())?;
    let is_current = match claim.role {
        ClaimRole::Holder => claim.hold.is_some_and(|hold| !hold.is_over(now)),
        // A server that cannot read the store does not learn of a successor.
        ClaimRole::Standby => claim.error.is_empty() || master.silent_ms < claim.timeout_ms,
    };
    is_current.then_some(master)
}

/// Returns the holder by the state of this server's own claim, also if it is this server and its hold has ended.
pub(crate) fn holder_of(claim: &ClaimStatus, now_ms: u64) -> Option<Master> {
    let (server_id, holder) = (claim.server_id?, claim.holder.as_ref()?);
    let HolderStatus { name, address, since_unix_ms, until_unix_ms, .. } = holder;
    let is_this_server = claim.role == ClaimRole::Holder;
    // A holder gives IDs for three quarters of the time-out after a beat.
    let seen_ms = until_unix_ms.saturating_sub(claim.timeout_ms * 3 / 4);
    Some(Master {
        server_id,
        name: name.clone(),
        address: HostPort::parse(address),
        since_unix_ms: *since_unix_ms,
        silent_ms: if is_this_server { 0 } else { now_ms.saturating_sub(seen_ms) },
        timeout_ms: claim.timeout_ms,
        is_this_server,
    })
}

/// Returns the master by a claim of the store's list; `None` if the claim has no holder, or if the store has not
/// answered for the time after which another server may hold it.
fn listed(list: &ClaimList, claim: &ListedClaim, now_ms: i64) -> Option<Master> {
    let age_ms = now_ms.saturating_sub(claim.read_unix_ms).max(0).cast_unsigned();
    let is_current = list.error.is_none() || age_ms < claim.timeout_ms;
    (claim.state == "held" && is_current).then(|| Master {
        server_id: claim.server_id,
        name: claim.name.clone(),
        address: HostPort::parse(&claim.address),
        since_unix_ms: claim.since_unix_ms.max(0).cast_unsigned(),
        silent_ms: claim
            .written_unix_ms
            .map_or(0, |written_ms| now_ms.saturating_sub(written_ms).max(0).cast_unsigned()),
        timeout_ms: claim.timeout_ms,
        is_this_server: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use getid_core::server::claim::Hold;

    fn status(role: ClaimRole, address: &str) -> ClaimStatus {
        let holder = HolderStatus {
            name: "host-a".to_owned(),
            address: address.to_owned(),
            since_unix_ms: 5_000,
            until_unix_ms: 11_500,
            ..HolderStatus::default()
        };
        ClaimStatus { role, server_id: Some(3), holder: Some(holder), timeout_ms: 2_000, ..ClaimStatus::default() }
    }

    fn at(wall_ms: i64) -> Clocks {
        let ns = wall_ms.cast_unsigned() * 1_000_000;
        Clocks { boot_ns: ns, raw_ns: ns, wall_ms }
    }

    #[test]
    fn a_holder_is_the_master_until_its_hold_ends_and_a_standby_names_it_for_longer() {
        let own = status(ClaimRole::Holder, "[fd00::7]:7890");
        assert_eq!(master_of(&own, at(11_000)), None, "it has not saved yet");
        let own = ClaimStatus { hold: Some(Hold { sent: at(10_000), for_ms: 1_500 }), ..own };
        let master = master_of(&own, at(11_499)).unwrap();
        assert_eq!((master.address, master.silent_ms), (HostPort::parse("[fd00::7]:7890"), 0));
        assert_eq!(master_of(&own, at(11_500)), None);
        // A wall clock that is set back does not lengthen the hold.
        assert_eq!(master_of(&own, Clocks { wall_ms: 9_000, ..at(11_000) }), None);
        assert_eq!(master_of(&own, Clocks { wall_ms: 9_000, ..at(60_000) }), None);
        let seen = status(ClaimRole::Standby, "10.1.0.7:7890");
        let master = master_of(&seen, at(60_000)).unwrap();
        assert_eq!((master.silent_ms, master.is_this_server), (50_000, false));
    }

    #[test]
    fn a_server_that_cannot_read_the_store_names_another_for_one_time_out() {
        let seen =
            ClaimStatus { error: "no answer within 1 s".to_owned(), ..status(ClaimRole::Standby, "10.1.0.7:7890") };
        assert!(master_of(&seen, at(11_999)).is_some());
        assert_eq!(master_of(&seen, at(12_000)), None);
        assert!(holder_of(&seen, 12_000).is_some());
        let claim = ListedClaim { state: "held", read_unix_ms: 10_000, timeout_ms: 2_000, ..ListedClaim::default() };
        let list = ClaimList::default();
        assert!(listed(&list, &claim, 3_600_000).is_some(), "nothing asked for a newer list");
        let list = ClaimList { error: Some("refused".to_owned()), ..list };
        assert!(listed(&list, &claim, 11_999).is_some());
        assert_eq!(listed(&list, &claim, 12_000), None);
    }

    #[test]
    fn a_claim_without_a_holder_has_no_master_and_a_wrong_address_is_none() {
        let free = ClaimStatus { holder: None, ..status(ClaimRole::Standby, "") };
        assert_eq!(holder_of(&free, 0), None);
        for address in ["", "0.0.0.0:7890", "10.1.0.7", "a b:1"] {
            let master = holder_of(&status(ClaimRole::Standby, address), 0).unwrap();
            assert_eq!(master.address, None, "{address}");
        }
        let claim = |state| ListedClaim { state, address: "10.1.0.7:7890".to_owned(), ..ListedClaim::default() };
        let list = ClaimList::default();
        assert!(listed(&list, &claim("held"), 0).is_some_and(|master| master.address.is_some()));
        for state in ["free", "moved", "unreadable"] {
            assert_eq!(listed(&list, &claim(state), 0), None, "{state}");
        }
    }
}
