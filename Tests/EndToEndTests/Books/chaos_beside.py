"""The producer of a topic that a chaos run deletes and makes anew: `chaos_beside.py SERVERS TOPIC RATE SEED BOOK`.

Each notification has an `apns-id` of its own, because places come again with a new topic. Told on its standard input:
`on` (a new topic begins), `off` (it is to be deleted), `stop`. Its book: for each topic that there was, the ids of what
Kafka acknowledged.
"""

import json
import os
import random
import sys
import threading
import time
import uuid
from collections import deque
from functools import partial

from confluent_kafka import KafkaException, Producer

from chaos_load import token


class Beside:
    def __init__(self, servers, topic, rate, seed):
        self.servers, self.topic, self.rate = servers, topic, rate
        self.random = random.Random(seed)
        self.orders = deque()
        self.topics = []  # of each: ids
        self.is_on = self.is_stopping = False

    def delivered(self, ids, id, error, message):
        if error is None:
            ids.append(id)  # what was refused may be there, or not: nobody counts on it

    def listen(self):
        for line in sys.stdin:
            self.orders.append(line.strip())
        self.orders.append("stop")

    def write(self, producer):
        id = str(uuid.UUID(bytes=self.random.randbytes(16), version=4))
        try:
            producer.produce(
                self.topic, key=token(self.random).encode(), value=b'{"aps":{"alert":"Beside"}}',
                headers=[("apns-id", id.encode()), ("push-app", b"shop")], on_delivery=partial(self.delivered, self.topics[-1], id))
        except (BufferError, KafkaException):
            pass

    def run(self):
        threading.Thread(target=self.listen, daemon=True).start()
        producer, at, due = None, time.monotonic(), 0.0
        while not self.is_stopping:
            while self.orders:
                order = self.orders.popleft()
                self.is_on, self.is_stopping = order == "on", order == "stop"
                if producer is not None:
                    producer.flush(10)
                if order == "on":
                    self.topics.append([])
                    # A new one: the old one's memory is of the old topic.
                    producer = Producer({"bootstrap.servers": self.servers, "acks": "all", "linger.ms": 5,
                                         "message.timeout.ms": 60_000, "log_level": 0})
                print(json.dumps({"done": order, "written": sum(map(len, self.topics))}), flush=True)
            now = time.monotonic()
            due, at = min(due + (now - at) * self.rate, self.rate), now
            while self.is_on and due >= 1:
                due -= 1
                self.write(producer)
            if producer is not None:
                producer.poll(0)
            time.sleep(0.01)


def main():
    servers, topic, rate, seed, book = sys.argv[1:]
    beside = Beside(servers, topic, float(rate), int(seed))
    beside.run()
    with open(book, "w") as file:
        json.dump(beside.topics, file)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
