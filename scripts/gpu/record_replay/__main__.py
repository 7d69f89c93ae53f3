"""The program behind record-replay.sh, ptx.sh, remix.sh, evaluate.sh, tune.sh, evolve.sh and capture-samples.sh."""

import argparse
import importlib
import pathlib
import shutil
import sys
import tarfile
import tempfile
import time
import traceback

from .capture import write_table
from .document import write_document
from .report import Report
from .session import ROOT, Session, Unavailable, sample_table

# Each with the seconds that it may take, so that a hang in one leaves time for the others.
STAGES = {"proc-address": 60, "samples": 150, "frameworks": 150, "aslr": 60, "replay": 90, "overhead": 110, "gigabyte": 90, "sigkill": 100}
PTX = {"differential": 300, "cpu-programs": 240, "cpu-speed": 120, "cpu-scaling": 120}
REMIX = {"remix-samples": 150, "remix-spot": 120, "remix-kernels": 240, "remix-time": 200, "remix-attach": 90, "remix-pool": 60}
EVALUATE = {"evaluate-device": 60, "evaluate-selftest": 200, "evaluate-speed": 120, "evaluate-rate": 120, "evaluate-faults": 300,
            "evaluate-noise": 150}
TUNE = {"tune-levers": 400, "tune-samples": 9000}
EVOLVE = {"evolve-samples": 6000, "evolve-rate": 300}
EXTRA = {"capture": 240, "runtimes": 60}
LIMITS = STAGES | PTX | REMIX | EVALUATE | TUNE | EVOLVE | EXTRA
GROUPS = {"all": STAGES, "ptx": PTX, "remix": REMIX, "evaluate": EVALUATE, "tune": TUNE, "evolve": EVOLVE}


def describe(session, report):
    """What this machine is, in a few lines."""
    machine = {}
    for name, command, line in (
            ("gpu", ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], 0),
            ("state", ["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw", "--format=csv,noheader"], 0),
            ("kernel", ["uname", "-sr"], 0), ("libc", ["ldd", "--version"], 0), ("compiler", ["nvcc", "--version"], -1)):
        outcome = session.run(command, limit=20, log="machine")
        lines = outcome.stdout.decode(errors="replace").strip().splitlines()
        machine[name] = lines[line] if lines else outcome.why()
    try:
        asked = session.run([session.replay, "--version"], limit=20, log="machine")
        machine["r3"] = (asked.stdout or asked.stderr).decode(errors="replace").strip()[:100] or asked.why()
    except Unavailable as missing:
        machine["r3"] = str(missing)
    for name, value in machine.items():
        print(f"  {name:10}{value}")
    report.write({"stage": "machine", **machine})


def scratch():
    """A scratch folder, with the same name in every run: archives hold the paths of programs."""
    usual = pathlib.Path(tempfile.gettempdir()) / "r3-gpu"
    try:
        usual.mkdir()
    except FileExistsError:
        return tempfile.mkdtemp(prefix="r3-gpu-")
    return usual


def main():
    parser = argparse.ArgumentParser(prog="record-replay.sh", description=__doc__)
    parser.add_argument("stages", nargs="*", help=f"all, ptx, remix, evaluate, tune, evolve, or some of: {', '.join(LIMITS)}")
    parser.add_argument("--default", default="all", help="what runs when no stage is named")
    parser.add_argument("--out", default=ROOT / "dist" / "gpu-results",
                        help="results.jsonl and logs.tar.gz go here (default: dist/gpu-results)")
    parser.add_argument("--work", help="scratch folder (default: a new one, removed at the end)")
    parser.add_argument("--deadline", type=float, default=570, help="seconds for everything (default: %(default)s)")
    parser.add_argument("--table", action="store_true", help="only rewrite the table of capture-samples/README.md")
    parser.add_argument("--document", metavar="RESULTS", help="only put a results.jsonl into docs/gpu-results.md")
    arguments = parser.parse_args()
    stages = [stage for name in arguments.stages or [arguments.default] for stage in GROUPS.get(name, [name])]
    unknown = sorted(set(stages) - set(LIMITS))
    if unknown:
        parser.error(f"no such stage: {', '.join(unknown)} (there are: all, ptx, remix, evaluate, tune, evolve, {', '.join(LIMITS)})")

    if arguments.table:
        write_table(sample_table())
        return 0
    if arguments.document:
        write_document(arguments.document)
        return 0
    work = arguments.work or scratch()
    session = Session(arguments.out, work, arguments.deadline)
    report = Report(session)
    describe(session, report)
    for stage in dict.fromkeys(stages):
        began = time.monotonic()
        session.allow(LIMITS[stage])
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
    failed = session.out / "failed-archives"
    if failed.exists():
        with tarfile.open(session.out / "failed-archives.tar", "w") as tar:
            tar.add(failed, arcname=failed.name)
        shutil.rmtree(failed)
    if not arguments.work:
        shutil.rmtree(work, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
