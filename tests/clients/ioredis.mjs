// ioredis at its defaults against a running getid. Usage: ioredis.mjs PORT; prints OK.
import assert from 'node:assert';
import { createRequire } from 'node:module';
const require = createRequire(process.env.GETID_TEST_NODE_DIR + '/');
const { Redis } = require('ioredis');

const port = Number(process.argv[2]);
const ascends = (ids) => ids.every((id, i) => i === 0 || BigInt(id) > BigInt(ids[i - 1]));

for (const options of [{}, { db: 3, connectionName: 'check' }, { enableAutoPipelining: true }]) {
  const client = new Redis({ port, stringNumbers: true, retryStrategy: null, ...options });
  const first = await client.call('GETID');
  const many = await client.call('MGETID', 100);
  assert(many.length === 100 && ascends([first, ...many]));
  await assert.rejects(client.call('MGETID', 101), /parameters error! argv\[1\] = 101/);
  const pipeline = client.pipeline();
  for (let i = 0; i < 1000; i++) pipeline.call('GETID');
  const pipelined = (await pipeline.exec()).map(([error, id]) => { assert.ifError(error); return id; });
  assert(ascends([many[99], ...pipelined]));
  const transaction = client.multi();
  for (let i = 0; i < 1000; i++) transaction.call('GETID');
  const inside = (await transaction.exec()).map(([error, id]) => { assert.ifError(error); return id; });
  assert(inside.length === 1000 && ascends([pipelined[999], ...inside]));
  assert.equal(await client.ping(), 'PONG');
  await client.quit();
}
console.log('OK');
