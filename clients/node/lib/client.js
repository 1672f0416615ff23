"use strict";

/** Client and its objects, as programs see them. All state is private, so a copy of an object fails at first use. */

const { inspect } = require("node:util");
const { parseUrl } = require("./address.js");
const { systemClock } = require("./clock.js");
const { Engine } = require("./engine.js");
const errors = require("./errors.js");
const { Layout } = require("./layout.js");
const { SequenceSupply } = require("./sequence.js");
const { WorkerSupply } = require("./worker.js");

const { TIMEOUT_MAX_MS, checkBoolean, checkInteger, checkName, checkNumber, checkOptions, grouped, show } = errors;

const OBJECTS_MAX = 10_000;
const PREFETCH_MAX = 10_000_000;
const HOLD_MIN_MS = 10;
const HOLD_MAX_MS = 60_000;
const TTL_MAX_S = 86_400;
const MADE_BY_CLIENT = Symbol("made by a client");

/** Stops the engine of a client that the program has dropped. */
const dropped = new FinalizationRegistry((engine) => engine.stop());

function refuseCopy() {
  throw new TypeError("an object of getid-client cannot be serialised: make a client in each process and thread");
}

/**
 * Makes `JSON.stringify`, `structuredClone`, `postMessage` and `v8.serialize` of an object fail. The last three refuse
 * functions among an object's own enumerable properties.
 */
function preventCopies(object) {
  Object.defineProperty(object, "toJSON", { value: refuseCopy, enumerable: true });
}

/** Base of `Sequence` and `Worker`. */
class Source {
  #supply;
  // Keeps the client from being collected as long as the object is used.
  #client;

  constructor(key, client, supply) {
    if (key !== MADE_BY_CLIENT) throw new TypeError("objects are made by a client: call client.sequence(name)");
    this.#client = client;
    this.#supply = supply;
    supply.source = new WeakRef(this);
    preventCopies(this);
  }

  get name() {
    return this.#supply.name;
  }

  next(options) {
    return this.#supply.next(options);
  }

  take(n, options) {
    return this.#supply.take(n, options);
  }

  tryNext() {
    return this.#supply.tryNext();
  }

  warmUp(n, options) {
    return this.#supply.warmUp(n, options);
  }

  stats() {
    return this.#supply.stats();
  }

  [inspect.custom]() {
    return `${this.constructor.name} '${this.#supply.name}' of ${inspect(this.#client)}`;
  }
}

/** Values of one sequence, each given once, ascending in this object. */
class Sequence extends Source {}

/** IDs of a leased worker id, unique over all programs, ascending in this object. */
class Worker extends Source {}

/** Returns the checked options of a sequence. */
function sequenceOptions(name, options) {
  checkName("name", name);
  const checked = checkOptions(options, ["as", "prefetchMax", "holdMs", "fresh"]);
  const { as = "bigint", prefetchMax = 10_000, holdMs = HOLD_MAX_MS, fresh = false } = checked;
  checkAs(as);
  checkInteger("prefetchMax", prefetchMax, 0, PREFETCH_MAX);
  checkNumber("holdMs", holdMs, HOLD_MIN_MS, HOLD_MAX_MS);
  checkBoolean("fresh", fresh);
  return { as, prefetchMax, holdMs, fresh };
}

/** Returns the checked options of a worker. */
function workerOptions(pool, layout, options) {
  checkName("pool", pool);
  if (!(layout instanceof Layout)) {
    throw new TypeError(`layout is ${show(layout)}, must be a Layout such as Layout.TWITTER`);
  }
  const { as = "bigint", name, ttlS } = checkOptions(options, ["as", "name", "ttlS"]);
  checkAs(as);
  if (name !== undefined && typeof name !== "string") throw new TypeError(`name is ${show(name)}, must be a string`);
  if (ttlS !== undefined) checkInteger("ttlS", ttlS, 1, TTL_MAX_S);
  return { layout, as, name, ttlS };
}

function checkAs(as) {
  if (as !== "bigint" && as !== "string") throw new TypeError(`as is ${show(as)}, must be "bigint" or "string"`);
}

/** Objects by kind and name: the same one each time. */
class Objects {
  #found = new Map();

  /** Returns the object of a name, made by `make` at the first time. Fails if it exists with other options. */
  get(kind, name, options, make) {
    const key = `${kind} '${name}'`;
    const wanted = JSON.stringify(options);
    const found = this.#found.get(key) ?? this.#add(key, wanted, make);
    if (found.options !== wanted) {
      throw new TypeError(`${key} exists with other options: use the same ones, or another client`);
    }
    return found.object;
  }

  #add(key, options, make) {
    if (this.#found.size >= OBJECTS_MAX) {
      throw new RangeError(`the client has ${grouped(OBJECTS_MAX)} objects, which is the most: use them again`);
    }
    const added = { options, object: make(key) };
    this.#found.set(key, added);
    return added;
  }
}

/** Returns the checked time-out of `close()`. */
function closeTimeout(options) {
  const { timeoutMs = 2000 } = checkOptions(options, ["timeoutMs"]);
  return checkNumber("timeoutMs", timeoutMs, 0, TIMEOUT_MAX_MS);
}

/** Client of getid servers, with one connection. Connects at the first use of an object. */
class Client {
  #engine;
  #objects = new Objects();
  #text;
  #closing = null;

  constructor(url, options) {
    const checked = checkOptions(options, ["timeoutMs", "onEvent", "tls", "clock"]);
    const { timeoutMs = 5000, onEvent, tls, clock = systemClock } = checked;
    const target = parseUrl(url);
    checkNumber("timeoutMs", timeoutMs, 0, TIMEOUT_MAX_MS);
    if (onEvent !== undefined && typeof onEvent !== "function") {
      throw new TypeError(`onEvent is ${show(onEvent)}, must be a function`);
    }
    if (tls !== undefined && !target.isTls) throw new TypeError("tls is given, so the url must begin with 'getids://'");
    this.#engine = new Engine({ target, timeoutMs, onEvent, tls, clock });
    this.#text = `Client of ${target.addresses.join(", ")}`;
    dropped.register(this, this.#engine);
    preventCopies(this);
  }

  sequence(name, options) {
    const checked = sequenceOptions(name, options);
    return this.#object("sequence", name, checked, (engine) => {
      const supply = new SequenceSupply(engine, name, checked);
      return [supply, new Sequence(MADE_BY_CLIENT, this, supply)];
    });
  }

  worker(pool, layout, options) {
    const checked = workerOptions(pool, layout, options);
    return this.#object("worker pool", pool, checked, (engine) => {
      const supply = new WorkerSupply(engine, pool, checked);
      return [supply, new Worker(MADE_BY_CLIENT, this, supply)];
    });
  }

  #object(kind, name, options, make) {
    const engine = this.#openEngine();
    return this.#objects.get(kind, name, options, (key) => {
      const [supply, object] = make(engine);
      engine.supplies.set(key, supply);
      return object;
    });
  }

  discard() {
    this.#openEngine().discard();
  }

  async close(options) {
    const timeoutMs = closeTimeout(options);
    this.#closing ??= this.#engine.close(timeoutMs);
    return this.#closing;
  }

  #openEngine() {
    if (this.#engine.isClosed) throw new errors.Closed();
    return this.#engine;
  }

  [inspect.custom]() {
    return this.#text;
  }
}

if (Symbol.asyncDispose !== undefined) {
  Client.prototype[Symbol.asyncDispose] = async function dispose() {
    await this.close();
  };
}

module.exports = { Client, Objects, Sequence, Worker, closeTimeout, preventCopies, sequenceOptions, workerOptions };
