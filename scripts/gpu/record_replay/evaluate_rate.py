"""Stage evaluate-rate: candidates per second, end to end, on a small kernel."""

import os

from .evaluate_faults import written
from .evaluating import compiled, evaluate

STAGE = "evaluate-rate"
COUNT = 600
LEAST = 100.0


def candidates(route, incumbent):
    """Other machine code each. None of them is faster than the original."""
    made = []
    for number in range(COUNT):
        line = {"candidate": {"code": {"ptx": written("right", number + 1)}, "build": compiled(route=route)["candidate"]["build"]}}
        if route == "lift":
            line["candidate"]["build"]["passes"] = "default<O3>"
        made.append(dict(line, label=str(number), plan={"incumbent": incumbent, "allowed": {"rules": ["inputs"]}}))
    return made


def run(session, report):
    session.home()
    archive = session.folder(STAGE) / "selftest.r3"
    made = session.run([session.replay, "selftest", "--write-archive", archive], limit=30, log="rate-archive")
    if not archive.exists():
        report.add(STAGE, "archive", False, made.why())
        report.table(STAGE)
        return
    cache = session.folder("rate-cache")
    for name, route, incumbent, options, limit in (
            ("lifted, -O3", "lift", 0.9, ["--cache", cache], LEAST), ("the same, from the cache", "lift", 0.9, ["--cache", cache], LEAST),
            ("PTX as it is", "text", 0.9, ["--cache-size", "0"], LEAST),
            ("PTX as it is, each raced to the end", "text", None, ["--cache-size", "0"], None)):
        lines, summary, outcome = evaluate(session, archive, "scale_add", candidates(route, incumbent), *options, log=f"rate-{name}")
        if not summary:
            report.add(STAGE, name, False, outcome.why())
            report.details(outcome)
            continue
        right = sum(line["outcome"]["verdict"] == "right" for line in lines)
        measured = sum(not (line["outcome"].get("code") or {}).get("equal_to") for line in lines)
        status = summary["status"]
        good = right == len(lines) == COUNT and summary["per_second"] >= (limit or 0)
        report.add(STAGE, name, good, f"limit {limit:.0f}/s" if limit else "", candidates=len(lines), right=right, measured=measured,
                   per_second=summary["per_second"], compilers_busy=status["compilers_busy"], device_busy=status["devices_busy"], workers=os.cpu_count())
    report.table(STAGE)
