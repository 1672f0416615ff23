"""Driver of the Python package: the protocol is in the README of the conformance suite."""

from __future__ import annotations

import asyncio
import atexit
import copy
import faulthandler
import json
import os
import pickle
import signal
import sys
import threading
import time
import traceback

if os.environ.get("GETID_DRIVER_GEVENT"):
    from gevent import monkey

    monkey.patch_all()
    # A thread of the pool reads standard input, so that the greenlets run meanwhile.
    from gevent.fileobject import FileObjectThread

    stdin = FileObjectThread(os.fdopen(0, "rb", 0))
else:
    stdin = sys.stdin.buffer

import ssl
from array import array

sys.path.insert(0, os.environ["GETID_PACKAGE"])

from getid import Client, ClockError, Closed, Layout, Refused, Unavailable  # noqa: E402
from getid._clock import TestClock  # noqa: E402

faulthandler.register(signal.SIGQUIT)


class Opened:
    """A client, its clock, its events, and when its ``close`` returned."""

    def __init__(self, command):
        self.clock = TestClock()
        self.events = []
        tls = ssl.create_default_context(cafile=command["ca"]) if command.get("ca") else None
        timeout = command["timeout_ms"] / 1000
        self.client = Client(command["url"], timeout=timeout, on_event=self.events.append, tls=tls, clock=self.clock)
        self.is_closed = False


class Drawing:
    """State of the ``draw`` of an object."""

    def __init__(self):
        self.is_stopped = False
        self.lock = threading.Lock()
        self.drawn = self.after_close = 0
        self.errors = {}


opened, objects, owners, drawings = {}, {}, {}, {}
output = threading.Lock()


def seconds(command):
    return command["timeout_ms"] / 1000 if command.get("timeout_ms") is not None else None


def name_of(error):
    for kind in (Unavailable, Refused, ClockError, Closed):
        if isinstance(error, kind):
            return kind.__name__
    return "Usage" if isinstance(error, (ValueError, TypeError)) else None


def write(path, values):
    with open(path, "wb") as file:
        file.write(array("q", values).tobytes())


def do_open(command):
    opened[command["client"]] = Opened(command)


def keep(command, found):
    objects[command["object"]] = found
    owners[command["object"]] = opened[command["client"]]


def do_sequence(command):
    options = {key: command[key] for key in ("prefetch_max", "fresh") if command.get(key) is not None}
    if command.get("hold_ms") is not None:
        options["hold"] = command["hold_ms"] / 1000
    keep(command, opened[command["client"]].client.sequence(command["name"], **options))


def do_worker(command):
    worker = opened[command["client"]].client.worker
    keep(command, worker(command["pool"], Layout(**command["layout"]), command.get("name"), command.get("ttl_s")))


def do_next(command):
    return {"value": str(objects[command["object"]].next(seconds(command)))}


def do_take(command):
    return {"values": [str(value) for value in objects[command["object"]].take(command["n"], seconds(command))]}


def do_try_next(command):
    value = objects[command["object"]].try_next()
    return {"value": None if value is None else str(value)}


def do_warm_up(command):
    objects[command["object"]].warm_up(command["n"])


def do_draw(command):
    drawing = drawings[command["object"]] = Drawing()
    body = draw_async if command.get("async") else draw
    threads = [threading.Thread(target=body, args=(command, drawing, i)) for i in range(command["threads"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"drawn": drawing.drawn, "errors": drawing.errors, "after_close": drawing.after_close}


def note_end(command, drawing, index, values, after_close):
    write(f"{command['file']}.{index}", values)
    with drawing.lock:
        drawing.drawn += len(values)
        drawing.after_close += after_close


def has_ended(error, drawing):
    """Counts an error of a draw. Returns whether its thread ends."""
    name = name_of(error) or type(error).__name__
    with drawing.lock:
        drawing.errors[name] = drawing.errors.get(name, 0) + 1
    return name not in ("Unavailable", "ClockError")


def draw(command, drawing, index):
    source, owner = objects[command["object"]], owners[command["object"]]
    want, size, limit = command["values"], command.get("take") or 0, seconds(command)
    values, after_close = array("q"), 0
    while len(values) < want and not drawing.is_stopped:
        was_closed = owner.is_closed
        try:
            if size:
                values.extend(source.take(min(size, want - len(values)), limit))
            else:
                values.append(source.next(limit))
            after_close += was_closed
        except Exception as error:  # noqa: BLE001 - counted by its name
            if has_ended(error, drawing):
                break
    note_end(command, drawing, index, values, after_close)


def draw_async(command, drawing, index):
    asyncio.run(draw_in_loop(command, drawing, index))


async def draw_in_loop(command, drawing, index):
    source, owner = objects[command["object"]], owners[command["object"]]
    values, after_close = array("q"), 0
    while len(values) < command["values"] and not drawing.is_stopped:
        was_closed = owner.is_closed
        try:
            values.append(await source.anext(seconds(command)))
            after_close += was_closed
        except Exception as error:  # noqa: BLE001 - counted by its name
            if has_ended(error, drawing):
                break
        if len(values) % 100 == 0:
            await asyncio.sleep(0)
    note_end(command, drawing, index, values, after_close)


def do_stop(command):
    drawings[command["object"]].is_stopped = True


def do_abandon(command):
    return asyncio.run(abandon(objects[command["object"]], command["calls"], command["after_ms"] / 1000))


async def abandon(source, calls, after):
    tasks = [asyncio.ensure_future(source.anext()) for _ in range(calls)]
    await asyncio.sleep(after)
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    values = [str(result) for result in results if isinstance(result, int)]
    return {"cancelled": len(results) - len(values), "values": values}


def do_close(command):
    owner = opened[command["client"]]
    released = owner.client.close(*([seconds(command)] if command.get("timeout_ms") is not None else []))
    owner.is_closed = True
    return {"released": released}


def do_discard(command):
    opened[command["client"]].client.discard()


def do_stats(command):
    return objects[command["object"]].stats()


def do_events(command):
    owner = opened[command["client"]]
    events, owner.events[:] = list(owner.events), []
    return {"events": [event._asdict() for event in events]}


def do_clock(command):
    opened[command["client"]].clock.shift(wall_ms=command["wall_ms"], mono_ms=command["mono_ms"])


def do_copy(command):
    found = objects[command["object"]]
    return {"same": copy.copy(found) is found and copy.deepcopy(found) is found}


def do_serialize(command):
    return {"bytes": len(pickle.dumps(objects[command["object"]]))}


def do_fork(command):
    child = os.fork()
    if child == 0:
        run_child(command)
    return {"status": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}


def run_child(command):
    """Draws in the child, and ends it as a program ends: with the handlers at exit."""
    global output
    output = threading.Lock()
    try:
        source = objects[command["object"]]
        write(command["file"], [source.next(60) for _ in range(command["values"])])
        if command.get("close"):
            opened[command["client"]].client.close()
        status = 0
    except BaseException:  # noqa: BLE001 - shown by the status and standard error
        traceback.print_exc()
        status = 70
    finish(status)


def finish(status):
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(status)


def do_counter(command):
    class Counter:
        def __init__(self):
            self.lock, self.value = threading.Lock(), 0

        def next(self):
            with self.lock:
                self.value += 1
                return self.value

    return {"ns": time_calls(Counter().next, command["values"])}


def do_time(command):
    return {"ns": time_calls(objects[command["object"]].next, command["values"])}


def time_calls(call, count):
    begin = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - begin) / count


def answer(line):
    with output:
        print(json.dumps(line), flush=True)


def run(command):
    try:
        answer({"id": command["id"], "ok": globals()["do_" + command["do"]](command) or {}})
    except Exception as error:  # noqa: BLE001 - each error is an answer
        answer({"id": command["id"], "error": name_of(error) or type(error).__name__, "message": str(error)})


def main():
    for line in iter(stdin.readline, b""):
        command = json.loads(line)
        if command["do"] == "exit":
            answer({"id": command["id"], "ok": {}})
            return
        threading.Thread(target=run, args=(command,), daemon=True).start()


main()
