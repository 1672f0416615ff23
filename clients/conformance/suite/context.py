"""What a scene works with: a folder, servers, proxies and drivers, all of which end with it."""

from __future__ import annotations

import glob
import os
import shutil
import time
from typing import Any, Dict, List, NamedTuple, Optional

from . import judge
from .driver import Driver
from .proxy import Proxy
from .servers import Server

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LAYOUT = judge.Layout(41, 10, 12, 1, 1_288_834_974_657)
COARSE = judge.Layout(39, 16, 8, 10, 1_409_529_600_000, True)
TIMEOUT_MS = 30_000
EVENT_S = 90.0
POLL_S = 0.01
HOUR_MS = 3_600_000


class Options(NamedTuple):
    """Options of a run."""

    language: str
    package: str
    seed: int
    is_full: bool
    is_long: bool
    values: int


class NotSupported(Exception):
    """The language has nothing of this kind."""


class Handle(NamedTuple):
    """A driver with an open client ``c``."""

    driver: Driver
    proxy: Optional[Proxy]

    def call(self, do: str, **fields: Any) -> Dict[str, Any]:
        """Sends a command and waits for its answer."""
        return self.driver.call(do, **fields)

    def sequence(self, name: str, object: str = "s", **options: Any) -> None:
        """Makes a sequence of the client."""
        self.call("sequence", object=object, client="c", name=name, **options)

    def worker(self, pool: str = "main", layout: judge.Layout = LAYOUT, object: str = "w", **options: Any) -> None:
        """Makes a worker of the client."""
        self.call("worker", object=object, client="c", pool=pool, layout=layout._asdict(), **options)

    def next(self, object: str, timeout_ms: int = TIMEOUT_MS) -> int:
        """Returns the next value of an object."""
        return int(self.call("next", object=object, timeout_ms=timeout_ms)["value"])

    def wait_stats(self, object: str, key: str, least: int) -> None:
        """Waits until a number of the object's stats has this value at least."""
        end = time.monotonic() + EVENT_S
        while (self.call("stats", object=object)[key] or 0) < least:
            if time.monotonic() > end:
                raise AssertionError(f"'{key}' of the stats is not {least}: {self.call('stats', object=object)}")
            time.sleep(POLL_S)

    def close(self) -> None:
        """Closes the client, which must release its leases. Time-outs of users are too short for a slow machine."""
        if self.call("close", client="c", timeout_ms=TIMEOUT_MS)["released"] is not True:
            raise AssertionError("close() did not release the lease")

    def clock(self, wall_ms: int, mono_ms: int = 0) -> None:
        """Moves the client's clocks."""
        self.call("clock", client="c", wall_ms=wall_ms, mono_ms=mono_ms)


class Context:
    """Of one scene. ``server`` is shared with other scenes, which use other names."""

    def __init__(self, scene: str, options: Options, folder: str, server: Server) -> None:
        self.scene, self.options, self.folder, self.server = scene, options, folder, server
        os.makedirs(folder, exist_ok=True)
        self.name = f"{scene}-{options.seed}"
        self.drivers: List[Driver] = []
        self.proxies: List[Proxy] = []
        self.servers: List[Server] = []

    def own_server(self, folder: str, words: Optional[List[str]] = None, expected: str = "ready") -> Server:
        """Starts a server that this scene may kill."""
        server = Server(os.path.join(self.folder, folder), words)
        self.servers.append(server)
        return server.start(expected)

    def proxy(self, server: Optional[Server] = None) -> Proxy:
        """Starts a proxy before a server, by default the shared one."""
        proxy = Proxy((server or self.server).port)
        self.proxies.append(proxy)
        return proxy

    def driver(self, env: Optional[Dict[str, str]] = None) -> Driver:
        """Starts a driver."""
        folder = os.path.join(HERE, "drivers", self.options.language)
        log = self.path(f"driver{len(self.drivers)}.log")
        driver = Driver(folder, self.options.package, log, env)
        self.drivers.append(driver)
        return driver

    def client(self, proxy: Optional[Proxy] = None, env: Optional[Dict[str, str]] = None, **fields: Any) -> Handle:
        """Starts a driver, and opens a client to a proxy or to the shared server."""
        handle = Handle(self.driver(env), proxy)
        port = proxy.port if proxy else self.server.port
        request = {"url": f"getid://127.0.0.1:{port}", "timeout_ms": TIMEOUT_MS, **fields}
        handle.call("open", client="c", **request)
        return handle

    def path(self, name: str) -> str:
        """Returns the path of a file of this scene."""
        return os.path.join(self.folder, name)

    def files(self, prefix: str) -> List[str]:
        """Returns the files whose names begin with ``prefix``."""
        return sorted(glob.glob(glob.escape(self.path(prefix)) + "*"))

    def check_values(self, prefix: str = "v", least: int = 1) -> int:
        """Judges all files of values whose names begin with ``prefix``."""
        count = judge.check_files(self.files(prefix))
        if count < least:
            raise AssertionError(f"{count} values were drawn, must be {least} at least")
        return count

    def check_worker(self, proxy: Proxy, pool: str, layout: judge.Layout, prefix: str = "w", more: Any = ()) -> None:
        """Judges files of a worker's IDs by the leases that passed through the proxy."""
        values = [value for path in self.files(prefix) for value in judge.read_values(path)] + list(more)
        judge.check_leased(values, layout, judge.leases_given(proxy.exchanges, pool))
        judge.check_releases(values, layout, proxy.exchanges, pool)

    def close(self) -> None:
        """Ends all processes of the scene."""
        for driver in self.drivers:
            driver.kill()
        for proxy in self.proxies:
            proxy.close()
        for server in self.servers:
            server.kill()

    def logs(self) -> str:
        """Returns the ends of the logs."""
        found = []
        paths = [driver.log for driver in self.drivers] + [server.log for server in self.servers or [self.server]]
        for path in paths:
            with open(path, encoding="utf-8", errors="replace") as file:
                lines = file.readlines()[-30:]
            if lines:
                found.append(f"    {os.path.basename(path)}:\n" + "".join(f"      {line}" for line in lines))
        return "".join(found)

    def remove(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
