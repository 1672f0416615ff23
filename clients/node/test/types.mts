// Compiled by readme.test.js as a module of both forms. Each line below a @ts-expect-error has to be an error.
import { Client, ClockError, Layout, Refused, Sequence, Worker } from "getid-client";
import { FakeClient } from "getid-client/testing";

async function check(client: Pick<Client, "sequence" | "worker" | "close">): Promise<boolean> {
  const plain: bigint = await client.sequence("a").next();
  const text: string[] = await client.sequence("b", { as: "string" }).take(5, { timeoutMs: 5 });
  const none: bigint | null = client.worker("c", Layout.SONYFLAKE, { ttlS: 5 }).tryNext();
  const id: string = await client.worker("d", new Layout({ time: 41, worker: 1, counter: 1 }), { as: "string" }).next();
  const found: number | null = client.worker("c", Layout.TWITTER).stats().workerId;
  const millisecond: number = Layout.TWITTER.parts(plain).unixMs + Layout.TWITTER.parts(id).unixMs;
  // @ts-expect-error: values are bigint
  const wrong: number = await client.sequence("a").next();
  // @ts-expect-error: unknown option
  client.sequence("a", { prefetch: 5 });
  // @ts-expect-error: unknown form
  client.sequence("a", { as: "number" });
  // @ts-expect-error: no layout
  client.worker("a");
  console.log(text, none, found, millisecond, wrong, client.sequence("a") instanceof Sequence, Worker);
  return client.close({ timeoutMs: 5 });
}

async function dispose(): Promise<bigint> {
  await using client = new Client();
  return client.sequence("a").next();
}

void dispose();
void check(new Client());
void check(new FakeClient({ start: 1n }));
console.log(new Refused("no", "NOPERM").code.length, new ClockError("ahead", 5).differenceMs.toFixed());
