#!/usr/bin/env python3
"""A producer and an audit that share no code with the worker: `books.py produce`, `books.py audit`.

Needs Python's confluent-kafka (Debian: python3-confluent-kafka). By hand:

    books.py produce --count 200000 --book book.jsonl --prefixes simulate-help.txt
    books.py settle  --group apns-worker --topics apns.requests
    books.py audit   --book book.jsonl --group apns-worker --simulator http://127.0.0.1:2198
"""

import argparse
import gc
import json
import os
import signal
import sys
import time


def progress(text):
    """One line that is written over, on a terminal; nothing elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def produce(options):
    import records
    import topics

    if options.scheduled:
        stream = records.Scheduled(options.count, options.seed, options.scheduled)
    elif options.apps:
        stream = records.Apps(options.count, options.seed, options.apps)
    elif options.known:
        with open(options.known) as file:
            stream = records.Known(options.count, options.seed, file.read().split())
    else:
        prefixes, faults = {}, {}
        if options.prefixes:
            with open(options.prefixes) as file:
                help_text = file.read()
            prefixes = records.read_prefixes(help_text)
            if options.calm:
                prefixes = {reason: prefix for reason, prefix in prefixes.items() if reason not in records.DISTURBING}
            if options.faults:
                faults = records.read_faults(help_text)
        stream = records.Generator(options.count, options.seed, prefixes, plain=options.plain, faults=faults,
                                   envelopes=(options.envelopes, options.envelope_tokens))
    started = time.monotonic()
    with open(options.book, "a") as book:
        written = topics.produce(
            options.servers, options.topic, stream, book, options.rate, lambda n: progress(f"{n} acknowledged"))
    seconds = time.monotonic() - started
    print(f"produced {written} records in {seconds:.1f} s ({written / seconds:.0f}/s) with {topics.version()}")
    return written == options.count


def watch(options):
    """Looks into the server's book until it has all that was written with times of their own; fails when one was early."""
    import scheduled

    return scheduled.watch(options.simulator, options.book, options.timeout)


def settle(options):
    """Waits until the groups' lag is 0; fails when nothing moved for --stall seconds: no lag, and no record was written."""
    import topics

    retry_group = options.group + ".retry"
    pairs = [(options.group, t) for t in options.topics] + [(retry_group, t) for t in options.retry_topics]
    last, moved = None, time.monotonic()
    started = moved
    consumers = {group: topics.reader(options.servers, group) for group, _ in pairs}
    while True:
        lags = [(group, topic, topics.lag_of(consumers[group], topic)) for group, topic in pairs]
        total = sum(count for _, _, count in lags)
        state = (total, sum(sum(topics.ends(consumers[retry_group], topic).values()) for topic in options.retry_topics))
        progress(f"lag {total}")
        if total == 0:
            print(f"lag 0 after {time.monotonic() - started:.1f} s")
            return True
        # Retry records make new retry records: any change counts as movement.
        if state != last:
            last, moved = state, time.monotonic()
        if time.monotonic() - moved > options.stall:
            print(f"lag did not move for {options.stall} s: {lags}")
            return False
        time.sleep(0.25)


def midway(options):
    """Waits until a fan-out of the book on one of the partitions is between a fifth and a half of its way, and sends the
    process a signal. How far it is tell the results: a fan-out is sent in the order of its list."""
    import topics
    from records import request_of

    sizes = {}
    with open(options.book) as book:
        for line in map(json.loads, book):
            if len(line.get("n", ())) >= options.least and line["p"] in options.partitions:
                sizes[f"{options.topic}/{line['p']}/{line['o']}"] = len(line["n"])
    for message in topics.follow(options.servers, options.results, options.timeout):
        place, index = request_of(json.loads(message.value())).rsplit("/", 1)
        if 0.2 <= int(index) / sizes.get(place, 10**9) <= 0.5:
            os.kill(options.pid, signal.Signals["SIG" + options.signal])
            print(f"SIG{options.signal} at index {index} of the {sizes[place]} of {place}")
            return True
    print(f"none of {len(sizes)} fan-outs was midway within {options.timeout} s")
    return False


def repeatable(options):
    """Right after a kill, while nobody reads: prints how many notifications the next worker may send again. Those are the
    requests that the server saw and that have no result in the topic, or that the commit does not say are settled: what
    was in flight, and what settled since the last acknowledged commit was sent."""
    import simulator
    import topics
    from records import request_of

    seen = simulator.read(options.simulator)
    commits = {t: topics.commits(options.servers, options.group, t) for t in [options.topic]}
    commits |= {t: topics.commits(options.servers, options.group + ".retry", t) for t in options.retry_topics}
    unsettled = set()  # requests with a retry record that may be read again
    for topic in options.retry_topics:
        for message in topics.read(options.servers, topic):
            if not commits[topic][message.partition()].is_settled(message.offset(), 0):
                unsettled.add(dict(message.headers())["push-retry-request"].decode())
    answered, unnamed, oldest = set(), 0, 0
    for message in topics.read(options.servers, options.results):
        value = json.loads(message.value())
        place, id = request_of(value), value["apns_id"]
        answered.add(id)
        topic, partition, offset, index = place.rsplit("/", 3)
        if topic == options.topic and id in seen and place not in unsettled and commits[topic][int(partition)].is_settled(
                int(offset), int(index)):
            continue
        unnamed += 1
        if topic == options.topic:  # how long before the last commit it settled: its acknowledgement came after that
            oldest = max(oldest, commits[topic][int(partition)].at_ms - value["settled_at_ms"])
    unanswered = len(seen.keys() - answered)
    print(f"the server saw {len(seen)}; without a result {unanswered}, with one that no commit names {unnamed} (the "
          f"first of them settled {oldest} ms before its partition's last commit); repeatable: {unanswered + unnamed}")
    return True


def compare(options):
    import simulator
    import topics
    from audit import Audit

    started = time.monotonic()
    audit = Audit(options.topic, options.crashed, options.repeats_at_most, options.doubtful, options.restarted,
                  options.lapsed)
    with open(options.book) as book:
        for line in book:
            audit.produced(json.loads(line))
    for topic in options.retry_topics:
        for message in topics.read(options.servers, topic):
            audit.retry(message.headers())
    for number, message in enumerate(topics.read(options.servers, options.results)):
        if number + 1 == options.withhold:
            continue
        audit.result(message.key(), message.headers(), message.value())
        if number % 10_000 == 0:
            progress(f"{number} results read")
    for message in topics.read(options.servers, options.unregistered):
        audit.dead_token(message.key(), message.value())
    for message in topics.read(options.servers, options.dead_letters):
        audit.dead_letter(message.key(), message.headers(), message.value())
    if options.group:
        audit.lag(options.group, options.topic, topics.lag(options.servers, options.group, options.topic))
        for topic in options.retry_topics:
            group = options.group + ".retry"
            audit.lag(group, topic, topics.lag(options.servers, group, topic))
    audit.complete()
    if options.simulator:
        audit.server(simulator.read(options.simulator))
    progress("")
    print(audit.report())
    print(f"audited in {time.monotonic() - started:.1f} s")
    return not audit.findings


def check_contract(options):
    """Writes some records of each kind, waits until the groups have committed all, and compares every record that the
    worker wrote with the contract."""
    import contract
    import topics

    tiers = [(int(delay), name) for delay, name in (tier.split("=", 1) for tier in options.tiers)]
    cases = (contract.other_cases if options.other else contract.main_cases)(tiers)
    options.topics, options.retry_topics = [options.topic], [name for _, name in tiers]
    settled = True
    for group in [[case for case in cases if not case.is_alone]] + [[case] for case in cases if case.is_alone]:
        contract.write(options.servers, options.topic, group)
        settled = settled and settle(options)
    check = contract.Check(contract.Evidence(
        topics.read(options.servers, options.results), topics.read(options.servers, options.unregistered),
        topics.read(options.servers, options.dead_letters),
        ((place, message) for place, (_, name) in enumerate(tiers) for message in topics.read(options.servers, name))),
        tiers, options.max_message)
    for case in cases:
        check.case(case)
    return check.finish() and settled


def check_metrics(options):
    import metrics

    return metrics.check(options)


def selftest(options):
    import selftest as tests

    return tests.run()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(action, name, text):
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(action=action)
        made.add_argument("--servers", default="localhost:9092", help="bootstrap servers (%(default)s)")
        return made

    made = command(produce, "produce", "writes request records and the producer's book")
    made.add_argument("--topic", default="apns.requests")
    made.add_argument("--count", type=int, required=True, help="records; fan-outs make more notifications of them")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--rate", type=int, default=0, help="records a second; 0: as fast as it goes")
    made.add_argument("--book", required=True, help="file the book is appended to: a JSON line for each record")
    made.add_argument("--prefixes", help="file with what `apns-worker simulate --help` prints; none: nothing but 200")
    made.add_argument("--calm", action="store_true", help="no answer that costs a connection or stops a whole app")
    made.add_argument("--plain", action="store_true", help="only what is accepted; nothing malformed, no other reason")
    made.add_argument("--faults", action="store_true", help="some requests make the server cut or close connections")
    made.add_argument("--envelopes", type=int, default=0, help="how many of the records are large fan-outs")
    made.add_argument("--envelope-tokens", type=int, default=10_000, help="device tokens of each (%(default)s)")
    made.add_argument("--scheduled", type=int, help="each is to be sent at a time of its own, within so many seconds")
    made.add_argument("--apps", type=int, help="nothing but plain notifications, to so many apps in turn")
    made.add_argument("--known", help="file of device tokens that the server knows; others are to end in HTTP 404")

    made = command(settle, "settle", "waits until the group, and its .retry group, have committed everything")
    made.add_argument("--group", default="apns-worker")
    made.add_argument("--topics", nargs="+", default=["apns.requests"])
    made.add_argument("--retry-topics", nargs="*", default=[])
    made.add_argument("--stall", type=float, default=180)

    made = command(compare, "audit", "compares what was produced, what the server saw and what the topics say")
    made.add_argument("--topic", default="apns.requests")
    made.add_argument("--book", required=True)
    made.add_argument("--results", default="apns.results")
    made.add_argument("--unregistered", default="apns.unregistered")
    made.add_argument("--dead-letters", default="apns.dead-letters")
    made.add_argument("--group", help="check that this group's lag is 0")
    made.add_argument("--retry-topics", nargs="*", default=[])
    made.add_argument("--simulator", help="address of the simulator's control endpoint")
    made.add_argument("--crashed", action="store_true", help="a worker was killed: repeats are counted, not faults")
    made.add_argument("--restarted", action="store_true",
                      help="workers were stopped in order: the next does not know of answers that asked to send again")
    made.add_argument("--doubtful", action="store_true", help="the server cut connections: some sends may be in doubt")
    made.add_argument("--lapsed", action="store_true",
                      help="a session was lost: what was not sent yet may be in doubt, and is sent once")
    made.add_argument("--repeats-at-most", type=int, help="after a kill: how often the server may have accepted again")
    made.add_argument("--withhold", type=int, default=0, help="leave out the N-th result, to see the audit fail")

    made = command(check_metrics, "metrics", "compares a worker's metrics with what the topics and the server say")
    made.add_argument("--metrics", required=True, help="address of the worker's admin pages")
    made.add_argument("--topic", default="apns.requests")
    made.add_argument("--results", default="apns.results")
    made.add_argument("--dead-letters", default="apns.dead-letters")
    made.add_argument("--retry-topics", nargs="*", default=[])
    made.add_argument("--simulator", required=True)

    made = command(repeatable, "repeatable", "right after a kill: how many notifications may be sent again")
    made.add_argument("--topic", default="apns.requests")
    made.add_argument("--results", default="apns.results")
    made.add_argument("--group", default="apns-worker")
    made.add_argument("--retry-topics", nargs="*", default=[])
    made.add_argument("--simulator", required=True)

    made = command(check_contract, "contract", "writes records of each kind and compares all that becomes of them")
    made.add_argument("--topic", required=True)
    made.add_argument("--results", required=True)
    made.add_argument("--unregistered", required=True)
    made.add_argument("--dead-letters", required=True)
    made.add_argument("--group", required=True)
    made.add_argument("--tiers", nargs="+", required=True, help="MS=TOPIC, shortest first")
    made.add_argument("--other", action="store_true", help="the cases of the other configuration")
    made.add_argument("--max-message", type=int, help="max.message.bytes of the dead-letter topic")
    made.add_argument("--stall", type=float, default=180)

    made = command(watch, "watch", "looks whether scheduled notifications come to the server before their time")
    made.add_argument("--simulator", required=True)
    made.add_argument("--book", required=True)
    made.add_argument("--timeout", type=float, default=180)

    made = command(midway, "midway", "signals a process in the middle of a large fan-out")
    made.add_argument("--topic", default="apns.requests")
    made.add_argument("--results", default="apns.results")
    made.add_argument("--book", required=True)
    made.add_argument("--pid", type=int, required=True)
    made.add_argument("--signal", choices=["TERM", "KILL"], default="TERM")
    made.add_argument("--partitions", type=int, nargs="+", required=True, help="those that the process reads")
    made.add_argument("--least", type=int, default=100, help="device tokens of a large fan-out (%(default)s)")
    made.add_argument("--timeout", type=float, default=180)

    command(selftest, "selftest", "shows that the audit finds each kind of fault")

    options = parser.parse_args()
    gc.disable()  # half of the time would go into looking for cycles among millions of entries that have none
    try:
        status = 0 if options.action(options) else 1
    except (RuntimeError, ValueError, OSError) as error:
        print(f"books.py: {error}", file=sys.stderr)
        status = 1
    # confluent-kafka 1.7.0 releases None once too often for each null header, and Python aborts over it at its end.
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
