"use strict";

/** Fake server in this process, with scripted replies. */

const assert = require("node:assert/strict");
const { once, EventEmitter } = require("node:events");
const net = require("node:net");
const { Client } = require("../index.js");
const { TestClock } = require("../lib/clock.js");

const OK = "+OK\r\n";

const error = (text) => `-${text}\r\n`;
const bulk = (text) => `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
const integers = (...items) => `*${items.length}\r\n${items.map((item) => `:${item}\r\n`).join("")}`;
const lease = (id, notBefore, notAfter, lengthMs = 30_000, token = "token") =>
  `*5\r\n:${id}\r\n${bulk(token)}:${notBefore}\r\n:${notAfter}\r\n:${lengthMs}\r\n`;

/** A server that answers each request with what `script(words, peer)` returns. Without a result it stays silent. */
class FakeServer extends EventEmitter {
  requests = [];
  peers = new Set();

  static async start(script) {
    const server = new FakeServer();
    server.script = script;
    server.listener = net.createServer((peer) => server.accept(peer)).listen(0, "127.0.0.1");
    await once(server.listener, "listening");
    server.port = server.listener.address().port;
    server.url = `getid://127.0.0.1:${server.port}`;
    return server;
  }

  accept(peer) {
    this.peers.add(peer);
    let text = "";
    peer.on("error", () => {});
    peer.on("close", () => {
      this.peers.delete(peer);
      this.emit("change");
    });
    peer.on("data", (chunk) => {
      text += chunk.toString("latin1");
      for (let parsed = parse(text); parsed; parsed = parse(text)) {
        text = text.slice(parsed.length);
        this.requests.push(parsed.words);
        const reply = this.script(parsed.words, peer);
        if (reply !== undefined) peer.write(reply);
        this.emit("change");
      }
    });
  }

  /** Waits until `count` requests have come, and returns the last of them. */
  async request(count) {
    while (this.requests.length < count) await once(this, "change");
    return this.requests[count - 1];
  }

  /** Waits until no connection is open. */
  async quiet() {
    while (this.peers.size > 0) await once(this, "change");
  }

  /** Closes all connections, and waits until the client has noticed it. */
  async disconnect(events) {
    const count = () => events.filter(({ event }) => event === "disconnected").length;
    const before = count();
    for (const peer of this.peers) peer.end();
    while (count() === before) await new Promise(setImmediate);
  }

  stop() {
    for (const peer of this.peers) peer.destroy();
    this.listener.close();
  }
}

function parse(text) {
  const head = /^\*(\d+)\r\n/.exec(text);
  if (!head) return null;
  const words = [];
  let at = head[0].length;
  for (let left = Number(head[1]); left > 0; left -= 1) {
    const size = /^\$(\d+)\r\n/.exec(text.slice(at, at + 16));
    if (!size || text.length < at + size[0].length + Number(size[1]) + 2) return null;
    at += size[0].length;
    words.push(text.slice(at, at + Number(size[1])));
    at += Number(size[1]) + 2;
  }
  return { words, length: at };
}

/** Returns a script of a server that counts up from 1. */
function counting(first = 1) {
  let next = first;
  return (words) => {
    const count = Number(words[4]);
    next += count;
    return integers(next - count, next - 1, 1);
  };
}

/** Runs `body` with a server and a client, whose clock moves by `shift` alone if it is frozen. */
async function withClient(script, options, body) {
  const { isFrozen = false, wallMs, ...rest } = options;
  const server = await FakeServer.start(script);
  const clock = new TestClock({ frozen: isFrozen, wallMs });
  const events = [];
  const client = new Client(server.url, { clock, onEvent: (event) => events.push(event), ...rest });
  try {
    await body({ server, client, clock, events });
  } finally {
    await client.close({ timeoutMs: 0 });
    server.stop();
  }
}

/** Fails unless `promise` rejects with an error of `kind` whose message matches. */
function rejects(promise, kind, message = /./) {
  return assert.rejects(promise, (failure) => {
    assert.ok(failure instanceof kind, `${failure?.stack}`);
    assert.match(failure.message, message);
    return true;
  });
}

module.exports = { FakeServer, OK, bulk, counting, error, integers, lease, rejects, withClient };
