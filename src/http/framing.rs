//! The end of a request's body: after a number of bytes, or after its last chunk.
//!
//! hyper finds the end too. It is found here first, and strictly, so that the next head begins where every reader
//! agrees.

use super::head::Fault;

/// The longest extension of a chunk's size, after a semicolon, bytes. No client uses it.
const EXTENSION_BYTES_MAX: u8 = 64;

/// The most digits of a chunk's size.
const SIZE_DIGITS_MAX: u8 = 8;

/// The rest of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Number of bytes left.
    Length(u64),
    /// The state of a chunked body.
    Chunks(Chunks),
}

/// What a chunked body expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunks {
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
        Framing::Chunks(Chunks::Size { digits: 0, size: 0 })
    }

    /// Whether the body has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self, Framing::Length(0) | Framing::Chunks(Chunks::Ended))
    }

    /// Consumes the leading part of `bytes` that belongs to the body; returns its length.
    ///
    /// # Errors
    ///
    /// [`Fault::Chunk`] if the bytes are not valid chunks.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        match self {
            Framing::Length(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= taken as u64;
                Ok(taken)
            }
            Framing::Chunks(chunks) => {
                let mut taken = 0;
                while taken < bytes.len() && *chunks != Chunks::Ended {
                    if let Chunks::Data(left) = chunks {
                        let now = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len() - taken);
                        *left -= u32::try_from(now).unwrap_or(*left);
                        taken += now;
                        if *left == 0 {
                            *chunks = Chunks::DataEnd;
                        }
                        continue;
                    }
                    *chunks = chunks.next(bytes[taken]).ok_or(Fault::Chunk)?;
                    taken += 1;
                }
                Ok(taken)
            }
        }
    }
}

impl Chunks {
    /// Returns what is expected after `byte`, which is not a byte of a chunk's data.
    fn next(self, byte: u8) -> Option<Chunks> {
        match (self, byte) {
            (Chunks::Size { digits, size }, _) if byte.is_ascii_hexdigit() && digits < SIZE_DIGITS_MAX => {
                let digit = char::from(byte).to_digit(16)?;
                Some(Chunks::Size { digits: digits + 1, size: size << 4 | digit })
            }
            (Chunks::Size { digits: 1.., size } | Chunks::Extension { size, .. }, b'\r') => Some(Chunks::SizeEnd(size)),
            (Chunks::Size { digits: 1.., size }, b';') => Some(Chunks::Extension { size, bytes: 0 }),
            (Chunks::Extension { size, bytes }, b' '..=b'~') if bytes < EXTENSION_BYTES_MAX => {
                Some(Chunks::Extension { size, bytes: bytes + 1 })
            }
            (Chunks::SizeEnd(0), b'\n') => Some(Chunks::End),
            (Chunks::SizeEnd(size), b'\n') => Some(Chunks::Data(size)),
            (Chunks::DataEnd, b'\r') => Some(Chunks::DataEndFeed),
            (Chunks::DataEndFeed, b'\n') => Some(Chunks::Size { digits: 0, size: 0 }),
            (Chunks::End, b'\r') => Some(Chunks::EndFeed),
            (Chunks::EndFeed, b'\n') => Some(Chunks::Ended),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many bytes belong to the body, and whether it has ended. Checks that the result is equal if bytes
    /// arrive singly.
    fn taken(framing: Framing, bytes: &str) -> Result<(usize, bool), Fault> {
        let mut whole = framing;
        let result = whole.take(bytes.as_bytes()).map(|taken| (taken, whole.has_ended()));
        let mut dripped = framing;
        let mut count = 0;
        for byte in bytes.as_bytes() {
            match dripped.take(std::slice::from_ref(byte)) {
                Ok(taken) => count += taken,
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
        assert_eq!(taken(Framing::length(0), "GET"), Ok((0, true)));
        assert_eq!(taken(Framing::length(3), "ab"), Ok((2, false)));
        assert_eq!(taken(Framing::length(3), "abcGET"), Ok((3, true)));
    }

    #[test]
    fn chunks_end_behind_the_empty_one() {
        let body = "5\r\nhello\r\n00A;x=y\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(taken(Framing::chunked(), &format!("{body}GET /")), Ok((body.len(), true)));
        assert_eq!(taken(Framing::chunked(), "0\r\n\r\n"), Ok((5, true)));
        assert_eq!(taken(Framing::chunked(), "ffffffff\r\nx"), Ok((11, false)));
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
            assert_eq!(taken(Framing::chunked(), body), Err(Fault::Chunk), "{body:?}");
        }
        let long = format!("1;{}\r\n", "x".repeat(100));
        assert_eq!(taken(Framing::chunked(), &long), Err(Fault::Chunk));
    }
}
