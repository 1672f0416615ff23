"""Short codes that getid gives are read by the library, and the library's own codes are read by getid."""

import os
import random

import redis
from sqids import Sqids

ids = redis.Redis(port=int(os.environ["GETID_PORT"]), decode_responses=True)
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
CODES = {
    "short": ("", Sqids()),
    "long": ("O-", Sqids(min_length=10)),
    "plain": ("", Sqids(alphabet=BASE58)),
}


def value_of(text, name):
    """The value of a sequence's code, as the server reads it."""
    fields = ids.execute_command("DECODEID", text, name)
    fields = fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2]))
    return int(fields["value"])


for name, (prefix, sqids) in CODES.items():
    texts = ids.execute_command("MGETID", 100, name)
    for place, text in enumerate(texts):
        assert text.startswith(prefix), text
        digits = text.removeprefix(prefix)
        assert sqids.decode(digits) == [place + 1], (text, place)
        assert sqids.encode([place + 1]) == digits, (text, place)
        assert value_of(text, name) == place + 1

    # 4572721 has a text without the library's words at the second attempt only.
    for value in [4572721, 2**53 - 1, 2**63 - 1, *(random.getrandbits(random.randint(1, 63)) for _ in range(100))]:
        assert value_of(prefix + sqids.encode([value]), name) == value, value

# The numbers of a clock ascend, and their codes hold them.
numbers = [Sqids().decode(text) for text in ids.execute_command("MGETID", 100, "clock")]
assert all(len(number) == 1 for number in numbers) and numbers == sorted(numbers)
print("ok sqids")
