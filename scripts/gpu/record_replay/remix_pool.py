"""Stage remix-pool: compilations per second of the worker pool."""

import json
import os

from .session import SAMPLES, tool

STAGE = "remix-pool"


def run(session, report):
    program = tool(session, "r3-compile-worker")
    folder = session.folder(STAGE)
    for archive in ("nbody", "reduction", "wilson"):
        session.run([session.replay, "extract", SAMPLES / "archives" / f"{archive}.r3", "--code", "--out", folder / archive], limit=30,
                    log="pool-extract")
    texts = sorted(folder.rglob("*.ptx"))
    for workers in (2, 16):
        outcome = session.run([program, "bench", "--workers", workers, "--seconds", "10", *texts], limit=60, log=f"pool-{workers}")
        try:
            said = json.loads(outcome.stdout)
        except ValueError:
            report.add(STAGE, f"{workers} workers", False, outcome.why())
            report.details(outcome)
            continue
        fields = {key: value for key, value in said.items() if isinstance(value, (int, float)) and key != "workers"}
        report.add(STAGE, f"{workers} workers", outcome.ok, f"{os.cpu_count()} cores", **fields)
    report.table(STAGE)
