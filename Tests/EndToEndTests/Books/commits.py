"""What a group committed: offsets, and what the worker's metadata says is settled above them.

Written from the layout in the product's documents, to know without the worker what its successor will not send again.
"""

import base64
import struct


class Bytes:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def number(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def numbers(self):
        """A set: a leading run of what is not in it, then runs in turn or a bitmap."""
        at, header = self.number(), self.number()
        length, found = header >> 1, set()
        if header & 1:
            for bit in range(length):
                if self.data[self.at + bit // 8] >> bit % 8 & 1:
                    found.add(at + bit)
            self.at += (length + 7) // 8
        else:
            for run in range(length):
                end = at + self.number()
                if run % 2 == 0:
                    found.update(range(at, end))
                at = end
        return found


class Committed:
    """One partition's: the offset, when it was committed (ms since the epoch), and what is settled above it."""

    def __init__(self, offset, metadata, at_ms):
        self.offset = offset
        self.at_ms = at_ms
        self.settled, self.partly, self.reach = set(), {}, None
        if offset < 0 or not metadata:
            return
        data = base64.urlsafe_b64decode(metadata + "=" * (-len(metadata) % 4))
        bytes = Bytes(data[4:])
        if data[0] != 1 or int.from_bytes(data[1:4], "big") != check(data[4:], offset):
            raise ValueError(f"metadata of offset {offset} is damaged: {metadata}")
        reach = bytes.number()
        self.reach = offset + reach - 1 if reach else None
        self.settled = {offset + place for place in bytes.numbers()}
        place = offset
        for _ in range(bytes.number()):
            place += bytes.number()
            self.partly[place] = bytes.numbers()

    def is_settled(self, offset, index):
        return offset < self.offset or offset in self.settled or index in self.partly.get(offset, ())


def check(data, offset):
    """24 bits of FNV-1a, 64 bits wide, over the offset (8 bytes, lowest first) and the data."""
    value = 0xCBF29CE484222325
    for byte in offset.to_bytes(8, "little") + bytes(data):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return (value ^ value >> 32) & 0xFFFFFF


# A record of __consumer_offsets, as Kafka's OffsetCommitKey.json and OffsetCommitValue.json describe it.


def text(data, at):
    (length,) = struct.unpack_from(">h", data, at)
    return data[at + 2:at + 2 + length].decode(), at + 2 + length


def commit_place(key):
    """(group, topic, partition); None: it is no commit."""
    if struct.unpack_from(">h", key)[0] > 1:
        return None
    group, at = text(key, 2)
    topic, at = text(key, at)
    return group, topic, struct.unpack_from(">i", key, at)[0]


def commit_content(value):
    """(offset, metadata, time)."""
    version, offset = struct.unpack_from(">hq", value)
    at = 14 if version >= 3 else 10  # an epoch since 3
    if version >= 4:  # compact strings since 4
        bytes = Bytes(value)
        bytes.at = at
        length = bytes.number() - 1
        metadata, at = value[bytes.at:bytes.at + length].decode(), bytes.at + length
    else:
        metadata, at = text(value, at)
    return offset, metadata, struct.unpack_from(">q", value, at)[0]
