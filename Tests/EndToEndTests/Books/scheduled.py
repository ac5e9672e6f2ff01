"""Whether notifications came to the server before they were to be sent, by the server's book.

That has no times: it is looked into again and again, and what it has before its time is up is early. So what came less than
a look before its time is not found.
"""

import json
import time

import simulator


def watch(address, book, seconds):
    """Looks until the server has all that the book says, `seconds` at most; whether none was early and none is missing."""
    with open(book) as lines:
        waiting = {token: line["at"] for line in map(json.loads, lines) for token, _, _ in line["n"]}
    total, early = len(waiting), 0
    end = time.monotonic() + seconds
    while waiting and time.monotonic() < end:
        there = {token for token, received, _ in simulator.read(address).values() if received}
        looked = time.time()
        for token in there & waiting.keys():
            at = waiting.pop(token)
            if looked < at:
                early += 1
                print(f"EARLY: {token[:8]}… was there {at - looked:.3f} s before its time")
        time.sleep(0.05)
    print(f"of {total} early {early}, missing {len(waiting)}")
    return not early and not waiting
