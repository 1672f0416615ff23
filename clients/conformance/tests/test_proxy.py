"""Tests of the proxy against a server that answers each request with a number."""

import socket
import threading
import unittest

from suite.proxy import Proxy
from suite.wire import Reader, encode


class Server:
    """Answers each request with the number of requests so far."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.count = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        reader = Reader(sock)
        try:
            while reader.read() is not None:
                self.count += 1
                sock.sendall(b":%d\r\n" % self.count)
        except (EOFError, OSError):
            sock.close()


class ProxyTest(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.proxy = Proxy(self.server.listener.getsockname()[1])
        self.addCleanup(self.server.listener.close)
        self.addCleanup(self.proxy.close)

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.proxy.port), 30)
        self.addCleanup(sock.close)
        reader = Reader(sock)
        self.addCleanup(reader.close)
        return sock, reader

    def ask(self, wire, *words):
        wire[0].sendall(encode([word.encode() for word in words]))
        return wire[1].read()

    def test_records(self):
        self.assertEqual(self.ask(self.connect(), "A", "b"), 1)
        one = self.proxy.exchanges[0]
        self.assertEqual((one.text, one.reply, one.is_delivered, one.word_after(b"A")), ("A b", 1, True, b"b"))

    def test_errors_do_not_reach_the_server(self):
        self.proxy.rule("A", "error", text="BUSY now")
        wire = self.connect()
        self.assertEqual(str(self.ask(wire, "A")), "BUSY now")
        self.assertEqual(self.ask(wire, "A"), 1)

    def test_lost_replies(self):
        for action in ("drop", "cut"):
            self.proxy.rule(action, action)
            with self.assertRaises(EOFError):
                self.ask(self.connect(), action)
            self.proxy.wait("the reply", lambda found: found[-1].is_answered)
            self.assertFalse(self.proxy.exchanges[-1].is_delivered)
        self.assertEqual(self.server.count, 2)

    def test_held_replies(self):
        rule = self.proxy.rule("A", "hold")
        sock, reader = self.connect()
        sock.sendall(encode([b"A"]))
        self.proxy.wait("the reply", lambda found: found and found[-1].is_answered)
        self.assertFalse(self.proxy.exchanges[-1].is_delivered)
        rule.release()
        self.assertEqual(reader.read(), 1)

    def test_silence(self):
        self.proxy.rule("A", "silent")
        sock, _ = self.connect()
        sock.sendall(encode([b"A"]))
        self.proxy.wait_request("A")
        self.assertEqual(self.ask(self.connect(), "B"), 1)


if __name__ == "__main__":
    unittest.main()
