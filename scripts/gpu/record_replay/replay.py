"""Stage replay: the archives of capture-samples, which another process on another machine recorded, through every option of
r3-replay that needs a GPU."""

import json
import shutil

from . import samples
from .recording import verify
from .session import SAMPLES, Unavailable

ARCHIVES = SAMPLES / "archives"


def shipped(session, report):
    """Every archive as it was shipped, exactly or within noise."""
    archives = sorted(ARCHIVES.glob("*.r3"))
    if not archives:
        raise Unavailable(f"no archives in {ARCHIVES}")
    how = {}
    for archive in archives:
        noise = session.samples.get(archive.stem, {}).get("check") == "noise"
        ok, how[archive.stem], failing = verify(session, archive, f"shipped-{archive.stem}", noise)
        if not ok:
            report.add("replay", f"shipped {archive.stem}", False, how[archive.stem])
            report.details(*failing)
    exact = sum(one == "exact" for one in how.values())
    passed = sum(one != "failed" for one in how.values())
    report.add("replay", "archives recorded on another machine", passed == len(how), passed=f"{passed} of {len(how)}",
               exact=exact)


def commands(session, report):
    """Single commands that must succeed, and what some of them must say."""
    folder = session.folder("replay", "commands")
    wilson, nbody = ARCHIVES / "wilson.r3", ARCHIVES / "nbody.r3"
    replay = session.replay

    def check(name, command, says=None, code=0):
        outcome = session.run([str(part) for part in command], cwd=folder, limit=60, log=f"replay-{name.replace(' ', '-')}")
        said = outcome.stdout.decode(errors="replace") + outcome.stderr.decode(errors="replace")
        ok = outcome.code == code and (says is None or says(said))
        report.add("replay", name, ok, "" if ok else outcome.why(), s=round(outcome.seconds, 2))
        if not ok:
            report.details(outcome)

    check("PTX instead of machine code", [replay, "verify", nbody, "--code", "ptx", "--tolerance", "rel=1e-5,abs=1e-6"],
          lambda said: "PTX" in said)
    check("machine code only", [replay, "verify", nbody, "--code", "sass"])
    check("machine code that is not there", [replay, "verify", ARCHIVES / "nbody_ptx.r3", "--code", "sass"], code=2)
    check("PTX that is not there", [replay, "verify", ARCHIVES / "wilson_sass.r3", "--code", "ptx"], code=2)
    check("other addresses", [replay, "verify", ARCHIVES / "pointer_chase.r3", "--addr", "remap"])
    check("other addresses, globals", [replay, "verify", ARCHIVES / "global_pointers.r3", "--addr", "remap"])
    check("three times each", [replay, "verify", wilson, "--repeat", "3"])
    if shutil.which("setarch"):
        check("without address randomisation", ["setarch", "-R", replay, "verify", wilson])
    check("bench", [replay, "bench", wilson, "--runs", "50", "--json"], lambda said: json.loads(said) and "clock" in said)
    check("run and dump", [replay, "run", wilson, "--launch", "1", "--dump", folder / "dump"],
          lambda said: any((folder / "dump").iterdir()))
    check("trim", [replay, "trim", wilson, "--launch", "2", "--out", folder / "one.r3"])
    check("verify the trimmed archive", [replay, "verify", folder / "one.r3"])
    check("merge", [replay, "merge", wilson, nbody, "--out", folder / "both.r3"])
    check("verify the merged archive", [replay, "verify", folder / "both.r3"])
    built, _ = samples.build(session)
    check("capture", [replay, "capture", "--out", folder / "captured.r3", "--", built / "saxpy"],
          lambda said: (folder / "captured.r3").exists())
    check("verify what was captured", [replay, "verify", folder / "captured.r3"])


def run(session, report):
    session.home()
    shipped(session, report)
    commands(session, report)
    report.table("replay")
