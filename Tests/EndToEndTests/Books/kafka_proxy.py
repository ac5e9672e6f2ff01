#!/usr/bin/env python3
"""A proxy before one Kafka broker that changes answers, or gives none: for the end-to-end tests.

    kafka_proxy.py HOST:PORT LISTEN-PORT

Where a broker names itself, the proxy's port stands instead, so that clients stay behind it. Lines of the standard input:

    fetch-error TOPIC CODE COUNT    the next COUNT answers to a Fetch of the topic say CODE for each of its partitions
    commit-error TOPIC CODE COUNT   the next COUNT answers to an OffsetCommit of the topic say CODE; it was committed
    stall NAME…                     connections that ask for one of these (fetch, produce) are read from and answered nothing
    flow                            such connections end, and new ones are as they were

Each is confirmed by a line, and so is each answer that was changed. Versions: Fetch up to 11, OffsetCommit up to 7
(librdkafka 2.0.2); later ones pass as they are.
"""

import asyncio
import struct
import sys

PRODUCE, FETCH, METADATA, COMMIT, COORDINATOR = 0, 1, 3, 8, 10
NAMES = {"fetch": FETCH, "produce": PRODUCE}


def say(*words):
    print(*words, flush=True)


class Reader:
    """Reads an answer's fields in their order."""

    def __init__(self, data):
        self.data, self.place = data, 0

    def number(self, form):
        value, = struct.unpack_from(">" + form, self.data, self.place)
        self.place += struct.calcsize(">" + form)
        return value

    def text(self):
        length = self.number("h")
        self.place += length
        return self.data[self.place - length:self.place].decode()


class Proxy:
    def __init__(self, upstream, port):
        host, upstream_port = upstream.rsplit(":", 1)
        self.upstream = (host, int(upstream_port))
        self.own = host.encode() + struct.pack(">i", int(upstream_port))
        self.ours = host.encode() + struct.pack(">i", port)
        # By the kind of request: topic, code, how many are left.
        self.errors = {}
        self.stalled = set()
        self.silent = set()

    def command(self, line):
        words = line.split()
        if not words:
            return
        if words[0] in ("fetch-error", "commit-error"):
            key = FETCH if words[0] == "fetch-error" else COMMIT
            self.errors[key] = (words[1], int(words[2]), int(words[3]))
        elif words[0] == "stall":
            self.stalled = {NAMES[word] for word in words[1:]}
        elif words[0] == "flow":
            self.stalled = set()
            for writer in self.silent:
                writer.close()
            self.silent = set()
        say("done", line.strip())

    async def serve(self, reader, writer):
        try:
            below = await asyncio.open_connection(*self.upstream)
        except OSError:
            writer.close()
            return
        asked = {}
        up = asyncio.create_task(self.requests(reader, writer, below[1], asked))
        down = asyncio.create_task(self.answers(below[0], writer, asked))
        await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
        for task in (up, down):
            task.cancel()
        self.silent.discard(writer)
        writer.close()
        below[1].close()

    async def requests(self, reader, writer, below, asked):
        try:
            while True:
                size, = struct.unpack(">i", await reader.readexactly(4))
                data = await reader.readexactly(size)
                key, version, number = struct.unpack_from(">hhi", data)
                if key in self.stalled and writer not in self.silent:
                    self.silent.add(writer)
                    say("stalled", key)
                if writer in self.silent:
                    continue
                asked[number] = (key, version)
                below.write(struct.pack(">i", size) + data)
                await below.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass

    async def answers(self, below, writer, asked):
        try:
            while True:
                size, = struct.unpack(">i", await below.readexactly(4))
                data = bytearray(await below.readexactly(size))
                number, = struct.unpack_from(">i", data)
                key, version = asked.pop(number, (None, None))
                if writer in self.silent:
                    continue
                data = self.changed(data, key, version)
                writer.write(struct.pack(">i", len(data)) + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass

    def changed(self, data, key, version):
        if key in (METADATA, COORDINATOR):
            return data.replace(self.own, self.ours)
        topic, code, left = self.errors.get(key, ("", 0, 0))
        if not left:
            return data
        if key == FETCH and 7 <= version <= 11:
            data, places = self.fetch(data, version, topic, code)
        elif key == COMMIT and 3 <= version <= 7:
            places = self.commit(data, topic, code)
        else:
            return data
        if places:
            self.errors[key] = (topic, code, left - 1)
            say("changed", key, "partitions", *places)
        return data

    @staticmethod
    def fetch(data, version, topic, code):
        """The answer without the topic's records, with an error for each of its partitions."""
        answer = Reader(data)
        answer.number("i"), answer.number("i"), answer.number("h"), answer.number("i")
        out, places, copied = bytearray(), [], 0
        for _ in range(answer.number("i")):
            is_meant = answer.text() == topic
            for _ in range(answer.number("i")):
                partition = answer.number("i")
                start = answer.place
                answer.number("h"), answer.number("q"), answer.number("q"), answer.number("q")
                for _ in range(max(0, answer.number("i"))):
                    answer.number("q"), answer.number("q")
                if version >= 11:
                    answer.number("i")
                answer.place += max(0, answer.number("i"))
                if is_meant:
                    replica = struct.pack(">i", -1) if version >= 11 else b""
                    out += data[copied:start] + struct.pack(">hqqqi", code, -1, -1, -1, 0) + replica
                    out += struct.pack(">i", 0)
                    copied = answer.place
                    places.append(partition)
        return out + data[copied:], places

    @staticmethod
    def commit(data, topic, code):
        answer = Reader(data)
        answer.number("i"), answer.number("i")
        places = []
        for _ in range(answer.number("i")):
            is_meant = answer.text() == topic
            for _ in range(answer.number("i")):
                partition = answer.number("i")
                if is_meant:
                    struct.pack_into(">h", data, answer.place, code)
                    places.append(partition)
                answer.number("h")
        return places


async def main(upstream, port):
    proxy = Proxy(upstream, int(port))
    await asyncio.start_server(proxy.serve, "127.0.0.1", int(port))
    say("listening", port)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        proxy.command(line.decode())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
