"""The programs of a chaos run: a broker, the simulator, workers, and Python processes. They die with this process."""

import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import topics

HERE = os.path.dirname(os.path.abspath(__file__))
LIBC = ctypes.CDLL(None)
CLIENT = ("{security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: worker, "
          "sasl.password: worker-secret}")
CLAIMS = []


def die_with_parent():
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def claim_ports(count):
    """Claims ports for this process in the same way as `Ports` of the Swift tests. They are outside of the kernel's
    ephemeral range, and each is reserved by a named socket that closes with the process."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as limits:
        least, most = map(int, limits.read().split())
    claimed = []
    for port in range(10_000, least) if least > 11_000 else range(most + 1, 65_536):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0apns-worker-test-port-{port}")
            socket.create_server(("0.0.0.0", port)).close()
        except OSError:
            claim.close()
            continue
        CLAIMS.append(claim)
        claimed.append(port)
        if len(claimed) == count:
            return claimed
    raise RuntimeError("no port is free")


class Program:
    """A process whose output goes to a file."""

    def __init__(self, name, folder):
        self.name = name
        self.log = os.path.join(folder, name + ".log")
        self.process = None
        self.started = 0  # where the log of the latest process begins

    def launch(self, *words):
        with open(self.log, "ab") as log:
            self.started = log.tell()
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, number, seconds=120):
        """Signals the process, and returns its exit code."""
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def text(self, start=None):
        """Returns the output of the latest process."""
        with open(self.log, errors="replace") as log:
            log.seek(self.started if start is None else start)
            return log.read()

    def await_text(self, text, seconds):
        deadline = time.monotonic() + seconds
        while text not in self.text():
            if not self.is_running or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not say “{text}”:\n{self.text()[-3000:]}")
            time.sleep(0.02)


class Broker(Program):
    """A broker. Workers use its listener `protected`, for which rights can be denied."""

    def __init__(self, home, folder):
        super().__init__("broker", folder)
        ports = claim_ports(3)
        self.servers, self.protected = f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[2]}"
        self.words = [os.path.join(HERE, "../../../Docker/broker"), f"{folder}/kafka", *map(str, ports),
                      "auto.create.topics.enable=false", "offsets.topic.segment.bytes=33554432",
                      "log.retention.check.interval.ms=10000"]
        self.libraries = f"{home}/libs/*"
        self.denied = []
        os.environ |= {"KAFKA_HOME": home, "BROKER_JAVA": "-Xmx512m -XX:TieredStopAtLevel=1"}

    def start(self):
        self.launch(*self.words)

    def answers(self):
        consumer = topics.reader(self.servers)
        try:
            return bool(consumer.list_topics(timeout=1).brokers)
        except topics.KafkaException:
            return False
        finally:
            consumer.close()

    # MARK: ACLs

    def allow_everything(self):
        for resource in (["--topic", "*"], ["--group", "*"], ["--cluster"]):
            self.change_rule("--add", "--allow-principal", "User:worker", "--operation", "All", *resource)

    def deny(self, operation, resource, name):
        rule = ["--deny-principal", "User:worker", "--operation", operation.capitalize(), f"--{resource}", name]
        self.denied.append(rule)
        self.change_rule("--add", *rule)

    def lift(self):
        """Removes every denial."""
        while self.denied:
            self.change_rule("--remove", "--force", *self.denied[-1])
            self.denied.pop()

    def change_rule(self, *words):
        subprocess.run(["java", "-cp", self.libraries, "org.apache.kafka.tools.AclCommand", "--bootstrap-server",
                        self.servers, *words], check=True, stdout=subprocess.DEVNULL, timeout=120)


class Simulator(Program):
    def __init__(self, worker, folder):
        super().__init__("simulator", folder)
        self.port, control, self.gateway = claim_ports(3)
        self.control = f"http://127.0.0.1:{control}"
        # The simulator's book is a file, which survives a kill -9.
        self.words = [worker, "simulate", "--listen", f"127.0.0.1:{self.port}", "--control", str(control),
                      "--gateway", str(self.gateway), "--directory", folder, "--book", f"{folder}/simulator.book",
                      "--latency", "5ms..30ms"]
        self.start()

    def start(self):
        self.launch(*self.words)
        self.await_text("listening", 240)

    def post(self, request):
        """`/now?fault=goaway`, `/faults?latency=50ms`."""
        with urllib.request.urlopen(
                urllib.request.Request(self.control + request, method="POST"), timeout=30) as answer:
            return json.load(answer)


class Worker(Program):
    LATE = re.compile(r"error arrived after its resend window closed.* lost_at_most=(\d+)")

    def __init__(self, name, program, folder, names, port, gateway, is_static):
        super().__init__("worker-" + name, folder)
        self.program, self.file = program, os.path.join(folder, f"worker-{name}.yaml")
        self.names, self.port, self.gateway = names, port, gateway
        self.instance = f", group_instance_id: {name}" if is_static else ""
        self.admin = claim_ports(1)[0]
        self.resident = []  # (time, kilobytes)
        self.reported = self.reported_before = 0  # losses to late errors of a gateway
        self.endings = []  # the expected endings of the latest process
        self.write()

    def write(self, is_paused=False):
        """Writes the worker's configuration, which a running worker reloads."""
        names = self.names
        token = "token: {key_file: AuthKey_SIMULATOR1.p8, key_id: SIMULATOR1, team_id: TEAM123456}"
        certificate = "certificate: {file: client.pem, key_file: client-key.pem}"

        def app(name, port, more):
            return (f"  - {{name: {name}, bundle_ids: [com.example.{name}], environment: production, host: localhost, "
                    f"port: {port}, {more}, tls: {{ca_file: ca.pem}}, connections: {{min: 1, max: 4}}}}\n")

        apps = app("shop", self.port, token)
        if not names.is_plain:
            apps += app("limited", self.port, token + ", rate_limit: 50")
            apps += app("paused", self.port, token + f", paused: {str(is_paused).lower()}")
        for name, form in (("kiosk", "framed"), ("till", "enhanced")):
            apps += app(name, self.gateway, f"{certificate}, transport: binary, binary: {{format: {form}}}")
        with open(self.file, "w") as file:
            file.write(f"""\
kafka: {{bootstrap_servers: "{names.protected}", librdkafka: {CLIENT}, group_id: {names.group}, session_timeout: 6s{self.instance}}}
requests: {{topics: [{names.requests}{", " + names.beside if names.beside else ""}]}}
results: {{topic: {names.results}}}
unregistered: {{topic: {names.unregistered}}}
dead_letters: {{topic: {names.dead_letters}}}
retry: {{tiers: {{1s: {names.retry}}}, max_attempts: 100}}
delivery: {{response_timeout: 10s}}
admin: {{listen: "127.0.0.1:{self.admin}"}}
apps:
{apps}""")
        if self.is_running:
            self.signal(signal.SIGHUP)

    def start(self):
        self.endings = []
        self.reported_before, self.reported = self.lost_at_most(), 0
        self.launch(self.program, "run", "--config", self.file)

    def has_joined(self):
        return "partitions assigned" in self.text()

    def lost_at_most(self):
        """Returns the number of notifications that all processes of this worker reported as lost to late errors. The
        metrics of a killed process are lost, but its log still shows later losses."""
        logged = sum(1 + int(count) for count in self.LATE.findall(self.text())) if self.process else 0
        return self.reported_before + max(self.reported, logged)

    def sample(self, at):
        try:
            # The process is the supervisor, whose only child is the worker.
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as children:
                child = int(children.read())
            with open(f"/proc/{child}/status") as status:
                self.resident.append((at, int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1])))
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=1) as page:
                self.reported = sum(int(count) for count in re.findall(
                    r"^apns_worker_window_(?:too_short|lost_at_most)_total{.*} (\d+)$", page.read().decode(), re.M))
        except (OSError, TypeError, ValueError):
            pass  # it has just started or ended

    def calm_resident(self, begin, end):
        """Returns the kilobytes in use at the lowest fifth of a time span, or None."""
        values = sorted(kilobytes for at, kilobytes in self.resident if begin <= at < end)
        return values[len(values) // 5] if values else None


class Partner:
    """A Python process of the run, which reads orders as lines and writes answers as lines of JSON."""

    def __init__(self, program, options, folder):
        with open(os.path.join(folder, program + ".err"), "wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, os.path.join(HERE, program), json.dumps(options)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=errors, text=True, preexec_fn=die_with_parent)
        self.errors = errors.name
        self.state = {}
        self.answers = []
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stdout:
            said = json.loads(line)
            if "finished" in said or "done" in said:
                self.answers.append(said)
            else:
                self.state = said

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def check(self):
        if self.process.poll() not in (None, 0):
            with open(self.errors) as errors:
                raise RuntimeError(f"{self.process.args[1]} ended with {self.process.returncode}: {errors.read()}")
