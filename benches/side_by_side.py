"""Shared code of this folder's programs that compare servers: starting and ending them, figures and tables."""

import contextlib
import dataclasses
import os
import platform
import re
import resource
import socket
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REDIS = "redis-server"
START_PATIENCE_S = 10
# So wide that no ID is borrowed from a later millisecond.
LAYOUT = "--id-range 1 --shard-range 19 --random-range 1".split()
NAMES = {"getid": "getid", "before": "getid before", "redis": "redis-server", "null": "null server"}


class Failure(Exception):
    pass


# --- servers ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Server:
    process: subprocess.Popen
    port: int
    path: str

    @property
    def pid(self):
        return self.process.pid


class Machine:
    """Starts servers on their cores, and ends them.

    `options` names the programs by the kinds of servers (`getid`, `redis`), and the cores that they run on (`server_cores`).
    """

    clients_max = 11_000
    getid_options = []

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.started = []
        self.count = 0

    def spawn(self, command, cores, **more):
        """Starts a program on these cores, without the environment variables that would configure it."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GETID_") and k != "REDISCLI_AUTH"}
        own = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores)
        try:
            # A session of its own: Ctrl-C is for this script, which then ends the others in order.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, env=environment, start_new_session=True, **more)
        finally:
            os.sched_setaffinity(0, own)
        self.started.append(process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.started.remove(process)

    def end_all(self):
        for process in list(self.started):
            self.end(process)

    def new_folder(self):
        self.count += 1
        path = os.path.join(self.folder, str(self.count))
        os.mkdir(path)
        return path

    def command(self, kind, port, folder, words=()):
        path = os.path.join(folder, "s")
        program = getattr(self.options, kind)
        more = ["--save", "", "--appendonly", "no"] if kind == "redis" else self.getid_options
        return [program, *([] if kind == "redis" else ["serve"]), "--port", str(port), "--bind", "127.0.0.1",
                "--unixsocket", path, "--dir", folder, "--maxclients", str(self.clients_max), *more, *words]

    def start(self, kind, words=(), cores=None, folder=None):
        """Starts getid or redis-server, in a new folder unless one is given, and waits until it answers."""
        for _ in range(5):
            folder, port = folder or self.new_folder(), free_port()
            with open(os.path.join(folder, "log"), "wb") as log:
                process = self.spawn(self.command(kind, port, folder, words), cores or self.options.server_cores,
                                     stdout=log, stderr=subprocess.STDOUT)
            # Another program may take the port between its choice and its use: then another one is tried.
            if wait_ready(port, process):
                return Server(process, port, os.path.join(folder, "s"))
            self.end(process)
        with open(os.path.join(folder, "log"), errors="replace") as log:
            raise Failure(f"{kind} did not start:\n{log.read()}")

    def first_answer_ms(self, kind, command, folder, words=()):
        """Returns the milliseconds from exec to the first answer."""
        for _ in range(5):
            port = free_port()
            with open(os.path.join(folder, "log"), "ab") as log:
                # spawn returns when the new program is in place (its exec closes the pipe that spawn reads).
                process = self.spawn(self.command(kind, port, folder, words), self.options.server_cores, stdout=log,
                                     stderr=subprocess.STDOUT)
            started = time.perf_counter()
            try:
                while process.poll() is None and time.perf_counter() < started + START_PATIENCE_S:
                    with contextlib.suppress(OSError):
                        if ask(port, command).startswith(b":"):
                            return (time.perf_counter() - started) * 1000
            finally:
                self.end(process)
        raise Failure(f"{kind} sends no first reply")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port, inline, connection=None):
    """Sends one inline command, and returns the first line of its reply."""
    connection = connection or socket.create_connection(("127.0.0.1", port), timeout=START_PATIENCE_S)
    connection.sendall(inline + b"\r\n")
    reply = b""
    while not reply.endswith(b"\n"):
        part = connection.recv(4096)
        if not part:
            raise ConnectionResetError("closed")
        reply += part
    return reply


def wait_ready(port, process):
    end = time.monotonic() + START_PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError):
            # A server with a password has started, too.
            if ask(port, b"PING").startswith((b"+PONG", b"-NOAUTH")):
                # Another program's server may be on this port while ours is about to fail.
                time.sleep(0.05)
                return process.poll() is None
        time.sleep(0.01)
    return False


def encode(words):
    return f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)


def raise_open_files(needed):
    """Raises the limit of open files. Returns whether this process, and those it starts, may have `needed` of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= needed:
        return True
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, max(hard, needed)))
        return True
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return False


def resident_mib(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) / 1024


def cpu_ns(pid):
    """CPU time of all threads of a process until now, ns."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total


# --- figures ----------------------------------------------------------------------------------------------------------


def figure(x):
    return f"{x:,.0f}" if x >= 1000 else f"{x:.3g}"


def spread(values):
    """Formats median, lowest and highest value."""
    values = list(values)
    if not values:
        return "-"
    middle = figure(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({figure(min(values))}..{figure(max(values))})"


def verdict(values, target, at_least=False):
    """Formats whether a target, an upper or a lower bound, is met by the median, or by the interval over the rounds."""
    values = list(values)
    if target is None or not values:
        return "-"
    sign, bound = (-1, f">= {target:g}") if at_least else (1, f"<= {target:g}")
    if sign * statistics.median(values) <= sign * target:
        return f"{bound}: met"
    touches = min(sign * value for value in values) <= sign * target
    return f"{bound}: met (interval touches)" if touches else f"{bound}: **not met**"


def table(title, head, rows):
    lines = [f"\n### {title}\n", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    print("\n".join(lines), flush=True)


def progress(text):
    print(text, file=sys.stderr, flush=True)


def describe(options):
    model = "unknown processor"
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as info:
        model = re.search(r"model name\s*: (.*)", info.read() + "\nmodel name : ")[1].strip() or model
        info.seek(0)
        model += ", virtual machine" if "hypervisor" in info.read() else ""

    def first_line(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout.strip().split("\n")[0]
        except (OSError, subprocess.CalledProcessError):
            return "unknown"

    redis = first_line(options.redis, "--version") if "redis" in options.kinds else ""
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "getid": f"{first_line(options.getid, '--version')}, commit {first_line('git', 'describe', '--always', '--dirty')}",
        "redis": re.sub(r".*v=(\S+).*", r"\1", redis),
        "date": time.strftime("%Y-%m-%d"),
        "load_average": os.getloadavg()[0],
    }
