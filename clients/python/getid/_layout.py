"""Layouts: which bits of an ID are the time, the worker id and the counter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import ClassVar, NamedTuple

from ._errors import check_int


class Parts(NamedTuple):
    """Fields of an ID."""

    unix_ms: int
    """Begin of the ID's unit of time, Unix milliseconds."""

    worker: int
    """Worker id."""

    counter: int
    """Position inside the unit of time."""

    @property
    def time(self) -> datetime:
        """Begin of the ID's unit of time, in UTC."""
        return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=self.unix_ms)


@dataclass(frozen=True)
class Layout:
    """Layout of IDs: widths of the fields in bits, the unit of time and the epoch.

    The time is the highest field. The worker id lies above the counter; with ``counter_first`` the counter lies above
    the worker id, as in Sonyflake. All fields have at most 63 bits together, so an ID fits a ``BIGINT``.

    >>> Layout.TWITTER.parts(1541815603606036480)
    Parts(unix_ms=1656432460105, worker=378, counter=0)
    """

    time: int
    worker: int
    counter: int
    unit_ms: int = 1
    epoch_ms: int = 0
    counter_first: bool = False

    TWITTER: ClassVar[Layout]
    """time 41, worker 10, counter 12; since 2010-11-04. Until 2080."""

    SNOWFLAKE: ClassVar[Layout]
    """Another name of TWITTER."""

    DISCORD: ClassVar[Layout]
    """time 41, worker 10, counter 12; since 2015-01-01 UTC. Until 2084."""

    KEETS: ClassVar[Layout]
    """time 41, worker 10, counter 12; since 2015-01-01 +08:00. Until 2084."""

    ICICLE: ClassVar[Layout]
    """time 41, worker 10, counter 12; since 2016-02-18. Until 2085."""

    SONYFLAKE: ClassVar[Layout]
    """time 39 in units of 10 ms, counter 8, worker 16; since 2014-09-01 UTC. Until 2188."""

    SONYFLAKE2: ClassVar[Layout]
    """SONYFLAKE since 2025-01-01 UTC. Until 2199."""

    def __post_init__(self) -> None:
        check_int("time", self.time, 1, 62)
        check_int("worker", self.worker, 0, 16)
        check_int("counter", self.counter, 0, 32)
        check_int("unit_ms", self.unit_ms, 1, 60_000)
        check_int("epoch_ms", self.epoch_ms, 0, 1 << 46)
        bits = self.time + self.worker + self.counter
        if bits > 63:
            raise ValueError(f"time, worker and counter have {bits} bits together, must have at most 63")

    def compose(self, unit: int, worker: int, counter: int) -> int:
        """Returns the ID of a unit of time since the epoch, a worker id and a counter."""
        if self.counter_first:
            return (unit << (self.worker + self.counter)) | (counter << self.worker) | worker
        return (unit << (self.worker + self.counter)) | (worker << self.counter) | counter

    def parts(self, id: int) -> Parts:
        """Returns the fields of an ID. Fails if ``id`` is negative or wider than the layout."""
        check_int("id", id, 0, (1 << (self.time + self.worker + self.counter)) - 1)
        low, high = (self.worker, self.counter) if self.counter_first else (self.counter, self.worker)
        first, second = (id >> low) & ((1 << high) - 1), id & ((1 << low) - 1)
        worker, counter = (second, first) if self.counter_first else (first, second)
        return Parts(self.epoch_ms + (id >> (low + high)) * self.unit_ms, worker, counter)

    def unit_end_ms(self, unit: int) -> int:
        """Returns the last millisecond of a unit of time, Unix milliseconds."""
        return self.epoch_ms + (unit + 1) * self.unit_ms - 1


Layout.TWITTER = Layout(time=41, worker=10, counter=12, epoch_ms=1_288_834_974_657)
Layout.SNOWFLAKE = Layout.TWITTER
Layout.DISCORD = Layout(time=41, worker=10, counter=12, epoch_ms=1_420_070_400_000)
Layout.KEETS = Layout(time=41, worker=10, counter=12, epoch_ms=1_420_041_600_000)
Layout.ICICLE = Layout(time=41, worker=10, counter=12, epoch_ms=1_455_788_600_316)
Layout.SONYFLAKE = Layout(time=39, worker=16, counter=8, unit_ms=10, epoch_ms=1_409_529_600_000, counter_first=True)
Layout.SONYFLAKE2 = Layout(time=39, worker=16, counter=8, unit_ms=10, epoch_ms=1_735_689_600_000, counter_first=True)
