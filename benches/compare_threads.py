"""Measurements of io-threads for `compare`: the cost of several against one, how much more they serve if there are cores
for them, and whether IDs stay in order."""

import contextlib
import dataclasses
import json
import os
import subprocess

from side_by_side import LAYOUT, Failure, progress, spread, table, verdict

COUNTS = (1, 2, 4)
CONNECTIONS = 50
DEPTHS = (1, 16)

# Lower bounds for requests a second by a number of threads, as a multiple of one thread's.
RATE_MIN = {2: 1.8, 4: 3.2}
# Upper bounds for CPU time per request, as a multiple of one thread's. Above them, threads that are never idle could
# not reach those rates. (One thread serves 1 / c requests in a second of CPU time, n threads n / c'.)
CPU_MAX = {count: round(count / rate, 2) for count, rate in RATE_MIN.items()}


@dataclasses.dataclass
class Arrangement:
    """The cores of a server's threads and of the load."""
    name: str
    counts: tuple
    server_cores: set
    load_cores: set
    # Whether each server thread has a core to itself: only then the rate is meaningful.
    has_cores: bool = False


def arrangements(options):
    """Returns the arrangements that this machine has cores for."""
    cores = sorted(os.sched_getaffinity(0))
    made = [Arrangement("on one core, load on another", COUNTS, options.server_cores, options.load_cores)]
    for count in COUNTS[1:]:
        if len(cores) >= 2 * count:
            made.append(Arrangement(f"on {count} cores, load on the others", (1, count), set(cores[:count]),
                                    set(cores[count:]), True))
    if len(made) == 1 and len(cores) > 1:
        made.append(Arrangement("and load on the same two cores", COUNTS, set(cores[:2]), set(cores[:2])))
    return made


def name_of(depth):
    return f"GETID, {CONNECTIONS} connections, depth {depth}"


def measure(machine, workload_of, results):
    """Measures each arrangement's rows, into `results`. `workload_of` makes a workload of a name and a depth."""
    for arrangement in arrangements(machine.options):
        rows = results[arrangement.name] = {}
        with on_cores(machine.options, arrangement):
            servers = {count: machine.start("getid", ["--io-threads", str(count)]) for count in arrangement.counts}
            for depth in DEPTHS:
                measure_depth(machine, workload_of(name_of(depth), CONNECTIONS, depth), servers, rows)
            for count, server in servers.items():
                for depth in DEPTHS:
                    rows[name_of(depth)].setdefault("verified", []).append(verify(machine, server, depth))
                machine.end(server.process)


@contextlib.contextmanager
def on_cores(options, arrangement):
    """Puts servers and load on the arrangement's cores meanwhile."""
    own = options.server_cores, options.load_cores
    options.server_cores, options.load_cores = arrangement.server_cores, arrangement.load_cores
    try:
        yield
    finally:
        options.server_cores, options.load_cores = own


def measure_depth(machine, workload, servers, rows):
    options = machine.options
    runs = rows[workload.name] = {"runs": {count: [] for count in servers}}
    counts = list(servers)
    for number in range(options.rounds):
        # A different one is first in each round.
        turn = number % len(counts)
        for count in counts[turn:] + counts[:turn]:
            runs["runs"][count].append(machine.bench(servers[count], workload, workload.words, options.seconds,
                                                     threads=len(options.load_cores)))
    progress(f"io-threads, {workload.name}: "
             + ", ".join(f"{count}: {cpu(reports[-1]):.3g} us" for count, reports in runs["runs"].items()))


def verify(machine, server, depth):
    """Runs `getid verify`, which must find all promises kept. Returns the number of IDs."""
    options = machine.options
    command = [options.load, "verify", "--json", *LAYOUT, "--modulus", "2", "--port", str(server.port), "--connections",
               str(CONNECTIONS), "--pipeline", str(depth), "--seconds", str(max(1, round(options.seconds)))]
    process = machine.spawn(command, options.load_cores, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, complaint = process.communicate(timeout=options.seconds + 60)
    except subprocess.TimeoutExpired:
        raise Failure(f"did not end in time: {' '.join(command)}") from None
    finally:
        machine.end(process)
    if process.returncode != 0:
        raise Failure(f"{' '.join(command)}\n{complaint.decode()}{output.decode()}")
    return json.loads(output)["ids"]


def cpu(report):
    return report["server"]["cpu_us_per_request"]


def rate(report):
    return report["requests_per_second"]


def ratios(runs, count, value):
    """Returns the value of `count` threads / one thread, for each round."""
    return [value(many) / value(one) for many, one in zip(runs[count], runs[1]) if value(one)]


def print_all(options, results):
    for arrangement in arrangements(options):
        # An interrupted run has incomplete rows.
        measured = results.get(arrangement.name, {})
        rows = {name: row["runs"] for name, row in measured.items() if all(row["runs"].values())}
        if rows:
            print_arrangement(arrangement, rows)
    verified = [ids for rows in results.values() for row in rows.values() for ids in row.get("verified", [])]
    if verified:
        print(f"\nOrder with io-threads: `getid verify` checked {sum(verified):,} IDs of {len(verified)} runs, "
              f"{CONNECTIONS} connections each: each ID is unique, IDs ascend on each connection, and an ID that was "
              "requested after another's reply is larger.")
    cores = len(os.sched_getaffinity(0))
    missing = [count for count in COUNTS[1:] if cores < 2 * count]
    if results and missing:
        needed = " and ".join(str(2 * count) for count in missing)
        print(f"\nRequests a second with io-threads {' and '.join(map(str, missing))}: not measured. The measurement needs "
              f"a core for each thread and as many for the load, {needed}; this machine has {cores}.")


def print_arrangement(arrangement, rows):
    many = arrangement.counts[1:]
    titles = [f"{count} / 1" for count in many]
    head = ["workload", *map(str, arrangement.counts), *(cell for title in titles for cell in (title, "target"))]

    def cells(name, runs, value, targets, at_least):
        cells = [name, *(spread(map(value, runs[count])) for count in arrangement.counts)]
        for count in many:
            values = ratios(runs, count, value)
            cells += [spread(values), verdict(values, targets[count], at_least)]
        return cells

    table(f"io-threads {arrangement.name}: CPU time of the server per request, µs", head,
          [cells(name, runs, cpu, CPU_MAX, False) for name, runs in rows.items()])
    if arrangement.has_cores:
        limits = [", ".join(sorted({report["limit"] for report in runs[many[-1]]})) for runs in rows.values()]
        table(f"io-threads {arrangement.name}: requests a second", [*head, f"limit of the runs with {many[-1]}"],
              [[*cells(name, runs, rate, RATE_MIN, True), limit] for (name, runs), limit in zip(rows.items(), limits)])
