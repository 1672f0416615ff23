"""Django: primary keys of a local supply.

A default must be a named function, because migrations write its path. In ``models.py``:

    from django.db import models
    from .django_default import next_order_id

    class Order(models.Model):
        id = models.BigIntegerField(primary_key=True, default=next_order_id, editable=False)

The client connects at its first use, so imports and migrations need no server, and the workers of a pre-fork server
each continue as a new client.
"""

from getid import Client, Layout

client = Client()
_ids = client.worker("orders", Layout.TWITTER)


def next_order_id() -> int:
    """Returns the primary key of a new order."""
    return _ids.next()


if __name__ == "__main__":
    print(next_order_id())
    client.close()
