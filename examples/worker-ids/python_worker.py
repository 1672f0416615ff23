"""IDs made in this process, with a worker id that getid leases (docs/worker-ids.md).

    pip install clients/python
    python examples/worker-ids/python_worker.py
"""

from getid import Client, Layout

# One pool serves one layout, so the programs of a team share these two.
POOL = "orders"
LAYOUT = Layout.TWITTER


def main():
    with Client() as client:  # The address is GETID_URL, by default getid://127.0.0.1:7890.
        worker = client.worker(POOL, LAYOUT)
        ids = [worker.next() for _ in range(1000)]
    print(ids[0])
    print(f"worker id {LAYOUT.parts(ids[0]).worker}: {len(set(ids))} different IDs, ascending: {ids == sorted(ids)}")


if __name__ == "__main__":
    main()
