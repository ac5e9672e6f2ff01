"""`apns-bench guard`: compares the instructions and allocations of each part of the worker with the committed figures.
Each part runs twice under valgrind's callgrind, with different numbers of notifications. The difference between the two
runs is the cost of the extra notifications. The counts do not depend on time, so they are stable on a busy machine.

A part fails if, per notification, it takes over 3 % more instructions or over 0.2 more allocations than committed. The
figures are valid for the build of ./Docker/test: run .build/tests/release/apns-bench. --worker needs a Kafka broker.
Exit codes: 0 nothing costs more, 1 something costs more or is missing, 64 wrong usage.
"""

import json, os, platform, re, shutil, subprocess, sys

import stage as bench
from stage import OWN, Child, Failure, Form, Options, Scratch, find, progress

# The number of notifications in the shorter run of each part: enough for a few turns in steady state.
PARTS = {"parse": 1_024, "envelope": 1_024, "ledger": 2_048, "machine": 2_048, "fanout": 3_200, "results": 1_024,
         "encode": 1_024, "frames": 1_024}
FIGURES = {"instructions": 1, "swift_allocations": 3, "c_allocations": 3}  # The name, and the number of decimal digits.

SWIFT_ALLOCATORS = {"swift_allocObject", "_swift_allocObject", "_swift_allocObject_", "swift_slowAlloc",
                    "swift_slowAllocTyped", "swift_allocBox", "swift_bufferAllocate"}
C_ALLOCATORS = {"malloc", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc", "memalign", "valloc",
                "operator new", "operator new[]"}


def family(function):
    """Returns the heap from which a function allocates, or None if the function is not an allocator."""
    name = re.split(r"[('@]", function)[0].rpartition(":")[2]
    return "swift" if name in SWIFT_ALLOCATORS else "c" if name in C_ALLOCATORS else None


def counts(lines):
    """Returns callgrind's counts: instructions, and allocations on each heap.

    An allocation counts once, at the first allocator function, even if that function calls other allocator functions.
    The format is in valgrind's manual, "Callgrind Format Specification".
    """
    names, found = {}, {"instructions": None, "swift_allocations": 0, "c_allocations": 0}
    function = callee = calls = None

    def named(text):
        # `(12) name` defines the number 12 for a name. Later, `(12)` alone stands for the name.
        number, _, name = text.partition(" ")
        return names.setdefault(number, name)

    for line in lines:
        kind, _, value = line.rstrip("\n").partition("=")
        if kind == "fn":
            function = named(value)
        elif kind == "cfn":
            callee = named(value)
        elif kind == "calls":
            calls = int(value.split()[0])
        elif line[0] in "0123456789+-*":
            if calls and (heap := family(callee)) and not family(function):
                found[f"{heap}_allocations"] += calls
            calls = None
        elif line.startswith("totals:"):
            found["instructions"] = int(line.split()[1])
    if found["instructions"] is None:
        raise Failure("callgrind's output ends without its totals")
    return found


def each(short, short_count, long, long_count):
    """Returns the cost of one notification, from the difference between two runs, which excludes costs per process."""
    return {name: (long[name] - short[name]) / (long_count - short_count) for name in FIGURES}


class Callgrind:
    def __init__(self, scratch):
        self.scratch, self.valgrind = scratch, find("valgrind", "valgrind")
        # Disable the random seeds of Swift's hash tables, which would make counts differ between runs.
        os.environ["SWIFT_DETERMINISTIC_HASHING"] = "1"

    def readable(self, program):
        """Copies a program without its debug information, because valgrind 3.19 cannot read that of Swift 6."""
        copy = self.scratch.file(os.path.basename(program))
        subprocess.run([find("strip", "binutils"), "-g", "-o", copy, program], check=True)
        return copy

    def start(self, name, words, *options):
        # valgrind runs one thread at a time. With --fair-sched, no thread starves.
        # A supervisor starts its worker as /proc/self/exe, which valgrind refuses. With the variable, the worker starts
        # alone.
        child = Child(name, ["env", "APNS_WORKER_PAGE=none", self.valgrind, "--tool=callgrind", "--dump-line=no",
                             "--fair-sched=try", *options,
                             f"--callgrind-out-file={self.scratch.file(name)}.callgrind", *words], self.scratch)
        child.profile = f"{self.scratch.file(name)}.callgrind"
        return child

    def profile(self, part, program):
        """Runs a part twice in parallel, for two numbers of notifications. callgrind counts only in `apnsBenchTurn`."""
        runs = [self.start(f"{part}-{count}", [program, "part", part, "-n", str(count)],
                           "--toggle-collect=apnsBenchTurn") for count in (PARTS[part], 3 * PARTS[part])]
        found = []
        for run in runs:
            run.wait(300)
            done = json.loads(re.search(r'^{"part".*', run.output, re.M)[0])["count"]
            found += [counts(open(run.profile)), done]
        return each(*found), runs[1].profile

    def profile_worker(self, options):
        """Runs the built worker end to end. The cost varies, because batch sizes differ between runs."""
        stage = bench.Stage(options)
        worker, found = self.readable(stage.worker), []
        for count in (options.count, 3 * options.count):
            requests = stage.requests(Form(), count)
            progress(f"the worker under callgrind: {count} notifications")
            # With this `max_open`, both runs reach the limit many times. Before a run reaches it for the first time,
            # each notification allocates memory.
            run = bench.Worker(stage, stage.push_server(), requests, delivery=", max_open: 1000",
                               start=lambda words: self.start(f"worker-{count}", [worker, *words]))
            run.await_results(count, pause=0.2)
            run.end()
            found += [counts(open(run.child.profile)), count]
        stage.end()
        return each(*found), run.child.profile

    def show(self, profile):
        """Prints the most expensive functions, each with its callers."""
        text = subprocess.check_output([find("callgrind_annotate", "valgrind"), "--tree=caller", profile], text=True)
        if swift := shutil.which("swift"):
            text = subprocess.run([swift, "demangle", "--simplified"], input=text, capture_output=True, text=True).stdout
        print(text)


def toolchain():
    """Returns the versions that determine the counts besides the source: architecture, compiler and libraries."""
    versions = dict(line.split() for line in subprocess.check_output([OWN, "versions"], text=True).splitlines())
    swift = shutil.which("swift")
    said = subprocess.run([swift, "--version"], capture_output=True, text=True).stdout if swift else ""
    found = re.search(r"version (\S+)", said)
    return {"architecture": platform.machine(), "glibc": platform.libc_ver()[1], **versions,
            "swift": found[1] if found else "unknown"}


def differences(here, there):
    # The version of OpenSSL is recorded but not compared, because no measured turn calls OpenSSL.
    return [f"{name} {here.get(name)} instead of {there.get(name)}" for name in sorted({*here, *there} - {"openssl"})
            if here.get(name) != there.get(name) or here.get(name) == "unknown"]


def load(path):
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise Failure(f"the figures cannot be read from {path}: {error}; use --figures for another file, or "
                      "--update to write it") from None


def save(path, taken_with, parts):
    rounded = {part: {name: round(parts[part][name], digits) for name, digits in FIGURES.items()}
               for part in PARTS if part in parts}
    with open(path, "w") as file:
        json.dump({"taken_with": taken_with, "parts": rounded}, file, indent=2)
        file.write("\n")


def compare(counted, committed, instructions=True):
    """Returns the comparison as text, and whether a part exceeds its committed figures or has none."""
    lines, failures, better = [], [], False
    for part, figures in counted.items():
        if part not in committed:
            failures.append(f"{part}: no committed figures; run with --update to write them")
            continue
        for name, digits in FIGURES.items():
            now, before = figures[name], committed[part][name]
            if name == "instructions" and not instructions:
                continue
            # Counts vary by about a millionth. The margin for allocations is one additional allocation per five
            # notifications.
            margin = before * 0.03 if name == "instructions" else 0.2
            verdict = "FAILED" if now > before + margin else "better" if now < before - margin else "ok"
            words = name.replace("_", " ").replace("swift", "Swift").replace("c a", "C a")
            lines.append(f"{part:9}{words:18}{before:12.{digits}f}{now:12.{digits}f}  {verdict}")
            better = better or verdict == "better"
            if verdict == "FAILED":
                failures.append(f"{part}: {now:.{digits}f} {words} a notification; {before:.{digits}f} are committed, "
                                f"the limit is {before + margin:.{digits}f}")
    lines += [f"FAILED: {failure}" for failure in failures]
    if failures:
        part = failures[0].split(":")[0]
        lines.append(f"Find the change that adds the cost (apns-bench guard --only {part} --top lists the most "
                     "expensive functions). If the change is worth the cost, write the new figures with --update and "
                     "give the reason in the commit.")
    elif better:
        lines.append("Better than the committed figures: write the new figures with --update.")
    return "\n".join(lines), bool(failures)


def guard(options):
    callgrind = Callgrind(Scratch())
    if options.worker_run:
        figures, profile = callgrind.profile_worker(options)
        print(f"a notification takes {figures}")
        if options.top:
            callgrind.show(profile)
        allocations = figures["swift_allocations"]
        print(f"{'FAILED' if allocations > 1 else 'ok'}: {allocations:.3f} Swift allocations, the limit is 1.0")
        return allocations > 1
    here = toolchain()
    is_new = options.update and (not options.only or not os.path.exists(options.figures))
    committed = {"taken_with": here, "parts": {}} if is_new else load(options.figures)
    other = ", ".join(differences(here, committed["taken_with"]))
    if options.update and other:
        raise Failure(f"the figures were taken with another toolchain ({other}): run --update for all parts at once")
    program, counted = callgrind.readable(OWN), {}
    for part in [options.only] if options.only else PARTS:
        progress(f"counting {part}")
        counted[part], profile = callgrind.profile(part, program)
        if options.top:
            callgrind.show(profile)
    if options.update:
        save(options.figures, here, {**committed["parts"], **counted})
        return False
    if other:
        print("instructions are not compared, only allocations: the figures were taken with another toolchain:", other)
    text, has_failed = compare(counted, committed["parts"], instructions=not other)
    print(text)
    return has_failed


def main(words):
    parser = Options("apns-bench guard", __doc__)
    add = parser.add_argument
    add("--figures", default="Tests/GuardTests/figures.json", help="the committed figures (default %(default)s)")
    add("--update", action="store_true", help="write the counts to the file, as the figures to commit")
    add("--only", choices=PARTS, help="measure only this part")
    add("--worker", dest="worker_run", action="store_true", help="measure the whole apns-worker instead, end to end")
    add("--top", action="store_true", help="also show the most expensive functions and their callers")
    add("-n", "--count", type=int, default=10_000, help="notifications of --worker's shorter run (default 10000)")
    parser.set_defaults(
        worker="", devices=20_000, partitions=8, connections=2, timeout=600, window=2_000,
        bootstrap_servers=os.environ.get("KAFKA_BOOTSTRAP_SERVERS", ""))
    try:
        sys.exit(1 if guard(parser.parse_args(words)) else 0)
    except (Failure, subprocess.CalledProcessError) as error:
        sys.exit(f"apns-bench guard: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
