"use strict";

/** Errors of the client, and checks of arguments. */

const TIMEOUT_MAX_MS = 86_400_000;
const NAME_BYTES_MAX = 128;

/** Base of the client's errors. Mistakes of the caller are `TypeError` or `RangeError` instead. */
class GetidError extends Error {
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}

/** The call's time-out passed without a value. The call may be repeated. */
class Unavailable extends GetidError {}

/** The server returned an error that a repetition does not mend. `code` is its first word, such as `NOPERM`. */
class Refused extends GetidError {
  constructor(message, code = "") {
    super(message);
    this.code = code;
  }
}

/** The machine's clock is past the end of a lease that was just given, by `differenceMs`. */
class ClockError extends GetidError {
  constructor(message, differenceMs = 0) {
    super(message);
    this.differenceMs = differenceMs;
  }
}

/** The client is closed. */
class Closed extends GetidError {
  constructor(message = "the client is closed: make another one") {
    super(message);
  }
}

const grouped = (number) => number.toLocaleString("en-US");

/** Returns `value` if it is a number from `low` to `high`. */
function checkNumber(argument, value, low, high) {
  if (typeof value !== "number" || Number.isNaN(value)) {
    throw new TypeError(`${argument} is ${show(value)}, must be a number from ${grouped(low)} to ${grouped(high)}`);
  }
  if (value < low || value > high) {
    throw new RangeError(`${argument} is ${value}, must be ${grouped(low)} to ${grouped(high)}`);
  }
  return value;
}

/** Returns `value` if it is an integer from `low` to `high`. */
function checkInteger(argument, value, low, high) {
  checkNumber(argument, value, low, high);
  if (!Number.isInteger(value)) {
    throw new RangeError(`${argument} is ${value}, must be an integer from ${grouped(low)} to ${grouped(high)}`);
  }
  return value;
}

/** Returns `value` if it is a boolean. */
function checkBoolean(argument, value) {
  if (typeof value !== "boolean") throw new TypeError(`${argument} is ${show(value)}, must be true or false`);
  return value;
}

/** Returns `value` if it is a string of 1 to 128 bytes. */
function checkName(argument, value) {
  if (typeof value !== "string") throw new TypeError(`${argument} is ${show(value)}, must be a string`);
  const size = Buffer.byteLength(value);
  if (size < 1 || size > NAME_BYTES_MAX) {
    throw new RangeError(`${argument} has ${size} bytes, must have 1 to ${NAME_BYTES_MAX}`);
  }
  return value;
}

/** Returns `value` if it is an object that has no other keys than `known`; `{}` for `undefined`. */
function checkOptions(value, known) {
  if (value === undefined) return {};
  if (value === null || typeof value !== "object") {
    throw new TypeError(`options are ${show(value)}, must be an object with ${known.join(", ")}`);
  }
  for (const key of Object.keys(value)) {
    if (!known.includes(key)) throw new TypeError(`option ${show(key)} is unknown, must be one of ${known.join(", ")}`);
  }
  return value;
}

/** Returns a short text of any value, for messages. */
function show(value) {
  if (typeof value === "bigint") return `${value}n`;
  if (value === null || typeof value !== "object") return String(JSON.stringify(value) ?? typeof value).slice(0, 100);
  return Array.isArray(value) ? "an array" : "an object";
}

module.exports = {
  TIMEOUT_MAX_MS,
  GetidError,
  Unavailable,
  Refused,
  ClockError,
  Closed,
  checkNumber,
  checkInteger,
  checkBoolean,
  checkName,
  checkOptions,
  grouped,
  show,
};
