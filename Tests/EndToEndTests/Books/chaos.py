#!/usr/bin/env python3
"""Chaos: a broker, the simulator, a producer and three workers, two of which are killed again and again (kill -9),
while the broker is stopped, restarted, killed and out of disk space, the simulator is stopped and killed, connections
are cut, closed and blackholed, and a fourth worker joins and leaves. Then the audit runs. One worker is never touched.

One record in 10,000 is poison (`chaos_poison`). A request topic and the dead-token topic are deleted and recreated,
rights are denied for a while, the broker is away for longer than the session, one app is limited and one is paused. Two
apps use the binary protocol, whose gateway closes connections, shuts down, or reads slowly or nothing.

    chaos.py --minutes 30 --seed 7 --rate 20000 --worker .build/release/apns-worker
    chaos.py --minutes 5 --calm        orderly restarts, rebalances and GOAWAYs without kills and faults: no duplicates
    chaos.py --minutes 5 --workers 1 --outage 15     repeated broker outages of 15 s with one worker: no duplicates
    chaos.py --minutes 3 --only "broker killed,disk full"        kills, and only these faults between them

The run consists of rounds, each of which begins with a kill -9 (with --calm: an orderly restart). Every second round
has a fault that is over by its middle. All faults come once before one of them is repeated.

Needs KAFKA_HOME, Java and Python's confluent-kafka (Debian: python3-confluent-kafka). The exit code is 0 if nothing was
lost and every repeat is marked as in doubt, or 1 if there are findings.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from types import SimpleNamespace

from confluent_kafka import KafkaException

import topics
from chaos_load import SPECIAL
from chaos_processes import Broker, Partner, Simulator, Worker

PARTITIONS = 12
RETENTION = {"retention.ms": 300_000, "segment.ms": 60_000, "segment.bytes": 33_554_432}
BESIDE = (3, {})
DEAD_TOKENS = (PARTITIONS, {"cleanup.policy": "compact"})
BACKLOG_SECONDS = 30  # a larger backlog holds the producer, so that retention does not overtake a worker
GROWTH = 1.05  # the allowed growth of the untouched worker's memory from the second to the last third of a long run

SHORT = ["goaways", "cuts", "resets", "latency", "streams", "odd answers", "simulator paused", "broker paused",
         "fourth worker"]
OUTAGES = ["broker away", "broker frozen"]  # for longer than the session
CALM = ["goaways", "latency", "fourth worker", "rolling restart"]
# Faults of the simulator's control endpoint: (request, seconds, request that ends it). EVERY is twenty a second.
REQUESTS = {
    "cuts": ("/faults?fault=cut-after@EVERY*3&fault=cut-inside@EVERY*5&fault=tcp-reset@EVERY*7&fault=cut-before@EVERY*4",
             1, "/faults?fault="),
    "resets": ("/faults?fault=refuse-stream@50&fault=reset-stream@170&fault=goaway-below@1000", 1, "/faults?fault="),
    "unanswered": ("/faults?fault=no-answer@1000&fault=stall@3s", 3, "/faults?fault="),
    "streams": ("/faults?streams=1", 1, "/faults?streams=1000"),
    "blackhole": ("/now?fault=blackhole", 0, None),
    # Slow connections would stay slow for minutes, so they are reset at the end.
    "odd answers": (
        "/faults?fault=out-of-order@EVERY*2&fault=split-frames@EVERY*3&fault=late-~100ms@EVERY*1&fault=streams-20@EVERY*9"
        "&fault=slow-frames@EVERY*11&fault=goaway-text@EVERY*13&fault=goaway-now:TooManyProviderTokenUpdates@EVERY*14"
        "&fault=ServiceUnavailable@EVERY*5&fault=empty-500@EVERY*6", 1, "/faults?fault="),
    # These apply to new connections. Open connections end with the next bad token.
    "gateway closes": ("/faults?gateway=close@100", 5, "/faults?gateway="),
    "gateway shuts down": ("/faults?gateway=shutdown@1000", 5, "/faults?gateway="),
    "gateway errors late": ("/faults?gateway=error-delay=300ms", 8, "/faults?gateway="),
    "gateway slow": ("/faults?gateway=slow", 8, "/faults?gateway="),
    "gateway silent": ("/faults?gateway=silent", 30, "/faults?gateway="),
}
LONG = ["broker restart", "broker stopped", "broker killed", "disk full", "simulator stopped", "simulator killed",
        "blackhole", "rolling restart", "unanswered", "fourth worker", "topic made anew", "dead-token topic made anew",
        "right denied", "app paused", *OUTAGES, *(kind for kind in REQUESTS if kind.startswith("gateway"))]
# Faults that stop a program (SIGSTOP) for so many seconds. None: longer than the session.
STOPS = {"simulator paused": ("simulator", 0.3, 1.5), "simulator stopped": ("simulator", 4, 9),
         "broker paused": ("broker", 0.3, 1.5), "broker stopped": ("broker", 3, 9),
         "broker frozen": ("broker", None, None)}
# Meanwhile the gateway's kernel still accepts notifications that the gateway may discard.
SILENT = ["gateway silent", "simulator paused", "simulator stopped"]


class Chaos:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        # Details do not change which faults and workers are drawn.
        self.random, self.details, self.bags = random.Random(options.seed), random.Random(options.seed), {}
        self.dead_gone = self.dead_slack = 0
        self.findings, self.counts = [], Counter()
        self.began = time.monotonic()
        self.said = self.sampled = 0.0
        self.last_distinct = 0
        self.is_held, self.held_seconds = False, 0
        self.workers, self.load, self.audit = {}, None, None
        self.broker = self.simulator = None
        self.is_ending = False

    def say(self, text):
        print(f"{self.seconds():7.1f} {text}", flush=True)

    def seconds(self):
        return time.monotonic() - self.began

    def found(self, text):
        self.findings.append(text)
        self.say("FOUND " + text)

    # MARK: Beginning and end

    def set_up(self):
        options = self.options
        self.broker = Broker(options.kafka_home, self.folder)
        self.broker.start()
        self.await_broker()
        names = self.names = SimpleNamespace(
            servers=self.broker.servers, protected=self.broker.protected, is_plain=options.is_plain,
            beside="" if options.is_plain else "chaos.beside", group="chaos.worker",
            requests="chaos.requests", results="chaos.results", unregistered="chaos.unregistered",
            dead_letters="chaos.dead-letters", retry="chaos.retry.1s", partitions=PARTITIONS)
        topics.create(names.servers, {
            names.requests: (PARTITIONS, RETENTION), names.results: (PARTITIONS, RETENTION),
            names.retry: (PARTITIONS, {}), names.dead_letters: (1, {}),
            names.unregistered: DEAD_TOKENS, **({names.beside: BESIDE} if names.beside else {}),
        })
        self.broker.allow_everything()
        self.until(lambda: self.lag() == 0, 30, "the topic of the commits")
        self.simulator = Simulator(options.worker, self.folder)
        for name in ("steady", "first", "second", "fourth")[:4 if options.workers > 1 else 1]:
            self.workers[name] = Worker(name, options.worker, self.folder, names, self.simulator.port,
                                        self.simulator.gateway, name in ("first", "second"))
        beginning = [worker for name, worker in self.workers.items() if name != "fourth"]
        for worker in beginning:
            worker.start()
        for worker in beginning:
            worker.await_text("partitions assigned", 60)
        self.audit = Partner("chaos_audit.py", vars(names) | {
            "simulator": self.simulator.control, "calm": options.calm, "once": options.workers == 1,
            "withhold": options.withhold}, self.folder)
        self.book = os.path.join(self.folder, "produced")
        self.load = Partner("chaos_load.py", vars(names) | {
            "rate": options.rate, "seed": options.seed, "book": self.book, "poison": options.poison}, self.folder)
        if names.beside:
            self.tell_load("on")
        self.began = time.monotonic()
        self.say(f"seed {options.seed}, {options.rate}/s, {topics.version()}, in {self.folder}")

    def tell_load(self, order):
        """Gives the producer an order, and returns when the producer has executed it."""
        self.load.tell(order)
        self.until(lambda: {"done": order} in self.load.answers, 60, f"the producer, told {order}")
        self.load.answers.clear()

    def await_broker(self):
        self.until(lambda: self.broker.answers() or not self.broker.is_running, 180, "the broker")
        if not self.broker.is_running:
            raise RuntimeError("the broker does not start:\n" + self.broker.text()[-3000:])

    def finish(self):
        """Waits until everything is settled, stops the workers in order, and compares the books."""
        if not self.options.calm:
            self.simulator.post("/faults?fault=&latency=5ms..30ms&streams=1000&gateway=")
            self.broker.lift()
            for worker in self.workers.values():
                worker.write()
        self.load.tell("stop")
        self.until(lambda: self.load.process.poll() is not None, 180, "the producer's end")
        self.load.check()
        if not self.until(lambda: self.lag() == 0, 180, None, pause=0.5):
            self.found(f"LOST or stuck: a lag of {self.lag()} records 180 s after the producer's end")
        self.is_ending = True
        for worker in self.workers.values():
            if worker.is_running:
                self.stop(worker)
        self.audit.tell(json.dumps({
            "do": "finish", "book": self.book, "dead_gone": self.dead_gone, "dead_slack": self.dead_slack,
            "lost_at_most": sum(worker.lost_at_most() for worker in self.workers.values())}))
        self.until(lambda: self.audit.answers, 600, "the end of the audit")
        self.show(self.audit.answers[0])

    def lag(self):
        """Returns the number of uncommitted records, or None if the broker does not answer."""
        names = self.names
        try:
            return sum(topics.lag(names.servers, names.group, topic) for topic in (names.requests, names.beside) if topic
                       ) + topics.lag(names.servers, names.group + ".retry", names.retry)
        except KafkaException:
            return None

    def memory(self):
        """Checks the memory of the worker that is never touched, in kilobytes. Only moments without a backlog are
        compared, and only after a third of the run, because malloc keeps the memory of the first backlog."""
        steady = self.workers["steady"]
        end = steady.resident[-1][0]
        calm, last = steady.calm_resident(end / 3, end * 2 / 3), steady.calm_resident(end * 2 / 3, end + 1)
        if end > 900 and last > GROWTH * calm:
            self.found(f"the untouched worker grew from {calm} to {last} kB in its calm moments")
        return f"peak {max(kilobytes for _, kilobytes in steady.resident)}, calm in the second third {calm}, in the last {last}"

    def show(self, answer):
        """Prints the summary, and adds the audit's findings to those of the run."""
        load = self.load.state
        said = Counter()
        for worker in self.workers.values():
            for line in worker.text(0).splitlines() if worker.process else ():
                words = line.split(" ", 3)
                if len(words) == 4 and words[1] in ("warning", "error", "critical"):
                    said[f"{words[1]} {words[2]} " + " ".join(w for w in words[3].split(" ") if "=" not in w)[:60]] += 1
        memory = self.memory()
        self.findings += answer["findings"]
        print(
            f"{self.seconds():.0f} s, {load['notifications']} notifications written; the producer was held for "
            f"{self.held_seconds} s, and made anew {load['producers'] - 1} times",
            *(f"{name}: {value}" for name, value in answer["summary"].items()),
            "faults: " + ", ".join(f"{kind} {count}" for kind, count in sorted(self.counts.items())),
            "memory of the untouched worker, kB: " + memory,
            *(f"  the workers said {count} times: {text}" for text, count in said.most_common(12)),
            "lost: " + ("\n".join(finding for finding in self.findings if "LOST" in finding) or "0"),
            "\n".join(self.findings) or "no findings",
            "THE BOOKS DO NOT AGREE" if self.findings else "the books agree", sep="\n", flush=True)

    # MARK: While it runs

    def tick(self):
        """Does the regular work of a run. Called several times a second."""
        time.sleep(0.05)
        now = time.monotonic()
        if now - self.sampled < 1 or self.load is None:
            return
        self.sampled = now
        for partner in (self.load, self.audit):
            partner.check()
        for worker in self.workers.values():
            if worker.is_running:
                worker.sample(now - self.began)
            elif worker.process is not None and not self.is_ending and worker.process.returncode not in worker.endings:
                if worker.process.returncode == 1 and "Static consumer fenced" in worker.text()[-500:]:
                    # This is documented: after an outage longer than the session, the broker knew the member by another id.
                    self.counts["fenced"] += 1
                    self.say(f"{worker.name} was fenced, and ended; started again")
                else:
                    self.found(f"{worker.name} ended by itself with {worker.process.returncode}: {worker.text()[-500:]}")
                worker.start()
        backlog = self.load.state.get("notifications", 0) - self.audit.state.get("distinct", 0)
        if self.is_held != (backlog > self.options.rate * BACKLOG_SECONDS / (2 if self.is_held else 1)):
            self.is_held = not self.is_held
            if self.load.process.poll() is None:
                self.load.tell("hold" if self.is_held else "go")
        self.held_seconds += self.is_held
        if now - self.said >= 10:
            state, distinct = self.audit.state, self.audit.state.get("distinct", 0)
            rate = (distinct - self.last_distinct) / (now - self.said) if self.said else 0
            self.said, self.last_distinct = now, distinct
            self.say(f"settled {rate:.0f}/s, open {backlog}, "
                     + ", ".join(f"{name} {value}" for name, value in state.items() if name != "found")
                     + (", producer held" if self.is_held else "")
                     + "".join(f", FOUND {n} x {kind}: {first}" for kind, (n, first) in state.get("found", {}).items()))

    def wait(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.tick()

    def until(self, is_done, seconds, what, pause=0.0):
        """Waits until a condition holds. After the time limit, raises an error or, without a description, returns False."""
        deadline = time.monotonic() + seconds
        while not is_done():
            if time.monotonic() > deadline:
                if what:
                    raise RuntimeError(f"{what} did not come within {seconds} s")
                return False
            self.tick()
            self.wait(pause)
        return True

    # Faults. Each returns when it is over.

    def kill(self, worker):
        self.say(f"kill of {worker.name}")
        worker.sample(self.seconds())
        worker.end(signal.SIGKILL)
        self.counts["kill"] += 1
        worker.start()

    def stop(self, worker):
        """Stops a worker, which must drain and exit with 0."""
        worker.endings = [0]
        worker.sample(self.seconds())
        try:
            ending = worker.end(signal.SIGTERM, 60)
        except subprocess.TimeoutExpired:
            ending = "nothing after 60 s"
        if ending != 0:
            self.found(f"{worker.name} ended with {ending} after SIGTERM: {worker.text()[-500:]}")

    def inject(self, kind):
        self.counts[kind] += 1
        self.say(kind)
        if kind in SILENT:
            self.audit.tell(json.dumps({"do": "silent", "is_silent": True}))
        if kind in REQUESTS:
            request, seconds, end = REQUESTS[kind]
            every = max(50, self.options.rate // 20)
            for number in range(14, 0, -1):
                request = request.replace(f"EVERY*{number}", str(every * number))
            self.simulator.post(request)
            self.wait(seconds)
            if end:
                self.simulator.post(end)
            if kind == "odd answers":
                self.simulator.post("/now?fault=tcp-reset")
        elif kind in STOPS:
            name, least, most = STOPS[kind]
            self.hold(getattr(self, name), self.details.uniform(least, most) if least else self.options.outage)
            if name == "broker":
                self.await_broker()
        else:
            getattr(self, kind.replace(" ", "_").replace("-", "_"))()
        if kind in SILENT:
            self.wait(3)  # until the last presumed notification has its result
            self.audit.tell(json.dumps({"do": "silent", "is_silent": False}))

    def goaways(self):
        kinds = ["goaway", "goaway-shutdown", "goaway-twice"] + ["goaway-now"] * (not self.options.calm)
        for _ in range(4):
            self.simulator.post("/now?fault=" + self.details.choice(kinds))
            self.wait(self.details.uniform(0.05, 0.5))

    def latency(self):
        self.simulator.post("/faults?latency=" + self.details.choice(["1ms", "5ms..30ms", "~20ms", "40ms..120ms"]))

    def simulator_killed(self):
        self.simulator.end(signal.SIGKILL)
        self.wait(self.details.uniform(0, 3))
        self.simulator.start()

    def broker_restart(self, number=signal.SIGTERM, seconds=0):
        self.broker.end(number)
        self.wait(seconds)
        self.broker.start()
        self.await_broker()

    def broker_killed(self):
        self.broker_restart(signal.SIGKILL)

    def broker_away(self):
        """Makes the broker unavailable for longer than any session, and than a worker waits for a coordinator."""
        numbers = [signal.SIGTERM, signal.SIGKILL] if self.options.workers > 1 else [signal.SIGTERM]
        self.broker_restart(self.details.choice(numbers), self.options.outage)

    def disk_full(self):
        """Limits the size of files, so that Kafka stops with an error."""
        resource.prlimit(self.broker.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        if not self.until(lambda: not self.broker.is_running, 15, None):
            self.found("the broker goes on without a place to write to")
            self.broker.end(signal.SIGKILL)
        self.wait(self.details.uniform(0, 2))
        self.broker.start()
        self.await_broker()

    def topic_made_anew(self):
        self.tell_load("off")
        topics.delete(self.names.servers, [self.names.beside])
        self.wait(self.details.choice([0, self.details.uniform(1, 8)]))
        topics.create(self.names.servers, {self.names.beside: BESIDE})
        self.tell_load("on")

    def dead_token_topic_made_anew(self):
        self.dead_gone += topics.written(self.names.servers, self.names.unregistered)
        self.dead_slack += 5 + int(self.options.rate * SPECIAL * 5)
        topics.delete(self.names.servers, [self.names.unregistered])
        self.wait(self.details.uniform(0, 8))
        topics.create(self.names.servers, {self.names.unregistered: DEAD_TOKENS})

    def right_denied(self):
        names = self.names
        right = self.details.choice([
            ("write", "topic", names.results), ("write", "topic", names.unregistered), ("write", "topic", names.retry),
            ("read", "topic", names.requests), ("read", "topic", names.beside), ("read", "group", names.group)])
        self.say(" ".join(right) + " is denied")
        self.broker.deny(*right)
        self.wait(self.details.uniform(5, 12))
        self.broker.lift()

    def app_paused(self):
        for is_paused in (True, False):
            for worker in self.workers.values():
                worker.write(is_paused)
            self.wait(self.details.uniform(3, 8) if is_paused else 0)

    def fourth_worker(self):
        fourth = self.workers["fourth"]
        if fourth.is_running:
            self.stop(fourth)
        else:
            fourth.start()

    def rolling_restart(self):
        for name in ("first", "second"):
            self.stop(self.workers[name])
            self.workers[name].start()
            if not self.until(self.workers[name].has_joined, 30, None):
                self.say(f"{name} has no partitions after 30 s")
            self.wait(self.details.uniform(0.2, 1))

    def drawn(self, kinds):
        """Draws a kind of fault. All come once before one of them is repeated."""
        bag = self.bags.setdefault(tuple(kinds), [])
        if not bag:
            bag.extend(kinds)
            self.random.shuffle(bag)
        return bag.pop()

    def hold(self, program, seconds):
        program.signal(signal.SIGSTOP)
        self.wait(seconds)
        program.signal(signal.SIGCONT)

    def run(self):
        options, every = self.options, self.options.every
        end = self.began + options.minutes * 60
        self.wait(min(10, every))
        number = 0
        while time.monotonic() + every / 2 < end:
            number += 1
            begin = time.monotonic()
            victim = self.random.randrange(2)
            kind = self.drawn(options.only or (CALM if options.calm else LONG if number % 2 else SHORT))
            if options.workers > 1:
                worker = self.workers[("first", "second")[victim]]
                if options.calm:
                    self.stop(worker)
                    worker.start()
                else:
                    self.kill(worker)
            self.wait(0.4 * every)
            self.inject(kind)
            self.wait(max(begin + every - time.monotonic(), every / 8))
        self.wait(every / 8)


def parse():
    all_kinds = sorted({*SHORT, *LONG})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--minutes", type=float, default=2)
    add("--seed", type=int, default=1)
    add("--rate", type=int, default=2_000, help="notifications a second (%(default)s)")
    add("--every", type=float, default=20, help="seconds from kill to kill (%(default)s)")
    add("--calm", action="store_true", help="no kill and no fault; nothing may be sent twice")
    add("--only", default="", metavar="KIND,KIND", help="only these faults: " + ", ".join(all_kinds))
    add("--worker", default=".build/release/apns-worker", help="the built program (%(default)s)")
    add("--kafka-home", default=os.environ.get("KAFKA_HOME"), help="default: $KAFKA_HOME")
    add("--withhold", type=int, default=0, help="hide the N-th result from the audit, to see it fail")
    add("--keep", action="store_true", help="keep the folder; it is kept after findings")
    add("--workers", type=int, choices=(1, 3), default=3,
        help="1: no worker is killed, the broker is away again and again, and nothing may be sent twice")
    add("--outage", type=float, default=15, metavar="SECONDS", help="how long it is away (%(default)s)")
    add("--poison", type=int, metavar="N", help="one record in N is poison; 0: none (10000; calm, or one worker: 0)")
    options = parser.parse_args()
    # Without a topic that is recreated, and without apps that are limited or paused.
    options.is_plain = options.calm or options.workers == 1
    options.poison = options.poison if options.poison is not None else 0 if options.is_plain else 10_000
    if options.workers == 1:
        options.only = options.only or ",".join(OUTAGES)
        options.every = max(options.every, 2 * options.outage)
    options.only = [kind.strip() for kind in options.only.split(",") if kind.strip()]
    for kind in options.only:
        if kind not in (CALM if options.calm else all_kinds):
            parser.error(f"there is no fault '{kind}'{' in a calm run' if options.calm else ''}: --help lists them")
    if not options.kafka_home:
        parser.error("set KAFKA_HOME or give --kafka-home")
    if not os.access(options.worker, os.X_OK):
        parser.error(f"{options.worker} is no program: build it (swift build -c release --product apns-worker)")
    options.worker = os.path.abspath(options.worker)
    return options


def main():
    options = parse()
    folder = tempfile.mkdtemp(prefix="chaos-")
    chaos = Chaos(options, folder)
    try:
        chaos.set_up()
        chaos.run()
        chaos.finish()
    except (RuntimeError, OSError, subprocess.SubprocessError, KafkaException, KeyboardInterrupt) as error:
        chaos.found(f"the run could not be ended: {error!r}")
    for program in [*chaos.workers.values(), chaos.simulator, chaos.broker]:
        if program and program.is_running:
            program.end(signal.SIGKILL)
    if options.keep or chaos.findings:
        print(f"logs and topics are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return not chaos.findings


if __name__ == "__main__":
    topics.run(main)
