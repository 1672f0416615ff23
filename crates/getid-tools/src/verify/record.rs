//! A run's IDs in a file, so that runs before and after a crash are checked as one.
//!
//! All numbers are little-endian:
//!
//! ```text
//! header   8 bytes "getidse\n", version u32 = 2, bytes u32, the subject in as many bytes, CRC-32 of all that u32
//! blocks   ids u32 (1..=65,536), bytes u32, the ids, CRC-32 of all that u32
//! end      0 u32, 8 u32, ids in the file u64, CRC-32 of all that u32
//! ```
//!
//! The subject is a generator's declaration; for the unnamed generator it is `EPOCH ID-RANGE SHARD-RANGE RANDOM-RANGE`.
//! IDs ascend through the whole file. Each is the difference to the previous one (to 0 for the first) as LEB128: two to
//! four bytes for a busy server, up to 19 for random IDs. A file without its end is incomplete, and is refused like a
//! damaged one.

use std::io::{self, Read, Write};

use getid_core::server::CounterDeclaration;
use getid_core::{Declaration, Epoch, ID_BITS_MAX, Layout, Number};

use super::layout_text;
use crate::subject::Subject;

const MAGIC: &[u8; 8] = b"getidse\n";
const VERSION: u32 = 2;

/// Magic, version and length of the subject, bytes.
const HEAD_BYTES: usize = 16;

/// Longest subject, bytes: 640 words and blanks of at most 45 bytes are shorter.
const SUBJECT_BYTES_MAX: u32 = 32 * 1024;

/// Largest number of IDs of one block, which the reader holds at a time.
const BLOCK_IDS_MAX: u32 = 1 << 16;

/// Longest block, bytes: LEB128 of an ID has at most 23.
const BLOCK_BYTES_MAX: u32 = BLOCK_IDS_MAX * ID_BITS_MAX.div_ceil(7);

/// Writes a record. [`RecordWriter::finish`] completes it.
#[derive(Debug)]
pub struct RecordWriter<W> {
    out: W,
    last: Number,
    ids: u64,
    block: Vec<u8>,
    block_ids: u32,
}

impl<W: Write> RecordWriter<W> {
    /// Writes the header of a record for this subject's IDs to `out`.
    ///
    /// # Errors
    ///
    /// Fails if `out` cannot be written.
    pub fn new(mut out: W, subject: &Subject) -> io::Result<RecordWriter<W>> {
        let text = subject_text(subject);
        let bytes = u32::try_from(text.len()).map_err(io::Error::other)?;
        let header = [&MAGIC[..], &VERSION.to_le_bytes(), &bytes.to_le_bytes(), text.as_bytes()].concat();
        write_checked(&mut out, &header)?;
        Ok(RecordWriter { out, last: Number::ZERO, ids: 0, block: Vec::new(), block_ids: 0 })
    }

    /// Adds an ID, not smaller than the previous one.
    ///
    /// # Errors
    ///
    /// Fails if the ID completes a block and `out` cannot be written.
    ///
    /// # Panics
    ///
    /// Panics if the ID is smaller.
    pub fn add(&mut self, id: Number) -> io::Result<()> {
        assert!(id >= self.last, "a record ascends");
        let mut delta = id - self.last;
        while delta >= 0x80 {
            self.block.push(delta.as_u8() | 0x80);
            delta >>= 7;
        }
        self.block.push(delta.as_u8());
        self.last = id;
        self.ids += 1;
        self.block_ids += 1;
        if self.block_ids == BLOCK_IDS_MAX { self.end_block() } else { Ok(()) }
    }

    /// Writes the last block and the end. Returns `out`.
    ///
    /// # Errors
    ///
    /// Fails if `out` cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        if self.block_ids > 0 {
            self.end_block()?;
        }
        self.block = self.ids.to_le_bytes().to_vec();
        self.end_block()?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn end_block(&mut self) -> io::Result<()> {
        let bytes = u32::try_from(self.block.len()).map_err(io::Error::other)?;
        let mut whole = Vec::with_capacity(self.block.len() + 12);
        whole.extend_from_slice(&self.block_ids.to_le_bytes());
        whole.extend_from_slice(&bytes.to_le_bytes());
        whole.append(&mut self.block);
        self.block_ids = 0;
        write_checked(&mut self.out, &whole)
    }
}

fn write_checked(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    out.write_all(&crc32fast::hash(bytes).to_le_bytes())
}

/// Reads a record block by block, as ascending IDs. It ends after an error.
#[derive(Debug)]
pub struct RecordReader<R> {
    input: R,
    subject: Subject,
    last: Number,
    ids: u64,
    block: std::vec::IntoIter<Number>,
    is_at_end: bool,
}

impl<R: Read> RecordReader<R> {
    /// Reads the header of a record, and returns a reader of its IDs.
    ///
    /// # Errors
    ///
    /// Fails if `input` cannot be read, is not a record, has an unknown version, or has a damaged or incomplete header.
    pub fn new(mut input: R) -> Result<RecordReader<R>, RecordError> {
        let mut head = [0; HEAD_BYTES];
        read_exact(&mut input, &mut head)?;
        if &head[..8] != MAGIC {
            return Err(RecordError::NoRecord);
        }
        let (version, bytes) = (u32_at(&head, 8), u32_at(&head, 12));
        if version != VERSION {
            return Err(RecordError::Version { found: version });
        }
        let damaged = RecordError::Damaged { ids: 0 };
        if bytes > SUBJECT_BYTES_MAX {
            return Err(damaged);
        }
        let mut text = vec![0; bytes as usize];
        read_exact(&mut input, &mut text)?;
        check_crc(&mut input, &[&head, &text], 0)?;
        let subject = std::str::from_utf8(&text).ok().and_then(subject_of).ok_or(damaged)?;
        Ok(RecordReader { input, subject, last: Number::ZERO, ids: 0, block: Vec::new().into_iter(), is_at_end: false })
    }

    /// Returns the generator whose IDs the record holds, as the header declares it.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Reads the next block. Returns false at the end.
    fn read_block(&mut self) -> Result<bool, RecordError> {
        let damaged = RecordError::Damaged { ids: self.ids };
        let mut head = [0; 8];
        read_exact(&mut self.input, &mut head)?;
        let (ids, bytes) = (u32_at(&head, 0), u32_at(&head, 4));
        // Checked before memory is allocated.
        if ids > BLOCK_IDS_MAX || bytes > BLOCK_BYTES_MAX || (ids == 0 && bytes != 8) {
            return Err(damaged);
        }
        let mut body = vec![0; bytes as usize];
        read_exact(&mut self.input, &mut body)?;
        check_crc(&mut self.input, &[&head, &body], self.ids)?;
        if ids == 0 {
            return if u64_at(&body, 0) == self.ids { Ok(false) } else { Err(damaged) };
        }
        let mut numbers = Vec::with_capacity(ids as usize);
        let mut rest = body.as_slice();
        for _ in 0..ids {
            let id = take_leb128(&mut rest).map(|delta| self.last.saturating_add(delta));
            let Some(id) = id.filter(|id| id >> ID_BITS_MAX == 0) else { return Err(damaged) };
            self.last = id;
            numbers.push(id);
        }
        if !rest.is_empty() {
            return Err(damaged);
        }
        self.ids += u64::from(ids);
        self.block = numbers.into_iter();
        Ok(true)
    }
}

impl<R: Read> Iterator for RecordReader<R> {
    type Item = Result<Number, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(id) = self.block.next() {
                return Some(Ok(id));
            }
            if self.is_at_end {
                return None;
            }
            match self.read_block() {
                Ok(true) => {}
                Ok(false) => self.is_at_end = true,
                Err(error) => {
                    self.is_at_end = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// An error that ends the reading of a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The input cannot be read.
    #[error(transparent)]
    Io(io::Error),
    /// The input ends before the end of the record.
    #[error("the record is cut short: its run did not finish, or the file was not copied whole")]
    CutShort,
    /// The input does not begin with the magic bytes of a record.
    #[error("this is no record of getid verify")]
    NoRecord,
    /// The record has another version.
    #[error("the record has version {found}, this getid reads version {VERSION}: read it with the getid that wrote it")]
    Version {
        /// Version in the header.
        found: u32,
    },
    /// A checksum, length or count of the record is wrong.
    #[error("the record is damaged after {ids} ids")]
    Damaged {
        /// Number of IDs in the blocks before the damage; 0 for a damaged header.
        ids: u64,
    },
}

/// Returns the subject as the header has it. No declaration has a number as its kind, the second word.
fn subject_text(subject: &Subject) -> String {
    let Subject::Unnamed(layout) = subject else { return layout_text(subject) };
    let epoch = layout.epoch().unix_ms();
    format!("{epoch} {} {} {}", layout.server_bits(), layout.shard_bits(), layout.random_bits())
}

fn subject_of(text: &str) -> Option<Subject> {
    let words: Vec<&str> = text.split(' ').collect();
    if let &[epoch, server_bits, shard_bits, random_bits] = words.as_slice()
        && let Some(epoch) = epoch.parse().ok().and_then(Epoch::from_unix_ms)
        && let [Ok(server), Ok(shard), Ok(random)] = [server_bits, shard_bits, random_bits].map(str::parse)
    {
        return Layout::new(epoch, server, shard, random).ok().map(Subject::Unnamed);
    }
    if let Some(declaration) = Declaration::from_text(text) {
        return Some(Subject::Declared(Box::new(declaration)));
    }
    // The zone was checked when the record was written.
    let counter = CounterDeclaration::parse(&words, |_| Ok(())).and_then(Result::ok);
    counter.map(|counter| Subject::Counted(Box::new(counter)))
}

fn read_exact(input: &mut impl Read, bytes: &mut [u8]) -> Result<(), RecordError> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => RecordError::CutShort,
        _ => RecordError::Io(error),
    })
}

fn check_crc(input: &mut impl Read, parts: &[&[u8]], ids: u64) -> Result<(), RecordError> {
    let mut crc = [0; 4];
    read_exact(input, &mut crc)?;
    let mut hasher = crc32fast::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    if hasher.finalize().to_le_bytes() == crc { Ok(()) } else { Err(RecordError::Damaged { ids }) }
}

/// Removes a number from the front; `None` if it is cut, or longer than that of an ID.
fn take_leb128(bytes: &mut &[u8]) -> Option<Number> {
    let mut value = Number::ZERO;
    for shift in (0..ID_BITS_MAX).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= Number::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use getid_core::no_dates;

    fn unnamed() -> Subject {
        Subject::Unnamed(Layout::default())
    }

    fn declared() -> Subject {
        Subject::parse("generator trace uuid7", no_dates, |_| Ok(())).unwrap()
    }

    fn counted() -> Subject {
        let words = "generator order serial ORD{yyyyMMdd}-{n:6} zone UTC";
        Subject::parse(words, no_dates, |_| Ok(())).unwrap()
    }

    fn written(subject: &Subject, ids: &[Number]) -> Vec<u8> {
        let mut writer = RecordWriter::new(Vec::new(), subject).unwrap();
        for &id in ids {
            writer.add(id).unwrap();
        }
        writer.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Vec<Number>, RecordError> {
        RecordReader::new(bytes)?.collect()
    }

    #[test]
    fn what_was_written_is_read() {
        let many = (0..200_000_u64).map(|i| Number::from(144_182_182_078_841_378 + i * i)).collect();
        let wide = (0..200_000_u64).map(|i| (Number::from(i) << 142) + Number::from(i * i)).collect();
        let few = [0, 0, 1, 127, 128, 1 << 62, (1 << 63) - 1].map(Number::new).to_vec();
        let widest = vec![Number::MAX >> (Number::BITS - ID_BITS_MAX)];
        for ids in [vec![], vec![Number::ZERO], few, many, vec![Number::new(u128::MAX)], widest, wide] {
            let ids = ids.as_slice();
            let bytes = written(&unnamed(), ids);
            assert_eq!(read(&bytes).unwrap(), ids);
            assert!(
                matches!(RecordReader::new(&bytes[..]).unwrap().subject(), Subject::Unnamed(layout) if *layout == Layout::default())
            );
            let bytes = written(&declared(), ids);
            assert_eq!(read(&bytes).unwrap(), ids);
            let Subject::Declared(declaration) = RecordReader::new(&bytes[..]).unwrap().subject().clone() else {
                panic!()
            };
            assert_eq!(declaration.to_text(), "trace uuid7");
            let bytes = written(&counted(), ids);
            assert_eq!(read(&bytes).unwrap(), ids);
            let Subject::Counted(counter) = RecordReader::new(&bytes[..]).unwrap().subject().clone() else { panic!() };
            assert_eq!(counter.words().join(" "), "order serial ORD{yyyyMMdd}-{n:6} zone UTC");
        }
    }

    #[test]
    fn each_damaged_byte_and_each_cut_is_noticed() {
        for subject in [unnamed(), declared(), counted()] {
            let bytes = written(&subject, &[5, 1000, 1 << 40].map(Number::new));
            for at in 0..bytes.len() {
                assert!(read(&bytes[..at]).is_err(), "cut at {at}");
                for bit in 0..8 {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << bit;
                    assert!(read(&damaged).is_err(), "byte {at} bit {bit}");
                }
            }
        }
    }

    #[test]
    fn another_version_is_reported() {
        let mut bytes = written(&unnamed(), &[]);
        bytes[8] = 3;
        assert!(read(&bytes).unwrap_err().to_string().contains("version 3"));
        assert!(matches!(read(b"SQLite format 3 and much more"), Err(RecordError::NoRecord)));
    }
}
