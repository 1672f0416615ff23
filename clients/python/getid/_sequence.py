"""Sequence: a local supply of values of one sequence.

The supply is a queue of segments, ranges that a reply brought. Almost every call takes the next value of the first
segment in a few instructions under the lock; the fields of that fast path are moved from and to the segment by
``_settle`` and ``_arm``. Values ascend, and no segment is used longer than ``hold``.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from os import getpid
from typing import TYPE_CHECKING, Any

from ._connection import Reply
from ._errors import check_int
from ._source import BACKOFF_FIRST_S, BACKOFF_LAST_S, HELP_AFTER_S, Source, Waiter, unexpected

if TYPE_CHECKING:
    from ._client import Client

TAKE_MAX = 1_000_000
COUNT_MAX = 10_000_000
PREFETCH_FIRST = 16
PREFETCH_MAX = 10_000_000
HOLD_MIN_S = 0.01
HOLD_MAX_S = 60.0
VALUE_MAX = (1 << 63) - 1
HORIZON_S = 0.1
CHECK_S = 0.001
"""Longest time for which a call compares one clock only, in seconds."""


class Segment:
    """A range of values, and when its request was sent by both clocks."""

    __slots__ = ("end", "next", "sent", "sent_ns", "size", "step")

    def __init__(self, values: range, sent: float, sent_ns: int) -> None:
        self.next = values.start
        self.end = values.start + len(values) * values.step
        self.step = values.step
        self.size = len(values)
        self.sent = sent
        self.sent_ns = sent_ns

    @property
    def left(self) -> int:
        """Number of values that are left."""
        return (self.end - self.next) // self.step

    @property
    def half(self) -> int:
        """First value behind which at most half of the segment is left."""
        return self.end - (self.size // 2 + 1) * self.step


class Sequence(Source):
    """Values of one sequence, each given once, ascending in this object. Made by :meth:`Client.sequence`.

    All methods may be called from several threads. A value that a program takes and does not use leaves a gap.
    """

    kind = "sequence"

    def __init__(self, client: Client, name: str, prefetch_max: int, hold: float, fresh: bool) -> None:
        self._prefetch_max = 0 if fresh else prefetch_max
        self._hold = hold
        self._fresh = fresh
        self._newest: int | None = None
        self._returned = 0
        self._dropped = 0
        self._fetches = 0
        self._waits = 0
        self._clock = client._monotonic
        super().__init__(client, name)

    def _start_process(self) -> None:
        super()._start_process()
        self._segments: deque[Segment] = deque()
        self._value = self._armed = self._until = 0
        self._check_at = 0.0
        self._wall_ns = 0
        self._prefetch = min(PREFETCH_FIRST, self._prefetch_max)
        self._last_sent: float | None = None
        self._is_sized = self._is_wanted = False
        self._durations: deque[float] = deque(maxlen=8)
        self._step = 1
        self._serial = self._job_serial = 0
        self._is_above_due = False
        self._dropped_wait = BACKOFF_FIRST_S
        self._count = 0
        self._sent = 0.0
        self._sent_ns = 0

    def next(self, timeout: float | None = None) -> int:
        """Returns the next value, out of memory in nearly all calls.

        Waits for the server for at most ``timeout`` seconds, by default the client's. Raises ``Unavailable``,
        ``Refused`` or ``Closed``.
        """
        if getpid() == self._pid:
            with self._lock:
                value = self._value
                if value < self._until and self._clock() < self._check_at:
                    self._value = value + self._step
                    return value
        return self._take(1, timeout)[0]

    __next__ = next

    def __iter__(self) -> Iterator[int]:
        return self

    def take(self, n: int, timeout: float | None = None) -> list[int]:
        """Returns ``n`` values, 1 to 1,000,000, ascending. Raises as :meth:`next` does."""
        return self._take(check_int("n", n, 1, TAKE_MAX), timeout)

    async def anext(self, timeout: float | None = None) -> int:
        """Returns the next value as :meth:`next` does, for asyncio: waits for a future of the running loop."""
        limit = self._limit(timeout)
        waiter, is_done = self._start(1, asyncio.get_running_loop())
        if not is_done:
            await self._wait_async(waiter, limit, time.monotonic() + limit)
        return waiter.ranges[0].start

    def try_next(self) -> int | None:
        """Returns the next value if one is in memory, else None. Never waits, and starts the fetch.

        With ``fresh`` it always returns None, because a value serves only calls that wait for it.
        """
        self._client._enter()
        with self._lock:
            self._check_open()
            self._settle()
            self._check_ages()
            value = self._pop(1).start if self._segments else None
            if value is None and not self._fresh:
                self._is_wanted = True
                self._want()
            self._arm()
            is_asking = self._due is not None
        if is_asking:
            self._client._kick()
        return value

    def warm_up(self, n: int = 1, timeout: float | None = None) -> None:
        """Waits until ``n`` values, 1 to 1,000,000, are in memory. With ``fresh`` it does nothing."""
        check_int("n", n, 1, TAKE_MAX)
        limit = self._limit(timeout)
        self._client._enter()
        with self._lock:
            self._check_open()
            self._settle()
            self._check_ages()
            if self._fresh or self._held() >= n:
                self._arm()
                return
            waiter = self._enqueue(Waiter(n, is_warm_up=True))
            self._want()
            self._arm()
        self._wait(waiter, limit, time.monotonic() + limit)

    def stats(self) -> dict[str, Any]:
        """Returns the counters of this object: ``values``, ``fetches``, ``failures``, ``dropped``, ``waits``,
        ``held``, ``prefetch`` and ``fetch_ms``."""
        self._client._enter()
        with self._lock:
            self._settle()
            return {
                "values": self._returned,
                "fetches": self._fetches,
                "failures": self._failures,
                "dropped": self._dropped,
                "waits": self._waits,
                "held": self._held(),
                "prefetch": self._prefetch,
                "fetch_ms": round(min(self._durations) * 1000, 3) if self._durations else None,
            }

    # Calls.

    def _take(self, n: int, timeout: float | None) -> list[int]:
        limit = self._limit(timeout)
        waiter, is_done = self._start(n, None)
        if not is_done:
            self._wait(waiter, limit, time.monotonic() + limit)
        return [value for values in waiter.ranges for value in values]

    def _start(self, n: int, loop: asyncio.AbstractEventLoop | None) -> tuple[Waiter, bool]:
        """Takes values out of memory, and queues the call if there are too few."""
        waiter = Waiter(n, loop=loop)
        client = self._client
        client._enter()
        is_late = False
        with self._lock:
            self._check_open()
            self._settle()
            self._check_ages()
            self._fill(waiter)  # Where a call waits already, no segment has a value.
            if waiter.need:
                try:
                    self._enqueue(waiter)
                finally:
                    self._arm()
                self._waits += 1
                self._want()
            else:
                waiter.is_done = True
            self._arm()
            is_late = self._due is not None and self._clock() - self._due > HELP_AFTER_S
        if waiter.is_done and self._due is not None:
            client._kick()
            if is_late and loop is None:
                client._help(self)
        return waiter, waiter.is_done

    def _fill(self, waiter: Waiter) -> None:
        """Moves values from the segments to a call."""
        while waiter.need and self._segments:
            segment = self._segments[0]
            if not waiter.ranges:
                waiter.sent, waiter.sent_ns = segment.sent, segment.sent_ns
            waiter.ranges.append(self._pop(waiter.need))
            waiter.need -= len(waiter.ranges[-1])

    def _pop(self, n: int) -> range:
        """Takes up to ``n`` values of the first segment. Starts a fetch where few are left."""
        segment = self._segments[0]
        first = segment.next
        segment.next = min(segment.end, first + n * segment.step)
        taken = range(first, segment.next, segment.step)
        self._returned += len(taken)
        if segment.next >= segment.end:
            self._segments.popleft()
        if self._prefetch_max and self._is_low():
            self._want()
        return taken

    def _is_low(self) -> bool:
        if not self._segments:
            return True
        return len(self._segments) == 1 and self._segments[0].left * 2 <= self._segments[0].size

    def _want(self) -> None:
        if self._due is None and not self._has_job:
            self._client._schedule(self, max(self._clock(), self._retry_at))

    def _held(self) -> int:
        return sum(segment.left for segment in self._segments)

    def _drop_ranges(self, waiter: Waiter) -> None:
        self._lose_ranges(waiter)

    def _lose_ranges(self, waiter: Waiter) -> None:
        count = sum(len(values) for values in waiter.ranges)
        self._returned -= count
        self._dropped += count
        waiter.need += count
        waiter.ranges.clear()

    # Segments.

    def _settle(self) -> None:
        """Moves the state of the fast path into the first segment, and stops the fast path."""
        if self._segments and self._until:
            segment = self._segments[0]
            self._returned += (self._value - self._armed) // segment.step
            segment.next = self._value
            if segment.next >= segment.end:
                self._segments.popleft()
        self._value = self._armed = self._until = 0

    def _arm(self) -> None:
        """Prepares the fast path: the values up to which no call has anything else to do."""
        self._value = self._armed = self._until = 0
        if not self._segments or self._client._is_closed:
            return
        segment = self._segments[0]
        is_asking = self._due is not None or self._has_job
        is_whole = is_asking or len(self._segments) > 1 or not self._prefetch_max
        self._until = segment.end if is_whole else min(segment.end, max(segment.half, segment.next))
        self._value = self._armed = segment.next
        self._step = segment.step
        self._check_at = min(self._clock() + CHECK_S, segment.sent + self._hold)

    def _check_ages(self) -> None:
        """Drops segments that are too old by either clock, and all of them if the wall clock went back."""
        _now, now_ns = self._clock(), self._client._time_ns()
        went_back = now_ns < self._wall_ns
        self._wall_ns = now_ns
        while self._segments and (went_back or self._is_old(self._segments[0].sent, self._segments[0].sent_ns)):
            self._dropped += self._segments.popleft().left

    def _is_old(self, sent: float, sent_ns: int) -> bool:
        age = max(self._clock() - sent, (self._client._time_ns() - sent_ns) / 1e9)
        return age >= self._hold

    def _forget(self) -> None:
        self._settle()
        self._dropped += self._held()
        self._segments.clear()
        for waiter in self._waiters:
            waiter.is_sent = False
            self._lose_ranges(waiter)

    def _stop(self) -> list[tuple[bytes, ...]]:
        self._forget()
        return []

    # Jobs.

    def _begin(self, serial: int) -> tuple[bytes, ...] | None:
        self._settle()
        self._check_ages()
        self._count = self._wanted_count()
        if self._count:
            self._sent, self._sent_ns = self._clock(), self._client._time_ns()
            self._job_serial = serial
            for waiter in self._waiters:
                waiter.is_sent = True
        self._arm()
        if not self._count:
            return None
        request: tuple[bytes, ...] = (b"SEQUENCE", b"NEXT", self.name.encode(), b"COUNT", b"%d" % self._count)
        if self._newest is not None and (serial != self._serial or self._is_above_due):
            request += (b"ABOVE", b"%d" % self._newest)
        return request

    def _wanted_count(self) -> int:
        need = sum(waiter.need for waiter in self._waiters if not waiter.is_warm_up)
        count = need
        if self._prefetch_max and (need or self._is_low()):
            self._size_prefetch()
            count += self._prefetch
        if self._is_wanted and not self._segments:
            count = max(count, 1)
        warm_up = max((waiter.need for waiter in self._waiters if waiter.is_warm_up), default=0)
        return min(max(count, need + warm_up - self._held()), COUNT_MAX)

    def _size_prefetch(self) -> None:
        """Doubles the prefetch if fetches follow each other soon, and halves it if they do not."""
        if self._last_sent is None or self._is_sized:
            return
        self._is_sized = True
        horizon = max(HORIZON_S, 8 * min(self._durations, default=0.0))
        since = self._clock() - self._last_sent
        if since < horizon:
            self._prefetch = min(2 * self._prefetch, self._prefetch_max)
        elif since > 4 * horizon:
            self._prefetch = max(self._prefetch // 2, 1)

    def _apply(self, reply: Reply) -> None:
        values = self._parse(reply)
        self._succeeded()
        self._settle()
        self._check_ages()
        now = self._clock()
        self._durations.append(max(0.0, now - self._sent))
        self._last_sent, self._is_sized, self._is_wanted = self._sent, False, False
        self._fetches += 1
        self._serial, self._is_above_due = self._job_serial, False
        received = len(values)
        if self._newest is not None and values[0] <= self._newest:
            skipped = min(received, (self._newest - values.start) // values.step + 1)
            values = values[skipped:]
        is_whole_dropped = not values
        if values:
            self._newest = max(self._newest or 0, values[-1])
            self._dropped_wait = BACKOFF_FIRST_S
        if self._is_old(self._sent, self._sent_ns) or self._client._time_ns() < self._sent_ns:
            values = values[:0]
        kept = len(values)
        self._dropped += received - kept
        self._serve(values)
        if is_whole_dropped:
            self._is_above_due = True
            self._retry_at = now + self._dropped_wait
            self._dropped_wait = min(2 * self._dropped_wait, BACKOFF_LAST_S)
        if self._waiters:
            self._want_again()
        self._arm()

    def _want_again(self) -> None:
        self._client._schedule(self, max(self._clock(), self._retry_at))

    def _serve(self, values: range) -> None:
        """Gives values to the calls that wait, in their order, and keeps the others."""
        if values:
            self._segments.append(Segment(values, self._sent, self._sent_ns))
        waiting: deque[Waiter] = deque()
        for waiter in self._waiters:
            if self._is_served(waiter):
                self._finish_waiter(waiter)
            else:
                waiting.append(waiter)
        self._waiters = waiting
        if self._fresh:
            self._dropped += self._held()
            self._segments.clear()

    def _is_served(self, waiter: Waiter) -> bool:
        if waiter.is_warm_up:
            return self._held() >= waiter.need
        if self._fresh and not waiter.is_sent:
            return False
        if waiter.ranges and self._is_old(waiter.sent, waiter.sent_ns):
            self._lose_ranges(waiter)
        self._fill(waiter)
        return not waiter.need

    def _parse(self, reply: Reply) -> range:
        is_range = isinstance(reply, list) and len(reply) == 3 and all(type(part) is int for part in reply)
        if is_range:
            first, last, step = reply
            if 0 <= first <= last <= VALUE_MAX and step >= 1 and (last - first) % step == 0:
                values = range(first, last + 1, step)
                if len(values) <= self._count:
                    return values
        raise unexpected(f"SEQUENCE NEXT {self.name} COUNT {self._count}", reply)
