"use strict";

/**
 * Connection to one server, closed on any doubt: after a time-out, an end of stream, or bytes that were not expected.
 * So no request ever reads the reply of another one. The socket never keeps the program running; waiting calls do, by
 * their timers.
 */

const dns = require("node:dns");
const net = require("node:net");
const tls = require("node:tls");
const { Timer } = require("./clock.js");
const { ReplyReader, ServerError, encodeRequest } = require("./reply.js");

const CONNECT_TIMEOUT_MS = 1000;
const REPLY_TIMEOUT_MS = 6000;
const KEEP_ALIVE_MS = 60_000;

/** The connection is closed. `isConnect` is true if no request had been sent on it. */
class ConnectionLost extends Error {
  constructor(message, isConnect = false) {
    super(message);
    this.isConnect = isConnect;
  }
}

/** The server returned an error to `AUTH`. */
class LoginRefused extends Error {
  constructor(error) {
    super(error.text);
    this.error = error;
  }
}

class Connection {
  #target;
  #address;
  #tlsOptions;
  #onIdleLoss;
  #socket = null;
  #pending = null;
  #reader = null;
  #isDestroyed = false;
  #isLoggedIn = false;

  /** `onIdleLoss(reason)` is called if the connection ends while no request is under way. */
  constructor(target, address, tlsOptions, onIdleLoss = () => {}) {
    this.#target = target;
    this.#address = address;
    this.#tlsOptions = tlsOptions;
    this.#onIdleLoss = onIdleLoss;
  }

  /** Whether a request can be sent. */
  get isOpen() {
    return this.#isLoggedIn && !this.#isDestroyed;
  }

  /** Connects and logs in, within a second for all of it. */
  async connect() {
    const timer = new Timer(CONNECT_TIMEOUT_MS, () => this.destroy(`no connection within ${CONNECT_TIMEOUT_MS} ms`));
    timer.unref();
    try {
      await this.#open();
      if (this.#target.login.length > 0) await this.#logIn();
      this.#isLoggedIn = true;
    } finally {
      timer.stop();
      if (!this.#isLoggedIn) this.destroy("not connected");
    }
  }

  /** Sends a request and returns its reply. After any failure the connection is closed. */
  async request(words) {
    const timer = new Timer(REPLY_TIMEOUT_MS, () => this.destroy(`no reply within ${REPLY_TIMEOUT_MS} ms`)).unref();
    try {
      return await this.#exchange(words);
    } finally {
      timer.stop();
    }
  }

  /** Closes the connection. The request that is under way fails with `reason`. */
  destroy(reason) {
    if (this.#isDestroyed) return;
    this.#isDestroyed = true;
    this.#socket?.destroy();
    if (this.#pending === null) this.#onIdleLoss(`${this.#address}: ${reason}`);
    this.#settle("reject", this.#lost(reason));
  }

  async #open() {
    const { path, host, port } = this.#address;
    if (path !== null) return this.#openOne({ path });
    const places = net.isIP(host) ? [{ address: host }] : await this.#resolve(host);
    let failure = this.#lost("the host name has no address");
    for (const [index, { address }] of places.entries()) {
      // One address that does not answer must not use up the time of the others.
      const isLast = index === places.length - 1;
      const timer = isLast ? null : new Timer(CONNECT_TIMEOUT_MS / places.length, () => this.#giveUpAddress()).unref();
      try {
        return await this.#openOne({ host: address, port });
      } catch (error) {
        failure = error;
        if (this.#isDestroyed) break;
      } finally {
        timer?.stop();
      }
    }
    throw failure;
  }

  #giveUpAddress() {
    this.#socket?.destroy();
    this.#settle("reject", this.#lost("an address of the host did not answer"));
  }

  #resolve(host) {
    return this.#wait(() => {
      dns.lookup(host, { all: true }, (error, places) => {
        if (error) this.#settle("reject", this.#lost(error.message));
        else this.#settle("resolve", places);
      });
    });
  }

  #openOne(place) {
    return this.#wait(() => {
      const servername = net.isIP(this.#address.host) ? "" : this.#address.host;
      const socket = this.#target.isTls
        ? tls.connect({ servername, ...this.#tlsOptions, ...place })
        : net.connect(place);
      this.#socket?.destroy();
      this.#socket = socket;
      this.#listen(socket);
    });
  }

  #listen(socket) {
    const fail = (reason) => {
      if (socket !== this.#socket) return;
      // Another address of the host may be tried while none was connected.
      if (this.#reader === null) this.#settle("reject", this.#lost(reason));
      else this.destroy(reason);
    };
    socket.unref();
    socket.setNoDelay(true);
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    socket.on(this.#target.isTls ? "secureConnect" : "connect", () => {
      this.#reader = new ReplyReader();
      this.#settle("resolve");
    });
    socket.on("data", (chunk) => this.#read(chunk));
    socket.on("error", (error) => fail(error.message || error.code));
    socket.on("end", () => fail("the server closed the connection"));
    socket.on("close", () => fail("the connection was closed"));
  }

  #read(chunk) {
    if (this.#isDestroyed) return;
    if (this.#pending === null || this.#reader === null) return this.destroy("unexpected bytes from the server");
    try {
      const whole = this.#reader.feed(chunk);
      if (whole === undefined) return;
      this.#reader = new ReplyReader();
      this.#settle("resolve", whole.reply);
    } catch (error) {
      this.destroy(`malformed reply: ${error.message}`);
    }
  }

  async #logIn() {
    const reply = await this.#exchange(["AUTH", ...this.#target.login]);
    if (reply instanceof ServerError) throw new LoginRefused(reply);
    if (reply !== "OK") throw this.#lost("unexpected reply to AUTH");
  }

  #exchange(words) {
    return this.#wait(() => this.#socket.write(encodeRequest(words)));
  }

  /** Returns the promise of what `#settle` gets after `start`. There is one at a time. */
  #wait(start) {
    return new Promise((resolve, reject) => {
      if (this.#isDestroyed) return reject(this.#lost("the connection was closed"));
      this.#pending = { resolve, reject };
      start();
    });
  }

  #settle(how, result) {
    const pending = this.#pending;
    this.#pending = null;
    pending?.[how](result);
  }

  #lost(reason) {
    const prefix = this.#isLoggedIn ? "" : "connect to ";
    return new ConnectionLost(`${prefix}${this.#address}: ${reason}`, !this.#isLoggedIn);
  }
}

module.exports = { Connection, ConnectionLost, LoginRefused };
