"""The simulator's book, read from its control endpoint."""

import json
import urllib.request


def read(url):
    """apns-id -> (token, requests, accepted), and token -> the time given with a 410."""
    seen, unregistered_at = {}, {}
    with urllib.request.urlopen(url, timeout=60) as lines:
        for line in lines:
            entry = json.loads(line)
            seen[entry["apns_id"]] = (entry["token"], entry["requests"], entry["accepted"])
    return seen, unregistered_at
