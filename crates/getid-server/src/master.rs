//! Masters: for each server-id the server that gives its IDs, and the address at which clients reach it.
//!
//! `SENTINEL` and `CLUSTER` send clients to the master, so both read it here. A claim store names the holder of each
//! server-id, and the holder's address is in its claim. This server reads its own claim ten times a second; the claims
//! of other server-ids come from a list that all clients share, at most `OTHERS_AGE_MAX` old. A server without a claim
//! store is the master of its server-id.
//!
//! Invariant: no server names itself as the master after its hold has ended, because another one may hold the claim.

use std::sync::Arc;
use std::time::Duration;

use crate::Server;
use crate::registry::ConnectionAddr;
use getid_engine::claim::listing::{ClaimLister, ListLimits, ListedClaim};
use getid_engine::claim::status::{ClaimRole, ClaimStatus, HolderStatus};
use getid_system::clock::{Clock as _, wall_unix_ms};
use getid_text::host_port::HostPort;

/// Greatest age of the list of other server-ids' claims.
const OTHERS_AGE_MAX: Duration = Duration::from_secs(1);

/// Longest wait of a request for a newer list. Some clients wait 100 ms for a Sentinel's reply.
const OTHERS_WAIT_MAX: Duration = Duration::from_millis(50);

/// Longest wait of a request for the first list: before it, other server-ids are unknown.
const FIRST_WAIT_MAX: Duration = Duration::from_millis(300);

/// The server that gives the IDs of a server-id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Master {
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

    /// Returns the master of this server's server-id. `None` if the claim is free or not known, or if this server is
    /// the holder and its hold has ended. `reached_at` is the address at which the requesting client reached this
    /// server.
    pub fn own_master(&self, reached_at: &ConnectionAddr) -> Option<Master> {
        if self.claim().is_some() { self.claim_master() } else { Some(self.only_master(reached_at)) }
    }

    /// Returns the master of this server's server-id by its claim. `None` too without a claim store.
    pub(crate) fn claim_master(&self) -> Option<Master> {
        let now_ms = self.issuer().clock().wall_unix_ms().max(0).cast_unsigned();
        let status = self.claim()?.status();
        holder_of(&status, now_ms).filter(|_| may_serve(&status, now_ms))
    }

    /// Returns the holder of this server's claim, also if it is this server and its hold has ended.
    pub(crate) fn claim_holder(&self) -> Option<Master> {
        let now_ms = self.issuer().clock().wall_unix_ms().max(0).cast_unsigned();
        holder_of(&self.claim()?.status(), now_ms)
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
    /// none. While the store does not answer, they are those of the last list.
    pub async fn other_masters(&self) -> Vec<Master> {
        let Some(lister) = self.claim().and_then(|claim| claim.lister()) else { return Vec::new() };
        let own = self.own_server_id();
        let now_ms = self.issuer().clock().wall_unix_ms();
        let claims = list(lister).await;
        claims.iter().filter(|claim| Some(claim.server_id) != own).filter_map(|claim| listed(claim, now_ms)).collect()
    }
}

/// Returns the claims of the store, from the shared list.
async fn list(lister: &ClaimLister) -> Vec<ListedClaim> {
    let limits = ListLimits { age_max: OTHERS_AGE_MAX, wait_max: OTHERS_WAIT_MAX };
    let mut list = lister.list(limits, wall_unix_ms).await;
    if list.read_unix_ms.is_none() {
        list = lister.list(ListLimits { wait_max: FIRST_WAIT_MAX, ..limits }, wall_unix_ms).await;
    }
    Arc::unwrap_or_clone(list).claims
}

/// Returns false for a holder whose hold has ended.
fn may_serve(claim: &ClaimStatus, now_ms: u64) -> bool {
    let until_unix_ms = claim.holder.as_ref().map_or(0, |holder| holder.until_unix_ms);
    claim.role == ClaimRole::Standby || until_unix_ms >= now_ms
}

/// Returns the holder by the state of this server's own claim.
fn holder_of(claim: &ClaimStatus, now_ms: u64) -> Option<Master> {
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

/// Returns the master by a claim of the store's list; `None` if the claim has no holder.
fn listed(claim: &ListedClaim, now_ms: i64) -> Option<Master> {
    (claim.state == "held").then(|| Master {
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

    #[test]
    fn a_holder_is_the_master_until_its_hold_ends_and_a_standby_names_it_for_longer() {
        let own = status(ClaimRole::Holder, "[fd00::7]:7890");
        let master = holder_of(&own, 11_500).unwrap();
        assert_eq!((master.address, master.silent_ms), (HostPort::parse("[fd00::7]:7890"), 0));
        assert_eq!((may_serve(&own, 11_500), may_serve(&own, 11_501)), (true, false));
        let seen = status(ClaimRole::Standby, "10.1.0.7:7890");
        assert!(may_serve(&seen, 60_000));
        let seen = holder_of(&seen, 60_000).unwrap();
        assert_eq!((seen.silent_ms, seen.is_this_server), (50_000, false));
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
        assert!(listed(&claim("held"), 0).is_some_and(|master| master.address.is_some()));
        for state in ["free", "moved", "unreadable"] {
            assert_eq!(listed(&claim(state), 0), None, "{state}");
        }
    }
}
