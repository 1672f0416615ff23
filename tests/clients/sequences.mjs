// Programs that count in Redis from Node, unchanged, with a running getid: `sequences.mjs ioredis|node-redis`.
import assert from 'node:assert';
import { createRequire } from 'node:module';

const require = createRequire(`${process.env.GETID_TEST_NODE_DIR ?? process.cwd()}/`);
const port = Number(process.env.GETID_PORT);
const refused = (text, promise) => assert.rejects(promise, (error) => error.message.includes(text));

async function ioredis() {
  const { Redis } = require('ioredis');
  for (const options of [{}, { protocol: 2 }]) {
    const client = new Redis({ port, ...options });
    const name = `io:${options.protocol ?? 3}`;
    await refused(`no such sequence '${name}'`, client.incr(name));
    assert.equal(await client.get(name), null);
    assert.equal(await client.call('SEQUENCE', 'CREATE', name, 'START', 100), 'OK');
    assert.deepEqual([await client.incr(name), await client.incrby(name, 10)], [100, 110]);
    assert.deepEqual([await client.get(name), await client.exists(name), await client.type(name)], ['110', 1, 'string']);
    assert.equal(await client.hincrby(name, 'cur', 5), 115);
    assert.equal((await client.hgetall(name)).cur, '115');
    const replies = await client.multi().incr(name).incrby(name, 2).get(name).exec();
    assert.deepEqual(replies.map(([, reply]) => reply), [116, 118, '118']);
    assert.equal(await client.setnx(name, 5), 0);
    assert.equal(await client.set(`new:${name}`, 7, 'NX'), 'OK');
    assert.equal(await client.incr(`new:${name}`), 8);
    await refused('a sequence never goes back', client.set(name, 5));
    await refused('it never goes back', client.decr(name));
    const found = [];
    for await (const names of client.scanStream({ match: `*${name}`, count: 1 })) found.push(...names);
    assert.deepEqual(found.sort(), [name, `new:${name}`].sort());
    client.disconnect();
  }
}

async function nodeRedis() {
  const { createClient } = require('redis');
  for (const RESP of [2, 3]) {
    const client = await createClient({ url: `redis://127.0.0.1:${port}`, RESP }).connect();
    const name = `nr:${RESP}`;
    await refused(`no such sequence '${name}'`, client.incr(name));
    assert.equal(await client.get(name), null);
    assert.equal(await client.sendCommand(['SEQUENCE', 'CREATE', name, 'START', '100']), 'OK');
    assert.deepEqual([await client.incr(name), await client.incrBy(name, 10)], [100, 110]);
    assert.deepEqual([await client.get(name), await client.exists(name), await client.type(name)], ['110', 1, 'string']);
    assert.equal(await client.hIncrBy(name, 'cur', 5), 115);
    assert.equal((await client.hGetAll(name)).cur, '115');
    assert.deepEqual(await client.multi().incr(name).incrBy(name, 2).get(name).exec(), [116, 118, '118']);
    assert.equal(await client.set(name, 5, { NX: true }), null);
    await refused('a sequence never goes back', client.set(name, '5'));
    const found = [];
    for await (const names of client.scanIterator({ MATCH: `*${name}`, COUNT: 1 })) found.push(...[names].flat());
    assert.deepEqual(found, [name]);
    // A second connection that subscribes, as in applications.
    const listener = client.duplicate();
    await listener.connect();
    await listener.subscribe('news', () => assert.fail('a message without a publisher'));
    assert.equal(await client.publish('news', 'x'), 0);
    await listener.unsubscribe('news');
    listener.destroy();
    client.destroy();
  }
}

/* Counters of a day; RedisAtomicLong's and rate limiters' commands. */
async function ioredisDated() {
  const { Redis } = require('ioredis');
  const client = new Redis({ port });
  const day = 'orders:2026-11-27';
  const replies = await client.multi().incr(day).expire(day, 86400).exec();
  assert.deepEqual(replies.map(([, reply]) => reply), [1, 1]);
  const piped = await client.pipeline().incr(day).expire(day, 86400).exec();
  assert.deepEqual(piped.map(([, reply]) => reply), [2, 1]);
  assert.ok(await client.ttl(day) > 86390);
  const limit = 'limit:2026:ann';
  assert.equal(await client.set(limit, 0, 'EX', 60, 'NX'), 'OK');
  assert.equal(await client.set(limit, 0, 'EX', 60, 'NX'), null);
  assert.deepEqual([await client.incr(limit), await client.pexpire(limit, 5000), await client.incr(limit)], [1, 1, 2]);
  assert.equal(await client.pexpireat(limit, 0), 1);
  await refused(`PERSIST ${limit}`, client.incr(limit));
  assert.deepEqual([await client.persist(limit), await client.incr(limit)], [1, 3]);
  client.disconnect();
}

async function nodeRedisDated() {
  const { createClient } = require('redis');
  const client = await createClient({ url: `redis://127.0.0.1:${port}` }).connect();
  const day = 'orders:2026-11-27';
  assert.deepEqual(await client.multi().incr(day).expire(day, 86400).exec(), [1, 1]);
  assert.deepEqual([await client.incr(day), await client.expire(day, 86400, 'NX')], [2, 0]);
  assert.equal(await client.set('limit:2026', 0, { EX: 60, NX: true }), 'OK');
  assert.deepEqual([await client.incr('limit:2026'), await client.pExpire('limit:2026', 60_000)], [1, 1]);
  assert.equal(await client.expire(day, 0), 1);
  await refused(`PERSIST ${day}`, client.incr(day));
  assert.deepEqual([await client.persist(day), await client.incr(day)], [1, 3]);
  client.destroy();
}

const all = {
  ioredis, 'node-redis': nodeRedis, 'ioredis-dated': ioredisDated, 'node-redis-dated': nodeRedisDated,
};
await all[process.argv[2]]();
console.log(`ok ${process.argv[2]}`);
