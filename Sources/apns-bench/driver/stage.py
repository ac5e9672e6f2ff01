"""The environment of measurements: processes with their usage, a broker with topics, fake APNs servers, the worker."""

import argparse, atexit, collections, json, os, re, shutil, signal, socket, subprocess, sys, tempfile, time, uuid

OWN = os.environ["APNS_BENCH"]
BUNDLE_ID = "com.example.bench"
STREAMS = 1_000  # The maximum number of open streams on a connection, as with APNs.


class Failure(Exception):
    """A one-line error that ends the bench."""


class Options(argparse.ArgumentParser):
    def __init__(self, program, about):
        super().__init__(program, description=about, formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message):
        self.exit(64, f"{self.prog}: {message}\n")


def progress(line):
    print(f"apns-bench: {line}", file=sys.stderr, flush=True)


def find(name, package):
    # Debian installs servers in /usr/sbin, which is not in every PATH.
    path = shutil.which(name) or shutil.which(name, path="/usr/bin:/usr/sbin:/usr/local/bin:/usr/local/sbin")
    if not path:
        raise Failure(f"{name} is not installed (Debian: apt install {package})")
    return path


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


class Scratch:
    """A temporary directory. An exit, even after an error or SIGTERM, kills all children and removes the directory."""

    children = []

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="apns-bench-")
        atexit.register(self.remove)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    def remove(self):
        for child in self.children:
            child.kill()
        shutil.rmtree(self.path, ignore_errors=True)

    def file(self, name, text=None):
        path = os.path.join(self.path, name)
        if text is not None:
            with open(path, "w") as file:
                file.write(text)
        return path


class Child:
    """A child process with its CPU and memory usage."""

    def __init__(self, name, words, scratch):
        self.name, self.usage, self.peak = name, None, 0
        self.output_file = scratch.file(f"{name}.output")
        # With setpriv (util-linux), the kernel kills the child even if SIGKILL ends the bench.
        leader = ["/usr/bin/setpriv", "--pdeathsig", "KILL", "--"] if os.access("/usr/bin/setpriv", os.X_OK) else []
        with open(self.output_file, "w") as output:
            self.process = subprocess.Popen(
                leader + words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        self.pid = self.process.pid
        scratch.children.append(self)

    @property
    def output(self):
        return read(self.output_file)

    @property
    def has_ended(self):
        if self.usage is None:
            # VmHWM is reset at execve(2). `ru_maxrss` would include the bench's memory, which the child has before
            # execve(2).
            peak = re.search(r"VmHWM:\s*(\d+)", read(f"/proc/{self.pid}/status"))
            self.peak = int(peak[1]) * 1_024 if peak else self.peak
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid == 0:
                return False
            self.usage, self.process.returncode = usage, os.waitstatus_to_exitcode(status)
        return True

    @property
    def cpu_ns(self):
        """Returns the CPU time of all threads so far. clock_getcpuclockid(3) computes the clock id in the same way."""
        try:
            return time.clock_gettime_ns((~self.pid << 3) | 2)
        except OSError:
            return 0

    @property
    def resident(self):
        fields = read(f"/proc/{self.pid}/statm").split()
        return int(fields[1]) * os.sysconf("SC_PAGESIZE") if fields else 0

    def threads(self):
        """Returns the CPU time of the child's running threads in nanoseconds, by name."""
        times = collections.Counter()
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            path = f"/proc/{self.pid}/task/{thread}"
            spent = read(f"{path}/schedstat").split()
            times["main" if thread == str(self.pid) else read(f"{path}/comm").strip()] += int(spent[0]) if spent else 0
        return times

    def kill(self, number=signal.SIGKILL):
        if not self.has_ended:
            os.kill(self.pid, number)

    def until(self, look, what, seconds=20):
        """Polls `look` until it returns a value, and returns the value."""
        deadline = time.monotonic() + seconds
        while True:
            ended = self.has_ended
            if found := look():
                return found
            if ended:
                raise self.failure()
            if time.monotonic() > deadline:
                raise Failure(f"{self.name} did not {what} in time")
            time.sleep(0.02)

    def await_output(self, pattern):
        return self.until(lambda: re.search(pattern, self.output), f"print {pattern}")

    def wait(self, seconds):
        """Waits until the process has exited with 0, and returns its usage."""
        self.until(lambda: self.has_ended, "end", seconds)
        if self.process.returncode:
            raise self.failure()
        return self.usage

    def failure(self):
        said = self.output.strip().split("\n")[-1] or "nothing"
        return Failure(f"{self.name} ended with {self.process.returncode}; its last line of output: {said}")


Requests = collections.namedtuple("Requests", "topic form count partitions")
Form = collections.namedtuple("Form", "tokens apps", defaults=(0, 1))
"""The form of requests. `tokens` is the number of device tokens per envelope, or 0 for the payload form."""


def payload(number):
    """Returns a payload of the same size for every number below a billion, equal to `Traffic.payload`."""
    return (
        f'{{"aps":{{"alert":{{"title":"Order {number:09}","body":"Your parcel is on its way and arrives today"}},'
        f'"badge":1,"sound":"default"}},"order":"{number:09}"}}')


class Stage:
    def __init__(self, options):
        try:
            import confluent_kafka.admin
        except ImportError:
            raise Failure("Python has no confluent_kafka (Debian: apt install python3-confluent-kafka)") from None
        self.kafka, self.options, self.scratch = confluent_kafka, options, Scratch()
        self.worker = options.worker or os.path.join(os.path.dirname(OWN), "apns-worker")
        if not os.access(self.worker, os.X_OK):
            raise Failure(f"there is no worker at {self.worker}: run swift build -c release --product apns-worker")
        self.name, self.sets, self.filled, self.push_port, self.topics = f"apns-bench.{uuid.uuid4()}", 0, {}, None, []
        self.tokens = subprocess.check_output([OWN, "tokens", str(options.devices)], text=True).split()
        subprocess.run([OWN, "certificates", self.scratch.path], check=True)
        self.broker = None if options.bootstrap_servers else self.start_broker()
        self.admin = confluent_kafka.admin.AdminClient(
            {"bootstrap.servers": options.bootstrap_servers, "log_level": 0})
        self.await_broker()
        self.reader = confluent_kafka.Consumer(
            {"bootstrap.servers": options.bootstrap_servers, "group.id": "apns-bench", "log_level": 0})

    def start_broker(self):
        home = os.environ.get("KAFKA_HOME")
        if not home:
            raise Failure("needs a Kafka broker: set KAFKA_HOME (to start one) or KAFKA_BOOTSTRAP_SERVERS (to use one)")
        progress(f"starting a Kafka broker from {home}")
        find("java", "openjdk-17-jre-headless")
        ports = [str(port) for port in free_ports(3)]
        self.options.bootstrap_servers = f"127.0.0.1:{ports[0]}"
        os.environ["BROKER_JAVA"] = "-Xmx512m"
        program = os.path.join(os.path.dirname(__file__), "../../../Docker/broker")
        return Child("kafka", [program, self.scratch.file("kafka"), *ports, "log.retention.ms=-1"], self.scratch)

    def await_broker(self):
        for attempt in range(90):
            try:
                return self.admin.list_topics(timeout=1)
            except self.kafka.KafkaException:
                if self.broker and self.broker.has_ended:
                    raise self.broker.failure() from None
        raise Failure(f"no Kafka broker answers at {self.options.bootstrap_servers}")

    def end(self):
        if not self.broker and self.topics:
            for future in self.admin.delete_topics(self.topics).values():
                future.exception(20)

    def create(self, *topics):
        """Creates topics from pairs of a name and a number of partitions."""
        new = [self.kafka.admin.NewTopic(name, partitions, 1) for name, partitions in topics]
        for future in self.admin.create_topics(new).values():
            future.result(20)
        self.topics += [name for name, _ in topics]
        # The broker answers CreateTopics before the partitions have leaders. `ends` waits for the leaders.
        for name, partitions in topics:
            self.ends(name, partitions)

    def outputs(self):
        """Creates the output topics of one measurement. Returns their common prefix, which is also the group id."""
        self.sets += 1
        base = f"{self.name}.{self.sets}"
        self.create((f"{base}.results", self.options.partitions),
                    *((f"{base}.{word}", 1) for word in ("unregistered", "dead-letters", "retry.30s")))
        return base

    def ends(self, topic, partitions):
        """Returns the log end offset of each partition, which is the number of its records."""
        found, tries = [], 0
        while len(found) < partitions:
            place = self.kafka.TopicPartition(topic, len(found))
            try:
                found.append(self.reader.get_watermark_offsets(place, timeout=10)[1])
            except self.kafka.KafkaException as error:
                # Shortly after a topic is created, its partitions have no leader, or the client does not know them.
                tries += 1
                code = error.args[0].code()
                young = code in (self.kafka.KafkaError.NOT_LEADER_FOR_PARTITION, self.kafka.KafkaError._UNKNOWN_PARTITION)
                if tries > 1_200 or not error.args[0].retriable() and not young:
                    raise Failure(f"{topic} cannot be queried: {error}") from None
                time.sleep(0.05)
        return found

    def producer(self, **properties):
        return self.kafka.Producer(
            {"bootstrap.servers": self.options.bootstrap_servers, "acks": "all", "enable.idempotence": True,
             "queue.buffering.max.messages": 200_000, "log_level": 0, "socket.nagle.disable": True, **properties})

    def new_requests(self, form, count, word):
        topic = f"{self.name}.{word}.requests"
        self.create((topic, self.options.partitions))
        return Requests(topic, form, count, self.options.partitions)

    def requests(self, form, count):
        """Returns a topic with `count` notifications, rounded down to whole records. Fills each topic once per run."""
        word = "-".join(map(str, form)) + f".{count}"
        if word not in self.filled:
            whole = max(1, count // (form.tokens or 1)) * (form.tokens or 1)
            progress(f"writing {whole} notifications")
            requests = self.filled[word] = self.new_requests(form, whole, word)
            producer = self.producer(**{"linger.ms": 10})
            for number in range(whole // (form.tokens or 1)):
                self.produce(producer, requests, number, payload(number))
            if producer.flush(600):
                raise Failure("the requests were not written in time")
        return self.filled[word]

    def produce(self, producer, requests, number, payload, **more):
        form, tokens = requests.form, self.tokens
        topic = BUNDLE_ID if form.apps == 1 else f"{BUNDLE_ID}.{number % form.apps}"
        if form.tokens == 0:
            record = {"key": tokens[number % len(tokens)], "value": payload,
                      "headers": [("apns-topic", topic), ("apns-push-type", "alert")]}
        else:
            first = number * form.tokens
            list = '","'.join(tokens[place % len(tokens)] for place in range(first, first + form.tokens))
            devices = f'"device_token":"{list}"' if form.tokens == 1 else f'"device_tokens":["{list}"]'
            # Without a key, librdkafka would fill one partition after the other.
            record = {"partition": number % requests.partitions, "value":
                      f'{{{devices},"headers":{{"apns-topic":"{topic}","apns-push-type":"alert"}},"payload":{payload}}}'}
        while True:
            try:
                producer.produce(requests.topic, **record, **more)
                return producer.poll(0)
            except BufferError:
                producer.poll(0.1)

    # Fake APNs servers

    def push_server(self):
        """Starts nghttpd, which answers 200 to each POST to a known path and checks nothing else. Returns its port."""
        if not self.push_port:
            self.push_port = free_ports(1)[0]
            root = self.scratch.file("documents")
            os.makedirs(f"{root}/3/device")
            for token in self.tokens:
                open(f"{root}/3/device/{token}", "w").close()
            # Set flow-control windows that are never exhausted.
            words = ["-a", "127.0.0.1", "-m", str(STREAMS), "-w", "20", "-W", "26", "-d", root, str(self.push_port)]
            files = [self.scratch.file("server.key"), self.scratch.file("server.pem")]
            child = Child("nghttpd", [find("nghttpd", "nghttp2-server")] + words + files, self.scratch)
            child.until(lambda: socket.socket().connect_ex(("127.0.0.1", self.push_port)) == 0, "listen")
        return self.push_port

    def simulator(self, name, *words):
        """Starts `apns-worker simulate`, and returns the process and its folder."""
        folder = self.scratch.file(name)
        child = Child(name, [self.worker, "simulate", "--listen", "127.0.0.1:0", "--control", "0", "--directory", folder,
                             *words], self.scratch)
        child.await_output("listening; stop")
        return child, folder


class Worker:
    """A worker with a new consumer group that processes a topic until every result is produced."""

    def __init__(self, stage, port, requests, connections=None, binary=False, instance="", authority=None, key=None, key_id="BENCHMARK1", delivery="", start=None):
        self.stage, self.requests, self.samples, self.base = stage, requests, [], stage.outputs()
        connections, self.last = connections or stage.options.connections, (0, 0)
        file, apps = stage.scratch.file, requests.form.apps
        credential = (
            f"certificate: {{file: {file('client.pem')}, key_file: {file('client.key')}}}, transport: binary, "
            f"binary: {{window: {{duration: {stage.options.window}ms}}}}" if binary else
            f"token: {{key_file: {key or file('AuthKey.p8')}, key_id: {key_id}, team_id: TEAM123456}}")
        names = [(f"bench-{app}", f"{BUNDLE_ID}.{app}") for app in range(apps)] if apps > 1 else [("bench", BUNDLE_ID)]
        entries = "\n".join(
            f"- {{name: {name}, bundle_ids: [{bundle}], host: localhost, port: {port}, {credential}, "
            f"tls: {{ca_file: {authority or file('ca.pem')}}}, "
            f"connections: {{min: {connections if apps == 1 else 1}, max: {connections}}}}}" for name, bundle in names)
        # `crash: core` disables the supervisor, so that the measured process is the worker itself.
        self.words = ["run", "--config", file(f"{self.base}.yaml", f"""
kafka: {{bootstrap_servers: "{stage.options.bootstrap_servers}", group_id: "{self.base}", group_instance_id: "{instance}"}}
requests: {{topics: [{requests.topic}]}}
results: {{topic: {self.base}.results}}
unregistered: {{topic: {self.base}.unregistered}}
dead_letters: {{topic: {self.base}.dead-letters}}
retry: {{tiers: {{30s: {self.base}.retry.30s}}}}
delivery: {{apns_id: derived{delivery}}}
apps:
{entries}
crash: core
admin: {{listen: off}}
""")]
        streams = connections * STREAMS
        # The maximum number of open notifications, calculated as in MachineSettings.mostOpen. Over the binary protocol
        # it is `max_open`, because a resend window can contain all open notifications.
        self.most_open = 20_000 if binary else 1_000 + streams + min(2 * streams, 4_000)
        self.command = start or (lambda words: Child("apns-worker", [stage.worker] + words, stage.scratch))
        self.launch()

    def launch(self):
        self.started = time.time() * 1_000
        self.started_ns = time.monotonic_ns()
        self.child = self.command(self.words)

    def await_results(self, wanted, pause=0.05):
        """Waits for `wanted` results. Samples usage after each tenth of them, or after each million if that is less."""
        deadline = time.monotonic() + self.stage.options.timeout
        step = min(max(1, wanted // 10), 1_000_000)
        mark = step
        while self.last[0] < wanted:
            time.sleep(pause)
            if self.child.has_ended:
                raise self.child.failure()
            if time.monotonic() > deadline:
                raise Failure(f"the worker published {self.last[0]} of {wanted} results in time")
            count = sum(self.stage.ends(f"{self.base}.results", self.requests.partitions))
            self.last = (count, time.monotonic_ns())
            if count >= mark:
                self.samples.append((count, time.monotonic_ns(), self.child.cpu_ns, self.child.resident))
                mark = (count // step + 1) * step
        self.threads = self.child.threads()

    def end(self):
        self.child.kill(signal.SIGTERM)
        return self.child.wait(120)

    @property
    def rate(self):
        """Returns notifications a second from the first to the last sample, or since the start without two samples."""
        inner = [sample[:2] for sample in self.samples if sample[0] < self.requests.count]
        (first, begun), (last, ended) = (inner[0], inner[-1]) if len(inner) > 1 else ((0, self.started_ns), self.last)
        return (last - first) * 1e9 / max(1, ended - begun)

    def book(self, **limits):
        return ResultBook(self.stage, f"{self.base}.results", self.requests, **limits)


class ResultBook:
    """The results of a measurement. A run without exactly one accepted result for each request fails.

    The latencies do not include requests from before `requested_from`. `settled_after` is the time of a restart after a
    kill: with it, duplicates are allowed, and `first_settled` is the time of the first result after the restart.
    """

    def __init__(self, stage, topic, requests, requested_from=0, settled_after=None):
        tokens = requests.form.tokens or 1
        seen = [bytearray(count * tokens) for count in stage.ends(requests.topic, requests.partitions)]
        wanted = sum(stage.ends(topic, requests.partitions))
        self.results = accepted = size = 0
        self.answers, self.sends = collections.Counter(), collections.Counter()
        self.first_sent = self.first_settled = float("inf")
        stage.reader.assign([
            stage.kafka.TopicPartition(topic, number, stage.kafka.OFFSET_BEGINNING)
            for number in range(requests.partitions)])
        deadline = time.monotonic() + 120 + wanted / 20_000
        while self.results < wanted:
            if time.monotonic() > deadline:
                raise Failure(f"{topic} cannot be read back in time")
            for message in stage.reader.consume(1_000, 0.1):
                if message.error():
                    continue
                self.results += 1
                size += len(message.value())
                value = json.loads(message.value())
                place = value["request"]
                accepted += dict(message.headers() or [])["outcome"] == b"accepted" and value["outcome"] == "accepted"
                if place["topic"] == requests.topic:
                    seen[place["partition"]][place["offset"] * tokens + place["index"]] = 1
                if value["requested_at_ms"] >= requested_from and "sent_at_ms" in value:
                    sent, settled = value["sent_at_ms"], value["settled_at_ms"]
                    self.answers[settled - sent] += 1
                    self.sends[sent - value["requested_at_ms"]] += 1
                    self.first_sent = min(self.first_sent, sent)
                    if settled > (settled_after or 0):
                        self.first_settled = min(self.first_settled, settled)
        stage.reader.unassign()
        self.mean_size = size // max(1, self.results)
        distinct = sum(map(sum, seen))
        repeats = self.results - distinct if settled_after else 0
        if distinct != requests.count or self.results != requests.count + repeats or accepted != self.results:
            raise Failure(
                f"{topic} has {self.results} results of {distinct} requests, {accepted} of them accepted; expected one "
                f"for each of {requests.count}")


def percentiles(counts):
    """Returns the 50th, 99th and 99.9th percentile of a Counter: observed values, or none if the Counter is empty."""
    found, total, passed = {}, sum(counts.values()), 0
    for value in sorted(counts):
        passed += counts[value]
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
            if passed >= share * total and name not in found:
                found[name] = value
    return found
