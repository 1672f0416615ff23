// IDs in Node, with ioredis (npm install ioredis). stringNumbers keeps all 63 bits; without it IDs are rounded.
import { Redis } from 'ioredis';

const ids = new Redis({ port: Number(process.env.GETID_PORT ?? 7890), stringNumbers: true });

const orderId = await ids.call('GETID');
const lineIds = await ids.call('MGETID', 3);
const many = await Promise.all(Array.from({ length: 1000 }, () => ids.call('GETID')));

console.log(orderId);
console.log(lineIds);
console.log(new Set(many).size, 'different IDs, ascending:', many.every((id, i) => i === 0 || BigInt(id) > BigInt(many[i - 1])));
ids.disconnect();
