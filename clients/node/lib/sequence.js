"use strict";

/**
 * SequenceSupply: a local supply of values of one sequence. It is a queue of segments, ranges that a reply brought.
 * Almost every call takes the next value of the first segment within the millisecond that was checked last; `until` is
 * the index in that segment up to which a call has nothing else to do. Values ascend, and no segment is used longer
 * than `holdMs`.
 */

const { checkInteger } = require("./errors.js");
const { BACKOFF_FIRST_MS, BACKOFF_LAST_MS, Supply, Waiter, unexpected } = require("./supply.js");

const TAKE_MAX = 1_000_000;
const COUNT_MAX = 10_000_000;
const PREFETCH_FIRST = 16;
const HORIZON_MS = 100;
const DURATIONS_MAX = 8;
const SAFE_MAX = BigInt(Number.MAX_SAFE_INTEGER);

/** A range of values. `bigint` arithmetic is slow, so values below 2^53 are numbers until they are returned. */
class Segment {
  constructor(first, step, size, sent) {
    this.first = first;
    this.step = step;
    this.size = size;
    this.index = 0;
    this.until = 0;
    this.sent = sent;
    this.isSafe = first + step * BigInt(size) <= SAFE_MAX;
    this.firstNumber = this.isSafe ? Number(first) : 0;
    this.stepNumber = this.isSafe ? Number(step) : 0;
  }

  get left() {
    return this.size - this.index;
  }

  /** Returns the value at `index`, as a `bigint`. */
  bigintAt(index) {
    if (this.isSafe) return BigInt(this.firstNumber + index * this.stepNumber);
    return this.first + this.step * BigInt(index);
  }

  /** Returns the value at `index`, as a decimal string. */
  stringAt(index) {
    return String(this.isSafe ? this.firstNumber + index * this.stepNumber : this.bigintAt(index));
  }
}

const NO_SEGMENT = Object.freeze(new Segment(0n, 0n, 0, { wallMs: 0, monotonicMs: 0 }));

class SequenceSupply extends Supply {
  constructor(engine, name, { as, prefetchMax, holdMs, fresh }) {
    super(engine, "sequence", name);
    this.hasStrings = as === "string";
    this.prefetchMax = fresh ? 0 : prefetchMax;
    this.holdMs = holdMs;
    this.isFresh = fresh;
    this.segments = [];
    this.head = NO_SEGMENT;
    this.checkedMs = -1;
    this.checkedMonotonicMs = 0;
    this.newest = null;
    this.prefetch = Math.min(PREFETCH_FIRST, this.prefetchMax);
    this.lastSentMs = null;
    this.isSized = false;
    this.isWanted = false;
    this.durations = [];
    this.serial = 0;
    this.isAboveDue = false;
    this.droppedWaitMs = BACKOFF_FIRST_MS;
    this.job = { count: 0, serial: 0, sent: null };
    this.dropped = 0;
    this.fetches = 0;
    this.waits = 0;
  }

  // Calls.

  next(options) {
    const { head } = this;
    if (options === undefined && head.index < head.until && this.wallMs() === this.checkedMs) {
      this.returned += 1;
      return Promise.resolve(this.valueAt(head, head.index++));
    }
    return this.nextSlowly(options);
  }

  async nextSlowly(options) {
    const [value] = await this.draw(1, options);
    return value;
  }

  async take(n, options) {
    return this.draw(checkInteger("n", n, 1, TAKE_MAX), options);
  }

  tryNext() {
    const { head } = this;
    if (head.index < head.until && this.wallMs() === this.checkedMs) {
      this.returned += 1;
      return this.valueAt(head, head.index++);
    }
    this.checkOpen();
    this.checkAges();
    const hasValue = this.segments.length > 0;
    const value = hasValue ? this.valueAt(...this.pop(1)) : null;
    if (!hasValue && !this.isFresh) {
      this.isWanted = true;
      this.want();
    }
    this.arm();
    return value;
  }

  async warmUp(n = 1, options = undefined) {
    checkInteger("n", n, 1, TAKE_MAX);
    const limits = this.readLimits(options);
    this.checkAges();
    this.arm();
    if (this.isFresh || this.held >= n) return;
    const end = this.enqueue(new Waiter(n, true), limits);
    this.want();
    this.arm();
    await end;
  }

  stats() {
    return {
      values: this.returned,
      fetches: this.fetches,
      failures: this.failures,
      dropped: this.dropped,
      waits: this.waits,
      held: this.held,
      prefetch: this.prefetch,
      fetchMs: this.durations.length > 0 ? Math.min(...this.durations) : null,
    };
  }

  valueAt(segment, index) {
    return this.hasStrings ? segment.stringAt(index) : segment.bigintAt(index);
  }

  /** Returns `n` values: out of memory, or after the fetch that they need. */
  async draw(n, options) {
    const limits = this.readLimits(options);
    const waiter = new Waiter(n);
    this.checkAges();
    // While a call waits for values there is no segment, so this call does not overtake it.
    this.fill(waiter);
    let end = null;
    try {
      if (waiter.need > 0) {
        end = this.enqueue(waiter, limits);
        this.waits += 1;
        this.want();
      }
    } finally {
      this.arm();
    }
    await (end ?? this.giveTurn());
    return waiter.parts.flatMap(([segment, from, count]) =>
      Array.from({ length: count }, (_, index) => this.valueAt(segment, from + index)),
    );
  }

  /** Moves values from the segments to a call. */
  fill(waiter) {
    while (waiter.need > 0 && this.segments.length > 0) {
      const part = this.pop(waiter.need);
      waiter.parts.push(part);
      waiter.need -= part[2];
    }
  }

  /** Takes up to `n` values: the segment, the first index and their number. Starts a fetch if few values are left. */
  pop(n) {
    const [segment] = this.segments;
    const count = Math.min(n, segment.left);
    const from = segment.index;
    segment.index += count;
    this.returned += count;
    if (this.prefetchMax > 0 && this.isLow) this.want();
    this.dropEmpty();
    return [segment, from, count];
  }

  get isLow() {
    const [first, second] = this.segments;
    return second === undefined && (first === undefined || first.left * 2 <= first.size);
  }

  get held() {
    return this.segments.reduce((sum, segment) => sum + segment.left, 0);
  }

  want() {
    if (this.due === null && !this.hasJob) this.scheduleNow();
  }

  dropParts(waiter) {
    const count = waiter.parts.reduce((sum, part) => sum + part[2], 0);
    this.returned -= count;
    this.dropped += count;
    waiter.need += count;
    waiter.parts = [];
  }

  // Segments.

  dropEmpty() {
    while (this.segments.length > 0 && this.segments[0].left === 0) this.segments.shift();
  }

  /** Prepares the short path of calls: up to half of the last segment, then a fetch is due. */
  arm() {
    this.dropEmpty();
    this.head = this.segments[0] ?? NO_SEGMENT;
    if (this.head === NO_SEGMENT) return;
    const isWhole = this.due !== null || this.hasJob || this.segments.length > 1 || this.prefetchMax === 0;
    this.head.until = isWhole ? this.head.size : Math.max(this.head.index, Math.ceil(this.head.size / 2) - 1);
  }

  /** Drops segments that are too old by either clock, and all of them if the wall clock went back. */
  checkAges() {
    const wallMs = this.wallMs();
    const hasGoneBack = wallMs < this.checkedMs;
    this.checkedMs = wallMs;
    this.dropEmpty();
    while (this.segments.length > 0 && (hasGoneBack || this.isOld(this.segments[0].sent))) {
      this.dropped += this.segments.shift().left;
    }
  }

  isOld(sent) {
    return Math.max(this.monotonicMs() - sent.monotonicMs, this.wallMs() - sent.wallMs) >= this.holdMs;
  }

  dropSegments() {
    this.dropped += this.held;
    this.segments = [];
    this.arm();
  }

  forget() {
    this.dropSegments();
    this.isWanted = false;
    for (const waiter of this.waiters) {
      waiter.isSent = false;
      this.dropParts(waiter);
    }
  }

  /** Drops the segments for good. Returns no lease. */
  stop() {
    this.forget();
    return [];
  }

  // Jobs.

  begin(serial) {
    this.checkAges();
    const count = this.wantedCount();
    this.arm();
    if (count === 0) return null;
    this.job = { count, serial, sent: { wallMs: this.wallMs(), monotonicMs: this.monotonicMs() } };
    for (const waiter of this.waiters) waiter.isSent = true;
    const words = ["SEQUENCE", "NEXT", this.name, "COUNT", count];
    const isAbove = this.newest !== null && (serial !== this.serial || this.isAboveDue);
    return isAbove ? [...words, "ABOVE", this.newest] : words;
  }

  wantedCount() {
    let need = 0;
    let warmUp = 0;
    for (const waiter of this.waiters) {
      if (waiter.isWarmUp) warmUp = Math.max(warmUp, waiter.need);
      else need += waiter.need;
    }
    let count = need;
    if (this.prefetchMax > 0 && (need > 0 || this.isLow)) {
      this.sizePrefetch();
      count += this.prefetch;
    }
    if (this.isWanted && this.segments.length === 0) count = Math.max(count, 1);
    return Math.min(Math.max(count, need + warmUp - this.held), COUNT_MAX);
  }

  /** Doubles the prefetch if fetches follow each other soon, and halves it if they do not. */
  sizePrefetch() {
    if (this.lastSentMs === null || this.isSized) return;
    this.isSized = true;
    const horizonMs = Math.max(HORIZON_MS, 8 * Math.min(...this.durations));
    const sinceMs = this.monotonicMs() - this.lastSentMs;
    if (sinceMs < horizonMs) this.prefetch = Math.min(2 * this.prefetch, this.prefetchMax);
    else if (sinceMs > 4 * horizonMs) this.prefetch = Math.max(Math.floor(this.prefetch / 2), 1);
  }

  apply(reply) {
    const { first, step, size } = this.readRange(reply);
    const { sent } = this.job;
    this.succeeded();
    this.checkAges();
    this.durations = [...this.durations, Math.max(0, this.monotonicMs() - sent.monotonicMs)].slice(-DURATIONS_MAX);
    this.lastSentMs = sent.monotonicMs;
    this.isSized = this.isWanted = false;
    this.fetches += 1;
    this.serial = this.job.serial;
    this.isAboveDue = false;
    const skipped = this.skippedCount(first, step, size);
    const isOld = this.isOld(sent) || this.wallMs() < sent.wallMs;
    if (skipped < size) this.newest = first + step * BigInt(size - 1);
    const kept = isOld ? 0 : size - skipped;
    if (kept > 0) this.droppedWaitMs = BACKOFF_FIRST_MS;
    this.dropped += size - kept;
    if (kept > 0) this.segments.push(new Segment(first + step * BigInt(skipped), step, kept, sent));
    this.serve();
    if (skipped === size) this.isAboveDue = true;
    if (kept === 0) this.waitLonger();
    if (isOld) this.lastFailure = `a fetch took ${Math.round(this.durations.at(-1))} ms, holdMs is ${this.holdMs}`;
    if (this.waiters.size > 0) this.scheduleNow();
    this.arm();
  }

  /** Returns how many values of a range are not above the newest one. */
  skippedCount(first, step, size) {
    if (this.newest === null || first > this.newest) return 0;
    return Math.min(size, Number((this.newest - first) / step) + 1);
  }

  /** Makes the next fetch wait where a range was dropped whole. */
  waitLonger() {
    this.retryAt = this.monotonicMs() + this.droppedWaitMs;
    this.droppedWaitMs = Math.min(2 * this.droppedWaitMs, BACKOFF_LAST_MS);
  }

  /** Gives values to the calls that wait, in their order. */
  serve() {
    for (const waiter of this.waiters) {
      if (this.isServed(waiter)) this.succeed(waiter);
    }
    if (this.isFresh) this.dropSegments();
  }

  isServed(waiter) {
    if (waiter.isWarmUp) return this.held >= waiter.need;
    if (this.isFresh && !waiter.isSent) return false;
    if (waiter.parts.length > 0 && this.isOld(waiter.parts[0][0].sent)) this.dropParts(waiter);
    this.fill(waiter);
    return waiter.need === 0;
  }

  readRange(reply) {
    const isTriple = Array.isArray(reply) && reply.length === 3 && reply.every((part) => typeof part === "bigint");
    if (isTriple) {
      const [first, last, step] = reply;
      if (first >= 0n && first <= last && step >= 1n && (last - first) % step === 0n) {
        const size = (last - first) / step + 1n;
        if (size <= BigInt(this.job.count)) return { first, step, size: Number(size) };
      }
    }
    throw unexpected(`SEQUENCE NEXT ${this.name} COUNT ${this.job.count}`, reply);
  }
}

module.exports = { SequenceSupply, TAKE_MAX };
