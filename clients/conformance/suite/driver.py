"""A driver's process: commands as JSON lines, answers in any order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Dict, Optional

HANG_S = 120.0
"""Longest time of a command before the suite takes it for hung."""

BUILD_S = 900.0
STACKS_S = 3.0


class Failed(Exception):
    """An error that a driver answered; ``kind`` is the error of the protocol."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Driver:
    """Process of the driver in ``folder``. ``log`` gets its standard error."""

    def __init__(self, folder: str, package: str, log: str, env: Optional[Dict[str, str]] = None) -> None:
        self.log = log
        environment = environment_of(package, env)
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                [os.path.join(folder, "command")],
                cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )
        self._lock = threading.Lock()
        self._waiting: Dict[int, Future] = {}
        self._count = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, do: str, **fields: Any) -> Future:
        """Sends a command. Returns the future of its answer."""
        future: Future = Future()
        with self._lock:
            self._count += 1
            self._waiting[self._count] = future
            line = json.dumps({"id": self._count, "do": do, **fields})
            assert self.process.stdin is not None
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        return future

    def call(self, do: str, **fields: Any) -> Dict[str, Any]:
        """Sends a command and waits for its answer. Raises ``Failed`` if it is an error."""
        return self.result(self.start(do, **fields), f"{do} {fields}")

    def result(self, future: Future, what: str = "a command", seconds: float = HANG_S) -> Any:
        """Waits for an answer. If none comes, shows the stacks where the language can, and fails."""
        try:
            return future.result(seconds)
        except FutureTimeout:
            self.process.send_signal(signal.SIGQUIT)
            time.sleep(STACKS_S)
            message = f"the driver hangs in {what}; stacks, where the language has them, are in its log"
            raise AssertionError(message) from None

    def fails(self, kind: str, do: str, **fields: Any) -> str:
        """Sends a command that must fail with this kind of error. Returns the message."""
        try:
            found = self.call(do, **fields)
        except Failed as error:
            if error.kind != kind:
                raise AssertionError(f"{do} failed with {error}, must be {kind}") from None
            return str(error)
        raise AssertionError(f"{do} returned {found}, must be {kind}")

    def end(self) -> int:
        """Ends the input. Returns the exit status of the program."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            return self.process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGQUIT)
            time.sleep(STACKS_S)
            raise AssertionError("the driver does not end at the end of its input") from None

    def kill(self) -> None:
        """Ends the process by SIGKILL."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            answer = json.loads(line)
            with self._lock:
                future = self._waiting.pop(answer["id"])
            if "error" in answer:
                future.set_exception(Failed(answer["error"], answer.get("message", "")))
            else:
                future.set_result(answer["ok"])
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_exception(EOFError("the driver ended"))


def environment_of(package: str, more: Optional[Dict[str, str]] = None) -> Dict[str, str]:
    """Returns the environment of a driver's process."""
    found = {**os.environ, "GETID_PACKAGE": package, "GETID_PYTHON": sys.executable, **(more or {})}
    found.pop("GETID_URL", None)
    return found


def build(folder: str, package: str) -> None:
    """Runs a driver without input once, in which it may build. Fails with what it wrote."""
    command = [os.path.join(folder, "command")]
    environment = environment_of(package)
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BUILD_S
    )
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed with status {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
