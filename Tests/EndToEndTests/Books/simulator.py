"""The simulator's book, read from its control endpoint."""

import json
import urllib.request


def rows(address, listing):
    """Yields (apns-id, device token, count) for each entry of `received` or `accepted`."""
    with urllib.request.urlopen(f"{address}/{listing}", timeout=120) as lines:
        for line in lines:
            id, token, count = line.decode().split()
            yield id, token, int(count)


def read(address):
    """Returns a dictionary: apns-id -> (token, requests, accepted)."""
    seen = {}
    for place, listing in enumerate(("received", "accepted")):
        for id, token, count in rows(address, listing):
            seen.setdefault(id, [token, 0, 0])[1 + place] = count
    return seen


def totals(address):
    """Returns the simulator's counts by name."""
    with urllib.request.urlopen(f"{address}/totals", timeout=60) as text:
        return json.load(text)
