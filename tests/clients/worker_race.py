"""A driver for examples/worker-ids/python_worker.py, which tests/docs/worker_ids.rs controls by lines.

    worker_race.py FOLDER_OF_THE_EXAMPLE

Prints `leased ID`; from then on a thread draws IDs. It reads these lines:

close: closes the worker; prints `refused` once the thread gets no ID, and `closed` when close() has returned.
probe: draws too; prints how many IDs came after close() had returned, the time of the newest ID, and the last refusal.
fork: draws and closes in a child; prints `forked` and what the child got.
"""

import os
import sys
import threading
import time

import redis
from snowflake import Snowflake, SnowflakeGenerator

sys.path.insert(0, sys.argv[1])
from python_worker import Worker


def time_of(id):
    return Snowflake.parse(id).milliseconds


class Race:
    def __init__(self):
        # No time-out, because a test holds replies back.
        client = redis.Redis(port=int(os.environ["GETID_PORT"]), decode_responses=True, socket_timeout=None)
        self.worker = Worker(client, "orders", SnowflakeGenerator, time_of, "race", 3)
        self.lock, self.closing, self.closed, self.close_reported = threading.Lock(), False, False, False
        self.late, self.newest, self.refusal = 0, 0, "none"

    def draw(self):
        closing, closed = self.closing, self.closed
        try:
            made = self.worker.next()
            with self.lock:
                self.newest, self.late = max(self.newest, time_of(made)), self.late + closed
        except RuntimeError as error:
            with self.lock:
                self.refusal = error
                if closing and not self.close_reported:
                    self.close_reported = True
                    print("refused", flush=True)
            time.sleep(0.001)

    def draw_on(self):
        while True:
            self.draw()

    def close(self):
        self.closing = True
        self.worker.close()
        self.closed = True
        print("closed", flush=True)

    def fork(self):
        child = os.fork()
        if child == 0:
            for what in [self.worker.next, self.worker.close]:
                try:
                    print("forked", what(), flush=True)
                except RuntimeError as error:
                    print("forked", error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)


race = Race()
print("leased", race.worker.id, flush=True)
threading.Thread(target=race.draw_on, daemon=True).start()
for line in sys.stdin:
    if line == "close\n":
        threading.Thread(target=race.close, daemon=True).start()
    elif line == "fork\n":
        race.fork()
    else:
        for _ in range(3):
            race.draw()
        print("probed", race.late, race.newest, race.refusal, flush=True)
