/// <reference lib="esnext.disposable" />

/** Form in which an object returns values. */
export type As = "bigint" | "string";

/** Options of a call that may wait. */
export interface CallOptions {
  /** Longest wait in milliseconds, 0 to 86,400,000; by default the client's. */
  timeoutMs?: number;
  /** Cancels the call: it rejects with the signal's reason. The reply under way is kept for later calls. */
  signal?: AbortSignal;
}

/** Methods of sequences and workers. `V` is `bigint`, or `string` with `as: "string"`. */
export interface Source<V extends bigint | string = bigint, S = unknown> {
  /** Name of the sequence or pool. */
  readonly name: string;
  /** Returns the next value, out of memory in nearly all calls. */
  next(options?: CallOptions): Promise<V>;
  /** Returns `n` values, 1 to 1,000,000, ascending. */
  take(n: number, options?: CallOptions): Promise<V[]>;
  /** Returns the next value if there is one in memory, else null. Starts the fetch, and never waits. */
  tryNext(): V | null;
  /** Waits until `n` values are in memory, or until the worker id is leased. */
  warmUp(n?: number, options?: CallOptions): Promise<void>;
  /** Returns the counters of this object. */
  stats(): S;
}

/** Counters of a sequence. */
export interface SequenceStats {
  /** Values that were returned. */
  values: number;
  /** Fetches that returned values. */
  fetches: number;
  /** Fetches that failed. */
  failures: number;
  /** Values that were fetched and never returned. */
  dropped: number;
  /** Calls that waited. */
  waits: number;
  /** Values in memory. */
  held: number;
  /** Number of values that a fetch asks for beyond what calls need. */
  prefetch: number;
  /** Shortest of the last eight fetches. */
  fetchMs: number | null;
}

/** Counters of a worker. */
export interface WorkerStats {
  /** IDs that were returned. */
  values: number;
  /** Worker id, null without a lease. */
  workerId: number | null;
  /** Begin of the lease, Unix milliseconds. */
  notBeforeMs: number | null;
  /** End of the lease, Unix milliseconds. */
  notAfterMs: number | null;
  leases: number;
  renewals: number;
  failures: number;
  /** How far the clock was past the end of the lease at the last renewal. */
  clockAheadMs: number;
}

/** Values of one sequence, each given once, ascending in this object. */
export interface Sequence<V extends bigint | string = bigint> extends Source<V, SequenceStats> {}
/** Class of sequences, for `instanceof`. Objects are made by `Client.sequence`. */
export declare const Sequence: { prototype: Sequence<any>; [Symbol.hasInstance](value: unknown): boolean };

/** IDs of a leased worker id, unique over all programs, ascending in this object. */
export interface Worker<V extends bigint | string = bigint> extends Source<V, WorkerStats> {}
/** Class of workers, for `instanceof`. Objects are made by `Client.worker`. */
export declare const Worker: { prototype: Worker<any>; [Symbol.hasInstance](value: unknown): boolean };

/** Options of a sequence. */
export interface SequenceOptions<A extends As = As> {
  /** Form of the values, by default `"bigint"`. */
  as?: A;
  /** Most values that are fetched ahead of the calls, 0 to 10,000,000; by default 10,000. */
  prefetchMax?: number;
  /** Longest time for which a value is kept, 10 to 60,000 ms; by default 60,000. */
  holdMs?: number;
  /** Whether a value serves only calls that were waiting when its request was sent. By default false. */
  fresh?: boolean;
}

/** Options of a worker. */
export interface WorkerOptions<A extends As = As> {
  /** Form of the IDs, by default `"bigint"`. */
  as?: A;
  /** Name with which a program gets its last worker id again, by default the host's name. */
  name?: string;
  /** Length of the lease in seconds, 1 to 86,400; by default the pool's. */
  ttlS?: number;
}

/** What `onEvent` gets. */
export interface Event {
  readonly event:
    | "connected"
    | "disconnected"
    | "fetch_failed"
    | "leased"
    | "renewed"
    | "renew_failed"
    | "lease_lost"
    | "released"
    | "clock";
  /** Address of the server. */
  readonly address: string;
  /** Name of the sequence or pool, or "". */
  readonly object: string;
  /** Reason of a failure, or "". */
  readonly reason: string;
  /** Of `clock`: how far the clock is past the end of the lease. */
  readonly differenceMs: number;
}

/** Options of a client. */
export interface ClientOptions {
  /** Time-out of calls in milliseconds, by default 5000. */
  timeoutMs?: number;
  /** Is called with each event. What it throws is ignored. */
  onEvent?: (event: Event) => unknown;
  /** Options of Node's `tls.connect` for `getids://`, such as `{ ca }`. */
  tls?: object;
}

/** Client of getid servers, with one connection. Connects at the first use of an object. */
export declare class Client {
  /** `url` is by default that of the environment variable `GETID_URL`, else `getid://127.0.0.1:7890`. */
  constructor(url?: string, options?: ClientOptions);
  /** Returns the local supply of a sequence, the same object each time. */
  sequence(name: string, options: SequenceOptions<"string"> & { as: "string" }): Sequence<string>;
  sequence(name: string, options?: SequenceOptions<"bigint">): Sequence<bigint>;
  /** Returns the generator of IDs with a worker id of a pool, the same object each time. */
  worker(pool: string, layout: Layout, options: WorkerOptions<"string"> & { as: "string" }): Worker<string>;
  worker(pool: string, layout: Layout, options?: WorkerOptions<"bigint">): Worker<bigint>;
  /** Drops all values and leases, and closes the connection, without a message: before a snapshot of the process. */
  discard(): void;
  /** Ends all calls and releases the leases, within `timeoutMs` (2000). Returns whether all leases were released. */
  close(options?: { timeoutMs?: number }): Promise<boolean>;
  /** Closes the client at the end of a block with `await using`, where the runtime has `Symbol.asyncDispose`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Fields of a layout. */
export interface LayoutFields {
  /** Bits of the time, 1 to 62. */
  time: number;
  /** Bits of the worker id, 0 to 16. */
  worker: number;
  /** Bits of the counter, 0 to 32. */
  counter: number;
  /** Unit of the time in milliseconds, by default 1. */
  unitMs?: number;
  /** Time 0 of IDs, Unix milliseconds, by default 0. */
  epochMs?: number;
  /** Whether the counter lies above the worker id, by default false. */
  counterFirst?: boolean;
}

/** Fields of an ID. */
export interface Parts {
  /** Begin of the ID's unit of time, Unix milliseconds. */
  unixMs: number;
  worker: number;
  counter: number;
  /** Begin of the ID's unit of time. */
  time: Date;
}

/** Layout of IDs: widths of the fields in bits, the unit of time and the epoch. */
export declare class Layout implements Required<LayoutFields> {
  constructor(fields: LayoutFields);
  readonly time: number;
  readonly worker: number;
  readonly counter: number;
  readonly unitMs: number;
  readonly epochMs: number;
  readonly counterFirst: boolean;
  /** Returns the fields of an ID. */
  parts(id: bigint | string): Parts;
  /** Returns the ID of a unit of time since the epoch, a worker id and a counter. */
  compose(unit: number, worker: number, counter: number): bigint;
  /** Returns the last millisecond of a unit of time, Unix milliseconds. */
  unitEndMs(unit: number): number;
  /** Time 41, worker 10, counter 12 bits; since 2010-11-04. Until 2080. */
  static readonly TWITTER: Layout;
  /** Another name of TWITTER. */
  static readonly SNOWFLAKE: Layout;
  /** Time 41, worker 10, counter 12 bits; since 2015-01-01 UTC. Until 2084. */
  static readonly DISCORD: Layout;
  /** Time 41, worker 10, counter 12 bits; since 2015-01-01 +08:00. Until 2084. */
  static readonly KEETS: Layout;
  /** Time 41, worker 10, counter 12 bits; since 2016-02-18. Until 2085. */
  static readonly ICICLE: Layout;
  /** Time 39 bits in units of 10 ms, counter 8, worker 16; since 2014-09-01 UTC. Until 2188. */
  static readonly SONYFLAKE: Layout;
  /** SONYFLAKE since 2025-01-01 UTC. Until 2199. */
  static readonly SONYFLAKE2: Layout;
}

/** Base of the client's errors. Mistakes of the caller are `TypeError` or `RangeError`. */
export declare class GetidError extends Error {}
/** The call's time-out passed without a value. The call may be repeated. */
export declare class Unavailable extends GetidError {}
/** The server returned an error that a repetition does not mend. */
export declare class Refused extends GetidError {
  constructor(message: string, code?: string);
  /** First word of the server's error, such as `NOPERM`; "" if the client refuses. */
  readonly code: string;
}
/** The machine's clock is past the end of a lease that was just given. */
export declare class ClockError extends GetidError {
  constructor(message: string, differenceMs?: number);
  readonly differenceMs: number;
}
/** The client is closed. */
export declare class Closed extends GetidError {
  constructor(message?: string);
}
