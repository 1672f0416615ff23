"""Values that Python's libraries read from getid's IDs. The server has server-id 363: datacenter 11, worker 11."""

import os
import time
import uuid

import redis
from bson import ObjectId
from snowflake import Snowflake

ids = redis.Redis(port=int(os.environ["GETID_PORT"]), decode_responses=True)
TWITTER = 1288834974657


def near_now(seconds):
    """IDs begin id-max-borrow-ms, three seconds, ahead of the clock."""
    assert abs(seconds - time.time()) < 60, seconds


def draw(name):
    one = ids.execute_command("GETID", name)
    many = ids.execute_command("MGETID", 100, name)
    return [one, *many]


tweets = [int(i) for i in draw("tweets")]
assert tweets == sorted(set(tweets))
for tweet in tweets:
    read = Snowflake.parse(tweet, TWITTER)
    assert read.instance == 363 and int(read) == tweet
    near_now(read.seconds)
print("ok snowflake-id")

for version in (1, 4, 6, 7):
    texts = draw(f"v{version}")
    assert len(set(texts)) == 101
    for text in texts:
        read = uuid.UUID(text)
        assert str(read) == text and read.version == version and read.variant == uuid.RFC_4122
        if version == 1:
            near_now(read.time / 1e7 - 12219292800)
            assert read.node >> 40 & 1 == 1, "a random node has the multicast bit"
        elif version == 6:
            bits = read.int >> 64
            near_now((bits >> 16 << 12 | bits & 0xFFF) / 1e7 - 12219292800)
        elif version == 7:
            near_now((read.int >> 80) / 1000)
    if version in (6, 7):
        assert texts == sorted(texts)
print("ok uuid")

documents = draw("document")
assert documents == sorted(set(documents))
for text in documents:
    read = ObjectId(text)
    assert str(read) == text
    near_now(read.generation_time.timestamp())
assert len({text[8:18] for text in documents}) == 1, "one process"
print("ok bson")
