"""Layouts."""

import unittest

from getid import Layout


class TestLayout(unittest.TestCase):
    def test_known_ids(self) -> None:
        self.assertEqual(Layout.TWITTER.parts(1541815603606036480), (1656432460105, 378, 0))
        self.assertEqual(Layout.DISCORD.parts(175928847299117063), (1462015105796, 32, 7))
        self.assertEqual(Layout.TWITTER.parts(1541815603606036480).time.isoformat()[:19], "2022-06-28T16:07:40")

    def test_compose_and_parts(self) -> None:
        for layout in (Layout.TWITTER, Layout.SONYFLAKE, Layout(40, 0, 3), Layout(20, 16, 0, 60_000, 5, True)):
            worker, counter = (1 << layout.worker) - 1, (1 << layout.counter) - 1
            for values in ((0, 0, 0), (3, worker, 0), (2, 0, counter), ((1 << layout.time) - 1, worker, counter)):
                unit = layout.epoch_ms + values[0] * layout.unit_ms
                self.assertEqual(layout.parts(layout.compose(*values)), (unit, values[1], values[2]))
        self.assertEqual(Layout.SONYFLAKE.compose(1, 2, 3), (1 << 24) | (3 << 16) | 2)
        self.assertEqual(Layout.TWITTER.compose(1, 2, 3), (1 << 22) | (2 << 12) | 3)
        self.assertEqual(Layout.SONYFLAKE.unit_end_ms(0), Layout.SONYFLAKE.epoch_ms + 9)

    def test_bounds(self) -> None:
        wrong = [(0, 1, 1), (41, 17, 0), (41, 10, 13), (41, -1, 1), (41, 10, 12, 0), (41, 10, 12, 1, -1), (41.0, 1, 1)]
        for values in wrong:
            with self.subTest(values), self.assertRaises((ValueError, TypeError)):
                Layout(*values)  # type: ignore[arg-type]
        for id in (-1, 1 << 63, "7", 7.0):
            with self.subTest(id), self.assertRaises((ValueError, TypeError)):
                Layout.TWITTER.parts(id)  # type: ignore[arg-type]
