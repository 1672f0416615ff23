"""Source: what sequences and workers have in common: waiting calls, retries, and the job that the client runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._connection import ConnectionLost, Reply, ServerError
from ._errors import TIMEOUT_MAX_S, GetidError, Refused, Unavailable, check_int, check_number
from ._objects import TAKE_MAX, Unique, closed_error

if TYPE_CHECKING:
    from ._client import Client

WAITERS_MAX = 10_000
"""Most calls that wait for one object."""

HELP_AFTER_S = 0.05
"""Time after which a blocking call does a job that the background thread has not taken up."""

BACKOFF_FIRST_S = 0.01
BACKOFF_LAST_S = 1.0
LOADING_WAIT_S = 0.2

NEXT_ADDRESS = "next address"
LOADING = "loading"
SAME_ADDRESS = "same address"
REFUSED = "refused"


def remedy_of(error: ServerError) -> str:
    """Returns how an error reply is met: by the next address, by a wait, or by none."""
    if error.code == "LOADING":
        return LOADING
    if error.code == "MISCONF" or error.is_full:
        return NEXT_ADDRESS
    if error.code in ("TRYAGAIN", "BUSY", "EXHAUSTED"):
        return SAME_ADDRESS
    return REFUSED


class Signal:
    """Wakes one thread. ``set`` takes no lock, so a finalizer may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Wakes the thread that waits, or the next one to wait."""
        try:
            self._lock.release()
        except Exception:
            pass

    def wait(self, timeout: float) -> bool:
        """Returns whether the signal was set within ``timeout`` seconds, and clears it."""
        return self._lock.acquire(timeout=max(0.0, min(timeout, TIMEOUT_MAX_S)))


class Waiter:
    """A call and its values. It waits while ``is_queued``; the job that serves it sets ``is_done``."""

    def __init__(self, count: int, is_warm_up: bool = False, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.count = self.need = count
        self.is_warm_up = is_warm_up
        self.ranges: list[range] = []
        self.oldest: Any = None
        self.is_sent = self.is_queued = self.is_done = False
        self.error: GetidError | None = None
        self.future: Any = None
        self._loop = loop
        self._signal = Signal()

    def begin(self) -> None:
        """Makes the call ready to wait."""
        self.is_sent = self.is_done = False
        if self._loop is not None:
            self.future = self._loop.create_future()

    def wake(self) -> None:
        """Wakes the call. Runs without a lock."""
        self._signal.set()
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(_resolve, self.future)
            except RuntimeError:
                pass  # The loop was closed meanwhile, and the call with it.

    def wait(self, timeout: float) -> bool:
        """Returns whether the call was woken within ``timeout`` seconds."""
        return self._signal.wait(timeout)


def _resolve(future: Any) -> None:
    if not future.done():
        future.set_result(None)


class Source(Unique):
    """Base of :class:`Sequence` and :class:`Worker`. Its fields are guarded by the client's lock."""

    kind = "object"

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name
        self._failures = self._returned = 0
        self._start_process()

    def _start_process(self) -> None:
        """Sets what does not outlive a fork. The caller is the only thread that uses the object."""
        self._lock = self._client._lock
        self._waiters: deque[Waiter] = deque()
        self._has_job = self._is_wanted = False
        self._retry_at = 0.0
        self._tried: dict[int, bool] = {}
        self._backoff = BACKOFF_FIRST_S
        self._last_failure = ""
        self._pid = self._client._pid

    # What subclasses have. All of it runs under the lock.

    def _draw(self, n: int) -> range:
        """Returns up to ``n`` values. They are none if the server is needed first, and few at any time."""
        raise NotImplementedError

    def _is_warm(self, n: int) -> bool:
        """Whether ``warm_up(n)`` need not wait."""
        raise NotImplementedError

    def _settle(self) -> None:
        """Begins a use of the object: ends the fast path."""

    def _arm(self) -> None:
        """Ends a use of the object: prepares the fast path."""

    def _want(self) -> None:
        """Schedules the job without which a call gets no value."""
        raise NotImplementedError

    def _begin(self, serial: int) -> tuple[bytes, ...] | None:
        """Returns the request that is needed now, or None."""
        raise NotImplementedError

    def _apply(self, reply: Reply) -> None:
        """Takes the reply to the last request. Raises ConnectionLost if it has an unexpected form."""
        raise NotImplementedError

    def _refuse(self, error: ServerError) -> bool:
        """Takes an error reply. Returns whether the error was expected and is dealt with."""
        return False

    def _retry_delay(self, delay: float, can_lose: bool) -> float:
        """Returns the wait before the next try. ``can_lose``: the server may have done what was requested."""
        return delay

    def _is_needed(self) -> bool:
        """Whether a failed job is tried again although no call waits."""
        return False

    def _forget(self) -> None:
        """Drops the segments or the lease, and the job that no call waits for."""
        self._is_wanted = False
        if not self._waiters:
            self._client._due.pop(self, None)

    def _release_requests(self) -> list[tuple[bytes, ...]]:
        """Returns the requests that release what the object has."""
        return []

    def _failure_event(self) -> str:
        return "fetch_failed"

    # Calls.

    def __iter__(self) -> Iterator[int]:
        return self  # type: ignore[return-value]

    def take(self, n: int, timeout: float | None = None) -> list[int]:
        """Returns ``n`` values, 1 to 1,000,000, ascending. Raises as ``next`` does."""
        return self._take(check_int("n", n, 1, TAKE_MAX), timeout)

    async def anext(self, timeout: float | None = None) -> int:
        """Returns the next value as ``next`` does, for asyncio: waits for a future of the running loop."""
        limit = self._limit(timeout)
        loop = asyncio.get_running_loop()
        waiter = Waiter(1, loop=loop)
        deadline = time.monotonic() + limit
        try:
            while self._must_wait(waiter, False):
                timer = loop.call_later(deadline - time.monotonic(), _resolve, waiter.future)
                self._client._kick()
                try:
                    await waiter.future
                finally:
                    timer.cancel()
                self._check_waiter(waiter, limit)
        except GeneratorExit:
            # The garbage collector may run this in a thread that holds the lock.
            waiter.is_queued = False
            self._client._abandoned.append((self, waiter))
            raise
        finally:
            self._leave(waiter)
        return waiter.ranges[0].start

    def try_next(self) -> int | None:
        """Returns the next value if one is in memory, else None. Never waits, and starts the fetch or the lease.

        A sequence with ``fresh`` always returns None, because a value serves only calls that wait for it.
        """
        waiter = Waiter(1)
        self._client._enter()
        with self._lock:
            self._check_open()
            self._settle()
            self._fill(waiter)
            if waiter.need:
                self._is_wanted = True
                self._want()
            self._arm()
            is_due = self._due is not None
        if is_due:
            self._client._kick()
        return None if waiter.need else waiter.ranges[0].start

    def warm_up(self, n: int = 1, timeout: float | None = None) -> None:
        """Waits until ``n`` values, 1 to 1,000,000, are in memory, or the worker id is leased."""
        self._call(Waiter(check_int("n", n, 1, TAKE_MAX), is_warm_up=True), timeout)

    def _take(self, n: int, timeout: float | None) -> list[int]:
        waiter = Waiter(n)
        self._call(waiter, timeout)
        return [value for values in waiter.ranges for value in values]

    def _call(self, waiter: Waiter, timeout: float | None) -> None:
        limit = self._limit(timeout)
        deadline = time.monotonic() + limit
        try:
            while self._must_wait(waiter, True):
                self._wait(waiter, deadline)
                self._check_waiter(waiter, limit)
        finally:
            self._leave(waiter)

    def _limit(self, timeout: float | None) -> float:
        return self._client.timeout if timeout is None else check_number("timeout", timeout, 0, TIMEOUT_MAX_S)

    def _must_wait(self, waiter: Waiter, can_help: bool) -> bool:
        """Takes values out of memory. Returns true, and queues the call, if there are too few."""
        if not waiter.need:
            return False
        client = self._client
        client._enter()
        with self._lock:
            self._check_open()
            self._settle()
            self._fill(waiter)
            if waiter.need:
                self._enqueue(waiter)
                self._want()
            self._arm()
            overdue = -1.0 if self._due is None else client._monotonic() - self._due
        if waiter.need:
            return True
        if overdue >= 0:
            client._kick()
        if overdue > HELP_AFTER_S and can_help:
            client._run(self)
        if self._pid != client._pid or client._has_forked():
            self._drop_ranges(waiter)  # A signal handler forked the process meanwhile: the parent has these values.
            return self._must_wait(waiter, can_help)
        return False

    def _fill(self, waiter: Waiter) -> None:
        if waiter.is_warm_up:
            waiter.need = 0 if self._is_warm(waiter.count) else waiter.count
            return
        while waiter.need:
            values = self._draw(waiter.need)
            if not values:
                return
            waiter.ranges.append(values)
            waiter.need -= len(values)

    def _enqueue(self, waiter: Waiter) -> None:
        if len(self._waiters) >= WAITERS_MAX:
            raise Unavailable(f"{WAITERS_MAX:,} calls wait for {self} already: wait for some of them to return")
        waiter.begin()
        waiter.is_queued = True
        self._waiters.append(waiter)

    def _wait(self, waiter: Waiter, deadline: float) -> None:
        """Waits in this thread. Does the job itself where the background thread does not take it up."""
        client = self._client
        has_thread = client._kick()
        pause = HELP_AFTER_S if has_thread else 0.0
        while not waiter.is_done and not waiter.wait(min(pause, deadline - time.monotonic())):
            if time.monotonic() >= deadline:
                break
            client._run(self)
            pause = min(max(pause * 2, HELP_AFTER_S), 8 * HELP_AFTER_S) if has_thread else BACKOFF_FIRST_S
        if not has_thread:
            client._run(self)

    def _leave(self, waiter: Waiter) -> None:
        """Ends a call. One that ends without all of its values leaves a gap."""
        if waiter.is_queued:
            with self._lock:
                self._remove(waiter)

    def _remove(self, waiter: Waiter) -> None:
        waiter.is_queued = False
        if not waiter.is_done:
            self._waiters = deque(other for other in self._waiters if other is not waiter)
            self._drop_ranges(waiter)

    def _drop_ranges(self, waiter: Waiter) -> None:
        """Drops the values that a call has collected."""
        waiter.ranges.clear()
        waiter.need = waiter.count

    def _check_waiter(self, waiter: Waiter, limit: float) -> None:
        if waiter.error is not None:
            raise waiter.error
        if not waiter.is_done:
            failure = self._last_failure or f"{self._client._address} has not replied yet"
            raise Unavailable(f"no value of {self} within {limit:g} s: {failure}")

    def _finish_waiter(self, waiter: Waiter, error: GetidError | None = None) -> None:
        waiter.error = error
        waiter.is_done = True
        self._client._woken.append(waiter)

    def _finish_all(self, make_error: Any = None) -> None:
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            self._finish_waiter(waiter, make_error() if make_error else None)

    # Jobs.

    @property
    def _due(self) -> float | None:
        """When the next job begins, by the monotonic clock."""
        return self._client._due.get(self)

    def _succeeded(self) -> None:
        self._tried.clear()
        self._backoff = BACKOFF_FIRST_S
        self._retry_at = 0.0
        self._last_failure = ""

    def _failed(self, remedy: str, reason: str, can_lose: bool, code: str = "") -> None:
        """Notes a failed job, and schedules the next try if a call waits for it."""
        self._failures += 1
        self._last_failure = reason
        self._client._event(self._failure_event(), self.name, reason)
        if remedy == REFUSED:
            self._finish_all(lambda: Refused(f"{self}: {reason}", code))
            delay = self._retry_delay(0.0, False)
        else:
            delay = self._retry_delay(self._table_delay(remedy), can_lose)
        self._retry_at = self._client._monotonic() + delay
        if self._waiters or self._is_needed():
            self._client._schedule(self, self._retry_at)

    def _table_delay(self, remedy: str) -> float:
        """Chooses the address of the next try, and returns the wait before it."""
        if remedy == SAME_ADDRESS:
            self._tried.clear()
            return self._back_off()
        client = self._client
        count = len(client._target.addresses)
        self._tried[client._index] = remedy == LOADING
        following = [(client._index + step) % count for step in range(1, count + 1)]
        untried = [index for index in following if index not in self._tried]
        client._use_address((untried or following)[0])
        if untried:
            return 0.0
        are_loading = all(self._tried.values())
        self._tried.clear()
        return LOADING_WAIT_S if are_loading else self._back_off()

    def _back_off(self) -> float:
        delay = self._backoff
        self._backoff = min(2 * delay, BACKOFF_LAST_S)
        return delay

    def _check_open(self) -> None:
        if self._client._is_closed:
            raise closed_error()

    def __str__(self) -> str:
        return f"{self.kind} '{self.name}'"


def unexpected(what: str, reply: Any) -> ConnectionLost:
    """Returns the failure for a reply of unexpected form, which closes the connection."""
    return ConnectionLost(f"unexpected reply to {what}: {str(reply)[:100]}")
