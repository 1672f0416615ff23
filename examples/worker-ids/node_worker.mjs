// IDs of @sapphire/snowflake with a worker id that getid leases (docs/worker-ids.md).
//
//     npm install redis @sapphire/snowflake

import { realpathSync } from "node:fs";
import { hostname } from "node:os";
import { pathToFileURL } from "node:url";
import { Snowflake } from "@sapphire/snowflake";
import { createClient } from "redis";

/** Leases a worker id, renews it, and gives IDs of the generator that `make` makes for it. `leaseS`: the pool's lease. */
export class Worker {
  closed = false;
  newest = 0n;

  constructor(client, pool, make, timeOf, { name = `${hostname()}-${process.pid}`, leaseS = 30, timeoutS = 5 } = {}) {
    Object.assign(this, { client, pool, make, timeOf, name, leaseS, timeoutS });
  }

  /** Returns the server's reply. A reply after `timeoutS` is ignored, because close() waits for replies. */
  async ask(...words) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no reply within ${this.timeoutS} s`)), this.timeoutS * 1000);
    });
    const reply = this.client.sendCommand(["WORKERID", words[0], this.pool, ...words.slice(1)]);
    return Promise.race([reply, late]).finally(() => clearTimeout(timer));
  }

  async lease() {
    const askedAt = Date.now();
    const [id, token, notBefore, notAfter] = await this.ask("LEASE", "NAME", this.name);
    // A new lease, even of the same id, needs a new generator. If closed meanwhile, close() gives the id back unused.
    Object.assign(this, { id, token, notBefore, notAfter, generate: this.make(id), last: notBefore - 1 });
    Object.assign(this, { aheadMs: askedAt - notAfter, trouble: undefined });
    this.keepLater();
    return this;
  }

  async renew() {
    const askedAt = Date.now();
    const [notAfter] = await this.ask("RENEW", `${this.id}`, this.token, "LAST", `${this.last}`);
    // Positive: the clock was past the new end before the server set it, so the clock is wrong.
    if (!this.closed) Object.assign(this, { notAfter, aheadMs: askedAt - notAfter, trouble: undefined });
  }

  /** Renews after a third of the remaining lease, within bounds that do not depend on the clock, which may be wrong. */
  keepLater() {
    if (this.closed) return;
    const wait = Math.min(Math.max((this.notAfter - Date.now()) / 3, 1000), Math.max((this.leaseS * 1000) / 3, 1000));
    this.timer = setTimeout(() => { this.keeping = this.keep(); }, wait);
  }

  async keep() {
    try {
      await this.renew();
    } catch (error) {
      // The lease lasts to its end after any error. After it there are no IDs until the next lease.
      this.trouble = error;
      const isOver = /^(EXPIRED|REVOKED|WRONGTOKEN)/.test(error.message) && Date.now() >= this.notAfter;
      if (isOver && !this.closed) {
        try {
          await this.lease();
          return;
        } catch (error) {
          this.trouble = error;
        }
      }
    }
    this.keepLater();
  }

  /** Returns an ID. An ID outside the lease, or not above the previous one, is discarded. */
  async next() {
    for (let tries = 0; tries < 100 && !this.closed; tries++) {
      const made = this.generate();
      const at = this.timeOf(made);
      if (this.notBefore <= at && at < this.notAfter && made > this.newest) {
        Object.assign(this, { last: at, newest: made });
        return made;
      }
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    throw new Error(`no ID of worker id ${this.id} of pool ${this.pool}: ${this.whyNone()}`);
  }

  whyNone() {
    const [now, first] = [Date.now(), Math.max(this.notBefore, this.last)];
    if (this.closed) return "this worker is closed";
    if (now >= this.notAfter && this.aheadMs >= 0) {
      return `this machine's clock is at least ${this.aheadMs / 1000} s ahead of the server's, past the end of a lease ` +
        "that was just given. Set the clock (timedatectl set-ntp true), or give the pool a lease that is longer than " +
        "the difference";
    }
    if (now >= this.notAfter) return `the lease is over and not renewed, last error: ${this.trouble?.message}`;
    if (now < first) {
      return `this machine's clock is ${(first - now) / 1000} s behind the first time that an ID may have. Set the ` +
        "clock (timedatectl set-ntp true), or wait";
    }
    return "the generator made none in 100 tries; try again";
  }

  /** Stops giving IDs, waits for a running renewal, and gives the worker id back. */
  async close() {
    this.closed = true; // From here on LAST does not change.
    clearTimeout(this.timer);
    await this.keeping;
    await this.ask("RELEASE", `${this.id}`, this.token, "LAST", `${this.last}`);
  }
}

const snowflake = new Snowflake(1420070400000n);
// The ten bits are five of the library's worker, and five of its process.
export const make = (id) => () => snowflake.generate({ workerId: BigInt(id >> 5), processId: BigInt(id & 31) });
export const timeOf = (id) => snowflake.timestampFrom(id);

if (import.meta.url === pathToFileURL(realpathSync(process.argv[1])).href) {
  const client = createClient({ socket: { port: Number(process.env.GETID_PORT ?? 7890) } });
  // The client reconnects automatically; an error without a listener would end the process.
  await client.on("error", (error) => console.error(error.message)).connect();
  const worker = await new Worker(client, "orders", make, timeOf).lease();
  const ids = [];
  for (let count = 0; count < 1000; count++) ids.push(await worker.next());
  await worker.close();
  await client.close();
  const ascends = ids.every((id, place) => place === 0 || ids[place - 1] < id);
  console.log(`worker id ${worker.id}: ${new Set(ids).size} different IDs, ascending: ${ascends}`);
}
