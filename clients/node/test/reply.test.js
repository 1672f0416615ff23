"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { MalformedReply, ReplyReader, ServerError, encodeRequest } = require("../lib/reply.js");

const read = (text) => new ReplyReader().feed(Buffer.from(text));

test("reads each kind of reply, in whatever pieces it comes", () => {
  const text = "*7\r\n+OK\r\n:-9223372036854775808\r\n$4\r\na\r\nb\r\n$-1\r\n*-1\r\n*2\r\n:1\r\n*0\r\n-ERR no\r\n";
  const expected = [
    "OK",
    -9223372036854775808n,
    Buffer.from("a\r\nb"),
    null,
    null,
    [1n, []],
    new ServerError("ERR no"),
  ];
  for (let size = 1; size <= text.length; size += 1) {
    const reader = new ReplyReader();
    let whole;
    for (let at = 0; at < text.length; at += size) {
      assert.equal(whole, undefined);
      whole = reader.feed(Buffer.from(text.slice(at, at + size)));
    }
    assert.deepEqual(whole, { reply: expected }, `pieces of ${size} bytes`);
  }
});

test("names an error by its first word", () => {
  assert.equal(read("-NOPERM no permission\r\n").reply.code, "NOPERM");
  assert.equal(read("-LOADING\r\n").reply.code, "LOADING");
  assert.equal(read("-ERR max number of clients reached\r\n").reply.isFull, true);
});

const malformed = [
  ["?x\r\n", /type "\?"/],
  ["\r\n", /type/],
  [":\r\n", /integer/],
  [":1x\r\n", /integer/],
  [":9223372036854775808\r\n", /64 bits/],
  ["$1\r\nabc", /without end/],
  ["$-2\r\n", /length/],
  ["$1048577\r\n", /length/],
  ["*1000001\r\n", /length/],
  ["*99999999999999999999\r\n", /length/],
  ["*1\r\n".repeat(5), /4 levels/],
  ["+OK\r\n+OK\r\n", /after the end/],
  [`+${"x".repeat(70_000)}`, /line of more/],
];

for (const [text, message] of malformed) {
  test(`refuses ${JSON.stringify(text.slice(0, 24))}`, () => {
    assert.throws(
      () => read(text),
      (failure) => failure instanceof MalformedReply && message.test(failure.message),
    );
  });
}

test("refuses a reply that never ends", () => {
  const reader = new ReplyReader();
  const megabyte = Buffer.from(`$1048576\r\n${"x".repeat(1_048_576)}\r\n`);
  reader.feed(Buffer.from("*1000000\r\n"));
  assert.throws(() => {
    for (let count = 0; count < 100; count += 1) reader.feed(megabyte);
  }, /more than 33554432 bytes/);
});

test("encodes text by its bytes", () => {
  assert.equal(String(encodeRequest(["GET", "ä", 5, 7n])), "*4\r\n$3\r\nGET\r\n$2\r\nä\r\n$1\r\n5\r\n$1\r\n7\r\n");
});
