"""Compares a worker's metrics with the topics and the server. For a run of one worker without faults, whose books
already agree."""

import json
import re
import time
import urllib.request
from collections import Counter, defaultdict

import simulator
import topics
from records import REASONS

SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def read(address):
    """Returns a dictionary: metric -> {labels, as a sorted tuple of pairs: value}. Raises ValueError for other formats."""
    with urllib.request.urlopen(address + "/metrics", timeout=60) as answer:
        if not answer.headers["Content-Type"].startswith("text/plain; version=0.0.4"):
            raise ValueError("content type " + answer.headers["Content-Type"])
        text = answer.read().decode()
    metrics, types = defaultdict(dict), {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            types[name] = kind
        elif not line.startswith("#"):
            name, labels, value = SAMPLE.match(line).groups()
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            key = tuple(sorted(LABEL.findall(labels or "")))
            if name not in types and types.get(family) != "histogram" or key in metrics[name]:
                raise ValueError("a sample without a type, or for the second time: " + line)
            metrics[name][key] = float(value)
    return metrics


def metrics(options):
    """Returns whether every number is right. The page may be about 100 ms old, so it is read again until it agrees."""
    deadline = time.monotonic() + topics.PATIENCE
    while True:
        lines = list(compare(options))
        is_fine = not any(line.startswith("WRONG") for line in lines)
        if is_fine or time.monotonic() > deadline:
            print("\n".join(lines))
            return is_fine
        time.sleep(0.2)


def compare(options):
    metrics = read(options.metrics)
    outcomes, reasons, doubts, answered = Counter(), Counter(), 0, 0
    for message in topics.read(options.servers, options.results):
        value = json.loads(message.value())
        outcomes[value.get("app") or "", value["outcome"]] += 1
        # A notification that was retried had other answers before.
        if value["outcome"] in ("rejected", "unregistered", "invalid") and value.get("reason"):
            reasons[value["reason"]] += 1
        doubts += value["in_doubt"]
        answered += value["attempts"]
    retried = topics.written(options.servers, *options.retry_topics)
    requested = topics.written(options.servers, options.topic)
    dead = topics.written(options.servers, options.dead_letters)
    sent = simulator.totals(options.simulator)["requests"]
    settled = sum(outcomes.values()) + dead + retried

    def total(name, **labels):
        # The worker omits a number that it does not know at the moment.
        if name not in metrics:
            return float("nan")
        return sum(value for key, value in metrics[name].items() if set(labels.items()) <= set(key))

    def line(name, is_fine, seen, wanted=""):
        return f"{'fine ' if is_fine else 'WRONG'} {name}: metric {seen:g}, books {wanted}"

    for name, wanted in {
        "records_received_total": requested + retried, "dead_letters_total": dead,
        "notifications_settled_total": settled, "sends_total": sent, "in_doubt_total": doubts,
        "duplicates_skipped_total": 0, "open_notifications": 0, "in_flight": 0, "waiting": 0,
        "unacknowledged_records": 0, "lag_records": 0, "ready": 1, "record_to_settled_seconds_count": settled,
        "request_to_response_seconds_count": sent, "notifications_total": sum(outcomes.values()),
    }.items():
        seen = total("apns_worker_" + name)
        yield line(name, seen == wanted, seen, wanted)
    yield line("sent, by the results", sent == answered, sent, answered)
    seen = total("apns_worker_retries_total") + total("apns_worker_held_total")
    yield line("retried and held", seen == retried, seen, retried)
    seen = total("apns_worker_partition_committed_offset", topic=options.topic)
    yield line("committed", seen == requested, seen, requested)
    for (app, outcome), count in sorted(outcomes.items()):
        seen = total("apns_worker_notifications_total", app=app, outcome=outcome)
        yield line(f"{outcome} of {app or 'no app'}", seen == count, seen, count)
    for reason, count in sorted(reasons.items()):
        if REASONS.get(reason, (0, "rejected"))[1] != "abandoned" and not reason.startswith("HTTP"):
            seen = total("apns_worker_reasons_total", reason=reason)
            yield line(reason, seen == count, seen, count)
    for name in ("apns_worker_record_to_settled_seconds_sum", "apns_worker_request_to_response_seconds_sum",
                 "apns_worker_commits_total", "process_cpu_seconds_total"):
        yield line(name, total(name) > 0, total(name), "more than 0")
    connections = total("apns_worker_connections", state="open")
    yield line("connections", 1 <= connections <= 8, connections, "1 to 8")
