//! Faults that tests plant, so that a check which nothing would miss is found out.
//!
//! Each promise rests on a line somewhere that could be forgotten. Every such line asks [`planted`] whether to forget
//! it now; a test plants the fault and must see another test fail. This is the one list of them.
//!
//! In a release [`planted`] is the constant `false`, and nothing of this is left. With the feature `planted-faults`,
//! which `cargo test` switches on, a fault holds for one thread, from `plant` until the value it returned is dropped.

/// An enum, and the list of its variants.
macro_rules! listed {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// Every one, in the order of declaration.
            pub const ALL: &[$name] = &[$($name::$variant,)*];
        }
    };
}

listed! {
    /// What can be forgotten, by what is then done instead.
    Fault {
        /// A claim that ends by silence is believed for ever once it was had.
        GivesPastItsHold,
        /// A draw of a sequence passes those who wait.
        PassesThoseWhoWait,
        /// The end of a sequence's row is given back though a fetch of it has failed.
        UnknownTailIsGivenBack,
        /// The same with a fetch in flight.
        GivesBackInFlight,
        /// A reservation of an older generation is used.
        OlderAnswerIsUsed,
        /// A reservation below what the server has had is used.
        LowerSegmentIsUsed,
        /// The second segment of a sequence is used before the first.
        SecondSegmentFirst,
        /// With `cache 0`, those are served who came after the statement was sent.
        ServesThoseWhoCameLater,
        /// A sequence goes on with what it holds though its row was raised.
        GenerationIsIgnored,
        /// A segment is put behind one that it does not adjoin, as if both were one range.
        JoinsWhatDoesNotAdjoin,
        /// What is held of a row that is gone, or went back, is given.
        VerdictKeepsValues,
        /// With `cache 0`, what is left over is given to those who come later.
        KeepsTheRestOfCache0,
        /// With `cache 0`, what an earlier cache has left is given.
        EarlierCacheIsGiven,
        /// A sequence is raised in memory though its row's end may be another's.
        SkipsWhatOthersHave,
        /// A sequence is set to what others may have had.
        SkipGoesBack,
        /// An answer that nobody waits for any more is used.
        UninvitedAnswerIsUsed,
        /// A fetch that failed is repeated at once.
        NoBackOff,
        /// A fetch that failed is repeated with all that demand may need.
        RetriesByDemand,
        /// The next segment is fetched when the last one is used up.
        NothingIsFetchedAhead,
        /// A segment that was used up in no time is followed by one of the same size.
        SegmentsDoNotGrow,
        /// Demand reserves all values up to the max for one server.
        OneServerHoldsTheRest,
        /// A request that may not wait is no reason for a fetch.
        RefusedDrawWantsNothing,
        /// A verdict of the store is never asked for again.
        VerdictLastsForEver,
        /// A verdict of the store is asked for with each request.
        VerdictIsNotBelieved,
        /// Requests wait for a store that has failed for long.
        FailingStoreIsWaitedFor,
        /// A request waits though the policy is not to.
        PolicyErrorWaits,
        /// A draw of a sequence that waits is served whole in its turn.
        LargeOneIsServedWhole,
        /// One that gave up waiting gets values nevertheless.
        LeaverStays,
        /// What is given back is held nevertheless.
        GivesBackAndKeeps,
        /// The end of a sequence's row is given back twice.
        GivesBackAgain,
        /// A row below a raise that this server has made counts as right.
        RaiseIsForgotten,
        /// A server with several stores does not tell one what it had of another.
        FloorIsForgotten,
        /// At the max of a sequence those are refused, too, for whom there is enough.
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
        /// A clock that is absurd leaves the gate open.
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
        /// Where a life began slips back while nobody asks and the clock is behind.
        StartSlips,
        /// A start with a smaller B than the record's waits until time has caught up.
        LimitDropsAtStart,
        /// A start without a record does not wait for a server on a deleted folder.
        NoPause,
        /// A start with a copy of a record does not wait for the server that still runs on the folder it was copied
        /// from.
        NoPauseForACopy,
        /// A larger B is in force before the disk holds it.
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
        /// After one failed save all are refused.
        RefusesForEver,
        /// A claim that is lost leaves the gate open.
        LostClaimKeepsGate,
        /// A claim that is lost stays lost, though saves succeed again.
        LostForEver,
        /// A claim that was retaken counts as kept.
        RetakeForgetsPosition,
        /// At a retaken claim nothing is left for a server that does not know yet.
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
        /// Draws go on after the last act.
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
        /// What is saved covers the unnamed generator only.
        LinesAreNotCovered,
        /// A life in which only a line gave IDs counts as one that gave none.
        LinesAreFresh,
        /// A line gives IDs before its declaration is saved.
        LineBeforeDeclared,
        /// A save that began before a line was added counts as one that holds its declaration.
        EarlierSaveDeclares,
        /// A save that is wanted counts as one that holds the declarations, whatever comes of it.
        WantedSaveDeclares,
        /// A line is left where it was when a claim is retaken.
        RetakeForgetsLines,
        /// A generator that was declared in another way, and then as before, goes on where it was.
        RedeclaredGoesOn,
        /// A line that needs a higher watermark than a save would bring waits for ever.
        LineWantsNothing,
        /// A new draw is served although others wait.
        PassesTheQueue,
        /// A draw that waits is served whole in its turn.
        ServesWholeDraws,
        /// Nobody goes first, however long it has waited.
        NobodyIsEldest,
        /// Whoever comes may wait, however much is queued.
        LetsEverybodyWait,
        /// A draw that is given up keeps its place.
        LeaverKeepsItsPlace,
        /// The first to wait does not wake the keeper.
        FirstDoesNotWake,
        /// A draw of seven IDs panics.
        DrawPanics,
        /// A panic inside a draw leaves the issuer open.
        PoisonDoesNotClose,
        /// The position that a panic inside a draw left is stored at a clean stop.
        PoisonedCloseIsStored,
        /// A keeper that is gone leaves the issuer open.
        DroppedKeeperDoesNotClose,
        /// A save of a claim counts though the record is another holder's.
        SaveIsNotFenced,
        /// A holder gives IDs for its whole time-out.
        HoldWithoutMargin,
        /// A holder counts from the reply to its beat, not from when it sent it.
        HoldFromTheReply,
        /// Time in which a standby could not read counts as silence.
        CutOffCountsAsSilence,
        /// A takeover of which nobody knows what became of it counts.
        UnknownTakeoverCounts,
        /// A record with a lower beat than one that was there before is taken for good.
        LowerBeatIsAccepted,
        /// A holder whose hold has ended goes on where it was.
        ResumesWhereItWas,
        /// A claim that was taken from this server on purpose is taken back at once.
        TakesBackAtOnce,
        /// A draw goes by a lane that is closed.
        ClosedLaneIsUsed,
        /// The holder of the lock leaves the lane open.
        HolderLeavesTheLaneOpen,
        /// A lane is open before a life's first ID.
        LaneOpensFresh,
        /// A lane is open while the watermark comes down.
        LaneOpensWhileLowering,
        /// A lane is open while R slews.
        LaneOpensWhileSlewing,
        /// A lane is open while others wait.
        LanePassesTheQueue,
        /// Draws by a lane never make a save due.
        LaneIgnoresSaveFrom,
        /// Draws by a lane go on past the hold.
        LaneOutlivesItsHold,
        /// A lane with lower bounds is opened where the one before was closed.
        LowerLaneOpensInPlace,
        /// A draw by a lane takes slots, and leaves the random cycle where it was.
        LaneForgetsTheCycle,
        /// What lanes gave is not counted.
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
        NobodyIsAwaited,
        /// A server reserves after a round without a beat of its own.
        ClearedWithoutABeat,
        /// A server that notes call live ages while its observer is in doubt.
        AgesInDoubt,
        /// A beat counts as still in a time in which its observer did not look.
        UnseenCountsAsStill,
        /// Who starts a round acknowledges the rounds before it unseen.
        StartAcknowledges,
    }
}

impl Fault {
    /// Those of sequences: the lives and the scenes of sequences find them.
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
    ];

    /// Those of lanes: `interleavings` and the tests of the mint find them. Any other fault keeps lanes closed, so that
    /// draws come by where it is planted.
    pub const OF_LANES: &[Fault] = &[
        Fault::ClosedLaneIsUsed,
        Fault::HolderLeavesTheLaneOpen,
        Fault::LaneOpensFresh,
        Fault::LaneOpensWhileLowering,
        Fault::LaneOpensWhileSlewing,
        Fault::LanePassesTheQueue,
        Fault::LaneIgnoresSaveFrom,
        Fault::LaneOutlivesItsHold,
        Fault::LowerLaneOpensInPlace,
        Fault::LaneForgetsTheCycle,
        Fault::LaneIsNotCounted,
    ];

    /// Those of beats: the lives of stores that lose writes find them.
    pub const OF_BEATS: &[Fault] = &[
        Fault::LowerBeatReserves,
        Fault::AnotherInstanceReserves,
        Fault::BrokenConnectionIsTrusted,
        Fault::LostServersStayLost,
        Fault::JoinsWithoutComparing,
        Fault::NobodyIsAwaited,
        Fault::ClearedWithoutABeat,
        Fault::AgesInDoubt,
        Fault::UnseenCountsAsStill,
        Fault::StartAcknowledges,
    ];

    /// Those of claims: the model and the scenes of claims find them.
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

    /// Whether this thread is to make this mistake. Never in a build for speed: benches are built with this feature
    /// too, and measure what a release does.
    #[inline]
    pub fn planted(fault: Fault) -> bool {
        cfg!(debug_assertions) && PLANTED.get() == Some(fault)
    }

    /// Whether this thread is to make any mistake.
    pub(crate) fn any_planted() -> bool {
        PLANTED.get().is_some()
    }

    /// Whether this thread is to make a mistake that is none of lanes'.
    pub(crate) fn planted_but_of_lanes() -> bool {
        PLANTED.get().is_some_and(|fault| !Fault::OF_LANES.contains(&fault))
    }

    /// Plants `fault` on this thread until the value returned is dropped; then what was planted before it is back.
    #[must_use]
    pub fn plant(fault: Fault) -> Planted {
        Planted { before: PLANTED.replace(Some(fault)), not_send: PhantomData }
    }

    /// A fault that is planted on this thread.
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

    /// Counts what rarely happens.
    pub(crate) fn saw(rare: Rare) {
        let mut seen = SEEN.get();
        seen[rare as usize] += 1;
        SEEN.set(seen);
    }

    /// How often each of [`Rare::ALL`] has happened on this thread.
    pub fn seen() -> [u64; Rare::ALL.len()] {
        SEEN.get()
    }
}

/// Never, in a release.
#[cfg(not(feature = "planted-faults"))]
#[inline]
pub const fn planted(_: Fault) -> bool {
    false
}

/// Never, in a release.
#[cfg(not(feature = "planted-faults"))]
pub(crate) const fn any_planted() -> bool {
    false
}

/// Never, in a release.
#[cfg(not(feature = "planted-faults"))]
pub(crate) const fn planted_but_of_lanes() -> bool {
    false
}

/// Nothing, in a release.
#[cfg(not(feature = "planted-faults"))]
pub(crate) const fn saw(_: Rare) {}

listed! {
    /// What a run of tests must have seen, or it proves nothing about it.
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
        /// A life went by a larger B of its record.
        Inherited,
        /// A life that gave no ID ended by itself.
        FreshStop,
        /// A reading of the boot-time clock failed, or went back.
        Unread,
        /// Draws went by a lane.
        DrawnByALane,
        /// A lane with lower bounds was opened a slot further on.
        LaneMovedOn,
    }
}
