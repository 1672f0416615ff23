"use strict";

/**
 * Fake client for unit tests of programs: the methods of `Client`, without a server. A sequence counts up from `start`.
 * A worker makes IDs with worker id 0, from a time that begins one second after the layout's epoch.
 */

const { inspect } = require("node:util");
const { Objects, closeTimeout, preventCopies, sequenceOptions, workerOptions } = require("./client.js");
const { Closed, TIMEOUT_MAX_MS, checkInteger, checkNumber, checkOptions, show } = require("./errors.js");
const { TAKE_MAX } = require("./sequence.js");

const START_MAX = 2n ** 62n;
const START_MS = 1000;

/** Base of the fakes of `Sequence` and `Worker`. */
class FakeSource {
  #check;
  #draw;
  #stats;
  #as;
  #values = 0;

  constructor(name, as, { check, draw, stats }) {
    this.#check = check;
    this.#draw = draw;
    this.#stats = stats;
    this.#as = as;
    Object.defineProperty(this, "name", { value: name });
    preventCopies(this);
  }

  async next(options) {
    return this.#take(1, options)[0];
  }

  async take(n, options) {
    return this.#take(checkInteger("n", n, 1, TAKE_MAX), options);
  }

  tryNext() {
    return this.#take(1)[0];
  }

  async warmUp(n = 1, options = undefined) {
    checkInteger("n", n, 1, TAKE_MAX);
    this.#check(options);
  }

  stats() {
    return { values: this.#values, ...this.#stats };
  }

  #take(n, options) {
    this.#check(options);
    this.#values += n;
    return Array.from({ length: n }, () => (this.#as === "string" ? String(this.#draw()) : this.#draw()));
  }

  [inspect.custom]() {
    return `${this.constructor.name} '${this.name}'`;
  }
}

class FakeSequence extends FakeSource {}

class FakeWorker extends FakeSource {}

/** Fake of `Client`. Its sequences count up from `start`. */
class FakeClient {
  #start;
  #objects = new Objects();
  #isClosed = false;
  #errors = [];

  constructor(options) {
    const { start = 1n } = checkOptions(options, ["start"]);
    if (typeof start !== "bigint") throw new TypeError(`start is ${show(start)}, must be a bigint such as 1n`);
    if (start < 0n || start > START_MAX) throw new RangeError(`start is ${start}n, must be 0n to ${START_MAX}n`);
    this.#start = start;
    preventCopies(this);
  }

  sequence(name, options) {
    const checked = sequenceOptions(name, options);
    const zeros = { fetches: 0, failures: 0, dropped: 0, waits: 0, held: 0, prefetch: 0, fetchMs: null };
    return this.#object("sequence", name, checked, () => {
      let following = this.#start;
      return new FakeSequence(name, checked.as, { check: this.#check, draw: () => following++, stats: zeros });
    });
  }

  worker(pool, layout, options) {
    const checked = workerOptions(pool, layout, options);
    return this.#object("worker pool", pool, checked, () => {
      const draw = fakeIds(layout);
      return new FakeWorker(pool, checked.as, { check: this.#check, draw, stats: fakeStats(layout) });
    });
  }

  #object(kind, name, options, make) {
    if (this.#isClosed) throw new Closed();
    return this.#objects.get(kind, name, options, make);
  }

  /** Makes the next call of an object fail with `error`. */
  fail(error) {
    this.#errors.push(error);
  }

  discard() {
    if (this.#isClosed) throw new Closed();
  }

  async close(options) {
    closeTimeout(options);
    this.#isClosed = true;
    return true;
  }

  #check = (options) => {
    const { timeoutMs = 0, signal } = checkOptions(options, ["timeoutMs", "signal"]);
    checkNumber("timeoutMs", timeoutMs, 0, TIMEOUT_MAX_MS);
    if (signal?.aborted) throw signal.reason;
    if (this.#isClosed) throw new Closed();
    if (this.#errors.length > 0) throw this.#errors.shift();
  };
}

if (Symbol.asyncDispose !== undefined) {
  FakeClient.prototype[Symbol.asyncDispose] = async function dispose() {
    await this.close();
  };
}

function fakeIds(layout) {
  let unit = Math.ceil(START_MS / layout.unitMs);
  let counter = -1;
  return () => {
    counter += 1;
    if (counter >= 2 ** layout.counter) [unit, counter] = [unit + 1, 0];
    return layout.compose(unit, 0, counter);
  };
}

function fakeStats(layout) {
  const notBeforeMs = layout.epochMs + START_MS;
  const notAfterMs = layout.unitEndMs(2 ** layout.time - 1) + 1;
  return { workerId: 0, notBeforeMs, notAfterMs, leases: 1, renewals: 0, failures: 0, clockAheadMs: 0 };
}

module.exports = { FakeClient };
