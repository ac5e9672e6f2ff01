#!/usr/bin/env python3
"""Chaos: a broker, the simulator, a producer and three workers, of which two are killed again and again (kill -9), while
the broker is stopped, restarted, killed and without room on its disk, the simulator is stopped and killed, connections are
cut, closed and blackholed, and a fourth worker comes and goes; then the audit. One worker is never touched.

One record in 10,000 is poison (`chaos_poison`), a request topic beside and the dead-token topic are deleted and made anew,
rights at the broker are denied for a while, it is away for longer than the session, one app is limited and one is paused.
Two apps speak the binary protocol (`chaos_gateway`), with a gateway that closes, shuts down, or reads slowly or nothing.

    chaos.py --minutes 30 --seed 7 --rate 20000 --worker .build/release/apns-worker
    chaos.py --minutes 5 --calm        orderly restarts, rebalances and GOAWAYs, no kill, no fault: nothing twice
    chaos.py --minutes 5 --workers 1 --outage 15     a broker away for 15 s again and again, one worker: nothing twice
    chaos.py --minutes 5 --poison 0 --no-topics --no-outages --no-apps     kills and faults, and none of the above
    chaos.py --minutes 3 --only "gateway closes,gateway silent"  kills, and a gateway's faults
    chaos.py --minutes 3 --only "broker killed,disk full"        kills, and between them these faults alone

Needs KAFKA_HOME, Java and Python's confluent-kafka (Debian: python3-confluent-kafka). Exit code 0: nothing was lost,
what was sent again says so; 1: findings.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

from confluent_kafka import KafkaException

import chaos_gateway
import chaos_summary
import topics
from chaos_processes import Broker, Partner, Program, Simulator, Worker
from chaos_load import SPECIAL
from chaos_rights import Rights
from chaos_schedule import APPS, CALM, GATEWAYS, GOAWAYS, LONG, OUTAGES, SHORT, TOPICS, Schedule

PARTITIONS = 12
RETENTION = {"retention.ms": 300_000, "segment.ms": 60_000, "segment.bytes": 33_554_432}
BESIDE = (3, {})
BESIDE_RATE = 20
DEAD_TOKENS = (PARTITIONS, {"cleanup.policy": "compact"})
BACKLOG_SECONDS = 30  # more than so much of the load unanswered holds the producer: retention must not overtake a worker


class Chaos:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        more = TOPICS * options.topics + OUTAGES * options.outages + APPS * options.apps
        more += GATEWAYS * (options.gateways and not options.calm and options.workers > 1)
        self.schedule = Schedule(options.seed, options.calm, options.only, more)
        self.dead_gone = self.dead_slack = 0
        self.findings, self.kills, self.counts = [], 0, {}
        self.began = time.monotonic()
        self.said = self.sampled = 0.0
        self.last = (0.0, 0)
        self.is_held, self.held_seconds = False, 0
        self.told = chaos_gateway.Told()
        self.workers, self.load, self.audit, self.beside = {}, None, None, None
        self.is_ending = False

    def say(self, text):
        print(f"{self.seconds():7.1f} {text}", flush=True)

    def seconds(self):
        return time.monotonic() - self.began

    def found(self, text):
        self.findings.append(text)
        self.say("FOUND " + text)

    # Beginning and end.

    def set_up(self):
        options = self.options
        self.broker = Broker(options.kafka_home, self.folder)
        self.broker.start()
        self.await_broker()
        names = SimpleNamespace(
            servers=self.broker.servers, protected=self.broker.protected, has_apps=options.apps, has_gateways=options.gateways,
            beside="chaos.beside" if options.topics else "", group="chaos.worker", requests="chaos.requests", results="chaos.results",
            unregistered="chaos.unregistered", dead_letters="chaos.dead-letters", retry="chaos.retry.1s")
        self.names = names
        topics.create(names.servers, {
            names.requests: (PARTITIONS, RETENTION), names.results: (PARTITIONS, RETENTION),
            names.retry: (PARTITIONS, {}), names.dead_letters: (1, {}),
            names.unregistered: DEAD_TOKENS, **({names.beside: BESIDE} if names.beside else {}),
        })
        self.rights = Rights(self.broker)
        self.rights.allow_everything()
        self.until(lambda: self.lag() == 0, 30, "the topic of the commits")
        self.simulator = Simulator(options.worker, self.folder)
        for name in ("steady", "first", "second", "fourth")[:4 if options.workers > 1 else 1]:
            self.workers[name] = Worker(
                name, options.worker, self.folder, names, self.simulator.port, self.simulator.gateway,
                name in ("first", "second"))
        beginning = [name for name in self.workers if name != "fourth"]
        for name in beginning:
            self.workers[name].start()
        for name in beginning:
            self.workers[name].await_text("partitions assigned", 60)
        self.audit = Partner("chaos_audit.py", json.dumps(vars(names) | {
            "partitions": PARTITIONS, "simulator": self.simulator.control, "calm": options.calm,
            "once": options.workers == 1, "withhold": options.withhold}), folder=self.folder)
        self.book = os.path.join(self.folder, "produced")
        self.load = Partner("chaos_load.py", names.servers, names.requests, str(PARTITIONS), str(options.rate),
                            str(options.seed), self.book, str(options.poison), names.retry, str(int(options.apps)),
                            str(int(options.gateways)), folder=self.folder)
        if names.beside:
            self.beside = Partner("chaos_beside.py", names.servers, names.beside, str(BESIDE_RATE), str(options.seed),
                                  self.book + ".beside", folder=self.folder)
            self.tell_beside("on")
        self.began = time.monotonic()
        self.say(f"seed {options.seed}, {options.rate}/s, {topics.version()}, in {self.folder}")

    def tell_beside(self, order):
        """Returns when it did it."""
        self.beside.tell(order)

        def is_done():
            return any(answer.get("done") == order for answer in self.beside.answers)

        self.until(is_done, 60, f"the producer beside, told {order}")
        self.beside.answers.clear()

    def await_broker(self):
        deadline = time.monotonic() + 180
        while not self.broker.answers():
            if not self.broker.is_running or time.monotonic() > deadline:
                raise RuntimeError("the broker does not start:\n" + self.broker.text()[-3000:])
            self.tick()

    def finish(self):
        """Everything settles, everyone leaves in order, the books are compared."""
        if not self.options.calm:
            self.simulator.post("/faults?fault=&latency=5ms..30ms&streams=1000&gateway=")
            self.rights.lift()
            for worker in self.workers.values():
                worker.write()
        if self.beside:
            self.tell_beside("stop")
            self.until(lambda: self.beside.process.poll() is not None, 60, "the end of the producer beside")
        self.load.tell("stop")
        self.until(lambda: self.load.process.poll() is not None, 120, "the producer's end")
        self.load.check()
        if not self.until(lambda: self.lag() == 0, 180, None, pause=0.5):
            self.found(f"LOST or stuck: a lag of {self.lag()} records 180 s after the producer's end")
        self.is_ending = True
        for worker in self.workers.values():
            self.look(worker)
        self.memory = chaos_summary.resident(self)
        for worker in self.workers.values():
            if worker.is_running:
                self.stop(worker)
        self.audit.tell(json.dumps({
            "do": "finish", "book": self.book, "beside": self.beside and self.book + ".beside",
            "dead_gone": self.dead_gone, "dead_slack": self.dead_slack,
            "told": self.told.at_most(self.workers.values())}))
        if not self.until(lambda: self.answer("finished"), 600, None):
            raise RuntimeError("the audit does not end")
        chaos_summary.show(self, self.answer("finished"))

    def look(self, worker):
        if self.options.gateways and worker.is_running:
            self.told.look(worker)

    def tell_silent(self, is_silent):
        """The gateway reads nothing from now on, or again."""
        if not is_silent:
            self.wait(3)  # what was presumed last has its result
        self.audit.tell(json.dumps({"do": "silent", "is_silent": is_silent}))

    def lag(self):
        """Records that are not committed; None: the broker does not say."""
        names = self.names
        try:
            return sum(topics.lag(names.servers, names.group, topic) for topic in (names.requests, names.beside) if topic
                       ) + topics.lag(names.servers, names.group + ".retry", names.retry)
        except KafkaException:
            return None

    def answer(self, member):
        return next((a for a in self.audit.answers if member in a), None)

    # While it runs.

    def tick(self):
        """To be called several times a second, whatever else is done."""
        time.sleep(0.05)
        now = time.monotonic()
        if now - self.sampled < 1 or self.load is None:
            return
        self.sampled = now
        for partner in filter(None, (self.load, self.audit, self.beside)):
            partner.check()
        for worker in self.workers.values():
            if worker.process is not None and not self.is_ending:
                if worker.is_running:
                    worker.sample(now - self.began)
                    self.look(worker)
                elif worker.process.returncode == 1 and "Static consumer fenced" in worker.text(worker.started)[-500:]:
                    # As documented: a broker that was away for longer than the session knew it under another id.
                    self.counts["fenced"] = self.counts.get("fenced", 0) + 1
                    self.say(f"{worker.name} was fenced, and ended; started again")
                    worker.start()
                elif worker.process.returncode not in worker.endings:
                    self.found(f"{worker.name} ended by itself with {worker.process.returncode}: "
                               f"{worker.text(worker.started)[-500:]}")
                    worker.start()
        backlog = self.load.state.get("notifications", 0) - self.audit.state.get("distinct", 0)
        if self.is_held != (backlog > self.options.rate * BACKLOG_SECONDS / (2 if self.is_held else 1)):
            self.is_held = not self.is_held
            if self.load.process.poll() is None:  # it ends before the last of what it wrote is settled
                self.load.tell("hold" if self.is_held else "go")
        self.held_seconds += self.is_held
        if now - self.said >= 10:
            self.progress(now, backlog)

    def progress(self, now, backlog):
        state, written = self.audit.state, self.load.state.get("notifications", 0)
        rate = (state.get("distinct", 0) - self.last[1]) / (now - self.said) if self.said else 0
        self.said, self.last = now, (now, state.get("distinct", 0))
        sizes = " ".join(f"{w.resident[-1][1] / 1024:.0f}" for w in self.workers.values() if w.is_running and w.resident)
        self.say(
            f"written {written}, settled {state.get('distinct', 0)} ({rate:.0f}/s), open {backlog}, sent "
            f"{state.get('sent', 0)}, accepted again {state.get('accepted again', 0)}, duplicates "
            f"{state.get('duplicates', 0)}, in doubt {state.get('in_doubt', 0)}, "
            f"workers {sizes} MB{', producer held' if self.is_held else ''}"
            + "".join(f", FOUND {n} x {kind}: {first}" for kind, (n, first) in (state.get("found") or {}).items()))

    def wait(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.tick()

    def until(self, is_done, seconds, what, pause=0.0):
        deadline = time.monotonic() + seconds
        while not is_done():
            if time.monotonic() > deadline:
                if what:
                    raise RuntimeError(f"{what} did not come within {seconds} s")
                return False
            self.tick()
            if pause:
                self.wait(pause)
        return True

    # Kills and restarts.

    def kill(self, worker):
        self.say(f"kill of {worker.name}")
        self.look(worker)
        worker.end(signal.SIGKILL)
        self.kills += 1
        worker.start()

    def stop(self, worker):
        """In order; it must drain and exit 0."""
        worker.endings = [0]
        self.look(worker)
        try:
            ending = worker.end(signal.SIGTERM, 60)
        except Exception:
            ending = "nothing after 60 s"
        if ending != 0:
            self.found(f"{worker.name} ended with {ending} after SIGTERM: {worker.text(worker.started)[-500:]}")

    def restart(self, worker):
        self.stop(worker)
        worker.start()

    # Faults. Each returns when it is over.

    def befall(self, kind):
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.say(kind)
        simulator, draw = self.simulator, self.schedule
        if kind == "goaways":
            for _ in range(4):
                simulator.post("/now?fault=" + draw.choice(GOAWAYS + ([] if self.options.calm else ["goaway-now"])))
                self.wait(draw.seconds(0.05, 0.5))
        elif kind == "cuts":
            every = max(50, self.options.rate // 20)
            simulator.post("/faults?" + "&".join(f"fault={fault}@{every * n}" for fault, n in (
                ("cut-after", 3), ("cut-inside", 5), ("tcp-reset", 7), ("cut-before", 4))))
            self.wait(1)
            simulator.post("/faults?fault=")
        elif kind == "resets":
            simulator.post("/faults?fault=refuse-stream@50&fault=reset-stream@170&fault=goaway-below@1000")
            self.wait(1)
            simulator.post("/faults?fault=")
        elif kind == "unanswered":
            simulator.post("/faults?fault=no-answer@1000&fault=stall@3s")
            self.wait(3)
            simulator.post("/faults?fault=")
        elif kind == "latency":
            latency = draw.choice(["1ms", "5ms..30ms", "~20ms", "40ms..120ms"])
            simulator.post("/faults?latency=" + latency)
        elif kind == "streams":
            simulator.post("/faults?streams=1")
            self.wait(1)
            simulator.post("/faults?streams=1000")
        elif kind == "blackhole":
            simulator.post("/now?fault=blackhole")
        elif kind in ("simulator paused", "simulator stopped"):
            # Its kernel goes on, and takes what it may discard, or close over, when it goes on itself.
            self.tell_silent(True)
            self.hold(simulator, draw.seconds(0.3, 1.5) if kind == "simulator paused" else draw.seconds(4, 9))
            self.tell_silent(False)
        elif kind in ("broker paused", "broker stopped"):
            self.hold(self.broker, draw.seconds(0.3, 1.5) if kind == "broker paused" else draw.seconds(3, 9))
            self.await_broker()
        elif kind in ("broker restart", "broker killed"):
            self.broker.end(signal.SIGTERM if kind == "broker restart" else signal.SIGKILL)
            self.broker.start()
            self.await_broker()
        elif kind == "broker away":
            # In order or at once; longer than any session, and than a worker waits for a coordinator.
            self.broker.end(draw.choice([signal.SIGTERM, signal.SIGKILL]) if self.options.workers > 1 else signal.SIGTERM)
            self.wait(self.options.outage)
            self.broker.start()
            self.await_broker()
        elif kind == "broker frozen":
            self.hold(self.broker, self.options.outage)
            self.await_broker()
        elif kind == "topic made anew":
            self.tell_beside("off")
            topics.delete(self.names.servers, [self.names.beside])
            self.wait(draw.choice([0, draw.seconds(1, 8)]))
            self.make_anew(self.names.beside, BESIDE)
            self.tell_beside("on")
        elif kind == "dead-token topic made anew":
            self.dead_gone += topics.written(self.names.servers, self.names.unregistered)
            self.dead_slack += 5 + int(self.options.rate * SPECIAL * 5)
            topics.delete(self.names.servers, [self.names.unregistered])
            self.wait(draw.seconds(0, 8))
            self.make_anew(self.names.unregistered, DEAD_TOKENS)
        elif kind == "right denied":
            names = self.names
            operation, kind_of, name = draw.choice([
                ("write", "topic", names.results), ("write", "topic", names.unregistered),
                ("write", "topic", names.retry), ("read", "topic", names.requests), ("read", "topic", names.beside),
                ("read", "group", names.group)])
            self.say(f"{operation} on {kind_of} {name} is denied")
            self.rights.deny(operation, kind_of, name)
            self.wait(draw.seconds(5, 12))
            self.rights.lift()
        elif kind == "app paused":
            for is_paused in (True, False):
                for worker in self.workers.values():
                    worker.write(is_paused)
                self.wait(draw.seconds(3, 8) if is_paused else 0)
        elif kind == "disk full":
            # No file may grow: what is written is refused, and Kafka ends, as it does without a place to write to.
            resource.prlimit(self.broker.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            if not self.until(lambda: not self.broker.is_running, 15, None):
                self.found("the broker goes on without a place to write to")
                self.broker.end(signal.SIGKILL)
            self.wait(draw.seconds(0, 2))
            self.broker.start()
            self.await_broker()
        elif kind == "simulator killed":
            simulator.end(signal.SIGKILL)
            self.wait(draw.seconds(0, 3))
            simulator.start()
        elif kind in GATEWAYS:
            every = draw.choice([100, 1_000])
            fault, seconds = {
                "gateway closes": (f"close@{every}", 5), "gateway shuts down": (f"shutdown@{every}", 5),
                "gateway errors late": ("error-delay=300ms", 8), "gateway slow": ("slow", 8), "gateway late": ("late", 8),
                "gateway silent": ("silent", 30)}[kind]
            # It befalls connections from the next one on: those there are end with the next bad token.
            simulator.post(f"/faults?gateway={fault}")
            if fault == "silent":
                self.tell_silent(True)
            self.wait(seconds)
            # It ends the connections that it had not read.
            simulator.post("/faults?gateway=")
            if fault == "silent":
                self.tell_silent(False)
        elif kind == "odd answers":
            every = max(50, self.options.rate // 20)
            simulator.post("/faults?" + "&".join(f"fault={fault}@{every * n}" for fault, n in (
                ("out-of-order", 2), ("split-frames", 3), ("late-~100ms", 1), ("streams-20", 9), ("slow-frames", 11),
                ("goaway-text", 13), ("goaway-now:TooManyProviderTokenUpdates", 14), ("ServiceUnavailable", 5),
                ("empty-500", 6))))
            self.wait(1)
            simulator.post("/faults?fault=")
            # Slow as they are, they would go on for minutes.
            simulator.post("/now?fault=tcp-reset")
        elif kind == "fourth worker":
            fourth = self.workers["fourth"]
            if fourth.is_running:
                self.stop(fourth)
            else:
                fourth.start()
        elif kind == "rolling restart":
            for name in ("first", "second"):
                self.restart(self.workers[name])
                if not self.until(self.workers[name].has_joined, 30, None):
                    self.say(f"{name} has no partitions after 30 s")
                self.wait(draw.seconds(0.2, 1))
        else:
            raise ValueError(kind)

    def make_anew(self, name, kind):
        """Deleting goes on for a while after the topic is not seen any more."""
        deadline = time.monotonic() + 60
        while True:
            try:
                return topics.create(self.names.servers, {name: kind})
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                self.wait(0.2)

    def hold(self, program, seconds):
        program.signal(signal.SIGSTOP)
        self.wait(seconds)
        program.signal(signal.SIGCONT)

    def run(self):
        every = self.options.every
        end = self.began + self.options.minutes * 60
        self.wait(min(10, every))
        number = 0
        while time.monotonic() + every / 2 < end:
            number += 1
            begin = time.monotonic()
            victim, kind = self.schedule.round(number)
            if self.options.workers == 1:
                self.wait(0.4 * every)
                self.befall(kind)
                self.wait(max(begin + every - time.monotonic(), every / 8))
                continue
            worker = self.workers[("first", "second")[victim]]
            if self.options.calm:
                self.restart(worker)
            else:
                self.kill(worker)
            self.wait(0.4 * every)
            self.befall(kind)
            self.wait(max(begin + every - time.monotonic(), every / 8))
        self.wait(every / 8)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=2_000, help="notifications a second (%(default)s)")
    parser.add_argument("--every", type=float, default=20, help="seconds from kill to kill (%(default)s)")
    parser.add_argument("--calm", action="store_true", help="no kill and no fault; nothing may be sent twice")
    parser.add_argument("--only", default="", metavar="KIND,KIND",
                        help="nothing but these faults: " + ", ".join(sorted({*SHORT, *LONG, *TOPICS, *OUTAGES, *APPS, *GATEWAYS})))
    parser.add_argument("--worker", default=".build/release/apns-worker", help="the built program (%(default)s)")
    parser.add_argument("--kafka-home", default=os.environ.get("KAFKA_HOME"), help="default: $KAFKA_HOME")
    parser.add_argument("--withhold", type=int, default=0, help="the audit leaves out the N-th result, to see it fail")
    parser.add_argument("--keep", action="store_true", help="keep the folder; it is kept after findings")
    parser.add_argument("--workers", type=int, choices=(1, 3), default=3,
                        help="1: nobody is killed, the broker is away again and again, and nothing may be sent twice")
    parser.add_argument("--outage", type=float, default=15, metavar="SECONDS", help="how long it is away (%(default)s)")
    parser.add_argument("--poison", type=int, metavar="N", help="one record in N is poison; 0: none (10000; calm: 0)")
    for name, text in (("topics", "topics are made anew and rights denied"),
                       ("outages", "the broker is away for longer than the session"),
                       ("apps", "an app that is limited, and one that is paused"),
                       ("gateways", "two apps of the binary protocol")):
        parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, help=text + " (calm: not)")
    parser.add_argument("--selftest", action="store_true", help="shows that the audit finds each kind of fault")
    options = parser.parse_args()
    is_plain = options.calm or options.workers == 1
    options.poison = options.poison if options.poison is not None else 0 if is_plain else 10_000
    for name in ("topics", "outages", "apps"):
        if getattr(options, name) is None:
            setattr(options, name, not is_plain)
    if options.gateways is None:
        options.gateways = True
    if options.workers == 1:
        options.only = options.only or ",".join(OUTAGES)
        options.every = max(options.every, 2 * options.outage)
    options.only = [kind.strip() for kind in options.only.split(",") if kind.strip()]
    for kind in options.only:
        if kind not in (CALM if options.calm else {*SHORT, *LONG, *TOPICS, *OUTAGES, *APPS, *GATEWAYS}):
            parser.error(f"there is no fault '{kind}'{' in a calm run' if options.calm else ''}: --help lists them")
    if options.selftest:
        import chaos_selftest

        return 0 if chaos_selftest.run() else 1
    if not options.kafka_home:
        parser.error("set KAFKA_HOME or give --kafka-home")
    if not os.access(options.worker, os.X_OK):
        parser.error(f"{options.worker} is no program: build it (swift build -c release --product apns-worker)")
    for name, kinds in (("topics", TOPICS), ("apps", APPS), ("gateways", GATEWAYS)):
        if not getattr(options, name) and set(options.only) & set(kinds):
            parser.error(f"--only names a fault of what is left out: give --{name}")
    options.worker = os.path.abspath(options.worker)
    folder = tempfile.mkdtemp(prefix="chaos-")
    chaos = Chaos(options, folder)
    try:
        chaos.set_up()
        chaos.run()
        chaos.finish()
    except (RuntimeError, OSError, subprocess.SubprocessError, KafkaException, KeyboardInterrupt) as error:
        chaos.found(f"the run could not be ended: {error!r}")
    if options.keep or chaos.findings:
        print(f"logs and topics are in {folder}")
    for program in [*chaos.workers.values(), *(getattr(chaos, n, None) for n in ("simulator", "broker"))]:
        if isinstance(program, Program) and program.is_running:
            program.signal(signal.SIGKILL)
            program.process.wait()
    if not options.keep and not chaos.findings:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if chaos.findings else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # see books.py
