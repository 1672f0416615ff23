"""First program: a value of a sequence, and an ID made with a leased worker id.

getid serve --dir /tmp/getid --worker-pool 'orders size 1024 lease 30s'
redis-cli -p 7890 WORKERID INIT orders NEW
redis-cli -p 7890 SEQUENCE CREATE orders
"""

from getid import Client, Layout


def main() -> None:
    with Client() as client:
        orders = client.sequence("orders")
        print("order", orders.next())
        print("three more", orders.take(3))
        ids = client.worker("orders", Layout.TWITTER)
        id = ids.next()
        print("id", id, "made at", Layout.TWITTER.parts(id).time)


if __name__ == "__main__":
    main()
