"""Scripted server, log of events, and the base of the test cases."""

from __future__ import annotations

import socket
import threading
import time
import unittest
from collections import deque
from typing import Any, Callable
from unittest import mock

from getid import Client, Event, Layout
from getid._clock import TestClock

BOUND_S = 30.0
"""Bound of a wait for an event. It is reached only by a test that fails."""

NOW_MS = 1_795_000_000_000
HANG = object()
CLOSE = object()
MS = Layout(time=41, worker=10, counter=12, epoch_ms=1_700_000_000_000)


class Log:
    """List of what happened, with a wait for the next entry that fits."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self._changed = threading.Condition()

    def add(self, entry: Any) -> None:
        with self._changed:
            self.entries.append(entry)
            self._changed.notify_all()

    def wait(self, fits: Callable[[Any], bool], count: int = 1) -> Any:
        """Returns the ``count``-th entry that fits, as soon as there is one."""

        def found() -> list[Any]:
            return [entry for entry in self.entries if fits(entry)]

        with self._changed:
            if not self._changed.wait_for(lambda: len(found()) >= count, BOUND_S):
                raise AssertionError(f"no such entry in {BOUND_S} s: {self.entries}")
            return found()[count - 1]

    def wait_event(self, name: str, count: int = 1) -> Event:
        return self.wait(lambda entry: entry.event == name, count)


class Server:
    """Server that counts values and leases ids, or replies by a script.

    ``script`` has one entry for each of the next requests: bytes, HANG, CLOSE, or a function of the arguments that
    returns one of them or None. Without an entry the reply is that of a well-behaved server.
    """

    def __init__(self, clock: TestClock | None = None, path: str | None = None, tls: Any = None) -> None:
        self.clock = clock
        self.log = Log()
        self.script: deque[Any] = deque()
        self.value = 0
        self.step = 1
        self.lease_ms = 30_000
        self.worker_id = 7
        self.worker_step = 0
        self.lease_error = b""
        self.end = 0
        self.connections = 0
        self._gate = threading.Event()
        self._sockets: list[socket.socket] = []
        self._tls = tls
        family = socket.AF_UNIX if path else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.bind(path or ("127.0.0.1", 0))
        self._listener.listen(64)
        self.port = 0 if path else self._listener.getsockname()[1]
        self._is_closed = False
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def url(self) -> str:
        return f"getid://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[str]:
        return [request for _, request in self.log.entries]

    def wait(self, word: str, count: int = 1) -> str:
        return self.log.wait(lambda entry: word in entry[1], count)[1]

    def open_gate(self) -> None:
        """Ends all HANG replies with a close of the connection, and gates of scripts."""
        self._gate.set()

    def gated(self, reply: Any) -> Callable[[Any], Any]:
        """Returns a script entry that replies once the gate is open."""

        def wait_and_reply(_: Any) -> Any:
            self._gate.wait(BOUND_S)
            return reply

        return wait_and_reply

    def close(self) -> None:
        self._gate.set()
        self._is_closed = True
        self._shut(self._listener)
        # Else the thread would accept on the descriptor when another listener has its number.
        self._accepting.join(BOUND_S)
        self._listener.close()
        for found in self._sockets:
            self._shut(found)

    def _shut(self, found: socket.socket) -> None:
        try:
            found.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
                if self._tls:
                    accepted = self._tls.wrap_socket(accepted, server_side=True)
            except OSError:
                if self._is_closed:
                    return
                continue
            self.connections += 1
            self._sockets.append(accepted)
            threading.Thread(target=self._serve, args=(accepted, self.connections), daemon=True).start()

    def _serve(self, accepted: socket.socket, number: int) -> None:
        try:
            with accepted, accepted.makefile("rb") as stream:
                while line := stream.readline():
                    arguments = []
                    for _ in range(int(line[1:])):
                        size = int(stream.readline()[1:])
                        arguments.append(stream.read(size + 2)[:-2].decode())
                    reply = self._reply(arguments, number)
                    if reply is HANG:
                        self._gate.wait(BOUND_S)
                        return
                    if reply is CLOSE:
                        return
                    if isinstance(reply, tuple):  # Cut half-way.
                        accepted.sendall(reply[0])
                        return
                    accepted.sendall(reply)
        except (OSError, ValueError):
            pass
        self.log.add((number, "END"))

    def _reply(self, arguments: list[str], number: int) -> Any:
        entry = self.script.popleft() if self.script else None
        self.log.add((number, " ".join(arguments)))
        if callable(entry):
            entry = entry(arguments)
        return self._model(arguments) if entry is None else entry

    def _model(self, arguments: list[str]) -> bytes:
        if arguments[0] == "AUTH":
            return b"+OK\r\n"
        if arguments[:2] == ["SEQUENCE", "NEXT"]:
            return self.values(int(arguments[4]))
        if arguments[:2] == ["WORKERID", "RELEASE"]:
            return b"+OK\r\n"
        now_ms = (self.clock or time).time_ns() // 1_000_000
        if arguments[:2] == ["WORKERID", "LEASE"]:
            self.end = now_ms + self.lease_ms
            self.worker_id += self.worker_step
            return lease(self.worker_id, now_ms, self.end, self.lease_ms)
        self.end = max(self.end, now_ms, int(arguments[6]) + 1) + self.lease_ms
        return b"*1\r\n:%d\r\n" % self.end

    def values(self, count: int) -> bytes:
        first = self.value + self.step
        self.value += count * self.step
        return span(first, self.value, self.step)


def span(first: int, last: int, step: int = 1) -> bytes:
    return b"*3\r\n:%d\r\n:%d\r\n:%d\r\n" % (first, last, step)


def lease(id: int, not_before: int, not_after: int, length_ms: int = 30_000, token: bytes = b"t" * 32) -> bytes:
    head = b"*5\r\n:%d\r\n$%d\r\n%b\r\n" % (id, len(token), token)
    return head + b":%d\r\n:%d\r\n:%d\r\n" % (not_before, not_after, length_ms)


def no_threads() -> Any:
    """Lets no background thread of a client start."""
    start_thread = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "getid":
            raise RuntimeError("can't start new thread")
        start_thread(thread)

    return mock.patch.object(threading.Thread, "start", refuse)


def run_together(*calls: Callable[[], Any]) -> list[Any]:
    """Runs calls in threads. Returns their results or errors."""
    results: list[Any] = [None] * len(calls)

    def run(index: int) -> None:
        try:
            results[index] = calls[index]()
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND_S)
        assert not thread.is_alive(), "a call hangs"
    return results


def start(call: Callable[[], Any]) -> Callable[[], Any]:
    """Runs a call in a thread. Returns a function that waits for its result."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append((call(), None))
        except BaseException as error:
            results.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join() -> Any:
        thread.join(BOUND_S)
        assert not thread.is_alive(), "the call hangs"
        result, error = results[0]
        if error is not None:
            raise error
        return result

    return join


def until(holds: Callable[[], bool]) -> None:
    """Waits for a state that no event shows."""
    deadline = time.monotonic() + BOUND_S
    while not holds():
        assert time.monotonic() < deadline, "the state does not come"
        time.sleep(0.001)


class GetidTest(unittest.TestCase):
    """Test with a frozen clock, a server and a client."""

    def setUp(self) -> None:
        hook, threading.excepthook = threading.excepthook, self.note_failure
        self.failed_threads: list[Any] = []
        self.addCleanup(lambda: self.assertEqual(self.failed_threads, []))
        self.addCleanup(setattr, threading, "excepthook", hook)
        self.clock = TestClock(frozen=True, wall_ms=NOW_MS)
        self.server = self.make_server()
        self.events = Log()

    def note_failure(self, failure: Any) -> None:
        self.failed_threads.append(failure.exc_value)

    def make_server(self, **options: Any) -> Server:
        server = Server(self.clock, **options)
        self.addCleanup(server.close)
        return server

    def client(self, url: str | None = None, **options: Any) -> Client:
        options.setdefault("clock", self.clock)
        options.setdefault("on_event", self.events.add)
        options.setdefault("timeout", BOUND_S)
        client = Client(url or self.server.url, **options)
        self.addCleanup(client.close, 0)
        return client

    def due_in(self, source: Any) -> float | None:
        """Returns after how many seconds the object's next job begins."""
        due = source._due
        return None if due is None else round(due - self.clock.monotonic(), 6)
