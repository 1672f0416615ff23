"""IDs of snowflake-id with a worker id that getid leases (docs/worker-ids.md).

    pip install redis snowflake-id
"""

import os
import socket
import threading
import time

import redis
from snowflake import Snowflake, SnowflakeGenerator


class Worker:
    """Leases a worker id, renews it, and gives IDs of the generator that `make` makes for it."""

    def __init__(self, client, pool, make, time_of, name=None):
        self.client, self.pool, self.make, self.time_of = client, pool, make, time_of
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.lock, self.over, self.newest = threading.Lock(), threading.Event(), 0
        self.lease()
        threading.Thread(target=self.keep, daemon=True).start()

    def lease(self):
        id, token, not_before, not_after = self.client.execute_command(
            "WORKERID", "LEASE", self.pool, "NAME", self.name)
        with self.lock:  # Another id, or the same one later: another generator.
            self.id, self.token, self.not_before, self.not_after = id, token, not_before, not_after
            self.generator, self.last = self.make(id), not_before - 1

    def keep(self):
        while not self.over.wait(max(0.1, (self.not_after - time.time() * 1000) / 3000)):
            try:
                renewed = self.client.execute_command(
                    "WORKERID", "RENEW", self.pool, self.id, self.token, "LAST", self.last)
                with self.lock:
                    self.not_after = renewed[0]
            except redis.ResponseError as error:
                if str(error).startswith(("EXPIRED", "REVOKED", "WRONGTOKEN")) and self.is_over():
                    try:
                        self.lease()
                    except redis.RedisError:
                        pass  # Tried again; until then there are no IDs.
            except redis.RedisError:
                pass  # The lease lasts to its end, whoever is away.

    def is_over(self):
        return time.time() * 1000 >= self.not_after

    def next(self):
        """An ID. What the generator makes outside of the lease, or not above the one before, is thrown away."""
        for _ in range(100):
            with self.lock:
                made = next(self.generator)
                at = -1 if made is None else self.time_of(made)
                if self.not_before <= at < self.not_after and made > self.newest:
                    self.last, self.newest = at, made
                    return made
            time.sleep(0.001)
        raise RuntimeError(f"no lease of worker id {self.id} in pool {self.pool} holds at this time")

    def close(self):
        self.over.set()
        with self.lock:
            self.not_after = 0
            self.client.execute_command("WORKERID", "RELEASE", self.pool, self.id, self.token, "LAST", self.last)


if __name__ == "__main__":
    client = redis.Redis(port=int(os.environ.get("GETID_PORT", 7890)), decode_responses=True)
    worker = Worker(client, "orders", SnowflakeGenerator, lambda id: Snowflake.parse(id).milliseconds)
    ids = [worker.next() for _ in range(1000)]
    worker.close()
    print(f"worker id {worker.id}: {len(set(ids))} different IDs, ascending: {ids == sorted(ids)}")
