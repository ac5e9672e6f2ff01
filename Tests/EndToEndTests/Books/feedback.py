#!/usr/bin/env python3
"""A feedback service of Apple's binary protocol that says when it goes on.

feedback.py CERT KEY COUNT: says at which port it listens, and tells COUNT device tokens over one TLS connection, the
number each is made of as its time too. Half of them at once; the rest when a line comes on standard input. Then it
closes the socket, without a word of TLS.
"""

import socket
import ssl
import struct
import sys


def items(numbers):
    return b"".join(struct.pack(">IH", number, 32) + number.to_bytes(32, "big") for number in numbers)


def main():
    certificate, key, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))
    print("listening", listener.getsockname()[1], flush=True)
    connection, _ = listener.accept()
    with context.wrap_socket(connection, server_side=True) as channel:
        channel.sendall(items(range(count // 2)))
        print("half is told", flush=True)
        sys.stdin.readline()
        channel.sendall(items(range(count // 2, count)))
        print("all is told", flush=True)


if __name__ == "__main__":
    main()
