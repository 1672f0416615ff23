//! The claim on a server-id in a store that servers share: when to beat, when to stop, when to take over.
//!
//! Nothing here reads a clock or speaks to a store: readings and answers come in as values, and what is to be read or
//! written goes out as one. The rules:
//!
//! 1. The watermark is the fence. A save succeeds only if the record has the stamp that this process wrote last, and
//!    IDs are given only below a watermark saved so. Uniqueness rests on nothing else.
//! 2. A holder gives IDs for three quarters of its time-out after it sent the last beat that was acknowledged
//!    ([`Hold`]). So none of its IDs comes late when somebody has taken over.
//! 3. A standby watches one stamp for the whole time-out ([`Watch`]), and then writes itself in by a write that names
//!    it. A claim that names no holder is taken at once.
//! 4. A standby whose wall clock is far from the record's time does not take the claim.
//! 5. A server without a server-id of its own chooses one ([`choose`]).
//! 6. No record is made but for a server-id that may be new.
//! 7. A store that is away changes nothing: a holder goes on when it is back, if nobody else was faster. If its hold
//!    has ended it goes on as a start does, past R + B: a store that has lost its last writes may have lost those of
//!    another holder. A process that has the lock of the holder's folder, on the same boot, takes the claim at once.
//! 8. Beats only go up. A record with a lower beat than this server knows of is of a store that lost writes: its
//!    holder writes itself in while its hold lasts, and nobody takes it otherwise.
//!
//! A write of which nobody knows what became of it is settled by reading: no two writes have the same stamp, so a
//! record shows by its stamp which write it is of.

mod choice;
mod claimant;
mod clocks;
mod held;
mod record;
mod watch;

pub use self::choice::{Candidate, Choice, choose, own_name_in_use};
pub use self::claimant::{Claimant, Options};
pub use self::clocks::{Clocks, Hold};
pub(crate) use self::held::HoldWatch;
pub use self::record::{Act, Ask, Cause, Event, Loss, Read, Seen, Stamp, Waiting, Wish, Write, Wrote};
pub use self::watch::Watch;
