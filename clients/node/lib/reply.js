"use strict";

/** Replies: reads RESP2 out of the chunks in which it arrives, within bounds. */

const LINE_BYTES_MAX = 64 * 1024;
const BULK_BYTES_MAX = 1024 * 1024;
const ARRAY_LENGTH_MAX = 1_000_000;
const DEPTH_MAX = 4;
const REPLY_BYTES_MAX = 32 * 1024 * 1024;
const INTEGER_MAX = 2n ** 63n - 1n;
const INCOMPLETE = Symbol("incomplete");
const OPENED = Symbol("opened");
const EMPTY = Buffer.alloc(0);

/** An error that a server returned as its reply. `code` is its first word. */
class ServerError {
  constructor(text) {
    this.text = text;
    this.code = text.split(" ", 1)[0];
  }

  /** Whether the server has no room for another connection. */
  get isFull() {
    return this.text.startsWith("ERR max number of clients reached");
  }
}

/** The bytes are no reply, or more than one. */
class MalformedReply extends Error {}

/** Reads one reply. Integers become `bigint`, bulk strings `Buffer`, simple strings `string`. */
class ReplyReader {
  #buffer = EMPTY;
  #offset = 0;
  #scanned = 0;
  #bytes = 0;
  #bulk = -1;
  #arrays = [];

  /** Takes a chunk. Returns `{ reply }` once the reply is whole. */
  feed(chunk) {
    this.#bytes += chunk.length;
    if (this.#bytes > REPLY_BYTES_MAX) throw new MalformedReply(`a reply of more than ${REPLY_BYTES_MAX} bytes`);
    this.#buffer = this.#buffer.length > 0 ? Buffer.concat([this.#buffer, chunk]) : chunk;
    for (;;) {
      const element = this.#readElement();
      if (element === INCOMPLETE) break;
      if (element === OPENED) continue;
      const reply = this.#place(element);
      if (reply === OPENED) continue;
      if (this.#offset < this.#buffer.length) throw new MalformedReply("bytes after the end of the reply");
      return { reply };
    }
    this.#buffer = this.#buffer.subarray(this.#offset);
    this.#scanned -= this.#offset;
    this.#offset = 0;
    return undefined;
  }

  /** Puts an element into the array that is open. Returns the whole reply, or `OPENED` while it has a part to come. */
  #place(element) {
    let whole = element;
    while (this.#arrays.length > 0) {
      const array = this.#arrays[this.#arrays.length - 1];
      array.items.push(whole);
      if (array.items.length < array.length) return OPENED;
      this.#arrays.pop();
      whole = array.items;
    }
    return whole;
  }

  #readElement() {
    if (this.#bulk >= 0) return this.#readBulk();
    const line = this.#readLine();
    if (line === INCOMPLETE) return INCOMPLETE;
    const text = line.toString("utf8", 1);
    switch (line[0]) {
      case 0x2b:
        return text;
      case 0x2d:
        return new ServerError(text);
      case 0x3a:
        return readInteger(text);
      case 0x24:
        return this.#openBulk(readLength(text, BULK_BYTES_MAX));
      case 0x2a:
        return this.#openArray(readLength(text, ARRAY_LENGTH_MAX));
      default:
        throw new MalformedReply(`a reply of type ${JSON.stringify(String.fromCharCode(line[0] ?? 0))}`);
    }
  }

  #readLine() {
    const end = this.#buffer.indexOf("\r\n", Math.max(this.#offset, this.#scanned));
    const length = (end < 0 ? this.#buffer.length : end) - this.#offset;
    if (length > LINE_BYTES_MAX) throw new MalformedReply(`a line of more than ${LINE_BYTES_MAX} bytes`);
    if (end < 0) {
      this.#scanned = this.#buffer.length - 1;
      return INCOMPLETE;
    }
    const line = this.#buffer.subarray(this.#offset, end);
    this.#offset = end + 2;
    return line;
  }

  #readBulk() {
    const end = this.#offset + this.#bulk;
    if (this.#buffer.length < end + 2) return INCOMPLETE;
    if (this.#buffer[end] !== 0x0d || this.#buffer[end + 1] !== 0x0a)
      throw new MalformedReply("a bulk string without end");
    const bytes = this.#buffer.subarray(this.#offset, end);
    this.#offset = end + 2;
    this.#bulk = -1;
    return bytes;
  }

  #openBulk(length) {
    if (length < 0) return null;
    this.#bulk = length;
    return OPENED;
  }

  #openArray(length) {
    if (length < 0) return null;
    if (length === 0) return [];
    if (this.#arrays.length >= DEPTH_MAX) throw new MalformedReply(`arrays in more than ${DEPTH_MAX} levels`);
    this.#arrays.push({ items: [], length });
    return OPENED;
  }
}

function readInteger(text) {
  const integer = /^-?\d{1,19}$/.test(text) ? BigInt(text) : null;
  if (integer === null || integer > INTEGER_MAX || integer < -INTEGER_MAX - 1n) {
    throw new MalformedReply("an integer that is none of 64 bits");
  }
  return integer;
}

function readLength(text, max) {
  if (text === "-1") return -1;
  if (!/^\d{1,8}$/.test(text) || Number(text) > max) throw new MalformedReply(`a length that is not 0 to ${max}`);
  return Number(text);
}

/** Returns the bytes of a request. */
function encodeRequest(words) {
  const parts = [Buffer.from(`*${words.length}\r\n`)];
  for (const word of words) {
    const bytes = Buffer.isBuffer(word) ? word : Buffer.from(String(word));
    parts.push(Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from("\r\n"));
  }
  return Buffer.concat(parts);
}

module.exports = { MalformedReply, ReplyReader, ServerError, encodeRequest };
