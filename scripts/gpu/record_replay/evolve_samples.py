"""Stage evolve-samples: source searched with built-in rewrites alone, against the recorded binary and against `tune` alone."""

import concurrent.futures
import json
import os
import shutil

from .evolving import SUBJECTS, reported, searched, subject
from .session import Unavailable

STAGE = "evolve-samples"
SHORT = ("--set", "ablation=no")


def gpus(session):
    outcome = session.run(["nvidia-smi", "-L"], limit=20, log="gpus")
    return max(len([line for line in outcome.stdout.splitlines() if line.startswith(b"GPU")]), 1)


def over(evolved, tuned):
    """The evolved kernel's time as a part of the tuned one's. Both were measured against the same binary: the interval is that of two
    intervals at their worst."""
    return {"over_tune": evolved["median"] / tuned["median"], "over_tune_low": evolved["low"] / tuned["high"], "over_tune_high": evolved["high"] / tuned["low"]}


def one(session, report, name, gpu, workers):
    """One sample on one GPU: recorded, tuned, evolved."""
    made = subject(session, report, STAGE, name)
    if not made:
        return
    archive, kernel, source, options, tolerance = made
    seconds, beside = float(os.environ.get("R3_EVOLVE_SECONDS", "600")), float(os.environ.get("R3_TUNE_SECONDS", "180"))
    judged = ["--tolerance-file", tolerance, "--approximate", "functions", "--workers", workers]
    tuned, outcome, _ = searched(session, "tune", archive, kernel, "--time", f"{beside}s", *judged, *SHORT,
                                 log=f"tune-{name}", limit=beside + 120, gpu=gpu)
    if not tuned:
        report.add(STAGE, name, False, f"tune: {outcome.why()}")
        report.details(outcome)
        return
    found, outcome, folder = searched(session, "evolve", archive, kernel, "--source", source, *[f"--option={option}" for option in options],
                                      "--time", f"{seconds}s", "--no-models", *judged, log=f"evolve-{name}", limit=seconds + 180, gpu=gpu)
    if not found:
        report.add(STAGE, name, False, f"evolve: {outcome.why()}")
        report.details(outcome)
        return
    told = reported(session, folder, f"{STAGE}-{name}")
    page = session.out / f"{name}.html"
    for words in (["report", folder, "-o", page], ["show", folder], ["export", folder, "--format", "source"]):
        session.run([session.replay.with_name("r3-evolve"), *words], limit=60, log=f"{words[0]}-{name}")
    best, base = found.get("best") or {}, tuned.get("best") or {}
    none = {"median": 1.0, "low": 1.0, "high": 1.0}
    ratio = best.get("ratio") if found["claim"] else none
    other = base.get("ratio") if tuned["claim"] else none
    steps = [step["lineage"]["by"] for step in (found.get("source") or {}).get("lineage", [])][1:]
    note = " → ".join(steps) + ("; " + ", ".join(best.get("knobs", [])) if found["claim"] else "; " + found["reason"])
    curve = told.get("curve", {})
    report.add(STAGE, name, bool(found["claim"]), note, ratio=ratio["median"], low=ratio["low"], high=ratio["high"],
               given=(told.get("source") or {}).get("median", ""), tune=other["median"], **over(ratio, other),
               variants=curve.get("variants", ""), evaluations=found["evaluations"], seconds=round(found["seconds"]),
               compilers=found["utilisation"]["compile"], device=found["utilisation"]["device"], us=round(found["original_ns"] / 1e3, 1))
    shutil.copyfile(folder / "best.r3t", session.out / f"{name}.r3t") if (folder / "best.r3t").exists() else None
    (session.logs / f"{name}.report.json").write_text(json.dumps(told))


def run(session, report):
    session.home()
    wanted = os.environ.get("R3_EVOLVE_ONLY", " ".join(SUBJECTS)).split()
    there = gpus(session)
    workers = max((os.cpu_count() or 4) // there, 1)
    free = list(range(there))
    # One search on each GPU at a time.
    with concurrent.futures.ThreadPoolExecutor(there) as threads:
        def next_on(name):
            gpu = free.pop()
            try:
                one(session, report, name, gpu, workers)
            except Unavailable as missing:
                report.add(STAGE, name, False, str(missing))
            finally:
                free.append(gpu)
        list(threads.map(next_on, wanted))
    report.table(STAGE)
