"""Stage evaluate-speed: what a candidate costs beside compilation and its kernels, with 256 MiB of state."""

import statistics

from .evaluating import compiled, evaluate, recorded, total

STAGE = "evaluate-speed"
RUNS = 20
MOST = 10.0  # ms for a candidate, outside compilation and kernels
FASTER = 20.0  # than one process for each candidate


def run(session, report):
    session.home()
    for _, archive in recorded(session, report, STAGE, ["state"]):
        # Ten pairs: twenty timed runs. Different register caps: different machine code.
        plan = {"launches": [{"launch": 1, "weight": 1.0}], "screen": 0, "warmup_pairs": 0, "least_pairs": RUNS // 2, "most_pairs": RUNS // 2}
        candidates = [dict(compiled(f"unrolled by {n}", route="lift", passes="default<O3>", unroll={"count": n}), plan=plan)
                      for n in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32)]
        lines, summary, outcome = evaluate(session, archive, "advance", candidates, log="speed")
        right = [line["outcome"] for line in lines if line["outcome"]["verdict"] == "right"]
        measured = [found for found in right if not found["code"]["equal_to"]]
        if len(measured) < 4:
            report.add(STAGE, "candidates", False, f"{len(measured)} measured; {outcome.why()}")
            report.details(outcome)
            break
        # The first one waits until the state is on the device.
        beside = [total(found) for found in measured[1:]]
        whole = [found["cost"]["device"] for found in measured[1:]]
        runs = statistics.median(found["cost"]["runs"] for found in measured[1:])
        kernel = statistics.median(found["launches"][0]["times"][0]["original"] for found in measured) / 1e6
        report.add(STAGE, "time beside compilation and kernels, median", statistics.median(beside) <= MOST, f"limit {MOST:.0f} ms",
                   ms=statistics.median(beside), least=min(beside), most=max(beside), candidates=len(beside), runs=runs, kernel_ms=kernel)
        # One process for each candidate: it opens the archive, restores, and times the kernel as often.
        walls = []
        for turn in range(3):
            alone = session.run([session.replay, "bench", archive, "--launch", "1", "--device", "cuda", "--runs", RUNS, "--warmup", "0"], limit=60, log=f"alone-{turn}")
            if alone.ok:
                walls.append(alone.seconds * 1e3)
            else:
                report.details(alone)
        if walls:
            ratio = statistics.median(walls) / statistics.median(whole)
            report.add(STAGE, "one process for each candidate", None, f"{RUNS} runs, restored before each", ms=statistics.median(walls), least=min(walls), most=max(walls))
            report.add(STAGE, "a candidate here, kernels included", ratio >= FASTER, f"{ratio:.0f} times faster; limit {FASTER:.0f}",
                       ms=statistics.median(whole), least=min(whole), most=max(whole))
        else:
            report.add(STAGE, "one process for each candidate", False, "did not run")
    report.table(STAGE)
