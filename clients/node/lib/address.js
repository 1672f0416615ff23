"use strict";

/** Addresses: reads `getid://user:password@host:7890,host2`. */

const { randomInt } = require("node:crypto");
const { show } = require("./errors.js");

const PORT = 7890;
const URL_LENGTH_MAX = 16_384;
const HOSTS_MAX = 64;
const SCHEMES = ["getid", "getids", "getid+unix"];

/** One server: a host and a port, or the path of a Unix socket. */
class Address {
  constructor(host, port, path = null) {
    this.host = host;
    this.port = port;
    this.path = path;
  }

  toString() {
    if (this.path !== null) return this.path;
    return this.host.includes(":") ? `[${this.host}]:${this.port}` : `${this.host}:${this.port}`;
  }
}

/**
 * Reads `url`, else `GETID_URL`, else the local server. Returns the `addresses` in the order of use, whether they use
 * TLS, and the arguments of `AUTH`. No message contains a login.
 */
function parseUrl(url = process.env.GETID_URL || `getid://127.0.0.1:${PORT}`) {
  if (typeof url !== "string") throw new TypeError(`url is ${show(url)}, must be a string such as 'getid://127.0.0.1'`);
  if (url.length > URL_LENGTH_MAX) {
    throw new RangeError(`url has ${url.length} characters, must have at most ${URL_LENGTH_MAX}`);
  }
  const [, scheme, place, query = ""] = /^([^:/@]*):\/\/([^?]*)(?:\?(.*))?$/s.exec(url) ?? [];
  if (!SCHEMES.includes(scheme)) {
    const found = scheme === undefined ? "none" : show(scheme);
    throw new TypeError(`scheme of the url is ${found}, must be 'getid', 'getids' or 'getid+unix'`);
  }
  const isShuffled = readOrder(query);
  const at = place.lastIndexOf("@");
  const login = at < 0 ? [] : readLogin(place.slice(0, at));
  const rest = place.slice(at + 1);
  const addresses = scheme === "getid+unix" ? [readPath(rest)] : readHosts(rest);
  if (isShuffled) shuffle(addresses);
  return { addresses, isTls: scheme === "getids", login };
}

function readOrder(query) {
  let isShuffled = true;
  for (const option of query.split("&").filter(Boolean)) {
    const [name, value] = option.split("=", 2);
    if (name !== "order") {
      // A '?' in a password that is not percent-encoded leads here, so only a plain word is shown.
      const found = /^[a-z_]+$/i.test(name) && !query.includes("@") ? show(name) : "(not shown)";
      throw new TypeError(`url has the unknown option ${found}, must be 'order=given'; write '%3F' for '?' in a login`);
    }
    if (value !== "given") throw new TypeError("option order of the url has an unknown value, must be 'order=given'");
    isShuffled = false;
  }
  return isShuffled;
}

function readLogin(text) {
  const colon = text.indexOf(":");
  if (colon < 0) {
    throw new TypeError("url has a user without a password, must be 'getid://user:password@host' or without '@'");
  }
  const user = unquote("user", text.slice(0, colon));
  const password = unquote("password", text.slice(colon + 1));
  return user.length > 0 ? [user, password] : [password];
}

function unquote(part, text) {
  const pieces = text.split("%");
  const bytes = [Buffer.from(pieces[0])];
  for (const piece of pieces.slice(1)) {
    if (!/^[0-9a-f]{2}/i.test(piece)) {
      throw new TypeError(`${part} of the url has a '%' without two hex digits: write '%25' for '%'`);
    }
    bytes.push(Buffer.from(piece.slice(0, 2), "hex"), Buffer.from(piece.slice(2)));
  }
  return Buffer.concat(bytes);
}

function readPath(text) {
  if (!text.startsWith("/")) {
    throw new TypeError("path of the url is not absolute, must be as in 'getid+unix:///run/getid.sock'");
  }
  return new Address("", 0, unquote("path", text).toString());
}

function readHosts(text) {
  const names = text.replace(/\/$/, "").split(",");
  if (names.length > HOSTS_MAX) throw new RangeError(`url has ${names.length} hosts, must have at most ${HOSTS_MAX}`);
  return names.map((name, index) => readHost(name, `host ${index + 1} of the url`));
}

// The texts are not shown: without an '@' a password would be taken for a port.
function readHost(text, where) {
  const found = text.startsWith("[")
    ? /^\[([0-9a-f:.%]+)\](?::(.*))?$/is.exec(text)
    : /^([^:]*)(?::(.*))?$/s.exec(text);
  if (!found) throw new TypeError(`${where} is no IPv6 address, must be as in '[::1]:${PORT}'`);
  const [, host, port = ""] = found;
  if (port.includes(":")) throw new TypeError(`${where} has several ':': write IPv6 addresses as '[::1]:${PORT}'`);
  if (!host) throw new TypeError(`${where} is empty, must be as in 'getid://127.0.0.1:${PORT}'`);
  if (port && !(/^\d{1,5}$/.test(port) && Number(port) >= 1 && Number(port) <= 65_535)) {
    throw new TypeError(`${where} has a port that is not 1 to 65,535, must be as in 'getid://127.0.0.1:${PORT}'`);
  }
  return new Address(host, port ? Number(port) : PORT);
}

function shuffle(items) {
  for (let left = items.length; left > 1; left -= 1) {
    const index = randomInt(left);
    [items[left - 1], items[index]] = [items[index], items[left - 1]];
  }
}

module.exports = { parseUrl };
