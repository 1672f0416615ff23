// Short codes that getid gives are read by the library, and the library's own codes are read by getid.

import assert from 'node:assert/strict'
import { createClient } from 'redis'
import Sqids from 'sqids'

const ids = createClient({ url: `redis://127.0.0.1:${process.env.GETID_PORT}` })
await ids.connect()

const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
const CODES = {
  short: ['', new Sqids()],
  long: ['O-', new Sqids({ minLength: 10 })],
  plain: ['', new Sqids({ alphabet: BASE58 })],
}

// The value of a sequence's code, as the server reads it.
async function valueOf(text, name) {
  const fields = await ids.sendCommand(['DECODEID', text, name])
  // A map of RESP3 is an object.
  return Number(Array.isArray(fields) ? fields[fields.indexOf('value') + 1] : fields.value)
}

for (const [name, [prefix, sqids]] of Object.entries(CODES)) {
  const texts = await ids.sendCommand(['MGETID', '100', name])
  for (const [place, text] of texts.entries()) {
    assert.ok(text.startsWith(prefix), text)
    const digits = text.slice(prefix.length)
    assert.deepEqual(sqids.decode(digits), [place + 1])
    assert.equal(sqids.encode([place + 1]), digits)
    assert.equal(await valueOf(text, name), place + 1)
  }
  // 4572721 has a text without the library's words at the second attempt only.
  for (const value of [4572721, 2 ** 52 + 1, ...Array.from({ length: 50 }, (_, n) => 7 ** (n % 18) + n)]) {
    assert.equal(await valueOf(prefix + sqids.encode([value]), name), value)
  }
}
console.log('ok sqids')
await ids.close()
