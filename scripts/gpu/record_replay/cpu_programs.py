"""Stage cpu-programs: programs recorded on this GPU, their launches verified on the CPU device."""

import json
import os
import re
import shutil

from . import samples
from .frameworks import ALONE, SIDE_BY_SIDE
from .session import SAMPLES, archives

KEYS = {"identical": "exact", "within": "within", "cannot_run": "cannot_run", "mismatch": "failed", "not_run": "failed"}
# Without this, JAX reserves three quarters of the GPU, and each launch reaches more than this machine's memory.
ENVIRONMENT = {"jax_jit": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}}


def record(session, name, command):
    """Records a program. Gives its archive, or None with the outcome."""
    folder = session.folder("cpu-programs", name)
    env = session.shim(folder, **ENVIRONMENT.get(name, {}))
    outcome = session.run(command, cwd=folder, limit=90, env=env, log=f"{name}-record")
    found = archives(folder)
    return (found[0] if outcome.ok and len(found) == 1 else None), outcome


def verify(session, report, name, archive):
    """One row: every launch of an archive by what became of it on the CPU device. Gives the outcome of a failure."""
    outcome = session.run([session.replay, "verify", "--device", "cpu", "--json", archive], limit=100, log=f"{name}-cpu")
    try:
        launches = json.loads(outcome.stdout)["launches"]
    except (ValueError, KeyError):
        report.add("cpu-programs", name, False, outcome.why())
        return outcome
    counts = dict.fromkeys(("exact", "within", "cannot_run", "failed"), 0)
    for launch in launches:
        counts[KEYS.get(launch["outcome"], "failed")] += 1
    # 3: nothing is wrong, but some launches cannot run on this kind of device.
    good = bool(launches) and counts["failed"] == 0 and not outcome.timed_out and outcome.code in (0, 3)
    reasons = {}
    for launch in launches:
        if launch["outcome"] not in ("identical", "within"):
            reason = (launch.get("error") or launch["outcome"]).splitlines()[0].split(". ")[0]
            reason = re.sub(r"\bkernel [^ :;,]+", "the kernel", reason)
            reasons[reason] = reasons.get(reason, 0) + 1
    common = sorted(reasons.items(), key=lambda item: -item[1])[:2]
    note = "; ".join(f"{count} × {reason[:110]}" for reason, count in common)
    report.add("cpu-programs", name, good, note, launches=len(launches), **counts, s=round(outcome.seconds, 2))
    return None if good else outcome


def run(session, report):
    session.home()
    built, made = samples.build(session)
    if not made.ok:
        report.add("cpu-programs", "build", False, made.why())
        report.details(made)
    programs = {name: [built / name] for name in session.samples}
    python = shutil.which("python3")
    for name in [*SIDE_BY_SIDE, *ALONE]:
        programs[name] = [python, SAMPLES / "python" / f"{name}.py"]
    failures = []
    for name, command in programs.items():
        # What stage samples recorded in this run will do.
        *_, archive = getattr(session, "sample_results", {}).get(name) or (None,)
        if archive is None:
            archive, outcome = record(session, name, command)
            if archive is None:
                report.add("cpu-programs", name, False, f"not recorded: {outcome.why()}")
                failures.append(outcome)
                continue
        failures.append(verify(session, report, name, archive))
        shutil.rmtree(session.work / "cpu-programs" / name, ignore_errors=True)
    report.details(*failures)
    rows = [row for row in report.rows if row["stage"] == "cpu-programs" and "launches" in row]
    sums = {key: sum(row[key] for row in rows) for key in ("launches", "exact", "within", "cannot_run", "failed")}
    report.add("cpu-programs", "all", None, f"{os.cpu_count()} cores", **sums)
    report.table("cpu-programs")
