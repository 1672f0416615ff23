//! The claim on a server-id in a store that servers share: when to beat, when to stop, when to take over.
//!
//! The module has no clock and no store: readings and answers are arguments, and the next read or write is a return
//! value. The rules:
//!
//! 1. The watermark is the fence. A save succeeds only if the record has the stamp that this process wrote last, and
//!    IDs are given only below a watermark saved so. Uniqueness rests on nothing else.
//! 2. A holder gives IDs for three quarters of its time-out after it sent the last acknowledged beat ([`Hold`]). So
//!    none of its IDs is late after a takeover.
//! 3. A standby watches one stamp for the whole time-out ([`Watch`]), and then takes the claim by a write that names
//!    the stamp. A claim that names no holder is taken at once.
//! 4. A standby whose wall clock is far from the record's time does not take the claim.
//! 5. A server without a server-id of its own chooses one ([`choose`]).
//! 6. A record is created only for a server-id that may be new.
//! 7. An unreachable store changes nothing: a holder continues when it is back, if no other server was faster. If its
//!    hold has ended, it continues as a start does, past R + B: a store that lost its last writes may have lost those
//!    of another holder. A process that has the lock of the holder's folder, on the same boot, takes the claim at once.
//! 8. Beats only go up. A record with a lower beat than this server has seen shows that the store lost writes. Its
//!    holder writes itself in while its hold lasts; no other server takes it.
//!
//! A write with an unknown outcome is settled by a read: no two writes have the same stamp, so the record's stamp shows
//! which write it is.

mod choice;
mod claimant;
mod clocks;
mod held;
mod record;
mod watch;

pub use self::choice::{Candidate, IdChoice, choose, own_name_in_use};
pub use self::claimant::{ClaimOptions, Claimant};
pub use self::clocks::{Clocks, Hold};
pub(crate) use self::held::HoldWatch;
pub use self::record::{
    ClaimEvent, ClaimLoss, ClaimRequest, ClaimSnapshot, ReadAnswer, RecordWrite, Stamp, StandbyReason, StoreAction,
    TakeCause, WriteAnswer, WritePurpose,
};
pub use self::watch::Watch;
