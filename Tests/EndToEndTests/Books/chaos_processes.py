"""The programs of a chaos run: a broker, the simulator, workers. All of them die with this process."""

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

import chaos_gateway
import chaos_rights
import topics

HERE = os.path.dirname(os.path.abspath(__file__))
LIBC = ctypes.CDLL(None)


def die_with_parent():
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


CLAIMS = []


def claim_ports(count):
    """Ports that are this process's until it ends, as `Ports` of the Swift tests claims them: outside of the range from which
    the kernel takes any, and named by a socket that goes with the process."""
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

    def launch(self, *words):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, number, seconds=120):
        """Signals it, and returns how it ended."""
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def text(self, start=0):
        with open(self.log, errors="replace") as log:
            log.seek(start)
            return log.read()

    def await_text(self, text, seconds, start=0):
        deadline = time.monotonic() + seconds
        while text not in self.text(start):
            if not self.is_running or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not say “{text}”:\n{self.text(start)[-3000:]}")
            time.sleep(0.02)


class Broker(Program):
    """Of KAFKA_HOME, in a folder of its own. Workers come to `protected`, where they may do what `Rights` leave them."""

    def __init__(self, home, folder):
        super().__init__("broker", folder)
        port, controller, protected = claim_ports(3)
        self.servers, self.protected = f"127.0.0.1:{port}", f"127.0.0.1:{protected}"
        listeners = f"PLAINTEXT://{self.servers},CONTROLLER://127.0.0.1:{controller},WORKER://{self.protected}"
        self.properties = os.path.join(folder, "server.properties")
        logging = os.path.join(folder, "log4j2.properties")
        with open(self.properties, "w") as file:
            file.write(f"""\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners={listeners}
advertised.listeners={listeners}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,WORKER:SASL_PLAINTEXT
auto.create.topics.enable=false
log.dirs={folder}/kafka
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
offsets.topic.segment.bytes=33554432
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=2097152
log.retention.check.interval.ms=10000
{chaos_rights.PROPERTIES}""")
        with open(logging, "w") as file:
            file.write("appender.console.type=Console\nappender.console.name=console\n"
                       "appender.console.layout.type=PatternLayout\n"
                       "appender.console.layout.pattern=%d{ISO8601} %p %m%n\n"
                       "rootLogger.level=WARN\nrootLogger.appenderRef.console.ref=console\n")
        self.java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={folder}",
                     f"-Dlog4j2.configurationFile={logging}", "-cp", f"{home}/libs/*"]
        subprocess.run(
            [*self.java, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", self.properties,
             "--standalone"], check=True, stdout=subprocess.DEVNULL, timeout=60)

    def start(self):
        self.launch(*self.java, "kafka.Kafka", self.properties)

    def answers(self):
        """Whether it does, within a second."""
        try:
            socket.create_connection(self.servers.split(":"), timeout=1).close()
        except OSError:
            return False
        consumer = topics.reader(self.servers)
        try:
            return bool(consumer.list_topics(timeout=1).brokers)
        except Exception:
            return False
        finally:
            consumer.close()


class Simulator(Program):
    def __init__(self, worker, folder):
        super().__init__("simulator", folder)
        self.port, control, self.gateway = claim_ports(3)
        self.control = f"http://127.0.0.1:{control}"
        # Its book is in a file: it outlives a kill -9.
        self.words = [worker, "simulate", "--listen", f"127.0.0.1:{self.port}", "--control", f"127.0.0.1:{control}",
                      "--gateway", str(self.gateway), "--directory", folder, "--book", os.path.join(folder, "simulator.book"), "--latency", "5ms..30ms"]
        self.start()

    def start(self):
        begin = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        self.launch(*self.words)
        self.await_text("listening", 240, begin)

    def post(self, request):
        """`/now?fault=goaway`, `/faults?latency=50ms`."""
        with urllib.request.urlopen(
                urllib.request.Request(self.control + request, method="POST"), timeout=30) as answer:
            return json.load(answer)


class Worker(Program):
    def __init__(self, name, program, folder, names, port, gateway, is_static):
        super().__init__("worker-" + name, folder)
        self.group, self.topic, self.program = names.group, names.requests, program
        self.file = os.path.join(folder, f"worker-{name}.yaml")
        self.names, self.port, self.gateway, self.static = names, port, gateway, name if is_static else None
        self.admin = claim_ports(1)[0]
        self.write()
        self.starts = []
        self.started = 0  # where the log of its latest process begins
        self.started_at = 0.0
        self.resident = []  # (time, kilobytes)
        self.endings = []

    def write(self, is_paused=False):
        """Its configuration; one that runs is told to read it again."""
        names = self.names

        def app(name, more=""):
            return f"""\
  - name: {name}
    bundle_ids: [com.example.{name}]
    environment: production
    host: localhost
    port: {self.port}
    token: {{key_file: AuthKey_SIMULATOR1.p8, key_id: SIMULATOR1, team_id: TEAM123456}}
    tls: {{ca_file: ca.pem}}
    connections: {{min: 1, max: 4}}
{more}"""

        others = app("limited", "    rate_limit: 50\n") + app(
            "paused", f"    paused: {str(is_paused).lower()}\n") if names.has_apps else ""
        if names.has_gateways:
            others += "".join(f"""\
  - name: {name}
    bundle_ids: [com.example.{name}]
    environment: production
    transport: binary
    host: localhost
    port: {self.gateway}
    certificate: {{file: client.pem, key_file: client-key.pem}}
    tls: {{ca_file: ca.pem}}
    connections: {{min: 1, max: 4}}
    binary: {{format: {form}}}
""" for name, form in zip(chaos_gateway.APPS, ("framed", "enhanced")))
        requests = f"{names.requests}, {names.beside}" if names.beside else names.requests
        with open(self.file, "w") as file:
            file.write(f"""\
kafka:
  bootstrap_servers: "{names.protected}"
  librdkafka: {chaos_rights.CLIENT}
  group_id: {names.group}
  session_timeout: 6s
{f"  group_instance_id: {self.static}" if self.static else ""}
requests: {{topics: [{requests}]}}
results: {{topic: {names.results}}}
unregistered: {{topic: {names.unregistered}}}
dead_letters: {{topic: {names.dead_letters}}}
retry: {{tiers: {{1s: {names.retry}}}, max_attempts: 100}}
delivery: {{response_timeout: 10s}}
apps:
{app("shop")}{others}admin: {{listen: "{f"127.0.0.1:{self.admin}" if names.has_gateways else "off"}"}}
""")
        if self.is_running:
            self.signal(signal.SIGHUP)

    def start(self):
        self.started = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        self.starts.append(self.started)
        self.started_at = time.time()
        self.endings = []  # what is expected of this process
        self.launch(self.program, "run", "--config", self.file)

    def has_joined(self):
        return "partitions assigned" in self.text(self.started)

    def sample(self, at):
        try:
            with open(f"/proc/{self.process.pid}/status") as status:
                found = re.search(r"VmRSS:\s+(\d+) kB", status.read())
        except OSError:
            return
        if found:
            self.resident.append((at, int(found.group(1))))

    def calm_resident(self, begin, end):
        """In kilobytes, what it took at most in the calmest fifth of a span of time; None: nothing is known of it."""
        values = sorted(kilobytes for at, kilobytes in self.resident if begin <= at < end)
        return values[len(values) // 5] if values else None


class Partner:
    """One of our own Python processes: told lines, tells lines of JSON."""

    def __init__(self, program, *words, folder):
        with open(os.path.join(folder, program + ".err"), "wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, os.path.join(HERE, program), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, text=True, preexec_fn=die_with_parent)
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
