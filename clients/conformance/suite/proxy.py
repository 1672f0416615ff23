"""A proxy between a driver and its server: records requests and replies, and damages those that a rule names.

Clients send one request after another on a connection, so one thread for each connection is enough. A rule is taken at
the request that fits it, and does one of these:

``error``   answers with an error reply, without the server
``drop``    reads the server's reply and closes the connection in place of it
``cut``     sends half of the reply and closes the connection
``delay``   sends the reply after some seconds
``hold``    sends the reply after ``release()``
``silent``  never answers, and the server does not get the request
"""

from __future__ import annotations

import random
import socket
import threading
import time
from typing import Any, Callable, List, NamedTuple, Optional

from .wire import Reader, encode

WAIT_S = 90.0
CONNECTIONS_MAX = 10_000


class Exchange:
    """A request, and the reply to it. ``is_delivered`` if all bytes of the reply were sent to the client."""

    def __init__(self, connection: int, words: List[bytes]) -> None:
        self.connection = connection
        self.words = words
        self.asked_at = time.monotonic()
        self.reply: Any = None
        self.is_answered = False
        self.is_delivered = False
        self.action = ""

    @property
    def text(self) -> str:
        """Words of the request, for messages and rules."""
        return b" ".join(self.words).decode("utf-8", "replace")

    def word_after(self, key: bytes) -> Optional[bytes]:
        """Returns the word behind an option, or None."""
        upper = [word.upper() for word in self.words]
        return self.words[upper.index(key) + 1] if key in upper[:-1] else None

    def __repr__(self) -> str:
        return f"<{self.connection}: {self.text} -> {self.reply!r} {self.action}>"


class Rule:
    """What happens to the next ``times`` requests that begin with ``prefix``."""

    def __init__(self, prefix: str, action: str, times: int, text: str, seconds: float) -> None:
        self.prefix, self.action, self.left, self.text, self.seconds = prefix, action, times, text, seconds
        self.is_released = threading.Event()

    def release(self) -> None:
        """Sends the replies that are held."""
        self.is_released.set()


class Chaos(NamedTuple):
    """Random damage: the share of replies that are damaged, and its source of randomness."""

    share: float
    random: random.Random


class Proxy:
    """Listens on a free port of this machine, and forwards to ``port``."""

    def __init__(self, port: int) -> None:
        self.upstream = port
        self._changed = threading.Condition()
        self.exchanges: List[Exchange] = []
        self._rules: List[Rule] = []
        self._chaos: Optional[Chaos] = None
        self._connections = 0
        self._sockets: List[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self.is_closed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def rule(self, prefix: str, action: str, times: int = 1, text: str = "", seconds: float = 0.0) -> Rule:
        """Adds a rule. Rules are tried in the order in which they were added."""
        rule = Rule(prefix, action, times, text, seconds)
        with self._changed:
            self._rules.append(rule)
        return rule

    def chaos(self, share: float, seed: int) -> None:
        """Damages this share of all replies from now on, 0 for none."""
        with self._changed:
            self._chaos = Chaos(share, random.Random(seed)) if share else None

    def wait(self, what: str, found: Callable[[List[Exchange]], Any]) -> Any:
        """Waits until ``found`` of the exchanges is true, and returns it. Fails after a generous time."""
        with self._changed:
            result = self._changed.wait_for(lambda: found(self.exchanges), WAIT_S)
            if not result:
                raise AssertionError(f"the proxy has not seen {what}; the last are {self.exchanges[-5:]}")
            return result

    def wait_request(self, prefix: str, count: int = 1) -> None:
        """Waits for the ``count``-th request that begins with ``prefix``."""
        self.wait(f"{count} x {prefix}", lambda found: len(self.matching(prefix)) >= count)

    def matching(self, prefix: str) -> List[Exchange]:
        """Returns the exchanges whose request begins with ``prefix``."""
        return [exchange for exchange in list(self.exchanges) if exchange.text.startswith(prefix)]

    def close(self) -> None:
        """Closes all connections."""
        self.is_closed.set()
        with self._changed:
            rules, sockets = self._rules, self._sockets
        for rule in rules:
            rule.release()
        for sock in [self._listener, *sockets]:
            _shut(sock)

    def _accept(self) -> None:
        while not self.is_closed.is_set() and self._connections < CONNECTIONS_MAX:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._connections += 1
            threading.Thread(target=self._serve, args=(client, self._connections), daemon=True).start()

    def _serve(self, client: socket.socket, number: int) -> None:
        server = None
        try:
            server = socket.create_connection(("127.0.0.1", self.upstream))
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._changed:
                self._sockets += [client, server]
            requests, replies = Reader(client), Reader(server)
            while self._exchange(Exchange(number, requests.read()), client, server, replies):
                pass
        except (OSError, EOFError, ValueError):
            pass
        finally:
            for sock in (client, server):
                if sock is not None:
                    _shut(sock)

    def _exchange(self, exchange: Exchange, client: socket.socket, server: socket.socket, replies: Reader) -> bool:
        """Forwards a request and its reply. Returns whether the connection stays open."""
        rule = self._note(exchange)
        if exchange.action == "silent":
            self.is_closed.wait(WAIT_S)
            return False
        if exchange.action == "error" and rule is not None:
            exchange.reply, raw = ValueError(rule.text), f"-{rule.text}\r\n".encode()
        else:
            server.sendall(encode(exchange.words))
            exchange.reply = replies.read()
            raw = replies.raw
        self._change(lambda: setattr(exchange, "is_answered", True))
        return self._reply(exchange, rule, client, raw)

    def _reply(self, exchange: Exchange, rule: Optional[Rule], client: socket.socket, raw: bytes) -> bool:
        if exchange.action == "drop":
            return False
        if exchange.action == "cut":
            client.sendall(raw[: len(raw) // 2])
            return False
        if exchange.action == "delay":
            self.is_closed.wait(rule.seconds if rule else 0.02)
        if exchange.action == "hold" and rule is not None:
            rule.is_released.wait(WAIT_S)
        # Before the bytes are sent: the client may use them before this thread runs again.
        self._change(lambda: setattr(exchange, "is_delivered", True))
        client.sendall(raw)
        return True

    def _note(self, exchange: Exchange) -> Optional[Rule]:
        with self._changed:
            self.exchanges.append(exchange)
            found = None
            for rule in self._rules:
                if rule.left > 0 and exchange.text.startswith(rule.prefix):
                    rule.left -= 1
                    found, exchange.action = rule, rule.action
                    break
            if found is None and self._chaos is not None and self._chaos.random.random() < self._chaos.share:
                exchange.action = self._chaos.random.choice(["drop", "cut", "delay"])
            self._changed.notify_all()
            return found

    def _change(self, change: Callable[[], None]) -> None:
        with self._changed:
            change()
            self._changed.notify_all()


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    sock.close()
