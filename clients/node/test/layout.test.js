"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { Layout } = require("../index.js");

test("composes and takes apart IDs", () => {
  const { time, ...parts } = Layout.TWITTER.parts(1541815603606036480n);
  assert.deepEqual(parts, { unixMs: 1656432460105, worker: 378, counter: 0 });
  assert.equal(time.toISOString(), "2022-06-28T16:07:40.105Z");
  assert.equal(Layout.TWITTER.compose(1656432460105 - Layout.TWITTER.epochMs, 378, 0), 1541815603606036480n);
  for (const layout of [Layout.TWITTER, Layout.SONYFLAKE, new Layout({ time: 62, worker: 0, counter: 1 })]) {
    const worker = 2 ** layout.worker - 1;
    const counter = 2 ** layout.counter - 1;
    const found = layout.parts(String(layout.compose(1000, worker, counter)));
    assert.deepEqual([found.worker, found.counter], [worker, counter]);
    assert.equal(found.unixMs, layout.epochMs + 1000 * layout.unitMs);
  }
});

test("places the counter above the worker id where it is first", () => {
  assert.equal(Layout.SONYFLAKE.compose(1, 2, 3), (1n << 24n) | (3n << 16n) | 2n);
  assert.equal(Layout.TWITTER.compose(1, 2, 3), (1n << 22n) | (2n << 12n) | 3n);
});

const wrong = [
  [{ time: 41, worker: 11, counter: 12 }, /64 bits/],
  [{ time: 0, worker: 1, counter: 1 }, /time is 0/],
  [{ time: 41, worker: 17, counter: 1 }, /worker is 17/],
  [{ time: 10, worker: 1, counter: 33 }, /counter is 33/],
  [{ time: 10, worker: 1, counter: 1, unitMs: 0 }, /unitMs is 0/],
  [{ time: 10, worker: 1, counter: 1, epochMs: -1 }, /epochMs is -1/],
  [{ time: 10, worker: 1, counter: 1.5 }, /counter is 1.5/],
  [{ time: 10, worker: 1, counter: 1, unit: 5 }, /option "unit" is unknown/],
];

for (const [fields, message] of wrong) {
  test(`refuses ${JSON.stringify(fields)}`, () => assert.throws(() => new Layout(fields), message));
}

test("refuses IDs that the layout cannot have", () => {
  for (const id of [-1n, 1n << 63n, 5, "x", "99999999999999999999"]) {
    assert.throws(() => Layout.TWITTER.parts(id), RangeError);
  }
});
