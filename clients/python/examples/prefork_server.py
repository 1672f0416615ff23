"""Pre-fork server: the client is made before the fork, as by ``gunicorn --preload`` or uWSGI, and used after it.

Each child has its own connection, values and lease. No hook is needed; with gunicorn a child may release its lease by
``client.close()`` in ``worker_exit``. A call before the fork is harmless too, but Python 3.12 and later warn of a fork
of a process that has threads, such as the client's.
"""

import os
import sys

from getid import Client, Layout

client = Client()
orders = client.sequence("orders")
ids = client.worker("orders", Layout.TWITTER)


def application(environ, start_response):
    """WSGI application: each request gets a number and an ID."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {orders.next()} {ids.next()}\n".encode()]


def show(process: str) -> None:
    # One write for a line, because several processes have this output.
    sys.stdout.write(f"{process} {application({}, lambda *_: None)[0].decode()}")
    sys.stdout.flush()


def main() -> None:
    for _ in range(3):
        if os.fork() == 0:
            show("child")
            client.close()
            os._exit(0)
    for _ in range(3):
        os.wait()
    show("parent")
    client.close()


if __name__ == "__main__":
    main()
