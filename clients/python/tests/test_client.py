"""Clients: close, discard, fork, copies, events, asyncio, the end of a program."""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import pickle
import ssl
import subprocess
import sys
import threading
import unittest
import warnings
import weakref
from pathlib import Path
from unittest import mock

from getid import Client, Closed, Unavailable, _client

from .support import BOUND_S, CLOSE, HANG, MS, NOW_MS, GetidTest, Log, Server, start, until

PACKAGE = Path(__file__).parent.parent


def in_child(child) -> str:
    """Returns what a call in a forked child returned. The child ends by os._exit."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Of a fork of a process with threads.
        pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, repr(child()).encode())
        except BaseException as error:
            os.write(writing, f"error {error!r}".encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        result = stream.read()
    os.waitpid(pid, 0)
    return result


class TestClose(GetidTest):
    def test_releases_with_the_newest_last(self) -> None:
        client = self.client()
        worker = client.worker("pool", MS, name="n")
        worker.take(5000)
        unused = client.worker("unused", MS, name="n")
        unused.warm_up()
        self.assertTrue(client.close())
        token = "t" * 32
        self.assertEqual(
            [request for request in self.server.requests if "RELEASE" in request],
            [
                f"WORKERID RELEASE pool 7 {token} LAST {NOW_MS + 1}",
                f"WORKERID RELEASE unused 7 {token} LAST {NOW_MS - 1}",
            ],
        )
        self.events.wait_event("released", 2)
        self.assertTrue(client.close())
        self.assertEqual(self.server.connections, 2)

    def test_every_call_is_closed(self) -> None:
        client = self.client()
        sequence, worker = client.sequence("orders"), client.worker("pool", MS)
        sequence.warm_up(100)
        worker.next()
        client.close()
        calls = [
            sequence.next,
            sequence.try_next,
            lambda: sequence.take(2),
            sequence.warm_up,
            worker.next,
            worker.try_next,
            lambda: worker.take(2),
            worker.warm_up,
            client.discard,
            lambda: client.sequence("x"),
            lambda: client.worker("x", MS),
            lambda: asyncio.run(sequence.anext()),
            lambda: asyncio.run(worker.anext()),
        ]
        for number, call in enumerate(calls):
            with self.subTest(number), self.assertRaises(Closed):
                call()
        self.assertEqual(sequence.stats()["held"], 0)
        self.assertEqual(sequence.stats()["dropped"], 100)

    def test_during_a_fetch(self) -> None:
        client = self.client()
        sequence = client.sequence("orders")
        self.server.script.append(HANG)
        waiting = start(sequence.next)
        self.server.wait("NEXT")
        self.assertTrue(client.close())
        with self.assertRaises(Closed):
            waiting()
        until(lambda: client._job is None and not client._retired)

    def test_during_a_renewal_its_late_reply_changes_nothing(self) -> None:
        client = self.client()
        worker = client.worker("pool", MS, name="n")
        worker.next()
        self.events.wait_event("leased")
        found = threading.Event()
        request = _client.Connection.request

        def late(connection, arguments, *rest):
            reply = request(connection, arguments, *rest)
            if b"RENEW" in arguments:
                found.set()
                until(lambda: client._released is not None)
            return reply

        with mock.patch.object(_client.Connection, "request", late):
            self.clock.shift(wall_ms=10_000, mono_ms=10_000)
            self.assertTrue(found.wait(BOUND_S))
            self.assertTrue(client.close())
            until(lambda: client._job is None)
        self.assertIsNone(worker.stats()["not_after_ms"])
        self.assertEqual(worker.stats()["renewals"], 0)
        with self.assertRaises(Closed):
            worker.next()

    def test_a_renewal_without_reply_at_close(self) -> None:
        client = self.client()
        worker = client.worker("pool", MS, name="n")
        worker.next()
        self.events.wait_event("leased")
        self.server.script.append(HANG)
        self.clock.shift(wall_ms=10_000, mono_ms=10_000)
        self.server.wait("RENEW")
        self.assertTrue(client.close())
        self.server.wait("RELEASE")

    def test_nothing_is_drawn_after_close(self) -> None:
        client = Client(self.server.url)
        self.addCleanup(client.close)
        worker, sequence = client.worker("pool", MS), client.sequence("orders")
        newest = []

        def draw(source):
            try:
                while True:
                    newest.append(source.next())
            except Closed:
                pass

        joins = [start(lambda source=source: draw(source)) for source in (worker, worker, sequence, sequence)]
        until(lambda: len(newest) > 1000)
        client.close()
        for join in joins:
            join()
        last = int(self.server.wait("RELEASE").split()[-1])
        ids = [id for id in newest if id > 1 << 40]
        self.assertEqual(max(MS.parts(id).unix_ms for id in ids), last)

    def test_without_a_server_it_returns_false_in_time(self) -> None:
        client = self.client()
        client.worker("pool", MS).next()
        self.server.close()
        self.assertFalse(client.close(0.2))
        self.assertFalse(client.close(0.2))

    def test_a_release_that_is_refused(self) -> None:
        for replies, released in (
            ([b"-EXPIRED x\r\n"], True),
            ([b"-WRONGTOKEN x\r\n"], True),
            ([b"-REVOKED x\r\n"], True),
            ([b"-NOPERM x\r\n"], False),
            ([b"-MISCONF x\r\n"], False),
            ([CLOSE], False),
            ([b"-ERR LAST\r\n", b"+OK\r\n"], True),
            ([b"-ERR LAST\r\n", b"-ERR x\r\n"], False),
        ):
            with self.subTest(replies):
                client = self.client()
                client.worker("pool", MS, name="n").next()
                self.server.script.extend(replies)
                self.assertEqual(client.close(), released)
        releases = [request for request in self.server.requests if "RELEASE" in request]
        self.assertEqual(releases[-1], f"WORKERID RELEASE pool 7 {'t' * 32}")

    def test_releases_at_the_next_server(self) -> None:
        other = self.make_server()
        client = self.client(f"{self.server.url},127.0.0.1:{other.port}?order=given")
        client.worker("pool", MS, name="n").next()
        self.server.script.append(b"-LOADING x\r\n")
        self.assertTrue(client.close())
        other.wait("RELEASE")

    def test_context_manager(self) -> None:
        with self.client() as client:
            sequence = client.sequence("orders")
            sequence.next()
        with self.assertRaises(Closed):
            sequence.next()

    def test_the_thread_of_a_lost_client_ends_and_sends_nothing(self) -> None:
        client = Client(self.server.url)
        client.worker("pool", MS).next()
        client.sequence("orders").next()
        thread = next(thread for thread in threading.enumerate() if thread.name == "getid" and thread.is_alive())
        reference = weakref.ref(client)
        requests = len(self.server.requests)
        del client
        until(lambda: gc.collect() >= 0 and reference() is None)
        self.server.log.wait(lambda entry: entry[1] == "END")
        self.assertEqual(len(self.server.requests), requests + 1)
        until(lambda: not thread.is_alive())


class TestDiscard(GetidTest):
    def test_drops_all_without_a_message(self) -> None:
        client = self.client()
        sequence, worker = client.sequence("orders"), client.worker("pool", MS, name="n")
        sequence.warm_up(100)
        newest = worker.next()
        requests = len(self.server.requests)
        client.discard()
        self.server.log.wait(lambda entry: entry[1] == "END")
        self.assertEqual(len(self.server.requests), requests + 1)
        self.assertIsNone(worker.stats()["worker_id"])
        self.server.worker_id = 8
        self.assertEqual(sequence.next(), 101)
        id = worker.next()
        self.assertEqual(MS.parts(id).worker, 8)
        self.assertGreater(id, newest)
        self.assertIn("ABOVE 100", self.server.wait("ABOVE"))

    def test_drops_the_fetch_that_no_call_waits_for(self) -> None:
        """Else a snapshot would have its values, and give them each time that it is resumed."""
        frozen = threading.Event()
        self.addCleanup(frozen.set)
        with mock.patch.object(_client, "_background", lambda reference, signal: frozen.wait(BOUND_S)):
            client = self.client()
            sequence = client.sequence("orders")
            sequence.take(16)  # Does the job itself. A prefetch is due.
            self.assertIsNotNone(sequence._due)
            client.discard()
            self.assertIsNone(sequence._due)
            self.assertIsNone(sequence.try_next())
            client.discard()
            self.assertIsNone(sequence._due)
            self.assertFalse(sequence._is_wanted)

    def test_calls_that_wait_continue(self) -> None:
        client = self.client()
        sequence = client.sequence("orders")
        self.server.script.append(HANG)
        waiting = start(sequence.next)
        self.server.wait("NEXT")
        client.discard()
        self.assertEqual(waiting(), 1)

    def test_a_reply_of_before_is_ignored(self) -> None:
        client = self.client()
        worker = client.worker("pool", MS, name="n")
        request = _client.Connection.request

        def late(connection, arguments, *rest):
            reply = request(connection, arguments, *rest)
            if self.server.worker_id == 7:
                self.server.worker_id = 8
                client.discard()
            return reply

        with mock.patch.object(_client.Connection, "request", late):
            self.assertEqual(MS.parts(worker.next()).worker, 8)
        self.assertEqual(worker.stats()["leases"], 1)


@unittest.skipUnless(hasattr(os, "fork"), "no fork on this system")
class TestFork(GetidTest):
    def test_the_child_has_nothing_of_its_parent(self) -> None:
        client = Client(self.server.url, timeout=BOUND_S)
        self.addCleanup(client.close)
        sequence, worker = client.sequence("orders"), client.worker("pool", MS, name="n")
        sequence.warm_up(100)
        newest = worker.next()
        self.server.worker_id = 8

        def child():
            return sequence.next(), worker.next(), sequence.stats()["held"], client.close(), client.close()

        value, id, _, released, again = eval(in_child(child))
        self.assertEqual((value, released, again), (101, True, True))
        self.assertIn("ABOVE 100", self.server.wait("ABOVE"))
        self.assertEqual(MS.parts(id).worker, 8)
        self.assertGreater(id, newest)
        self.assertEqual(sequence.next(), 1)
        self.assertEqual(MS.parts(worker.next()).worker, 7)
        releases = [request for request in self.server.requests if "RELEASE" in request]
        self.assertEqual([request.split()[3] for request in releases], ["8"])

    def test_close_in_a_child_releases_nothing_of_the_parent(self) -> None:
        client = self.client()
        worker = client.worker("pool", MS, name="n")
        worker.next()
        connections = self.server.connections
        self.assertEqual(in_child(client.close), "True")
        self.assertEqual(self.server.connections, connections)
        self.assertEqual(MS.parts(worker.next()).counter, 1)
        self.clock.shift(wall_ms=10_000, mono_ms=10_000)
        self.events.wait_event("renewed")

    def test_with_the_lock_held_and_a_job_under_way(self) -> None:
        """Another thread holds every lock when the process forks, and waits for a reply."""
        client = self.client(timeout=BOUND_S)
        sequence = client.sequence("orders")
        self.server.script.append(self.server.gated(None))
        waiting = start(sequence.next)
        self.server.wait("NEXT")
        client._lock.acquire()
        try:
            result = in_child(lambda: (sequence.next(), client.close()))
        finally:
            client._lock.release()
        self.assertEqual(result, "(1, True)")
        self.server.open_gate()
        self.assertEqual(waiting(), 18)

    def test_without_the_hook(self) -> None:
        """A fork by C code runs no hooks: the process id is the rule."""
        client = self.client()
        sequence = client.sequence("orders")
        sequence.next()
        with mock.patch.object(_client, "_clients", weakref.WeakSet()):
            self.assertEqual(in_child(sequence.next), "18")

    def test_a_process_id_that_comes_back(self) -> None:
        """The hook notices it where the comparison cannot."""
        client = self.client()
        sequence = client.sequence("orders")
        sequence.next()
        pid = os.getpid()

        def child():
            with mock.patch.object(os, "getpid", lambda: pid):
                return sequence.next()

        self.assertEqual(in_child(child), "18")

    def test_a_fork_in_the_callback(self) -> None:
        results = []

        def fork(event) -> None:
            if event.event == "connected":
                results.append(in_child(sequence.next))

        client = self.client(on_event=fork, timeout=BOUND_S)
        sequence = client.sequence("orders")
        sequence.next()
        until(lambda: bool(results))
        self.assertRegex(results[0], r"^\d+$")

    def test_a_fork_in_the_middle_of_a_call(self) -> None:
        """By a signal handler: the parent has the value that the interrupted call took."""
        client = self.client(timeout=BOUND_S)
        sequence, worker = client.sequence("orders"), client.worker("pool", MS, name="n")
        self.server.worker_step = 1
        for source, field in ((sequence, "_clock"), (worker, "_time_ns")):
            for is_fast in (True, False):
                with self.subTest(field, is_fast=is_fast):
                    source.take(2)
                    source.next()
                    self.clock.shift(mono_ms=0 if is_fast else 2, wall_ms=0 if is_fast else 2)
                    until(lambda: not source._has_job)
                    clock, children = getattr(source, field), []

                    def fork(clock=clock, children=children):
                        if not children:
                            children.append(0)
                            with warnings.catch_warnings():
                                warnings.simplefilter("ignore", DeprecationWarning)
                                children.append(os.fork())
                        return clock()

                    reading, writing = os.pipe()
                    setattr(source, field, fork)
                    pid = os.getpid()
                    try:
                        value = source.next()
                        if os.getpid() != pid:
                            os.write(writing, str(value).encode())
                    except BaseException as error:
                        if os.getpid() == pid:
                            raise
                        os.write(writing, repr(error).encode())
                    finally:
                        if os.getpid() != pid:
                            os._exit(0)
                    setattr(source, field, clock)
                    os.close(writing)
                    with os.fdopen(reading) as stream:
                        found = stream.read()
                    os.waitpid(children[1], 0)
                    self.assertRegex(found, r"^\d+$")
                    self.assertNotEqual(int(found), value)

    def test_children_of_children_and_threads(self) -> None:
        client = Client(self.server.url, timeout=BOUND_S)
        self.addCleanup(client.close)
        sequence = client.sequence("orders")
        sequence.warm_up(1000)

        def draw():
            joins = [start(lambda: sequence.take(50)) for _ in range(4)]
            return [value for join in joins for value in join()]

        def child():
            return draw() + eval(in_child(draw))

        values = eval(in_child(child)) + eval(in_child(child)) + draw()
        self.assertEqual(len(set(values)), 5 * 200)


class TestTls(GetidTest):
    PEM = PACKAGE / "tests" / "localhost.pem"

    def setUp(self) -> None:
        super().setUp()
        server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server_context.load_cert_chain(self.PEM)
        self.server = self.make_server(tls=server_context)
        self.url = f"getids://127.0.0.1:{self.server.port}"

    def trusting(self, **options) -> Client:
        return self.client(self.url, tls=ssl.create_default_context(cafile=self.PEM), **options)

    def test_values(self) -> None:
        client = self.trusting()
        self.assertEqual(client.sequence("orders").next(), 1)
        client.worker("pool", MS).next()
        self.assertTrue(client.close())

    def test_a_certificate_that_is_not_trusted(self) -> None:
        client = self.client(self.url)
        waiting = start(client.sequence("orders").next)
        self.assertIn("certificate", self.events.wait_event("fetch_failed").reason)
        client.close()
        with self.assertRaises(Closed):
            waiting()

    def test_close_while_a_reply_is_awaited(self) -> None:
        client = self.trusting()
        self.server.script.append(HANG)
        waiting = start(client.sequence("orders").next)
        self.server.wait("NEXT")
        client.close()
        with self.assertRaises(Closed):
            waiting()
        until(lambda: client._job is None)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork on this system")
    def test_a_child_leaves_the_connection_to_its_parent(self) -> None:
        client = self.trusting(timeout=BOUND_S)
        sequence = client.sequence("orders", prefetch_max=0)
        self.assertEqual(sequence.next(), 1)
        self.assertEqual(in_child(lambda: (sequence.next(), client.close())), "(2, True)")
        self.assertEqual(sequence.next(), 3)
        self.assertEqual([number for number, request in self.server.log.entries if "NEXT" in request], [1, 2, 1])


class TestCopies(GetidTest):
    def test_copies_are_the_same_object(self) -> None:
        client = self.client()
        for found in (client, client.sequence("orders"), client.worker("pool", MS)):
            self.assertIs(copy.copy(found), found)
            self.assertIs(copy.deepcopy(found), found)
            self.assertIs(copy.deepcopy({"a": [found]})["a"][0], found)
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                with self.assertRaisesRegex(TypeError, "cannot be serialised"):
                    pickle.dumps(found, protocol)


class TestEvents(GetidTest):
    def test_a_callback_that_throws(self) -> None:
        log = Log()

        def throw(event) -> None:
            log.add(event)
            raise SystemExit(1)

        client = self.client(on_event=throw)
        self.assertEqual(client.sequence("orders").next(), 1)
        client.worker("pool", MS).next()
        log.wait_event("leased")
        client.close()
        log.wait_event("released")
        self.assertEqual([event.event for event in log.entries], ["connected", "leased", "released"])

    def test_a_callback_that_calls_the_client(self) -> None:
        log = Log()

        def call(event) -> None:
            if event.event == "connected":
                log.add((client.sequence("orders").next(), client.sequence("others").next(), client.close()))

        client = self.client(on_event=call)
        with self.assertRaises((Closed, Unavailable)):
            while True:
                client.sequence("orders").next()
        self.assertEqual(log.wait(lambda entry: True)[2], True)

    def test_too_many_events_drop_the_oldest(self) -> None:
        client = self.client()
        with client._lock:
            for number in range(_client.EVENTS_MAX + 5):
                client._event("clock", str(number))
            self.assertEqual(client._events[0].object, "5")
            client._events.clear()

    def test_a_renewal_without_a_call_and_no_work_without_one(self) -> None:
        """While idle the thread waits for the renewal, and without a lease for nothing."""
        client = self.client()
        client.sequence("orders").next()
        waits = []

        def work():
            waits.append(client._take_due(_client.Job(), None))

        with client._lock:
            work()
        self.assertEqual(waits, [_client.IDLE_S])


class TestAsyncio(GetidTest):
    def test_many_calls(self) -> None:
        sequence = self.client().sequence("orders")
        worker = sequence._client.worker("pool", MS)

        async def main():
            return await asyncio.gather(*[sequence.anext() for _ in range(100)], *[worker.anext() for _ in range(50)])

        values = asyncio.run(main())
        self.assertEqual(sorted(values[:100]), list(range(1, 101)))
        self.assertEqual(len(set(values[100:])), 50)

    def test_two_loops_at_a_time_and_one_after_another(self) -> None:
        sequence = self.client().sequence("orders", prefetch_max=0)

        async def main():
            return [await sequence.anext() for _ in range(200)]

        joins = [start(lambda: asyncio.run(main())) for _ in range(2)]
        values = [join() for join in joins] + [asyncio.run(main())]
        self.assertEqual(len({value for some in values for value in some}), 600)
        for some in values:
            self.assertEqual(some, sorted(some))

    def test_a_cancelled_call_leaves_the_request(self) -> None:
        sequence = self.client().sequence("orders")
        self.server.script.append(self.server.gated(None))

        async def main():
            task = asyncio.ensure_future(sequence.anext())
            await asyncio.get_running_loop().run_in_executor(None, self.server.wait, "NEXT")
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.server.open_gate()
            return await sequence.anext()

        self.assertEqual(asyncio.run(main()), 1)
        self.assertEqual(len(self.server.requests), 1)
        self.assertFalse(sequence._waiters)

    def test_a_time_out(self) -> None:
        sequence = self.client().sequence("orders")
        self.server.script.append(self.server.gated(None))
        with self.assertRaises(Unavailable):
            asyncio.run(sequence.anext(timeout=0.01))
        self.server.open_gate()
        self.assertEqual(sequence.next(), 1)

    def test_a_loop_that_is_closed_meanwhile(self) -> None:
        sequence = self.client().sequence("orders", prefetch_max=0)
        self.server.script.append(self.server.gated(None))
        loop = asyncio.new_event_loop()
        task = loop.create_task(sequence.anext())
        loop.call_later(0, loop.stop)
        loop.run_forever()
        self.server.wait("NEXT")
        loop.close()
        self.server.open_gate()
        self.assertIn(sequence.next(), (1, 2))
        task.cancel = None  # Its loop is closed, and asyncio would warn of it.
        task._log_destroy_pending = False

    def test_a_call_that_is_collected_while_its_thread_holds_the_lock(self) -> None:
        """The garbage collector runs at any place, so the end of such a call takes no lock."""
        client = self.client()
        sequence = client.sequence("orders", prefetch_max=0)
        self.server.script.append(self.server.gated(None))

        def collect() -> None:
            loop = asyncio.new_event_loop()
            coroutine = sequence.anext()
            task = loop.create_task(coroutine)
            loop.call_later(0, loop.stop)
            loop.run_forever()
            task._log_destroy_pending = False
            loop.close()
            with client._lock:
                coroutine.close()

        start(collect)()
        self.server.open_gate()
        until(lambda: not sequence._waiters)
        self.assertIn(sequence.next(), (1, 2))


class TestExit(unittest.TestCase):
    """A program that ends without close(): at once, without a message and without output."""

    def setUp(self) -> None:
        self.server = Server()
        self.addCleanup(self.server.close)

    def run_program(self, body: str) -> str:
        program = f"from getid import Client, Layout\nclient = Client('{self.server.url}', timeout=30)\n{body}\n"
        ran = subprocess.run(
            [sys.executable, "-c", program],
            cwd=PACKAGE,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        return ran.stdout

    def commands(self) -> list[str]:
        return [" ".join(request.split()[:2]) for request in self.server.requests if request != "END"]

    def test_idle(self) -> None:
        self.run_program("client.sequence('a').next(), client.worker('p', Layout.TWITTER).next()")
        self.assertEqual(self.commands(), ["SEQUENCE NEXT", "WORKERID LEASE"])

    def test_while_a_request_is_under_way(self) -> None:
        self.server.script.append(HANG)
        self.run_program("client.sequence('a').try_next()\nwhile client._job is None: pass")
        self.assertIn(self.commands(), ([], ["SEQUENCE NEXT"]))

    def test_in_an_exit_handler(self) -> None:
        body = (
            "import atexit\natexit.register(lambda: print(client.close()))\nclient.worker('p', Layout.TWITTER).next()"
        )
        self.assertEqual(self.run_program(body), "True\n")
        self.assertEqual(self.commands(), ["WORKERID LEASE", "WORKERID RELEASE"])

    def test_the_first_call_is_in_an_exit_handler(self) -> None:
        """From Python 3.12 on no thread can be started then: the call does the job itself."""
        self.run_program("import atexit\natexit.register(lambda: client.sequence('a').next())")
        self.assertEqual(self.commands(), ["SEQUENCE NEXT"])


if __name__ == "__main__":
    unittest.main()
