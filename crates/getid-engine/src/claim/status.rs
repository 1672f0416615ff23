//! The state of a server's claim in a cluster store, for INFO, ROLE, `/readyz`, the page and metrics.
//!
//! The claim's driver writes it about ten times a second; all other code only reads it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::listing::ClaimLister;
use getid_core::server::claim::Hold;
pub use getid_store::records::StoreSize;

/// Shared state of the claim, written by its driver and read by INFO, the page and metrics.
#[derive(Debug, Default)]
pub struct ClaimView {
    /// Whether IDs, sequences and leases are refused because this server does not hold the claim.
    is_standby: AtomicBool,
    status: Mutex<Arc<ClaimStatus>>,
    upkeep: Mutex<StoreUpkeep>,
    listener: OnceLock<ChangeListener>,
    lister: OnceLock<ClaimLister>,
}

/// Callback for each change of the role, the holder or whether it has a hold.
struct ChangeListener(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for ChangeListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

impl ClaimView {
    /// Returns true for a standby. It costs one atomic load, for every request.
    #[inline]
    pub fn is_standby(&self) -> bool {
        self.is_standby.load(Relaxed)
    }

    /// Returns the last status.
    pub fn status(&self) -> Arc<ClaimStatus> {
        Arc::clone(&self.status.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the status, and calls the listener if the role, the holder or whether it has a hold changed.
    pub fn publish(&self, mut status: ClaimStatus) {
        status.upkeep = *self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        let (role, status) = (status.role, Arc::new(status));
        let before =
            std::mem::replace(&mut *self.status.lock().unwrap_or_else(PoisonError::into_inner), Arc::clone(&status));
        let was_standby = self.is_standby.swap(role == ClaimRole::Standby, Relaxed);
        if (was_standby != (role == ClaimRole::Standby) || !before.has_holder_of(&status))
            && let Some(ChangeListener(listener)) = self.listener.get()
        {
            listener();
        }
    }

    /// Sets the state of the store's database, shown from the next [`ClaimView::publish`] on.
    pub fn publish_upkeep(&self, upkeep: StoreUpkeep) {
        *self.upkeep.lock().unwrap_or_else(PoisonError::into_inner) = upkeep;
    }

    /// Sets the lister of the store's claims. Works once.
    pub fn set_lister(&self, lister: ClaimLister) {
        let _ = self.lister.set(lister);
    }

    /// Returns the lister of the store's claims, if it is set.
    pub fn lister(&self) -> Option<&ClaimLister> {
        self.lister.get()
    }

    /// Calls `listener` now, and at each change of the role, the holder or whether it has a hold, on the driver's
    /// thread. Calls may be at the same time, so the listener reads the present status. It must not block. Works once.
    pub fn on_change(&self, listener: impl Fn() + Send + Sync + 'static) {
        let ChangeListener(listener) = self.listener.get_or_init(|| ChangeListener(Box::new(listener)));
        listener();
    }

    /// Returns why a standby refuses requests; `None` for a holder.
    pub fn refusal(&self) -> Option<StandbyRefusal> {
        self.is_standby().then(|| {
            let status = self.status();
            StandbyRefusal { is_waiting: status.is_waiting(), reason: status.reason().to_owned() }
        })
    }
}

/// Reason why a standby refuses a request. `Display` is the text of an error reply, without `-`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {reason}", if *.is_waiting { "LOADING" } else { "MISCONF" })]
pub struct StandbyRefusal {
    /// Whether the standby takes over without help ([`ClaimStatus::is_waiting`]).
    pub is_waiting: bool,
    reason: String,
}

impl ClaimStatus {
    /// Returns true if `other` has the same server-id, holder and address, and both or none have a hold.
    fn has_holder_of(&self, other: &ClaimStatus) -> bool {
        fn key(status: &ClaimStatus) -> (Option<u32>, bool, Option<(&str, &str)>) {
            let holder = status.holder.as_ref().map(|holder| (&*holder.instance, &*holder.address));
            (status.server_id, status.hold.is_some(), holder)
        }
        key(self) == key(other)
    }

    /// Returns true for a standby that takes over without help.
    pub fn is_waiting(&self) -> bool {
        self.role == ClaimRole::Standby && !self.needs_operator
    }

    /// Returns the reason why a standby refuses IDs: a sentence that is never empty.
    pub fn reason(&self) -> &str {
        if self.why.is_empty() { "standby: the claim store has not answered yet" } else { &self.why }
    }
}

/// Role of a server for its server-id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClaimRole {
    /// The server waits for a claim: another server holds it, or the store has not answered yet.
    #[default]
    Standby,
    /// The server holds the claim. The issuer decides whether IDs are given, for example not after a long outage of the
    /// store.
    Holder,
}

/// The state of a claim. Times are Unix ms by this machine's wall clock; 0 means no time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimStatus {
    /// Address of the claim store, without a password.
    pub store: String,
    /// Product and version of the store, once known.
    pub product: String,
    /// Role of this server.
    pub role: ClaimRole,
    /// Server-id of the claim; `None` with `server-id auto` while no claim is free.
    pub server_id: Option<u32>,
    /// Name of this server (`instance-name`).
    pub instance_name: String,
    /// Id of this process: 32 hex digits.
    pub instance: String,
    /// Holder of the claim; `None` if it is free or unknown.
    pub holder: Option<HolderStatus>,
    /// Time for which this server gives IDs if it is the holder. `None` for a standby, and before the first save.
    pub hold: Option<Hold>,
    /// Reason why a standby refuses IDs, as in "standby for server-id 3: held by host-a (10.1.0.7), ..."; empty for a
    /// holder.
    pub why: String,
    /// Whether this standby takes over only after an operator acts: the store went back, the record was moved, the
    /// clock is absurd.
    pub needs_operator: bool,
    /// Reason why this standby would not take the claim over, even while another server holds it; `None` if it would.
    pub not_eligible: Option<String>,
    /// Distance of a standby's wall clock ahead of the time of the claim's record, or (negative) behind it, in ms.
    /// `None` for a holder, or if unknown.
    pub clock_gap_ms: Option<i64>,
    /// The directive `claim-timeout-ms`.
    pub timeout_ms: u64,
    /// Time for which a holder's IDs continue if the store stops answering now, in ms. It ends with the rest of three
    /// quarters of the time-out, or with the watermark, whichever comes first.
    pub ride_through_ms: u64,
    /// Time of the store's last answer.
    pub last_answer_unix_ms: u64,
    /// Writes that were acknowledged.
    pub beats: u64,
    /// Calls of the store that failed.
    pub errors: u64,
    /// Last error of the store; empty once it answers again.
    pub error: String,
    /// Duration of the last beat, in µs.
    pub last_beat_us: u64,
    /// Claims that this process took over from others, or took after a start.
    pub takeovers: u64,
    /// Claims that this process held and lost.
    pub losses: u64,
    /// The last time that this process took a claim.
    pub last_takeover: Option<TakeoverStatus>,
    /// State of the store's database, from [`ClaimView::publish_upkeep`].
    pub upkeep: StoreUpkeep,
}

/// Size and compactions of an etcd's database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUpkeep {
    /// Size of the database; `None` for another kind of store, or if unknown.
    pub size: Option<StoreSize>,
    /// Compactions by this process; `None` for another kind of store.
    pub compactions: Option<u64>,
}

/// The holder of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HolderStatus {
    /// Id of the process: 32 hex digits.
    pub instance: String,
    /// The holder's `instance-name`.
    pub name: String,
    /// Host name of its machine.
    pub host: String,
    /// Address for its clients, such as `10.1.0.7:7890`; empty if unknown.
    pub address: String,
    /// Time at which it took the claim, by its own clock.
    pub since_unix_ms: u64,
    /// Latest time at which it gives IDs if it writes no more, by this machine's clock.
    pub until_unix_ms: u64,
}

/// When and why a claim was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakeoverStatus {
    /// Time of the takeover.
    pub at_unix_ms: u64,
    /// Cause, as in "its holder host-a was silent for 2.0 s", "released by host-a", "first use".
    pub cause: String,
    /// Time from the cause (the silence began, the release was read) to the first possible ID, in ms.
    pub took_ms: u64,
}
