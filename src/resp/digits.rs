//! IDs as decimal text, fast.
//!
//! Formatting a number is most of what an ID costs once it is drawn. But IDs of one draw are neighbours: they share all
//! but their last digits, because tick, server-id and the upper shard bits are the same or nearly so. So an
//! [`IdWriter`] keeps a whole line with the leading digits in place, appends it, and writes the last eight digits over
//! it. Only when the leading digits change (every 10^8: each 47 ms of IDs) are they formatted again.
//!
//! A line is appended as a block of fixed size and then cut to its length: the copy becomes two or three moves.

/// Digits that are written for each ID; the others are kept.
const LOW_DIGITS: usize = 8;

/// 10^8.
const LOW_RANGE: u32 = 100_000_000;

/// Room for a line: `$19`, CRLF, up to 20 digits (a u64), CRLF.
const LINE_BYTES: usize = 32;

/// Room that each ID takes while it is written, bytes: reserve it once for many.
pub const ID_BYTES_MAX: usize = LINE_BYTES;

/// Writes IDs as lines of one kind, `:<id>` or `$<len>` and the digits. Best used for IDs that lie close together.
#[derive(Debug)]
pub struct IdWriter {
    kind: Kind,
    /// The number with zeros for its last eight digits; `u64::MAX`: none yet.
    base: u64,
    line: [u8; LINE_BYTES],
    /// Where the last eight digits are in `line`.
    low_at: usize,
    /// Length of the line.
    len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Integer,
    Bulk,
}

impl IdWriter {
    /// Writes integers, as `GETID` is answered.
    pub fn integers() -> IdWriter {
        IdWriter::of(Kind::Integer)
    }

    /// Writes bulk strings, as `MGETID` is answered.
    pub fn bulks() -> IdWriter {
        IdWriter::of(Kind::Bulk)
    }

    fn of(kind: Kind) -> IdWriter {
        IdWriter { kind, base: u64::MAX, line: [0; LINE_BYTES], low_at: 0, len: 0 }
    }

    /// Appends one.
    #[inline]
    pub fn write(&mut self, id: u64, output: &mut Vec<u8>) {
        // None below the base, and as long as there is none.
        let mut low = id.checked_sub(self.base).unwrap_or(u64::MAX);
        if low >= u64::from(LOW_RANGE) || self.base == u64::MAX {
            if id < u64::from(LOW_RANGE) {
                return self.write_small(id, output);
            }
            low = id % u64::from(LOW_RANGE);
            self.set_base(id - low);
        }
        // Below 10^8, so nothing is cut; 32 bits divide faster.
        #[expect(clippy::cast_possible_truncation, reason = "low < 10^8")]
        let low = low as u32;
        let start = output.len();
        output.extend_from_slice(&self.line);
        // Into the copy, not into the line: reading back what was just written in smaller pieces stalls the processor.
        let low_at = start + self.low_at;
        output[low_at..low_at + LOW_DIGITS].copy_from_slice(&eight_digits(low));
        output.truncate(start + self.len);
    }

    /// Puts everything in place but the last eight digits of `base` and its neighbours.
    #[cold]
    fn set_base(&mut self, base: u64) {
        let (mut digits, mut length) = (itoa::Buffer::new(), itoa::Buffer::new());
        let digits = digits.format(base).as_bytes();
        let parts: [&[u8]; 4] = match self.kind {
            Kind::Integer => [b":", digits, b"\r\n", b""],
            Kind::Bulk => [b"$", length.format(digits.len()).as_bytes(), b"\r\n", digits],
        };
        self.len = 0;
        for part in parts {
            self.append(part);
        }
        if self.kind == Kind::Bulk {
            self.append(b"\r\n");
        }
        self.low_at = self.len - 2 - LOW_DIGITS;
        self.base = base;
    }

    fn append(&mut self, part: &[u8]) {
        self.line[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
    }

    /// Numbers without leading digits: of the epoch's first minute, so for completeness only.
    #[cold]
    fn write_small(&self, id: u64, output: &mut Vec<u8>) {
        match self.kind {
            Kind::Integer => super::write_id(id, output),
            Kind::Bulk => super::write_bulk_id(id, output),
        }
    }
}

/// A number below 10^8 as eight digits, all at once: split in two, then four, then eight parts that lie side by side in
/// one word. A division by 100 or 10 is a multiplication and a shift, exact for numbers of four and of two digits.
#[inline]
fn eight_digits(number: u32) -> [u8; LOW_DIGITS] {
    debug_assert!(number < LOW_RANGE);
    // Little-endian: what comes first in the text lies lowest.
    let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    let digits = tens | (pairs - tens * 10) << 8;
    (digits + 0x3030_3030_3030_3030).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(ids: &[u64]) {
        let (mut integers, mut bulks) = (IdWriter::integers(), IdWriter::bulks());
        let (mut as_integers, mut as_bulks) = (Vec::new(), Vec::new());
        for &id in ids {
            integers.write(id, &mut as_integers);
            bulks.write(id, &mut as_bulks);
        }
        let lines = |line: fn(&u64) -> String| ids.iter().map(line).collect::<Vec<_>>().concat();
        let expected_integers = lines(|id| format!(":{id}\r\n"));
        let expected_bulks = lines(|id| format!("${}\r\n{id}\r\n", id.to_string().len()));
        assert_eq!(String::from_utf8_lossy(&as_integers), expected_integers);
        assert_eq!(String::from_utf8_lossy(&as_bulks), expected_bulks);
    }

    #[test]
    fn every_length_and_every_edge() {
        check(&[0, 9, 10, 99_999_999, 100_000_000, 100_000_001, 199_999_999, 200_000_000]);
        check(&[999_999_999_999_999_999, 1_000_000_000_000_000_000, u64::MAX - 1, u64::MAX, 0, u64::MAX]);
        check(&(0..20).map(|power| 10_u64.pow(power)).collect::<Vec<_>>());
        check(&(0..20).map(|power| 10_u64.pow(power) - 1).collect::<Vec<_>>());
    }

    #[test]
    fn eight_digits_of_all_kinds() {
        // Every pair of four digits beside the smallest and the largest, which is every value of each part.
        for four in 0..10_000 {
            for number in [four, four * 10_000, four * 10_000 + 9999, 99_990_000 + four] {
                assert_eq!(str::from_utf8(&eight_digits(number)), Ok(&*format!("{number:08}")));
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
    }
}
