"""Stage cpu-scaling: thread-instructions per second of the CPU device on 1, 2, 4, … host threads."""

import json
import os
import shutil

from .session import ROOT, Unavailable

THREADS = [1, 2, 4, 8, 16]


def program(session):
    """The benchmark program, beside R3's programs or where it was built."""
    places = [session.home() / "bin", ROOT / "dist", ROOT / "target" / "release" / "examples"]
    for place in places:
        for name in ("r3-emu-kernels", "kernels"):
            found = shutil.which(name, path=os.fspath(place))
            if found:
                return found
    raise Unavailable(f"no r3-emu-kernels in {', '.join(map(str, places))}: scripts/package.sh --tests builds it")


def run(session, report):
    tool = program(session)
    cores = len(os.sched_getaffinity(0))
    rates = {}
    for threads in [threads for threads in THREADS if threads <= cores]:
        measured = session.run([tool, "--threads", threads], limit=60, log=f"cpu-scaling-{threads}")
        lines = [json.loads(line) for line in measured.stdout.splitlines() if line.startswith(b"{")]
        if not measured.ok or not lines:
            report.add("cpu-scaling", f"{threads} threads", False, measured.why())
            report.details(measured)
            continue
        for line in lines:
            rates.setdefault(line["kernel"], {})[threads] = line["thread_instructions_per_second"]
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")), "")
    for kernel, by_threads in rates.items():
        columns = {f"{threads} ({'core' if threads == 1 else 'cores'})": f"{rate / 1e9:.2f}" for threads, rate in by_threads.items()}
        most = max(by_threads)
        faster = round(by_threads[most] / by_threads[1], 1) if 1 in by_threads else ""
        report.add("cpu-scaling", kernel, None, **columns, **{f"{most} against 1": faster})
    report.add("cpu-scaling", "measured", bool(rates), f"10⁹ thread-instructions per second; {cores} cores, {model}")
    report.table("cpu-scaling")
