"""The scenes. Each is a function of a ``Context``; it raises if a promise is broken."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import Callable, Dict, List, NamedTuple, Optional

from . import judge
from .context import COARSE, EVENT_S, HOUR_MS, LAYOUT, POLL_S, TIMEOUT_MS, Context, Handle, NotSupported
from .driver import HANG_S, Failed
from .servers import Server, binary, free_port
from .wire import Reader, encode

LEASE_MS = 30_000
THIRD_MS = LEASE_MS // 3 + 1000
ENDLESS = 1 << 40
LONG_S = 3000.0
LATE_CALLS = 50


class Scene(NamedTuple):
    """A scene of the suite."""

    run: Callable[[Context], None]
    language: Optional[str]
    needs: Optional[str]


SCENES: Dict[str, Scene] = {}


def scene(language: Optional[str] = None, needs: Optional[str] = None) -> Callable:
    """Registers a function as a scene, of one language alone where it is given, and the program that it needs."""

    def register(run: Callable[[Context], None]) -> Callable[[Context], None]:
        SCENES[run.__name__.replace("_", "-")] = Scene(run, language, needs)
        return run

    return register


def start_draw(handle: Handle, object: str, path: str, threads: int = 4, values: int = ENDLESS, **options):
    """Starts a draw of an object."""
    return handle.driver.start("draw", object=object, threads=threads, values=values, file=path, **options)


def stop_draw(handle: Handle, object: str, future, least: int = 1) -> dict:
    """Waits until at least ``least`` more values were drawn, and ends the draw."""
    handle.wait_stats(object, "values", handle.call("stats", object=object)["values"] + least)
    handle.call("stop", object=object)
    return handle.driver.result(future, "draw")


def check_no_end(result: dict) -> None:
    """The threads of a draw ended only because they were stopped or done."""
    ends = {name for name in result["errors"] if name not in ("Unavailable", "ClockError")}
    if ends or result["after_close"]:
        raise AssertionError(f"a draw ended with {result}")


@scene()
def many(context: Context) -> None:
    """4 processes with 8 threads each, by ones and by ``take``, from one sequence."""
    share = context.options.values // 4 // 8
    handles = [context.client() for _ in range(4)]
    draws = []
    for i, handle in enumerate(handles):
        handle.sequence(context.name)
        take = {"take": 7} if i == 3 else {}
        draws.append(start_draw(handle, "s", context.path(f"v{i}"), 8, share, timeout_ms=60_000, **take))
    for handle, draw in zip(handles, draws):
        check_no_end(handle.driver.result(draw, "draw", LONG_S if context.options.is_long else HANG_S))
    context.check_values("v", share * 32)


@scene()
def segments(context: Context) -> None:
    """Values come in the order of their segments: what is left of the first one, then those of the second one."""
    proxy = context.proxy()
    handle = context.client(proxy)
    for i in range(3):
        name, object = f"{context.name}-{i}", f"s{i}"
        handle.sequence(name, object)
        handle.call("warm_up", object=object, n=2000)
        # At most half of the segment is left then, so the second one is fetched.
        values = [int(value) for value in handle.call("take", object=object, n=1100)["values"]]
        handle.wait_stats(object, "fetches", 2)
        values += map(int, handle.call("take", object=object, n=1000)["values"])
        judge.check_ascending("take", values)
        judge.check_given(values, judge.ranges_given(proxy.exchanges, name))
    check_no_end(handle.call("draw", object="s0", threads=1, values=20_000, file=context.path("v")))
    context.check_values("v", 20_000)


@scene()
def kill_server(context: Context) -> None:
    """kill -9 of the server, twice, while 4 threads of 2 processes draw values and IDs."""
    server = context.own_server("server")
    handles = [context.client(url=f"getid://127.0.0.1:{server.port}") for _ in range(2)]
    draws = []
    for i, handle in enumerate(handles):
        handle.sequence(context.name, prefetch_max=50)
        handle.worker()
        draws.append(start_draw(handle, "s", context.path(f"v{i}"), timeout_ms=1000))
        draws.append(start_draw(handle, "w", context.path(f"w{i}"), 1, 2000, timeout_ms=1000))
    for _ in range(2):
        for handle in handles:
            handle.wait_stats("s", "values", handle.call("stats", object="s")["values"] + 500)
        server.kill()
        server.start(expected="PONG")
    for i, handle in enumerate(handles):
        check_no_end(stop_draw(handle, "s", draws[2 * i], 500))
        check_no_end(handle.driver.result(draws[2 * i + 1], "draw"))
    context.check_values("v", 3000)
    context.check_values("w", 4000)


@scene()
def kill_client(context: Context) -> None:
    """kill -9 of a client: a new one, under the same name, gets neither its values nor its milliseconds."""
    proxy = context.proxy()
    for i in range(3):
        handle = context.client(proxy)
        handle.sequence(context.name)
        handle.worker(name=context.name)
        check_no_end(handle.call("draw", object="s", threads=4, values=300, file=context.path(f"v{i}")))
        check_no_end(handle.call("draw", object="w", threads=2, values=300, file=context.path(f"w{i}")))
        start_draw(handle, "s", context.path(f"x{i}"))
        handle.wait_stats("s", "values", 1500)
        handle.driver.kill()
    if proxy.matching("WORKERID RELEASE"):
        raise AssertionError("a killed client released its lease")
    context.check_values("v", 3600)
    context.check_values("w", 1800)
    context.check_worker(proxy, "main", LAYOUT)


@scene()
def takeover(context: Context) -> None:
    """A standby takes over from a server that was killed. Its clients have both addresses."""
    store = f"sqlite:{context.path('claims')}"
    subprocess.run([binary(), "cluster", "init", "--store", store, "--new", "1"], check=True, stdout=subprocess.DEVNULL)
    words = ["--server-id", "1", "--claim-store", store, "--claim-timeout-ms", "1000", "--sequence-store",
             "sqlite:own.sqlite", "--instance-name"]
    servers = [context.own_server("a", [*words, "a"])]
    servers.append(context.own_server("b", [*words, "b"], expected="PONG"))
    ports = [server.port for server in servers]
    url = f"getid://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}?order=given"
    handle = context.client(url=url)
    handle.worker(ttl_s=3)
    draw = start_draw(handle, "w", context.path("w"), 2, timeout_ms=500)
    handle.wait_stats("w", "values", 100)
    servers[0].kill()
    renewals = handle.call("stats", object="w")["renewals"]
    handle.wait_stats("w", "renewals", renewals + 1)
    check_no_end(stop_draw(handle, "w", draw, 100))
    context.check_values("w", 200)
    handle.call("close", client="c")


def pause(handle: Handle, seconds: float) -> None:
    """Stops the driver's process for a time, as a debugger or a suspended machine does."""
    handle.driver.process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    handle.driver.process.send_signal(signal.SIGCONT)


@scene()
def paused(context: Context) -> None:
    """SIGSTOP of the client: it uses no values older than ``hold``, and no millisecond past its lease."""
    proxy = context.proxy()
    handle = context.client(proxy)
    seconds = 60.0 if context.options.is_long else 5.0 if context.options.is_full else 1.5
    handle.sequence(context.name, hold_ms=1000)
    # A small counter: a fast language would make more IDs in the pause than the judge reads in a minute.
    layout = LAYOUT._replace(counter=6)
    handle.worker("short", layout, ttl_s=1)
    handle.call("warm_up", object="s", n=1000)
    handle.next("s")
    ids = [handle.next("w")]
    draw = start_draw(handle, "w", context.path("w"), 2, timeout_ms=60_000)
    handle.wait_stats("w", "values", 100)
    newest = max(last for _, last, _ in judge.ranges_given(proxy.exchanges, context.name))
    pause(handle, seconds)
    value = handle.next("s")
    if value <= newest:
        raise judge.Violation(f"value {value} was fetched before a pause of {seconds} s, longer than its hold of 1 s")
    check_no_end(stop_draw(handle, "w", draw, 100))
    context.check_values("w", 200)
    context.check_worker(proxy, "short", layout, more=ids)


@scene()
def clock_set(context: Context) -> None:
    """The wall clock set by an hour, both ways: no ID outside of the lease, and work afterwards."""
    proxy = context.proxy()
    handle = context.client(proxy)
    handle.worker()
    handle.sequence(context.name)
    values = [handle.next("w")]
    newest = [handle.next("s")]
    for wall_ms in (HOUR_MS, -HOUR_MS, -HOUR_MS, HOUR_MS):
        handle.clock(wall_ms)
        newest.append(handle.next("s"))
        try:
            values += [handle.next("w", 3000) for _ in range(3)]
        except Failed as error:
            if error.kind not in ("ClockError", "Unavailable"):
                raise
    values.append(handle.next("w"))
    judge.check_ascending("sequence", newest)
    judge.check_ascending("worker", values)
    context.check_worker(proxy, "main", LAYOUT, more=values)
    handle.call("close", client="c")
    context.check_worker(proxy, "main", LAYOUT, more=values)


@scene()
def clock_ahead(context: Context) -> None:
    """A clock that is an hour ahead at the first lease is an error that names the difference."""
    proxy = context.proxy()
    handle = context.client(proxy)
    handle.clock(HOUR_MS)
    handle.worker()
    message = handle.driver.fails("ClockError", "next", object="w", timeout_ms=30_000)
    if not any(char.isdigit() for char in message):
        raise AssertionError(f"'{message}' does not name the difference")
    handle.clock(-HOUR_MS)
    values = [handle.next("w") for _ in range(3)]
    judge.check_ascending("worker", values)
    context.check_worker(proxy, "main", LAYOUT, more=values)


@scene()
def wall_back(context: Context) -> None:
    """A wall clock that goes back drops the values in memory."""
    proxy = context.proxy()
    handle = context.client(proxy)
    handle.sequence(context.name)
    handle.call("warm_up", object="s", n=100)
    first = handle.next("s")
    newest = max(last for _, last, _ in judge.ranges_given(proxy.exchanges, context.name))
    # The clocks are compared once in a millisecond of the one that a draw reads, which may be the monotonic one.
    handle.clock(-HOUR_MS, 5)
    second = handle.next("s")
    if not first <= newest < second:
        raise judge.Violation(f"value {second} was fetched before the clock went back, when the newest was {newest}")
    handle.clock(0, 61_000)
    newest = max(last for _, last, _ in judge.ranges_given(proxy.exchanges, context.name))
    third = handle.next("s")
    if third <= newest:
        raise judge.Violation(f"value {third} is older than 60 s by the monotonic clock")


@scene()
def lost_replies(context: Context) -> None:
    """Replies that are dropped, delayed or cut half-way, while threads draw."""
    proxy = context.proxy()
    handle = context.client(proxy)
    handle.sequence(context.name, prefetch_max=20)
    handle.worker("short")
    handle.next("w")
    proxy.chaos(0.3, context.options.seed)
    draw = start_draw(handle, "s", context.path("v"), 4, 400, timeout_ms=60_000)
    other = start_draw(handle, "w", context.path("w"), 2, 2000, timeout_ms=60_000)
    check_no_end(handle.driver.result(draw, "draw"))
    proxy.chaos(0, 0)
    check_no_end(handle.driver.result(other, "draw"))
    context.check_values("v", 1600)
    context.check_values("w", 4000)
    values = [value for path in context.files("v") for value in judge.read_values(path)]
    judge.check_given(values, judge.ranges_given(proxy.exchanges, context.name))
    judge.check_above(proxy.exchanges, context.name)
    context.check_worker(proxy, "short", LAYOUT)


@scene()
def cancelled(context: Context) -> None:
    """Calls that are cancelled or time out while their request is under way: no later call reads their reply."""
    proxy = context.proxy()
    handle = context.client(proxy)
    handle.sequence(context.name, prefetch_max=0)
    handle.sequence(context.name + "-other", "t", prefetch_max=0)
    values: List[int] = [handle.next("s")]
    others: List[int] = [handle.next("t")]
    for _ in range(3):
        rule = proxy.rule(f"SEQUENCE NEXT {context.name} ", "hold")
        count = len(proxy.matching(f"SEQUENCE NEXT {context.name} "))
        first = handle.driver.start("next", object="s", timeout_ms=60_000)
        proxy.wait_request(f"SEQUENCE NEXT {context.name} ", count + 1)
        found = handle.driver.start("abandon", object="s", calls=3, after_ms=5)
        values += map(int, handle.driver.result(found, "abandon")["values"])
        handle.driver.fails("Unavailable", "next", object="s", timeout_ms=20)
        other = handle.driver.start("next", object="t", timeout_ms=30_000)
        rule.release()
        others.append(int(handle.driver.result(other, "next")["value"]))
        values.append(int(handle.driver.result(first, "next")["value"]))
        values.append(handle.next("s"))
    judge.check_unique({"values": sorted(values)})
    judge.check_ascending("other", others)
    judge.check_given(values, judge.ranges_given(proxy.exchanges, context.name))
    judge.check_given(others, judge.ranges_given(proxy.exchanges, context.name + "-other"))


@scene()
def late_reply(context: Context) -> None:
    """A reply that comes after the reply time-out is read by no later request, of another object either."""
    names = {"s": context.name, "t": context.name + "-other"}
    proxies = {object: context.proxy() for object in names}
    handles = {object: context.client(proxies[object]) for object in names}
    values = {(held, object): [] for held in names for object in names}

    def draw(objects: str) -> None:
        for held, handle in handles.items():
            for object in objects:
                values[held, object].append(handle.next(object))

    for handle in handles.values():
        for object, name in names.items():
            handle.sequence(name, object, prefetch_max=0)
    draw("s")
    # Far above: a value of 't' is in no range of 's', which would take it for a new value.
    context.server.ask("SEQUENCE", "RAISE", names["t"], "1000000")
    draw("t")
    waiting = [start_late(handles[held], names[held], held, object) for held, object in ("st", "ts")]
    for (held, handle), (rule, calls) in zip(handles.items(), waiting):
        # Both a new connection and a second request on the old one are the end of the reply time-out.
        handle.wait_stats(held, "failures", 1)
        rule.release()
        for object, call in calls.items():
            values[held, object].append(int(handle.driver.result(call, "next")["value"]))
    draw("ststst")
    for (held, object), found in values.items():
        judge.check_ascending(object, found)
        judge.check_given(found, judge.ranges_given(proxies[held].exchanges, names[object]))


def start_late(handle: Handle, name: str, held: str, other: str):
    """Starts calls of two objects, and holds the reply to the first one. Returns the rule and the calls' futures."""
    assert handle.proxy is not None
    rule = handle.proxy.rule(f"SEQUENCE NEXT {name} ", "hold")
    count = len(handle.proxy.matching(f"SEQUENCE NEXT {name} "))
    calls = {held: handle.driver.start("next", object=held, timeout_ms=60_000)}
    handle.proxy.wait_request(f"SEQUENCE NEXT {name} ", count + 1)
    handle.driver.fails("Unavailable", "next", object=held, timeout_ms=50)
    calls[other] = handle.driver.start("next", object=other, timeout_ms=60_000)
    return rule, calls


@scene()
def fork(context: Context) -> None:
    """Forks in the middle of draws. A child continues as a new client, ends normally, and releases nothing."""
    proxy = context.proxy()
    handle = context.client(proxy)
    handle.sequence(context.name)
    handle.worker()
    handle.next("w")
    draw = start_draw(handle, "s", context.path("v"), 2)
    other = start_draw(handle, "w", context.path("w"), 2, 20_000)
    handle.wait_stats("s", "values", 100)
    parent = judge.leases_given(proxy.exchanges, "main")[0].token
    for i, (object, close) in enumerate([("s", False), ("w", False), ("s", True), ("w", True)]):
        file = context.path(f"{'v' if object == 's' else 'w'}-child{i}")
        answer = handle.call("fork", object=object, client="c", values=50, file=file, close=close)
        if "unsupported" in answer:
            raise NotSupported
        if answer["status"] != 0:
            raise AssertionError(f"a child ended with status {answer['status']}")
    check_no_end(stop_draw(handle, "s", draw))
    check_no_end(handle.driver.result(other, "draw"))
    for exchange in proxy.matching("WORKERID RELEASE"):
        if exchange.words[4] == parent:
            raise judge.Violation(f"a child released its parent's lease: {exchange.text[:40]}")
    context.check_values("v", 200)
    context.check_values("w", 40_100)
    context.check_worker(proxy, "main", LAYOUT)
    handle.close()
    if not any(exchange.words[4] == parent for exchange in proxy.matching("WORKERID RELEASE")):
        raise AssertionError("the parent did not release its lease")


@scene()
def close_under_way(context: Context) -> None:
    """close() while a renewal and a fetch are under way and threads still call."""
    for i in range(4):
        proxy = context.proxy()
        handle = context.client(proxy)
        handle.worker(name="close")
        handle.sequence(context.name)
        handle.next("w")
        # One connection has one request under way: a renewal in two turns, a fetch in the others.
        prefix = "WORKERID RENEW" if i % 2 else f"SEQUENCE NEXT {context.name}"
        count = len(proxy.matching(prefix))
        draws = [start_draw(handle, "w", context.path(f"w{i}"), 3, 100_000_000)]
        rule = proxy.rule(prefix, "hold")
        draws.append(start_draw(handle, "s", context.path(f"v{i}"), 3))
        handle.wait_stats("w", "values", 100)
        if i % 2:
            handle.clock(THIRD_MS, THIRD_MS)
        proxy.wait_request(prefix, count + 1)
        closing = handle.driver.start("close", client="c", timeout_ms=TIMEOUT_MS)
        if i < 2:
            handle.driver.result(closing, "close")
            rule.release()
        else:
            rule.release()
            handle.driver.result(closing, "close")
        # The reply came after close() by now, or comes while these calls are made. They are made before the draws are
        # waited for, which have no end if the client is open again.
        for _ in range(LATE_CALLS):
            for object in ("s", "w"):
                handle.driver.fails("Closed", "next", object=object)
        for draw in draws:
            check_closed(handle, draw)
        handle.close()
        context.check_worker(proxy, "main", LAYOUT, f"w{i}.")
        if len(proxy.matching("WORKERID RELEASE")) != 1:
            raise AssertionError(f"a closed client sent {proxy.matching('WORKERID RELEASE')}")
    context.check_values("v", 0)
    context.check_values("w", 400)


def check_closed(handle: Handle, draw) -> None:
    """All threads of a draw ended by ``Closed``, and drew nothing after it."""
    result = handle.driver.result(draw, "draw")
    if result["after_close"] or set(result["errors"]) - {"Unavailable", "ClockError"} != {"Closed"}:
        raise judge.Violation(f"a draw ended with {result} at close()")


@scene()
def silent_renewal(context: Context) -> None:
    """A RENEW that is never answered does not keep close() from releasing the lease."""
    proxy = context.proxy()
    handle = context.client(proxy)
    handle.worker()
    values = [handle.next("w")]
    proxy.rule("WORKERID RENEW", "silent")
    handle.clock(THIRD_MS, THIRD_MS)
    handle.driver.start("next", object="w")
    proxy.wait_request("WORKERID RENEW")
    handle.close()
    proxy.wait_request("WORKERID RELEASE")
    context.check_worker(proxy, "main", LAYOUT, more=values)


@scene()
def coarse(context: Context) -> None:
    """A layout with units of 10 ms: a unit is used only if the lease has all its milliseconds."""
    for i in range(4):
        proxy = context.proxy()
        handle = context.client(proxy)
        handle.worker("coarse", COARSE, name="coarse", ttl_s=1)
        handle.next("w")
        check_no_end(handle.call("draw", object="w", threads=2, values=1000, file=context.path(f"w{i}")))
        handle.close()
        handle.driver.end()
        context.check_worker(proxy, "coarse", COARSE, f"w{i}.")
    context.check_values("w", 8000)


@scene()
def answers(context: Context) -> None:
    """Errors that pass are waited for; others are raised at once, by their first word."""
    proxy = context.proxy()
    handle = context.client(proxy)
    handle.sequence(context.name, prefetch_max=0)
    values = [handle.next("s")]
    for text in ("LOADING standby", "BUSY now", "MISCONF no store", "TRYAGAIN soon", "EXHAUSTED all",
                 "ERR max number of clients reached"):
        proxy.rule("SEQUENCE NEXT", "error", times=2, text=text)
        values.append(handle.next("s"))
    for text in ("ERR no such sequence", "NOPERM no", "NOAUTH login", "WRONGPASS no", "NEWWORD LOADING BUSY"):
        proxy.rule("SEQUENCE NEXT", "error", text=text)
        handle.driver.fails("Refused", "next", object="s")
        values.append(handle.next("s"))
    proxy.rule("SEQUENCE NEXT", "error", times=1000, text="BUSY for long")
    # A slow machine may have no reply within the first time-outs.
    for timeout_ms in (100, 1000, 10_000):
        message = handle.driver.fails("Unavailable", "next", object="s", timeout_ms=timeout_ms)
        if "BUSY" in message:
            break
    else:
        raise AssertionError(f"'{message}' does not have the last failure")
    judge.check_ascending("values", values)
    judge.check_given(values, judge.ranges_given(proxy.exchanges, context.name))


@scene()
def exhausted(context: Context) -> None:
    """A pool with one id: the second client waits until the first one closes."""
    proxies = [context.proxy(), context.proxy()]
    first, second = (context.client(proxy) for proxy in proxies)
    for handle in (first, second):
        handle.worker("one")
    values = [first.next("w")]
    waiting = second.driver.start("next", object="w", timeout_ms=60_000)
    proxies[1].wait("EXHAUSTED", lambda found: any("EXHAUSTED" in str(one.reply) for one in found))
    first.close()
    values.append(int(second.driver.result(waiting, "next")["value"]))
    judge.check_ascending("worker", values)
    second.call("close", client="c")
    for proxy, value in zip(proxies, values):
        context.check_worker(proxy, "one", LAYOUT, more=[value])


@scene()
def lost_leases(context: Context) -> None:
    """EXPIRED, REVOKED and WRONGTOKEN: the lease is used to its end, and then there is another one."""
    proxy = context.proxy()
    handle = context.client(proxy)
    handle.worker()
    values = [handle.next("w")]
    for text in ("EXPIRED over", "REVOKED", "WRONGTOKEN other"):
        if text == "REVOKED":
            context.server.ask("WORKERID", "REVOKE", "main", str(LAYOUT.worker_of(values[-1])))
        else:
            proxy.rule("WORKERID RENEW", "error", text=text)
        handle.clock(THIRD_MS, THIRD_MS)
        values.append(handle.next("w"))
        # Another renewal, after the step of the clock before, may have come first.
        word = text.split()[0]
        proxy.wait(f"the reply {word}", lambda found: any(str(one.reply).startswith(word) for one in found))
        leases = len(proxy.matching("WORKERID LEASE"))
        rule = proxy.rule("WORKERID LEASE", "hold")
        past_ms = judge.leases_given(proxy.exchanges, "main")[-1].not_after - int(time.time() * 1000)
        handle.clock(past_ms, past_ms)
        waiting = handle.driver.start("next", object="w", timeout_ms=60_000)
        proxy.wait_request("WORKERID LEASE", leases + 1)
        # Back to the server's time before the reply: the new lease begins there.
        handle.clock(-past_ms - THIRD_MS, 0)
        rule.release()
        values.append(int(handle.driver.result(waiting, "next")["value"]))
    judge.check_unique({"worker": sorted(values)})
    judge.check_ascending("worker", values)
    context.check_worker(proxy, "main", LAYOUT, more=values)


@scene()
def copies(context: Context) -> None:
    """A copy is the same object, and serialisation fails. Nothing is sent before the first use."""
    proxy = context.proxy()
    handle = context.client(proxy)
    handle.sequence(context.name)
    handle.worker()
    if proxy.exchanges:
        raise AssertionError(f"{proxy.exchanges} before the first use")
    for object in ("s", "w"):
        handle.next(object)
        found = handle.call("copy", object=object)
        if found["same"] is not True and context.options.language == "python":
            raise AssertionError(f"a copy of {object} is another object")
        try:
            found = handle.call("serialize", object=object)
        except Failed:
            continue
        if found.get("same", True) is not False:
            raise AssertionError(f"{object} was serialised: {found}")


@scene()
def discard(context: Context) -> None:
    """discard() drops values and lease without a message; what comes later is new."""
    proxy = context.proxy()
    handle = context.client(proxy)
    handle.sequence(context.name)
    handle.worker()
    values = [handle.next("s")]
    ids = [handle.next("w")]
    for _ in range(3):
        newest = max(last for _, last, _ in judge.ranges_given(proxy.exchanges, context.name))
        count = len(proxy.exchanges)
        handle.call("discard", client="c")
        if len(proxy.exchanges) != count:
            raise AssertionError(f"discard() sent {proxy.exchanges[count:]}")
        leases = len(proxy.matching("WORKERID LEASE"))
        values.append(handle.next("s"))
        ids.append(handle.next("w"))
        if values[-1] <= newest or len(proxy.matching("WORKERID LEASE")) != leases + 1:
            raise judge.Violation(f"value {values[-1]} or a lease from before discard() was used after it")
    judge.check_ascending("values", values)
    judge.check_ascending("worker", ids)
    context.check_worker(proxy, "main", LAYOUT, more=ids)


@scene()
def end_of_program(context: Context) -> None:
    """A program ends at once without close(), and sends nothing at its end."""
    for do in ("input", "exit"):
        proxy = context.proxy()
        handle = context.client(proxy)
        handle.sequence(context.name)
        handle.worker()
        handle.next("s")
        handle.next("w")
        if do == "exit":
            exit_program(handle)
        status = handle.driver.end()
        if status != 0:
            raise AssertionError(f"the program ended with status {status}")
        if proxy.matching("WORKERID RELEASE"):
            raise AssertionError("a program released its lease at its end, without close()")


def exit_program(handle: Handle) -> None:
    """Ends the program by its language's call for that. The answer may come before it, or not at all."""
    try:
        handle.call("exit")
    except EOFError:
        pass


@scene()
def fresh(context: Context) -> None:
    """With ``fresh`` each value is fetched for calls that were waiting, so it is above all that were given before."""
    handles = [context.client() for _ in range(2)]
    for handle in handles:
        handle.sequence(context.name, fresh=True)
    judge.check_ascending("both", [handles[i % 2].next("s") for i in range(20)])


@scene()
def unix_socket(context: Context) -> None:
    """The same over a Unix socket."""
    path = os.path.join("/tmp", f"getid-{os.getpid()}-{context.options.seed}.sock")
    context.own_server("server", ["--unixsocket", path])
    handle = context.client(url=f"getid+unix://{path}")
    handle.sequence(context.name)
    check_no_end(handle.call("draw", object="s", threads=4, values=500, file=context.path("v")))
    context.check_values("v", 2000)
    handle.call("close", client="c")
    if os.path.exists(path):
        os.remove(path)


@scene(needs="openssl")
def tls(context: Context) -> None:
    """The same over TLS; another authority's certificate is refused."""
    for name in ("ca", "other"):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
             "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext",
             "basicConstraints=critical,CA:FALSE", "-keyout", context.path(f"{name}.key"), "-out",
             context.path(f"{name}.crt")],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
    port = str(free_port())
    context.own_server("server", ["--tls-port", port, "--tls-cert-file", context.path("ca.crt"), "--tls-key-file",
                                  context.path("ca.key"), "--tls-auth-clients", "no"])
    url = f"getids://localhost:{port}"
    handle = context.client(url=url, ca=context.path("ca.crt"))
    handle.sequence(context.name)
    handle.worker()
    handle.next("w")
    check_no_end(handle.call("draw", object="s", threads=4, values=500, file=context.path("v")))
    context.check_values("v", 2000)
    wrong = context.client(url=url, ca=context.path("other.crt"))
    wrong.sequence(context.name)
    wrong.driver.fails("Unavailable", "next", object="s", timeout_ms=500)
    handle.close()


def prepare(server: Server, *requests: List[str]) -> None:
    """Sends requests on one connection, each until the server is ready for it."""
    with socket.create_connection(("127.0.0.1", server.port), EVENT_S) as sock:
        reader = Reader(sock)
        end = time.monotonic() + EVENT_S
        for words in requests:
            while True:
                sock.sendall(encode([word.encode() for word in words]))
                reply = reader.read()
                if not isinstance(reply, ValueError):
                    break
                if time.monotonic() > end or str(reply).split()[0] not in ("LOADING", "TRYAGAIN", "MISCONF"):
                    raise AssertionError(f"the server answered {' '.join(words)} by {reply}")
                time.sleep(POLL_S)


@scene()
def users(context: Context) -> None:
    """A user with the rights that are needed and no others; NOPERM, WRONGPASS and NOAUTH are raised at once."""
    rules = ("on >p@ss:w -@all ~users* ~main +sequence|next +workerid|lease +workerid|renew +workerid|release")
    server = context.own_server("server", ["--user", f"app {rules}", "--requirepass", "x"], "NOAUTH")
    prepare(server, ["AUTH", "x"], ["INCR", "users"], ["INCR", "secret"], ["WORKERID", "INIT", "main", "NEW"])
    good, bad, none = (context.driver() for _ in range(3))
    for driver, login in ((good, "app:p%40ss%3Aw@"), (bad, "app:wrong@"), (none, "")):
        driver.call("open", client="c", url=f"getid://{login}127.0.0.1:{server.port}", timeout_ms=30_000)
        driver.call("sequence", object="s", client="c", name="users")
    handle = Handle(good, None)
    handle.worker()
    handle.next("s")
    handle.next("w")
    good.call("sequence", object="t", client="c", name="secret")
    good.fails("Refused", "next", object="t")
    if "wrong" in bad.fails("Refused", "next", object="s").replace("WRONGPASS", "").replace("invalid", "").split():
        raise AssertionError("an error has the password")
    none.fails("Refused", "next", object="s")
    handle.close()


@scene("python")
def two_loops(context: Context) -> None:
    """asyncio on two loops of two threads, and blocking calls beside them."""
    handle = context.client()
    handle.sequence(context.name, prefetch_max=100)
    handle.call("sequence", object="b", client="c", name=context.name, prefetch_max=100)
    draws = [start_draw(handle, "s", context.path("v-async"), 2, 3000, **{"async": True})]
    draws.append(start_draw(handle, "b", context.path("v-block"), 2, 3000))
    for draw in draws:
        check_no_end(handle.driver.result(draw, "draw"))
    context.check_values("v", 12_000)


@scene("python", needs="gevent")
def gevent(context: Context) -> None:
    """A program whose modules gevent has replaced."""
    proxy = context.proxy()
    handle = context.client(proxy, env={"GETID_DRIVER_GEVENT": "1"})
    handle.sequence(context.name, prefetch_max=50)
    handle.worker()
    handle.next("w")
    draws = [start_draw(handle, "s", context.path("v"), 20, 200), start_draw(handle, "w", context.path("w"), 4, 200)]
    for draw in draws:
        check_no_end(handle.driver.result(draw, "draw"))
    context.check_values("v", 4000)
    context.check_values("w", 800)
    context.check_worker(proxy, "main", LAYOUT)
    handle.close()


@scene("python", needs="uwsgi")
def uwsgi(context: Context) -> None:
    """uWSGI that loads the program, forks it, and runs no threads in it."""
    from urllib.request import urlopen

    port = free_port()
    app = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "drivers", "python", "prefork.py")
    env = {**os.environ, "GETID_PACKAGE": context.options.package, "GETID_NAME": context.name,
           "GETID_URL": f"getid://127.0.0.1:{context.server.port}"}
    options = ["--master", "--processes", "3", "--wsgi-file", app]
    command = [program("uwsgi"), "--http-socket", f"127.0.0.1:{port}", *options]
    with open(context.path("uwsgi.log"), "wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        found: Dict[str, List[int]] = {}
        end = time.monotonic() + EVENT_S
        while sum(map(len, found.values())) < 3000 or len(found) < 2:
            try:
                with urlopen(f"http://127.0.0.1:{port}/", timeout=EVENT_S) as response:
                    pid, *values = response.read().decode().split()
            except OSError:
                if time.monotonic() > end or process.poll() is not None:
                    raise
                time.sleep(POLL_S)
                continue
            found.setdefault(pid, []).extend(map(int, values))
            if time.monotonic() > end:
                raise AssertionError(f"uWSGI served by {len(found)} processes only")
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(EVENT_S)
    for pid, values in found.items():
        judge.check_ascending(f"process {pid}", values)
    judge.check_unique(found)


def program(name: str) -> Optional[str]:
    """Returns the path of a program, beside this Python's or in the path, or that of a module. None without it."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    if os.path.isfile(beside):
        return beside
    return shutil.which(name) or ("" if name == "gevent" and importlib.util.find_spec(name) else None)
