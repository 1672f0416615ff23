"""A container engine for the other checks: podman over runc, without systemd and with its own store.

The configuration written here makes podman work on a bare machine: cgroups are created without systemd, because no
systemd runs, and limits are not raised, because root may not raise them without CAP_SYS_RESOURCE.
"""

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Time limit of steps that take no time on an idle machine.
TIMEOUT_S = 120

# Bits below the time in an ID of the default layout.
BELOW_TICK_BITS = 21


def fail(what):
    """Ends the check with a message: the thing checked, its state, and the expected state."""
    name = Path(sys.argv[0]).name
    print(f"packaging/checks/{name}: {what}", file=sys.stderr)
    raise SystemExit(1)


def expect(condition, what):
    if not condition:
        fail(what)


def log_step(what):
    print(f"  {what}", flush=True)


def wait_until(what, question, seen=lambda: ""):
    """Repeats `question` until its result is neither None nor False. Fails with `seen` after the time limit."""
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        answer = question()
        if answer is not None and answer is not False:
            return answer
        time.sleep(0.1)
    fail(f"{what}: not within {TIMEOUT_S} s\n{seen()}".strip())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Engine:
    """podman with a folder for its data. Containers that still exist at the end are removed."""

    def __init__(self):
        for program, package in [("podman", "podman"), ("runc", "runc"), ("iptables", "iptables")]:
            if shutil.which(program) is None:
                fail(f"needs {program}: apt install {package}")
        if os.geteuid() != 0:
            fail("needs root, for networks and memory limits of containers")
        self.dir = Path(tempfile.mkdtemp(prefix="getid-containers-"))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        (self.dir / "containers.conf").write_text(
            "[containers]\n"
            f'default_ulimits = ["nofile={soft}:{hard}", "nproc=4096:4096"]\n'
            "[engine]\n"
            'cgroup_manager = "cgroupfs"\n'
            'events_logger = "file"\n'
            'runtime = "runc"\n'
        )
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("GETID_")}
        self.environment["CONTAINERS_CONF"] = str(self.dir / "containers.conf")
        self.containers = []
        self.networks = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for container in self.containers:
            self.run("rm", "--force", "--time", "0", container, check=False)
        for network in self.networks:
            self.run("network", "rm", network, check=False)
        self.run("volume", "prune", "--force", check=False)
        self.run("rmi", "--all", "--force", check=False)
        shutil.rmtree(self.dir, ignore_errors=True)

    def run(self, *words, check=True):
        """Runs a podman command. Returns exit status, standard output and standard error, as stripped text."""
        store = self.dir / "store"
        command = ["podman", "--storage-driver", "vfs", "--root", store, "--runroot", self.dir / "run"]
        command += ["--tmpdir", self.dir / "tmp", "--network-config-dir", self.dir / "networks", *map(str, words)]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        done.stdout, done.stderr = done.stdout.strip(), done.stderr.strip()
        if check and done.returncode != 0:
            fail(f"podman {' '.join(map(str, words))}: exit status {done.returncode}: {done.stderr or done.stdout}")
        return done

    def load(self, archive):
        """Loads an image from packaging/image's archive, and returns its name."""
        if not Path(archive).exists():
            fail(f"there is no {archive}; packaging/image builds it")
        return self.run("load", "--quiet", "--input", archive).stdout.rsplit(" ", 1)[-1]

    def start(self, name, *words):
        """Starts a container in the background."""
        self.containers.append(name)
        self.run("run", "--detach", "--name", name, *words)

    def log(self, name):
        done = self.run("logs", name)
        return f"{done.stdout}\n{done.stderr}".strip()

    def await_log(self, name, text):
        """Waits until its log contains this text, because the engine writes the log asynchronously."""
        wait_until(f"'{text}' in the log of {name}", lambda: text in self.log(name), lambda: self.log(name))

    def inspect(self, name):
        return json.loads(self.run("inspect", name).stdout)[0]

    def healthy(self, name):
        """Returns the result of the image's own health check."""
        return self.run("healthcheck", "run", name, check=False).returncode == 0

    def await_health(self, name):
        def question():
            if self.inspect(name)["State"]["Status"] in ("exited", "stopped"):
                fail(f"{name} has ended:\n{self.log(name)}")
            return self.healthy(name)

        wait_until(f"{name} is healthy", question)


class Drawer(threading.Thread):
    """A client that draws IDs until the server ends or the check stops the client."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port = port
        self.ids = []
        self.error = None
        self.stop_requested = threading.Event()

    def run(self):
        text = b""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S) as wire:
                while not self.stop_requested.is_set():
                    wire.sendall(b"MGETID 100\r\n" * 5)
                    while text.count(b"\n") < 5 * 201:
                        more = wire.recv(65536)
                        if not more:
                            return
                        text += more
                    text = self.take(text)
        except OSError:
            pass
        finally:
            self.take(text)

    def take(self, text):
        """Keeps the IDs of complete lines, and returns the rest."""
        whole, _, rest = text.rpartition(b"\n")
        errors = re.findall(rb"^-.*", whole, re.MULTILINE)
        if errors:
            self.error = errors[0].decode().strip()
            self.stop_requested.set()
        self.ids += [int(line) for line in re.findall(rb"^(\d+)\r$", whole + b"\n", re.MULTILINE)]
        return rest


def drawers(ports, count=1):
    """Starts clients, and waits until each has IDs."""
    started = [Drawer(port) for port in ports for _ in range(count)]
    for drawer in started:
        drawer.start()
    wait_until("every client has IDs", lambda: all(len(drawer.ids) >= 1000 or drawer.error for drawer in started))
    return started


def drawn(started):
    """Stops clients whose server still runs, and returns the IDs of all clients. Fails if an ID repeats."""
    for drawer in started:
        drawer.stop_requested.set()
    for drawer in started:
        drawer.join()
        expect(drawer.error is None, f"a client that draws IDs got: {drawer.error}")
    every = [one for drawer in started for one in drawer.ids]
    unique = set(every)
    expect(len(unique) == len(every), f"{len(every) - len(unique)} of {len(every)} IDs came twice")
    return unique
