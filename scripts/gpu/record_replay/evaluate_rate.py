"""Stage evaluate-rate: candidates per second, end to end, on a small kernel."""

import os

from .evaluating import compiled, evaluate
from .session import SAMPLES

STAGE = "evaluate-rate"
LEAST = 100.0


def candidates(count):
    """Different machine code each: unroll counts, register caps and blocks, lifted."""
    made = []
    for number in range(count):
        build = {"route": "lift", "passes": "default<O3>", "unroll": {"count": 1 + number % 16},
                 "bounds": {"maxnreg": 24 + 8 * (number // 16 % 8), "maxntid": None, "minnctapersm": None}}
        made.append(compiled(f"{number}", block=[64 + 32 * (number // 128 % 8), 1, 1], **build))
    return made


def run(session, report):
    session.home()
    archive = SAMPLES / "archives" / "saxpy.r3"
    for name, options in (("no cache", ["--cache-size", "0"]), ("from the cache", [])):
        cache = session.work / "rate-cache"
        more = options or ["--cache", cache]
        if not options:
            evaluate(session, archive, "saxpy", candidates(600), *more, "--plan", "search", log="rate-fill")
        lines, summary, outcome = evaluate(session, archive, "saxpy", candidates(600), *more, "--plan", "search", log=f"rate-{name}")
        if not summary:
            report.add(STAGE, name, False, outcome.why())
            report.details(outcome)
            continue
        right = sum(line["outcome"]["verdict"] == "right" for line in lines)
        measured = sum(not (line["outcome"].get("code") or {}).get("equal_to") for line in lines)
        status = summary["status"]
        enough = summary["per_second"] >= LEAST or options == []
        report.add(STAGE, name, right == len(lines) == 600 and enough, f"limit {LEAST:.0f}/s" if options else "", candidates=len(lines), right=right,
                   measured=measured, per_second=summary["per_second"], compilers_busy=status["compilers_busy"], device_busy=status["devices_busy"],
                   workers=os.cpu_count())
    report.table(STAGE)
