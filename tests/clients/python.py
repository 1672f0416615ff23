"""redis-py or valkey-py, unchanged, against a running getid: `python.py redis|valkey sync|asyncio [2|3] [check ...]`.

2 or 3 is the RESP version to ask for; without it the client's own default holds. See tests/client_matrix.rs.
"""

import asyncio
import importlib
import inspect
import os
import sys
import threading

CHECKS = "connect getid mgetid error pipeline multi pool reconnect password tls".split()

PORT, TLS_PORT, PASSWORD_PORT = (int(os.environ[f"MATRIX_{name}PORT"]) for name in ("", "TLS_", "PASSWORD_"))
PASSWORD, CA = os.environ["MATRIX_PASSWORD"], os.environ["MATRIX_CA"]

package, mode, *words = sys.argv[1:]
protocol = {"protocol": int(words.pop(0))} if words and words[0].isdigit() else {}
module = importlib.import_module(package)
errors = module.exceptions


def client_class():
    """redis.Redis, redis.asyncio.Redis, valkey.Valkey, valkey.asyncio.Valkey."""
    owner = importlib.import_module(f"{package}.asyncio") if mode == "asyncio" else module
    return getattr(owner, "Redis", None) or owner.Valkey


def new(port=PORT, **options):
    return client_class()(port=port, **protocol, **options)


def no_retries():
    """For refusals: redis-py takes a bad password and a bad certificate for a bad line, and tries 10 times in 5 s."""
    owner = importlib.import_module(f"{package}.asyncio.retry" if mode == "asyncio" else f"{package}.retry")
    return owner.Retry(module.backoff.NoBackoff(), 0)


async def done(answer):
    """Returns the result of a call: the sync client returns it, the asyncio client an awaitable of it."""
    return await answer if inspect.isawaitable(answer) else answer


async def close(client):
    await done(client.aclose() if mode == "asyncio" else client.close())


def ascending(ids, after=-1):
    assert all(type(one) is int for one in ids), "not integers"
    assert ids[0] > after and all(a < b for a, b in zip(ids, ids[1:])), "not ascending"


async def refused(kind, text, call):
    """The call must fail with this error of the library."""
    try:
        answer = await done(call())
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError(f"answered: {answer}")


async def connect():
    client = new(db=3, client_name="matrix")
    assert await done(client.ping()) is True
    assert await done(client.echo("x")) == b"x"
    me = await done(client.client_info())
    assert me["name"] == "matrix" and int(me["db"]) == 3, me
    assert int(me["resp"]) == speaks(), me
    assert any(one["name"] == "matrix" for one in await done(client.client_list()))
    assert (await done(client.info("generator")))["ids_issued"] >= 0
    assert (await done(client.info()))["redis_mode"] == "standalone"
    port = await done(client.config_get("port"))
    assert port in ({"port": str(PORT)}, {b"port": str(PORT).encode()}), port
    await close(client)
    texts = new(decode_responses=True)
    assert await done(texts.echo("x")) == "x"
    await close(texts)


def speaks():
    """The RESP version of this row; redis-py uses 3 by default since version 8."""
    return protocol.get("protocol") or (3 if package == "redis" else 2)


async def getid():
    # Any 1024 consecutive IDs differ in their last ten bits, so a lost digit shows.
    client = new()
    ids = [await done(client.execute_command("GETID")) for _ in range(1024)]
    ascending(ids)
    assert len({one % 1024 for one in ids}) == 1024, "lost digits"
    await close(client)


async def mgetid():
    client = new()
    last = await done(client.execute_command("GETID"))
    many = await done(client.execute_command("MGETID", 100))
    assert len(many) == 100 and all(type(one) is bytes for one in many)
    ascending([int(one) for one in many], last)
    await close(client)


async def error():
    client = new(single_connection_client=True)
    before = await done(client.client_id())
    for count, text in (101, "parameters error! argv[1] = 101"), ("x", "value is not an integer or out of range"):
        await refused(errors.ResponseError, text, lambda count=count: client.execute_command("MGETID", count))
    await refused(errors.ResponseError, "unknown command", lambda: client.execute_command("NOSUCH"))
    ascending([await done(client.execute_command("GETID"))])
    assert await done(client.client_id()) == before, "the connection was not kept"
    await close(client)


async def piped(client, transaction):
    pipe = client.pipeline(transaction=transaction)
    for _ in range(1000):
        pipe.execute_command("GETID")
    ids = await done(pipe.execute())
    assert len(ids) == 1000
    ascending(ids)
    # A failed command has an error in its place, and the others are answered.
    for words in ("GETID",), ("MGETID", 0), ("GETID",):
        pipe.execute_command(*words)
    one, two, three = await done(pipe.execute(raise_on_error=False))
    assert isinstance(two, errors.ResponseError), two
    ascending([one, three], ids[-1])


async def pipeline():
    client = new()
    await piped(client, transaction=False)
    await close(client)


async def multi():
    client = new()
    await piped(client, transaction=True)
    # A command that cannot be queued aborts the transaction.
    pipe = client.pipeline(transaction=True)
    pipe.execute_command("GETID")
    pipe.execute_command("MGETID")
    await refused(errors.ResponseError, "wrong number of arguments", pipe.execute)
    ascending([await done(client.execute_command("GETID"))])
    await close(client)


async def pool():
    client = new()
    drawn = []
    if mode == "asyncio":
        ready = asyncio.Barrier(50)

        async def draw():
            async with client.client() as mine:
                await mine.ping()
                await ready.wait()
                drawn.append([await mine.execute_command("GETID") for _ in range(400)])

        await asyncio.gather(*(draw() for _ in range(50)))
    else:
        ready = threading.Barrier(50, timeout=10)

        def draw():
            with client.client() as mine:
                mine.ping()
                ready.wait()
                drawn.append([mine.execute_command("GETID") for _ in range(400)])

        threads = [threading.Thread(target=draw) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(drawn) == 50
    for ids in drawn:
        ascending(ids)
    assert len({one for ids in drawn for one in ids}) == 20_000
    await close(client)


async def reconnect():
    client, killer = new(), new()
    before = await done(client.client_id())
    last = await done(client.execute_command("GETID"))
    assert await done(killer.client_kill_filter(_id=before)) == 1
    ascending([await done(client.execute_command("GETID"))], last)
    assert await done(client.client_id()) != before
    await close(client)
    await close(killer)


async def password():
    wrong, none = "invalid username-password pair", "uthenticat"
    for options, text in [
        ({"password": "wrong"}, wrong),
        ({"password": "wrong", "username": "default", "retry": no_retries()}, wrong),
        ({"retry": no_retries()}, none),
    ]:
        client = new(PASSWORD_PORT, **options)
        await refused(errors.AuthenticationError, text, lambda client=client: client.execute_command("GETID"))
        await close(client)
    for options in {"password": PASSWORD}, {"password": PASSWORD, "username": "default"}:
        client = new(PASSWORD_PORT, **options)
        ascending([await done(client.execute_command("GETID"))])
        await close(client)


async def tls():
    client = new(TLS_PORT, ssl=True, ssl_ca_certs=CA)
    await piped(client, transaction=False)
    await close(client)
    # The client checks the server: a certificate of an unknown authority is refused.
    stranger = new(TLS_PORT, ssl=True, retry=no_retries())
    await refused(errors.ConnectionError, "certificate verify failed", stranger.ping)
    await close(stranger)


async def main():
    print("version", f"{package}-py", module.__version__)
    for name in words or CHECKS:
        await globals()[name]()
        print("ok", name, flush=True)


asyncio.run(main())
