"use strict";

/**
 * Engine: one connection, and the jobs of the supplies that share it.
 *
 * A job is one request for one supply. Jobs run one after another, in the order in which they are due. Each job has the
 * generation of its begin; `close` and `discard` raise it, so that a late reply changes nothing. Neither the socket nor
 * the timer keeps the program running.
 */

const { Timer, queueMicrotask } = require("./clock.js");
const { Connection, ConnectionLost, LoginRefused } = require("./connection.js");
const { Closed } = require("./errors.js");
const { ServerError } = require("./reply.js");
const { Remedy, remedyOf } = require("./supply.js");

const EVENTS_MAX = 1000;
const DELAY_MAX_MS = 3_600_000;

/** Bound of what sums of times are off by. */
const ROUNDING_MS = 0.001;

class Engine {
  #target;
  #tlsOptions;
  #onEvent;
  #connection = null;
  #generation = 0;
  #serial = 0;
  #isBusy = false;
  #isKicked = false;
  #timer = null;
  #events = [];
  #isDelivering = false;

  constructor({ target, timeoutMs, onEvent, tls, clock }) {
    this.#target = target;
    this.#tlsOptions = tls;
    this.#onEvent = onEvent;
    this.timeoutMs = timeoutMs;
    this.clock = clock;
    this.supplies = new Map();
    this.index = 0;
    this.isClosed = false;
    const engine = new WeakRef(this);
    clock.watch(() => engine.deref()?.kick());
  }

  get address() {
    return String(this.#target.addresses[this.index]);
  }

  /** Returns the indexes of all addresses, beginning behind the present one. */
  followingIndexes() {
    const count = this.#target.addresses.length;
    return Array.from({ length: count }, (_, step) => (this.index + step + 1) % count);
  }

  useAddress(index) {
    if (index === this.index) return;
    this.#dropConnection("another address is used");
    this.index = index;
  }

  /** Sets when the next job of a supply begins. */
  schedule(supply, due) {
    supply.due = due;
    this.kick();
  }

  /** Begins the jobs that are due, after the code that runs now: calls that are made together share a fetch. */
  kick() {
    if (this.#isKicked) return;
    this.#isKicked = true;
    queueMicrotask(() => {
      this.#isKicked = false;
      this.#beginJob();
    });
  }

  /** Drops all values and leases, and closes the connection, without a message. Calls that wait continue to wait. */
  discard() {
    this.#generation += 1;
    this.#dropConnection("the client was discarded");
    for (const supply of this.supplies.values()) {
      supply.forget();
      if (supply.waiters.size === 0) supply.due = null;
    }
  }

  /** Stops all work without a message. */
  stop() {
    this.isClosed = true;
    this.#generation += 1;
    this.#timer?.stop();
    this.#dropConnection("the client was closed");
  }

  /** Ends all calls and releases the leases, within `timeoutMs`. Returns whether all were released. */
  async close(timeoutMs) {
    this.stop();
    const releases = [];
    for (const supply of this.supplies.values()) {
      releases.push(...supply.stop().map((words) => ({ object: supply.name, words })));
      supply.failAll(() => new Closed());
    }
    return releases.length === 0 || this.#release(releases, timeoutMs);
  }

  /** Schedules an event for the callback of the program. */
  emit(event, { object = "", reason = "", differenceMs = 0 } = {}) {
    if (this.#onEvent === undefined) return;
    if (this.#events.length >= EVENTS_MAX) this.#events.shift();
    this.#events.push(Object.freeze({ event, address: this.address, object, reason, differenceMs }));
    if (this.#isDelivering) return;
    this.#isDelivering = true;
    queueMicrotask(() => this.#deliver());
  }

  #deliver() {
    while (this.#events.length > 0) {
      try {
        // What the callback throws is ignored, also where it is asynchronous.
        Promise.resolve(this.#onEvent(this.#events.shift())).catch(() => {});
      } catch {
        continue;
      }
    }
    this.#isDelivering = false;
  }

  // Jobs.

  #beginJob() {
    if (this.#isBusy || this.isClosed) return;
    this.#timer?.stop();
    this.#timer = null;
    const first = this.#firstDue();
    if (first === null) return;
    const delay = first.due - this.clock.monotonicMs();
    if (delay <= ROUNDING_MS) this.#run(first, this.#generation);
    else this.#timer = new Timer(Math.min(delay, DELAY_MAX_MS), () => this.#beginJob()).unref();
  }

  /** Returns the supply whose job begins first, or null. There are at most 10,000, and a job waits for a server. */
  #firstDue() {
    let first = null;
    for (const supply of this.supplies.values()) {
      if (supply.due !== null && (first === null || supply.due < first.due)) first = supply;
    }
    return first;
  }

  /** Sends the request of a supply and applies its reply. One job at a time uses the connection. */
  async #run(supply, generation) {
    supply.due = null;
    supply.hasJob = true;
    supply.startedMs = this.clock.monotonicMs();
    this.#isBusy = true;
    let reply;
    let failure = null;
    try {
      reply = await this.#request(supply, generation);
    } catch (error) {
      failure = error;
    }
    this.#isBusy = false;
    supply.hasJob = false;
    if (generation === this.#generation) this.#finish(supply, reply, failure);
    else if (supply.waiters.size > 0 && !this.isClosed) supply.scheduleNow();
    this.kick();
  }

  async #request(supply, generation) {
    const connection = this.#connection?.isOpen ? this.#connection : await this.#connect(generation);
    const words = generation === this.#generation ? supply.begin(this.#serial) : null;
    return words === null ? undefined : connection.request(words);
  }

  async #connect(generation) {
    this.#dropConnection("the connection was lost");
    const connection = new Connection(this.#target, this.#target.addresses[this.index], this.#tlsOptions, (reason) => {
      if (this.#connection !== connection) return;
      this.#connection = null;
      this.emit("disconnected", { reason });
    });
    this.#connection = connection;
    await connection.connect();
    if (generation === this.#generation) {
      this.#serial += 1;
      this.emit("connected");
    }
    return connection;
  }

  #finish(supply, reply, failure) {
    try {
      if (failure !== null) throw failure;
      if (reply instanceof ServerError) this.#finishRefused(supply, reply);
      else if (reply !== undefined) supply.apply(reply);
    } catch (error) {
      this.#finishFailed(supply, error);
    }
    supply.arm?.();
  }

  #finishRefused(supply, error) {
    if (!supply.refuse(error)) supply.failed(remedyOf(error), this.#text(error), error.code !== "LOADING", error.code);
  }

  #finishFailed(supply, error) {
    const isConnect = error instanceof LoginRefused || error.isConnect === true;
    if (!isConnect) this.emit("disconnected", { reason: error.message });
    this.#dropConnection(error.message);
    if (error instanceof LoginRefused) {
      supply.failed(remedyOf(error.error), this.#text(error.error), false, error.error.code);
    } else {
      supply.failed(Remedy.NEXT_ADDRESS, error.message, !isConnect);
    }
  }

  #text(error) {
    return `${this.address}: ${error.text}`;
  }

  #dropConnection(reason) {
    const connection = this.#connection;
    this.#connection = null;
    connection?.destroy(reason);
  }

  // Release.

  /** Sends the requests on a connection of its own, to one address after another. */
  async #release(releases, timeoutMs) {
    const { addresses } = this.#target;
    let connection = null;
    let hasTime = true;
    // This timer keeps the program running.
    const timer = new Timer(timeoutMs, () => {
      hasTime = false;
      connection?.destroy("the time-out of close() passed");
    });
    let left = releases;
    for (const index of [this.index, ...this.followingIndexes()].slice(0, addresses.length)) {
      if (left.length === 0 || !hasTime) break;
      connection = new Connection(this.#target, addresses[index], this.#tlsOptions);
      left = await this.#releaseOn(connection, left);
    }
    timer.stop();
    return left.length === 0;
  }

  /** Returns the requests that were not done. */
  async #releaseOn(connection, releases) {
    const left = [...releases];
    try {
      await connection.connect();
      for (const release of releases) {
        if (await this.#isReleased(connection, release)) left.splice(left.indexOf(release), 1);
      }
    } catch (error) {
      if (!(error instanceof ConnectionLost || error instanceof LoginRefused)) throw error;
    }
    connection.destroy("released");
    return left;
  }

  async #isReleased(connection, { object, words }) {
    let reply = await connection.request(words);
    // The clock may be ahead, and LAST too far in the future for the server.
    if (reply instanceof ServerError && reply.code === "ERR") reply = await connection.request(words.slice(0, -2));
    if (reply === "OK") this.emit("released", { object });
    // Without the lease there is nothing to release.
    return reply === "OK" || ["EXPIRED", "REVOKED", "WRONGTOKEN"].includes(reply?.code);
  }
}

module.exports = { Engine };
