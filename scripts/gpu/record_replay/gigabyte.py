"""Stage gigabyte: recording launches that reach 1 GiB of random floats."""

import json
import re

from .recording import verify
from .session import SOURCES, archives

MIB = 1024
BUDGET = 256  # MiB, R3_MEMORY; the default
ALLOWED = BUDGET + 256


def run(session, report):
    session.home()
    built, made = session.build(SOURCES, "measuring")
    program = built / "gigabyte"
    if not program.exists():
        report.add("gigabyte", "build", False, made.why())
        report.details(made)
        return

    def arm(name, launches, *more, shim=True):
        folder = session.folder("gigabyte", name)
        env = session.shim(folder, R3_KERNEL="^touch", R3_LAUNCHES="all", R3_MEMORY=f"{BUDGET}M", R3_BUDGET="16G") \
            if shim else session.environment()
        outcome = session.run([program, MIB, launches, *more], env=env, limit=60, peaks=True, log=f"gigabyte-{name}")
        if not outcome.ok:
            report.add("gigabyte", name, False, outcome.why())
            report.details(outcome)
            return None
        found = archives(folder)
        data = json.loads(outcome.stdout)
        peaks = outcome.peaks
        own = (peaks.get("RssAnon", 0) + peaks.get("RssShmem", 0)) / 1024
        row = {"wall_s": round(outcome.seconds, 3), "copy_ms": round(data["copy_ms"], 1),
               "launch_ms": "/".join(f"{value:.1f}" for value in data["launch_ms"]),
               "archive_MB": round(sum(path.stat().st_size for path in found) / 1e6, 1) if shim else "",
               "own_MiB": round(own), "file_MiB": round(peaks.get("RssFile", 0) / 1024),
               "total_MiB": round(peaks.get("VmHWM", 0) / 1024)}
        return outcome, data, found, own, row

    arms = {"bare": arm("bare", 2, shim=False), "one launch": arm("one launch", 1), "two launches": arm("two launches", 2),
            "two that rewrite": arm("two that rewrite", 2, "change"), "bare again": arm("bare again", 2, shim=False)}
    for name, result in arms.items():
        if result is not None:
            report.add("gigabyte", name, None, "", **result[4])
    report.table("gigabyte")
    bare, again, one, two = (arms[name] for name in ("bare", "bare again", "one launch", "two launches"))
    if not (bare and again and one and two):
        return
    stage = "gigabyte-sums"
    same = two[1]["checksum"] == bare[1]["checksum"]
    report.add(stage, "result unchanged", same, "")
    raw = MIB * (1 << 20)
    copy = bare[1]["copy_ms"]
    wall = min(bare[0].seconds, again[0].seconds)
    for name, result in (("one launch", one), ("two launches", two)):
        whole = (result[0].seconds - wall) * 1000
        blocked = sum(result[1]["launch_ms"]) - sum(bare[1]["launch_ms"][:len(result[1]["launch_ms"])])
        report.add(stage, f"time, {name}", None, f"plain pinned copy of the same bytes: {copy:.1f} ms",
                   launch_blocked_ms=round(blocked, 1), process_longer_ms=round(whole, 1),
                   ratio=round(whole / copy, 1))
    size_one, size_two = (sum(path.stat().st_size for path in result[2]) for result in (one, two))
    stored = size_one > raw // 4
    report.add(stage, "compression", stored, "" if stored else "the data is not in the archive",
               ratio=round(raw / max(1, size_one), 3), archive_MB=round(size_one / 1e6, 1))
    grown = size_two - size_one
    report.add(stage, "second launch on the same data", stored and grown <= size_one // 100, "at most 1 % more",
               added_KB=round(grown / 1e3, 1))
    used = max(one[3], two[3]) - bare[3]
    report.add(stage, "host memory", used <= ALLOWED, f"at most R3_MEMORY + 256 MiB = {ALLOWED} MiB above the bare process",
               added_MiB=round(used))
    if len(two[2]) == 1:
        ok, how, failing = verify(session, two[2][0], "gigabyte", noise=False, limit=60)
        report.add(stage, "verify", ok, how if ok else failing[-1].why())
        report.details(*failing)
    else:
        report.add(stage, "verify", False, f"{len(two[2])} archives")
    report.table(stage)
    for result in arms.values():
        for path in result[2] if result else []:
            path.unlink()
    for path in (session.work / "verify").rglob("*.r3"):
        if re.match(r"gigabyte", path.name):
            path.unlink()
