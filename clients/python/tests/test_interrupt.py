"""Interrupts: an exception of a signal handler at each line of a call leaves a gap, and nothing else."""

from __future__ import annotations

import linecache
import sys
import unittest
import warnings
from pathlib import Path
from typing import Any, Callable
from unittest import mock

from getid import Client, Layout, Unavailable, _source
from getid._clock import TestClock

from .support import CLOSE, GetidTest, no_threads, start

LAYOUT = Layout(time=41, worker=10, counter=2, epoch_ms=1_700_000_000_000)
PACKAGE = str(Path(sys.modules["getid"].__file__ or "").parent)


def interrupted_at(number: int, call: Callable[[], Any]) -> bool:
    """Runs a call, and raises KeyboardInterrupt at a line of the package. Returns whether it has so many lines.

    Where a line only enters or leaves a block, no signal handler runs.
    """
    seen = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).split()
        if event == "line" and line and line[0] not in ("with", "try:", "finally:"):
            seen += 1
            if seen == number:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except (KeyboardInterrupt, Unavailable):
        pass
    finally:
        sys.settrace(before)
    return seen >= number


class TestInterrupts(GetidTest):
    def setUp(self) -> None:
        super().setUp()
        self.clock = self.server.clock = TestClock()
        patch = mock.patch.object(_source, "BACKOFF_FIRST_S", 0.0)
        patch.start()
        self.addCleanup(patch.stop)
        warnings.simplefilter("ignore", ResourceWarning)  # An interrupted connect leaves its socket to the collector.

    def check_client(self, client: Client) -> None:
        self.assertFalse(client._lock.locked())
        self.assertIsNone(client._job)

    def check_sequence(self, replies: tuple[Any, ...] = (), step: int = 1) -> None:
        number, is_inside = 1, True
        while is_inside:
            with self.subTest(number):
                client = self.client(on_event=None)
                sequence = client.sequence("orders", prefetch_max=4)
                values = [sequence.next()]
                values += sequence.take(3)
                self.server.script.extend(replies)
                is_inside = interrupted_at(number, lambda: values.extend(sequence.take(4)))
                self.check_client(client)
                for _ in range(9):
                    values.append(sequence.next())
                self.assertEqual(values, sorted(set(values)))
                self.assertFalse(sequence._waiters)
                is_inside = interrupted_at(number, client.close) or is_inside
                client.close()
            number += step
        self.assertGreater(number, 50)

    def test_of_a_sequence_that_does_the_job_itself(self) -> None:
        with no_threads():
            self.check_sequence(step=3)

    def test_of_a_sequence_after_a_failure(self) -> None:
        with no_threads():
            self.check_sequence((CLOSE,), step=11)

    def test_of_a_sequence_with_the_background_thread(self) -> None:
        number, is_inside = 1, True
        client = self.client(on_event=None)
        sequence = client.sequence("orders", prefetch_max=4)
        values = [sequence.next()]
        while is_inside:
            is_inside = interrupted_at(number, lambda: values.extend(sequence.take(4)))
            values += sequence.take(2)
            number += 1
        self.assertEqual(values, sorted(set(values)))

    def test_of_a_first_call(self) -> None:
        """The one that starts the background thread."""
        number, is_inside = 1, True
        while is_inside:
            client = self.client(on_event=None)
            sequence = client.sequence("orders")
            is_inside = interrupted_at(number, sequence.next)
            sequence.next()
            self.assertTrue(client._thread is not None and client._thread.is_alive())
            client.close()
            number += 1

    def test_of_a_worker(self) -> None:
        number, is_inside = 1, True
        with no_threads():
            while is_inside:
                with self.subTest(number):
                    client = self.client(on_event=None)
                    worker = client.worker("pool", LAYOUT, name="n")
                    ids: list[int] = []
                    is_inside = interrupted_at(number, lambda: ids.extend(worker.take(5)))
                    self.check_client(client)
                    self.clock.shift(mono_ms=2000, wall_ms=2000)
                    ids += [worker.next(), worker.next()]
                    self.clock.shift(mono_ms=10_100, wall_ms=10_100)  # The renewal is overdue.
                    is_inside = interrupted_at(number, lambda: ids.append(worker.next())) or is_inside
                    self.check_client(client)
                    self.clock.shift(mono_ms=2000, wall_ms=2000)
                    ids += worker.take(3)
                    self.assertEqual(ids, sorted(set(ids)))
                    self.server.log.entries.clear()
                    self.assertTrue(client.close())
                    last = int(self.server.wait("RELEASE").split()[-1])
                    self.assertGreaterEqual(last, LAYOUT.parts(ids[-1]).unix_ms)
                number += 1
        self.assertGreater(number, 50)

    def test_of_the_background_threads_wait(self) -> None:
        """A call that waits for the lock of an interrupted one does not hang."""
        client = self.client(on_event=None)
        sequence = client.sequence("orders", prefetch_max=0)
        sequence.next()
        interrupted_at(12, sequence.next)
        self.assertGreater(start(sequence.next)(), 1)


if __name__ == "__main__":
    unittest.main()
