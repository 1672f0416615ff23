"""Sequences: segments, ages, waiting calls, errors and servers."""

from __future__ import annotations

import threading
import unittest
from unittest import mock

from getid import Client, Refused, Sequence, Unavailable, _client, _source

from .support import BOUND_S, CLOSE, GetidTest, no_threads, run_together, span, start, until


class TestSegments(GetidTest):
    def test_nothing_is_sent_before_the_first_use(self) -> None:
        sequence = self.client().sequence("orders")
        self.assertEqual(sequence.stats()["held"], 0)
        self.assertEqual(self.server.connections, 0)
        self.assertEqual(sequence.next(), 1)
        self.assertEqual(self.server.requests, ["SEQUENCE NEXT orders COUNT 17"])

    def test_a_second_segment_is_fetched_at_the_half_and_used_second(self) -> None:
        sequence = self.client().sequence("orders")
        values = sequence.take(1)
        while sequence.stats()["held"] > 9:
            values += [sequence.next()]
        self.assertEqual(len(self.server.requests), 1)
        values += [sequence.next()]  # Half of 17 values or less are left.
        self.server.wait("COUNT 32")
        until(lambda: sequence.stats()["fetches"] == 2)
        self.assertEqual(sequence.stats()["held"], 8 + 32)
        values += [sequence.next() for _ in range(20)]
        self.assertEqual(values, list(range(1, len(values) + 1)))
        self.assertEqual(len(self.server.requests), 2)

    def test_one_fetch_is_under_way(self) -> None:
        sequence = self.client().sequence("orders")
        sequence.warm_up(16)
        self.server.script.append(self.server.gated(None))
        values = [sequence.next() for _ in range(16)]
        self.assertEqual(values, list(range(1, 17)))
        self.server.wait("NEXT", 2)
        self.server.open_gate()
        self.assertEqual(sequence.next(), 17)
        self.assertLessEqual(len(self.server.requests), 3)

    def test_the_prefetch_grows_and_shrinks_by_the_time_between_fetches(self) -> None:
        sequence = self.client().sequence("orders", prefetch_max=100)
        sizes = []
        for pause_ms in (0, 0, 0, 99, 101, 399, 401, 100, 10_000, 30_000, 30_000, 30_000, 30_000, 30_000):
            with sequence._lock:
                sequence._forget()
            self.clock.shift(mono_ms=pause_ms, wall_ms=pause_ms)
            self.server.log.entries.clear()
            # No value of the reply is left over, so no prefetch follows.
            self.server.script.append(lambda arguments: self.server.values(1))
            with mock.patch.object(sequence, "_is_low", lambda: False):
                waiting = start(sequence.next)
                sizes.append(int(self.server.wait("NEXT").split()[-1]) - 1)
                waiting()
                until(lambda: not sequence._has_job)
        self.assertEqual(sizes, [16, 32, 64, 100, 100, 100, 50, 50, 25, 12, 6, 3, 1, 1])

    def test_without_prefetch_the_calls_get_what_they_need(self) -> None:
        sequence = self.client().sequence("orders", prefetch_max=0)
        self.assertEqual([sequence.next(), sequence.next()], [1, 2])
        self.assertEqual(sequence.take(5), [3, 4, 5, 6, 7])
        self.assertEqual([request.split()[-1] for request in self.server.requests], ["1", "1", "5"])
        self.assertIsNone(sequence.try_next())
        until(lambda: sequence.stats()["held"] == 1)
        self.assertEqual(sequence.try_next(), 8)

    def test_steps_and_few_values(self) -> None:
        self.server.step = 5
        sequence = self.client().sequence("orders")
        self.server.script.append(span(5, 10, 5))
        self.server.value = 10
        self.assertEqual(sequence.take(4), [5, 10, 15, 20])
        self.server.script.extend([span(1000, 1000), span(0, 0)])
        self.assertEqual(self.client().sequence("zero", prefetch_max=0).next(), 1000)
        self.assertEqual(self.client().sequence("zero", prefetch_max=0).next(), 0)

    def test_take_spans_segments(self) -> None:
        sequence = self.client().sequence("orders")
        sequence.warm_up(10)
        values = sequence.take(100) + sequence.take(1000) + [sequence.next()]
        self.assertEqual(values, list(range(1, 1102)))
        self.assertEqual(sequence.stats()["values"], 1101)

    def test_ranges_of_unexpected_form_close_the_connection(self) -> None:
        wrong = [
            span(1, 18),
            span(1, 2, 0),
            span(1, 2, -1),
            span(5, 4),
            span(-1, 3),
            span(1, 4, 2),
            b"*2\r\n:1\r\n:2\r\n",
            b"*3\r\n$1\r\n1\r\n$1\r\n2\r\n:1\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"+OK\r\n",
            b":5\r\n",
            b"*3\r\n:1\r\n:2\r\n:1\r\n:9\r\n",
            (b"*3\r\n:1\r\n:2",),
            (b"",),
        ]
        for reply in wrong:
            with self.subTest(reply):
                client = self.client()
                before = self.server.connections
                self.server.script.append(reply)
                waiting = start(client.sequence("orders").next)
                self.events.wait_event("fetch_failed")
                self.clock.shift(mono_ms=10)
                self.assertGreater(waiting(), 0)
                self.assertEqual(self.server.connections, before + 2)
                self.events.entries.clear()


class TestAges(GetidTest):
    def drawn_after(self, wall_ms: int, mono_ms: int, hold: float = 60.0) -> int:
        """Returns the value that is given some time after the request of 1 to 17 was sent."""
        self.server.value = 0
        sequence = self.client().sequence("orders", hold=hold)
        self.assertEqual(sequence.next(), 1)
        self.clock.shift(wall_ms=wall_ms, mono_ms=mono_ms)
        return sequence.next()

    def test_age_is_the_larger_of_both_clocks(self) -> None:
        cases = {
            (59_999, 59_999): 2,
            (60_000, 59_999): 18,
            (59_999, 60_000): 18,
            (0, 60_000): 18,
            (60_000, 1): 18,
            (3_600_000, 1): 18,
            (0, 3_600_000): 18,
        }
        for (wall_ms, mono_ms), value in cases.items():
            with self.subTest(wall=wall_ms, mono=mono_ms):
                self.assertEqual(self.drawn_after(wall_ms, mono_ms), value)
        self.assertEqual(self.drawn_after(9, 9, hold=0.01), 2)
        self.assertEqual(self.drawn_after(10, 10, hold=0.01), 18)

    def test_a_wall_clock_that_goes_back_drops(self) -> None:
        self.assertEqual(self.drawn_after(-1, 1), 18)
        self.assertEqual(self.drawn_after(-3_600_000, 10), 18)

    def test_each_call_compares_an_age(self) -> None:
        """The hold ends inside the millisecond for which the fast path is prepared."""
        sequence = self.client().sequence("orders")
        self.assertEqual(sequence.next(), 1)
        self.clock.shift(wall_ms=59_999, mono_ms=59_999)
        self.assertEqual(sequence.next(), 2)
        self.clock.shift(mono_ms=1)
        self.assertEqual(sequence.next(), 18)
        self.assertEqual(sequence.stats()["dropped"], 15)

    def test_the_age_begins_when_the_request_is_sent(self) -> None:
        """A reply that comes after the hold is not used: the process was paused."""
        sequence = self.client().sequence("orders")
        self.server.script.append(lambda _: self.clock.shift(wall_ms=60_000, mono_ms=60_000))
        waiting = start(sequence.next)
        self.pass_wait(sequence, 1)
        self.assertEqual(waiting(), 18)
        self.assertEqual(sequence.stats()["dropped"], 17)

    def test_fetches_longer_than_the_hold_wait_and_are_named(self) -> None:
        """A hold that no fetch keeps costs the server a request now and then, not one after the other."""
        sequence = self.client(timeout=1).sequence("orders", hold=0.01)
        self.server.script.append(lambda _: self.clock.shift(wall_ms=10, mono_ms=10))
        with self.assertRaisesRegex(Unavailable, "a fetch took 0.01 s, and values are held for 0.01 s"):
            sequence.next()
        self.assertEqual(len(self.server.requests), 1)

    def pass_wait(self, sequence: Sequence, requests: int) -> None:
        """Lets the wait of 10 ms pass that follows a range that was dropped."""
        self.server.wait("NEXT", requests)
        until(lambda: not sequence._has_job and sequence._due is not None)
        self.assertEqual(self.due_in(sequence), 0.01)
        self.clock.shift(mono_ms=10)

    def test_values_that_a_call_collects_are_dropped_too(self) -> None:
        sequence = self.client().sequence("orders")
        sequence.warm_up(5)
        self.server.script.append(lambda _: self.clock.shift(wall_ms=60_000, mono_ms=60_000))
        waiting = start(lambda: sequence.take(30))
        self.pass_wait(sequence, 2)
        values = waiting()
        self.assertEqual(len(values), 30)
        self.assertGreater(values[0], 16)

    def test_second_segment_has_its_own_age(self) -> None:
        sequence = self.client().sequence("orders")
        sequence.warm_up(16)
        self.clock.shift(wall_ms=30_000, mono_ms=30_000)
        sequence.take(10)
        until(lambda: sequence.stats()["fetches"] == 2)
        self.clock.shift(wall_ms=30_000, mono_ms=30_000)
        self.assertEqual(sequence.next(), 17)


class TestFresh(GetidTest):
    def test_a_value_serves_only_calls_that_waited_when_its_request_was_sent(self) -> None:
        sequence = self.client().sequence("serial", fresh=True)
        late = []

        def reply(arguments: list[str]) -> bytes:
            late.append(start(sequence.next))
            until(lambda: len(sequence._waiters) == 2)
            return span(1, 1)

        self.server.script.append(reply)
        self.server.value = 1
        self.assertEqual(sequence.next(), 1)
        self.assertEqual(late[0](), 2)
        self.assertEqual(len(self.server.requests), 2)

    def test_a_value_of_an_abandoned_call_serves_no_later_call(self) -> None:
        sequence = self.client().sequence("serial", fresh=True)
        self.server.script.append(self.server.gated(None))
        first = start(lambda: sequence.next(timeout=0.2))
        self.server.wait("COUNT 1")
        late = start(sequence.next)
        with self.assertRaises(Unavailable):
            first()
        self.server.open_gate()
        self.assertEqual(late(), 2)

    def test_waiting_calls_share_a_fetch(self) -> None:
        sequence = self.client().sequence("serial", fresh=True)
        self.server.script.append(self.server.gated(None))
        first = start(sequence.next)
        self.server.wait("COUNT 1")
        others = [start(sequence.next) for _ in range(5)]
        until(lambda: len(sequence._waiters) == 6)
        self.server.open_gate()
        self.assertEqual(first(), 1)
        self.assertEqual(sorted(join() for join in others), [2, 3, 4, 5, 6])
        self.assertEqual(self.server.requests[1:], ["SEQUENCE NEXT serial COUNT 5"])

    def test_values_of_an_abandoned_call_are_dropped(self) -> None:
        sequence = self.client().sequence("serial", fresh=True)
        self.server.script.append(self.server.gated(None))
        with self.assertRaises(Unavailable):
            sequence.next(timeout=0.01)
        self.server.open_gate()
        until(lambda: sequence.stats()["dropped"] == 1)
        self.assertIsNone(sequence.try_next())
        sequence.warm_up(100)
        self.assertEqual(sequence.next(), 2)


class TestCalls(GetidTest):
    def test_the_values_of_a_call_that_timed_out_are_kept(self) -> None:
        sequence = self.client().sequence("orders")
        self.server.script.append(self.server.gated(None))
        with self.assertRaisesRegex(Unavailable, r"sequence 'orders' within 0.01 s.*127.0.0.1:\d+"):
            sequence.next(timeout=0.01)
        self.server.open_gate()
        self.assertEqual(sequence.next(), 1)
        self.assertEqual(len(self.server.requests), 1)

    def test_waiting_calls_are_served_in_their_order(self) -> None:
        sequence = self.client().sequence("orders", prefetch_max=0)
        self.server.script.append(self.server.gated(None))
        joins = []
        for number in range(1, 6):
            joins.append(start(lambda: sequence.take(3)))
            until(lambda: len(sequence._waiters) == number)
        self.server.open_gate()
        self.assertEqual([join() for join in joins], [[n, n + 1, n + 2] for n in range(1, 16, 3)])

    def test_too_many_calls(self) -> None:
        sequence = self.client().sequence("orders")
        self.server.script.append(self.server.gated(None))
        with mock.patch.object(_source, "WAITERS_MAX", 2):
            joins = [start(sequence.next), start(sequence.next)]
            until(lambda: len(sequence._waiters) == 2)
            with self.assertRaisesRegex(Unavailable, "2 calls wait"):
                sequence.next()
        self.server.open_gate()
        self.assertEqual(sorted(join() for join in joins), [1, 2])

    def test_try_next_starts_the_fetch(self) -> None:
        sequence = self.client().sequence("orders")
        self.assertIsNone(sequence.try_next())
        self.server.wait("COUNT 16")
        until(lambda: sequence.stats()["held"] == 16)
        self.assertEqual([sequence.try_next(), sequence.next(), next(sequence)], [1, 2, 3])
        self.assertEqual([value for value, _ in zip(sequence, range(3))], [4, 5, 6])

    def test_warm_up(self) -> None:
        sequence = self.client().sequence("orders", prefetch_max=10)
        sequence.warm_up(5000)
        self.assertGreaterEqual(sequence.stats()["held"], 5000)
        requests = len(self.server.requests)
        sequence.warm_up(5000)
        self.assertEqual(len(self.server.requests), requests)
        self.assertEqual(sequence.stats()["values"], 0)
        self.assertEqual(sequence.next(), 1)

    def test_arguments(self) -> None:
        client = self.client()
        sequence = client.sequence("orders")
        wrong = [
            lambda: sequence.take(0),
            lambda: sequence.take(1_000_001),
            lambda: sequence.take(1.0),
            lambda: sequence.take(True),
            lambda: sequence.next(-1),
            lambda: sequence.next(86_401),
            lambda: sequence.next(float("nan")),
            lambda: sequence.next("1"),
            lambda: sequence.warm_up(0),
            lambda: client.sequence(""),
            lambda: client.sequence("a" * 129),
            lambda: client.sequence("\ud800"),
            lambda: client.sequence(b"a"),
            lambda: client.sequence("a", hold=0.009),
            lambda: client.sequence("a", hold=60.1),
            lambda: client.sequence("a", prefetch_max=-1),
            lambda: client.sequence("a", prefetch_max=10_000_001),
            lambda: client.sequence("a", fresh=1),
            lambda: client.sequence("orders", hold=5),
            lambda: Client("getid://a", timeout=-1),
            lambda: Client("getid://a", on_event=5),
            lambda: Client("getid://a", tls=mock.Mock()),
        ]
        for number, call in enumerate(wrong):
            with self.subTest(number), self.assertRaises((ValueError, TypeError)) as caught:
                call()
            self.assertRegex(str(caught.exception), "must|use the same")
        self.assertIs(client.sequence("orders"), sequence)
        self.assertEqual(self.server.connections, 0)

    def test_threads(self) -> None:
        sequence = self.client(clock=None).sequence("orders")

        def draw() -> list[int]:
            return [sequence.next() for _ in range(3000)] + sequence.take(500)

        results = run_together(*[draw] * 8)
        for values in results:
            self.assertEqual(values, sorted(values))
        self.assertEqual(len({value for values in results for value in values}), 8 * 3500)
        self.assertEqual(sequence.stats()["values"], 8 * 3500)


class TestErrors(GetidTest):
    def failing(self, *replies: object) -> tuple:
        self.server.script.extend(replies)
        sequence = self.client().sequence("orders", prefetch_max=0)
        waiting = start(sequence.next)
        return sequence, waiting

    def test_a_wait_of_10_ms_doubles_to_a_second(self) -> None:
        for reply in (
            b"-BUSY x\r\n",
            b"-TRYAGAIN x\r\n",
            b"-EXHAUSTED x\r\n",
            b"-MISCONF x\r\n",
            CLOSE,
            b"-ERR max number of clients reached\r\n",
        ):
            with self.subTest(reply):
                self.events.entries.clear()
                sequence, waiting = self.failing(*[reply] * 9)
                for count, wait_ms in enumerate((10, 20, 40, 80, 160, 320, 640, 1000, 1000), 1):
                    self.events.wait_event("fetch_failed", count)
                    self.assertEqual(self.due_in(sequence), wait_ms / 1000)
                    self.clock.shift(mono_ms=wait_ms)
                self.assertGreater(waiting(), 0)
                self.assertEqual(sequence.stats()["failures"], 9)

    def test_a_server_without_room_for_another_connection(self) -> None:
        """The server closes the connection behind its error."""
        self.server.script.append((b"-ERR max number of clients reached\r\n",))
        waiting = start(self.client().sequence("orders").next)
        self.events.wait_event("fetch_failed")
        self.clock.shift(mono_ms=10)
        self.assertEqual(waiting(), 1)
        self.assertEqual(self.server.connections, 2)

    def test_loading_is_polled(self) -> None:
        sequence, waiting = self.failing(*[b"-LOADING x\r\n"] * 3)
        for count in range(1, 4):
            self.events.wait_event("fetch_failed", count)
            self.assertEqual(self.due_in(sequence), 0.2)
            self.clock.shift(mono_ms=200)
        self.assertEqual(waiting(), 1)
        self.assertEqual(self.server.connections, 1)

    def test_refused_at_once_and_to_all_waiting_calls(self) -> None:
        self.server.script.append(self.server.gated(b"-NOPERM no right\r\n"))
        sequence = self.client().sequence("orders")
        joins = [start(sequence.next) for _ in range(3)]
        until(lambda: len(sequence._waiters) == 3)
        self.server.open_gate()
        for join in joins:
            with self.assertRaisesRegex(Refused, "sequence 'orders'.*NOPERM no right") as caught:
                join()
            self.assertEqual(caught.exception.code, "NOPERM")
        self.assertEqual(len(self.server.requests), 1)
        self.assertEqual(sequence.next(), 1)

    def test_a_prefetch_is_not_retried_and_the_next_call_starts_it(self) -> None:
        sequence = self.client().sequence("orders")
        sequence.warm_up(16)
        self.server.script.append(b"-BUSY x\r\n")
        sequence.take(8)
        self.events.wait_event("fetch_failed")
        self.assertIsNone(self.due_in(sequence))
        self.assertEqual(sequence.next(), 9)
        self.assertEqual(self.due_in(sequence), 0.01)
        self.clock.shift(mono_ms=10)
        self.server.wait("NEXT", 3)

    def test_unavailable_names_the_last_failure(self) -> None:
        self.server.script.append(b"-MISCONF the disk is full\r\n")
        sequence = self.client().sequence("orders")
        for count, text in enumerate(("MISCONF the disk is full", "the server closed the connection", ".*efused"), 1):
            sequence.try_next()
            self.clock.shift(mono_ms=1000)
            self.events.wait_event("fetch_failed", count)
            with self.assertRaisesRegex(Unavailable, f"within 0 s: .*127.0.0.1:{self.server.port}: {text}"):
                sequence.next(timeout=0)
            self.server.close()
            self.clock.shift(mono_ms=1000)

    def test_login(self) -> None:
        url = f"getid://us%20er:se%3Acret@127.0.0.1:{self.server.port}"
        self.assertEqual(self.client(url).sequence("orders").next(), 1)
        self.assertEqual(self.server.requests[0], "AUTH us er se:cret")
        self.server.script.append(b"-WRONGPASS invalid\r\n")
        with self.assertRaises(Refused) as caught:
            self.client(url).sequence("orders").next()
        self.assertEqual(caught.exception.code, "WRONGPASS")
        self.assertNotIn("cret", str(caught.exception) + str(self.events.entries))


class TestServers(GetidTest):
    def test_after_a_change_values_are_above_the_last(self) -> None:
        sequence = self.client().sequence("orders", prefetch_max=0)
        self.assertEqual(sequence.take(5)[-1], 5)
        self.server.script.extend([CLOSE, None, None])
        waiting = start(sequence.next)
        self.events.wait_event("fetch_failed")
        self.clock.shift(mono_ms=10)
        self.assertEqual(waiting(), 6)
        self.assertEqual(sequence.next(), 7)
        self.assertEqual(
            [request.partition("COUNT ")[2] for request in self.server.requests if "NEXT" in request],
            ["5", "1", "1 ABOVE 5", "1"],
        )

    def test_values_that_are_not_above_are_dropped(self) -> None:
        sequence = self.client().sequence("orders", prefetch_max=4)
        self.assertEqual(sequence.take(10)[-1], 10)
        until(lambda: sequence.stats()["held"] >= 4 and not sequence._has_job)
        newest = sequence._newest
        with sequence._lock:
            sequence._forget()
        self.server.script.append(span(newest - 2, newest + 1))
        self.assertEqual(sequence.next(), newest + 1)

    def test_a_range_that_is_dropped_whole_is_followed_by_a_wait(self) -> None:
        sequence = self.client().sequence("orders", prefetch_max=0)
        self.assertEqual(sequence.take(50)[-1], 50)
        self.server.script.extend([span(number, number) for number in range(1, 10)])
        waiting = start(sequence.next)
        for count, wait_ms in enumerate((10, 20, 40, 80, 160, 320, 640, 1000, 1000), 2):
            self.server.wait("NEXT", count)
            until(lambda: not sequence._has_job and sequence._due is not None)
            self.assertEqual(self.due_in(sequence), wait_ms / 1000)
            self.clock.shift(mono_ms=wait_ms)
        self.assertEqual(waiting(), 51)
        self.assertIn("ABOVE 50", self.server.requests[-1])
        self.assertEqual(sequence.stats()["dropped"], 9)

    def test_the_next_address_is_tried_at_once(self) -> None:
        for reply in (b"-MISCONF x\r\n", b"-LOADING x\r\n", CLOSE, b"-ERR max number of clients reached\r\n"):
            with self.subTest(reply):
                other = self.make_server()
                other.value = 100
                self.server.script.append(reply)
                url = f"{self.server.url},127.0.0.1:{other.port}?order=given"
                client = self.client(url)
                self.assertEqual(client.sequence("orders").next(), 101)
                self.assertEqual(client.sequence("others").next(), 118)

    def test_a_failed_connect(self) -> None:
        dead = self.make_server()
        dead.close()
        url = f"getid://127.0.0.1:{dead.port},127.0.0.1:{self.server.port}?order=given"
        self.assertEqual(self.client(url).sequence("orders").next(), 1)

    def test_loading_everywhere_and_a_dead_one(self) -> None:
        other = self.make_server()
        url = f"{self.server.url},127.0.0.1:{other.port}?order=given"
        for last, wait in ((b"-LOADING x\r\n", 0.2), (b"-MISCONF x\r\n", 0.01)):
            self.server.script.append(b"-LOADING x\r\n")
            other.script.append(last)
            self.events.entries.clear()
            sequence = self.client(url).sequence("orders")
            waiting = start(sequence.next)
            self.events.wait_event("fetch_failed", 2)
            self.assertEqual(self.due_in(sequence), wait)
            self.clock.shift(mono_ms=200)
            waiting()

    def test_an_object_that_fails_does_not_make_another_one_hurry(self) -> None:
        """Replies to one object do not clear what another one has tried."""
        other = self.make_server()
        client = self.client(f"{self.server.url},127.0.0.1:{other.port}?order=given")
        good, bad = client.sequence("good", prefetch_max=0), client.sequence("bad", prefetch_max=0)
        self.server.script.append(b"-MISCONF x\r\n")
        other.script.append(b"-MISCONF x\r\n")
        waiting = start(bad.next)
        self.events.wait_event("fetch_failed", 2)
        good.next()
        self.assertEqual(self.due_in(bad), 0.01)
        self.clock.shift(mono_ms=10)
        waiting()

    def test_tcp_unix_socket_and_path_with_blank(self) -> None:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            self.make_server(path=f"{folder}/g d")
            self.assertEqual(self.client(f"getid+unix://{folder}/g%20d").sequence("orders").next(), 1)


class TestThreads(GetidTest):
    def test_without_a_background_thread_the_call_does_the_job(self) -> None:
        with no_threads():
            client = self.client()
            sequence = client.sequence("orders", prefetch_max=4)
            self.assertEqual([sequence.next() for _ in range(20)], list(range(1, 21)))
            self.server.script.append(b"-NOPERM x\r\n")
            with self.assertRaises(Refused):
                client.sequence("other").next()

    def test_a_background_thread_that_does_not_run_is_replaced_by_the_call(self) -> None:
        frozen = threading.Event()
        self.addCleanup(frozen.set)
        with mock.patch.object(_client, "_background", lambda reference, signal: frozen.wait(BOUND_S)):
            sequence = self.client().sequence("orders")
            self.assertEqual(sequence.next(), 1)
            values = [sequence.next() for _ in range(16)]
            self.clock.shift(mono_ms=51)  # The prefetch is overdue.
            values.append(sequence.next())
            self.assertEqual(values, list(range(2, 19)))

    def test_an_interrupt_in_the_job_closes_the_connection(self) -> None:
        with no_threads():
            sequence = self.client().sequence("orders")
            with mock.patch.object(_client.Connection, "_read_more", side_effect=KeyboardInterrupt):
                with self.assertRaises(KeyboardInterrupt):
                    sequence.next()
            self.server.log.wait(lambda entry: entry[1] == "END")
            self.assertFalse(sequence._waiters)
            self.clock.shift(mono_ms=1000)
            self.assertEqual(sequence.next(), 18)

    def test_an_interrupt_in_the_wait_leaves_no_waiter(self) -> None:
        sequence = self.client().sequence("orders")
        self.server.script.append(self.server.gated(None))
        with mock.patch.object(_source.Waiter, "wait", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                sequence.next()
        self.assertFalse(sequence._waiters)
        self.server.open_gate()
        self.assertEqual(sequence.next(), 1)

    def test_no_lock_is_held_while_the_server_replies(self) -> None:
        sequence = self.client().sequence("orders")

        def reply(_: object) -> None:
            self.assertTrue(sequence._lock.acquire(timeout=BOUND_S))
            sequence._lock.release()

        self.server.script.append(reply)
        self.assertEqual(sequence.next(), 1)


if __name__ == "__main__":
    unittest.main()
