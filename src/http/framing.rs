//! Where a request's body ends: behind so many bytes, or behind its last chunk.
//!
//! hyper finds that out too. It is found out here before, and strictly, so that the next head begins where everybody
//! says that it does.

use super::head::Fault;

/// Bytes of what may follow a chunk's size, behind a semicolon: nobody means anything by it.
const EXTENSION_BYTES_MAX: u8 = 64;

/// Digits of a chunk's size.
const SIZE_DIGITS_MAX: u8 = 8;

/// What is left of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunks(Chunks),
}

/// What is expected next of a body in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunks {
    /// A size, of which these digits were there.
    Size {
        /// How many.
        digits: u8,
        /// What they say so far.
        size: u32,
    },
    /// What follows a semicolon behind the size, so many bytes of it.
    Extension {
        /// The size.
        size: u32,
        /// Bytes that were there.
        bytes: u8,
    },
    /// The line feed behind the size.
    SizeEnd(u32),
    /// So many bytes of the chunk.
    Data(u32),
    /// The carriage return behind the chunk.
    DataEnd,
    /// The line feed behind the chunk.
    DataEndFeed,
    /// The carriage return behind the last chunk.
    End,
    /// The line feed behind the last chunk.
    EndFeed,
    /// Nothing: it has ended.
    Ended,
}

impl Framing {
    /// A body of so many bytes.
    pub fn length(bytes: u64) -> Framing {
        Framing::Length(bytes)
    }

    /// A body in chunks.
    pub fn chunked() -> Framing {
        Framing::Chunks(Chunks::Size { digits: 0, size: 0 })
    }

    /// Whether nothing of it is left.
    pub fn has_ended(&self) -> bool {
        matches!(self, Framing::Length(0) | Framing::Chunks(Chunks::Ended))
    }

    /// Takes what of `bytes` belongs to it; how many of them, from the first on.
    ///
    /// # Errors
    ///
    /// When they are no chunks.
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
    /// What is expected behind `byte`, which is none of a chunk's own.
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

    /// How many bytes belong to the body, and whether it has ended; the same however they arrive.
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
