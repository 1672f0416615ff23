"""Source: what sequences and workers have in common: waiting calls, retries, and the job that the client runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from ._connection import ConnectionLost, Reply, ServerError
from ._errors import TIMEOUT_MAX_S, Closed, GetidError, Refused, Unavailable, check_number

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
    """A call that waits for ``need`` values."""

    __slots__ = (
        "_loop",
        "_signal",
        "error",
        "future",
        "is_done",
        "is_sent",
        "is_warm_up",
        "need",
        "ranges",
        "sent",
        "sent_ns",
    )  # fmt: skip

    def __init__(self, need: int, is_warm_up: bool = False, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.need = need
        self.ranges: list[range] = []
        self.sent = 0.0
        self.sent_ns = 0
        self.is_warm_up = is_warm_up
        self.is_sent = False
        self.is_done = False
        self.error: GetidError | None = None
        self._loop = loop
        self._signal = Signal() if loop is None else None
        self.future: Any = None if loop is None else loop.create_future()

    def wake(self) -> None:
        """Wakes the call. Runs without a lock."""
        if self._loop is None:
            self._signal.set()  # type: ignore[union-attr]
            return
        try:
            self._loop.call_soon_threadsafe(_resolve, self.future)
        except RuntimeError:
            pass  # The loop was closed meanwhile, and the call with it.

    def wait(self, timeout: float) -> bool:
        """Returns whether the call was woken within ``timeout`` seconds."""
        return self._signal.wait(timeout)  # type: ignore[union-attr]


def _resolve(future: Any) -> None:
    if not future.done():
        future.set_result(None)


class Source:
    """Base of :class:`Sequence` and :class:`Worker`. Its fields are guarded by the client's lock."""

    kind = "object"

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name
        self._failures = 0
        self._start_process()

    def _start_process(self) -> None:
        """Sets what does not outlive a fork. The caller is the only thread that uses the object."""
        self._lock = self._client._lock
        self._waiters: deque[Waiter] = deque()
        self._due: float | None = None
        self._entry = 0
        self._has_job = False
        self._retry_at = 0.0
        self._tried: dict[int, bool] = {}
        self._backoff = BACKOFF_FIRST_S
        self._last_failure = ""
        self._pid = self._client._pid

    # What subclasses have. All but the last run under the lock.

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
        """Drops the segments, or the lease."""
        raise NotImplementedError

    def _stop(self) -> list[tuple[bytes, ...]]:
        """Drops the segments or the lease for good. Returns the requests that release the lease."""
        raise NotImplementedError

    def _failure_event(self) -> str:
        return "fetch_failed"

    # Waiting.

    def _limit(self, timeout: float | None) -> float:
        if timeout is None:
            return self._client.timeout
        return check_number("timeout", timeout, 0, TIMEOUT_MAX_S)

    def _enqueue(self, waiter: Waiter) -> Waiter:
        if len(self._waiters) >= WAITERS_MAX:
            raise Unavailable(f"{WAITERS_MAX:,} calls wait for {self} already: wait for some of them to return")
        self._waiters.append(waiter)
        return waiter

    def _wait(self, waiter: Waiter, limit: float, deadline: float) -> None:
        """Waits in this thread. Does the job itself where the background thread does not take it up."""
        try:
            has_thread = self._client._kick()
            pause = HELP_AFTER_S if has_thread else 0.0
            while not waiter.wait(min(pause, deadline - time.monotonic())):
                if time.monotonic() >= deadline:
                    break
                self._client._help(self)
                pause = min(max(pause * 2, HELP_AFTER_S), 8 * HELP_AFTER_S) if has_thread else BACKOFF_FIRST_S
            if not has_thread:
                self._client._help(self)
        finally:
            self._leave(waiter)
        self._check_waiter(waiter, limit)

    async def _wait_async(self, waiter: Waiter, limit: float, deadline: float) -> None:
        """Waits for a future of the running loop. Input and output stay on the background thread."""
        left = max(0.0, deadline - time.monotonic())
        timer = asyncio.get_running_loop().call_later(left, _resolve, waiter.future)
        try:
            self._client._kick()
            await waiter.future
        finally:
            timer.cancel()
            self._leave(waiter)
        self._check_waiter(waiter, limit)

    def _leave(self, waiter: Waiter) -> None:
        with self._lock:
            if not waiter.is_done:
                try:
                    self._waiters.remove(waiter)
                except ValueError:
                    pass
                self._drop_ranges(waiter)

    def _drop_ranges(self, waiter: Waiter) -> None:
        """Counts the values of a call that ended without all of its values."""

    def _check_waiter(self, waiter: Waiter, limit: float) -> None:
        if waiter.error is not None:
            raise waiter.error
        if not waiter.is_done:
            failure = self._last_failure or f"{self._client._address} has not replied yet"
            raise Unavailable(f"no value of {self} within {limit:g} s: {failure}")

    def _finish_waiter(self, waiter: Waiter, error: GetidError | None = None) -> None:
        waiter.is_done = True
        waiter.error = error
        self._client._woken.append(waiter)

    def _finish_all(self, make_error: Any = None) -> None:
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            self._finish_waiter(waiter, make_error() if make_error else None)

    # Jobs.

    def _succeeded(self) -> None:
        self._tried.clear()
        self._backoff = BACKOFF_FIRST_S
        self._retry_at = 0.0
        self._last_failure = ""

    def _failed(self, remedy: str, reason: str, can_lose: bool, error: ServerError | None = None) -> None:
        """Notes a failed job, and schedules the next try if a call waits for it."""
        self._failures += 1
        self._last_failure = reason
        self._client._event(self._failure_event(), self.name, reason)
        if remedy == REFUSED:
            message, code = f"{self}: {reason}", error.code if error else ""
            self._finish_all(lambda: Refused(message, code))
            self._retry_at = self._client._monotonic() + self._retry_delay(0.0, False)
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
        client._use_address(untried[0] if untried else following[0])
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

    # Copies.

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"{type(self).__name__} cannot be serialised: make a client in each process")

    def __str__(self) -> str:
        return f"{self.kind} '{self.name}'"


def closed_error() -> Closed:
    """Returns the error of calls after ``close()``."""
    return Closed("the client is closed: make another one")


def unexpected(what: str, reply: Any) -> ConnectionLost:
    """Returns the failure for a reply of unexpected form, which closes the connection."""
    return ConnectionLost(f"unexpected reply to {what}: {str(reply)[:100]}")
