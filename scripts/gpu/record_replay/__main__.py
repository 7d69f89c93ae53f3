"""The program behind record-replay.sh and capture-samples.sh."""

import argparse
import importlib
import shutil
import sys
import tarfile
import tempfile
import time
import traceback

from .capture import write_table
from .report import Report
from .session import ROOT, Session, Unavailable, sample_table

STAGES = ["proc-address", "samples", "frameworks", "aslr", "overhead", "gigabyte", "sigkill"]
EXTRA = ["capture"]


def describe(session):
    """What this machine is, in a few lines."""
    for command in (["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.sm,temperature.gpu,power.draw",
                     "--format=csv,noheader"], ["uname", "-sr"], ["ldd", "--version"], ["nvcc", "--version"]):
        outcome = session.run(command, limit=20, log="machine")
        lines = outcome.stdout.decode(errors="replace").strip().splitlines()
        pick = lines[-1 if command[0] == "nvcc" else 0] if lines else outcome.why()
        print(f"  {command[0]:12} {pick}")
    try:
        replay = session.run([session.replay, "--version"], limit=20, log="machine")
        print(f"  {'r3-replay':12} {(replay.stdout or replay.stderr).decode(errors='replace').strip()[:100]}  {session.home()}")
    except Unavailable as missing:
        print(f"  {'r3':12} {missing}")


def main():
    parser = argparse.ArgumentParser(prog="record-replay.sh", description=__doc__)
    parser.add_argument("stages", nargs="*", default=["all"], help=f"all, or some of: {', '.join(STAGES + EXTRA)}")
    parser.add_argument("--out", default=ROOT / "dist" / "gpu-results",
                        help="results.jsonl and logs.tar.gz go here (default: dist/gpu-results)")
    parser.add_argument("--work", help="scratch folder (default: a new one, removed at the end)")
    parser.add_argument("--deadline", type=float, default=570, help="seconds for everything (default: %(default)s)")
    parser.add_argument("--table", action="store_true", help="only rewrite the table of capture-samples/README.md")
    arguments = parser.parse_args()
    stages = [stage for name in arguments.stages for stage in (STAGES if name == "all" else [name])]
    unknown = sorted(set(stages) - set(STAGES + EXTRA))
    if unknown:
        parser.error(f"no such stage: {', '.join(unknown)} (there are: all, {', '.join(STAGES + EXTRA)})")

    if arguments.table:
        write_table(sample_table())
        return 0
    work = arguments.work or tempfile.mkdtemp(prefix="r3-gpu-")
    session = Session(arguments.out, work, arguments.deadline)
    report = Report(session)
    describe(session)
    for stage in dict.fromkeys(stages):
        began = time.monotonic()
        print(f"\n=== {stage}", flush=True)
        try:
            importlib.import_module("." + stage.replace("-", "_"), __package__).run(session, report)
        except Unavailable as missing:
            report.add(stage, "stage", False, str(missing))
        except Exception as error:  # one broken stage must not take the others with it
            traceback.print_exc()
            report.add(stage, "stage", False, f"{type(error).__name__}: {error}")
        print(f"  ({stage}: {time.monotonic() - began:.0f} s)", flush=True)
    code = report.totals()
    with tarfile.open(session.out / "logs.tar.gz", "w:gz") as tar:
        tar.add(session.logs, arcname="logs")
    shutil.rmtree(session.logs)
    if not arguments.work:
        shutil.rmtree(work, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
