#!/usr/bin/env python3
"""Stands between a worker and a broker, and changes device tokens in what is fetched, as a broken network might.

    damage.py --listen PORT --broker HOST:PORT --first COUNT --always TOKEN …

In the first COUNT responses to Fetch that have tokens as `batches.py` makes them, each token becomes another one; the tokens
of `--always` become another one in all. No checksum is set right. The broker's answers lead to the proxy where they name the
broker's place. The broker listens without TLS.
"""

import argparse
import re
import socket
import struct
import threading

FETCH, METADATA, COORDINATOR = 1, 3, 10
TOKEN = re.compile(rb"00[0-9a-f]{10}[0-9a-f]{52}")
# The first digit of the partition, which has ten of them.
DIGIT = 2


class Proxy:
    def __init__(self, options):
        self.listen = options.listen
        self.host, port = options.broker.rsplit(":", 1)
        self.port = int(port)
        self.left = options.first
        self.always = {token.encode() for token in options.always}
        self.lock = threading.Lock()

    def damaged(self, data):
        with self.lock:
            data = bytearray(data)
            count = 0
            for match in TOKEN.finditer(bytes(data)):
                if self.left > 0 or match.group() in self.always:
                    data[match.start() + DIGIT] ^= 8
                    count += 1
            if count:
                self.left -= 1
                print("damaged", count, flush=True)
            return bytes(data)

    def readdressed(self, data):
        host = self.host.encode()
        for size in (struct.pack(">h", len(host)), bytes([len(host) + 1])):
            data = data.replace(
                size + host + struct.pack(">i", self.port), size + host + struct.pack(">i", self.listen))
        return data

    def serve(self, client):
        broker = socket.create_connection((self.host, self.port), 60)
        broker.settimeout(None)
        kinds = {}

        def ask():
            for request in frames(client):
                kind, _, number = struct.unpack_from(">hhi", request)
                kinds[number] = kind
                broker.sendall(struct.pack(">i", len(request)) + request)

        def answer():
            for response in frames(broker):
                kind = kinds.pop(struct.unpack_from(">i", response)[0], None)
                if kind == FETCH:
                    response = self.damaged(response)
                elif kind in (METADATA, COORDINATOR):
                    response = self.readdressed(response)
                client.sendall(struct.pack(">i", len(response)) + response)

        def until_closed(move):
            try:
                move()
            except OSError:
                pass
            for end in (client, broker):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

        for move in (ask, answer):
            threading.Thread(target=until_closed, args=(move,), daemon=True).start()


def read(connection, count):
    data = bytearray()
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            return None
        data += more
    return bytes(data)


def frames(connection):
    while (size := read(connection, 4)) is not None:
        frame = read(connection, struct.unpack(">i", size)[0])
        if frame is None:
            return
        yield frame


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listen", type=int, required=True)
    parser.add_argument("--broker", required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--always", nargs="*", default=[])
    options = parser.parse_args()
    proxy = Proxy(options)
    listener = socket.create_server((proxy.host, options.listen))
    print("listening", flush=True)
    while True:
        client, _ = listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        proxy.serve(client)


main()
