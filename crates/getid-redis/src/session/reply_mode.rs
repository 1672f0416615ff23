//! `CLIENT REPLY`: whether a client gets replies.
//!
//! Redis checks this for each reply. Here a turn is either answered or muted as a whole: a command that changes the
//! mode ends the turn, so there is no check where replies are on.

/// Mode set by `CLIENT REPLY`, as a set of bits: each connection has one. The default is every reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplyMode(u8);

/// No request is answered.
const OFF: u8 = 1;
/// The current request is not answered.
const SKIP: u8 = 1 << 1;
/// The request after it is not answered.
const SKIP_NEXT: u8 = 1 << 2;

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
        self.0 == 0
    }

    /// Returns true if the current request is not answered.
    #[inline]
    pub(super) fn is_muted(self) -> bool {
        self.0 & (OFF | SKIP) != 0
    }

    /// Applies `CLIENT REPLY`. Only `ON` is answered itself.
    pub(super) fn set(&mut self, option: ReplyOption) {
        match option {
            ReplyOption::On => self.0 &= SKIP_NEXT,
            ReplyOption::Off => self.0 |= OFF,
            ReplyOption::Skip if self.0 & OFF != 0 => self.0 &= !SKIP_NEXT,
            ReplyOption::Skip => self.0 |= SKIP_NEXT,
        }
    }

    /// Applies `RESET`, which is answered unless a `SKIP` came just before.
    pub(super) fn reset(&mut self) {
        self.0 &= SKIP;
    }

    /// Advances to the next request. An empty line counts as one, as in Redis.
    pub(super) fn next_request(&mut self) {
        let skip = if self.0 & SKIP_NEXT == 0 { 0 } else { SKIP };
        self.0 = self.0 & OFF | skip;
    }
}
