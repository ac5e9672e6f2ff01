"""The simulator's book, read from its control endpoint."""

import json
import urllib.request


def read(address):
    """apns-id -> (token, requests, accepted)."""
    seen = {}
    for listing in ("received", "accepted"):
        with urllib.request.urlopen(f"{address}/{listing}", timeout=60) as lines:
            for line in lines:
                id, token, count = line.decode().split()
                known = seen.setdefault(id, [token, 0, 0])
                known[1 if listing == "received" else 2] = int(count)
    return seen


def totals(address):
    """Its counts, by name."""
    with urllib.request.urlopen(f"{address}/totals", timeout=60) as text:
        return json.load(text)
