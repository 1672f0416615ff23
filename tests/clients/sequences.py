"""Programs that count in Redis from Python, unchanged, with getid: `sequences.py redis-py|django|django-redis`, with
`-dated` behind the name for counters under a date, which expire. The server then creates on first use. See
tests/server/sequence_clients.rs.
"""

import os
import sys

PORT = int(os.environ["GETID_PORT"])


def refused(kind, text, call):
    try:
        answer = call()
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError(f"answered: {answer}")


def redis_py():
    import redis

    for protocol in (2, 3):
        client = redis.Redis(port=PORT, protocol=protocol, decode_responses=True)
        name = f"py:{protocol}"
        refused(redis.ResponseError, f"no such sequence '{name}'", lambda: client.incr(name))
        assert client.exists(name) == 0 and client.get(name) is None
        assert client.execute_command("SEQUENCE", "CREATE", name, "START", 100) in ("OK", b"OK", True)
        assert (client.incr(name), client.incr(name, 10), client.incrby(name, 5)) == (100, 110, 115)
        assert client.get(name) == "115" and client.exists(name) == 1 and client.type(name) == "string"
        assert client.hincrby(name, "cur", 5) == 120
        assert client.hget(name, "cur") == "120" and client.hgetall(name)["cur"] == "120"
        assert (client.ttl(name), client.strlen(name)) == (-1, 3)
        with client.pipeline(transaction=True) as pipe:
            assert pipe.incr(name).incrby(name, 2).get(name).execute() == [121, 123, "123"]
        with client.pipeline(transaction=False) as pipe:
            assert pipe.incr(name).expire(name, 60, nx=True).execute() == [124, False]
        assert client.set(name, 200) is True and client.incr(name) == 201
        assert client.set(name, 300, nx=True) is None and client.setnx(name, 300) is False
        assert client.set(f"new:{name}", 7, nx=True) is True and client.incr(f"new:{name}") == 8
        refused(redis.ResponseError, "a sequence never goes back", lambda: client.set(name, 5))
        refused(redis.ResponseError, "it never goes back", lambda: client.decr(name))
        refused(redis.ResponseError, "a sequence never goes back", lambda: client.incrby(name, -1))
        assert sorted(client.scan_iter(match=f"*{name}")) == [f"new:{name}", name]
        assert sorted(client.keys(f"*{name}")) == [f"new:{name}", name]
        assert client.mget(name, "nope") == ["201", None]

        # Compare and set, as in redis-py's documentation: an error, and no repeated value.
        def next_of(pipe):
            last = int(pipe.get(name))
            pipe.multi()
            pipe.set(name, last + 1)

        for watched in (name, "nope"):
            refused(redis.ResponseError, f"INCR {watched}", lambda: client.transaction(next_of, watched))
        assert client.get(name) == "201"
        with client.pipeline(transaction=True) as pipe:
            # A command that a pipeline sends at its end.
            assert pipe.unwatch() in (True, "OK", None) and pipe.get(name).execute() == ["201"]
        client.close()


def django_cache(backend, **options):
    import django
    from django.conf import settings

    settings.configure(CACHES={"default": {"BACKEND": backend, "LOCATION": f"redis://127.0.0.1:{PORT}/1", **options}})
    django.setup()
    from django.core.cache import cache

    return cache


def django():
    cache = django_cache("django.core.cache.backends.redis.RedisCache")
    refused(ValueError, "not found", lambda: cache.incr("orders"))
    cache.set("orders", 1000, timeout=None)
    assert (cache.incr("orders"), cache.incr("orders", 5)) == (1001, 1006)
    assert cache.get("orders") == 1006 and "orders" in cache


def django_redis():
    cache = django_cache("django_redis.cache.RedisCache", KEY_PREFIX="dr")
    refused(ValueError, "not found", lambda: cache.incr("orders"))
    cache.set("orders", 1000, timeout=None)
    # By EVAL, with and without a check of the key.
    assert (cache.incr("orders"), cache.incr("orders", 5)) == (1001, 1006)
    assert cache.incr("orders", 2, ignore_key_check=True) == 1008
    assert cache.get("orders") == 1008 and cache.has_key("orders")


def redis_py_dated():
    """Counters of a day, and Spring's RedisAtomicLong and setIfAbsent with a time-out, in redis-py's words."""
    import redis

    client = redis.Redis(port=PORT, decode_responses=True)
    day = "orders:2026-11-27"
    with client.pipeline(transaction=True) as pipe:
        assert pipe.incr(day).expire(day, 86400).execute() == [1, True]
    with client.pipeline(transaction=False) as pipe:
        assert pipe.incr(day).expire(day, 86400, nx=True).execute() == [2, False]
    assert 86390 < client.ttl(day) <= 86400
    # RedisAtomicLong: GET, SET of a missing one, INCR, PEXPIRE or PEXPIREAT.
    atomic = "atomic:20261127"
    assert client.get(atomic) is None and client.set(atomic, 0) is True
    assert client.incr(atomic) == 1 and client.pexpire(atomic, 3600_000) and client.incr(atomic) == 2
    assert client.pexpireat(atomic, 4000000000000) and client.pexpiretime(atomic) == 4000000000000
    # setIfAbsent(key, 0, timeout) and increment.
    limit = "limit:2026:ann"
    assert client.set(limit, 0, ex=60, nx=True) is True and client.set(limit, 0, ex=60, nx=True) is None
    assert (client.incr(limit), client.incr(limit), client.get(limit)) == (1, 2, "2")
    assert client.setex("late:2026", 60, 7) and client.incr("late:2026") == 8
    # The end of a window: Redis would begin again at 1.
    assert client.expire(limit, 0)
    refused(redis.ResponseError, f"PERSIST {limit}", lambda: client.incr(limit))
    assert client.exists(limit) == 1 and client.persist(limit) and client.incr(limit) == 3
    refused(redis.ResponseError, "a sequence never expires", lambda: client.set("plain", 0, ex=60))


def django_dated():
    cache = django_cache("django.core.cache.backends.redis.RedisCache")
    key = "orders-2026-11-27"
    assert cache.add(key, 0, timeout=86400) is True and cache.add(key, 0, timeout=86400) is False
    assert (cache.incr(key), cache.incr(key, 5), cache.get(key)) == (1, 6, 6)
    assert cache.touch(key, 3600) is True and cache.incr(key) == 7
    cache.set("hits-2026", 100, timeout=60)
    assert cache.incr("hits-2026") == 101


def django_redis_dated():
    cache = django_cache("django_redis.cache.RedisCache", KEY_PREFIX="dr")
    key = "orders-2026-11-27"
    assert cache.add(key, 0, timeout=86400) is True and cache.add(key, 0, timeout=86400) is False
    assert (cache.incr(key), cache.incr(key, 5), cache.get(key)) == (1, 6, 6)
    assert 86390 < cache.ttl(key) <= 86400
    assert cache.expire(key, 3600) and cache.incr(key) == 7 and cache.ttl(key) <= 3600
    assert cache.persist(key) and cache.ttl(key) is None


name = sys.argv[1]
{
    "redis-py": redis_py,
    "django": django,
    "django-redis": django_redis,
    "redis-py-dated": redis_py_dated,
    "django-dated": django_dated,
    "django-redis-dated": django_redis_dated,
}[name]()
print(f"ok {name}")
