"""Measurements of the HTTP port for `compare`: requests against a bare axum handler (benches/null_http.rs), the cost of a
scrape and of a viewer of the page, and whether they affect GETID on the Redis port. wrk makes the load."""

import base64
import contextlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import threading
import time

from side_by_side import START_PATIENCE_S, Failure, Server, cpu_ns, encode, free_port, progress, spread, table, verdict

# A static request, made once; wrk only calls `done` at the end.
SCRIPT = """
wrk.method = "%s"
done = function(summary, latency)
   local failed = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
   io.write(string.format('{"requests":%%d,"us":%%d,"failed":%%d,"refused":%%d,"p50":%%d,"p99":%%d}\\n', summary.requests,
      summary.duration, failed, summary.errors.status, latency:percentile(50), latency:percentile(99)))
end
"""
CONNECTIONS = 50
USER, PASSWORD = "shop", "secret"
RATE_MIN = 60_000

# Name; method and path; IDs in the null server's answer, 0: none; whether the client logs in; the upper bound for CPU
# time per request as a multiple of the null server's.
REQUESTS = [
    ("HTTP, POST /v1/ids/-?count=1", "POST", "/v1/ids/-?count=1", 1, False, 1.15),
    ("HTTP, POST /v1/ids/-?count=1, with a login", "POST", "/v1/ids/-?count=1", 1, True, None),
    ("HTTP, POST /v1/ids/-?count=100", "POST", "/v1/ids/-?count=100", 100, False, None),
    ("HTTP, POST /v1/sequences/counter/values", "POST", "/v1/sequences/counter/values", 1, False, 1.15),
    ("HTTP, GET /livez", "GET", "/livez", 0, False, None),
]
SCRAPES, VIEWERS, GETIDS = "HTTP, GET /metrics", "HTTP, viewers of the page", "HTTP, GETID beside the port"
NAMES = [row[0] for row in REQUESTS] + [SCRAPES, VIEWERS, GETIDS]

SEQUENCES = 1_000
CREATES = ["--sequence-create", "on-first-use", "--sequence-wait-ms", "60000"]
SCRAPE_MS_MAX = 20
VIEWER_COUNT = 20
VIEWER_SHARE_MAX = 0.5
VIEWER_SECONDS = 10


def measure(machine, selected, results):
    """Measures all rows whose names are in `selected`, into `results`."""
    # wrk counts in whole seconds.
    seconds = max(1, round(machine.options.seconds))
    rows = [row for row in REQUESTS if row[0] in selected]
    if rows:
        measure_requests(machine, rows, seconds, results)
    if SCRAPES in selected:
        measure_scrapes(machine, results)
    if VIEWERS in selected:
        measure_viewers(machine, results)


def start(machine, kind, words=()):
    """Starts a server with an HTTP port. Returns the server and that port."""
    port = free_port()
    login = ["--user", f"{USER} on >{PASSWORD} ~* +@all"]
    server = machine.start(kind, ["--http-port", str(port), "--http-bind", "127.0.0.1", *login, *words])
    return server, port


def start_null(machine, ids):
    process = machine.spawn([machine.options.null_http, "--ids", str(ids)], machine.options.server_cores,
                            stdout=subprocess.PIPE)
    line = process.stdout.readline()
    process.stdout.close()
    if not line.strip().isdigit():
        raise Failure("null_http did not start")
    return Server(process, int(line), ""), int(line)


def authorization():
    return "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


def load(machine, server, port, method, path, seconds, logs_in):
    """Runs wrk once. Returns its counts, and the server's CPU time for each request, µs."""
    script = os.path.join(machine.folder, f"{method}.lua")
    with open(script, "w") as file:
        file.write(SCRIPT % method)
    command = ["wrk", "-t", "1", "-c", str(CONNECTIONS), "-d", f"{seconds}s", "-s", script]
    command += ["-H", f"Authorization: {authorization()}"] if logs_in else []
    before = cpu_ns(server.pid)
    process = machine.spawn([*command, f"http://127.0.0.1:{port}{path}"], machine.options.load_cores,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, complaint = process.communicate(timeout=seconds + START_PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise Failure(f"did not end in time: {' '.join(command)}") from None
    finally:
        machine.end(process)
    spent = cpu_ns(server.pid) - before
    if process.returncode != 0:
        raise Failure(f"{' '.join(command)}\n{complaint.decode()}{output.decode()}")
    report = json.loads(output.decode().strip().rsplit("\n", 1)[-1])
    if report["failed"] or report["refused"] or not report["requests"]:
        raise Failure(f"{method} {path}: {report}")
    report["cpu_us"] = spent / 1000 / report["requests"]
    report["rate"] = report["requests"] / report["us"] * 1e6
    return report


def measure_requests(machine, rows, seconds, results):
    kinds = [kind for kind in machine.options.kinds if kind != "redis"]
    servers = {kind: start(machine, kind, CREATES) for kind in kinds if kind != "null"}
    for name, method, path, ids, logs_in, _ in rows:
        own = [kind for kind in kinds if kind != "null" or ids]
        if "null" in own:
            servers["null"] = start_null(machine, ids)
        runs = results[name] = {kind: [] for kind in own}
        for number in range(machine.options.rounds):
            turn = number % len(own)
            for kind in own[turn:] + own[:turn]:
                runs[kind].append(load(machine, *servers[kind], method, path, seconds, logs_in))
        progress(f"{name}: " + ", ".join(f"{kind} {runs[kind][-1]['cpu_us']:.3g} us" for kind in own))
        if "null" in own:
            machine.end(servers.pop("null")[0].process)
    for server, _ in servers.values():
        machine.end(server.process)


def scrape(connection):
    """Scrapes once. Returns the time, ms, and the length, bytes."""
    began = time.perf_counter()
    connection.request("GET", "/metrics", headers={"Authorization": authorization()})
    response = connection.getresponse()
    body = response.read()
    took = (time.perf_counter() - began) * 1000
    if response.status != 200:
        raise Failure(f"GET /metrics: {response.status} {body[:300].decode(errors='replace')}")
    return took, len(body)


def measure_scrapes(machine, results):
    """Measures scrapes of a server with many sequences, all in memory."""
    server, port = start(machine, "getid", CREATES)
    with socket.create_connection(("127.0.0.1", server.port), timeout=START_PATIENCE_S) as connection:
        connection.sendall("".join(encode(["INCR", f"orders:{number}"]) for number in range(SEQUENCES)).encode())
        replies = b""
        while replies.count(b"\n") < SEQUENCES:
            replies += connection.recv(65536)
    runs = results[SCRAPES] = {"ms": [], "cpu_ms": [], "bytes": []}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=START_PATIENCE_S)) as connection:
        scrape(connection)
        for _ in range(machine.options.rounds * 10):
            before = cpu_ns(server.pid)
            took, size = scrape(connection)
            runs["ms"].append(took)
            runs["cpu_ms"].append((cpu_ns(server.pid) - before) / 1e6)
            runs["bytes"].append(size)
            time.sleep(0.02)
    progress(f"{SCRAPES}: {statistics.median(runs['ms']):.3g} ms")
    machine.end(server.process)


def view(port):
    """Connects a viewer of the page. Returns the connection, after the head of the stream."""
    stream = socket.create_connection(("127.0.0.1", port), timeout=START_PATIENCE_S)
    stream.sendall(f"GET /v1/status/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization()}\r\n"
                   "Accept: text/event-stream\r\n\r\n".encode())
    head = stream.recv(65536)
    if not head.startswith(b"HTTP/1.1 200"):
        raise Failure(f"GET /v1/status/stream: {head[:300].decode(errors='replace')}")
    return stream


def measure_viewers(machine, results):
    """Measures the server's share of a core for each viewer: with viewers, less without, on a server that gives IDs."""
    server, port = start(machine, "getid")
    runs = results[VIEWERS] = {"calm": [], "viewed": [], "bytes": []}
    for _ in range(machine.options.rounds):
        for viewers in (0, VIEWER_COUNT):
            with contextlib.ExitStack() as stack:
                streams = [stack.enter_context(view(port)) for _ in range(viewers)]
                before, began, received = cpu_ns(server.pid), time.monotonic(), 0
                for stream in streams:
                    stream.settimeout(0.01)
                while time.monotonic() < began + VIEWER_SECONDS:
                    time.sleep(0.2)
                    for stream in streams:
                        with contextlib.suppress(TimeoutError):
                            received += len(stream.recv(1 << 20))
                share = (cpu_ns(server.pid) - before) / 1e9 / (time.monotonic() - began)
                runs["viewed" if viewers else "calm"].append(share)
                if viewers:
                    runs["bytes"].append(received / viewers / VIEWER_SECONDS)
    progress(f"{VIEWERS}: " + ", ".join(f"{values[-1]:.3g} {name}" for name, values in runs.items()))
    machine.end(server.process)


@contextlib.contextmanager
def scraped_each_second(port):
    """Scrapes the server as Prometheus does, only more often, on a thread of this program."""
    ended = threading.Event()

    def scrape_all():
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=START_PATIENCE_S)) as connection:
            while not ended.wait(1):
                scrape(connection)

    thread = threading.Thread(target=scrape_all)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def measure_getids(machine, workload, seconds, results):
    """Measures GETID on the Redis port: without an HTTP port, with an idle one, with one that is scraped each second.
    `workload` is the one that `compare` uses for GETID."""
    servers = {"closed": (machine.start("getid"), 0), "open": start(machine, "getid"), "scraped": start(machine, "getid")}
    runs = results[GETIDS] = {name: [] for name in servers}
    names = list(servers)
    for number in range(machine.options.rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            server, port = servers[name]
            with scraped_each_second(port) if name == "scraped" else contextlib.nullcontext():
                report = machine.bench(server, workload, workload.words, seconds)
            runs[name].append({"cpu_us": report["server"]["cpu_us_per_request"], "rate": report["requests_per_second"],
                               "p99": report["latency_us"]["p99"]})
        progress(f"{GETIDS}: " + ", ".join(f"{name} {runs[name][-1]['cpu_us']:.3g} us" for name in names))
    for server, _ in servers.values():
        machine.end(server.process)


def values(runs, field):
    return [run[field] for run in runs]


def print_all(results):
    """Prints the tables."""
    rows = []
    for name, _, _, _, _, target in REQUESTS:
        runs = results.get(name)
        if not runs or not all(runs.values()):
            continue
        null = runs.get("null", [])
        both = [a["cpu_us"] / b["cpu_us"] for a, b in zip(runs["getid"], null)]
        rows.append([name, spread(values(runs["getid"], "cpu_us")), spread(values(null, "cpu_us")), spread(both),
                     verdict(both, target), spread(values(runs["getid"], "rate")), spread(values(null, "rate")),
                     *(spread(values(runs["getid"], p)) for p in ("p50", "p99"))])
        if "before" in runs:
            rows[-1][0] += f" (before: {spread(values(runs['before'], 'cpu_us'))} µs)"
    if rows:
        table(f"HTTP: {CONNECTIONS} connections with keep-alive, wrk as the load; CPU time of the server per request, µs",
              ["request", "getid", "bare axum handler", "getid / bare axum handler", "target", "requests a second, getid",
               "requests a second, bare axum handler", "p50, getid, µs", "p99, getid, µs"], rows)
        rate = [run["rate"] for run in results.get(REQUESTS[0][0], {}).get("getid", [])]
        if rate:
            met = "met" if statistics.median(rate) >= RATE_MIN else "**not met**"
            print(f"\n`POST /v1/ids/-?count=1`, requests a second on one core: >= {RATE_MIN:,}: {met}.")
    rows = []
    if SCRAPES in results:
        runs = results[SCRAPES]
        rows.append([f"a scrape with {SEQUENCES:,} sequences, {spread(runs['bytes'])} bytes: ms until it is read",
                     spread(runs["ms"]), verdict(runs["ms"], SCRAPE_MS_MAX)])
        rows.append(["the server's CPU time of it, ms", spread(runs["cpu_ms"]), "-"])
    if VIEWERS in results:
        runs = results[VIEWERS]
        share = [(viewed - calm) / VIEWER_COUNT * 100 for viewed, calm in zip(runs["viewed"], runs["calm"])]
        rows.append([f"a viewer of the page, one of {VIEWER_COUNT}, {spread(runs['bytes'])} bytes a second: % of a core",
                     spread(share), verdict(share, VIEWER_SHARE_MAX)])
    if rows:
        table("HTTP: scrapes and viewers", ["what", "getid", "target"], rows)
    if GETIDS in results:
        runs = results[GETIDS]
        closed = values(runs["closed"], "cpu_us")
        rows = [[name, spread(values(runs[name], "cpu_us")),
                 spread(a / b for a, b in zip(values(runs[name], "cpu_us"), closed)),
                 spread(values(runs[name], "rate")), spread(values(runs[name], "p99"))] for name in runs]
        table("GETID on the Redis port beside the HTTP port, 50 connections, depth 1",
              ["HTTP port", "CPU time per request, µs", "beside closed", "requests a second", "p99, µs"], rows)
