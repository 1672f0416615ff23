// A program around examples/worker-ids/node_worker.mjs that tests/docs/worker_ids.rs drives by lines. worker_race.py
// says what the lines mean.

import { createInterface } from "node:readline";
import { createClient } from "redis";
import { Worker, make, timeOf } from "./node_worker.mjs";

const client = createClient({ socket: { port: Number(process.env.GETID_PORT) } });
await client.on("error", (error) => console.error(error.message)).connect();
// No time-out that counts: a test holds replies back.
const settings = { name: "race", leaseS: 3, timeoutS: 600 };
const worker = await new Worker(client, "orders", make, timeOf, settings).lease();
let [closing, closed, told, late, newest, refusal] = [false, false, false, 0, 0, "none"];

async function draw() {
  const [wasClosing, wasClosed] = [closing, closed];
  try {
    newest = Math.max(newest, timeOf(await worker.next()));
    late += wasClosed;
  } catch (error) {
    refusal = error.message;
    if (wasClosing && !told) {
      told = true;
      console.log("refused");
    }
  }
  // Whatever else there is to do comes in between.
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
