"""Stage evaluate-noise: the original against itself never wins."""

from .evaluating import evaluate, recorded
from .session import SAMPLES

STAGE = "evaluate-noise"
RUNS = 30


def run(session, report):
    session.home()
    archives = [("saxpy", SAMPLES / "archives" / "saxpy.r3", "saxpy"), ("nbody", SAMPLES / "archives" / "nbody.r3", "step")]
    archives += [(name, archive, kernel) for name, archive in recorded(session, report, STAGE, ["heat2d", "bilateral"])
                 for kernel in [{"heat2d": "heat", "bilateral": "bilateral"}[name]]]
    for name, archive, kernel in archives:
        lines, _, outcome = evaluate(session, archive, kernel, [{"candidate": {}, "plan": {"again": True}} for _ in range(RUNS)], log=f"noise-{name}")
        scores = [line["outcome"]["score"] for line in lines if line["outcome"]["verdict"] == "right" and line["outcome"]["score"]]
        wins = sum(score["ratio"]["high"] < 1.0 and score["ratio"]["median"] < 1.0 - score["noise"] for score in scores)
        outside = sum(score["ratio"]["high"] < 1.0 or score["ratio"]["low"] > 1.0 for score in scores)
        medians = [score["ratio"]["median"] for score in scores]
        good = len(scores) == RUNS and wins == 0
        report.add(STAGE, name, good, "" if good else outcome.why(), runs=len(scores), wins=wins, interval_without_1=outside,
                   low=min(medians, default=0.0), high=max(medians, default=0.0), noise=max((score["noise"] for score in scores), default=0.0))
        if not good:
            report.details(outcome)
    report.table(STAGE)
