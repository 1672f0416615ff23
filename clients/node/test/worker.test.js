"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { ClockError, Closed, Layout, Refused, Unavailable } = require("../index.js");
const { holderName } = require("../lib/worker.js");
const { OK, bulk, error, integers, lease, rejects, withClient } = require("./support.js");

const NOW = 1_800_000_000_000;
const HOUR = 3_600_000;
const FROZEN = { isFrozen: true, wallMs: NOW };
const turn = () => new Promise(setImmediate);

/** Returns a script that answers each of LEASE, RENEW and RELEASE by a function or text. */
const serving = (replies) => (words) => {
  const reply = replies[words[1]];
  return typeof reply === "function" ? reply(words) : reply;
};

const lastOf = (words) => Number(words[words.indexOf("LAST") + 1]);

/** Waits until `count` events of a kind have come. */
async function waitFor(events, kind, count = 1) {
  while (events.filter(({ event }) => event === kind).length < count) await turn();
}

test("makes ascending IDs with the leased worker id", () =>
  withClient(serving({ LEASE: lease(7, NOW, NOW + 30_000) }), FROZEN, async ({ client, server, clock }) => {
    const worker = client.worker("orders", Layout.TWITTER, { name: "api 1", ttlS: 30 });
    assert.deepEqual(Layout.TWITTER.parts(await worker.next()), {
      unixMs: NOW,
      worker: 7,
      counter: 0,
      time: new Date(NOW),
    });
    assert.equal(Layout.TWITTER.parts(worker.tryNext()).counter, 1);
    clock.shift({ wallMs: 5, monoMs: 5 });
    const { unixMs, counter } = Layout.TWITTER.parts(await worker.next());
    assert.deepEqual([unixMs, counter], [NOW + 5, 0]);
    assert.deepEqual(server.requests, [["WORKERID", "LEASE", "orders", "NAME", "api_1", "TTL", "30"]]);
    const { values, workerId, notBeforeMs, notAfterMs, leases } = worker.stats();
    assert.deepEqual([values, workerId, notBeforeMs, notAfterMs, leases], [3, 7, NOW, NOW + 30_000, 1]);
  }));

test("IDs as strings are those of the bigints", () =>
  withClient(serving({ LEASE: lease(7, NOW, NOW + 30_000) }), FROZEN, async ({ client }) => {
    const id = await client.worker("orders", Layout.TWITTER, { as: "string" }).next();
    assert.equal(id, String(Layout.TWITTER.compose(NOW - Layout.TWITTER.epochMs, 7, 0)));
  }));

test("a full counter takes the next unit, ahead of the clock, and stops at the end of the lease", () => {
  const layout = new Layout({ time: 50, worker: 4, counter: 2 });
  const script = serving({ LEASE: lease(3, NOW, NOW + 3), RENEW: integers(NOW + 4) });
  return withClient(script, FROZEN, async ({ client, server, clock, events }) => {
    const worker = client.worker("orders", layout);
    const ids = await worker.take(12);
    const expected = Array.from({ length: 12 }, (_, index) => layout.compose(NOW + (index >> 2), 3, index % 4));
    assert.deepEqual(ids, expected);
    assert.equal(worker.tryNext(), null);
    await waitFor(events, "renewed");
    assert.equal(lastOf(server.requests[1]), NOW + 2);
    assert.deepEqual(
      await worker.take(4),
      [0, 1, 2, 3].map((counter) => layout.compose(NOW + 3, 3, counter)),
    );
    assert.equal(worker.tryNext(), null);
    clock.shift({ wallMs: 10, monoMs: 10 });
    assert.equal(worker.tryNext(), null);
  });
});

test("a lease that begins later is used from its begin, ahead of the clock", () =>
  withClient(serving({ LEASE: lease(7, NOW + 500, NOW + 30_000) }), FROZEN, async ({ client }) => {
    const { unixMs, counter } = Layout.TWITTER.parts(await client.worker("orders", Layout.TWITTER).next());
    assert.deepEqual([unixMs, counter], [NOW + 500, 0]);
  }));

test("a coarse unit is used only if the lease covers all of it", () => {
  const layout = new Layout({ time: 40, worker: 4, counter: 2, unitMs: 1000 });
  const script = serving({ LEASE: lease(3, NOW + 1, NOW + 2999), RELEASE: OK });
  return withClient(script, FROZEN, async ({ client, server }) => {
    const worker = client.worker("orders", layout);
    const ids = await worker.take(4);
    assert.deepEqual(
      ids.map((id) => layout.parts(id).unixMs),
      Array(4).fill(NOW + 1000),
    );
    assert.equal(worker.tryNext(), null);
    await client.close();
    assert.equal(lastOf(server.requests.at(-1)), NOW + 1999);
  });
});

test("a wall clock that goes back inside the lease does not repeat an ID", () =>
  withClient(serving({ LEASE: lease(7, NOW, NOW + 30_000) }), FROZEN, async ({ client, clock }) => {
    const worker = client.worker("orders", Layout.TWITTER);
    const first = await worker.next();
    clock.shift({ wallMs: -500 });
    assert.equal(await worker.next(), first + 1n);
  }));

test("renews after a third of the lease by the monotonic clock, with the last millisecond of the newest unit", () =>
  withClient(
    serving({ LEASE: lease(7, NOW, NOW + 30_000), RENEW: integers(NOW + 40_000) }),
    FROZEN,
    async ({ client, server, clock, events }) => {
      const worker = client.worker("orders", Layout.TWITTER);
      await worker.next();
      clock.shift({ wallMs: 9999, monoMs: 9999 });
      await turn();
      assert.equal(server.requests.length, 1);
      clock.shift({ wallMs: 1, monoMs: 1 });
      assert.deepEqual(await server.request(2), ["WORKERID", "RENEW", "orders", "7", "token", "LAST", String(NOW)]);
      await waitFor(events, "renewed");
      assert.equal(worker.stats().notAfterMs, NOW + 40_000);
      assert.equal(worker.stats().renewals, 1);
    },
  ));

test("a lease that has made no ID is renewed with the millisecond before its begin", () =>
  withClient(
    serving({ LEASE: lease(7, NOW, NOW + 30_000), RENEW: integers(NOW + 40_000) }),
    FROZEN,
    async ({ client, server, clock }) => {
      await client.worker("orders", Layout.TWITTER).warmUp();
      clock.shift({ wallMs: 10_000, monoMs: 10_000 });
      assert.equal(lastOf(await server.request(2)), NOW - 1);
    },
  ));

test("renews at once when the wall clock was set", () =>
  withClient(
    serving({ LEASE: lease(7, NOW, NOW + 30_000), RENEW: integers(NOW + 31_000) }),
    FROZEN,
    async ({ client, server, clock }) => {
      const worker = client.worker("orders", Layout.TWITTER);
      await worker.next();
      clock.shift({ wallMs: 1001 });
      await worker.next();
      assert.equal((await server.request(2))[1], "RENEW");
    },
  ));

test("a failed renewal is retried, a second later", () => {
  const replies = [error("MISCONF store is away"), integers(NOW + 40_000)];
  const script = serving({ LEASE: lease(7, NOW, NOW + 30_000), RENEW: () => replies.shift() });
  return withClient(script, FROZEN, async ({ client, server, clock, events }) => {
    const worker = client.worker("orders", Layout.TWITTER);
    await worker.next();
    clock.shift({ wallMs: 10_000, monoMs: 10_000 });
    await waitFor(events, "renew_failed");
    clock.shift({ wallMs: 999, monoMs: 999 });
    await turn();
    assert.equal(server.requests.length, 2);
    clock.shift({ wallMs: 1, monoMs: 1 });
    await waitFor(events, "renewed");
  });
});

for (const code of ["EXPIRED", "REVOKED", "WRONGTOKEN"]) {
  test(`after ${code} the lease is used to its end, and then there is a new one`, () => {
    const leases = [lease(7, NOW, NOW + 30_000), lease(8, NOW + 30_000, NOW + 60_000, 30_000, "second")];
    const script = serving({ LEASE: () => leases.shift(), RENEW: error(`${code} gone`), RELEASE: OK });
    return withClient(script, FROZEN, async ({ client, server, clock, events }) => {
      const worker = client.worker("orders", Layout.TWITTER);
      await worker.next();
      clock.shift({ wallMs: 10_000, monoMs: 10_000 });
      await waitFor(events, "lease_lost");
      clock.shift({ wallMs: 19_999, monoMs: 19_999 });
      assert.equal(Layout.TWITTER.parts(await worker.next()).worker, 7);
      assert.equal(server.requests.length, 2);
      clock.shift({ wallMs: 1, monoMs: 1 });
      assert.equal(Layout.TWITTER.parts(await worker.next()).worker, 8);
      assert.deepEqual(
        server.requests.map((words) => words[1]),
        ["LEASE", "RENEW", "LEASE"],
      );
    });
  });
}

test("a new lease begins above the newest ID", () => {
  const leases = [lease(7, NOW, NOW + 30_000), lease(3, NOW - 1000, NOW + 30_000)];
  return withClient(serving({ LEASE: () => leases.shift() }), FROZEN, async ({ client }) => {
    const worker = client.worker("orders", Layout.TWITTER);
    const newest = (await worker.take(5000)).at(-1);
    client.discard();
    const next = await worker.next();
    assert.ok(next > newest);
    assert.equal(Layout.TWITTER.parts(next).unixMs, NOW + 2);
  });
});

test("a clock past the end renews with the time of the clock", () => {
  const script = serving({
    LEASE: lease(7, NOW - HOUR, NOW - HOUR + 30_000),
    RENEW: (words) => integers(lastOf(words) + 5000),
  });
  return withClient(script, FROZEN, async ({ client, server }) => {
    const worker = client.worker("orders", Layout.TWITTER);
    assert.equal(Layout.TWITTER.parts(await worker.next()).unixMs, NOW);
    assert.equal(lastOf(server.requests[1]), NOW - 1);
    assert.equal(worker.stats().clockAheadMs, HOUR - 30_000);
  });
});

test("if the time of the clock is refused, the renewal has the real LAST, and calls get ClockError", () => {
  const script = serving({
    LEASE: lease(7, NOW - HOUR, NOW - HOUR + 30_000),
    RENEW: (words) => (lastOf(words) > NOW - HOUR ? error("ERR LAST is too far ahead") : integers(NOW - HOUR + 40_000)),
  });
  return withClient(script, FROZEN, async ({ client, server, clock, events }) => {
    const worker = client.worker("orders", Layout.TWITTER);
    await rejects(worker.next(), ClockError, /clock is 3560 s past the end.*timedatectl/);
    assert.deepEqual(server.requests.slice(1).map(lastOf), [NOW - 1, NOW - HOUR - 1]);
    assert.equal(events.at(-1).differenceMs, HOUR - 40_000);
    assert.equal(worker.stats().clockAheadMs, HOUR - 40_000);
    assert.equal(worker.tryNext(), null);
    await turn();
    assert.equal(server.requests.length, 3);
    const call = worker.next();
    clock.shift({ wallMs: 1000, monoMs: 1000 });
    await rejects(call, ClockError);
    assert.equal(server.requests.length, 5);
    clock.shift({ wallMs: -HOUR, monoMs: 1000 });
    assert.equal(typeof (await worker.next()), "bigint");
  });
});

test("the difference is measured from the end that the server gave by its own clock", () => {
  const script = serving({
    LEASE: lease(7, NOW - HOUR, NOW - HOUR + 30_000),
    RENEW: (words) => integers(lastOf(words) + 1),
  });
  return withClient(script, FROZEN, async ({ client }) => {
    await assert.rejects(client.worker("orders", Layout.TWITTER).next(), { differenceMs: HOUR - 30_000 });
  });
});

test("an id that does not fit the layout is released and an error", () => {
  const script = serving({ LEASE: lease(16, NOW, NOW + 30_000), RELEASE: OK });
  return withClient(script, FROZEN, async ({ client, server, events }) => {
    const worker = client.worker("orders", new Layout({ time: 41, worker: 4, counter: 12 }));
    await rejects(worker.next(), Refused, /worker id 16 does not fit the 4 bits .* 'worker-pool orders size 16'/);
    const words = await server.request(2);
    assert.deepEqual(words, ["WORKERID", "RELEASE", "orders", "16", "token", "LAST", String(NOW - 1)]);
    await waitFor(events, "released");
    assert.equal(worker.stats().workerId, null);
  });
});

test("a failed LEASE is retried after 1, 2, 4 seconds", () =>
  withClient(
    serving({ LEASE: error("EXHAUSTED all ids are leased") }),
    FROZEN,
    async ({ client, server, clock, events }) => {
      const call = client.worker("orders", Layout.TWITTER).next({ timeoutMs: 60_000 });
      await waitFor(events, "fetch_failed");
      for (const [index, waitMs] of [1000, 2000, 4000].entries()) {
        clock.shift({ monoMs: waitMs - 1 });
        await turn();
        assert.equal(server.requests.length, index + 1);
        clock.shift({ monoMs: 1 });
        await waitFor(events, "fetch_failed", index + 2);
      }
      const closed = rejects(call, Closed);
      await client.close();
      await closed;
    },
  ));

test("a lost reply of LEASE counts as a failed one", () =>
  withClient(
    (words, peer) => void peer.destroy(),
    FROZEN,
    async ({ client, server, clock, events }) => {
      const call = rejects(client.worker("orders", Layout.TWITTER).next(), Closed);
      await waitFor(events, "fetch_failed");
      clock.shift({ monoMs: 999 });
      await turn();
      assert.equal(server.requests.length, 1);
      clock.shift({ monoMs: 1 });
      await server.request(2);
      await client.close();
      await call;
    },
  ));

test("LOADING of a LEASE is polled", () => {
  const replies = [error("LOADING standby"), lease(7, NOW, NOW + 30_000)];
  return withClient(serving({ LEASE: () => replies.shift() }), FROZEN, async ({ client, clock, events }) => {
    const call = client.worker("orders", Layout.TWITTER).next();
    await waitFor(events, "fetch_failed");
    clock.shift({ monoMs: 200 });
    await call;
  });
});

test("errors of LEASE are Refused", () =>
  withClient(serving({ LEASE: error("ERR no such pool") }), FROZEN, async ({ client }) => {
    await rejects(
      client.worker("orders", Layout.TWITTER).next(),
      Refused,
      /worker pool 'orders': 127.*ERR no such pool/,
    );
  }));

const malformed = [
  OK,
  integers(1, 2, 3, 4, 5),
  `*4\r\n:1\r\n${bulk("token")}:${NOW}\r\n:${NOW + 5}\r\n`,
  lease(-1, NOW, NOW + 5),
  lease(1, NOW, NOW),
  lease(1, NOW, NOW + 5, 0),
  lease(1, NOW, NOW + 5, 5, ""),
  lease(1, NOW, NOW + 5, 5, "t".repeat(257)),
  lease(1, NOW, "9007199254740992"),
];

for (const reply of malformed) {
  test(`the lease ${JSON.stringify(reply).slice(0, 60)} closes the connection and is not shown`, () => {
    const replies = [reply, lease(7, NOW, NOW + 30_000)];
    return withClient(serving({ LEASE: () => replies.shift() }), FROZEN, async ({ client, server, clock, events }) => {
      const call = client.worker("orders", Layout.TWITTER).next();
      await waitFor(events, "disconnected");
      assert.ok(!events.at(-1).reason.includes("token"));
      clock.shift({ monoMs: 1000 });
      await call;
      while (server.peers.size !== 1) await turn();
    });
  });
}

test("a renewal that shortens the lease closes the connection", () => {
  const script = serving({ LEASE: lease(7, NOW, NOW + 30_000), RENEW: integers(NOW + 29_999) });
  return withClient(script, FROZEN, async ({ client, clock, events }) => {
    const worker = client.worker("orders", Layout.TWITTER);
    await worker.next();
    clock.shift({ wallMs: 10_000, monoMs: 10_000 });
    await waitFor(events, "disconnected");
    assert.equal(worker.stats().notAfterMs, NOW + 30_000);
  });
});

test("close releases the lease with the real LAST, on a connection of its own", () =>
  withClient(
    serving({ LEASE: lease(7, NOW, NOW + 30_000), RELEASE: OK }),
    FROZEN,
    async ({ client, server, events }) => {
      const worker = client.worker("orders", Layout.TWITTER);
      await worker.take(5000);
      assert.equal(await client.close(), true);
      const words = ["WORKERID", "RELEASE", "orders", "7", "token", "LAST", String(NOW + 1)];
      assert.deepEqual(server.requests.slice(1), [words]);
      assert.equal(events.at(-1).event, "released");
      await rejects(worker.next(), Closed);
      assert.throws(() => worker.tryNext(), Closed);
      assert.equal(worker.stats().workerId, null);
    },
  ));

test("a release that is refused because of LAST is sent without it", () => {
  const script = serving({
    LEASE: lease(7, NOW, NOW + 30_000),
    RELEASE: (words) => (words.includes("LAST") ? error("ERR LAST is too far ahead") : OK),
  });
  return withClient(script, FROZEN, async ({ client, server }) => {
    await client.worker("orders", Layout.TWITTER).next();
    assert.equal(await client.close(), true);
    assert.deepEqual(server.requests.at(-1), ["WORKERID", "RELEASE", "orders", "7", "token"]);
  });
});

test("a renewal whose reply comes after close changes nothing", async () => {
  let peer = null;
  const script = (words, from) => {
    if (words[1] === "LEASE") return lease(7, NOW, NOW + 30_000);
    if (words[1] === "RENEW") peer = from;
    return words[1] === "RELEASE" ? OK : undefined;
  };
  await withClient(script, FROZEN, async ({ client, server, clock, events }) => {
    const worker = client.worker("orders", Layout.TWITTER);
    await worker.next();
    clock.shift({ wallMs: 10_000, monoMs: 10_000 });
    await server.request(2);
    const closing = client.close();
    peer.write(integers(NOW + 40_000));
    assert.equal(await closing, true);
    await server.quiet();
    assert.deepEqual(
      events.map(({ event }) => event),
      ["connected", "leased", "released"],
    );
    assert.equal(worker.stats().renewals, 0);
    await rejects(worker.next(), Closed);
  });
});

test("a server that does not answer delays close by its time-out at most", () =>
  withClient(serving({ LEASE: lease(7, NOW, NOW + 30_000) }), FROZEN, async ({ client }) => {
    await client.worker("orders", Layout.TWITTER).next();
    assert.equal(await client.close({ timeoutMs: 10 }), false);
    assert.equal(await client.close(), false);
  }));

test("discard drops the lease without a message", () => {
  let id = 6;
  const script = serving({ LEASE: () => lease((id += 1), NOW, NOW + 30_000), RELEASE: OK });
  return withClient(script, FROZEN, async ({ client, server }) => {
    const worker = client.worker("orders", Layout.TWITTER);
    await worker.next();
    client.discard();
    assert.equal(worker.stats().workerId, null);
    await server.quiet();
    assert.equal(Layout.TWITTER.parts(await worker.next()).worker, 8);
    assert.deepEqual(
      server.requests.map((words) => words[1]),
      ["LEASE", "LEASE"],
    );
  });
});

test("discard ends a lease for which no call waits", () =>
  withClient(serving({ LEASE: lease(7, NOW, NOW + 30_000) }), FROZEN, async ({ client, server, events }) => {
    assert.equal(client.worker("orders", Layout.TWITTER).tryNext(), null);
    client.discard();
    await client.worker("other", Layout.TWITTER).next();
    await waitFor(events, "leased");
    assert.deepEqual(
      server.requests.map((words) => words[2]),
      ["other"],
    );
  }));

test("a signal that aborts between two waits of a call ends the call", () => {
  const controller = new AbortController();
  const script = (words) => {
    if (words[1] === "RENEW") return undefined;
    return lease(7, NOW, NOW + 1);
  };
  return withClient(script, FROZEN, async ({ client, server }) => {
    const onLeased = client.worker("orders", new Layout({ time: 41, worker: 4, counter: 1 }));
    const call = onLeased.take(3, { signal: controller.signal });
    await server.request(1);
    controller.abort(new Error("enough"));
    await assert.rejects(call, /enough/);
  });
});

test("tryNext starts the lease", () =>
  withClient(serving({ LEASE: lease(7, NOW, NOW + 30_000) }), FROZEN, async ({ client, events }) => {
    const worker = client.worker("orders", Layout.TWITTER);
    assert.equal(worker.tryNext(), null);
    await waitFor(events, "leased");
    assert.equal(Layout.TWITTER.parts(worker.tryNext()).worker, 7);
  }));

test("a call that times out is Unavailable", () =>
  withClient(
    () => undefined,
    FROZEN,
    async ({ client }) => {
      const call = client.worker("orders", Layout.TWITTER).next({ timeoutMs: 5 });
      await rejects(call, Unavailable, /no value of worker pool 'orders' within 5 ms/);
    },
  ));

test("the time of a layout that ended is an error with a remedy", () => {
  const layout = new Layout({ time: 10, worker: 4, counter: 2 });
  return withClient(serving({ LEASE: lease(7, NOW, NOW + 30_000) }), FROZEN, async ({ client }) => {
    await rejects(client.worker("orders", layout).next(), Refused, /the time of the layout ended/);
  });
});

test("one pool serves one layout", () =>
  withClient(
    () => undefined,
    FROZEN,
    async ({ client }) => {
      const worker = client.worker("orders", Layout.TWITTER);
      const { time, worker: bits, counter, epochMs } = Layout.TWITTER;
      assert.equal(client.worker("orders", new Layout({ time, worker: bits, counter, epochMs })), worker);
      assert.throws(() => client.worker("orders", Layout.DISCORD), /'orders' exists with other options/);
      assert.throws(() => client.worker("orders", {}), /layout is an object, must be a Layout such as Layout.TWITTER/);
      assert.throws(() => client.worker("orders", Layout.TWITTER, { ttlS: 0 }), /ttlS is 0/);
      assert.throws(() => client.worker("orders", Layout.TWITTER, { name: 5 }), /name is 5/);
    },
  ));

test("the name of a holder is printable ASCII of at most 64 bytes", () => {
  assert.equal(holderName("api-1"), "api-1");
  assert.equal(holderName("api 1 ä\n"), "api_1____");
  assert.equal(holderName(""), "");
  assert.equal(holderName("x".repeat(64)), "x".repeat(64));
  assert.match(holderName("x".repeat(65)), /^x{55}-[0-9a-f]{8}$/);
  assert.notEqual(holderName(`${"x".repeat(65)}a`), holderName(`${"x".repeat(65)}b`));
});
