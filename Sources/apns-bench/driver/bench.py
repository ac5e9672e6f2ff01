"""`apns-bench`: measures the worker's CPU per notification, compared with C programs that each do half of the work.

One run measures everything against the same servers. A bare nghttp2 and OpenSSL loop in C posts the same requests (the
send floor), and a bare librdkafka loop consumes the same records and produces the same results (the Kafka floor). Then
apns-worker does the work of both loops. The run fails unless each request has exactly one accepted result (at least one
after kill -9). Requires nghttpd, a Python with confluent_kafka, and a Kafka broker: set KAFKA_BOOTSTRAP_SERVERS to use
one, or KAFKA_HOME (a folder with Kafka's libs) to start one.

Measurements (--measure):
  floors     a bare nghttp2 + OpenSSL loop, a bare librdkafka loop
  payload    the whole worker, requests in payload form
  envelope   envelope form, one device token per record
  fan-out    envelope form, 100 device tokens per record
  10-apps    payload form, ten apps
  100-apps   payload form, a hundred apps
  binary     payload form, over the binary protocol
  parts      each part of the worker alone, in memory, and the size of the HEADERS frames
  latency    time from the record's timestamp to the send, and from the send to the answer, at 1,000 a second
  streams    the rate with 50 ms of server latency, on 1 to 8 connections
  network    the rate with 50 ms of network latency, on 1 to 8 connections
  start      time to a new worker's first send and first result, and to the first result after kill -9

`apns-bench guard` counts instructions. `apns-bench part NAME` runs one part.
CPU is the user and system time of the whole process from start to end, as reported by wait4(2). It includes the group
join, the TLS handshakes and the shutdown, and is divided by the number of notifications.
Exit codes: 0 measured (even if a budget is missed), 1 something is missing or failed, 64 wrong usage.
"""

import argparse, asyncio, collections, datetime, json, os, re, subprocess, sys, time, urllib.request

from stage import BUNDLE_ID, OWN, STREAMS, Child, Failure, Form, ResultBook, Stage, Worker
from stage import Options, payload, percentiles, progress, read

PARTS = ["parse", "envelope", "ledger", "machine", "fanout", "results", "encode", "frames"]
USUAL = ["floors", "payload", "envelope", "fan-out", "binary", "parts"]
WORKLOADS = {
    "payload": Form(), "envelope": Form(1), "fan-out": Form(100), "binary": Form(), "10-apps": Form(apps=10),
    "100-apps": Form(apps=100),
}
SUBJECTS = ["floors", *WORKLOADS, "parts", "latency", "streams", "network", "start"]
MB, LATENCY_SECONDS = 1_048_576, 20
CPU = "CPU us each"


class Report:
    """Rows of figures by section, and the budgets of WhatItCosts.md with the measured values."""

    def __init__(self, options):
        self.rows, self.budgets = collections.defaultdict(dict), []
        commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout
        model = re.search(r"model name\s*: (.*)", read("/proc/cpuinfo"))
        self.head = {
            "at": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "processor": f"{os.cpu_count()} x {model[1] if model else 'unknown'}", "commit": commit.strip() or None,
            "count": options.count, "payload_bytes": len(payload(0)), "devices": options.devices,
            "partitions": options.partitions, "connections": options.connections, "rounds": options.rounds}

    def budget(self, what, figure, limit, at_least=False, excuse=None):
        """Compares a figure with its budget, with a tolerance of 10 %. `excuse` says why the budget does not apply."""
        holds, near = (figure >= limit, figure >= limit * 0.9) if at_least else (figure <= limit, figure <= limit * 1.1)
        standing = "holds" if holds else excuse or ("within a tenth" if near else "missed")
        self.budgets.append({"what": what, "figure": figure, "at_least" if at_least else "at_most": limit,
                             "standing": standing})

    def add_cost(self, name, row):
        """Keeps the cheapest of several rounds, because other processes on the machine only add cost."""
        costs = self.rows["costs"]
        if name not in costs or row[CPU] < costs[name][CPU]:
            costs[name] = row

    def judge_costs(self):
        costs = self.rows["costs"]
        cpu = {name: row[CPU] for name, row in costs.items()}
        if "send_floor" in cpu and "payload" in cpu:
            self.head["ratio"] = cpu["payload"] / (cpu["send_floor"] + cpu["kafka_floor"])
            self.budget("worker / (send floor + Kafka floor)", self.head["ratio"], 1.35)
        for name, other, extra in (("envelope", "payload", 0.5), ("fan-out", "payload", 0), ("binary", "kafka_floor", 3)):
            if name in cpu and other in cpu:
                self.budget(f"{name}, {CPU}", cpu[name], cpu[other] + extra)
        # The cost per notification must not grow with the number of apps. Each additional app costs TLS handshakes at
        # the start, so the first tenth of the notifications is excluded.
        for name in ("10-apps", "100-apps"):
            if name in cpu and "payload" in cpu:
                self.budget(f"{name}, {CPU} without the first tenth", costs[name]["steady"], costs["payload"]["steady"])
        for name in ("payload", "binary"):
            if name in cpu:
                self.budget_memory(name, costs[name])
        samples = costs.get("payload", {}).get("samples", [])
        if len(samples) > 1 and costs["payload"]["count"] >= 1_000_000:
            self.budget("memory at the end / at a tenth", samples[-1][3] / samples[0][3], 1.05)

    def budget_memory(self, name, row):
        limit = 70 + max(0, row["open at most"] - 7_000) * 2_048 / MB
        self.budget(f"{name}, max RSS MB with {row['open at most']} open at most", row["max RSS MB"], limit)

    @property
    def text(self):
        lines = [", ".join(f"{name} {value}" for name, value in self.head.items())]
        for section, rows in ((name, rows) for name, rows in self.rows.items() if rows):
            columns = [name for name, value in next(iter(rows.values())).items() if isinstance(value, (int, float))]
            lines += ["", *table([[section, *columns], *([name, *(row.get(one, "") for one in columns)]
                                                         for name, row in rows.items())])]
            for name, row in rows.items():
                lines += [f"{name}: {what} {row[what]}" for what in ("threads", "stretches") if what in row]
        bound = lambda one: f"<= {one['at_most']:.2f}" if "at_most" in one else f">= {one['at_least']:.2f}"
        rows = [[one["what"], one["figure"], bound(one), one["standing"]] for one in self.budgets]
        return "\n".join(lines + (["", *table([["budgets", "", "", ""], *rows])] if rows else [])) + "\n"

    @property
    def json(self):
        return json.dumps({**self.head, **self.rows, "budgets": self.budgets}) + "\n"


def table(rows):
    texts = [[f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts)]
    return ["  ".join([row[0].ljust(widths[0]), *(map(str.rjust, row[1:], widths[1:]))]).rstrip() for row in texts]


def cost_row(child, count, rate, **more):
    usage = child.usage
    each = lambda seconds: seconds * 1e6 / count
    return {CPU: each(usage.ru_utime + usage.ru_stime), "user": each(usage.ru_utime), "system": each(usage.ru_stime),
            "per second": round(rate), "max RSS MB": child.peak / MB, "count": count, **more}


# The baseline programs (floors) and the worker

def measure_floors(stage, report):
    options, count = stage.options, stage.options.count

    def floor(name, *words):
        progress(f"the floor: {name}")
        child = Child(name, [OWN, name, *map(str, words)], stage.scratch)
        child.wait(options.timeout)
        return cost_row(child, count, count * 1_000 / max(1, int(child.output)))

    report.add_cost("send_floor", floor("send-floor", stage.push_server(), stage.scratch.file("ca.pem"),
                                        options.connections, count, options.devices))
    requests, results = stage.requests(Form(), count), stage.outputs() + ".results"
    row = floor("kafka-floor", options.bootstrap_servers, requests.topic, results, requests.partitions, count)
    report.add_cost("kafka_floor", {**row, "result bytes": ResultBook(stage, results, requests).mean_size})


def measure_worker(stage, report, subject):
    form, binary = WORKLOADS[subject], subject == "binary"
    requests = stage.requests(form, min(stage.options.count, 300_000 if form.apps == 100 else 50_000_000))
    progress(f"the whole worker: {subject}")
    if binary:
        simulator, folder = stage.simulator("gateway", "--gateway", "0")
        port = int(re.search(r"^binary gateway on .*:(\d+)", simulator.output, re.M)[1])
        run = Worker(stage, port, requests, binary=True, authority=f"{folder}/ca.pem")
    else:
        run = Worker(stage, stage.push_server(), requests)
    run.await_results(requests.count)
    run.end()
    if binary:
        control = re.search(r"^control endpoint: (\S+)", simulator.output, re.M)[1].rstrip("/")
        with urllib.request.urlopen(f"{control}/totals") as totals:
            taken = json.load(totals)["accepted"]
        if taken != requests.count:
            raise Failure(f"the gateway accepted {taken} of {requests.count} notifications")
        simulator.kill()
    book = run.book()
    us = lambda a, b: (b[2] - a[2]) / 1_000 / max(1, b[0] - a[0])
    stretches = [us(*pair) for pair in zip([(0, 0, 0, 0), *run.samples], run.samples)]
    times = {f"answer ms {name}": value for name, value in percentiles(book.answers).items()}
    total = (run.child.usage.ru_utime + run.child.usage.ru_stime) * 1e9
    steady = (total - run.samples[0][2]) / 1_000 / max(1, requests.count - run.samples[0][0])
    threads = {name: round(ns / 1_000 / requests.count, 2) for name, ns in run.threads.most_common(8)}
    report.add_cost(subject, cost_row(
        run.child, requests.count, run.rate, **times, **{
            "result bytes": book.mean_size, "open at most": run.most_open, "steady": steady, "threads": threads,
            "stretches": [round(one, 2) for one in stretches], "samples": run.samples}))


def measure_parts(stage, report):
    for name in PARTS:
        progress(f"the worker's parts: {name}")
        child = Child(f"part-{name}", [OWN, "part", name, "-n", str(min(stage.options.count, 1_000_000))], stage.scratch)
        child.wait(stage.options.timeout)
        part = json.loads(child.output)
        report.rows["in memory alone"][name] = {CPU: part["cpu_ns"] / 1_000 / part["count"]}
        if name == "encode":
            # Exclude the payload and the nine-byte frame headers of HEADERS and DATA.
            headers = part["sent_bytes"] / part["count"] - len(payload(0)) - 18
            report.rows["HEADERS on the wire"]["with a derived apns-id"] = {"bytes each": headers}
            report.budget("HEADERS bytes, with a derived apns-id", headers, 92)


# Latency, scaling and start

def measure_latency(stage, report):
    """Measures latency at 1,000 requests a second, which the producer sends at regular intervals and without lingering.

    Starts with unmeasured requests at full rate, because a new broker uses the cores for JIT compilation.
    """
    rush, pace = min(200_000, stage.options.count), 1_000
    warm_up, count = rush + 5 * pace, rush + (5 + LATENCY_SECONDS) * pace
    requests = stage.new_requests(Form(), count, "paced")
    progress(f"latency at {pace} a second, for {LATENCY_SECONDS} s")
    producer = stage.producer(**{"linger.ms": 0})

    def send(numbers, paced=True):
        start = time.monotonic()
        for step, number in enumerate(numbers):
            if paced:
                time.sleep(max(0, start + step / pace - time.monotonic()))
            stage.produce(producer, requests, number, payload(number))
        producer.flush(30)

    run = Worker(stage, stage.push_server(), requests)
    send(range(rush), paced=False)
    run.await_results(rush)
    send(range(rush, warm_up))
    run.await_results(warm_up)
    start_ms, cpu = time.time() * 1_000, run.child.cpu_ns
    send(range(warm_up, count))
    run.await_results(count)
    report.head["latency_cpu_us"] = (run.child.cpu_ns - cpu) / 1_000 / (count - warm_up)
    run.end()
    book = run.book(requested_from=start_ms)
    sends = percentiles(book.sends)
    report.rows["latency ms"] = {
        "record's timestamp to sent_at_ms": sends, "sent_at_ms to settled_at_ms": percentiles(book.answers)}
    report.budget("latency at 1000/s, p50 ms", sends["p50"], 25)
    report.budget("latency at 1000/s, p99 ms", sends["p99"], 60)
    report.budget("CPU us each at 1000/s", report.head["latency_cpu_us"], 45)


def measure_scaling(stage, report, distance):
    """Measures the rate with 50 ms of server or network latency, 1,000 streams and the simulator's windows."""
    simulator, directory = stage.simulator(
        f"simulator-{distance}", *(["--latency", "50ms"] if distance == "server" else []))
    port, ours = int(re.search(r"^\s*port: (\d+)", simulator.output, re.M)[1]), [simulator, stage.broker]
    in_flight = STREAMS
    if distance == "network":
        # The initial connection window of HTTP/2 limits the bodies in flight. Neither the simulator nor Apple changes
        # it.
        in_flight = min(STREAMS, 65_535 // len(payload(0)))
        relay = Child("relay", [sys.executable, __file__, "relay", str(port), "25"], stage.scratch)
        port = int(relay.await_output(r"port (\d+)")[1])
        ours.append(relay)
    for connections in (1, 2, 4, 8):
        limit = connections * in_flight * 1_000 / 50
        requests = stage.requests(Form(), int(min(stage.options.count, limit * 5, 300_000)))
        progress(f"50 ms of the {distance}, {connections} connections")
        used = lambda: sum(one.cpu_ns for one in ours if one) + time.process_time_ns()
        before, start = used(), time.monotonic_ns()
        run = Worker(stage, port, requests, connections, authority=f"{directory}/ca.pem",
                     key=f"{directory}/AuthKey_SIMULATOR1.p8", key_id="SIMULATOR1")
        run.await_results(requests.count)
        busy = (used() - before + run.child.cpu_ns) / ((time.monotonic_ns() - start) * os.cpu_count())
        run.end()
        times = {f"answer ms {name}": value for name, value in percentiles(run.book().answers).items()}
        name, share = f"{connections} connections", run.rate / limit
        row = report.rows[f"50 ms of the {distance}"][name] = {
            "per second": round(run.rate), "formula": round(limit), "of it": share, "processors busy": busy,
            "max RSS MB": run.child.peak / MB, "open at most": run.most_open, **times}
        # Cores that are 90 % busy count as saturated, because the processes also wait for each other.
        report.budget(f"50 ms of the {distance}, {name}, of the formula", share, 0.9, at_least=True,
                      excuse="processors full" if busy >= 0.9 else None)
        report.budget_memory(f"50 ms of the {distance}, {name}", row)


def measure_start(stage, report):
    """Measures the start of a new worker, and the restart of a static group member that was killed under load."""
    requests, row = stage.requests(Form(), stage.options.count), report.rows["start ms"]
    progress("the start of a worker")
    run = Worker(stage, stage.push_server(), requests)
    run.await_results(requests.count)
    run.end()
    book = run.book()
    line = next((line for line in run.child.output.split("\n")
                 if "partitions assigned" in line and requests.topic in line), None)
    if not line:
        raise Failure("the worker did not log that partitions were assigned")
    assigned = datetime.datetime.fromisoformat(line[:23] + "+00:00").timestamp() * 1_000
    progress("the start of a worker after kill -9")
    again = Worker(stage, stage.push_server(), requests, instance="bench-1")
    again.await_results(requests.count // 10, pause=0.005)
    killed = time.time() * 1_000
    again.child.kill()
    while not again.child.has_ended:
        time.sleep(0.001)
    again.launch()
    again.await_results(requests.count)
    time.sleep(2)  # Repeats of notifications in flight may follow.
    again.end()
    restart = again.book(settled_after=again.started).first_settled - killed
    for name, ms in (("run to first result", book.first_settled - run.started),
                     ("run to group assigned", assigned - run.started),
                     ("group assigned to first send", max(0, book.first_sent - assigned)),
                     ("kill -9 and restart to first result", restart)):
        row[name] = {"ms": round(ms)}
    report.budget("group assigned to first send, ms", row["group assigned to first send"]["ms"], 500)
    report.budget("kill -9 and restart to first result, ms", round(restart), 1_000)


async def relay(target, delay_ms):
    """A TCP proxy that delays each byte, to simulate a distant network. TCP acknowledgements are not delayed."""
    async def pipe(reader, writer):
        loop, queue = asyncio.get_running_loop(), asyncio.Queue()

        async def pass_on():
            while True:
                due, data = await queue.get()
                await asyncio.sleep(due - loop.time())
                if not data:
                    return writer.close()
                writer.write(data)
                await writer.drain()

        task = asyncio.create_task(pass_on())
        try:
            while data := await reader.read(65_536):
                queue.put_nowait((loop.time() + delay_ms / 1_000, data))
        except ConnectionError:
            pass
        queue.put_nowait((loop.time() + delay_ms / 1_000, b""))
        await asyncio.gather(task, return_exceptions=True)

    async def serve(reader, writer):
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(pipe(reader, far_writer), pipe(far_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def parse(words):
    def subjects(text):
        names = SUBJECTS if text == "all" else text.split(",")
        for name in names:
            if name not in SUBJECTS:
                raise argparse.ArgumentTypeError(
                    f'there is no measurement "{name}": expected all, or some of {", ".join(SUBJECTS)}')
        return names

    parser = Options("apns-bench", __doc__)
    add = parser.add_argument
    add("-n", "--count", type=int, default=300_000, help="notifications (default 300000)")
    add("-m", "--measure", type=subjects, default=USUAL, help=f"comma-separated measurements, or all (default {','.join(USUAL)})")
    add("--devices", type=int, default=20_000, help="distinct device tokens (default 20000)")
    add("--partitions", type=int, default=8, help="partitions of the request and result topics (default 8)")
    add("--connections", type=int, default=2, help="connections of floors and worker to the server (default 2)")
    add("--rounds", type=int, default=1, help="measure floors and worker this many times, and show the cheapest round of each")
    add("--bootstrap-servers", default=os.environ.get("KAFKA_BOOTSTRAP_SERVERS", ""), help="use these brokers (host:port, comma-separated)")
    add("--worker", default="", help="measure this program (default: apns-worker in the folder of this program)")
    add("--timeout", type=int, default=600, help="seconds that each measured process may take (default 600)")
    add("--window", type=int, default=2_000, help="resend window of the binary protocol in ms: notifications without an error count as accepted after this time (default 2000)")
    add("--history", help="append the figures to this file, as one line of JSON (.github/pictures/history draws it)")
    add("--json", action="store_true", help="print the figures as one JSON object")
    return parser.parse_args(words)


def main(words):
    if words[:1] == ["relay"]:
        return asyncio.run(relay(int(words[1]), int(words[2])))
    options = parse(words)
    try:
        stage, report = Stage(options), Report(options)
        for number in range(options.rounds):
            if "floors" in options.measure:
                measure_floors(stage, report)
            for subject in WORKLOADS:
                if subject in options.measure:
                    measure_worker(stage, report, subject)
        report.judge_costs()
        for name, measure in (
            ("parts", measure_parts), ("latency", measure_latency), ("start", measure_start),
            ("streams", lambda stage, report: measure_scaling(stage, report, "server")),
            ("network", lambda stage, report: measure_scaling(stage, report, "network")),
        ):
            if name in options.measure:
                measure(stage, report)
        stage.end()
        print(report.json if options.json else report.text, end="")
        if options.history:
            with open(options.history, "a") as file:
                file.write(report.json)
    except (Failure, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"apns-bench: {error}")
    except KeyboardInterrupt:
        sys.exit("apns-bench: interrupted")


if __name__ == "__main__":
    main(sys.argv[1:])
