"""Records of kinds that once stopped, killed or flooded a worker. Each must get results or a dead letter. Such a record
is recognized by its token, or by the first bytes of its key, which its dead letter keeps.

The last four hex digits of a token are the size of its envelope, as in `chaos_load`.
"""

import json

MARK = "b0150"  # begins a token
BAD_MARK = "poison"  # begins a key or an invalid token
REFUSED = "fa17f0030"  # the simulator always refuses the token's stream
CLOSED = "fa1700000"  # the gateway always closes the connection in place of an answer
RETRIED_TOPIC = "chaos.poison"  # the topic that forged retry records name, which does not exist
MANY = 10_000
REPEATED = 300  # one device's notifications: they are sent one by one, and more than a hundred wait in a tier
SIZES = {"same_token": REPEATED, "bad_tokens": MANY}  # notifications of an envelope
LEAST, LARGEST = -(1 << 63), (1 << 63) - 1
PAYLOAD = b'{"aps":{"alert":"Poison"}}'
APP = ("push-app", b"shop")


def is_poison(key):
    return key.startswith((MARK, BAD_MARK, REFUSED, CLOSED))


def token(source, size=0, mark=MARK):
    return mark + source.randbytes(28).hex()[:60 - len(mark)] + "%04x" % size


def key(source, more=b""):
    return BAD_MARK.encode() + source.randbytes(16) + more


def envelope(tokens):
    return json.dumps({"device_tokens": tokens, "app": "shop", "payload": {"aps": {"alert": "Poison"}}}).encode()


def expires_soon(now_ms):
    return ("apns-expiration", b"%d" % (now_ms // 1_000 + 20))


# Returns key, value, headers and timestamp (None: now) of each kind of record.
KINDS = {
    "control_topic": lambda source, now_ms: (
        token(source), PAYLOAD, [APP, ("apns-topic", b"\x01" * 1_700_000)], None),
    "delete_bytes": lambda source, now_ms: (
        token(source), PAYLOAD,
        [APP, ("apns-topic", b"com.exam\x7fple.shop"), ("apns-collapse-id", b"\x7f" * 64)], None),
    "same_token": lambda source, now_ms: (
        BAD_MARK.encode() + b"k" * 900_000, envelope([token(source, REPEATED)] * REPEATED), [], None),
    "bad_tokens": lambda source, now_ms: (
        None, envelope(["%s%x%04x" % (BAD_MARK, number, MANY) for number in range(MANY)]),
        [("apns-topic", b"t" * 900_000)], None),
    "tombstone": lambda source, now_ms: (key(source, b"k" * 1_000_000), None, [], None),
    "not_json": lambda source, now_ms: (key(source), b"{" * 500_000, [], None),
    "deep": lambda source, now_ms: (key(source), b'{"payload":' + b"[" * 5_000 + b"]" * 5_000 + b"}", [], None),
    "before_time": lambda source, now_ms: (token(source), PAYLOAD, [APP], now_ms + LEAST + 400),
    "no_time": lambda source, now_ms: (token(source), PAYLOAD, [APP], 1),
    "numbers": lambda source, now_ms: (
        token(source), PAYLOAD, [
            APP, ("apns-expiration", b"9223372036854775807"), ("apns-priority", b"-1"),
            ("apns-id", b"00000000-0000-0000-0000-000000000000")], None),
    "many_headers": lambda source, now_ms: (
        token(source), PAYLOAD, [APP] + [("traceparent", b"\x00" * 3_000)] * 200, None),
    # The notification waits in the tiers until it expires.
    "refused_stream": lambda source, now_ms: (
        token(source, 0, REFUSED), PAYLOAD, [APP, expires_soon(now_ms)], None),
    # The notification is finally sent alone, until it expires.
    "closed_gateway": lambda source, now_ms: (
        token(source, 0, CLOSED), PAYLOAD, [("push-app", b"kiosk"), expires_soon(now_ms)], None),
}


# Wrong headers of a retry record, with values at their limits.
WRONG = [("push-retry-sends", 2_147_483_647), ("push-retry-in-doubt", 2_147_483_647),
         ("push-retry-attempt", 2_147_483_647), ("push-retry-due-ms", LARGEST), ("push-retry-first-ms", LARGEST),
         ("push-retry-due-ms", 999_999_999_999_999_999), ("push-retry-sends", -1)]


def retry_headers(number, id, now_ms, is_wrong=True):
    """Headers of a forged retry record; each has one wrong value, in turn."""
    fields = {"push-retry-request": f"{RETRIED_TOPIC}/0/{number}/0", "push-retry-attempt": 1, "push-retry-due-ms": 1,
              "push-retry-first-ms": now_ms, "push-retry-sends": 1, "push-retry-in-doubt": 0, "apns-id": id,
              "push-app": "shop", "push-device-token": MARK + "%055x0000" % number}
    if is_wrong:
        fields |= [WRONG[number % len(WRONG)]]
    return [(name, str(value).encode()) for name, value in fields.items()]
