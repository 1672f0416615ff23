"""RESP2: replies in all forms and in pieces, bounds, and what closes a connection."""

import socket
import ssl
import threading
import unittest
from typing import Any
from unittest import mock

from getid import _connection
from getid._address import Address, parse_url
from getid._connection import Connection, ConnectionLost, ServerError, encode


class Pipe(unittest.TestCase):
    def exchange(self, *pieces: bytes, timeout: float = 30.0, close: bool = True) -> Any:
        """Returns the reply that a connection reads from these pieces."""
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        self.connection = Connection(parse_url("getid://a"), Address("a", 1), None)
        self.connection._socket = ours

        def send() -> None:
            try:
                for piece in pieces:
                    theirs.sendall(piece)
                if close:
                    theirs.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        thread = threading.Thread(target=send)
        thread.start()
        try:
            return self.connection.request((b"PING",), timeout)
        finally:
            theirs.shutdown(socket.SHUT_RDWR) if not self.connection.is_open else None
            thread.join()

    def test_replies(self) -> None:
        cases = {
            b"+OK\r\n": "OK",
            b":-12\r\n": -12,
            b":9223372036854775807\r\n": 2**63 - 1,
            b"$3\r\na\r\n\r\n": b"a\r\n",
            b"$-1\r\n": None,
            b"*-1\r\n": None,
            b"*0\r\n": [],
            b"$0\r\n\r\n": b"",
            b"*2\r\n:1\r\n*1\r\n+a\r\n": [1, ["a"]],
        }
        for sent, reply in cases.items():
            with self.subTest(sent):
                self.assertEqual(self.exchange(sent), reply)
                self.assertEqual(self.exchange(*[sent[at : at + 1] for at in range(len(sent))]), reply)
        error = self.exchange(b"-NOPERM no\r\n")
        self.assertIsInstance(error, ServerError)
        self.assertEqual((error.code, error.text), ("NOPERM", "NOPERM no"))

    def test_closed_on_doubt(self) -> None:
        cases = {
            b"": "closed",
            b"*2\r\n:1\r\n": "closed",
            b"$5\r\nab": "closed",
            b"!x\r\n": "begins with",
            b":x\r\n": "integer",
            b":\r\n": "integer",
            b":" + b"9" * 20 + b"\r\n": "integer",
            b":+1\r\n": "integer",
            b": 1\r\n": "integer",
            b"$-2\r\n": "bulk string",
            b"$1048577\r\n": "bulk string",
            b"*1000001\r\n": "array",
            b"*1\r\n" * 5 + b":1\r\n": "nested",
            b"$1\r\nabc": "CRLF",
            b"+OK\r\n+OK\r\n": "behind",
            b"+" + b"a" * 65_537 + b"\r\n": "line",
            b"+" + b"a" * 200_000: "line",
        }
        for sent, text in cases.items():
            with self.subTest(sent[:20]), self.assertRaisesRegex(ConnectionLost, text):
                self.exchange(sent)
            self.assertFalse(self.connection.is_open)

    def test_a_time_out_closes(self) -> None:
        with self.assertRaisesRegex(ConnectionLost, "time-out"):
            self.exchange(b":1", timeout=0.02, close=False)
        self.assertFalse(self.connection.is_open)

    def test_a_slow_drip_does_not_lengthen_the_time_out(self) -> None:
        """Each byte arrives in time, and the reply does not."""
        now = [0.0]

        class Drip:
            def settimeout(self, timeout: float) -> None:
                assert timeout <= 6.0 - now[0] + 1e-9

            def sendall(self, sent: bytes) -> None:
                pass

            def recv(self, size: int) -> bytes:
                now[0] += 1.0
                return b"1"

            def close(self) -> None:
                pass

        connection = Connection(parse_url("getid://a"), Address("a", 1), None)
        connection._socket = Drip()
        with mock.patch.object(_connection.time, "monotonic", lambda: now[0]):
            with self.assertRaisesRegex(ConnectionLost, "time-out"):
                connection.request((b"PING",))
        self.assertLessEqual(now[0], 7.0)

    def test_an_exception_in_the_middle_closes(self) -> None:
        connection = Connection(parse_url("getid://a"), Address("a", 1), None)
        connection._socket = mock.Mock()
        connection._socket.recv.side_effect = KeyboardInterrupt
        with self.assertRaises(KeyboardInterrupt):
            connection.request((b"PING",))
        self.assertFalse(connection.is_open)

    def test_abort_ends_a_read_of_another_thread(self) -> None:
        ours, theirs = socket.socketpair()
        self.addCleanup(theirs.close)
        connection = Connection(parse_url("getid://a"), Address("a", 1), None)
        connection._socket = ours
        failures = []

        def read() -> None:
            try:
                connection.request((b"PING",), 30)
            except ConnectionLost as error:
                failures.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        theirs.recv(100)
        connection.abort()
        thread.join(30)
        self.assertEqual(len(failures), 1)

    def test_close_sends_nothing_with_tls(self) -> None:
        """A forked child closes its copy of the descriptor; a close_notify would end its parent's connection."""
        found = mock.create_autospec(ssl.SSLSocket, instance=True)
        connection = Connection(parse_url("getids://a"), Address("a", 1), None)
        connection._socket = found
        connection.close()
        self.assertEqual([name for name, _, _ in found.method_calls], ["close"])

    def test_encode(self) -> None:
        self.assertEqual(encode((b"A", b"\r\n")), b"*2\r\n$1\r\nA\r\n$2\r\n\r\n\r\n")
