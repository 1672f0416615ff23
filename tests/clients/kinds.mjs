// Libraries of IDs and getid read each other's IDs: time, fields, text and order of one are those of the other. The
// server has server-id 363, which is datacenter 11 and worker 11 of `tweets`; `drift` has worker 43.
import assert from 'node:assert';
import { isValidSpanId } from '@opentelemetry/api';
import { RandomIdGenerator } from '@opentelemetry/sdk-trace-base';
import { DiscordSnowflake, TwitterSnowflake } from '@sapphire/snowflake';
import { ObjectId } from 'bson';
import KSUID from 'ksuid';
import { customAlphabet, nanoid, urlAlphabet } from 'nanoid';
import { createClient, RESP_TYPES } from 'redis';
import { SnowflakeIdv1 } from 'simple-flakeid';
import { default as Snowflakify, SequenceFragment, TimestampFragment, WorkerFragment } from 'snowflakify';
import { TSID, TSIDGenerator } from 'tsid-ts';
import { TypeID, typeid } from 'typeid-js';
import { decodeTime, isValid, ulid, ulidToUUID, uuidToULID } from 'ulid';
import * as uuid from 'uuid';
import { Xid } from 'xid-ts';

const client = createClient({ url: `redis://127.0.0.1:${process.env.GETID_PORT}`, RESP: 3 });
await client.connect();
const ids = client.withTypeMapping({ [RESP_TYPES.NUMBER]: String });
const [SERVER, WORKER] = [363, 43];
const [INSTAGRAM, YITTER, GREGORIAN] = [1314220021721, 1582136402000, -12219292800000n];

// Splits a number into fields, the most significant first.
const split = (value, widths) => {
  let rest = BigInt(value);
  return Object.fromEntries(Object.entries(widths).reverse().map(([name, width]) => {
    const field = [name, rest & ((1n << BigInt(width)) - 1n)];
    rest >>= BigInt(width);
    return field;
  }));
};
// The number of bytes, or of a text of hexadecimal digits.
const number = (of) => BigInt(`0x${typeof of === 'string' ? of.replaceAll('-', '') : Buffer.from(of).toString('hex')}`);

const ofUuid = (text) => {
  assert(uuid.validate(text));
  assert.equal(uuid.stringify(uuid.parse(text)), text);
  const version = uuid.version(text);
  const bits = number(version === 6 ? uuid.v6ToV1(text) : text);
  if (version === 4) return {};
  if (version === 7) return { unix_ms: bits >> 80n, counter: (bits >> 64n) & 0xfffn, noise: bits & ((1n << 62n) - 1n) };
  const ticks = ((bits >> 64n) & 0xfffn) << 48n | ((bits >> 80n) & 0xffffn) << 32n | bits >> 96n;
  return { unix_ms: ticks / 10_000n + GREGORIAN, ...split(bits, { 'clock-seq': 14, node: 48 }) };
};

const ofUlid = (text) => {
  assert(isValid(text));
  assert.equal(uuidToULID(ulidToUUID(text)), text);
  const bits = number(ulidToUUID(text));
  return { unix_ms: decodeTime(text), ...split(bits, { counter: 16, noise: 64 }) };
};

const ofKsuid = (text) => {
  const read = KSUID.parse(text);
  assert.equal(read.string, text);
  return { unix_ms: read.date.getTime(), ...split(number(read.payload), { counter: 24, noise: 104 }) };
};

const ofTsid = (read) => ({ unix_ms: read.timestamp, ...split(read.random, { node: 10, counter: 12 }) });

const ofXid = (text) => {
  const read = Xid.parse(text);
  assert.equal(read.toString(), text);
  const machine = number(read.machine());
  return { unix_ms: read.timestamp() * 1000, machine, process: read.pid(), counter: read.counter() };
};

const ofTypeId = (prefix) => (text) => {
  const read = TypeID.fromString(text, prefix);
  assert.equal(read.toString(), text);
  return ofUuid(read.toUUID());
};

const ofTweet = (library, upper, lower) => (text) => {
  const read = library.deconstruct(text);
  assert.equal(String(read.id), text);
  return { unix_ms: read.timestamp, [upper]: read.workerId, [lower]: read.processId, counter: read.increment };
};

const nano = (alphabet, size) => (text) => {
  assert(text.length === size && [...text].every((char) => alphabet.includes(char)));
  return {};
};

const ofSpan = (text) => {
  assert(isValidSpanId(BigInt(text).toString(16).padStart(16, '0')));
  return {};
};

// Returns a span ID of the SDK below 2^63: the kind has no more bits.
const newSpan = () => {
  const made = number(new RandomIdGenerator().generateSpanId());
  return made >> 63n ? newSpan() : made;
};

// The library's times are microseconds where they have 48 bits. The upper bits of both times are 0 for 4,000 years.
const photos = new Snowflakify({ fragmentArray:
  [new TimestampFragment(41, INSTAGRAM), new WorkerFragment(13, SERVER), new SequenceFragment(10)] });
const drift = new Snowflakify({ fragmentArray:
  [new TimestampFragment(47, YITTER), new WorkerFragment(6, WORKER), new SequenceFragment(6)] });
const toots = new Snowflakify({ fragmentArray: [new TimestampFragment(47, 0), new SequenceFragment(16)] });
const ofParts = (library, ...names) => (text) =>
  Object.fromEntries(library.destructure(BigInt(text)).map(({ value }, at) => [names[at], value]));

const yitter = new SnowflakeIdv1({ workerId: WORKER, baseTime: YITTER });
const tsids = new TSIDGenerator(SERVER, 10);
const byText = (a, b) => (a < b ? -1 : Number(a > b));
const byNumber = (a, b) => byText(BigInt(a), BigInt(b));
const hexDigits = '0123456789abcdef';

// The library, the generator, the fields that the library reads from a text, an ID of the library's own, and how the
// library orders texts.
const LIBRARIES = [
  ['@sapphire/snowflake', 'tweets', ofTweet(TwitterSnowflake, 'datacenter', 'worker'),
    () => TwitterSnowflake.generate(), byNumber],
  ['@sapphire/snowflake', 'flakes', ofTweet(TwitterSnowflake, 'datacenter', 'worker'),
    () => TwitterSnowflake.generate(), byNumber],
  ['@sapphire/snowflake', 'chat', ofTweet(DiscordSnowflake, 'worker', 'process'),
    () => DiscordSnowflake.generate(), byNumber],
  ['uuid', 'v1', ofUuid, () => uuid.v1()],
  ['uuid', 'v4', ofUuid, () => uuid.v4()],
  ['uuid', 'v6', ofUuid, () => uuid.v6(), byText],
  ['uuid', 'v7', ofUuid, () => uuid.v7(), byText],
  ['uuid', 'user-v7', (text) => ofUuid(text.match(/^user_(.*)$/)[1]), () => `user_${uuid.v7()}`, byText],
  ['bson', 'document', (text) => {
    const read = new ObjectId(text);
    assert.equal(read.toHexString(), text);
    return { unix_ms: read.getTimestamp().getTime(), ...split(number(read.id), { process: 40, counter: 24 }) };
  }, () => new ObjectId().toHexString(), byText],
  ['ulid', 'ulids', ofUlid, ulid, byText],
  ['ksuid', 'ksuids', ofKsuid, () => KSUID.randomSync().string, (a, b) => KSUID.parse(a).compare(KSUID.parse(b))],
  ['ksuid', 'user-ksuids', (text) => ofKsuid(text.match(/^user_(.*)$/)[1]), () => `user_${KSUID.randomSync().string}`,
    byText],
  ['tsid-ts', 'tsids', (text) => ofTsid(TSID.fromString(text)), () => tsids.create().toString(),
    (a, b) => byText(TSID.fromString(a).number, TSID.fromString(b).number)],
  ['tsid-ts', 'tsid-integers', (text) => ofTsid(new TSID(BigInt(text))), () => tsids.create().number, byNumber],
  ['typeid-js', 'accounts', ofTypeId('user_account'), () => typeid('user_account'), byText],
  ['typeid-js', 'bare', ofTypeId(''), () => typeid(), byText],
  ['xid-ts', 'xids', ofXid, () => new Xid().toString(), (a, b) => Buffer.compare(Xid.parse(a), Xid.parse(b))],
  ['nanoid', 'nano', nano(urlAlphabet, 21), () => nanoid()],
  ['nanoid', 'codes', nano(hexDigits, 20), customAlphabet(hexDigits, 20)],
  ['snowflakify', 'photos', ofParts(photos, 'unix_ms', 'shard', 'counter'), () => photos.nextId(), byNumber],
  ['snowflakify', 'toots', ofParts(toots, 'unix_ms', 'counter'), () => toots.nextId(), byNumber],
  ['snowflakify, simple-flakeid', 'drift', ofParts(drift, 'unix_ms', 'worker', 'counter'),
    () => yitter.NextBigId(), byNumber],
  ['@opentelemetry/sdk-trace-base', 'spans', ofSpan, newSpan],
];

const compare = async (name, text, fields) => {
  const decoded = await ids.sendCommand(['DECODEID', text, name]);
  for (const [field, value] of Object.entries(fields)) {
    assert.equal(String(decoded[field]), String(value), `${name} ${text} ${field}`);
  }
  // The first IDs are id-max-borrow-ms, three seconds, ahead of the clock.
  if (decoded.unix_ms) assert(Math.abs(Number(decoded.unix_ms) - Date.now()) < 60_000, decoded.unix_ms);
};

for (const [library, name, fields, make, order] of LIBRARIES) {
  const [one, many] = [await ids.sendCommand(['GETID', name]), await ids.sendCommand(['MGETID', '100', name])];
  const drawn = [one, ...many].map(String);
  assert.equal(new Set(drawn).size, 101);
  for (const text of drawn) await compare(name, text, fields(text));
  if (order) assert.deepEqual(drawn, [...drawn].sort(order));
  for (let at = 0; at < 20; at += 1) {
    const made = String(make());
    await compare(name, made, fields(made));
  }
  console.log(`ok ${name} ${library}`);
}
await client.close();
