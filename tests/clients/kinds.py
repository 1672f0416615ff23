"""Libraries of IDs and getid read each other's IDs: time, fields, text and order of one are those of the other.

The server has server-id 363, which is datacenter 11 and worker 11 of `tweets`; `drift` has worker 43.
"""

import os
import re
import time
import uuid
from datetime import datetime

import nanoid
import pksuid
import redis
import snowflake_id_toolkit as toolkit
import uuid_utils
from bson import ObjectId
from epyxid import XID
from ksuid import Ksuid
from mastodon.types_base import MaybeSnowflakeIdType
from nanoid import resources
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import SpanContext, format_span_id
from snowflake import Snowflake, SnowflakeGenerator
from tsidpy import TSID, TSIDGenerator
from typeid import TypeID
from ulid import ULID

ids = redis.Redis(port=int(os.environ["GETID_PORT"]), decode_responses=True, protocol=3)
SERVER, WORKER = 363, 43
TWITTER, DISCORD, INSTAGRAM, YITTER = 1288834974657, 1420070400000, 1314220021721, 1582136402000
GREGORIAN = -12219292800000


class Kind:
    """Reads IDs of `generator` by `library` and those of `library` by DECODEID.

    `parse` reads a text and `write` is its inverse. `fields` are those of DECODEID, whose time may be finer than
    `step_ms`. `make` returns an ID of the library's own. `order` is the value that the library compares.
    """

    def __init__(self, library, generator, parse, fields, make, write=str, order=lambda read: read, step_ms=1):
        self.library, self.generator, self.parse, self.fields, self.make = library, generator, parse, fields, make
        self.write, self.order, self.step_ms = write, order, step_ms

    def compare(self, text):
        """Fails unless the library and DECODEID read the same from a text. Returns what both read."""
        read = self.parse(text)
        assert self.write(read) == text, (self.library, self.write(read), text)
        decoded = ids.execute_command("DECODEID", text, self.generator)
        for name, value in self.fields(read).items():
            found = decoded[name] // self.step_ms * self.step_ms if name == "unix_ms" else decoded[name]
            assert str(found) == str(value), (self.library, text, name, value, decoded)
        return read, decoded

    def check(self):
        one, many = ids.execute_command("GETID", self.generator), ids.execute_command("MGETID", 100, self.generator)
        drawn = [str(one), *many]
        assert len(set(drawn)) == 101
        compared = [self.compare(text) for text in drawn]
        for _, decoded in compared:
            # IDs begin id-max-borrow-ms, three seconds, ahead of the clock.
            now = time.time() * 1000
            assert abs(decoded.get("unix_ms", now) - now) < 60_000, decoded
        if self.order:
            order = [self.order(read) for read, _ in compared]
            assert order == sorted(order)
        for _ in range(20):
            self.compare(self.write(self.make()))


def split(value, **widths):
    """Splits a number into fields, the most significant first."""
    fields = {}
    for name, width in reversed(widths.items()):
        fields[name] = value & (1 << width) - 1
        value >>= width
    return fields


def of_time(time):
    return {"unix_ms": round(time.timestamp() * 1000)}


def of_uuid(read):
    assert read.variant == uuid.RFC_4122
    high, low = read.int >> 64, read.int & (1 << 62) - 1
    if read.version == 4:
        return {}
    if read.version == 7:
        return {"unix_ms": high >> 16, "counter": high & 0xFFF, "noise": low}
    ticks = read.time if read.version == 1 else high >> 16 << 12 | high & 0xFFF
    return {"unix_ms": ticks // 10_000 + GREGORIAN, "clock-seq": read.clock_seq, "node": read.node}


def of_ulid(read):
    return {"unix_ms": read.milliseconds, **split(int(read), counter=16, noise=64)}


def of_ksuid(read):
    return {"unix_ms": read.timestamp * 1000, **split(int.from_bytes(read.payload, "big"), counter=24, noise=104)}


def of_tsid(read):
    return {"unix_ms": int(read.timestamp), **split(read.random, node=10, counter=12)}


def of_xid(read):
    machine = int.from_bytes(read.machine, "big")
    return {**of_time(read.time), "machine": machine, "process": read.pid, "counter": read.counter}


def of_snowflake(generator, epoch, **instance):
    made = SnowflakeGenerator(SERVER, epoch=epoch)
    return Kind("snowflake-id", generator, lambda text: Snowflake.parse(int(text), epoch),
                lambda read: {"unix_ms": read.milliseconds, **split(read.instance, **instance), "counter": read.seq},
                lambda: Snowflake.parse(next(new for new in made if new), epoch),
                write=lambda read: str(int(read)), order=int)


def of_node(epoch, node):
    return lambda read: {"unix_ms": read.timestamp_ms(epoch), node: read.node_id(), "counter": read.sequence()}


class Yitter(toolkit.SnowflakeID):
    _config = toolkit.SnowflakeIDConfig(51, 6, 6)


class YitterGenerator(toolkit.SnowflakeIDGenerator):
    _config, _id_cls = Yitter._config, Yitter


def nano(alphabet, size):
    return lambda text: re.fullmatch(f"[{re.escape(alphabet)}]{{{size}}}", text)[0]


def span(text):
    read = SpanContext(1, int(text), False)
    assert read.is_valid and int(format_span_id(read.span_id), 16) == int(text)
    return read


def new_span():
    """Returns a span ID of the SDK below 2^63: the kind has no more bits."""
    return span(next(new for new in iter(RandomIdGenerator().generate_span_id, 0) if new < 1 << 63))


tsids = TSIDGenerator(SERVER, 10)
photos = toolkit.InstagramSnowflakeIDGenerator(SERVER, epoch=INSTAGRAM)
drift = YitterGenerator(WORKER, epoch=YITTER)
uuids = {1: uuid.uuid1, 4: uuid.uuid4, 6: uuid_utils.uuid6, 7: uuid_utils.uuid7}

LIBRARIES = [
    of_snowflake("tweets", TWITTER, datacenter=5, worker=5),
    of_snowflake("flakes", TWITTER, datacenter=5, worker=5),
    of_snowflake("chat", DISCORD, worker=5, process=5),
    *(Kind("uuid", f"v{version}", uuid.UUID, of_uuid, make, order=(lambda read: read) if version > 5 else None)
      for version, make in uuids.items()),
    Kind("uuid", "user-v7", lambda text: uuid.UUID(re.fullmatch("user_(.*)", text)[1]), of_uuid, uuid_utils.uuid7,
         write=lambda read: f"user_{read}"),
    Kind("pymongo", "document", ObjectId,
         lambda read: {**of_time(read.generation_time), **split(int(str(read), 16), process=40, counter=24)},
         ObjectId),
    Kind("python-ulid", "ulids", ULID.from_str, of_ulid, ULID),
    Kind("svix-ksuid", "ksuids", Ksuid.from_base62, of_ksuid, Ksuid),
    Kind("pksuid", "user-ksuids", pksuid.PKSUID.parse, lambda read: {"unix_ms": read.get_timestamp() * 1000},
         lambda: pksuid.PKSUID("user")),
    Kind("tsidpy", "tsids", TSID.from_string, of_tsid, tsids.create),
    Kind("tsidpy", "tsid-integers", lambda text: TSID.from_string(text, "d"), of_tsid, tsids.create,
         write=lambda read: read.to_string("d")),
    *(Kind("typeid-python", name, TypeID.from_string, lambda read: of_uuid(uuid.UUID(bytes=read.uuid_bytes)),
           lambda prefix=prefix: TypeID(prefix), order=str)
      for name, prefix in (("accounts", "user_account"), ("bare", None))),
    Kind("epyxid", "xids", XID, of_xid, XID),
    Kind("nanoid", "nano", nano(resources.alphabet, resources.size), lambda read: {}, nanoid.generate, order=None),
    Kind("nanoid", "codes", nano("0123456789abcdef", 20), lambda read: {},
         lambda: nanoid.generate("0123456789abcdef", 20), order=None),
    Kind("snowflake-id-toolkit", "photos", toolkit.InstagramSnowflakeID, of_node(INSTAGRAM, "shard"),
         photos.generate_next_id),
    Kind("Mastodon.py", "toots", MaybeSnowflakeIdType, lambda read: of_time(read.to_datetime()),
         lambda: MaybeSnowflakeIdType(datetime.now()), step_ms=1000),
    Kind("snowflake-id-toolkit", "drift", Yitter, of_node(YITTER, "worker"), drift.generate_next_id),
    Kind("opentelemetry-sdk", "spans", span, lambda read: {}, new_span, write=lambda read: str(read.span_id),
         order=None),
]

for kind in LIBRARIES:
    kind.check()
    print("ok", kind.generator, kind.library)
