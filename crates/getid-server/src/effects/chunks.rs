//! Answers that may be large, made piece by piece.
//!
//! `CLIENT LIST` of ten thousand clients is 4 MB, and `ACL LIST` may be 16. Made at once, each would be held for every
//! client that does not read it, and other clients would wait meanwhile. So an answer is a list of its entries (shared,
//! a few bytes each). The connection takes the next bytes once the previous ones are sent.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use crate::registry::{Client, ListEntry};
use getid_redis::resp::{self, Protocol, Value};

/// An answer that is written piece by piece.
pub trait ReplyChunks: Send {
    /// Appends the next piece, which may be empty. Returns false if that was the last. Takes some 100 us at most.
    fn write_next(&mut self, protocol: Protocol, output: &mut Vec<u8>) -> bool;

    /// Returns the memory that it holds until it is written, bytes, which counts for the client.
    fn memory_bytes(&self) -> usize;
}

/// Approximate size of a piece, bytes.
const CHUNK_BYTES: usize = 16 * 1024;

/// Number of clients read for one piece.
const CLIENTS_PER_CHUNK: usize = 100;

/// An array of values that are made one after the other.
pub(super) struct Items<I> {
    /// Number of values; `None` once the header is written.
    len: Option<usize>,
    values: I,
    memory_bytes: usize,
}

impl<I: ExactSizeIterator<Item = Value> + Send> Items<I> {
    /// Makes an answer of `items`. `memory_bytes` is the memory of all items, even if it is shared: the other owners
    /// may drop it.
    pub(super) fn new(items: I, memory_bytes: usize) -> Items<I> {
        Items { len: Some(items.len()), values: items, memory_bytes }
    }
}

impl<I: ExactSizeIterator<Item = Value> + Send> ReplyChunks for Items<I> {
    fn write_next(&mut self, protocol: Protocol, output: &mut Vec<u8>) -> bool {
        if let Some(len) = self.len.take() {
            resp::write_array_header(len, output);
        }
        let end = output.len() + CHUNK_BYTES;
        while output.len() < end {
            match self.values.next() {
                Some(item) => resp::encode(&item, protocol, output),
                None => return false,
            }
        }
        true
    }

    fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

/// A page of values: an array of the cursor that continues it, the values, and a rest if there is one.
pub(super) struct Page<I> {
    /// The cursor; `None` once it is written.
    cursor: Option<Value>,
    items: Items<I>,
    rest: Option<Value>,
}

impl<I: ExactSizeIterator<Item = Value> + Send> Page<I> {
    pub(super) fn new(cursor: Value, items: Items<I>, rest: Option<Value>) -> Page<I> {
        Page { cursor: Some(cursor), items, rest }
    }
}

impl<I: ExactSizeIterator<Item = Value> + Send> ReplyChunks for Page<I> {
    fn write_next(&mut self, protocol: Protocol, output: &mut Vec<u8>) -> bool {
        if let Some(cursor) = self.cursor.take() {
            resp::write_array_header(2 + usize::from(self.rest.is_some()), output);
            resp::encode(&cursor, protocol, output);
        }
        let has_more = self.items.write_next(protocol, output);
        if let Some(rest) = self.rest.take_if(|_| !has_more) {
            resp::encode(&rest, protocol, output);
        }
        has_more
    }

    fn memory_bytes(&self) -> usize {
        self.items.memory_bytes
    }
}

/// `CLIENT LIST`: one text whose length comes first. So each client is read twice: first its changing state is copied
/// and its line measured, then the line is written.
pub(super) struct ClientLines {
    clients: std::vec::IntoIter<Arc<Client>>,
    uptime_s: u64,
    seen: Vec<(Arc<Client>, ListEntry)>,
    bytes: usize,
    /// Index in `seen` of the next line; `None` before the length is written.
    next: Option<usize>,
}

impl ClientLines {
    pub(super) fn new(clients: Vec<Arc<Client>>, uptime_s: u64) -> ClientLines {
        let seen = Vec::with_capacity(clients.len());
        ClientLines { clients: clients.into_iter(), uptime_s, seen, bytes: 0, next: None }
    }
}

impl ReplyChunks for ClientLines {
    fn write_next(&mut self, protocol: Protocol, output: &mut Vec<u8>) -> bool {
        let Some(next) = self.next else {
            for client in self.clients.by_ref().take(CLIENTS_PER_CHUNK) {
                let seen = client.list_entry(self.uptime_s);
                let mut counted = ByteCounter(0);
                // Counting cannot fail.
                let _ = writeln!(counted, "{}", seen.line(&client));
                self.bytes += counted.0;
                self.seen.push((client, seen));
            }
            if self.clients.len() == 0 {
                resp::write_text_header(self.bytes, protocol, output);
                self.next = Some(0);
            }
            return true;
        };
        let end = self.seen.len().min(next + CLIENTS_PER_CHUNK);
        for (client, seen) in &self.seen[next..end] {
            // A write to a Vec cannot fail.
            let _ = std::io::Write::write_fmt(output, format_args!("{}\n", seen.line(client)));
        }
        self.next = Some(end);
        if end == self.seen.len() {
            output.extend_from_slice(b"\r\n");
        }
        end < self.seen.len()
    }

    fn memory_bytes(&self) -> usize {
        // Names are shared with their clients, which may have changed them by now, or be gone: then only this answer
        // holds them. They are in the text, so its length is their bound.
        let a_client = size_of::<(Arc<Client>, ListEntry)>() + size_of::<Client>();
        (self.clients.len() + self.seen.len()) * a_client + self.bytes
    }
}

struct ByteCounter(usize);

impl fmt::Write for ByteCounter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_written_as_an_array_in_pieces() {
        let items: Vec<Value> = (0..1000).map(|n| Value::bulk(format!("{n:0100}"))).collect();
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let mut whole = Vec::new();
            resp::encode(&Value::Array(items.clone()), protocol, &mut whole);
            let mut chunks = Items::new(items.clone().into_iter(), 0);
            let (mut output, mut count) = (Vec::new(), 0);
            loop {
                let before = output.len();
                let has_more = chunks.write_next(protocol, &mut output);
                assert!(output.len() - before < CHUNK_BYTES + 200);
                count += 1;
                if !has_more {
                    break;
                }
            }
            assert!(output == whole && count > 5, "{count} chunks");
        }
        for rest in [None, Some(Value::Array(vec![Value::from("unreadable")]))] {
            let mut page = Page::new(Value::from("cursor"), Items::new(items.clone().into_iter(), 0), rest.clone());
            let (mut output, mut whole) = (Vec::new(), Vec::new());
            while page.write_next(Protocol::Resp2, &mut output) {}
            let all: Vec<Value> =
                [Value::from("cursor"), Value::Array(items.clone())].into_iter().chain(rest).collect();
            resp::encode(&Value::Array(all), Protocol::Resp2, &mut whole);
            assert!(output == whole);
        }
        let mut none = Vec::new();
        assert!(!Items::new(Vec::new().into_iter(), 0).write_next(Protocol::Resp2, &mut none));
        assert_eq!(none, b"*0\r\n");
    }
}
