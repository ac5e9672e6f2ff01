"""`apns-bench plot FILE`: draws a history (`apns-bench --history FILE`) as an SVG chart."""

import json, sys

CURVES = [("payload", "#b5402a"), ("envelope", "#c98a1b"), ("fan-out", "#6b7f2a"), ("send_floor", "#2a6fb5"),
          ("kafka_floor", "#555555")]


def panel(title, top, curves, left=60, width=600, height=200):
    """Curves of (name, color, values) from zero; a value is None where a run did not measure it."""
    most = max((value for _, _, values in curves for value in values if value), default=1) * 1.1
    y = lambda value: round(top + height - value / most * height, 1)
    yield f'<text x="{left}" y="{top - 10}" font-weight="bold">{title}</text>'
    for step in range(5):
        value = most * step / 4
        yield f'<line x1="{left}" x2="{left + width}" y1="{y(value)}" y2="{y(value)}" stroke="#ddd"/>'
        yield f'<text x="{left - 6}" y="{y(value)}" text-anchor="end">{value:.2f}</text>'
    for place, (name, color, values) in enumerate(curves):
        x = lambda run: round(left + width * run / max(1, len(values) - 1), 1)
        points = " ".join(f"{x(run)},{y(value)}" for run, value in enumerate(values) if value is not None)
        yield f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>'
        yield f'<text x="{left + width + 10}" y="{top + 14 + 18 * place}" fill="{color}">{name}</text>'


def main(words):
    if len(words) != 1 or words[0].startswith("-"):
        sys.exit(__doc__)
    with open(words[0]) as file:
        runs = [json.loads(line) for line in file if line.strip()]
    costs = [(name, color, [run.get("costs", {}).get(name, {}).get("CPU us each") for run in runs])
             for name, color in CURVES]
    ratio = [("budget", "#2a8f4a", [1.25] * len(runs)), ("ratio", "#b5402a", [run.get("ratio") for run in runs])]
    print('<svg xmlns="http://www.w3.org/2000/svg" width="860" height="540" font-family="sans-serif" font-size="12">',
          *panel("CPU of the whole worker / (send floor + Kafka floor)", 30, ratio),
          *panel("CPU of a notification, microseconds", 290, costs),
          *(f'<text x="{x}" y="520">{run["at"][:10]} {run["commit"]}</text>' for x, run in ((60, runs[0]), (560, runs[-1]))),
          "</svg>", sep="\n")
