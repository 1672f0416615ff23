"""IDs in Python, with redis-py (pip install redis). Exact: Python integers have no limit."""

import os
import redis

ids = redis.Redis(port=int(os.environ.get("GETID_PORT", "7890")))
order_id = ids.execute_command("GETID")
line_ids = [int(line_id) for line_id in ids.execute_command("MGETID", 3)]
with ids.pipeline(transaction=False) as pipe:
    for _ in range(1000):
        pipe.execute_command("GETID")
    many = pipe.execute()

print(order_id)
print(line_ids)
print(len(set(many)), "different IDs, ascending:", many == sorted(many))
