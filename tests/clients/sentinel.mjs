// ioredis and node-redis in Sentinel mode: `sentinel.mjs LIBRARY draw NAME` or `sentinel.mjs LIBRARY find NAME...`.
// LIBRARY is ioredis, ioredis-events (with its failover detector) or node-redis. See tests/fleet/sentinel.rs.
import { createRequire } from 'node:module';
import { setTimeout } from 'node:timers/promises';
const require = createRequire(`${process.env.GETID_TEST_NODE_DIR}/`);

const sentinels = process.env.SENTINELS.split(',').map((address) => {
  const [host, port] = address.split(':');
  return { host, port: Number(port) };
});

const report = (error) => console.log('error', error.message);

function ioredis(name, options) {
  const { Redis } = require('ioredis');
  const client = new Redis({ sentinels, name, stringNumbers: true, ...options });
  client.on('error', report);
  const getid = async () => {
    // An event that arrives while ioredis looks for the master ends it for good.
    if (client.status === 'end') await client.connect();
    return client.call('GETID');
  };
  return { getid, end: () => client.disconnect() };
}

async function nodeRedis(name) {
  const { createSentinel, RESP_TYPES } = require('redis');
  const commandOptions = { typeMapping: { [RESP_TYPES.NUMBER]: String } };
  const client = createSentinel({ name, sentinelRootNodes: sentinels, commandOptions });
  client.on('error', report);
  await client.connect();
  return { getid: () => client.sendCommand(false, ['GETID'], commandOptions), end: () => client.destroy() };
}

const clients = {
  'ioredis': (name) => ioredis(name, {}),
  'ioredis-events': (name) => ioredis(name, { failoverDetector: true }),
  'node-redis': nodeRedis,
};

const [library, mode, ...names] = process.argv.slice(2);
for (const name of names) {
  const client = await clients[library](name);
  do {
    try {
      console.log('id', name, String(await client.getid()));
    } catch (error) {
      report(error);
    }
    await setTimeout(20);
  } while (mode === 'draw');
  await client.end();
}
