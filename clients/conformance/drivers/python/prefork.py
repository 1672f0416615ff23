"""A WSGI program for a server that loads it and then forks: the client is made and used before the fork."""

import os
import sys

sys.path.insert(0, os.environ["GETID_PACKAGE"])

from getid import Client  # noqa: E402

client = Client(timeout=60)
values = client.sequence(os.environ["GETID_NAME"])
values.warm_up(100)


def application(environ, start_response):
    """Returns the process's id and 100 values."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    found = [os.getpid(), *(values.next() for _ in range(100))]
    return [" ".join(map(str, found)).encode()]
