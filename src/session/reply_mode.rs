//! `CLIENT REPLY`: whether a client wants to hear anything.
//!
//! Redis asks this for each reply. Here a turn is either heard or muted as a whole: a command that changes it ends the
//! turn, so that nothing is asked where replies are on.

/// What `CLIENT REPLY` asked for. The default is every reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplyMode {
    off: bool,
    /// The request at hand is not answered.
    skip: bool,
    /// The request after it is not.
    skip_next: bool,
}

/// The word behind `CLIENT REPLY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    On,
    Off,
    Skip,
}

impl ReplyMode {
    /// Whether all is as at the beginning.
    #[inline]
    pub(super) fn is_plain(self) -> bool {
        !(self.off || self.skip || self.skip_next)
    }

    /// Whether the request at hand is not answered.
    #[inline]
    pub(super) fn is_muted(self) -> bool {
        self.off || self.skip
    }

    /// `CLIENT REPLY`. Only `ON` is answered itself.
    pub(super) fn set(&mut self, wanted: Wanted) {
        match wanted {
            Wanted::On => *self = ReplyMode { skip_next: self.skip_next, ..ReplyMode::default() },
            Wanted::Off => self.off = true,
            Wanted::Skip => self.skip_next = !self.off,
        }
    }

    /// `RESET`, which is answered unless a `SKIP` came just before.
    pub(super) fn reset(&mut self) {
        *self = ReplyMode { skip: self.skip, ..ReplyMode::default() };
    }

    /// A request has been dealt with; an empty line is one too, as in Redis.
    pub(super) fn next_request(&mut self) {
        self.skip = std::mem::take(&mut self.skip_next);
    }
}
