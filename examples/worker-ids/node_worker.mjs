// IDs of @sapphire/snowflake with a worker id that getid leases (docs/worker-ids.md).
//
//     npm install redis @sapphire/snowflake

import { hostname } from "node:os";
import { Snowflake } from "@sapphire/snowflake";
import { createClient } from "redis";

/** Leases a worker id, renews it, and gives IDs of the generator that `make` makes for it. */
export class Worker {
  constructor(client, pool, make, timeOf, name = `${hostname()}-${process.pid}`) {
    Object.assign(this, { client, pool, make, timeOf, name, newest: 0n });
  }

  async lease() {
    const words = ["WORKERID", "LEASE", this.pool, "NAME", this.name];
    const [id, token, notBefore, notAfter] = await this.client.sendCommand(words);
    // Another id, or the same one later: another generator.
    Object.assign(this, { id, token, notBefore, notAfter, generate: this.make(id), last: notBefore - 1 });
    this.keepLater();
    return this;
  }

  keepLater() {
    const wait = Math.max(100, (this.notAfter - Date.now()) / 3);
    this.timer = setTimeout(() => this.keep(), Math.min(wait, 2 ** 31 - 1));
  }

  async keep() {
    try {
      const words = ["WORKERID", "RENEW", this.pool, `${this.id}`, this.token, "LAST", `${this.last}`];
      [this.notAfter] = await this.client.sendCommand(words);
    } catch (error) {
      // Whatever happens, the lease lasts to its end. Then there are no IDs until there is another one.
      const isOver = /^(EXPIRED|REVOKED|WRONGTOKEN)/.test(error.message) && Date.now() >= this.notAfter;
      if (isOver) return this.lease().catch(() => this.keepLater());
    }
    this.keepLater();
  }

  /** An ID. What the generator makes outside of the lease, or not above the one before, is thrown away. */
  async next() {
    for (let tries = 0; tries < 100; tries++) {
      const made = this.generate();
      const at = this.timeOf(made);
      if (this.notBefore <= at && at < this.notAfter && made > this.newest) {
        Object.assign(this, { last: at, newest: made });
        return made;
      }
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    throw new Error(`no lease of worker id ${this.id} in pool ${this.pool} holds at this time`);
  }

  async close() {
    clearTimeout(this.timer);
    this.notAfter = 0;
    const words = ["WORKERID", "RELEASE", this.pool, `${this.id}`, this.token, "LAST", `${this.last}`];
    await this.client.sendCommand(words);
  }
}

const snowflake = new Snowflake(1420070400000n);
// Ten bits: five are the library's worker, and five its process.
const make = (id) => () => snowflake.generate({ workerId: BigInt(id >> 5), processId: BigInt(id & 31) });
const client = await createClient({ socket: { port: Number(process.env.GETID_PORT ?? 7890) } }).connect();
const worker = await new Worker(client, "orders", make, (id) => snowflake.timestampFrom(id)).lease();
const ids = [];
for (let count = 0; count < 1000; count++) ids.push(await worker.next());
await worker.close();
await client.close();
const ascends = ids.every((id, place) => place === 0 || ids[place - 1] < id);
console.log(`worker id ${worker.id}: ${new Set(ids).size} different IDs, ascending: ${ascends}`);
