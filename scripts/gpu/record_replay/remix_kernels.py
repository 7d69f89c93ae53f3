"""Stage remix-kernels: small PTX kernels and random programs, compiled anew, against themselves on this GPU."""

import json
import os

from .session import ROOT, tool

STAGE = "remix-kernels"
COLUMNS = ("cases", "same_bits", "within_bound", "other_nans", "known", "stopped", "failed")
RANDOM = 500  # random programs besides the tables
DEEP = 300  # kernels that are tried with random pipelines too


def run(session, report):
    program = tool(session, "r3-ptx-differential")
    recorded = ROOT / "tests" / "differential" / "h200.zst"
    given = ["--recorded", recorded] if recorded.exists() else []
    processes = min(os.cpu_count() or 4, 14)
    outcome = session.run([program, "lifted", "--device", "cuda", "--random", RANDOM, "--random-pipelines", "10", "--random-cases",
                           DEEP, "--processes", processes, "--json", *given], limit=240, log=STAGE)
    pipelines = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith(b"{")]
    for of in pipelines:
        fields = {key: of[key] for key in COLUMNS}
        report.add(STAGE, of["pipeline"], of["failed"] == 0, **fields)
    wrong = [line for line in outcome.stderr.decode(errors="replace").splitlines() if line.startswith("FAIL")]
    total = {key: sum(of[key] for of in pipelines) for key in COLUMNS}
    report.add(STAGE, "all", outcome.ok and bool(pipelines), "; ".join(wrong[:2])[:300] or ("" if outcome.ok else outcome.why()),
               **total, s=round(outcome.seconds, 1))
    if not outcome.ok:
        report.details(outcome)
    report.table(STAGE)
