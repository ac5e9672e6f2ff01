#!/usr/bin/env python3
"""A proxy before one Kafka broker that can stop answering: kafka_proxy.py HOST:PORT, for the end-to-end tests.

It prints the port on which it listens, and puts that port in place of the broker's own in answers that name the broker,
so that clients stay behind it. A line on its standard input is an API key of the protocol: connections that send such a
request get no answer any more. `flow` closes these connections; new ones work as before.
"""

import asyncio
import struct
import sys

METADATA, COORDINATOR = 3, 10


class Proxy:
    def __init__(self, upstream):
        host, port = upstream.rsplit(":", 1)
        self.upstream = (host, int(port))
        self.stalled = None  # API key
        self.silent = set()  # writers of connections that get no answers

    async def run(self):
        server = await asyncio.start_server(self.serve, self.upstream[0], 0)
        port = server.sockets[0].getsockname()[1]
        self.broker, self.own = (
            self.upstream[0].encode() + struct.pack(">i", number) for number in (self.upstream[1], port))
        print(f"listening on :{port}", flush=True)
        lines = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while line := (await lines.readline()).decode().strip():
            self.stalled = None if line == "flow" else int(line)
            if line == "flow":
                for writer in self.silent:
                    writer.close()
                self.silent = set()
            else:
                print("stalling", line, flush=True)

    async def serve(self, reader, writer):
        from_broker, to_broker = await asyncio.open_connection(*self.upstream)
        asked = {}  # correlation id -> API key
        tasks = [asyncio.create_task(self.requests(reader, writer, to_broker, asked)),
                 asyncio.create_task(self.answers(from_broker, writer, asked))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.silent.discard(writer)
        writer.close()
        to_broker.close()

    async def requests(self, reader, writer, to_broker, asked):
        while True:
            data = await frame(reader)
            key, _, number = struct.unpack_from(">hhi", data)
            if key == self.stalled:
                self.silent.add(writer)
            if writer not in self.silent:
                asked[number] = key
                await send(to_broker, data)

    async def answers(self, from_broker, writer, asked):
        while True:
            data = await frame(from_broker)
            key = asked.pop(struct.unpack_from(">i", data)[0], None)
            if key in (METADATA, COORDINATOR):
                data = data.replace(self.broker, self.own)
            if writer not in self.silent:
                await send(writer, data)


async def frame(reader):
    size, = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def send(writer, data):
    writer.write(struct.pack(">i", len(data)) + data)
    await writer.drain()


asyncio.run(Proxy(sys.argv[1]).run())
