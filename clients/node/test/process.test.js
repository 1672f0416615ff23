"use strict";

/** Tests of programs: their end, a blocked event loop, garbage collection, copies, TLS, and both forms of modules. */

const assert = require("node:assert/strict");
const { execFileSync, spawn } = require("node:child_process");
const { once } = require("node:events");
const fs = require("node:fs");
const net = require("node:net");
const os = require("node:os");
const path = require("node:path");
const { test } = require("node:test");
const { MessageChannel, Worker: Thread } = require("node:worker_threads");
const v8 = require("node:v8");
const { Client, Closed, Layout, Sequence, Worker } = require("../index.js");
const { Timer } = require("../lib/clock.js");
const { FakeClient } = require("../testing.js");
const { FakeServer, OK, counting, integers, lease, withClient } = require("./support.js");

const INDEX = path.join(__dirname, "..", "index.js");

/** Runs a program, and returns what it printed once it has ended by itself. */
async function run(url, source, ...options) {
  const head = `const { Client, Layout } = require(${JSON.stringify(INDEX)}); const url = ${JSON.stringify(url)};`;
  const child = spawn(process.execPath, [...options, "-e", head + source], { stdio: ["ignore", "pipe", "inherit"] });
  let printed = "";
  child.stdout.on("data", (chunk) => (printed += chunk));
  const [code] = await once(child, "close");
  return { code, printed: printed.trim() };
}

test("a program with an open client ends by itself", async () => {
  const server = await FakeServer.start((words) => {
    return words[1] === "LEASE" ? lease(7, Date.now(), Date.now() + 600_000) : counting()(words);
  });
  const ends = await run(
    server.url,
    `(async () => {
      const client = new Client(url);
      console.log(await client.sequence("orders").next());
      await client.worker("orders", Layout.TWITTER).next();
    })();`,
  );
  assert.deepEqual(ends, { code: 0, printed: "1n" });
  assert.ok(!server.requests.some((words) => words[1] === "RELEASE"));
  server.stop();
});

test("a program that awaits a call does not end", async () => {
  const server = await FakeServer.start(() => undefined);
  const ends = run(server.url, `new Client(url).sequence("orders").next().then((value) => console.log(value));`);
  await server.request(1);
  for (const peer of server.peers) setImmediate(() => peer.write(integers(5, 5, 1)));
  assert.deepEqual(await ends, { code: 0, printed: "5n" });
  server.stop();
});

test("a client that is dropped while a call waits is not collected, and later its connection ends", async () => {
  const server = await FakeServer.start(() => undefined);
  const source = `
    (async () => {
      const value = new Client(url).sequence("orders").next();
      const collect = setInterval(() => gc(), 1);
      console.log(await value);
      await new Promise((resolve) => process.once("SIGTERM", resolve));
      clearInterval(collect);
    })();`;
  const child = spawn(
    process.execPath,
    [
      "--expose-gc",
      "-e",
      `const { Client } = require(${JSON.stringify(INDEX)}); const url = "${server.url}"; ${source}`,
    ],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  await server.request(1);
  for (const peer of server.peers) peer.write(integers(5, 20, 1));
  const [printed] = await once(child.stdout, "data");
  assert.equal(String(printed).trim(), "5n");
  await server.quiet();
  child.kill("SIGTERM");
  assert.deepEqual(await once(child, "close"), [0, null]);
  server.stop();
});

test("input that has arrived is read before a timer of a blocked event loop ends", async () => {
  const events = [];
  const server = net.createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const socket = net.connect(server.address().port, "127.0.0.1");
  const [peer] = await once(server, "connection");
  socket.on("data", () => events.push("data"));
  await new Promise((resolve) => {
    setImmediate(() => {
      new Timer(1, () => resolve(events.push("timer")));
      peer.write("reply");
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
    });
  });
  socket.destroy();
  peer.destroy();
  server.close();
  assert.deepEqual(events, ["data", "timer"]);
});

test("awaited calls give the event loop a turn while a renewal is late", async () => {
  const now = Date.now();
  const script = (words) => {
    if (words[1] === "LEASE") return lease(7, now, now + 600_000, 3000);
    return words[1] === "RENEW" ? integers(now + 700_000) : OK;
  };
  await withClient(script, {}, async ({ client, clock }) => {
    const worker = client.worker("orders", Layout.TWITTER);
    await worker.next();
    clock.shift({ monoMs: 2000 });
    // Nothing in this loop waits for the event loop by itself.
    while (worker.stats().renewals === 0) await worker.next();
  });
});

test("copies and serialisation fail", () =>
  withClient(counting(), {}, async ({ client }) => {
    const sequence = client.sequence("orders");
    const fake = new FakeClient();
    const { port1, port2 } = new MessageChannel();
    for (const object of [client, sequence, client.worker("orders", Layout.TWITTER), fake, fake.sequence("orders")]) {
      assert.throws(() => structuredClone(object), { name: "DataCloneError" });
      assert.throws(() => port1.postMessage(object), { name: "DataCloneError" });
      assert.throws(() => v8.serialize(object), /could not be cloned/);
      assert.throws(() => JSON.stringify({ object }), /cannot be serialised: make a client in each process/);
      assert.throws(() => JSON.parse(JSON.stringify(object)), TypeError);
    }
    port1.close();
    port2.close();
    const copy = Object.assign(Object.create(Sequence.prototype), sequence);
    assert.throws(() => copy.next(), TypeError);
    assert.throws(() => copy.tryNext(), TypeError);
    assert.throws(() => new Sequence(), /call client.sequence/);
    assert.throws(() => new Worker(), /objects are made by a client/);
  }));

test("no text of an object shows a password", () => {
  const client = new Client("getid://user:secret@localhost");
  const { inspect } = require("node:util");
  const texts = [inspect(client, { depth: 9, showHidden: true }), String(client), inspect(client.sequence("orders"))];
  assert.ok(!texts.join().includes("secret"));
  assert.match(texts[2], /Sequence 'orders' of Client of localhost:7890/);
});

test("a program whose tests replace its timers and clock keeps its client", () =>
  withClient(
    () => undefined,
    {},
    async ({ client }) => {
      const names = ["setTimeout", "setImmediate", "clearTimeout", "queueMicrotask"];
      const saved = names.map((name) => globalThis[name]);
      for (const name of names) globalThis[name] = () => {};
      try {
        await assert.rejects(client.sequence("orders").next({ timeoutMs: 1 }), { name: "Unavailable" });
      } finally {
        names.forEach((name, index) => (globalThis[name] = saved[index]));
      }
    },
  ));

test("each thread has a client of its own", async () => {
  const server = await FakeServer.start(counting());
  const source = `
    const { parentPort, workerData } = require("node:worker_threads");
    const { Client } = require(workerData.index);
    new Client(workerData.url).sequence("orders").take(100).then((values) => parentPort.postMessage(values));`;
  const threads = [1, 2].map(() => new Thread(source, { eval: true, workerData: { index: INDEX, url: server.url } }));
  const values = (await Promise.all(threads.map((thread) => once(thread, "message")))).flat(2);
  assert.equal(new Set(values).size, 200);
  await Promise.all(threads.map((thread) => thread.terminate()));
  server.stop();
});

test("import and require load the same classes", async () => {
  const esm = await import("getid-client");
  const testing = await import("getid-client/testing");
  assert.equal(esm.Client, Client);
  assert.equal(esm.default.Layout, Layout);
  assert.deepEqual(Object.keys(esm).sort(), [...Object.keys(require("../index.js")), "default"].sort());
  assert.equal(testing.FakeClient, FakeClient);
});

test("await using closes the client", { skip: Symbol.asyncDispose === undefined }, async () => {
  const client = new Client("getid://127.0.0.1:1");
  await client[Symbol.asyncDispose]();
  assert.throws(() => client.sequence("orders"), Closed);
});

const hasOpenssl = (() => {
  try {
    execFileSync("openssl", ["version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
})();

test("connects over TLS, and only to a server that is trusted", { skip: !hasOpenssl && "needs openssl" }, async () => {
  const tls = require("node:tls");
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "getid-tls-"));
  const [keyFile, certFile] = ["key.pem", "cert.pem"].map((name) => path.join(folder, name));
  const words = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost`.split(" ");
  const names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", keyFile, "-out", certFile];
  execFileSync("openssl", [...words, ...names], { stdio: "ignore" });
  const ca = fs.readFileSync(certFile);
  const server = await FakeServer.start(counting());
  const front = tls.createServer({ key: fs.readFileSync(keyFile), cert: ca }, (peer) => server.accept(peer));
  front.on("tlsClientError", () => {});
  await once(front.listen(0, "127.0.0.1"), "listening");
  for (const host of ["localhost", "127.0.0.1"]) {
    const url = `getids://${host}:${front.address().port}`;
    const client = new Client(url, { tls: { ca } });
    assert.equal((await client.sequence("orders").take(2)).length, 2);
    await client.close();
    const distrusting = new Client(url, { timeoutMs: 100 });
    await assert.rejects(distrusting.sequence("orders").next(), /self-signed certificate|self signed certificate/);
    await distrusting.close();
  }
  front.close();
  server.stop();
  fs.rmSync(folder, { recursive: true });
});

test("connects over a Unix socket", async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "getid-unix-"));
  const place = path.join(folder, "getid.sock");
  const server = await FakeServer.start(counting());
  const front = net.createServer((peer) => server.accept(peer));
  await once(front.listen(place), "listening");
  const client = new Client(`getid+unix://${place}`);
  assert.equal(await client.sequence("orders").next(), 1n);
  await client.close();
  front.close();
  server.stop();
  fs.rmSync(folder, { recursive: true });
});

test("fakes have the methods of the objects", async () => {
  const client = new FakeClient({ start: 5n });
  const orders = client.sequence("orders");
  assert.deepEqual([await orders.next(), ...(await orders.take(2)), orders.tryNext()], [5n, 6n, 7n, 8n]);
  assert.equal(client.sequence("orders"), orders);
  assert.equal(await client.sequence("texts", { as: "string" }).next(), "5");
  const ids = await client.worker("events", Layout.TWITTER).take(5000);
  assert.equal(Layout.TWITTER.parts(ids[0]).unixMs, Layout.TWITTER.epochMs + 1000);
  assert.ok(ids.every((id, index) => index === 0 || id > ids[index - 1]));
  client.fail(new Error("down"));
  await assert.rejects(orders.next(), /down/);
  assert.equal(await orders.next(), 9n);
  await orders.warmUp(100);
  client.discard();
  const real = new Client("getid://127.0.0.1:1");
  const pairs = [
    [orders, real.sequence("orders")],
    [client.worker("events", Layout.TWITTER), real.worker("events", Layout.TWITTER)],
  ];
  for (const [fake, object] of pairs) {
    assert.deepEqual(Object.keys(fake.stats()).sort(), Object.keys(object.stats()).sort());
    assert.equal(fake.name, object.name);
  }
  assert.equal(await client.close(), true);
  await assert.rejects(orders.next(), Closed);
  assert.throws(() => new FakeClient({ start: 1 }), /start is 1, must be a bigint such as 1n/);
});
