"""Programs that count in Redis from Python, unchanged, with getid: `sequences.py redis-py|django|django-redis`.

The server creates on first use with the argument `first-use`; else a sequence is made first. See
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


name = sys.argv[1]
{"redis-py": redis_py, "django": django, "django-redis": django_redis}[name]()
print(f"ok {name}")
