//! The checks that the promises stand on, as switches: so that a test can take one out and see the simulation fail.
//!
//! A check that nothing would miss is not proven. Production code only ever names [`Sound`], and the switches are
//! constants, so they cost nothing: the compiler sees `if true`.

/// Which checks stand. Everything but [`Sound`] is for tests of the tests.
pub trait Checks: Clone + std::fmt::Debug + Send + 'static {
    /// No tick is given at or past the watermark.
    const WATERMARK: bool = true;
    /// The shard is masked to its width when an ID is composed; the fork lacks this.
    const MASK: bool = true;
    /// A clock that was set back is approached slowly instead of followed.
    const SLEW: bool = true;
}

/// Every check stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sound;

impl Checks for Sound {}

/// Planted fault: ticks past the watermark are given.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWatermarkCheck;

impl Checks for NoWatermarkCheck {
    const WATERMARK: bool = false;
}

/// Planted fault: the shard spills into the bits above it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMask;

impl Checks for NoMask {
    const MASK: bool = false;
}

/// Planted fault: the reference clock follows the wall clock back.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSlew;

impl Checks for NoSlew {
    const SLEW: bool = false;
}
