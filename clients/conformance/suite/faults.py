"""Planted faults: a copy of the package with one place changed, and the scene that must find it."""

from __future__ import annotations

import glob
import os
import shutil
from typing import Dict, List, NamedTuple, Tuple

KEYS = ("name", "scene", "file", "error")
IGNORED = shutil.ignore_patterns("__pycache__", "node_modules", "target", "build", ".git", "*.egg-info")


class Fault(NamedTuple):
    """A fault: in ``file`` of the package each old text is replaced by the new one.

    ``scene`` must fail then, with ``error`` in its message, so that a failure for another reason does not count.
    """

    name: str
    scene: str
    file: str
    error: str
    changes: List[Tuple[str, str]]

    def plant(self, package: str, folder: str) -> None:
        """Copies the package to a folder, with the fault. Each old text must be in the file exactly once."""
        shutil.copytree(package, folder, ignore=IGNORED)
        path = os.path.join(folder, self.file)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for old, new in self.changes:
            if text.count(old) != 1:
                where = f"{text.count(old)} times in {self.file}, must be there once"
                raise SystemExit(f"fault '{self.name}': this text is {where}:\n{old}")
            text = text.replace(old, new)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def parse(path: str) -> Fault:
    """Returns the fault of a file: lines ``key: value``, then texts behind ``--- old`` and ``--- new``, in turn."""
    with open(path, encoding="utf-8") as file:
        head, *parts = file.read().split("--- old\n")
    changes = [part.split("--- new\n") for part in parts]
    fields: Dict[str, str] = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    if not changes or sorted(fields) != sorted(KEYS) or not all(len(one) == 2 and one[0] for one in changes):
        raise SystemExit(f"{path}: must have {', '.join(KEYS)}, and '--- old' and '--- new' in turn")
    return Fault(*(fields[key] for key in KEYS), changes=[(old, new) for old, new in changes])


def of_language(folder: str, language: str) -> List[Fault]:
    """Returns the faults of a language."""
    return [parse(path) for path in sorted(glob.glob(os.path.join(folder, "faults", language, "*.fault")))]
