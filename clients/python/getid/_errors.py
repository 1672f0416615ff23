"""Errors of the client, and the checks of arguments."""

from __future__ import annotations

from typing import Any, Union

TIMEOUT_MAX_S = 86_400.0
"""Longest time-out of a call, in seconds: one day."""

NAME_BYTES_MAX = 128
"""Longest name of a sequence or worker pool, in bytes of UTF-8."""

Number = Union[int, float]


class GetidError(Exception):
    """Base class of all errors that this package raises for a server, a connection or a clock.

    Mistakes in arguments are ``ValueError`` and ``TypeError``.
    """


class Unavailable(GetidError):
    """The time-out of the call passed without a value. The message names the last failure and the address."""


class Refused(GetidError):
    """The server returned an error that a repetition does not mend, such as ``NOPERM`` or an unknown name.

    ``code`` is the first word of the server's error, such as ``"NOPERM"``; empty if the client found the reason.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class ClockError(GetidError):
    """The clock of this machine is past the end of a lease that was just given.

    ``difference_ms`` is how far past the end the clock is, in milliseconds.
    """

    def __init__(self, message: str, difference_ms: int = 0) -> None:
        super().__init__(message)
        self.difference_ms = difference_ms


class Closed(GetidError):
    """The client is closed."""


def check_number(argument: str, value: Any, low: Number, high: Number) -> float:
    """Returns ``value`` as a float. Fails if it is no number in ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{argument} is {value!r}, must be a number from {low:,} to {high:,}")
    if not low <= value <= high:
        raise ValueError(f"{argument} is {value!r}, must be {low:,} to {high:,}")
    return float(value)


def check_int(argument: str, value: Any, low: int, high: int) -> int:
    """Returns ``value``. Fails if it is no integer in ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{argument} is {value!r}, must be an integer from {low:,} to {high:,}")
    if not low <= value <= high:
        raise ValueError(f"{argument} is {value!r}, must be {low:,} to {high:,}")
    return value


def check_name(argument: str, value: Any) -> str:
    """Returns ``value``. Fails if it is no text of 1 to 128 bytes."""
    if not isinstance(value, str):
        raise TypeError(f"{argument} is {value!r}, must be a str")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{argument} is {value!r}, must be valid Unicode: {error.reason}") from None
    if not 1 <= size <= NAME_BYTES_MAX:
        raise ValueError(f"{argument} has {size} bytes, must have 1 to {NAME_BYTES_MAX}")
    return value
