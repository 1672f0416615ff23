#!/usr/bin/env python3
"""Measures numbers without gaps, and IDs of requests, over many connections of one server.

    benches/gapless.py PORT [CONNECTIONS] [ROUNDS] [PID]

The server declares `generator invoice serial "R{n:9}" gapless` and `generator order fork`. Each connection has one
command in flight. A pair is NUMBER RESERVE and NUMBER COMMIT of one request. With the PID of the server, its CPU time
is printed too (Linux).
"""

import os
import socket
import sys
import time

KINDS = [
    ("pairs of RESERVE and COMMIT", ["NUMBER RESERVE invoice REQUEST pair-{r}\r\n", "NUMBER COMMIT invoice pair-{r}\r\n"]),
    ("GETID invoice REQUEST", ["GETID invoice REQUEST whole-{r}\r\n"]),
    ("GETID order REQUEST", ["GETID order REQUEST {r}\r\n"]),
    ("GETID order REQUEST, repeated", ["GETID order REQUEST {r}\r\n"]),
]


def cpu_seconds(pid):
    """The CPU time of a process and of its ended children, or 0 without a process."""
    if pid is None:
        return 0
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(clients, line, requests):
    """Sends a command over each connection, and then reads the replies."""
    for client, request in zip(clients, requests):
        client.sendall(line.format(r=request).encode())
    for client in clients:
        reply = client.recv(4096)
        if not reply.startswith((b"$", b"+", b":")):
            sys.exit(f"{line.strip()} was answered with {reply!r}")


def main():
    words = sys.argv[1:]
    if not words or not all(word.isdecimal() for word in words):
        sys.exit(__doc__)
    port, connections, rounds = (int(word) for word in words[:3] + ["100", "100"][len(words) - 1 :])
    pid = words[3] if len(words) > 3 else None
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
    for client in clients:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    run = f"{os.getpid()}-{time.time_ns()}"
    for name, lines in KINDS:
        begin, cpu = time.monotonic(), cpu_seconds(pid)
        for nth in range(rounds):
            requests = [f"{run}-{nth}-{connection}" for connection in range(connections)]
            for line in lines:
                ask(clients, line, requests)
        seconds, cpu = time.monotonic() - begin, cpu_seconds(pid) - cpu
        count = connections * rounds
        print(f"{name}: {count / seconds:,.0f} a second, {cpu / count * 1e6:.0f} us of CPU time each", flush=True)


main()
