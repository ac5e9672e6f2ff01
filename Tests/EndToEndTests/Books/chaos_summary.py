"""What came out of a chaos run, for people."""

import statistics
from collections import Counter

GROWTH = 1.05  # at most, of the untouched worker's memory from the second third of a long run to its last


def resident(chaos):
    """The untouched worker's memory, in kilobytes; a finding where it grew.

    What it takes while a fault has made a backlog says nothing of growth, and what the first large one took stays with
    malloc: the calm moments are compared after a third of the run, by when each kind of fault has come.
    """
    steady = chaos.workers["steady"]
    end = steady.resident[-1][0]
    memory = {
        "peak": max(kilobytes for _, kilobytes in steady.resident),
        "calm in the second third": steady.calm_resident(end / 3, end * 2 / 3),
        "calm in the last": steady.calm_resident(end * 2 / 3, end + 1)}
    if end > 900 and memory["calm in the last"] > GROWTH * memory["calm in the second third"]:
        chaos.found("the worker that was never touched grew: in its calm moments it took {calm in the second third} kB in "
                    "the second third, {calm in the last} in the last".format(**memory))
    return memory


def spread(values, unit=""):
    return (f"median {statistics.median(values):.0f}{unit}, least {min(values):.0f}, most {max(values):.0f}, of "
            f"{len(values)}") if values else "none"


def kills(chaos):
    measured = [k for k in chaos.kills if "repeats" in k]
    yield f"kills: {len(chaos.kills)}, measured {len(measured)}, noted in time to be exact " \
          f"{sum(k['is_exact'] for k in measured)}"
    for name, text in (
            ("repeats", "sent again"), ("in_flight", "in flight at the kill"),
            ("uncommitted", "answered, and not committed, at the kill"),
            ("through_retries", "sent again from a retry topic"),
            ("commit_age_ms", "ms from the last commit to the kill"), ("pause_ms", "ms from the kill to the restart")):
        yield f"  {text}: " + spread([k[name] for k in measured if k[name] is not None])
    # Not where it held a backlog's tail, or the broker had just come back: those are in the second line.
    least = min(10, chaos.options.every / 2)
    for label, chosen in (
            (f"with broker and simulator up for {least:.0f} s", [k for k in measured if k["quiet"] >= least]),
            ("all", measured)):
        for name, text in (("first_ms", "read"), ("first_written_ms", "written")):
            values = [k[name] for k in chosen if k[name] is not None]
            yield f"  ms from the restart until its first result was {text}, {label}: " + spread(values)
            if name == "first_ms" and chaos.options.first_within and values and label != "all" and (
                    statistics.median(values) > chaos.options.first_within):
                chaos.found(f"the first result after a kill came {statistics.median(values):.0f} ms after the restart")


def show(chaos, answer):
    """Prints everything; the findings of the audit become the run's."""
    load = chaos.load.state
    lines = [
        f"{chaos.seconds():.0f} s, {load['notifications']} notifications written "
        f"({load['notifications'] / (chaos.options.minutes * 60):.0f}/s; the producer was held for "
        f"{chaos.held_seconds:.0f} s), producers {load['producers']}"]
    lines += [f"{name}: {value}" for name, value in answer["summary"].items()]
    lines.append("faults: " + ", ".join(f"{kind} {count}" for kind, count in sorted(chaos.counts.items())))
    lines.append("memory of the worker never touched, kB: " + ", ".join(
        f"{name} {value:.0f}" for name, value in chaos.memory.items() if value))
    if not chaos.options.calm:
        lines += kills(chaos)
    said = Counter()
    for worker in chaos.workers.values():
        for line in worker.text().splitlines() if worker.process else ():
            words = line.split(" ", 3)
            if len(words) == 4 and words[1] in ("warning", "error", "critical"):
                said[f"{words[1]} {words[2]} " + " ".join(w for w in words[3].split(" ") if "=" not in w)[:60]] += 1
    lines += [f"  the workers said {count} times: {text}" for text, count in said.most_common(12)]
    chaos.findings += answer["findings"]
    print("\n".join(lines))
    lost = [finding for finding in chaos.findings if "LOST" in finding]
    print("lost: " + ("\n".join(lost) if lost else "0"))
    print("\n".join(chaos.findings) or "no findings")
    print("THE BOOKS DO NOT AGREE" if chaos.findings else "the books agree", flush=True)
