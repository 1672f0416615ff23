// Checks examples/sealed/sealed.mjs by the samples of NIST and by getid's own vectors.
//
//     node sealed_vectors.mjs FOLDER-OF-SEALED VECTORS.json

import { deepEqual, equal } from "node:assert/strict";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, vectors] = process.argv.slice(2);
const { ff1Decrypt, ff1Encrypt, openText, seal } = await import(pathToFileURL(resolve(join(folder, "sealed.mjs"))));

// Samples 7 to 9 of NIST's FF1samples.pdf, AES-256: radix, tweak, plain text, sealed text.
const KEY = Buffer.from("2B7E151628AED2A6ABF7158809CF4F3CEF4359D8D580AA4F7F036D6F04FC6A94", "hex");
const SAMPLES = [
  [10, "", "0123456789", "6657667009"],
  [10, "39383736353433323130", "0123456789", "1001623463"],
  [36, "3737373770717273373737", "0123456789abcdefghi", "xs8a0azh2avyalyzuwd"],
];
for (const [radix, hex, ...texts] of SAMPLES) {
  const tweak = Buffer.from(hex, "hex");
  const [plain, sealed] = texts.map((text) => [...text].map((digit) => Number.parseInt(digit, 36)));
  deepEqual(ff1Encrypt(KEY, tweak, radix, plain), sealed);
  deepEqual(ff1Decrypt(KEY, tweak, radix, sealed), plain);
}
console.log("ok NIST");

const { key_file: lines, sealed, refused } = JSON.parse(readFileSync(vectors, "utf8"));
const scratch = mkdtempSync(join(tmpdir(), "sealed-"));

/** Writes the keys of the vectors to a file, of which one seals. */
function keyFile(sealing) {
  const path = join(scratch, `${sealing}.key`);
  const seals = (line) => sealing === undefined || Number(line.split(" ")[0]) === sealing;
  const marked = lines.map((line) => (seals(line) ? line : `${line} open-only`));
  writeFileSync(path, ["# keys", "", ...marked, ""].join("\n"));
  chmodSync(path, 0o640);
  return path;
}

/** Returns one word for the error of a function; `undefined` if it has none. */
function kindOf(open) {
  try {
    open();
  } catch (error) {
    return error.kind;
  }
  return undefined;
}

try {
  for (const { generator, alphabet, key, id, text } of sealed) {
    equal(seal(keyFile(key), generator, BigInt(id), alphabet), text);
    deepEqual(openText(keyFile(key), generator, text, alphabet), { id: BigInt(id), keyNumber: key });
  }
  for (const { generator, alphabet, text, error } of refused) {
    equal(kindOf(() => openText(keyFile(), generator, text, alphabet)), error, text);
  }
  for (const mode of [0o604, 0o644, 0o620, 0o601]) {
    const path = keyFile();
    chmodSync(path, mode);
    equal(kindOf(() => seal(path, "order", 1n)), "key file", mode.toString(8));
  }
} finally {
  rmSync(scratch, { recursive: true });
}
console.log(`ok ${sealed.length} sealed, ${refused.length} refused`);
