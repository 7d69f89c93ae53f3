"""Stage remix-time: how long kernels take when they are lifted and optimised, against the original."""

import math
import statistics

from .evaluating import recorded
from .remixing import RIGHT, remix, trials
from .session import SAMPLES

STAGE = "remix-time"
PROGRAMS = ("grids", "sums", "points")
LIMIT = 0.02  # of the median ratio
SHORT = 5.0  # µs: below this, a time says little


def measured(session, report, name, archive, *options):
    """Ratios of the kernels of an archive: (kernel, microseconds, ratio, low, high, registers before, after, launch)."""
    said, outcome = remix(session, archive, f"time-{name}", "-O3", "--bench", "--runs", "30", *options, limit=150)
    if not said:
        report.add(STAGE, name, False, outcome.why())
        report.details(outcome)
        return
    seen = set()
    for kernel, candidate, trial in trials(said):
        if trial["verdict"] == "guard":
            continue
        if trial["verdict"] not in RIGHT or not trial.get("pairs"):
            report.add(STAGE, f"{name}: {kernel['kernel']}", False, f"{trial['verdict']} {trial.get('reason') or ''}"[:200])
            continue
        if kernel["name"] in seen:
            continue
        seen.add(kernel["name"])
        pairs = trial["pairs"]
        used = [side["used"]["registers"] if side.get("used") else "?" for side in (trial["original"], trial["remixed"])]
        ratio = pairs["ratio"]
        yield {"kernel": kernel["kernel"].split("(")[0].removeprefix("void "), "us": pairs["original"]["median"] / 1e3,
               "ratio": ratio["median"], "low": ratio["low"], "high": ratio["high"], "registers": f"{used[0]} -> {used[1]}"}


def row(report, label, found):
    report.add(STAGE, label, None, us=round(found["us"], 1), ratio=found["ratio"], low=found["low"], high=found["high"],
               registers=found["registers"])


def run(session, report):
    session.home()
    all_archives = list(recorded(session, report, STAGE, PROGRAMS, "remix", "1"))
    all_archives += [(path.stem, path) for path in sorted((SAMPLES / "archives").glob("*.r3"))
                     if session.samples.get(path.stem, {}).get("check") != "noise" and path.stem not in ("wilson_sass", "nvrtc")]
    plain = [dict(found, program=name) for name, archive in all_archives for found in measured(session, report, name, archive)]
    long = [found for found in plain if found["us"] >= SHORT]
    if long:
        ratios = [found["ratio"] for found in long]
        middle = statistics.median(ratios)
        report.add(STAGE, "median, O3", abs(middle - 1) <= LIMIT, f"{len(long)} kernels of {SHORT:.0f} µs and more; limit ±{LIMIT:.0%}",
                   ratio=middle, low=min(ratios), high=max(ratios))
        report.add(STAGE, "geometric mean, O3", None, ratio=math.exp(statistics.mean(map(math.log, ratios))))
        ordered = sorted(long, key=lambda found: found["ratio"])
        for number, found in enumerate(ordered[:10], 1):
            row(report, f"best {number}: {found['kernel']} ({found['program']})", found)
        for number, found in enumerate(reversed(ordered[-10:]), 1):
            row(report, f"worst {number}: {found['kernel']} ({found['program']})", found)
    else:
        report.add(STAGE, "median, O3", False, "nothing was measured")
    special = [dict(found, program=name) for name, archive in all_archives if name in PROGRAMS
               for found in measured(session, report, name, archive, "--specialize", "all")]
    special = [found for found in special if found["us"] >= SHORT]
    if special:
        ratios = [found["ratio"] for found in special]
        report.add(STAGE, "geometric mean, O3 with all facts", None, f"{len(special)} kernels",
                   ratio=math.exp(statistics.mean(map(math.log, ratios))), low=min(ratios), high=max(ratios))
        for number, found in enumerate(sorted(special, key=lambda found: found["ratio"])[:5], 1):
            row(report, f"all facts, best {number}: {found['kernel']}", found)
    report.table(STAGE)
