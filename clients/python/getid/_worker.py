"""Worker: a leased worker id, and IDs made with it in process.

An ID is made only in a unit of time of which the lease covers each millisecond. So two holders of one worker id never
make the same ID, whatever their clocks show. Almost every call counts up inside the millisecond that was last checked.
"""

from __future__ import annotations

import hashlib
import socket
from os import getpid
from typing import TYPE_CHECKING, Any

from ._connection import Reply, ServerError
from ._errors import ClockError, Refused
from ._layout import Layout
from ._source import Source, unexpected

if TYPE_CHECKING:
    from ._client import Client

HOLDER_BYTES_MAX = 64
RETRY_FIRST_S = 1.0
RETRY_LAST_S = 30.0
RENEW_PAUSE_S = 1.0
"""Shortest time between two renewals, in seconds."""

JUMP_S = 1.0
"""Distance by which the two clocks move apart before a renewal is due at once, in seconds."""

TIME_MAX_MS = 1 << 50
"""Latest time of a lease, in Unix milliseconds."""

LOST_CODES = ("EXPIRED", "REVOKED", "WRONGTOKEN")


class Lease:
    """A leased worker id and its interval of Unix milliseconds."""

    def __init__(self, id: int, token: bytes, not_before: int, not_after: int, length_ms: int) -> None:
        self.id = id
        self.token = token
        self.not_before = not_before
        self.not_after = not_after
        self.given_end = not_after
        """End that a reply gave for what the server's clock shows, not for a LAST by this machine's clock."""

        self.length_ms = length_ms
        self.is_used = False
        self.is_lost = False


def holder_name(name: str | None = None) -> bytes:
    """Returns the name of a holder as the server takes it: at most 64 bytes of printable ASCII, or none."""
    whole = (socket.gethostname() if name is None else name).encode("utf-8", "surrogateescape")
    cleaned = bytes(byte if 33 <= byte <= 126 else 95 for byte in whole)
    if len(cleaned) <= HOLDER_BYTES_MAX:
        return cleaned
    return cleaned[:55] + b"-" + hashlib.sha256(whole).hexdigest()[:8].encode()


class Worker(Source):
    """IDs of a leased worker id, unique over all programs, ascending in this object. Made by :meth:`Client.worker`.

    All methods may be called from several threads.
    """

    kind = "worker pool"

    def __init__(self, client: Client, pool: str, layout: Layout, name: str | None, ttl: int | None) -> None:
        self.layout = layout
        self._holder = holder_name(name)
        self._ttl = ttl
        self._newest = -1
        self._leases = self._renewals = 0
        self._time_ns = client._time_ns
        self._counter_max = (1 << layout.counter) - 1
        self._counter_step = 1 << layout.worker if layout.counter_first else 1
        super().__init__(client, pool)

    def _start_process(self) -> None:
        super()._start_process()
        self._lease: Lease | None = None
        self._unfit: Lease | None = None
        self._checked_ms = -1
        self._unit = -1
        self._counter = 0
        self._base = 0
        self._end_unit = 0
        self._job = ""
        self._is_last_real = self._is_ahead = False
        self._sent = self._tried_at = float("-inf")
        self._lease_delay = RETRY_FIRST_S
        self._drift: float | None = None
        self._clock_ahead_ms = 0

    def next(self, timeout: float | None = None) -> int:
        """Returns the next ID, made in process in nearly all calls.

        Waits for the server for at most ``timeout`` seconds, by default the client's. Raises ``Unavailable``,
        ``Refused``, ``ClockError`` or ``Closed``.
        """
        pid = getpid()
        if pid == self._pid:
            with self._lock:
                if self._time_ns() // 1_000_000 == self._checked_ms and self._counter < self._counter_max:
                    self._counter += 1
                    self._returned += 1
                    if pid == self._pid:  # Else a signal handler forked the process, and the parent has the ID.
                        return self._base + self._counter * self._counter_step
        return self._take(1, timeout)[0]

    __next__ = next

    def stats(self) -> dict[str, Any]:
        """Returns the counters of this object: ``values``, ``worker_id``, ``not_before_ms``, ``not_after_ms``,
        ``leases``, ``renewals``, ``failures`` and ``clock_ahead_ms``."""
        self._client._enter()
        with self._lock:
            lease = self._lease
            return {
                "values": self._returned,
                "worker_id": lease.id if lease else None,
                "not_before_ms": lease.not_before if lease else None,
                "not_after_ms": lease.not_after if lease else None,
                "leases": self._leases,
                "renewals": self._renewals,
                "failures": self._failures,
                "clock_ahead_ms": self._clock_ahead_ms,
            }

    # Calls.

    def _draw(self, n: int) -> range:
        """Returns up to ``n`` IDs of one unit, or none if the lease covers no further unit."""
        lease, layout = self._lease, self.layout
        if lease is None:
            return range(0)
        now_ms = self._time_ns() // 1_000_000
        if now_ms != self._checked_ms:
            self._check_clocks(now_ms)
        # What the fast path uses changes only while it is stopped, and after what LAST is made of.
        self._checked_ms = -1
        unit = max((now_ms - layout.epoch_ms) // layout.unit_ms, self._unit)
        counter = self._counter + 1 if unit == self._unit else 0
        if counter > self._counter_max:
            unit, counter = unit + 1, 0
        if unit >= self._end_unit:
            if unit >= 1 << layout.time:
                raise Refused(f"{self}: the time of the layout ended: take one with a later epoch or more bits of time")
            return range(0)
        lease.is_used = True
        self._newest = unit
        count = min(n, self._counter_max - counter + 1)
        if unit != self._unit:
            self._base = layout.compose(unit, lease.id, 0)
        self._unit, self._counter = unit, counter + count - 1
        self._clock_ahead_ms = 0
        self._returned += count
        self._checked_ms = now_ms
        first, step = self._base + counter * self._counter_step, self._counter_step
        return range(first, first + count * step, step)

    def _is_warm(self, n: int) -> bool:
        return self._lease is not None

    def _check_clocks(self, now_ms: int) -> None:
        """Makes a renewal due at once if the wall clock was set. Compares both clocks."""
        now = self._client._monotonic()
        drift = now_ms / 1000 - now
        is_jump = self._drift is not None and abs(drift - self._drift) > JUMP_S
        if is_jump and self._can_renew():
            self._client._schedule(self, max(now, self._tried_at + RENEW_PAUSE_S))
        if is_jump or self._drift is None:
            self._drift = drift

    def _want(self) -> None:
        if self._has_job:
            return
        due = max(self._client._monotonic(), self._retry_at)
        if self._can_renew():
            due = max(due, self._tried_at + RENEW_PAUSE_S)
        if self._due is None or self._due > due:
            self._client._schedule(self, due)

    def _can_renew(self) -> bool:
        return self._lease is not None and not self._lease.is_lost

    def _last(self) -> int:
        """Returns LAST: the last millisecond of the newest ID's unit."""
        lease = self._lease
        assert lease is not None
        return self.layout.unit_end_ms(self._newest) if lease.is_used else lease.not_before - 1

    def _forget(self) -> None:
        super()._forget()
        self._checked_ms = -1
        self._lease = self._unfit = None
        self._is_last_real = False
        self._tried_at = float("-inf")
        self._drift = None

    def _release_requests(self) -> list[tuple[bytes, ...]]:
        requests = []
        self._checked_ms = -1
        if self._lease is not None and not self._lease.is_lost:
            requests.append(self._request("RELEASE", self._lease, self._last()))
        if self._unfit is not None:
            requests.append(self._request("RELEASE", self._unfit, self._unfit.not_before - 1))
        return requests

    def _request(self, job: str, lease: Lease, last: int) -> tuple[bytes, ...]:
        pool, id = self.name.encode(), b"%d" % lease.id
        return (b"WORKERID", job.encode(), pool, id, lease.token, b"LAST", b"%d" % max(last, 0))

    # Jobs.

    def _next_job(self) -> str:
        return "RELEASE" if self._unfit is not None else "RENEW" if self._can_renew() else "LEASE"

    def _begin(self, serial: int) -> tuple[bytes, ...] | None:
        self._sent = self._client._monotonic()
        self._job = self._next_job()
        if self._unfit is not None:
            return self._request("RELEASE", self._unfit, self._unfit.not_before - 1)
        if self._lease is not None and self._job == "RENEW":
            return self._begin_renewal(self._lease)
        if not self._waiters and not self._is_wanted:
            return None
        request: tuple[bytes, ...] = (b"WORKERID", b"LEASE", self.name.encode())
        if self._holder:
            request += (b"NAME", self._holder)
        if self._ttl is not None:
            request += (b"TTL", b"%d" % self._ttl)
        return request

    def _begin_renewal(self, lease: Lease) -> tuple[bytes, ...]:
        self._tried_at = self._sent
        last, now_ms = self._last(), self._time_ns() // 1_000_000
        self._is_ahead = now_ms >= lease.not_after and now_ms - 1 > last and not self._is_last_real
        self._is_last_real = False
        return self._request("RENEW", lease, now_ms - 1 if self._is_ahead else last)

    def _apply(self, reply: Reply) -> None:
        if self._job == "RELEASE":
            self._apply_release(reply)
        elif self._job == "LEASE":
            self._apply_lease(reply)
        else:
            self._apply_renewal(reply)

    def _apply_release(self, reply: Reply) -> None:
        if reply != "OK":
            raise unexpected("WORKERID RELEASE", reply)
        self._unfit = None
        self._succeeded()
        self._client._event("released", self.name)
        if self._waiters:
            self._want_now()

    def _apply_lease(self, reply: Reply) -> None:
        lease = self._parse_lease(reply)
        self._succeeded()
        self._lease_delay = RETRY_FIRST_S
        self._is_wanted = False
        if lease.id >= 1 << self.layout.worker:
            self._refuse_unfit(lease)
            return
        self._checked_ms = -1
        self._lease = lease
        self._leases += 1
        layout = self.layout
        first_unit = max(0, -((layout.epoch_ms - lease.not_before) // layout.unit_ms))
        self._unit = max(self._newest, first_unit - 1)
        self._counter = self._counter_max
        self._set_end()
        self._tried_at = float("-inf")
        self._drift = None
        self._check_clocks(self._time_ns() // 1_000_000)
        self._client._event("leased", self.name)
        self._schedule_renewal()
        if self._time_ns() // 1_000_000 >= lease.not_after:
            self._want_now()
        else:
            self._finish_all()

    def _refuse_unfit(self, lease: Lease) -> None:
        self._unfit, self._lease = lease, None
        self._checked_ms = -1
        bits = self.layout.worker
        message = (
            f"{self}: worker id {lease.id} does not fit the {bits} bits of the layout: "
            f"set 'worker-pool {self.name} size {1 << bits}' on the server, or take a layout with more bits"
        )
        self._finish_all(lambda: Refused(message))
        self._want_now()

    def _want_now(self) -> None:
        self._client._schedule(self, self._client._monotonic())

    def _schedule_renewal(self) -> None:
        lease = self._lease
        assert lease is not None
        due = self._sent + lease.length_ms / 3000
        self._client._schedule(self, max(due, self._sent + RENEW_PAUSE_S))

    def _set_end(self) -> None:
        layout, lease = self.layout, self._lease
        assert lease is not None
        self._end_unit = min((lease.not_after - layout.epoch_ms) // layout.unit_ms, 1 << layout.time)
        self._checked_ms = -1

    def _apply_renewal(self, reply: Reply) -> None:
        lease = self._lease
        assert lease is not None
        is_end = isinstance(reply, list) and len(reply) >= 1 and type(reply[0]) is int
        if not is_end or not lease.not_after <= reply[0] <= TIME_MAX_MS:
            raise unexpected("WORKERID RENEW", reply)
        self._succeeded()
        lease.not_after = reply[0]
        if not self._is_ahead:
            lease.given_end = lease.not_after
        self._renewals += 1
        self._is_wanted = False
        self._set_end()
        self._client._event("renewed", self.name)
        self._schedule_renewal()
        now_ms = self._time_ns() // 1_000_000
        if now_ms < lease.not_after:
            self._clock_ahead_ms = 0
            self._finish_all()
            return
        difference = self._clock_ahead_ms = now_ms - lease.given_end
        message = (
            f"{self}: this machine's clock is at least {difference / 1000:.3f} s ahead of the server's, past the end "
            f"of a lease that was just given: set the clock (timedatectl set-ntp true), or give the pool a lease that is "
            f"longer than the difference"
        )
        self._client._event("clock", self.name, message, difference)
        self._finish_all(lambda: ClockError(message, difference))

    def _refuse(self, error: ServerError) -> bool:
        if self._job == "RELEASE":
            # Whatever the reason: the id is free at the end of its lease.
            self._unfit = None
            if self._waiters:
                self._want_now()
            return True
        if self._job != "RENEW" or self._lease is None:
            return False
        if error.code in LOST_CODES:
            self._lease.is_lost = True
            self._failures += 1
            self._last_failure = error.text
            self._client._event("lease_lost", self.name, error.text)
            if self._waiters:
                self._want_now()
            return True
        if self._is_ahead:
            self._is_last_real = True
            self._want_now()
            return True
        return False

    def _retry_delay(self, delay: float, can_lose: bool) -> float:
        job = self._next_job()  # A failed connect came before the begin of the job.
        if job == "LEASE" and can_lose:
            delay, self._lease_delay = self._lease_delay, min(2 * self._lease_delay, RETRY_LAST_S)
        if job == "RENEW":
            delay = max(delay, self._tried_at + RENEW_PAUSE_S - self._client._monotonic())
        return delay

    def _is_needed(self) -> bool:
        lease = self._lease
        return lease is not None and not lease.is_lost and self._time_ns() // 1_000_000 < lease.not_after

    def _failure_event(self) -> str:
        return "renew_failed" if self._next_job() == "RENEW" else "fetch_failed"

    def _parse_lease(self, reply: Reply) -> Lease:
        if isinstance(reply, list) and len(reply) >= 5:
            id, token, not_before, not_after, length_ms = reply[:5]
            are_numbers = all(type(n) is int and 0 <= n <= TIME_MAX_MS for n in (id, not_before, not_after, length_ms))
            if are_numbers and isinstance(token, bytes) and 0 < len(token) <= 256 and not_before < not_after:
                return Lease(id, token, not_before, not_after, max(length_ms, 1))
        shown = reply[:1] if isinstance(reply, list) else reply  # The token is secret.
        raise unexpected("WORKERID LEASE", shown)
