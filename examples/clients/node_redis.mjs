// IDs in Node, with node-redis (npm install redis). A number would be rounded: ask for strings.
import { createClient, RESP_TYPES } from 'redis';

const client = createClient({ url: `redis://127.0.0.1:${process.env.GETID_PORT ?? 7890}` });
await client.connect();
const ids = client.withTypeMapping({ [RESP_TYPES.NUMBER]: String });
const orderId = await ids.sendCommand(['GETID']);
const lineIds = await ids.sendCommand(['MGETID', '3']);
const many = await Promise.all(Array.from({ length: 1000 }, () => ids.sendCommand(['GETID'])));

console.log(orderId);
console.log(lineIds);
const ascending = many.every((id, i) => i === 0 || BigInt(id) > BigInt(many[i - 1]));
console.log(new Set(many).size, 'different IDs, ascending:', ascending);
await client.close();
