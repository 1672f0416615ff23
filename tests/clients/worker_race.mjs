// A driver for examples/worker-ids/node_worker.mjs, which tests/docs/worker_ids.rs controls by lines. The docstring of
// worker_race.py describes the lines.

import { createInterface } from "node:readline";
import { createClient } from "redis";
import { Worker, make, timeOf } from "./node_worker.mjs";

const client = createClient({ socket: { port: Number(process.env.GETID_PORT) } });
await client.on("error", (error) => console.error(error.message)).connect();
// The time-out is long enough for replies that a test holds.
const settings = { name: "race", leaseS: 3, timeoutS: 600 };
const worker = await new Worker(client, "orders", make, timeOf, settings).lease();
let [closing, closed, closeReported, late, newest, refusal] = [false, false, false, 0, 0, "none"];

async function draw() {
  const [wasClosing, wasClosed] = [closing, closed];
  try {
    newest = Math.max(newest, timeOf(await worker.next()));
    late += wasClosed;
  } catch (error) {
    refusal = error.message;
    if (wasClosing && !closeReported) {
      closeReported = true;
      console.log("refused");
    }
  }
  // Other tasks of the event loop run in between.
  await new Promise(setImmediate);
}

console.log("leased", worker.id);
(async () => {
  while (true) await draw();
})();
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "close") {
    closing = true;
    worker.close().then(() => {
      closed = true;
      console.log("closed");
    });
  } else {
    for (let count = 0; count < 3; count++) await draw();
    console.log("probed", late, newest, refusal);
  }
}
process.exit(0);
