"""Stage overhead: what a launch costs with the shim loaded.

In each process the hooked and the driver's own launch function take turns, batch by batch; a ratio is taken within its
pair. Processes without the shim show how far apart equal things come out.
"""

import json
import random
import statistics

from .session import SOURCES

PROCESSES = 5
# 100 pairs of batches of 2,000 launches and 400 pairs of bursts of 250: a million hooked launches of each kind.
PAIRS, BATCH, BURSTS, BURST = 100, 2000, 800, 250
LIMIT = 1.01


def interval(ratios, draws=1000):
    """95 % bootstrap interval of the median."""
    generator = random.Random(1)
    medians = sorted(statistics.median(generator.choices(ratios, k=len(ratios))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def run(session, report):
    session.home()
    built, made = session.build(SOURCES, "measuring")
    program = built / "launch_overhead"
    if not program.exists():
        report.add("overhead", "build", False, made.why())
        report.details(made)
        return
    folder = session.folder("overhead")
    arms = {
        "no shim": session.environment(),
        "nothing selected": session.shim(folder, R3_KERNEL="^no_kernel_has_this_name$"),
        "default selection": session.shim(folder),
    }
    pairs = {name: {"stream": [], "issue": []} for name in arms}
    for number in range(PROCESSES):
        for name, environment in arms.items():
            outcome = session.run([program, PAIRS, BATCH, BURSTS, BURST], env=environment, limit=30,
                                  log=f"overhead-{number}-{name.replace(' ', '-')}")
            if not outcome.ok:
                report.add("overhead", f"{name}: a process failed", False, outcome.why())
                report.details(outcome)
                continue
            data = json.loads(outcome.stdout)
            if data["hooked"] != (name != "no shim"):
                report.add("overhead", f"{name}: the hook was not where it was expected", False)
            for kind in pairs[name]:
                pairs[name][kind] += data[kind]
    for kind, what in (("stream", "back to back"), ("issue", "call alone")):
        for name in arms:
            if not pairs[name][kind]:
                continue
            hooked, bare = zip(*pairs[name][kind])
            ratios = [h / b for h, b in pairs[name][kind]]
            ratio, (low, high) = statistics.median(ratios), interval(ratios)
            judged = kind == "stream" and name == "nothing selected"
            added = statistics.median(h - b for h, b in pairs[name][kind])
            report.add("overhead", f"{what}: {name}", ratio <= LIMIT if judged else None,
                       f"limit {LIMIT}" if judged else "", bare_ns=round(statistics.median(bare), 1),
                       hooked_ns=round(statistics.median(hooked), 1), added_ns=round(added, 1),
                       ratio=round(ratio, 4), low=round(low, 4), high=round(high, 4), pairs=len(ratios))
    report.table("overhead")
