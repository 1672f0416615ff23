"use strict";

/** Supply: the common part of sequences and workers: waiting calls, retries, and the job that the engine runs. */

const { Timer, monotonicMs, nextTurn } = require("./clock.js");
const { Closed, Refused, TIMEOUT_MAX_MS, Unavailable, checkNumber, checkOptions, grouped } = require("./errors.js");
const { ConnectionLost } = require("./connection.js");

const WAITERS_MAX = 10_000;
const BACKOFF_FIRST_MS = 10;
const BACKOFF_LAST_MS = 1000;
const LOADING_WAIT_MS = 200;

/** Time after which a call gives the event loop a turn, so that a due job can begin or its reply can be read. */
const HELP_AFTER_MS = 50;

/** How a failed job is tried again. */
const Remedy = Object.freeze({ NEXT_ADDRESS: 1, LOADING: 2, SAME_ADDRESS: 3, REFUSED: 4 });

/** Returns the remedy of an error reply. */
function remedyOf(error) {
  if (error.code === "LOADING") return Remedy.LOADING;
  if (error.code === "MISCONF" || error.isFull) return Remedy.NEXT_ADDRESS;
  return ["TRYAGAIN", "BUSY", "EXHAUSTED"].includes(error.code) ? Remedy.SAME_ADDRESS : Remedy.REFUSED;
}

/** A call that waits for `need` values. */
class Waiter {
  constructor(need, isWarmUp = false) {
    this.need = need;
    this.isWarmUp = isWarmUp;
    this.isSent = false;
    this.parts = [];
    /** The object of the program, which is not collected while a call waits. */
    this.source = null;
    this.resolve = this.reject = this.stop = null;
  }
}

/** Base of `SequenceSupply` and `WorkerSupply`. They run on the event loop's thread, so no state is locked. */
class Supply {
  constructor(engine, kind, name) {
    this.engine = engine;
    this.kind = kind;
    this.name = name;
    this.source = null;
    this.waiters = new Set();
    this.due = null;
    this.hasJob = false;
    this.startedMs = 0;
    this.retryAt = 0;
    this.triedAddresses = new Map();
    this.backoffMs = BACKOFF_FIRST_MS;
    this.lastFailure = "";
    this.returned = 0;
    this.failures = 0;
    this.wallMs = engine.clock.wallMs;
    this.monotonicMs = engine.clock.monotonicMs;
  }

  toString() {
    return `${this.kind} '${this.name}'`;
  }

  // Waiting.

  /** Returns the limits of a call. Fails if the client is closed or the call is cancelled already. */
  readLimits(options) {
    const { timeoutMs = this.engine.timeoutMs, signal } = checkOptions(options, ["timeoutMs", "signal"]);
    checkNumber("timeoutMs", timeoutMs, 0, TIMEOUT_MAX_MS);
    if (signal !== undefined && typeof signal?.addEventListener !== "function") {
      throw new TypeError("signal is no AbortSignal, must be as in 'AbortSignal.timeout(100)'");
    }
    if (signal?.aborted) throw signal.reason;
    this.checkOpen();
    return { timeoutMs, signal, deadline: monotonicMs() + timeoutMs };
  }

  checkOpen() {
    if (this.engine.isClosed) throw new Closed();
  }

  /** Returns the promise of the end of a call that waits. Its timer keeps the program running. */
  enqueue(waiter, { timeoutMs, signal, deadline }) {
    if (this.waiters.size >= WAITERS_MAX) {
      throw new Unavailable(`${grouped(WAITERS_MAX)} calls wait for ${this} already: wait for some of them to return`);
    }
    // It may have been aborted between two waits of one call.
    if (signal?.aborted) throw signal.reason;
    return new Promise((resolve, reject) => {
      const abort = () => this.fail(waiter, signal.reason);
      const timer = new Timer(deadline - monotonicMs(), () => this.fail(waiter, this.timeoutError(timeoutMs)));
      signal?.addEventListener("abort", abort, { once: true });
      waiter.resolve = resolve;
      waiter.reject = reject;
      waiter.stop = () => {
        timer.stop();
        signal?.removeEventListener("abort", abort);
      };
      waiter.source = this.source?.deref() ?? null;
      this.waiters.add(waiter);
    });
  }

  timeoutError(timeoutMs) {
    const failure = this.lastFailure || `${this.engine.address} has not replied yet`;
    return new Unavailable(`no value of ${this} within ${timeoutMs} ms: ${failure}`);
  }

  succeed(waiter) {
    this.waiters.delete(waiter);
    waiter.stop();
    waiter.resolve();
  }

  fail(waiter, reason) {
    this.waiters.delete(waiter);
    this.dropParts(waiter);
    waiter.stop();
    waiter.reject(reason);
  }

  succeedAll() {
    for (const waiter of this.waiters) this.succeed(waiter);
  }

  failAll(makeError) {
    for (const waiter of this.waiters) this.fail(waiter, makeError());
  }

  /** Takes back what a call has got. */
  dropParts() {}

  /**
   * Gives the event loop a turn where a job could not begin, or could not end, for `HELP_AFTER_MS`: awaited calls that
   * find a value do not return to the event loop.
   */
  async giveTurn() {
    const since = this.hasJob ? this.startedMs : this.due;
    if (since !== null && this.monotonicMs() - since > HELP_AFTER_MS) await nextTurn();
  }

  // Jobs.

  schedule(due) {
    this.engine.schedule(this, due);
  }

  scheduleNow() {
    this.schedule(Math.max(this.monotonicMs(), this.retryAt));
  }

  succeeded() {
    this.triedAddresses.clear();
    this.backoffMs = BACKOFF_FIRST_MS;
    this.retryAt = 0;
    this.lastFailure = "";
  }

  /** Takes a failed job, and schedules the next try if a call waits for it. */
  failed(remedy, reason, canLose, code = "") {
    this.failures += 1;
    this.lastFailure = reason;
    this.engine.emit(this.failureEvent(), { object: this.name, reason });
    if (remedy === Remedy.REFUSED) this.failAll(() => new Refused(`${this}: ${reason}`, code));
    const delay = remedy === Remedy.REFUSED ? 0 : this.tableDelay(remedy);
    this.retryAt = this.monotonicMs() + this.retryDelay(delay, canLose && remedy !== Remedy.REFUSED);
    if (this.waiters.size > 0 || this.isNeeded()) this.schedule(this.retryAt);
  }

  /** Chooses the address of the next try, and returns the wait before it. */
  tableDelay(remedy) {
    if (remedy === Remedy.SAME_ADDRESS) {
      this.triedAddresses.clear();
      return this.backOff();
    }
    const { engine, triedAddresses } = this;
    triedAddresses.set(engine.index, remedy === Remedy.LOADING);
    const untried = engine.followingIndexes().find((index) => !triedAddresses.has(index));
    engine.useAddress(untried ?? engine.followingIndexes()[0]);
    if (untried !== undefined) return 0;
    const areLoading = [...triedAddresses.values()].every(Boolean);
    triedAddresses.clear();
    return areLoading ? LOADING_WAIT_MS : this.backOff();
  }

  backOff() {
    const delay = this.backoffMs;
    this.backoffMs = Math.min(2 * delay, BACKOFF_LAST_MS);
    return delay;
  }

  /** Returns the wait before the next try. `canLose`: the server may have done what was requested. */
  retryDelay(delay) {
    return delay;
  }

  /** Whether a failed job is tried again although no call waits. */
  isNeeded() {
    return false;
  }

  /** Takes an error reply. Returns whether the error was expected and is dealt with. */
  refuse() {
    return false;
  }

  failureEvent() {
    return "fetch_failed";
  }
}

/** Returns the failure for a reply of unexpected form, which closes the connection. */
function unexpected(what, reply) {
  const shown = JSON.stringify(reply, (_, part) => (typeof part === "bigint" ? String(part) : part)) ?? "nothing";
  return new ConnectionLost(`unexpected reply to ${what}: ${shown.slice(0, 100)}`);
}

module.exports = { BACKOFF_FIRST_MS, BACKOFF_LAST_MS, Remedy, Supply, Waiter, remedyOf, unexpected };
