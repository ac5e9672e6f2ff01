#!/usr/bin/env python3
"""A proxy before one Kafka broker that can stop answering: for the end-to-end tests.

    kafka_proxy.py HOST:PORT

It says at which port it listens. Where a broker names itself, the proxy's port stands instead, so that clients stay behind
it. Lines of the standard input, each of which is confirmed:

    stall NAME…    connections that ask for one of these (fetch, produce) are read from and answered nothing
    flow           such connections end, and new ones are as they were
"""

import asyncio
import struct
import sys

METADATA, COORDINATOR = 3, 10
NAMES = {"fetch": 1, "produce": 0}


def say(*words):
    print(*words, flush=True)


class Proxy:
    def __init__(self, upstream):
        host, port = upstream.rsplit(":", 1)
        self.upstream = (host, int(port))
        self.own = host.encode() + struct.pack(">i", int(port))
        self.ours = None  # the same with the proxy's port
        self.stalled = set()
        self.silent = set()

    async def listen(self):
        server = await asyncio.start_server(self.serve, self.upstream[0], 0)
        port = server.sockets[0].getsockname()[1]
        self.ours = self.upstream[0].encode() + struct.pack(">i", port)
        say("listening", port)

    def command(self, line):
        words = line.split()
        if words[:1] == ["stall"]:
            self.stalled = {NAMES[word] for word in words[1:]}
        elif words[:1] == ["flow"]:
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
        tasks = [asyncio.create_task(self.requests(reader, writer, below[1], asked)),
                 asyncio.create_task(self.answers(below[0], writer, asked))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        self.silent.discard(writer)
        writer.close()
        below[1].close()

    async def requests(self, reader, writer, below, asked):
        try:
            while True:
                data = await frame(reader)
                key, _, number = struct.unpack_from(">hhi", data)
                if key in self.stalled and writer not in self.silent:
                    self.silent.add(writer)
                    say("stalled", key)
                if writer in self.silent:
                    continue
                asked[number] = key
                below.write(struct.pack(">i", len(data)) + data)
                await below.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass

    async def answers(self, below, writer, asked):
        try:
            while True:
                data = await frame(below)
                key = asked.pop(struct.unpack_from(">i", data)[0], None)
                if writer in self.silent:
                    continue
                if key in (METADATA, COORDINATOR):
                    data = data.replace(self.own, self.ours)
                writer.write(struct.pack(">i", len(data)) + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass


async def frame(reader):
    size, = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def main(upstream):
    proxy = Proxy(upstream)
    await proxy.listen()
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        proxy.command(line.decode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
