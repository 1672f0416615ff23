"""Fake client for unit tests of programs: the same methods as :class:`getid.Client`, without a server.

    from getid.testing import FakeClient

    orders = FakeClient(start=1).sequence("orders")
    assert [orders.next(), orders.next()] == [1, 2]

A sequence counts up from ``start``. A worker makes IDs with worker id 0, from a time that starts one second after the
layout's epoch. ``fail(error)`` makes the next call raise an error.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from ._errors import TIMEOUT_MAX_S, check_int, check_number
from ._layout import Layout
from ._objects import TAKE_MAX, Objects, Unique, closed_error

__all__ = ["FakeClient", "FakeSequence", "FakeWorker"]

START_MS = 1000
"""Time of a fake worker's first ID, in milliseconds after the layout's epoch."""


class FakeSource(Unique):
    """Base of :class:`FakeSequence` and :class:`FakeWorker`."""

    def __init__(self, client: FakeClient, name: str) -> None:
        self.name = name
        self._client = client
        self._values = 0

    def _draw(self) -> int:
        raise NotImplementedError

    def next(self, timeout: float | None = None) -> int:
        """Returns the next value."""
        return self._take(1, timeout)[0]

    __next__ = next

    def __iter__(self) -> Iterator[int]:
        return self

    def take(self, n: int, timeout: float | None = None) -> list[int]:
        """Returns ``n`` values, ascending."""
        return self._take(check_int("n", n, 1, TAKE_MAX), timeout)

    async def anext(self, timeout: float | None = None) -> int:
        """Returns the next value."""
        return self._take(1, timeout)[0]

    def try_next(self) -> int | None:
        """Returns the next value."""
        return self._take(1, None)[0]

    def warm_up(self, n: int = 1, timeout: float | None = None) -> None:
        """Does nothing, but raises what :meth:`FakeClient.fail` set."""
        check_int("n", n, 1, TAKE_MAX)
        self._client._check(timeout)

    def _take(self, n: int, timeout: float | None) -> list[int]:
        self._client._check(timeout)
        with self._client._lock:
            self._values += n
            return [self._draw() for _ in range(n)]


class FakeSequence(FakeSource):
    """Counts up from the client's ``start``."""

    def __init__(self, client: FakeClient, name: str, start: int) -> None:
        super().__init__(client, name)
        self._next = start

    def _draw(self) -> int:
        self._next += 1
        return self._next - 1

    def stats(self) -> dict[str, Any]:
        """Returns the counters of :meth:`Sequence.stats`."""
        zeros = {"fetches": 0, "failures": 0, "dropped": 0, "waits": 0, "held": 0, "prefetch": 0, "fetch_ms": None}
        return {"values": self._values, **zeros}


class FakeWorker(FakeSource):
    """Makes IDs with worker id 0."""

    def __init__(self, client: FakeClient, pool: str, layout: Layout) -> None:
        super().__init__(client, pool)
        self.layout = layout
        self._unit = -(-START_MS // layout.unit_ms)
        self._counter = -1

    def _draw(self) -> int:
        self._counter += 1
        if self._counter >> self.layout.counter:
            self._unit, self._counter = self._unit + 1, 0
        return self.layout.compose(self._unit, 0, self._counter)

    def stats(self) -> dict[str, Any]:
        """Returns the counters of :meth:`Worker.stats`."""
        return {
            "values": self._values,
            "worker_id": 0,
            "not_before_ms": self.layout.epoch_ms + START_MS,
            "not_after_ms": self.layout.unit_end_ms((1 << self.layout.time) - 1) + 1,
            "leases": 1,
            "renewals": 0,
            "failures": 0,
            "clock_ahead_ms": 0,
        }


class FakeClient(Objects[FakeSequence, FakeWorker]):
    """Fake of :class:`getid.Client`. Its sequences count up from ``start``."""

    def __init__(self, start: int = 1) -> None:
        super().__init__()
        self._start = check_int("start", start, 0, 1 << 62)
        self.timeout = 5.0
        self._lock = threading.Lock()
        self._error: BaseException | None = None

    def _make_sequence(self, name: str, *_: Any) -> FakeSequence:
        return FakeSequence(self, name, self._start)

    def _make_worker(self, pool: str, layout: Layout, *_: Any) -> FakeWorker:
        return FakeWorker(self, pool, layout)

    def fail(self, error: BaseException) -> None:
        """Makes the next call of an object raise ``error``, such as ``Unavailable("down")``."""
        with self._lock:
            self._error = error

    def discard(self) -> None:
        """Does nothing."""
        self._check(None)

    def close(self, timeout: float = 2.0) -> bool:
        """Makes all later calls raise ``Closed``. Returns true."""
        check_number("timeout", timeout, 0, TIMEOUT_MAX_S)
        self._is_closed = True
        return True

    def _check(self, timeout: float | None) -> None:
        if timeout is not None:
            check_number("timeout", timeout, 0, TIMEOUT_MAX_S)
        with self._lock:
            if self._is_closed:
                raise closed_error()
            error, self._error = self._error, None
        if error is not None:
            raise error
