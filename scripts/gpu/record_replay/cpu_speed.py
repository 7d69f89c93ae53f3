"""Stage cpu-speed: the CPU device on one core and the PTX parser, against what R3 promises of them."""

import json

from .cpu_scaling import model, rates
from .session import tool

# Thread-instructions per second on one core; bytes per second of text.
KERNELS = {"saxpy": 1.5e9, "matmul": 0.4e9, "reduce": 0.4e9, "collatz": 0.4e9, "nbody": 0.4e9}
PARSE = 50e6


def parser(session, report):
    """Rows of the parser's benchmark; criterion leaves its results as files."""
    program = tool(session, "r3-ptx-parse")
    folder = session.folder("criterion")
    outcome = session.run([program, "--bench", "--noplot", "--warm-up-time", "1", "--measurement-time", "2"], cwd=folder,
                          limit=90, env=session.environment(CRITERION_HOME=folder), log="cpu-speed-parse")
    found = sorted(folder.glob("*/*/new/benchmark.json"))
    if not outcome.ok or not found:
        report.add("cpu-speed", "parser", False, outcome.why())
        report.details(outcome)
    for path in found:
        what = json.loads(path.read_text())
        nanoseconds = json.loads((path.parent / "estimates.json").read_text())["median"]["point_estimate"]
        rate = what["throughput"]["Bytes"] / nanoseconds * 1e9
        promised = PARSE if what["function_id"] == "parse" else None
        report.add("cpu-speed", f"{what['function_id']}, {what['group_id']}", rate >= promised if promised else None,
                   rate=f"{rate / 1e6:.0f} MB/s", target=f"{promised / 1e6:.0f} MB/s" if promised else "")


def run(session, report):
    measured, outcome = rates(session, 1, "cpu-speed")
    if not measured:
        report.add("cpu-speed", "kernels", False, outcome.why())
        report.details(outcome)
    for kernel, rate in measured.items():
        promised = KERNELS[kernel]
        report.add("cpu-speed", kernel, rate >= promised, rate=f"{rate / 1e9:.2f} · 10⁹/s", target=f"{promised / 1e9:.1f} · 10⁹/s")
    parser(session, report)
    report.add("cpu-speed", "measured", None, f"one core; kernels: thread-instructions; {model()}")
    report.table("cpu-speed")
