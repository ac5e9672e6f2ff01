"""Records that a worker must survive: each once stopped, killed or flooded one. Each gets a result or a dead letter, and
says that it is poison: by its token, or by the first bytes of its key, which its dead letter keeps.

The last four hex digits of a token say how many its envelope has, as in `chaos_load`.
"""

import json

MARK = b"b0150"  # of a token that is one
BAD_MARK = b"poison"  # of a key, or of a token that is none
RETRIED_TOPIC = "chaos.poison"  # the topic that retry records of ours say they come from; there is none
MEGABYTE = 1_000_000
MANY = 10_000
REPEATED = 300  # a device's notifications go one after the other, and beyond a hundred wait in a tier
SIZES = {"same_token": REPEATED, "bad_tokens": MANY}  # notifications of an envelope
OPEN = {"aps": {"alert": "Poison"}}
LEAST, LARGEST = -(1 << 63), (1 << 63) - 1


REFUSED = b"fa17f0030"  # the simulator refuses the token's stream, always


CLOSED = b"fa1700000"  # the gateway closes the connection in its place, always


def is_poison(key):
    return key is not None and key.startswith((MARK, BAD_MARK, REFUSED, CLOSED))


def token(source, size=0):
    return MARK.decode() + source.randbytes(28).hex()[:55] + "%04x" % size


def envelope(tokens):
    return json.dumps({"device_tokens": tokens, "app": "shop", "payload": OPEN}).encode()


PAYLOAD = json.dumps(OPEN).encode()
APP = ("push-app", b"shop")


def control_topic(source, now_ms):
    return token(source), PAYLOAD, [APP, ("apns-topic", b"\x01" * 1_700_000)], None


def delete_bytes(source, now_ms):
    return token(source), PAYLOAD, [APP, ("apns-topic", b"com.exam\x7fple.shop"), ("apns-collapse-id", b"\x7f" * 64)], None


def same_token(source, now_ms):
    return BAD_MARK + b"k" * 900_000, envelope([token(source, REPEATED)] * REPEATED), [], None


def bad_tokens(source, now_ms):
    tokens = ["%s%x%04x" % (BAD_MARK.decode(), number, MANY) for number in range(MANY)]
    return None, envelope(tokens), [("apns-topic", b"t" * 900_000)], None


def tombstone(source, now_ms):
    return BAD_MARK + source.randbytes(16) + b"k" * MEGABYTE, None, [], None


def not_json(source, now_ms):
    return BAD_MARK + source.randbytes(16), b"{" * 500_000, [], None


def deep(source, now_ms):
    return BAD_MARK + source.randbytes(16), b'{"payload":' + b"[" * 5_000 + b"]" * 5_000 + b"}", [], None


def before_time(source, now_ms):
    return token(source), PAYLOAD, [APP], now_ms + LEAST + 400


def no_time(source, now_ms):
    return token(source), PAYLOAD, [APP], 1


def numbers(source, now_ms):
    return token(source), PAYLOAD, [
        APP, ("apns-expiration", b"9223372036854775807"), ("apns-priority", b"-1"),
        ("apns-id", b"00000000-0000-0000-0000-000000000000")], None


def many_headers(source, now_ms):
    return token(source), PAYLOAD, [APP] + [("traceparent", b"\x00" * 3_000)] * 200, None


def refused_stream(source, now_ms):
    """The simulator refuses its stream, always: it is for the tiers, until it expires."""
    seconds = now_ms // 1_000 + 20
    return REFUSED.decode() + source.randbytes(26).hex()[:51] + "0000", PAYLOAD, [
        APP, ("apns-expiration", str(seconds).encode())], None


def closed_gateway(source, now_ms):
    """A gateway of the binary protocol closes without a word in its place, always: alone at last, until it expires."""
    seconds = now_ms // 1_000 + 20
    return CLOSED.decode() + source.randbytes(26).hex()[:51] + "0000", PAYLOAD, [
        ("push-app", b"kiosk"), ("apns-expiration", str(seconds).encode())], None


KINDS = [control_topic, delete_bytes, same_token, bad_tokens, tombstone, not_json, deep, before_time, no_time,
         numbers, many_headers, refused_stream]


def retry_headers(number, id, now_ms):
    """Of a retry record that nobody wrote, each with one number at its end; in turn."""
    fields = {"push-retry-request": f"{RETRIED_TOPIC}/0/{number}/0", "push-retry-attempt": "1", "push-retry-due-ms": "0",
              "push-retry-first-ms": str(now_ms), "push-retry-sends": "1", "push-retry-in-doubt": "0", "apns-id": id,
              "push-app": "shop", "push-device-token": MARK.decode() + "%055x0000" % number}
    wrong = [("push-retry-sends", 2_147_483_647), ("push-retry-in-doubt", 2_147_483_647),
             ("push-retry-attempt", 2_147_483_647), ("push-retry-due-ms", LARGEST), ("push-retry-first-ms", LARGEST),
             ("push-retry-due-ms", 999_999_999_999_999_999), ("push-retry-sends", -1)]
    name, value = wrong[number % len(wrong)]
    fields[name] = str(value)
    return [(name, value.encode()) for name, value in fields.items()]
