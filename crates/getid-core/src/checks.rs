//! Faults that tests plant, to prove that a test finds each of them.
//!
//! Each promise rests on a line of code that could be missing. Every such line calls [`planted`] to learn whether to
//! act as if it were. A test plants the fault and must see another test fail. This module has the only list of faults.
//!
//! In a release [`planted`] is the constant `false`, and nothing of this is left. With the feature `planted-faults`,
//! which `cargo test` switches on, a fault holds for one thread, from `plant` until the value it returned is dropped.

/// Defines an enum and the list of its variants.
macro_rules! listed {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: &[$name] = &[$($name::$variant,)*];
        }
    };
}

listed! {
    /// The mistakes, named by their behaviour.
    Fault {
        /// A claim that ends by silence counts as held for ever.
        GivesPastItsHold,
        /// A draw of a sequence passes the waiting draws.
        PassesThoseWhoWait,
        /// The end of a sequence's row is given back though a fetch of it has failed.
        UnknownTailIsGivenBack,
        /// The end of a sequence's row is given back though a fetch is in flight.
        GivesBackInFlight,
        /// A reservation of an older generation is used.
        OlderAnswerIsUsed,
        /// A reservation below values that the server already held is used.
        LowerSegmentIsUsed,
        /// The second segment of a sequence is used before the first.
        SecondSegmentFirst,
        /// With `cache 0`, requests that came after the statement was sent are served.
        ServesThoseWhoCameLater,
        /// A sequence continues with its segments though its row was raised.
        GenerationIsIgnored,
        /// A segment is merged with one that it does not adjoin.
        JoinsWhatDoesNotAdjoin,
        /// Held values of a row that is gone, or went back, are given.
        VerdictKeepsValues,
        /// With `cache 0`, left-over values are given to later requests.
        KeepsTheRestOfCache0,
        /// With `cache 0`, values left by an earlier cache are given.
        EarlierCacheIsGiven,
        /// A sequence is raised in memory though the row's end may belong to another server.
        SkipsWhatOthersHave,
        /// A sequence is set to values that other servers may have had.
        SkipGoesBack,
        /// An answer that is no longer awaited is used.
        UninvitedAnswerIsUsed,
        /// A fetch that failed is repeated at once.
        NoBackOff,
        /// A failed fetch is repeated with the full size that demand may need.
        RetriesByDemand,
        /// The next segment is fetched when the last one is used up.
        NothingIsFetchedAhead,
        /// A segment that was used up in no time is followed by one of the same size.
        SegmentsDoNotGrow,
        /// Demand reserves all values up to the max for one server.
        OneServerHoldsTheRest,
        /// A request that may not wait is no reason for a fetch.
        RefusedDrawWantsNothing,
        /// A verdict of the store is used for ever.
        VerdictLastsForEver,
        /// The store is asked again with each request after a verdict.
        VerdictIsNotBelieved,
        /// Requests wait for a store that has failed for long.
        FailingStoreIsWaitedFor,
        /// A request waits though the policy forbids it.
        PolicyErrorWaits,
        /// A waiting draw of a sequence is served whole in its turn.
        LargeOneIsServedWhole,
        /// A cancelled draw still gets values.
        LeaverStays,
        /// Values that were given back are still held.
        GivesBackAndKeeps,
        /// The end of a sequence's row is given back twice.
        GivesBackAgain,
        /// A row below a raise that this server has made counts as right.
        RaiseIsForgotten,
        /// A server with several stores does not apply one store's values to the other.
        FloorIsForgotten,
        /// Values in memory are given after the end of their row.
        EndIsIgnored,
        /// A server that changes the end of a row keeps values from before another change of the row.
        EndChangeKeepsOlderValues,
        /// At the max of a sequence even requests with enough values left are refused.
        MaxRefusesEverybody,
        /// Ticks at or past the watermark are given.
        NoWatermarkCheck,
        /// Ticks at or past R + B are given.
        NoBorrowLimit,
        /// A draw begins at the clock, whatever was given before.
        ForgetsNext,
        /// A named generator's epoch may become later between two lives.
        LaterEpochAccepted,
        /// A layout without the server-id is accepted on several servers.
        ServersShareLayout,
        /// The shard spills into the bits above it, as the fork's does.
        NoMask,
        /// A tick that is partly used counts as free when a life ends.
        PositionRoundsDown,
        /// The reference clock follows the wall clock back.
        NoSlew,
        /// A jump of the wall clock ahead is followed at once, however far.
        NoHold,
        /// A jump ahead that lasts is never followed.
        HoldsForEver,
        /// `id-max-clock-jump-ms 0` follows by more than 400 days.
        NoBoundOnJumps,
        /// A clock that cannot be read counts as one at zero.
        FailedReadingCounts,
        /// A clock out of all bounds leaves the gate open.
        FaultKeepsGate,
        /// A start with a record begins at the watermark found, even if the record is old.
        StartsAtWatermark,
        /// A start begins at the clock, not B ahead of it.
        StartsAtClock,
        /// A start below the watermark found.
        StartForgetsWatermark,
        /// A start takes the wall clock as it is, even behind the R of the record.
        StartForgetsReference,
        /// A start uses the configured B, though the record has a larger one.
        StartForgetsBorrow,
        /// The start of a life moves back while no ID is drawn and the clock is behind.
        StartSlips,
        /// A start with a smaller B than the record's waits until time has caught up.
        LimitDropsAtStart,
        /// A start without a record does not wait for a server on a deleted folder.
        NoPause,
        /// A start with a copy of a record does not wait for the server that still runs on the folder it was copied
        /// from.
        NoPauseForACopy,
        /// A larger B is in force before the disk has it.
        RaisesBeforeDurable,
        /// A save stores the B as configured now, not the largest of this life.
        StoresConfiguredBorrow,
        /// A B that one life inherited is stored by all later ones.
        InheritsForEver,
        /// A watermark that comes down counts as the old one until it is saved.
        LowersLate,
        /// A save that began before the watermark came down counts.
        StaleSaveCounts,
        /// A watermark that a wrong clock left stays.
        NeverLowers,
        /// A save that failed counts.
        FailedSaveCounts,
        /// After one failed save all draws are refused.
        RefusesForEver,
        /// A claim that is lost leaves the gate open.
        LostClaimKeepsGate,
        /// A claim that is lost stays lost, though saves succeed again.
        LostForEver,
        /// A claim that was retaken counts as kept.
        RetakeForgetsPosition,
        /// A retaken claim leaves no slack for a server that has not noticed the loss yet.
        RetakeWithoutSlack,
        /// At a retaken claim R stays below the one found.
        RetakeForgetsReference,
        /// At a retaken claim a larger B of the record found is ignored.
        RetakeForgetsBorrow,
        /// A life that gave no ID stores its position at a clean stop.
        FreshStopStoresPosition,
        /// A start that is stopped leaves what its first save wrote.
        StoppedStartLeavesRecord,
        /// A save of a life that gave no ID yet stores what it found.
        FreshSaveStoresFound,
        /// Draws succeed after the last act.
        CloseKeepsGate,
        /// The last act stores the watermark.
        CloseStoresWatermark,
        /// A line begins in the middle of the unit that the position lies in.
        LineStartsInsideAUnit,
        /// A line begins at the clock, not B ahead of it.
        LineStartsAtClock,
        /// A line that is added while the server runs begins at the clock.
        LineAddedAtClock,
        /// The last unit of a line counts as free when a life ends.
        LinePositionRoundsDown,
        /// A save covers the unnamed generator only.
        LinesAreNotCovered,
        /// A life in which only a line gave IDs counts as one that gave none.
        LinesAreFresh,
        /// A line gives IDs before its declaration is saved.
        LineBeforeDeclared,
        /// A save that began before a line was added counts as one that holds its declaration.
        EarlierSaveDeclares,
        /// A wanted save counts as one that holds the declarations, whatever its outcome.
        WantedSaveDeclares,
        /// A line is left where it was when a claim is retaken.
        RetakeForgetsLines,
        /// A generator that was declared differently, and then as before, continues at its old position.
        RedeclaredGoesOn,
        /// A line that needs a higher watermark than a save would bring waits for ever.
        LineWantsNothing,
        /// A new draw is served although others are queued.
        PassesTheQueue,
        /// A waiting draw is served whole in its turn.
        ServesWholeDraws,
        /// No draw goes first, however long it has waited.
        NoDrawIsEldest,
        /// Every new draw may wait, however much is queued.
        LetsEverybodyWait,
        /// A cancelled draw keeps its place.
        LeaverKeepsItsPlace,
        /// The first waiting draw does not wake the keeper.
        FirstDoesNotWake,
        /// A draw of seven IDs panics.
        DrawPanics,
        /// A panic inside a draw leaves the issuer open.
        PoisonDoesNotClose,
        /// The position that a panic inside a draw left is stored at a clean stop.
        PoisonedCloseIsStored,
        /// A dropped keeper leaves the issuer open.
        DroppedKeeperDoesNotClose,
        /// A save of a claim counts though the record is another holder's.
        SaveIsNotFenced,
        /// A holder gives IDs for its whole time-out.
        HoldWithoutMargin,
        /// A holder counts from the reply to its beat, not from the sending.
        HoldFromTheReply,
        /// Time in which a standby could not read counts as silence.
        CutOffCountsAsSilence,
        /// A takeover with an unknown outcome counts.
        UnknownTakeoverCounts,
        /// A record with a lower beat than an earlier one is accepted.
        LowerBeatIsAccepted,
        /// A holder whose hold has ended continues at its old position.
        ResumesWhereItWas,
        /// A claim that was taken from this server on purpose is taken back at once.
        TakesBackAtOnce,
        /// A draw uses a closed lane.
        ClosedLaneIsUsed,
        /// The holder of the lock leaves the lane open.
        HolderLeavesTheLaneOpen,
        /// A lane is open before a life's first ID.
        LaneOpensFresh,
        /// A lane is open while R slews.
        LaneOpensWhileSlewing,
        /// A lane is open while draws are queued.
        LanePassesTheQueue,
        /// Draws on a lane never make a save due.
        LaneIgnoresSaveFrom,
        /// Draws on a lane continue past the hold.
        LaneOutlivesItsHold,
        /// A lane with lower bounds is opened where the one before was closed.
        LowerLaneOpensInPlace,
        /// A draw on a lane takes slots, and leaves the random cycle where it was.
        LaneForgetsTheCycle,
        /// IDs from lanes are not counted.
        LaneIsNotCounted,
        /// A server reserves though its beat in the store is below its note.
        LowerBeatReserves,
        /// A server does not notice that another instance of the database answers.
        AnotherInstanceReserves,
        /// A server reserves after a broken connection as before.
        BrokenConnectionIsTrusted,
        /// Servers that a store has lost are not put back into it.
        LostServersStayLost,
        /// A server whose beat is too low joins without comparing its notes.
        JoinsWithoutComparing,
        /// A round is complete as soon as it has begun.
        NoServerIsAwaited,
        /// A server reserves after a round without having beaten once more.
        ClearedWithoutABeat,
        /// A server that notes call live ages while its observer is in doubt.
        AgesInDoubt,
        /// A beat counts as still while its observer did not look.
        UnseenCountsAsStill,
        /// The server that starts a round acknowledges the rounds before it unseen.
        StartAcknowledges,
        /// The loser of a race for a request is answered with its own ID.
        RequestLoserAnswered,
        /// The row of a request is removed at its end by the clock that is ahead.
        RequestRemovedEarly,
        /// A request with other arguments gets the reply of the first one.
        RequestArgumentsIgnored,
        /// A server whose clock is set back returns to an earlier period.
        PeriodFollowsTheClock,
        /// A store opens a period before the newest one of its generator.
        EarlierPeriodOpens,
    }
}

impl Fault {
    /// Faults of sequences: found by the lives and the scenes of sequences.
    pub const OF_SEQUENCES: &[Fault] = &[
        Fault::PassesThoseWhoWait,
        Fault::UnknownTailIsGivenBack,
        Fault::GivesBackInFlight,
        Fault::OlderAnswerIsUsed,
        Fault::LowerSegmentIsUsed,
        Fault::SecondSegmentFirst,
        Fault::ServesThoseWhoCameLater,
        Fault::GenerationIsIgnored,
        Fault::JoinsWhatDoesNotAdjoin,
        Fault::VerdictKeepsValues,
        Fault::KeepsTheRestOfCache0,
        Fault::EarlierCacheIsGiven,
        Fault::SkipsWhatOthersHave,
        Fault::SkipGoesBack,
        Fault::UninvitedAnswerIsUsed,
        Fault::NoBackOff,
        Fault::RetriesByDemand,
        Fault::NothingIsFetchedAhead,
        Fault::SegmentsDoNotGrow,
        Fault::OneServerHoldsTheRest,
        Fault::RefusedDrawWantsNothing,
        Fault::VerdictLastsForEver,
        Fault::VerdictIsNotBelieved,
        Fault::FailingStoreIsWaitedFor,
        Fault::PolicyErrorWaits,
        Fault::LargeOneIsServedWhole,
        Fault::LeaverStays,
        Fault::GivesBackAndKeeps,
        Fault::GivesBackAgain,
        Fault::RaiseIsForgotten,
        Fault::FloorIsForgotten,
        Fault::MaxRefusesEverybody,
        Fault::EndIsIgnored,
        Fault::EndChangeKeepsOlderValues,
    ];

    /// Faults of lanes: found by `interleavings` and the tests of the mint. Any other fault keeps lanes closed, so that
    /// draws reach its place.
    pub const OF_LANES: &[Fault] = &[
        Fault::ClosedLaneIsUsed,
        Fault::HolderLeavesTheLaneOpen,
        Fault::LaneOpensFresh,
        Fault::LaneOpensWhileSlewing,
        Fault::LanePassesTheQueue,
        Fault::LaneIgnoresSaveFrom,
        Fault::LaneOutlivesItsHold,
        Fault::LowerLaneOpensInPlace,
        Fault::LaneForgetsTheCycle,
        Fault::LaneIsNotCounted,
    ];

    /// Faults of beats: found by the lives of stores that lose writes.
    pub const OF_BEATS: &[Fault] = &[
        Fault::LowerBeatReserves,
        Fault::AnotherInstanceReserves,
        Fault::BrokenConnectionIsTrusted,
        Fault::LostServersStayLost,
        Fault::JoinsWithoutComparing,
        Fault::NoServerIsAwaited,
        Fault::ClearedWithoutABeat,
        Fault::AgesInDoubt,
        Fault::UnseenCountsAsStill,
        Fault::StartAcknowledges,
    ];

    /// Faults of request keys: found by their world.
    pub const OF_REQUESTS: &[Fault] =
        &[Fault::RequestLoserAnswered, Fault::RequestRemovedEarly, Fault::RequestArgumentsIgnored];

    /// Faults of periods: found by their world.
    pub const OF_PERIODS: &[Fault] = &[Fault::PeriodFollowsTheClock, Fault::EarlierPeriodOpens];

    /// Faults of claims: found by the model and the scenes of claims.
    pub const OF_CLAIMS: &[Fault] = &[
        Fault::SaveIsNotFenced,
        Fault::HoldWithoutMargin,
        Fault::HoldFromTheReply,
        Fault::CutOffCountsAsSilence,
        Fault::UnknownTakeoverCounts,
        Fault::LowerBeatIsAccepted,
        Fault::ResumesWhereItWas,
        Fault::TakesBackAtOnce,
    ];
}

/// Whether this build has switches for tests: a debug build with the feature `planted-faults`. A release has none.
pub const HAS_TEST_SWITCHES: bool = cfg!(all(feature = "planted-faults", debug_assertions));

#[cfg(feature = "planted-faults")]
pub use self::planting::{Planted, plant, planted, seen};
#[cfg(feature = "planted-faults")]
pub(crate) use self::planting::{any_planted, planted_but_of_lanes, saw};

#[cfg(feature = "planted-faults")]
mod planting {
    use core::cell::Cell;
    use core::marker::PhantomData;

    use super::{Fault, Rare};

    std::thread_local! {
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
        static SEEN: Cell<[u64; Rare::ALL.len()]> = const { Cell::new([0; Rare::ALL.len()]) };
    }

    /// Returns true if this thread makes this mistake. Always false in an optimised build: benches are built with this
    /// feature too, and measure a release.
    #[inline]
    pub fn planted(fault: Fault) -> bool {
        cfg!(debug_assertions) && PLANTED.get() == Some(fault)
    }

    /// Returns true if any fault is planted on this thread.
    pub(crate) fn any_planted() -> bool {
        PLANTED.get().is_some()
    }

    /// Returns true if a fault other than those of lanes is planted on this thread.
    pub(crate) fn planted_but_of_lanes() -> bool {
        PLANTED.get().is_some_and(|fault| !Fault::OF_LANES.contains(&fault))
    }

    /// Plants `fault` on this thread until the returned value is dropped, which restores the fault planted before.
    #[must_use]
    pub fn plant(fault: Fault) -> Planted {
        Planted { before: PLANTED.replace(Some(fault)), not_send: PhantomData }
    }

    /// Guard of a fault that is planted on this thread.
    #[derive(Debug)]
    pub struct Planted {
        before: Option<Fault>,
        not_send: PhantomData<*const ()>,
    }

    impl Drop for Planted {
        fn drop(&mut self) {
            PLANTED.set(self.before);
        }
    }

    /// Counts a rare event.
    pub(crate) fn saw(rare: Rare) {
        let mut seen = SEEN.get();
        seen[rare as usize] += 1;
        SEEN.set(seen);
    }

    /// Returns how often each of [`Rare::ALL`] has happened on this thread.
    pub fn seen() -> [u64; Rare::ALL.len()] {
        SEEN.get()
    }
}

/// Returns false: a release plants no faults.
#[cfg(not(feature = "planted-faults"))]
#[inline]
pub const fn planted(_: Fault) -> bool {
    false
}

/// Returns false: a release plants no faults.
#[cfg(not(feature = "planted-faults"))]
pub(crate) const fn any_planted() -> bool {
    false
}

/// Returns false: a release plants no faults.
#[cfg(not(feature = "planted-faults"))]
pub(crate) const fn planted_but_of_lanes() -> bool {
    false
}

/// Does nothing: a release counts no rare events.
#[cfg(not(feature = "planted-faults"))]
pub(crate) const fn saw(_: Rare) {}

listed! {
    /// Rare events that a run of tests must have seen to prove anything about them.
    Rare {
        /// A watermark came down.
        Lowered,
        /// A save ended that had begun before the watermark came down.
        StaleSave,
        /// A jump of the clock ahead was held.
        Held,
        /// A jump that was held was followed in the end.
        HeldAndFollowed,
        /// A claim was retaken by a life that had given IDs.
        Retaken,
        /// A claim was retaken by a life that had given none.
        RetakenFresh,
        /// A larger B came into force, once it was durable.
        Raised,
        /// A life used a larger B from its record.
        Inherited,
        /// A life that gave no ID ended cleanly.
        FreshStop,
        /// A reading of the boot-time clock failed, or went back.
        Unread,
        /// Draws used a lane.
        DrawnByALane,
        /// A lane with lower bounds was opened one slot later.
        LaneMovedOn,
    }
}
