"""Planted faults: a copy of the package with one place changed, and the scene that must find it."""

from __future__ import annotations

import glob
import os
import shutil
from typing import Dict, List, NamedTuple

KEYS = ("name", "scene", "file")
IGNORED = shutil.ignore_patterns("__pycache__", "node_modules", "target", "build", ".git", "*.egg-info")


class Fault(NamedTuple):
    """A fault: in ``file`` of the package ``old`` is replaced by ``new``; ``scene`` must fail then."""

    name: str
    scene: str
    file: str
    old: str
    new: str

    def plant(self, package: str, folder: str) -> None:
        """Copies the package to a folder, with the fault. ``old`` must be in the file exactly once."""
        shutil.copytree(package, folder, ignore=IGNORED)
        path = os.path.join(folder, self.file)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        count = text.count(self.old)
        if count != 1:
            raise SystemExit(f"fault '{self.name}': its old text is {count} times in {self.file}, must be there once")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(self.old, self.new))


def parse(path: str) -> Fault:
    """Returns the fault of a file: lines ``key: value``, then the texts behind ``--- old`` and ``--- new``."""
    with open(path, encoding="utf-8") as file:
        head, old_mark, rest = file.read().partition("--- old\n")
    old, new_mark, new = rest.partition("--- new\n")
    fields: Dict[str, str] = dict(line.split(": ", 1) for line in head.splitlines() if line.strip())
    if not old_mark or not new_mark or sorted(fields) != sorted(KEYS) or not old:
        raise SystemExit(f"{path}: must have {', '.join(KEYS)}, '--- old' and '--- new'")
    return Fault(fields["name"], fields["scene"], fields["file"], old, new)


def of_language(folder: str, language: str) -> List[Fault]:
    """Returns the faults of a language."""
    return [parse(path) for path in sorted(glob.glob(os.path.join(folder, "faults", language, "*.fault")))]
