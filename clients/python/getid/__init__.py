"""Unique IDs and sequence values of a getid server, returned in process from a local supply.

    from getid import Client, Layout

    with Client("getid://127.0.0.1:7890") as client:
        orders = client.sequence("orders")              # values of a sequence, fetched ahead
        print(orders.next())
        ids = client.worker("orders", Layout.TWITTER)   # IDs made in process with a leased worker id
        print(ids.next())

Make one client for a process and keep it. Its objects may be used by several threads, by asyncio and gevent, and after
a fork. ``getid.testing`` has a fake client for unit tests.
"""

from ._client import Client, Event
from ._errors import ClockError, Closed, GetidError, Refused, Unavailable
from ._layout import Layout, Parts
from ._sequence import Sequence
from ._worker import Worker

__all__ = [
    "Client",
    "ClockError",
    "Closed",
    "Event",
    "GetidError",
    "Layout",
    "Parts",
    "Refused",
    "Sequence",
    "Unavailable",
    "Worker",
]
