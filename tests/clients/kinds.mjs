// The values that Node's own libraries read from getid's IDs. The server has server-id 363: datacenter 11, worker 11.
import assert from 'node:assert';
import { DiscordSnowflake, TwitterSnowflake } from '@sapphire/snowflake';
import { ObjectId } from 'bson';
import { createClient, RESP_TYPES } from 'redis';
import * as uuid from 'uuid';

const client = createClient({ url: `redis://127.0.0.1:${process.env.GETID_PORT}` });
await client.connect();
const ids = client.withTypeMapping({ [RESP_TYPES.NUMBER]: String });
const draw = async (name) => [await ids.sendCommand(['GETID', name]), ...(await ids.sendCommand(['MGETID', '100', name]))];
// The first IDs are id-max-borrow-ms, three seconds, ahead of the clock.
const nearNow = (ms) => assert(Math.abs(ms - Date.now()) < 60_000, `${ms}`);

for (const [name, library] of [['tweets', TwitterSnowflake], ['chat', DiscordSnowflake]]) {
  const drawn = await draw(name);
  assert.equal(new Set(drawn).size, 101);
  for (const id of drawn) {
    const read = library.deconstruct(id);
    assert.deepEqual([read.workerId, read.processId], [11n, 11n]);
    assert.equal(String(read.id), id);
    nearNow(Number(read.timestamp));
  }
}
console.log('ok @sapphire/snowflake');

for (const version of [1, 4, 6, 7]) {
  const drawn = await draw(`v${version}`);
  assert.equal(new Set(drawn).size, 101);
  for (const id of drawn) {
    assert(uuid.validate(id));
    assert.equal(uuid.version(id), version);
    assert.equal(uuid.stringify(uuid.parse(id)), id);
  }
  if (version === 6) assert.equal(uuid.v1ToV6(uuid.v6ToV1(drawn[0])), drawn[0]);
  if (version >= 6) assert.deepEqual(drawn, [...drawn].sort());
}
console.log('ok uuid');

const documents = await draw('document');
for (const id of documents) {
  assert(ObjectId.isValid(id));
  assert.equal(new ObjectId(id).toHexString(), id);
  nearNow(new ObjectId(id).getTimestamp().getTime());
}
assert.deepEqual(documents, [...documents].sort());
console.log('ok bson');
await client.close();
