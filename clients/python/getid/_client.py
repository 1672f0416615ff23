"""Client: one connection, one background thread, and the objects that share them.

A job is one request for one object. The background thread runs the jobs, one after another; where it does not take one
up, a blocking call runs it in its own thread. ``_is_busy`` marks the one thread that uses the connection. One lock
guards all state, and no input, output, wait or callback runs while it is held. Each job has the generation of its
begin; ``close``, ``discard`` and a fork raise it, so that a late reply changes nothing.
"""

from __future__ import annotations

import heapq
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
from ._errors import TIMEOUT_MAX_S, check_int, check_name, check_number
from ._layout import Layout
from ._sequence import HOLD_MAX_S, HOLD_MIN_S, PREFETCH_MAX, Sequence
from ._source import NEXT_ADDRESS, Signal, Source, closed_error, remedy_of
from ._worker import TTL_MAX_S, Worker

OBJECTS_MAX = 10_000
EVENTS_MAX = 1000
"""Most events that wait for the callback; the oldest are dropped."""

IDLE_S = 3600.0
THREAD_RETRY_S = 1.0
ROUNDING_S = 1e-6
"""Bound of what sums of times are off by."""


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


class _NoRequest(Exception):
    """A job found that nothing is needed any more."""


_clients: weakref.WeakSet[Client] = weakref.WeakSet()
_fork_guards: dict[int, Any] = {}


def _mark_forked() -> None:
    # Only helps if a process id comes back. The rule is that each call compares the process with its creator.
    for client in list(_clients):
        client._pid = 0
        for source in list(client._sources.values()):
            source._pid = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)


class Client:
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
        self._sources: dict[tuple[str, str], Source] = {}
        self._index = 0
        self._generation = 0
        self._serial = 0
        self._is_closed = False
        self._is_finished = False
        self._is_released = False
        self._connection: Connection | None = None
        self._start_process()
        self._pid = os.getpid()
        _clients.add(self)
        watcher = weakref.ref(self)
        clock.watch(lambda: _wake(watcher))

    def _start_process(self) -> None:
        self._lock = threading.Lock()
        self._signal = Signal()
        self._queue: list[tuple[float, int, Source]] = []
        self._entries = 0
        self._is_busy = False
        self._woken: list[Any] = []
        self._retired: list[Connection] = []
        self._events: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._has_thread = False
        self._thread_failed_at: float | None = None

    # Objects.

    def sequence(self, name: str, prefetch_max: int = 10_000, hold: float = 60.0, fresh: bool = False) -> Sequence:
        """Returns the local supply of a sequence, the same object each time.

        At most ``prefetch_max`` values are fetched ahead of the calls, 0 to 10,000,000. No value is used ``hold``
        seconds after its request was sent, 0.01 to 60. With ``fresh`` a value serves only calls that were waiting when
        its request was sent: for serial numbers in the order of commits, and timestamps.
        """
        check_name("name", name)
        check_int("prefetch_max", prefetch_max, 0, PREFETCH_MAX)
        hold = check_number("hold", hold, HOLD_MIN_S, HOLD_MAX_S)
        if not isinstance(fresh, bool):
            raise TypeError(f"fresh is {fresh!r}, must be a bool")
        options = (prefetch_max, hold, fresh)
        found = self._object(("sequence", name), options, lambda: Sequence(self, name, prefetch_max, hold, fresh))
        assert isinstance(found, Sequence)
        return found

    def worker(self, pool: str, layout: Layout, name: str | None = None, ttl: int | None = None) -> Worker:
        """Returns the generator of IDs with a worker id of a pool, the same object each time.

        One pool serves one layout. ``name`` gets a program its last worker id back, by default the host's name.
        ``ttl`` is the length of the lease in seconds, by default the pool's.
        """
        check_name("pool", pool)
        if not isinstance(layout, Layout):
            raise TypeError(f"layout is {layout!r}, must be a Layout such as Layout.TWITTER")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name is {name!r}, must be a str or None")
        if ttl is not None:
            check_int("ttl", ttl, 1, TTL_MAX_S)
        found = self._object(("worker", pool), (layout, name, ttl), lambda: Worker(self, pool, layout, name, ttl))
        assert isinstance(found, Worker)
        return found

    def _object(self, key: tuple[str, str], options: tuple[Any, ...], make: Callable[[], Source]) -> Source:
        self._enter()
        with self._lock:
            if self._is_closed:
                raise closed_error()
            found = self._sources.get(key)
            if found is None:
                if len(self._sources) >= OBJECTS_MAX:
                    raise ValueError(f"the client has {OBJECTS_MAX:,} objects, which is the most: use them again")
                found = self._sources[key] = make()
                found._options = options  # type: ignore[attr-defined]
            elif found._options != options:  # type: ignore[attr-defined]
                raise ValueError(f"{found} exists with other options: use the same ones, or another client")
            return found

    def close(self, timeout: float = 2.0) -> bool:
        """Ends all calls and releases the leases, within ``timeout`` seconds.

        Returns whether all leases were released. A second call returns the same. Afterwards every call raises
        ``Closed``.
        """
        timeout = check_number("timeout", timeout, 0, TIMEOUT_MAX_S)
        self._enter()
        with self._lock:
            if self._is_closed:
                return self._is_released
            self._is_closed = True
            requests = self._stop_sources()
            woken, connection = self._drop_connection()
        self._abort(woken, connection)
        released = self._release(requests, time.monotonic() + timeout)
        with self._lock:
            self._is_released, self._is_finished = released, True
        self._signal.set()
        return released

    def _stop_sources(self) -> list[tuple[str, tuple[bytes, ...]]]:
        requests: list[tuple[str, tuple[bytes, ...]]] = []
        for source in self._sources.values():
            requests.extend((source.name, request) for request in source._stop())
            source._finish_all(closed_error)
        return requests

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
                if isinstance(source, Sequence):
                    source._arm()
            woken, connection = self._drop_connection()
        self._abort(woken, connection)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __copy__(self) -> Client:
        return self

    def __deepcopy__(self, memo: Any) -> Client:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("Client cannot be serialised: make a client in each process")

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

    def _enter(self) -> None:
        """Begins a call. In a forked child the client starts again, with nothing of its parent."""
        if self._pid == os.getpid():
            return
        # The parent's locks may be held for ever here, so the guard is a lock of this process.
        with _fork_guards.setdefault(os.getpid(), threading.Lock()):
            if self._pid == os.getpid():
                return
            connections = [self._connection, *self._retired]
            self._connection = None
            for connection in connections:
                if connection is not None:
                    connection.close()
            self._generation += 1
            self._start_process()
            self._is_finished = self._is_closed
            for source in list(self._sources.values()):
                source._start_process()
            pid = os.getpid()
            for source in list(self._sources.values()):
                source._pid = pid
            self._pid = pid

    def _drop_connection(self) -> tuple[list[Any], Connection | None]:
        """Ends all jobs, under the lock. The thread that uses the connection closes its descriptor."""
        self._generation += 1
        woken, self._woken = self._woken, []
        connection, self._connection = self._connection, None
        return woken, connection

    def _abort(self, woken: list[Any], connection: Connection | None) -> None:
        if connection is not None:
            connection.abort()
            with self._lock:
                is_used = self._is_busy
                if is_used:
                    self._retired.append(connection)
            if not is_used:
                connection.close()
        for waiter in woken:
            waiter.wake()
        self._signal.set()

    # Schedule. Runs under the lock.

    def _schedule(self, source: Source, due: float) -> None:
        """Sets when the next job of an object begins."""
        self._entries += 1
        source._due, source._entry = due, self._entries
        heapq.heappush(self._queue, (due, self._entries, source))

    def _use_address(self, index: int) -> None:
        if index != self._index:
            self._index = index
            if self._connection is not None:
                self._retired.append(self._connection)
                self._connection = None

    def _event(self, event: str, name: str = "", reason: str = "", difference_ms: int = 0) -> None:
        if self._on_event is not None:
            self._events.append(Event(event, self._address, name, reason, difference_ms))

    def _take_due(self, only: Source | None) -> tuple[Source | None, float]:
        """Returns an object whose job begins now, or how long there is none."""
        if self._is_busy or self._is_closed:
            return None, IDLE_S
        now = self._monotonic() + ROUNDING_S
        source: Source | None = None
        delay = IDLE_S
        if only is not None:
            source = only if only._due is not None and only._due <= now else None
        while only is None and self._queue:
            due, entry, found = self._queue[0]
            if found._entry == entry and found._due is not None and due > now:
                delay = min(due - now, IDLE_S)
                break
            heapq.heappop(self._queue)
            if found._entry == entry and found._due is not None:
                source = found
                break
        if source is not None:
            source._due, source._has_job, self._is_busy = None, True, True
        return source, delay

    # Jobs.

    def _kick(self) -> bool:
        """Wakes the background thread. Returns whether there is one."""
        with self._lock:
            failed_at = self._thread_failed_at
            is_new = not self._has_thread and (failed_at is None or time.monotonic() - failed_at > THREAD_RETRY_S)
            self._has_thread = self._has_thread or is_new
            has_thread = self._has_thread
        if is_new:
            has_thread = self._start_thread()
        self._signal.set()
        return has_thread

    def _start_thread(self) -> bool:
        work = threading.Thread(target=_background, args=(weakref.ref(self), self._signal), name="getid", daemon=True)
        try:
            work.start()
        except RuntimeError:
            with self._lock:
                self._has_thread, self._thread_failed_at = False, time.monotonic()
            return False
        return True

    def _help(self, source: Source) -> None:
        """Runs the job of an object in this thread if it is due and not taken up."""
        with self._lock:
            found, _ = self._take_due(source)
            generation = self._generation
        if found is not None:
            self._run(found, generation)

    def _work(self) -> float | None:
        """Runs all jobs that are due. Returns the time until the next one, or None at the end of the client."""
        while True:
            self._deliver_events()
            if self._pid != os.getpid():
                return None
            with self._lock:
                if self._is_finished and not self._events:
                    return None
                found, delay = self._take_due(None)
                generation = self._generation
            if found is None:
                return delay
            self._run(found, generation)

    def _deliver_events(self) -> None:
        while self._on_event is not None:
            with self._lock:
                if not self._events:
                    return
                event = self._events.popleft()
            try:
                self._on_event(event)
            except BaseException:
                pass
            if self._pid != os.getpid():
                return

    def _run(self, source: Source, generation: int) -> None:
        """Sends the request of an object and applies its reply. This thread alone uses the connection."""
        failure: Any = ConnectionLost("interrupted")
        reply: Any = None
        try:
            reply = self._request(source, generation)
            failure = None
        except _NoRequest:
            failure = None
            reply = _NoRequest
        except (ConnectionLost, LoginRefused) as error:
            failure = error
        finally:
            self._finish(source, generation, reply, failure)

    def _request(self, source: Source, generation: int) -> Any:
        connection = self._connected(generation)
        with self._lock:
            request = source._begin(self._serial) if generation == self._generation else None
        if request is None:
            raise _NoRequest
        return connection.request(request)

    def _connected(self, generation: int) -> Connection:
        with self._lock:
            if generation != self._generation:
                raise ConnectionLost("the client was closed", True)
            connection = self._connection
            if connection is not None and connection.is_open:
                return connection
            if connection is not None:
                self._retired.append(connection)
            connection = self._connection = Connection(self._target, self._target.addresses[self._index], self._tls)
        connection.connect()
        with self._lock:
            if generation == self._generation:
                self._serial += 1
                self._event("connected")
        return connection

    def _finish(self, source: Source, generation: int, reply: Any, failure: Any) -> None:
        with self._lock:
            source._has_job = False
            if generation == self._generation:
                self._apply(source, reply, failure)
            elif source._waiters and not self._is_closed:
                self._schedule(source, self._monotonic())
            self._is_busy = False
            woken, self._woken = self._woken, []
            retired, self._retired = self._retired, []
        for connection in retired:
            connection.close()
        for waiter in woken:
            waiter.wake()
        self._signal.set()

    def _apply(self, source: Source, reply: Any, failure: Any) -> None:
        if failure is None and reply is not _NoRequest and not isinstance(reply, ServerError):
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
        if isinstance(source, Sequence):
            source._settle()
            source._arm()

    def _apply_error(self, source: Source, error: ServerError, can_lose: bool) -> None:
        remedy = remedy_of(error)
        source._failed(remedy, f"{self._address}: {error.text}", can_lose and error.code != "LOADING", error)

    def _lose_connection(self, reason: str, is_connect: bool) -> None:
        if self._connection is not None:
            self._retired.append(self._connection)
            self._connection = None
        if not is_connect:
            self._event("disconnected", reason=reason)

    # Release.

    def _release(self, requests: list[tuple[str, tuple[bytes, ...]]], deadline: float) -> bool:
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
        return reply == "OK" or (isinstance(reply, ServerError) and reply.code == "EXPIRED")


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
            if delay is None:
                client._has_thread = False
        if delay is None:
            return
        del client
        signal.wait(delay)
