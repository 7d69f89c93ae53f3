"""Stage evolve-rate: how many variants a minute are compiled, judged and timed with built-in rewrites, and what bounds it."""

import os

from .evolving import reported, searched, subject

STAGE = "evolve-rate"
SECONDS = 30
# A short kernel with little state, with each compiler; a longer one.
RUNS = (("nbody", "nvrtc"), ("nbody", "nvcc"), ("wilson", "nvrtc"))


def run(session, report):
    session.home()
    made = {}
    for name, compiler in RUNS:
        made[name] = made.get(name) or subject(session, report, STAGE, name)
        if not made[name]:
            continue
        archive, kernel, source, options, tolerance = made[name]
        said, outcome, folder = searched(session, "evolve", archive, kernel, "--source", source, *[f"--option={option}" for option in options],
                                         "--compiler", compiler, "--time", f"{SECONDS}s", "--no-models", "--tolerance-file", tolerance,
                                         log=f"rate-{name}-{compiler}", limit=SECONDS + 90)
        if not said:
            report.add(STAGE, f"{name}, {compiler}", False, outcome.why())
            report.details(outcome)
            continue
        told = reported(session, folder, f"rate-{name}-{compiler}")
        curve, load = told.get("curve", {}), dict(told.get("load", []))
        minutes = max(curve.get("seconds", 0), 1) / 60
        bound = max(load, key=load.get, default="")
        report.add(STAGE, f"{name}, {compiler}", curve.get("variants", 0) > 0, f"most of the time: {bound}", workers=os.cpu_count(),
                   variants_per_minute=curve.get("variants", 0) / minutes, evaluations_per_minute=curve.get("evaluations", 0) / minutes,
                   **{key.replace(" ", "_"): value for key, value in load.items()}, us=round(said["original_ns"] / 1e3, 1))
    report.table(STAGE)
