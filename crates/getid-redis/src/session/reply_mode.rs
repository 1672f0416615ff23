//! `CLIENT REPLY`: whether a client gets replies.
//!
//! Redis checks this for each reply. Here a turn is either answered or muted as a whole: a command that changes the
//! mode ends the turn, so there is no check where replies are on.

/// Mode set by `CLIENT REPLY`. The default is every reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplyMode {
    off: bool,
    /// Whether the current request is not answered.
    skip: bool,
    /// Whether the request after it is not answered.
    skip_next: bool,
}

/// Argument of `CLIENT REPLY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyOption {
    On,
    Off,
    Skip,
}

impl ReplyMode {
    /// Returns true if the mode is the initial one.
    #[inline]
    pub(super) fn is_plain(self) -> bool {
        !(self.off || self.skip || self.skip_next)
    }

    /// Returns true if the current request is not answered.
    #[inline]
    pub(super) fn is_muted(self) -> bool {
        self.off || self.skip
    }

    /// Applies `CLIENT REPLY`. Only `ON` is answered itself.
    pub(super) fn set(&mut self, option: ReplyOption) {
        match option {
            ReplyOption::On => *self = ReplyMode { skip_next: self.skip_next, ..ReplyMode::default() },
            ReplyOption::Off => self.off = true,
            ReplyOption::Skip => self.skip_next = !self.off,
        }
    }

    /// Applies `RESET`, which is answered unless a `SKIP` came just before.
    pub(super) fn reset(&mut self) {
        *self = ReplyMode { skip: self.skip, ..ReplyMode::default() };
    }

    /// Advances to the next request. An empty line counts as one, as in Redis.
    pub(super) fn next_request(&mut self) {
        self.skip = std::mem::take(&mut self.skip_next);
    }
}
