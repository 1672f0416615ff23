//! Text of eight numbers of eight digits each, computed together.
//!
//! A number is split in two, then four, then eight parts. A division by 100 or 10 is a multiplication and a shift,
//! exact for numbers of four and of two digits. The steps are equal for each of the eight numbers, so they are done in
//! vectors.
//!
//! [`texts`] uses plain arrays, which the compiler turns into vectors: with the SSE2 of every x86-64 it takes 11
//! instructions a number. `avx2` does it with intrinsics, in 4: a hundred IDs take 139 ns instead of 228, while `itoa`
//! alone takes 953.

use getid_core::server::IdBatch8;

/// Number of numbers: eight.
const LEN: usize = IdBatch8::LEN;

/// Exclusive bound of the numbers, 10^8.
pub(super) const RANGE: u32 = 100_000_000;

/// Returns the eight digits of each number; the first digit is in the lowest byte.
#[inline]
pub(super) fn texts(numbers: &[u32; LEN]) -> [u64; LEN] {
    let (mut upper, mut lower) = ([0; LEN], [0; LEN]);
    for at in 0..LEN {
        upper[at] = low_half(numbers[at] / 10_000);
        lower[at] = low_half(numbers[at]).wrapping_sub(upper[at].wrapping_mul(10_000));
    }
    // The compiler vectorises the pairs because they are written to memory in order. (`pair` must work on 32 bits: with
    // `pair * 103 >> 10` in 16 bits all of this took four times as long.)
    let mut pairs = [0; 4 * LEN];
    for at in 0..LEN {
        let (first, third) = (hundreds(upper[at]), hundreds(lower[at]));
        pairs[4 * at] = pair(first);
        pairs[4 * at + 1] = pair(upper[at].wrapping_sub(first.wrapping_mul(100)));
        pairs[4 * at + 2] = pair(third);
        pairs[4 * at + 3] = pair(lower[at].wrapping_sub(third.wrapping_mul(100)));
    }
    std::array::from_fn(|at| {
        let four = &pairs[4 * at..4 * at + 4];
        u64::from(four[0]) | u64::from(four[1]) << 16 | u64::from(four[2]) << 32 | u64::from(four[3]) << 48
    })
}

/// Returns the eight digits of one number. A single number uses the parts of one word as its vector.
#[inline]
pub(super) fn text(number: u32) -> u64 {
    debug_assert!(number < RANGE);
    let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    let digits = tens | (pairs - tens * 10) << 8;
    digits + 0x3030_3030_3030_3030
}

/// Returns the number of hundreds in a number below 10,000.
#[inline]
fn hundreds(four: u16) -> u16 {
    low_half((u32::from(four) * 5243) >> 19)
}

/// Returns the two digits of a number below 100.
#[inline]
fn pair(number: u16) -> u16 {
    let tens = low_half((u32::from(number) * 6554) >> 16);
    // Tens in the low byte, ones in the high byte: tens + (number - 10 * tens) * 256.
    (number << 8).wrapping_sub(tens.wrapping_mul(2559)).wrapping_add(0x3030)
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is asked for")]
#[inline]
fn low_half(number: u32) -> u16 {
    number as u16
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, _mm_cvtsi128_si64, _mm_extract_epi64, _mm256_add_epi16, _mm256_castsi256_si128,
        _mm256_extracti128_si256, _mm256_mul_epu32, _mm256_mulhi_epu16, _mm256_mullo_epi16, _mm256_or_si256,
        _mm256_set_epi32, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_slli_epi16, _mm256_slli_epi32,
        _mm256_slli_epi64, _mm256_srli_epi16, _mm256_srli_epi64, _mm256_sub_epi16, _mm256_unpackhi_epi16,
        _mm256_unpacklo_epi16,
    };

    use super::LEN;

    /// Returns the eight digits of each number, as [`super::texts`] does, on processors with AVX2.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(in super::super) fn avx2(numbers: &[u32; LEN]) -> [u64; LEN] {
        let at = |place: usize| numbers[place].cast_signed();
        let numbers = _mm256_set_epi32(at(7), at(6), at(5), at(4), at(3), at(2), at(1), at(0));
        // 2^45 / 10,000, rounded up: exact for 32 bits. Products exist for even places only, so it takes two.
        let factor = _mm256_set1_epi32(0xd1b7_1759_u32.cast_signed());
        let even = _mm256_srli_epi64(_mm256_mul_epu32(numbers, factor), 45);
        let odd = _mm256_srli_epi64(_mm256_mul_epu32(_mm256_srli_epi64(numbers, 32), factor), 45);
        let upper = _mm256_or_si256(even, _mm256_slli_epi64(odd, 32));
        // The rest is below 10,000, so its lower 16 bits are enough.
        let lower = _mm256_sub_epi16(numbers, _mm256_mullo_epi16(upper, _mm256_set1_epi32(10_000)));
        let fours = _mm256_or_si256(upper, _mm256_slli_epi32(lower, 16));
        let hundreds = _mm256_srli_epi16(_mm256_mulhi_epu16(fours, _mm256_set1_epi16(5243)), 3);
        let rest = _mm256_sub_epi16(fours, _mm256_mullo_epi16(hundreds, _mm256_set1_epi16(100)));
        // The unpack instructions work within halves: numbers 0 and 1 beside 4 and 5, and the others.
        let outer = words(pairs(_mm256_unpacklo_epi16(hundreds, rest)));
        let inner = words(pairs(_mm256_unpackhi_epi16(hundreds, rest)));
        [outer[0], outer[1], inner[0], inner[1], outer[2], outer[3], inner[2], inner[3]]
    }

    /// Returns the digits of sixteen numbers, each as [`super::pair`] does.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn pairs(numbers: __m256i) -> __m256i {
        let tens = _mm256_mulhi_epu16(numbers, _mm256_set1_epi16(6554));
        let digits = _mm256_sub_epi16(_mm256_slli_epi16(numbers, 8), _mm256_mullo_epi16(tens, _mm256_set1_epi16(2559)));
        _mm256_add_epi16(digits, _mm256_set1_epi16(0x3030))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn words(all: __m256i) -> [u64; 4] {
        let (low, high) = (_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
        let words =
            [_mm_cvtsi128_si64(low), _mm_extract_epi64(low, 1), _mm_cvtsi128_si64(high), _mm_extract_epi64(high, 1)];
        words.map(i64::cast_unsigned)
    }
}
#[cfg(target_arch = "x86_64")]
pub(super) use x86::avx2;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(numbers: [u32; LEN]) {
        let expected = numbers.map(|number| format!("{number:08}"));
        let shown = |words: [u64; LEN]| words.map(|word| String::from_utf8_lossy(&word.to_le_bytes()).into_owned());
        assert_eq!(shown(numbers.map(text)), expected);
        assert_eq!(shown(texts(&numbers)), expected);
    }

    #[test]
    fn eight_digits_of_all_kinds() {
        // Every group of four digits beside the smallest and the largest: every value of each part.
        for four in 0..10_000 {
            let (other, upper) = (9999 - four, four * 10_000);
            let lower = [four, 99_990_000 + four, 10_000 * other + four, upper + other];
            check([lower[0], upper, lower[1], upper + 9999, lower[2], upper + four, lower[3], RANGE - 1 - four]);
        }
    }

    /// A million numbers, each at every place in turn.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn both_ways_write_the_same_bytes() {
        #[target_feature(enable = "avx2")]
        fn check_all() {
            let mut numbers = [0, 12_345_678, 25_000_001, 37_037_037, 50_000_003, 62_626_262, 75_757_575, 87_654_321];
            for _ in 0..1_000_000 / LEN {
                let (plain, by_avx2) = (texts(&numbers), avx2(&numbers));
                assert_eq!(plain, by_avx2, "{numbers:?}");
                // A step coprime to 10^8 reaches each number once.
                numbers = numbers.map(|number| (number + 61_803_399) % RANGE);
            }
        }
        if std::is_x86_feature_detected!("avx2") {
            #[expect(unsafe_code, reason = "it is what is to be tested")]
            // SAFETY: the function needs a processor with AVX2 and nothing else, which was checked.
            unsafe {
                check_all();
            }
        }
    }
}
