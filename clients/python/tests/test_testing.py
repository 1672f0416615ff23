"""The fakes."""

import asyncio
import copy
import inspect
import pickle
import unittest

from getid import Client, Closed, Layout, Sequence, Unavailable, Worker
from getid.testing import FakeClient, FakeSequence, FakeWorker


class TestFakes(unittest.TestCase):
    def test_values(self) -> None:
        client = FakeClient(start=5)
        orders = client.sequence("orders")
        self.assertEqual([orders.next(), *orders.take(2), orders.try_next(), next(orders)], [5, 6, 7, 8, 9])
        self.assertEqual(asyncio.run(orders.anext()), 10)
        self.assertEqual(client.sequence("others").next(), 5)
        self.assertIs(client.sequence("orders"), orders)
        self.assertEqual(orders.stats()["values"], 6)

    def test_ids(self) -> None:
        for layout in (Layout.TWITTER, Layout.SONYFLAKE):
            worker = FakeClient().worker("pool", layout)
            ids = worker.take(5000)
            self.assertEqual(ids, sorted(set(ids)))
            self.assertEqual(layout.parts(ids[0]), (layout.epoch_ms + 1000, 0, 0))
            self.assertEqual(layout.parts(ids[-1]).worker, 0)

    def test_errors(self) -> None:
        client = FakeClient()
        orders = client.sequence("orders")
        client.fail(Unavailable("down"))
        with self.assertRaises(Unavailable):
            orders.next()
        self.assertEqual(orders.next(), 1)
        for call in (lambda: orders.take(0), lambda: orders.next(-1), lambda: client.sequence("orders", hold=1)):
            with self.assertRaises(ValueError):
                call()
        self.assertTrue(client.close())
        for call in (orders.next, orders.try_next, orders.warm_up, lambda: client.sequence("x"), client.discard):
            with self.assertRaises(Closed):
                call()

    def test_copies(self) -> None:
        with FakeClient() as client:
            for found in (client, client.sequence("a"), client.worker("p", Layout.TWITTER)):
                self.assertIs(copy.deepcopy(copy.copy(found)), found)
                with self.assertRaises(TypeError):
                    pickle.dumps(found)

    def test_the_same_methods_and_stats(self) -> None:
        for real, fake in ((Client, FakeClient), (Sequence, FakeSequence), (Worker, FakeWorker)):
            for name, method in inspect.getmembers(real, inspect.isfunction):
                if not name.startswith("_"):
                    with self.subTest(f"{real.__name__}.{name}"):
                        wanted = list(inspect.signature(method).parameters)
                        self.assertEqual(list(inspect.signature(getattr(fake, name)).parameters), wanted)
        with Client("getid://127.0.0.1:1") as client:
            real_stats = client.sequence("a").stats(), client.worker("a", Layout.TWITTER).stats()
        fake = FakeClient()
        self.assertEqual(list(fake.sequence("a").stats()), list(real_stats[0]))
        self.assertEqual(list(fake.worker("a", Layout.TWITTER).stats()), list(real_stats[1]))
