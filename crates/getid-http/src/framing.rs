//! The end of a request's body: after a number of bytes, or after its last chunk.
//!
//! hyper finds the end too. It is found here first, and strictly, so that the next head begins where every reader
//! agrees.

/// The longest extension of a chunk's size, after a semicolon, bytes. No client uses it.
const EXTENSION_BYTES_MAX: u8 = 64;

/// The most digits of a chunk's size.
const SIZE_DIGITS_MAX: u8 = 8;

/// The bytes of a body are not valid chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidChunks;

/// The rest of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Number of bytes left.
    Length(u64),
    /// The state of a chunked body.
    Chunks(ChunkState),
}

/// What a chunked body expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkState {
    /// A size, of which some digits were read.
    Size {
        /// Number of digits that were read.
        digits: u8,
        /// Value of the digits that were read.
        size: u32,
    },
    /// The extension after a semicolon behind the size.
    Extension {
        /// Size of the chunk, bytes.
        size: u32,
        /// Bytes of the extension that were read.
        bytes: u8,
    },
    /// The line feed after the size.
    SizeEnd(u32),
    /// The chunk's bytes, of which so many are left.
    Data(u32),
    /// The carriage return after the chunk.
    DataEnd,
    /// The line feed after the chunk.
    DataEndFeed,
    /// The carriage return after the last chunk.
    End,
    /// The line feed after the last chunk.
    EndFeed,
    /// Nothing: the body has ended.
    Ended,
}

impl Framing {
    /// Returns a body of so many bytes.
    pub fn length(bytes: u64) -> Framing {
        Framing::Length(bytes)
    }

    /// Returns a body in chunks.
    pub fn chunked() -> Framing {
        Framing::Chunks(ChunkState::Size { digits: 0, size: 0 })
    }

    /// Whether the body has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self, Framing::Length(0) | Framing::Chunks(ChunkState::Ended))
    }

    /// Consumes the leading part of `bytes` that belongs to the body; returns its length.
    ///
    /// # Errors
    ///
    /// [`InvalidChunks`] if the bytes are not valid chunks.
    pub fn consume(&mut self, bytes: &[u8]) -> Result<usize, InvalidChunks> {
        match self {
            Framing::Length(left) => {
                let consumed = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= consumed as u64;
                Ok(consumed)
            }
            Framing::Chunks(chunks) => {
                let mut consumed = 0;
                while consumed < bytes.len() && *chunks != ChunkState::Ended {
                    if let ChunkState::Data(left) = chunks {
                        let now = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len() - consumed);
                        *left -= u32::try_from(now).unwrap_or(*left);
                        consumed += now;
                        if *left == 0 {
                            *chunks = ChunkState::DataEnd;
                        }
                        continue;
                    }
                    *chunks = chunks.next(bytes[consumed]).ok_or(InvalidChunks)?;
                    consumed += 1;
                }
                Ok(consumed)
            }
        }
    }
}

impl ChunkState {
    /// Returns what is expected after `byte`, which is not a byte of a chunk's data.
    fn next(self, byte: u8) -> Option<ChunkState> {
        match (self, byte) {
            (ChunkState::Size { digits, size }, _) if byte.is_ascii_hexdigit() && digits < SIZE_DIGITS_MAX => {
                let digit = char::from(byte).to_digit(16)?;
                Some(ChunkState::Size { digits: digits + 1, size: size << 4 | digit })
            }
            (ChunkState::Size { digits: 1.., size } | ChunkState::Extension { size, .. }, b'\r') => {
                Some(ChunkState::SizeEnd(size))
            }
            (ChunkState::Size { digits: 1.., size }, b';') => Some(ChunkState::Extension { size, bytes: 0 }),
            (ChunkState::Extension { size, bytes }, b' '..=b'~') if bytes < EXTENSION_BYTES_MAX => {
                Some(ChunkState::Extension { size, bytes: bytes + 1 })
            }
            (ChunkState::SizeEnd(0), b'\n') => Some(ChunkState::End),
            (ChunkState::SizeEnd(size), b'\n') => Some(ChunkState::Data(size)),
            (ChunkState::DataEnd, b'\r') => Some(ChunkState::DataEndFeed),
            (ChunkState::DataEndFeed, b'\n') => Some(ChunkState::Size { digits: 0, size: 0 }),
            (ChunkState::End, b'\r') => Some(ChunkState::EndFeed),
            (ChunkState::EndFeed, b'\n') => Some(ChunkState::Ended),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many bytes belong to the body, and whether it has ended. Checks that the result is equal if bytes
    /// arrive singly.
    fn consumed(framing: Framing, bytes: &str) -> Result<(usize, bool), InvalidChunks> {
        let mut whole = framing;
        let result = whole.consume(bytes.as_bytes()).map(|consumed| (consumed, whole.has_ended()));
        let mut dripped = framing;
        let mut count = 0;
        for byte in bytes.as_bytes() {
            match dripped.consume(std::slice::from_ref(byte)) {
                Ok(consumed) => count += consumed,
                Err(fault) => {
                    assert_eq!(result, Err(fault), "{bytes:?}");
                    return result;
                }
            }
        }
        assert_eq!(result, Ok((count, dripped.has_ended())), "{bytes:?}");
        result
    }

    #[test]
    fn a_length_is_counted_down() {
        assert_eq!(consumed(Framing::length(0), "GET"), Ok((0, true)));
        assert_eq!(consumed(Framing::length(3), "ab"), Ok((2, false)));
        assert_eq!(consumed(Framing::length(3), "abcGET"), Ok((3, true)));
    }

    #[test]
    fn chunks_end_after_the_empty_one() {
        let body = "5\r\nhello\r\n00A;x=y\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(consumed(Framing::chunked(), &format!("{body}GET /")), Ok((body.len(), true)));
        assert_eq!(consumed(Framing::chunked(), "0\r\n\r\n"), Ok((5, true)));
        assert_eq!(consumed(Framing::chunked(), "ffffffff\r\nx"), Ok((11, false)));
    }

    #[test]
    fn odd_chunks_are_refused() {
        for body in [
            "\r\n",
            ";x\r\n",
            "0x5\r\n",
            "+5\r\n",
            " 5\r\n",
            "5 \r\n",
            "5\n",
            "g\r\n",
            "100000000\r\n",
            "1\r\nab\r\n",
            "1\r\na\n",
            "0\r\nX: y\r\n\r\n",
            "0\r\n\n",
            "1;\u{7f}\r\n",
            "1;a\nb\r\n",
        ] {
            assert_eq!(consumed(Framing::chunked(), body), Err(InvalidChunks), "{body:?}");
        }
        let long = format!("1;{}\r\n", "x".repeat(100));
        assert_eq!(consumed(Framing::chunked(), &long), Err(InvalidChunks));
    }
}
