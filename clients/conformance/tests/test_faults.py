"""Tests of planted faults: their files and how they are planted."""

import os
import tempfile
import unittest

from suite import faults

TEXT = "name: n\nscene: fork\nfile: a.txt\nerror: e\n--- old\nb\n--- new\nx\ny\n--- old\nc\n--- new\n"


class FaultTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.mkdir(self.at("package"))
        self.write("package/a.txt", "a\nb\nc\n")

    def at(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.at(name), "w", encoding="utf-8") as file:
            file.write(text)

    def parse(self, text):
        self.write("f.fault", text)
        return faults.parse(self.at("f.fault"))

    def test_planting(self):
        self.parse(TEXT).plant(self.at("package"), self.at("copy"))
        with open(self.at("copy/a.txt"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "a\nx\ny\n")

    def test_texts_that_are_not_there_once(self):
        for text in ("b\nc\nb\n", "none\n"):
            self.write("package/a.txt", text)
            with self.assertRaisesRegex(SystemExit, "must be there once"):
                self.parse(TEXT).plant(self.at("package"), self.at(f"copy{len(text)}"))

    def test_bad_files(self):
        for text in ("", TEXT.replace("scene: fork\n", ""), TEXT.split("--- new")[0]):
            with self.assertRaisesRegex(SystemExit, "must have name, scene, file, error"):
                self.parse(text)


if __name__ == "__main__":
    unittest.main()
