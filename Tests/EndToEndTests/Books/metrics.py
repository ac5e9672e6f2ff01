"""The worker's own numbers, held against what the topics and the server say: for a run of one worker without a fault, whose
books agree already."""

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
    """Metric -> {labels, as a sorted tuple of pairs: value}. Raises ValueError for what is not the text format."""
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
            found = SAMPLE.match(line)
            if not found:
                raise ValueError("not a sample: " + line)
            name, labels, value = found.groups()
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            if name not in types and types.get(family) != "histogram":
                raise ValueError("a sample without a type: " + line)
            key = tuple(sorted(LABEL.findall(labels or "")))
            if key in metrics[name]:
                raise ValueError("a sample stands twice: " + line)
            metrics[name][key] = float(value)
    return metrics


def total(metrics, name, **labels):
    """The sum of a metric's samples that have these labels."""
    wanted = set(labels.items())
    if name not in metrics:
        raise KeyError(f"there is no metric {name}")
    return sum(value for key, value in metrics[name].items() if wanted <= set(key))


def ends(options, names):
    consumer = topics.reader(options.servers)
    try:
        return sum(sum(topics.ends(consumer, name).values()) for name in names)
    finally:
        consumer.close()


def check(options):
    """Compares; true when every number is right. The page may be some 100 ms behind: it is read until it is."""
    deadline = time.monotonic() + 180
    while True:
        lines, isFine = compare(options)
        if isFine or time.monotonic() > deadline:
            print("\n".join(lines))
            return isFine
        time.sleep(0.2)


def compare(options):
    import json

    metrics = read(options.metrics)
    outcomes, reasons, doubts, answered = Counter(), Counter(), 0, 0
    for message in topics.read(options.servers, options.results):
        value = json.loads(message.value())
        outcomes[value.get("app") or "", value["outcome"]] += 1
        # One that was tried again had other answers before; one that is refused has one.
        if value["outcome"] in ("rejected", "unregistered", "invalid") and value.get("reason"):
            reasons[value["reason"]] += 1
        doubts += value["in_doubt"]
        answered += value["attempts"]
    retried = ends(options, options.retry_topics)
    requested = ends(options, [options.topic])
    dead = ends(options, [options.dead_letters])
    sent = simulator.totals(options.simulator)["requests"]
    settled = sum(outcomes.values()) + dead + retried

    rows = [
        ("records read", total(metrics, "apns_worker_records_received_total"), requested + retried),
        ("dead letters", total(metrics, "apns_worker_dead_letters_total"), dead),
        ("settled", total(metrics, "apns_worker_notifications_settled_total"), settled),
        ("retried and held", total(metrics, "apns_worker_retries_total") + total(metrics, "apns_worker_held_total"),
         retried),
        ("sent", total(metrics, "apns_worker_sends_total"), sent),
        ("sent, by the results", total(metrics, "apns_worker_sends_total"), answered),
        ("in doubt", total(metrics, "apns_worker_in_doubt_total"), doubts),
        ("duplicates skipped", total(metrics, "apns_worker_duplicates_skipped_total"), 0),
        ("open", total(metrics, "apns_worker_open_notifications"), 0),
        ("in flight", total(metrics, "apns_worker_in_flight"), 0),
        ("waiting", total(metrics, "apns_worker_waiting"), 0),
        ("unacknowledged", total(metrics, "apns_worker_unacknowledged_records"), 0),
        ("lag of the requests", total(metrics, "apns_worker_lag_records", role="requests"), 0),
        ("lag of the retries", total(metrics, "apns_worker_lag_records", role="retries"), 0),
        ("committed", total(metrics, "apns_worker_partition_committed_offset", topic=options.topic), requested),
        ("ready", total(metrics, "apns_worker_ready"), 1),
        ("record to settled, count", total(metrics, "apns_worker_record_to_settled_seconds_count"), settled),
        ("request to response, count", total(metrics, "apns_worker_request_to_response_seconds_count"), sent),
    ]
    for (app, outcome), count in sorted(outcomes.items()):
        rows.append((f"{outcome} of {app or 'no app'}",
                     total(metrics, "apns_worker_notifications_total", app=app, outcome=outcome), count))
    rows.append(("all outcomes", total(metrics, "apns_worker_notifications_total"), sum(outcomes.values())))
    for reason, count in sorted(reasons.items()):
        known = REASONS.get(reason, (0, "rejected"))[1] != "abandoned"
        if known and not reason.startswith("HTTP"):
            rows.append((reason, total(metrics, "apns_worker_reasons_total", reason=reason), count))
    lines = [f"{'fine ' if seen == wanted else 'WRONG'} {name}: metric {seen:g}, books {wanted}" for name, seen, wanted
             in rows]
    for name in ("apns_worker_record_to_settled_seconds", "apns_worker_request_to_response_seconds"):
        if not total(metrics, name + "_sum") > 0:
            lines.append(f"WRONG {name}: the sum is 0")
    connections = total(metrics, "apns_worker_connections", state="open")
    if not 1 <= connections <= 8:
        lines.append(f"WRONG connections: {connections:g}")
    if not total(metrics, "apns_worker_commits_total") > 0 or not total(metrics, "process_cpu_seconds_total") > 0:
        lines.append("WRONG commits or CPU time: 0")
    return lines, not any(line.startswith("WRONG") for line in lines)
