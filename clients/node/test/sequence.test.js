"use strict";

const assert = require("node:assert/strict");
const { getEventListeners, once } = require("node:events");
const { test } = require("node:test");
const { Client, Closed, Refused, Unavailable } = require("../index.js");
const { FakeServer, OK, counting, error, integers, rejects, withClient } = require("./support.js");

const turn = () => new Promise(setImmediate);

/** Returns a script that takes its replies from `replies`, one for each request. */
const replying =
  (...replies) =>
  () =>
    replies.shift();

test("returns values in order, out of memory", () =>
  withClient(counting(), {}, async ({ client, server }) => {
    const orders = client.sequence("orders");
    const values = [await orders.next(), ...(await orders.take(3)), orders.tryNext()];
    assert.deepEqual(values, [1n, 2n, 3n, 4n, 5n]);
    assert.deepEqual(server.requests, [["SEQUENCE", "NEXT", "orders", "COUNT", "17"]]);
    const { values: returned, fetches, held, waits, dropped } = orders.stats();
    assert.deepEqual(
      { returned, fetches, held, waits, dropped },
      { returned: 5, fetches: 1, held: 12, waits: 1, dropped: 0 },
    );
  }));

test("fetches a second segment when half of the first is left, and uses it second", () =>
  withClient(counting(), { isFrozen: true }, async ({ client, server }) => {
    const orders = client.sequence("orders");
    for (let value = 1n; value <= 8n; value += 1n) assert.equal(await orders.next(), value);
    assert.equal(server.requests.length, 1);
    assert.equal(await orders.next(), 9n);
    assert.deepEqual(await server.request(2), ["SEQUENCE", "NEXT", "orders", "COUNT", "32"]);
    while (orders.stats().fetches < 2) await turn();
    for (let value = 10n; value <= 49n; value += 1n) assert.equal(await orders.next(), value);
  }));

test("doubles the prefetch for calls in quick succession, and halves it for rare ones", () =>
  withClient(counting(), { isFrozen: true }, async ({ client, clock }) => {
    const orders = client.sequence("orders", { prefetchMax: 40 });
    const sizes = [];
    for (const monoMs of [0, 50, 50, 300, 1000, 1000]) {
      clock.shift({ monoMs });
      await orders.take(orders.stats().held + 1);
      sizes.push(orders.stats().prefetch);
    }
    assert.deepEqual(sizes, [16, 32, 40, 40, 20, 10]);
  }));

test("calls that are made together share a fetch", () =>
  withClient(counting(), {}, async ({ client, server }) => {
    const orders = client.sequence("orders", { prefetchMax: 0 });
    const values = await Promise.all(Array.from({ length: 100 }, () => orders.next()));
    assert.deepEqual(
      values,
      Array.from({ length: 100 }, (_, index) => BigInt(index + 1)),
    );
    assert.deepEqual(
      server.requests.map((words) => words[4]),
      ["100"],
    );
  }));

test("takes large numbers of values, over several fetches", () =>
  withClient(counting(), {}, async ({ client }) => {
    const orders = client.sequence("orders");
    const values = await orders.take(100_000);
    assert.equal(new Set(values).size, 100_000);
    assert.equal(values.at(-1), 100_000n);
  }));

test("serves a call by several replies where the server returns fewer values", () =>
  withClient(replying(integers(1, 2, 1), integers(3, 3, 1), integers(4, 5, 1)), {}, async ({ client }) => {
    assert.deepEqual(await client.sequence("orders", { prefetchMax: 0 }).take(5), [1n, 2n, 3n, 4n, 5n]);
  }));

test("returns whole increments, values above 2^53 and strings", async () => {
  const last = 9223372036854775807n;
  await withClient(replying(integers(5, 25, 10)), {}, async ({ client }) => {
    assert.deepEqual(await client.sequence("orders").take(3), [5n, 15n, 25n]);
  });
  await withClient(replying(integers(last - 4n, last, 2)), {}, async ({ client }) => {
    const orders = client.sequence("orders", { as: "string" });
    assert.deepEqual(await orders.take(3), [last - 4n, last - 2n, last].map(String));
  });
  await withClient(replying(integers(9007199254740990n, 9007199254740993n, 1)), {}, async ({ client }) => {
    const expected = [9007199254740990n, 9007199254740991n, 9007199254740992n, 9007199254740993n];
    assert.deepEqual(await client.sequence("orders").take(4), expected);
  });
  await withClient(counting(), {}, async ({ client }) => {
    assert.equal(await client.sequence("orders", { as: "string" }).next(), "1");
  });
});

test("the reply of a cancelled call serves later calls", async () => {
  let peer = null;
  await withClient(
    (words, from) => void (peer = from),
    {},
    async ({ client, server }) => {
      const orders = client.sequence("orders");
      const reason = new Error("not needed");
      const controller = new AbortController();
      const call = orders.next({ signal: controller.signal });
      await server.request(1);
      controller.abort(reason);
      await assert.rejects(call, (failure) => failure === reason);
      server.script = counting(100);
      const later = orders.next();
      peer.write(integers(1, 17, 1));
      assert.equal(await later, 1n);
      assert.equal(orders.tryNext(), 2n);
      assert.equal(server.requests.length, 1);
    },
  );
});

test("a cancelled call drops what it has got, and calls leave no listener at their signal", async () => {
  const replies = [integers(1, 1, 1), integers(2, 3, 1)];
  await withClient(
    () => replies.shift(),
    {},
    async ({ client, server }) => {
      const orders = client.sequence("orders", { prefetchMax: 0 });
      const { signal } = new AbortController();
      assert.equal(await orders.next({ signal }), 1n);
      assert.equal(getEventListeners(signal, "abort").length, 0);
      const controller = new AbortController();
      const call = orders.take(5, { signal: controller.signal });
      await server.request(3);
      controller.abort();
      await assert.rejects(call, { name: "AbortError" });
      const { values, dropped } = orders.stats();
      assert.deepEqual({ values, dropped }, { values: 1, dropped: 2 });
    },
  );
});

test("a call that is cancelled before it begins takes nothing", () =>
  withClient(counting(), {}, async ({ client, server }) => {
    const orders = client.sequence("orders");
    await assert.rejects(orders.next({ signal: AbortSignal.abort(7) }), (failure) => failure === 7);
    assert.equal(server.requests.length, 0);
  }));

test("a call that times out is Unavailable, and names the last failure", async () => {
  await withClient(
    () => undefined,
    {},
    async ({ client, server }) => {
      const orders = client.sequence("orders");
      await rejects(orders.next({ timeoutMs: 5 }), Unavailable, /within 5 ms: 127\.0\.0\.1:\d+ has not replied yet/);
      server.script = counting();
    },
  );
  await withClient(
    () => error("TRYAGAIN store is behind"),
    { timeoutMs: 30 },
    async ({ client }) => {
      await rejects(client.sequence("orders").next(), Unavailable, /within 30 ms: 127.*TRYAGAIN store is behind/);
    },
  );
});

test("errors that a repetition does not mend are Refused, to all calls that wait", () =>
  withClient(
    () => error("NOPERM no rights"),
    {},
    async ({ client, events }) => {
      const orders = client.sequence("orders");
      const calls = [orders.next(), orders.take(5), orders.warmUp(3)];
      for (const call of calls) await rejects(call, Refused, /sequence 'orders': 127.*NOPERM no rights/);
      await assert.rejects(orders.next(), { code: "NOPERM" });
      assert.deepEqual(
        events.map(({ event }) => event),
        ["connected", "fetch_failed", "fetch_failed"],
      );
    },
  ));

for (const text of [
  "TRYAGAIN x",
  "BUSY x",
  "EXHAUSTED x",
  "MISCONF x",
  "LOADING x",
  "ERR max number of clients reached",
]) {
  test(`${text} is retried`, () =>
    withClient(replying(error(text), error(text), integers(1, 1, 1)), {}, async ({ client, server }) => {
      assert.equal(await client.sequence("orders").next(), 1n);
      assert.equal(server.requests.length, 3);
    }));
}

const nextAddress = ["MISCONF store is away", "LOADING standby", "ERR max number of clients reached"];
const sameAddress = ["TRYAGAIN behind", "BUSY script"];

for (const text of [...nextAddress, ...sameAddress]) {
  test(`${text}: the next try is at the ${nextAddress.includes(text) ? "next" : "same"} address`, async () => {
    const first = await FakeServer.start(replying(error(text), integers(1, 1, 1)));
    const second = await FakeServer.start(replying(integers(2, 2, 1)));
    const client = new Client(`getid://127.0.0.1:${first.port},127.0.0.1:${second.port}?order=given`);
    assert.equal(await client.sequence("orders").next(), nextAddress.includes(text) ? 2n : 1n);
    await client.close();
    first.stop();
    second.stop();
  });
}

test("after a lost connection values are above the newest one", () =>
  withClient(counting(), {}, async ({ client, server, events }) => {
    const orders = client.sequence("orders", { prefetchMax: 0 });
    assert.equal(await orders.next(), 1n);
    const replies = [integers(1, 1, 1), integers(1, 1, 1), integers(2, 2, 1)];
    server.script = () => replies.shift();
    await server.disconnect(events);
    assert.equal(await orders.next(), 2n);
    assert.deepEqual(
      server.requests.slice(1).map((words) => words.slice(5)),
      Array(3).fill(["ABOVE", "1"]),
    );
    assert.equal(orders.stats().dropped, 2);
    server.script = counting(3);
    await orders.next();
    assert.equal(server.requests.at(-1).length, 5);
  }));

test("a range that is above in part is used in part", () =>
  withClient(replying(integers(10, 30, 10), integers(25, 35, 10), integers(45, 45, 1)), {}, async (given) => {
    const { client, server, events } = given;
    const orders = client.sequence("orders", { prefetchMax: 0 });
    assert.deepEqual(await orders.take(3), [10n, 20n, 30n]);
    await server.disconnect(events);
    assert.deepEqual(await orders.take(2), [35n, 45n]);
    assert.equal(orders.stats().dropped, 1);
  }));

const malformed = [
  integers(2, 1, 1),
  integers(1, 2, 0),
  integers(1, 4, 2),
  integers(-5, -1, 1),
  integers(1, 1000, 1),
  integers(1, 2),
  "*3\r\n:1\r\n:1\r\n$1\r\n1\r\n",
  OK,
  ":5\r\n",
  "$-1\r\n",
  "garbage\r\n",
  integers(1, 1, 1) + integers(2, 2, 1),
];

for (const reply of malformed) {
  test(`the reply ${JSON.stringify(reply).slice(0, 50)} closes the connection`, () =>
    withClient(replying(reply, integers(50, 50, 1)), {}, async ({ client, server, events }) => {
      assert.equal(await client.sequence("orders").next(), 50n);
      assert.equal(events.filter(({ event }) => event === "connected").length, 2);
      assert.equal(events.filter(({ event }) => event === "disconnected").length, 1);
      while (server.peers.size !== 1) await turn();
    }));
}

test("bytes that no request expects close the connection, and no call reads them", () =>
  withClient(counting(), {}, async ({ client, server }) => {
    const orders = client.sequence("orders", { prefetchMax: 0 });
    assert.equal(await orders.next(), 1n);
    for (const peer of server.peers) peer.write(integers(1, 1, 1));
    await server.quiet();
    assert.equal(await orders.next(), 2n);
  }));

test("drops a segment that is older than holdMs by either clock", async () => {
  for (const distances of [{ monoMs: 1000 }, { wallMs: 1000 }]) {
    await withClient(counting(), { isFrozen: true }, async ({ client, clock }) => {
      const orders = client.sequence("orders", { holdMs: 1000 });
      assert.equal(await orders.next(), 1n);
      clock.shift({ wallMs: 999, monoMs: 999 });
      assert.equal(await orders.next(), 2n);
      clock.shift({ wallMs: -999, monoMs: -999 });
      clock.shift(distances);
      assert.equal(await orders.next(), 18n);
      assert.equal(orders.stats().dropped, 15);
    });
  }
});

test("drops the segments when the wall clock goes back", () =>
  withClient(counting(), { isFrozen: true }, async ({ client, clock }) => {
    const orders = client.sequence("orders");
    assert.equal(await orders.next(), 1n);
    clock.shift({ wallMs: -1 });
    assert.equal(orders.tryNext(), null);
    assert.equal(orders.stats().dropped, 16);
  }));

test("a reply that comes after holdMs is dropped", async () => {
  let peer = null;
  await withClient(
    (words, from) => void (peer = from),
    { isFrozen: true },
    async ({ client, server, clock }) => {
      const orders = client.sequence("orders");
      const call = orders.next();
      await server.request(1);
      clock.shift({ monoMs: 60_000 });
      server.script = counting(100);
      peer.write(integers(1, 17, 1));
      while (orders.stats().fetches < 1) await turn();
      clock.shift({ monoMs: 10 });
      assert.equal(await call, 100n);
    },
  );
});

test("with fresh a value serves only calls that waited when its request was sent", async () => {
  let peer = null;
  await withClient(
    (words, from) => void (peer = from),
    {},
    async ({ client, server }) => {
      const orders = client.sequence("orders", { fresh: true });
      const early = [orders.next(), orders.next()];
      assert.deepEqual(await server.request(1), ["SEQUENCE", "NEXT", "orders", "COUNT", "2"]);
      const late = orders.next();
      peer.write(integers(1, 2, 1));
      assert.deepEqual(await Promise.all(early), [1n, 2n]);
      assert.deepEqual(await server.request(2), ["SEQUENCE", "NEXT", "orders", "COUNT", "1"]);
      peer.write(integers(3, 3, 1));
      assert.equal(await late, 3n);
      assert.equal(orders.tryNext(), null);
    },
  );
});

test("with fresh the values of a cancelled call are dropped", async () => {
  let peer = null;
  await withClient(
    (words, from) => void (peer = from),
    {},
    async ({ client, server }) => {
      const orders = client.sequence("orders", { fresh: true });
      const controller = new AbortController();
      const call = orders.next({ signal: controller.signal });
      await server.request(1);
      controller.abort();
      await assert.rejects(call, { name: "AbortError" });
      const later = orders.next();
      server.script = counting(2);
      peer.write(integers(1, 1, 1));
      assert.equal(await later, 2n);
      assert.equal(orders.stats().dropped, 1);
    },
  );
});

test("tryNext returns null without values, and starts the fetch", () =>
  withClient(counting(), {}, async ({ client }) => {
    const orders = client.sequence("orders");
    assert.equal(orders.tryNext(), null);
    while (orders.stats().held === 0) await turn();
    assert.equal(orders.tryNext(), 1n);
  }));

test("warmUp waits for values in memory", () =>
  withClient(counting(), {}, async ({ client, server }) => {
    const orders = client.sequence("orders");
    await orders.warmUp(1000);
    assert.ok(orders.stats().held >= 1000);
    await orders.warmUp(1000);
    assert.equal(server.requests.length, 1);
    const values = Array.from({ length: 1000 }, () => orders.tryNext());
    assert.equal(values.at(-1), 1000n);
  }));

test("nothing is sent before the first use", () =>
  withClient(counting(), {}, async ({ client, server }) => {
    client.sequence("orders");
    await turn();
    await turn();
    assert.equal(server.peers.size, 0);
  }));

test("close ends all calls, is idempotent, and a late reply changes nothing", async () => {
  let peer = null;
  await withClient(
    (words, from) => void (peer = from),
    {},
    async ({ client, server }) => {
      const orders = client.sequence("orders");
      const calls = [orders.next(), orders.take(3), orders.warmUp(5)];
      await server.request(1);
      const closing = client.close();
      peer.write(integers(1, 17, 1));
      for (const call of calls) await rejects(call, Closed);
      assert.equal(await closing, true);
      assert.equal(await client.close(), true);
      await server.quiet();
      assert.throws(() => orders.tryNext(), Closed);
      await rejects(orders.next(), Closed);
      assert.throws(() => client.sequence("orders"), Closed);
      assert.throws(() => client.discard(), Closed);
      assert.equal(orders.stats().held, 0);
    },
  );
});

test("after close no value of memory is returned", () =>
  withClient(counting(), {}, async ({ client }) => {
    const orders = client.sequence("orders");
    await orders.warmUp(100);
    await client.close();
    await rejects(orders.next(), Closed);
    assert.throws(() => orders.tryNext(), Closed);
    assert.equal(orders.stats().dropped, 100);
  }));

test("discard drops the values and the connection, and calls that wait continue", async () => {
  let peer = null;
  await withClient(counting(), {}, async ({ client, server }) => {
    const orders = client.sequence("orders");
    assert.equal(await orders.next(), 1n);
    client.discard();
    await server.quiet();
    server.script = (words, from) => void (peer = from);
    const call = orders.next();
    await server.request(2);
    client.discard();
    server.script = counting(100);
    peer.write(integers(18, 40, 1));
    assert.equal(await call, 100n);
    assert.deepEqual(server.requests.at(-1).slice(5), ["ABOVE", "17"]);
  });
});

test("discard ends fetches for which no call waits", () =>
  withClient(counting(), {}, async ({ client, server }) => {
    const orders = client.sequence("orders");
    assert.equal(orders.tryNext(), null);
    client.discard();
    await turn();
    assert.equal(await client.sequence("other", { prefetchMax: 0 }).next(), 1n);
    assert.equal(orders.stats().held, 0);
    assert.deepEqual(
      server.requests.map((words) => words[2]),
      ["other"],
    );
  }));

test("a holdMs that is shorter than a fetch makes the next fetch wait, and is named", () => {
  let clock = null;
  const script = (words) => {
    clock.shift({ monoMs: 15 });
    return counting()(words);
  };
  return withClient(script, { isFrozen: true }, async (given) => {
    clock = given.clock;
    const orders = given.client.sequence("orders", { holdMs: 10 });
    const call = rejects(orders.next({ timeoutMs: 60_000 }), Closed);
    while (orders.stats().fetches < 1) await turn();
    await rejects(orders.next({ timeoutMs: 1 }), Unavailable, /a fetch took 15 ms, holdMs is 10/);
    assert.equal(given.server.requests.length, 1);
    clock.shift({ monoMs: 10 });
    await given.server.request(2);
    await given.client.close();
    await call;
  });
});

test("the event after the next address names it", async () => {
  const first = await FakeServer.start((words, peer) => void peer.destroy());
  const second = await FakeServer.start(counting());
  const events = [];
  const url = `getid://127.0.0.1:${first.port},127.0.0.1:${second.port}?order=given`;
  const client = new Client(url, { onEvent: (event) => events.push(event) });
  assert.equal(await client.sequence("orders").next(), 1n);
  assert.deepEqual(
    events.map(({ event, address }) => [event, address]),
    [
      ["connected", `127.0.0.1:${first.port}`],
      ["disconnected", `127.0.0.1:${first.port}`],
      ["fetch_failed", `127.0.0.1:${first.port}`],
      ["connected", `127.0.0.1:${second.port}`],
    ],
  );
  await client.close();
  first.stop();
  second.stop();
});

test("what onEvent throws or rejects is ignored", async () => {
  const server = await FakeServer.start(counting());
  let count = 0;
  const onEvent = () => {
    count += 1;
    if (count === 1) return Promise.reject(new Error("asynchronous"));
    throw new Error("synchronous");
  };
  const client = new Client(server.url, { onEvent });
  const orders = client.sequence("orders", { prefetchMax: 0 });
  assert.equal(await orders.next(), 1n);
  for (const peer of server.peers) peer.end();
  while (count < 2) await turn();
  assert.equal(await orders.next(), 2n);
  assert.equal(count, 3);
  await client.close();
  server.stop();
});

test("logs in, and an error of the login is Refused", async () => {
  const server = await FakeServer.start(replying(OK, integers(1, 1, 1)));
  const url = server.url.replace("//", "//us%20er:p%40ss@");
  const client = new Client(url);
  assert.equal(await client.sequence("orders").next(), 1n);
  assert.deepEqual(server.requests[0], ["AUTH", "us er", "p@ss"]);
  await client.close();
  server.script = () => error("WRONGPASS invalid username-password pair");
  const second = new Client(url);
  await assert.rejects(second.sequence("orders").next(), (failure) => {
    return failure instanceof Refused && failure.code === "WRONGPASS" && !failure.message.includes("p@ss");
  });
  await second.close();
  server.stop();
});

test("a server that does not listen is Unavailable", async () => {
  const server = await FakeServer.start(counting());
  server.stop();
  await once(server.listener, "close");
  const client = new Client(server.url, { timeoutMs: 50 });
  await rejects(client.sequence("orders").next(), Unavailable, /connect to 127.*ECONNREFUSED/);
  await client.close();
});

test("at most 10,000 calls wait for an object", () =>
  withClient(
    () => undefined,
    {},
    async ({ client }) => {
      const orders = client.sequence("orders");
      const calls = Array.from({ length: 10_000 }, () => orders.next());
      await rejects(orders.next(), Unavailable, /10,000 calls wait/);
      const ends = Promise.allSettled(calls);
      await client.close();
      assert.ok((await ends).every(({ reason }) => reason instanceof Closed));
    },
  ));

test("the same name is the same object, and other options are an error", () =>
  withClient(counting(), {}, async ({ client }) => {
    const orders = client.sequence("orders");
    assert.equal(client.sequence("orders", { as: "bigint" }), orders);
    assert.throws(() => client.sequence("orders", { as: "string" }), /sequence 'orders' exists with other options/);
  }));

test("a client has at most 10,000 objects", () =>
  withClient(counting(), {}, async ({ client }) => {
    for (let number = 0; number < 10_000; number += 1) client.sequence(`s${number}`);
    assert.throws(() => client.sequence("one-more"), /10,000 objects/);
    client.sequence("s5");
  }));

test("wrong arguments are errors that name the argument, its value and its range", () =>
  withClient(counting(), {}, async ({ client, server }) => {
    const orders = client.sequence("orders");
    await rejects(orders.take(0), RangeError, /n is 0, must be 1 to 1,000,000/);
    await rejects(orders.take(1.5), RangeError, /n is 1.5/);
    await rejects(orders.take("5"), TypeError, /n is "5"/);
    await rejects(orders.next({ timeoutMs: -1 }), RangeError, /timeoutMs is -1, must be 0 to 86,400,000/);
    await rejects(orders.next({ timeoutMs: NaN }), TypeError, /timeoutMs/);
    await rejects(
      orders.next({ timeout: 5 }),
      TypeError,
      /option "timeout" is unknown, must be one of timeoutMs, signal/,
    );
    await rejects(orders.next(5), TypeError, /options are 5/);
    await rejects(orders.next({ signal: 5 }), TypeError, /no AbortSignal/);
    await rejects(orders.warmUp(2_000_000), RangeError, /n is 2000000/);
    await rejects(client.close({ timeoutMs: "2" }), TypeError, /timeoutMs is "2"/);
    assert.throws(() => client.sequence(""), /name has 0 bytes, must have 1 to 128/);
    assert.throws(() => client.sequence("ä".repeat(65)), /name has 130 bytes/);
    assert.throws(() => client.sequence("x", { holdMs: 9 }), /holdMs is 9, must be 10 to 60,000/);
    assert.throws(() => client.sequence("x", { prefetchMax: 10_000_001 }), /prefetchMax is 10000001/);
    assert.throws(() => client.sequence("x", { as: "number" }), /as is "number", must be "bigint" or "string"/);
    assert.throws(() => client.sequence("x", { fresh: 1 }), /fresh is 1/);
    assert.throws(() => new Client(server.url, { onEvent: 1 }), /onEvent is 1/);
    assert.throws(() => new Client(server.url, { tls: {} }), /getids:/);
    assert.throws(() => new Client(server.url, { timeoutMs: 1e9 }), /timeoutMs is 1000000000/);
  }));
