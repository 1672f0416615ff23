//! Unguessable random bits from the system's generator, for IDs that contain noise.
//!
//! A system call takes as long as many IDs, so each thread requests many bits at a time. Bits that were returned are
//! erased.

use std::cell::RefCell;

use rand::TryRng as _;
use rand::rngs::SysRng;

/// Bytes of one request: 64 IDs' worth.
const BYTES: usize = 1024;

const PIECE: usize = size_of::<u128>();

struct NoisePool {
    bytes: [u8; BYTES],
    /// Number of unused bytes, at the front of `bytes`.
    left: usize,
}

thread_local! {
    static POOL: RefCell<NoisePool> = const { RefCell::new(NoisePool { bytes: [0; BYTES], left: 0 }) };
}

/// Returns 128 fresh bits.
pub fn bits() -> u128 {
    POOL.with_borrow_mut(|pool| {
        if pool.left == 0 {
            fill(&mut pool.bytes);
            pool.left = BYTES;
        }
        pool.left -= PIECE;
        let piece = &mut pool.bytes[pool.left..pool.left + PIECE];
        let bits = piece.try_into().map_or(0, u128::from_ne_bytes);
        piece.fill(0);
        bits
    })
}

#[cold]
fn fill(bytes: &mut [u8]) {
    if let Err(error) = SysRng.try_fill_bytes(bytes) {
        // It never fails once the system has started. Bits that are guessable or repeat must not be used.
        panic!("the system gives no random bytes: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_fresh() {
        let mut all: Vec<u128> = (0..1000).map(|_| bits()).collect();
        let ones: u32 = all.iter().map(|bits| bits.count_ones()).sum();
        // 64,000 on average. Chance exceeds these bounds less than once in 10^12 runs.
        assert!((62_700..65_300).contains(&ones), "{ones}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 1000);
        POOL.with_borrow(|pool| assert!(pool.bytes[pool.left..].iter().all(|&byte| byte == 0)));
    }
}
