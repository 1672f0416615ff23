"""Real Python clients against a running getid: redis-py and valkey-py, sync and asyncio, RESP2 and RESP3.

Usage: python_redis.py PORT. Prints OK at the end; any difference raises.
"""

import asyncio
import importlib
import sys
from concurrent.futures import ThreadPoolExecutor

PORT = int(sys.argv[1])
MODULES = ["redis", "valkey"]


def check_sync(module, client):
    """GETID, MGETID, errors, pipelines: on one client."""
    last = client.execute_command("GETID")
    assert isinstance(last, int), last
    many = [int(one) for one in client.execute_command("MGETID", 100)]
    assert many == sorted(set(many)) and many[0] > last
    last = many[-1]
    try:
        client.execute_command("MGETID", 101)
        raise AssertionError("MGETID 101 was answered")
    except module.exceptions.ResponseError as error:
        assert "parameters error! argv[1] = 101" in str(error), error
    assert client.ping() and client.echo("x") in ("x", b"x")
    for transaction in (False, True):
        with client.pipeline(transaction=transaction) as pipe:
            for _ in range(1000):
                pipe.execute_command("GETID")
            many = pipe.execute()
        assert many == sorted(set(many)) and len(many) == 1000 and many[0] > last
        last = many[-1]
    info = client.info("generator")
    assert info["ids_issued"] > 2000, info
    assert client.info()["redis_version"].startswith("7.2.")
    assert client.client_id() > 0
    client.client_setname("check")
    assert client.client_getname() in ("check", b"check")
    assert any(line["name"] == "check" for line in client.client_list())
    assert client.config_get("port") in ({"port": str(PORT)}, {b"port": str(PORT).encode()})
    decoded = client.execute_command("DECODEID", last)
    assert decoded, decoded


def check_pool(module):
    """50 threads that share one pool."""
    client = module_client(module)(port=PORT)

    def draw(_):
        ids = [client.execute_command("GETID") for _ in range(100)]
        assert ids == sorted(ids)
        return ids

    with ThreadPoolExecutor(50) as threads:
        ids = [one for some in threads.map(draw, range(50)) for one in some]
    assert len(set(ids)) == 5000


async def check_async(module, **options):
    """The same with asyncio."""
    asynchronous = importlib.import_module(module.__name__ + ".asyncio")
    client = module_client(asynchronous)(port=PORT, **options)
    last = await client.execute_command("GETID")
    many = [int(one) for one in await client.execute_command("MGETID", 100)]
    assert many == sorted(set(many)) and many[0] > last
    try:
        await client.execute_command("MGETID", "x")
        raise AssertionError("MGETID x was answered")
    except module.exceptions.ResponseError as error:
        assert "value is not an integer or out of range" in str(error), error
    for transaction in (False, True):
        pipe = client.pipeline(transaction=transaction)
        for _ in range(1000):
            pipe.execute_command("GETID")
        many = await pipe.execute()
        assert many == sorted(set(many)) and len(many) == 1000
    both = await asyncio.gather(*(client.execute_command("GETID") for _ in range(50)))
    assert len(set(both)) == 50
    await client.aclose()


def module_client(module):
    """redis.Redis, valkey.Valkey."""
    return getattr(module, "Redis", None) or module.Valkey


for name in MODULES:
    module = importlib.import_module(name)
    for options in ({}, {"protocol": 2}, {"protocol": 3}, {"decode_responses": True}, {"db": 3, "client_name": "c"}):
        check_sync(module, module_client(module)(port=PORT, **options))
        asyncio.run(check_async(module, **options))
        print(name, module.__version__, options)
    check_pool(module)
print("OK")
