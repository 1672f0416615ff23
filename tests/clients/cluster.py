"""redis-py in cluster mode: repeats a round, and prints the last ID of each. See tests/fleet/cluster.rs."""

import os
import time

import redis
from redis.cluster import ClusterNode, RedisCluster

host, port = os.environ["NODES"].split(",")[0].split(":")
client = RedisCluster(startup_nodes=[ClusterNode(host, int(port))])


def draw():
    # GETID alone has no key, by which the library finds the node.
    first = client.execute_command("GETID", "-")
    ids = client.execute_command("MGETID", 2, "-")
    client.incr("orders")
    client.incrby("invoices", 5)
    pipeline = client.pipeline()
    pipeline.incr("orders").incr("invoices").execute_command("GETID", "-")
    last = pipeline.execute()[2]
    transaction = client.pipeline(transaction=True)
    transaction.incr("{shop}orders").incr("{shop}invoices")
    assert len(transaction.execute()) == 2
    assert first < int(ids[0]) < int(ids[1]) < last
    assert client.cluster_info()["cluster_state"] == "ok"
    return last


while True:
    try:
        print("id getid", draw(), flush=True)
    except (redis.RedisError, redis.exceptions.RedisClusterException) as error:
        print("error", type(error).__name__, error, flush=True)
    time.sleep(0.02)
