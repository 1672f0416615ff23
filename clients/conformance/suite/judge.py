"""The judge: what must hold for the values of all scenes.

Files of values have 8 bytes for each value, little-endian, in the order of the calls of one thread. All functions raise
``Violation``. Fifty million values take some seconds: each step is one call of the interpreter's own loops.
"""

from __future__ import annotations

import operator
import os
import sys
from array import array
from bisect import bisect_left
from itertools import islice
from typing import Dict, Iterable, List, NamedTuple, Sequence, Tuple

from .proxy import Exchange

STRIDE = 1 << 14
"""Distance of the samples by which the values are cut into parts."""

PART_VALUES = 1 << 20
"""About how many values are compared at once, which bounds the memory."""


class Violation(AssertionError):
    """A promise of the clients is broken."""


class Layout(NamedTuple):
    """Layout of a worker's IDs, as in the driver's command ``worker``."""

    time: int
    worker: int
    counter: int
    unit_ms: int = 1
    epoch_ms: int = 0
    counter_first: bool = False

    def unit_ms_of(self, id: int) -> Tuple[int, int]:
        """Returns the first and the last millisecond of the ID's unit."""
        first = self.epoch_ms + (id >> (self.worker + self.counter)) * self.unit_ms
        return first, first + self.unit_ms - 1

    def worker_of(self, id: int) -> int:
        """Returns the worker id in an ID."""
        return (id >> (0 if self.counter_first else self.counter)) & ((1 << self.worker) - 1)


def read_values(path: str) -> array:
    """Returns the values of a file. The file of a killed process may end within a value."""
    values = array("q")
    with open(path, "rb") as file:
        values.frombytes(file.read(os.path.getsize(path) // 8 * 8))
    if sys.byteorder == "big":
        values.byteswap()
    return values


def check_ascending(name: str, values: Sequence[int]) -> None:
    """Each value of one thread is above the one before."""
    if all(map(operator.lt, values, islice(values, 1, None))):
        return
    at = next(at for at in range(1, len(values)) if values[at] <= values[at - 1])
    raise Violation(f"{name}: value {at} is {values[at]}, after {values[at - 1]}: must ascend")


def check_unique(files: Dict[str, Sequence[int]]) -> int:
    """No value is twice in all files, each of which ascends. Returns how many values there are."""
    samples = sorted(value for values in files.values() for value in values[::STRIDE])
    cuts = samples[:: max(1, PART_VALUES // STRIDE)][1:]
    starts = {name: 0 for name in files}
    for cut in [*cuts, None]:
        part: set = set()
        count = 0
        for name, values in files.items():
            end = len(values) if cut is None else bisect_left(values, cut, starts[name])
            part.update(values[starts[name]:end])
            count += end - starts[name]
            if len(part) != count:
                _name_twice(files, starts, cut)
            starts[name] = end
    return sum(map(len, files.values()))


def _name_twice(files: Dict[str, Sequence[int]], starts: Dict[str, int], cut: object) -> None:
    seen: Dict[int, str] = {}
    for name, values in files.items():
        for value in values:
            if value in seen:
                raise Violation(f"value {value} is in {seen[value]} and in {name}: must be given once")
            seen[value] = name


def check_files(paths: Iterable[str]) -> int:
    """Each file ascends, and no value is twice in all of them. Returns how many values there are."""
    files = {path: read_values(path) for path in paths}
    for path, values in files.items():
        check_ascending(path, values)
    return check_unique(files)


def ranges_given(exchanges: Iterable[Exchange], name: str) -> List[Tuple[int, int, int]]:
    """Returns the ranges of a sequence that the client may have received: first, last, increment."""
    found = []
    for exchange in exchanges:
        words = exchange.words
        is_next = len(words) > 2 and words[0].upper() == b"SEQUENCE" and words[1].upper() == b"NEXT"
        if is_next and words[2] == name.encode() and exchange.is_delivered and isinstance(exchange.reply, list):
            first, last, step = exchange.reply
            found.append((first, last, step))
    return sorted(found)


def check_given(values: Iterable[int], ranges: List[Tuple[int, int, int]]) -> None:
    """Each value is in one of the ranges."""
    firsts = [first for first, _, _ in ranges]
    for value in values:
        at = bisect_left(firsts, value + 1) - 1
        first, last, step = ranges[at] if at >= 0 else (0, -1, 1)
        if not (first <= value <= last and (value - first) % step == 0):
            raise Violation(f"value {value} is in no range that the server gave; the nearest is {first} to {last}")


class Lease(NamedTuple):
    """What a server gave to the holder of a token: first millisecond, and the one behind the last."""

    id: int
    token: bytes
    not_before: int
    not_after: int


def leases_given(exchanges: Iterable[Exchange], pool: str) -> List[Lease]:
    """Returns the leases of a pool by the replies to LEASE and RENEW that were delivered."""
    leases: Dict[bytes, Lease] = {}
    for exchange in exchanges:
        words, reply = exchange.words, exchange.reply
        if len(words) < 3 or words[0].upper() != b"WORKERID" or words[2] != pool.encode():
            continue
        if not exchange.is_delivered or not isinstance(reply, list):
            continue
        if words[1].upper() == b"LEASE":
            leases[reply[1]] = Lease(reply[0], reply[1], reply[2], reply[3])
        elif words[1].upper() == b"RENEW" and words[4] in leases:
            old = leases[words[4]]
            leases[words[4]] = old._replace(not_after=max(old.not_after, reply[0]))
    return list(leases.values())


def check_leased(values: Iterable[int], layout: Layout, leases: List[Lease]) -> None:
    """Each millisecond of each ID's unit was leased, by one lease, to the worker id in it."""
    for value in values:
        first, last = layout.unit_ms_of(value)
        worker = layout.worker_of(value)
        if not any(one.id == worker and one.not_before <= first and last < one.not_after for one in leases):
            raise Violation(f"ID {value} of worker id {worker} has the unit {first} to {last}, leased are {leases}")


def check_releases(values: Iterable[int], layout: Layout, exchanges: List[Exchange], pool: str) -> int:
    """LAST of each RELEASE is not below the unit of each ID that its lease made. Returns the number of releases."""
    newest: Dict[int, int] = {}
    for value in values:
        worker = layout.worker_of(value)
        newest[worker] = max(newest.get(worker, 0), layout.unit_ms_of(value)[1])
    count = 0
    leases = {lease.token: lease for lease in leases_given(exchanges, pool)}
    for exchange in exchanges:
        if not exchange.text.startswith(f"WORKERID RELEASE {pool} "):
            continue
        count += 1
        lease, last = leases.get(exchange.words[4]), exchange.word_after(b"LAST")
        if lease is None or last is None:
            continue
        end = newest.get(lease.id, 0)
        if lease.not_before <= end < lease.not_after and int(last) < end:
            raise Violation(f"{exchange.text.split(' LAST')[0]} has LAST {int(last)}, its newest ID ends at {end}")
    return count


def check_above(exchanges: Iterable[Exchange], name: str) -> None:
    """After a change of the connection, the first request has ABOVE with the newest value that one client received.

    Only for a proxy that has one client.
    """
    newest, connection = None, None
    for exchange in exchanges:
        if not exchange.text.startswith(f"SEQUENCE NEXT {name}"):
            continue
        above = exchange.word_after(b"ABOVE")
        if newest is not None and exchange.connection != connection:
            if above is None or int(above) < newest:
                raise Violation(f"'{exchange.text}' on a new connection: must have ABOVE {newest}")
        is_received = exchange.is_delivered and exchange.action in ("", "delay")
        if isinstance(exchange.reply, list) and is_received:
            newest, connection = max(newest or 0, exchange.reply[1]), exchange.connection
