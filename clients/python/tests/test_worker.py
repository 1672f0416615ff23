"""Workers: time of IDs, renewals, clocks that are wrong, leases that are lost."""

from __future__ import annotations

import random
import unittest

from getid import ClockError, Closed, Layout, Refused, Unavailable
from getid._worker import Lease, holder_name

from .support import CLOSE, MS, NOW_MS, GetidTest, lease, no_threads, start, until

COARSE = Layout(time=39, worker=16, counter=2, unit_ms=10, epoch_ms=NOW_MS - 1_000_003, counter_first=True)


class WorkerTest(GetidTest):
    def worker(self, layout: Layout = MS, **options):
        return self.client().worker("pool", layout, name="n", **options)

    def move(self, ms: int) -> None:
        self.clock.shift(wall_ms=ms, mono_ms=ms)


class TestTime(WorkerTest):
    def test_first_ids(self) -> None:
        worker = self.worker(ttl=30)
        self.assertEqual(self.server.connections, 0)
        ids = [worker.next() for _ in range(3)] + worker.take(2)
        self.assertEqual([MS.parts(id) for id in ids], [(NOW_MS, 7, counter) for counter in range(5)])
        self.assertEqual(self.server.requests, ["WORKERID LEASE pool NAME n TTL 30"])
        self.move(5)
        self.assertEqual(MS.parts(worker.next()), (NOW_MS + 5, 7, 0))

    def test_a_full_counter_takes_the_next_unit(self) -> None:
        worker = self.worker()
        parts = [MS.parts(id) for id in worker.take(4096 * 2 + 1)]
        self.assertEqual(parts[4095], (NOW_MS, 7, 4095))
        self.assertEqual(parts[4096], (NOW_MS + 1, 7, 0))
        self.assertEqual(parts[-1], (NOW_MS + 2, 7, 0))
        self.move(1)
        self.assertEqual(MS.parts(worker.next()), (NOW_MS + 2, 7, 1))

    def test_a_clock_that_goes_back(self) -> None:
        worker = self.worker()
        first = worker.next()
        self.clock.shift(wall_ms=-3_600_000)
        self.assertEqual(MS.parts(worker.next()), (NOW_MS, 7, 1))
        self.assertLess(first, worker.next())

    def test_not_before_is_ahead_of_the_clock(self) -> None:
        self.server.script.append(lease(3, NOW_MS + 500, NOW_MS + 30_000))
        self.assertEqual(MS.parts(self.worker().next()), (NOW_MS + 500, 3, 0))

    def test_coarse_units_are_used_only_if_the_lease_covers_them(self) -> None:
        for begin, end in ((0, 95), (4, 100), (9, 101), (3, 104), (7, 107), (8, 108)):
            with self.subTest(begin=begin, end=end):
                self.server.script.append(lease(3, NOW_MS + begin, NOW_MS + end))
                worker = self.worker(COARSE)
                ids = []
                id = worker.next()
                self.server.script.extend([b"-BUSY x\r\n"] * 5)
                while id is not None:
                    ids.append(id)
                    id = worker.try_next()
                units = sorted({COARSE.parts(id).unix_ms for id in ids})
                self.assertEqual(units, list(range(units[0], units[-1] + 1, 10)))
                self.assertTrue(NOW_MS + begin <= units[0] < NOW_MS + begin + 10)
                self.assertTrue(NOW_MS + end - 10 < units[-1] + 10 <= NOW_MS + end)
                self.assertEqual(len(ids), 4 * len(units))
                self.assertEqual(worker._last(), units[-1] + 9)
                self.server.script.clear()
                worker._client.close(0)

    def test_at_not_after_it_stops(self) -> None:
        worker = self.worker()
        worker.next()
        self.clock.shift(wall_ms=29_999)
        self.server.script.extend([CLOSE] * 20)
        self.assertEqual(MS.parts(worker.next()).unix_ms, NOW_MS + 29_999)
        for _ in range(4095):
            worker.next()
        self.assertIsNone(worker.try_next())
        with self.assertRaises(Unavailable):
            worker.next(timeout=0.01)

    def test_a_new_lease_starts_above_the_newest_unit(self) -> None:
        worker = self.worker()
        newest = worker.take(5000)[-1]
        worker._client.discard()
        self.server.script.append(lease(3, NOW_MS - 5, NOW_MS + 30_000))
        self.assertEqual(MS.parts(worker.next()), (NOW_MS + 2, 3, 0))
        self.assertGreater(worker.next(), newest)

    def test_an_id_that_does_not_fit_is_released(self) -> None:
        self.server.worker_id = 1024
        worker = self.worker()
        with self.assertRaisesRegex(Refused, "worker id 1024.*10 bits.*size 1024"):
            worker.next()
        self.server.wait(f"WORKERID RELEASE pool 1024 {'t' * 32} LAST {NOW_MS - 1}")
        self.server.worker_id = 1023
        self.assertEqual(MS.parts(worker.next()).worker, 1023)

    def test_an_id_that_does_not_fit_is_released_without_a_background_thread(self) -> None:
        self.server.worker_id = 1024
        with no_threads():
            worker = self.worker()
            with self.assertRaises(Refused):
                worker.next()
            self.assertIn("RELEASE", self.server.requests[-1])

    def test_the_layouts_time_ends(self) -> None:
        worker = self.worker(Layout(time=10, worker=10, counter=12, epoch_ms=NOW_MS - 1024))
        with self.assertRaisesRegex(Refused, "time of the layout ended"):
            worker.next()

    def test_random_histories(self) -> None:
        """Clocks that jump, against the rule: a unit inside the lease, ascending, none twice."""
        seed = random.SystemRandom().randrange(1 << 32)
        chance = random.Random(seed)
        for layout in (MS, COARSE):
            worker = self.worker(layout)
            newest = -1
            for _ in range(150):
                self.clock.shift(wall_ms=chance.choice([0, 1, 7, 40, -30, -900]), mono_ms=chance.choice([0, 1, 9]))
                for _ in range(chance.choice([1, 3, 30])):
                    id = worker.next()
                    self.assertGreater(id, newest, f"seed {seed}")
                    newest, begin = id, layout.parts(id).unix_ms
                    lease = worker._lease
                    self.assertGreaterEqual(begin, lease.not_before, f"seed {seed}")
                    self.assertLess(begin + layout.unit_ms - 1, lease.not_after, f"seed {seed}")
            worker._client.close(0)


class TestRenewal(WorkerTest):
    def test_after_a_third_of_the_lease(self) -> None:
        self.server.script.append(lease(3, NOW_MS, NOW_MS + 60_000, 30_000))
        self.server.end = NOW_MS + 60_000
        worker = self.worker()
        worker.next()
        self.events.wait_event("leased")
        self.assertEqual(self.due_in(worker), 10.0)
        self.move(10_000)
        self.assertEqual(self.server.wait("RENEW"), f"WORKERID RENEW pool 3 {'t' * 32} LAST {NOW_MS}")
        self.events.wait_event("renewed")
        self.assertEqual(self.due_in(worker), 10.0)
        self.assertEqual(worker.stats()["renewals"], 1)

    def test_not_before_a_second(self) -> None:
        self.server.script.append(lease(3, NOW_MS, NOW_MS + 1000, 1000))
        worker = self.worker()
        worker.next()
        self.events.wait_event("leased")
        self.assertEqual(self.due_in(worker), 1.0)

    def test_last_of_a_lease_without_ids_and_of_a_coarse_unit(self) -> None:
        worker = self.worker()
        worker.warm_up()
        self.move(10_000)
        self.server.wait(f"LAST {NOW_MS - 1}")
        coarse = self.client().worker("coarse", COARSE, name="n")
        self.move(20_000)
        begin = COARSE.parts(coarse.next()).unix_ms
        self.events.wait_event("leased", 2)
        self.move(10_000)
        self.server.wait(f"RENEW coarse 7 {'t' * 32} LAST {begin + 9}")

    def test_a_clock_that_is_set_is_followed_by_a_renewal(self) -> None:
        for jump_ms in (5000, -5000):
            with self.subTest(jump_ms):
                worker = self.worker()
                worker.next()
                self.events.wait_event("leased")
                self.clock.shift(wall_ms=900 if jump_ms > 0 else -900)
                worker.next()
                self.assertEqual(self.due_in(worker), 10.0)
                self.clock.shift(wall_ms=jump_ms)
                before = len(self.server.requests)
                worker.next()
                self.server.log.wait(lambda entry: "RENEW" in entry[1])
                until(lambda: worker.stats()["renewals"] == 1)
                self.assertEqual(len(self.server.requests), before + 1)
                self.server.log.entries.clear()
                self.events.entries.clear()

    def test_a_failed_renewal_is_retried_until_the_lease_ends(self) -> None:
        worker = self.worker()
        worker.next()
        self.events.wait_event("leased")
        self.server.script.extend([b"-MISCONF x\r\n", CLOSE, b"-BUSY x\r\n"] + [b"-MISCONF x\r\n"] * 100)
        self.move(10_000)
        for count in range(1, 20):
            self.events.wait_event("renew_failed", count)
            self.assertEqual(self.due_in(worker), 1.0)
            self.move(1000)
        self.events.wait_event("renew_failed", 20)
        self.assertEqual(self.due_in(worker), 1.0)
        self.move(1000)
        self.events.wait_event("renew_failed", 21)
        self.assertIsNone(self.due_in(worker))

    def test_a_renewal_without_a_connection(self) -> None:
        """Its event is that of a renewal, although no request was made."""
        self.server.close()
        other = self.client().worker("pool", MS, name="n")
        other._lease, other._job = Lease(7, b"t", NOW_MS, NOW_MS + 60_000, 30_000), "LEASE"
        other._set_end()
        with other._lock:
            other._want_now()
        other._client._kick()
        self.events.wait_event("renew_failed")

    def test_a_lost_lease_is_used_to_its_end(self) -> None:
        for code in (b"EXPIRED", b"REVOKED", b"WRONGTOKEN"):
            with self.subTest(code):
                worker = self.worker()
                worker.next()
                self.events.wait_event("leased")
                self.server.script.append(b"-" + code + b" x\r\n")
                self.move(10_000)
                self.events.wait_event("lease_lost")
                self.assertIsNone(self.due_in(worker))
                self.assertEqual(MS.parts(worker.next()).worker, 7)
                self.move(20_000)
                self.server.worker_id = 8
                self.assertEqual(MS.parts(worker.next()).worker, 8)
                self.assertEqual(sum("RENEW" in request for request in self.server.requests), 1)
                self.server.worker_id = 7
                self.events.entries.clear()
                self.server.log.entries.clear()
                worker._client.close(0)

    def test_after_a_pause_the_lease_is_not_used(self) -> None:
        """SIGSTOP for longer than the lease: both clocks move, no thread ran."""
        worker = self.worker()
        newest = worker.next()
        self.server.script.append(b"-EXPIRED over\r\n")
        self.move(60_000)
        self.server.worker_id = 9
        id = worker.next()
        self.assertEqual(MS.parts(id), (NOW_MS + 60_000, 9, 0))
        self.assertGreater(id, newest)

    def test_a_shorter_end_is_unexpected(self) -> None:
        worker = self.worker()
        worker.next()
        self.events.wait_event("leased")
        self.server.script.append(b"*1\r\n:%d\r\n" % (NOW_MS + 29_999))
        self.move(10_000)
        self.events.wait_event("renew_failed")
        self.assertEqual(worker.stats()["not_after_ms"], NOW_MS + 30_000)

    def test_replies_of_unexpected_form(self) -> None:
        good = [7, b"t", NOW_MS, NOW_MS + 30_000, 30_000]
        wrong = [
            good[:4],
            [-1, *good[1:]],
            [7, b"", *good[2:]],
            [7, 5, *good[2:]],
            [7, b"t", 5, 5, 1],
            [7, b"t", 5, 1 << 51, 1],
            "OK",
            None,
            [],
        ]
        worker = self.worker()
        for reply in wrong:
            with self.subTest(reply), self.assertRaisesRegex(Exception, "unexpected") as caught:
                worker._parse_lease(reply)
            self.assertNotIn("b't'", str(caught.exception))

    def test_without_a_background_thread(self) -> None:
        with no_threads():
            worker = self.worker()
            worker.next()
            self.move(10_051)  # The renewal is overdue.
            worker.next()
            self.assertEqual(worker.stats()["renewals"], 1)


class TestClock(WorkerTest):
    def test_a_clock_ahead_of_the_first_lease(self) -> None:
        """An hour ahead: RENEW with clock - 1 is refused, RENEW with the real LAST changes nothing."""
        end = NOW_MS + 30_000
        self.clock.shift(wall_ms=3_600_000)
        self.server.script.extend([lease(3, NOW_MS, end), b"-ERR LAST is too far\r\n", b"*1\r\n:%d\r\n" % (end + 5)])
        with self.assertRaisesRegex(ClockError, "3569.995 s ahead") as caught:
            self.worker().next()
        self.assertEqual(caught.exception.difference_ms, 3_569_995)
        token = "t" * 32
        self.assertEqual(
            self.server.requests[1:],
            [
                f"WORKERID RENEW pool 3 {token} LAST {NOW_MS + 3_600_000 - 1}",
                f"WORKERID RENEW pool 3 {token} LAST {NOW_MS - 1}",
            ],
        )
        self.assertEqual(self.events.wait_event("clock").difference_ms, 3_569_995)

    def test_warm_up_finds_it_too(self) -> None:
        self.clock.shift(wall_ms=100_000)
        self.server.script.extend([lease(3, NOW_MS, NOW_MS + 30_000), b"*1\r\n:%d\r\n" % (NOW_MS + 100_000)])
        with self.assertRaises(ClockError):
            self.worker().warm_up()

    def test_a_clock_ahead_that_the_server_accepts(self) -> None:
        self.clock.shift(wall_ms=40_000)
        self.server.script.append(lease(3, NOW_MS, NOW_MS + 30_000))
        self.assertEqual(MS.parts(self.worker().next()).unix_ms, NOW_MS + 40_000)
        self.assertIn(f"LAST {NOW_MS + 39_999}", self.server.requests[1])

    def test_an_end_at_the_clock_is_no_help(self) -> None:
        """The server gives not_after = LAST + 1, which is the clock, past `longest`."""
        self.clock.shift(wall_ms=100_000)
        self.server.script.extend([lease(3, NOW_MS, NOW_MS + 30_000), b"*1\r\n:%d\r\n" % (NOW_MS + 100_000)])
        worker = self.worker()
        with self.assertRaises(ClockError) as caught:
            worker.next()
        self.assertEqual(caught.exception.difference_ms, 70_000)
        self.assertEqual(worker.stats()["clock_ahead_ms"], 70_000)

    def test_at_most_one_renewal_a_second_and_the_clock_set_right(self) -> None:
        self.clock.shift(wall_ms=100_000)
        ends = [lease(3, NOW_MS, NOW_MS + 30_000)] + [b"*1\r\n:%d\r\n" % (NOW_MS + 100_000)]
        self.server.script.extend(ends)
        worker = self.worker()
        with self.assertRaises(ClockError):
            worker.next()
        self.assertIsNone(worker.try_next())
        self.assertEqual(self.due_in(worker), 1.0)
        self.clock.shift(wall_ms=-100_000)
        self.assertEqual(MS.parts(worker.next()).unix_ms, NOW_MS)


class TestLease(WorkerTest):
    def test_retries_cost_no_ids(self) -> None:
        for reply in (CLOSE, b"-MISCONF x\r\n", b"-EXHAUSTED x\r\n", b"-TRYAGAIN x\r\n", b"+what\r\n"):
            with self.subTest(reply):
                self.server.script.extend([reply] * 7)
                self.events.entries.clear()
                worker = self.worker()
                waiting = start(worker.next)
                for count, wait in enumerate((1, 2, 4, 8, 16, 30, 30), 1):
                    self.events.wait_event("fetch_failed", count)
                    self.assertEqual(self.due_in(worker), wait)
                    self.move(wait * 1000)
                waiting()
                worker._client.close(0)

    def test_failures_that_lose_no_id_are_retried_soon(self) -> None:
        self.server.script.extend([b"-LOADING x\r\n"] * 2)
        worker = self.worker()
        waiting = start(worker.next)
        for count in (1, 2):
            self.events.wait_event("fetch_failed", count)
            self.assertEqual(self.due_in(worker), 0.2)
            self.move(200)
        waiting()
        dead = self.make_server()
        dead.close()
        self.events.entries.clear()
        other = self.client(dead.url).worker("pool", MS)
        waiting = start(other.next)
        self.events.wait_event("fetch_failed")
        self.assertEqual(self.due_in(other), 0.01)
        self.assertEqual(self.events.wait_event("fetch_failed").object, "pool")
        other._client.close(0)
        with self.assertRaises(Closed):
            waiting()

    def test_a_failed_connect_after_a_lost_reply_is_retried_soon(self) -> None:
        self.server.script.append(CLOSE)
        worker = self.worker()
        waiting = start(worker.next)
        self.events.wait_event("fetch_failed")
        self.assertEqual(self.due_in(worker), 1.0)
        self.server.close()
        self.move(1000)
        self.events.wait_event("fetch_failed", 2)
        self.assertEqual(self.due_in(worker), 0.02)
        worker._client.close(0)
        with self.assertRaises(Closed):
            waiting()

    def test_a_lease_is_not_retried_without_a_call(self) -> None:
        self.server.script.append(CLOSE)
        worker = self.worker()
        self.assertIsNone(worker.try_next())
        self.events.wait_event("fetch_failed")
        self.assertIsNone(self.due_in(worker))
        self.assertEqual(sum("LEASE" in request for request in self.server.requests), 1)
        until(lambda: not worker._has_job)
        waiting = start(worker.next)
        until(lambda: bool(worker._waiters))
        self.assertEqual(self.due_in(worker), 1.0)
        self.move(1000)
        waiting()

    def test_names(self) -> None:
        cases = {
            "api-5d8f": b"api-5d8f",
            "a b\u00e9\n": b"a_b___",
            "": b"",
            "a" * 64: b"a" * 64,
            "a" * 65: b"a" * 55 + b"-635361c4",
        }
        for name, cleaned in cases.items():
            self.assertEqual(holder_name(name), cleaned)
        self.assertEqual(len(holder_name("\u00e9" * 100)), 64)
        self.assertNotEqual(holder_name("\u00e9" * 100), holder_name("\u00e8" * 100))
        self.client().worker("pool", MS, name="").next()
        self.assertEqual(self.server.requests, ["WORKERID LEASE pool"])

    def test_one_pool_serves_one_layout(self) -> None:
        client = self.client()
        worker = client.worker("pool", MS)
        self.assertIs(client.worker("pool", MS), worker)
        wrong = [
            lambda: client.worker("pool", COARSE),
            lambda: client.worker("pool", MS, ttl=5),
            lambda: client.worker("p", MS, ttl=0),
            lambda: client.worker("p", 5),
            lambda: client.worker("p", MS, name=5),
            lambda: client.worker("p", MS, ttl=86_401),
            lambda: worker.take(0),
            lambda: worker.warm_up(0),
        ]
        for number, call in enumerate(wrong):
            with self.subTest(number), self.assertRaises((ValueError, TypeError)):
                call()


if __name__ == "__main__":
    unittest.main()
