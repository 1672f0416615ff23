"""Servers of the suite: real ones in folders of their own, on free ports of this machine."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from typing import Any, List, Optional

from .wire import ask

START_S = 60.0
POLL_S = 0.05
POOLS = {
    "main": "size 1024 lease 30s",
    "coarse": "size 1024 lease 30s",
    "one": "size 1 lease 30s",
    "short": "size 64 lease 3s",
}
"""Pools of each server."""


def binary() -> str:
    """Returns the path of the server: ``GETID_TEST_BINARY``, or what cargo built."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    built = [os.path.join(root, "target", kind, "getid") for kind in ("release", "debug")]
    for path in [os.environ.get("GETID_TEST_BINARY", ""), *built]:
        if os.path.isfile(path):
            return path
    raise SystemExit(f"no server's binary at {built[0]}: run 'cargo build --release', or set GETID_TEST_BINARY")


def free_port() -> int:
    """Returns a port that was free just now."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


class Server:
    """A server in ``folder``. ``kill`` and ``start`` may follow each other."""

    def __init__(self, folder: str, words: Optional[List[str]] = None) -> None:
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.port = free_port()
        self.log = os.path.join(folder, "server.log")
        pools = [word for name, rest in POOLS.items() for word in ("--worker-pool", f"{name} {rest}")]
        self._id = str(random.SystemRandom().randrange(1024))
        self._words = ["--id-machine-claim", "no", "--sequence-create", "on-first-use", *pools, *(words or [])]
        self.process: Optional[subprocess.Popen] = None

    def start(self, expected: str = "ready") -> Server:
        """Starts the server, and waits until it gives values (``ready``), or PING is answered with this first word."""
        ids = [] if "--server-id" in self._words else ["--id-generator", "id-range 10 shard-range 1 random-range 10"]
        ids += [] if "--server-id" in self._words else ["--server-id", self._id]
        command = [binary(), "serve", "--dir", self.folder, "--port", str(self.port), *ids, *self._words]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self._wait("PONG" if expected == "ready" else expected, "PING")
        if expected == "ready":
            self._wait(int, "INCR", "ready")
            for pool in POOLS:
                self._wait("OK", "WORKERID", "INIT", pool, "NEW")
        return self

    def ask(self, *words: str) -> Any:
        """Sends a request, and returns the reply."""
        return ask(self.port, *words)

    def kill(self) -> None:
        """Ends the server by SIGKILL."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def _wait(self, expected: Any, *words: str) -> None:
        """Repeats a request until its reply is of the type ``expected``, or has it as its first word."""
        end = time.monotonic() + START_S
        reply: Any = None
        while time.monotonic() < end:
            try:
                reply = self.ask(*words)
                if isinstance(reply, expected) if isinstance(expected, type) else str(reply).split()[0] == expected:
                    return
            except (OSError, EOFError) as error:
                reply = error
            if self.process is None or self.process.poll() is not None:
                break
            time.sleep(POLL_S)
        with open(self.log, encoding="utf-8", errors="replace") as log:
            tail = "".join(log.readlines()[-5:])
        raise AssertionError(f"a server did not answer '{' '.join(words)}': {reply!r}\n{tail}")
