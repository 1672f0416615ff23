"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { parseUrl } = require("../lib/address.js");

const places = (url) => parseUrl(url).addresses.map(String);

test("reads hosts, ports, logins and paths", () => {
  assert.deepEqual(places("getid://a"), ["a:7890"]);
  assert.deepEqual(places("getid://a:1,b,[::1]:3/?order=given"), ["a:1", "b:7890", "[::1]:3"]);
  assert.deepEqual(places("getid+unix:///run/get%20id.sock"), ["/run/get id.sock"]);
  assert.equal(parseUrl("getids://a").isTls, true);
  assert.deepEqual(parseUrl("getid://us%40er:p%3Aw@a").login.map(String), ["us@er", "p:w"]);
  assert.deepEqual(parseUrl("getid://:pw@a").login.map(String), ["pw"]);
  assert.deepEqual(parseUrl("getid://:%ff@a").login, [Buffer.from([0xff])]);
});

test("takes the address of the environment, else the local server", () => {
  const before = process.env.GETID_URL;
  process.env.GETID_URL = "getid://elsewhere:1";
  assert.deepEqual(places(undefined), ["elsewhere:1"]);
  delete process.env.GETID_URL;
  assert.deepEqual(places(undefined), ["127.0.0.1:7890"]);
  if (before !== undefined) process.env.GETID_URL = before;
});

test("shuffles the addresses unless their order is given", () => {
  const hosts = Array.from({ length: 60 }, (_, index) => `h${index}:1`);
  assert.notDeepEqual(places(`getid://${hosts.join(",")}`), hosts);
  assert.deepEqual(places(`getid://${hosts.join(",")}`).sort(), [...hosts].sort());
  assert.deepEqual(places(`getid://${hosts.join(",")}?order=given`), hosts);
});

const wrong = [
  [5, /url is 5/],
  ["localhost:7890", /scheme of the url is none/],
  ["redis://a", /scheme of the url is "redis"/],
  ["getid://", /host 1 of the url is empty/],
  ["getid://a,,b", /host 2 of the url is empty/],
  ["getid://a:0", /1 to 65,535/],
  ["getid://a:70000", /1 to 65,535/],
  ["getid://::1", /several ':'/],
  ["getid://[::1", /no IPv6 address/],
  ["getid://a?order=random", /unknown value/],
  ["getid://a?timeout=1", /unknown option "timeout"/],
  ["getid://secret@a", /without a password/],
  ["getid://u:secret%4@a", /'%25' for '%'/],
  ["getid://u:secret?x@a", /unknown option|host/],
  ["getid+unix://run/getid.sock", /not absolute/],
  [`getid://${"a".repeat(20_000)}`, /characters/],
  [`getid://${"a,".repeat(65)}b`, /66 hosts/],
];

for (const [url, message] of wrong) {
  test(`refuses ${String(url).slice(0, 40)}`, () => {
    assert.throws(
      () => parseUrl(url),
      (failure) => message.test(failure.message) && !failure.message.includes("secret"),
    );
  });
}
