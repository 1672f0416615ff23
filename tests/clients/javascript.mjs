// Code shared by ioredis.mjs and node_redis.mjs: the addresses of the servers, and the checks. See
// tests/client_matrix.rs.
import assert from 'node:assert';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const { MATRIX_PORT, MATRIX_TLS_PORT, MATRIX_PASSWORD_PORT, MATRIX_PASSWORD, MATRIX_CA } = process.env;
export const host = '127.0.0.1';
export const port = Number(MATRIX_PORT);
export const tlsPort = Number(MATRIX_TLS_PORT);
export const passwordPort = Number(MATRIX_PASSWORD_PORT);
export const password = MATRIX_PASSWORD;
export const ca = readFileSync(MATRIX_CA);

// Packages are in the tester's folder, not in this file's.
export const require = createRequire(process.env.GETID_TEST_NODE_DIR + '/');

/** IDs are decimal strings, because numbers are not exact. They must ascend, above `after`. */
export function ascending(ids, after = -1n) {
  assert(ids.every((id) => typeof id === 'string' && /^\d+$/.test(id)), `no strings of digits: ${ids[0]}`);
  let last = BigInt(after);
  for (const id of ids.map(BigInt)) {
    assert(id > last, `${id} after ${last}`);
    last = id;
  }
}

/** Any 1024 consecutive IDs differ in their last ten bits, so a lost digit shows. */
export function exact(ids) {
  assert.equal(ids.length, 1024);
  assert.equal(new Set(ids.map((id) => BigInt(id) % 1024n)).size, 1024, 'lost digits');
}

/** README's warning: with the client's defaults an ID is a number, rounded to a multiple of 128. */
export function rounded(numbers) {
  assert(numbers.every((id) => typeof id === 'number' && !Number.isSafeInteger(id) && BigInt(id) % 128n === 0n));
}

/** Runs the checks named on the command line, or all. */
export async function run(name, version, checks) {
  console.log('version', name, version);
  const named = process.argv.slice(2).filter((word) => word in checks);
  for (const check of named.length > 0 ? named : Object.keys(checks)) {
    await checks[check]();
    console.log('ok', check);
  }
}
