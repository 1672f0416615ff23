"""Objects of a client: what :class:`getid.Client` and :class:`getid.testing.FakeClient` have in common."""

from __future__ import annotations

import threading
from typing import Any, Callable, Generic, TypeVar

from ._errors import Closed, check_int, check_name, check_number
from ._layout import Layout

OBJECTS_MAX = 10_000
TAKE_MAX = 1_000_000
PREFETCH_MAX = 10_000_000
HOLD_MIN_S = 0.01
HOLD_MAX_S = 60.0
TTL_MAX_S = 86_400

S = TypeVar("S")
W = TypeVar("W")


def closed_error() -> Closed:
    """Returns the error of calls after ``close()``."""
    return Closed("the client is closed: make another one")


class Unique:
    """Base of what has no copies: a copy is the same object, and serialisation fails."""

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"{type(self).__name__} cannot be serialised: make a client in each process")


class Objects(Unique, Generic[S, W]):
    """Sequences and workers by their names, each made once."""

    _lock: threading.Lock
    _is_closed = False

    def __init__(self) -> None:
        self._sources: dict[tuple[str, str], Any] = {}
        self._options: dict[tuple[str, str], tuple[Any, ...]] = {}

    def _enter(self) -> None:
        """Begins a call."""

    def _make_sequence(self, name: str, prefetch_max: int, hold: float, fresh: bool) -> S:
        raise NotImplementedError

    def _make_worker(self, pool: str, layout: Layout, name: str | None, ttl: int | None) -> W:
        raise NotImplementedError

    def sequence(self, name: str, prefetch_max: int = 10_000, hold: float = 60.0, fresh: bool = False) -> S:
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
        found: S = self._object("sequence", name, options, lambda: self._make_sequence(name, *options))
        return found

    def worker(self, pool: str, layout: Layout, name: str | None = None, ttl: int | None = None) -> W:
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
        options = (layout, name, ttl)
        found: W = self._object("worker", pool, options, lambda: self._make_worker(pool, *options))
        return found

    def _object(self, kind: str, name: str, options: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        self._enter()
        key = (kind, name)
        with self._lock:
            if self._is_closed:
                raise closed_error()
            if key not in self._sources:
                if len(self._sources) >= OBJECTS_MAX:
                    raise ValueError(f"the client has {OBJECTS_MAX:,} objects, which is the most: use them again")
                self._options[key] = options
                self._sources[key] = make()
            if self._options[key] != options:
                raise ValueError(f"{kind} '{name}' exists with other options: use the same ones, or another client")
            return self._sources[key]

    def close(self, timeout: float = 2.0) -> bool:
        """Ends all calls."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
