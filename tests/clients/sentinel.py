"""redis-py in Sentinel mode: `sentinel.py draw NAME` or `sentinel.py find NAME...`. See tests/fleet/sentinel.rs."""

import os
import sys
import time

import redis
from redis.sentinel import Sentinel

sentinels = [tuple(address.rsplit(":", 1)) for address in os.environ["SENTINELS"].split(",")]


def client_of(name):
    return Sentinel(sentinels, socket_timeout=1).master_for(name, socket_timeout=1)


def draw(name):
    client = client_of(name)
    while True:
        try:
            print("id", name, client.execute_command("GETID"), flush=True)
        except redis.RedisError as error:
            print("error", type(error).__name__, error, flush=True)
        time.sleep(0.02)


mode, *names = sys.argv[1:]
if mode == "draw":
    draw(names[0])
for name in names:
    print("id", name, client_of(name).execute_command("GETID"))
