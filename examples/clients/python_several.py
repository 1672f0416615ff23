"""IDs from whichever server answers. Asking another one after an error is safe: at worst an ID is never used."""

import os
import random

import redis

PORTS = os.environ.get("GETID_PORTS", "7890,7891").split(",")
# A short timeout and no retries of the client's own: the next server is faster than the same one again.
SERVERS = [redis.Redis(port=int(port), socket_timeout=1, socket_connect_timeout=1, retry=None) for port in PORTS]


def get_id():
    errors = []
    for server in random.sample(SERVERS, len(SERVERS)):
        try:
            return server.execute_command("GETID")
        except redis.RedisError as error:
            errors.append(error)
    raise ConnectionError(f"no server gave an ID: {errors}")


many = [get_id() for _ in range(1000)]
print(len(set(many)), "different IDs, from servers", sorted({id >> 19 & 3 for id in many}))
