//! What a server says of its claim in a cluster store: to INFO, ROLE, `/readyz`, the page and metrics.
//!
//! The claim's driver writes it, about ten times a second; everybody else reads.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::listing::ClaimLister;
pub use crate::records::StoreSize;

/// Shared by the claim's driver, which writes, and whoever tells of it.
#[derive(Debug, Default)]
pub struct ClaimView {
    /// Whether IDs, sequences and leases are refused because another server has the claim, or none has it yet.
    is_standby: AtomicBool,
    status: Mutex<Arc<ClaimStatus>>,
    upkeep: Mutex<StoreUpkeep>,
    listener: OnceLock<Listener>,
    lister: OnceLock<ClaimLister>,
}

/// Who hears of each change of the role.
struct Listener(Box<dyn Fn(ClaimRole) + Send + Sync>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

impl ClaimView {
    /// One atomic, for every request.
    #[inline]
    pub fn is_standby(&self) -> bool {
        self.is_standby.load(Relaxed)
    }

    /// What was told last.
    pub fn status(&self) -> Arc<ClaimStatus> {
        Arc::clone(&self.status.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells this from now on.
    pub fn tell(&self, mut status: ClaimStatus) {
        status.upkeep = *self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        let role = status.role;
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(status);
        let was_standby = self.is_standby.swap(role == ClaimRole::Standby, Relaxed);
        if was_standby != (role == ClaimRole::Standby)
            && let Some(Listener(listener)) = self.listener.get()
        {
            listener(role);
        }
    }

    /// Tells this of the store's database, from the next [`ClaimView::tell`] on.
    pub fn tell_upkeep(&self, upkeep: StoreUpkeep) {
        *self.upkeep.lock().unwrap_or_else(PoisonError::into_inner) = upkeep;
    }

    /// Lists the claims of the store by this from now on. Once.
    pub fn set_lister(&self, lister: ClaimLister) {
        let _ = self.lister.set(lister);
    }

    /// What lists the claims of the store; `None` where nothing does.
    pub fn lister(&self) -> Option<&ClaimLister> {
        self.lister.get()
    }

    /// Calls this with the role now, and at each change of it: on the thread that tells, which must not wait. Once.
    pub fn on_role(&self, listener: impl Fn(ClaimRole) + Send + Sync + 'static) {
        let Listener(listener) = self.listener.get_or_init(|| Listener(Box::new(listener)));
        listener(self.status().role);
    }

    /// Why a standby refuses, as the error reply has it; `None`: it is none.
    pub fn refusal(&self) -> Option<String> {
        self.is_standby().then(|| {
            let status = self.status();
            let code = if status.waits() { "LOADING" } else { "MISCONF" };
            format!("{code} {}", status.reason())
        })
    }
}

impl ClaimStatus {
    /// Whether a standby is one as it should be, and takes over by itself. It has nothing else to wait for when an
    /// operator is needed: the store went back, the record was moved, the clock is absurd.
    pub fn waits(&self) -> bool {
        self.role == ClaimRole::Standby && self.reason().starts_with("standby")
    }

    /// Why a standby refuses IDs, in a sentence that is never empty.
    pub fn reason(&self) -> &str {
        if self.why.is_empty() { "standby: the claim store has not answered yet" } else { &self.why }
    }
}

/// What a server is to its server-id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClaimRole {
    /// It waits for a claim: another server has it, or the store has not answered yet.
    #[default]
    Standby,
    /// It has the claim. Whether IDs are given is the issuer's to say: not while the store is away for too long.
    Holder,
}

/// All that is told of a claim. Times are Unix ms by this machine's wall clock; 0 stands for no time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimStatus {
    /// The claim store's address, without a password.
    pub store: String,
    /// Its product and version, once it has said so.
    pub product: String,
    /// What this server is.
    pub role: ClaimRole,
    /// Which server-id; `None`: `server-id auto`, and none has come free.
    pub server_id: Option<u32>,
    /// This server's name (`instance-name`).
    pub instance_name: String,
    /// This process: 32 hex digits.
    pub instance: String,
    /// Who has the claim; `None`: nobody, or nobody knows.
    pub holder: Option<HolderStatus>,
    /// Why a standby refuses IDs, as in "standby for server-id 3: held by host-a (10.1.0.7), ..."; empty for a holder.
    pub why: String,
    /// Why this standby would not take the claim over even if it could, also while another server has it; `None`: it
    /// would.
    pub not_eligible: Option<String>,
    /// How far a standby's wall clock is ahead of the time of the claim's record, or (negative) behind, ms; `None`: it
    /// is a holder, or nobody knows.
    pub clock_gap_ms: Option<i64>,
    /// `claim-timeout-ms`.
    pub timeout_ms: u64,
    /// Of a holder: how long IDs go on if the store does not answer from now on, ms: what is left of three quarters of
    /// the time-out, or of the watermark, whichever ends first.
    pub ride_through_ms: u64,
    /// When the store last answered.
    pub last_answer_unix_ms: u64,
    /// Writes that were acknowledged.
    pub beats: u64,
    /// Calls of the store that failed.
    pub errors: u64,
    /// What the last failure was; empty once the store answers again.
    pub error: String,
    /// How long the last beat took, µs.
    pub last_beat_us: u64,
    /// Claims that this process took over from others, or took after a start.
    pub takeovers: u64,
    /// Claims that it had and lost.
    pub losses: u64,
    /// How it came to have the claim the last time.
    pub last_takeover: Option<TakeoverStatus>,
    /// The store's database: what [`ClaimView::tell_upkeep`] was told.
    pub upkeep: StoreUpkeep,
}

/// What is known of the database of an etcd, and done about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUpkeep {
    /// How large it is; `None`: another store, or not known yet.
    pub size: Option<StoreSize>,
    /// Compactions by this process; `None`: another store.
    pub compactions: Option<u64>,
}

/// Who has a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HolderStatus {
    /// 32 hex digits.
    pub instance: String,
    /// Its `instance-name`.
    pub name: String,
    /// Its machine.
    pub host: String,
    /// Where its clients reach it, as in `10.1.0.7:7890`; empty: unknown.
    pub address: String,
    /// Since when it has the claim, by its own clock.
    pub since_unix_ms: u64,
    /// Until when at the latest it gives IDs if it writes no more, by this machine's clock.
    pub until_unix_ms: u64,
}

/// How a claim was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakeoverStatus {
    /// When.
    pub at_unix_ms: u64,
    /// As in "its holder host-a was silent for 2.0 s", "released by host-a", "first use".
    pub cause: String,
    /// From the moment at which the cause was seen (silence began, release was read) to the first ID that could be
    /// given, ms.
    pub took_ms: u64,
}
