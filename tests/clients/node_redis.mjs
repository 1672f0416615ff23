// node-redis at its defaults (RESP3) and with RESP2 against a running getid. Usage: node_redis.mjs PORT; prints OK.
import assert from 'node:assert';
import { createRequire } from 'node:module';
const require = createRequire(process.env.GETID_TEST_NODE_DIR + '/');
const { createClient, createClientPool, RESP_TYPES } = require('redis');

const port = Number(process.argv[2]);
const ascends = (ids) => ids.every((id, i) => i === 0 || BigInt(id) > BigInt(ids[i - 1]));

for (const options of [{}, { RESP: 2 }, { RESP: 3 }, { database: 3, name: 'check' }]) {
  const client = createClient({ socket: { host: '127.0.0.1', port, reconnectStrategy: false }, ...options });
  client.on('error', (error) => { throw error; });
  await client.connect();
  const ids = client.withTypeMapping({ [RESP_TYPES.NUMBER]: String });
  const first = await ids.sendCommand(['GETID']);
  const many = await ids.sendCommand(['MGETID', '100']);
  assert(many.length === 100 && ascends([first, ...many]));
  await assert.rejects(ids.sendCommand(['MGETID', '101']), /parameters error! argv\[1\] = 101/);
  const pipelined = await Promise.all(Array.from({ length: 1000 }, () => ids.sendCommand(['GETID'])));
  assert(ascends([many[99], ...pipelined]));
  const transaction = ids.multi();
  for (let i = 0; i < 1000; i++) transaction.addCommand(['MGETID', '1']);
  const inside = (await transaction.exec()).flat();
  assert(inside.length === 1000 && ascends([pipelined[999], ...inside]));
  assert.equal(await client.ping(), 'PONG');
  assert.match(await client.info('generator'), /ids_issued:/);
  await client.close();
}

const pool = await createClientPool({ socket: { host: '127.0.0.1', port } }, { minimum: 1, maximum: 20 }).connect();
const drawn = await Promise.all(Array.from({ length: 2000 }, () => pool.sendCommand(['MGETID', '1'])));
assert.equal(new Set(drawn.flat()).size, 2000);
await pool.close();
console.log('OK');
