"""Measurements of sequences for `compare`: INCR of one name and of many, first use of new names, memory of a name,
lists of names, and a start with many names in the store."""

import contextlib
import glob
import itertools
import multiprocessing
import os
import selectors
import shutil
import socket
import sqlite3
import statistics
import subprocess
import tempfile
import time

from side_by_side import NAMES as SERVERS
from side_by_side import (
    START_PATIENCE_S, Failure, ask, cpu_ns, encode, free_port, progress, resident_mib, spread, table, verdict)

INCR, STORED = "sequences, INCR", "sequences, INCR of names in the store"
FIRST_USE = "sequences, first use of new names"
MEMORY, LISTS, START = "sequences, memory of a name", "sequences, lists", "sequences, start with many names"
NAMES = [INCR, STORED, FIRST_USE, MEMORY, LISTS, START]

CONNECTIONS = 50
USED, IN_STORE = 10_000, 1_000_000
# Of the names in the store: those in memory when the measurement begins.
IN_MEMORY = 100_000
# INCRs of a run over all names in the store. Each run brings as many further names into memory.
STORED_REQUESTS = 10_000
# The names are brought into memory in each round, which may take half a minute.
MEMORY_ROUNDS_MAX = 3
REQUESTS_A_SECOND = {1: 60_000, 16: 400_000, 100: 800_000}

# Depth, and the upper bounds for CPU time per INCR as a share of Redis's: of one name, of 10,000.
DEPTHS = [(1, 0.95, 0.97), (16, 0.60, 0.75), (100, 0.30, 0.50)]
# Lower bounds for new names a second.
FIRST_USES_MIN = {"SQLite": 20_000, "PostgreSQL": 5_000}
NAME_BYTES_MAX = 200
LIST_MS_MAX, PROBE_P99_MS_MAX, START_MS_MAX = 500, 5, 1_000

PAGE = 1_000
LISTINGS = {"SEQUENCE LIST": "SEQUENCE LIST CURSOR {} COUNT {}", "SCAN": "SCAN {} COUNT {}"}
PROBE_INTERVAL_MS = 2
PROBED = "another client's p99 of GETID (INCR) meanwhile, ms"
PATIENCE_S = 60

CREATES = ["--sequence-create", "on-first-use", "--sequence-wait-ms", "60000"]


def measure(machine, selected, workload_of, results):
    """Measures what is in `selected`, into `results`. `workload_of` makes the INCR workload of a depth."""
    if INCR in selected:
        measure_incr(machine, workload_of, results)
    if FIRST_USE in selected:
        measure_first_use(machine, "SQLite", [], results)
        with postgres(machine) as url:
            if url:
                measure_first_use(machine, "PostgreSQL", ["--sequence-store", url], results)
            else:
                progress(f"{FIRST_USE}: not measured with PostgreSQL, which is not installed")
    if MEMORY in selected or LISTS in selected:
        measure_names(machine, selected, results)
    if START in selected or STORED in selected:
        folder = folder_with(machine, IN_STORE)
        if START in selected:
            results[START] = [machine.first_answer_ms("getid", f"INCR {name_of(7)}".encode(), folder, CREATES)
                              for _ in range(machine.options.rounds)]
            progress(f"{START}: {results[START][-1]:.0f} ms")
        if STORED in selected:
            measure_stored(machine, folder, results)


def name_of(number):
    """Returns a name as redis-benchmark makes it."""
    return f"counter:{number:012}"


def folder_with(machine, count):
    """Returns a state folder whose SQLite store has `count` sequences that one INCR each would have made."""
    server = machine.start("getid", CREATES)
    count_each(server.port, [name_of(0)])
    machine.end(server.process)
    folder = os.path.dirname(server.path)
    with contextlib.closing(sqlite3.connect(*glob.glob(os.path.join(folder, "sequences-*.sqlite")))) as store, store:
        columns = ", ".join(row[1] for row in store.execute("PRAGMA table_info(getid_sequence)") if row[1] != "name")
        store.execute("WITH RECURSIVE numbers(n) AS "
                      f"(VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {count}) "
                      f"INSERT INTO getid_sequence (name, {columns}) SELECT printf('counter:%012d', n), {columns} "
                      f"FROM numbers, getid_sequence WHERE name = '{name_of(0)}'")
    return folder


def count_each(port, names):
    """Sends one INCR of each name, 1,000 at a time."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        for first in range(0, len(names), 1000):
            some = names[first:first + 1000]
            connection.sendall("".join(encode(["INCR", name]) for name in some).encode())
            replies = b""
            while replies.count(b"\n") < len(some):
                part = connection.recv(65536)
                if not part:
                    raise ConnectionResetError("closed")
                replies += part
            if b"-" in replies:
                raise Failure(f"INCR: {replies[:1000].decode()}")


# --- INCR -------------------------------------------------------------------------------------------------------------


def measure_incr(machine, workload_of, results):
    """Compares INCR of one name, and of many in random order, with Redis's INCR of the same names."""
    servers = {kind: machine.start(kind, CREATES if kind == "getid" else []) for kind in kinds_of(machine)}
    for server in servers.values():
        count_each(server.port, [name_of(number) for number in range(USED)])
        # So that each name has a segment after its use: the first ones cost a reservation in the store each.
        for _ in range(2):
            random_incr(machine, server, USED, 100, 200 * USED)
    for depth, *targets in DEPTHS:
        def one(server, workload=workload_of(depth)):
            report = machine.bench(server, workload, workload.words, machine.options.seconds)
            return report["server"]["cpu_us_per_request"]

        compare(machine, servers, f"INCR, one name, {CONNECTIONS} connections, depth {depth}", targets[0], one, results)
        requests = int(REQUESTS_A_SECOND[depth] * machine.options.seconds)
        compare(machine, servers, f"INCR, {USED:,} names, {CONNECTIONS} connections, depth {depth}", targets[1],
                lambda server: random_incr(machine, server, USED, depth, requests), results)
    end_all(machine, servers)


def measure_stored(machine, folder, results):
    """The same of a million names, most of which are in the store and not in memory."""
    servers = {kind: machine.start(kind, CREATES, folder=folder) if kind == "getid" else machine.start(kind)
               for kind in kinds_of(machine)}
    for kind, server in servers.items():
        count_each(server.port, [name_of(number) for number in range(IN_MEMORY if kind == "getid" else IN_STORE)])
    for depth, *_ in DEPTHS:
        name = f"INCR, {IN_STORE:,} names in the store, {CONNECTIONS} connections, depth {depth}"
        compare(machine, servers, name, None,
                lambda server: random_incr(machine, server, IN_STORE, depth, STORED_REQUESTS), results)
    end_all(machine, servers)


def random_incr(machine, server, names, depth, requests):
    """Sends INCRs of random names, and returns the server's CPU time per request, µs."""
    words = ["-r", str(names), "INCR", "counter:__rand_int__"]
    return machine.redis_benchmark(server, ["-p", str(server.port)], depth, requests, words)


def kinds_of(machine):
    return [kind for kind in ("getid", "redis") if kind in machine.options.kinds]


def compare(machine, servers, name, target, cost_of, results):
    """Measures a row of the table of INCR, in rounds that begin with another server each."""
    runs = {kind: [] for kind in servers}
    results.setdefault(INCR, {})[name] = {"target": target, "runs": runs}
    for number in range(machine.options.rounds):
        for kind in list(servers)[:: -1 if number % 2 else 1]:
            runs[kind].append(cost_of(servers[kind]))
    progress(f"{name}: " + ", ".join(f"{kind} {values[-1]:.3g} us" for kind, values in runs.items()))


def end_all(machine, servers):
    for server in servers.values():
        machine.end(server.process)


# --- first use --------------------------------------------------------------------------------------------------------


def measure_first_use(machine, store, words, results):
    """Measures how many names that are new to the store get their first value in a second."""
    server = machine.start("getid", [*CREATES, *words])
    for depth, *_ in DEPTHS[:2]:
        name = f"{store}, {CONNECTIONS} connections, depth {depth}"
        runs = results.setdefault(FIRST_USE, {})[name] = {"store": store, "rate": [], "errors": [], "cpu_us": []}
        for number in range(machine.options.rounds):
            before = cpu_ns(server.pid)
            seconds, made, errors = use_new(server.port, f"{depth}:{number}", depth, machine.options.seconds)
            runs["rate"].append(made / seconds)
            runs["errors"].append(errors)
            runs["cpu_us"].append((cpu_ns(server.pid) - before) / 1000 / max(made, 1))
        progress(f"{name}: {runs['rate'][-1]:,.0f} new names a second, {runs['errors'][-1]} errors")
    machine.end(server.process)


def use_new(port, prefix, depth, seconds):
    """Sends INCRs of new names for some seconds. Returns the seconds until the last reply, and the numbers of values
    and of errors."""
    numbers, values, errors = itertools.count(), 0, 0
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())

        def send(connection):
            names = [f"counter:{prefix}:{number}" for number in itertools.islice(numbers, depth)]
            connection.sendall("".join(encode(["INCR", name]) for name in names).encode())

        connections = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(CONNECTIONS)]
        began = time.perf_counter()
        replies = {}
        for connection in connections:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ)
            send(connection)
            replies[connection] = b""
        while replies:
            ready = selector.select(PATIENCE_S)
            if not ready:
                raise Failure(f"no reply to INCR of a new name within {PATIENCE_S} s")
            for key, _ in ready:
                connection = key.fileobj
                part = connection.recv(65536)
                if not part:
                    raise ConnectionResetError("closed")
                replies[connection] += part
                lines = replies[connection].split(b"\r\n")
                if len(lines) <= depth:
                    continue
                failed = sum(line.startswith(b"-") for line in lines)
                values, errors = values + depth - failed, errors + failed
                if time.perf_counter() < began + seconds:
                    send(connection)
                    replies[connection] = b""
                else:
                    del replies[connection]
        return time.perf_counter() - began, values, errors


@contextlib.contextmanager
def postgres(machine):
    """Runs a PostgreSQL of its own, with its own settings except for the folder and the port. Yields its address, or
    `None` if it is not installed."""
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not programs:
        yield None
        return
    folder, port = tempfile.mkdtemp(prefix="getid-compare-", dir=machine.options.dir), free_port()
    user = []
    if os.geteuid() == 0:
        # PostgreSQL does not run as root.
        user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        shutil.chown(folder, "postgres", "postgres")
    data, cores, process = os.path.join(folder, "data"), os.sched_getaffinity(0), None
    try:
        subprocess.run([*user, f"{programs[-1]}/initdb", "-D", data, "-A", "trust", "-U", "postgres"], check=True,
                       capture_output=True, cwd=folder)
        with open(os.path.join(folder, "log"), "wb") as log:
            process = machine.spawn([*user, f"{programs[-1]}/postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1",
                                     "-k", folder], cores, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
        ready = [f"{programs[-1]}/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
        end = time.monotonic() + START_PATIENCE_S
        while subprocess.run(ready, check=False).returncode != 0:
            if time.monotonic() > end or process.poll() is not None:
                raise Failure("PostgreSQL did not start")
            time.sleep(0.05)
        yield f"postgres://postgres@127.0.0.1:{port}/postgres"
    finally:
        if process:
            machine.end(process)
        shutil.rmtree(folder, ignore_errors=True)


# --- memory and lists -------------------------------------------------------------------------------------------------


def measure_names(machine, selected, results):
    """Measures the memory of names that are used once each, and then lists them."""
    folder = folder_with(machine, IN_MEMORY)
    for _ in range(min(machine.options.rounds, MEMORY_ROUNDS_MAX)):
        for kind in kinds_of(machine):
            server = machine.start(kind, CREATES, folder=folder) if kind == "getid" else machine.start(kind)
            # The first names also fill buffers and caches.
            count_each(server.port, [name_of(number) for number in range(USED)])
            before = resident_mib(server.pid)
            count_each(server.port, [name_of(number) for number in range(USED, IN_MEMORY)])
            if MEMORY in selected:
                took = (resident_mib(server.pid) - before) * (1 << 20) / (IN_MEMORY - USED)
                results.setdefault(MEMORY, {}).setdefault(kind, []).append(took)
            if LISTS in selected:
                for command in LISTINGS if kind == "getid" else ["SCAN"]:
                    runs = results.setdefault(LISTS, {}).setdefault(f"{kind} {command}", {"ms": [], "p99_ms": []})
                    took, p99 = list_all(server.port, LISTINGS[command], "GETID" if kind == "getid" else "INCR probe")
                    runs["ms"].append(took)
                    runs["p99_ms"].append(p99)
            machine.end(server.process)
    for kind, values in results.get(MEMORY, {}).items():
        progress(f"{MEMORY}: {kind} {values[-1]:.0f} bytes")
    for name, runs in results.get(LISTS, {}).items():
        progress(f"{LISTS}: {name} {runs['ms'][-1]:.0f} ms, a probe's p99 {runs['p99_ms'][-1]:.2g} ms")


def list_all(port, command, probe_command):
    """Lists all names by pages. Returns the milliseconds until the end, and the p99 of a probe meanwhile, ms."""
    context = multiprocessing.get_context("fork")
    (own, other), ended = context.Pipe(), context.Event()
    process = context.Process(target=probe, args=(port, probe_command.encode(), ended, other), daemon=True)
    process.start()
    try:
        receive(own)
        took, names = pages(port, command)
        ended.set()
        latencies = receive(own)
    finally:
        process.kill()
        process.join()
    if names < IN_MEMORY:
        raise Failure(f"{command} has {names} of {IN_MEMORY} names")
    return took, statistics.quantiles(latencies, n=100)[98] if len(latencies) > 1 else latencies[0]


def receive(pipe):
    if not pipe.poll(PATIENCE_S):
        raise Failure("the probe does not respond")
    return pipe.recv()


def pages(port, command):
    """Reads all pages. Returns the milliseconds of it, and the number of names."""
    cursor, names = b"0" if command.startswith("SCAN") else b'""', 0
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        began = time.perf_counter()
        while True:
            # PING's reply ends the page, so that the page need not be parsed.
            connection.sendall(command.format(cursor.decode(), PAGE).encode() + b"\r\nPING\r\n")
            page = bytearray()
            while not page.endswith(b"+PONG\r\n"):
                part = connection.recv(1 << 20)
                if not part:
                    raise ConnectionResetError("closed")
                page += part
            if not page.startswith(b"*"):
                raise Failure(f"{command}: {page[:200].decode()}")
            names += page.count(b"\r\ncounter:")
            cursor = bytes(page).split(b"\r\n", 3)[2]
            if cursor in (b"0", b""):
                return (time.perf_counter() - began) * 1000, names


def probe(port, command, ended, pipe):
    """Sends a command again and again until `ended` is set, and then the latencies, ms. A reply that takes longer than
    the interval counts also for the requests that other connections would have sent meanwhile, one in each interval."""
    latencies = []
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        ask(None, command, connection)
        pipe.send("ready")
        while not ended.is_set() or not latencies:
            began = time.perf_counter()
            ask(None, command, connection)
            took = (time.perf_counter() - began) * 1000
            latencies += [took - missed for missed in range(0, max(1, int(took)), PROBE_INTERVAL_MS)]
            time.sleep(PROBE_INTERVAL_MS / 1000)
    pipe.send(latencies)


# --- tables -----------------------------------------------------------------------------------------------------------


def print_all(results):
    """Prints the tables."""
    rows = []
    for name, row in results.get(INCR, {}).items():
        of_getid, of_redis = (row["runs"].get(kind, []) for kind in ("getid", "redis"))
        both = [a / b for a, b in zip(of_getid, of_redis)]
        rows.append([name, spread(of_getid), spread(of_redis), spread(both), verdict(both, row["target"])])
    if rows:
        table("Sequences: CPU time of the server per INCR, µs, with redis-benchmark as the load of many names",
              ["workload", SERVERS["getid"], SERVERS["redis"], "getid / redis-server", "target"], rows)
    rows = [[name, spread(runs["rate"]), verdict(runs["rate"], FIRST_USES_MIN[runs["store"]], at_least=True),
             f"{sum(runs['errors']):,}", verdict([sum(runs["errors"])], 0), spread(runs["cpu_us"])]
            for name, runs in results.get(FIRST_USE, {}).items()]
    if rows:
        table("Sequences: first use of new names",
              ["store", "names a second", "target", "errors", "target", "CPU time of getid per name, µs"], rows)
    memory, lists, rows = results.get(MEMORY, {}), results.get(LISTS, {}), []
    if memory:
        rows.append([f"memory of a name in use, bytes, one of {IN_MEMORY:,}",
                     *(spread(memory.get(kind, [])) for kind in ("getid", "redis")),
                     verdict(memory.get("getid", []), NAME_BYTES_MAX)])
    for command in LISTINGS if lists else []:
        of_both = [lists.get(f"{kind} {command}", {"ms": [], "p99_ms": []}) for kind in ("getid", "redis")]
        title = f"{command} of {IN_MEMORY:,} names, {PAGE:,} at a time, ms"
        for field, title, target in (("ms", title, LIST_MS_MAX), ("p99_ms", PROBED, PROBE_P99_MS_MAX)):
            rows.append([title, *(spread(runs[field]) for runs in of_both), verdict(of_both[0][field], target)])
    if START in results:
        rows.append([f"start with {IN_STORE:,} names in the store, until the first INCR's reply, ms",
                     spread(results[START]), "-", verdict(results[START], START_MS_MAX)])
    if rows:
        table("Sequences: many names", ["what", SERVERS["getid"], SERVERS["redis"], "target"], rows)
