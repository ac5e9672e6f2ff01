"""How long notifications took, by their results alone: from the record's timestamp to the answer."""

import json
import socket
import threading
from collections import defaultdict


def percentile(sorted_values, share):
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))] if sorted_values else None


def summary(times):
    times = sorted(times)
    return {"count": len(times), "p50": percentile(times, 0.5), "p99": percentile(times, 0.99),
            "max": times[-1] if times else None}


def measure(messages, by, while_topic=None, skip_ms=0):
    """name -> summary in ms, where a result's name is its value of `by` ("app", or "topic" of its request).

    `while_topic`: what was requested after the last result of that topic is left out: nothing competed with it.
    `skip_ms`: so is what was requested so soon after the name's first, while connections were made and streams allowed.
    """
    values = [json.loads(message.value()) for message in messages]
    end = max((v["settled_at_ms"] for v in values if v["request"]["topic"] == while_topic), default=None)
    values.sort(key=lambda v: v["requested_at_ms"])
    times, outcomes, starts = defaultdict(list), defaultdict(int), {}
    for value in values:
        name = value["request"]["topic"] if by == "topic" else value.get(by)
        outcomes[value["outcome"]] += 1
        at = value["requested_at_ms"]
        if at >= starts.setdefault(name, at + skip_ms) and (end is None or at <= end):
            times[name].append(value["settled_at_ms"] - at)
    return {name: summary(found) for name, found in times.items()}, dict(outcomes)


def keep_silent(port):
    """Accepts connections, reads what comes, and never answers."""
    listener = socket.create_server(("127.0.0.1", port), backlog=100)
    print("listening", flush=True)

    def swallow(connection):
        while connection.recv(65_536):
            pass

    while True:
        connection, _ = listener.accept()
        threading.Thread(target=swallow, args=(connection,), daemon=True).start()
