// node-redis, unchanged, with a running getid: `node_redis.mjs [2] [check ...]`. 2: RESP2 instead of its own default.
import assert from 'node:assert';
import { ascending, ca, exact, host, password, passwordPort, port, require, rounded, run, tlsPort } from './javascript.mjs';
const { createClient, createClientPool, ErrorReply, MultiErrorReply, RESP_TYPES } = require('redis');

const speaks = process.argv[2] === '2' ? 2 : 3;
const protocol = speaks === 2 ? { RESP: 2 } : {};

async function open(socket = {}, options = {}) {
  const client = createClient({ socket: { host, port, ...socket }, ...protocol, ...options });
  // The library reports a lost connection as this event, and reconnects automatically.
  client.on('error', () => {});
  await client.connect();
  return client;
}
const exactly = (client) => client.withTypeMapping({ [RESP_TYPES.NUMBER]: String });
const thousand = (draw) => Promise.all(Array.from({ length: 1000 }, draw));

await run('node-redis', require('redis/package.json').version, {
  async connect() {
    const client = await open({}, { database: 3, name: 'matrix' });
    assert.equal(await client.ping(), 'PONG');
    assert.equal(await client.echo('x'), 'x');
    const me = await client.clientInfo();
    assert.deepEqual([me.name, me.db], ['matrix', 3]);
    assert.match(await client.sendCommand(['CLIENT', 'INFO']), new RegExp(`\\bresp=${speaks}\\b`));
    assert((await client.clientList()).some((one) => one.name === 'matrix'));
    assert.match(await client.info('generator'), /ids_issued:/);
    assert.equal((await client.configGet('port')).port, String(port));
    await client.close();
  },
  async getid() {
    const client = await open();
    const ids = [];
    for (let i = 0; i < 1024; i++) ids.push(await exactly(client).sendCommand(['GETID']));
    ascending(ids);
    exact(ids);
    rounded([await client.sendCommand(['GETID'])]);
    await client.close();
  },
  async mgetid() {
    // IDs of MGETID are exact without a type mapping too.
    const client = await open();
    const last = await exactly(client).sendCommand(['GETID']);
    const many = await client.sendCommand(['MGETID', '100']);
    assert.equal(many.length, 100);
    ascending(many, last);
    await client.close();
  },
  async error() {
    const client = await open();
    const before = await client.clientId();
    const refused = (words, text) => assert.rejects(client.sendCommand(words), (error) => error instanceof ErrorReply && error.message.includes(text));
    await refused(['MGETID', '101'], 'ERR parameters error! argv[1] = 101');
    await refused(['MGETID', 'x'], 'ERR value is not an integer or out of range');
    await refused(['NOSUCH'], "ERR unknown command 'NOSUCH'");
    ascending([await exactly(client).sendCommand(['GETID'])]);
    assert.equal(await client.clientId(), before, 'the connection was not kept');
    await client.close();
  },
  async pipeline() {
    const client = await open();
    // Commands of the same tick are sent together.
    const ids = await thousand(() => exactly(client).sendCommand(['GETID']));
    ascending(ids);
    const transaction = exactly(client).multi();
    for (let i = 0; i < 1000; i++) transaction.addCommand(['GETID']);
    ascending(await transaction.execAsPipeline(), ids[999]);
    await client.close();
  },
  async multi() {
    const client = await open();
    // EXEC's reply is read without the type mapping, so GETID is rounded there. README recommends MGETID 1.
    rounded(await exactly(client).multi().addCommand(['GETID']).exec());
    const transaction = client.multi();
    for (let i = 0; i < 1000; i++) transaction.addCommand(['MGETID', '1']);
    const ids = (await transaction.exec()).flat();
    assert.equal(ids.length, 1000);
    ascending(ids);
    // If a command fails in EXEC, the others are answered.
    const mixed = client.multi().addCommand(['MGETID', '1']).addCommand(['MGETID', '0']).addCommand(['MGETID', '1']);
    await assert.rejects(mixed.exec(), (error) => {
      assert(error instanceof MultiErrorReply);
      assert.deepEqual(error.errorIndexes, [1]);
      ascending([...error.replies[0], ...error.replies[2]], ids[999]);
      return true;
    });
    // A command that cannot be queued aborts the transaction.
    await assert.rejects(client.multi().addCommand(['GETID']).addCommand(['MGETID']).exec(), /wrong number of arguments|EXECABORT/);
    ascending([await exactly(client).sendCommand(['GETID'])], ids[999]);
    await client.close();
  },
  async pool() {
    const pool = createClientPool({ socket: { host, port }, ...protocol }, { minimum: 50, maximum: 50 });
    pool.on('error', (error) => { throw error; });
    await pool.connect();
    assert.equal(pool.totalClients, 50);
    let waiting = 50;
    let go;
    const all = new Promise((resolve) => { go = resolve; });
    const drawn = await Promise.all(Array.from({ length: 50 }, () => pool.execute(async (client) => {
      if (--waiting === 0) go();
      await all;
      const ids = [];
      for (let i = 0; i < 400; i++) ids.push(await exactly(client).sendCommand(['GETID']));
      return ids;
    })));
    drawn.forEach((ids) => ascending(ids));
    assert.equal(new Set(drawn.flat()).size, 20_000);
    await pool.close();
  },
  async reconnect() {
    const [client, killer] = [await open(), await open()];
    const before = await client.clientId();
    const last = await exactly(client).sendCommand(['GETID']);
    const ready = new Promise((resolve) => client.once('ready', resolve));
    assert.equal(await killer.sendCommand(['CLIENT', 'KILL', 'ID', String(before)]), 1);
    await ready;
    ascending([await exactly(client).sendCommand(['GETID'])], last);
    assert.notEqual(await client.clientId(), before);
    await client.close();
    await killer.close();
  },
  async password() {
    const refused = async (options, text) => {
      const client = createClient({ socket: { host, port: passwordPort, reconnectStrategy: false }, ...protocol, ...options });
      client.on('error', () => {});
      const use = async () => { await client.connect(); await client.sendCommand(['GETID']); };
      await assert.rejects(use(), (error) => error instanceof ErrorReply && error.message.includes(text));
      client.destroy();
    };
    await refused({ password: 'wrong' }, 'WRONGPASS');
    await refused({ username: 'default', password: 'wrong' }, 'WRONGPASS');
    await refused({}, 'NOAUTH');
    for (const options of [{ password }, { username: 'default', password }]) {
      const client = await open({ port: passwordPort }, options);
      ascending([await exactly(client).sendCommand(['GETID'])]);
      await client.close();
    }
  },
  async tls() {
    const client = await open({ port: tlsPort, tls: true, ca });
    ascending(await thousand(() => exactly(client).sendCommand(['GETID'])));
    await client.close();
    const stranger = createClient({ socket: { host, port: tlsPort, tls: true, reconnectStrategy: false }, ...protocol });
    stranger.on('error', () => {});
    await assert.rejects(stranger.connect(), /unable to verify|self-signed/);
    stranger.destroy();
  },
});
