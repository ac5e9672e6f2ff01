"""Tests of the bench's driver (Sources/apns-bench/driver): what callgrind wrote, the guard's comparison, reports."""

import os, pathlib, sys, tempfile, types, unittest

os.environ.setdefault("APNS_BENCH", "/nonexistent/apns-bench")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "Sources/apns-bench/driver"))
import bench, guard, stage

# `main` calls the library twice, and that takes from both heaps.
SAMPLE = """\
# callgrind format
cmd:  /work/bench part parse
desc: I1 cache:
positions: line
events: Ir
summary: 1000

ob=(1) /work/bench
fl=(1) ???
fn=(1) main
0 100
cob=(2) /lib/libswiftCore.so
cfi=(1)
cfn=(2) swift_allocObject
calls=3 0
0 333
cfn=(3) $s8Delivery4work
calls=2 0
0 400

fn=(3)
+0 50
+0 70
cob=(3) /lib/libc.so.6
cfn=(4) malloc
calls=5 0
* 200

ob=(2)
fn=(2)
0 30
cfn=(5) swift_slowAlloc
calls=3 0
0 300

fn=(5)
0 6
cob=(3)
cfn=(4)
calls=3 0
0 290

ob=(3)
fn=(4)
0 744

totals: 1000

"""


class CallgrindTests(unittest.TestCase):
    def counts(self, text=SAMPLE):
        return guard.counts(text.splitlines(True))

    def test_an_allocation_counts_once_where_it_enters_an_allocator(self):
        self.assertEqual(self.counts(), {"instructions": 1_000, "swift_allocations": 3, "c_allocations": 5})

    def test_which_functions_allocate(self):
        for name, heap in {
            "swift_allocObject": "swift", "swift_slowAlloc": "swift", "malloc": "c", "free": None,
            "_swift_allocObject_(swift::TargetHeapMetadata<swift::InProcess> const*, unsigned long)": "swift",
            "swift::swift_slowAllocTyped(unsigned long, unsigned long)": "swift",
            "operator new(unsigned long)": "c", "swift_initStackObject": None, "$s8Delivery0A7MachineV7receive": None,
        }.items():
            self.assertEqual(guard.family(name), heap, name)

    def test_the_difference_of_two_runs_is_what_notifications_cost(self):
        grown = SAMPLE.replace("calls=5", "calls=205").replace("totals: 1000", "totals: 3000")
        self.assertEqual(guard.each(self.counts(), 50, self.counts(grown), 150),
                         {"instructions": 20, "swift_allocations": 0, "c_allocations": 2})

    def test_output_that_was_cut_off_is_refused(self):
        with self.assertRaisesRegex(stage.Failure, "ends without its totals"):
            self.counts("fn=(1) a\n0 5\n")


class ComparisonTests(unittest.TestCase):
    before = {"instructions": 2_000, "swift_allocations": 0.01, "c_allocations": 5}

    def test_one_more_allocation_fails_and_so_do_5_percent_more_instructions(self):
        for name, change, verdict in [
            ("instructions", 0, None), ("swift_allocations", 1, "FAILED"), ("c_allocations", 1, "FAILED"),
            ("swift_allocations", 0.25, "FAILED"), ("swift_allocations", 0.01, None), ("instructions", 100, "FAILED"),
            ("instructions", 20, None), ("instructions", -100, "better"), ("c_allocations", -1, "better"),
        ]:
            with self.subTest(name=name, change=change):
                counted = {"machine": {**self.before, name: self.before[name] + change}}
                text, failed = guard.compare(counted, {"machine": self.before})
                self.assertEqual(failed, verdict == "FAILED")
                self.assertEqual(text.count("  ok"), 2 if verdict else 3)
                self.assertEqual("FAILED: machine" in text, failed)
                self.assertEqual("--update" in text, verdict is not None)

    def test_a_part_without_committed_figures_fails(self):
        text, failed = guard.compare({"parse": self.before}, {"machine": self.before})
        self.assertTrue(failed)
        self.assertIn("FAILED: parse: no committed figures; run with --update to write them", text)

    def test_with_another_toolchain_only_allocations_are_compared(self):
        text, failed = guard.compare(
            {"machine": {**self.before, "instructions": 4_000}}, {"machine": self.before}, instructions=False)
        self.assertFalse(failed or "instructions" in text)
        here, there = {"swift": "6.4", "glibc": "2.36", "openssl": "3.5"}, {"swift": "6.3.1", "glibc": "2.36"}
        self.assertEqual(guard.differences(here, there), ["swift 6.4 instead of 6.3.1"])

    def test_a_file_of_figures_comes_back_as_it_was_written(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "figures.json")
            guard.save(file, {"swift": "6.3.1"}, {"machine": self.before})
            self.assertEqual(guard.load(file), {"taken_with": {"swift": "6.3.1"}, "parts": {"machine": self.before}})
            pathlib.Path(file).write_text("nonsense")
            with self.assertRaisesRegex(stage.Failure, "cannot be read from"):
                guard.load(file)
            with self.assertRaisesRegex(stage.Failure, "cannot be read from"):
                guard.load(file + ".other")


class ReportTests(unittest.TestCase):
    def report(self):
        return bench.Report(types.SimpleNamespace(count=1, devices=1, partitions=1, connections=1, rounds=1))

    def test_a_budget_holds_or_is_missed(self):
        for figure, limit, at_least, standing in [
            (1, 1.25, False, "holds"), (1.25, 1.25, False, "holds"), (1.3, 1.25, False, "within a tenth"),
            (1.4, 1.25, False, "missed"), (0.9, 0.9, True, "holds"), (0.82, 0.9, True, "within a tenth"),
            (0.8, 0.9, True, "missed"),
        ]:
            report = self.report()
            report.budget("x", figure, limit, at_least)
            self.assertEqual(report.budgets[0]["standing"], standing, figure)

    def test_full_processors_excuse_only_what_is_missed(self):
        report = self.report()
        report.budget("x", 0.5, 0.9, True, excuse="processors full")
        report.budget("x", 0.95, 0.9, True, excuse="processors full")
        self.assertEqual([one["standing"] for one in report.budgets], ["processors full", "holds"])

    def test_percentiles_are_values_that_were_seen(self):
        self.assertEqual(stage.percentiles({ms: 1 for ms in range(1, 1_001)}), {"p50": 500, "p99": 990, "p99.9": 999})
        self.assertEqual(stage.percentiles({}), {})

    def test_of_several_rounds_the_cheapest_counts(self):
        report = self.report()
        row = lambda us: {bench.CPU: us, "open at most": 7_000, "max RSS MB": 60.0, "count": 1_000, "samples": []}
        for name, us in [("send_floor", 3), ("send_floor", 2), ("kafka_floor", 4), ("payload", 9), ("payload", 6),
                         ("payload", 8)]:
            report.add_cost(name, row(us))
        report.judge_costs()
        self.assertEqual(report.head["ratio"], 1)
        self.assertIn("worker / (send floor + Kafka floor)", report.text)
        self.assertIn('"ratio": 1', report.json)

    def test_words_of_measure(self):
        self.assertEqual(bench.parse(["-m", "floors,10-apps"]).measure, ["floors", "10-apps"])
        self.assertEqual(bench.parse(["-m", "all"]).measure, bench.SUBJECTS)
        for text in ("floors,,payload", "everything"):
            with self.assertRaises(SystemExit) as ending:
                bench.parse(["-m", text])
            self.assertEqual(ending.exception.code, 64)

    def test_payloads_are_equally_large(self):
        self.assertEqual(len({len(stage.payload(number)) for number in (0, 7, 999_999_999)}), 1)


if __name__ == "__main__":
    unittest.main()
