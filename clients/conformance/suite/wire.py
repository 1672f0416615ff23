"""RESP2 for the suite: a small client, and a reader that keeps the bytes of what it read."""

from __future__ import annotations

import socket
from typing import Any, List, Optional

CALL_S = 30.0


class Reader:
    """Reads RESP2 values of a socket. ``raw`` has the bytes of the value that was read last."""

    def __init__(self, sock: socket.socket) -> None:
        self._file = sock.makefile("rb")
        self.raw = b""

    def read(self) -> Any:
        """Returns the next value, a ValueError for an error reply. Raises EOFError at the end."""
        self.raw = b""
        return self._read()

    def close(self) -> None:
        self._file.close()

    def _line(self) -> bytes:
        line = self._file.readline(1 << 16)
        self.raw += line
        if not line.endswith(b"\r\n"):
            raise EOFError
        return line[:-2]

    def _read(self) -> Any:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return ValueError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return self._bulk(int(rest))
        if kind == b"*":
            return None if rest == b"-1" else [self._read() for _ in range(int(rest))]
        raise EOFError

    def _bulk(self, size: int) -> Optional[bytes]:
        if size < 0:
            return None
        data = self._file.read(size + 2)
        self.raw += data
        if len(data) != size + 2:
            raise EOFError
        return data[:-2]


def encode(words: List[bytes]) -> bytes:
    """Returns a request as an array of bulk strings."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def ask(port: int, *words: str) -> Any:
    """Sends one request on a connection of its own, and returns the reply. An error reply is returned, not raised."""
    with socket.create_connection(("127.0.0.1", port), CALL_S) as sock:
        sock.sendall(encode([word.encode() for word in words]))
        reader = Reader(sock)
        try:
            return reader.read()
        finally:
            reader.close()
