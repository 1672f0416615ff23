"""Connection to one server: RESP2 over TCP, TLS or a Unix socket, closed on any doubt.

A reply is read to its end or the connection is closed, so no request ever reads the reply of another one. ``socket``,
``ssl`` and ``time`` are used through their modules at call time, because gevent may have replaced what they contain.
"""

from __future__ import annotations

import socket
import ssl
import time
from typing import Any

from ._address import Address, Target

CONNECT_TIMEOUT_S = 1.0
REPLY_TIMEOUT_S = 6.0
LINE_BYTES_MAX = 64 * 1024
BULK_BYTES_MAX = 1024 * 1024
ARRAY_LENGTH_MAX = 1_000_000
DEPTH_MAX = 4
READ_BYTES = 16 * 1024

Reply = Any
"""A reply: ``str``, ``int``, ``bytes``, ``None``, ``list`` or :class:`ServerError`."""


class ServerError:
    """An error that a server returned as its reply. ``code`` is its first word."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.code = text.partition(" ")[0]

    @property
    def is_full(self) -> bool:
        """Whether the server has no room for another connection."""
        return self.text.startswith("ERR max number of clients reached")


class ConnectionLost(Exception):
    """The connection is closed. ``is_connect`` is true if no request had been sent on it."""

    def __init__(self, reason: str, is_connect: bool = False) -> None:
        super().__init__(reason)
        self.is_connect = is_connect


class LoginRefused(Exception):
    """The server returned an error to ``AUTH``."""

    def __init__(self, error: ServerError) -> None:
        super().__init__(error.text)
        self.error = error


class Connection:
    """One connection. Used by one thread at a time; :meth:`abort` may come from another one."""

    def __init__(self, target: Target, address: Address, tls: ssl.SSLContext | None) -> None:
        self.address = address
        self._target = target
        self._tls = tls
        self._socket: Any = None
        self._is_aborted = False
        self._buffer = bytearray()

    def connect(self, timeout: float = CONNECT_TIMEOUT_S) -> None:
        """Connects and logs in, within ``timeout`` seconds for all of it."""
        deadline = time.monotonic() + timeout
        try:
            self._open(deadline)
            if self._target.login:
                reply = self._exchange((b"AUTH", *self._target.login), deadline)
                if isinstance(reply, ServerError):
                    raise LoginRefused(reply)
                if reply != "OK":
                    raise ConnectionLost("unexpected reply to AUTH")
        except (OSError, ValueError, ConnectionLost) as error:
            self.close()
            raise ConnectionLost(f"connect to {self.address}: {_reason(error)}", True) from None
        except BaseException:
            self.close()
            raise

    def request(self, arguments: tuple[bytes, ...], timeout: float = REPLY_TIMEOUT_S) -> Reply:
        """Sends a request and returns its reply. After any failure the connection is closed."""
        try:
            return self._exchange(arguments, time.monotonic() + timeout)
        except (OSError, ValueError, ConnectionLost) as error:
            self.close()
            raise ConnectionLost(f"{self.address}: {_reason(error)}") from None
        except BaseException:
            self.close()
            raise

    def abort(self) -> None:
        """Ends a read or write that another thread has under way. Sends no byte, also with TLS."""
        self._is_aborted = True
        found = self._socket
        if found is not None:
            try:
                # Not SSLSocket.shutdown, which changes the object under the thread that reads.
                socket.socket.shutdown(found, socket.SHUT_RDWR)
            except (OSError, ValueError, TypeError):
                pass

    def close(self) -> None:
        """Closes the descriptor. Sends no byte, also with TLS, so a forked child may call it."""
        found, self._socket = self._socket, None
        self._buffer.clear()
        if found is not None:
            try:
                found.close()
            except OSError:
                pass

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent."""
        return self._socket is not None and not self._is_aborted

    def _open(self, deadline: float) -> None:
        last: Exception = ConnectionLost("the host name has no address")
        places = self._places()
        for index, (family, place) in enumerate(places):
            share = _left(deadline) / (len(places) - index)  # The first address may be one without a route.
            try:
                self._open_one(family, place, time.monotonic() + share)
                return
            except (OSError, ValueError) as error:
                self.close()
                last = error
        raise last

    def _places(self) -> list[tuple[int, Any]]:
        if self.address.is_socket:
            return [(socket.AF_UNIX, self.address.host)]
        found = socket.getaddrinfo(self.address.host, self.address.port, type=socket.SOCK_STREAM)
        return [(family, place) for family, _, _, _, place in found]

    def _open_one(self, family: int, place: Any, deadline: float) -> None:
        raw = socket.socket(family, socket.SOCK_STREAM)
        self._socket = raw
        raw.settimeout(_left(deadline))
        raw.connect(place)
        if family != getattr(socket, "AF_UNIX", None):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._target.is_tls:
            context = self._tls or ssl.create_default_context()
            self._socket = context.wrap_socket(raw, server_hostname=self.address.host, do_handshake_on_connect=False)
            self._socket.settimeout(_left(deadline))
            self._socket.do_handshake()
        if self._is_aborted:
            raise ConnectionLost("aborted")

    def _exchange(self, arguments: tuple[bytes, ...], deadline: float) -> Reply:
        if not self.is_open:
            raise ConnectionLost("the connection is closed")
        if self._buffer:
            raise ConnectionLost("unexpected bytes before the request")
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(encode(arguments))
        reply = self._read_reply(deadline, DEPTH_MAX)
        if self._buffer:
            raise ConnectionLost("unexpected bytes behind the reply")
        return reply

    def _read_reply(self, deadline: float, depth: int) -> Reply:
        line = self._read_line(deadline)
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode("utf-8", "replace")
        if kind == b"-":
            return ServerError(rest.decode("utf-8", "replace"))
        if kind == b":":
            return _integer(rest)
        if kind == b"$":
            size = _bounded("bulk string", rest, BULK_BYTES_MAX)
            return None if size < 0 else self._read_bulk(size, deadline)
        if kind == b"*":
            if depth == 0:
                raise ConnectionLost(f"unexpected reply: arrays nested deeper than {DEPTH_MAX}")
            length = _bounded("array", rest, ARRAY_LENGTH_MAX)
            return None if length < 0 else [self._read_reply(deadline, depth - 1) for _ in range(length)]
        raise ConnectionLost(f"unexpected reply: begins with {kind!r}, must begin with one of + - : $ *")

    def _read_line(self, deadline: float) -> bytes:
        searched = 0
        while True:
            end = self._buffer.find(b"\r\n", searched)
            if end > LINE_BYTES_MAX or (end < 0 and len(self._buffer) > LINE_BYTES_MAX + 1):
                raise ConnectionLost(f"unexpected reply: a line has more than {LINE_BYTES_MAX:,} bytes")
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 2]
                return line
            searched = max(0, len(self._buffer) - 1)
            self._read_more(deadline)

    def _read_bulk(self, size: int, deadline: float) -> bytes:
        while len(self._buffer) < size + 2:
            self._read_more(deadline)
        if self._buffer[size : size + 2] != b"\r\n":
            raise ConnectionLost("unexpected reply: a bulk string without CRLF at its end")
        text = bytes(self._buffer[:size])
        del self._buffer[: size + 2]
        return text

    def _read_more(self, deadline: float) -> None:
        found = self._socket
        if found is None:
            raise ConnectionLost("aborted")
        found.settimeout(_left(deadline))
        read = found.recv(READ_BYTES)
        if not read:
            raise ConnectionLost("the server closed the connection")
        self._buffer += read


def encode(arguments: tuple[bytes, ...]) -> bytes:
    """Returns a request: an array of bulk strings."""
    parts = [b"*%d\r\n" % len(arguments)]
    parts.extend(b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in arguments)
    return b"".join(parts)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout("timed out")
    return left


def _integer(text: bytes) -> int:
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or len(digits) > 19:
        raise ConnectionLost(f"unexpected reply: {text[:32]!r} is no integer of 64 bits")
    return int(text)


def _bounded(what: str, text: bytes, high: int) -> int:
    length = _integer(text)
    if not -1 <= length <= high:
        raise ConnectionLost(f"unexpected reply: length of the {what} is {length}, must be at most {high:,}")
    return length


def _reason(error: Exception) -> str:
    if isinstance(error, socket.timeout):
        return "no reply within the time-out"
    return str(error) or type(error).__name__
