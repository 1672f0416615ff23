"""IDs of snowflake-id with a worker id that getid leases (docs/worker-ids.md).

    pip install redis snowflake-id
"""

import os
import socket
import threading
import time

import redis
from snowflake import Snowflake, SnowflakeGenerator


def now_ms():
    return int(time.time() * 1000)


class Worker:
    """Leases a worker id, renews it, and gives IDs of the generator that `make` makes for it.

    `lease_s` is the lease of the pool. `client` needs a `socket_timeout`: close() waits for a renewal that is under way.
    """

    def __init__(self, client, pool, make, time_of, name=None, lease_s=30):
        self.client, self.pool, self.make, self.time_of, self.lease_s = client, pool, make, time_of, lease_s
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        # The lock guards the lease, the newest ID and `closed`. It is never held during a request.
        self.lock, self.closed, self.closing = threading.Lock(), False, threading.Event()
        self.newest, self.trouble, self.process = 0, None, os.getpid()
        self.lease()
        self.keeper = threading.Thread(target=self.keep, daemon=True)
        self.keeper.start()

    def lease(self):
        asked_at = now_ms()
        id, token, not_before, not_after, _ = self.client.execute_command(
            "WORKERID", "LEASE", self.pool, "NAME", self.name)
        with self.lock:  # A new lease needs a new generator. A closed worker gives the id back unused.
            self.id, self.token, self.not_before, self.not_after = id, token, not_before, not_after
            self.generator, self.last = self.make(id), not_before - 1
            self.ahead_ms, self.trouble = asked_at - not_after, None

    def renew(self):
        asked_at = now_ms()
        (not_after,) = self.client.execute_command(
            "WORKERID", "RENEW", self.pool, self.id, self.token, "LAST", self.last)
        with self.lock:
            if not self.closed:
                # Positive: the clock was past the new end before the server set it, so the clock is wrong.
                self.not_after, self.ahead_ms, self.trouble = not_after, asked_at - not_after, None

    def pause_s(self):
        """Returns a third of the remaining lease, within bounds that do not depend on the clock, which may be wrong."""
        return min(max((self.not_after - now_ms()) / 3000, 1), max(self.lease_s / 3, 1))

    def keep(self):
        while not self.closing.wait(self.pause_s()):
            try:
                self.renew()
            except redis.RedisError as error:
                self.trouble = error  # The lease lasts to its end. After it there are no IDs.
                is_lost = str(error).startswith(("EXPIRED", "REVOKED", "WRONGTOKEN"))
                if is_lost and now_ms() >= self.not_after and not self.closed:
                    try:
                        self.lease()
                    except redis.RedisError as error:
                        self.trouble = error

    def next(self):
        """Returns an ID. An ID outside the lease, or not above the previous one, is discarded."""
        self.check_process()
        for _ in range(100):
            with self.lock:
                if self.closed:
                    break
                made = next(self.generator)
                at = -1 if made is None else self.time_of(made)
                if self.not_before <= at < self.not_after and made > self.newest:
                    self.last, self.newest = at, made
                    return made
            time.sleep(0.001)
        with self.lock:
            raise RuntimeError(self.why_none())

    def check_process(self):
        if self.process != os.getpid():
            raise RuntimeError(f"this worker is a copy that a fork made, and worker id {self.id} is that of process "
                               f"{self.process}: make a Worker after the fork")

    def why_none(self):
        lease, now, first = f"worker id {self.id} of pool {self.pool}", now_ms(), max(self.not_before, self.last)
        if self.closed:
            return f"no ID of {lease}: this worker is closed"
        if now >= self.not_after and self.ahead_ms >= 0:
            return (f"no ID of {lease}: this machine's clock is at least {self.ahead_ms / 1000} s ahead of the server's, "
                    f"past the end of a lease that was just given. Set the clock (timedatectl set-ntp true), or give "
                    f"the pool a lease that is longer than the difference")
        if now >= self.not_after:
            return f"no ID of {lease}: the lease is over and not renewed, last error: {self.trouble}"
        if now < first:
            return (f"no ID of {lease}: this machine's clock is {(first - now) / 1000} s behind the first time that "
                    f"an ID may have. Set the clock (timedatectl set-ntp true), or wait")
        return f"no ID of {lease}: the generator made none in 100 tries; try again"

    def close(self):
        """Gives no more IDs, waits for a renewal that is under way, and gives the worker id back."""
        self.check_process()
        with self.lock:
            self.closed = True  # From here on LAST does not change.
        self.closing.set()
        self.keeper.join()
        self.client.execute_command("WORKERID", "RELEASE", self.pool, self.id, self.token, "LAST", self.last)


if __name__ == "__main__":
    client = redis.Redis(port=int(os.environ.get("GETID_PORT", 7890)), decode_responses=True, socket_timeout=5)
    worker = Worker(client, "orders", SnowflakeGenerator, lambda id: Snowflake.parse(id).milliseconds)
    ids = [worker.next() for _ in range(1000)]
    worker.close()
    print(f"worker id {worker.id}: {len(set(ids))} different IDs, ascending: {ids == sorted(ids)}")
