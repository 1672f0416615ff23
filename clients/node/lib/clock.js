"use strict";

/** Clocks of the machine, one that a test moves, and a timer for programs that block their event loop. */

// Taken once, so that tests of a program that replace its timers and clock do not stop its client.
const { clearImmediate, clearTimeout, setImmediate, setTimeout } = require("node:timers");

const { queueMicrotask } = globalThis;
const monotonicMs = performance.now.bind(performance);

/** Clock of this machine: Unix milliseconds, and milliseconds that never go back. */
const systemClock = Object.freeze({
  wallMs: Date.now,
  monotonicMs,
  watch() {},
});

/** Clock of this machine plus distances that a test adds. With `frozen` it moves by `shift` alone. */
class TestClock {
  #wallMs = 0;
  #monoMs = 0;
  #frozen;
  #watchers = [];

  constructor({ frozen = false, wallMs = Date.now() } = {}) {
    this.#frozen = frozen ? { wallMs, monoMs: 1_000_000 } : null;
    this.wallMs = () => (this.#frozen ? this.#frozen.wallMs : Date.now()) + this.#wallMs;
    this.monotonicMs = () => (this.#frozen ? this.#frozen.monoMs : monotonicMs()) + this.#monoMs;
  }

  /** Adds distances to both clocks, and wakes the clients. */
  shift({ wallMs = 0, monoMs = 0 }) {
    this.#wallMs += wallMs;
    this.#monoMs += monoMs;
    for (const moved of this.#watchers) moved();
  }

  /** Calls `moved` after each shift. */
  watch(moved) {
    this.#watchers.push(moved);
  }
}

/**
 * Calls `action` after `ms`, and after the input that has arrived by then was read: an event loop that was blocked runs
 * its timers before it reads.
 */
class Timer {
  #timeout;
  #immediate = null;

  constructor(ms, action) {
    this.#timeout = setTimeout(() => {
      this.#immediate = setImmediate(action);
    }, Math.ceil(ms));
  }

  /** Lets the program end while the timer runs. */
  unref() {
    this.#timeout.unref();
    return this;
  }

  /** Makes sure that `action` is not called later. */
  stop() {
    clearTimeout(this.#timeout);
    if (this.#immediate) clearImmediate(this.#immediate);
  }
}

/** Resolves after the event loop has had a turn. */
function nextTurn() {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

module.exports = { TestClock, Timer, monotonicMs, nextTurn, queueMicrotask, systemClock };
