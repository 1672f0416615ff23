//! The hash slot of a key in a Redis Cluster: CRC-16/XMODEM of the key, or of its hash tag, modulo 16,384.

/// Number of hash slots.
pub const SLOTS: u16 = 16_384;

/// Polynomial of CRC-16/XMODEM.
const POLYNOMIAL: u16 = 0x1021;

/// CRC of each byte.
static TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte: u16 = 0;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ POLYNOMIAL };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
}

/// Returns the hash slot of a key.
pub fn key_slot(key: &[u8]) -> u16 {
    crc(hash_tag(key)) % SLOTS
}

fn crc(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| crc << 8 ^ TABLE[usize::from(crc.to_be_bytes()[0] ^ byte)])
}

/// Returns the part of a key that is hashed: what is between the first `{` and the next `}`, unless that is empty.
fn hash_tag(key: &[u8]) -> &[u8] {
    let tag = || {
        let start = key.iter().position(|&byte| byte == b'{')? + 1;
        let len = key[start..].iter().position(|&byte| byte == b'}')?;
        (len > 0).then(|| &key[start..start + len])
    };
    tag().unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slots are those that a `redis-server` 7.0 returns.
    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc(b"123456789"), 0x31c3);
        for (key, slot) in [
            ("", 0),
            ("foo", 12182),
            ("orders", 105),
            ("{user1000}.following", 3443),
            ("user1000", 3443),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("foo{bar}{zap}", 5061),
            ("{", 4092),
        ] {
            assert_eq!(key_slot(key.as_bytes()), slot, "{key}");
        }
    }
}
