"""Sequence: a local supply of values of one sequence.

The supply is a queue of segments, ranges that a reply brought. Almost every call takes the next value of the first
segment in a few instructions under the lock; ``_settle`` and ``_arm`` move the fields of that fast path from and to the
segment. Values ascend, and no segment is used longer than ``hold``. ``_until`` alone arms the fast path: an exception
that a signal handler raises between two of the instructions leaves a gap and gives no value twice.
"""

from __future__ import annotations

from collections import deque
from os import getpid
from typing import TYPE_CHECKING, Any

from ._connection import Reply
from ._source import BACKOFF_FIRST_S, BACKOFF_LAST_S, Source, Waiter, unexpected

if TYPE_CHECKING:
    from ._client import Client

COUNT_MAX = 10_000_000
PREFETCH_FIRST = 16
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
        self._dropped = self._fetches = self._waits = 0
        self._clock = client._monotonic
        super().__init__(client, name)

    def _start_process(self) -> None:
        super()._start_process()
        self._segments: deque[Segment] = deque()
        self._armed: Segment | None = None
        self._value = self._until = 0
        self._step = 1
        self._check_at = 0.0
        self._wall_ns = 0
        self._prefetch = min(PREFETCH_FIRST, self._prefetch_max)
        self._last_sent: float | None = None
        self._is_sized = self._is_above_due = False
        self._durations: deque[float] = deque(maxlen=8)
        self._serial = self._job_serial = 0
        self._dropped_wait = BACKOFF_FIRST_S
        self._count = self._sent_ns = 0
        self._sent = 0.0

    def next(self, timeout: float | None = None) -> int:
        """Returns the next value, out of memory in nearly all calls.

        Waits for the server for at most ``timeout`` seconds, by default the client's. Raises ``Unavailable``,
        ``Refused`` or ``Closed``.
        """
        pid = getpid()
        if pid == self._pid:
            with self._lock:
                value = self._value
                if value < self._until and self._clock() < self._check_at:
                    self._value = value + self._step
                    if pid == self._pid:  # Else a signal handler forked the process, and the parent has the value.
                        return value
        return self._take(1, timeout)[0]

    __next__ = next

    def stats(self) -> dict[str, Any]:
        """Returns the counters of this object: ``values``, ``fetches``, ``failures``, ``dropped``, ``waits``,
        ``held``, ``prefetch`` and ``fetch_ms``."""
        self._client._enter()
        with self._lock:
            self._take_back()
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

    def _draw(self, n: int) -> range:
        if not self._segments:
            return range(0)
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

    def _fill(self, waiter: Waiter) -> None:
        if not waiter.ranges and self._segments:
            waiter.oldest = self._segments[0]
        super()._fill(waiter)

    def _enqueue(self, waiter: Waiter) -> None:
        super()._enqueue(waiter)
        self._waits += not waiter.is_warm_up

    def _is_warm(self, n: int) -> bool:
        return self._fresh or self._held() >= n

    def _is_low(self) -> bool:
        if not self._segments:
            return True
        return len(self._segments) == 1 and self._segments[0].left * 2 <= self._segments[0].size

    def _want(self) -> None:
        if self._due is None and not self._has_job and (self._waiters or not self._fresh):
            self._client._schedule(self, max(self._clock(), self._retry_at))

    def _held(self) -> int:
        return sum(segment.left for segment in self._segments)

    def _drop_ranges(self, waiter: Waiter) -> None:
        count = sum(len(values) for values in waiter.ranges)
        self._returned -= count
        self._dropped += count
        super()._drop_ranges(waiter)

    # Segments.

    def _settle(self) -> None:
        self._take_back()
        self._check_ages()

    def _take_back(self) -> None:
        """Moves the state of the fast path into its segment, and stops the fast path."""
        segment = self._armed
        if self._until and segment is not None:
            self._returned += (self._value - segment.next) // segment.step
            segment.next = self._value
        self._until = 0
        while self._segments and self._segments[0].next >= self._segments[0].end:
            self._segments.popleft()

    def _arm(self) -> None:
        """Prepares the fast path: the values up to which no call has anything else to do."""
        if not self._segments:
            return
        segment = self._armed = self._segments[0]
        is_asking = self._due is not None or self._has_job
        is_whole = is_asking or len(self._segments) > 1 or not self._prefetch_max
        self._value = segment.next
        self._step = segment.step
        self._check_at = min(self._clock() + CHECK_S, segment.sent + self._hold)
        self._until = segment.end if is_whole else max(segment.half, segment.next)

    def _check_ages(self) -> None:
        """Drops segments that are too old by either clock, and all of them if the wall clock went back."""
        now_ns = self._client._time_ns()
        went_back, self._wall_ns = now_ns < self._wall_ns, now_ns
        while self._segments and (went_back or self._is_old(self._segments[0])):
            self._dropped += self._segments.popleft().left

    def _is_old(self, segment: Segment) -> bool:
        age = max(self._clock() - segment.sent, (self._client._time_ns() - segment.sent_ns) / 1e9)
        return age >= self._hold

    def _forget(self) -> None:
        super()._forget()
        self._take_back()
        self._dropped += self._held()
        self._segments.clear()
        for waiter in self._waiters:
            waiter.is_sent = False
            self._drop_ranges(waiter)

    # Jobs.

    def _begin(self, serial: int) -> tuple[bytes, ...] | None:
        self._settle()
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
        now = self._clock()
        self._durations.append(max(0.0, now - self._sent))
        self._last_sent, self._is_sized, self._is_wanted = self._sent, False, False
        self._fetches += 1
        self._serial = self._job_serial
        received = len(values)
        if self._newest is not None and values[0] <= self._newest:
            values = values[(self._newest - values.start) // values.step + 1 :]
        self._is_above_due = not values
        if values:
            self._newest = values[-1]
        segment = Segment(values, self._sent, self._sent_ns)
        if self._is_old(segment) or self._client._time_ns() < self._sent_ns:
            segment.next = segment.end
            self._last_failure = (
                f"a fetch took {now - self._sent:.3g} s, and values are held for {self._hold:g} s: set a longer hold"
            )
        if segment.left:
            self._dropped_wait = BACKOFF_FIRST_S
        else:
            self._retry_at = now + self._dropped_wait
            self._dropped_wait = min(2 * self._dropped_wait, BACKOFF_LAST_S)
        self._dropped += received - segment.left
        self._serve(segment)
        if self._waiters:
            self._client._schedule(self, max(self._clock(), self._retry_at))

    def _serve(self, segment: Segment) -> None:
        """Gives values to the calls that wait, in their order, and keeps the others."""
        if segment.left:
            self._segments.append(segment)
        waiting: deque[Waiter] = deque()
        for waiter in self._waiters:
            if waiter.oldest is not None and self._is_old(waiter.oldest):
                self._drop_ranges(waiter)
            if waiter.is_sent or not self._fresh:
                self._fill(waiter)
            if waiter.need:
                waiting.append(waiter)
            else:
                self._finish_waiter(waiter)
        self._waiters = waiting
        if self._fresh:
            self._dropped += self._held()
            self._segments.clear()

    def _parse(self, reply: Reply) -> range:
        is_range = isinstance(reply, list) and len(reply) == 3 and all(type(part) is int for part in reply)
        if is_range:
            first, last, step = reply
            if 0 <= first <= last <= VALUE_MAX and step >= 1 and (last - first) % step == 0:
                values = range(first, last + 1, step)
                if len(values) <= self._count:
                    return values
        raise unexpected(f"SEQUENCE NEXT {self.name} COUNT {self._count}", reply)
