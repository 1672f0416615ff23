// ioredis and node-redis in cluster mode: `cluster.mjs LIBRARY` repeats a round, and prints the last ID of each. LIBRARY
// is ioredis or node-redis. See tests/fleet/cluster.rs.
import assert from 'node:assert';
import { createRequire } from 'node:module';
import { setTimeout } from 'node:timers/promises';
const require = createRequire(`${process.env.GETID_TEST_NODE_DIR}/`);

const nodes = process.env.NODES.split(',');
const report = (error) => console.log('error', error.message);

function ioredis() {
  const { Cluster } = require('ioredis');
  const [host, port] = nodes[0].split(':');
  const client = new Cluster([{ host, port: Number(port) }], { redisOptions: { stringNumbers: true } });
  client.on('error', report);
  const values = (replies) => replies.map(([error, value]) => {
    if (error) throw error;
    return value;
  });
  return async () => {
    const first = await client.call('GETID');
    const ids = await client.call('MGETID', '2', '-');
    await client.incr('orders');
    values(await client.pipeline().incr('orders').incr('invoices').exec());
    values(await client.multi().incr('{shop}orders').incr('{shop}invoices').exec());
    return [first, ...ids, await client.call('GETID', '-')];
  };
}

async function nodeRedis() {
  const { createCluster, RESP_TYPES } = require('redis');
  const commandOptions = { typeMapping: { [RESP_TYPES.NUMBER]: String } };
  // It looks for other nodes at its root nodes only.
  const client = createCluster({ rootNodes: nodes.map((node) => ({ url: `redis://${node}` })), commandOptions });
  client.on('error', report);
  client.on('node-error', report);
  await client.connect();
  const send = (key, ...words) => client.sendCommand(key, false, words, commandOptions);
  return async () => {
    const first = await send(undefined, 'GETID');
    const ids = await send('-', 'MGETID', '2', '-');
    await client.incr('orders');
    await client.multi().incr('{shop}orders').incr('{shop}invoices').exec();
    return [first, ...ids, await send('-', 'GETID', '-')];
  };
}

const round = await { ioredis, 'node-redis': nodeRedis }[process.argv[2]]();
for (;;) {
  try {
    const ids = (await round()).map(BigInt);
    assert(ids.every((id, at) => at === 0 || id > ids[at - 1]), String(ids));
    console.log('id getid', String(ids.at(-1)));
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    report(error);
  }
  await setTimeout(20);
}
