"""Tests of the judge: each promise, kept and broken."""

import os
import tempfile
import unittest
from array import array

from suite import judge
from suite.proxy import Exchange


def exchange(text, reply, connection=1):
    one = Exchange(connection, text.encode().split())
    one.reply, one.is_answered, one.is_delivered = reply, True, True
    return one


LAYOUT = judge.Layout(39, 16, 8, 10, 1000, True)


def id_of(unit, worker, counter=0):
    return unit << 24 | counter << 16 | worker


class Judge(unittest.TestCase):
    def breaks(self, text, check, *args):
        with self.assertRaisesRegex(judge.Violation, text):
            check(*args)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, str(i)) for i in range(2)]
            for i, path in enumerate(paths):
                with open(path, "wb") as file:
                    file.write(array("q", range(i, 100_000, 2)).tobytes() + b"abc")
            self.assertEqual(judge.check_files(paths), 100_000)
            with open(paths[0], "wb") as file:
                file.write(array("q", [1, 4]).tobytes())
            self.breaks("value 1 is in", judge.check_files, paths)

    def test_order(self):
        judge.check_ascending("a", [1, 2, 9])
        self.breaks("value 2 is 2, after 5", judge.check_ascending, "a", [1, 5, 2])
        self.breaks("value 1 is 1, after 1", judge.check_ascending, "a", [1, 1])

    def test_values_twice_far_apart_in_large_files(self):
        one, two = list(range(0, 4_000_000, 2)), list(range(1, 4_000_000, 2))
        self.assertEqual(judge.check_unique({"a": one, "b": two}), 4_000_000)
        two[-1] = one[-1]
        self.breaks("value 3999998", judge.check_unique, {"a": one, "b": two})

    def test_given(self):
        ranges = judge.ranges_given([exchange("SEQUENCE NEXT s COUNT 3", [5, 9, 2])], "s")
        judge.check_given([5, 7, 9], ranges)
        for value in (4, 6, 11):
            self.breaks(f"value {value} ", judge.check_given, [value], ranges)

    def test_leases(self):
        record = [exchange("WORKERID LEASE p", [3, b"t", 1005, 1040]), exchange("WORKERID RENEW p 3 t LAST 1", [1060])]
        leases = judge.leases_given(record, "p")
        judge.check_leased([id_of(1, 3), id_of(5, 3, 7)], LAYOUT, leases)
        for wrong in (id_of(0, 3), id_of(6, 3), id_of(2, 4)):
            self.breaks(f"ID {wrong} ", judge.check_leased, [wrong], LAYOUT, leases)

    def test_releases(self):
        record = [exchange("WORKERID LEASE p", [3, b"t", 1000, 1040])]
        good = [*record, exchange("WORKERID RELEASE p 3 t LAST 1019", "OK")]
        self.assertEqual(judge.check_releases([id_of(1, 3)], LAYOUT, good, "p"), 1)
        bad = [*record, exchange("WORKERID RELEASE p 3 t LAST 1018", "OK")]
        self.breaks("has LAST 1018", judge.check_releases, [id_of(1, 3)], LAYOUT, bad, "p")

    def test_above(self):
        first = exchange("SEQUENCE NEXT s COUNT 3", [1, 3, 1])
        judge.check_above([first, exchange("SEQUENCE NEXT s COUNT 3 ABOVE 3", [4, 6, 1], 2)], "s")
        second = exchange("SEQUENCE NEXT s COUNT 3", [4, 6, 1], 2)
        self.breaks("must have ABOVE 3", judge.check_above, [first, second], "s")


if __name__ == "__main__":
    unittest.main()
