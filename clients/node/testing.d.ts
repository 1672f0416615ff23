import { Client } from "./index.js";

/** Fake of `Client` for unit tests, without a server. */
export declare class FakeClient implements Pick<Client, "sequence" | "worker" | "discard" | "close"> {
  /** The sequences count up from `start`, by default 1n. */
  constructor(options?: { start?: bigint });
  sequence: Client["sequence"];
  worker: Client["worker"];
  /** Makes the next call of an object fail with `error`. */
  fail(error: unknown): void;
  discard(): void;
  close(options?: { timeoutMs?: number }): Promise<boolean>;
  [Symbol.asyncDispose](): Promise<void>;
}
