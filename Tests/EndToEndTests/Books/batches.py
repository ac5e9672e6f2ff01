#!/usr/bin/env python3
"""Writes record batches byte by byte, as no client would: small in the log, large once unpacked.

    batches.py --servers HOST:PORT --topic TOPIC WHAT@PARTITION …

WHAT is `good:COUNT` (requests as they should be, not compressed), `CODEC:MEGABYTES:COUNT` (so many batches of one record of
zeros that unpacks to so many MB; CODEC is zstd, gzip or lz4), `full:CODEC:RECORDS:BYTES[:APP]` (one batch of so many
requests with a header of so many bytes, or, for this app, with so many bytes in the payload), `snappy:RECORDS:BEHIND` (one
batch of so many requests with so many bytes behind its last block: up to three a broker takes, and librdkafka none) or
`odd:CODEC:HOW` (one batch of three requests whose records do not stand where they say: see `ODD`). They are written in this
order. Prints for each batch `PARTITION FIRST LAST WHAT BYTES`.
The broker listens without TLS and leads all partitions.
"""

import argparse
import ctypes
import socket
import struct
import time
import zlib

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NOT_LEADER = 6
ERRORS = ctypes.c_size_t(-200).value


def crc_table():
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return table


TABLE = crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def varint(number):
    number = number << 1 ^ number >> 63
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def record(delta, key, value, pad=None, name=b"x-pad"):
    body = b"\0" + varint(0) + varint(delta)
    body += varint(-1) if key is None else varint(len(key)) + key
    body += varint(len(value)) + value
    body += varint(0) if pad is None else varint(1) + varint(len(name)) + name + varint(len(pad)) + pad
    return varint(len(body)) + body


def snappy(data):
    """As Java writes it, in blocks; each of literals only."""
    out = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for first in range(0, len(data), 32_768):
        piece = data[first : first + 32_768]
        left, length = len(piece), b""
        while left > 0x7F:
            length += bytes([left & 0x7F | 0x80])
            left >>= 7
        # A literal whose length, less one, follows in two bytes.
        block = length + bytes([left, 61 << 2]) + struct.pack("<H", len(piece) - 1) + piece
        out += struct.pack(">i", len(block)) + block
    return out


def compressed(codec, data):
    if codec == "none":
        return data
    if codec == "gzip":
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        return packer.compress(data) + packer.flush()
    if codec == "snappy":
        return snappy(data)
    if codec == "zstd":
        library = ctypes.CDLL("libzstd.so.1")
        bound, pack, tail = library.ZSTD_compressBound, library.ZSTD_compress, (3,)
    else:
        library = ctypes.CDLL("liblz4.so.1")
        bound, pack, tail = library.LZ4F_compressFrameBound, library.LZ4F_compressFrame, (None,)
        bound.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
    bound.restype = pack.restype = ctypes.c_size_t
    room = bound(ctypes.c_size_t(len(data)), *([None] if codec == "lz4" else []))
    out = ctypes.create_string_buffer(room)
    if codec == "lz4":
        # LZ4F_preferences_t: Kafka wants blocks of 64 KB that know nothing of each other.
        preferences = struct.pack("=iiiiQIiiIIIII", 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        size = pack(out, ctypes.c_size_t(room), data, ctypes.c_size_t(len(data)), preferences)
    else:
        size = pack(out, ctypes.c_size_t(room), data, ctypes.c_size_t(len(data)), *tail)
    if size > ERRORS:
        raise RuntimeError(f"{codec}: error {size - 2**64}")
    return out.raw[:size]


def batch(codec, records, count):
    now = int(time.time() * 1000)
    body = struct.pack(">hiqqqhii", CODECS[codec], count - 1, now, now, -1, -1, -1, count) + records
    head = struct.pack(">iBI", -1, 2, crc32c(body))
    return struct.pack(">qi", 0, len(head) + len(body)) + head + body


class Broker:
    def __init__(self, servers):
        host, port = servers.split(",")[0].rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), 60)
        self.socket.settimeout(120)
        self.leaderless_until = time.monotonic() + 30

    def read(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise RuntimeError("the broker closed the connection")
            data += more
        return data

    def produce(self, topic, partition, data):
        """Produce version 7; returns the offset of the first record."""
        name = topic.encode()
        body = struct.pack(">hhih", 0, 7, 1, -1) + struct.pack(">hhi", -1, -1, 60_000)
        body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iii", 1, partition, len(data)) + data
        self.socket.sendall(struct.pack(">i", len(body)) + body)
        answer = self.read(struct.unpack(">i", self.read(4))[0])
        at = 4 + 4 + 2 + len(name) + 4
        _, code, offset = struct.unpack_from(">ihq", answer, at)
        if code == NOT_LEADER and time.monotonic() < self.leaderless_until:
            # A topic that was just made: its leader does not know yet.
            time.sleep(0.1)
            return self.produce(topic, partition, data)
        if code:
            raise RuntimeError(f"{topic}/{partition}: error {code}")
        return offset


# The records' offsets, from the batch's first on; `long`: the length of the second is 2^32 more to whoever reads all its bytes.
ODD = {"far": (0, 1, 1_000), "inside": (0, 1_000, 2), "twice": (0, 1, 1), "back": (2, 1, 0), "early": (0, 1, -5), "long": (0, 1, 2)}


def longer(data):
    """The record with a length in five bytes, of which Java takes 32 bits."""
    return bytes([data[0] | 0x80, 0x80, 0x80, 0x80, 0x10]) + data[1:]


def token(partition, number):
    return b"00%010x%052x" % (partition, number)


def batches(what, partition, offset):
    """Yields what is to be written: codec, records, their count, bytes behind; `offset` makes tokens differ."""
    kind, *numbers = what.split(":")
    if kind == "good":
        for number in range(int(numbers[0])):
            yield "none", record(0, token(partition, offset + number), b'{"aps":{"alert":"Hi"}}'), 1, 0
    elif kind == "full":
        codec, count, size = numbers[0], int(numbers[1]), int(numbers[2])
        if len(numbers) > 3:
            text = b'{"aps":{"alert":"Hi"},"pad":"%s"}' % (b"x" * size)
            topic = b"com.example." + numbers[3].encode()
            yield codec, b"".join(
                record(index, token(partition, offset + index), text, topic, b"apns-topic")
                for index in range(count)), count, 0
            return
        yield codec, b"".join(
            record(index, token(partition, offset + index), b'{"aps":{"alert":"Hi"}}', b"x" * size)
            for index in range(count)), count, 0
    elif kind == "odd":
        codec, how = numbers
        records = [
            record(delta, token(partition, offset + index), b'{"aps":{}}') for index, delta in enumerate(ODD[how])]
        # Less than 64 bytes, so that its length is one byte.
        if how == "long":
            records[1] = longer(record(1, b"", b"{}"))
        yield codec, b"".join(records), 3, 0
    elif kind == "snappy":
        count, behind = int(numbers[0]), int(numbers[1])
        yield kind, b"".join(
            record(index, token(partition, offset + index), b'{"aps":{"alert":"Hi"}}')
            for index in range(count)), count, behind
    else:
        megabytes, count = int(numbers[0]), int(numbers[1])
        records = record(0, None, bytes(megabytes * 1_000_000))
        for _ in range(count):
            yield kind, records, 1, 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("what", nargs="+")
    options = parser.parse_args()
    broker = Broker(options.servers)
    packed = {}
    number = 0
    for argument in options.what:
        what, partition = argument.rsplit("@", 1)
        for codec, records, count, behind in batches(what, int(partition), number):
            same = (codec, records, behind)
            if same not in packed:
                packed = {same: batch(codec, compressed(codec, records) + bytes(behind), count)}
            data = packed[same]
            first = broker.produce(options.topic, int(partition), data)
            number += count
            print(partition, first, first + count - 1, what, len(data), flush=True)


main()
