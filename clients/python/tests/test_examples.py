"""The examples and the programs of the README run, against a scripted server."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

import getid

from .support import Server

PACKAGE = Path(__file__).parent.parent


class TestExamples(unittest.TestCase):
    def setUp(self) -> None:
        self.server = Server()
        self.server.worker_step = 1
        self.addCleanup(self.server.close)

    def run_program(self, *command: str) -> str:
        environment = dict(os.environ, GETID_URL=self.server.url, PYTHONPATH=str(PACKAGE))
        ran = subprocess.run(
            [sys.executable, *command],
            cwd=PACKAGE,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        return ran.stdout

    def test_first_program(self) -> None:
        printed = self.run_program("examples/first_program.py")
        self.assertRegex(printed, r"^order 1\nthree more \[2, 3, 4\]\nid \d{19} made at 20\d\d-")
        self.server.wait("RELEASE")

    def test_django_default(self) -> None:
        self.assertRegex(self.run_program("examples/django_default.py"), r"^\d{19}\n$")

    def test_asyncio_app(self) -> None:
        self.assertEqual(self.run_program("examples/asyncio_app.py"), "[1, 2, 3, 4, 5]\nreleased: True\n")

    @unittest.skipUnless(hasattr(os, "fork"), "no fork on this system")
    def test_prefork_server(self) -> None:
        lines = self.run_program("examples/prefork_server.py").splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["child"] * 3 + ["parent"])
        for column in (1, 2, 3):
            self.assertEqual(len({line.split()[column] for line in lines}), 4)

    def test_programs_of_the_readme(self) -> None:
        programs = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
        self.assertEqual(len(programs), 2)
        first = programs[0].replace("getid://127.0.0.1:7890", self.server.url)
        self.assertRegex(self.run_program("-c", first), r"^1\n\[2, 3, 4\]\n20\d\d-")
        self.run_program("-c", programs[1])

    def test_docstrings(self) -> None:
        from getid import _layout

        self.assertEqual(doctest.testmod(_layout).failed, 0)
        for name in getid.__all__:
            self.assertTrue(getattr(getid, name).__doc__, name)
            for member, found in vars(getattr(getid, name)).items():
                if callable(found) and not member.startswith("_"):
                    self.assertTrue(found.__doc__, f"{name}.{member}")
