#!/usr/bin/env python3
"""Requests that fail and are replayed, written and read without the worker's code.

    replays.py produce SERVERS TOPIC BOOK COUNT PREFIX OTHER   writes so many notifications in all forms, one in ten for a
                                        token with PREFIX, some with OTHER; each notification is a line of the book
    replays.py check SERVERS TOPIC BOOK PREFIX [TIMES]   of the notifications with PREFIX each was replayed once (or so many
                                        times), as it was, where it was, and says so; no other one was
    replays.py sent CONTROL BOOK PREFIX  what the simulator saw: these twice, others once
    replays.py case SERVERS NAME         requests and results of each kind that decides; prints where they are
    replays.py letters SERVERS NAME      dead letters of each kind; prints where their requests are
    replays.py list SERVERS TOPIC        what a topic has, a line of JSON each
"""

import base64
import collections
import json
import os
import random
import sys

from confluent_kafka import Producer

import simulator
import topics

HEADER = "push-replay-of"


def client(servers):
    return Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 5, "compression.type": "lz4"})


class Writer:
    """Writes records and knows where each of them is."""

    def __init__(self, servers):
        self.client = client(servers)
        self.failure = None

    def write(self, topic, value, key=None, headers=(), partition=None, on_place=lambda partition, offset, ms: None):
        def delivered(error, message):
            self.failure = self.failure or error
            if not error:
                on_place(message.partition(), message.offset(), message.timestamp()[1])

        where = {} if partition is None else {"partition": partition}
        while True:
            try:
                self.client.produce(topic, value=value, key=key, headers=list(headers), on_delivery=delivered, **where)
                break
            except BufferError:
                self.client.poll(0.1)
        self.client.poll(0)

    def flush(self):
        if self.client.flush(60) or self.failure:
            raise RuntimeError(f"not all was written: {self.failure}")


def produce(servers, topic, book, count, prefix, other):
    """Forms: the token as the key, a key beside it, envelopes of five. A book's line: its place, and what its replay is."""
    draw = random.Random(int(count))
    writer = Writer(servers)
    lines = []

    def token():
        chance = draw.random()
        front = prefix if chance < 0.1 else other if chance < 0.15 else "00"
        return front + "%0*x" % (64 - len(front), draw.getrandbits(4 * (64 - len(front))))

    def note(line):
        def placed(partition, offset, ms):
            lines.append(line | {"of": f"{topic}/{partition}/{offset}/{line['index']}", "p": partition})
        return placed

    number = 0
    while number < int(count):
        payload = b'{"aps":{"alert":"Hi %d"}, "n":%d}' % (number, number)
        form = draw.random()
        if form < 0.6:
            mine = token()
            writer.write(topic, payload, mine, [("traceparent", b"00-%032x-01" % number)], on_place=note(
                {"token": mine, "index": 0, "key": mine, "value": payload.decode(),
                 "headers": {"traceparent": "00-%032x-01" % number}}))
            number += 1
        elif form < 0.9:
            mine = token().upper()
            headers = {"push-device-token": mine, "apns-priority": "5", "x": "%d" % number}
            key = "user-%d" % (number % 97)
            writer.write(topic, payload, key, [(n, v.encode()) for n, v in headers.items()], on_place=note(
                {"token": mine.lower(), "index": 0, "key": key, "value": payload.decode(), "headers": headers}))
            number += 1
        else:
            tokens = [token() for _ in range(5)]
            key = "campaign-%d" % number if draw.random() < 0.5 else None
            value = json.dumps({"device_tokens": tokens, "app": "shop", "headers": {
                "apns-topic": "com.example.shop", "apns-priority": 10}})[:-1].encode() + b', "payload":' + payload + b"}"

            def placed(partition, offset, ms, tokens=tokens, key=key, payload=payload):
                for index, mine in enumerate(tokens):
                    headers = {"apns-topic": "com.example.shop", "apns-push-type": "alert", "apns-priority": "10",
                               "push-app": "shop"}
                    if key:
                        headers["push-device-token"] = mine
                    note({"token": mine, "index": index, "key": key or mine, "value": payload.decode(),
                          "headers": headers})(partition, offset, ms)

            writer.write(topic, value, key, on_place=placed)
            number += 5
    writer.flush()
    with open(book, "w") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")
    failing = sum(line["token"].startswith(prefix) for line in lines)
    print(f"{len(lines)} notifications, {failing} with {prefix}")


def read_book(book, prefix):
    with open(book) as file:
        lines = [json.loads(line) for line in file]
    return [line for line in lines if line["token"].startswith(prefix)], lines


def headers_of(message):
    return {name: value.decode() if value is not None else None for name, value in message.headers() or []}


def check(servers, topic, book, prefix, times="1"):
    wanted = {line["of"]: line for line in read_book(book, prefix)[0]}
    seen = collections.Counter()
    faults = collections.Counter()
    order = {}
    for message in topics.read(servers, topic):
        headers = headers_of(message)
        if HEADER not in headers:
            continue
        of = headers.pop(HEADER)
        seen[of] += 1
        line = wanted.get(of)
        if line is None:
            faults["replayed, and not among what failed"] += 1
            continue
        if (message.headers() or [])[0][0] != HEADER:
            faults["the header does not stand first"] += 1
        if message.partition() != line["p"]:
            faults["in another partition than it was"] += 1
        if (message.key() or b"").decode() != line["key"]:
            faults["with another key"] += 1
        if message.value().decode() != line["value"]:
            faults["with another value"] += 1
        if headers != line["headers"]:
            faults[f"with other headers: {headers} for {line['headers']}"] += 1
        order.setdefault(message.partition(), []).append(tuple(int(n) for n in of.split("/")[2:]))
    faults["not replayed"] += len(wanted.keys() - seen.keys())
    for count, number in collections.Counter(seen.values()).items():
        if count != int(times):
            faults[f"replayed {count} times"] += number
    found = {fault: count for fault, count in faults.items() if count}
    print(f"{sum(seen.values())} replayed of {len(wanted)}; {found or 'all as they were'}")
    if found:
        raise RuntimeError("the replay is not what it is to be")


def sent(control, book, prefix):
    requests = collections.Counter()
    for token, count, _ in simulator.read(control).values():
        requests[token] += count
    faults = collections.Counter()
    for line in read_book(book, prefix)[1]:
        expected = 2 if line["token"].startswith(prefix) else 1
        if requests[line["token"]] != expected:
            faults[f"{requests[line['token']]} requests where {expected} are right"] += 1
    print(f"{sum(requests.values())} requests at the server; {dict(faults) or 'as many as there are to be'}")
    if faults:
        raise RuntimeError("the server saw something else")


# Requests with results, and dead letters, without a worker, so that each case is there at once.


def result(place, ms, token, **members):
    topic, partition, offset, index = place
    return json.dumps({
        "device_token": token, "app": "shop", "outcome": "rejected", "status": 400, "reason": "BadTopic", "attempts": 1,
        "in_doubt": 0, "requested_at_ms": ms, "settled_at_ms": 1_700_000_000_000,
        "request": {"topic": topic, "partition": partition, "offset": offset, "index": index}} | members).encode()


def case(servers, name):
    topic = f"{name}.requests"
    writer = Writer(servers)
    places = {}
    payload = b'{"aps":{"alert":"Hi"}}'
    tokens = {kind: "%064x" % number for number, kind in enumerate(
        ["plain", "annex", "expired", "other", "beyond", "late", "twice", "good"], 1)}
    many = ["%064x" % (100 + index) for index in range(5)]

    def put(kind, value=payload, key=None, headers=()):
        writer.write(topic, value, key or tokens.get(kind), headers, on_place=lambda p, o, ms: places.__setitem__(
            kind, (p, o, ms)))

    for kind in tokens:
        put(kind, headers=[("apns-expiration", b"1600000000")] if kind == "expired" else [])
    put("many", json.dumps({"device_tokens": many, "payload": {"aps": {}}}).encode(), key="campaign")
    put("channel", key="k", headers=[("apns-channel-id", b"YQ=="), ("apns-expiration", b"0")])
    put("large", b'{"aps":{"alert":"%s"}}' % base64.b64encode(os.urandom(2_500)), key="%064x" % 50)
    writer.flush()

    def tell(kind, index=0, token=None, offset=None, later=0, **members):
        partition, place, ms = places[kind]
        token = token or tokens.get(kind)
        writer.write(f"{name}.results", result(
            (topic, partition, place if offset is None else offset, index), ms + later, token, **members), token)

    tell("plain")
    tell("annex", app="annex", reason="Forbidden")
    tell("expired")
    tell("other", later=1)
    tell("beyond", offset=10_000_000)
    tell("late", settled_at_ms=1_750_000_000_000, reason="Shutdown", outcome="abandoned")
    tell("twice")
    tell("twice")
    tell("good", outcome="accepted", status=200, reason=None)
    tell("many", index=3, token=many[3])
    tell("large", token="%064x" % 50, reason="Shutdown", outcome="abandoned", app="big")
    tell("channel", token=None, channel_id="YQ==", device_token=None)
    writer.write(f"{name}.results", None, "tombstone")
    writer.flush()
    print(json.dumps({kind: f"{topic}/{partition}/{offset}" for kind, (partition, offset, _) in places.items()}))


def letters(servers, name):
    topic = f"{name}.requests"
    writer = Writer(servers)
    places = {}
    token = "%064x" % 7
    large = b'{"aps":{"alert":"%s"}}' % (b"x" * 3_000)
    writer.write(topic, large, token, [("x", b"large")], partition=0,
                 on_place=lambda p, o, ms: places.__setitem__("large", (o, ms)))
    for number in range(20):
        writer.write(topic, b'{"aps":{"badge":%d}}' % number, token, partition=0)
    writer.flush()

    def letter(reason, offset, ms=-1, value=None, own=(), **more):
        headers = list(own) + [("push-dlq-reason", reason), ("push-dlq-topic", topic), ("push-dlq-partition", "0"),
                               ("push-dlq-offset", str(offset)), ("push-dlq-timestamp", str(ms))]
        headers += [(f"push-dlq-{what.replace('_', '-')}", str(value)) for what, value in more.items()]
        writer.write(f"{name}.dead-letters", value, "key", [(n, v.encode()) for n, v in headers], partition=0)

    letter("not-json", 900_001, value=b"{", own=[("a", "1"), ("push-dlq-reason", "older")])
    letter("no-device-token", 900_002, value=b"{}")
    letter("worker-crashed", places["large"][0], places["large"][1], large[:128], truncated=len(large))
    letter("worker-crashed", places["large"][0] + 11, places["large"][1], large[:128], truncated=len(large))
    letter("output-refused", 5, value=b"{}")
    letter("unreadable-headers", 6, value=b"{}")
    writer.flush()
    print(json.dumps({"large": places["large"][0]}))


def list_records(servers, topic):
    for message in topics.read(servers, topic):
        print(json.dumps({
            "partition": message.partition(), "key": (message.key() or b"").decode(),
            "value": None if message.value() is None else message.value().decode(),
            "headers": [[name, value.decode()] for name, value in message.headers() or []]}))


def main():
    actions = {"produce": produce, "check": check, "sent": sent, "case": case, "letters": letters,
               "list": list_records}
    try:
        actions[sys.argv[1]](*sys.argv[2:])
        status = 0
    except (RuntimeError, ValueError, OSError, KeyError) as error:
        print(f"replays.py: {error!r}", file=sys.stderr)
        status = 1
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
