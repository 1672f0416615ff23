"""Clocks: of the machine, and one that a test moves."""

from __future__ import annotations

import time
from typing import Callable


class SystemClock:
    """Clock of this machine. Stateless."""

    monotonic = staticmethod(time.monotonic)
    """Returns seconds that never go back."""

    time_ns = staticmethod(time.time_ns)
    """Returns Unix time in nanoseconds."""

    def watch(self, moved: Callable[[], None]) -> None:
        """Does nothing: no program moves the machine's clock through this object."""


class TestClock(SystemClock):
    """Clock of this machine plus distances that a test adds. With ``frozen`` it moves by :meth:`shift` alone."""

    __test__ = False

    def __init__(self, frozen: bool = False, wall_ms: int | None = None) -> None:
        self._frozen_ns = time.time_ns() if frozen else None
        self._wall_ns = 0
        self._mono_ns = 0
        self._watchers: list[Callable[[], None]] = []
        if wall_ms is not None:
            self._wall_ns = wall_ms * 1_000_000 - (self._frozen_ns or time.time_ns())

    def monotonic(self) -> float:
        """Returns seconds that go back only by :meth:`shift`."""
        return (1000.0 if self._frozen_ns is not None else time.monotonic()) + self._mono_ns / 1e9

    def time_ns(self) -> int:
        """Returns Unix time in nanoseconds."""
        return (self._frozen_ns if self._frozen_ns is not None else time.time_ns()) + self._wall_ns

    def shift(self, wall_ms: int = 0, mono_ms: int = 0) -> None:
        """Adds distances to the wall clock and to the monotonic clock, and wakes the clients."""
        self._wall_ns += wall_ms * 1_000_000
        self._mono_ns += mono_ms * 1_000_000
        for moved in list(self._watchers):
            moved()

    def watch(self, moved: Callable[[], None]) -> None:
        """Calls ``moved`` after each shift."""
        self._watchers.append(moved)
