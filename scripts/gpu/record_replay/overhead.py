"""Stage overhead: what a launch costs with the shim loaded, against a bare process.

Each round runs four processes in a rotating order: bare, the shim with nothing selected, the shim with its default
selection (the launches that it records, up to the 10,000th, all fall into the warm-up), and bare again. A ratio is
taken within its round; the second bare process shows how far apart equal things come out.
"""

import json
import random
import statistics

from .session import SOURCES

ROUNDS = 15
BATCHES, BATCH, BURSTS, BURST = 14, 5000, 274, 256  # 70,000 launches each: 1.05 million over 15 rounds
LIMIT = 1.01


def interval(ratios, draws=4000):
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
        "bare": session.environment(),
        "nothing selected": session.shim(folder, R3_KERNEL="^no_kernel_has_this_name$"),
        "default selection": session.shim(folder),
        "bare again": session.environment(),
    }
    rounds, failed = [], None
    for number in range(ROUNDS):
        names = list(arms)
        names = names[number % 4:] + names[:number % 4]
        measured = {}
        for name in names:
            outcome = session.run([program, BATCHES, BATCH, BURSTS, BURST], env=arms[name], limit=30,
                                  log=f"overhead-{number}-{name}")
            if not outcome.ok:
                failed = outcome
                continue
            data = json.loads(outcome.stdout)
            measured[name] = {key: statistics.median(data[key]) for key in ("stream_ns", "issue_ns")}
        if len(measured) == len(arms):
            rounds.append(measured)
    if failed:
        report.add("overhead", "a process failed", False, failed.why())
        report.details(failed)
    if len(rounds) < 5:
        report.add("overhead", "rounds", False, f"only {len(rounds)} complete rounds")
        report.table("overhead")
        return
    for key, what in (("stream_ns", "back to back"), ("issue_ns", "call alone")):
        bare = statistics.median(r["bare"][key] for r in rounds)
        for name in ("bare again", "nothing selected", "default selection"):
            ratios = [r[name][key] / r["bare"][key] for r in rounds]
            ratio, (low, high) = statistics.median(ratios), interval(ratios)
            judged = key == "stream_ns" and name == "nothing selected"
            cost = statistics.median(r[name][key] for r in rounds)
            report.add("overhead", f"{what}: {name}", ratio <= LIMIT if judged else None,
                       f"limit {LIMIT}" if judged else "", bare_ns=round(bare, 1), ns=round(cost, 1),
                       added_ns=round(cost - bare, 1), ratio=round(ratio, 4), low=round(low, 4), high=round(high, 4),
                       least=round(min(ratios), 4), most=round(max(ratios), 4), rounds=len(rounds))
    report.table("overhead")
