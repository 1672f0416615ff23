//! Reasons why a lease is not renewed, and why a pool is not new.

/// Reason why a lease is not renewed or released. `Display` continues after "worker id 7 of pool orders: ".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseRefusal {
    /// The token belongs to no known lease of this id.
    WrongToken,
    /// The lease is not that of the instance: another holder has the id, or the lease was given back or revoked.
    OtherInstance,
    /// R has passed the lease's end.
    Over {
        /// End of the lease, Unix ms.
        not_after_ms: u64,
        /// R, Unix ms.
        now_ms: u64,
        /// Whether another lease of this id was given since.
        is_leased_again: bool,
    },
    /// The holder has given the lease back.
    Released,
    /// An operator has ended the lease.
    Revoked {
        /// End of the time in which the holder may make IDs, Unix ms.
        not_after_ms: u64,
    },
    /// The pool was made smaller, and no longer has this id.
    PoolSmaller {
        /// Number of ids of the pool.
        size: u32,
        /// End of the time in which the holder may make IDs, Unix ms.
        not_after_ms: u64,
    },
    /// The newest ID of the holder is too far ahead.
    LastAhead {
        /// Time of that ID, Unix ms.
        last_ms: u64,
        /// R, Unix ms.
        now_ms: u64,
    },
}

impl core::fmt::Display for LeaseRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            LeaseRefusal::WrongToken => f.write_str(
                "the token is not that of its lease: send the one that WORKERID LEASE returned, or lease an id",
            ),
            LeaseRefusal::OtherInstance => f.write_str("it is not leased to this instance"),
            LeaseRefusal::Over { not_after_ms, is_leased_again: true, .. } => {
                write!(
                    f,
                    "this lease ended by {not_after_ms}, and the id was leased again: make no IDs with it, and "
                )?;
                f.write_str("lease another one")
            }
            LeaseRefusal::Over { not_after_ms, now_ms, is_leased_again: false } => {
                let ago_ms = now_ms.saturating_sub(*not_after_ms);
                write!(f, "this lease ended at {not_after_ms}, {ago_ms} ms ago: make no IDs by it, and lease again; ")?;
                f.write_str("with the same NAME it is the same id, if that is still free")
            }
            LeaseRefusal::Released => f.write_str("this lease was released: lease again"),
            LeaseRefusal::Revoked { not_after_ms } => {
                write!(
                    f,
                    "this lease was revoked by an operator: IDs may be made until {not_after_ms}, then lease again"
                )
            }
            LeaseRefusal::PoolSmaller { size, not_after_ms } => {
                write!(
                    f,
                    "the pool has {size} ids now, and no longer this one: IDs may be made until {not_after_ms}, "
                )?;
                f.write_str("then lease again")
            }
            LeaseRefusal::LastAhead { last_ms, now_ms } => {
                let ahead_s = last_ms.saturating_sub(*now_ms) / 1000;
                write!(f, "LAST is {last_ms}, {ahead_s} s ahead of this server's time {now_ms}, must be at most an ")?;
                f.write_str("hour ahead: check the clock of the machine that made this ID")
            }
        }
    }
}

/// Reason why a pool does not open as a new one. `Display` continues after "worker pool 'orders' ".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotNewReason {
    /// The pool has stored leases.
    Leased {
        /// Number of ids with a lease, current or not.
        leased: usize,
    },
    /// The pool's record was written again while it waits to open.
    Rewritten {
        /// When the pool opens, Unix ms.
        opens_ms: u64,
        /// R, Unix ms.
        now_ms: u64,
    },
}

impl core::fmt::Display for NotNewReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            NotNewReason::Leased { leased } => {
                let ids = if *leased == 1 { "id" } else { "ids" };
                write!(f, "is not new: its store has leases of {leased} {ids}. WORKERID INFO returns when it opens")
            }
            NotNewReason::Rewritten { opens_ms, now_ms } => {
                write!(
                    f,
                    "is not new: its record was written again, as its store lost writes or 'longest' was raised. "
                )?;
                let in_ms = opens_ms.saturating_sub(*now_ms);
                write!(f, "It opens at {opens_ms}, {in_ms} ms from now: wait, as earlier leases may last until then")
            }
        }
    }
}
