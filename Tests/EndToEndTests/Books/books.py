#!/usr/bin/env python3
"""A producer and an audit that share no code with the worker.

Needs Python's confluent-kafka (Debian: python3-confluent-kafka). By hand:

    books.py produce --count 200000 --book book.jsonl --prefixes simulate-help.txt
    books.py settle
    books.py audit   --book book.jsonl --group apns-worker --simulator http://127.0.0.1:2198

Commands:
  produce   writes request records, and appends a line for each to the book
  settle    waits until the group, and its .retry group, have committed everything
  audit     compares what was produced, what the server saw and what the topics contain
  metrics   compares a worker's metrics with the topics and the server
  gateway_audit  compares requests, results and the book of a gateway of the binary protocol
  contract  writes records of each kind, and compares all records that the worker makes of them with the contract
  watch     checks that no scheduled notification comes to the server before its time
  midway    signals a process in the middle of a large fan-out
  selftest  shows that the audit finds each kind of fault
"""

import argparse
import gc
import json
import os
import signal
import time

import gateway
import metrics
import records
import selftest
import simulator
import topics
from audit import Audit
from contract import Case, Check, Evidence, main_cases, other_cases


def produce(options):
    prefixes, faults = {}, {}
    if options.prefixes:
        with open(options.prefixes) as file:
            help_text = file.read()
        prefixes = records.read_prefixes(help_text)
        if options.calm:
            prefixes = {reason: prefix for reason, prefix in prefixes.items() if reason not in records.DISTURBING}
        if options.faults:
            faults = records.read_faults(help_text)
    if options.scheduled:
        stream = records.scheduled(options.count, options.seed, options.scheduled)
    elif options.gateway:
        stream = gateway.records(options)
    elif options.apps:
        stream = records.apps(options.count, options.seed, options.apps)
    else:
        stream = records.Generator(options.count, options.seed, prefixes, plain=options.plain, faults=faults,
                                   envelopes=(options.envelopes, options.envelope_tokens))
    started = time.monotonic()
    with open(options.book, "a") as book:
        written = topics.produce(
            options.servers, options.topic, stream, rate=options.rate, note=lambda record, message: book.write(
                json.dumps(record.line | {"p": message.partition(), "o": message.offset()}) + "\n"))
    print(f"produced {written} records in {time.monotonic() - started:.1f} s with {topics.version()}")


def watch(options):
    """Reads the server's book, which has no times, repeatedly. A notification in it before its scheduled time is early.
    Notifications that are early by less than one interval are not detected."""
    with open(options.book) as lines:
        waiting = {token: line["at"] for line in map(json.loads, lines) for token, _, _ in line["n"]}
    total, early = len(waiting), 0
    end = time.monotonic() + 600
    while waiting and time.monotonic() < end:
        there = {token for _, token, _ in simulator.rows(options.simulator, "received")}
        looked = time.time()
        for token in there & waiting.keys():
            at = waiting.pop(token)
            if looked < at:
                early += 1
                print(f"EARLY: {token[:8]}… was there {at - looked:.3f} s before its time")
        time.sleep(0.05)
    print(f"of {total} early {early}, missing {len(waiting)}")
    return not early and not waiting


def groups(options):
    return [(options.group, options.topic)] + [(options.group + ".retry", topic) for topic in options.retry_topics]


def settle(options):
    """Waits until the groups have no lag. Gives up if no lag changed and no retry record was written for a while."""
    last, moved = None, time.monotonic()
    while True:
        lags = [topics.lag(options.servers, *pair) for pair in groups(options)]
        if not any(lags):
            return True
        # Retry records cause new retry records, so any change counts as progress.
        state = lags, topics.written(options.servers, *options.retry_topics)
        if state != last:
            last, moved = state, time.monotonic()
        if time.monotonic() - moved > topics.PATIENCE:
            print(f"the lag did not change for {topics.PATIENCE} s: {lags}")
            return False
        time.sleep(0.25)


def midway(options):
    """Waits until between a fifth and a half of a large fan-out on one of the partitions is sent, then signals the
    process. Results show the progress, because a fan-out is sent in the order of its list."""
    sizes = {}
    with open(options.book) as book:
        for line in map(json.loads, book):
            if len(line.get("n", ())) >= 100 and line["p"] in options.partitions:
                sizes[f"{options.topic}/{line['p']}/{line['o']}"] = len(line["n"])
    tail = topics.Tail(options.servers, options.results, at_end=True)
    deadline = time.monotonic() + topics.PATIENCE
    while time.monotonic() < deadline:
        for message in tail.read(200, 0.02):
            place, index = records.request_of(json.loads(message.value())).rsplit("/", 1)
            if 0.2 <= int(index) / sizes.get(place, 10**9) <= 0.5:
                os.kill(options.pid, signal.Signals["SIG" + options.signal])
                print(f"SIG{options.signal} at index {index} of the {sizes[place]} of {place}")
                return True
    print(f"none of {len(sizes)} fan-outs was midway in time")
    return False


def audit(options):
    book = Audit(options.topic, options.crashed, options.repeats_at_most, options.doubt_margin, options.doubtful,
                 options.restarted)
    with open(options.book) as lines:
        for line in lines:
            book.produced(json.loads(line))
    for topic in options.retry_topics:
        for message in topics.read(options.servers, topic):
            book.retry(message.headers())
    for number, message in enumerate(topics.read(options.servers, options.results)):
        if number + 1 != options.withhold:
            book.result(message.key(), message.headers(), message.value())
    for message in topics.read(options.servers, options.unregistered):
        book.dead_token(message.key(), message.value())
    for message in topics.read(options.servers, options.dead_letters):
        book.dead_letter(message.key(), message.headers(), message.value())
    for group, topic in groups(options) if options.group else ():
        book.lag(group, topic, topics.lag(options.servers, group, topic))
    book.complete()
    if options.simulator:
        book.server(simulator.read(options.simulator))
    print(book.report())
    return not book.findings


def contract(options):
    tiers = [(int(delay), name) for delay, name in (tier.split("=", 1) for tier in options.tiers)]
    cases = (other_cases if options.other else main_cases)(tiers)
    options.retry_topics = [name for _, name in tiers]
    is_settled = True
    for group in [[case for case in cases if not case.is_alone]] + [[case] for case in cases if case.is_alone]:
        for topic in {case.topic for case in group}:
            topics.produce(options.servers, topic or options.topic, [case for case in group if case.topic == topic],
                           note=Case.written)
        is_settled = is_settled and settle(options)
    check = Check(Evidence(
        *(topics.read(options.servers, name) for name in (options.results, options.unregistered, options.dead_letters)),
        ((place, message) for place, (_, name) in enumerate(tiers) for message in topics.read(options.servers, name))),
        tiers, options.max_message)
    for case in cases:
        check.case(case)
    return check.finish() and is_settled


COMMANDS = [produce, settle, audit, gateway.gateway_audit, metrics.metrics, contract, watch, midway, selftest.selftest]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("command", choices=[command.__name__ for command in COMMANDS])
    add("--servers", default="localhost:9092", help="bootstrap servers (%(default)s)")
    for name in ("results", "unregistered", "dead-letters"):
        add("--" + name, default="apns." + name, help="topic (%(default)s)")
    add("--topic", default="apns.requests", help="request topic (%(default)s)")
    add("--retry-topics", nargs="*", default=[])
    add("--group", default="apns-worker", help="the worker's group (%(default)s)")
    add("--book", default="book.jsonl", help="the producer's book: a JSON line for each record (%(default)s)")
    add("--simulator", help="address of the simulator's control endpoint")

    add = parser.add_argument_group("produce").add_argument
    add("--count", type=int, default=1_000, help="records; fan-outs make more notifications of them")
    add("--seed", type=int, default=1)
    add("--rate", type=int, default=0, help="records a second; 0: no limit")
    add("--prefixes", help="file with the output of `apns-worker simulate --help`; without it all are accepted")
    add("--calm", action="store_true", help="no answer that costs a connection or stops a whole app")
    add("--plain", action="store_true", help="nothing malformed, and all are accepted")
    add("--faults", action="store_true", help="some requests make the server cut or close connections")
    add("--envelopes", type=int, default=0, help="how many of the records are large fan-outs")
    add("--envelope-tokens", type=int, default=10_000, help="device tokens of each (%(default)s)")
    add("--scheduled", type=int, help="each has a time to be sent at, within so many seconds")
    add("--apps", type=int, help="only plain notifications, to so many apps in turn")

    add = parser.add_argument_group("audit").add_argument
    add("--crashed", action="store_true", help="a worker was killed: repeats are counted, not faults")
    add("--restarted", action="store_true",
        help="workers were stopped in order: the next does not know of answers that asked to send again")
    add("--doubtful", action="store_true", help="the server cut connections: some sends may be in doubt")
    add("--repeats-at-most", type=int, help="after a kill: how many the server may have accepted again")
    add("--doubt-margin", type=int,
        help="after a kill: how many may be in doubt, besides three times those that the server received again")
    add("--withhold", type=int, default=0, help="leave out the N-th result, to see the audit fail")

    add = parser.add_argument_group("gateways, of the binary protocol").add_argument
    add("--gateway", action="store_true", help="produce: requests for one")
    add("--bad-every", type=int, default=0, help="one in so many tokens is bad; 0: none")
    add("--app", default="", help="the requests' app")
    add("--first", type=int, default=0, help="number of the first")
    add("--repeats", choices=["none", "doubtful", "crashed"], default="none", help="what may be accepted again")
    add("--lost-at-most", type=int, default=0, help="what the worker reported as lost")

    add = parser.add_argument_group("other commands").add_argument
    add("--metrics", help="metrics: address of the worker's admin pages")
    add("--tiers", nargs="+", help="contract: MS=TOPIC, shortest first")
    add("--other", action="store_true", help="contract: the cases of the other configuration")
    add("--max-message", type=int, help="contract: max.message.bytes of the dead-letter topic")
    add("--pid", type=int, help="midway: the process")
    add("--signal", choices=["TERM", "KILL"], default="TERM", help="midway: (%(default)s)")
    add("--partitions", type=int, nargs="+", help="midway: those that the process reads")

    options = parser.parse_args()
    gc.disable()  # garbage collection would take half of the time, for millions of entries without cycles
    topics.run(next(command for command in COMMANDS if command.__name__ == options.command), options)


if __name__ == "__main__":
    main()
