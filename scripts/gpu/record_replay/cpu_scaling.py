"""Stage cpu-scaling: thread-instructions per second of the CPU device on 1, 2, 4, … host threads."""

import json
import os

from .session import tool

THREADS = [1, 2, 4, 8, 16]


def model():
    """The processor of this machine."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown processor")


def rates(session, threads, log):
    """Thread-instructions per second by kernel, and the outcome."""
    program = tool(session, "r3-emu-kernels")
    measured = session.run([program, "--threads", threads], limit=60, log=log)
    lines = [json.loads(line) for line in measured.stdout.splitlines() if line.startswith(b"{")] if measured.ok else []
    return {line["kernel"]: line["thread_instructions_per_second"] for line in lines}, measured


def run(session, report):
    cores = len(os.sched_getaffinity(0))
    table = {}
    for threads in [threads for threads in THREADS if threads <= cores]:
        measured, outcome = rates(session, threads, f"cpu-scaling-{threads}")
        if not measured:
            report.add("cpu-scaling", f"{threads} threads", False, outcome.why())
            report.details(outcome)
        for kernel, rate in measured.items():
            table.setdefault(kernel, {})[threads] = rate
    for kernel, by_threads in table.items():
        columns = {f"{threads} thread{'s' if threads > 1 else ''}": f"{rate / 1e9:.2f}" for threads, rate in by_threads.items()}
        most = max(by_threads)
        faster = round(by_threads[most] / by_threads[1], 1) if 1 in by_threads else ""
        report.add("cpu-scaling", kernel, None, **columns, speedup=faster)
    report.add("cpu-scaling", "measured", bool(table), f"10⁹ thread-instructions per second; {cores} cores, {model()}")
    report.table("cpu-scaling")
