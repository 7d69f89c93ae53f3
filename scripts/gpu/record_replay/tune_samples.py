"""Stage tune-samples: the kernels of capture-samples, tuned; also where there is nothing to gain."""

import json
import os

from .session import SAMPLES
from .tune_levers import SHORT, SHORTER, best, tune

STAGE = "tune-samples"
# Each kernel once; of `reduction` the one that is the same from run to run. Device heap and graphs are no search's matter.
LEFT_OUT = {"wilson_sass", "saxpy_shared", "nbody_ptx", "graph", "printf_heap"}


def kernels(session, archive):
    """Names of the kernels of an archive that have a launch."""
    outcome = session.run([session.replay, "info", archive, "--json"], limit=30, log="info")
    try:
        said = json.loads(outcome.stdout)
    except ValueError:
        return []
    return [kernel["name"] for kernel in said["kernels"] if kernel["recorded"]]


def run(session, report):
    session.home()
    seconds = os.environ.get("R3_TUNE_SECONDS", "180")
    for path in sorted((SAMPLES / "archives").glob("*.r3")):
        if path.stem in LEFT_OUT:
            continue
        for kernel in kernels(session, path):
            label = f"{path.stem}: {kernel}"[:60]
            said, outcome = tune(session, path, kernel, "--time", f"{seconds}s", "--seed", "1", *SHORT, log=f"tune-{path.stem}", limit=float(seconds) + 60)
            if not said:
                report.add(STAGE, label, None if outcome.code == 3 else False, outcome.why())
                if outcome.code != 3:
                    report.details(outcome)
                continue
            drawn, _ = tune(session, path, kernel, "--strategy", "random", "--time", f"{seconds}s", "--seed", "1", *SHORTER, log=f"random-{path.stem}", limit=float(seconds) + 60)
            ratio = (said.get("best") or {}).get("ratio") or {"low": 1.0, "high": 1.0}
            won = ", ".join(said["best"]["knobs"]) if said["claim"] else said.get("reason") or "no gain"
            report.add(STAGE, label, None, won[:150], ratio=best(said), low=ratio["low"], high=ratio["high"], evaluations=said["evaluations"],
                       random=best(drawn), us=round((said.get("original_ns") or 0) / 1e3, 1))
    report.table(STAGE)
