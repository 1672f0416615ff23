"use strict";

/** Layouts: which bits of an ID are the time, the worker id and the counter. */

const { checkBoolean, checkInteger, checkOptions, show } = require("./errors.js");

const FIELDS = ["time", "worker", "counter", "unitMs", "epochMs", "counterFirst"];

/**
 * Layout of IDs: widths of the fields in bits, the unit of time and the epoch. The time is the highest field. The
 * worker id lies above the counter; with `counterFirst` the counter lies above the worker id, as in Sonyflake. All
 * fields have at most 63 bits together, so an ID fits a `BIGINT`.
 */
class Layout {
  constructor(fields) {
    const { time, worker, counter, unitMs = 1, epochMs = 0, counterFirst = false } = checkOptions(fields, FIELDS);
    this.time = checkInteger("time", time, 1, 62);
    this.worker = checkInteger("worker", worker, 0, 16);
    this.counter = checkInteger("counter", counter, 0, 32);
    this.unitMs = checkInteger("unitMs", unitMs, 1, 60_000);
    this.epochMs = checkInteger("epochMs", epochMs, 0, 2 ** 46);
    this.counterFirst = checkBoolean("counterFirst", counterFirst);
    const bits = time + worker + counter;
    if (bits > 63) throw new RangeError(`time, worker and counter have ${bits} bits together, must have at most 63`);
    Object.freeze(this);
  }

  /** Returns the ID of a unit of time since the epoch, a worker id and a counter. */
  compose(unit, worker, counter) {
    const [high, low, width] = this.counterFirst ? [counter, worker, this.worker] : [worker, counter, this.counter];
    const upper = (BigInt(unit) << BigInt(this.worker + this.counter - width)) | BigInt(high);
    return (upper << BigInt(width)) | BigInt(low);
  }

  /** Returns the fields of an ID: `unixMs` (begin of its unit of time), `worker`, `counter` and `time` (a `Date`). */
  parts(id) {
    const found = typeof id === "string" && /^\d{1,19}$/.test(id) ? BigInt(id) : id;
    const bits = this.time + this.worker + this.counter;
    if (typeof found !== "bigint" || found < 0n || found >> BigInt(bits)) {
      throw new RangeError(`id is ${show(id)}, must be a bigint or decimal string of at most ${bits} bits`);
    }
    const width = this.counterFirst ? this.worker : this.counter;
    const low = Number(BigInt.asUintN(width, found));
    const high = Number(BigInt.asUintN(this.worker + this.counter - width, found >> BigInt(width)));
    const unixMs = this.epochMs + Number(found >> BigInt(this.worker + this.counter)) * this.unitMs;
    const [worker, counter] = this.counterFirst ? [low, high] : [high, low];
    return { unixMs, worker, counter, time: new Date(unixMs) };
  }

  /** Returns the last millisecond of a unit of time, Unix milliseconds. */
  unitEndMs(unit) {
    return this.epochMs + (unit + 1) * this.unitMs - 1;
  }
}

const snowflake = (epochMs) => new Layout({ time: 41, worker: 10, counter: 12, epochMs });
const sonyflakeFields = { time: 39, worker: 16, counter: 8, unitMs: 10, counterFirst: true };
const sonyflake = (epochMs) => new Layout({ ...sonyflakeFields, epochMs });

Layout.TWITTER = snowflake(1_288_834_974_657);
Layout.SNOWFLAKE = Layout.TWITTER;
Layout.DISCORD = snowflake(1_420_070_400_000);
Layout.KEETS = snowflake(1_420_041_600_000);
Layout.ICICLE = snowflake(1_455_788_600_316);
Layout.SONYFLAKE = sonyflake(1_409_529_600_000);
Layout.SONYFLAKE2 = sonyflake(1_735_689_600_000);

module.exports = { Layout };
