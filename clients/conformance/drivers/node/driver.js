"use strict";

/** Driver of the conformance suite for the package in `GETID_PACKAGE`: runs the commands of its standard input. */

const fs = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");
const v8 = require("node:v8");

const folder = path.resolve(process.env.GETID_PACKAGE);
const { Client, ClockError, Closed, Layout, Refused, Unavailable } = require(folder);
const { TestClock } = require(path.join(folder, "lib", "clock.js"));

const FLUSH_BYTES = 64 * 1024;
const DRAWS_PER_TURN = 500;
const EVENTS_MAX = 100_000;

const clients = new Map();
const objects = new Map();
let isEnding = false;

const nextTurn = () => new Promise(setImmediate);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function open({ client, url, timeout_ms: timeoutMs, ca }) {
  const clock = new TestClock();
  const events = [];
  const onEvent = ({ differenceMs, ...event }) => {
    if (events.length < EVENTS_MAX) events.push({ ...event, difference_ms: differenceMs });
  };
  const tls = ca ? { ca: fs.readFileSync(ca) } : undefined;
  const made = new Client(url, { timeoutMs: timeoutMs ?? 5000, onEvent, tls, clock });
  clients.set(client, { client: made, clock, events, isClosed: false, distances: { wallMs: 0, monoMs: 0 } });
  return {};
}

function addObject(request, object) {
  objects.set(request.object, { object, owner: clients.get(request.client), isStopped: false });
  return {};
}

function sequence(request) {
  const { name, prefetch_max: prefetchMax, hold_ms: holdMs, fresh } = request;
  const options = withoutMissing({ prefetchMax, holdMs, fresh });
  return addObject(request, clients.get(request.client).client.sequence(name, options));
}

function worker(request) {
  const { time, worker: bits, counter, ...rest } = request.layout;
  const { unit_ms: unitMs, epoch_ms: epochMs, counter_first: counterFirst } = rest;
  const layout = new Layout(withoutMissing({ time, worker: bits, counter, unitMs, epochMs, counterFirst }));
  const options = withoutMissing({ name: request.name, ttlS: request.ttl_s });
  return addObject(request, clients.get(request.client).client.worker(request.pool, layout, options));
}

function withoutMissing(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null));
}

function limits(request, signal) {
  return withoutMissing({ timeoutMs: request.timeout_ms, signal });
}

async function draw(request) {
  const entry = objects.get(request.object);
  entry.isStopped = false;
  const result = { drawn: 0, errors: {}, after_close: 0 };
  const loops = Array.from({ length: request.threads }, (_, index) => drawOne(entry, request, index, result));
  await Promise.all(loops);
  return result;
}

/** One thread of `draw`. It returns to the event loop now and then, or else no command would be read. */
async function drawOne(entry, request, index, result) {
  const file = new ValueFile(`${request.file}.${index}`);
  const { object, owner } = entry;
  const count = request.take ?? 1;
  const options = request.timeout_ms === undefined || request.timeout_ms === null ? undefined : limits(request);
  let left = request.values;
  let calls = 0;
  while (left > 0 && !entry.isStopped && !isEnding) {
    const isAfterClose = owner.isClosed;
    calls += 1;
    if (calls % DRAWS_PER_TURN === 0) await nextTurn();
    try {
      const values = request.take ? await object.take(Math.min(count, left), options) : [await object.next(options)];
      for (const value of values) file.add(value);
      left -= values.length;
      result.drawn += values.length;
      if (isAfterClose) result.after_close += values.length;
    } catch (error) {
      const kind = kindOf(error);
      result.errors[kind] = (result.errors[kind] ?? 0) + 1;
      if (kind !== "Unavailable" && kind !== "ClockError") break;
    }
  }
  file.close();
}

/** File of values, each as 8 bytes, little-endian. */
class ValueFile {
  #descriptor;
  #buffer = Buffer.alloc(FLUSH_BYTES);
  #used = 0;

  constructor(name) {
    this.#descriptor = fs.openSync(name, "w");
  }

  add(value) {
    this.#used = this.#buffer.writeBigInt64LE(value, this.#used);
    if (this.#used === FLUSH_BYTES) this.#flush();
  }

  #flush() {
    fs.writeSync(this.#descriptor, this.#buffer, 0, this.#used);
    this.#used = 0;
  }

  close() {
    this.#flush();
    fs.closeSync(this.#descriptor);
  }
}

async function abandon({ object, calls, after_ms: afterMs }) {
  const started = Array.from({ length: calls }, () => {
    const controller = new AbortController();
    const call = objects.get(object).object.next({ signal: controller.signal });
    return {
      controller,
      call: call.then(
        (value) => String(value),
        (error) => (error.name === "AbortError" ? null : error),
      ),
    };
  });
  await sleep(afterMs);
  for (const { controller } of started) controller.abort();
  const ends = await Promise.all(started.map(({ call }) => call));
  const failure = ends.find((end) => end instanceof Error);
  if (failure) throw failure;
  const values = ends.filter((end) => end !== null);
  return { cancelled: calls - values.length, values };
}

async function close(request) {
  const entry = clients.get(request.client);
  const released = await entry.client.close(limits(request));
  entry.isClosed = true;
  return { released };
}

function clock({ client, wall_ms: wallMs = 0, mono_ms: monoMs = 0 }) {
  clients.get(client).clock.shift({ wallMs, monoMs });
  return {};
}

function stats({ object }) {
  const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(
    Object.entries(objects.get(object).object.stats()).map(([name, value]) => [snake(name), value]),
  );
}

/** Makes all copies that the runtime knows. Each of them has to fail, at once or at its first use. */
async function copy({ object }) {
  const { object: original } = objects.get(object);
  const attempts = [
    () => structuredClone(original),
    () => Object.assign(Object.create(Object.getPrototypeOf(original)), original).next(),
    () => new Proxy(original, {}).next(),
    () => ({ ...original }).next(),
  ];
  for (const attempt of attempts) await expectUsageError(attempt);
  return { same: false };
}

async function serialize({ object }) {
  const { object: original } = objects.get(object);
  await expectUsageError(() => v8.serialize(original));
  return { same: JSON.stringify(original) === "" };
}

async function expectUsageError(attempt) {
  try {
    await attempt();
  } catch {
    return;
  }
  throw new Error("a copy of the object works");
}

/** A counter behind the mutex that JavaScript programs use, a chain of promises. */
async function counter({ values }) {
  let last = Promise.resolve();
  let count = 0n;
  const increment = () => {
    count += 1n;
    return count;
  };
  const next = () => {
    last = last.then(increment);
    return last;
  };
  return measure(values, next);
}

async function time({ object, values }) {
  const { object: source } = objects.get(object);
  return measure(values, () => source.next());
}

async function measure(values, call) {
  const begin = process.hrtime.bigint();
  for (let left = values; left > 0; left -= 1) await call();
  return { ns: Number(process.hrtime.bigint() - begin) / values };
}

const commands = {
  open,
  sequence,
  worker,
  next: async (request) => ({ value: String(await objects.get(request.object).object.next(limits(request))) }),
  take: async (request) => {
    const values = await objects.get(request.object).object.take(request.n, limits(request));
    return { values: values.map(String) };
  },
  try_next: ({ object }) => {
    const value = objects.get(object).object.tryNext();
    return { value: value === null ? null : String(value) };
  },
  warm_up: async (request) => {
    await objects.get(request.object).object.warmUp(request.n ?? 1, limits(request));
    return {};
  },
  draw,
  stop: ({ object }) => {
    objects.get(object).isStopped = true;
    return {};
  },
  abandon,
  close,
  discard: ({ client }) => {
    clients.get(client).client.discard();
    return {};
  },
  stats,
  events: ({ client }) => ({ events: clients.get(client).events.splice(0) }),
  clock,
  copy,
  serialize,
  fork: () => ({ unsupported: true }),
  counter,
  time,
  exit: () => ({}),
};

function kindOf(error) {
  const kinds = [Unavailable, Refused, ClockError, Closed];
  const found = kinds.find((kind) => error instanceof kind);
  if (found) return found.name;
  return error instanceof TypeError || error instanceof RangeError ? "Usage" : "Internal";
}

async function answer(line) {
  const request = JSON.parse(line);
  let result;
  try {
    const ok = await commands[request.do](request);
    result = { id: request.id, ok };
  } catch (error) {
    result = { id: request.id, error: kindOf(error), message: String(error?.stack ?? error) };
    if (result.error !== "Internal") result.message = error.message;
  }
  fs.writeSync(1, `${JSON.stringify(result)}\n`);
  if (request.do === "exit") process.exit(0);
}

// At the end of the input nothing keeps the program running but calls that wait.
readline
  .createInterface({ input: process.stdin })
  .on("line", answer)
  .on("close", () => {
    isEnding = true;
  });
