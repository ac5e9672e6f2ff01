#!/usr/bin/env python3
"""shop.py SERVERS REQUESTS RESULTS UNREGISTERED: a service that sends notifications, in Python with confluent-kafka.

Sends an order notification to two devices and news to three, reads the results, and deletes the device that is
unregistered. Exits with 0 if everything is as expected. It uses only what README.md documents.
"""

import json
import sys
import time

from confluent_kafka import Consumer, Producer

servers, requests, results, unregistered = sys.argv[1:]
deadline = time.monotonic() + 60

# The shop's devices: token -> time of its last registration. The last token has been unregistered since 2020.
now_ms = time.time_ns() // 1_000_000
registered = {prefix + "0" * 56: now_ms for prefix in ("00000001", "00000002", "00000003", "00000004")}
gone = "fa174101" + "0" * 56
registered[gone] = 1_500_000_000_000
tokens = list(registered)

producer = Producer({
    "bootstrap.servers": servers,
    "enable.idempotence": True,  # acks=all, and retries neither duplicate nor reorder records
    "partitioner": "murmur2_random",  # as clients in Java do, so that a device has one partition with any client
})


written = set()  # the places of the shop's requests, by which results are matched


def acknowledged(error, message):
    if error is not None:
        sys.exit(f"a request was not written: {error}")
    written.add((message.topic(), message.partition(), message.offset()))


# Payload form: the key is the device token, and the value is the payload, which is sent byte for byte.
for number, token in enumerate(tokens[:2]):
    payload = {"aps": {"alert": {"title": f"Order {number}", "body": "is on its way \U0001F69A"}, "sound": "default"}}
    producer.produce(
        requests, key=token, value=json.dumps(payload, ensure_ascii=False).encode(), on_delivery=acknowledged,
        headers={
            "apns-topic": "com.example.shop",
            "apns-collapse-id": f"order-{number}",
            "apns-expiration": str(now_ms // 1000 + 3600),
        })

# Envelope form: one record for several devices, with one result for each device.
envelope = {
    "device_tokens": tokens[2:],
    "headers": {"apns-topic": "com.example.shop", "apns-push-type": "background"},
    "payload": {"aps": {"content-available": 1}},
}
producer.produce(requests, value=json.dumps(envelope).encode(), on_delivery=acknowledged)
if producer.flush(30) > 0:
    sys.exit("requests were not acknowledged within 30 s")


def records(topic):
    """Yields the JSON objects of a topic's records. Commits each record when the next one is requested."""
    consumer = Consumer({
        "bootstrap.servers": servers,
        "group.id": f"shop.{topic}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    })
    consumer.subscribe([topic])
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                sys.exit(f"{topic}: {message.error()}")
            if message.value() is not None:
                yield json.loads(message.value())
            consumer.commit(message, asynchronous=False)
        sys.exit(f"{topic}: not all records arrived within 60 s")
    finally:
        consumer.close()


# A result that is repeated after a crash has the same `request`. The topic also contains results of other services.
outcomes = {}
for result in records(results):
    place = result["request"]
    record = place["topic"], place["partition"], place["offset"]
    if record not in written:
        continue
    outcomes[record, place["index"]] = result["device_token"], result["outcome"]
    print(result["outcome"], result.get("reason") or "", result["device_token"][:8] + "…")
    if len(outcomes) == len(tokens):
        break

for dead in records(unregistered):
    token, since = dead["device_token"], dead.get("unregistered_at_ms")
    # A token that was registered again since then is valid.
    if token in registered and since is not None and registered[token] < since:
        del registered[token]
        print(f"forgotten: {token[:8]}…, gone since {since}")
        break

expected = {(token, "unregistered" if token == gone else "accepted") for token in tokens}
if set(outcomes.values()) != expected or gone in registered or len(registered) != 4:
    sys.exit("the results or the devices are not as expected")
print("all is well")
