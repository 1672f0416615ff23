// Seals and opens IDs as getid does, for programs that hold the key file (docs/sealed.md has the format).
//
//     node sealed.mjs seal /etc/getid/order.key order base58 786829717956198794
//     node sealed.mjs open /etc/getid/order.key order base58 rJv2SgqEbQ4X
//
// `name` is the name of the generator: it is a part of the seal. `alphabet` is a word such as base58, or the
// characters.
// IDs are of type BigInt: a Number is exact only up to 2^53.

import { createCipheriv, createHmac } from "node:crypto";
import { closeSync, fstatSync, openSync, readFileSync, realpathSync } from "node:fs";
import { pathToFileURL } from "node:url";

const ID_BITS = 63n;
const KEY_NUMBERS = 16n;
const CHECKS_MIN = 8n;
// Permission bits that a key file must not have: writing by its group, and all of others.
const FOREIGN_BITS = 0o027;
const ALPHABETS = {
  decimal: "0123456789",
  hex: "0123456789abcdef",
  base32: "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
  base36: "0123456789abcdefghijklmnopqrstuvwxyz",
  base58: "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
  base62: "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
};

/** Reason why an ID is not sealed, or a text is not opened. `kind` is one word for it. */
export class SealError extends Error {
  constructor(kind, sentence) {
    super(sentence);
    this.kind = kind;
  }
}

/** Returns the sealed text of an ID. */
export function seal(keyFile, name, id, alphabet = "base58") {
  if (id < 0n || id >= 1n << ID_BITS) throw new SealError("id", `the ID ${id} is not an integer of ${ID_BITS} bits`);
  const { keys, sealing } = readKeys(keyFile);
  const characters = charactersOf(alphabet);
  const { length, checks } = shape(characters.length);
  const key = keys.get(sealing);
  const sealedBits = ff1Encrypt(key, Buffer.from(name), 2, bitsOf(id));
  const head = BigInt(sealing) * checks + checkOf(key, name, id, checks);
  const number = (head << ID_BITS) | numberOf(2, sealedBits);
  return numeralsOf(characters.length, length, number).map((digit) => characters[digit]).join("");
}

/** Returns the ID of a sealed text, and the number of the key that sealed it. */
export function openText(keyFile, name, text, alphabet = "base58") {
  const { keys } = readKeys(keyFile);
  const characters = charactersOf(alphabet);
  const { length, checks } = shape(characters.length);
  const typed = [...text];
  if (typed.length !== length) {
    throw new SealError("length", `the text has ${typed.length} characters, expected ${length}`);
  }
  const strange = typed.find((character) => !characters.includes(character));
  if (strange !== undefined) {
    throw new SealError(
      "character",
      `the text has the character '${strange}', which is not in the alphabet ${characters}`,
    );
  }
  const number = numberOf(characters.length, typed.map((character) => characters.indexOf(character)));
  const head = number >> ID_BITS;
  const [keyNumber, check] = [Number(head / checks), head % checks];
  if (keyNumber >= KEY_NUMBERS) throw new SealError("range", "the text is no sealed ID: its number is too large");
  const key = keys.get(keyNumber);
  if (key === undefined) {
    const known = [...keys.keys()].sort((a, b) => a - b).join(", ");
    throw new SealError("key", `the text was sealed with key ${keyNumber}; ${keyFile} has the keys ${known}`);
  }
  const sealedBits = bitsOf(number & ((1n << ID_BITS) - 1n));
  const id = numberOf(2, ff1Decrypt(key, Buffer.from(name), 2, sealedBits));
  if (checkOf(key, name, id, checks) !== check) {
    throw new SealError(
      "check",
      `the text was not sealed for '${name}' with key ${keyNumber}: a mistyped character, another generator, or ` +
        "another key",
    );
  }
  return { id, keyNumber };
}

/** Returns the text of a key file, which other users must not use and its group must not write. */
function readPrivate(keyFile) {
  const file = openSync(keyFile);
  try {
    const mode = fstatSync(file).mode & 0o7777;
    if (mode & FOREIGN_BITS) {
      throw new SealError(
        "key file",
        `${keyFile} is open to other users (mode ${mode.toString(8)}), must not be used by others nor written by its ` +
          `group: chmod g-w,o= ${keyFile}`,
      );
    }
    return readFileSync(file, "utf8");
  } finally {
    closeSync(file);
  }
}

/** Returns the keys by their numbers, and the number of the key that seals: the last one without `open-only`. */
function readKeys(keyFile) {
  const keys = new Map();
  let sealing;
  readPrivate(keyFile).split("\n").forEach((line, place) => {
    const words = line.trim().split(/\s+/);
    if (words[0] === "" || words[0].startsWith("#")) return;
    const [number, hex = "", ...rest] = words;
    const isNumber = /^\d+$/.test(number) && Number(number) < KEY_NUMBERS && !keys.has(Number(number));
    if (!isNumber || !/^[0-9A-Fa-f]{64}$/.test(hex) || !["", "open-only"].includes(rest.join(" "))) {
      throw new SealError(
        "key file",
        `${keyFile}, line ${place + 1}: expected 'NUMBER HEX' or 'NUMBER HEX open-only', with a new number of 0 to ` +
          `${KEY_NUMBERS - 1n} and 64 hexadecimal digits`,
      );
    }
    keys.set(Number(number), Buffer.from(hex, "hex"));
    if (rest.length === 0) sealing = Number(number);
  });
  if (sealing === undefined) {
    throw new SealError("key file", `${keyFile} has no key that seals: a line 'NUMBER HEX' without open-only`);
  }
  return { keys, sealing };
}

function charactersOf(alphabet) {
  const characters = ALPHABETS[alphabet] ?? alphabet;
  if (characters.length < 10 || characters.length > 64 || new Set(characters).size < characters.length) {
    const words = Object.keys(ALPHABETS).join(", ");
    throw new SealError(
      "alphabet",
      `the alphabet ${alphabet} is no word of ${words}, and not 10 to 64 characters, each once`,
    );
  }
  return characters;
}

/** Returns the length of texts, and the number of different checks: the shortest length with at least 8 checks. */
function shape(radix) {
  let length = 1;
  const checks = () => BigInt(radix) ** BigInt(length) / (KEY_NUMBERS << ID_BITS);
  while (checks() < CHECKS_MIN) length += 1;
  return { length, checks: checks() };
}

function checkOf(key, name, id, checks) {
  const hmac = createHmac("sha256", key).update(name).update(Buffer.of(0)).update(bytesOf(id, 8));
  return hmac.digest().readBigUInt64BE() % checks;
}

const bitsOf = (id) => numeralsOf(2, Number(ID_BITS), id);

// FF1 of NIST SP 800-38G, section 5.1. A text is an array of numerals, the most significant first.

export function ff1Encrypt(key, tweak, radix, text) {
  const half = Math.floor(text.length / 2);
  let [a, b] = [text.slice(0, half), text.slice(half)];
  for (let index = 0; index < 10; index += 1) {
    const c = numberOf(radix, a) + roundValue(key, tweak, radix, text.length, index, b);
    [a, b] = [b, numeralsOf(radix, a.length, c)];
  }
  return [...a, ...b];
}

export function ff1Decrypt(key, tweak, radix, text) {
  const half = Math.floor(text.length / 2);
  let [a, b] = [text.slice(0, half), text.slice(half)];
  for (let index = 9; index >= 0; index -= 1) {
    const size = BigInt(radix) ** BigInt(b.length);
    const c = (numberOf(radix, b) - roundValue(key, tweak, radix, text.length, index, a)) % size;
    [a, b] = [numeralsOf(radix, b.length, c < 0n ? c + size : c), a];
  }
  return [...a, ...b];
}

/** Returns y, the value of a round: steps 6.i to 6.iv of the standard, for texts whose d is at most 16. */
function roundValue(key, tweak, radix, length, index, numerals) {
  const u = Math.floor(length / 2);
  const v = length - u;
  const b = Math.ceil((BigInt(radix) ** BigInt(v) - 1n).toString(16).length / 2);
  const d = 4 * Math.ceil(b / 4) + 4;
  const lengths = [...bytesOf(length, 4), ...bytesOf(tweak.length, 4)];
  const p = Buffer.from([1, 2, 1, ...bytesOf(radix, 3), 10, u % 256, ...lengths]);
  const zeros = Buffer.alloc((16 - ((tweak.length + b + 1) % 16)) % 16);
  const q = Buffer.concat([tweak, zeros, Buffer.of(index), bytesOf(numberOf(radix, numerals), b)]);
  // PRF: the last block of AES in CBC mode that begins with zeros.
  const cipher = createCipheriv(`aes-${key.length * 8}-cbc`, key, Buffer.alloc(16)).setAutoPadding(false);
  const r = Buffer.concat([cipher.update(p), cipher.update(q), cipher.final()]).subarray(-16);
  return BigInt(`0x${r.subarray(0, d).toString("hex")}`);
}

function bytesOf(number, length) {
  return Buffer.from(number.toString(16).padStart(2 * length, "0"), "hex");
}

export function numberOf(radix, numerals) {
  return numerals.reduce((number, numeral) => number * BigInt(radix) + BigInt(numeral), 0n);
}

/** Returns the lowest `length` numerals of a number. */
function numeralsOf(radix, length, number) {
  const numerals = [];
  for (let place = 0; place < length; place += 1) {
    numerals.unshift(Number(number % BigInt(radix)));
    number /= BigInt(radix);
  }
  return numerals;
}

function main([verb, keyFile, name, alphabet, ...values]) {
  if (!["seal", "open"].includes(verb) || values.length === 0) {
    console.error("usage: sealed.mjs seal KEY-FILE NAME ALPHABET ID...");
    console.error("       sealed.mjs open KEY-FILE NAME ALPHABET TEXT...");
    process.exit(2);
  }
  for (const value of values) {
    if (verb === "open") {
      console.log(`${openText(keyFile, name, value, alphabet).id}`);
    } else if (/^\d+$/.test(value)) {
      console.log(seal(keyFile, name, BigInt(value), alphabet));
    } else {
      throw new SealError("id", `the ID '${value}' is not an integer of ${ID_BITS} bits`);
    }
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(realpathSync(process.argv[1])).href) {
  try {
    main(process.argv.slice(2));
  } catch (error) {
    // Errors of the file system have a code.
    if (!(error instanceof SealError) && error.code === undefined) throw error;
    console.error(`sealed.mjs: ${error.message}`);
    process.exitCode = 1;
  }
}
