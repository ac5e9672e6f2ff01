"""Whether notifications came to the server when they were to be sent, by the server's book.

That has no times: it is looked into again and again, and what it has before its time is up is early. So what came less than a
look before its time is not found; what the worker itself says of it is looked at by whoever has the results.
"""

import json
import time

import simulator


def watch(address, book, seconds, pause=0.05):
    """Looks until the server has all, `seconds` at most. Returns the early ones and how late each of the others was seen, in
    seconds."""
    early, late, waiting = {}, [], {}
    begun, known = time.monotonic(), 0
    while time.monotonic() - begun < seconds:
        with open(book) as lines:
            for number, line in enumerate(lines):
                if number >= known and line.endswith("\n"):
                    known, line = number + 1, json.loads(line)
                    waiting.update((token, line["at"]) for token, _, _ in line["n"])
        if known and not waiting:
            break
        tokens = {token for token, received, _ in simulator.read(address).values() if received}
        looked = time.time()
        for token in tokens & waiting.keys():
            at = waiting.pop(token)
            if looked < at:
                early[token] = at - looked
            else:
                late.append(looked - at)
        time.sleep(pause)
    return early, late, waiting


def report(early, late, waiting):
    """Prints them; whether none was early and none is missing."""
    late.sort()
    for token, seconds in list(early.items())[:5]:
        print(f"EARLY: {token[:8]}… was there {seconds:.3f} s before its time")
    if late:
        print(f"seen late by {late[len(late) // 2]:.2f} s (half of them), {late[len(late) * 99 // 100]:.2f} s (99 of 100), "
              f"{late[-1]:.2f} s (all)")
    print(f"in time {len(late)}, early {len(early)}, missing {len(waiting)}")
    return not early and not waiting


def sent_early(book, topic, results):
    """By the worker's own word, to the millisecond: how many results name a send before the time, and how late the latest one
    was sent, in ms."""
    at = {}
    with open(book) as lines:
        for line in map(json.loads, lines):
            for index in range(len(line["n"])):
                at[f"{topic}/{line['p']}/{line['o']}/{index}"] = line["at"] * 1000
    early, latest = 0, 0
    for value in results:
        request = value["request"]
        late = value["sent_at_ms"] - at[f"{request['topic']}/{request['partition']}/{request['offset']}/{request['index']}"]
        early += late < 0
        latest = max(latest, late)
    return early, latest
