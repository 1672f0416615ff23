//! A client that draws IDs until its server's life is over, and reconnects whenever its connection ends.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::str;
use std::thread::sleep;
use std::time::Duration;

use crate::judge::{Judge, Layout, Run, Witness};
use crate::random::Random;

/// Pause before the next check of the life's end or of the server's socket.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

const READ_TIMEOUT: Duration = Duration::from_millis(100);

const BUFFER_BYTES: usize = 1 << 18;

/// The requests that a client repeats.
#[derive(Clone, Copy)]
pub(crate) struct RequestPattern {
    /// Number of IDs per MGETID; `None` sends GETID.
    pub(crate) ids: Option<u32>,
    /// Number of requests in flight.
    pub(crate) depth: u32,
}

/// Draws until the life is over, and returns the runs of slots received.
pub(crate) fn draw(
    judge: &Judge,
    layout: Layout,
    socket: &Path,
    pattern: RequestPattern,
    mut random: Random,
) -> Vec<Run> {
    let mut witness = Witness::new(judge, layout);
    while !judge.is_over() {
        // A connection error means that the server ends or starts.
        let _ = run_connection(judge, &mut witness, socket, pattern, &mut random);
        witness.end_requests();
        sleep(RETRY_PAUSE);
    }
    witness.into_runs()
}

fn run_connection(
    judge: &Judge,
    witness: &mut Witness<'_>,
    socket: &Path,
    pattern: RequestPattern,
    random: &mut Random,
) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let request = pattern.ids.map_or_else(|| "GETID\r\n".to_owned(), |ids| format!("MGETID {ids}\r\n"));
    let requests = request.repeat(pattern.depth as usize).into_bytes();
    let mut replies = ReplyReader { stream: stream.try_clone()?, buffer: vec![0; BUFFER_BYTES], begin: 0, end: 0 };
    while !judge.is_over() {
        witness.begin_requests();
        stream.write_all(&requests)?;
        if random.one_in(500) {
            // Hangs up with replies unread: their IDs reach no client.
            return Ok(());
        }
        let mut served = false;
        for _ in 0..pattern.depth {
            served |= take_reply(judge, witness, &mut replies)?;
        }
        witness.end_requests();
        if !served {
            sleep(RETRY_PAUSE);
        }
    }
    Ok(())
}

/// Reads one reply, and returns true if it contains IDs.
fn take_reply(judge: &Judge, witness: &mut Witness<'_>, replies: &mut ReplyReader) -> io::Result<bool> {
    let line = replies.line(judge)?;
    match line.split_first() {
        Some((b':', id)) => {
            let id = number(id)?;
            witness.receive_id(id);
            Ok(true)
        }
        Some((b'*', count)) => {
            for _ in 0..number(count)? {
                // The ID's length, which its line implies too.
                replies.line(judge)?;
                let id = number(replies.line(judge)?)?;
                witness.receive_id(id);
            }
            Ok(true)
        }
        Some((b'-', error)) => {
            witness.refused(str::from_utf8(error).unwrap_or("no text"));
            Ok(false)
        }
        _ => {
            let line = String::from_utf8_lossy(line).into_owned();
            judge.report(|| format!("'{line}' is no reply to GETID or MGETID"));
            Err(ErrorKind::InvalidData.into())
        }
    }
}

fn number(digits: &[u8]) -> io::Result<u64> {
    let value = digits.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    });
    value.ok_or_else(|| ErrorKind::InvalidData.into())
}

struct ReplyReader {
    stream: UnixStream,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
}

impl ReplyReader {
    /// Reads the next line, without its end.
    fn line(&mut self, judge: &Judge) -> io::Result<&[u8]> {
        let mut scanned = self.begin;
        loop {
            if let Some(length) = self.buffer[scanned..self.end].iter().position(|&byte| byte == b'\n') {
                let (begin, end) = (self.begin, scanned + length);
                self.begin = end + 1;
                return Ok(self.buffer[begin..end].trim_ascii_end());
            }
            scanned = self.end;
            if self.end == self.buffer.len() {
                self.buffer.copy_within(self.begin.., 0);
                (scanned, self.end, self.begin) = (self.end - self.begin, self.end - self.begin, 0);
            }
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => self.end += bytes,
                // Waits for a server that is stopped.
                Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                    if judge.is_over() {
                        return Err(error);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
