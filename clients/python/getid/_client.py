"""Client: one connection, one background thread, and the objects that share them.

A job is one request for one object. The background thread runs the jobs, one after another; where it does not take one
up, a blocking call runs it in its own thread. ``_job`` is the job that uses the connection. One lock guards all state,
and no input, output, wait or callback runs while it is held. Each job has the generation of its begin; ``close``,
``discard`` and a fork raise it, so that a late reply changes nothing. An exception that a signal handler raises at any
place leaves a gap, but no lock and no job behind.
"""

from __future__ import annotations

import os
import ssl
import threading
import time
import weakref
from collections import deque
from typing import Any, Callable, NamedTuple

from ._address import parse_url
from ._clock import SystemClock
from ._connection import CONNECT_TIMEOUT_S, REPLY_TIMEOUT_S, Connection, ConnectionLost, LoginRefused, ServerError
from ._errors import TIMEOUT_MAX_S, check_number
from ._layout import Layout
from ._objects import Objects, closed_error
from ._sequence import Sequence
from ._source import NEXT_ADDRESS, Signal, Source, Waiter, remedy_of
from ._worker import LOST_CODES, Worker

EVENTS_MAX = 1000
"""Most events that wait for the callback; the oldest are dropped."""

IDLE_S = 3600.0
THREAD_RETRY_S = 1.0
ROUNDING_S = 1e-6
"""Bound of what sums of times are off by."""

Requests = list[tuple[str, tuple[bytes, ...]]]
"""Requests that release leases, each with the name of its pool."""


class Event(NamedTuple):
    """What ``on_event`` gets."""

    event: str
    """``connected``, ``disconnected``, ``fetch_failed``, ``leased``, ``renewed``, ``renew_failed``, ``lease_lost``,
    ``released`` or ``clock``."""

    address: str
    """Address of the server."""

    object: str = ""
    """Name of the sequence or pool."""

    reason: str = ""
    """Reason of a failure."""

    difference_ms: int = 0
    """Of ``clock``: how far the clock is past the end of the lease."""


NO_REPLY = object()
"""Reply of a job that found nothing to request."""


class Job:
    """A request for one object, and its result."""

    source: Source | None = None
    generation = 0
    reply: Any = NO_REPLY
    failure: Any = ConnectionLost("interrupted")
    is_applied = False


_clients: weakref.WeakSet[Client] = weakref.WeakSet()
_fork_guards: dict[int, Any] = {}


def _mark_forked() -> None:
    # Helps if a process id comes back, and if a signal handler forks in the middle of a call. The rule is that each
    # call compares the process with its creator.
    _fork_guards.clear()
    for client in list(_clients):
        client._pid = 0
        client._generation += 1
        for source in list(client._sources.values()):
            source._pid = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)


class Client(Objects[Sequence, Worker]):
    """Client of getid servers, with one connection. Connects at the first use of an object.

    ``url`` is ``getid://[user:password@]host[:port][,host[:port]...][?order=given]``, ``getids://`` for TLS, or
    ``getid+unix:///path``; by default ``GETID_URL``, else ``getid://127.0.0.1:7890``. ``timeout`` is the time-out of
    calls in seconds. ``on_event`` is called with each :class:`Event` on the background thread. ``tls`` is the
    ``ssl.SSLContext`` for ``getids://``, by default the system's trust store. ``clock`` is for tests.

    >>> with Client("getid://127.0.0.1:7890") as client:     # doctest: +SKIP
    ...     orders = client.sequence("orders")
    ...     print(orders.next())
    """

    def __init__(
        self,
        url: str | None = None,
        timeout: float = 5.0,
        on_event: Callable[[Event], Any] | None = None,
        tls: ssl.SSLContext | None = None,
        clock: SystemClock | None = None,
    ) -> None:
        super().__init__()
        self._connection: Connection | None = None
        self._target = parse_url(url)
        self.timeout = check_number("timeout", timeout, 0, TIMEOUT_MAX_S)
        if on_event is not None and not callable(on_event):
            raise TypeError(f"on_event is {on_event!r}, must be callable")
        if tls is not None and not self._target.is_tls:
            raise ValueError("tls is given, so the url must begin with 'getids://'")
        self._on_event = on_event
        self._tls = tls
        clock = clock or SystemClock()
        self._monotonic = clock.monotonic
        self._time_ns = clock.time_ns
        self._index = self._generation = self._serial = 0
        self._released: bool | None = None
        self._start_process()
        self._pid = os.getpid()
        _clients.add(self)
        watcher = weakref.ref(self)
        clock.watch(lambda: _wake(watcher))

    def _start_process(self) -> None:
        self._lock = threading.Lock()
        self._signal = Signal()
        self._due: dict[Source, float] = {}
        self._job: Job | None = None
        self._woken: list[Waiter] = []
        self._abandoned: list[tuple[Source, Waiter]] = []
        self._retired: list[Connection] = []
        self._events: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._thread: threading.Thread | None = None
        self._thread_failed_at = float("-inf")

    def _make_sequence(self, name: str, prefetch_max: int, hold: float, fresh: bool) -> Sequence:
        return Sequence(self, name, prefetch_max, hold, fresh)

    def _make_worker(self, pool: str, layout: Layout, name: str | None, ttl: int | None) -> Worker:
        return Worker(self, pool, layout, name, ttl)

    def close(self, timeout: float = 2.0) -> bool:
        """Ends all calls and releases the leases, within ``timeout`` seconds.

        Returns whether all leases were released. A second call returns the same. Afterwards every call raises
        ``Closed``.
        """
        deadline = time.monotonic() + check_number("timeout", timeout, 0, TIMEOUT_MAX_S)
        self._enter()
        released = False
        requests: Requests = []
        with self._lock:
            if self._is_closed:
                return bool(self._released)
            for source in self._sources.values():
                requests.extend((source.name, request) for request in source._release_requests())
                source._forget()
                source._finish_all(closed_error)
            connection = self._drop_connection()
            self._is_closed = True
        try:
            self._abort(connection)
            released = self._release(requests, deadline)
        finally:
            self._released = released
            self._signal.set()
        return released

    def discard(self) -> None:
        """Drops all values and leases, and closes the connection, without a message: before a snapshot of the process.

        Calls that wait continue to wait.
        """
        self._enter()
        with self._lock:
            if self._is_closed:
                raise closed_error()
            for source in self._sources.values():
                source._forget()
            connection = self._drop_connection()
        self._abort(connection)

    def __repr__(self) -> str:
        return f"<getid.Client of {', '.join(map(str, self._target.addresses))}>"

    def __del__(self) -> None:
        try:
            if self._connection is not None:
                self._connection.close()
            self._signal.set()
        except Exception:
            pass

    @property
    def _address(self) -> str:
        return str(self._target.addresses[self._index])

    # Processes.

    def _has_forked(self) -> bool:
        return self._pid != os.getpid()

    def _enter(self) -> None:
        """Begins a call. In a forked child the client starts again, with nothing of its parent."""
        if not self._has_forked():
            return
        # The parent's locks may be held for ever here, so the guard is a lock of this process.
        with _fork_guards.setdefault(os.getpid(), threading.Lock()):
            if not self._has_forked():
                return
            connections = [self._connection, *self._retired]
            self._connection = None
            for connection in connections:
                if connection is not None:
                    connection.close()
            self._generation += 1
            self._start_process()
            self._released = False if self._is_closed else None
            pid = os.getpid()
            sources = list(self._sources.values())
            for source in sources:
                source._start_process()
            for source in sources:
                source._pid = pid
            self._pid = pid

    def _drop_connection(self) -> Connection | None:
        """Ends all jobs, under the lock. The thread that uses the connection closes its descriptor."""
        self._generation += 1
        connection, self._connection = self._connection, None
        if connection is not None:
            self._retired.append(connection)
        return connection

    def _abort(self, connection: Connection | None) -> None:
        if connection is not None:
            connection.abort()
        self._clear(has_job=False)

    def _clear(self, has_job: bool) -> None:
        """Wakes the calls that are done, and closes the connections that no job uses."""
        with self._lock:
            if has_job:
                self._job = None
            retired: list[Connection] = []
            if self._job is None:
                retired, self._retired = self._retired, []
            woken, self._woken = self._woken, []
        for connection in retired:
            connection.close()
        for waiter in woken:
            waiter.wake()
        self._signal.set()

    # Schedule. Runs under the lock.

    def _schedule(self, source: Source, due: float) -> None:
        """Sets when the next job of an object begins."""
        self._due[source] = due
        self._signal.set()

    def _use_address(self, index: int) -> None:
        if index != self._index:
            self._index = index
            self._retire_connection()

    def _retire_connection(self) -> None:
        if self._connection is not None:
            self._retired.append(self._connection)
            self._connection = None

    def _event(self, event: str, name: str = "", reason: str = "", difference_ms: int = 0) -> None:
        if self._on_event is not None:
            self._events.append(Event(event, self._address, name, reason, difference_ms))

    def _take_due(self, job: Job, only: Source | None) -> float:
        """Begins a job that is due. Returns how long there is none."""
        while self._abandoned:
            source, waiter = self._abandoned.pop()
            source._remove(waiter)
        if self._job is not None or self._is_closed or not self._due:
            return IDLE_S
        source = only or min(self._due, key=self._due.__getitem__)
        if source not in self._due:
            return IDLE_S
        delay = self._due[source] - self._monotonic() - ROUNDING_S
        if delay > 0:
            return min(delay, IDLE_S)
        job.source, job.generation, self._job = source, self._generation, job
        source._has_job = True
        del self._due[source]
        return 0.0

    # Jobs.

    def _kick(self) -> bool:
        """Wakes the background thread. Returns whether there is one."""
        thread = None
        try:
            with self._lock:
                if self._thread is None and time.monotonic() - self._thread_failed_at > THREAD_RETRY_S:
                    arguments = (weakref.ref(self), self._signal)
                    thread = threading.Thread(target=_background, args=arguments, name="getid", daemon=True)
                    self._thread = thread
            if thread is not None:
                thread.start()
        except RuntimeError:
            self._thread, self._thread_failed_at = None, time.monotonic()
        except BaseException:
            self._thread = None  # If it was started nevertheless, it ends.
            raise
        self._signal.set()
        return self._thread is not None

    def _work(self) -> float | None:
        """Runs all jobs that are due. Returns the time until the next one, or None at the end of the thread."""
        delay = 0.0
        while delay <= 0:
            self._deliver_events()
            if self._has_forked() or self._thread is not threading.current_thread():
                return None
            if self._released is not None and not self._events:
                return None
            delay = self._run()
        return delay

    def _deliver_events(self) -> None:
        while self._on_event is not None and self._events and not self._has_forked():
            try:
                self._on_event(self._events.popleft())
            except BaseException:
                pass

    def _run(self, only: Source | None = None) -> float:
        """Runs a job that is due, of one object if given. Returns the time until the next one, 0 after a job."""
        job = Job()
        try:
            with self._lock:
                delay = self._take_due(job, only)
            if job.source is not None:
                self._request(job, job.source)
        except (ConnectionLost, LoginRefused) as error:
            job.failure = error
        finally:
            try:
                self._finish(job)
            finally:
                self._finish(job)  # Does something only if an exception ended the first call.
        return delay

    def _request(self, job: Job, source: Source) -> None:
        """Sends the request of a job. This thread alone uses the connection."""
        connection = self._connected(job)
        with self._lock:
            request = source._begin(self._serial) if job.generation == self._generation else None
        if request is not None:
            job.reply = connection.request(request)
        job.failure = None

    def _connected(self, job: Job) -> Connection:
        with self._lock:
            if job.generation != self._generation:
                raise ConnectionLost("the client was closed", True)
            if self._connection is not None and self._connection.is_open:
                return self._connection
            self._retire_connection()
            connection = self._connection = Connection(self._target, self._target.addresses[self._index], self._tls)
        connection.connect()
        with self._lock:
            if job.generation == self._generation:
                self._serial += 1
                self._event("connected")
        return connection

    def _finish(self, job: Job) -> None:
        source = job.source
        if source is None or self._job is not job:
            return
        with self._lock:
            source._has_job = False
            if job.generation == self._generation:
                self._apply(job, source)
            elif source._waiters and not self._is_closed:
                self._schedule(source, self._monotonic())
        self._clear(has_job=True)

    def _apply(self, job: Job, source: Source) -> None:
        if job.is_applied:
            source._forget()  # An exception came in the middle.
        is_first, job.is_applied = not job.is_applied, True
        failure = job.failure if is_first else ConnectionLost("interrupted")
        reply = job.reply
        if failure is None and reply is not NO_REPLY and not isinstance(reply, ServerError):
            try:
                source._apply(reply)
            except ConnectionLost as error:
                failure = ConnectionLost(f"{self._address}: {error}")
        if isinstance(failure, ConnectionLost):
            self._lose_connection(str(failure), failure.is_connect)
            source._failed(NEXT_ADDRESS, str(failure), not failure.is_connect)
        elif isinstance(failure, LoginRefused):
            self._lose_connection(failure.error.text, True)
            self._apply_error(source, failure.error, False)
        elif isinstance(reply, ServerError) and not source._refuse(reply):
            self._apply_error(source, reply, True)
        source._settle()
        source._arm()

    def _apply_error(self, source: Source, error: ServerError, can_lose: bool) -> None:
        if error.is_full:
            self._lose_connection(error.text, True)  # The server closes it.
        reason = f"{self._address}: {error.text}"
        source._failed(remedy_of(error), reason, can_lose and error.code != "LOADING", error.code)

    def _lose_connection(self, reason: str, is_connect: bool) -> None:
        self._retire_connection()
        if not is_connect:
            self._event("disconnected", reason=reason)

    # Release.

    def _release(self, requests: Requests, deadline: float) -> bool:
        """Sends the requests on a connection of its own. Returns whether all leases are over."""
        addresses = self._target.addresses
        left = requests
        for step in range(len(addresses)):
            if not left or time.monotonic() >= deadline:
                break
            address = addresses[(self._index + step) % len(addresses)]
            connection = Connection(self._target, address, self._tls)
            try:
                connection.connect(min(CONNECT_TIMEOUT_S, deadline - time.monotonic()))
                left = [one for one in left if not self._send_release(connection, one, deadline)]
            except (ConnectionLost, LoginRefused):
                pass
            finally:
                connection.close()
        return not left

    def _send_release(self, connection: Connection, one: tuple[str, tuple[bytes, ...]], deadline: float) -> bool:
        if not connection.is_open or time.monotonic() >= deadline:
            return False
        try:
            reply = connection.request(one[1], min(REPLY_TIMEOUT_S, deadline - time.monotonic()))
            if isinstance(reply, ServerError) and reply.code == "ERR" and len(one[1]) > 5:
                # LAST is too far ahead for the server. Without it the id is free at the end of the lease.
                return self._send_release(connection, (one[0], one[1][:5]), deadline)
        except ConnectionLost:
            return False
        if reply == "OK":
            with self._lock:
                self._event("released", one[0])
        return reply == "OK" or (isinstance(reply, ServerError) and reply.code in LOST_CODES)


def _wake(watcher: weakref.ref[Client]) -> None:
    client = watcher()
    if client is not None:
        client._signal.set()


def _background(reference: weakref.ref[Client], signal: Signal) -> None:
    """Body of the background thread. It holds no reference to the client while it waits, so the client can be freed."""
    while True:
        client = reference()
        if client is None:
            return
        delay = None
        try:
            delay = client._work()
        finally:
            if delay is None and client._thread is threading.current_thread():
                client._thread = None
        if delay is None:
            return
        del client
        signal.wait(delay)
