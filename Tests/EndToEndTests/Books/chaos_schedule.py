"""What befalls a chaos run, drawn from its seed.

The run is cut into rounds, each of which begins with a kill -9 (with --calm: an orderly restart). Every second round has
a fault that is over by its middle, so that broker and simulator were up for a while before the next kill; the others
have one that takes as long as it takes. All faults of a kind come once before any of them comes again.
Topics that go and come, rights that are taken away and outages longer than the session are kinds of their own, to be had
or left out.
"""

import random

SHORT = ["goaways", "cuts", "resets", "latency", "streams", "odd answers", "simulator paused", "broker paused",
         "fourth worker"]
LONG = ["broker restart", "broker stopped", "broker killed", "disk full", "simulator stopped",
        "simulator killed", "blackhole", "rolling restart", "unanswered", "fourth worker"]
TOPICS = ["topic made anew", "dead-token topic made anew", "right denied"]
OUTAGES = ["broker away", "broker frozen"]  # for longer than the session
APPS = ["app paused"]
GATEWAYS = ["gateway closes", "gateway shuts down", "gateway errors late", "gateway slow", "gateway late",
            "gateway silent"]
CALM = ["goaways", "latency", "fourth worker", "rolling restart"]
GOAWAYS = ["goaway", "goaway-shutdown", "goaway-twice"]


class Schedule:
    """`only`: kinds of fault that are drawn, in place of all; `more`: kinds that are drawn beside them."""

    def __init__(self, seed, calm, only=(), more=()):
        self.random = random.Random(seed)
        self.details = random.Random(seed)
        self.calm = calm
        self.only = list(only)
        self.long = LONG + list(more)
        self.bags = {}

    def drawn(self, kinds):
        bag = self.bags.setdefault(tuple(kinds), [])
        if not bag:
            bag.extend(kinds)
            self.random.shuffle(bag)
        return bag.pop()

    def round(self, number):
        """(whom to kill: 0 or 1, kind of fault)."""
        victim = self.random.randrange(2)
        return victim, self.drawn(self.only or (CALM if self.calm else self.long if number % 2 else SHORT))

    def seconds(self, least, most):
        return self.details.uniform(least, most)

    def choice(self, values):
        return self.details.choice(values)
