//! A client that reads and writes the protocol.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use socket2::SockRef;

use super::{PATIENCE, eventually};

/// A connection for requests that no client library would send: TCP, or by `S` a Unix socket or TLS.
pub struct Wire<S = TcpStream>(BufReader<S>);

/// A stream over a socket.
pub trait Socket {
    fn socket(&self) -> SockRef<'_>;
}

impl Socket for TcpStream {
    fn socket(&self) -> SockRef<'_> {
        SockRef::from(self)
    }
}

impl Socket for UnixStream {
    fn socket(&self) -> SockRef<'_> {
        SockRef::from(self)
    }
}

impl Wire {
    pub fn connect(port: u16) -> Wire {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("nodelay");
        Wire::new(stream)
    }

    /// Reads lines until the server closes or the connection breaks. After a `QUIT` it does not wait in vain.
    pub fn try_lines(&mut self) -> Vec<String> {
        self.0.by_ref().lines().map_while(Result::ok).collect()
    }
}

impl Wire<UnixStream> {
    pub fn connect_unix(path: &Path) -> Wire<UnixStream> {
        let stream = UnixStream::connect(path).expect("the server accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Wire::new(stream)
    }
}

impl<S: Read + Write> Wire<S> {
    pub fn new(stream: S) -> Wire<S> {
        Wire(BufReader::new(stream))
    }

    pub fn stream(&self) -> &S {
        self.0.get_ref()
    }

    pub fn into_stream(self) -> S {
        self.0.into_inner()
    }

    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.0.get_mut().write_all(bytes.as_ref())?;
        self.0.get_mut().flush()
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("sent");
    }

    /// Sends requests for IDs until the socket takes no more or the server closes, and reads no reply. The replies to
    /// the requests in the socket buffers are a hundred times as large as the buffers. So the server waits for the
    /// client to read, which `Server::wait_stuck` detects.
    pub fn send_and_never_read(&mut self)
    where
        S: Socket,
    {
        self.stream().socket().set_nonblocking(true).expect("an option");
        let request = b"*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n".repeat(1000);
        let stopped = (0..1000).any(|_| self.try_send(&request).is_err());
        assert!(stopped, "the server read on although its replies are unread");
        self.stream().socket().set_nonblocking(false).expect("an option");
    }

    pub fn try_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        Ok(line.trim_end_matches("\r\n").to_owned())
    }

    /// Reads the next line, without its CRLF.
    pub fn line(&mut self) -> String {
        self.try_line().expect("a line in time")
    }

    /// Reads one whole reply as bytes, in RESP2.
    pub fn reply(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.0.read_until(b'\n', &mut bytes).expect("a reply in time");
        let count = || str::from_utf8(&bytes[1..]).ok()?.trim().parse::<usize>().ok();
        match bytes.first() {
            Some(b'$') => {
                let mut bulk = vec![0; count().map_or(0, |len| len + 2)];
                self.0.read_exact(&mut bulk).expect("the bulk in time");
                bytes.extend(bulk);
            }
            Some(b'*') => (0..count().unwrap_or(0)).for_each(|_| bytes.extend(self.reply())),
            _ => {}
        }
        bytes
    }

    /// Sends an inline command and returns the first line of its reply.
    pub fn ask(&mut self, inline: &str) -> String {
        self.send(format!("{inline}\r\n"));
        self.line()
    }

    /// Sends `GETID` and returns the ID.
    pub fn id(&mut self) -> u64 {
        let reply = self.ask("GETID");
        reply.strip_prefix(':').and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("GETID: {reply}"))
    }

    /// Sends `MGETID count` and returns the IDs.
    pub fn ids(&mut self, count: usize) -> Vec<u64> {
        self.send(format!("MGETID {count}\r\n"));
        self.read_ids(count)
    }

    /// Reads the reply to a `MGETID count` that was sent.
    pub fn read_ids(&mut self, count: usize) -> Vec<u64> {
        assert_eq!(self.line(), format!("*{count}"));
        (0..count)
            .map(|_| {
                self.line();
                self.line().parse().expect("digits")
            })
            .collect()
    }

    /// Reads the lines of a text whose length was read already, up to the empty line behind it.
    pub fn lines_until_empty(&mut self) -> String {
        let mut text = String::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("a line in time");
            if line.trim_end().is_empty() {
                return text;
            }
            text.push_str(&line);
        }
    }

    /// Sends an inline command and returns its bulk string, or an error as a line.
    pub fn ask_bulk(&mut self, inline: &str) -> String {
        let head = self.ask(inline);
        let Some(len) = head.strip_prefix('$').and_then(|n| n.parse::<usize>().ok()) else { return head };
        let mut bytes = vec![0; len + 2];
        self.0.read_exact(&mut bytes).expect("the bulk in time");
        bytes.truncate(len);
        String::from_utf8(bytes).expect("text")
    }

    /// Returns a field of INFO.
    pub fn info(&mut self, field: &str) -> String {
        let text = self.ask_bulk("INFO");
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("INFO has no {field}:\n{text}")).to_owned()
    }

    /// Returns a numeric field of INFO.
    pub fn info_number(&mut self, field: &str) -> u64 {
        self.info(field).parse().unwrap_or_else(|_| panic!("{field} is a number"))
    }

    /// Waits until a field of INFO has this value.
    #[track_caller]
    pub fn wait_info(&mut self, field: &str, value: &str) {
        eventually(&format!("{field} is {value}"), || self.info(field) == value);
    }

    /// Reads everything until the server closes.
    pub fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).expect("the end in time");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Sends everything in pieces and reads the `expected` bytes. If the server is not to close then, reads for `silence`
/// more. Returns the bytes read, and whether the server closed.
pub fn talk(port: u16, sent: &[u8], piece: usize, expected: (usize, bool), silence: Duration) -> (Vec<u8>, bool) {
    let wire = Wire::connect(port);
    let mut got = Vec::new();
    let mut has_closed = false;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for bytes in sent.chunks(piece.min(sent.len()).max(1)) {
                // The server may have closed it already.
                if wire.stream().write_all(bytes).is_err() {
                    return;
                }
                if piece <= 7 {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
        let mut buffer = vec![0; 1 << 16];
        has_closed = loop {
            let is_complete = got.len() >= expected.0 && !expected.1;
            // A failure waits that long once per conversation.
            let patience = if is_complete { silence } else { PATIENCE };
            wire.stream().set_read_timeout(Some(patience)).expect("a timeout");
            match super::read(wire.stream(), &mut buffer) {
                Ok(0) => break true,
                Ok(len) => got.extend_from_slice(&buffer[..len]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break false,
                // The server closed with bytes of ours unread.
                Err(_) => break true,
            }
        };
        // Stops a sender that still waits for the server to read.
        let _ = wire.stream().shutdown(Shutdown::Both);
    });
    (got, has_closed)
}
