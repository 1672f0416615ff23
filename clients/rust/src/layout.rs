//! Layouts: which bits of an ID are the time, the worker id and the counter.

use crate::Error;
use crate::error::{Result, check_number};

/// Layout of IDs: widths of the fields in bits, the unit of time and the epoch.
///
/// The time is the highest field. The worker id lies above the counter; with [`Layout::counter_first`] the counter lies
/// above the worker id, as in Sonyflake. All fields have at most 63 bits together, so an ID fits a `BIGINT`.
///
/// ```
/// use getid_client::Layout;
///
/// let parts = Layout::TWITTER.parts(1_541_815_603_606_036_480).unwrap();
/// assert_eq!((parts.unix_ms, parts.worker, parts.counter), (1_656_432_460_105, 378, 0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    pub(crate) time: u32,
    pub(crate) worker: u32,
    pub(crate) counter: u32,
    pub(crate) unit_ms: i64,
    pub(crate) epoch_ms: i64,
    pub(crate) is_counter_first: bool,
}

/// Fields of an ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Parts {
    /// Begin of the ID's unit of time, Unix milliseconds.
    pub unix_ms: i64,
    /// Worker id.
    pub worker: u32,
    /// Position inside the unit of time.
    pub counter: u32,
}

impl Layout {
    /// Time 41, worker 10, counter 12; since 2010-11-04. Until 2080.
    pub const TWITTER: Layout = Layout::snowflake(1_288_834_974_657);
    /// Another name of [`Layout::TWITTER`].
    pub const SNOWFLAKE: Layout = Layout::TWITTER;
    /// Time 41, worker 10, counter 12; since 2015-01-01 UTC. Until 2084.
    pub const DISCORD: Layout = Layout::snowflake(1_420_070_400_000);
    /// Time 41, worker 10, counter 12; since 2015-01-01 +08:00. Until 2084.
    pub const KEETS: Layout = Layout::snowflake(1_420_041_600_000);
    /// Time 41, worker 10, counter 12; since 2016-02-18. Until 2085.
    pub const ICICLE: Layout = Layout::snowflake(1_455_788_600_316);
    /// Time 39 in units of 10 ms, counter 8, worker 16; since 2014-09-01 UTC. Until 2188.
    pub const SONYFLAKE: Layout = Layout::sonyflake(1_409_529_600_000);
    /// [`Layout::SONYFLAKE`] since 2025-01-01 UTC. Until 2199.
    pub const SONYFLAKE2: Layout = Layout::sonyflake(1_735_689_600_000);

    const fn snowflake(epoch_ms: i64) -> Layout {
        Layout { time: 41, worker: 10, counter: 12, unit_ms: 1, epoch_ms, is_counter_first: false }
    }

    const fn sonyflake(epoch_ms: i64) -> Layout {
        Layout { time: 39, worker: 16, counter: 8, unit_ms: 10, epoch_ms, is_counter_first: true }
    }

    /// Makes a layout of `time` (1 to 62), `worker` (0 to 16) and `counter` (0 to 32) bits, with units of 1 ms since
    /// 1970.
    pub fn new(time: u32, worker: u32, counter: u32) -> Result<Layout> {
        check_number("time", time.into(), 1..=62)?;
        check_number("worker", worker.into(), 0..=16)?;
        check_number("counter", counter.into(), 0..=32)?;
        check_number("time + worker + counter", (time + worker + counter).into(), 1..=63)?;
        Ok(Layout { time, worker, counter, unit_ms: 1, epoch_ms: 0, is_counter_first: false })
    }

    /// Sets the unit of time, 1 to 60,000 ms.
    pub fn unit_ms(self, unit_ms: u64) -> Result<Layout> {
        let unit_ms = check_number("unit_ms", unit_ms, 1..=60_000)?.cast_signed();
        Ok(Layout { unit_ms, ..self })
    }

    /// Sets the begin of the first unit of time, Unix milliseconds from 0 to 2^46.
    pub fn epoch_ms(self, epoch_ms: u64) -> Result<Layout> {
        let epoch_ms = check_number("epoch_ms", epoch_ms, 0..=1 << 46)?.cast_signed();
        Ok(Layout { epoch_ms, ..self })
    }

    /// Puts the counter above the worker id.
    #[must_use]
    pub fn counter_first(self) -> Layout {
        Layout { is_counter_first: true, ..self }
    }

    /// Returns the fields of an ID. Fails if `id` is negative or wider than the layout.
    pub fn parts(&self, id: i64) -> Result<Parts> {
        let id = u64::try_from(id).map_err(|_| Error::Usage(format!("id is {id}, must be 0 or more")))?;
        check_number("id", id, 0..=(1 << (self.time + self.worker + self.counter)) - 1)?;
        let (low, high) = if self.is_counter_first { (self.worker, self.counter) } else { (self.counter, self.worker) };
        let first = u32::try_from((id >> low) & ((1 << high) - 1)).unwrap_or(u32::MAX);
        let second = u32::try_from(id & ((1 << low) - 1)).unwrap_or(u32::MAX);
        let (worker, counter) = if self.is_counter_first { (second, first) } else { (first, second) };
        let unit = (id >> (low + high)).cast_signed();
        Ok(Parts { unix_ms: self.epoch_ms.saturating_add(unit.saturating_mul(self.unit_ms)), worker, counter })
    }

    /// Returns the ID of a unit of time since the epoch, a worker id and a counter.
    pub(crate) fn compose(&self, unit: i64, worker: u32, counter: u64) -> i64 {
        let (worker, counter) = (i64::from(worker), counter.cast_signed());
        let fields =
            if self.is_counter_first { counter << self.worker | worker } else { worker << self.counter | counter };
        unit << (self.worker + self.counter) | fields
    }

    /// Distance of two IDs whose counters follow each other.
    pub(crate) fn counter_step(&self) -> i64 {
        if self.is_counter_first { 1 << self.worker } else { 1 }
    }

    /// Returns the last millisecond of a unit of time, Unix milliseconds.
    pub(crate) fn unit_end_ms(&self, unit: i64) -> i64 {
        self.epoch_ms.saturating_add((unit + 1).saturating_mul(self.unit_ms)) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_the_parts_that_it_was_made_of() {
        for layout in [Layout::TWITTER, Layout::SONYFLAKE, Layout::SONYFLAKE2, Layout::ICICLE] {
            let id = layout.compose(987_654, 201, 99);
            let parts = layout.parts(id).unwrap();
            let expected = Parts { unix_ms: layout.epoch_ms + 987_654 * layout.unit_ms, worker: 201, counter: 99 };
            assert_eq!(parts, expected);
            assert_eq!(layout.compose(987_654, 201, 100) - id, layout.counter_step());
        }
    }

    #[test]
    fn widths_outside_of_their_range_are_refused() {
        for (made, argument) in [
            (Layout::new(0, 10, 12), "time is 0"),
            (Layout::new(41, 17, 12), "worker is 17"),
            (Layout::new(41, 10, 33), "counter is 33"),
            (Layout::new(42, 10, 12), "time + worker + counter is 64"),
            (Layout::TWITTER.unit_ms(0), "unit_ms is 0"),
            (Layout::TWITTER.epoch_ms(1 << 47), "epoch_ms is 140737488355328"),
        ] {
            assert!(made.unwrap_err().to_string().contains(argument), "{argument}");
        }
        assert!(Layout::new(30, 4, 4).unwrap().parts(1 << 38).is_err());
        assert!(Layout::TWITTER.parts(-1).is_err());
    }
}
