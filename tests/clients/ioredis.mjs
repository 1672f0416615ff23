// ioredis, unchanged, with a running getid: `ioredis.mjs [2] [check ...]`. 2: RESP2 instead of its own default.
import assert from 'node:assert';
import { ascending, ca, exact, host, password, passwordPort, port, require, rounded, run, tlsPort } from './javascript.mjs';
const { Redis, ReplyError } = require('ioredis');

const speaks = process.argv[2] === '2' ? 2 : 3;
const protocol = speaks === 2 ? { protocol: 2 } : {};

/** A client with `stringNumbers`, as in README. The reply is the second of each pair of a pipeline's results. */
const open = (options = {}) => new Redis({ host, port, stringNumbers: true, ...protocol, ...options });
const replies = (pairs) => pairs.map(([error, reply]) => { assert.ifError(error); return reply; });

async function thousand(queue) {
  for (let i = 0; i < 1000; i++) queue.call('GETID');
  const ids = replies(await queue.exec());
  assert.equal(ids.length, 1000);
  ascending(ids);
  return ids;
}

await run('ioredis', require('ioredis/package.json').version, {
  async connect() {
    const client = open({ db: 3, connectionName: 'matrix' });
    assert.equal(await client.ping(), 'PONG');
    assert.equal(await client.echo('x'), 'x');
    const me = await client.client('INFO');
    assert.match(me, /\bname=matrix\b.*\bdb=3\b/);
    assert.match(me, new RegExp(`\\bresp=${speaks}\\b`));
    assert.match(await client.client('LIST'), /name=matrix/);
    assert.match(await client.info('generator'), /ids_issued:/);
    assert.deepEqual([await client.config('GET', 'port')].flat(2).map(String).pop(), String(port));
    await client.quit();
  },
  async getid() {
    const client = open();
    const ids = [];
    for (let i = 0; i < 1024; i++) ids.push(await client.call('GETID'));
    ascending(ids);
    exact(ids);
    await client.quit();
    const defaults = open({ stringNumbers: false });
    rounded([await defaults.call('GETID')]);
    await defaults.quit();
  },
  async mgetid() {
    // IDs of MGETID are exact without stringNumbers too.
    const client = open({ stringNumbers: false });
    const [first] = await client.call('MGETID', 1);
    const many = await client.call('MGETID', 100);
    assert.equal(many.length, 100);
    ascending(many, first);
    await client.quit();
  },
  async error() {
    const client = open();
    const before = await client.client('ID');
    const refused = (words, text) => assert.rejects(client.call(...words), (error) => error instanceof ReplyError && error.message.includes(text));
    await refused(['MGETID', 101], 'ERR parameters error! argv[1] = 101');
    await refused(['MGETID', 'x'], 'ERR value is not an integer or out of range');
    await refused(['NOSUCH'], "ERR unknown command 'NOSUCH'");
    ascending([await client.call('GETID')]);
    assert.equal(await client.client('ID'), before, 'the connection was not kept');
    await client.quit();
  },
  async pipeline() {
    const client = open();
    const ids = await thousand(client.pipeline());
    // A failed command has an error in its place, and the others are answered.
    const [[, one], [error], [, three]] = await client.pipeline().call('GETID').call('MGETID', 0).call('GETID').exec();
    assert(error instanceof ReplyError);
    ascending([one, three], ids[999]);
    await client.quit();
    const automatic = open({ enableAutoPipelining: true });
    ascending(await Promise.all(Array.from({ length: 1000 }, () => automatic.call('GETID'))), three);
    await automatic.quit();
  },
  async multi() {
    const client = open();
    const ids = await thousand(client.multi());
    const [[, one], [error], [, three]] = await client.multi().call('GETID').call('MGETID', 0).call('GETID').exec();
    assert(error instanceof ReplyError);
    ascending([one, three], ids[999]);
    // A command that cannot be queued aborts the transaction.
    await assert.rejects(client.multi().call('GETID').call('MGETID').exec(), /EXECABORT/);
    ascending([await client.call('GETID')], three);
    await client.quit();
  },
  async pool() {
    // The library has no pool: fifty clients.
    const clients = Array.from({ length: 50 }, () => open());
    await Promise.all(clients.map((client) => client.ping()));
    const drawn = await Promise.all(clients.map(async (client) => {
      const ids = [];
      for (let i = 0; i < 400; i++) ids.push(await client.call('GETID'));
      return ids;
    }));
    drawn.forEach((ids) => ascending(ids));
    assert.equal(new Set(drawn.flat()).size, 20_000);
    await Promise.all(clients.map((client) => client.quit()));
  },
  async reconnect() {
    const [client, killer] = [open(), open()];
    const before = await client.client('ID');
    const last = await client.call('GETID');
    assert.equal(String(await killer.client('KILL', 'ID', before)), '1');
    ascending([await client.call('GETID')], last);
    assert.notEqual(await client.client('ID'), before);
    await client.quit();
    await killer.quit();
  },
  async password() {
    const refused = async (options, text) => {
      const client = open({ port: passwordPort, retryStrategy: null, ...options });
      const errors = [];
      client.on('error', (error) => errors.push(error));
      await assert.rejects(client.call('GETID'));
      client.disconnect();
      assert(errors.some((error) => error.message.includes(text)), `no ${text}: ${errors}`);
    };
    await refused({ password: 'wrong' }, 'WRONGPASS');
    await refused({ username: 'default', password: 'wrong' }, 'WRONGPASS');
    await refused({}, 'NOAUTH');
    for (const options of [{ password }, { username: 'default', password }]) {
      const client = open({ port: passwordPort, ...options });
      ascending([await client.call('GETID')]);
      await client.quit();
    }
  },
  async tls() {
    const client = open({ port: tlsPort, tls: { ca } });
    await thousand(client.pipeline());
    await client.quit();
    const stranger = open({ port: tlsPort, tls: {}, retryStrategy: null });
    const errors = [];
    stranger.on('error', (error) => errors.push(error));
    await assert.rejects(stranger.call('GETID'));
    assert(errors.some((error) => /unable to verify|self-signed/.test(error.message)), `${errors}`);
    stranger.disconnect();
  },
});
