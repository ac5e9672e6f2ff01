"""What came out of a chaos run, for people."""

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
        lines.append(f"kills: {chaos.kills}")
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
