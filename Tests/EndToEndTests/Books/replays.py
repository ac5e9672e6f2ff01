#!/usr/bin/env python3
"""Requests that fail and are replayed, written and read without the worker's code.

    replays.py produce SERVERS TOPIC BOOK COUNT   writes COUNT notifications in all forms, one in ten for a token that is
                                        rejected with BadCollapseId at first, some with BadPriority; prints the number
                                        of the former
    replays.py check SERVERS TOPIC BOOK TIMES   checks that each of those was replayed TIMES times, unchanged and in its
                                        partition, with its place in a header, and that no other one was
    replays.py sent CONTROL BOOK         checks that the simulator received those twice, and others once
    replays.py case SERVERS NAME         writes requests and results of each kind, and prints their places
    replays.py letters SERVERS NAME      writes dead letters of each kind, and prints the offset of the large request
    replays.py list SERVERS TOPIC        prints the records of a topic, each as a line of JSON
"""

import base64
import json
import os
import random
import sys
from collections import Counter

import simulator
import topics
from records import Record

HEADER = "push-replay-of"
FAILING, OTHER = "fa1740001", "fa1740041"


def encoded(headers):
    return [(name, value.encode()) for name, value in headers.items()]


def stream(count):
    """Writes the requests in three forms: the token as the key, another key, and envelopes of five. Each line of the
    book contains the expected replays of a record."""
    draw = random.Random(count)

    def token():
        chance = draw.random()
        front = FAILING if chance < 0.1 else OTHER if chance < 0.15 else "00"
        return front + "%0*x" % (64 - len(front), draw.getrandbits(4 * (64 - len(front))))

    def replay(token, key, payload, headers):
        return {"token": token.lower(), "key": key, "value": payload.decode(), "headers": headers}

    number = 0
    while number < count:
        payload = b'{"aps":{"alert":"Hi %d"}, "n":%d}' % (number, number)
        form, mine = draw.random(), token()
        if form < 0.6:
            headers = {"traceparent": "00-%032x-01" % number}
            yield Record(mine, payload, encoded(headers), [replay(mine, mine, payload, headers)])
            number += 1
        elif form < 0.9:
            headers = {"push-device-token": mine.upper(), "apns-priority": "5", "x": "%d" % number}
            key = "user-%d" % (number % 97)
            yield Record(key, payload, encoded(headers), [replay(mine, key, payload, headers)])
            number += 1
        else:
            tokens = [token() for _ in range(5)]
            key = "campaign-%d" % number if draw.random() < 0.5 else None
            value = json.dumps({"device_tokens": tokens, "app": "shop", "headers": {
                "apns-topic": "com.example.shop", "apns-priority": 10}})[:-1].encode() + b', "payload":' + payload + b"}"
            headers = {"apns-topic": "com.example.shop", "apns-push-type": "alert", "apns-priority": "10",
                       "push-app": "shop"}
            yield Record(key, value, [], [
                replay(mine, key or mine, payload, headers | ({"push-device-token": mine} if key else {}))
                for mine in tokens])
            number += 5


def produce(servers, topic, book, count):
    lines = []

    def note(record, message):
        for index, line in enumerate(record.line):
            place = f"{topic}/{message.partition()}/{message.offset()}/{index}"
            lines.append(line | {"of": place, "partition": message.partition()})

    topics.produce(servers, topic, stream(int(count)), note)
    with open(book, "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    print(sum(line["token"].startswith(FAILING) for line in lines))


def read_book(book):
    with open(book) as file:
        return [json.loads(line) for line in file]


def end(faults, what):
    faults = +faults
    print(f"{what}; {dict(faults) or 'all as it is to be'}")
    return not faults


def check(servers, topic, book, times):
    wanted = {line["of"]: line for line in read_book(book) if line["token"].startswith(FAILING)}
    seen, faults = Counter(), Counter()
    for message in topics.read(servers, topic):
        headers = {name: (value or b"").decode() for name, value in message.headers() or []}
        if HEADER not in headers:
            continue
        faults["the header does not stand first"] += next(iter(headers)) != HEADER
        of = headers.pop(HEADER)
        seen[of] += 1
        found = {"key": (message.key() or b"").decode(), "value": message.value().decode(), "headers": headers,
                 "partition": message.partition()}
        line = wanted.get(of, {})
        for member, value in found.items():
            faults[f"{member} other than it was, or never failed: {value} of {of}" if line.get(member) != value else ""] += 1
    del faults[""]
    for of in wanted.keys() | seen.keys():
        faults[f"replayed {seen[of]} times"] += seen[of] != int(times)
    return end(faults, f"{sum(seen.values())} replayed of {len(wanted)}")


def sent(control, book):
    requests, faults = Counter(), Counter()
    for token, count, _ in simulator.read(control).values():
        requests[token] += count
    for line in read_book(book):
        expected = 2 if line["token"].startswith(FAILING) else 1
        faults[f"{requests[line['token']]} requests where {expected} are right"] += requests[line["token"]] != expected
    return end(faults, f"{sum(requests.values())} requests at the server")


# Requests with results and dead letters are written without a worker, so that all cases exist at once.


def write(servers, topic, records):
    """Writes records. Returns the partition, offset and timestamp of each record by its line."""
    places = {}
    topics.produce(servers, topic, records, lambda record, message: places.__setitem__(
        record.line, (message.partition(), message.offset(), message.timestamp()[1])))
    return places


def case(servers, name):
    topic = f"{name}.requests"
    payload = b'{"aps":{"alert":"Hi"}}'
    tokens = {kind: "%064x" % number for number, kind in enumerate(
        ["plain", "annex", "expired", "other", "beyond", "late", "twice", "good"], 1)}
    many = ["%064x" % (100 + index) for index in range(5)]
    places = write(servers, topic, [
        Record(token, payload, [("apns-expiration", b"1600000000")] if kind == "expired" else [], kind)
        for kind, token in tokens.items()] + [
        Record("campaign", json.dumps({"device_tokens": many, "payload": {"aps": {}}}).encode(), [], "many"),
        Record("k", payload, [("apns-channel-id", b"YQ=="), ("apns-expiration", b"0")], "channel"),
        Record("%064x" % 50, b'{"aps":{"alert":"%s"}}' % base64.b64encode(os.urandom(2_500)), [], "large")])

    def result(kind, index=0, token=None, offset=None, later=0, **members):
        partition, place, ms = places[kind]
        token = token or tokens.get(kind)
        return Record(token, json.dumps({
            "device_token": token, "app": "shop", "outcome": "rejected", "status": 400, "reason": "BadTopic",
            "attempts": 1, "in_doubt": 0, "requested_at_ms": ms + later, "settled_at_ms": 1_700_000_000_000,
            "request": {"topic": topic, "partition": partition, "offset": place if offset is None else offset,
                        "index": index}} | members).encode())

    topics.produce(servers, f"{name}.results", [
        result("plain"), result("annex", app="annex", reason="Forbidden"), result("expired"), result("other", later=1),
        result("beyond", offset=10_000_000),
        result("late", settled_at_ms=1_750_000_000_000, reason="Shutdown", outcome="abandoned"), result("twice"),
        result("twice"), result("good", outcome="accepted", status=200, reason=None),
        result("many", index=3, token=many[3]),
        result("large", token="%064x" % 50, reason="Shutdown", outcome="abandoned", app="big"),
        result("channel", channel_id="YQ==", device_token=None), Record("tombstone", None)])
    print(json.dumps({kind: f"{topic}/{partition}/{offset}" for kind, (partition, offset, _) in places.items()}))


def letters(servers, name):
    topic, token = f"{name}.requests", "%064x" % 7
    large = b'{"aps":{"alert":"%s"}}' % (b"x" * 3_000)
    _, offset, ms = write(servers, topic, [Record(token, large, [("x", b"large")], "large", partition=0)] + [
        Record(token, b'{"aps":{"badge":%d}}' % number, [], number, partition=0) for number in range(20)])["large"]

    def letter(reason, offset, ms=-1, value=None, own=(), **more):
        headers = list(own) + [("push-dlq-reason", reason), ("push-dlq-topic", topic), ("push-dlq-partition", "0"),
                               ("push-dlq-offset", str(offset)), ("push-dlq-timestamp", str(ms))]
        headers += [(f"push-dlq-{what}", str(value)) for what, value in more.items()]
        return Record("key", value, [(n, v.encode()) for n, v in headers], partition=0)

    topics.produce(servers, f"{name}.dead-letters", [
        letter("not-json", 900_001, value=b"{", own=[("a", "1"), ("push-dlq-reason", "older")]),
        letter("no-device-token", 900_002, value=b"{}"),
        letter("worker-crashed", offset, ms, large[:128], truncated=len(large)),
        letter("worker-crashed", offset + 11, ms, large[:128], truncated=len(large)),
        letter("output-refused", 5, value=b"{}"), letter("unreadable-headers", 6, value=b"{}")])
    print(offset)


def list_records(servers, topic):
    for message in topics.read(servers, topic):
        print(json.dumps({
            "partition": message.partition(), "key": (message.key() or b"").decode(),
            "value": None if message.value() is None else message.value().decode(),
            "headers": [[name, value.decode()] for name, value in message.headers() or []]}))


if __name__ == "__main__":
    actions = {"list": list_records} | {action.__name__: action for action in (produce, check, sent, case, letters)}
    topics.run(actions[sys.argv[1]], *sys.argv[2:])
