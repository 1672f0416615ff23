"""The program ``run``: options, the scenes side by side, and what it prints."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import List, NamedTuple, Optional

from . import faults
from .context import HERE, Context, NotSupported, Options
from .driver import build
from .scenes import SCENES, program
from .servers import Server, binary

SCENE_S = 300.0
LONG_S = 3600.0
VALUES = 64_000
LONG_VALUES = 50_000_000
SPEED_VALUES = 200_000
SPEED_TURNS = 5
HEAVY = ("many", "fork", "kill-server", "takeover", "paused")
"""Scenes that take longest, which begin first."""


class Result(NamedTuple):
    """How a scene ended."""

    is_good: bool
    text: str


def parse(words: Optional[List[str]]) -> argparse.Namespace:
    """Reads the options."""
    parser = argparse.ArgumentParser(prog="run", description="Conformance suite of the getid clients.")
    parser.add_argument("language", choices=sorted(os.listdir(os.path.join(HERE, "drivers"))))
    parser.add_argument("--full", action="store_true", help="longer pauses and more values")
    parser.add_argument("--long", action="store_true", help="a pause of 60 s and 50 million values too")
    parser.add_argument("--values", type=int, help="values of the scene 'many'")
    parser.add_argument("--scene", action="append", choices=sorted(SCENES), help="this scene only; may be repeated")
    parser.add_argument("--faults", action="store_true", help="each planted fault must be found")
    parser.add_argument("--speed", action="store_true", help="prints ns of next() beside a counter behind a mutex")
    parser.add_argument("--seed", type=int, help="seed of all that is random")
    parser.add_argument("--repeat", type=int, default=1, help="runs all of it this many times")
    parser.add_argument("--jobs", type=int, default=6, help="scenes at the same time")
    parser.add_argument("--without", default="", help="programs that may be missing: gevent,uwsgi,openssl")
    parser.add_argument("--package", help="folder of the package, by default clients/LANGUAGE")
    return parser.parse_args(words)


def main(words: Optional[List[str]] = None) -> int:
    """Runs the suite. Returns the exit status."""
    given = parse(words)
    binary()
    status = 0
    with tempfile.TemporaryDirectory(prefix="getid-conformance-") as folder:
        for turn in range(given.repeat):
            options = options_of(given, turn)
            build(folder_of(options), options.package)
            place = os.path.join(folder, str(turn))
            if given.speed:
                return speed(options, place)
            status |= run_faults(given, options, place) if given.faults else run_scenes(given, options, place)
    return status


def options_of(given: argparse.Namespace, turn: int) -> Options:
    """Returns the options of a turn. Each turn has a seed of its own."""
    seed = given.seed + turn if given.seed is not None else random.SystemRandom().randrange(1 << 31)
    package = given.package or os.path.join(os.path.dirname(HERE), given.language)
    values = given.values or (LONG_VALUES if given.long else 4 * VALUES if given.full else VALUES)
    return Options(given.language, os.path.abspath(package), seed, given.full or given.long, given.long, values)


def folder_of(options: Options) -> str:
    """Returns the folder of the language's driver."""
    return os.path.join(HERE, "drivers", options.language)


def chosen(given: argparse.Namespace, language: str) -> List[str]:
    """Returns the names of the scenes to run. A missing program is an error unless it is excused."""
    names = given.scene or [name for name, scene in SCENES.items() if scene.language in (None, language)]
    excused = given.without.split(",")
    for name in list(names):
        needs = SCENES[name].needs
        if needs and program(needs) is None:
            if needs not in excused:
                raise SystemExit(f"the scene '{name}' needs {needs}: install it, or run with '--without {needs}'")
            print(f"  left out  {name}: {needs} is missing, as --without has it")
            names.remove(name)
    return sorted(names, key=lambda name: name not in HEAVY)


def run_scenes(given: argparse.Namespace, options: Options, folder: str) -> int:
    """Runs scenes side by side on one shared server. Prints a line for each. Returns the exit status."""
    names = chosen(given, options.language)
    begin = time.monotonic()
    server = Server(os.path.join(folder, "shared")).start()
    try:
        with ThreadPoolExecutor(max(1, given.jobs)) as pool:
            results = list(pool.map(lambda name: run_scene(name, options, os.path.join(folder, name), server), names))
    finally:
        server.kill()
    failed = sum(not result.is_good for result in results)
    seconds = time.monotonic() - begin
    passed = f"{len(names) - failed} of {len(names)} scenes passed in {seconds:.1f} s"
    print(f"{options.language}: {passed}, seed {options.seed}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


def run_scene(name: str, options: Options, folder: str, server: Server, is_quiet: bool = False) -> Result:
    """Runs one scene, and prints how it ended. A scene that hangs loses its processes, and fails by that."""
    context = Context(name, options, folder, server)
    begin = time.monotonic()
    watchdog = threading.Timer(LONG_S if options.is_long else SCENE_S, context.close)
    watchdog.daemon = True
    watchdog.start()
    word, text, is_good = "passed", "", True
    try:
        SCENES[name].run(context)
    except NotSupported:
        text = f": not in {options.language}"
    except BaseException as error:  # noqa: BLE001 - each failure is reported
        word, text, is_good = "FAILED", failure_text(name, options, context, error), False
    finally:
        watchdog.cancel()
        context.close()
    if not is_quiet:
        print(f"  {word} {time.monotonic() - begin:6.1f} s  {name}{text}", flush=True)
    context.remove()
    return Result(is_good, text)


def failure_text(name: str, options: Options, context: Context, error: BaseException) -> str:
    """Returns what a failure prints: the error, the command that repeats it, and the ends of the logs."""
    full = " --long" if options.is_long else " --full" if options.is_full else ""
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    trace = "".join(f"    {line}" for line in "".join(lines[-3:]).splitlines(True))
    command = f"clients/conformance/run {options.language}{full} --seed {options.seed} --scene {name}"
    return f", seed {options.seed}\n{trace}    to repeat it: {command}\n{context.logs()}"


def run_faults(given: argparse.Namespace, options: Options, folder: str) -> int:
    """Plants each fault, and runs the scene that must find it. Returns the exit status."""
    found = faults.of_language(HERE, options.language)
    if not found:
        raise SystemExit(f"no faults are in faults/{options.language}")
    server = Server(os.path.join(folder, "shared")).start()
    status = 0
    try:
        for i, fault in enumerate(found):
            place = os.path.join(folder, f"package{i}")
            fault.plant(options.package, place)
            build(folder_of(options), place)
            planted = options._replace(package=place)
            result = run_scene(fault.scene, planted, os.path.join(folder, f"fault{i}"), server, is_quiet=True)
            is_found = not result.is_good and fault.error in result.text
            status |= not is_found
            word = "found" if is_found else "NOT FOUND"
            print(f"  {word}  {fault.name}, by {fault.scene}{reason(result)}", flush=True)
    finally:
        server.kill()
    print(f"{options.language}: {len(found)} planted faults, seed {options.seed}")
    return int(status)


def reason(result: Result) -> str:
    """Returns the line of the error by which a scene failed."""
    lines = [line.strip() for line in result.text.split("    to repeat it:")[0].splitlines() if line.strip()]
    return f": {lines[-1][:160]}" if lines and not result.is_good else ""


def speed(options: Options, folder: str) -> int:
    """Prints nanoseconds of ``next()`` beside those of a counter behind a mutex, taken in turns."""
    server = Server(os.path.join(folder, "shared")).start()
    context = Context("speed", options, os.path.join(folder, "speed"), server)
    try:
        handle = context.client()
        handle.sequence("speed", prefetch_max=1_000_000)
        handle.call("draw", object="s", threads=1, values=SPEED_VALUES, file=context.path("v"), take=1000)
        counters, times = [], []
        for _ in range(SPEED_TURNS):
            counters.append(handle.call("counter", values=SPEED_VALUES)["ns"])
            handle.call("warm_up", object="s", n=SPEED_VALUES)
            times.append(handle.call("time", object="s", values=SPEED_VALUES)["ns"])
        counter, call = statistics.median(counters), statistics.median(times)
        ratio = f"{call / counter:.2f} times"
        print(f"{options.language}: next() {call:.1f} ns, counter behind a mutex {counter:.1f} ns, {ratio}")
    finally:
        context.close()
        server.kill()
    return 0
