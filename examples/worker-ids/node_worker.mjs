// IDs made in this process, with a worker id that getid leases (docs/worker-ids.md).
//
//     npm install clients/node
//     node examples/worker-ids/node_worker.mjs

import { Client, Layout } from "getid-client";

// One pool serves one layout, so the programs of a team share these two.
const POOL = "orders";
const LAYOUT = Layout.TWITTER;

const client = new Client(); // The address is GETID_URL, by default getid://127.0.0.1:7890.
const worker = client.worker(POOL, LAYOUT);
const ids = [];
for (let count = 0; count < 1000; count++) ids.push(await worker.next());
await client.close();

const ascends = ids.every((id, index) => index === 0 || ids[index - 1] < id);
console.log(String(ids[0]));
console.log(`worker id ${LAYOUT.parts(ids[0]).worker}: ${new Set(ids).size} different IDs, ascending: ${ascends}`);
