"use strict";

/**
 * WorkerSupply: a leased worker id, and IDs made with it in process. An ID is made only in a unit of time of which the
 * lease covers each millisecond. So two holders of one worker id never make the same ID, whatever their clocks show.
 * Almost every call counts up inside the millisecond that was checked last.
 */

const { createHash } = require("node:crypto");
const { hostname } = require("node:os");
const { ClockError, Refused, checkInteger } = require("./errors.js");
const { TAKE_MAX } = require("./sequence.js");
const { Supply, Waiter, unexpected } = require("./supply.js");

const HOLDER_BYTES_MAX = 64;
const TOKEN_BYTES_MAX = 256;
const LEASE_RETRY_FIRST_MS = 1000;
const LEASE_RETRY_LAST_MS = 30_000;

/** Shortest time between two renewals. */
const RENEW_PAUSE_MS = 1000;

/** Distance by which the two clocks move apart before a renewal is due at once. */
const JUMP_MS = 1000;

const LOST_CODES = ["EXPIRED", "REVOKED", "WRONGTOKEN"];

/** A leased worker id and its interval of Unix milliseconds. */
class Lease {
  constructor(id, token, notBefore, notAfter, lengthMs) {
    this.id = id;
    this.token = token;
    this.notBefore = notBefore;
    this.notAfter = notAfter;
    /** End that the server gave by its own clock. `notAfter` is later after a renewal with the time of this clock. */
    this.serverEnd = notAfter;
    this.lengthMs = lengthMs;
    this.isUsed = false;
    this.isLost = false;
  }
}

/** Returns the name of a holder as the server takes it: at most 64 bytes of printable ASCII, or none. */
function holderName(name = hostname()) {
  const whole = Buffer.from(name);
  const cleaned = Buffer.from(whole.map((byte) => (byte >= 33 && byte <= 126 ? byte : 0x5f))).toString("latin1");
  if (cleaned.length <= HOLDER_BYTES_MAX) return cleaned;
  return `${cleaned.slice(0, 55)}-${createHash("sha256").update(whole).digest("hex").slice(0, 8)}`;
}

class WorkerSupply extends Supply {
  constructor(engine, pool, { layout, as, name, ttlS }) {
    super(engine, "worker pool", pool);
    this.layout = layout;
    this.hasStrings = as === "string";
    this.holder = holderName(name);
    this.ttlS = ttlS;
    this.counterMax = 2 ** layout.counter - 1;
    this.counterStep = layout.counterFirst ? 2 ** layout.worker : 1;
    this.newest = -1;
    this.unit = -1;
    this.counter = 0;
    this.base = 0n;
    this.endUnit = 0;
    this.checkedMs = -1;
    this.lease = null;
    this.unfit = null;
    this.isWanted = false;
    this.job = "";
    this.sentMs = 0;
    this.triedMs = -Infinity;
    this.isAhead = false;
    this.isLastReal = false;
    this.drift = null;
    this.leaseDelayMs = LEASE_RETRY_FIRST_MS;
    this.clockAheadMs = 0;
    this.leases = 0;
    this.renewals = 0;
  }

  // Calls.

  next(options) {
    if (options === undefined && this.counter < this.counterMax && this.wallMs() === this.checkedMs) {
      return Promise.resolve(this.countUp());
    }
    return this.nextSlowly(options);
  }

  async nextSlowly(options) {
    const [id] = await this.draw(1, options);
    return id;
  }

  async take(n, options) {
    return this.draw(checkInteger("n", n, 1, TAKE_MAX), options);
  }

  tryNext() {
    if (this.counter < this.counterMax && this.wallMs() === this.checkedMs) return this.countUp();
    this.checkOpen();
    return this.make();
  }

  /** Waits until the worker id is leased. `n` has no meaning for a worker. */
  async warmUp(n = 1, options = undefined) {
    checkInteger("n", n, 1, TAKE_MAX);
    const limits = this.readLimits(options);
    if (this.lease !== null) return;
    const end = this.enqueue(new Waiter(1, true), limits);
    this.want();
    await end;
  }

  stats() {
    return {
      values: this.returned,
      workerId: this.lease?.id ?? null,
      notBeforeMs: this.lease?.notBefore ?? null,
      notAfterMs: this.lease?.notAfter ?? null,
      leases: this.leases,
      renewals: this.renewals,
      failures: this.failures,
      clockAheadMs: this.clockAheadMs,
    };
  }

  /** Returns `n` IDs, after the leases and renewals that they need. */
  async draw(n, options) {
    const limits = this.readLimits(options);
    const ids = [];
    while (ids.length < n) {
      this.checkOpen();
      const id = this.make();
      if (id !== null) ids.push(id);
      else await this.enqueue(new Waiter(1), limits);
    }
    await this.giveTurn();
    return ids;
  }

  /** Returns the next ID of the unit that was checked last. */
  countUp() {
    this.counter += 1;
    this.returned += 1;
    const id = this.base + BigInt(this.counter * this.counterStep);
    return this.hasStrings ? String(id) : id;
  }

  /** Returns an ID, or null if the lease covers no further unit. Starts what is due. */
  make() {
    const { lease, layout } = this;
    const nowMs = this.wallMs();
    if (lease === null) return this.makeNone();
    if (nowMs !== this.checkedMs) this.checkClocks(nowMs);
    let unit = Math.max(Math.floor((nowMs - layout.epochMs) / layout.unitMs), this.unit);
    if (unit === this.unit && this.counter >= this.counterMax) unit += 1;
    if (unit >= this.endUnit) {
      this.checkRange(unit);
      return this.makeNone();
    }
    if (unit !== this.unit) {
      this.base = layout.compose(unit, lease.id, 0);
      this.counter = -1;
      this.unit = this.newest = unit;
    }
    this.checkedMs = nowMs;
    lease.isUsed = true;
    return this.countUp();
  }

  makeNone() {
    this.checkedMs = -1;
    this.want();
    return null;
  }

  checkRange(unit) {
    if (unit < 2 ** this.layout.time) return;
    throw new Refused(`${this}: the time of the layout ended: take one with a later epoch or more bits of time`);
  }

  /** Compares both clocks. Makes a renewal due at once if the wall clock was set. */
  checkClocks(wallMs) {
    const nowMs = this.monotonicMs();
    const drift = wallMs - nowMs;
    if (this.drift === null) this.drift = drift;
    if (Math.abs(drift - this.drift) <= JUMP_MS) return;
    this.drift = drift;
    if (this.canRenew && !this.hasJob) this.schedule(Math.max(nowMs, this.triedMs + RENEW_PAUSE_MS));
  }

  /** Starts the lease or renewal without which no ID can be made. */
  want() {
    this.isWanted = true;
    if (this.hasJob) return;
    const pauseEnd = this.canRenew && !this.isLastReal ? this.triedMs + RENEW_PAUSE_MS : 0;
    const due = Math.max(this.monotonicMs(), this.retryAt, pauseEnd);
    if (this.due === null || this.due > due) this.schedule(due);
  }

  get canRenew() {
    return this.lease !== null && !this.lease.isLost;
  }

  /** Returns the real `LAST`: the last millisecond of the newest ID's unit. */
  last() {
    return this.lease.isUsed ? this.layout.unitEndMs(this.newest) : this.lease.notBefore - 1;
  }

  forget() {
    this.lease = this.unfit = null;
    this.counter = this.counterMax;
    this.checkedMs = -1;
    this.triedMs = -Infinity;
    this.isLastReal = false;
    this.isWanted = false;
    this.drift = null;
  }

  /** Drops the lease for good. Returns the leases to release, with their `LAST`. */
  stop() {
    const found = [];
    if (this.canRenew) found.push(this.releaseOf(this.lease, this.last()));
    if (this.unfit !== null) found.push(this.releaseOf(this.unfit, this.unfit.notBefore - 1));
    this.forget();
    return found;
  }

  releaseOf({ id, token }, last) {
    return ["WORKERID", "RELEASE", this.name, id, token, "LAST", Math.max(last, 0)];
  }

  // Jobs.

  begin() {
    this.sentMs = this.monotonicMs();
    if (this.unfit !== null) return this.beginRelease();
    if (this.canRenew) return this.beginRenewal();
    if (this.waiters.size === 0 && !this.isWanted) return null;
    this.job = "LEASE";
    const words = ["WORKERID", "LEASE", this.name];
    if (this.holder !== "") words.push("NAME", this.holder);
    if (this.ttlS !== undefined) words.push("TTL", this.ttlS);
    return words;
  }

  beginRelease() {
    this.job = "RELEASE";
    return this.releaseOf(this.unfit, this.unfit.notBefore - 1);
  }

  beginRenewal() {
    this.job = "RENEW";
    const { id, token, notAfter } = this.lease;
    const nowMs = this.wallMs();
    const last = this.last();
    this.triedMs = this.sentMs;
    this.isAhead = nowMs >= notAfter && nowMs - 1 > last && !this.isLastReal;
    this.isLastReal = false;
    return ["WORKERID", "RENEW", this.name, id, token, "LAST", Math.max(this.isAhead ? nowMs - 1 : last, 0)];
  }

  apply(reply) {
    if (this.job === "RELEASE") this.applyRelease(reply);
    else if (this.job === "LEASE") this.applyLease(reply);
    else this.applyRenewal(reply);
  }

  applyRelease(reply) {
    if (reply !== "OK") throw unexpected("WORKERID RELEASE", reply);
    this.unfit = null;
    this.succeeded();
    this.engine.emit("released", { object: this.name });
    if (this.waiters.size > 0) this.scheduleNow();
  }

  applyLease(reply) {
    const lease = readLease(reply);
    this.succeeded();
    this.leaseDelayMs = LEASE_RETRY_FIRST_MS;
    this.isWanted = false;
    if (lease.id >= 2 ** this.layout.worker) return this.refuseUnfit(lease);
    const { epochMs, unitMs } = this.layout;
    this.lease = lease;
    this.leases += 1;
    const firstUnit = Math.max(0, Math.ceil((lease.notBefore - epochMs) / unitMs));
    // The first ID has a unit above the newest one, which may be of another lease.
    this.unit = Math.max(this.newest, firstUnit - 1);
    this.counter = this.counterMax;
    this.triedMs = -Infinity;
    this.drift = null;
    this.checkClocks(this.wallMs());
    this.setEnd(lease.notAfter);
    this.engine.emit("leased", { object: this.name });
    this.scheduleRenewal();
    this.clockAheadMs = Math.max(0, this.wallMs() - lease.notAfter);
    if (this.wallMs() >= lease.notAfter) this.schedule(this.monotonicMs());
    else this.succeedAll();
  }

  refuseUnfit(lease) {
    this.unfit = lease;
    const bits = this.layout.worker;
    const remedy = `set 'worker-pool ${this.name} size ${2 ** bits}' on the server, or take a layout with more bits`;
    const message = `${this}: worker id ${lease.id} does not fit the ${bits} bits of the layout: ${remedy}`;
    this.failAll(() => new Refused(message));
    this.schedule(this.monotonicMs());
  }

  scheduleRenewal() {
    this.schedule(this.sentMs + Math.max(this.lease.lengthMs / 3, RENEW_PAUSE_MS));
  }

  setEnd(notAfter) {
    const { epochMs, unitMs, time } = this.layout;
    this.lease.notAfter = notAfter;
    this.endUnit = Math.min(Math.floor((notAfter - epochMs) / unitMs), 2 ** time);
    this.checkedMs = -1;
  }

  applyRenewal(reply) {
    const notAfter = Array.isArray(reply) ? readMs(reply[0]) : null;
    if (notAfter === null || notAfter < this.lease.notAfter) throw unexpected("WORKERID RENEW", reply);
    this.succeeded();
    this.setEnd(notAfter);
    if (!this.isAhead) this.lease.serverEnd = notAfter;
    this.renewals += 1;
    this.isWanted = false;
    this.engine.emit("renewed", { object: this.name });
    this.scheduleRenewal();
    const wallMs = this.wallMs();
    this.clockAheadMs = Math.max(0, wallMs - this.lease.serverEnd);
    if (wallMs < notAfter) this.succeedAll();
    else this.reportClock(this.clockAheadMs);
  }

  reportClock(differenceMs) {
    const difference = `this machine's clock is ${differenceMs / 1000} s past the end of the lease that was given`;
    const remedy = "set the clock (timedatectl set-ntp true), or give the pool a lease longer than the difference";
    const message = `${this}: ${difference}: ${remedy}`;
    this.engine.emit("clock", { object: this.name, reason: message, differenceMs });
    this.failAll(() => new ClockError(message, differenceMs));
  }

  refuse(error) {
    if (this.job === "RELEASE") {
      // Whatever the reason: the id is free at the end of its lease.
      this.unfit = null;
      if (this.waiters.size > 0) this.scheduleNow();
      return true;
    }
    if (this.job !== "RENEW") return false;
    if (LOST_CODES.includes(error.code)) this.loseLease(error);
    else if (this.isAhead && error.code === "ERR" && !error.isFull) this.renewAgain();
    else return false;
    return true;
  }

  loseLease(error) {
    this.lease.isLost = true;
    this.failures += 1;
    this.lastFailure = error.text;
    this.engine.emit("lease_lost", { object: this.name, reason: error.text });
    // Calls wait only where the lost lease covers no further unit.
    if (this.waiters.size > 0) this.schedule(this.monotonicMs());
  }

  renewAgain() {
    this.isLastReal = true;
    this.schedule(this.monotonicMs());
  }

  retryDelay(delay, canLose) {
    if (this.job === "RENEW") return Math.max(delay, this.triedMs + RENEW_PAUSE_MS - this.monotonicMs());
    if (this.job !== "LEASE" || !canLose) return delay;
    const leaseDelay = this.leaseDelayMs;
    this.leaseDelayMs = Math.min(2 * leaseDelay, LEASE_RETRY_LAST_MS);
    return leaseDelay;
  }

  isNeeded() {
    return this.unfit !== null || (this.canRenew && this.wallMs() < this.lease.notAfter);
  }

  failureEvent() {
    return this.unfit === null && this.canRenew ? "renew_failed" : "fetch_failed";
  }
}

function readLease(reply) {
  if (Array.isArray(reply) && reply.length >= 5) {
    const [id, notBefore, notAfter, lengthMs] = [reply[0], reply[2], reply[3], reply[4]].map(readMs);
    const token = reply[1];
    const hasToken = Buffer.isBuffer(token) && token.length > 0 && token.length <= TOKEN_BYTES_MAX;
    const hasNumbers = ![id, notBefore, notAfter, lengthMs].includes(null) && notBefore < notAfter && lengthMs > 0;
    if (hasToken && hasNumbers) return new Lease(id, Buffer.from(token), notBefore, notAfter, lengthMs);
  }
  // The token is secret.
  throw unexpected("WORKERID LEASE", Array.isArray(reply) ? reply.slice(0, 1) : reply);
}

/** Returns an integer of a reply as a number if it is one of 0 to 2^53 - 1, else null. */
function readMs(part) {
  return typeof part === "bigint" && part >= 0n && part <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(part) : null;
}

module.exports = { WorkerSupply, holderName };
