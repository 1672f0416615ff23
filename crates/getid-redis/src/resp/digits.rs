//! Fast writing of IDs as decimal text.
//!
//! Formatting a number is most of an ID's cost after the draw. But IDs of one draw are adjacent: they share all but
//! their last digits, because tick, server-id and the upper shard bits are equal or nearly so. So an [`IdWriter`] keeps
//! eight whole lines with the leading digits in place, appends them all, and writes the last eight digits over each;
//! those of eight IDs are computed together (`texts`). Leading digits are formatted only when they change (every 10^8:
//! each 47 ms of IDs).
//!
//! Lines are appended as a block of fixed size and then cut to their length: the copy becomes a few moves, and the
//! place of the digits is computed once for all eight.

mod texts;

use getid_core::server::IdBatch8;
use getid_core::{Reservation, Scheme};
use texts::{RANGE, text, texts};

/// Number of last digits that are written for each ID; the others are kept.
const LOW_DIGITS: usize = 8;

/// Room for a line, bytes: `$19`, CRLF, up to 20 digits (a u64), CRLF. A power of two, so that a mask bounds a length.
const LINE_BYTES: usize = 32;

/// Room for the lines of eight IDs, bytes.
const BLOCK_BYTES: usize = IdBatch8::LEN * LINE_BYTES;

/// Room that each ID needs while it is written, bytes: reserve it once for many.
pub const ID_BYTES_MAX: usize = LINE_BYTES;

/// Writes IDs as lines of one kind, `:<id>` or `$<len>` and the digits. Best for IDs that are close together.
#[derive(Debug)]
pub struct IdWriter {
    kind: LineKind,
    /// The number with zeros for its last eight digits; 0: none yet.
    base: u64,
    /// Eight lines, one after the other.
    lines: [u8; BLOCK_BYTES],
    /// Offset of the last eight digits in a line.
    low_at: usize,
    /// Length of a line, bytes.
    len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    Integer,
    Bulk,
}

impl IdWriter {
    /// Returns a writer of integers, as in the reply of `GETID`.
    pub fn integers() -> IdWriter {
        IdWriter::of(LineKind::Integer)
    }

    /// Returns a writer of bulk strings, as in the reply of `MGETID`.
    pub fn bulks() -> IdWriter {
        IdWriter::of(LineKind::Bulk)
    }

    fn of(kind: LineKind) -> IdWriter {
        IdWriter { kind, base: 0, lines: [0; BLOCK_BYTES], low_at: 0, len: 0 }
    }

    /// Appends an ID.
    #[inline]
    pub fn write(&mut self, id: u64, output: &mut Vec<u8>) {
        let Some(low) = self.low_digits(id, 0).or_else(|| self.change_base(id, 0)) else {
            return self.write_small(id, output);
        };
        let start = output.len();
        output.extend_from_slice(&self.lines[..LINE_BYTES]);
        // Into the copy, not into the line: reading back bytes that were just written in smaller pieces stalls the
        // processor.
        let low_at = start + self.low_at;
        output[low_at..low_at + LOW_DIGITS].copy_from_slice(&text(low).to_le_bytes());
        output.truncate(start + self.len);
    }

    /// Appends all IDs of a reservation.
    #[inline]
    pub fn write_run(&mut self, scheme: &Scheme, run: Reservation, output: &mut Vec<u8>) {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") {
            #[expect(unsafe_code, reason = "without vectors of 32 bytes a run takes 1.6 times as long")]
            // SAFETY: the function needs a processor with AVX2 and nothing else, which was checked.
            return unsafe { self.write_run_avx2(scheme, run, output) };
        }
        self.write_run_by(texts, scheme, run, output);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn write_run_avx2(&mut self, scheme: &Scheme, run: Reservation, output: &mut Vec<u8>) {
        self.write_run_by(|numbers| texts::avx2(numbers), scheme, run, output);
    }

    #[expect(clippy::inline_always, reason = "it is compiled for the processors that its caller is compiled for")]
    #[inline(always)]
    fn write_run_by(
        &mut self,
        texts: impl Fn(&[u32; IdBatch8::LEN]) -> [u64; IdBatch8::LEN],
        scheme: &Scheme,
        mut run: Reservation,
        output: &mut Vec<u8>,
    ) {
        while run.len > 0 {
            let (ids, count) = scheme.take_batch(&mut run);
            let last = ids.above[IdBatch8::LEN - 1];
            let low = match self.low_digits(ids.base, last) {
                None => self.change_base(ids.base, last),
                low => low,
            };
            let Some(low) = low else {
                self.write_each(&ids, count, output);
                continue;
            };
            let texts = texts(&ids.above.map(|above| low + above));
            let start = output.len();
            output.extend_from_slice(&self.lines);
            let block: &mut [u8; BLOCK_BYTES] = output[start..].first_chunk_mut().expect("what was just appended");
            // The masks change nothing, but prove to the compiler that all offsets are in bounds.
            let (line, low_at) = (self.len % LINE_BYTES, self.low_at % LINE_BYTES);
            for (nth, text) in texts.into_iter().enumerate() {
                let at = nth * line + low_at;
                block[at..at + LOW_DIGITS].copy_from_slice(&text.to_le_bytes());
            }
            output.truncate(start + count * self.len);
        }
    }

    /// Appends the IDs one by one, if they don't share their leading digits, or have none.
    #[cold]
    fn write_each(&mut self, ids: &IdBatch8, count: usize, output: &mut Vec<u8>) {
        for &above in &ids.above[..count] {
            self.write(ids.base + u64::from(above), output);
        }
    }

    /// Returns the last eight digits of `id`, if the lines have all its other digits, and those of `id + above`.
    #[inline]
    fn low_digits(&self, id: u64, above: u32) -> Option<u32> {
        let low = u32::try_from(id.checked_sub(self.base)?).ok()?;
        (low.checked_add(above)? < RANGE && self.base > 0).then_some(low)
    }

    /// Sets the lines to the leading digits of `id`, if it has any, and returns its last eight digits.
    #[cold]
    fn change_base(&mut self, id: u64, above: u32) -> Option<u32> {
        let leading = id / u64::from(RANGE);
        if leading == 0 {
            return None;
        }
        let mut line = [0; LINE_BYTES];
        let mut len = 0;
        let mut append = |part: &[u8]| {
            line[len..len + part.len()].copy_from_slice(part);
            len += part.len();
            len
        };
        let (mut digits, mut length) = (itoa::Buffer::new(), itoa::Buffer::new());
        let digits = digits.format(leading).as_bytes();
        match self.kind {
            LineKind::Integer => append(b":"),
            LineKind::Bulk => {
                append(b"$");
                append(length.format(digits.len() + LOW_DIGITS).as_bytes());
                append(b"\r\n")
            }
        };
        self.low_at = append(digits);
        append(&[b'0'; LOW_DIGITS]);
        self.len = append(b"\r\n");
        self.base = leading * u64::from(RANGE);
        // Each line overwrites the unused end of the one before it.
        for nth in 0..IdBatch8::LEN {
            self.lines[nth * self.len..][..LINE_BYTES].copy_from_slice(&line);
        }
        self.low_digits(id, above)
    }

    /// Appends a number without leading digits. Such IDs are of the epoch's first minute, so this is for completeness
    /// only.
    #[cold]
    fn write_small(&self, id: u64, output: &mut Vec<u8>) {
        match self.kind {
            LineKind::Integer => super::write_id(id, output),
            LineKind::Bulk => super::write_bulk_id(id, output),
        }
    }
}

#[cfg(test)]
mod tests {
    use getid_core::{Epoch, Id, Layout, RandomCycle, Slot};
    use proptest::prelude::*;

    use super::*;

    fn expected(kind: LineKind, ids: &[u64]) -> String {
        let line = |id: &u64| match kind {
            LineKind::Integer => format!(":{id}\r\n"),
            LineKind::Bulk => format!("${}\r\n{id}\r\n", id.to_string().len()),
        };
        ids.iter().map(line).collect()
    }

    fn check(ids: &[u64]) {
        for kind in [LineKind::Integer, LineKind::Bulk] {
            let (mut writer, mut output) = (IdWriter::of(kind), Vec::new());
            for &id in ids {
                writer.write(id, &mut output);
            }
            assert_eq!(String::from_utf8_lossy(&output), expected(kind, ids));
        }
    }

    /// Compares runs of one writer, in each way, with their IDs one by one.
    fn check_runs(scheme: &Scheme, runs: &[Reservation]) {
        let ids: Vec<u64> = runs.iter().flat_map(|&run| scheme.ids(run)).map(Id::get).collect();
        for kind in [LineKind::Integer, LineKind::Bulk] {
            let (mut fastest, mut portable) = (IdWriter::of(kind), IdWriter::of(kind));
            // The output already has other bytes.
            let (mut by_fastest, mut by_portable) = (b"*1\r\n".to_vec(), Vec::new());
            for &run in runs {
                fastest.write_run(scheme, run, &mut by_fastest);
                portable.write_run_by(texts, scheme, run, &mut by_portable);
            }
            let expected = expected(kind, &ids);
            assert_eq!(String::from_utf8_lossy(&by_fastest), format!("*1\r\n{expected}"), "{runs:?}");
            assert_eq!(String::from_utf8_lossy(&by_portable), expected, "{runs:?}");
        }
    }

    fn scheme(server_bits: u32, shard_bits: u32) -> Scheme {
        let layout = Layout::new(Epoch::DEFAULT, server_bits, shard_bits, 21 - server_bits - shard_bits);
        let layout = layout.expect("21 bits");
        // Alternating values, so that no two adjacent ones are similar.
        let values =
            (0..1_u32 << layout.random_bits()).map(|value| value.reverse_bits() >> (32 - layout.random_bits()));
        let values = if layout.random_bits() == 0 { vec![0] } else { values.collect() };
        let server_id = (1 << server_bits) - 1;
        Scheme::new(layout, server_id, RandomCycle::new(values).expect("a permutation")).expect("they fit")
    }

    #[test]
    fn every_length_and_every_edge() {
        check(&[0, 9, 10, 99_999_999, 100_000_000, 100_000_001, 199_999_999, 200_000_000]);
        check(&[999_999_999_999_999_999, 1_000_000_000_000_000_000, u64::MAX - 1, u64::MAX, 0, u64::MAX]);
        check(&(0..20).map(|power| 10_u64.pow(power)).collect::<Vec<_>>());
        check(&(0..20).map(|power| 10_u64.pow(power) - 1).collect::<Vec<_>>());
    }

    #[test]
    fn runs_of_every_length_and_over_every_change_of_it() {
        for shard_bits in [0, 1, 9, 21] {
            let scheme = scheme(0, shard_bits);
            let random_bits = 21 - shard_bits;
            for len in 0..=40 {
                // From the epoch, with few digits, to the last ID.
                for power in 0..=19 {
                    let slot = (10_u64.pow(power) >> random_bits).saturating_sub(u64::from(len) / 2);
                    let first = Slot(slot.min((1 << (42 + shard_bits)) - u64::from(len)));
                    check_runs(&scheme, &[Reservation { first, count: 3, len }]);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_numbers(ids in prop::collection::vec(any::<u64>(), 0..50)) {
            check(&ids);
        }

        #[test]
        fn neighbours(first in any::<u64>(), steps in prop::collection::vec(0_u64..100_000_000, 0..50)) {
            let ids: Vec<u64> = steps.iter().map(|step| first.wrapping_add(*step)).collect();
            check(&ids);
        }

        #[test]
        fn any_runs(
            (server_bits, shard_bits) in (10_u32..=21).prop_flat_map(|server| (Just(server), 0..=21 - server)),
            runs in prop::collection::vec((0..1_u64 << 41, 0_u64..1 << 20, any::<u64>(), 0_u32..50), 0..5),
        ) {
            let run = |&(tick, shard, count, len): &(u64, u64, u64, u32)| {
                let shard = shard & ((1 << shard_bits) - 1);
                Reservation { first: Slot(tick << shard_bits | shard), count, len }
            };
            check_runs(&scheme(server_bits, shard_bits), &runs.iter().map(run).collect::<Vec<_>>());
        }
    }
}
