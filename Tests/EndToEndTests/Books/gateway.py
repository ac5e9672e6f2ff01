#!/usr/bin/env python3
"""Requests for a gateway of the binary protocol, and the comparison of what became of them.

The protocol has no apns-id, so each notification has a device token of its own, and the simulator's book is compared by it.
Shares no code with the worker. Needs Python's confluent-kafka (Debian: python3-confluent-kafka).

    gateway.py produce --topic apns.requests --count 100000 --bad-every 500
    gateway.py audit --topic apns.requests --results apns.results --count 100000 --bad-every 500 --simulator URL
"""

import argparse
import json
import os
import sys
import urllib.request
from collections import Counter

import topics
from records import Record

# Answered with status 8, always.
BAD = "fa174001"
# The worker asks with this one what the gateway has taken.
FENCE = "0" * 64


def is_bad(number, options):
    return options.bad_every > 0 and number % options.bad_every == options.bad_every - 1


def token(number, options):
    """A bad one begins with what the simulator is asked for, and a 0: always."""
    if is_bad(number, options):
        return f"{options.code}0{number:023x}" + "5b" * 16
    return f"{number:032x}" + "5a" * 16


def number_of(token):
    return int(token[9:32] if token.startswith("fa17") else token[:32], 16)


def produce(options):
    headers = [("push-app", options.app.encode())] if options.app else []
    stream = (
        Record(token(number, options).encode(), b'{"aps":{"alert":"Hi %d"}}' % number, headers, {})
        for number in range(options.first, options.first + options.count))
    with open(os.devnull, "w") as book:
        written = topics.produce(options.servers, options.topic, stream, book, options.rate)
    print(f"produced {written}")
    return written == options.count


def audit(options):
    outcome, reason, status = options.expected.split(":")
    results, doubts, findings, presumed, repeated = {}, {}, Counter(), set(), 0
    examples = {}

    def found(kind, example):
        findings[kind] += 1
        examples.setdefault(kind, example)

    for message in topics.read(options.servers, options.results):
        value = json.loads(message.value())
        number = number_of(value["device_token"])
        doubts[number] = max(doubts.get(number, 0), value["in_doubt"])
        if value.get("detail") == "presumed":
            presumed.add(number)
        if number in results:
            repeated += 1
            if value["outcome"] != results[number]:
                found("two results that differ", f"{results[number]}, then {value}")
            continue
        results[number] = value["outcome"]
        wanted = (outcome, reason or None, int(status)) if is_bad(number, options) else ("accepted", None, 200)
        if wanted != (value["outcome"], value.get("reason"), value.get("status")):
            found("result other than expected", f"{wanted}, not {value}")
    for number in range(options.count):
        if number not in results:
            found("no result", number)
    counts = {}
    for name, _, accepted in seen(options.simulator):
        if name != FENCE:
            counts[number_of(name)] = accepted
    lost = again = 0
    for number in range(options.count):
        accepted = counts.get(number, 0)
        if is_bad(number, options):
            if accepted:
                found("a bad token was accepted", number)
            continue
        if accepted == 0:
            lost += 1
            # What an answer accepted is never among what was told to be lost.
            if options.lost_at_most == 0 or number not in presumed:
                found("accepted, says its result, and the gateway never took it", number)
        if accepted > 1:
            again += accepted - 1
            if options.repeats == "none" or options.repeats == "doubtful" and not doubts.get(number):
                found("accepted again without a doubt", number)
    if lost > options.lost_at_most:
        found("more lost than the worker said", f"{lost} of {options.lost_at_most}")
    if repeated and options.repeats != "crashed":
        found("more than one result", repeated)
    marked = sum(1 for doubt in doubts.values() if doubt)
    print(f"results {len(results)}, presumed {len(presumed)}, in doubt {marked}, lost {lost}, accepted again {again}, "
          f"results again {repeated}")
    for kind, count in findings.items():
        print(f"{kind}: {count}, such as {examples[kind]}")
    return not findings


def seen(address):
    """Token, requests and accepted of each, whose ids are all the same."""
    counts = {}
    for place, listing in enumerate(("received", "accepted")):
        with urllib.request.urlopen(f"{address}/{listing}", timeout=60) as lines:
            for line in lines:
                _, name, count = line.decode().split()
                counts.setdefault(name, [name, 0, 0])[1 + place] = int(count)
    return counts.values()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, action in (("produce", produce), ("audit", audit)):
        made = commands.add_parser(name)
        made.set_defaults(action=action)
        made.add_argument("--servers", default="localhost:9092")
        made.add_argument("--topic", default="apns.requests")
        made.add_argument("--count", type=int, required=True)
        made.add_argument("--bad-every", type=int, default=0, help="each so many-th token is bad; 0: none")
        made.add_argument("--code", default=BAD, help="what a bad token begins with (%(default)s)")
        if action is produce:
            made.add_argument("--app", default="", help="whose requests they are")
            made.add_argument("--first", type=int, default=0, help="number of the first")
            made.add_argument("--rate", type=int, default=0, help="a second; 0: as fast as it goes")
        else:
            made.add_argument("--results", default="apns.results")
            made.add_argument("--simulator", required=True)
            made.add_argument("--expected", default="rejected:BadDeviceToken:8", help="OUTCOME:REASON:STATUS of bad ones")
            made.add_argument("--repeats", choices=["none", "doubtful", "crashed"], default="none",
                              help="accepted again: never; only where a result says so; as often as it is")
            made.add_argument("--lost-at-most", type=int, default=0, help="what the worker said of short windows")
    options = parser.parse_args()
    status = 0 if options.action(options) else 1
    # confluent-kafka 1.7.0 releases None once too often for each null header, and Python aborts over it at its end.
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
