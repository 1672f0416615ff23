#!/usr/bin/env python3
"""Measures numbers without gaps, and IDs of requests, over many connections of one server.

    benches/numbers.py PORT [CONNECTIONS] [ROUNDS]

The server declares `generator invoice serial "R{n:9}" gapless` and `generator order fork`. Each connection has one
command in flight. A pair is NUMBER RESERVE and NUMBER COMMIT of one request.
"""

import os
import socket
import sys
import time


def main():
    port, connections, rounds = (int(word) for word in (sys.argv[1:] + ["100", "100"][len(sys.argv) - 2 :])[:3])
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
    for client in clients:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    run = f"{os.getpid()}-{time.time_ns()}"

    def ask(line, good):
        """Sends a command over each connection, and then reads the replies."""
        for nth, client in enumerate(clients):
            client.sendall(line.format(nth=nth).encode())
        for client in clients:
            reply = client.recv(4096)
            if not reply.startswith(good):
                sys.exit(f"{line.strip()} was answered with {reply!r}")

    for name, lines in [
        ("RESERVE and COMMIT", ["NUMBER RESERVE invoice REQUEST {r}\r\n", "NUMBER COMMIT invoice {r}\r\n"]),
        ("GETID invoice REQUEST", ["GETID invoice REQUEST {r}\r\n"]),
        ("GETID order REQUEST", ["GETID order REQUEST {r}\r\n"]),
        ("GETID order REQUEST, repeated", ["GETID order REQUEST {s}\r\n"]),
    ]:
        begin = time.monotonic()
        for round_ in range(rounds):
            names = {"r": f"{run}-{name[:12].replace(chr(32), chr(45))}-{round_}-{{nth}}"}
            names["s"] = names["r"]
            for line in lines:
                ask(line.format(**names), (b"$", b"+", b":"))
        seconds = time.monotonic() - begin
        print(f"{name}: {connections * rounds / seconds:,.0f} a second over {connections} connections")


main()
